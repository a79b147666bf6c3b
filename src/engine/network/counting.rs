//! Counts connections, logins, requests and responses, and reports the state of each connection.

use super::Network;
use super::metrics::{LinkState, NetworkMetrics};
use super::peer::{Link, Peer, PeerId};
use crate::engine::Time;
use std::time::Duration;

impl Network {
    /// Returns the state of the connections to each broker and bootstrap address. The telemetry connection is not
    /// included, because librdkafka's statistics have no entry for it.
    pub fn links(&self) -> Vec<LinkState> {
        let state = |(id, peer): (&PeerId, &Peer)| {
            let (state, in_flight) = match &peer.link {
                Link::Idle => ("INIT", 0),
                Link::Waiting(_) => ("DOWN", 0),
                Link::Connecting(..) => ("CONNECT", 0),
                Link::Up(_, c) if c.is_ready() => ("UP", c.in_flight()),
                Link::Up(_, c) => ("AUTH_REQ", c.in_flight()),
            };
            let (node, host, port, waiting) = (id.node(), peer.host.clone(), peer.port, peer.queue.len());
            LinkState { node, host, port, state, in_flight, waiting, connects: peer.connects }
        };
        self.peers.iter().filter(|(id, _)| **id != PeerId::Telemetry).map(state).collect()
    }

    /// Returns the metrics.
    pub fn metrics(&self) -> &NetworkMetrics {
        &self.metrics
    }

    /// Returns the age of the metadata, or zero before the first metadata.
    pub fn metadata_age(&self, now: Time) -> Duration {
        if self.cluster.brokers.is_empty() { Duration::ZERO } else { now.since(self.cluster.updated_at) }
    }

    /// Notes that the TLS handshake of a connection succeeded. Counts it as a login, unless a SASL login follows, which
    /// is counted instead.
    pub fn note_handshake(&mut self, now: Time) {
        if self.config.credentials.is_none() {
            self.metrics.note_login(now, false);
        }
    }

    /// Counts the requests, responses and logins of a peer's connection.
    pub(super) fn count(&mut self, now: Time, id: PeerId) {
        let Some(Link::Up(_, c)) = self.peers.get_mut(&id).map(|peer| &mut peer.link) else { return };
        for exchange in c.exchanges() {
            self.metrics.note(now, id.node(), &exchange);
        }
    }
}
