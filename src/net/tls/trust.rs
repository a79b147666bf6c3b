//! Checks server certificates: against the authorities of a file or of the system, and against the host name.

use super::{Failure, Pem, pem};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::{Arc, OnceLock};

/// Returns the check of server certificates.
pub(super) fn verifier(
    authorities: Option<&Pem>,
    check_host: bool,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Failure> {
    let roots = match authorities {
        Some(pem) => Arc::new(roots(&pem.read("the authorities' certificates")?)?),
        None => system()?,
    };
    let strict = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
    let strict =
        strict.map_err(|e| Failure::new(format!("cannot check certificates: {e}"), "check ssl.ca.location"))?;
    Ok(if check_host { strict } else { Arc::new(AnyHost(strict)) })
}

/// Returns the authorities of a PEM text.
pub(super) fn roots(text: &str) -> Result<RootCertStore, Failure> {
    let what = "the authorities' certificates";
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(text, what)? {
        let damaged = |e| Failure::new(format!("one of {what} cannot be used: {e}"), "export it again");
        roots.add(certificate).map_err(damaged)?;
    }
    Ok(roots)
}

/// Returns the authorities that the system trusts. They are read once, since that takes some milliseconds.
fn system() -> Result<Arc<RootCertStore>, Failure> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        // Systems have a few certificates that no library can parse.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    if roots.is_empty() {
        let hint = "install the package ca-certificates, or set ssl.ca.location";
        return Err(Failure::new("this system has no certificates of trusted authorities", hint));
    }
    Ok(roots.clone())
}

/// Checks everything except the host name.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The strict check looks at the name last.
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
