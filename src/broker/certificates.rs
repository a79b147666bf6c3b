//! Test certificates: a certificate authority, and the certificates that it signs. The module creates certificates on
//! request and does not store them.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::fmt;
use std::time::{Duration, SystemTime};

/// Default validity of a certificate, and how far in the past the validity starts. The start is in the past because
/// clocks differ.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
const SINCE: Duration = Duration::from_secs(3600);

/// A certificate and its private key, as PEM text.
#[derive(Clone)]
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

impl Authority {
    /// Creates an authority. The error is a message.
    pub fn new() -> Result<Self, String> {
        let make = || {
            let mut params = CertificateParams::new(Vec::new())?;
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            params.distinguished_name.push(DnType::CommonName, "klamm dev broker, for tests only");
            (params.not_before, params.not_after) = (since().into(), (since() + LIFETIME).into());
            let key = KeyPair::generate()?;
            let pem = params.self_signed(&key)?.pem();
            Ok(Self { pem, issuer: Issuer::new(params, key) })
        };
        make().map_err(|e: rcgen::Error| format!("cannot create a certificate authority: {e}"))
    }

    /// Returns the certificate of the authority, as PEM text.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Signs a certificate for hosts, or for a client by its name. The certificate is valid for a month. With
    /// `expired`, the certificate has already expired. The error is a message.
    pub fn issue(&self, name: &str, hosts: &[String], expired: bool) -> Result<Certificate, String> {
        let make = || {
            let mut params = CertificateParams::new(hosts)?;
            params.distinguished_name.push(DnType::CommonName, name);
            params.use_authority_key_identifier_extension = true;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let lifetime = if expired { SINCE / 2 } else { LIFETIME };
            (params.not_before, params.not_after) = (since().into(), (since() + lifetime).into());
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &self.issuer)?.pem();
            Ok(Certificate { certificate, key: key.serialize_pem() })
        };
        make().map_err(|e: rcgen::Error| format!("cannot create a certificate for {name:?}: {e}"))
    }
}

#[allow(clippy::disallowed_methods, reason = "certificate validity uses the wall clock")]
fn since() -> SystemTime {
    SystemTime::now() - SINCE
}
