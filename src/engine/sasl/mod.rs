//! SASL authentication: the credentials of a client, and the messages of each mechanism.
//!
//! [`Credentials`] start an exchange with the client's first message. For each message of the broker, the exchange then
//! returns the client's next message, or ends. `login` puts the messages into requests, and the connection sends the
//! requests. The `Debug` output of credentials shows the mechanism and the user, never a secret.

pub mod gssapi;
mod login;
pub mod scram;

use gssapi::Next;
pub(super) use login::{Login, Message};

use super::{Error, ErrorKind, Time};
use crate::api::ErrorCode;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::sync::Arc;

/// The character that ends every part of an OAUTHBEARER message (RFC 7628). The client answers an error with this
/// character alone.
const SEPARATOR: char = '\u{1}';
/// The largest number of characters of a broker's text in an error message.
const MAX_WORDS: usize = 300;

/// A token that identifies the client (OAUTHBEARER).
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken {
    value: String,
    extensions: Vec<(String, String)>,
    expires_at: Time,
}

impl BearerToken {
    /// Creates a token with SASL extensions (KIP-342). The names of extensions consist of letters, and the values of
    /// printable ASCII.
    pub fn new(value: String, extensions: Vec<(String, String)>) -> Result<Self, Error> {
        let bad = |message: &str| Error::new(ErrorKind::Authentication, message);
        if value.is_empty() || !value.bytes().all(|c| c.is_ascii_graphic()) {
            return Err(bad("an OAUTHBEARER token must be printable ASCII without spaces, and not empty"));
        }
        for (key, value) in &extensions {
            let named = !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphabetic()) && key != "auth";
            if !named || !value.bytes().all(|c| matches!(c, b' '..=b'~' | b'\t' | b'\r' | b'\n')) {
                return Err(bad(&format!(
                    "OAUTHBEARER extension {key:?} must have a name of letters and a printable value"
                )));
            }
        }
        Ok(Self { value, extensions, expires_at: Time::NEVER })
    }

    /// Sets the time at which the token expires.
    pub fn expiring(self, expires_at: Time) -> Self {
        Self { expires_at, ..self }
    }
}

/// Shows the fields except the token.
impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken")
    }
}

/// A source of nonces: an HMAC of a secret seed and two counters.
#[derive(Clone)]
pub struct Nonces {
    seed: [u8; 32],
    connection: u64,
    count: u64,
}

impl Nonces {
    /// Creates a source of nonces, which are unpredictable without the seed.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, connection: 0, count: 0 }
    }

    /// Returns the source for one connection.
    pub(super) fn of(&self, connection: usize) -> Self {
        Self { seed: self.seed, connection: connection as u64, count: 0 }
    }

    /// Returns a new nonce, in hexadecimal digits.
    pub(super) fn next(&mut self) -> String {
        self.count += 1;
        let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.seed) else {
            unreachable!("HMAC takes keys of any length");
        };
        mac.update(&self.connection.to_be_bytes());
        mac.update(&self.count.to_be_bytes());
        mac.finalize().into_bytes().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Nonces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonces")
    }
}

/// The credentials of a client, by mechanism.
#[derive(Clone)]
pub enum Credentials {
    /// PLAIN (RFC 4616): user name and password in clear text.
    Plain {
        /// The user name.
        username: String,
        /// The password.
        password: String,
    },
    /// SCRAM, see [`scram`].
    Scram {
        /// The SCRAM mechanism, which determines the hash.
        mechanism: scram::Mechanism,
        /// The user name.
        username: String,
        /// The password.
        password: String,
        /// The extensions in the client's first message.
        extensions: Vec<(String, String)>,
    },
    /// OAUTHBEARER (RFC 7628). The token is `None` until the token provider has returned one.
    Bearer(Option<Arc<BearerToken>>),
    /// GSSAPI, see [`gssapi`].
    Gssapi,
}

/// Shows the mechanism, and the user or the ID of the delegation token, but no secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mechanism())?;
        match (self.token_id(), self.username()) {
            (Some(id), _) => write!(f, " and the delegation token {id:?}"),
            (None, Some(name)) => write!(f, " as {name:?}"),
            (None, None) => Ok(()),
        }
    }
}

impl Credentials {
    /// Returns the mechanism's name in SaslHandshake.
    pub fn mechanism(&self) -> &'static str {
        match self {
            Self::Plain { .. } => "PLAIN",
            Self::Scram { mechanism, .. } => mechanism.name(),
            Self::Bearer(_) => "OAUTHBEARER",
            Self::Gssapi => "GSSAPI",
        }
    }

    fn username(&self) -> Option<&str> {
        match self {
            Self::Plain { username, .. } | Self::Scram { username, .. } => Some(username),
            Self::Bearer(_) | Self::Gssapi => None,
        }
    }

    /// Returns the ID of the delegation token, if the client logs in with one (KIP-48).
    fn token_id(&self) -> Option<&str> {
        let is_token = |(key, value): &(String, String)| key == "tokenauth" && value.eq_ignore_ascii_case("true");
        match self {
            Self::Scram { username, extensions, .. } if extensions.iter().any(is_token) => Some(username),
            _ => None,
        }
    }

    /// Returns a hint about what to check after a failed login. `code` is the broker's error code, if there is one.
    pub(super) fn hint(&self, code: Option<ErrorCode>) -> String {
        // With another code or none, the failure may have a cause that has nothing to do with the token.
        let token_id = self.token_id().filter(|_| code == Some(ErrorCode::SASL_AUTHENTICATION_FAILED));
        let hint = match (self, token_id) {
            (_, Some(id)) => {
                return format!(
                    "the delegation token {id:?} has expired or does not exist, or the password is not its HMAC; \
                     create a new token with create_delegation_token"
                );
            }
            (Self::Bearer(_), None) => "check the token: issuer, audience, scope, expiry",
            (Self::Gssapi, None) => {
                "check sasl.kerberos.service.name, and the principal that the broker maps to a user"
            }
            (Self::Plain { .. } | Self::Scram { .. }, None) => "check sasl.username, sasl.password and sasl.mechanism",
        };
        hint.to_owned()
    }

    /// Returns whether a login can start. A bearer token may be missing or expired.
    pub fn is_valid(&self, now: Time) -> bool {
        match self {
            Self::Bearer(token) => token.as_ref().is_some_and(|token| now < token.expires_at),
            _ => true,
        }
    }

    /// Returns whether a login needs help from outside of the engine: bearer tokens, or calls to the Kerberos library.
    pub fn needs_help(&self) -> bool {
        matches!(self, Self::Bearer(_) | Self::Gssapi)
    }

    /// Returns an error if the credentials cannot be encoded.
    pub fn check(&self) -> Result<(), Error> {
        if matches!(self, Self::Bearer(None)) { Ok(()) } else { self.start("any").map(|_| ()) }
    }

    /// Starts an exchange, and returns its first step.
    pub(super) fn start(&self, nonce: &str) -> Result<(Next, Exchange), Error> {
        let (message, exchange) = match self {
            Self::Plain { username, password } => {
                if username.contains('\0') || password.contains('\0') {
                    let message = "user name and password for PLAIN must not contain a zero byte";
                    return Err(Error::new(ErrorKind::Config, message));
                }
                (format!("\0{username}\0{password}").into_bytes(), Exchange::Consent)
            }
            Self::Gssapi => {
                let (client, next) = gssapi::Client::start();
                return Ok((next, Exchange::Gssapi(client)));
            }
            Self::Scram { mechanism, username, password, extensions } => {
                let client = scram::ScramClient::new(*mechanism, username, password, nonce, extensions)?;
                (client.first().into_bytes(), Exchange::Scram(client))
            }
            Self::Bearer(None) => {
                return Err(Error::new(ErrorKind::Authentication, "there is no OAUTHBEARER token yet"));
            }
            Self::Bearer(Some(token)) => {
                let mut message = format!("n,,{SEPARATOR}auth=Bearer {}{SEPARATOR}", token.value);
                for (key, value) in &token.extensions {
                    message.push_str(&format!("{key}={value}{SEPARATOR}"));
                }
                message.push(SEPARATOR);
                (message.into_bytes(), Exchange::Bearer)
            }
        };
        Ok((Next::Send(message), exchange))
    }
}

/// A SASL exchange. The variants show what the client waits for.
pub(super) enum Exchange {
    /// The client waits for the broker to accept or reject the credentials.
    Consent,
    Scram(scram::ScramClient),
    Signature(scram::ServerVerifier),
    Bearer,
    Gssapi(gssapi::Client),
    /// The client waits for the end of the exchange, after the broker rejected the client with this text.
    Refused(String),
}

impl Exchange {
    /// Handles a message from the broker. Returns `None` at the end of the exchange.
    pub fn answer(&mut self, message: &[u8]) -> Result<Option<Next>, Error> {
        let text = || {
            let no_text = |_| Error::new(ErrorKind::Authentication, "SASL message is not valid UTF-8");
            std::str::from_utf8(message).map_err(no_text)
        };
        match self {
            Self::Consent => Ok(None),
            Self::Scram(client) => {
                // A broker that does not know the user may send an error instead of its first message.
                let text = text()?;
                if let Some(why) = text.strip_prefix("e=") {
                    return Err(refused(why));
                }
                let (client_final, verifier) = client.client_final(text)?;
                *self = Self::Signature(verifier);
                Ok(Some(Next::Send(client_final.into_bytes())))
            }
            Self::Signature(verifier) => verifier.check(text()?).map(|()| None),
            Self::Bearer if message.is_empty() => Ok(None),
            Self::Bearer => {
                *self = Self::Refused(words(&String::from_utf8_lossy(message)));
                Ok(Some(Next::Send(SEPARATOR.to_string().into_bytes())))
            }
            Self::Gssapi(client) => client.handle_message(message),
            Self::Refused(why) => Err(refused(why)),
        }
    }

    /// Handles the result of a call to the Kerberos library.
    pub fn handle_library_result(&mut self, result: gssapi::LibraryResult) -> Result<Next, Error> {
        match self {
            Self::Gssapi(client) => client.handle_library_result(result),
            _ => Err(Error::new(ErrorKind::Authentication, "unexpected result of the Kerberos library")),
        }
    }

    /// Returns the error that the broker sent within the exchange, if there was one.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Refused(why) => Some(why),
            _ => None,
        }
    }
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::Authentication, format!("the broker rejected the client: {}", words(why)))
}

/// Returns a broker's text on one line, shortened for an error message.
fn words(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_WORDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_logins_have_one_nonce() {
        let nonces = Nonces::new([1; 32]);
        let of = |connection| {
            std::iter::repeat_with({
                let mut nonces = nonces.of(connection);
                move || nonces.next()
            })
        };
        let all: BTreeSet<String> = (0..10).flat_map(|connection| of(connection).take(10)).collect();
        assert_eq!(all.len(), 100);
        assert!(!all.contains(&Nonces::new([2; 32]).of(0).next()));
    }

    #[test]
    fn a_token_takes_its_extensions_along() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let token = BearerToken::new("abc".to_owned(), vec![pair("logicalCluster", "lkc-1"), pair("x", "")]).unwrap();
        let (first, mut exchange) = Credentials::Bearer(Some(Arc::new(token))).start("").unwrap();
        assert_eq!(first, Next::Send(b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01x=\x01\x01".to_vec()));
        assert_eq!(exchange.answer(b"{\"status\":\"invalid_token\"}").unwrap(), Some(Next::Send(b"\x01".to_vec())));
        assert!(exchange.answer(b"").unwrap_err().message().contains("invalid_token"));
        for (key, value) in [("auth", "x"), ("", "x"), ("a1", "x"), ("a", "\x01")] {
            assert!(BearerToken::new("abc".to_owned(), vec![pair(key, value)]).is_err(), "{key}");
        }
        assert!(BearerToken::new("a b".to_owned(), Vec::new()).is_err());
    }
}
