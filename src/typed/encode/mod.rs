//! Encoders of values, one for each format, and the trait from which they take the values.

pub mod avro;
pub mod number;

use super::fault::Result;
use number::Number;

/// A value that an encoder writes.
pub enum Value<'a, S> {
    /// A null.
    Null,
    /// A boolean.
    Boolean(bool),
    /// An integer of 64 bits.
    Integer(i64),
    /// A larger integer, or a decimal number.
    Number(Number),
    /// A float.
    Float(f64),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Text.
    Text(&'a str),
    /// A number of days since 1970.
    Date(i64),
    /// A time of day in microseconds.
    Time(i64),
    /// Microseconds since 1970, and whether the time has no time zone.
    DateTime(i64, bool),
    /// A UUID.
    Uuid(u128),
    /// Items.
    List,
    /// Fields, or keys and values.
    Map,
    /// The name of a branch of a union, and its value. Outside a union, these are two items.
    Named(String, S),
    /// A value of another type.
    Other,
}

/// A value to encode, such as a Python object.
pub trait Source: Sized {
    /// Classifies the value.
    fn value(&self) -> Result<Value<'_, Self>>;
    /// Returns the name of the value's type, for errors.
    fn type_name(&self) -> String;
    /// Returns the name of the record type, and whether the value itself names it, in contrast to its class.
    fn record_name(&self) -> Result<Option<(String, bool)>>;
    /// Returns a field of a record, by the position of the record's type and of the field in the schema.
    fn field(&self, record: usize, at: usize) -> Result<Option<Self>>;
    /// Calls a function with each key and value of a map.
    fn entries(&self, each: &mut dyn FnMut(&str, Self) -> Result<()>) -> Result<()>;
    /// Calls a function with each item of a list, after a function that takes the number of items.
    fn items(&self, count: &mut dyn FnMut(usize), each: &mut dyn FnMut(Self) -> Result<()>) -> Result<()>;
    /// Returns the number of keys of a map.
    fn entry_count(&self) -> usize;
}
