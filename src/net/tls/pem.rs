//! Reads certificates and keys from PEM text, in files or in configuration values.
//!
//! As in Java, PEM in a configuration value may have spaces or `\n` in place of line ends. A key may be PKCS #8, PKCS #1 or
//! SEC 1, and PKCS #8 may be encrypted. Errors do not show the text, which may be a key.

use super::{Failure, Pem};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use std::fs;

/// The largest accepted file, in bytes. The authorities of a whole system are 250 KB, so a larger file is a mistake.
const MAX_FILE: u64 = 16 << 20;

/// A block of PEM text.
struct Block {
    label: String,
    der: Vec<u8>,
}

impl Pem {
    /// Returns the text. `what` names it in errors.
    pub(super) fn read(&self, what: &str) -> Result<String, Failure> {
        let path = match self {
            Self::Text(text) => return Ok(text.clone()),
            Self::File(path) => path,
        };
        let cannot =
            |why: &str, hint: &str| Failure::new(format!("cannot read {what} from {}: {why}", path.display()), hint);
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
        String::from_utf8(bytes).map_err(|_| cannot("it is not text", "set a PEM file"))
    }
}

fn blocks(text: &str, what: &str) -> Result<Vec<Block>, Failure> {
    let damaged = || Failure::new(format!("{what} is damaged PEM"), "export it again");
    let mut parts = text.split("-----");
    let mut found = Vec::new();
    // Text before and between blocks is a comment.
    while let (Some(_), Some(begin)) = (parts.next(), parts.next()) {
        let label = begin.strip_prefix("BEGIN ").ok_or_else(damaged)?;
        let body = parts.next().ok_or_else(damaged)?;
        if parts.next().and_then(|end| end.strip_prefix("END ")) != Some(label) {
            return Err(damaged());
        }
        if body.contains("Proc-Type") {
            let hint = "convert it: openssl pkcs8 -topk8 -in key.pem -out pkcs8.pem";
            return Err(Failure::new(format!("{what} is encrypted in the old format of OpenSSL"), hint));
        }
        let digits: String = body.replace("\\n", "").split_whitespace().collect();
        let der = BASE64_STANDARD.decode(digits).map_err(|_| damaged())?;
        found.push(Block { label: label.to_owned(), der });
    }
    Ok(found)
}

/// Returns the certificates of a text. Fails if there are none.
pub(super) fn certificates(text: &str, what: &str) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let certificate = |b: Block| (b.label == "CERTIFICATE").then(|| CertificateDer::from(b.der));
    let found: Vec<_> = blocks(text, what)?.into_iter().filter_map(certificate).collect();
    if found.is_empty() {
        return Err(Failure::new(
            format!("no certificate found in {what}"),
            "set PEM text with -----BEGIN CERTIFICATE-----",
        ));
    }
    Ok(found)
}

/// Returns the private key of a text.
pub(super) fn key(text: &str, password: Option<&str>) -> Result<PrivateKeyDer<'static>, Failure> {
    let what = "the private key";
    for Block { label, der } in blocks(text, what)? {
        return Ok(match label.as_str() {
            "PRIVATE KEY" => PrivatePkcs8KeyDer::from(der).into(),
            "RSA PRIVATE KEY" => PrivatePkcs1KeyDer::from(der).into(),
            "EC PRIVATE KEY" => PrivateSec1KeyDer::from(der).into(),
            "ENCRYPTED PRIVATE KEY" => {
                let Some(password) = password else {
                    return Err(Failure::new(format!("{what} is encrypted"), "set ssl.key.password"));
                };
                let cannot = |_| Failure::new(format!("{what} cannot be decrypted"), "check ssl.key.password");
                let sealed = EncryptedPrivateKeyInfoRef::try_from(der.as_slice()).map_err(|_| {
                    Failure::new(
                        format!("{what} is damaged, or encrypted with an unsupported algorithm"),
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
