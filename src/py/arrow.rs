//! Exchanges Arrow data with Python through the PyCapsules of Arrow's C data interface. The exchange needs neither
//! copies nor pyarrow.
//!
//! A batch of records exports `__arrow_c_array__`. A producer imports objects with `__arrow_c_stream__` or
//! `__arrow_c_array__`. The conversion between records and columns is in `src/arrow`.

#![allow(unsafe_code)] // only this file takes the structs of Arrow's C interface out of capsules

use super::arguments;
use super::error::{argument, exception};
use super::record::RecordRange;
use crate::arrow::{
    Columns, ExportError, Input, Invalid, Layout, RecordBatch, Rows, is_known, is_pandas_index, to_batch,
};
use crate::client::Slice;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, ArrayRef, RecordBatchReader, StructArray, make_array};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};
use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// The stack level of the caller of `send_arrow`, for warnings. `run` calls `_send_all_rows`, which creates
/// `ArrowRows`.
const SEND_ARROW_CALLER: i32 = 4;

/// The selected columns of a record batch, in order.
#[pyclass(frozen, name = "ArrowColumns", module = "klamm._klamm")]
pub(super) struct ArrowColumns(pub(super) Columns);

impl ArrowColumns {
    pub(super) fn of(py: Python<'_>, names: Option<Vec<String>>) -> PyResult<Self> {
        Self::new(py, names, "klamm")
    }
}

#[pymethods]
impl ArrowColumns {
    #[new]
    #[pyo3(signature = (names=None, layout="klamm"))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::columns)] names: Option<Vec<String>>,
        layout: &str,
    ) -> PyResult<Self> {
        let Some(layout) = Layout::by_name(layout) else {
            return Err(exception(py, "ConfigError", &format!("column layout {layout:?} does not exist"), None));
        };
        Columns::new(layout, names.as_deref()).map(Self).map_err(|unknown| {
            let names: Vec<_> = Columns::names(layout).collect();
            let hint = format!("there are {}", names.join(", "));
            exception(py, "ConfigError", &format!("a record has no column {unknown:?}"), Some(&hint))
        })
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref()).map_err(|e| broken(py, &e.to_string()))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }
}

/// A record batch that any Arrow library can import, for example `pyarrow.record_batch(batch)`.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct ArrowBatch(RecordBatch);

impl ArrowBatch {
    /// Builds the columns with the interpreter released, because building takes most of the time of a read.
    pub(super) fn build(py: Python<'_>, columns: &Columns, ranges: &[RecordRange]) -> PyResult<Self> {
        let rows: Vec<Rows<'_>> = ranges.iter().map(|p| rows_of(&p.slice, p.records())).collect();
        let batch = py.detach(|| to_batch(columns, &rows));
        batch.map(Self).map_err(|error| {
            let class = if error == ExportError::TooLarge { "KafkaError" } else { "OutOfMemoryError" };
            exception(py, class, &error.to_string(), None)
        })
    }
}

pub(super) fn rows_of<'a>(slice: &'a Slice, records: &'a [crate::record::Record]) -> Rows<'a> {
    Rows {
        topic: &slice.topic,
        partition: slice.partition,
        timestamp_type: slice.timestamp_type,
        data: &slice.data,
        records,
    }
}

#[pymethods]
impl ArrowBatch {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The interface makes conversion to a requested schema optional.
        let _ = requested_schema;
        let rows = StructArray::from(self.0.clone()).into_data();
        let (array, _) = to_ffi(&rows).map_err(|e| broken(py, &e.to_string()))?;
        let schema = FFI_ArrowSchema::try_from(self.0.schema_ref().as_ref()).map_err(|e| broken(py, &e.to_string()))?;
        Ok((PyCapsule::new_with_value(py, schema, SCHEMA)?, PyCapsule::new_with_value(py, array, ARRAY)?))
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }
}

/// Rows of Arrow data that a producer sends: the stream, and the position in the stream.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct ArrowRows(pub(super) Mutex<RowCursor>);

pub(super) struct RowCursor {
    source: Box<dyn Iterator<Item = Result<RecordBatch, String>> + Send>,
    /// The current batch, and the index of the batch's first unsent row.
    pub(super) current: Option<(Input, usize)>,
    pub(super) sent: usize,
}

impl RowCursor {
    /// Sets `current` to a batch with unsent rows. Returns false at the end of the data.
    pub(super) fn fill(&mut self) -> Result<bool, Invalid> {
        while self.current.as_ref().is_none_or(|(input, next)| *next >= input.len()) {
            let Some(batch) = self.source.next() else { return Ok(false) };
            self.current = Some((Input::new(&batch?)?, 0));
        }
        Ok(true)
    }
}

#[pymethods]
impl ArrowRows {
    #[new]
    fn new(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = data.py();
        let source: Box<dyn Iterator<Item = Result<RecordBatch, String>> + Send> = if data
            .hasattr("__arrow_c_stream__")?
        {
            let reader = take_stream(&data.call_method0("__arrow_c_stream__")?)?;
            let columns = without_index(py, &reader.schema())?;
            let select =
                move |batch: RecordBatch| columns.as_ref().map_or_else(|| Ok(batch.clone()), |c| batch.project(c));
            Box::new(reader.map(move |batch| batch.and_then(&select).map_err(|e| e.to_string())))
        } else if data.hasattr("__arrow_c_array__")? {
            let batch = take_array(&data.call_method0("__arrow_c_array__")?)?;
            let batch = match without_index(py, batch.schema_ref())? {
                Some(columns) => batch.project(&columns).map_err(|e| argument(py, &e.to_string(), None))?,
                None => batch,
            };
            Box::new(std::iter::once(Ok(batch)))
        } else {
            let message = format!("data has to be Arrow data, not {}", data.get_type().name()?);
            let hint = "pass a table or record batch of pyarrow or polars, or another object with __arrow_c_stream__";
            return Err(argument(py, &message, Some(hint)));
        };
        Ok(Self(Mutex::new(RowCursor { source, current: None, sent: 0 })))
    }

    /// Number of rows sent so far.
    #[getter]
    fn sent(&self) -> usize {
        self.0.lock().map_or(0, |cursor| cursor.sent)
    }
}

/// Warns about pandas index columns, and returns the indices of all other columns. Returns `None` if the schema has no
/// pandas index columns.
///
/// The rows determine whether pandas exports the index as a column. An index column must therefore not cause an error.
/// klamm sends an index whose name is a field of a record.
fn without_index(py: Python<'_>, schema: &Schema) -> PyResult<Option<Vec<usize>>> {
    let mut index: Vec<String> = Vec::new();
    if let Some(text) = schema.metadata().get("pandas") {
        let parsed = py.import("json")?.call_method1("loads", (text,));
        let columns =
            parsed.and_then(|parsed| parsed.get_item("index_columns")).and_then(|c| c.extract::<Vec<Py<PyAny>>>());
        // Other programs may have changed the metadata. An index that is not stored as a column is a dict.
        index.extend(columns.unwrap_or_default().iter().filter_map(|column| column.extract(py).ok()));
    }
    let is_index = |name: &String| is_pandas_index(name) || (index.contains(name) && !is_known(name));
    let (left_out, kept): (Vec<_>, Vec<_>) =
        schema.fields().iter().enumerate().partition(|(_, field)| is_index(field.name()));
    if left_out.is_empty() {
        return Ok(None);
    }
    let names: Vec<_> = left_out.iter().map(|(_, field)| format!("`{}`", field.name())).collect();
    let message = format!(
        "send_arrow leaves out the index of a pandas frame (column {}), since a record has no such field; \
         hint: reset_index(drop=True) removes it",
        names.join(", ")
    );
    let category = py.get_type::<PyUserWarning>();
    PyErr::warn(py, &category, &CString::new(message).unwrap_or_default(), SEND_ARROW_CALLER)?;
    Ok(Some(kept.into_iter().map(|(at, _)| at).collect()))
}

/// Exports an array.
pub(super) fn export<'py>(
    py: Python<'py>,
    data: ArrayData,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let (array, schema) = to_ffi(&data).map_err(|e| broken(py, &e.to_string()))?;
    Ok((PyCapsule::new_with_value(py, schema, SCHEMA)?, PyCapsule::new_with_value(py, array, ARRAY)?))
}

/// Imports the field of an object with `__arrow_c_schema__`.
pub(super) fn import_field(object: &Bound<'_, PyAny>) -> PyResult<FieldRef> {
    let py = object.py();
    let capsule = object.call_method0("__arrow_c_schema__")?;
    let schema = pointer::<FFI_ArrowSchema>(&capsule, SCHEMA)?;
    // SAFETY: a capsule of this name holds a valid ArrowSchema (Arrow PyCapsule interface), and `capsule` keeps it
    // alive.
    let field = Field::try_from(unsafe { schema.as_ref() });
    field.map(Arc::new).map_err(|e| argument(py, &e.to_string(), None))
}

/// Imports an object with `__arrow_c_array__`.
pub(super) fn import_array(object: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    Ok(make_array(take_data(&object.call_method0("__arrow_c_array__")?)?))
}

fn take_stream(capsule: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let pointer = pointer::<FFI_ArrowArrayStream>(capsule, STREAM)?;
    // SAFETY: a capsule of this name holds a valid ArrowArrayStream (Arrow PyCapsule interface). `from_raw` moves it
    // out and leaves a released struct, which the capsule's destructor ignores. The interpreter is held, so no other
    // thread takes it meanwhile.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    // A stream of anything else than structs has no columns.
    RecordBatchStreamReader::try_new(stream).map_err(|e| match e {
        ArrowError::CDataInterface(_) | ArrowError::SchemaError(_) => single_array(capsule.py()),
        other => argument(capsule.py(), &other.to_string(), None),
    })
}

fn take_data(capsules: &Bound<'_, PyAny>) -> PyResult<ArrayData> {
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = capsules.extract()?;
    let schema = pointer::<FFI_ArrowSchema>(&schema, SCHEMA)?;
    let array = pointer::<FFI_ArrowArray>(&array, ARRAY)?;
    // SAFETY: as for a stream, capsules of these names hold valid structs, and `from_raw` moves the array out. The
    // schema stays in its capsule, which `capsules` keeps alive until after its last use here.
    let data = unsafe {
        let array = FFI_ArrowArray::from_raw(array.as_ptr());
        from_ffi(array, schema.as_ref())
    };
    data.map_err(|e| argument(capsules.py(), &e.to_string(), None))
}

fn take_array(capsules: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let py = capsules.py();
    let (schema, _): (Bound<'_, PyAny>, Bound<'_, PyAny>) = capsules.extract()?;
    let schema = pointer::<FFI_ArrowSchema>(&schema, SCHEMA)?;
    let data = take_data(capsules)?;
    if !matches!(data.data_type(), DataType::Struct(_)) || data.null_count() > 0 {
        return Err(single_array(py));
    }
    let batch = RecordBatch::from(StructArray::from(data));
    // SAFETY: `capsules` keeps the schema alive.
    let metadata = Schema::try_from(unsafe { schema.as_ref() }).map(|schema| schema.metadata);
    let schema = batch.schema_ref().as_ref().clone().with_metadata(metadata.unwrap_or_default());
    batch.with_schema(schema.into()).map_err(|e| argument(py, &e.to_string(), None))
}

fn single_array(py: Python<'_>) -> PyErr {
    let hint = "pass a table with a column `value`, for example pyarrow.table({\"value\": array})";
    argument(py, "data is a single array or chunked array, which is not a table", Some(hint))
}

fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<NonNull<T>> {
    Ok(capsule.cast::<PyCapsule>()?.pointer_checked(Some(name))?.cast())
}

/// Returns the error for an export that Arrow rejects. Arrow does not reject the columns that this file builds.
#[cold]
fn broken(py: Python<'_>, why: &str) -> PyErr {
    exception(py, "KafkaError", why, None)
}
