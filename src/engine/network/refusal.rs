//! What a network does when brokers do not let the client in, and while there is nothing to get in with: who waits for
//! that hears of it at once.

use super::{Action, ConnectionId, Network, NetworkConfig, PeerId};
use crate::engine::peer::{Link, Peer};
use crate::engine::sasl::{self, Credentials, gssapi};
use crate::engine::{ClientResponse, Error, ErrorKind, Time};
use std::sync::Arc;
use std::time::Duration;

/// How long a peer that refused the client is left alone: a loop over refused calls must not become an attack that locks
/// the account.
pub(super) const REFUSED_WAIT: Duration = Duration::from_secs(5);

impl NetworkConfig {
    /// What is known of the brokers until one of them, or every attempt to reach one, says more.
    pub fn nobody_yet(&self) -> Error {
        let list: Vec<String> = self.bootstrap.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        Error::new(ErrorKind::Timeout, format!("no broker of bootstrap.servers has answered yet ({})", list.join(", ")))
            .with_hint("check that they run, that these are their addresses, and that the network leads there")
    }
}

impl Network {
    /// If nobody is left who might let the client in, whatever waits for somebody is over.
    pub(super) fn fail_if_refused(&mut self) {
        if !self.peers.values().any(|p| p.error.as_ref().is_some_and(is_refusal)) {
            return;
        }
        self.note_unreachable();
        if let Some(error) = self.unreachable.clone().filter(is_refusal) {
            self.fail_waiting(&error);
        }
        let again = self.peers.values().filter_map(|p| match p.link {
            Link::Waiting(until) => Some(until),
            _ => None,
        });
        let again = again.min();
        self.refresh_at = self.refresh_at.and(again);
        self.ids_at = again.unwrap_or(self.ids_at);
    }

    /// Ends whatever waits for a connection.
    pub(super) fn fail_waiting(&mut self, error: &Error) {
        let queued = self.peers.values_mut().filter(|p| !matches!(p.link, Link::Up(..)));
        let queued = queued.flat_map(|p| std::mem::take(&mut p.queue));
        let failed = std::mem::take(&mut self.waiting).into_iter().chain(queued);
        self.answers.extend(failed.map(|o| ClientResponse { token: o.token, node: -1, result: Err(error.clone()) }));
    }

    pub(super) fn is_complete(&self) -> bool {
        self.config.credentials.as_ref().is_none_or(|c| c.is_complete())
    }

    /// Takes in a token to log in with from now on, or why there is none.
    pub fn handle_token(&mut self, now: Time, token: Result<sasl::BearerToken, Error>) {
        match token {
            Ok(token) => {
                let credentials = Arc::new(Credentials::Bearer(Some(Arc::new(token))));
                self.config.credentials = Some(credentials.clone());
                self.no_token = None;
                for peer in self.peers.values_mut() {
                    if let Link::Up(_, c) = &mut peer.link {
                        c.set_credentials(&credentials);
                    }
                }
                let wanted = |p: &Peer| matches!(p.link, Link::Idle) && !p.queue.is_empty();
                let wanted: Vec<PeerId> = self.peers.iter().filter(|(_, p)| wanted(p)).map(|(id, _)| *id).collect();
                for id in wanted {
                    self.connect(now, id);
                }
                if !self.waiting.is_empty() || self.asks_at().is_some() {
                    self.reach_somebody(now);
                }
            }
            // The one before may still do.
            Err(_) if self.is_complete() => {}
            Err(error) => {
                self.fail_waiting(&error);
                self.unreachable = Some(error.clone());
                self.no_token = Some(error);
            }
        }
    }

    /// A question that a login has for somebody outside: on which connection, and about which host.
    pub fn poll_question(&mut self) -> Option<(ConnectionId, String, gssapi::Question)> {
        if !matches!(self.config.credentials.as_deref(), Some(Credentials::Gssapi)) {
            return None;
        }
        self.peers.values_mut().find_map(|peer| match &mut peer.link {
            Link::Up(connection, c) => c.poll_question().map(|question| (*connection, peer.host.clone(), question)),
            _ => None,
        })
    }

    /// Takes in the answer.
    pub fn handle_gssapi_answer(&mut self, now: Time, connection: ConnectionId, answer: Result<gssapi::Answer, Error>) {
        let Some(id) = self.connections.get(&connection).copied() else { return };
        let Some(c) = self.up(connection) else { return };
        let result = c.handle_gssapi_answer(answer);
        let said: Vec<_> = std::iter::from_fn(|| c.poll_send()).collect();
        self.actions.extend(said.into_iter().map(|bytes| Action::Send(connection, bytes)));
        if let Err(error) = result {
            self.actions.push_back(Action::Close(connection));
            self.lose(now, id, &error);
        }
    }

    /// If every peer failed, says so once for this round of attempts.
    pub(super) fn note_unreachable(&mut self) {
        let needed = |(id, p): (&PeerId, _)| (!id.is_apart()).then_some(p);
        if self.peers.iter().filter_map(needed).any(|p: &Peer| p.error.is_none()) {
            return;
        }
        let mut errors: Vec<&Error> = self.peers.iter().filter_map(needed).filter_map(|p| p.error.as_ref()).collect();
        errors.dedup_by_key(|e| e.to_string());
        let Some(first) = errors.iter().find(|e| is_refusal(e)).or(errors.first()) else { return };
        // Brokers of a cluster mostly fail alike.
        let mut list: Vec<(&str, Vec<&str>)> = Vec::new();
        for error in &errors {
            let broker = error.broker().unwrap_or_default();
            match list.iter_mut().find(|(message, _)| *message == error.message()) {
                Some((_, brokers)) => brokers.push(broker),
                None => list.push((error.message(), vec![broker])),
            }
        }
        let list: Vec<String> = list.iter().map(|(why, brokers)| format!("{why} ({})", brokers.join(", "))).collect();
        let error = Error::new(first.kind(), format!("no broker can be reached: {}", list.join(", ")));
        self.unreachable = Some(match first.hint() {
            Some(hint) => error.with_hint(hint),
            None => error,
        });
    }
}

/// Whether the same attempt would only be refused again.
pub(super) fn is_refusal(error: &Error) -> bool {
    error.kind() == ErrorKind::Authentication
}
