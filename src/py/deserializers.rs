//! Records for consumers with deserializers, which convert keys and values.
//!
//! Deserialized records have their own class, a subclass of [`Record`], so that records without deserializers have no
//! extra cost.

use super::error::deserialization;
use super::record::Record;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

/// The deserializers of one consumer. A call with a record returns the same record with deserialized key and value.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct Deserializers {
    key: Option<Py<PyAny>>,
    value: Option<Py<PyAny>>,
}

#[pymethods]
impl Deserializers {
    #[new]
    #[pyo3(signature = (key, value))]
    fn new(key: Option<Py<PyAny>>, value: Option<Py<PyAny>>) -> Self {
        Self { key, value }
    }

    #[pyo3(signature = (record, /))]
    fn __call__<'py>(slf: &Bound<'py, Self>, record: &Bound<'py, Record>) -> PyResult<Bound<'py, DeserializedRecord>> {
        deserialized(slf, record.get().clone())
    }

    fn __getnewargs__(&self, py: Python<'_>) -> (Option<Py<PyAny>>, Option<Py<PyAny>>) {
        let same = |f: &Option<Py<PyAny>>| f.as_ref().map(|f| f.clone_ref(py));
        (same(&self.key), same(&self.value))
    }
}

pub(super) fn deserialized<'py>(
    with: &Bound<'py, Deserializers>,
    record: Record,
) -> PyResult<Bound<'py, DeserializedRecord>> {
    let (key, value) = (PyOnceLock::new(), PyOnceLock::new());
    let on_top = DeserializedRecord { deserializers: with.clone().unbind(), key, value };
    Bound::new(with.py(), PyClassInitializer::from(record).add_subclass(on_top))
}

/// A record with deserialized key and value. Each deserializer runs once, when the program first reads the field.
// It has a free list of its own: the inherited one is that of plain records, which are smaller.
#[pyclass(frozen, extends = Record, freelist = 8, module = "klamm._klamm")]
pub(super) struct DeserializedRecord {
    deserializers: Py<Deserializers>,
    key: PyOnceLock<Py<PyAny>>,
    value: PyOnceLock<Py<PyAny>>,
}

#[pymethods]
impl DeserializedRecord {
    /// The result of the key deserializer, or None for a null key.
    #[getter]
    fn key<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, this, record) = (slf.py(), slf.get(), slf.as_super());
        let bytes = record.get().key(py)?;
        made(record, "key", bytes, this.deserializers.get().key.as_ref(), &this.key)
    }

    /// The result of the value deserializer, or None for a null value.
    #[getter]
    fn value<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, this, record) = (slf.py(), slf.get(), slf.as_super());
        let bytes = record.get().value(py)?;
        made(record, "value", bytes, this.deserializers.get().value.as_ref(), &this.value)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Py<Deserializers>, (Bound<'py, Record>,))> {
        let py = slf.py();
        Ok((slf.get().deserializers.clone_ref(py), (Bound::new(py, slf.as_super().get().clone())?,)))
    }
}

/// Runs a deserializer, if it has not run and the bytes are not null. An exception of the deserializer becomes the
/// cause of an exception with the record.
fn made<'py>(
    record: &Bound<'py, Record>,
    field: &str,
    bytes: Option<Bound<'py, PyBytes>>,
    deserializer: Option<&Py<PyAny>>,
    known: &PyOnceLock<Py<PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = record.py();
    let (Some(bytes), Some(deserializer)) = (&bytes, deserializer) else {
        return Ok(bytes.map(Bound::into_any));
    };
    let made = known.get_or_try_init(py, || {
        deserializer.call1(py, (bytes,)).map_err(|error| {
            if !error.is_instance_of::<PyException>(py) {
                return error;
            }
            Bound::new(py, record.get().clone())
                .map_or_else(|e| e, |plain| deserialization(field, plain.as_any(), error))
        })
    });
    made.map(|made| Some(made.bind(py).clone()))
}
