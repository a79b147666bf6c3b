//! The server side of SCRAM (RFC 5802): sends a challenge with salt and iterations, checks the client's proof, and
//! responds with the server's signature. For a delegation token, the password is the token's HMAC in base64 (KIP-48).

use super::credentials::{ITERATIONS, Secret, Users};
use super::mechanism::MechanismResult;
use crate::api::alter_user_scram_credentials::{SCRAM_SHA_256, SCRAM_SHA_512};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};

pub(super) struct Server {
    is_512: bool,
    challenge: Option<Challenge>,
}

/// The challenge that was sent, and its user.
struct Challenge {
    user: String,
    secret: Option<Secret>,
    /// The time at which the client's delegation token expires.
    expires_ms: Option<i64>,
    salt: Vec<u8>,
    nonce: String,
    /// The client's first message without its header, and the server's first message.
    auth_message: String,
}

impl Server {
    pub fn new(is_512: bool) -> Self {
        Self { is_512, challenge: None }
    }

    fn number(&self) -> i8 {
        if self.is_512 { SCRAM_SHA_512 } else { SCRAM_SHA_256 }
    }

    fn mechanism(&self) -> &'static str {
        if self.is_512 { "SCRAM-SHA-512" } else { "SCRAM-SHA-256" }
    }

    /// Returns whether the client logs in with a delegation token.
    pub fn has_token(&self) -> bool {
        self.challenge.as_ref().is_some_and(|challenge| challenge.expires_ms.is_some())
    }

    pub fn handle_message(&mut self, message: &[u8], users: Users<'_>, random: impl FnMut() -> u64) -> MechanismResult {
        let invalid_credentials = || {
            let mechanism = self.mechanism();
            format!(
                "Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
            )
        };
        let Ok(message) = std::str::from_utf8(message) else {
            return MechanismResult::Failure(invalid_credentials());
        };
        let Some(challenge) = &self.challenge else {
            return match challenge(message, users, self.number(), random) {
                Some((challenge, message)) => {
                    self.challenge = Some(challenge);
                    MechanismResult::Challenge(message.into_bytes())
                }
                None => MechanismResult::Failure(invalid_credentials()),
            };
        };
        match self.check(challenge, message) {
            Some(signature) => MechanismResult::Success {
                message: format!("v={}", BASE64_STANDARD.encode(signature)).into_bytes(),
                user: challenge.user.clone(),
                until_ms: challenge.expires_ms,
            },
            None => MechanismResult::Failure(invalid_credentials()),
        }
    }

    /// Returns the server signature, if the client's proof is correct.
    fn check(&self, challenge: &Challenge, message: &str) -> Option<Vec<u8>> {
        let (without_proof, proof) = message.rsplit_once(",p=")?;
        let mut fields = without_proof.split(',');
        // "n,,": no channel binding.
        if fields.next()? != "c=biws" || fields.next()?.strip_prefix("r=")? != challenge.nonce {
            return None;
        }
        let proof = BASE64_STANDARD.decode(proof).ok()?;
        let auth_message = format!("{},{without_proof}", challenge.auth_message);
        let salted = match challenge.secret.as_ref()? {
            Secret::Password(password) => self.salted(password.as_bytes(), &challenge.salt),
            Secret::Salted { password, .. } => password.clone(),
        };
        let stored_key = self.hash(&self.sign(&salted, b"Client Key"));
        let signature = self.sign(&stored_key, auth_message.as_bytes());
        if signature.len() != proof.len() {
            return None;
        }
        let key: Vec<u8> = signature.iter().zip(&proof).map(|(sign, proof)| sign ^ proof).collect();
        (self.hash(&key) == stored_key).then(|| self.sign(&self.sign(&salted, b"Server Key"), auth_message.as_bytes()))
    }

    fn salted(&self, password: &[u8], salt: &[u8]) -> Vec<u8> {
        if self.is_512 {
            pbkdf2::pbkdf2_hmac_array::<Sha512, 64>(password, salt, ITERATIONS).to_vec()
        } else {
            pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, salt, ITERATIONS).to_vec()
        }
    }

    fn sign(&self, key: &[u8], data: &[u8]) -> Vec<u8> {
        if self.is_512 { signed::<Hmac<Sha512>>(key, data) } else { signed::<Hmac<Sha256>>(key, data) }
    }

    fn hash(&self, data: &[u8]) -> Vec<u8> {
        if self.is_512 { Sha512::digest(data).to_vec() } else { Sha256::digest(data).to_vec() }
    }
}

fn signed<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Vec<u8> {
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else {
        unreachable!("HMAC takes keys of any length");
    };
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

/// Returns the challenge for a client's first message: `n,[a=...],n=user,r=nonce[,extension=...]`.
fn challenge(
    message: &str,
    users: Users<'_>,
    mechanism: i8,
    mut random: impl FnMut() -> u64,
) -> Option<(Challenge, String)> {
    let mut parts = message.splitn(3, ',');
    let (binding, _authorization_id, first_message) = (parts.next()?, parts.next()?, parts.next()?);
    if binding != "n" {
        return None;
    }
    let mut fields = first_message.split(',');
    let name = fields.next()?.strip_prefix("n=")?.replace("=2C", ",").replace("=3D", "=");
    let client_nonce = fields.next()?.strip_prefix("r=").filter(|nonce| !nonce.is_empty())?;
    let is_true = |value: &str| value.eq_ignore_ascii_case("true");
    let is_token = fields.any(|extension| extension.strip_prefix("tokenauth=").is_some_and(is_true));
    let nonce = format!("{client_nonce}{:016x}{:016x}", random(), random());
    // An unknown user gets a challenge too, so that a client cannot probe for user names.
    let (user, secret, expires_ms) = match users.tokens.credentials(&name).filter(|_| is_token) {
        Some((token, password)) => (token.owner.name.clone(), Some(Secret::Password(password)), Some(token.expires_ms)),
        None => {
            let secret = users.credentials.get(mechanism, &name).filter(|_| !is_token);
            (name, secret.cloned(), None)
        }
    };
    let (salt, iterations) = match &secret {
        Some(Secret::Salted { salt, iterations, .. }) => (salt.clone(), *iterations),
        _ => ([random().to_be_bytes(), random().to_be_bytes()].concat(), ITERATIONS),
    };
    let message = format!("r={nonce},s={},i={iterations}", BASE64_STANDARD.encode(&salt));
    Some((
        Challenge { user, secret, expires_ms, salt, nonce, auth_message: format!("{first_message},{message}") },
        message,
    ))
}
