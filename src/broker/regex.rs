//! Regular expressions from clients: the syntax of RE2, without Unicode class names and `\Q…\E`.

use regex_lite::{Regex, RegexBuilder};

/// Memory limit of a compiled pattern, in bytes. Nested repetitions `{n}` need much memory.
const MAX_SIZE: usize = 256 << 10;

/// A pattern that must match a whole text, as in Kafka's brokers.
#[derive(Debug, Clone)]
pub(super) struct FullMatchRegex {
    text: String,
    regex: Regex,
}

impl FullMatchRegex {
    /// Parses a pattern. The error is a message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let build = |text: &str| RegexBuilder::new(text).size_limit(MAX_SIZE).build().map_err(|e| e.to_string());
        // Parsed on its own first: `a)|(b` is only valid within parentheses.
        build(text)?;
        Ok(Self { text: text.to_owned(), regex: build(&format!("^(?:{text})$"))? })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern matches all of `text`.
    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Returns the approximate maximum memory of the compiled pattern, in bytes.
    pub fn max_memory(&self) -> usize {
        self.text.len() + MAX_SIZE
    }
}

impl PartialEq for FullMatchRegex {
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
            assert_eq!(FullMatchRegex::parse(pattern).unwrap().matches(text), expected, "{pattern} {text}");
        }
        for pattern in
            ["[", "*", "(a", "a)|(b", "a{2,1}", "\\", r"(a)\1", "(?=a)", r"\p{L}", r"\Qa\E", "(((a{500}){500}){500})"]
        {
            assert!(FullMatchRegex::parse(pattern).is_err(), "{pattern}");
        }
        assert!(FullMatchRegex::parse(&"(".repeat(100_000)).is_err());
        assert!(
            FullMatchRegex::parse(&(0..100).map(|n| format!("topic-with-a-name-{n}")).collect::<Vec<_>>().join("|"))
                .is_ok()
        );
    }
}
