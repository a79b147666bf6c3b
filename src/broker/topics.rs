//! Topics and their partitions: by name and by id, who leads, what a name may be.

use super::Connection;
use super::configs::Configs;
use super::idempotence::Producers;
use super::log::Log;
use crate::api::ErrorCode;
use crate::wire::Uuid;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Partitions one topic, and all together, may have: a bound for requests gone wild, not a promise.
const MAX_PARTITIONS: usize = 10_000;
const MAX_PARTITIONS_TOGETHER: usize = 200_000;

const MAX_NAME: usize = 249;

/// A topic.
#[derive(Debug)]
pub(super) struct Topic {
    pub id: Uuid,
    pub configs: Configs,
    pub partitions: Vec<Partition>,
}

/// A partition; its replicas are views of one log, so all that are up are always in sync.
#[derive(Debug)]
pub(super) struct Partition {
    pub leader: i32,
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
    pub log: Log,
    pub producers: Producers,
    /// Connections whose parked fetch reads this partition.
    pub waiters: BTreeSet<Connection>,
}

impl Partition {
    /// An empty one; the first of its replicas leads.
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

    /// Makes a node the leader, -1 for none.
    pub fn lead(&mut self, node: i32) {
        self.leader = node;
        self.leader_epoch += 1;
    }

    /// Whether a node leads this partition, for a client that knows its `epoch` (-1: does not).
    pub fn check_leader(&self, node: i32, epoch: i32) -> Result<(), ErrorCode> {
        if self.leader != node {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        self.check_epoch(epoch)
    }

    /// Whether a node has a replica of it.
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
    /// A partition by the number from a request.
    pub fn partition(&mut self, index: i32) -> Option<&mut Partition> {
        self.partitions.get_mut(usize::try_from(index).ok()?)
    }
}

/// All topics.
#[derive(Debug, Default)]
pub(super) struct Topics {
    by_name: BTreeMap<String, Topic>,
    names: HashMap<Uuid, String>,
    partitions: usize,
    created: usize,
}

impl Topics {
    /// By name.
    pub fn get(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name)
    }

    /// By name, to change it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Topic> {
        self.by_name.get_mut(name)
    }

    /// The name of an id.
    pub fn name_of(&self, id: Uuid) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// The topic a request means: by id in versions that have ids, by name in the others.
    pub fn find<'a>(&'a mut self, name: &'a str, id: Uuid, by_id: bool) -> Result<&'a mut Topic, ErrorCode> {
        let (name, unknown) = if by_id {
            (self.names.get(&id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?.as_str(), ErrorCode::UNKNOWN_TOPIC_ID)
        } else {
            (name, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        };
        self.by_name.get_mut(name).ok_or(unknown)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Every partition, to change it.
    pub fn partitions_mut(&mut self) -> impl Iterator<Item = &mut Partition> {
        self.by_name.values_mut().flat_map(|topic| &mut topic.partitions)
    }

    /// How many topics were ever made.
    pub fn created(&self) -> usize {
        self.created
    }

    /// Whether a topic of this name could be made; the error is a sentence.
    pub fn check_name(&self, name: &str) -> Result<(), (ErrorCode, String)> {
        if let Err(why) = valid_name(name) {
            return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, format!("Topic name is invalid: {why}")));
        }
        if self.by_name.contains_key(name) {
            return Err((ErrorCode::TOPIC_ALREADY_EXISTS, format!("Topic '{name}' already exists.")));
        }
        // Metric names take '.' for '_', so Kafka allows only one of such a pair.
        let flat = |name: &str| name.replace('.', "_");
        let mut similar = self.names().filter(|_| name.contains(['.', '_']));
        if let Some(other) = similar.find(|other| flat(other) == flat(name)) {
            let message = format!("Topic '{name}' collides with existing topic: {other}");
            return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, message));
        }
        Ok(())
    }

    /// Whether there may be so many partitions more.
    pub fn check_partitions(&self, more: usize) -> Result<(), (ErrorCode, String)> {
        if more > MAX_PARTITIONS {
            return Err((ErrorCode::POLICY_VIOLATION, format!("A topic may have {MAX_PARTITIONS} partitions here.")));
        }
        if self.partitions + more > MAX_PARTITIONS_TOGETHER {
            let message = format!("All topics together may have {MAX_PARTITIONS_TOGETHER} partitions here.");
            return Err((ErrorCode::POLICY_VIOLATION, message));
        }
        Ok(())
    }

    /// Makes a topic whose name and partitions were checked. `replicas` has the leader of each partition first.
    pub fn create(&mut self, name: &str, id: Uuid, replicas: Vec<Vec<i32>>, configs: Configs) {
        self.created += 1;
        self.partitions += replicas.len();
        self.names.insert(id, name.to_owned());
        let partitions = replicas.into_iter().map(Partition::new).collect();
        self.by_name.insert(name.to_owned(), Topic { id, configs, partitions });
    }

    /// Gives a topic more partitions, whose number was checked.
    pub fn grow(&mut self, name: &str, replicas: Vec<Vec<i32>>) {
        if let Some(topic) = self.by_name.get_mut(name) {
            self.partitions += replicas.len();
            topic.partitions.extend(replicas.into_iter().map(Partition::new));
        }
    }

    /// Takes a topic out.
    pub fn remove(&mut self, name: &str) -> Option<Topic> {
        let topic = self.by_name.remove(name)?;
        self.names.remove(&topic.id);
        self.partitions -= topic.partitions.len();
        Some(topic)
    }
}

/// Names of topics that Kafka keeps for itself.
pub(super) fn is_internal(name: &str) -> bool {
    matches!(name, "__consumer_offsets" | "__transaction_state" | "__share_group_state")
}

/// What Kafka allows as a topic name; the error is a sentence.
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
        topics.create("a.b", Uuid([1; 16]), vec![vec![1]], Configs::default());
        assert_eq!(topics.check_name("a_b").unwrap_err().0, ErrorCode::INVALID_TOPIC_EXCEPTION);
        assert_eq!(topics.check_name("a.b").unwrap_err().0, ErrorCode::TOPIC_ALREADY_EXISTS);
        assert_eq!(topics.check_name("a-b"), Ok(()));
        assert!(topics.remove("a.b").is_some());
        assert_eq!(topics.check_name("a_b"), Ok(()));
    }
}
