//! Describes a group of any type: its state and members.

use super::group::OFFSETS as ANSWER;
use super::groups::{OfGroup, Question};
use super::{OpContext, Output};
use crate::api::data::consumer_protocol::{self, Assignment, Subscription, TopicPartitions};
use crate::api::{ErrorCode, consumer_group_describe, describe_groups, share_group_describe};
use crate::engine::TopicPartition;
use crate::engine::{Error, Reply, Target};
use std::sync::Arc;

/// A group and its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupDescription {
    /// The name.
    pub group: String,
    /// `classic`, `consumer` (KIP-848) or `share` (KIP-932).
    pub kind: &'static str,
    /// The protocol type, such as `consumer`, `connect` or `share`; empty for a group that only has offsets.
    pub protocol_type: String,
    /// The state, such as `Stable` or `Empty`.
    pub state: String,
    /// The name of the assignor; empty if there is none.
    pub assignor: String,
    /// The ID of the coordinator.
    pub coordinator: i32,
    /// The members.
    pub members: Vec<GroupMember>,
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMember {
    /// The member's ID.
    pub id: String,
    /// The instance ID of a static member (KIP-345).
    pub instance_id: Option<String>,
    /// The client ID.
    pub client_id: String,
    /// The host that the member connects from, as the broker sees it.
    pub host: String,
    /// The rack.
    pub rack: Option<String>,
    /// The topics that the member subscribes to.
    pub topics: Vec<String>,
    /// The pattern that the member subscribes to (KIP-848).
    pub topic_pattern: Option<String>,
    /// The assigned partitions.
    pub assigned: Vec<TopicPartition>,
    /// The partitions that the member will have when others have given them up (KIP-848).
    pub target: Option<Vec<TopicPartition>>,
}

/// The type of a group. Each has its own API to describe it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Classic,
    Consumer,
    Share,
}

/// Describes a group: by DescribeGroups, else by ConsumerGroupDescribe, else by ShareGroupDescribe.
#[derive(Default)]
pub struct DescribeGroup(Kind);

impl OfGroup<DescribeGroup> {
    /// Requests the state and the members of a group.
    pub fn describe(group: String) -> Self {
        Self::of(group, DescribeGroup::default())
    }
}

impl Question for DescribeGroup {
    const NAME: &'static str = "describe a group";

    fn ask(&self, cx: &mut OpContext<'_>, node: i32, group: &str) {
        let (target, group_ids) = (Target::Node(node), vec![group.to_owned()]);
        match self.0 {
            Kind::Classic => {
                cx.send(target, describe_groups::Request { groups: group_ids, ..Default::default() }, ANSWER);
            }
            Kind::Consumer => {
                cx.send(target, consumer_group_describe::Request { group_ids, ..Default::default() }, ANSWER);
            }
            Kind::Share => {
                cx.send(target, share_group_describe::Request { group_ids, ..Default::default() }, ANSWER);
            }
        }
    }

    fn read(&mut self, group: &str, reply: Reply) -> Result<Option<Output>, Error> {
        let (found, error_code) = match self.0 {
            Kind::Classic => {
                let response: describe_groups::Response = reply.decode()?;
                let found = response.groups.into_iter().find(|g| g.group_id == group);
                // Before v6 the broker calls a group dead that is not classic.
                let found = found.filter(|g| g.group_state != "Dead");
                found.map(|g| (g.error_code, of_classic(g)))
            }
            Kind::Consumer => {
                let response: consumer_group_describe::Response = reply.decode()?;
                let found = response.groups.into_iter().find(|g| g.group_id == group);
                found.map(|g| (g.error_code, of_consumer(g)))
            }
            Kind::Share => {
                let response: share_group_describe::Response = reply.decode()?;
                let found = response.groups.into_iter().find(|g| g.group_id == group);
                found.map(|g| (g.error_code, of_share(g)))
            }
        }
        .map_or((None, ErrorCode::GROUP_ID_NOT_FOUND), |(code, found)| (Some(found), code));
        match (error_code, self.0) {
            (ErrorCode::GROUP_ID_NOT_FOUND, Kind::Classic) => self.0 = Kind::Consumer,
            (ErrorCode::GROUP_ID_NOT_FOUND, Kind::Consumer) => self.0 = Kind::Share,
            (code, _) => {
                code.check().map_err(|code| Error::refused(code, format!("describe group {group:?}")))?;
                return Ok(found.map(|found| Output::Group(Box::new(found))));
            }
        }
        Ok(None)
    }

    fn fail(&mut self, group: &str, error: Error) -> Error {
        match error.code() {
            // A broker that does not have this type of group has no such group.
            Some(ErrorCode::UNSUPPORTED_VERSION) if self.0 != Kind::Classic => {
                Error::refused(ErrorCode::GROUP_ID_NOT_FOUND, format!("describe group {group:?}"))
            }
            _ => error,
        }
    }
}

fn of_classic(found: describe_groups::Group) -> GroupDescription {
    let is_consumer = found.protocol_type == "consumer";
    let member = |m: describe_groups::Member| {
        // Only consumers have this format. Malformed data, and data missing in a rebalance, count as empty.
        let subscription: Option<Subscription> =
            is_consumer.then(|| consumer_protocol::decode(m.member_metadata).ok()).flatten();
        let assignment: Option<Assignment> =
            is_consumer.then(|| consumer_protocol::decode(m.member_assignment).ok()).flatten();
        let (subscription, assignment) = (subscription.unwrap_or_default(), assignment.unwrap_or_default());
        GroupMember {
            id: m.member_id,
            instance_id: m.group_instance_id,
            client_id: m.client_id,
            host: m.client_host,
            rack: subscription.rack_id,
            topics: subscription.topics,
            topic_pattern: None,
            assigned: in_order(&assignment.assigned_partitions),
            target: None,
        }
    };
    GroupDescription {
        group: found.group_id,
        kind: "classic",
        protocol_type: found.protocol_type,
        state: found.group_state,
        assignor: found.protocol_data,
        coordinator: -1,
        members: found.members.into_iter().map(member).collect(),
    }
}

fn in_order(topics: &[TopicPartitions]) -> Vec<TopicPartition> {
    let places = |t: &TopicPartitions| {
        let name: Arc<str> = t.topic.as_str().into();
        t.partitions.iter().map(move |p| TopicPartition::new(name.clone(), *p)).collect::<Vec<_>>()
    };
    let mut all: Vec<TopicPartition> = topics.iter().flat_map(places).collect();
    all.sort_unstable();
    all
}

fn of_consumer(found: consumer_group_describe::Group) -> GroupDescription {
    let places = |assignment: consumer_group_describe::Assignment| {
        let named = assignment.topic_partitions.into_iter();
        let named = named.map(|t| TopicPartitions { topic: t.topic_name, partitions: t.partitions });
        in_order(&named.collect::<Vec<_>>())
    };
    let member = |m: consumer_group_describe::Member| GroupMember {
        id: m.member_id,
        instance_id: m.instance_id,
        client_id: m.client_id,
        host: m.client_host,
        rack: m.rack_id,
        topics: m.subscribed_topic_names,
        topic_pattern: m.subscribed_topic_regex.filter(|pattern| !pattern.is_empty()),
        assigned: places(m.assignment),
        target: Some(places(m.target_assignment)),
    };
    GroupDescription {
        group: found.group_id,
        kind: "consumer",
        protocol_type: "consumer".to_owned(),
        state: found.group_state,
        assignor: found.assignor_name,
        coordinator: -1,
        members: found.members.into_iter().map(member).collect(),
    }
}

fn of_share(found: share_group_describe::Group) -> GroupDescription {
    let places = |assignment: share_group_describe::Assignment| {
        let named = assignment.topic_partitions.into_iter();
        let named = named.map(|t| TopicPartitions { topic: t.topic_name, partitions: t.partitions });
        in_order(&named.collect::<Vec<_>>())
    };
    let member = |m: share_group_describe::Member| GroupMember {
        id: m.member_id,
        client_id: m.client_id,
        host: m.client_host,
        rack: m.rack_id,
        topics: m.subscribed_topic_names,
        assigned: places(m.assignment),
        ..Default::default()
    };
    GroupDescription {
        group: found.group_id,
        kind: "share",
        protocol_type: "share".to_owned(),
        state: found.group_state,
        assignor: found.assignor_name,
        coordinator: -1,
        members: found.members.into_iter().map(member).collect(),
    }
}
