//! Parses the text of a `message!` declaration, which has the names, versions and tags of fields. Readers, writers,
//! errors and reflection depend on this file, and this file depends on none of them.

/// The maximum length of a string, in bytes. Flexible versions could encode longer strings, but Kafka's own code
/// neither writes nor reads them.
pub(super) const LONGEST_STRING: usize = i16::MAX as usize;

/// The versions of a field, and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// The first version that has the field.
    pub first: i16,
    /// The last version that has the field.
    pub last: i16,
    /// The first version that allows null, if the type allows null.
    pub null_from: i16,
    /// The last version that allows null, if the type allows null.
    pub null_until: i16,
    /// The tag of a tagged field.
    pub tag: Option<u16>,
}

impl When {
    const ALWAYS: Self = Self { first: 0, last: i16::MAX, null_from: 0, null_until: i16::MAX, tag: None };

    /// Parses the brackets of a declaration: `0..=7`, `1.., null 2..` or `12.., tag 0`.
    pub(super) fn parse(declared: &str) -> Self {
        let mut when = Self::ALWAYS;
        // Most fields have no brackets, and decoding by name asks for each of them.
        if declared.is_empty() {
            return when;
        }
        for part in declared.split(',').map(str::trim) {
            if let Some(tag) = part.strip_prefix("tag ") {
                when.tag = tag.parse().ok();
            } else if let Some(versions) = part.strip_prefix("null ") {
                (when.null_from, when.null_until) = range(versions);
            } else {
                (when.first, when.last) = range(part);
            }
        }
        when
    }

    /// Returns whether a version has the field.
    pub fn has(&self, version: i16) -> bool {
        (self.first..=self.last).contains(&version)
    }

    /// Returns whether a version allows null, if the type allows null.
    pub fn has_null(&self, version: i16) -> bool {
        (self.null_from..=self.null_until).contains(&version)
    }
}

/// Returns the first and the last version of `3..` or `3..=5`.
fn range(versions: &str) -> (i16, i16) {
    let (first, last) = versions.split_once("..").unwrap_or(("", ""));
    let last = last.trim_start_matches('=').trim();
    (first.trim().parse().unwrap_or(0), last.parse().unwrap_or(i16::MAX))
}

/// Splits a declaration into the field's name and the text in brackets.
pub(super) fn split_field(declared: &'static str) -> (&'static str, &'static str) {
    let (name, when) = declared.split_once('[').unwrap_or((declared, ""));
    (name.trim_end(), when.trim_end_matches(']'))
}

/// Returns the name of the field with this tag that a struct has in a version.
pub(super) fn field_of_tag(declared: &'static str, tag: u32, version: i16) -> Option<&'static str> {
    let fields = declared.split(';').skip(1).map(split_field);
    let mut versions = fields.map(|(name, when)| (name, When::parse(when)));
    versions.find(|(_, when)| when.tag.map(u32::from) == Some(tag) && when.has(version)).map(|(name, _)| name)
}

/// Converts a name to the spelling of Kafka's schemas: `throttle_time_ms` becomes `throttleTimeMs`. Names that are Rust
/// keywords arrive as `r#type`.
pub fn camel_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.trim_start_matches("r#").chars() {
        match c {
            '_' => upper = true,
            c if upper => {
                out.push(c.to_ascii_uppercase());
                upper = false;
            }
            c => out.push(c),
        }
    }
    out
}
