//! Handles authentication that fails or lacks a token: requests that wait for a connection fail at once.

use super::peer::{Link, Peer, PeerId, is_refusal};
use super::{Action, Network, NetworkConfig};
use crate::engine::sasl::{self, Credentials, gssapi};
use crate::engine::{ClientResponse, ConnectionId, Error, ErrorKind, Time};
use std::sync::Arc;

impl NetworkConfig {
    /// Returns the error for a call that times out before any broker has responded or failed.
    pub fn no_response_yet(&self) -> Error {
        let list: Vec<String> = self.bootstrap.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        Error::new(
            ErrorKind::Timeout,
            format!("no broker of bootstrap.servers has responded yet ({})", list.join(", ")),
        )
        .with_hint("check that the brokers run, and that these addresses are right and reachable")
    }
}

impl Network {
    /// Fails all waiting requests if brokers refused the client and no other broker is left to try.
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

    /// Fails all requests that wait for a connection.
    pub(super) fn fail_waiting(&mut self, error: &Error) {
        let queued = self.peers.values_mut().filter(|p| !matches!(p.link, Link::Up(..)));
        let queued = queued.flat_map(|p| std::mem::take(&mut p.queue));
        let failed = std::mem::take(&mut self.waiting).into_iter().chain(queued);
        self.responses.extend(failed.map(|o| ClientResponse { token: o.token, node: -1, result: Err(error.clone()) }));
    }

    pub(super) fn is_complete(&self) -> bool {
        self.config.credentials.as_ref().is_none_or(|c| c.is_complete())
    }

    /// Takes in the bearer token for the next logins, or why there is none.
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
                if !self.waiting.is_empty() || self.metadata_due_at().is_some() {
                    self.reach_any(now);
                }
            }
            // The previous token may still be valid.
            Err(_) if self.is_complete() => {}
            Err(error) => {
                self.fail_waiting(&error);
                self.unreachable = Some(error.clone());
                self.no_token = Some(error);
            }
        }
    }

    /// Returns a call that a login needs from the Kerberos library, with its connection and the broker's host.
    pub fn poll_library_call(&mut self) -> Option<(ConnectionId, String, gssapi::LibraryCall)> {
        if !matches!(self.config.credentials.as_deref(), Some(Credentials::Gssapi)) {
            return None;
        }
        self.peers.values_mut().find_map(|peer| match &mut peer.link {
            Link::Up(connection, c) => c.poll_library_call().map(|call| (*connection, peer.host.clone(), call)),
            _ => None,
        })
    }

    /// Takes in the result of that call.
    pub fn handle_library_result(
        &mut self,
        now: Time,
        connection: ConnectionId,
        result: Result<gssapi::LibraryResult, Error>,
    ) {
        let Some(id) = self.connections.get(&connection).copied() else { return };
        let Some(c) = self.up(connection) else { return };
        let result = c.handle_library_result(result);
        let said: Vec<_> = std::iter::from_fn(|| c.poll_send()).collect();
        self.actions.extend(said.into_iter().map(|bytes| Action::Send(connection, bytes)));
        if let Err(error) = result {
            self.actions.push_back(Action::Close(connection));
            self.lose(now, id, &error);
        }
    }

    /// Notes the errors if every peer has failed, once for each round of attempts.
    pub(super) fn note_unreachable(&mut self) {
        let needed = |(id, p): (&PeerId, _)| (!id.is_apart()).then_some(p);
        if self.peers.iter().filter_map(needed).any(|p: &Peer| p.error.is_none()) {
            return;
        }
        let mut errors: Vec<&Error> = self.peers.iter().filter_map(needed).filter_map(|p| p.error.as_ref()).collect();
        errors.dedup_by_key(|e| e.to_string());
        let Some(first) = errors.iter().find(|e| is_refusal(e)).or(errors.first()) else { return };
        // Brokers of a cluster mostly fail with the same error.
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
