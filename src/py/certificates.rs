//! [`CertificateAuthority`]: creates temporary certificates for the dev broker and its clients.

use super::error::exception;
use crate::broker::Authority;
use pyo3::prelude::*;

/// A certificate authority for tests, which signs certificates for a dev broker and its clients.
///
/// Example:
///     authority = klamm.testing.CertificateAuthority()
///     certificate, key = authority.issue("broker", ["localhost"])
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

    /// The certificate of the authority, in PEM.
    #[getter]
    fn pem(&self) -> &str {
        self.authority.pem()
    }

    /// Creates a certificate.
    ///
    /// Args:
    ///     name (str): The common name of the broker or client.
    ///     hosts (list[str]): Host names and IP addresses of a broker. Defaults to an empty list, for a client.
    ///     expired (bool): Whether the certificate has expired. Defaults to False.
    ///
    /// Returns:
    ///     The certificate and its private key, both in PEM.
    ///
    /// Raises:
    ///     ConfigError: A name is not valid in a certificate.
    #[pyo3(signature = (name, hosts=Vec::new(), *, expired=false))]
    fn issue(&self, py: Python<'_>, name: &str, hosts: Vec<String>, expired: bool) -> PyResult<(String, String)> {
        let made = py.detach(|| self.authority.issue(name, &hosts, expired));
        let made = made.map_err(|why| exception(py, "ConfigError", &why, None))?;
        Ok((made.certificate, made.key))
    }
}
