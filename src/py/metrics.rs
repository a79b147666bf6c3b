//! Converts the metrics of a client to Python objects, from which `klamm.metrics` builds its classes.

use crate::client::{Family, Number};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString};

impl<'py> IntoPyObject<'py> for Number {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Self::Int(n) => PyInt::new(py, n).into_any(),
            Self::Float(n) => PyFloat::new(py, n).into_any(),
        })
    }
}

/// Converts families to a list of `(group, tags, values)`.
pub(super) fn to_python(py: Python<'_>, families: Vec<Family>) -> PyResult<Py<PyAny>> {
    let list = PyList::empty(py);
    for family in families {
        let (tags, values) = (PyDict::new(py), PyDict::new(py));
        for (key, value) in &family.tags {
            tags.set_item(&**key, value)?;
        }
        for (name, value) in family.values {
            values.set_item(PyString::intern(py, &name), value)?;
        }
        list.append((&*family.group, tags, values))?;
    }
    Ok(list.into_any().unbind())
}
