//! Parses the text of schemas for `klamm.registry`.

use crate::typed::schema::protobuf;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Returns the serialized descriptor of a `.proto` file. The types of fields and the options are not resolved.
#[pyfunction]
pub(super) fn parse_proto<'py>(py: Python<'py>, text: &str, name: &str) -> PyResult<Bound<'py, PyBytes>> {
    let parsed = py.detach(|| protobuf::parse(name, text));
    Ok(PyBytes::new(py, &parsed.map_err(PyValueError::new_err)?))
}
