//! The SASL mechanism SCRAM (RFC 5802), with SHA-256 or SHA-512. The client proves that it knows the password, and the
//! broker proves that it knows a key derived from the password. Neither the client nor the broker sends the password.
//!
//! The messages: [`ScramClient::first`] → the broker's first message → [`ScramClient::client_final`] → the broker's
//! signature → [`ServerVerifier::check`]. As in Kafka's Java client, user names are escaped, and passwords are UTF-8
//! bytes without normalization. klamm does not support channel binding. For a delegation token (KIP-48), the client
//! adds the extension `tokenauth=true`.

use crate::engine::{Error, ErrorKind};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use std::fmt;

/// The smallest number of iterations that the client accepts (RFC 7677). Fewer iterations would help an impostor to
/// guess the password.
const MIN_ITERATIONS: u32 = 4096;
/// The largest number of iterations that the client accepts. This number takes about a second, and more iterations
/// would only keep the client busy.
const MAX_ITERATIONS: u32 = 2_000_000;
/// The GS2 header without channel binding and authorization identity. `CHANNEL_BINDING` is the same header in base64.
const GS2_HEADER: &str = "n,,";
const CHANNEL_BINDING: &str = "biws";

/// A SCRAM mechanism, which determines the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl Mechanism {
    /// All SCRAM mechanisms.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// Returns the mechanism's name in SaslHandshake.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// Returns the mechanism with this name in SaslHandshake.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        match self {
            Self::Sha256 => pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, salt, iterations).to_vec(),
            Self::Sha512 => pbkdf2::pbkdf2_hmac_array::<Sha512, 64>(password, salt, iterations).to_vec(),
        }
    }

    fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => hmac_of::<Hmac<Sha256>>(key, data),
            Self::Sha512 => hmac_of::<Hmac<Sha512>>(key, data),
        }
    }

    fn hash(self, data: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(data).to_vec(),
            Self::Sha512 => Sha512::digest(data).to_vec(),
        }
    }
}

fn hmac_of<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Vec<u8> {
    match <M as KeyInit>::new_from_slice(key) {
        Ok(mut mac) => {
            mac.update(data);
            mac.finalize().into_bytes().to_vec()
        }
        Err(_) => unreachable!("HMAC takes keys of any length"),
    }
}

/// The state of the client before it has received the broker's first message.
#[derive(Clone)]
pub struct ScramClient {
    mechanism: Mechanism,
    password: String,
    nonce: String,
    first_bare: String,
}

/// Shows the fields except the password.
impl fmt::Debug for ScramClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScramClient({}, {})", self.mechanism.name(), self.first_bare)
    }
}

impl ScramClient {
    /// Creates a client. The `nonce` must be printable ASCII without commas, and different for each client. The names
    /// of extensions consist of letters, and their values contain no commas.
    pub fn new(
        mechanism: Mechanism,
        username: &str,
        password: &str,
        nonce: &str,
        extensions: &[(String, String)],
    ) -> Result<Self, Error> {
        let is_printable = |c: u8| c.is_ascii_graphic() && c != b',';
        if nonce.is_empty() || !nonce.bytes().all(is_printable) {
            return Err(Error::new(ErrorKind::Config, "a SCRAM nonce must be printable ASCII without commas"));
        }
        let name = username.replace('=', "=3D").replace(',', "=2C");
        let mut first_bare = format!("n={name},r={nonce}");
        for (key, value) in extensions {
            let has_valid_name = !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphabetic());
            if !has_valid_name || value.is_empty() || value.contains([',', '\0']) {
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

    /// Returns the client's final message, and the verifier for the broker's final message.
    pub fn client_final(&self, server_first: &str) -> Result<(String, ServerVerifier), Error> {
        let ServerFirst { nonce, salt, iterations } = ServerFirst::parse(server_first)?;
        if nonce.strip_prefix(self.nonce.as_str()).is_none_or(str::is_empty) {
            return Err(refused("the broker's nonce does not start with the client's"));
        }
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            let message =
                format!("the broker demands {iterations} iterations, not {MIN_ITERATIONS} to {MAX_ITERATIONS}");
            return Err(refused(message));
        }
        let without_proof = format!("c={CHANNEL_BINDING},r={nonce}");
        let auth_message = format!("{},{server_first},{without_proof}", self.first_bare);
        let m = self.mechanism;
        let salted = m.salted(self.password.as_bytes(), &salt, iterations);
        let client_key = m.hmac(&salted, b"Client Key");
        let signature = m.hmac(&m.hash(&client_key), auth_message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, sign)| key ^ sign).collect();
        let server_key = m.hmac(&salted, b"Server Key");
        let verifier = ServerVerifier { signature: m.hmac(&server_key, auth_message.as_bytes()) };
        Ok((format!("{without_proof},p={}", BASE64_STANDARD.encode(proof)), verifier))
    }
}

/// The broker's first message: the client's nonce followed by the broker's nonce, the salt, and the number of
/// iterations.
struct ServerFirst<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> ServerFirst<'a> {
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

/// Verifies the broker's signature, which only a broker with the user's credentials can compute.
#[derive(Clone)]
pub struct ServerVerifier {
    signature: Vec<u8>,
}

impl ServerVerifier {
    /// Checks the signature in the broker's final message.
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
