//! A throw-away authority and the certificates it signs, made when asked for and kept nowhere.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::fmt;
use std::time::{Duration, SystemTime};

/// How long a certificate is good for unless somebody says otherwise, and from how long ago: clocks differ.
const LASTS: Duration = Duration::from_secs(30 * 24 * 3600);
const SINCE: Duration = Duration::from_secs(3600);

/// Certificate and private key, as PEM text.
#[derive(Clone)]
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// Signs certificates.
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
    /// An authority that nobody trusts yet. The error is a sentence.
    pub fn new() -> Result<Self, String> {
        let make = || {
            let mut params = CertificateParams::new(Vec::new())?;
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            params.distinguished_name.push(DnType::CommonName, "klamm dev broker, for tests only");
            (params.not_before, params.not_after) = (since().into(), (since() + LASTS).into());
            let key = KeyPair::generate()?;
            let pem = params.self_signed(&key)?.pem();
            Ok(Self { pem, issuer: Issuer::new(params, key) })
        };
        make().map_err(|e: rcgen::Error| format!("cannot make an authority: {e}"))
    }

    /// Its certificate, as PEM text.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for hosts, or for a client by its name. Without a time it lasts a month; it may be over already. The
    /// error is a sentence.
    pub fn issue(&self, name: &str, hosts: &[String], expired: bool) -> Result<Certificate, String> {
        let make = || {
            let mut params = CertificateParams::new(hosts)?;
            params.distinguished_name.push(DnType::CommonName, name);
            params.use_authority_key_identifier_extension = true;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let lasts = if expired { SINCE / 2 } else { LASTS };
            (params.not_before, params.not_after) = (since().into(), (since() + lasts).into());
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &self.issuer)?.pem();
            Ok(Certificate { certificate, key: key.serialize_pem() })
        };
        make().map_err(|e: rcgen::Error| format!("cannot make a certificate for {name:?}: {e}"))
    }
}

#[allow(clippy::disallowed_methods, reason = "certificates go by the wall clock")]
fn since() -> SystemTime {
    SystemTime::now() - SINCE
}
