//! The metrics of a client as Python objects, from which `klamm.metrics` builds its classes.

use super::pending::Pending;
use crate::client::{self, AnyClient, Error, Family, Number};
use crate::wire::Uuid;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString};
use std::sync::Arc;

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

/// Returns a list of `(group, tags, values)`.
pub(super) fn families(py: Python<'_>, client: &Arc<impl AnyClient>, detail: bool) -> PyResult<Py<PyAny>> {
    // The I/O thread may hold the lock of the network for a moment.
    let families: Result<Vec<Family>, Error> = py.detach(|| client.families(detail));
    to_python(py, families?)
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

/// Returns a wait for the client's ID, as text.
pub(super) fn instance_id(client: Arc<dyn AnyClient>, pending: client::Pending<Uuid>) -> PyResult<Pending> {
    let convert = |py: Python<'_>, id: Uuid| Ok(PyString::new(py, &id.to_string()).into_any().unbind());
    Ok(Pending::new("client instance ID", client, pending, convert))
}
