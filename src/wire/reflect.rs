//! Messages by name: between a typed message and its [`Value`], and what a message is made of.
//!
//! `message!` writes one function a struct, [`Struct::fields`], which shows each field together with its declaration;
//! everything here walks over that. A function for each direction and struct would be three times the code. Names are
//! those of Kafka's schemas (`throttleTimeMs`).

use super::{Error, Reason, Step, Uuid, Value, camel_case};
use bytes::Bytes;

/// A field as it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The declared name, `throttle_time_ms`.
    pub name: &'static str,
    /// The first version that has it.
    pub first: i16,
    /// The last version that has it.
    pub last: i16,
    /// The first version that allows null, if its type does.
    pub null_from: i16,
    /// The last version that allows null, if its type does.
    pub null_until: i16,
    /// The number of a tagged field.
    pub tag: Option<u32>,
}

impl Field {
    #[doc(hidden)]
    pub const fn new(name: &'static str) -> Self {
        Self { name, first: 0, last: i16::MAX, null_from: 0, null_until: i16::MAX, tag: None }
    }
    #[doc(hidden)]
    pub const fn within(self, first: i16, last: i16) -> Self {
        Self { first, last, ..self }
    }
    #[doc(hidden)]
    pub const fn null(self, null_from: i16, null_until: i16) -> Self {
        Self { null_from, null_until, ..self }
    }
    #[doc(hidden)]
    pub const fn tag(self, tag: u32) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// Whether a version has it.
    pub fn is_in(&self, version: i16) -> bool {
        (self.first..=self.last).contains(&version)
    }
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A boolean.
    Bool,
    /// An 8-bit integer.
    Int8,
    /// A 16-bit integer.
    Int16,
    /// An unsigned 16-bit integer.
    Uint16,
    /// A 32-bit integer.
    Int32,
    /// An unsigned 32-bit integer.
    Uint32,
    /// A 64-bit integer.
    Int64,
    /// A floating-point number of 64 bits.
    Float64,
    /// Text.
    String,
    /// Bytes; records too.
    Bytes,
    /// 16 bytes.
    Uuid,
    /// Any number of the same.
    Array(Box<Type>),
    /// Null or something.
    Nullable(Box<Type>),
    /// Fields.
    Struct {
        /// The name klamm gives it.
        name: &'static str,
        /// The fields of all versions, in wire order, tagged ones by rising tag.
        fields: Vec<Described>,
    },
}

/// A field with its type and default.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// Name, versions and tag.
    pub field: Field,
    /// What it holds.
    pub holds: Type,
    /// What it holds unless something else is said; a struct has the defaults of its fields.
    pub default: Option<Value>,
}

/// What has a form by name.
pub trait Reflect {
    /// Takes the value out, with the fields `version` has; what is left behind means nothing.
    fn take_value(&mut self, version: i16) -> Value;
    /// Puts a value in; fields left out keep what they have.
    fn set_value(&mut self, value: Value, version: i16) -> Result<(), Error>;
    /// What it is made of. Takes defaults out, so ask a fresh one.
    fn describe(&mut self) -> Type;
}

/// What `message!` declares.
pub trait Struct {
    /// The declared name.
    fn name(&self) -> &'static str;
    /// Shows the fields of all versions in order: the declaration, whether it is tagged and holds its default, and it.
    fn fields(&mut self, see: &mut dyn FnMut(&'static Field, bool, &mut dyn Reflect));
}

impl<T: Struct> Reflect for T {
    fn take_value(&mut self, version: i16) -> Value {
        take_fields(self, version)
    }
    fn set_value(&mut self, value: Value, version: i16) -> Result<(), Error> {
        set_fields(self, value, version)
    }
    fn describe(&mut self) -> Type {
        describe_fields(self)
    }
}

fn take_fields(from: &mut dyn Struct, version: i16) -> Value {
    let mut fields = Vec::new();
    from.fields(&mut |field, is_default, slot| {
        if field.is_in(version) && !is_default {
            fields.push((camel_case(field.name), slot.take_value(version)));
        }
    });
    Value::Struct(fields)
}

fn set_fields(into: &mut dyn Struct, value: Value, version: i16) -> Result<(), Error> {
    let Value::Struct(mut given) = value else {
        return Err(type_error("a struct", &value));
    };
    let mut result = Ok(());
    into.fields(&mut |field, _, slot| {
        if result.is_ok() && field.is_in(version) {
            let name = camel_case(field.name);
            if let Some(at) = given.iter().position(|(given, _)| *given == name) {
                result = slot.set_value(given.remove(at).1, version).map_err(|e| e.within(Step::Field(field.name)));
            }
        }
    });
    result?;
    match given.into_iter().next() {
        None => Ok(()),
        Some((name, _)) => Err(unknown_field(name, into, version)),
    }
}

fn describe_fields(of: &mut dyn Struct) -> Type {
    let mut fields = Vec::new();
    of.fields(&mut |field, _, slot| {
        let holds = slot.describe();
        let default = (!matches!(holds, Type::Struct { .. })).then(|| slot.take_value(i16::MAX));
        fields.push(Described { field: *field, holds, default });
    });
    Type::Struct { name: of.name(), fields }
}

/// The error for a name that no field has in this version.
#[cold]
fn unknown_field(name: String, of: &mut dyn Struct, version: i16) -> Error {
    let mut nearest: Option<(usize, String)> = None;
    of.fields(&mut |field, _, _| {
        if field.is_in(version) {
            let known = camel_case(field.name);
            let found = (strsim::damerau_levenshtein(&known, &name), known);
            if nearest.as_ref().is_none_or(|nearest| found < *nearest) {
                nearest = Some(found);
            }
        }
    });
    let nearest = nearest.filter(|(distance, known)| *distance <= known.len() / 2).map(|(_, known)| known);
    Error::new(Reason::UnknownField { name, nearest }, 0)
}

/// The error for a value of another kind than a field holds.
#[cold]
fn type_error(wanted: &'static str, got: &Value) -> Error {
    Error::new(Reason::Type { wanted, got: got.kind().to_owned() }, 0)
}

macro_rules! integers {
    ($($t:ty: $type:ident $name:literal)*) => { $(
        impl Reflect for $t {
            fn take_value(&mut self, _: i16) -> Value {
                Value::Int(i64::from(*self))
            }
            fn set_value(&mut self, value: Value, _: i16) -> Result<(), Error> {
                let Value::Int(v) = value else {
                    return Err(type_error($name, &value));
                };
                *self = <$t>::try_from(v)
                    .map_err(|_| Error::new(Reason::Type { wanted: $name, got: v.to_string() }, 0))?;
                Ok(())
            }
            fn describe(&mut self) -> Type {
                Type::$type
            }
        }
    )* };
}
integers!(i8: Int8 "an 8-bit integer" u16: Uint16 "an unsigned 16-bit integer" i16: Int16 "a 16-bit integer"
    u32: Uint32 "an unsigned 32-bit integer" i32: Int32 "a 32-bit integer" i64: Int64 "a 64-bit integer");

impl Reflect for f64 {
    fn take_value(&mut self, _: i16) -> Value {
        Value::Float(*self)
    }
    fn set_value(&mut self, value: Value, _: i16) -> Result<(), Error> {
        *self = match value {
            Value::Float(v) => v,
            Value::Int(v) => v as f64,
            other => return Err(type_error("a float", &other)),
        };
        Ok(())
    }
    fn describe(&mut self) -> Type {
        Type::Float64
    }
}

macro_rules! simple {
    ($($t:ident $name:literal)*) => { $(
        impl Reflect for $t {
            fn take_value(&mut self, _: i16) -> Value {
                Value::$t(std::mem::take(self))
            }
            fn set_value(&mut self, value: Value, _: i16) -> Result<(), Error> {
                let Value::$t(v) = value else {
                    return Err(type_error($name, &value));
                };
                *self = v;
                Ok(())
            }
            fn describe(&mut self) -> Type {
                Type::$t
            }
        }
    )* };
}
simple!(String "a string" Bytes "bytes");

impl Reflect for bool {
    fn take_value(&mut self, _: i16) -> Value {
        Value::Bool(*self)
    }
    fn set_value(&mut self, value: Value, _: i16) -> Result<(), Error> {
        let Value::Bool(v) = value else {
            return Err(type_error("a boolean", &value));
        };
        *self = v;
        Ok(())
    }
    fn describe(&mut self) -> Type {
        Type::Bool
    }
}

impl Reflect for Uuid {
    fn take_value(&mut self, _: i16) -> Value {
        Value::Uuid(*self)
    }
    /// Takes the text form too, which is what languages without a type for it use.
    fn set_value(&mut self, value: Value, _: i16) -> Result<(), Error> {
        *self = match value {
            Value::Uuid(v) => v,
            Value::String(text) => text.parse().map_err(|_| {
                Error::new(Reason::Type { wanted: "a uuid of 22 characters", got: format!("{text:?}") }, 0)
            })?,
            other => return Err(type_error("a uuid", &other)),
        };
        Ok(())
    }
    fn describe(&mut self) -> Type {
        Type::Uuid
    }
}

impl<T: Reflect + Default> Reflect for Option<T> {
    fn take_value(&mut self, version: i16) -> Value {
        self.as_mut().map_or(Value::Null, |v| v.take_value(version))
    }
    fn set_value(&mut self, value: Value, version: i16) -> Result<(), Error> {
        *self = None;
        match value {
            Value::Null => Ok(()),
            value => self.insert(T::default()).set_value(value, version),
        }
    }
    fn describe(&mut self) -> Type {
        Type::Nullable(Box::new(T::default().describe()))
    }
}

impl<T: Reflect + Default> Reflect for Vec<T> {
    fn take_value(&mut self, version: i16) -> Value {
        Value::List(self.iter_mut().map(|v| v.take_value(version)).collect())
    }
    fn set_value(&mut self, value: Value, version: i16) -> Result<(), Error> {
        self.clear();
        set_items(value, &mut |item| {
            let mut slot = T::default();
            slot.set_value(item, version)?;
            self.push(slot);
            Ok(())
        })
    }
    fn describe(&mut self) -> Type {
        Type::Array(Box::new(T::default().describe()))
    }
}

fn set_items(value: Value, each: &mut dyn FnMut(Value) -> Result<(), Error>) -> Result<(), Error> {
    let Value::List(items) = value else {
        return Err(type_error("a list", &value));
    };
    for (i, item) in items.into_iter().enumerate() {
        each(item).map_err(|e| e.within(Step::Index(i)))?;
    }
    Ok(())
}
