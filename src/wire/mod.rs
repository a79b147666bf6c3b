//! Encodes and decodes the types of Kafka's protocol: cursors, variable-length integers, limits, errors, and the
//! `message!` grammar that declares every API once. The module `wire` depends on no API.
//!
//! The cursor knows the version of the message and whether that version is flexible. Before the cursor reads data, it
//! compares the length that the peer sent with the remaining bytes. It also limits the memory that a decoded message
//! can take. It drops and counts unknown tagged fields. A client need not keep these fields, because it never forwards
//! a message.

#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod declaration;
mod error;
#[macro_use]
mod message;
mod reader;
mod reflect;
#[allow(clippy::cast_possible_truncation, reason = "lengths are compared with their limit first")]
mod tags;
mod uuid;
mod value;
#[allow(clippy::cast_possible_truncation, reason = "low bits first is what the format is")]
pub mod varint;
#[allow(clippy::cast_possible_truncation, reason = "lengths are compared with their limit first")]
mod writer;

pub use declaration::{When, camel_case};
pub use error::{Error, Reason, Step};
pub use reader::{Reader, memory_limit, memory_limit_by_name};
pub use reflect::{
    Array, Field, FieldWalk, Grow, Nullable, Reflect, Shape, Struct, Type, ValueVisitor, describe, find_unwritable,
    set_value, take_value,
};
pub use tags::Tags;
pub use uuid::Uuid;
pub use value::Value;
pub use writer::Writer;

use bytes::Bytes;

/// A value with a wire format.
pub trait Wire {
    /// Appends the value.
    fn put(&self, w: &mut Writer);
    /// Reads a value into `self`, which contains its default. If the function returned the value, the code that moves
    /// each field out of the result would be larger than the rest of the decoder.
    fn read(&mut self, r: &mut Reader) -> Result<(), Error>;
    /// Reads a value.
    fn get(r: &mut Reader) -> Result<Self, Error>
    where
        Self: Sized + Default,
    {
        let mut value = Self::default();
        value.read(r).map(|()| value)
    }
    /// Reads an array of values of this type. Returns false for null.
    fn read_list(items: &mut Vec<Self>, r: &mut Reader) -> Result<bool, Error>
    where
        Self: Sized + Default,
    {
        let Some(n) = count(r)? else {
            return Ok(false);
        };
        read_items(&mut &mut *items, n, size_of::<Self>(), r).map(|()| true)
    }
}

macro_rules! fixed_size {
    ($inline:tt $($t:ty $({ $($more:tt)* })?)*) => { $(
        impl Wire for $t {
            #[inline $inline]
            fn put(&self, w: &mut Writer) {
                w.buf.extend_from_slice(&self.to_be_bytes());
            }
            #[inline(never)]
            fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
                *self = <$t>::from_be_bytes(r.array()?);
                Ok(())
            }
            $($($more)*)?
        }
    )* };
}
// Inlining the two most frequent types makes writing a quarter faster. Reading is as fast out of line.
fixed_size!((always) i32 {
    // Replicas and partitions arrive as lists of a few numbers, thousands of them in one response.
    fn read_list(items: &mut Vec<Self>, r: &mut Reader) -> Result<bool, Error> {
        read_numbers(items, r)
    }
} i64);
fixed_size!((never) i8 i16 u16 u32 f64);

impl Wire for bool {
    #[inline(never)]
    fn put(&self, w: &mut Writer) {
        w.buf.push(u8::from(*self));
    }
    #[inline(never)]
    fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
        *self = r.array()? != [0];
        Ok(())
    }
}

impl Wire for Uuid {
    #[inline(never)]
    fn put(&self, w: &mut Writer) {
        w.buf.extend_from_slice(&self.0);
    }
    #[inline(never)]
    fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
        self.0 = r.array()?;
        Ok(())
    }
}

// Strings, bytes and lengths stay out of line: all APIs call them everywhere, and inlining them grew the codec by
// half without a clear gain in speed.
impl Wire for Option<String> {
    #[inline(never)]
    fn put(&self, w: &mut Writer) {
        w.string_length(self.as_ref().map(String::len));
        if let Some(s) = self {
            w.buf.extend_from_slice(s.as_bytes());
        }
    }
    #[inline(never)]
    fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
        *self = r.string()?;
        Ok(())
    }
}

impl Wire for String {
    #[inline(never)]
    fn put(&self, w: &mut Writer) {
        w.string_length(Some(self.len()));
        w.buf.extend_from_slice(self.as_bytes());
    }
    #[inline(never)]
    fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
        let at = r.offset();
        *self = r.string()?.ok_or_else(|| Error::new(Reason::Null, at))?;
        Ok(())
    }
}

impl Wire for Option<Bytes> {
    #[inline(never)]
    fn put(&self, w: &mut Writer) {
        w.length(self.as_ref().map(Bytes::len));
        if let Some(b) = self {
            w.bytes(b);
        }
    }
    #[inline(never)]
    fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
        let at = r.offset();
        *self = match r.length()? {
            Some(n) => Some(r.take(n, at)?),
            None => None,
        };
        Ok(())
    }
}

impl Wire for Bytes {
    #[inline(never)]
    fn put(&self, w: &mut Writer) {
        w.length(Some(self.len()));
        w.bytes(self);
    }
    #[inline(never)]
    fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
        let at = r.offset();
        *self = Option::get(r)?.ok_or_else(|| Error::new(Reason::Null, at))?;
        Ok(())
    }
}

impl<T: Wire + Default> Wire for Option<Vec<T>> {
    fn put(&self, w: &mut Writer) {
        w.length(self.as_ref().map(Vec::len));
        for item in self.iter().flatten() {
            item.put(w);
        }
    }
    fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
        let mut items = Vec::new();
        let is_present = T::read_list(&mut items, r)?;
        *self = is_present.then_some(items);
        Ok(())
    }
}

impl<T: Wire + Default> Wire for Vec<T> {
    fn put(&self, w: &mut Writer) {
        w.length(Some(self.len()));
        for item in self {
            item.put(w);
        }
    }
    fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
        let at = r.offset();
        match T::read_list(self, r)? {
            true => Ok(()),
            false => Err(Error::new(Reason::Null, at)),
        }
    }
}

/// An array that grows while it is read. The trait hides the element type, so that one loop reads arrays of all types.
trait Items {
    fn reserve(&mut self, more: usize);
    fn read_one(&mut self, r: &mut Reader) -> Result<(), Error>;
}

// A reference, because the compiler then needs no drop function for the element.
impl<T: Wire + Default> Items for &mut Vec<T> {
    fn reserve(&mut self, more: usize) {
        self.reserve_exact(more);
    }
    fn read_one(&mut self, r: &mut Reader) -> Result<(), Error> {
        self.grow();
        self.last_mut().map_or(Ok(()), |item| item.read(r))
    }
}

/// Reads the number of elements of an array, or returns `None` for null.
#[inline(never)]
fn count(r: &mut Reader) -> Result<Option<usize>, Error> {
    let at = r.offset();
    let n = r.length()?;
    // Each element takes at least one byte.
    match n {
        Some(n) if n > r.remaining() => Err(Error::new(Reason::Length { length: n as i64, left: r.remaining() }, at)),
        n => Ok(n),
    }
}

/// How many bytes of memory to reserve for elements before they are read.
const AT_ONCE: usize = 4096;

/// Reads `n` elements of `size` bytes each.
#[inline(never)]
fn read_items(items: &mut dyn Items, n: usize, size: usize, r: &mut Reader) -> Result<(), Error> {
    let mut reserved = 0;
    for i in 0..n {
        if reserved == 0 {
            // Grown by hand: `push` alone would give a vector of one element room for four that the budget has not
            // paid. Twice the capacity is charged, because the old and the new buffer both exist while the elements
            // move.
            reserved = i.max(AT_ONCE / size.max(1)).clamp(1, n - i);
            r.spend(reserved.saturating_mul(2 * size))?;
            items.reserve(reserved);
        }
        reserved -= 1;
        items.read_one(r).map_err(|e| e.within(Step::Index(i)))?;
    }
    Ok(())
}

#[inline(never)]
fn read_numbers(items: &mut Vec<i32>, r: &mut Reader) -> Result<bool, Error> {
    let Some(n) = count(r)? else {
        return Ok(false);
    };
    let size = n.saturating_mul(size_of::<i32>());
    r.spend(size)?;
    match r.unread().get(..size) {
        Some(bytes) => {
            items.reserve_exact(n);
            items.extend(bytes.as_chunks().0.iter().map(|bytes| i32::from_be_bytes(*bytes)));
            r.skip(size);
            Ok(true)
        }
        // Reports which element is missing.
        None => read_items(&mut &mut *items, n, size_of::<i32>(), r).map(|()| true),
    }
}

/// One byte shows whether the struct is present. A negative byte means null.
impl<T: Struct + Wire + Default> Wire for Option<T> {
    fn put(&self, w: &mut Writer) {
        match self {
            Some(item) => {
                1i8.put(w);
                item.put(w);
            }
            None => (-1i8).put(w),
        }
    }
    fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
        *self = None;
        if i8::get(r)? < 0 { Ok(()) } else { self.insert(T::default()).read(r) }
    }
}
