//! Handles failed authentication and missing OAuth tokens. If a broker rejects the authentication and no other broker
//! is left to try, waiting requests fail at once. If the token is missing, requests wait for it until their deadline.

use super::peer::{Link, Peer, PeerId};
use super::{Action, Network, NetworkConfig};
use crate::api::ErrorCode;
use crate::engine::sasl::{self, Credentials, gssapi};
use crate::engine::{ClientResponse, ConnectionId, Error, ErrorKind, Time, address};
use std::sync::Arc;

impl NetworkConfig {
    /// Returns the error for a call that times out before any broker has responded or failed.
    pub fn no_response_yet(&self) -> Error {
        let list: Vec<String> = self.bootstrap.iter().map(|(host, port)| address(host, *port)).collect();
        let node = self.endpoints.node();
        Error::new(
            ErrorKind::Timeout,
            format!("no {node} of {} has responded yet ({})", self.endpoints.key(), list.join(", ")),
        )
        .with_hint(format!("check that the {node}s run, and that these addresses are right and reachable"))
    }
}

impl Network {
    /// Fails all waiting requests if a peer failed with an error for which [`Error::is_refusal`] holds, and no other
    /// peer is left to try.
    pub(super) fn fail_if_refused(&mut self) {
        if !self.peers.values().any(|p| p.error.as_ref().is_some_and(Error::is_refusal)) {
            return;
        }
        self.note_unreachable();
        if let Some(error) = self.unreachable.clone().filter(Error::is_refusal) {
            self.fail_waiting(&error);
        }
        let retry_times = self.peers.values().filter_map(|p| match p.link {
            Link::Waiting(until) => Some(until),
            _ => None,
        });
        let retry_at = retry_times.min();
        self.refresh_at = self.refresh_at.and(retry_at);
        self.creation.at = self.creation.at.and(retry_at);
        self.topic_ids_due_at = retry_at.unwrap_or(self.topic_ids_due_at);
    }

    /// Fails all requests that wait for a connection.
    pub(super) fn fail_waiting(&mut self, error: &Error) {
        let queued = self.peers.values_mut().filter(|p| !matches!(p.link, Link::Up(..)));
        let queued = queued.flat_map(|p| std::mem::take(&mut p.queue));
        let failed = std::mem::take(&mut self.waiting).into_iter().chain(queued);
        self.responses.extend(failed.map(|o| ClientResponse { token: o.token, node: -1, result: Err(error.clone()) }));
    }

    /// Returns the error of a login that cannot start because the client has no valid token.
    pub(super) fn missing_token(&self, now: Time) -> Option<Error> {
        let credentials = self.config.credentials.as_deref().filter(|c| !c.is_valid(now))?;
        let message = match credentials {
            Credentials::Bearer(Some(_)) => "the OAUTHBEARER token expired, and there is no new one yet",
            _ => "there is no token to authenticate with yet",
        };
        let error = || {
            let hint = "sasl.oauth.token.provider, or the token endpoint, has not responded";
            Error::new(ErrorKind::NoToken, message).with_hint(hint)
        };
        Some(self.no_token.clone().unwrap_or_else(error))
    }

    /// Handles the bearer token for the next logins, or the error of the token provider.
    pub fn handle_token(&mut self, now: Time, token: Result<sasl::BearerToken, Error>) {
        let token = match token {
            Ok(token) => token,
            Err(error) => {
                self.no_token = Some(error);
                // The previous token may still be valid.
                if let Some(error) = self.missing_token(now) {
                    self.unreachable = Some(error);
                }
                return;
            }
        };
        self.no_token = None;
        self.set_credentials(now, Some(Arc::new(token)));
        let has_waiting_requests = |p: &Peer| matches!(p.link, Link::Idle) && !p.queue.is_empty();
        let mut waiting = Vec::new();
        for (id, peer) in &mut self.peers {
            if matches!(peer.link, Link::Waiting(_)) && peer.error.as_ref().is_some_and(Error::is_refusal) {
                // The broker refused another token.
                peer.link = Link::Idle;
            }
            waiting.extend(has_waiting_requests(peer).then_some(*id));
        }
        for id in waiting {
            self.connect(now, id);
        }
        if !self.waiting.is_empty() || self.metadata_due_at().is_some() {
            self.connect_any(now);
        }
    }

    fn set_credentials(&mut self, now: Time, token: Option<Arc<sasl::BearerToken>>) {
        let credentials = Arc::new(Credentials::Bearer(token));
        self.config.credentials = Some(credentials.clone());
        for peer in self.peers.values_mut() {
            if let Link::Up(_, c) = &mut peer.link {
                c.set_credentials(now, &credentials);
            }
        }
    }

    /// Handles a rejected bearer token: demands another token, and lets requests wait for it. Returns false for any
    /// other error. Also returns false if brokers already rejected the previous token, because they will probably
    /// reject the next token.
    pub(super) fn handle_refused_token(&mut self, now: Time, id: PeerId, error: &Error) -> bool {
        let Some(Peer { link: Link::Up(_, c), .. }) = self.peers.get(&id) else { return false };
        let is_of_token = matches!(error.code(), None | Some(ErrorCode::SASL_AUTHENTICATION_FAILED));
        let Some(used) = c.logs_in_with().filter(|c| c.mechanism() == "OAUTHBEARER").cloned() else { return false };
        if !error.is_refusal() || !is_of_token {
            return false;
        }
        let retriable = error.clone().as_kind(ErrorKind::NoToken);
        // A newer token may have arrived during the login.
        if self.config.credentials.as_ref().is_some_and(|current| Arc::ptr_eq(current, &used)) {
            self.refused_tokens += 1;
            self.demands_token = true;
            self.no_token = Some(retriable.clone());
            self.set_credentials(now, None);
            if self.refused_tokens > 1 {
                return false;
            }
        }
        let queue = self.peers.get_mut(&id).map(|peer| std::mem::take(&mut peer.queue));
        self.fail_peer(now, id, &retriable);
        if let (Some(peer), Some(queue)) = (self.peers.get_mut(&id), queue) {
            peer.queue = queue;
        }
        true
    }

    /// Returns whether the client needs another token from the token provider, because a broker rejected the last
    /// token.
    pub fn poll_token_demand(&mut self) -> bool {
        std::mem::take(&mut self.demands_token)
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

    /// Handles the result of a call to the Kerberos library.
    pub fn handle_library_result(
        &mut self,
        now: Time,
        connection: ConnectionId,
        result: Result<gssapi::LibraryResult, Error>,
    ) {
        let Some(id) = self.connections.get(&connection).copied() else { return };
        let Some(c) = self.up(connection) else { return };
        let result = c.handle_library_result(result);
        let packets: Vec<_> = std::iter::from_fn(|| c.poll_send()).collect();
        self.actions.extend(packets.into_iter().map(|bytes| Action::Send(connection, bytes)));
        if let Err(error) = result {
            self.actions.push_back(Action::Close(connection));
            self.fail_peer(now, id, &error);
        }
    }

    /// If every peer has failed, notes the errors of the peers. Each round of attempts notes them once.
    pub(super) fn note_unreachable(&mut self) {
        let needed = |(id, p): (&PeerId, _)| (!id.is_dedicated()).then_some(p);
        if self.peers.iter().filter_map(needed).any(|p: &Peer| p.error.is_none()) {
            return;
        }
        let mut errors: Vec<&Error> = self.peers.iter().filter_map(needed).filter_map(|p| p.error.as_ref()).collect();
        errors.dedup_by_key(|e| e.to_string());
        // A node of the right type may be up again soon.
        let other = errors.iter().filter(|e| e.kind() != ErrorKind::WrongEndpoint);
        let first = other.clone().find(|e| e.is_refusal()).or(other.clone().next()).or(errors.first());
        let Some(first) = first else { return };
        let node = self.config.endpoints.node();
        // Brokers of a cluster mostly fail with the same error.
        let mut list: Vec<(&str, Vec<&str>)> = Vec::new();
        for error in &errors {
            let broker = error.broker().unwrap_or_default();
            match list.iter_mut().find(|(message, _)| *message == error.message()) {
                Some((_, brokers)) if brokers.contains(&broker) => {}
                Some((_, brokers)) => brokers.push(broker),
                None => list.push((error.message(), vec![broker])),
            }
        }
        let error = match &list[..] {
            [(why, brokers)] => {
                let error = Error::new(first.kind(), format!("no {node} can be reached: {why}"));
                let id = first.node().filter(|_| brokers.len() == 1).unwrap_or(-1);
                error.from_broker(brokers.join(", ")).of_node(id)
            }
            _ => {
                let each = list.iter().map(|(why, brokers)| format!("{why} ({})", brokers.join(", ")));
                let each: Vec<String> = each.collect();
                Error::new(first.kind(), format!("no {node} can be reached: {}", each.join(", ")))
            }
        };
        self.unreachable = Some(match first.hint() {
            Some(hint) => error.with_hint(hint),
            None => error,
        });
    }
}
