//! The trait that assignors implement, and the description of the group that an assignor gets: the members in order,
//! and the topics by name.

use crate::api::data::consumer_protocol::Subscription;
use crate::engine::{Cluster, TopicPartition};
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The partitions of each member, in order. Members without partitions have an empty list.
pub type Assignment = BTreeMap<String, Vec<TopicPartition>>;

/// A member of a group, as the leader sees it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The member's ID, which the coordinator created.
    pub id: &'a str,
    /// The instance ID of a static member (KIP-345).
    pub instance_id: Option<&'a str>,
    /// The topics that the member subscribes to, and the partitions that it had.
    pub subscription: &'a Subscription,
}

impl<'a> Member<'a> {
    pub(super) fn rack(&self) -> Option<&'a str> {
        self.subscription.rack_id.as_deref().filter(|rack| !rack.is_empty())
    }

    /// Compares members as Java does, by UTF-16 code units.
    fn compare(&self, other: &Self) -> Ordering {
        let by_text = |a: &str, b: &str| a.encode_utf16().cmp(b.encode_utf16());
        match (self.instance_id, other.instance_id) {
            (Some(a), Some(b)) => by_text(a, b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => by_text(self.id, other.id),
        }
    }
}

/// Topics by name, with the known racks of each partition's replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics(pub BTreeMap<Arc<str>, Vec<Vec<Arc<str>>>>);

impl Topics {
    /// Returns the topics in `names` that exist in the cluster.
    pub fn of<'a>(cluster: &Cluster, names: impl IntoIterator<Item = &'a str>) -> Self {
        let racks = cluster.brokers.values().filter_map(|b| Some((b.id, Arc::from(b.rack.as_deref()?))));
        let racks: HashMap<i32, Arc<str>> = racks.collect();
        let racks_of = |replicas: &[i32]| replicas.iter().filter_map(|node| racks.get(node).cloned()).collect();
        let existing = names.into_iter().filter_map(|name| cluster.topics.get_key_value(name));
        let topics =
            existing.map(|(name, t)| (name.clone(), t.partitions.iter().map(|p| racks_of(&p.replicas)).collect()));
        Self(topics.collect())
    }
}

/// How members give up and take over partitions in a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Every member gives up all partitions before it joins.
    Eager,
    /// A member gives up only the partitions that it loses. Then all members join again, and these partitions get new
    /// owners.
    Cooperative,
}

/// An algorithm that assigns partitions to members.
pub trait Assignor: Send + Sync {
    /// Returns the name that the members of a group agree on.
    fn name(&self) -> &'static str;

    /// Returns how members give up partitions in a rebalance.
    fn protocol(&self) -> Protocol {
        Protocol::Eager
    }

    /// Returns the user data that a member sends to the leader together with its subscription. The arguments are the
    /// member's partitions and the generation that assigned them. The generation is `None` before the first assignment.
    fn user_data(&self, _owned: &[TopicPartition], _generation: Option<i32>) -> Option<Bytes> {
        None
    }

    /// Assigns partitions to members. The result leaves out topics without metadata.
    fn assign(&self, topics: &Topics, members: &[Member<'_>]) -> Assignment;
}

/// A topic with subscribers.
pub(super) struct Topic<'a> {
    pub name: &'a Arc<str>,
    /// The racks of each partition's replicas.
    pub racks: &'a [Vec<Arc<str>>],
    /// The indexes of the topic's subscribers among the members, in ascending order.
    pub subscribers: Vec<usize>,
}

/// A group, with its members in order and its topics by name.
pub(super) struct Group<'a> {
    pub members: Vec<Member<'a>>,
    pub topics: Vec<Topic<'a>>,
}

impl<'a> Group<'a> {
    pub fn new(topics: &'a Topics, members: &[Member<'a>]) -> Self {
        let mut members = members.to_vec();
        members.sort_by(Member::compare);
        let mut subscribers_by_topic: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (m, member) in members.iter().enumerate() {
            for name in &member.subscription.topics {
                let subscribers = subscribers_by_topic.entry(name).or_default();
                // A topic may be named twice.
                if subscribers.last() != Some(&m) {
                    subscribers.push(m);
                }
            }
        }
        let topics = subscribers_by_topic.into_iter().filter_map(|(name, subscribers)| {
            let (name, racks) = topics.0.get_key_value(name)?;
            (!racks.is_empty()).then_some(Topic { name, racks, subscribers })
        });
        Self { topics: topics.collect(), members }
    }

    /// Returns the assignment from each member's pairs of topic index and partition.
    pub fn assignment(&self, mut owned: Vec<Vec<(usize, usize)>>) -> Assignment {
        let mut assignment = Assignment::new();
        for (member, owned) in self.members.iter().zip(&mut owned) {
            owned.sort_unstable();
            let partitions = owned.iter().filter_map(|(t, p)| {
                Some(TopicPartition::new(self.topics.get(*t)?.name.clone(), i32::try_from(*p).ok()?))
            });
            assignment.entry(member.id.to_owned()).or_default().extend(partitions);
        }
        assignment
    }
}
