//! Messages as values with named fields, for tools, tests and `klamm.protocol`. Field names are spelled as in Kafka's
//! schemas (`throttleTimeMs`). A [`Value`] omits the fields that the version does not have, and tagged fields that have
//! their default value.

use super::Uuid;
use bytes::Bytes;
use std::sync::Arc;

/// A message or a part of it, without its Rust type.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// Any integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A string.
    String(String),
    /// Bytes or records.
    Bytes(Bytes),
    /// The ID of a topic or a directory.
    Uuid(Uuid),
    /// An array.
    List(Vec<Value>),
    /// Fields by name, in the order of their declaration. All structs of a message share the memory of the names.
    Struct(Vec<(Arc<str>, Value)>),
    /// A description of an object from the application that no field can contain. Encoding fails and reports the path
    /// of this value.
    Unencodable(String),
}

impl Value {
    /// Returns a description of the value's type for messages.
    pub fn kind(&self) -> &str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a float",
            Self::String(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::Uuid(_) => "a uuid",
            Self::List(_) => "a list",
            Self::Struct(_) => "a struct",
            Self::Unencodable(what) => what,
        }
    }
}
