//! Builds the JoinGroup and SyncGroup requests of a member of a classic group. `classic.rs` decides when to send these
//! requests.

use super::ClassicMember;
use crate::api::data::consumer_protocol as embedded;
use crate::api::{join_group, sync_group};
use crate::engine::group::assignor::Assignment;
use crate::engine::group::coordinator_client::Step;
use crate::engine::group::held::{Held, Join};
use crate::engine::group::strategy::Strategy;
use crate::engine::{Target, Time, TopicPartition};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The time that a response may take in addition to the time that members have to join.
const JOIN_SLACK: Duration = Duration::from_secs(5);
/// The protocol type of consumers.
const PROTOCOL_TYPE: &str = "consumer";

impl ClassicMember {
    pub(super) fn join(&mut self, now: Time, node: i32) {
        let owned: Vec<&TopicPartition> = self.changes.owned.iter().collect();
        let topics: Vec<String> = self.subscription.iter().map(ToString::to_string).collect();
        let rack = Some(self.config.rack.clone()).filter(|r| !r.is_empty());
        let protocols = self.assignors().iter().map(|assignor| {
            let subscription = embedded::Subscription {
                topics: topics.clone(),
                user_data: user_data(assignor, &self.last_assignment),
                owned_partitions: by_topic(owned.iter().copied()),
                generation_id: self.generation.max(if owned.is_empty() { -1 } else { self.last_assignment.1 }),
                rack_id: rack.clone(),
            };
            let metadata = embedded::encode(3, &subscription).unwrap_or_default().into();
            join_group::Protocol { name: assignor.name().to_owned(), metadata }
        });
        let ms = |d: Duration| i32::try_from(d.as_millis()).unwrap_or(i32::MAX);
        let request = join_group::Request {
            group_id: self.config.group.clone(),
            session_timeout_ms: ms(self.config.session_timeout),
            rebalance_timeout_ms: ms(self.config.max_poll_interval),
            member_id: self.member.clone(),
            group_instance_id: self.config.instance.clone(),
            protocol_type: PROTOCOL_TYPE.to_owned(),
            protocols: protocols.collect(),
            reason: Some(self.reason.clone()).filter(|r| !r.is_empty()),
        };
        let max_wait = self.max_broker_wait(self.config.max_poll_interval.max(self.config.session_timeout));
        self.send(now, Target::Group(node), Join(request, max_wait), Step::Join);
    }

    pub(super) fn sync(&mut self, now: Time, node: i32, assignment: &Assignment) {
        let of_member = |(member, partitions): (&String, &Vec<TopicPartition>)| {
            let assigned = embedded::Assignment { assigned_partitions: by_topic(partitions.iter()), user_data: None };
            sync_group::Assignment {
                member_id: member.clone(),
                assignment: embedded::encode(0, &assigned).unwrap_or_default().into(),
            }
        };
        let request = sync_group::Request {
            group_id: self.config.group.clone(),
            generation_id: self.generation,
            member_id: self.member.clone(),
            group_instance_id: self.config.instance.clone(),
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: self.assignor.as_ref().map(|a| a.name().to_owned()),
            assignments: assignment.iter().map(of_member).collect(),
        };
        let max_wait = self.max_broker_wait(self.config.max_poll_interval);
        self.send(now, Target::Group(node), Held(request, max_wait), Step::Sync);
    }

    /// Returns how much longer than `request.timeout.ms` a response may take, because the coordinator waits for other
    /// members. As in the Java consumer, the timeout is the longer of two times: `request.timeout.ms`, and
    /// `max_join_time` plus `JOIN_SLACK`.
    fn max_broker_wait(&self, max_join_time: Duration) -> Duration {
        (max_join_time + JOIN_SLACK).saturating_sub(self.config.request_timeout)
    }
}

/// Returns the user data for the group leader, from the member's last assignment and its generation.
fn user_data(strategy: &Strategy, (partitions, generation): &(Vec<TopicPartition>, i32)) -> Option<Bytes> {
    match strategy {
        Strategy::Known(a) => a.user_data(partitions, Some(*generation).filter(|g| *g >= 0)),
        Strategy::Custom(a) => a.user_data(),
    }
}

fn by_topic<'a>(partitions: impl Iterator<Item = &'a TopicPartition>) -> Vec<embedded::TopicPartitions> {
    let mut topics: BTreeMap<&Arc<str>, Vec<i32>> = BTreeMap::new();
    for TopicPartition { topic, partition } in partitions {
        topics.entry(topic).or_default().push(*partition);
    }
    let named =
        |(topic, partitions): (&Arc<str>, _)| embedded::TopicPartitions { topic: topic.to_string(), partitions };
    topics.into_iter().map(named).collect()
}
