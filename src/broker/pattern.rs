//! The regular expressions that clients may send, as far as they are served: literal characters, those behind a
//! backslash included, `.`, `.*` and `.+`; `^` in front and `$` at the end say what holds anyway, since a pattern has
//! to match all of a text.

/// A part of a pattern: one character, any character, or any number of them.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    One(char),
    Any,
    Many,
}

/// See the top of this file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Part>);

/// Matching takes this many steps for each character of a text at most.
const MAX_PARTS: usize = 1000;

impl Pattern {
    /// Reads a pattern; `None` if it is not served.
    pub fn parse(pattern: &str) -> Option<Self> {
        let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
        let mut parts = Vec::new();
        let mut chars = pattern.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '.' => match chars.next_if(|next| matches!(next, '*' | '+')) {
                    Some('*') => parts.push(Part::Many),
                    Some(_) => parts.extend([Part::Any, Part::Many]),
                    None => parts.push(Part::Any),
                },
                // A letter or digit behind a backslash is a class of characters.
                '\\' => parts.push(Part::One(chars.next_if(|next| !next.is_alphanumeric())?)),
                '$' if chars.peek().is_none() => {}
                '[' | ']' | '(' | ')' | '{' | '}' | '*' | '+' | '?' | '|' | '^' | '$' => return None,
                c => parts.push(Part::One(c)),
            }
            if matches!(parts.last(), Some(Part::One(_))) && chars.peek().is_some_and(|c| matches!(c, '*' | '+' | '?'))
            {
                return None;
            }
        }
        (parts.len() <= MAX_PARTS).then_some(Self(parts))
    }

    /// Whether all of `text` is what the pattern says; `ends[n]` is whether its first `n` characters can be.
    pub fn matches(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().collect();
        let mut ends: Vec<bool> = (0..=chars.len()).map(|n| n == 0).collect();
        for part in &self.0 {
            let mut before = false;
            for (n, end) in ends.iter_mut().enumerate() {
                let here = *end;
                *end = match part {
                    Part::Many => here || n > 0 && before,
                    Part::Any => before,
                    Part::One(c) => before && n > 0 && chars.get(n - 1) == Some(c),
                };
                before = if matches!(part, Part::Many) { *end } else { here };
            }
        }
        ends.last().copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_the_whole_text() {
        for (pattern, text, expected) in [
            ("a.*", "abc", true),
            ("a.*", "a", true),
            ("a.+", "a", false),
            ("a.+", "ab", true),
            ("a", "ab", false),
            ("^a$", "a", true),
            (".b", "ab", true),
            (".*b", "aab", true),
            (".*b.*c", "abxc", true),
            (".*b.*c", "acxb", false),
            (r"a\.b", "a.b", true),
            (r"a\.b", "axb", false),
            ("", "", true),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(text), expected, "{pattern} {text}");
        }
        for pattern in ["[", "*", "a*", "a+", "a?", r"\d", "\\", "a$b", "(a)", "a|b"] {
            assert_eq!(Pattern::parse(pattern), None, "{pattern}");
        }
    }
}
