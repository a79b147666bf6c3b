//! Who may use the cluster (SASL): users by mechanism, and what is known of each connection that has to log in.
//!
//! The client's side has its own code for the same messages, so that both ends cannot share one misunderstanding. Served
//! are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER with tokens that nobody signed (Kafka's own default for
//! development). There are no delegation tokens. What a user may do is the [`authorizer`](super::authorizer)'s affair.

mod bearer;
mod credentials;
mod scram;

pub(super) use credentials::{Credentials, Secret};

use super::Connection;
use super::Time;
use super::state::Clock;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

/// The mechanisms there are, as SaslHandshake names them.
pub const MECHANISMS: [&str; 4] = ["OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];

/// Who may log in, and for how long.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sasl {
    /// Passwords by user, by mechanism; OAUTHBEARER takes any user's token.
    pub users: BTreeMap<String, BTreeMap<String, String>>,
    /// After what time a connection has to log in again: Kafka's `connections.max.reauth.ms`.
    pub session: Option<Duration>,
}

/// Never the passwords.
impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.users.keys()).finish()
    }
}

/// What a mechanism says to a message of the client.
enum Said {
    /// This, and then the client again.
    Next(Vec<u8>),
    /// This, and the client is who it says it is; a token has an end.
    Welcome { message: Vec<u8>, user: String, until_ms: Option<i64> },
    /// No, with a sentence for a person.
    No(String),
}

/// A mechanism in the middle of an exchange.
enum Exchange {
    Plain,
    Scram(scram::Server),
    Bearer(bearer::Server),
}

/// What is known of a connection.
#[derive(Default)]
struct Login {
    exchange: Option<Exchange>,
    /// Whether tokens come without SaslAuthenticate.
    is_bare: bool,
    user: Option<String>,
    until: Option<Time>,
    is_refused: bool,
}

/// The cluster's door.
pub(in crate::broker) struct Door {
    sasl: Sasl,
    logins: HashMap<Connection, Login>,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Door({:?})", self.sasl)
    }
}

/// What the client is told of its message.
pub(in crate::broker) struct Told {
    pub message: Vec<u8>,
    pub session_ms: i64,
}

impl Door {
    pub fn new(sasl: Sasl) -> Self {
        Self { sasl, logins: HashMap::new() }
    }

    pub fn mechanisms(&self) -> Vec<String> {
        self.sasl.users.keys().cloned().collect()
    }

    /// Whether a connection may ask what it likes.
    pub fn is_open(&self, connection: Connection, now: Time) -> bool {
        let login = self.logins.get(&connection);
        login.is_some_and(|l| l.exchange.is_none() && l.user.is_some() && l.until.is_none_or(|until| now < until))
    }

    /// Who a connection logged in as.
    pub fn user(&self, connection: Connection) -> Option<&str> {
        self.logins.get(&connection)?.user.as_deref()
    }

    /// Whether a connection's next frame is a token without a header.
    pub fn wants_bare_token(&self, connection: Connection) -> bool {
        self.logins.get(&connection).is_some_and(|l| l.is_bare && l.exchange.is_some())
    }

    /// Whether a connection has been told to go.
    pub fn is_refused(&self, connection: Connection) -> bool {
        self.logins.get(&connection).is_some_and(|l| l.is_refused)
    }

    /// A connection is gone.
    pub fn hang_up(&mut self, connection: Connection) {
        self.logins.remove(&connection);
    }

    /// A client chose a mechanism; `false` if there is no such one.
    pub fn begin(&mut self, connection: Connection, mechanism: &str, is_bare: bool) -> bool {
        let login = self.logins.entry(connection).or_default();
        if !self.sasl.users.contains_key(mechanism) {
            login.is_refused = true;
            return false;
        }
        login.is_bare = is_bare;
        login.exchange = Some(match mechanism {
            "PLAIN" => Exchange::Plain,
            "OAUTHBEARER" => Exchange::Bearer(bearer::Server::default()),
            _ => Exchange::Scram(scram::Server::new(mechanism == "SCRAM-SHA-512")),
        });
        true
    }

    /// A client's message; `None` if it has begun nothing, and the error is a sentence. `chance` makes nonces.
    pub fn take(
        &mut self,
        clock: Clock,
        connection: Connection,
        token: &[u8],
        credentials: &Credentials,
        chance: impl FnMut() -> u64,
    ) -> Option<Result<Told, String>> {
        let login = self.logins.get_mut(&connection)?;
        let said = match login.exchange.as_mut()? {
            Exchange::Plain => plain(token, self.sasl.users.get("PLAIN")),
            Exchange::Scram(server) => server.take(token, credentials, chance),
            Exchange::Bearer(server) => server.take(token, clock.wall_ms),
        };
        let (message, user, until_ms) = match said {
            Said::Next(message) => return Some(Ok(Told { message, session_ms: 0 })),
            Said::No(why) => {
                login.is_refused = true;
                return Some(Err(why));
            }
            Said::Welcome { message, user, until_ms } => (message, user, until_ms),
        };
        if login.user.as_ref().is_some_and(|before| *before != user) {
            login.is_refused = true;
            return Some(Err("Cannot change principals during re-authentication".to_owned()));
        }
        let left = until_ms.map(|ms| Duration::from_millis(u64::try_from(ms - clock.wall_ms).unwrap_or(0)));
        let lasts = self.sasl.session.into_iter().chain(left.filter(|_| self.sasl.session.is_some())).min();
        login.exchange = None;
        login.user = Some(user);
        login.until = lasts.map(|lasts| clock.now.saturating_add(lasts));
        let session_ms = lasts.map_or(0, |lasts| i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX));
        Some(Ok(Told { message, session_ms }))
    }
}

/// RFC 4616: who to act as, who that is, and the password, with zero bytes between them.
fn plain(token: &[u8], users: Option<&BTreeMap<String, String>>) -> Said {
    let Ok(text) = std::str::from_utf8(token) else {
        return Said::No("Authentication failed: Invalid SASL/PLAIN response".to_owned());
    };
    match text.split('\0').collect::<Vec<_>>()[..] {
        [act_as, user, password] if !user.is_empty() && !password.is_empty() => {
            let known = users.and_then(|users| users.get(user)).is_some_and(|expected| expected == password);
            if !known {
                return Said::No("Authentication failed: Invalid username or password".to_owned());
            }
            if !act_as.is_empty() && act_as != user {
                return Said::No(
                    "Authentication failed: Client requested an authorization id that is different".to_owned(),
                );
            }
            Said::Welcome { message: Vec::new(), user: user.to_owned(), until_ms: None }
        }
        _ => Said::No("Authentication failed: Invalid SASL/PLAIN response".to_owned()),
    }
}
