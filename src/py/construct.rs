//! Creates instances of the dataclasses and named tuples of the package `klamm`, and passes their fields by name.
//!
//! The core can therefore return the result objects of public methods. The Python code does not have to build result
//! objects from tuples.

use crate::client::TopicPartition;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyList;

/// Creates an object of a class of the package: `construct!(py, "klamm.admin.Node", { id: 1, .. })`.
macro_rules! construct {
    ($py:expr, $class:literal, { $($field:ident: $value:expr),* $(,)? }) => {{
        let create = |py: Python<'_>| -> PyResult<Py<PyAny>> {
            let fields = pyo3::types::PyDict::new(py);
            $( fields.set_item(pyo3::intern!(py, stringify!($field)), $value)?; )*
            Ok($crate::py::construct::class(py, $class)?.call((), Some(&fields))?.unbind())
        };
        create($py)
    }};
}
pub(super) use construct;

/// Returns a class by its full name.
pub(super) fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let (module, name) = name.rsplit_once('.').unwrap_or(("klamm", name));
    py.import(module)?.getattr(name)
}

/// Creates a list. Each item comes from `construct!`.
pub(super) fn list(py: Python<'_>, items: impl Iterator<Item = PyResult<Py<PyAny>>>) -> PyResult<Py<PyAny>> {
    Ok(PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind())
}

/// Creates a `klamm.TopicPartition`.
impl<'py> IntoPyObject<'py> for &TopicPartition {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        CLASS.import(py, "klamm.record", "TopicPartition")?.call1((&*self.topic, self.partition))
    }
}

/// A `klamm.TopicPartition` that Python passes in.
#[derive(FromPyObject)]
pub(super) struct GivenPartition {
    pub(super) topic: String,
    pub(super) partition: i32,
}
