//! Errors of decoding: what is wrong, and where (field path and byte offset).
//!
//! An error is a pointer to the heap, so that each `Result` stays small. While the error propagates to the caller, each
//! enclosing field adds its name to the path, the innermost field first.

use super::declaration::{camel_case, field_of_tag, split_field};
use std::fmt;

/// One step of the path from a message to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A field, by its declared name.
    Field(&'static str),
    /// An array element.
    Index(usize),
}

/// The reason why bytes or values are rejected.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// A fixed-size value needs more bytes than remain.
    Truncated {
        /// The number of bytes that the value needs.
        wanted: usize,
        /// The number of remaining bytes.
        left: usize,
    },
    /// A length or count exceeds the remaining bytes.
    Length {
        /// The length or count.
        length: i64,
        /// The number of remaining bytes.
        left: usize,
    },
    /// A length is negative and does not mean null.
    NegativeLength(i64),
    /// A value is null in a version that does not allow null.
    Null,
    /// A string is not UTF-8.
    NotUtf8,
    /// A variable-length integer is longer than its type.
    Varint,
    /// There are bytes after the end of the message. The value is their number.
    TrailingBytes(usize),
    /// Decoding would need more memory than a message of this size may use.
    Budget {
        /// The limit, in bytes.
        limit: usize,
    },
    /// A value is longer than Kafka's limit, which is 32,767 bytes for a string, even in flexible versions.
    TooLong {
        /// The number of bytes or elements.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A length is below the minimum of the structure.
    TooShort {
        /// The length.
        length: i64,
        /// The minimum.
        least: usize,
    },
    /// The API does not have this version.
    Version {
        /// The oldest version.
        min: i16,
        /// The newest version.
        max: i16,
    },
    /// A value has another type than the field, or is out of the field's range.
    Type {
        /// The type of the field.
        wanted: &'static str,
        /// The given value.
        got: String,
    },
    /// The message does not have a field with this name in this version.
    UnknownField {
        /// The given name.
        name: String,
        /// The most similar field name, if there is one.
        nearest: Option<String>,
    },
    /// The codec rejected the compressed data.
    Compression(String),
    /// The data may be valid, but the system has no memory for it.
    OutOfMemory(String),
    /// The data violates another rule of the format.
    Invalid(&'static str),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { wanted, left } => write!(f, "needs {wanted} bytes, {left} left"),
            Self::Length { length, left } => {
                write!(f, "length {length} exceeds the {left} bytes left")
            }
            Self::NegativeLength(length) => write!(f, "length {length} is negative"),
            Self::Null => f.write_str("is null, which this version does not allow"),
            Self::NotUtf8 => f.write_str("is not UTF-8"),
            Self::Varint => f.write_str("variable-length integer is longer than its type"),
            Self::TrailingBytes(n) => write!(f, "{n} bytes left over"),
            Self::Budget { limit } => write!(f, "would take more than {limit} bytes of memory"),
            Self::TooLong { length, limit } => write!(f, "length {length} exceeds the limit of {limit}"),
            Self::TooShort { length, least } => write!(f, "length {length} is less than the minimum, {least}"),
            Self::Version { min, max } => write!(f, "no such version, known are {min} to {max}"),
            Self::Type { wanted, got } => write!(f, "wants {wanted}, got {got}"),
            Self::UnknownField { name, nearest: Some(near) } => {
                write!(f, "has no field {name:?} in this version, did you mean {near:?}?")
            }
            Self::UnknownField { name, nearest: None } => write!(f, "has no field {name:?} in this version"),
            Self::Compression(why) | Self::OutOfMemory(why) => f.write_str(why),
            Self::Invalid(why) => f.write_str(why),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    reason: Reason,
    offset: usize,
    path: Vec<Step>,
    message: Option<(&'static str, &'static str, i16)>,
}

/// The error for rejected data.
#[derive(Clone, PartialEq)]
pub struct Error(Box<Inner>);

impl Error {
    /// Creates an error at a byte offset of the message.
    #[cold]
    #[inline(never)]
    pub fn new(reason: Reason, offset: usize) -> Self {
        Self(Box::new(Inner { reason, offset, path: Vec::new(), message: None }))
    }

    /// Adds one step to the front of the field path.
    #[cold]
    #[inline(never)]
    pub fn within(mut self, step: Step) -> Self {
        self.0.path.push(step);
        self
    }

    /// Adds a field to the front of the path.
    #[cold]
    #[inline(never)]
    pub fn in_field(self, name: &'static str) -> Self {
        self.within(Step::Field(name))
    }

    /// Adds the `n`th declared field of a struct to the front of the path.
    #[cold]
    #[inline(never)]
    pub fn in_one_of(self, declared: &'static str, n: usize) -> Self {
        self.in_field(declared.split(';').nth(n + 1).map_or("", |field| split_field(field).0))
    }

    /// Adds a tagged field of a struct to the front of the path, if the version has it.
    #[cold]
    #[inline(never)]
    pub(super) fn in_tag(self, declared: &'static str, tag: u32, version: i16) -> Self {
        match field_of_tag(declared, tag, version) {
            Some(name) => self.in_field(name),
            None => self,
        }
    }

    /// Shifts the offset by `by` bytes, for a structure that starts later in the message.
    pub(super) fn moved(mut self, by: usize) -> Self {
        self.0.offset += by;
        self
    }

    /// Returns the error for a null field in a version that does not allow null. `offset` is the start of the field.
    #[cold]
    #[inline(never)]
    pub fn null(field: &'static str, offset: usize) -> Self {
        Self::new(Reason::Null, offset).in_field(field)
    }

    /// Adds the name of the message: API, type and version.
    #[cold]
    pub fn of(mut self, api: &'static str, kind: &'static str, version: i16) -> Self {
        self.0.message = Some((api, kind, version));
        self
    }

    /// Returns the reason.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// Returns the byte offset from the start of the message.
    pub fn offset(&self) -> usize {
        self.0.offset
    }

    /// Returns the field path, such as `topics[3].partitions[0].records`. The path is empty for the message itself.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in self.0.path.iter().rev() {
            match step {
                Step::Field(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&camel_case(name));
                }
                Step::Index(i) => path.push_str(&format!("[{i}]")),
            }
        }
        path
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((api, kind, version)) = self.0.message {
            write!(f, "{api} {kind} v{version}: ")?;
        }
        let path = self.path();
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        match &self.0.reason {
            // A value that was to be written has no offset.
            reason @ (Reason::Type { .. } | Reason::UnknownField { .. }) => write!(f, "{reason}"),
            reason => write!(f, "{reason} (at byte {})", self.0.offset),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
