//! Log lines about connections, leaders and missing topics.

use super::peer::{Peer, PeerId};
use super::{Endpoints, Link, Network};
use crate::api::ErrorCode;
use crate::engine::reminder::Reminder;
use crate::engine::sasl::Credentials;
use crate::engine::{Cluster, Error, ErrorKind, Time};
use crate::logging::{Component, Location, may_be_wanted};
use log::Level;
use std::time::Duration;

/// How long a topic may be unknown before the client logs this. Brokers need a moment to create a topic.
const MAY_BE_NEW: Duration = Duration::from_millis(400);
/// The largest number of leader changes that one log line names.
const MOST_NAMED: usize = 10;

impl Endpoints {
    /// Returns the purpose of a connection, for log lines.
    fn shown(self, id: PeerId) -> String {
        match id {
            PeerId::Broker(node) => format!("{} {node}", self.node()),
            PeerId::Bootstrap(_) => format!("a {} of {}", self.node(), self.key()),
            PeerId::Fetch(node) => format!("broker {node} for fetches"),
            PeerId::Group(node) => format!("broker {node} for group membership"),
            PeerId::Telemetry => "a broker for telemetry".to_owned(),
        }
    }

    /// Logs a new connection, unless it was already logged.
    pub(super) fn log_ready(self, peer: &mut Peer, id: PeerId, credentials: Option<&Credentials>) {
        if std::mem::replace(&mut peer.attempt.is_logged, true) {
            return;
        }
        let how = credentials.map_or_else(String::new, |c| format!(", authenticated with {}", c.mechanism()));
        event!(Info, Network, Location::broker(&peer.address()), "connected to {}{how}", self.shown(id));
    }

    /// Logs the end of a connection or of an attempt. If several attempts in a row fail, later failures are logged only
    /// at level debug.
    pub(super) fn log_end(self, peer: &mut Peer, id: PeerId, error: &Error) {
        let address = peer.address();
        let location = Location::broker(&address);
        let was_connected = std::mem::take(&mut peer.attempt.is_logged);
        let (what, advice) = (error.message(), error.advice());
        if matches!(error.kind(), ErrorKind::Authentication | ErrorKind::NoToken) {
            event!(Warn, Auth, location, "authentication with {} failed: {what}{advice}", self.shown(id));
        } else if error.is_refusal() {
            event!(Warn, Network, location, "refused {}: {what}{advice}", self.shown(id));
        } else if was_connected {
            event!(Info, Network, location, "lost the connection to {}: {what}{advice}", self.shown(id));
        } else if peer.error.is_none() {
            event!(Info, Network, location, "cannot reach {}: {what}{advice}", self.shown(id));
        } else {
            event!(Debug, Network, location, "still cannot reach {}: {what}", self.shown(id));
        }
    }

    /// Logs the close of an idle connection.
    pub(super) fn log_idle(self, peer: &mut Peer, id: PeerId) {
        peer.attempt.is_logged = false;
        event!(Info, Network, Location::broker(&peer.address()), "closed the idle connection to {}", self.shown(id));
    }
}

impl Network {
    /// Logs the differences in new metadata: changed leaders, and topics with an error.
    pub(super) fn log_cluster(&mut self, now: Time, cluster: &Cluster) {
        log_leaders(&self.cluster, cluster);
        self.missing.retain(|name, _| self.topics.contains(name));
        for name in &self.topics {
            let error = cluster.topics.get(name).map_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, |topic| topic.error);
            if !error.is_error() {
                if self.missing.remove(name).is_some_and(|reminder| reminder.was_logged()) {
                    event!(Info, Network, Location::topic(name), "the topic is available now");
                }
                continue;
            }
            let first = || Reminder::from(if error.is_permanent() { now } else { now + MAY_BE_NEW });
            if self.missing.entry(name.clone()).or_insert_with(first).is_due(now) {
                let error = Error::refused(error, "the topic is not available").at(name, None::<i32>);
                error.report(Component::Network);
            }
        }
    }

    /// Logs that no broker can be reached, at once and then less and less often. Also logs when a broker can be reached
    /// again.
    pub fn log_reachability(&mut self, now: Time, unreachable: Option<&Error>) {
        match unreachable {
            Some(error) if self.unreachable_log.is_due(now) => error.report(match error.kind() {
                ErrorKind::Authentication | ErrorKind::NoToken => Component::Auth,
                _ => Component::Network,
            }),
            Some(_) => {}
            None if !self.unreachable_log.was_logged() => {}
            None => {
                // A broker that demands a login closes the connection of a client without one at the first request.
                let responds = |peer: &Peer| matches!(&peer.link, Link::Up(_, c) if c.is_ready() && c.has_answered());
                if self.peers.values().any(responds) {
                    self.unreachable_log.end();
                    event!(Info, Network, Location::default(), "brokers can be reached again");
                }
            }
        }
    }
}

/// Logs the leaders that differ between two states of the cluster.
pub(super) fn log_leaders(old: &Cluster, new: &Cluster) {
    if !may_be_wanted(Level::Info) {
        return;
    }
    let mut changes = Vec::new();
    for (name, topic) in &new.topics {
        let Some(before) = old.topics.get(name).filter(|before| before.id == topic.id) else { continue };
        for (number, (old, new)) in before.partitions.iter().zip(&topic.partitions).enumerate() {
            if old.leader != new.leader {
                changes.push((name, number, old.leader, new.leader));
            }
        }
    }
    let shown = |leader: i32| if leader < 0 { "none".to_owned() } else { leader.to_string() };
    if let [(topic, number, old, new)] = changes[..] {
        let location = Location::partition(topic, i32::try_from(number).unwrap_or(-1));
        event!(Info, Network, location, "the leader changed from {} to {}", shown(old), shown(new));
    } else if !changes.is_empty() {
        let named = changes.iter().take(MOST_NAMED);
        let named = named.map(|(topic, n, old, new)| format!("{topic}-{n} from {} to {}", shown(*old), shown(*new)));
        let (named, count) = (named.collect::<Vec<_>>().join(", "), changes.len());
        let more = if count > MOST_NAMED { ", …" } else { "" };
        event!(Info, Network, Location::default(), "the leaders of {count} partitions changed: {named}{more}");
    }
}
