//! The nodes: which nodes are up, which nodes lead partitions, and which nodes coordinate groups and transactions.

use super::State;
use crate::broker::clock::Time;
use crate::broker::configs::Configs;
use crate::broker::options::Node;
use crate::broker::topics::{OFFSETS, SHARES, TRANSACTIONS};
use crate::wire::Uuid;

impl State {
    pub fn node(&self, id: i32) -> Option<&Node> {
        self.nodes.iter().find(|n| n.id == id)
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// Returns the nodes that are up, by ID.
    pub fn live(&self) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.iter().filter(|n| !self.down.contains(&n.id))
    }

    pub fn is_live(&self, node: i32) -> bool {
        !self.down.contains(&node)
    }

    pub fn rack(&self, node: i32) -> Option<String> {
        let index = self.nodes.iter().position(|n| n.id == node)?.checked_rem(self.racks.len())?;
        self.racks.get(index).cloned()
    }

    /// Returns the coordinator of a group or transactional ID: the node that a test has chosen, or the node that a hash
    /// selects. If that node is down, the next running node is the coordinator.
    pub fn coordinator(&self, key: &str) -> Option<&Node> {
        // FNV-1a. Any hash works that spreads keys and gives all nodes the same result.
        let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let moved = self.moved.get(key).and_then(|id| self.nodes.iter().position(|n| n.id == *id));
        let home = moved.unwrap_or((hash >> 32) as usize % self.coordinators.max(1));
        let (before, from) = self.nodes.split_at_checked(home)?;
        from.iter().chain(before).find(|n| !self.down.contains(&n.id))
    }

    pub fn is_coordinator(&self, node: i32, key: &str) -> bool {
        self.coordinator(key).is_some_and(|n| n.id == node)
    }

    /// Makes a node the coordinator of a group or transactional ID. The error is a message.
    pub fn move_coordinator(&mut self, now: Time, key: &str, node: i32) -> Result<(), String> {
        self.check_live(node)?;
        let before = self.group_coordinators();
        self.moved.insert(key.to_owned(), node);
        self.coordinator_epoch += 1;
        self.hand_over(now, before);
        Ok(())
    }

    /// Returns the coordinators of all groups.
    fn group_coordinators(&self) -> Vec<(String, Option<i32>)> {
        self.groups.all().map(|(id, _)| (id.to_owned(), self.coordinator(id).map(|n| n.id))).collect()
    }

    /// Moves the groups whose coordinator has changed.
    fn hand_over(&mut self, now: Time, before: Vec<(String, Option<i32>)>) {
        for (id, node) in before {
            if self.coordinator(&id).map(|n| n.id) != node {
                self.groups.move_away(&mut self.memory, now, &id);
            }
        }
    }

    /// Makes a node the leader of a partition. A node without a replica replaces the current leader in the list of
    /// replicas. The error is a message.
    pub fn move_leader(&mut self, topic: &str, index: i32, node: i32) -> Result<(), String> {
        self.check_live(node)?;
        let partition = self.topics.get_mut(topic).and_then(|t| t.partition(index));
        let partition = partition.ok_or_else(|| format!("partition {index} of topic '{topic}' does not exist"))?;
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
        self.journal_topic(topic);
        Ok(())
    }

    /// Changes the replicas of an existing partition. If the leader is not among the new replicas, the first running
    /// replica becomes the leader.
    pub fn reassign(&mut self, topic: &str, index: i32, replicas: Vec<i32>) {
        let Self { topics, down, woken, .. } = self;
        let Some(partition) = topics.get_mut(topic).and_then(|t| t.partition(index)) else { return };
        if !replicas.contains(&partition.leader) {
            partition.lead(replicas.iter().find(|id| !down.contains(id)).copied().unwrap_or(-1));
            woken.extend(&partition.waiters);
        }
        partition.replicas = replicas;
        self.journal_topic(topic);
    }

    /// Stops a node. Other nodes with a replica take over the partitions that the node led. The next running node takes
    /// over the groups and transactions that it coordinated.
    pub fn kill(&mut self, now: Time, node: i32) -> Result<(), String> {
        self.check_live(node)?;
        let before = self.group_coordinators();
        self.down.insert(node);
        self.fetch_sessions.forget(&mut self.memory, node);
        self.elect();
        self.hand_over(now, before);
        Ok(())
    }

    /// Starts a node, or adds a new one.
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
            None => Err(format!("node {node} does not exist")),
        }
    }

    /// Elects leaders for partitions whose leader is down.
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
        self.journal_topics();
    }

    /// Returns the replicas on running nodes. All replicas on running nodes are in sync, because every replica has all
    /// records.
    pub fn in_sync(&self, replicas: &[i32]) -> Vec<i32> {
        replicas.iter().filter(|id| !self.down.contains(id)).copied().collect()
    }

    /// Returns the leader of a partition and its epoch.
    pub fn leader(&self, topic: Uuid, index: i32) -> Option<(i32, i32)> {
        let topic = self.topics.get(self.topics.name_of(topic)?)?;
        let partition = topic.partitions.get(usize::try_from(index).ok()?)?;
        Some((partition.leader, partition.leader_epoch))
    }

    /// Returns the default replication factor: the configured value, or otherwise a safe value for the number of nodes.
    pub fn default_replication_factor(&self) -> usize {
        let configured = self.node_configs.changed("default.replication.factor");
        configured.and_then(|value| value.parse().ok()).unwrap_or_else(|| self.live().count().min(3))
    }

    pub fn default_partitions(&self) -> usize {
        self.node_configs.number("num.partitions").and_then(|n| usize::try_from(n).ok()).unwrap_or(1)
    }

    /// Creates an internal topic of the coordinators, if it does not exist. The topic stays empty, because the
    /// coordinators keep their state in memory.
    pub fn create_internal(&mut self, name: &str) {
        if self.topics.get(name).is_some() || self.live().next().is_none() {
            return;
        }
        let (prefix, compression) = match name {
            OFFSETS => ("offsets.topic", "producer"),
            TRANSACTIONS => ("transaction.state.log", "uncompressed"),
            _ => ("share.coordinator.state.topic", "producer"),
        };
        let set = |name: &str| self.node_configs.changed(&format!("{prefix}.{name}"));
        let partitions = set("num.partitions").and_then(|value| value.parse().ok()).unwrap_or(50);
        let factor = set("replication.factor").and_then(|value| value.parse().ok()).unwrap_or(3);
        let policy = if name == SHARES { "delete" } else { "compact" };
        let own = [("cleanup.policy", policy), ("compression.type", compression), ("segment.bytes", "104857600")];
        let configs = Configs::parse(&self.topic_defaults, own.into_iter().map(|(name, value)| (name, Some(value))));
        let (Ok(configs), Ok(())) = (configs, self.topics.check_partitions(partitions)) else { return };
        let replicas = self.assign_replicas(partitions, factor.min(self.live().count()));
        let id = self.new_uuid();
        self.topics.create(name, id, replicas, configs);
        self.journal_topic(name);
    }

    /// Assigns replicas to partitions round robin, starting from another node for each topic. The first replica is the
    /// leader.
    pub fn assign_replicas(&self, partitions: usize, replication_factor: usize) -> Vec<Vec<i32>> {
        let count = self.live().count().max(1);
        let nodes = self.live().map(|n| n.id).cycle();
        let first = self.topics.created() % count;
        (0..partitions).map(|p| nodes.clone().skip((first + p) % count).take(replication_factor).collect()).collect()
    }
}
