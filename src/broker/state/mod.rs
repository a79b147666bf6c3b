//! The state of a cluster, which all nodes share. Only handlers and the test controls of the cluster change the state.
//!
//! The other files in `src/broker/state` have the operations on the state, one file for each subject. The parts of the
//! state, such as `topics` and `transactions`, are in `src/broker` and do not depend on `src/broker/state`.

mod access;
mod journal;
mod logs;
mod node_configs;
mod nodes;
mod quotas;
mod tokens;
mod transactions;

pub(super) use access::ANONYMOUS;

use super::authorizer::Authorizer;
use super::clock::{Clock, Time};
use super::configs::Defaults;
use super::fetch_sessions::FetchSessions;
use super::group::{Groups, Settings};
use super::ids::{Connection, ProducerIds};
use super::journal::Journal;
use super::memory::Memory;
use super::node_configs::NodeConfigs;
use super::options::{Node, Options};
use super::quotas::Quotas;
use super::request::ServedApi;
use super::sasl::{Authenticator, Credentials, SaslReply, Users};
use super::telemetry::Telemetry;
use super::tokens::Tokens;
use super::topics::Topics;
use super::transactions::Transactions;

use crate::api::Release;
use crate::random::Random;
use crate::wire::Uuid;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct State {
    nodes: Vec<Node>,
    racks: Vec<String>,
    pub down: BTreeSet<i32>,
    /// Number of nodes at the start of the cluster. A hash spreads the coordinators over these nodes.
    coordinators: usize,
    /// The nodes to which tests moved coordinators, by group or transactional ID.
    moved: BTreeMap<String, i32>,
    coordinator_epoch: i32,
    /// The release that the cluster imitates. With `None`, the cluster serves every API and version.
    pub release: Option<Release>,
    pub served: Vec<ServedApi>,
    pub cluster_id: String,
    pub node_configs: NodeConfigs,
    /// The topic defaults that node configurations and the release determine.
    pub topic_defaults: Defaults,
    /// Level of the root logger, which has no effect.
    pub log_level: String,
    pub transaction_version: i16,
    pub memory: Memory,
    pub topics: Topics,
    pub groups: Groups,
    pub fetch_sessions: FetchSessions,
    pub transactions: Transactions,
    pub producer_ids: ProducerIds,
    pub journal: Journal,
    /// SASL authentication, or `None` if clients do not have to authenticate.
    pub authenticator: Option<Authenticator>,
    /// SCRAM users, which the state stores even if authentication is disabled.
    pub credentials: Credentials,
    pub tokens: Tokens,
    /// Access rules. `None` allows every operation.
    pub authorizer: Option<Authorizer>,
    pub quotas: Quotas,
    pub telemetry: Telemetry,
    /// Names in the TLS certificates of clients.
    pub certified: HashMap<Connection, String>,
    /// Connections whose waiting request may be able to complete now.
    pub woken: BTreeSet<Connection>,
    random: Random,
}

impl State {
    pub fn new(
        options: &Options,
        nodes: Vec<Node>,
        release: Option<Release>,
        served: Vec<ServedApi>,
        seed: u64,
    ) -> Self {
        let mut random = Random::new(seed);
        let newest = release.unwrap_or(Release::V4_4);
        let node_configs = NodeConfigs::new(newest, options.first_node, options.file());
        let delay = node_configs.number("group.initial.rebalance.delay.ms");
        let tokens = Tokens::new(
            node_configs.changed("delegation.token.secret.key"),
            node_configs.number("delegation.token.expiry.check.interval.ms"),
        );
        Self {
            release,
            served,
            coordinators: nodes.len(),
            nodes,
            racks: options.racks.clone(),
            down: BTreeSet::new(),
            moved: BTreeMap::new(),
            coordinator_epoch: 0,
            cluster_id: cluster_id(&mut random),
            topic_defaults: Defaults::new(newest, |name| node_configs.changed(name)),
            log_level: "INFO".to_owned(),
            transaction_version: match release {
                Some(release) if release < Release::V4_0 => options.transaction_version.min(1),
                _ => options.transaction_version,
            },
            memory: Memory::new(options.max_bytes),
            topics: Topics::default(),
            groups: Groups::new(
                Duration::from_millis(u64::try_from(delay.unwrap_or(0)).unwrap_or(0)),
                Settings::of_nodes(&node_configs),
                node_configs.migration_policy(),
            ),
            node_configs,
            fetch_sessions: FetchSessions::new(Random::new(random.next_u64())),
            transactions: Transactions::default(),
            producer_ids: ProducerIds(1000),
            journal: Journal::default(),
            credentials: options.sasl.as_ref().map_or_else(Credentials::default, |sasl| Credentials::new(&sasl.users)),
            tokens,
            authenticator: options.sasl.clone().map(Authenticator::new),
            authorizer: options.acls.clone().map(Authorizer::new),
            quotas: Quotas::default(),
            telemetry: Telemetry::default(),
            certified: HashMap::new(),
            woken: BTreeSet::new(),
            random,
        }
    }

    /// Returns whether the cluster imitates this release or a later one.
    pub fn is_since(&self, release: Release) -> bool {
        self.topic_defaults.release >= release
    }

    /// Returns a connection whose waiting request may be able to complete now.
    pub fn next_woken(&mut self) -> Option<Connection> {
        self.woken.pop_first().or_else(|| self.groups.replies.next_ready())
    }

    /// Returns when the caller must call [`Self::handle_timeout`] next.
    pub fn next_timeout(&self) -> Option<Time> {
        self.transactions.next_timeout().into_iter().chain(self.groups.next_timeout()).min()
    }

    /// Expires transactions and group members.
    pub fn handle_timeout(&mut self, clock: Clock) {
        while let Some(ended) = self.transactions.expire(&mut self.memory, clock.now) {
            self.write_markers(clock, &ended);
        }
        for group in self.groups.handle_timeout(&mut self.memory, clock.now) {
            self.wake_freed(&group);
        }
    }

    /// Wakes requests that wait for records in partitions in which a share group has released records.
    pub fn wake_freed(&mut self, group: &str) {
        for id in self.groups.take_freed(group) {
            if let Some(partition) = self.topics.partition_by_id(id) {
                self.woken.extend(&partition.waiters);
            }
        }
    }

    /// Handles a SASL message of a client, see [`Authenticator::handle_token`].
    pub fn handle_token(
        &mut self,
        clock: Clock,
        connection: Connection,
        token: &[u8],
    ) -> Option<Result<SaslReply, String>> {
        self.expire_tokens(clock);
        let users = Users { credentials: &self.credentials, tokens: &self.tokens };
        self.authenticator.as_mut()?.handle_token(clock, connection, token, users, || self.random.next_u64())
    }

    pub fn disconnect(&mut self, connection: Connection) {
        self.certified.remove(&connection);
        if let Some(authenticator) = &mut self.authenticator {
            authenticator.disconnect(connection);
        }
        for group in self.groups.disconnect(&mut self.memory, connection) {
            self.wake_freed(&group);
        }
    }

    /// Returns the unique part of a new member ID: a UUID as Java writes it.
    pub fn new_member_id(&mut self) -> String {
        hyphenated(self.new_uuid())
    }

    pub fn new_uuid(&mut self) -> Uuid {
        let mut bytes = self.random.next_bytes();
        // A version 4 UUID. It is never zero, which would mean no ID.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }
}

/// Formats a UUID with hyphens: 8-4-4-4-12 hexadecimal digits.
fn hyphenated(Uuid(bytes): Uuid) -> String {
    let mut text = String::with_capacity(36);
    for (n, byte) in bytes.iter().enumerate() {
        text.push_str(if matches!(n, 4 | 6 | 8 | 10) { "-" } else { "" });
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Returns 22 random characters, the length of Kafka's cluster IDs.
fn cluster_id(random: &mut Random) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..22).map(|_| char::from(LETTERS[random.next_u64() as usize % LETTERS.len()])).collect()
}
