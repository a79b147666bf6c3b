//! Reports a connection that is not ready after one second, if no connection of the client has become ready. The usual
//! causes are a firewall that drops packets and a broker process that does not respond. Without the report, the log
//! would not mention the connection before its timeout.

use super::Network;
use super::peer::{Link, Peer, PeerId};
use crate::engine::reminder::Reminder;
use crate::engine::{ErrorKind, Time};
use std::time::Duration;

/// How long a connection may take before the client reports it.
const REPORT_AFTER: Duration = Duration::from_secs(1);

impl Network {
    /// Starts to watch an attempt to connect. The same watch covers further attempts, for example to the next address
    /// of the host.
    pub(super) fn watch(peer: &mut Peer, now: Time) {
        peer.attempt.silence.get_or_insert_with(|| Reminder::from(now + REPORT_AFTER));
    }

    /// Reports that no broker has responded yet, if this connection takes long and no other connection is ready.
    pub(super) fn note_silence(&mut self, now: Time, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(stage) = peer.stage() else { return };
        let is_due = peer.attempt.silence.as_mut().is_some_and(|silence| silence.is_due(now));
        let (address, mut error) = (peer.address(), self.config.no_response_yet());
        if let PeerId::Broker(_) = id {
            error = error.with_message("no broker has responded yet".to_owned());
        }
        let was_ready = |p: &Peer| matches!(&p.link, Link::Up(_, c) if c.was_ready());
        if is_due && !id.is_dedicated() && !self.peers.values().any(was_ready) {
            let message = format!("{}: {stage}", error.message());
            let error = error.as_kind(ErrorKind::Network).with_message(message);
            self.unreachable = Some(error.from_broker(address).of_node(id.node()));
        }
    }
}

impl Peer {
    /// Returns the time at which the network reports that the connection is still not ready.
    pub(super) fn silent_at(&self) -> Option<Time> {
        self.stage().and(self.attempt.silence.as_ref().map(Reminder::next))
    }

    /// Returns what the connection is waiting for, if it was never ready.
    fn stage(&self) -> Option<&'static str> {
        match &self.link {
            Link::Connecting(..) => Some("the connection is not made yet"),
            Link::Up(_, c) if !c.was_ready() => Some("the connection is made, but the broker does not answer"),
            Link::Up(..) | Link::Idle | Link::Waiting(_) => None,
        }
    }
}
