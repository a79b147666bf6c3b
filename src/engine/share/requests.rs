//! Builds the ShareFetch and ShareAcknowledge requests to partition leaders.
//!
//! The consumer sends acknowledgements in the next ShareFetch request, or in a ShareAcknowledge request if no fetch is
//! due. `acquired.rs` reads the responses. The session epoch in a request shows the state of the share session:
//!
//! ```text
//! epoch 0: closed ──fetch──► epoch n: open ──response──► epoch n + 1
//!        ▲──any error──────────────┘  └──leave──► epoch -1: closing ──response or error──► gone
//! ```

use super::acquired::{DecodeOptions, TopicNames};
use super::leader_session::LeaderSession;
use super::{OPEN, ShareConsumer, ShareToken};
use crate::api::share_fetch::{BATCH_OPTIMIZED, RECORD_LIMIT};
use crate::api::{ErrorCode, share_acknowledge, share_fetch};
use crate::engine::TopicIdPartition;
use crate::engine::call::AtLeast;
use crate::engine::{Deadline, Error, Outgoing, Target, Time};
use std::collections::{BTreeMap, BTreeSet};

/// The epoch in a request that closes its session.
const CLOSE: i32 = -1;

impl LeaderSession {
    /// Ends the session. The broker then releases the records of the session.
    pub(super) fn end_session(&mut self) {
        self.epoch = OPEN;
        self.partitions.clear();
        self.next_partitions.clear();
    }
}

impl<T: Send> ShareConsumer<T> {
    /// Ends the pauses after responses without records, because the application waits for records.
    pub fn end_idle_pause(&mut self) {
        self.nodes.values_mut().for_each(|n| n.idle_until = Time(0));
    }

    /// Returns the next request to a leader.
    pub(super) fn next_request(&mut self, now: Time) -> Option<Outgoing<ShareToken>> {
        let may_fetch = self.poll_needs_records && self.buffer.is_empty() && self.error.is_none() && !self.leaving;
        let mut assigned: BTreeMap<i32, BTreeSet<TopicIdPartition>> = BTreeMap::new();
        if may_fetch {
            for (topic, id, partition) in self.member.assigned() {
                match self.cluster.leader(topic, partition) {
                    Some((leader, _)) => {
                        assigned.entry(leader).or_default().insert(TopicIdPartition {
                            topic: topic.clone(),
                            id,
                            partition,
                        });
                    }
                    None if self.refresh_at <= now => {
                        self.refresh_at = now + self.config.member.retry_backoff.1;
                        self.demand.refresh = true;
                    }
                    None => {}
                }
            }
        }
        let ids: BTreeSet<i32> = self.nodes.keys().chain(assigned.keys()).copied().collect();
        for id in ids {
            let node = self.nodes.entry(id).or_default();
            if node.busy || node.retry_at > now {
                continue;
            }
            if node.epoch == OPEN && !node.acks.is_empty() {
                let error = Error::refused(ErrorCode::SHARE_SESSION_NOT_FOUND, "acknowledge records of a share group");
                let hint = "the connection that acquired them is closed, so other members may get them";
                self.fail_waiting(id, &error.with_hint(hint));
                return self.next_request(now);
            }
            let node = self.nodes.entry(id).or_default();
            if self.leaving && node.epoch == OPEN {
                self.nodes.remove(&id);
            } else if self.leaving || node.acks.renews() {
                return Some(self.build_acknowledge(now, id));
            } else if let Some(assigned) = assigned.remove(&id)
                && (node.idle_until <= now || !node.acks.is_empty())
            {
                return Some(self.build_fetch(now, id, assigned));
            } else if node.flush && !node.acks.is_empty() {
                return Some(self.build_acknowledge(now, id));
            }
        }
        None
    }

    fn build_fetch(&mut self, now: Time, id: i32, assigned: BTreeSet<TopicIdPartition>) -> Outgoing<ShareToken> {
        let config = &self.config;
        let node = self.nodes.entry(id).or_default();
        let names: TopicNames =
            assigned.iter().chain(node.acks.partitions()).map(|s| (s.id, s.topic.clone())).collect();
        let requested: BTreeSet<&TopicIdPartition> =
            assigned.difference(&node.partitions).chain(node.acks.partitions()).collect();
        let mut request = share_fetch::Request {
            group_id: Some(self.member.group().to_owned()),
            member_id: Some(self.member.id().to_owned()),
            share_session_epoch: node.epoch,
            max_wait_ms: i32::try_from(config.max_wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes: config.min_bytes,
            max_bytes: config.max_bytes,
            max_records: config.max_records,
            batch_size: config.max_records,
            share_acquire_mode: if config.record_limit { RECORD_LIMIT } else { BATCH_OPTIMIZED },
            ..Default::default()
        };
        for topic_partition in requested {
            let partition = share_fetch::Partition {
                partition_index: topic_partition.partition,
                acknowledgement_batches: node.acks.of(topic_partition),
                ..Default::default()
            };
            match request.topics.last_mut().filter(|t| t.topic_id == topic_partition.id) {
                Some(topic) => topic.partitions.push(partition),
                None => request
                    .topics
                    .push(share_fetch::Topic { topic_id: topic_partition.id, partitions: vec![partition] }),
            }
        }
        for topic_partition in node.partitions.difference(&assigned) {
            match request.forgotten_topics_data.last_mut().filter(|t| t.topic_id == topic_partition.id) {
                Some(topic) => topic.partitions.push(topic_partition.partition),
                None => request.forgotten_topics_data.push(share_fetch::ForgottenTopic {
                    topic_id: topic_partition.id,
                    partitions: vec![topic_partition.partition],
                }),
            }
        }
        let min_version = if config.record_limit { 2 } else { 1 };
        let options = DecodeOptions { check_crcs: config.check_crcs, max_decompressed_bytes: config.decompress_limit };
        let deadline = Deadline::ToAnswer(now + config.member.request_timeout + config.max_wait);
        node.next_partitions = assigned;
        node.begin_request(now);
        Outgoing {
            target: Target::Fetch(id),
            call: Box::new(AtLeast(request, min_version)),
            token: ShareToken::Fetch(id, names, options),
            deadline,
            max_version: i16::MAX,
        }
    }

    fn build_acknowledge(&mut self, now: Time, id: i32) -> Outgoing<ShareToken> {
        let node = self.nodes.entry(id).or_default();
        let names: TopicNames = node.acks.partitions().map(|s| (s.id, s.topic.clone())).collect();
        let renews = node.acks.renews();
        let request = share_acknowledge::Request {
            group_id: Some(self.member.group().to_owned()),
            member_id: Some(self.member.id().to_owned()),
            share_session_epoch: if self.leaving { CLOSE } else { node.epoch },
            is_renew_ack: renews,
            topics: node.acks.topics(),
        };
        node.next_partitions = node.partitions.clone();
        node.closing = self.leaving;
        node.begin_request(now);
        Outgoing {
            target: Target::Fetch(id),
            call: Box::new(AtLeast(request, if renews { 2 } else { 1 })),
            token: ShareToken::Acknowledge(id, names),
            deadline: Deadline::ToAnswer(now + self.config.member.request_timeout),
            max_version: i16::MAX,
        }
    }
}

impl LeaderSession {
    /// Notes that the next request contains all collected acknowledgements.
    fn begin_request(&mut self, now: Time) {
        (self.busy, self.sent_at) = (true, now);
        self.flush = false;
        self.sending = std::mem::take(&mut self.acks);
        self.round += u64::from(!self.sending.is_empty());
    }
}
