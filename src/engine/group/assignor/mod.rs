//! Assignors: which member of a group reads which partition. The leader of a classic group computes it for everybody,
//! and may be of any client, so that each assignor here has the name, the inputs and the user data of Java's.
//!
//! | name | protocol | rule |
//! | --- | --- | --- |
//! | [`range`](Range) | eager | each topic is cut into ranges, by members in order; the same ranges in topics alike; racks (KIP-881) |
//! | [`roundrobin`](RoundRobin) | eager | all partitions are dealt out, one each in turn |
//! | [`sticky`](Sticky) | eager | balanced, and what a member had it keeps (KIP-54; generations, KIP-341) |
//! | [`cooperative-sticky`](CooperativeSticky) | cooperative | as `sticky`, in two rounds, so that nobody stops reading what it keeps (KIP-429, KIP-792) |
//!
//! Static members (KIP-345) come first, by their instance id, so that a restart changes nothing. `range` and
//! `roundrobin` give what Java's do. The sticky ones have no fixed result; here it is the best there is in balance, and
//! next to nothing moves without need.
//!
//! Subscriptions come from peers. The time is about members times partitions at worst, and the search for a better
//! balance ends after a number of steps.

mod balance;
mod cooperative_sticky;
mod range;
mod round_robin;
mod sticky;

pub use cooperative_sticky::CooperativeSticky;
pub use range::Range;
pub use round_robin::RoundRobin;
pub use sticky::Sticky;

use crate::api::data::consumer_protocol::Subscription;
use crate::engine::{Cluster, TopicPartition};
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What each member reads, in order; every member is there.
pub type Assignment = BTreeMap<String, Vec<TopicPartition>>;

/// A member of a group, and what it told the leader.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its id, which the coordinator made.
    pub id: &'a str,
    /// The id of a static member (KIP-345).
    pub instance_id: Option<&'a str>,
    /// What it wants, and what it had.
    pub subscription: &'a Subscription,
}

impl<'a> Member<'a> {
    fn rack(&self) -> Option<&'a str> {
        self.subscription.rack_id.as_deref().filter(|rack| !rack.is_empty())
    }

    /// Java's order, which compares UTF-16.
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

/// Topics by name: of each partition the racks of its replicas, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics(pub BTreeMap<Arc<str>, Vec<Vec<Arc<str>>>>);

impl Topics {
    /// Those of `names` that a cluster has.
    pub fn of<'a>(cluster: &Cluster, names: impl IntoIterator<Item = &'a str>) -> Self {
        let racks = cluster.brokers.values().filter_map(|b| Some((b.id, Arc::from(b.rack.as_deref()?))));
        let racks: HashMap<i32, Arc<str>> = racks.collect();
        let racks_of = |replicas: &[i32]| replicas.iter().filter_map(|node| racks.get(node).cloned()).collect();
        let known = names.into_iter().filter_map(|name| cluster.topics.get_key_value(name));
        let topics =
            known.map(|(name, t)| (name.clone(), t.partitions.iter().map(|p| racks_of(&p.replicas)).collect()));
        Self(topics.collect())
    }
}

/// How members leave and take partitions in a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Everybody gives up everything before the group is joined.
    Eager,
    /// A member gives up what it is told to, and the group is joined again for others to take it.
    Cooperative,
}

/// A way to share partitions out.
pub trait Assignor: Send + Sync {
    /// The name that the members of a group agree on.
    fn name(&self) -> &'static str;

    /// What a rebalance asks of the members.
    fn protocol(&self) -> Protocol {
        Protocol::Eager
    }

    /// What a member tells the leader besides its subscription: of the partitions it has, and of the generation in which
    /// they were assigned; `None` before the first.
    fn user_data(&self, _owned: &[TopicPartition], _generation: Option<i32>) -> Option<Bytes> {
        None
    }

    /// What each member gets. Topics that nobody has metadata of are left out.
    fn assign(&self, topics: &Topics, members: &[Member<'_>]) -> Assignment;
}

/// Every assignor.
pub const ALL: [&dyn Assignor; 4] = [&Range, &RoundRobin, &Sticky, &CooperativeSticky];

/// The assignor of a name.
pub fn by_name(name: &str) -> Option<&'static dyn Assignor> {
    ALL.into_iter().find(|a| a.name() == name)
}

/// A topic that somebody subscribes to.
struct Topic<'a> {
    name: &'a Arc<str>,
    /// Of each partition, the racks of its replicas.
    racks: &'a [Vec<Arc<str>>],
    /// Members, by their place in the order; ascending.
    subscribers: Vec<usize>,
}

/// A group with its members in order and its topics by name.
struct Group<'a> {
    members: Vec<Member<'a>>,
    topics: Vec<Topic<'a>>,
}

impl<'a> Group<'a> {
    fn new(topics: &'a Topics, members: &[Member<'a>]) -> Self {
        let mut members = members.to_vec();
        members.sort_by(Member::compare);
        let mut wanted: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (m, member) in members.iter().enumerate() {
            for name in &member.subscription.topics {
                let subscribers = wanted.entry(name).or_default();
                // A topic may be named twice.
                if subscribers.last() != Some(&m) {
                    subscribers.push(m);
                }
            }
        }
        let known = wanted.into_iter().filter_map(|(name, subscribers)| {
            let (name, racks) = topics.0.get_key_value(name)?;
            (!racks.is_empty()).then_some(Topic { name, racks, subscribers })
        });
        Self { topics: known.collect(), members }
    }

    /// The assignment of what each member, by its place in the order, got of each topic, by its place too.
    fn assignment(&self, mut got: Vec<Vec<(usize, usize)>>) -> Assignment {
        let mut assignment = Assignment::new();
        for (member, got) in self.members.iter().zip(&mut got) {
            got.sort_unstable();
            let partitions = got.iter().filter_map(|(t, p)| {
                Some(TopicPartition::new(self.topics.get(*t)?.name.clone(), i32::try_from(*p).ok()?))
            });
            assignment.entry(member.id.to_owned()).or_default().extend(partitions);
        }
        assignment
    }
}
