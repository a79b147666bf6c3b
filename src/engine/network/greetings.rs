//! How to begin with an address, as its last connections left it: see [`crate::engine::greeting`].

use super::Network;
use crate::engine::Time;
use crate::engine::greeting::Greeting;
use crate::engine::peer::{Link, Peer, PeerId};

impl Network {
    /// If a connection ended in a way that tells how to begin with the broker, begins anew: nobody needs to hear of it.
    pub(super) fn begins_anew(&mut self, now: Time, id: PeerId, closed: bool) -> bool {
        let Some(Peer { link: Link::Up(connection, c), host, port, .. }) = self.peers.get_mut(&id) else {
            return false;
        };
        let place = (host.clone(), *port);
        if self.said_versions.contains(&place) {
            return false;
        }
        let Some(greeting) = c.next_greeting(closed) else {
            return false;
        };
        let greeting = match (greeting, self.greetings.get(&place), self.config.version_fallback) {
            (Greeting::Probe, _, Some(release)) => Greeting::Known(release),
            (Greeting::Known(release), Some(Greeting::Confirm(first, _)), _) if release != *first => return false,
            (Greeting::Known(_), Some(Greeting::Confirm(release, more @ 1..)), _) => {
                Greeting::Confirm(*release, more - 1)
            }
            // A close costs nobody time; silence does.
            (Greeting::Known(release), Some(Greeting::Probe), _) => Greeting::Confirm(release, closed.into()),
            _ => greeting,
        };
        self.greetings.insert(place, greeting);
        self.connections.remove(connection);
        self.connect(now, id);
        true
    }

    /// Notes how to begin with a broker whose connection ended: what it was taken for it may be no longer.
    pub(super) fn note_end(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get(&id) else { return };
        let place = (peer.host.clone(), peer.port);
        let has_answered = matches!(&peer.link, Link::Up(_, c) if c.has_answered());
        match self.greetings.get_mut(&place) {
            Some(greeting @ (Greeting::Probe | Greeting::Confirm(..))) => *greeting = Greeting::Wait,
            Some(Greeting::Known(_)) if !has_answered => drop(self.greetings.remove(&place)),
            _ => {}
        }
    }
}
