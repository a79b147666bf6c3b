//! Remembers how the next connection to each address starts: with ApiVersions, with version probes, or with a known
//! release, see [`crate::engine::version_probe`].

use super::Network;
use super::peer::{Link, Peer, PeerId};
use crate::engine::Time;
use crate::engine::version_probe::VersionProbe;

impl Network {
    /// Connects again, and fails no request, if the end of the connection shows how to probe the broker.
    pub(super) fn reconnects(&mut self, now: Time, id: PeerId, closed: bool) -> bool {
        let Some(Peer { link: Link::Up(connection, c), host, port, .. }) = self.peers.get_mut(&id) else {
            return false;
        };
        let address = (host.clone(), *port);
        if self.reported_versions.contains(&address) {
            return false;
        }
        let Some(probe) = c.next_version_probe(closed) else {
            return false;
        };
        let probe = match (probe, self.version_probes.get(&address), self.config.version_fallback) {
            (VersionProbe::Probe, _, Some(release)) => VersionProbe::Known(release),
            (VersionProbe::Known(release), Some(VersionProbe::Confirm(first, _)), _) if release != *first => {
                return false;
            }
            (VersionProbe::Known(_), Some(VersionProbe::Confirm(release, more @ 1..)), _) => {
                VersionProbe::Confirm(*release, more - 1)
            }
            // Silence costs the caller time, a closed connection does not. So only the latter is confirmed twice.
            (VersionProbe::Known(release), Some(VersionProbe::Probe), _) => {
                VersionProbe::Confirm(release, closed.into())
            }
            _ => probe,
        };
        self.version_probes.insert(address, probe);
        self.connections.remove(connection);
        self.note_disconnect(now, id);
        self.connect(now, id);
        true
    }

    /// Notes that a connection ended. The broker at this address may now have another release.
    pub(super) fn note_end(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get(&id) else { return };
        let address = (peer.host.clone(), peer.port);
        let has_answered = matches!(&peer.link, Link::Up(_, c) if c.has_answered());
        match self.version_probes.get_mut(&address) {
            Some(probe @ (VersionProbe::Probe | VersionProbe::Confirm(..))) => *probe = VersionProbe::Wait,
            Some(VersionProbe::Known(_)) if !has_answered => drop(self.version_probes.remove(&address)),
            _ => {}
        }
    }
}
