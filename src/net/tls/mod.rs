//! TLS settings of clients and servers, and errors with hints about what to check.
//!
//! The crate rustls implements the TLS sessions. The client sends the host name as SNI and does not use ALPN. Without
//! the feature `tls`, the settings still exist, so that the rest of the code compiles, but no session can be created.

#[cfg(feature = "tls")]
mod certificate;
#[cfg(feature = "tls")]
mod pem;
#[cfg(feature = "tls")]
mod reason;
#[cfg(feature = "tls")]
mod session;
#[cfg(not(feature = "tls"))]
#[path = "none.rs"]
mod session;
#[cfg(feature = "tls")]
mod trust;

pub use session::{Client, Server, Session};

use std::fmt;
use std::path::PathBuf;

/// PEM text, or a file that contains PEM text.
#[derive(Clone)]
pub enum Pem {
    /// A file. klamm reads it when it needs the contents, and again when the file has changed.
    File(PathBuf),
    /// PEM text.
    Text(String),
}

/// Shows the path of a file, but not PEM text, which may contain a key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Text(_) => f.write_str("PEM"),
        }
    }
}

/// The certificate and the private key of a client.
#[derive(Clone)]
pub struct Identity {
    /// The certificate, followed by its chain.
    pub certificates: Pem,
    /// The private key. By default, the key is in the same PEM text as the certificates.
    pub key: Option<Pem>,
    /// The password of the private key, if the key is encrypted.
    pub password: Option<String>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl Version {
    /// All supported versions.
    pub const ALL: [Self; 2] = [Self::Tls12, Self::Tls13];

    /// Returns the name of the version in Java and OpenSSL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

/// The TLS settings of a client.
#[derive(Clone)]
pub struct Settings {
    /// The authorities that the client trusts. The default is the authorities of the system.
    pub authorities: Option<Pem>,
    /// The client's certificate, for servers that request one.
    pub identity: Option<Identity>,
    /// Whether the server's certificate must be valid for the host to which the client connects.
    pub check_host: bool,
    /// The accepted versions of TLS.
    pub versions: Vec<Version>,
}

/// A failure of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the client or the server tried, and why it failed.
    pub message: String,
    /// What the user can check.
    pub hint: String,
    /// Whether another attempt would fail in the same way.
    pub is_final: bool,
}

impl Failure {
    #[cfg(feature = "tls")]
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), is_final: true }
    }

    /// Returns the TLS failure that caused an error of a stream, if there is one.
    pub fn of(error: &std::io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; hint: {}", self.message, self.hint)
    }
}

impl std::error::Error for Failure {}
