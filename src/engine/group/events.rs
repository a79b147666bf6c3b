//! Log lines about the membership of a group.

use super::Group;
use super::changes::Change;
use super::coordinator_client::CoordinatorClient;
use crate::engine::{Cluster, Error, Time, TopicPartition, counted};
use crate::logging::Location;
use std::time::Duration;

/// The largest number of partitions that one log line names.
const MOST_NAMED: usize = 20;

const NOT_LEFT: &str = "the coordinator did not confirm in time that the client left group";
const WAITS: &str = "other members may get its partitions only after the session timeout";

impl Group {
    /// Logs a change of the assignment when the application takes it.
    pub(super) fn log_change(&self, change: &Change) {
        let (what, partitions) = match change {
            Change::Assigned(partitions) => ("got", partitions),
            Change::Revoked(partitions) => ("gives up", partitions),
            Change::Lost(partitions) => ("lost", partitions),
        };
        let (count, group) = (counted(partitions.len() as u64, "partition"), &self.config.group);
        event!(Info, Group, Location::default(), "the client {what} {count} in group {group:?}: {}", named(partitions));
    }

    /// Logs the end of a rebalance: the application has taken all changes of its assignment.
    pub fn log_rebalanced(&self, took: Duration) {
        let (group, seconds) = (&self.config.group, took.as_secs_f64());
        event!(Info, Group, Location::default(), "the rebalance of group {group:?} took {seconds:.3} s");
    }

    /// Logs that the application has not polled for most of `max.poll.interval.ms`, or for all of it.
    pub(super) fn log_idle(&self, idle: Duration) {
        let (seconds, limit) = (idle.as_secs_f64(), self.config.max_poll_interval.as_millis());
        let group = &self.config.group;
        let then = if idle < self.config.max_poll_interval { "is about to leave" } else { "leaves" };
        event!(
            Warn,
            Group,
            Location::default(),
            "the consumer {then} group {group:?}: it has not been polled for {seconds:.1} s, and max.poll.interval.ms is {limit}; \
             hint: poll more often, handle fewer records per poll (max.poll.records), or increase max.poll.interval.ms"
        );
    }
}

impl CoordinatorClient {
    /// Returns the coordinator's address.
    fn shown(&self, cluster: &Cluster) -> Option<String> {
        self.node().map(|node| cluster.address(node))
    }

    /// Logs that the member found its coordinator.
    pub(super) fn log_found(&self, node: i32) {
        let (group, address) = (&self.group, self.cluster.address(node));
        event!(Info, Group, Location::broker(&address), "the coordinator of group {group:?} is broker {node}");
    }

    /// Logs that the group has no coordinator that is ready, which is normal for a moment.
    pub(super) fn log_not_ready(&self, error: &Error) {
        event!(Info, Group, error.location(), "the client waits for a coordinator: {}", error.message());
    }

    /// Logs that the coordinator has not confirmed in time that the member left the group.
    pub(super) fn log_not_left(&self) {
        let (group, broker) = (&self.group, self.shown(&self.cluster));
        let location = Location { broker: broker.as_deref(), ..Location::default() };
        event!(Warn, Group, location, "{NOT_LEFT} {group:?}; {WAITS}");
    }

    /// Logs that the member begins to join.
    pub(super) fn log_joining(&self, reason: &str) {
        let (group, broker) = (&self.group, self.shown(&self.cluster));
        let location = Location { broker: broker.as_deref(), ..Location::default() };
        let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        event!(Info, Group, location, "the client joins group {group:?}{why}");
    }

    /// Logs that the client has joined.
    pub(super) fn log_joined(&self, now: Time, since: Time, what: std::fmt::Arguments<'_>) {
        let (group, seconds) = (&self.group, now.since(since).as_secs_f64());
        let broker = self.shown(&self.cluster);
        let location = Location { broker: broker.as_deref(), ..Location::default() };
        event!(Info, Group, location, "the client is a member of group {group:?} after {seconds:.3} s: {what}");
    }

    /// Logs an assignment of the coordinator.
    pub(super) fn log_assigned(&self, epoch: i32, count: usize) {
        let (group, broker) = (&self.group, self.shown(&self.cluster));
        let location = Location { broker: broker.as_deref(), ..Location::default() };
        event!(
            Info,
            Group,
            location,
            "the coordinator of group {group:?} assigned {} in epoch {epoch}",
            counted(count as u64, "partition")
        );
    }
}

/// Returns the names of partitions for a log line.
pub(super) fn named(partitions: &[TopicPartition]) -> String {
    let names: Vec<String> =
        partitions.iter().take(MOST_NAMED).map(|p| format!("{}-{}", p.topic, p.partition)).collect();
    let more = if partitions.len() > MOST_NAMED { ", …" } else { "" };
    names.join(", ") + more
}
