//! Receives the values of Avro's decoder as values of a column. The reader's schema has determined the type of the column.

use super::column::{Column, Data};
use crate::typed::decode::Sink;
use crate::typed::fault::{Fault, Result};
use crate::typed::resolve::{Branch, NameId};
use crate::typed::schema::avro::Unit;
use crate::typed::text::{is_canonical_uuid, show_uuid, uuid};
use crate::typed::varint::put_long;
use arrow_buffer::i256;
use arrow_schema::DataType;

impl Sink for Column {
    type Value = ();
    type List = ();
    type Map = ();
    type Record = ();
    const EMPTY_ITEMS: usize = 1000;

    #[inline]
    fn text_limit(&self) -> Option<usize> {
        self.is_json.then(|| self.room())
    }

    fn json(&mut self, text: &[u8]) -> Result<()> {
        self.take_room(text.len())?;
        self.push_bytes(text)
    }

    #[inline]
    fn null(&mut self) -> Result<()> {
        self.push_null();
        Ok(())
    }

    #[inline]
    fn boolean(&mut self, value: bool) -> Result<()> {
        self.push_bool(value)
    }

    #[inline]
    fn integer(&mut self, value: i64) -> Result<()> {
        self.push_int(value)
    }

    #[inline]
    fn float(&mut self, value: f32) -> Result<()> {
        self.push_f32(value)
    }

    #[inline]
    fn double(&mut self, value: f64) -> Result<()> {
        self.push_f64(value)
    }

    #[inline]
    fn bytes(&mut self, value: &[u8]) -> Result<()> {
        self.push_bytes(value)
    }

    #[inline]
    fn text(&mut self, value: &str) -> Result<()> {
        self.push_text(value)
    }

    #[inline]
    fn symbol(&mut self, _: NameId, value: &str) -> Result<()> {
        self.push_text(value)
    }

    fn decimal(&mut self, unscaled: &[u8], precision: u32, scale: i32) -> Result<()> {
        match (&mut self.data, self.field.data_type()) {
            // The decoder has compared the number of digits.
            (Data::I128(values), DataType::Decimal128(most, own))
                if scale == i32::from(*own) && precision <= u32::from(*most) && unscaled.len() <= 16 =>
            {
                values.push(i128::from_be_bytes(extended(unscaled)));
                self.push_valid();
                return Ok(());
            }
            // Arrow has no type for a decimal of more than 76 digits, or with a scale for each value.
            (Data::Binary(_), _) if precision < u32::MAX => return self.push_bytes(unscaled),
            (Data::Binary(_), _) => {
                let mut bytes = Vec::with_capacity(unscaled.len() + 8);
                put_long(unscaled.len() as i64, &mut bytes);
                bytes.extend_from_slice(unscaled);
                put_long(i64::from(scale), &mut bytes);
                return self.push_bytes(&bytes);
            }
            (Data::Fixed { width, bytes }, _) => {
                let missing = width.checked_sub(unscaled.len()).ok_or_else(too_many_digits)?;
                bytes.extend(std::iter::repeat_n(filler(unscaled), missing));
                bytes.extend_from_slice(unscaled);
                self.push_valid();
                return Ok(());
            }
            _ => {}
        }
        if unscaled.len() > 32 {
            return Err(too_many_digits());
        }
        let scale = i8::try_from(scale).map_err(|_| too_many_digits())?;
        self.push_decimal(i256::from_be_bytes(extended(unscaled)), scale)
    }

    #[inline]
    fn uuid(&mut self, value: u128) -> Result<()> {
        self.push_bytes(&show_uuid(value))
    }

    fn uuid_text(&mut self, text: &str) -> Result<()> {
        if is_canonical_uuid(text) { self.push_text(text) } else { self.uuid(uuid(text)?) }
    }

    #[inline]
    fn date(&mut self, days: i32) -> Result<()> {
        self.push_int(i64::from(days))
    }

    #[inline]
    fn time(&mut self, value: i64, _: Unit) -> Result<()> {
        self.push_int(value)
    }

    #[inline]
    fn timestamp(&mut self, value: i64, _: Unit, _: bool) -> Result<()> {
        self.push_int(value)
    }

    #[inline]
    fn list(&mut self) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn item(&mut self, (): &mut (), read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let Data::List { items, .. } = &mut self.data else { return Err(self.unfit("an array")) };
        items.grow()?;
        read(items)
    }

    #[inline]
    fn end_list(&mut self, (): ()) -> Result<()> {
        let Data::List { offsets, items } = &mut self.data else { return Err(self.unfit("an array")) };
        offsets.push(items.end()?);
        self.push_valid();
        Ok(())
    }

    #[inline]
    fn map(&mut self) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn entry(&mut self, (): &mut (), key: &str, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let Data::Map { entries, .. } = &mut self.data else { return Err(self.unfit("a map")) };
        let Column { data: Data::Struct(children), nulls, .. } = entries.as_mut() else { return Err(no_column()) };
        let [keys, values] = children.as_mut_slice() else { return Err(no_column()) };
        keys.push_text(key)?;
        values.grow()?;
        read(values)?;
        nulls.append_non_null();
        Ok(())
    }

    #[inline]
    fn end_map(&mut self, (): ()) -> Result<()> {
        let Data::Map { offsets, entries } = &mut self.data else { return Err(self.unfit("a map")) };
        offsets.push(entries.end()?);
        self.push_valid();
        Ok(())
    }

    #[inline]
    fn record(&mut self) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn field(&mut self, (): &mut (), at: usize, _: NameId, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let Data::Struct(children) = &mut self.data else { return Err(self.unfit("a record")) };
        read(children.get_mut(at).ok_or_else(no_column)?)
    }

    #[inline]
    fn end_record(&mut self, (): ()) -> Result<()> {
        self.push_valid();
        Ok(())
    }

    #[inline]
    fn branch(&mut self, branch: &Branch, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if branch.of == 1 {
            return read(self);
        }
        let Data::Struct(children) = &mut self.data else { return Err(self.unfit("a branch of a union")) };
        read(children.get_mut(branch.at).ok_or_else(no_column)?)?;
        for (at, child) in children.iter_mut().enumerate() {
            if at != branch.at {
                child.push_null();
            }
        }
        self.push_valid();
        Ok(())
    }
}

/// Returns the byte that extends a big-endian number.
fn filler(number: &[u8]) -> u8 {
    if number.first().is_some_and(|first| *first >= 0x80) { 0xff } else { 0 }
}

/// Extends a big-endian number of at most `N` bytes.
#[inline]
fn extended<const N: usize>(number: &[u8]) -> [u8; N] {
    let mut wide = [filler(number); N];
    if let Some(end) = wide.len().checked_sub(number.len()).and_then(|start| wide.get_mut(start..)) {
        end.copy_from_slice(number);
    }
    wide
}

#[cold]
fn too_many_digits() -> Box<Fault> {
    Fault::new("the decimal number has more digits than its column")
}

/// Returns the error for a plan that does not belong to its column.
#[cold]
fn no_column() -> Box<Fault> {
    Fault::new("the plan does not fit the column")
}
