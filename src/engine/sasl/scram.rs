//! SCRAM (RFC 5802, also with SHA-512 as in Kafka). The client proves that it knows the password, and the broker proves
//! that it knows a key derived from the password. Neither side sends the password.
//!
//! The messages: [`Client::first`] → the broker's challenge → [`Client::answer`] → the broker's signature →
//! [`Expected::check`]. As in Kafka's Java client, user names are escaped, and passwords are UTF-8 bytes without
//! normalization. Channel binding is not supported. For a delegation token (KIP-48), the client adds the extension
//! `tokenauth=true`.

use crate::engine::{Error, ErrorKind};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use std::fmt;

/// The fewest iterations that a broker may demand (RFC 7677): fewer would help an impostor to guess the password.
const MIN_ITERATIONS: u32 = 4096;
/// The most iterations, which take about a second. A broker that demands more would only keep the client busy.
const MAX_ITERATIONS: u32 = 2_000_000;
/// "No channel binding, no other identity", and the same in base64.
const GS2_HEADER: &str = "n,,";
const CHANNEL: &str = "biws";

/// The hash of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl Mechanism {
    /// Both mechanisms.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// Returns the name in SaslHandshake.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// Returns the mechanism of a name in SaslHandshake.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        match self {
            Self::Sha256 => pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, salt, iterations).to_vec(),
            Self::Sha512 => pbkdf2::pbkdf2_hmac_array::<Sha512, 64>(password, salt, iterations).to_vec(),
        }
    }

    fn sign(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => signed::<Hmac<Sha256>>(key, data),
            Self::Sha512 => signed::<Hmac<Sha512>>(key, data),
        }
    }

    fn hash(self, data: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(data).to_vec(),
            Self::Sha512 => Sha512::digest(data).to_vec(),
        }
    }
}

fn signed<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Vec<u8> {
    match <M as KeyInit>::new_from_slice(key) {
        Ok(mut mac) => {
            mac.update(data);
            mac.finalize().into_bytes().to_vec()
        }
        Err(_) => unreachable!("HMAC takes keys of any length"),
    }
}

/// The client, which has not received the broker's challenge yet.
#[derive(Clone)]
pub struct Client {
    mechanism: Mechanism,
    password: String,
    nonce: String,
    first_bare: String,
}

/// Does not show the password.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({}, {})", self.mechanism.name(), self.first_bare)
    }
}

impl Client {
    /// Creates a client. The `nonce` must be printable ASCII without commas, and new each time. Extensions have names
    /// of letters and values without commas.
    pub fn new(
        mechanism: Mechanism,
        username: &str,
        password: &str,
        nonce: &str,
        extensions: &[(String, String)],
    ) -> Result<Self, Error> {
        let printable = |c: u8| c.is_ascii_graphic() && c != b',';
        if nonce.is_empty() || !nonce.bytes().all(printable) {
            return Err(Error::new(ErrorKind::Config, "a SCRAM nonce must be printable ASCII without commas"));
        }
        let name = username.replace('=', "=3D").replace(',', "=2C");
        let mut first_bare = format!("n={name},r={nonce}");
        for (key, value) in extensions {
            let named = !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphabetic());
            if !named || value.is_empty() || value.contains([',', '\0']) {
                let message = format!("SCRAM extension {key:?} must have a name of letters and a value without commas");
                return Err(Error::new(ErrorKind::Config, message));
            }
            first_bare.push_str(&format!(",{key}={value}"));
        }
        Ok(Self { mechanism, password: password.to_owned(), nonce: nonce.to_owned(), first_bare })
    }

    /// Returns the client's first message.
    pub fn first(&self) -> String {
        format!("{GS2_HEADER}{}", self.first_bare)
    }

    /// Returns the response to the broker's challenge, and the signature that the broker has to send then.
    pub fn answer(&self, challenge: &str) -> Result<(String, Expected), Error> {
        let Challenge { nonce, salt, iterations } = Challenge::parse(challenge)?;
        if nonce.strip_prefix(self.nonce.as_str()).is_none_or(str::is_empty) {
            return Err(refused("the broker's nonce does not start with the client's"));
        }
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            let message =
                format!("the broker demands {iterations} iterations, not {MIN_ITERATIONS} to {MAX_ITERATIONS}");
            return Err(refused(message));
        }
        let without_proof = format!("c={CHANNEL},r={nonce}");
        let auth_message = format!("{},{challenge},{without_proof}", self.first_bare);
        let m = self.mechanism;
        let salted = m.salted(self.password.as_bytes(), &salt, iterations);
        let client_key = m.sign(&salted, b"Client Key");
        let signature = m.sign(&m.hash(&client_key), auth_message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, sign)| key ^ sign).collect();
        let server_key = m.sign(&salted, b"Server Key");
        let expected = Expected { signature: m.sign(&server_key, auth_message.as_bytes()) };
        Ok((format!("{without_proof},p={}", BASE64_STANDARD.encode(proof)), expected))
    }
}

/// The broker's challenge: the client's nonce followed by its own, the salt, and the number of iterations.
struct Challenge<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> Challenge<'a> {
    fn parse(message: &'a str) -> Result<Self, Error> {
        if message.starts_with("m=") {
            return Err(refused("the broker demands an unknown extension"));
        }
        let malformed = || refused("the broker's first SCRAM message must have nonce, salt and iterations");
        let mut fields = message.split(',');
        let mut field = |name: &str| fields.next().and_then(|f| f.strip_prefix(name)).ok_or_else(malformed);
        let (nonce, salt, iterations) = (field("r=")?, field("s=")?, field("i=")?);
        let salt = BASE64_STANDARD.decode(salt).map_err(|_| malformed())?;
        Ok(Self { nonce, salt, iterations: iterations.parse().map_err(|_| malformed())? })
    }
}

/// The signature that only a broker with the user's credentials can make.
#[derive(Clone)]
pub struct Expected {
    signature: Vec<u8>,
}

impl Expected {
    /// Checks the broker's last message.
    pub fn check(&self, last: &str) -> Result<(), Error> {
        if let Some(why) = last.strip_prefix("e=") {
            return Err(
                refused(format!("the broker rejected the user: {why}")).with_hint("check user name and password")
            );
        }
        let signature = last.split(',').next().and_then(|f| f.strip_prefix("v="));
        match signature.map(|v| BASE64_STANDARD.decode(v)) {
            Some(Ok(signature)) if signature == self.signature => Ok(()),
            _ => Err(refused("the broker's signature is wrong")
                .with_hint("the broker does not have this user's credentials, so it may be an impostor")),
        }
    }
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Authentication, message)
}
