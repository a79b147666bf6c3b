//! Encodes Python objects as Avro values.

use super::read::Types;
use super::{AvroSchema, schema_error};
use crate::typed::encode::avro::encode;
use crate::typed::encode::number::Number;
use crate::typed::encode::{Source, Value};
use crate::typed::fault::{Fault, Result};
use crate::typed::schema::avro::{Kind, Schema};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::sync::Arc;

/// Encodes values of a schema.
#[pyclass(frozen, module = "klamm._klamm")]
pub(crate) struct AvroWriter {
    schema: Arc<Schema>,
    is_strict: bool,
    /// For each type of the schema, the names of the fields.
    names: Vec<Vec<Py<PyString>>>,
    simplify: Py<PyAny>,
}

#[pymethods]
impl AvroWriter {
    /// Creates a writer. The function `simplify` gets a value of a type that the core does not know. It returns the name of
    /// the value's class, or None, and a plain value.
    #[new]
    fn new(py: Python<'_>, schema: &AvroSchema, simplify: Py<PyAny>, is_strict: bool) -> Self {
        let schema = schema.schema.clone();
        let names = schema.nodes().iter().map(|node| match &node.kind {
            Kind::Record { fields, .. } => {
                fields.iter().map(|field| PyString::intern(py, &field.name).unbind()).collect()
            }
            _ => Vec::new(),
        });
        Self { names: names.collect(), schema, is_strict, simplify }
    }

    /// Encodes a value.
    fn write<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let py = value.py();
        let context = Context { py, types: Types::get(py)?, names: &self.names, simplify: self.simplify.bind(py) };
        let mut out = Vec::new();
        let encoded = Object::new(&context, value.clone())
            .and_then(|object| encode(&self.schema, &object, self.is_strict, &mut out));
        match encoded {
            Ok(()) => Ok(PyBytes::new(py, &out)),
            Err(mut fault) => {
                fault.message = format!("the value does not fit the Avro schema: {}", fault.message);
                Err(schema_error(py, &fault, None))
            }
        }
    }
}

struct Context<'a, 'py> {
    py: Python<'py>,
    types: &'static Types,
    names: &'a [Vec<Py<PyString>>],
    simplify: &'a Bound<'py, PyAny>,
}

/// The type of an object, which is determined once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    None,
    Bool,
    Int,
    Float,
    Str,
    Bytes,
    Dict,
    List,
    Tuple,
    DateTime,
    Date,
    Time,
    Decimal,
    Uuid,
    Other,
}

struct Object<'a, 'py> {
    context: &'a Context<'a, 'py>,
    object: Bound<'py, PyAny>,
    kind: Type,
    /// The name of the class of a record, if its fields are in a dict.
    class: Option<String>,
    /// The name of the type before the object was simplified, for errors.
    original: Option<String>,
}

impl<'a, 'py> Object<'a, 'py> {
    fn new(context: &'a Context<'a, 'py>, object: Bound<'py, PyAny>) -> Result<Self> {
        let kind = type_of(context, &object)?;
        if kind != Type::Other {
            return Ok(Self { context, object, kind, class: None, original: None });
        }
        let original = object.get_type().name().map(|name| name.to_string()).ok();
        let simplified = context.simplify.call1((object,)).map_err(failed)?;
        let (class, object): (Option<String>, Bound<'py, PyAny>) = simplified.extract().map_err(failed)?;
        let kind = type_of(context, &object)?;
        Ok(Self { context, object, kind, class, original })
    }

    fn inner(&self, object: Bound<'py, PyAny>) -> Result<Self> {
        Self::new(self.context, object)
    }

    fn dict(&self) -> Result<&Bound<'py, PyDict>> {
        self.object.cast::<PyDict>().map_err(|_| Fault::new("the value is not a dict"))
    }

    fn attribute(&self, name: &Bound<'py, PyString>) -> Result<i64> {
        self.object.getattr(name).and_then(|value| value.extract()).map_err(failed)
    }

    /// Returns the microseconds since 1970, and whether the time has no time zone.
    fn datetime(&self) -> Result<(i64, bool)> {
        let (py, types) = (self.context.py, self.context.types);
        let is_local = self.object.getattr(intern!(py, "tzinfo")).map_err(failed)?.is_none();
        let epoch = if is_local { &types.local_epoch } else { &types.epoch };
        let since = self.object.sub(epoch.bind(py)).map_err(failed)?;
        let part = |name| since.getattr(name).and_then(|value| value.extract::<i64>()).map_err(failed);
        let days = part(intern!(py, "days"))?;
        let (seconds, micros) = (part(intern!(py, "seconds"))?, part(intern!(py, "microseconds"))?);
        Ok(((days * 86_400 + seconds) * 1_000_000 + micros, is_local))
    }
}

fn type_of(context: &Context<'_, '_>, object: &Bound<'_, PyAny>) -> Result<Type> {
    let (py, types) = (context.py, context.types);
    Ok(if object.is_exact_instance_of::<PyString>() {
        Type::Str
    } else if object.is_exact_instance_of::<PyInt>() {
        Type::Int
    } else if object.is_none() {
        Type::None
    } else if object.is_exact_instance_of::<PyFloat>() {
        Type::Float
    } else if object.is_exact_instance_of::<PyDict>() {
        Type::Dict
    } else if object.is_instance_of::<PyBool>() {
        Type::Bool
    } else if object.is_exact_instance_of::<PyList>() {
        Type::List
    } else if object.is_instance_of::<PyBytes>() {
        Type::Bytes
    } else if object.is_exact_instance_of::<PyTuple>() {
        Type::Tuple
    } else {
        // A datetime is a date too.
        let is = |class: &Py<PyAny>| object.is_instance(class.bind(py)).map_err(failed);
        if is(&types.datetime)? {
            Type::DateTime
        } else if is(&types.date)? {
            Type::Date
        } else if is(&types.decimal)? {
            Type::Decimal
        } else if is(&types.uuid)? {
            Type::Uuid
        } else if is(&types.time)? {
            Type::Time
        } else {
            Type::Other
        }
    })
}

impl Source for Object<'_, '_> {
    fn value(&self) -> Result<Value<'_, Self>> {
        let py = self.context.py;
        let text = || self.object.cast::<PyString>().map_err(|error| failed(error.into()));
        Ok(match self.kind {
            Type::None => Value::Null,
            Type::Bool => Value::Boolean(self.object.is_truthy().map_err(failed)?),
            Type::Int => match self.object.extract() {
                Ok(value) => Value::Integer(value),
                Err(_) => {
                    Value::Number(number(&self.context.types.decimal.bind(py).call1((&self.object,)).map_err(failed)?)?)
                }
            },
            Type::Float => Value::Float(self.object.extract().map_err(failed)?),
            Type::Str => Value::Text(text()?.to_str().map_err(failed)?),
            Type::Bytes => {
                Value::Bytes(self.object.cast::<PyBytes>().map_err(|error| failed(error.into()))?.as_bytes())
            }
            Type::Dict => Value::Map,
            Type::List => Value::List,
            Type::Tuple => {
                let tuple = self.object.cast::<PyTuple>().map_err(|error| failed(error.into()))?;
                match tuple.extract::<(Bound<'_, PyString>, Bound<'_, PyAny>)>() {
                    Ok((name, value)) => Value::Named(name.to_str().map_err(failed)?.to_owned(), self.inner(value)?),
                    Err(_) => Value::List,
                }
            }
            Type::DateTime => {
                let (micros, is_local) = self.datetime()?;
                Value::DateTime(micros, is_local)
            }
            Type::Date => {
                let ordinal = self.object.call_method0(intern!(py, "toordinal")).and_then(|days| days.extract::<i64>());
                Value::Date(ordinal.map_err(failed)? - EPOCH_ORDINAL)
            }
            Type::Time => {
                let seconds = self.attribute(intern!(py, "hour"))? * 3_600
                    + self.attribute(intern!(py, "minute"))? * 60
                    + self.attribute(intern!(py, "second"))?;
                Value::Time(seconds * 1_000_000 + self.attribute(intern!(py, "microsecond"))?)
            }
            Type::Decimal => Value::Number(number(&self.object)?),
            Type::Uuid => {
                Value::Uuid(self.object.getattr(intern!(py, "int")).and_then(|int| int.extract()).map_err(failed)?)
            }
            Type::Other => Value::Other,
        })
    }

    fn type_name(&self) -> String {
        match &self.original {
            Some(name) => name.clone(),
            None => self.object.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string()),
        }
    }

    fn record_name(&self) -> Result<Option<(String, bool)>> {
        if let Some(class) = &self.class {
            return Ok(Some((class.clone(), false)));
        }
        match self.dict()?.get_item(intern!(self.context.py, "-type")).map_err(failed)? {
            Some(name) => Ok(name.extract().ok().map(|name| (name, true))),
            None => Ok(None),
        }
    }

    fn field(&self, record: usize, at: usize) -> Result<Option<Self>> {
        let name = self.context.names.get(record).and_then(|names| names.get(at));
        let name = name.ok_or_else(|| Fault::new("the field is unknown"))?;
        match self.dict()?.get_item(name.bind(self.context.py)).map_err(failed)? {
            Some(value) => self.inner(value).map(Some),
            None => Ok(None),
        }
    }

    fn entries(&self, each: &mut dyn FnMut(&str, Self) -> Result<()>) -> Result<()> {
        for (key, value) in self.dict()? {
            let key = key.cast::<PyString>().map_err(|_| Fault::new("the keys of a map have to be strings"))?;
            each(key.to_str().map_err(failed)?, self.inner(value)?)?;
        }
        Ok(())
    }

    fn items(&self, count: &mut dyn FnMut(usize), each: &mut dyn FnMut(Self) -> Result<()>) -> Result<()> {
        match self.object.cast::<PyList>() {
            Ok(list) => {
                count(list.len());
                list.iter().try_for_each(|item| each(self.inner(item)?))
            }
            Err(_) => {
                let tuple = self.object.cast::<PyTuple>().map_err(|_| Fault::new("the value is not a list"))?;
                count(tuple.len());
                tuple.iter().try_for_each(|item| each(self.inner(item)?))
            }
        }
    }

    fn entry_count(&self) -> usize {
        self.object.len().unwrap_or_default()
    }
}

/// Converts a Decimal.
fn number(decimal: &Bound<'_, PyAny>) -> Result<Number> {
    let text = decimal.str().map_err(failed)?;
    let text = text.to_str().map_err(failed)?;
    Number::parse(text).ok_or_else(|| Fault::new(format!("the decimal is {text}")))
}

/// Returns the error for a Python exception, such as one for text with lone surrogates.
#[cold]
fn failed(error: PyErr) -> Box<Fault> {
    Fault::new(error.to_string())
}

/// Python's ordinal of the first day of 1970.
const EPOCH_ORDINAL: i64 = 719_163;
