//! Proving to a broker who the client is (SASL): who it says it is, and the messages of each mechanism.
//!
//! [`Credentials`] start an exchange with the client's first message; every message of the broker then gives the next
//! one or ends it. How messages travel is the connection's business. What is secret is never shown: `Debug` names
//! the mechanism and the user.

pub mod gssapi;
mod login;
pub mod scram;

pub(super) use login::{Login, Message};

use super::{Error, ErrorKind};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::sync::Arc;

/// What ends every part of an OAUTHBEARER message (RFC 7628); alone it is the answer to a refusal.
const SEPARATOR: char = '\u{1}';
/// As much of a broker's words as goes into an error.
const MAX_WORDS: usize = 300;

/// A token that proves who the client is (OAUTHBEARER).
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken {
    value: String,
    extensions: Vec<(String, String)>,
}

impl BearerToken {
    /// A token with SASL extensions (KIP-342): names of letters, values of printable ASCII.
    pub fn new(value: String, extensions: Vec<(String, String)>) -> Result<Self, Error> {
        let bad = |message: &str| Error::new(ErrorKind::Authentication, message);
        if value.is_empty() || !value.bytes().all(|c| c.is_ascii_graphic()) {
            return Err(bad("an OAUTHBEARER token is printable ASCII without spaces, and not empty"));
        }
        for (key, value) in &extensions {
            let named = !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphabetic()) && key != "auth";
            if !named || !value.bytes().all(|c| matches!(c, b' '..=b'~' | b'\t' | b'\r' | b'\n')) {
                return Err(bad(&format!(
                    "OAUTHBEARER extension {key:?} is not a name of letters with printable text"
                )));
            }
        }
        Ok(Self { value, extensions })
    }
}

/// Never the token.
impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken")
    }
}

/// Where nonces come from: a secret seed and two counts, through HMAC.
#[derive(Clone)]
pub struct Nonces {
    seed: [u8; 32],
    connection: u64,
    count: u64,
}

impl Nonces {
    /// Nonces that nobody can guess who does not know the seed.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, connection: 0, count: 0 }
    }

    /// Those of a connection.
    pub(super) fn of(&self, connection: usize) -> Self {
        Self { seed: self.seed, connection: connection as u64, count: 0 }
    }

    /// One that was not there before, in hexadecimal digits.
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

/// Who the client says it is, by mechanism.
#[derive(Clone)]
pub enum Credentials {
    /// PLAIN (RFC 4616): name and password as they are.
    Plain {
        /// The user.
        username: String,
        /// Its password.
        password: String,
    },
    /// SCRAM: see [`scram`].
    Scram {
        /// Which of the two.
        mechanism: scram::Mechanism,
        /// The user.
        username: String,
        /// Its password.
        password: String,
        /// What goes into the first message besides.
        extensions: Vec<(String, String)>,
    },
    /// OAUTHBEARER (RFC 7628): a token, once somebody brought one.
    Bearer(Option<Arc<BearerToken>>),
    /// GSSAPI: see [`gssapi`].
    Gssapi,
}

/// Never the password.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mechanism())?;
        self.username().map_or(Ok(()), |name| write!(f, " as {name:?}"))
    }
}

impl Credentials {
    /// The name that SaslHandshake takes.
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

    /// Whether there is everything it takes: a token may still have to come.
    pub fn is_complete(&self) -> bool {
        !matches!(self, Self::Bearer(None))
    }

    /// Whether somebody outside has to do something for a login: bring tokens, or answer questions.
    pub fn needs_help(&self) -> bool {
        matches!(self, Self::Bearer(_) | Self::Gssapi)
    }

    /// An error if no broker could be told this.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_complete() { self.start("any").map(|_| ()) } else { Ok(()) }
    }

    /// The client's first message, or what is to be asked before, and what goes on from there.
    pub(super) fn start(&self, nonce: &str) -> Result<(Next, Exchange), Error> {
        let (message, exchange) = match self {
            Self::Plain { username, password } => {
                if username.contains('\0') || password.contains('\0') {
                    let message = "PLAIN takes no user name or password with a zero byte in it";
                    return Err(Error::new(ErrorKind::Config, message));
                }
                (format!("\0{username}\0{password}").into_bytes(), Exchange::Said)
            }
            Self::Gssapi => {
                let (client, next) = gssapi::Client::start();
                return Ok((next, Exchange::Gssapi(client)));
            }
            Self::Scram { mechanism, username, password, extensions } => {
                let client = scram::Client::new(*mechanism, username, password, nonce, extensions)?;
                (client.first().into_bytes(), Exchange::Scram(client))
            }
            Self::Bearer(None) => return Err(Error::new(ErrorKind::Authentication, "there is no token yet")),
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

/// What a login does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send a message to the broker.
    Send(Vec<u8>),
    /// Wait for an answer from outside.
    Ask(gssapi::Question),
}

/// What the client waits for.
pub(super) enum Exchange {
    /// Nothing more than that the broker agrees.
    Said,
    Scram(scram::Client),
    Signature(scram::Expected),
    Bearer,
    Gssapi(gssapi::Client),
    /// The end, after a refusal in these words.
    Refused(String),
}

impl Exchange {
    /// Takes in a message of the broker; `None` at the end.
    pub fn answer(&mut self, message: &[u8]) -> Result<Option<Next>, Error> {
        let text = || {
            let no_text = |_| Error::new(ErrorKind::Authentication, "the broker's SASL message is no text");
            std::str::from_utf8(message).map_err(no_text)
        };
        match self {
            Self::Said => Ok(None),
            Self::Scram(client) => {
                // A broker that knows no such user may say so instead of asking.
                let text = text()?;
                if let Some(why) = text.strip_prefix("e=") {
                    return Err(refused(why));
                }
                let (answer, expected) = client.answer(text)?;
                *self = Self::Signature(expected);
                Ok(Some(Next::Send(answer.into_bytes())))
            }
            Self::Signature(expected) => expected.check(text()?).map(|()| None),
            Self::Bearer if message.is_empty() => Ok(None),
            Self::Bearer => {
                *self = Self::Refused(words(&String::from_utf8_lossy(message)));
                Ok(Some(Next::Send(SEPARATOR.to_string().into_bytes())))
            }
            Self::Gssapi(client) => client.handle_message(message),
            Self::Refused(why) => Err(refused(why)),
        }
    }

    /// Takes in an answer from outside.
    pub fn handle_gssapi_answer(&mut self, answer: gssapi::Answer) -> Result<Next, Error> {
        match self {
            Self::Gssapi(client) => client.handle_gssapi_answer(answer),
            _ => Err(Error::new(ErrorKind::Authentication, "an answer to a question that was not asked")),
        }
    }

    /// What the broker said against the client's proof before it ended the exchange.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Refused(why) => Some(why),
            _ => None,
        }
    }
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::Authentication, format!("the broker refused the client: {}", words(why)))
}

/// A broker's words on one line of a length that fits an error.
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
