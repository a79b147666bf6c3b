//! Decodes Avro values to Python objects.

use super::{AvroSchema, schema_error};
use crate::py::bytes_like::BytesLike;
use crate::typed::decode::Sink;
use crate::typed::decode::avro::decode;
use crate::typed::fault::{Fault, Result};
use crate::typed::resolve::{Branch, NameId, Plan};
use crate::typed::schema::avro::Unit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PyString};
use std::sync::Arc;

/// Decodes values of a writer's schema, resolved to a reader's schema.
#[pyclass(frozen, module = "klamm._klamm")]
pub(crate) struct AvroReader {
    plan: Arc<Plan>,
    /// The names of the plan, as interned strings.
    names: Vec<Py<PyString>>,
    /// Makes the value of a record in a union, from the record's full name and its dict.
    named: Option<Py<PyAny>>,
    /// Whether `named` makes the values of unions with one record too.
    is_always_named: bool,
    has_positions: bool,
}

#[pymethods]
impl AvroReader {
    /// Resolves the schemas. `named` makes the value of a record in a union from the record's full name and its dict.
    /// Unless `is_always_named`, it does so only for unions of several types that are not null. With `has_positions`, a value
    /// of a union is a tuple of the position of its branch among those that are not null, and the value.
    #[new]
    #[pyo3(signature = (writer, reader=None, named=None, is_always_named=false, has_positions=false))]
    fn new(
        py: Python<'_>,
        writer: &AvroSchema,
        reader: Option<&AvroSchema>,
        named: Option<Py<PyAny>>,
        is_always_named: bool,
        has_positions: bool,
    ) -> PyResult<Self> {
        let target = reader.unwrap_or(writer);
        let plan =
            py.detach(|| Plan::new(&writer.schema, &target.schema)).map_err(|fault| schema_error(py, &fault, None))?;
        if let Some(mut fault) = plan.failure() {
            fault.message = format!("the value cannot be resolved to the reader schema: {}", fault.message);
            let hint = "add a default to new fields, and an alias to renamed ones";
            return Err(schema_error(py, &fault, Some(hint)));
        }
        let names = plan.names().iter().map(|name| PyString::intern(py, name).unbind()).collect();
        Ok(Self { plan: Arc::new(plan), names, named, is_always_named, has_positions })
    }

    /// The path of the first field of the writer that the reader does not have, or None.
    #[getter]
    fn skipped(&self) -> Option<String> {
        self.plan.skipped()
    }

    /// Decodes the value that starts at a position.
    fn read<'py>(&self, data: &Bound<'py, PyAny>, start: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = data.py();
        let bytes = BytesLike::optional("data", Some(data))?;
        let bytes = bytes.as_ref().map(BytesLike::as_bytes).and_then(|bytes| bytes.get(start..)).unwrap_or_default();
        let types = Types::get(py)?;
        let mut objects = Objects { py, types, names: &self.names, reader: self };
        decode(&self.plan, bytes, &mut objects).map_err(|mut fault| {
            fault.message = format!("the value does not fit its schema: {}", fault.message);
            schema_error(py, &fault, None)
        })
    }
}

impl AvroReader {
    /// Returns the plan.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.plan.clone()
    }
}

/// Python's classes for logical types.
pub(super) struct Types {
    pub(super) date: Py<PyAny>,
    pub(super) datetime: Py<PyAny>,
    pub(super) time: Py<PyAny>,
    pub(super) utc: Py<PyAny>,
    pub(super) decimal: Py<PyAny>,
    /// The first moment of 1970 in UTC, and without a time zone.
    pub(super) epoch: Py<PyAny>,
    pub(super) local_epoch: Py<PyAny>,
    pub(super) uuid: Py<PyAny>,
}

impl Types {
    pub(super) fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static TYPES: PyOnceLock<Types> = PyOnceLock::new();
        TYPES.get_or_try_init(py, || {
            let datetime = py.import("datetime")?;
            let (class, utc) = (datetime.getattr("datetime")?, datetime.getattr("timezone")?.getattr("utc")?);
            Ok(Self {
                epoch: class.call1((1970, 1, 1, 0, 0, 0, 0, &utc))?.unbind(),
                local_epoch: class.call1((1970, 1, 1))?.unbind(),
                date: datetime.getattr("date")?.unbind(),
                datetime: class.unbind(),
                time: datetime.getattr("time")?.unbind(),
                utc: utc.unbind(),
                decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
                uuid: py.import("uuid")?.getattr("UUID")?.unbind(),
            })
        })
    }
}

/// The sink for Python objects.
struct Objects<'a, 'py> {
    py: Python<'py>,
    types: &'static Types,
    names: &'a [Py<PyString>],
    reader: &'a AvroReader,
}

impl<'py> Objects<'_, 'py> {
    fn name(&self, id: NameId) -> Result<&Bound<'py, PyString>> {
        let name = self.names.get(id.index()).ok_or_else(|| Fault::new("the name is unknown"))?;
        Ok(name.bind(self.py))
    }
}

impl<'py> Sink for Objects<'_, 'py> {
    type Value = Bound<'py, PyAny>;
    type List = Vec<Bound<'py, PyAny>>;
    type Map = Bound<'py, PyDict>;
    type Record = Bound<'py, PyDict>;

    fn null(&mut self) -> Result<Self::Value> {
        Ok(self.py.None().into_bound(self.py))
    }

    fn boolean(&mut self, value: bool) -> Result<Self::Value> {
        Ok(PyBool::new(self.py, value).to_owned().into_any())
    }

    #[inline]
    fn integer(&mut self, value: i64) -> Result<Self::Value> {
        match value.into_pyobject(self.py) {
            Ok(value) => Ok(value.into_any()),
            Err(never) => match never {},
        }
    }

    fn float(&mut self, value: f32) -> Result<Self::Value> {
        self.double(f64::from(value))
    }

    fn double(&mut self, value: f64) -> Result<Self::Value> {
        Ok(PyFloat::new(self.py, value).into_any())
    }

    fn bytes(&mut self, value: &[u8]) -> Result<Self::Value> {
        Ok(PyBytes::new(self.py, value).into_any())
    }

    #[inline]
    fn text(&mut self, value: &str) -> Result<Self::Value> {
        Ok(PyString::new(self.py, value).into_any())
    }

    fn symbol(&mut self, id: NameId, _: &str) -> Result<Self::Value> {
        Ok(self.name(id)?.clone().into_any())
    }

    fn decimal(&mut self, unscaled: &[u8], precision: u32, scale: i32) -> Result<Self::Value> {
        let class = self.types.decimal.bind(self.py);
        let digits = match narrow(unscaled) {
            Some(number) => number.to_string(),
            None => {
                let options = PyDict::new(self.py);
                options.set_item("signed", true).map_err(unexpected)?;
                let integer = self.py.get_type::<pyo3::types::PyInt>();
                let number =
                    integer.call_method("from_bytes", (PyBytes::new(self.py, unscaled), "big"), Some(&options));
                // A Decimal has no limit for the number of digits, unlike an int.
                let number = number.and_then(|number| class.call1((number,))).map_err(unexpected)?;
                let digits = number.to_string();
                if digits.trim_start_matches('-').len() > precision as usize {
                    return Err(Fault::new(format!("the decimal has more than {precision} digits")));
                }
                digits
            }
        };
        class.call1((format!("{digits}E{}", -i64::from(scale)),)).map_err(unexpected)
    }

    fn uuid(&mut self, value: u128) -> Result<Self::Value> {
        let none = || self.py.None();
        self.types.uuid.bind(self.py).call1((none(), none(), none(), none(), value)).map_err(unexpected)
    }

    fn date(&mut self, days: i32) -> Result<Self::Value> {
        let Some((year, month, day)) = civil(i64::from(days)) else {
            return Err(Fault::new(format!("the date {days} days after 1970 is outside the years 1 to 9999")));
        };
        self.types.date.bind(self.py).call1((year, month, day)).map_err(unexpected)
    }

    fn time(&mut self, value: i64, unit: Unit) -> Result<Self::Value> {
        let (hour, minute, second, micros) = clock(value, unit);
        self.types.time.bind(self.py).call1((hour, minute, second, micros)).map_err(unexpected)
    }

    fn timestamp(&mut self, value: i64, unit: Unit, is_local: bool) -> Result<Self::Value> {
        let per_day = 86_400 * unit.per_second();
        let Some((year, month, day)) = civil(value.div_euclid(per_day)) else {
            let unit = match unit {
                Unit::Millis => "milliseconds",
                Unit::Micros => "microseconds",
                Unit::Nanos => "nanoseconds",
            };
            return Err(Fault::new(format!("the time {value} {unit} after 1970 is outside the years 1 to 9999")));
        };
        let (hour, minute, second, micros) = clock(value.rem_euclid(per_day), unit);
        let class = self.types.datetime.bind(self.py);
        match is_local {
            true => class.call1((year, month, day, hour, minute, second, micros)),
            false => class.call1((year, month, day, hour, minute, second, micros, self.types.utc.bind(self.py))),
        }
        .map_err(unexpected)
    }

    fn list(&mut self) -> Result<Self::List> {
        Ok(Vec::new())
    }

    fn item(&mut self, list: &mut Self::List, read: impl FnOnce(&mut Self) -> Result<Self::Value>) -> Result<()> {
        list.push(read(self)?);
        Ok(())
    }

    fn end_list(&mut self, list: Self::List) -> Result<Self::Value> {
        Ok(PyList::new(self.py, list).map_err(unexpected)?.into_any())
    }

    fn map(&mut self) -> Result<Self::Map> {
        Ok(PyDict::new(self.py))
    }

    fn entry(
        &mut self,
        map: &mut Self::Map,
        key: &str,
        read: impl FnOnce(&mut Self) -> Result<Self::Value>,
    ) -> Result<()> {
        let value = read(self)?;
        map.set_item(key, value).map_err(unexpected)
    }

    fn end_map(&mut self, map: Self::Map) -> Result<Self::Value> {
        Ok(map.into_any())
    }

    #[inline]
    fn record(&mut self) -> Result<Self::Record> {
        Ok(PyDict::new(self.py))
    }

    #[inline]
    fn field(
        &mut self,
        record: &mut Self::Record,
        _: usize,
        name: NameId,
        read: impl FnOnce(&mut Self) -> Result<Self::Value>,
    ) -> Result<()> {
        let value = read(self)?;
        record.set_item(self.name(name)?, value).map_err(unexpected)
    }

    fn end_record(&mut self, record: Self::Record) -> Result<Self::Value> {
        Ok(record.into_any())
    }

    fn branch(&mut self, branch: &Branch, read: impl FnOnce(&mut Self) -> Result<Self::Value>) -> Result<Self::Value> {
        let value = read(self)?;
        if self.reader.has_positions {
            return (branch.at, value).into_pyobject(self.py).map(Bound::into_any).map_err(unexpected);
        }
        match (branch.record, &self.reader.named) {
            (Some(name), Some(named)) if branch.of > 1 || self.reader.is_always_named => {
                named.bind(self.py).call1((self.name(name)?, value)).map_err(unexpected)
            }
            _ => Ok(value),
        }
    }
}

/// Returns the error for a Python exception that the decoder does not expect, such as one for missing memory.
#[cold]
fn unexpected(error: PyErr) -> Box<Fault> {
    Fault::new(error.to_string())
}

/// Returns a big-endian number if it has at most 16 bytes.
fn narrow(bytes: &[u8]) -> Option<i128> {
    let filler = if bytes.first().is_some_and(|first| *first >= 0x80) { 0xff } else { 0 };
    let mut wide = [filler; 16];
    wide.get_mut(16usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

/// Returns year, month and day of a number of days since 1970, if the year is between 1 and 9999.
fn civil(days: i64) -> Option<(i32, u8, u8)> {
    if !(FIRST_DAY..=LAST_DAY).contains(&days) {
        return None;
    }
    // Years start in March here, so that the day of a leap year is the last one. An era has 400 years.
    let days = (days + 719_468) as u32; // at least 306 because of FIRST_DAY
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u32::from(month <= 2);
    Some((year as i32, month as u8, day as u8)) // in range because of the limits above
}

/// Returns hour, minute, second and microsecond of a time of day. Drops digits below a microsecond.
fn clock(value: i64, unit: Unit) -> (i64, i64, i64, i64) {
    let per_second = unit.per_second();
    let (seconds, rest) = (value / per_second, value % per_second);
    let micros = match unit {
        Unit::Millis => rest * 1_000,
        Unit::Micros => rest,
        Unit::Nanos => rest / 1_000,
    };
    (seconds / 3_600, seconds / 60 % 60, seconds % 60, micros)
}

/// The first day of the year 1 and the last day of the year 9999, in days since 1970.
const FIRST_DAY: i64 = -719_162;
const LAST_DAY: i64 = 2_932_896;
