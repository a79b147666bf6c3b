//! Fails requests that waited too long for a connection.

use super::Network;
use super::peer::PeerId;
use crate::engine::{ClientResponse, Error, ErrorKind, Outgoing, Time};
use std::collections::VecDeque;

impl Network {
    /// Fails the requests of a peer whose deadline has passed.
    pub(super) fn expire(&mut self, now: Time, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        if peer.queue.iter().any(|o| o.deadline.time() <= now) {
            let (late, queue) = std::mem::take(&mut peer.queue).into_iter().partition(|o| o.deadline.time() <= now);
            peer.queue = queue;
            self.give_up(now, late, Some(id));
        }
    }

    /// Fails requests that waited too long for a certain peer, or for any peer. The error names the cause only if it
    /// concerns peers that could have served the requests.
    pub(super) fn give_up(&mut self, now: Time, late: VecDeque<Outgoing<usize>>, awaited: Option<PeerId>) {
        let is_awaited = |id: &PeerId| awaited.map_or(!id.is_dedicated(), |awaited| *id == awaited);
        let of_peer = || self.peers.iter().filter(|(id, _)| is_awaited(id)).find_map(|(_, p)| p.error.clone());
        let why = self.missing_token(now).or_else(of_peer);
        let node = awaited.map_or(-1, PeerId::node);
        for outgoing in late {
            let error = why.clone().unwrap_or_else(|| {
                Error::new(
                    ErrorKind::Timeout,
                    format!("no broker was reached in time to send {}", outgoing.call.api().name),
                )
            });
            self.responses.push_back(ClientResponse { token: outgoing.token, node, result: Err(error) });
        }
    }
}
