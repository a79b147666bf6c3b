//! Error messages and hints for rejected certificates and failed handshakes, in the terms of TLS instead of rustls'
//! debug output.
//!
//! The verifier in `trust` sees the certificates and puts a `Reason` into its error. `session` copies the message and
//! the hint of the `Reason` into the error for the caller.

use super::certificate::{Facts, broken_algorithm, rsa_bits};
use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, Error, OtherError, RootCertStore};
use std::fmt;
use std::sync::Arc;

/// The reason why a certificate is rejected, and what the user can do.
#[derive(Debug)]
pub(super) struct Reason {
    pub message: String,
    pub hint: String,
}

impl Reason {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }

    /// Returns the reason that a certificate error contains.
    pub fn of(error: &CertificateError) -> Option<&Self> {
        match error {
            CertificateError::Other(OtherError(inner)) => inner.downcast_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Reason {}

#[allow(clippy::disallowed_methods, reason = "rustls shares its errors")]
impl From<Reason> for Error {
    fn from(reason: Reason) -> Self {
        Self::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(reason))))
    }
}

/// Returns whether rustls rejects a broker's certificate because it is the certificate of an authority.
pub(super) fn is_authority(error: &Error) -> bool {
    matches!(error, Error::InvalidCertificate(CertificateError::Other(other)) if first_word(other) == "CaUsedAsEndEntity")
}

/// Returns the error for a rejected certificate of a broker, with the reason.
pub(super) fn of_chain(
    error: Error,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &RootCertStore,
) -> Error {
    use CertificateError as C;
    let Error::InvalidCertificate(why) = &error else { return error };
    let Some(facts) = Facts::of(end_entity) else { return error };
    let reason = match why {
        C::Other(other) if first_word(other) == "UnsupportedCertVersion" => {
            let whose =
                if facts.version < 3 { "the broker's certificate" } else { "a certificate in the broker's chain" };
            Reason::new(
                format!("{whose} is X.509 version 1, but TLS needs version 3"),
                "sign it again with extensions: openssl x509 -req -extfile FILE, with subjectAltName=DNS:HOST in FILE",
            )
        }
        C::Other(_) if is_authority(&error) => Reason::new(
            "the broker's certificate is an authority's (CA:TRUE), not a server's",
            "make it again with openssl's -addext basicConstraints=critical,CA:FALSE, or set ssl.ca.location to this \
             certificate itself",
        ),
        C::Other(other) => Reason::new(
            format!("the broker's certificate cannot be used: {}", spaced(&other.to_string())),
            "use a server certificate that is signed by an authority",
        ),
        C::UnsupportedSignatureAlgorithmContext { .. } | C::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            let chain = intermediates.iter().filter_map(|c| Facts::of(c)).map(|facts| facts.signature);
            match std::iter::once(facts.signature).chain(chain).find_map(broken_algorithm) {
                Some(name) => Reason::new(
                    format!("the broker's certificate is signed with {name}, which is not secure"),
                    "sign it again with SHA-256: openssl x509 -req -sha256",
                ),
                None => Reason::new(
                    "the broker's certificate is signed with an algorithm that klamm does not support",
                    "sign it again with RSA or ECDSA and SHA-256",
                ),
            }
        }
        C::BadSignature => {
            let same_name = roots.roots.iter().filter(|root| root.subject.as_ref() == facts.issuer);
            let sizes = same_name.filter_map(|root| rsa_bits(&root.subject_public_key_info));
            let chain = intermediates.iter().filter_map(|c| Facts::of(c)?.rsa_bits);
            match sizes.chain(chain).find(|bits| !SUPPORTED_BITS.contains(bits)) {
                Some(bits) => unsupported_key("the authority of the broker's certificate", bits),
                None => return error,
            }
        }
        C::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            let name = facts
                .common_name
                .map_or_else(String::new, |name| format!(", only the common name {name:?}, which clients ignore"));
            Reason::new(
                format!("the broker's certificate is not for {}: it has no subjectAltName{name}", expected.to_str()),
                format!("sign it again with subjectAltName=DNS:{}", expected.to_str()),
            )
        }
        C::InvalidPurpose | C::InvalidPurposeContext { .. } => Reason::new(
            "the broker's certificate is not for servers (extendedKeyUsage)",
            "sign it again with extendedKeyUsage=serverAuth",
        ),
        _ => return error,
    };
    reason.into()
}

/// Returns the error for a broker's handshake signature, with the reason.
pub(super) fn of_signature(error: Error, certificate: &CertificateDer<'_>) -> Error {
    use CertificateError as C;
    let Error::InvalidCertificate(why) = &error else { return error };
    let bits = Facts::of(certificate).and_then(|facts| facts.rsa_bits);
    let reason = match (why, bits) {
        (C::BadSignature, Some(bits)) if !SUPPORTED_BITS.contains(&bits) => {
            unsupported_key("the broker's certificate", bits)
        }
        (C::BadSignature, _) => Reason::new(
            "the broker's signature does not match its certificate",
            "check that the broker's key belongs to its certificate",
        ),
        (
            C::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } | C::UnsupportedSignatureAlgorithmContext { .. },
            _,
        ) => Reason::new("the key of the broker's certificate has a type that klamm does not support", KEYS),
        _ => return error,
    };
    reason.into()
}

/// Describes what is wrong with a certificate or a key in the files of this program.
pub(super) fn own(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => of_certificate(why),
        Error::InconsistentKeys(_) => "the private key does not belong to the certificate".to_owned(),
        other => of_handshake(other),
    }
}

/// Describes what is wrong with a certificate.
pub(super) fn of_certificate(why: &CertificateError) -> String {
    use CertificateError as C;
    match why {
        C::Other(other) => spaced(&other.to_string()),
        C::BadEncoding => "it is damaged".to_owned(),
        other => spaced(&format!("{other:?}")),
    }
}

/// Describes why a handshake failed, if the certificate is not the cause.
pub(super) fn of_handshake(error: &Error) -> String {
    match error {
        Error::InvalidMessage(_) => "the peer sent a message that is not TLS".to_owned(),
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            "the peer sent an unexpected TLS message".to_owned()
        }
        Error::PeerIncompatible(why) => format!("the peer is incompatible: {}", spaced(&format!("{why:?}"))),
        Error::PeerMisbehaved(why) => format!("the peer violated the TLS protocol: {}", spaced(&format!("{why:?}"))),
        Error::InvalidCertificate(why) => of_certificate(why),
        Error::General(why) => why.clone(),
        other => spaced(&format!("{other:?}")),
    }
}

/// Converts the name of a rustls error to words. For example, `NoCipherSuitesInCommon` becomes `no cipher suites in
/// common`.
pub(super) fn spaced(debug: &str) -> String {
    let mut words = String::new();
    for letter in debug.chars().take_while(char::is_ascii_alphanumeric) {
        if letter.is_uppercase() && words.chars().next_back().is_some_and(char::is_lowercase) {
            words.push(' ');
        }
        words.push(letter);
    }
    words.to_lowercase()
}

fn first_word(error: &OtherError) -> String {
    error.to_string().chars().take_while(char::is_ascii_alphanumeric).collect()
}

fn unsupported_key(whose: &str, bits: usize) -> Reason {
    let size = if bits < *SUPPORTED_BITS.start() { "short" } else { "long" };
    Reason::new(format!("the RSA key of {whose} has {bits} bits, which is too {size}"), KEYS)
}

/// The sizes of RSA keys that the cryptography library ring accepts, in bits.
const SUPPORTED_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

const KEYS: &str = "use an RSA key of 2048 to 8192 bits, or an EC key with P-256 or P-384";
