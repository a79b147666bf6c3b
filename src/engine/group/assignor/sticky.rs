//! The assignor `sticky` balances the partitions among the members, and moves as few partitions as possible (KIP-54).
//! Under the eager protocol, members revoke all partitions before they join. The user data in a member's subscription
//! therefore contains the partitions that the member had.
//!
//! The user data has no version number. If the user data is too short to contain the generation (KIP-341), the assignor
//! reads the data as version 0.

use super::balance::{Claim, balance};
use super::interface::{Assignment, Assignor, Group, Member, Topics};
use crate::api::data::consumer_protocol::{Subscription, TopicPartitions};
use crate::engine::TopicPartition;
use crate::wire::{Reader, Wire, Writer};
use bytes::Bytes;
use std::collections::BTreeMap;

message! {
    struct UserData {
        previous_assignment: Vec<TopicPartitions>,
        generation: i32 [1..] = -1,
    }
}

/// The assignor `sticky`.
pub struct Sticky;

impl Assignor for Sticky {
    fn name(&self) -> &'static str {
        "sticky"
    }

    fn user_data(&self, owned: &[TopicPartition], generation: Option<i32>) -> Option<Bytes> {
        let data = UserData { previous_assignment: by_topic(owned), generation: generation? };
        let mut w = Writer::new(1, false);
        data.put(&mut w);
        w.finish().ok().map(Bytes::from)
    }

    fn assign(&self, topics: &Topics, members: &[Member<'_>]) -> Assignment {
        let group = Group::new(topics, members);
        let claims: Vec<Claim<'_>> = group.members.iter().map(|m| claim(m.subscription)).collect();
        group.assignment(balance(&group, &claims).got)
    }
}

/// Returns the partitions that a member had. If its user data is malformed, the result is empty, as in the Java client.
fn claim(subscription: &Subscription) -> Claim<'static> {
    let read = |version| {
        let data = subscription.user_data.clone()?;
        UserData::get(&mut Reader::new(data, version, false)).ok()
    };
    let data = read(1).or_else(|| read(0)).unwrap_or_default();
    Claim { generation: data.generation, had: data.previous_assignment.into() }
}

/// Groups partitions by topic, as the user data contains them.
fn by_topic(partitions: &[TopicPartition]) -> Vec<TopicPartitions> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for TopicPartition { topic, partition } in partitions {
        topics.entry(topic).or_default().push(*partition);
    }
    let topic = |(topic, partitions): (&str, _)| TopicPartitions { topic: topic.to_owned(), partitions };
    topics.into_iter().map(topic).collect()
}
