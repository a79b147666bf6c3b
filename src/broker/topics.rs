//! Topics and partitions: finds topics by name or ID, stores the leaders of partitions, and validates topic names.

use super::configs::{Configs, Defaults};
use super::idempotence::Producers;
use super::ids::{Connection, TopicIdPartition};
use super::log::Log;
use crate::api::ErrorCode;
use crate::wire::Uuid;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of partitions of a topic, and of all topics together. The limits stop excessive requests.
const MAX_PARTITIONS: usize = 10_000;
const MAX_PARTITIONS_TOGETHER: usize = 200_000;

const MAX_NAME: usize = 249;

#[derive(Debug)]
pub(super) struct Topic {
    pub id: Uuid,
    pub configs: Configs,
    pub partitions: Vec<Partition>,
}

/// A partition. All replicas of a partition share one log, so all replicas on running nodes are always in sync.
#[derive(Debug)]
pub(super) struct Partition {
    pub leader: i32,
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
    pub log: Log,
    pub producers: Producers,
    /// Connections with a waiting fetch of this partition.
    pub waiters: BTreeSet<Connection>,
}

impl Partition {
    /// Creates an empty partition, led by its first replica.
    fn new(replicas: Vec<i32>) -> Self {
        Self {
            leader: replicas.first().copied().unwrap_or(-1),
            leader_epoch: 0,
            replicas,
            log: Log::default(),
            producers: Producers::default(),
            waiters: BTreeSet::new(),
        }
    }

    /// Makes a node the leader. The node -1 means that the partition has no leader.
    pub fn lead(&mut self, node: i32) {
        self.leader = node;
        self.leader_epoch += 1;
    }

    /// Returns the last stable offset. A `read_committed` client can read the records below this offset.
    pub fn last_stable_offset(&self) -> i64 {
        self.producers.first_unstable().unwrap_or(self.log.end_offset())
    }

    /// Checks that a node leads this partition, in the client's leader `epoch` (-1 if unknown).
    pub fn check_leader(&self, node: i32, epoch: i32) -> Result<(), ErrorCode> {
        if self.leader != node {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        self.check_epoch(epoch)
    }

    /// Checks that a node has a replica of this partition.
    pub fn check_replica(&self, node: i32, epoch: i32) -> Result<(), ErrorCode> {
        if !self.replicas.contains(&node) {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        self.check_epoch(epoch)
    }

    fn check_epoch(&self, epoch: i32) -> Result<(), ErrorCode> {
        match epoch {
            ..0 => Ok(()),
            e if e < self.leader_epoch => Err(ErrorCode::FENCED_LEADER_EPOCH),
            e if e > self.leader_epoch => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
            _ => Ok(()),
        }
    }
}

impl Topic {
    pub fn partition(&mut self, index: i32) -> Option<&mut Partition> {
        self.partitions.get_mut(usize::try_from(index).ok()?)
    }
}

#[derive(Debug, Default)]
pub(super) struct Topics {
    by_name: BTreeMap<String, Topic>,
    names: HashMap<Uuid, String>,
    partitions: usize,
    created: usize,
}

impl Topics {
    pub fn get(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Topic> {
        self.by_name.get_mut(name)
    }

    pub fn name_of(&self, id: Uuid) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// Returns the topic of a request: by ID in versions with topic IDs, and by name in other versions.
    pub fn find<'a>(&'a mut self, name: &'a str, id: Uuid, by_id: bool) -> Result<&'a mut Topic, ErrorCode> {
        let (name, unknown) = if by_id {
            (self.names.get(&id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?.as_str(), ErrorCode::UNKNOWN_TOPIC_ID)
        } else {
            (name, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        };
        self.by_name.get_mut(name).ok_or(unknown)
    }

    pub fn partition_by_id(&mut self, id: TopicIdPartition) -> Option<&mut Partition> {
        self.by_name.get_mut(self.names.get(&id.topic_id)?)?.partition(id.partition)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Changes the defaults of all topics.
    pub fn set_defaults(&mut self, defaults: &Defaults) {
        self.by_name.values_mut().for_each(|topic| topic.configs.set_defaults(defaults));
    }

    pub fn partitions_mut(&mut self) -> impl Iterator<Item = &mut Partition> {
        self.by_name.values_mut().flat_map(|topic| &mut topic.partitions)
    }

    pub fn created(&self) -> usize {
        self.created
    }

    /// Checks whether a topic of this name can be created. The error is a message.
    pub fn check_name(&self, name: &str) -> Result<(), (ErrorCode, String)> {
        if let Err(why) = valid_name(name) {
            return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, format!("Topic name is invalid: {why}")));
        }
        if self.by_name.contains_key(name) {
            return Err((ErrorCode::TOPIC_ALREADY_EXISTS, format!("Topic '{name}' already exists.")));
        }
        // Metric names replace '.' by '_', so Kafka rejects the second of two such names.
        let flat = |name: &str| name.replace('.', "_");
        let mut similar = self.names().filter(|_| name.contains(['.', '_']));
        if let Some(other) = similar.find(|other| flat(other) == flat(name)) {
            let message = format!("Topic '{name}' collides with existing topic: {other}");
            return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, message));
        }
        Ok(())
    }

    /// Checks whether this many partitions can be added.
    pub fn check_partitions(&self, more: usize) -> Result<(), (ErrorCode, String)> {
        if more > MAX_PARTITIONS {
            return Err((
                ErrorCode::POLICY_VIOLATION,
                format!("A topic may have at most {MAX_PARTITIONS} partitions."),
            ));
        }
        if self.partitions + more > MAX_PARTITIONS_TOGETHER {
            let message = format!("All topics together may have at most {MAX_PARTITIONS_TOGETHER} partitions.");
            return Err((ErrorCode::POLICY_VIOLATION, message));
        }
        Ok(())
    }

    /// Creates a topic. The caller has checked the name and the partitions. In `replicas`, the leader of each partition
    /// comes first.
    pub fn create(&mut self, name: &str, id: Uuid, replicas: Vec<Vec<i32>>, configs: Configs) {
        // Internal topics come at any time, and must not change which node leads the next topic.
        self.created += usize::from(!is_internal(name));
        self.partitions += replicas.len();
        self.names.insert(id, name.to_owned());
        let partitions = replicas.into_iter().map(Partition::new).collect();
        self.by_name.insert(name.to_owned(), Topic { id, configs, partitions });
    }

    /// Adds partitions to a topic. The caller has checked their number.
    pub fn grow(&mut self, name: &str, replicas: Vec<Vec<i32>>) {
        if let Some(topic) = self.by_name.get_mut(name) {
            self.partitions += replicas.len();
            topic.partitions.extend(replicas.into_iter().map(Partition::new));
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Topic> {
        let topic = self.by_name.remove(name)?;
        self.names.remove(&topic.id);
        self.partitions -= topic.partitions.len();
        Some(topic)
    }
}

/// Topics in which Kafka's coordinators keep their state.
pub(super) const OFFSETS: &str = "__consumer_offsets";
pub(super) const SHARES: &str = "__share_group_state";
pub(super) const TRANSACTIONS: &str = "__transaction_state";

/// Returns whether the topic is an internal topic of Kafka.
pub(super) fn is_internal(name: &str) -> bool {
    matches!(name, OFFSETS | SHARES | TRANSACTIONS)
}

/// Checks Kafka's rules for topic names. The error is a message.
pub(super) fn valid_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("the empty string is not allowed".to_owned());
    }
    if name == "." || name == ".." {
        return Err(format!("'{name}' is not allowed"));
    }
    if name.len() > MAX_NAME {
        return Err(format!("the length of '{name}' is longer than the max allowed length {MAX_NAME}"));
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
        return Err(format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Release;

    #[test]
    fn names_are_what_kafka_allows() {
        for name in ["a", "A.b_c-9", &"x".repeat(MAX_NAME)] {
            assert_eq!(valid_name(name), Ok(()));
        }
        for name in ["", ".", "..", "a b", "ä", "a/b", &"x".repeat(MAX_NAME + 1)] {
            assert!(valid_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_dot_and_an_underscore_collide() {
        let mut topics = Topics::default();
        topics.create("a.b", Uuid([1; 16]), vec![vec![1]], Configs::of(Defaults::new(Release::V4_4, |_| None)));
        assert_eq!(topics.check_name("a_b").unwrap_err().0, ErrorCode::INVALID_TOPIC_EXCEPTION);
        assert_eq!(topics.check_name("a.b").unwrap_err().0, ErrorCode::TOPIC_ALREADY_EXISTS);
        assert_eq!(topics.check_name("a-b"), Ok(()));
        assert!(topics.remove("a.b").is_some());
        assert_eq!(topics.check_name("a_b"), Ok(()));
    }
}
