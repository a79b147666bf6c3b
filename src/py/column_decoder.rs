//! [`ColumnDecoder`]: decodes the keys or values of records into one Arrow column.

use super::arrow::{import_array, import_field, rows_of};
use super::avro::AvroReader;
use super::error::{argument, exception};
use super::records::Records;
use crate::registry::{Decoded, Decoder, Framing, Plan, encode, unknown};
use arrow_array::{Array, ArrayRef};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};
use std::sync::{PoisonError, RwLock};

/// Decodes the keys or values of records. Python adds a plan for each schema.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct ColumnDecoder {
    framing: Framing,
    decoder: RwLock<Decoder>,
}

#[pymethods]
impl ColumnDecoder {
    #[new]
    fn new(schema: &Bound<'_, PyAny>, is_key: bool, is_framed: bool, id_bytes: usize, kind: &str) -> PyResult<Self> {
        let py = schema.py();
        let framing = framing_of(kind, is_key, is_framed, id_bytes);
        let decoder = Decoder::new(import_field(schema)?, framing)
            .map_err(|why| exception(py, "ConfigError", &why, Some("convert the column after reading")))?;
        Ok(Self { framing, decoder: RwLock::new(decoder) })
    }

    /// Sets the plan for a framing: an `AvroReader`, or the text of a plan.
    fn add(&self, py: Python<'_>, prefix: &[u8], plan: &Bound<'_, PyAny>) -> PyResult<()> {
        let plan = match plan.cast::<AvroReader>() {
            Ok(reader) => Plan::Avro(reader.get().plan()),
            Err(_) => {
                Plan::parse(plan.extract()?).ok_or_else(|| argument(py, "the plan of a schema cannot be read", None))?
            }
        };
        self.decoder.write().unwrap_or_else(PoisonError::into_inner).add(prefix, plan);
        Ok(())
    }

    /// Removes the plan for a framing.
    fn remove(&self, prefix: &[u8]) {
        self.decoder.write().unwrap_or_else(PoisonError::into_inner).remove(prefix);
    }

    /// Decodes records from `start` on.
    fn decode(
        &self,
        py: Python<'_>,
        records: &Bound<'_, Records>,
        start: usize,
        stop_at_failure: bool,
    ) -> PyResult<DecodedColumn> {
        let rows: Vec<_> = records.get().ranges().iter().map(|part| rows_of(&part.slice, part.records())).collect();
        let decoded = py.detach(|| {
            let decoder = self.decoder.read().unwrap_or_else(PoisonError::into_inner);
            decoder.decode(&rows, start, stop_at_failure)
        });
        let Decoded { column, failures } = decoded.map_err(|why| exception(py, "KafkaError", &why, None))?;
        let failures = failures.into_iter().map(|f| (f.row, f.prefix.into_vec(), f.fault.path(), f.fault.message));
        Ok(DecodedColumn { column, failures: failures.collect() })
    }

    /// Returns each framing without a plan once, and whether it is the only framing that its record can have.
    fn unknown(&self, py: Python<'_>, records: &Bound<'_, Records>) -> Vec<(Py<PyBytes>, bool)> {
        let rows: Vec<_> = records.get().ranges().iter().map(|part| rows_of(&part.slice, part.records())).collect();
        let prefixes = py.detach(|| {
            let decoder = self.decoder.read().unwrap_or_else(PoisonError::into_inner);
            unknown(self.framing, &rows, |prefix| decoder.knows(prefix))
        });
        prefixes.iter().map(|(prefix, is_only)| (PyBytes::new(py, prefix).unbind(), *is_only)).collect()
    }
}

fn framing_of(kind: &str, is_key: bool, is_framed: bool, id_bytes: usize) -> Framing {
    Framing { is_framed, id_bytes, has_indexes: kind == "protobuf", is_ambiguous: kind == "avro", is_key }
}

/// Returns each framing of the records once. The caller does not need a column type, which depends on the schemas.
#[pyfunction]
pub(super) fn framings(
    py: Python<'_>,
    records: &Bound<'_, Records>,
    is_key: bool,
    id_bytes: usize,
    kind: &str,
) -> Vec<Py<PyBytes>> {
    let framing = framing_of(kind, is_key, true, id_bytes);
    let rows: Vec<_> = records.get().ranges().iter().map(|part| rows_of(&part.slice, part.records())).collect();
    let prefixes = py.detach(|| unknown(framing, &rows, |_| false));
    prefixes.iter().map(|(prefix, _)| PyBytes::new(py, prefix).unbind()).collect()
}

/// Encodes a typed column as values of records, with a framing before each value. If rows are invalid, the error is the
/// error of the first invalid row.
#[pyfunction]
pub(super) fn encode_column(column: &Bound<'_, PyAny>, plan: &str, prefix: &[u8]) -> PyResult<DecodedColumn> {
    let py = column.py();
    let column = import_array(column)?;
    Ok(match py.detach(|| encode(&column, plan, prefix)) {
        Ok(column) => DecodedColumn { column, failures: Vec::new() },
        Err((row, fault)) => {
            let failures = vec![(row, prefix.to_vec(), fault.path(), fault.message)];
            DecodedColumn { column: column.slice(0, 0), failures }
        }
    })
}

/// The decoded column, which any Arrow library can import.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct DecodedColumn {
    column: ArrayRef,
    failures: Vec<(usize, Vec<u8>, String, String)>,
}

#[pymethods]
impl DecodedColumn {
    /// The failed records: position, framing, path of the field, and reason.
    #[getter]
    fn failures<'py>(&self, py: Python<'py>) -> Vec<(usize, Bound<'py, PyBytes>, &str, &str)> {
        let shown = self.failures.iter();
        shown.map(|(row, prefix, path, why)| (*row, PyBytes::new(py, prefix), path.as_str(), why.as_str())).collect()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        super::arrow::export(py, self.column.to_data())
    }

    fn __len__(&self) -> usize {
        self.column.len()
    }
}
