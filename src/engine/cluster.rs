//! The state of the cluster according to the last metadata: brokers, topics and partition leaders.

use super::{Call, Error, ErrorKind, Time, address, seconds};
use crate::api::{ErrorCode, Info, metadata};
use crate::logging::Component;
use crate::wire::{Uuid, Wire, Writer};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// The broker's ID.
    pub id: i32,
    /// The host that clients connect to.
    pub host: String,
    /// The port that clients connect to.
    pub port: u16,
    /// The broker's rack.
    pub rack: Option<String>,
}

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The ID of the leader, or -1 if the partition has no leader.
    pub leader: i32,
    /// The leader's epoch, or -1 if the broker is too old to report it.
    pub leader_epoch: i32,
    /// The IDs of the brokers that have replicas.
    pub replicas: Vec<i32>,
    /// The IDs of the in-sync replicas.
    pub isr: Vec<i32>,
    /// How many times in a row brokers reported an older epoch than the known leader epoch.
    pub older: u32,
}

/// How many times in a row brokers may report an older leader epoch than the known epoch. After that, the client
/// accepts the older epoch. A broker that lags behind catches up within a few requests. In a cluster without topic IDs,
/// an older epoch is also the only sign of a recreated topic, whose epochs start again at 0.
const MAX_OLDER: u32 = 5;

impl Partition {
    /// Notes that a broker reported another epoch. Returns whether that epoch is older, and the client does not accept
    /// it yet.
    fn keeps_leader(&mut self, epoch: i32) -> bool {
        let is_older = epoch >= 0 && epoch < self.leader_epoch;
        self.older = if is_older { self.older + 1 } else { 0 };
        is_older && self.older < MAX_OLDER
    }
}

/// A topic, or the error of a request for its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The topic's ID, or zero if the broker is too old to report it.
    pub id: Uuid,
    /// The error of the topic.
    pub error: ErrorCode,
    /// Whether the topic is internal to Kafka.
    pub internal: bool,
    /// The partitions, by number.
    pub partitions: Vec<Partition>,
}

/// A new leader of a partition, as a broker reported it in a response (KIP-951).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderChange {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// The ID of the new leader.
    pub leader: i32,
    /// The epoch of the new leader.
    pub leader_epoch: i32,
    /// The new leader's address, if the broker reported it.
    pub broker: Option<Broker>,
}

/// The state of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The cluster's ID, if the brokers report it (Kafka 0.10.1).
    pub id: Option<String>,
    /// The ID of the controller, which serves administrative requests, or -1 if unknown.
    pub controller: i32,
    /// The brokers, by ID.
    pub brokers: BTreeMap<i32, Broker>,
    /// The topics that were requested, by name.
    pub topics: HashMap<Arc<str>, Topic>,
    /// Whether `topics` has all topics of the cluster.
    pub complete: bool,
    /// When the last metadata response arrived.
    pub updated_at: Time,
    /// The finalized level of the feature `transaction.version`, or 0 if the brokers did not report it.
    pub transaction_version: i16,
}

impl Cluster {
    /// Returns the state after a metadata response. Topics that were not requested do not change.
    pub fn updated(&self, now: Time, response: metadata::Response, all: bool) -> Self {
        let mut next = Self {
            id: response.cluster_id.or_else(|| self.id.clone()),
            controller: response.controller_id,
            brokers: BTreeMap::new(),
            topics: if all { HashMap::new() } else { self.topics.clone() },
            complete: all,
            updated_at: now,
            transaction_version: self.transaction_version,
        };
        for b in response.brokers {
            let Ok(port) = u16::try_from(b.port) else {
                continue;
            };
            next.brokers.insert(b.node_id, Broker { id: b.node_id, host: b.host, port, rack: b.rack });
        }
        for t in response.topics {
            let Some(name) = t.name else { continue };
            let count = t.partitions.iter().map(|p| p.partition_index).max().map_or(0, |n| n.max(-1) as usize + 1);
            let unknown = Partition { leader: -1, leader_epoch: -1, replicas: Vec::new(), isr: Vec::new(), older: 0 };
            // A partition's number is below the number of partitions, unless the peer is malicious.
            let mut partitions = vec![unknown; count.min(t.partitions.len())];
            for p in t.partitions {
                let Some(slot) = usize::try_from(p.partition_index).ok().and_then(|i| partitions.get_mut(i)) else {
                    continue;
                };
                *slot = Partition {
                    leader: p.leader_id,
                    leader_epoch: p.leader_epoch,
                    replicas: p.replica_nodes,
                    isr: p.isr_nodes,
                    older: 0,
                };
            }
            let topic = Topic { id: t.topic_id, error: t.error_code, internal: t.is_internal, partitions };
            let topic = match self.topics.get(name.as_str()) {
                Some(old) => topic.keep_newer_leaders(old),
                None => topic,
            };
            next.topics.insert(name.into(), topic);
        }
        next
    }

    /// Returns the state after leader changes. Changes with an older epoch have no effect, unless brokers report the
    /// older epoch repeatedly.
    pub fn with_leader_changes(&self, changes: &[LeaderChange]) -> Self {
        let mut next = self.clone();
        for m in changes {
            let topic = next.topics.get_mut(&m.topic);
            let partition = topic.and_then(|t| t.partitions.get_mut(usize::try_from(m.partition).ok()?));
            let Some(p) = partition.filter(|p| p.leader_epoch != m.leader_epoch) else {
                continue;
            };
            if p.keeps_leader(m.leader_epoch) {
                continue;
            }
            p.older = 0;
            p.leader = m.leader;
            p.leader_epoch = m.leader_epoch;
            if let Some(b) = &m.broker {
                next.brokers.entry(b.id).or_insert_with(|| b.clone());
            }
        }
        next
    }

    /// Keeps only these topics, and marks the missing ones as unknown. The response of an old broker may contain more
    /// topics, because `MetadataCall` requests all topics from such a broker.
    pub fn keep<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        let mut all = std::mem::take(&mut self.topics);
        for name in names {
            let entry = all.remove_entry(name);
            let (name, topic) = entry.unwrap_or_else(|| (name.into(), Topic::unknown()));
            self.topics.insert(name, topic);
        }
    }

    /// Marks topics in `names` as unknown if a response about all topics does not contain them.
    pub fn add_unknown<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            if !self.topics.contains_key(name) {
                self.topics.insert(name.into(), Topic::unknown());
            }
        }
    }

    /// Returns the ID and epoch of a partition's leader, if the partition has a leader and its address is known.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<(i32, i32)> {
        let p = self.topics.get(topic)?.partitions.get(usize::try_from(partition).ok()?)?;
        self.brokers.contains_key(&p.leader).then_some((p.leader, p.leader_epoch))
    }

    /// Returns the `host:port` of a broker, for messages.
    pub fn address(&self, node: i32) -> String {
        self.brokers.get(&node).map_or_else(|| format!("id {node}"), |b| address(&b.host, b.port))
    }
}

/// How long a broker may throttle a client before the client logs this.
const LONG_THROTTLE: Duration = Duration::from_secs(1);

/// Returns how long the client waits after a response with this throttle time: at most `request.timeout.ms`, because a
/// wrong throttle time must not stop the client. Logs a long throttle time.
pub fn throttle(
    component: Component,
    cluster: &Cluster,
    node: i32,
    requested: Duration,
    request_timeout: Duration,
) -> Duration {
    if requested > LONG_THROTTLE {
        throttle_error(cluster, node, requested, request_timeout).log_warning(component);
    }
    requested.min(request_timeout)
}

/// Returns the error for a throttled client.
pub fn throttle_error(cluster: &Cluster, node: i32, requested: Duration, request_timeout: Duration) -> Error {
    let mut message = format!("the broker throttles this client for {} s", seconds(requested));
    if requested > request_timeout {
        let _ = write!(message, "; the client waits only for request.timeout.ms ({} ms)", request_timeout.as_millis());
    }
    let hint = "the client exceeds a quota of its user or client ID; reduce the load, or raise the quota";
    Error::new(ErrorKind::Broker, message).with_hint(hint).from_broker(cluster.address(node)).of_node(node)
}

/// A metadata request for brokers of every release. If an old broker would create the requested topics, the request is
/// for all topics instead.
#[derive(Clone, Debug)]
pub struct MetadataCall(pub metadata::Request);

impl MetadataCall {
    /// The first version that can request the metadata of a topic without creating the topic.
    pub const MIN_VERSION_WITHOUT_CREATION: i16 = 4;
}

impl Call for MetadataCall {
    fn api(&self) -> &'static Info {
        &metadata::API
    }

    fn put(&self, w: &mut Writer) {
        let may_create = self.0.allow_auto_topic_creation || w.version >= Self::MIN_VERSION_WITHOUT_CREATION;
        if may_create && (w.version > 0 || self.0.topics.is_some()) {
            return Wire::put(&self.0, w);
        }
        // A request about all topics creates none. It is an empty list in v0, and null later.
        let topics = if w.version == 0 { Some(Vec::new()) } else { None };
        Wire::put(&metadata::Request { topics, ..self.0.clone() }, w);
    }
}

impl Topic {
    /// Returns the entry for a topic that does not exist in the cluster.
    pub fn unknown() -> Self {
        let (id, error) = (Uuid::ZERO, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        Self { id, error, internal: false, partitions: Vec::new() }
    }

    /// Keeps the old leaders that have a newer epoch, because a broker that lags behind may report a previous leader
    /// (KIP-320). Accepts all leaders of a topic that was deleted and created again.
    fn keep_newer_leaders(mut self, old: &Self) -> Self {
        if self.id == old.id {
            for (new, old) in self.partitions.iter_mut().zip(&old.partitions) {
                let mut old = old.clone();
                if old.keeps_leader(new.leader_epoch) {
                    *new = old;
                }
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(leader_id: i32, leader_epoch: i32) -> metadata::Response {
        let partition = metadata::Partition { leader_id, leader_epoch, ..Default::default() };
        let topic = metadata::Topic { name: Some("t".to_owned()), partitions: vec![partition], ..Default::default() };
        let broker = |node_id| metadata::Broker { node_id, host: "h".to_owned(), port: node_id, rack: None };
        metadata::Response { brokers: vec![broker(1), broker(2)], topics: vec![topic], ..Default::default() }
    }

    fn leader(cluster: &Cluster) -> (i32, i32) {
        cluster.leader("t", 0).unwrap()
    }

    #[test]
    fn a_broker_that_lags_does_not_change_the_leader_but_a_topic_made_anew_does() {
        let mut cluster = Cluster::default().updated(Time(0), named(1, 6), false);
        for _ in 1..MAX_OLDER {
            cluster = cluster.updated(Time(0), named(2, 0), false);
            assert_eq!(leader(&cluster), (1, 6));
        }
        // The broker has caught up.
        cluster = cluster.updated(Time(0), named(1, 6), false);
        for _ in 1..MAX_OLDER {
            cluster = cluster.updated(Time(0), named(2, 0), false);
            assert_eq!(leader(&cluster), (1, 6));
        }
        cluster = cluster.updated(Time(0), named(2, 0), false);
        assert_eq!(leader(&cluster), (2, 0));
        assert_eq!(leader(&cluster.updated(Time(0), named(1, 1), false)), (1, 1));
    }

    #[test]
    fn so_does_a_refusal_that_names_the_leader() {
        let mut cluster = Cluster::default().updated(Time(0), named(1, 6), false);
        let topic = Arc::from("t");
        let broker = Some(Broker { id: 2, host: "h".to_owned(), port: 2, rack: None });
        let change = LeaderChange { topic, partition: 0, leader: 2, leader_epoch: 0, broker };
        for _ in 1..MAX_OLDER {
            cluster = cluster.with_leader_changes(std::slice::from_ref(&change));
            assert_eq!(leader(&cluster), (1, 6));
        }
        assert_eq!(leader(&cluster.with_leader_changes(&[change])), (2, 0));
    }
}
