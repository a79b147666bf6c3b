//! Messages as values by name: what tools, tests and `klamm.protocol` see. Names are those of Kafka's schemas
//! (`throttleTimeMs`); fields a version lacks are absent, and so are tagged fields that hold their default.

use super::{Error, Reason, Step, Uuid, camel_case};
use bytes::Bytes;

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
    /// Fields by name, in declaration order.
    Struct(Vec<(String, Value)>),
}

impl Value {
    fn kind(&self) -> &'static str {
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
        }
    }

    /// The error for a name that is none of `known` (declared names).
    #[cold]
    pub fn unknown_field(name: String, known: &[&str]) -> Error {
        let nearest = known
            .iter()
            .map(|k| camel_case(k))
            .map(|k| (strsim::damerau_levenshtein(&k, &name), k))
            .min()
            .filter(|(distance, k)| *distance <= k.len() / 2)
            .map(|(_, k)| k);
        Error::new(Reason::UnknownField { name, nearest }, 0)
    }
}

/// The error for a value of another kind than a field holds.
#[cold]
pub fn type_error(wanted: &'static str, got: &Value) -> Error {
    Error::new(Reason::Type { wanted, got: got.kind().to_owned() }, 0)
}

/// Conversion between a typed message and its value by name.
pub trait Reflect: Sized {
    /// The value, with the fields `version` has.
    fn to_value(&self, version: i16) -> Value;
    /// The typed form; fields left out take their defaults.
    fn from_value(value: Value, version: i16) -> Result<Self, Error>;
}

macro_rules! integers {
    ($($t:ty: $name:literal)*) => { $(
        impl Reflect for $t {
            fn to_value(&self, _: i16) -> Value {
                Value::Int(i64::from(*self))
            }
            fn from_value(value: Value, _: i16) -> Result<Self, Error> {
                match value {
                    Value::Int(v) => <$t>::try_from(v)
                        .map_err(|_| Error::new(Reason::Type { wanted: $name, got: v.to_string() }, 0)),
                    other => Err(type_error($name, &other)),
                }
            }
        }
    )* };
}
integers!(u8: "an 8-bit integer" i8: "an 8-bit integer" u16: "an unsigned 16-bit integer" i16: "a 16-bit integer"
    u32: "an unsigned 32-bit integer" i32: "a 32-bit integer" i64: "a 64-bit integer");

impl Reflect for f64 {
    fn to_value(&self, _: i16) -> Value {
        Value::Float(*self)
    }
    fn from_value(value: Value, _: i16) -> Result<Self, Error> {
        match value {
            Value::Float(v) => Ok(v),
            Value::Int(v) => Ok(v as f64),
            other => Err(type_error("a float", &other)),
        }
    }
}

macro_rules! simple {
    ($($t:ty: $variant:ident $name:literal)*) => { $(
        impl Reflect for $t {
            fn to_value(&self, _: i16) -> Value {
                Value::$variant(self.clone())
            }
            fn from_value(value: Value, _: i16) -> Result<Self, Error> {
                match value {
                    Value::$variant(v) => Ok(v),
                    other => Err(type_error($name, &other)),
                }
            }
        }
    )* };
}
simple!(bool: Bool "a boolean" String: String "a string" Bytes: Bytes "bytes");

impl Reflect for Uuid {
    fn to_value(&self, _: i16) -> Value {
        Value::Uuid(*self)
    }
    /// Takes the text form too, which is what languages without a type for it use.
    fn from_value(value: Value, _: i16) -> Result<Self, Error> {
        match value {
            Value::Uuid(v) => Ok(v),
            Value::String(text) => text.parse().map_err(|_| {
                Error::new(Reason::Type { wanted: "a uuid of 22 characters", got: format!("{text:?}") }, 0)
            }),
            other => Err(type_error("a uuid", &other)),
        }
    }
}

impl<T: Reflect> Reflect for Option<T> {
    fn to_value(&self, version: i16) -> Value {
        self.as_ref().map_or(Value::Null, |v| v.to_value(version))
    }
    fn from_value(value: Value, version: i16) -> Result<Self, Error> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value, version).map(Some),
        }
    }
}

impl<T: Reflect> Reflect for Vec<T> {
    fn to_value(&self, version: i16) -> Value {
        Value::List(self.iter().map(|v| v.to_value(version)).collect())
    }
    fn from_value(value: Value, version: i16) -> Result<Self, Error> {
        let Value::List(items) = value else {
            return Err(type_error("a list", &value));
        };
        items
            .into_iter()
            .enumerate()
            .map(|(i, item)| T::from_value(item, version).map_err(|e| e.within(Step::Index(i))))
            .collect()
    }
}
