//! Checks server certificates against the host name, and against the certificate authorities from a file or from the
//! system.

use super::certificate::Facts;
use super::{Failure, Pem, pem, reason};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::{Arc, OnceLock};

const AUTHORITIES: &str = "the authorities' certificates";

/// Returns the verifier of server certificates.
pub(super) fn verifier(
    authorities: Option<&Pem>,
    check_host: bool,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Failure> {
    let (roots, authorities) = match authorities {
        Some(pem) => {
            let authorities = pem::authorities(&pem.read(AUTHORITIES)?, AUTHORITIES)?;
            (Arc::new(store(&authorities)?), authorities)
        }
        None => (system()?, Vec::new()),
    };
    let strict = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
    let strict =
        strict.map_err(|_| Failure::new("there is no authority to check certificates", "check ssl.ca.location"))?;
    Ok(Arc::new(Verifier { strict, roots, authorities, check_host }))
}

/// Returns the authorities in a PEM text.
pub(super) fn roots(text: &str) -> Result<RootCertStore, Failure> {
    store(&pem::authorities(text, AUTHORITIES)?)
}

fn store(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let unusable =
            |e| Failure::new(format!("one of {AUTHORITIES} cannot be used: {}", reason::own(&e)), "export it again");
        roots.add(certificate.clone()).map_err(unusable)?;
    }
    Ok(roots)
}

/// Returns the authorities that the system trusts. klamm reads them only once, because this takes some milliseconds.
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

/// Checks certificates like rustls, with these differences:
///
/// * The error describes what is wrong with the certificate.
/// * A broker's certificate may be the certificate of an authority, if the authorities' file contains it. `openssl req
///   -x509` creates such certificates. They are not less secure, because the owner of the key can sign a certificate
///   for any broker anyway.
/// * `check_host` can switch off the check of the host name.
#[derive(Debug)]
struct Verifier {
    strict: Arc<WebPkiServerVerifier>,
    roots: Arc<RootCertStore>,
    /// The certificates of the authorities' file.
    authorities: Vec<CertificateDer<'static>>,
    check_host: bool,
}

impl Verifier {
    /// Checks a certificate in the authorities' file that rustls rejects because it is the certificate of an authority.
    /// rustls has already checked its dates.
    fn check_given(&self, certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
        if !Facts::of(certificate).is_some_and(|facts| facts.is_for_servers()) {
            return Err(CertificateError::InvalidPurpose.into());
        }
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut checked =
            self.strict.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now).map(|_| ());
        if checked.as_ref().is_err_and(reason::is_authority) && self.authorities.contains(end_entity) {
            checked = self.check_given(end_entity, server_name);
        }
        // The strict check looks at the name last.
        let is_name = |error: &Error| {
            use CertificateError as C;
            matches!(error, Error::InvalidCertificate(C::NotValidForName | C::NotValidForNameContext { .. }))
        };
        match checked {
            Err(error) if self.check_host || !is_name(&error) => {
                Err(reason::of_chain(error, end_entity, intermediates, &self.roots))
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls12_signature(message, cert, dss).map_err(|e| reason::of_signature(e, cert))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls13_signature(message, cert, dss).map_err(|e| reason::of_signature(e, cert))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.strict.supported_verify_schemes()
    }
}
