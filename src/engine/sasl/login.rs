//! The SASL authentication of a connection: SaslHandshake names the mechanism, then client and broker exchange SASL
//! messages.
//!
//! After SaslHandshake v0 (Kafka 0.10), each SASL message has a length prefix but no request header. A broker that
//! rejects such a message closes the connection. After SaslHandshake v1 (Kafka 1.0, KIP-152), client and broker send
//! the messages in SaslAuthenticate. The response to SaslAuthenticate has an error message and, from v1 on, the
//! lifetime of the session (KIP-368).

use super::{Credentials, Exchange, Next, gssapi, words};
use crate::api::{ErrorCode, sasl_authenticate, sasl_handshake};
use crate::engine::{Error, ErrorKind};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The next step of a connection during a login.
#[derive(Debug, PartialEq)]
pub enum Message {
    Handshake(sasl_handshake::Request, i16),
    Authenticate(sasl_authenticate::Request, i16),
    /// Send a token with its length and without a header.
    Bare(Bytes),
    /// Wait for the result of a call to the Kerberos library.
    Ask(gssapi::LibraryCall),
}

/// A login that is in progress.
pub struct Login {
    credentials: Arc<Credentials>,
    exchange: Exchange,
    /// The client's first message, until the broker has accepted the mechanism and the client sends the message.
    first: Option<Next>,
    /// The version of SaslAuthenticate, or `None` for tokens without a header.
    version: Option<i16>,
    /// Whether the login renews the session of a connection.
    is_renewal: bool,
}

impl Login {
    /// Starts a login with SaslHandshake, in a version that the broker supports.
    pub fn start(
        credentials: Arc<Credentials>,
        nonce: &str,
        versions: &BTreeMap<i16, (i16, i16)>,
        is_renewal: bool,
    ) -> Result<(Self, Message), Error> {
        let (first, exchange) = credentials.start(nonce)?;
        let newest = |api: &crate::api::Info| versions.get(&api.key).map(|(_, high)| (*high).min(api.max_stable));
        let authenticate = newest(&sasl_authenticate::API);
        let Some(handshake) = newest(&sasl_handshake::API) else {
            let error = Error::new(ErrorKind::Authentication, "the broker does not support SASL");
            return Err(error.with_hint("set security.protocol to PLAINTEXT or SSL, or upgrade the broker to 0.10"));
        };
        let version = authenticate.filter(|_| handshake > 0);
        let request = sasl_handshake::Request { mechanism: credentials.mechanism().to_owned() };
        let message = Message::Handshake(request, if version.is_some() { handshake } else { 0 });
        Ok((Self { credentials, exchange, first: Some(first), version, is_renewal }, message))
    }

    /// Handles the response to SaslHandshake.
    pub fn handle_handshake(&mut self, response: sasl_handshake::Response) -> Result<Message, Error> {
        match response.error_code {
            ErrorCode::NONE => match self.first.take() {
                Some(first) => Ok(self.message(first)),
                None => Err(Error::new(ErrorKind::Network, "unexpected second response to SaslHandshake")),
            },
            ErrorCode::UNSUPPORTED_SASL_MECHANISM => {
                let offered = words(&response.mechanisms.join(", "));
                let error =
                    Error::refused(response.error_code, format!("SASL handshake for {}", self.credentials.mechanism()));
                Err(error.with_hint(format!("set sasl.mechanism to one that the broker supports: {offered}")))
            }
            ErrorCode::ILLEGAL_SASL_STATE if self.is_renewal => {
                // The credentials may still be valid, and a new connection shows whether they are.
                let error = Error::refused(response.error_code, "renewal of the SASL session");
                Err(error.as_kind(ErrorKind::Network).with_hint("the client connects and authenticates again"))
            }
            ErrorCode::ILLEGAL_SASL_STATE => {
                let error = Error::refused(response.error_code, "SASL handshake");
                Err(error.with_hint(
                    "this listener does not use SASL: set security.protocol to PLAINTEXT or SSL, or use another port",
                ))
            }
            code => Err(Error::refused(code, "SASL handshake")),
        }
    }

    /// Handles the response to SaslAuthenticate. Returns the next message, or the lifetime of the session if it is
    /// limited.
    pub fn handle_authenticate(
        &mut self,
        response: sasl_authenticate::Response,
    ) -> Result<Result<Message, Option<Duration>>, Error> {
        if response.error_code.is_error() {
            let broker_message = response.error_message.filter(|m| !m.is_empty()).map(|m| words(&m));
            let reasons = [broker_message.as_deref(), self.exchange.refusal()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("; ");
            let tried = format!("authentication with {:?}", self.credentials);
            let tried = if reasons.is_empty() { tried } else { format!("{tried}: {reasons:?}") };
            return Err(self.advise(Error::refused(response.error_code, tried)));
        }
        if let Some(message) = self.handle_token(&response.auth_bytes)? {
            return Ok(Ok(message));
        }
        let lifetime_ms = u64::try_from(response.session_lifetime_ms).ok().filter(|ms| *ms > 0);
        // A session with a delegation token lasts as long as the token. Kafka keeps expired tokens for up to
        // delegation.token.expiry.check.interval.ms, still accepts them, and closes the connection at the next request.
        if let (None, Some(1..), Some(_)) = (lifetime_ms, self.version, self.credentials.token_id()) {
            let error = format!("authentication with {:?}: the token has expired", self.credentials);
            return Err(self.advise(Error::refused(ErrorCode::SASL_AUTHENTICATION_FAILED, error)));
        }
        Ok(Err(lifetime_ms.map(Duration::from_millis)))
    }

    /// Handles a token without a header. Returns `None` at the end of the login.
    pub fn handle_token(&mut self, token: &[u8]) -> Result<Option<Message>, Error> {
        let next = self.exchange.answer(token).map_err(|e| self.advise(e))?;
        Ok(next.map(|next| self.message(next)))
    }

    /// Handles the result of a call to the Kerberos library.
    pub fn handle_library_result(&mut self, result: gssapi::LibraryResult) -> Result<Message, Error> {
        let next = self.exchange.handle_library_result(result).map_err(|e| self.advise(e))?;
        Ok(self.message(next))
    }

    /// Returns the error for a broker that closed the connection during the login.
    pub fn closed_by_peer(&self) -> Error {
        let message = format!("connection closed by the broker during authentication with {:?}", self.credentials);
        if self.version.is_none() && self.first.is_none() {
            // Without SaslAuthenticate, a closed connection is the only sign of failed authentication.
            return self.advise(Error::new(ErrorKind::Authentication, message));
        }
        Error::new(ErrorKind::Network, message).with_hint("check the broker's log for the reason")
    }

    fn message(&self, next: Next) -> Message {
        let token = match next {
            Next::Send(token) => token,
            Next::Ask(question) => return Message::Ask(question),
        };
        match self.version {
            Some(version) => Message::Authenticate(sasl_authenticate::Request { auth_bytes: token.into() }, version),
            None => Message::Bare(token.into()),
        }
    }

    fn advise(&self, error: Error) -> Error {
        if error.hint().is_some() {
            return error;
        }
        let hint = self.credentials.hint(error.code());
        error.with_hint(hint)
    }
}
