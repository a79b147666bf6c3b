//! SASL authentication: the users of each mechanism, and the login state of each connection.
//!
//! The broker's code for SASL messages is separate from the client's code. Tests can therefore detect a mistake in
//! either implementation. The broker supports PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER with unsigned tokens
//! (Kafka's default for development). Clients with a [delegation token](super::tokens) authenticate with SCRAM. The
//! [`authorizer`](super::authorizer) decides which operations a user may perform.

mod bearer;
mod credentials;
mod mechanism;
mod plain;
mod scram;

pub(super) use credentials::{Credentials, Secret, Users};

use super::Connection;
use super::Time;
use super::clock::Clock;
use crate::api::ErrorCode;
use mechanism::MechanismResult;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

/// The supported mechanisms, as SaslHandshake names them.
pub const MECHANISMS: [&str; 4] = ["OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];

/// The shortest time between two starts of an authentication on an authenticated connection, as in Kafka.
const MIN_RENEWAL_INTERVAL: Duration = Duration::from_secs(1);

/// SASL settings: the users, and how long a login lasts.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sasl {
    /// Passwords by mechanism and user. OAUTHBEARER accepts the tokens of any user.
    pub users: BTreeMap<String, BTreeMap<String, String>>,
    /// Time after which a connection must authenticate again: Kafka's `connections.max.reauth.ms`.
    pub max_reauth: Option<Duration>,
}

/// The output does not contain passwords.
impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.users.keys()).finish()
    }
}

/// The exchange of a mechanism.
enum Exchange {
    Plain,
    Scram(scram::Server),
    Bearer(bearer::Server),
}

/// The login state of a connection.
#[derive(Default)]
struct Login {
    exchange: Option<Exchange>,
    /// Whether tokens arrive without a SaslAuthenticate header.
    is_raw: bool,
    user: Option<String>,
    /// Whether the user logged in with a delegation token.
    has_token: bool,
    session_expires_at: Option<Time>,
    /// When the client last started to authenticate again.
    renewed_at: Option<Time>,
    has_failed: bool,
}

/// The authenticator, which knows which connections have logged in.
pub(in crate::broker) struct Authenticator {
    sasl: Sasl,
    logins: HashMap<Connection, Login>,
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authenticator({:?})", self.sasl)
    }
}

pub(in crate::broker) struct SaslReply {
    pub message: Vec<u8>,
    pub session_ms: i64,
}

impl Authenticator {
    pub fn new(sasl: Sasl) -> Self {
        Self { sasl, logins: HashMap::new() }
    }

    pub fn mechanisms(&self) -> Vec<String> {
        self.sasl.users.keys().cloned().collect()
    }

    /// Returns whether a connection may send any request.
    pub fn is_authenticated(&self, connection: Connection, now: Time) -> bool {
        let login = self.logins.get(&connection);
        login.is_some_and(|l| {
            l.exchange.is_none() && l.user.is_some() && l.session_expires_at.is_none_or(|expiry| now < expiry)
        })
    }

    pub fn user(&self, connection: Connection) -> Option<&str> {
        self.logins.get(&connection)?.user.as_deref()
    }

    /// Returns whether a connection has logged in with a delegation token.
    pub fn has_token(&self, connection: Connection) -> bool {
        self.logins.get(&connection).is_some_and(|l| l.has_token)
    }

    /// Returns whether the next frame of a connection is a token without a header.
    pub fn expects_raw_token(&self, connection: Connection) -> bool {
        self.logins.get(&connection).is_some_and(|l| l.is_raw && l.exchange.is_some())
    }

    /// Returns whether authentication failed on a connection.
    pub fn has_failed(&self, connection: Connection) -> bool {
        self.logins.get(&connection).is_some_and(|l| l.has_failed)
    }

    pub fn disconnect(&mut self, connection: Connection) {
        self.logins.remove(&connection);
    }

    /// Starts the mechanism that a client chose. Returns an error if the mechanism is not enabled, or if the client is
    /// authenticated and may not authenticate again now. As in Kafka, an authenticated connection then continues.
    pub fn begin(&mut self, now: Time, connection: Connection, mechanism: &str, is_raw: bool) -> Result<(), ErrorCode> {
        let login = self.logins.entry(connection).or_default();
        if login.user.is_some() {
            let is_early = login.renewed_at.is_some_and(|at| now < at.saturating_add(MIN_RENEWAL_INTERVAL));
            if is_early || login.session_expires_at.is_none() {
                return Err(ErrorCode::ILLEGAL_SASL_STATE);
            }
            login.renewed_at = Some(now);
        }
        if !self.sasl.users.contains_key(mechanism) {
            login.has_failed = true;
            return Err(ErrorCode::UNSUPPORTED_SASL_MECHANISM);
        }
        login.is_raw = is_raw;
        login.exchange = Some(match mechanism {
            "PLAIN" => Exchange::Plain,
            "OAUTHBEARER" => Exchange::Bearer(bearer::Server::default()),
            _ => Exchange::Scram(scram::Server::new(mechanism == "SCRAM-SHA-512")),
        });
        Ok(())
    }

    /// Handles a client's token. Returns `None` if no exchange is in progress. The error is a message. `random`
    /// generates nonces.
    pub fn handle_token(
        &mut self,
        clock: Clock,
        connection: Connection,
        token: &[u8],
        users: Users<'_>,
        random: impl FnMut() -> u64,
    ) -> Option<Result<SaslReply, String>> {
        let login = self.logins.get_mut(&connection)?;
        let result = match login.exchange.as_mut()? {
            Exchange::Plain => plain::authenticate(token, self.sasl.users.get("PLAIN")),
            Exchange::Scram(server) => server.handle_message(token, users, random),
            Exchange::Bearer(server) => server.handle_message(token, clock.wall_ms),
        };
        let (message, user, until_ms) = match result {
            MechanismResult::Challenge(message) => return Some(Ok(SaslReply { message, session_ms: 0 })),
            MechanismResult::Failure(why) => {
                login.has_failed = true;
                return Some(Err(why));
            }
            MechanismResult::Success { message, user, until_ms } => (message, user, until_ms),
        };
        if login.user.as_ref().is_some_and(|authenticated| *authenticated != user) {
            login.has_failed = true;
            return Some(Err("Cannot change principals during re-authentication".to_owned()));
        }
        let token_lifetime = until_ms.map(|ms| Duration::from_millis(u64::try_from(ms - clock.wall_ms).unwrap_or(0)));
        let session = self.sasl.max_reauth.into_iter().chain(token_lifetime).min();
        login.has_token = matches!(&login.exchange, Some(Exchange::Scram(server)) if server.has_token());
        login.exchange = None;
        login.user = Some(user);
        login.session_expires_at = session.map(|session| clock.now.saturating_add(session));
        let session_ms = session.map_or(0, |session| i64::try_from(session.as_millis()).unwrap_or(i64::MAX));
        Some(Ok(SaslReply { message, session_ms }))
    }
}
