//! [`AvroSchema`], [`AvroReader`] and [`AvroWriter`]: Avro schemas, and the conversion of Avro values to and from Python
//! objects.

mod read;
mod write;

pub(super) use read::AvroReader;
pub(super) use write::AvroWriter;

use crate::typed::fault::Fault;
use crate::typed::resolve::Plan;
use crate::typed::schema::avro::{Kind, Logical, Schema};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::collections::HashSet;
use std::sync::Arc;

/// A parsed Avro schema.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct AvroSchema {
    schema: Arc<Schema>,
    /// Whether the schema has no references. Only these schemas have a canonical form.
    is_alone: bool,
}

#[pymethods]
impl AvroSchema {
    /// Parses a schema. Each of the referenced texts comes after the texts that it refers to.
    #[new]
    fn new(py: Python<'_>, text: &str, references: Vec<String>) -> PyResult<Self> {
        let texts: Vec<&str> = references.iter().map(String::as_str).collect();
        let schema = py.detach(|| Schema::parse(text, &texts)).map_err(|mut fault| {
            fault.message = format!("the Avro schema is invalid: {}", fault.message);
            schema_error(py, &fault, None)
        })?;
        Ok(Self { schema: Arc::new(schema), is_alone: references.is_empty() })
    }

    /// The full name of the record, enum or fixed type, or the name of the kind, such as "union".
    #[getter]
    fn name(&self) -> &str {
        self.schema.name(self.schema.root())
    }

    /// Whether a value is plain bytes, which Confluent's serializers write without a length.
    #[getter]
    fn is_bytes(&self) -> bool {
        let root = self.schema.node(self.schema.root());
        matches!(root.kind, Kind::Bytes) && root.logical.is_none()
    }

    /// The Parsing Canonical Form, or None for a schema with references.
    #[getter]
    fn canonical(&self) -> Option<String> {
        self.is_alone.then(|| self.schema.canonical())
    }

    /// The fingerprint CRC-64-AVRO, or no bytes for a schema with references.
    #[getter]
    fn fingerprint<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        match self.is_alone {
            true => PyBytes::new(py, &self.schema.fingerprint()),
            false => PyBytes::new(py, b""),
        }
    }

    /// Returns the schema with only some fields of its record, or None if it is neither a record nor a union of null and a
    /// record.
    fn chosen(&self, names: HashSet<String>) -> Option<Self> {
        let schema = self.schema.chosen(|name| names.contains(name))?;
        Some(Self { schema: Arc::new(schema), is_alone: false })
    }

    /// Returns why this schema cannot read all values of a writer's schema.
    fn incompatibilities(&self, py: Python<'_>, writer: &Self) -> PyResult<Vec<String>> {
        let found = py.detach(|| Plan::incompatibilities(&writer.schema, &self.schema));
        let found = found.map_err(|fault| schema_error(py, &fault, None))?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    /// The position of the schema's outermost type.
    #[getter]
    fn root(&self) -> usize {
        self.schema.root().index()
    }

    /// Returns a type as in JSON: a name, a list for a union, or a dict. The inner types are positions.
    fn node<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let id = self.schema.id(index).ok_or_else(|| PyIndexError::new_err(index))?;
        let node = self.schema.node(id);
        let object = PyDict::new(py);
        match &node.kind {
            Kind::Union { branches, .. } => {
                return Ok(PyList::new(py, branches.iter().map(|branch| branch.index()))?.into_any());
            }
            Kind::Array(item) => {
                object.set_item("type", "array")?;
                object.set_item("items", item.index())?;
            }
            Kind::Map(item) => {
                object.set_item("type", "map")?;
                object.set_item("values", item.index())?;
            }
            Kind::Fixed(name, size) => {
                object.set_item("type", "fixed")?;
                object.set_item("name", &*name.full)?;
                object.set_item("size", size)?;
            }
            Kind::Enum { name, symbols, .. } => {
                object.set_item("type", "enum")?;
                object.set_item("name", &*name.full)?;
                object.set_item("symbols", symbols.iter().map(|symbol| &**symbol).collect::<Vec<_>>())?;
            }
            Kind::Record { name, fields, .. } => {
                object.set_item("type", "record")?;
                object.set_item("name", &*name.full)?;
                let list = PyList::empty(py);
                for field in fields {
                    let entry = PyDict::new(py);
                    entry.set_item("name", &*field.name)?;
                    entry.set_item("type", field.node.index())?;
                    entry.set_item("has_default", field.default.is_some())?;
                    entry.set_item("default", field.default.as_deref().map(|default| PyBytes::new(py, default)))?;
                    list.append(entry)?;
                }
                object.set_item("fields", list)?;
            }
            other => object.set_item("type", other.name())?,
        }
        if let Some(logical) = node.logical {
            object.set_item("logicalType", logical.name())?;
            if let Logical::Decimal { precision, scale } = logical {
                object.set_item("precision", precision)?;
                object.set_item("scale", scale)?;
            }
        }
        Ok(object.into_any())
    }
}

/// Returns a `SchemaError` with the path of the field.
#[cold]
fn schema_error(py: Python<'_>, fault: &Fault, hint: Option<&str>) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let options = PyDict::new(py);
        options.set_item("path", fault.path())?;
        options.set_item("hint", hint)?;
        let class = py.import("klamm.registry.errors")?.getattr("SchemaError")?;
        Ok(PyErr::from_value(class.call((fault.message.as_str(),), Some(&options))?))
    };
    made().unwrap_or_else(|broken| broken)
}
