//! What is wrong with a piece of wire data: where (field path and byte offset) and why.
//!
//! An error is one pointer, built out of line, so that the success path pays nothing for it. The path is
//! collected while the error travels up: the innermost field first.

use super::reflect::{field_of_tag, split_field};
use std::fmt;

/// One step from a message to the field that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A field, by its declared name.
    Field(&'static str),
    /// An array element.
    Index(usize),
}

/// Why bytes or values were refused.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// A fixed-size value needs more bytes than are left.
    Truncated {
        /// Bytes the value needs.
        wanted: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A length or count points past the end.
    Length {
        /// The length or count found.
        length: i64,
        /// Bytes that are left.
        left: usize,
    },
    /// A negative length that does not mean null.
    NegativeLength(i64),
    /// Null where this version allows none.
    Null,
    /// A string that is not UTF-8.
    NotUtf8,
    /// A variable-length integer longer than its type.
    Varint,
    /// Bytes left over after the message.
    TrailingBytes(usize),
    /// Decoding would take more memory than the limit for a message of this size.
    Budget {
        /// The limit, bytes.
        limit: usize,
    },
    /// A value longer than Kafka has them (a string: 32,767 bytes, in flexible versions too).
    TooLong {
        /// Bytes, or elements of a list.
        length: usize,
        /// The most there can be.
        limit: usize,
    },
    /// A length below that of the smallest thing that can be there.
    TooShort {
        /// The length found.
        length: i64,
        /// The least it can be.
        least: usize,
    },
    /// The API has no such version.
    Version {
        /// The oldest version.
        min: i16,
        /// The newest version.
        max: i16,
    },
    /// A value of another kind than the field holds, or out of its range.
    Type {
        /// What the field holds.
        wanted: &'static str,
        /// What was given.
        got: String,
    },
    /// A field name the message does not have in this version.
    UnknownField {
        /// The name given.
        name: String,
        /// The nearest name the message has, if any is near.
        nearest: Option<String>,
    },
    /// Compressed data that its codec refuses.
    Compression(String),
    /// Anything a format defines beyond lengths and types.
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
            Self::TooShort { length, least } => write!(f, "length {length} is less than the least, {least}"),
            Self::Version { min, max } => write!(f, "no such version, known are {min} to {max}"),
            Self::Type { wanted, got } => write!(f, "wants {wanted}, got {got}"),
            Self::UnknownField { name, nearest: Some(near) } => {
                write!(f, "has no field {name:?} in this version, did you mean {near:?}?")
            }
            Self::UnknownField { name, nearest: None } => write!(f, "has no field {name:?} in this version"),
            Self::Compression(why) => f.write_str(why),
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

/// Refused wire data.
#[derive(Clone, PartialEq)]
pub struct Error(Box<Inner>);

impl Error {
    /// An error at a byte offset of the message.
    #[cold]
    #[inline(never)]
    pub fn new(reason: Reason, offset: usize) -> Self {
        Self(Box::new(Inner { reason, offset, path: Vec::new(), message: None }))
    }

    /// The same error, one step further out.
    #[cold]
    #[inline(never)]
    pub fn within(mut self, step: Step) -> Self {
        self.0.path.push(step);
        self
    }

    /// The same error, one field further out.
    #[cold]
    #[inline(never)]
    pub fn in_field(self, name: &'static str) -> Self {
        self.within(Step::Field(name))
    }

    /// The same error, out of the nth field of a struct that is declared so.
    #[cold]
    #[inline(never)]
    pub fn in_one_of(self, declared: &'static str, n: usize) -> Self {
        self.in_field(declared.split(';').nth(n + 1).map_or("", |field| split_field(field).0))
    }

    /// The same error, out of a tagged field of a struct that is declared so; as it is if this version has no such field.
    #[cold]
    #[inline(never)]
    pub(super) fn in_tag(self, declared: &'static str, tag: u32, version: i16) -> Self {
        match field_of_tag(declared, tag, version) {
            Some(name) => self.in_field(name),
            None => self,
        }
    }

    /// The same error of something that turned out to begin `by` bytes further on.
    pub(super) fn moved(mut self, by: usize) -> Self {
        self.0.offset += by;
        self
    }

    /// A field that is null in a version that allows none; `offset` is where it starts.
    #[cold]
    #[inline(never)]
    pub fn null(field: &'static str, offset: usize) -> Self {
        Self::new(Reason::Null, offset).in_field(field)
    }

    /// The same error, in a named message: API, kind and version.
    #[cold]
    pub fn of(mut self, api: &'static str, kind: &'static str, version: i16) -> Self {
        self.0.message = Some((api, kind, version));
        self
    }

    /// Why.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// Where, in bytes from the start of the message.
    pub fn offset(&self) -> usize {
        self.0.offset
    }

    /// Where, as a field path such as `topics[3].partitions[0].records`; empty for the message itself.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in self.0.path.iter().rev() {
            match step {
                Step::Field(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&super::camel_case(name));
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
            // What was to be written has no place yet.
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
