//! The regular expressions that clients may send: what RE2 has and names of classes of Unicode do not need.

use regex_lite::{Regex, RegexBuilder};

/// What one pattern may take when it is made, bytes: `{n}` in one another grow fast.
const MAX_SIZE: usize = 256 << 10;

/// A pattern that has to match all of a text, as those that Kafka's brokers take.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Reads a pattern; the error is a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let build = |text: &str| RegexBuilder::new(text).size_limit(MAX_SIZE).build().map_err(|e| e.to_string());
        // By itself first: `a)|(b` is one only within parentheses.
        build(text)?;
        Ok(Self { text: text.to_owned(), regex: build(&format!("^(?:{text})$"))? })
    }

    /// As the client wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether all of `text` is what the pattern says.
    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// What keeping it takes at most, roughly.
    pub fn cost(&self) -> usize {
        self.text.len() + MAX_SIZE
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_the_whole_text() {
        for (pattern, text, expected) in [
            ("a.*", "abc", true),
            ("a.+", "a", false),
            ("a", "ab", false),
            ("a|ab", "ab", true),
            ("^a$", "a", true),
            (".b", "ab", true),
            (".*b.*c", "acxb", false),
            (r"a\.b", "axb", false),
            (r"logs-\d{4}", "logs-2026", true),
            ("logs-[a-c]+(-old)?", "logs-abc-old", true),
            ("logs-[^a-c]", "logs-b", false),
            ("(?i)Logs", "lOGS", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(text), expected, "{pattern} {text}");
        }
        for pattern in
            ["[", "*", "(a", "a)|(b", "a{2,1}", "\\", r"(a)\1", "(?=a)", r"\p{L}", r"\Qa\E", "(((a{500}){500}){500})"]
        {
            assert!(Pattern::parse(pattern).is_err(), "{pattern}");
        }
        assert!(Pattern::parse(&"(".repeat(100_000)).is_err());
        assert!(
            Pattern::parse(&(0..100).map(|n| format!("topic-with-a-name-{n}")).collect::<Vec<_>>().join("|")).is_ok()
        );
    }
}
