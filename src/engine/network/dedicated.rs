//! Chooses the peers for fetches, group requests and telemetry. A broker answers the requests of a connection in order,
//! so these requests have connections of their own. The client opens such a connection for the first request on it.

use super::Network;
use super::peer::{Link, Peer, PeerId};
use crate::api::Info;

impl Network {
    /// Returns the peer, and adds it if it is missing and its broker is in the cluster.
    pub(super) fn dedicated_peer(&mut self, id: PeerId) -> PeerId {
        if let (false, Some(b)) = (self.peers.contains_key(&id), self.cluster.brokers.get(&id.node())) {
            let (host, port) = (b.host.clone(), b.port);
            self.add_peer(id, host, port);
        }
        id
    }

    /// Returns the peer for a telemetry request, or `None` if the client has no connection yet. A new connection goes to
    /// the address of the general connection with the fewest requests in flight.
    ///
    /// Most brokers do not support telemetry. The client then opens no connection, because the general connection
    /// rejects the request without sending it.
    pub(super) fn telemetry_peer(&mut self, api: &Info) -> Option<PeerId> {
        let id = PeerId::Telemetry;
        if self.peers.get(&id).is_some_and(|peer| !matches!(peer.link, Link::Idle)) {
            return Some(id);
        }
        let general = self.least_loaded()?;
        let (host, port) = match self.peers.get(&general)? {
            Peer { link: Link::Up(_, c), host, port, .. } if c.newest(api) >= 0 => (host.clone(), *port),
            _ => return Some(general),
        };
        match self.peers.get_mut(&id) {
            Some(peer) => (peer.host, peer.port) = (host, port),
            None => self.add_peer(id, host, port),
        }
        Some(id)
    }
}
