//! SCRAM users (KIP-554): users that are configured with a password, and users that clients add with
//! AlterUserScramCredentials. For users that clients add, the broker knows only the salted password.

use crate::api::alter_user_scram_credentials::{SCRAM_SHA_256, SCRAM_SHA_512};
use crate::broker::tokens::Tokens;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Kafka's default number of iterations.
pub(super) const ITERATIONS: u32 = 4096;

/// A password, plain or salted.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::broker) enum Secret {
    Password(String),
    Salted { iterations: u32, salt: Vec<u8>, password: Vec<u8> },
}

impl Secret {
    pub fn iterations(&self) -> u32 {
        match self {
            Self::Password(_) => ITERATIONS,
            Self::Salted { iterations, .. } => *iterations,
        }
    }
}

/// The credentials that SCRAM clients can use: users and delegation tokens.
#[derive(Clone, Copy)]
pub(in crate::broker) struct Users<'a> {
    pub credentials: &'a Credentials,
    pub tokens: &'a Tokens,
}

/// All users, by the number of the mechanism.
#[derive(Default)]
pub(in crate::broker) struct Credentials(BTreeMap<(i8, String), Secret>);

/// The output does not contain passwords.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl Credentials {
    /// Returns the users that were configured with passwords.
    pub fn new(users: &BTreeMap<String, BTreeMap<String, String>>) -> Self {
        let of = |(name, number): (&str, i8)| {
            let users = users.get(name).into_iter().flatten();
            users.map(move |(user, password)| ((number, user.clone()), Secret::Password(password.clone())))
        };
        Self([("SCRAM-SHA-256", SCRAM_SHA_256), ("SCRAM-SHA-512", SCRAM_SHA_512)].into_iter().flat_map(of).collect())
    }

    pub fn get(&self, mechanism: i8, user: &str) -> Option<&Secret> {
        self.0.get(&(mechanism, user.to_owned()))
    }

    pub fn set(&mut self, mechanism: i8, user: &str, secret: Secret) {
        self.0.insert((mechanism, user.to_owned()), secret);
    }

    /// Removes a user. Returns false if the user did not exist.
    pub fn remove(&mut self, mechanism: i8, user: &str) -> bool {
        self.0.remove(&(mechanism, user.to_owned())).is_some()
    }

    pub fn users(&self) -> BTreeSet<&str> {
        self.0.keys().map(|(_, user)| user.as_str()).collect()
    }

    /// Returns the mechanisms of a user and their iterations.
    pub fn of(&self, user: &str) -> impl Iterator<Item = (i8, u32)> {
        self.0
            .iter()
            .filter(move |((_, name), _)| name == user)
            .map(|((number, _), secret)| (*number, secret.iterations()))
    }
}
