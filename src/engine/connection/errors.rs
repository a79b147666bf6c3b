//! Errors of a connection whose peer may not be a Kafka broker, or may not speak the expected protocol.

use super::{Connection, ConnectionState};
use crate::engine::{Error, ErrorKind};
use crate::frame::BadLength;

impl<T> Connection<T> {
    /// Returns the error for received bytes that are not a frame.
    pub(super) fn not_kafka(&self, bad: BadLength) -> Error {
        if self.state == ConnectionState::Ready {
            // The peer spoke Kafka's protocol before, so the stream is damaged. Another connection may work.
            return Error::new(ErrorKind::Network, format!("the broker's response is damaged: {bad}"));
        }
        // Like a broker that is down: another address, or a corrected proxy, may lead to a broker.
        let error = |message: String| Error::new(ErrorKind::Network, message);
        match bad.found {
            [b'H', b'T', b'T', b'P'] => error("the server speaks HTTP, not Kafka's protocol".to_owned())
                .with_hint("check the port: this is an HTTP server"),
            [0x15 | 0x16, 3, ..] => error("the server speaks TLS, and the client does not use TLS".to_owned())
                .with_hint("set security.protocol to SSL or SASL_SSL, or use the plaintext port"),
            _ => error(format!("the server does not speak Kafka's protocol: {bad}"))
                .with_hint("check that host and port are those of a Kafka broker"),
        }
    }

    /// Returns the error for a connection that the peer closed in the connection's current state.
    pub fn closed_by_peer(&self) -> Error {
        match (&self.state, &self.login) {
            (ConnectionState::Negotiating | ConnectionState::Probing(_), _) => {
                Error::new(ErrorKind::Network, "connection closed during ApiVersions negotiation").with_hint(
                    if self.login_config.is_some() {
                        "is this a TLS listener (security.protocol=SASL_SSL), or a broker before 0.10?"
                    } else {
                        "is this a TLS listener (security.protocol=SSL or SASL_SSL)?"
                    },
                )
            }
            (ConnectionState::Authenticating, Some(login)) => login.closed_by_peer(),
            (ConnectionState::Ready, _) if self.login_config.is_none() && !self.has_answered => {
                Error::new(ErrorKind::Network, "connection closed by the broker at the first request")
                    .with_hint("does this listener require SASL (security.protocol=SASL_PLAINTEXT or SASL_SSL)?")
            }
            _ => Error::new(ErrorKind::Network, "connection closed by the broker"),
        }
    }
}
