//! Messages as values by name: what tools, tests and `klamm.protocol` see. Names are those of Kafka's schemas
//! (`throttleTimeMs`); fields a version lacks are absent, and so are tagged fields that hold their default.

use super::Uuid;
use bytes::Bytes;
use std::sync::Arc;

/// A message, or a part of one, without its Rust type.
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
    /// Text.
    String(String),
    /// Bytes or records.
    Bytes(Bytes),
    /// A topic or directory id.
    Uuid(Uuid),
    /// An array.
    List(Vec<Value>),
    /// Fields by name, in declaration order. All structs of a message share the names.
    Struct(Vec<(Arc<str>, Value)>),
    /// Something of a program's that no field holds, in words: refused where it stands, with the way to it.
    Foreign(String),
}

impl Value {
    /// What it is, in words.
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
            Self::Foreign(what) => what,
        }
    }
}
