//! Reads certificates and keys from PEM text, in files or in configuration values.
//!
//! As in Java, PEM in a configuration value may have spaces or `\n` in place of line ends. A key may be PKCS #8, PKCS
//! #1 or SEC 1, and a PKCS #8 key may be encrypted. Errors do not show the PEM text, because it may contain a private
//! key.

use super::certificate::{split_trusted, vouches_for_servers};
use super::{Failure, Pem};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use std::borrow::Cow;
use std::fs;

/// The largest accepted file, in bytes. The authorities of a whole system need only 250 KB, so a larger file is a
/// mistake.
const MAX_FILE: u64 = 16 << 20;

const TRUSTED: &str = "TRUSTED CERTIFICATE";

/// A block of PEM text.
struct Block {
    label: String,
    der: Vec<u8>,
}

impl Pem {
    /// Returns the PEM text. `name` is the name of the text in errors.
    pub(super) fn read(&self, name: &str) -> Result<String, Failure> {
        let path = match self {
            Self::Text(text) => return Ok(text.clone()),
            Self::File(path) => path,
        };
        let cannot =
            |why: &str, hint: &str| Failure::new(format!("cannot read {name} from {}: {why}", path.display()), hint);
        let unreadable = |e: std::io::Error| cannot(&e.to_string(), "check the path and its permissions");
        if fs::metadata(path).map_err(unreadable)?.len() > MAX_FILE {
            return Err(cannot("it is too large", "set a PEM file"));
        }
        let bytes = fs::read(path).map_err(unreadable)?;
        let java = "convert it: keytool -importkeystore -deststoretype PKCS12, then openssl pkcs12 -nodes";
        match bytes.get(..4) {
            Some([0xfe, 0xed, 0xfe, 0xed]) => return Err(cannot("it is a Java key store (JKS), not PEM", java)),
            Some([0x30, 0x80..=0x84, ..]) => {
                let hint = "convert it: openssl pkcs12 -nodes for a PKCS #12 store, openssl x509 -inform der for one certificate";
                return Err(cannot("it is binary (DER or PKCS #12), not PEM", hint));
            }
            _ => {}
        }
        // Comments may have another encoding. Blocks are ASCII.
        let text = String::from_utf8_lossy(&bytes);
        if matches!(text, Cow::Owned(_)) && !text.contains("-----BEGIN ") {
            return Err(cannot("it is not text", "set a PEM file"));
        }
        Ok(text.into_owned())
    }
}

/// Returns the blocks whose label `selects` accepts. Text outside of blocks is a comment, and may also contain dashes.
fn blocks(text: &str, name: &str, selects: impl Fn(&str) -> bool) -> Result<Vec<Block>, Failure> {
    let damaged = || Failure::new(format!("{name} is damaged PEM"), "export it again");
    let text = text.replace("\\n", "\n");
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut selected = Vec::new();
    while let Some((label, after)) = next_begin(rest, !text.trim().contains(['\n', '\r'])) {
        let (body, after) = after.split_once(&format!("-----END {label}-----")).ok_or_else(damaged)?;
        if body.contains("-----") {
            return Err(damaged());
        }
        rest = after;
        if !selects(label) {
            continue;
        }
        if body.contains("Proc-Type") {
            let hint = "convert it: openssl pkcs8 -topk8 -in key.pem -out pkcs8.pem";
            return Err(Failure::new(format!("{name} is encrypted in the old format of OpenSSL"), hint));
        }
        let digits: String = body.split_whitespace().collect();
        let der = BASE64_STANDARD.decode(digits).map_err(|_| damaged())?;
        selected.push(Block { label: label.to_owned(), der });
    }
    Ok(selected)
}

/// Returns the label of the next block and the text after its first line. In a file, no other text may come before the
/// block on its first line.
fn next_begin(text: &str, is_one_line: bool) -> Option<(&str, &str)> {
    let is_label = |label: &str| label.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b' ');
    text.match_indices("-----BEGIN ").find_map(|(at, begin)| {
        let before = text.get(..at)?.trim_end_matches([' ', '\t']);
        if !is_one_line && !before.is_empty() && !before.ends_with(['\n', '\r']) {
            return None;
        }
        text.get(at + begin.len()..)?.split_once("-----").filter(|(label, _)| is_label(label))
    })
}

/// Returns the certificates in a PEM text. Fails if there are none.
pub(super) fn certificates(text: &str, name: &str) -> Result<Vec<CertificateDer<'static>>, Failure> {
    require_some(certificates_if(text, name, |_| true)?, name)
}

/// Returns the certificates in a PEM text that may vouch for servers. Fails if there are none.
///
/// OpenSSL's `TRUSTED CERTIFICATE` contains the purposes for which the certificate is trusted. Some distributions also
/// list certificates that are trusted for no purpose.
pub(super) fn authorities(text: &str, name: &str) -> Result<Vec<CertificateDer<'static>>, Failure> {
    require_some(certificates_if(text, name, vouches_for_servers)?, name)
}

fn certificates_if(
    text: &str,
    name: &str,
    is_trusted: fn(&[u8]) -> bool,
) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let selects = |label: &str| ["CERTIFICATE", "X509 CERTIFICATE", TRUSTED].contains(&label);
    let mut certificates = Vec::new();
    for Block { label, der } in blocks(text, name, selects)? {
        if label == TRUSTED {
            let damaged = || Failure::new(format!("{name} is damaged PEM"), "export it again");
            let (certificate, settings) = split_trusted(&der).ok_or_else(damaged)?;
            certificates.extend(is_trusted(settings).then(|| CertificateDer::from(certificate.to_vec())));
        } else {
            certificates.push(CertificateDer::from(der));
        }
    }
    Ok(certificates)
}

fn require_some(
    certificates: Vec<CertificateDer<'static>>,
    name: &str,
) -> Result<Vec<CertificateDer<'static>>, Failure> {
    if certificates.is_empty() {
        return Err(Failure::new(
            format!("no certificate found in {name}"),
            "set PEM text with -----BEGIN CERTIFICATE-----",
        ));
    }
    Ok(certificates)
}

/// Returns the private key in a PEM text.
pub(super) fn key(text: &str, password: Option<&str>) -> Result<PrivateKeyDer<'static>, Failure> {
    let name = "the private key";
    for Block { label, der } in blocks(text, name, |label| label.ends_with("PRIVATE KEY"))? {
        return Ok(match label.as_str() {
            "PRIVATE KEY" => PrivatePkcs8KeyDer::from(der).into(),
            "RSA PRIVATE KEY" => PrivatePkcs1KeyDer::from(der).into(),
            "EC PRIVATE KEY" => PrivateSec1KeyDer::from(der).into(),
            "ENCRYPTED PRIVATE KEY" => {
                let Some(password) = password else {
                    return Err(Failure::new(format!("{name} is encrypted"), "set ssl.key.password"));
                };
                let cannot = |_| Failure::new(format!("{name} cannot be decrypted"), "check ssl.key.password");
                let sealed = EncryptedPrivateKeyInfoRef::try_from(der.as_slice()).map_err(|_| {
                    Failure::new(
                        format!("{name} is damaged, or encrypted with an unsupported algorithm"),
                        "export it again with AES",
                    )
                })?;
                PrivatePkcs8KeyDer::from(sealed.decrypt(password).map_err(cannot)?.as_bytes().to_vec()).into()
            }
            _ => continue,
        });
    }
    Err(Failure::new("no private key found next to the client's certificate", "set ssl.key.location or ssl.key.pem"))
}
