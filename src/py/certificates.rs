//! `CertificateAuthority`: throw-away certificates for the dev broker and its clients.

use super::error::exception;
use crate::broker::Authority;
use pyo3::prelude::*;

/// An authority that lasts as long as the object.
#[pyclass(frozen, module = "klamm.testing")]
pub(super) struct CertificateAuthority {
    authority: Authority,
}

#[pymethods]
impl CertificateAuthority {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let authority = py.detach(Authority::new).map_err(|why| exception(py, "KafkaError", &why, None))?;
        Ok(Self { authority })
    }

    /// Its certificate, as PEM text.
    #[getter]
    fn pem(&self) -> &str {
        self.authority.pem()
    }

    /// A certificate and its private key, as PEM texts.
    #[pyo3(signature = (name, hosts=Vec::new(), *, expired=false))]
    fn issue(&self, py: Python<'_>, name: &str, hosts: Vec<String>, expired: bool) -> PyResult<(String, String)> {
        let made = py.detach(|| self.authority.issue(name, &hosts, expired));
        let made = made.map_err(|why| exception(py, "ConfigError", &why, None))?;
        Ok((made.certificate, made.key))
    }
}
