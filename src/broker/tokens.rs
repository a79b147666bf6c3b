//! Delegation tokens (KIP-48, KIP-373): their owners, expiry times and SCRAM credentials.
//!
//! The rules for tokens follow Kafka's `DelegationTokenControlManager`. The password of a token is an HMAC of the token
//! ID with the brokers' secret key. As in Kafka, an expired token exists until the next periodic check removes it.

use super::clock::Clock;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha512;
use std::collections::BTreeMap;
use std::fmt;

/// Type of the principals that may renew tokens.
pub(super) const USER: &str = "User";

/// Memory of a token, without its strings.
const TOKEN_MEMORY: usize = 384;
/// Memory of a renewer, without its name.
const RENEWER_MEMORY: usize = 64;

message! {
    /// A token without its secret.
    struct Token {
        id: String,
        owner: Principal,
        requester: Principal,
        renewers: Vec<Principal>,
        /// Times in milliseconds since 1970.
        issued_ms: i64,
        expires_ms: i64,
        max_ms: i64,
    }
    /// A principal: its type and its name.
    struct Principal {
        kind: String,
        name: String,
    }
}

impl Principal {
    pub fn new(kind: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into() }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

impl Token {
    /// Returns whether a principal may renew and expire the token. A client that requested the token for another user
    /// may not do so.
    pub fn may_renew(&self, principal: &Principal) -> bool {
        self.owner == *principal || self.renewers.contains(principal)
    }

    /// Returns whether a principal may see the token without an access rule.
    pub fn belongs_to(&self, principal: &Principal) -> bool {
        self.may_renew(principal) || self.requester == *principal
    }

    pub fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_ms.min(self.max_ms) < now_ms
    }

    pub fn memory_size(&self) -> usize {
        let renewers = self.renewers.iter().map(|renewer| RENEWER_MEMORY + renewer.name.len()).sum::<usize>();
        TOKEN_MEMORY + self.owner.kind.len() + self.owner.name.len() + self.requester.name.len() + renewers
    }
}

/// All tokens by their ID, and the key of the brokers.
#[derive(Default)]
pub(super) struct Tokens {
    /// Kafka's `delegation.token.secret.key`. `None` disables tokens.
    key: Option<String>,
    check_interval_ms: i64,
    known: BTreeMap<String, Token>,
    /// IDs of tokens by their HMAC.
    ids: BTreeMap<Vec<u8>, String>,
}

/// The output contains no key and no HMAC.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known.keys()).finish()
    }
}

impl Tokens {
    pub fn new(key: Option<String>, check_interval_ms: Option<i64>) -> Self {
        Self { key, check_interval_ms: check_interval_ms.unwrap_or(1).max(1), ..Self::default() }
    }

    pub fn are_enabled(&self) -> bool {
        self.key.is_some()
    }

    /// Returns the secret of a token, or `None` if the brokers have no secret key.
    pub fn hmac(&self, id: &str) -> Option<Vec<u8>> {
        let mut mac = <Hmac<Sha512> as KeyInit>::new_from_slice(self.key.as_ref()?.as_bytes()).ok()?;
        mac.update(id.as_bytes());
        Some(mac.finalize().into_bytes().to_vec())
    }

    /// Adds a token, or replaces the token with the same ID.
    pub fn set(&mut self, token: Token) -> Option<Token> {
        if let Some(hmac) = self.hmac(&token.id) {
            self.ids.insert(hmac, token.id.clone());
        }
        self.known.insert(token.id.clone(), token)
    }

    pub fn remove(&mut self, id: &str) -> Option<Token> {
        self.ids.retain(|_, known| known != id);
        self.known.remove(id)
    }

    pub fn get(&self, id: &str) -> Option<&Token> {
        self.known.get(id)
    }

    pub fn with_hmac(&self, hmac: &[u8]) -> Option<&Token> {
        self.known.get(self.ids.get(hmac)?)
    }

    pub fn all(&self) -> impl Iterator<Item = &Token> {
        self.known.values()
    }

    /// Returns the token with which a client logs in, and the password of the token.
    pub fn credentials(&self, id: &str) -> Option<(&Token, String)> {
        let token = self.known.get(id)?;
        Some((token, BASE64_STANDARD.encode(self.hmac(id)?)))
    }

    /// Returns the IDs of the tokens that had expired at the last periodic check.
    pub fn expired(&self, clock: Clock) -> Vec<String> {
        let since_start = i64::try_from(clock.now.as_millis()).unwrap_or(i64::MAX);
        let checked_ms = clock.wall_ms - since_start % self.check_interval_ms;
        self.known.values().filter(|token| token.has_expired(checked_ms)).map(|token| token.id.clone()).collect()
    }
}
