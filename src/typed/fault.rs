//! The error type for values that cannot be decoded or encoded. An error contains the path of the invalid field.

use std::fmt::{self, Write as _};

/// A part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Field(String),
    Index(usize),
    /// All items of an array, or all values of a map.
    Items,
    Key(String),
}

/// A value that does not fit its schema. Each field that contains the value adds its part to the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The description of the error.
    pub message: String,
    /// The parts of the path. The innermost part comes first.
    parts: Vec<Part>,
    /// Whether the value is correct, and the column has no room for it.
    pub(crate) is_too_large: bool,
}

/// The result of reading a value.
pub type Result<T> = std::result::Result<T, Box<Fault>>;

impl Fault {
    #[cold]
    pub(crate) fn new(message: impl Into<String>) -> Box<Self> {
        Box::new(Self { message: message.into(), parts: Vec::new(), is_too_large: false })
    }

    /// Creates the error for a value for which the column has no room.
    #[cold]
    pub(crate) fn too_large(message: impl Into<String>) -> Box<Self> {
        Box::new(Self { is_too_large: true, ..*Self::new(message) })
    }

    #[cold]
    pub(crate) fn in_field(mut self: Box<Self>, name: &str) -> Box<Self> {
        self.parts.push(Part::Field(name.to_owned()));
        self
    }

    #[cold]
    pub(crate) fn in_items(mut self: Box<Self>) -> Box<Self> {
        self.parts.push(Part::Items);
        self
    }

    #[cold]
    pub(crate) fn at_index(mut self: Box<Self>, index: usize) -> Box<Self> {
        self.parts.push(Part::Index(index));
        self
    }

    #[cold]
    pub(crate) fn at_key(mut self: Box<Self>, key: &[u8]) -> Box<Self> {
        self.parts.push(Part::Key(String::from_utf8_lossy(key).chars().take(LONGEST_KEY).collect()));
        self
    }

    /// Returns the path of the field, such as `lines[2].price`. The path is empty if the error concerns the whole
    /// value.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for part in self.parts.iter().rev() {
            match part {
                Part::Field(name) if path.is_empty() => path.push_str(name),
                // Writing to a String cannot fail.
                Part::Field(name) => _ = write!(path, ".{name}"),
                Part::Items => path.push_str("[]"),
                Part::Index(index) => _ = write!(path, "[{index}]"),
                Part::Key(key) => _ = write!(path, "[{key:?}]"),
            }
        }
        path
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path().as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{} (field {path})", self.message),
        }
    }
}

/// Maximum number of characters of a map key in a path.
const LONGEST_KEY: usize = 40;
