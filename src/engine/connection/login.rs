//! Authenticates a connection with SASL: starts logins, exchanges their messages with the broker, and accepts new
//! credentials.

use super::{Connection, ConnectionState, ConnectionTimer, InFlight, LoginConfig, Owner};
use crate::api::sasl_authenticate;
use crate::engine::call::Reply;
use crate::engine::sasl::{Credentials, Login, Message, gssapi};
use crate::engine::{Error, ErrorKind, Time};
use bytes::Bytes;
use std::sync::Arc;

impl<T> Connection<T> {
    /// Starts a login, either the first login or a renewal.
    pub(super) fn log_in(&mut self, now: Time, deadline: Time) -> Result<(), Error> {
        let Some(LoginConfig { credentials, nonces, .. }) = &mut self.login_config else { return Ok(()) };
        if !credentials.is_valid(now) {
            return Err(Error::new(ErrorKind::NoToken, "the OAUTHBEARER token expired before the login"));
        }
        let (login, message) = Login::start(credentials.clone(), &nonces.next(), &self.versions, self.was_ready)?;
        self.login = Some(login);
        self.timers.stop(ConnectionTimer::Renewal);
        self.state = ConnectionState::Authenticating;
        self.say(message, deadline)
    }

    fn say(&mut self, message: Message, deadline: Time) -> Result<(), Error> {
        match message {
            Message::Handshake(request, version) => self.ask(&request, version, deadline),
            Message::Authenticate(request, version) => self.ask(&request, version, deadline),
            Message::Bare(token) => {
                let length = u32::try_from(token.len()).unwrap_or(u32::MAX).to_be_bytes();
                self.outbox.extend([Bytes::copy_from_slice(&length), token]);
                let (api, owner) = (&sasl_authenticate::API, Owner::ConnectionBare);
                let (version, sent_at) = (0, self.used_at);
                self.in_flight.push_back(InFlight {
                    correlation_id: 0,
                    api,
                    version,
                    sent_at,
                    deadline,
                    size: 0,
                    owner,
                });
                Ok(())
            }
            Message::Ask(call) => {
                self.library_call = Some(call);
                self.timers.set(ConnectionTimer::Kerberos, deadline);
                Ok(())
            }
        }
    }

    fn login(&mut self) -> Result<&mut Login, Error> {
        self.login.as_mut().ok_or_else(|| {
            Error::new(ErrorKind::Network, "unexpected SASL response: authentication has already completed")
        })
    }

    pub(super) fn handle_handshake(&mut self, deadline: Time, reply: Reply) -> Result<(), Error> {
        let message = self.login()?.handle_handshake(reply.decode()?)?;
        self.say(message, deadline)
    }

    pub(super) fn handle_authenticate(&mut self, now: Time, deadline: Time, reply: Reply) -> Result<(), Error> {
        match self.login()?.handle_authenticate(reply.decode()?)? {
            Ok(message) => self.say(message, deadline),
            Err(session) => {
                self.be_ready(now, deadline, session);
                Ok(())
            }
        }
    }

    pub(super) fn handle_bare(&mut self, now: Time, deadline: Time, token: &[u8]) -> Result<(), Error> {
        match self.login()?.handle_token(token)? {
            Some(message) => self.say(message, deadline),
            None => {
                self.be_ready(now, deadline, None);
                Ok(())
            }
        }
    }

    /// Returns a call to the Kerberos library, for [`Connection::handle_library_result`].
    pub fn poll_library_call(&mut self) -> Option<gssapi::LibraryCall> {
        self.library_call.take()
    }

    /// Handles the result of a call to the Kerberos library. After an error, the caller has to close the connection.
    pub fn handle_library_result(&mut self, result: Result<gssapi::LibraryResult, Error>) -> Result<(), Error> {
        let Some(deadline) = self.timers.get(ConnectionTimer::Kerberos) else { return Ok(()) };
        self.timers.stop(ConnectionTimer::Kerberos);
        let message = self.login()?.handle_library_result(result?)?;
        self.say(message, deadline)
    }

    /// Replaces the credentials for the next login, and starts a renewal that waited for new credentials.
    pub fn set_credentials(&mut self, now: Time, credentials: &Arc<Credentials>) {
        let Some(login_config) = &mut self.login_config else { return };
        login_config.credentials = credentials.clone();
        if self.timers.get(ConnectionTimer::Renewal) == Some(Time::NEVER) && credentials.is_valid(now) {
            self.timers.set(ConnectionTimer::Renewal, now);
        }
    }

    /// Returns the credentials of a login that is in progress.
    pub fn logs_in_with(&self) -> Option<&Arc<Credentials>> {
        let login_config = self.login_config.as_ref().filter(|_| self.state == ConnectionState::Authenticating);
        login_config.map(|login_config| &login_config.credentials)
    }
}
