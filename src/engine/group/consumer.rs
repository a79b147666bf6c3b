//! A member of a consumer group (KIP-848, `group.protocol=consumer`): the coordinator assigns the partitions.
//!
//! If the assignment changes, the member first revokes the partitions that it lost, then adds the new partitions, then
//! reports the partitions that it owns. The coordinator gives a partition to its next owner only after the previous
//! owner has reported that it revoked the partition. [`super::heartbeat_member`] has the code that all heartbeat
//! protocols share.

use super::changes::Changes;
use super::config::{GroupConfig, Protocol, Subscription};
use super::heartbeat_member::{
    Heartbeat, HeartbeatMember, HeartbeatProtocol, PartitionsById, Reaction, react_by_epoch,
};
use crate::api::ErrorCode;
use crate::api::consumer_group_heartbeat::{LEAVE, LEAVE_STATIC, Request, Response, TopicPartitions};
use crate::engine::{Cluster, Time, TopicPartition};
use crate::wire::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The hint if the coordinator does not find a group that may exist.
const OTHER_PROTOCOL: &str = "the group has members with group.protocol=classic, and its brokers do not allow both protocols \
    in one group: stop those members first, or set group.consumer.migration.policy=bidirectional on the brokers (Kafka 4.0 and newer)";

/// The hint if the brokers know the protocol and do not use it.
const NOT_ENABLED: &str = "set group.protocol=classic, or enable the feature group.version and the protocol \
    \"consumer\" in group.coordinator.rebalance.protocols of the brokers";

/// A member of a consumer group.
pub(super) type ConsumerMember = HeartbeatMember<ConsumerProtocol>;

/// The member's fields that the coordinator already knows. A heartbeat does not repeat these fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AcceptedFields {
    subscription: Option<Subscription>,
    owned: Option<BTreeSet<TopicPartition>>,
}

/// The part of the membership that only consumer groups have.
pub(super) struct ConsumerProtocol {
    config: Arc<GroupConfig>,
    subscription: Subscription,
    accepted_fields: AcceptedFields,
    /// The fields that the coordinator will know after it has accepted the heartbeat in flight.
    sent_fields: AcceptedFields,
    /// The assignment that the member has not completely applied yet.
    target: Option<PartitionsById>,
    changes: Changes,
    /// When the coordinator first reported that another member has this member's instance ID.
    unreleased_since: Option<Time>,
}

impl ConsumerMember {
    pub fn new(config: Arc<GroupConfig>) -> Self {
        let (coordinator, seed) = (config.coordinator_client(), config.seed);
        let protocol = ConsumerProtocol {
            config,
            subscription: Subscription::default(),
            accepted_fields: AcceptedFields::default(),
            sent_fields: AcceptedFields::default(),
            target: None,
            changes: Changes::default(),
            unreleased_since: None,
        };
        Self::with_protocol(coordinator, seed, protocol)
    }

    pub fn subscribe(&mut self, now: Time, subscription: Subscription) {
        self.protocol.subscription = subscription;
        self.join(now);
    }

    /// Leaves the group because the application has not polled in time. Other members then get the partitions.
    pub fn expire(&mut self, now: Time) {
        if !self.has_left() {
            self.changes_mut().lose_all();
            self.leave_group(now);
        }
    }

    pub fn leave(&mut self, now: Time, _reason: &str) {
        self.leave_group(now);
    }

    pub fn epoch_and_id(&self) -> (i32, &str) {
        (self.epoch(), self.id())
    }

    pub fn coordinator(&self) -> Option<i32> {
        self.coordinator.node()
    }

    pub fn changes(&self) -> &Changes {
        &self.protocol.changes
    }

    pub fn changes_mut(&mut self) -> &mut Changes {
        &mut self.protocol.changes
    }
}

impl HeartbeatProtocol for ConsumerProtocol {
    type Request = Request;
    type Response = Response;
    const GROUP: &str = "group";

    fn request(&self, member_id: &str, epoch: i32) -> Request {
        Request {
            group_id: self.config.group.clone(),
            member_id: member_id.to_owned(),
            member_epoch: epoch,
            instance_id: self.config.instance.clone(),
            ..Default::default()
        }
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
        if self.config.instance.is_some() { LEAVE_STATIC } else { LEAVE }
    }

    fn add_changed_fields(&mut self, request: &mut Request, cluster: &Cluster) {
        self.sent_fields = self.accepted_fields.clone();
        if self.accepted_fields.subscription.as_ref() != Some(&self.subscription) {
            let topics = self.subscription.topics.iter().map(ToString::to_string).collect();
            request.subscribed_topic_names = Some(topics);
            let previous_pattern = self.accepted_fields.subscription.as_ref().and_then(|s| s.pattern.as_ref());
            // An empty pattern removes the previous pattern.
            request.subscribed_topic_regex =
                self.subscription.pattern.clone().or(previous_pattern.map(|_| String::new()));
            self.sent_fields.subscription = Some(self.subscription.clone());
        }
        let is_first = self.accepted_fields.owned.is_none();
        if is_first {
            let ms = i32::try_from(self.config.max_poll_interval.as_millis()).unwrap_or(i32::MAX);
            request.rebalance_timeout_ms = ms;
            request.rack_id = Some(self.config.rack.clone()).filter(|r| !r.is_empty());
            if let Protocol::Consumer(assignor) = &self.config.protocol {
                request.server_assignor.clone_from(assignor);
            }
        }
        let claimed = self.changes.claimed();
        if is_first || (self.changes.all_handled() && self.accepted_fields.owned.as_ref() != Some(&claimed)) {
            let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
            for TopicPartition { topic, partition } in &claimed {
                if let Some(metadata) = cluster.topics.get(topic) {
                    topics.entry(metadata.id).or_default().push(*partition);
                }
            }
            let owned = |(topic_id, partitions)| TopicPartitions { topic_id, partitions };
            request.topic_partitions = Some(topics.into_iter().map(owned).collect());
            self.sent_fields.owned = Some(claimed);
        }
    }

    fn has_changed_fields(&self) -> bool {
        let subscription = self.accepted_fields.subscription.as_ref().is_some_and(|s| *s != self.subscription);
        // Once all changes are handled, the member claims what it owns. So nothing is copied here, at every step.
        let owned =
            self.changes.all_handled() && self.accepted_fields.owned.as_ref().is_some_and(|o| *o != self.changes.owned);
        subscription || owned
    }

    fn accepted(&mut self) {
        self.accepted_fields = std::mem::take(&mut self.sent_fields);
        self.unreleased_since = None;
    }

    fn forget_accepted(&mut self) {
        self.accepted_fields = AcceptedFields::default();
    }

    /// Returns whether the member may join. Before it joins again, the application has to handle its lost partitions.
    fn may_join(&self) -> bool {
        self.changes.all_handled()
    }

    fn assign(&mut self, assignment: PartitionsById) {
        self.target = Some(assignment);
    }

    fn reconcile(&mut self, cluster: &Cluster) -> Vec<Uuid> {
        let mut unknown = Vec::new();
        let (Some(target), false) = (&self.target, self.changes.taken) else { return unknown };
        let names: BTreeMap<Uuid, &Arc<str>> = cluster.topics.iter().map(|(name, t)| (t.id, name)).collect();
        let mut target_partitions = BTreeSet::new();
        for (id, partitions) in target {
            match names.get(id) {
                Some(name) => {
                    target_partitions.extend(partitions.iter().map(|p| TopicPartition::new((*name).clone(), *p)))
                }
                None => unknown.push(*id),
            }
        }
        if unknown.is_empty() {
            self.target = None;
        }
        self.changes.follow(&target_partitions);
        unknown
    }

    fn unassign(&mut self) {
        self.target = None;
    }

    fn lose_all(&mut self) {
        self.changes.lose_all();
    }

    fn react(&mut self, now: Time, epoch: i32, code: ErrorCode) -> Option<Reaction> {
        match code {
            // The coordinator keeps a static member that died until its session ends.
            ErrorCode::UNRELEASED_INSTANCE_ID
                if now.since(*self.unreleased_since.get_or_insert(now)) < self.config.session_timeout =>
            {
                Some(Reaction::Retry)
            }
            _ => react_by_epoch(epoch, code),
        }
    }

    fn hint(code: ErrorCode) -> Option<&'static str> {
        match code {
            // The first heartbeat creates a group that does not exist, so "not found" means another protocol.
            ErrorCode::GROUP_ID_NOT_FOUND => Some(OTHER_PROTOCOL),
            ErrorCode::UNSUPPORTED_VERSION => Some(NOT_ENABLED),
            _ => None,
        }
    }
}
