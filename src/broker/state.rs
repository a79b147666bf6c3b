//! What the nodes of a cluster know in common, without connections: handlers change it and nothing else does.

use super::authorizer::Authorizer;
use super::fetch_sessions::FetchSessions;
use super::group::Groups;
use super::journal::{Entry, Journal};
use super::quotas::Quotas;
use super::sasl::{Credentials, Door, Told};
use super::topics::Topics;
use super::transactions::{self, Ended, Transactions};
use super::{Connection, Options, Time, Version, handlers};
use crate::api::{ErrorCode, Release};
use crate::random::Random;
use crate::wire::Uuid;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A node's id and the address clients reach it at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node id.
    pub id: i32,
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// A byte bound and what is taken of it.
#[derive(Debug)]
pub(super) struct Memory {
    used: usize,
    pub limit: usize,
}

impl Memory {
    /// Takes `n` bytes if the bound allows it.
    pub fn take(&mut self, n: usize) -> bool {
        match self.used.checked_add(n).filter(|used| *used <= self.limit) {
            Some(used) => {
                self.used = used;
                true
            }
            None => false,
        }
    }

    /// The bound, and what is left of it.
    pub fn room(&self) -> (usize, usize) {
        (self.limit, self.limit.saturating_sub(self.used))
    }

    /// Whether the bound leaves room for `n` bytes.
    pub fn has(&self, n: usize) -> bool {
        self.used.checked_add(n).is_some_and(|used| used <= self.limit)
    }

    /// Takes `n` bytes whatever the bound says: for what follows from something that was allowed.
    pub fn charge(&mut self, n: usize) {
        self.used = self.used.saturating_add(n);
    }

    /// Gives `n` bytes back.
    pub fn give(&mut self, n: usize) {
        self.used = self.used.saturating_sub(n);
    }
}

/// A producer id and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProducerId {
    pub id: i64,
    pub epoch: i16,
}

impl ProducerId {
    pub const NONE: Self = Self { id: -1, epoch: -1 };

    /// The same producer, its holder so far fenced.
    pub fn next_epoch(self) -> Self {
        Self { epoch: self.epoch.saturating_add(1), ..self }
    }
}

/// Makes producer ids.
#[derive(Debug)]
pub(super) struct ProducerIds(pub i64);

impl ProducerIds {
    pub fn next(&mut self) -> i64 {
        self.0 += 1;
        self.0 - 1
    }
}

/// What time it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub now: Time,
    /// Wall clock, milliseconds since 1970.
    pub wall_ms: i64,
}

impl Clock {
    pub fn new(now: Time, start_ms: i64) -> Self {
        Self { now, wall_ms: start_ms.saturating_add(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)) }
    }
}

/// See the top of this file.
#[derive(Debug)]
pub(super) struct State {
    nodes: Vec<Node>,
    racks: Vec<String>,
    /// Nodes that were killed.
    pub down: BTreeSet<i32>,
    /// Nodes at the start, among which coordinators are spread.
    coordinators: usize,
    /// Coordinators that were moved.
    moved: BTreeMap<String, i32>,
    coordinator_epoch: i32,
    /// The release that clients meet, if not all that is served here.
    pub release: Option<Release>,
    pub served: Vec<handlers::Served>,
    pub cluster_id: String,
    pub auto_create_topics: bool,
    pub default_partitions: i32,
    pub transaction_version: i16,
    pub memory: Memory,
    pub topics: Topics,
    pub groups: Groups,
    pub fetch_sessions: FetchSessions,
    pub transactions: Transactions,
    pub producer_ids: ProducerIds,
    pub journal: Journal,
    /// Who may come in; `None` for everybody.
    pub door: Option<Door>,
    /// The users of SCRAM, who are kept whether or not anybody has to log in.
    pub credentials: Credentials,
    /// Who may do what; `None` for everybody everything.
    pub authorizer: Option<Authorizer>,
    /// How much everybody may.
    pub quotas: Quotas,
    /// Whom the certificates of clients name.
    pub certified: HashMap<Connection, String>,
    /// Connections whose parked request has something new to look at.
    pub woken: BTreeSet<Connection>,
    random: Random,
}

impl State {
    pub fn new(options: &Options, nodes: Vec<Node>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let release = match options.as_version {
            Version::Release(release) => Some(release),
            _ => None,
        };
        Self {
            release,
            served: handlers::served(release),
            coordinators: nodes.len(),
            nodes,
            racks: options.racks.clone(),
            down: BTreeSet::new(),
            moved: BTreeMap::new(),
            coordinator_epoch: 0,
            cluster_id: cluster_id(&mut random),
            auto_create_topics: options.auto_create_topics,
            default_partitions: options.default_partitions,
            transaction_version: match release {
                Some(release) if release < Release::V4_0 => options.transaction_version.min(1),
                _ => options.transaction_version,
            },
            memory: Memory { used: 0, limit: options.max_bytes },
            topics: Topics::default(),
            groups: Groups::new(options.group_initial_rebalance_delay),
            fetch_sessions: FetchSessions::new(Random::new(random.next_u64())),
            transactions: Transactions::default(),
            producer_ids: ProducerIds(1000),
            journal: Journal::default(),
            credentials: options.sasl.as_ref().map_or_else(Credentials::default, |sasl| Credentials::new(&sasl.users)),
            door: options.sasl.clone().map(Door::new),
            authorizer: options.acls.clone().map(Authorizer::new),
            quotas: Quotas::default(),
            certified: HashMap::new(),
            woken: BTreeSet::new(),
            random,
        }
    }

    pub fn node(&self, id: i32) -> Option<&Node> {
        self.nodes.iter().find(|n| n.id == id)
    }

    /// Every node, up or down.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// The nodes that are up, by id.
    pub fn live(&self) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.iter().filter(|n| !self.down.contains(&n.id))
    }

    /// The rack that a node is in.
    pub fn rack(&self, node: i32) -> Option<String> {
        let index = usize::try_from(node).ok()?.checked_sub(1)?.checked_rem(self.racks.len())?;
        self.racks.get(index).cloned()
    }

    /// The node that keeps a group's offsets or a transactional id's state: where it was moved to or a hash says, or
    /// the next one that is up.
    pub fn coordinator(&self, key: &str) -> Option<&Node> {
        // FNV-1a: any hash does that spreads keys and gives every node the same answer.
        let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let moved = self.moved.get(key).and_then(|id| self.nodes.iter().position(|n| n.id == *id));
        let home = moved.unwrap_or((hash >> 32) as usize % self.coordinators.max(1));
        let (before, from) = self.nodes.split_at_checked(home)?;
        from.iter().chain(before).find(|n| !self.down.contains(&n.id))
    }

    pub fn is_coordinator(&self, node: i32, key: &str) -> bool {
        self.coordinator(key).is_some_and(|n| n.id == node)
    }

    /// Has a group or transactional id coordinated by a node; the error is a sentence.
    pub fn move_coordinator(&mut self, now: Time, key: &str, node: i32) -> Result<(), String> {
        self.check_live(node)?;
        let before = self.group_coordinators();
        self.moved.insert(key.to_owned(), node);
        self.coordinator_epoch += 1;
        self.hand_over(now, before);
        Ok(())
    }

    /// The coordinators of all groups.
    fn group_coordinators(&self) -> Vec<(String, Option<i32>)> {
        self.groups.all().map(|(id, _)| (id.to_owned(), self.coordinator(id).map(|n| n.id))).collect()
    }

    /// Tells the groups that have other coordinators than before.
    fn hand_over(&mut self, now: Time, before: Vec<(String, Option<i32>)>) {
        for (id, node) in before {
            if self.coordinator(&id).map(|n| n.id) != node {
                self.groups.move_away(&mut self.memory, now, &id);
            }
        }
    }

    /// Has a partition led by a node, in place of the leader so far if it had no replica; the error is a sentence.
    pub fn move_leader(&mut self, topic: &str, index: i32, node: i32) -> Result<(), String> {
        self.check_live(node)?;
        let partition = self.topics.get_mut(topic).and_then(|t| t.partition(index));
        let partition = partition.ok_or_else(|| format!("there is no partition {index} of topic '{topic}'"))?;
        if !partition.replicas.contains(&node) {
            match partition.replicas.iter_mut().find(|id| **id == partition.leader) {
                Some(leader) => *leader = node,
                None => partition.replicas.push(node),
            }
        }
        if partition.leader != node {
            partition.lead(node);
            self.woken.extend(&partition.waiters);
        }
        self.note_topic(topic);
        Ok(())
    }

    /// Gives a partition, which has to be there, other replicas; the first of them that is up leads, unless the leader
    /// so far is one of them.
    pub fn assign(&mut self, topic: &str, index: i32, replicas: Vec<i32>) {
        let Self { topics, down, woken, .. } = self;
        let Some(partition) = topics.get_mut(topic).and_then(|t| t.partition(index)) else { return };
        if !replicas.contains(&partition.leader) {
            partition.lead(replicas.iter().find(|id| !down.contains(id)).copied().unwrap_or(-1));
            woken.extend(&partition.waiters);
        }
        partition.replicas = replicas;
        self.note_topic(topic);
    }

    /// What is said of delegation tokens, which there are none of: to who did not log in, that nobody may ask.
    pub fn no_tokens(&self) -> ErrorCode {
        match self.door {
            Some(_) => ErrorCode::DELEGATION_TOKEN_AUTH_DISABLED,
            None => ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        }
    }

    /// Cuts a log at an offset, as an election does of a replica that lagged behind; the error is a sentence.
    pub fn truncate(&mut self, topic: &str, index: i32, offset: i64) -> Result<(), String> {
        let partition = self.topics.get_mut(topic).and_then(|t| t.partition(index));
        let partition = partition.ok_or_else(|| format!("there is no partition {index} of topic '{topic}'"))?;
        let before = partition.log.total_cost();
        partition.log.truncate(offset);
        self.memory.give(before - partition.log.total_cost());
        partition.lead(partition.leader);
        self.woken.extend(&partition.waiters);
        self.journal.note(|| Entry::cut(topic, index, offset));
        self.note_topic(topic);
        Ok(())
    }

    /// Takes a node down; what it led and coordinated moves, where there is another replica.
    pub fn kill(&mut self, now: Time, node: i32) -> Result<(), String> {
        self.check_live(node)?;
        let before = self.group_coordinators();
        self.down.insert(node);
        self.fetch_sessions.forget(&mut self.memory, node);
        self.elect();
        self.hand_over(now, before);
        Ok(())
    }

    /// Brings a node up again, or in.
    pub fn start(&mut self, now: Time, node: Node) {
        let before = self.group_coordinators();
        self.down.remove(&node.id);
        if self.node(node.id).is_none() {
            self.nodes.push(node);
        }
        self.elect();
        self.hand_over(now, before);
    }

    fn check_live(&self, node: i32) -> Result<(), String> {
        match self.node(node) {
            Some(_) if self.is_live(node) => Ok(()),
            Some(_) => Err(format!("node {node} is down")),
            None => Err(format!("there is no node {node}")),
        }
    }

    pub fn is_live(&self, node: i32) -> bool {
        !self.down.contains(&node)
    }

    /// Finds leaders for partitions whose leader is down.
    fn elect(&mut self) {
        self.coordinator_epoch += 1;
        for partition in self.topics.partitions_mut() {
            if partition.leader >= 0 && !self.down.contains(&partition.leader) {
                continue;
            }
            let next = partition.replicas.iter().find(|id| !self.down.contains(id)).copied().unwrap_or(-1);
            if next != partition.leader {
                partition.lead(next);
                self.woken.extend(&partition.waiters);
            }
        }
        self.note_topics();
    }

    /// Takes a topic away with everything that belongs to it.
    pub fn delete_topic(&mut self, name: &str) -> Option<Uuid> {
        let topic = self.topics.remove(name)?;
        for partition in &topic.partitions {
            self.memory.give(partition.log.total_cost() + partition.producers.total_cost());
            self.woken.extend(&partition.waiters);
        }
        self.groups.forget_topic(&mut self.memory, name, topic.id);
        self.journal.note(|| Entry::topic_gone(name));
        Some(topic.id)
    }

    /// The replicas of a partition that are up, which have all of it.
    pub fn in_sync(&self, replicas: &[i32]) -> Vec<i32> {
        replicas.iter().filter(|id| !self.down.contains(id)).copied().collect()
    }

    /// A connection whose parked request has something new to look at.
    pub fn next_woken(&mut self) -> Option<Connection> {
        self.woken.pop_first().or_else(|| self.groups.answers.next_ready())
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        self.transactions.next_timeout().into_iter().chain(self.groups.next_timeout()).min()
    }

    /// Ends what has lasted too long.
    pub fn handle_timeout(&mut self, clock: Clock) {
        while let Some(ended) = self.transactions.expire(&mut self.memory, clock.now) {
            self.write_markers(clock, &ended);
        }
        for group in self.groups.handle_timeout(&mut self.memory, clock.now) {
            self.wake_freed(&group);
        }
    }

    /// Wakes who waits for records that a share group has to give again.
    pub fn wake_freed(&mut self, group: &str) {
        for (topic, index) in self.groups.take_freed(group) {
            if let Some(partition) = self.topics.find("", topic, true).ok().and_then(|t| t.partition(index)) {
                self.woken.extend(&partition.waiters);
            }
        }
    }

    /// A token of a client that logs in, see [`Door::take`].
    pub fn take_token(&mut self, clock: Clock, connection: Connection, token: &[u8]) -> Option<Result<Told, String>> {
        self.door.as_mut()?.take(clock, connection, token, &self.credentials, || self.random.next_u64())
    }

    /// A connection is gone.
    pub fn hang_up(&mut self, connection: Connection) {
        self.certified.remove(&connection);
        if let Some(door) = &mut self.door {
            door.hang_up(connection);
        }
        for group in self.groups.hang_up(&mut self.memory, connection) {
            self.wake_freed(&group);
        }
    }

    /// Who leads a partition, and in which epoch.
    pub fn leader(&self, topic: Uuid, index: i32) -> Option<(i32, i32)> {
        let topic = self.topics.get(self.topics.name_of(topic)?)?;
        let partition = topic.partitions.get(usize::try_from(index).ok()?)?;
        Some((partition.leader, partition.leader_epoch))
    }

    /// Writes the markers of a transaction that is over.
    pub fn write_markers(&mut self, clock: Clock, ended: &Ended) {
        transactions::write_markers(self, clock, self.coordinator_epoch, ended);
    }

    /// How many copies a topic has that does not say: as a careful operator would set it.
    pub fn default_replication_factor(&self) -> usize {
        self.live().count().min(3)
    }

    /// Replicas of each partition, the leader first: round robin from a node that moves on with every topic.
    pub fn spread(&self, partitions: usize, replication_factor: usize) -> Vec<Vec<i32>> {
        let count = self.live().count().max(1);
        let nodes = self.live().map(|n| n.id).cycle();
        let first = self.topics.created() % count;
        (0..partitions).map(|p| nodes.clone().skip((first + p) % count).take(replication_factor).collect()).collect()
    }

    /// What makes a member id unique, in the form Java gives it.
    pub fn new_member_id(&mut self) -> String {
        hyphenated(self.new_uuid())
    }

    pub fn new_uuid(&mut self) -> Uuid {
        let mut bytes = self.random.next_bytes();
        // A version-4 id; never zero, which would mean none.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }
}

/// 8-4-4-4-12 hexadecimal digits.
fn hyphenated(Uuid(bytes): Uuid) -> String {
    let mut text = String::with_capacity(36);
    for (n, byte) in bytes.iter().enumerate() {
        text.push_str(if matches!(n, 4 | 6 | 8 | 10) { "-" } else { "" });
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Returns 22 random characters, the length of Kafka's cluster ids.
fn cluster_id(random: &mut Random) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..22).map(|_| char::from(LETTERS[random.next_u64() as usize % LETTERS.len()])).collect()
}
