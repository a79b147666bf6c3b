//! A member of a share group (KIP-932): the coordinator assigns partitions that other members may read as well.
//!
//! A member of a share group therefore never waits for other members, and does not report that it lost a partition.
//! [`super::heartbeat_member`] has the code that all heartbeat protocols share.

use super::coordinator_client::CoordinatorClient;
use super::heartbeat_member::{
    Heartbeat, HeartbeatMember, HeartbeatProtocol, PartitionsById, Reaction, react_by_epoch,
};
use crate::api::ErrorCode;
use crate::api::share_group_heartbeat::{LEAVE, Request, Response, TopicPartitions};
use crate::engine::{Cluster, Error, Time};
use crate::wire::Uuid;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a member of a share group.
#[derive(Clone, Debug)]
pub struct ShareMemberConfig {
    /// The group's name.
    pub group: String,
    /// The rack of the client.
    pub rack: String,
    /// How long a broker may take to respond.
    pub request_timeout: Duration,
    /// How long joining may fail before the application gets an error.
    pub api_timeout: Duration,
    /// The shortest and the longest wait before a retry.
    pub retry_backoff: (Duration, Duration),
    /// The seed of the member's ID and of the jitter.
    pub seed: u64,
}

/// A member of a share group.
pub type ShareMember = HeartbeatMember<ShareProtocol>;

/// The part of the membership that only share groups have.
pub struct ShareProtocol {
    config: ShareMemberConfig,
    topics: BTreeSet<Arc<str>>,
    /// The member's subscribed topics, as far as the coordinator knows them.
    accepted_topics: Option<BTreeSet<Arc<str>>>,
    /// The topics that the coordinator will know after it has accepted the heartbeat in flight.
    sent_topics: Option<BTreeSet<Arc<str>>>,
    assigned: PartitionsById,
    /// Whether the names of some assigned topics may be unknown.
    may_lack_names: bool,
}

impl ShareMember {
    /// Creates a member that has not joined its group.
    pub fn new(config: ShareMemberConfig) -> Self {
        let timeouts = (config.request_timeout, config.api_timeout);
        let coordinator = CoordinatorClient::new(config.group.clone(), timeouts, config.retry_backoff, config.seed);
        let seed = config.seed;
        let protocol = ShareProtocol {
            config,
            topics: BTreeSet::new(),
            accepted_topics: None,
            sent_topics: None,
            assigned: PartitionsById::new(),
            may_lack_names: false,
        };
        Self::with_protocol(coordinator, seed, protocol)
    }

    /// Returns the group's name.
    pub fn group(&self) -> &str {
        &self.protocol.config.group
    }

    /// Joins the group, or changes the topics that the member reads.
    pub fn subscribe(&mut self, now: Time, topics: BTreeSet<Arc<str>>) {
        self.coordinator.demand.topics.extend(topics.iter().cloned());
        self.coordinator.demand.creates.extend(topics.iter().cloned());
        self.coordinator.demand.drops_topics = true;
        self.protocol.topics = topics;
        self.take_error();
        self.join(now);
    }

    /// Returns the topics that the member reads.
    pub fn subscription(&self) -> &BTreeSet<Arc<str>> {
        &self.protocol.topics
    }

    /// Leaves the group.
    pub fn leave(&mut self, now: Time) {
        self.leave_group(now);
        self.coordinator.demand.drops_topics = true;
        self.protocol.topics.clear();
    }

    /// Returns whether [`ShareMember::take_join_error`] has an error.
    pub fn has_join_error(&self) -> bool {
        self.coordinator.has_join_error()
    }

    /// Returns whether the member tries to join the group and fails.
    pub fn fails_to_join(&self) -> bool {
        self.coordinator.last_join_error().is_some()
    }

    /// Returns the error if joining keeps failing. Each error is returned only once, and the member keeps retrying.
    pub fn take_join_error(&mut self) -> Option<Error> {
        self.coordinator.take_join_error()
    }

    /// Returns the assigned partitions of topics whose names are known.
    pub fn assigned(&self) -> impl Iterator<Item = (&Arc<str>, Uuid, i32)> {
        let topics = self.coordinator.cluster.topics.iter();
        let with_names =
            topics.filter_map(|(name, topic)| Some((name, topic.id, self.protocol.assigned.get(&topic.id)?)));
        with_names.flat_map(|(name, id, partitions)| partitions.iter().map(move |p| (name, id, *p)))
    }
}

impl HeartbeatProtocol for ShareProtocol {
    type Request = Request;
    type Response = Response;
    const GROUP: &str = "share group";

    fn request(&self, member_id: &str, epoch: i32) -> Request {
        let group_id = self.config.group.clone();
        Request { group_id, member_id: member_id.to_owned(), member_epoch: epoch, ..Default::default() }
    }

    fn read(response: Response) -> Heartbeat {
        let by_id = |t: TopicPartitions| (t.topic_id, t.partitions);
        Heartbeat {
            error_code: response.error_code,
            error_message: response.error_message,
            member_id: response.member_id,
            member_epoch: response.member_epoch,
            interval_ms: response.heartbeat_interval_ms,
            assignment: response.assignment.map(|a| a.topic_partitions.into_iter().map(by_id).collect()),
        }
    }

    fn leave_epoch(&self) -> i32 {
        LEAVE
    }

    fn add_changed_fields(&mut self, request: &mut Request, _cluster: &Cluster) {
        if self.accepted_topics.is_none() {
            request.rack_id = Some(self.config.rack.clone()).filter(|r| !r.is_empty());
        }
        if self.accepted_topics.as_ref() != Some(&self.topics) {
            request.subscribed_topic_names = Some(self.topics.iter().map(ToString::to_string).collect());
        }
        self.sent_topics = Some(self.topics.clone());
    }

    fn has_changed_fields(&self) -> bool {
        self.accepted_topics.as_ref().is_some_and(|accepted| *accepted != self.topics)
    }

    fn accepted(&mut self) {
        self.accepted_topics = self.sent_topics.take();
    }

    fn forget_accepted(&mut self) {
        self.accepted_topics = None;
    }

    fn assign(&mut self, assignment: PartitionsById) {
        self.assigned = assignment;
        self.may_lack_names = true;
    }

    fn cluster_changed(&mut self) {
        self.may_lack_names = true;
    }

    fn reconcile(&mut self, cluster: &Cluster) -> Vec<Uuid> {
        if !self.may_lack_names {
            return Vec::new();
        }
        let ids_with_names: BTreeSet<Uuid> = cluster.topics.values().map(|t| t.id).collect();
        let unknown: Vec<Uuid> = self.assigned.keys().filter(|id| !ids_with_names.contains(id)).copied().collect();
        self.may_lack_names = !unknown.is_empty();
        unknown
    }

    fn unassign(&mut self) {
        self.assigned.clear();
    }

    fn react(&mut self, _now: Time, epoch: i32, code: ErrorCode) -> Option<Reaction> {
        react_by_epoch(epoch, code)
    }

    fn hint(code: ErrorCode) -> Option<&'static str> {
        (code == ErrorCode::UNSUPPORTED_VERSION).then_some("enable the feature share.version of the brokers")
    }

    fn lose_all(&mut self) {
        self.assigned.clear();
    }
}
