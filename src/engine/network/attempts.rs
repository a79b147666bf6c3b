//! Attempts to reach a broker: tries the other addresses of its host, and checks connections that may have died while
//! they were idle.
//!
//! The driver resolves host names, so it also remembers which addresses failed. The network checks a connection
//! with a small request if the connection was idle for more than two seconds and for longer than ever before. Requests
//! on the connection wait for the result of the check.

use super::peer::{Link, Peer, PeerId};
use super::{Action, Network};
use crate::engine::{ConnectionId, Error, ErrorKind, Target, Time};

impl Network {
    /// Notes to which address of a host the driver connects, and whether the driver knows another address that has not
    /// failed.
    pub fn note_address(&mut self, connection: ConnectionId, address: Option<String>, has_other: bool) {
        let id = self.connections.get(&connection).copied();
        if let Some(peer) = id.and_then(|id| self.peers.get_mut(&id)) {
            peer.attempt.address = address;
            peer.attempt.has_other = has_other;
        }
    }

    /// Notes that an established connection ended.
    pub(super) fn note_disconnect(&mut self, now: Time, id: PeerId) {
        self.metrics.note_closed(now);
        self.disconnects.extend(id.target());
    }

    /// Returns the target of a connection that ended.
    pub fn poll_disconnect(&mut self) -> Option<Target> {
        self.disconnects.pop_front()
    }

    /// Returns whether the connection is ready for requests, or is in the middle of a later login or check.
    pub fn was_ready(&self, connection: ConnectionId) -> bool {
        let peer = self.connections.get(&connection).and_then(|id| self.peers.get(id));
        matches!(peer.map(|peer| &peer.link), Some(Link::Up(_, c)) if c.was_ready())
    }

    /// Returns whether the peer at this address spoke Kafka's protocol before.
    pub(super) fn was_reached(&self, peer: &Peer) -> bool {
        self.reported_versions.contains(&(peer.host.clone(), peer.port))
    }

    /// Makes a decoding error retriable if the peer at this address spoke Kafka's protocol before. The cause is then
    /// probably damage on the way.
    pub(super) fn retriable_if_known(&self, id: PeerId, error: Error) -> Error {
        match error.kind() == ErrorKind::Decode && self.peers.get(&id).is_some_and(|peer| self.was_reached(peer)) {
            true => error.as_kind(ErrorKind::Network),
            false => error,
        }
    }

    /// Connects again, and fails no request, if the connection broke while it was idle, or if the host has another
    /// address. The driver then tries the other address.
    pub(super) fn tries_again(&mut self, now: Time, id: PeerId) -> bool {
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        let Link::Up(connection, c) = &peer.link else { return false };
        if !c.is_checking() && (c.was_ready() || !peer.attempt.has_other) {
            return false;
        }
        self.connections.remove(connection);
        peer.link = Link::Idle;
        self.note_disconnect(now, id);
        self.connect(now, id);
        true
    }

    /// Starts a check of the connection if it was idle for long. Returns whether requests have to wait for the check.
    pub(super) fn checks_first(&mut self, now: Time, id: PeerId) -> bool {
        let Some(Peer { link: Link::Up(connection, c), .. }) = self.peers.get_mut(&id) else {
            return false;
        };
        if !c.check_if_idle(now) {
            return false;
        }
        let bytes = std::iter::from_fn(|| c.poll_send());
        self.actions.extend(bytes.map(|bytes| Action::Send(*connection, bytes)));
        true
    }
}
