//! Bytes to values and back, without Kafka meaning: cursors, variable-length integers, limits, errors, and the
//! `message!` grammar in which every API is declared once.
//!
//! Rules: the version and whether it is flexible travel in the cursor; lengths from a peer are compared with what
//! is left before anything is read, and memory is charged to a budget; tagged fields nobody knows are dropped
//! and counted, because a client never forwards a message.

#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod error;
#[macro_use]
mod message;
mod reader;
mod reflect;
mod uuid;
mod value;
#[allow(clippy::cast_possible_truncation, reason = "low bits first is what the format is")]
pub mod varint;
#[allow(clippy::cast_possible_truncation, reason = "lengths are compared with their limit first")]
mod writer;

pub use error::{Error, Reason, Step};
pub use reader::{Reader, memory_limit};
pub use reflect::{Described, Field, Reflect, Struct, Type};
pub use uuid::Uuid;
pub use value::Value;
pub use writer::{Tags, Writer};

use bytes::Bytes;

/// A value with a Kafka wire form.
pub trait Wire: Sized {
    /// Appends the value.
    fn put(&self, w: &mut Writer);
    /// Takes a value off the front.
    fn get(r: &mut Reader) -> Result<Self, Error>;
}

/// `throttle_time_ms` as Kafka's schemas spell it: `throttleTimeMs`. Names that are Rust's own words come as `r#type`.
pub fn camel_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.trim_start_matches("r#").chars() {
        match c {
            '_' => upper = true,
            c if upper => {
                out.push(c.to_ascii_uppercase());
                upper = false;
            }
            c => out.push(c),
        }
    }
    out
}

macro_rules! fixed_size {
    ($($t:ty)*) => { $(
        impl Wire for $t {
            #[inline]
            fn put(&self, w: &mut Writer) {
                w.buf.extend_from_slice(&self.to_be_bytes());
            }
            #[inline]
            fn get(r: &mut Reader) -> Result<Self, Error> {
                Ok(<$t>::from_be_bytes(r.array()?))
            }
        }
    )* };
}
fixed_size!(u8 i8 u16 i16 u32 i32 i64 f64);

impl Wire for bool {
    fn put(&self, w: &mut Writer) {
        w.buf.push(u8::from(*self));
    }
    fn get(r: &mut Reader) -> Result<Self, Error> {
        Ok(u8::get(r)? != 0)
    }
}

impl Wire for Uuid {
    fn put(&self, w: &mut Writer) {
        w.buf.extend_from_slice(&self.0);
    }
    fn get(r: &mut Reader) -> Result<Self, Error> {
        r.array().map(Self)
    }
}

// Strings, bytes and lengths stay out of line: all APIs call them everywhere, and inlining them grew the codec by
// half without a clear gain in speed.
impl Wire for Option<String> {
    #[inline(never)]
    fn put(&self, w: &mut Writer) {
        w.length(self.as_ref().map(String::len), false);
        if let Some(s) = self {
            w.buf.extend_from_slice(s.as_bytes());
        }
    }
    #[inline(never)]
    fn get(r: &mut Reader) -> Result<Self, Error> {
        let at = r.offset();
        let Some(n) = r.length(false)? else {
            return Ok(None);
        };
        let bytes = r.take(n, at)?;
        let at = r.offset() - n;
        match std::str::from_utf8(&bytes) {
            Ok(s) => Ok(Some(s.to_owned())),
            Err(_) => Err(Error::new(Reason::NotUtf8, at)),
        }
    }
}

impl Wire for String {
    #[inline(never)]
    fn put(&self, w: &mut Writer) {
        w.length(Some(self.len()), false);
        w.buf.extend_from_slice(self.as_bytes());
    }
    #[inline(never)]
    fn get(r: &mut Reader) -> Result<Self, Error> {
        let at = r.offset();
        Option::get(r)?.ok_or_else(|| Error::new(Reason::Null, at))
    }
}

impl Wire for Option<Bytes> {
    #[inline(never)]
    fn put(&self, w: &mut Writer) {
        w.length(self.as_ref().map(Bytes::len), true);
        if let Some(b) = self {
            w.bytes(b);
        }
    }
    #[inline(never)]
    fn get(r: &mut Reader) -> Result<Self, Error> {
        let at = r.offset();
        match r.length(true)? {
            Some(n) => r.take(n, at).map(Some),
            None => Ok(None),
        }
    }
}

impl Wire for Bytes {
    #[inline(never)]
    fn put(&self, w: &mut Writer) {
        w.length(Some(self.len()), true);
        w.bytes(self);
    }
    #[inline(never)]
    fn get(r: &mut Reader) -> Result<Self, Error> {
        let at = r.offset();
        Option::get(r)?.ok_or_else(|| Error::new(Reason::Null, at))
    }
}

impl<T: Wire> Wire for Option<Vec<T>> {
    fn put(&self, w: &mut Writer) {
        w.length(self.as_ref().map(Vec::len), true);
        for item in self.iter().flatten() {
            item.put(w);
        }
    }
    fn get(r: &mut Reader) -> Result<Self, Error> {
        let at = r.offset();
        let Some(n) = r.length(true)? else {
            return Ok(None);
        };
        // Every element takes a byte at least.
        if n > r.left() {
            return Err(Error::new(Reason::Length { length: n as i64, left: r.left() }, at));
        }
        let mut items = Vec::new();
        for i in 0..n {
            if items.len() == items.capacity() {
                // Grown by hand: `push` alone would give a vector of one element room for four, unpaid. Twice the room,
                // because both the old and the new one are held while the elements move.
                let more = items.len().clamp(1, n - i);
                r.charge(more.saturating_mul(2 * size_of::<T>()))?;
                items.reserve_exact(more);
            }
            match T::get(r) {
                Ok(item) => items.push(item),
                Err(e) => return Err(e.within(Step::Index(i))),
            }
        }
        Ok(Some(items))
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, w: &mut Writer) {
        w.length(Some(self.len()), true);
        for item in self {
            item.put(w);
        }
    }
    fn get(r: &mut Reader) -> Result<Self, Error> {
        let at = r.offset();
        Option::get(r)?.ok_or_else(|| Error::new(Reason::Null, at))
    }
}

/// A byte says whether the struct is there: below zero for null.
impl<T: Struct + Wire> Wire for Option<T> {
    fn put(&self, w: &mut Writer) {
        match self {
            Some(item) => {
                1i8.put(w);
                item.put(w);
            }
            None => (-1i8).put(w),
        }
    }
    fn get(r: &mut Reader) -> Result<Self, Error> {
        if i8::get(r)? < 0 { Ok(None) } else { T::get(r).map(Some) }
    }
}
