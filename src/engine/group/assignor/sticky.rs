//! `sticky`: balanced, and what a member had it keeps (KIP-54). The members tell the leader in their user data what they
//! had, because in the eager protocol they give it up before they join.
//!
//! User data has no version of its own: v1 adds the generation (KIP-341), and is what does not end too early.

use super::balance::{Claim, balance};
use super::{Assignment, Assignor, Group, Member, Topics};
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

/// Balances and keeps, at once.
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

/// What a member had; nothing if its user data makes no sense, as in Java.
fn claim(subscription: &Subscription) -> Claim<'static> {
    let read = |version| {
        let data = subscription.user_data.clone()?;
        UserData::get(&mut Reader::new(data, version, false)).ok()
    };
    let data = read(1).or_else(|| read(0)).unwrap_or_default();
    Claim { generation: data.generation, had: data.previous_assignment.into() }
}

/// The wire form of partitions.
fn by_topic(partitions: &[TopicPartition]) -> Vec<TopicPartitions> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for TopicPartition { topic, partition } in partitions {
        topics.entry(topic).or_default().push(*partition);
    }
    let topic = |(topic, partitions): (&str, _)| TopicPartitions { topic: topic.to_owned(), partitions };
    topics.into_iter().map(topic).collect()
}
