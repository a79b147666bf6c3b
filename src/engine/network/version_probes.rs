//! How to begin with an address, as its last connections left it: see [`crate::engine::version_probe`].

use super::Network;
use crate::engine::Time;
use crate::engine::peer::{Link, Peer, PeerId};
use crate::engine::version_probe::VersionProbe;

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
        let Some(probe) = c.next_version_probe(closed) else {
            return false;
        };
        let probe = match (probe, self.version_probes.get(&place), self.config.version_fallback) {
            (VersionProbe::Probe, _, Some(release)) => VersionProbe::Known(release),
            (VersionProbe::Known(release), Some(VersionProbe::Confirm(first, _)), _) if release != *first => {
                return false;
            }
            (VersionProbe::Known(_), Some(VersionProbe::Confirm(release, more @ 1..)), _) => {
                VersionProbe::Confirm(*release, more - 1)
            }
            // A close costs nobody time; silence does.
            (VersionProbe::Known(release), Some(VersionProbe::Probe), _) => {
                VersionProbe::Confirm(release, closed.into())
            }
            _ => probe,
        };
        self.version_probes.insert(place, probe);
        self.connections.remove(connection);
        self.connect(now, id);
        true
    }

    /// Notes how to begin with a broker whose connection ended: what it was taken for it may be no longer.
    pub(super) fn note_end(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get(&id) else { return };
        let place = (peer.host.clone(), peer.port);
        let has_answered = matches!(&peer.link, Link::Up(_, c) if c.has_answered());
        match self.version_probes.get_mut(&place) {
            Some(probe @ (VersionProbe::Probe | VersionProbe::Confirm(..))) => *probe = VersionProbe::Wait,
            Some(VersionProbe::Known(_)) if !has_answered => drop(self.version_probes.remove(&place)),
            _ => {}
        }
    }
}
