//! Decoders of values, one for each format, and the trait that receives the values.

pub mod avro;
mod json_text;

use super::fault::Result;
use super::resolve::{Branch, NameId};
use super::schema::avro::Unit;
use super::text::uuid;

/// Receives the values of a decoder. A sink for columns appends values; a sink for objects returns them.
pub trait Sink: Sized {
    /// A value, as a part of another value.
    type Value;
    /// An array that is not complete.
    type List;
    /// A map that is not complete.
    type Map;
    /// A record that is not complete.
    type Record;

    /// How many items without bytes, such as nulls, a value can have in addition to one for each of its bytes.
    const EMPTY_ITEMS: usize = usize::MAX;

    /// Returns the maximum length of the next value in bytes, if the next value is a record and the sink takes JSON text
    /// instead of its fields. Otherwise returns `None`.
    #[inline]
    fn text_limit(&self) -> Option<usize> {
        None
    }
    /// Receives a record as JSON text in UTF-8.
    fn json(&mut self, text: &[u8]) -> Result<Self::Value> {
        self.bytes(text)
    }
    /// Receives a null.
    fn null(&mut self) -> Result<Self::Value>;
    /// Receives a boolean.
    fn boolean(&mut self, value: bool) -> Result<Self::Value>;
    /// Receives an integer.
    fn integer(&mut self, value: i64) -> Result<Self::Value>;
    /// Receives a float of 32 bits.
    fn float(&mut self, value: f32) -> Result<Self::Value>;
    /// Receives a float of 64 bits.
    fn double(&mut self, value: f64) -> Result<Self::Value>;
    /// Receives bytes.
    fn bytes(&mut self, value: &[u8]) -> Result<Self::Value>;
    /// Receives text.
    fn text(&mut self, value: &str) -> Result<Self::Value>;
    /// Receives a symbol of an enum.
    fn symbol(&mut self, id: NameId, value: &str) -> Result<Self::Value>;
    /// Receives a decimal as a big-endian number of at least one byte. `precision` is the maximum number of digits, which the
    /// decoder has compared for numbers of up to 16 bytes. `scale` is the number of digits after the point.
    fn decimal(&mut self, unscaled: &[u8], precision: u32, scale: i32) -> Result<Self::Value>;
    /// Receives a UUID.
    fn uuid(&mut self, value: u128) -> Result<Self::Value>;
    /// Receives the text of a UUID. Fails if the text is not a UUID.
    fn uuid_text(&mut self, text: &str) -> Result<Self::Value> {
        self.uuid(uuid(text)?)
    }
    /// Receives a number of days since 1970.
    fn date(&mut self, days: i32) -> Result<Self::Value>;
    /// Receives a time of day, which is within a day.
    fn time(&mut self, value: i64, unit: Unit) -> Result<Self::Value>;
    /// Receives a time since 1970.
    fn timestamp(&mut self, value: i64, unit: Unit, is_local: bool) -> Result<Self::Value>;
    /// Starts an array.
    fn list(&mut self) -> Result<Self::List>;
    /// Receives an item of an array.
    fn item(&mut self, list: &mut Self::List, read: impl FnOnce(&mut Self) -> Result<Self::Value>) -> Result<()>;
    /// Completes an array.
    fn end_list(&mut self, list: Self::List) -> Result<Self::Value>;
    /// Starts a map.
    fn map(&mut self) -> Result<Self::Map>;
    /// Receives an entry of a map.
    fn entry(
        &mut self,
        map: &mut Self::Map,
        key: &str,
        read: impl FnOnce(&mut Self) -> Result<Self::Value>,
    ) -> Result<()>;
    /// Completes a map.
    fn end_map(&mut self, map: Self::Map) -> Result<Self::Value>;
    /// Starts a record.
    fn record(&mut self) -> Result<Self::Record>;
    /// Receives a field of a record. `at` is the position of the field in the reader's schema.
    fn field(
        &mut self,
        record: &mut Self::Record,
        at: usize,
        name: NameId,
        read: impl FnOnce(&mut Self) -> Result<Self::Value>,
    ) -> Result<()>;
    /// Completes a record.
    fn end_record(&mut self, record: Self::Record) -> Result<Self::Value>;
    /// Receives a branch of a union.
    fn branch(&mut self, branch: &Branch, read: impl FnOnce(&mut Self) -> Result<Self::Value>) -> Result<Self::Value>;
}
