//! A picture of the cluster: who the brokers are, who leads which partition.

use super::{Call, LeaderChange, Time};
use crate::api::{ErrorCode, Info, metadata};
use crate::wire::{Uuid, Wire, Writer};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// One broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Its id.
    pub id: i32,
    /// The host clients should use.
    pub host: String,
    /// The port clients should use.
    pub port: u16,
    /// Where it stands.
    pub rack: Option<String>,
}

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The broker that leads it; -1 while there is none.
    pub leader: i32,
    /// Counts leaders; -1 if the broker is too old to say.
    pub leader_epoch: i32,
    /// The brokers that keep copies.
    pub replicas: Vec<i32>,
    /// Those of them that are up to date.
    pub isr: Vec<i32>,
}

/// One topic, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its id; zero if the broker is too old to say.
    pub id: Uuid,
    /// Why it cannot be used.
    pub error: ErrorCode,
    /// Whether it is the brokers' own.
    pub internal: bool,
    /// Its partitions, by number.
    pub partitions: Vec<Partition>,
}

/// The cluster as last heard of.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Its id, from Kafka 0.10.1 on.
    pub id: Option<String>,
    /// The broker that takes administrative requests; -1 if unknown.
    pub controller: i32,
    /// The brokers, by id.
    pub brokers: BTreeMap<i32, Broker>,
    /// The topics asked about, by name.
    pub topics: HashMap<Arc<str>, Topic>,
    /// Whether `topics` holds every topic there is.
    pub complete: bool,
    /// When this was heard.
    pub heard: Time,
    /// The feature `transaction.version` as the brokers finalized it; 0 if they did not say.
    pub transaction_version: i16,
}

impl Cluster {
    /// The picture after an answer. Topics that were not asked about stay as they were.
    pub fn updated(&self, now: Time, response: metadata::Response, all: bool) -> Self {
        let mut next = Self {
            id: response.cluster_id.or_else(|| self.id.clone()),
            controller: response.controller_id,
            brokers: BTreeMap::new(),
            topics: if all { HashMap::new() } else { self.topics.clone() },
            complete: all,
            heard: now,
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
            let unknown = Partition { leader: -1, leader_epoch: -1, replicas: Vec::new(), isr: Vec::new() };
            // A partition's number is below their count, unless the peer lies.
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

    /// The picture after brokers said of partitions that they moved; what is older than what is known changes nothing.
    pub fn with_leader_changes(&self, changes: &[LeaderChange]) -> Self {
        let mut next = self.clone();
        for m in changes {
            let topic = next.topics.get_mut(&m.topic);
            let partition = topic.and_then(|t| t.partitions.get_mut(usize::try_from(m.partition).ok()?));
            let Some(p) = partition.filter(|p| p.leader_epoch < m.leader_epoch) else {
                continue;
            };
            p.leader = m.leader;
            p.leader_epoch = m.leader_epoch;
            if let Some(b) = &m.broker {
                next.brokers.entry(b.id).or_insert_with(|| b.clone());
            }
        }
        next
    }

    /// Leaves out all topics but these, of which those that are not there are unknown: the answer of a broker that was
    /// asked about all, see `AskMetadata`.
    pub fn keep<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        let mut all = std::mem::take(&mut self.topics);
        for name in names {
            let found = all.remove_entry(name);
            let (name, topic) = found.unwrap_or_else(|| (name.into(), Topic::unknown()));
            self.topics.insert(name, topic);
        }
    }

    /// Takes in that those of these topics that an answer about all of them does not name are not there: whoever asked about
    /// one waits for that.
    pub fn add_unknown<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            if !self.topics.contains_key(name) {
                self.topics.insert(name.into(), Topic::unknown());
            }
        }
    }

    /// The leader of a partition, if it has one that is known.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<(i32, i32)> {
        let p = self.topics.get(topic)?.partitions.get(usize::try_from(partition).ok()?)?;
        self.brokers.contains_key(&p.leader).then_some((p.leader, p.leader_epoch))
    }

    /// `host:port` of a broker, for messages.
    pub fn address(&self, node: i32) -> String {
        self.brokers.get(&node).map_or_else(|| format!("id {node}"), |b| format!("{}:{}", b.host, b.port))
    }
}

/// Metadata, as brokers of every age have to be asked.
#[derive(Clone, Debug)]
pub struct AskMetadata(pub metadata::Request);

impl AskMetadata {
    /// The first version in which asking about a topic need not create it.
    pub const MAY_LEAVE: i16 = 4;
}

impl Call for AskMetadata {
    fn api(&self) -> &'static Info {
        &metadata::API
    }

    fn put(&self, w: &mut Writer) {
        let may_create = self.0.allow_auto_topic_creation || w.version >= Self::MAY_LEAVE;
        if may_create && (w.version > 0 || self.0.topics.is_some()) {
            return Wire::put(&self.0, w);
        }
        // Who is asked about all topics creates none; that was said with an empty list, and then with null.
        let topics = if w.version == 0 { Some(Vec::new()) } else { None };
        Wire::put(&metadata::Request { topics, ..self.0.clone() }, w);
    }
}

impl Topic {
    /// A topic that the brokers have not.
    pub fn unknown() -> Self {
        let (id, error) = (Uuid::ZERO, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        Self { id, error, internal: false, partitions: Vec::new() }
    }

    /// A broker that lags behind may name a leader that is known to be gone (KIP-320): the newer epoch wins, unless the
    /// topic was made anew.
    fn keep_newer_leaders(mut self, old: &Self) -> Self {
        if self.id == old.id {
            for (new, old) in self.partitions.iter_mut().zip(&old.partitions) {
                if new.leader_epoch >= 0 && new.leader_epoch < old.leader_epoch {
                    *new = old.clone();
                }
            }
        }
        self
    }
}
