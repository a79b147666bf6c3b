//! TLS: what a client or a server is set up with, and what went wrong in words that say what to check.
//!
//! The session itself is rustls's. There is no ALPN; SNI names the host. Without the feature `tls` there are settings
//! but no sessions, so that what uses them builds either way.

#[cfg(feature = "tls")]
mod pem;
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

/// PEM text, or a file with it.
#[derive(Clone)]
pub enum Pem {
    /// Read when needed, and again when it has changed.
    File(PathBuf),
    /// As it is.
    Text(String),
}

/// A file's path, and nothing of a text: it may be a key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Text(_) => f.write_str("PEM"),
        }
    }
}

/// What proves who the client is.
#[derive(Clone)]
pub struct Identity {
    /// The certificate, and then those that vouch for it.
    pub certificates: Pem,
    /// Its private key; where the certificates are if left out.
    pub key: Option<Pem>,
    /// The key's password, if it is encrypted.
    pub password: Option<String>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 1.2.
    Tls12,
    /// 1.3.
    Tls13,
}

impl Version {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Tls12, Self::Tls13];

    /// The name that Java and OpenSSL give it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

/// What a client needs to know.
#[derive(Clone)]
pub struct Settings {
    /// Who may vouch for servers; the system's authorities if left out.
    pub authorities: Option<Pem>,
    /// What proves who the client is, if servers ask.
    pub identity: Option<Identity>,
    /// Whether a certificate has to be for the host that was connected to.
    pub check_host: bool,
    /// The versions to use.
    pub versions: Vec<Version>,
}

/// Why there is no TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was tried and why it failed.
    pub message: String,
    /// What to check.
    pub hint: String,
    /// Whether another attempt would end the same way.
    pub is_final: bool,
}

impl Failure {
    #[cfg(feature = "tls")]
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), is_final: true }
    }

    /// The failure behind an error of a stream, if it is TLS's.
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
