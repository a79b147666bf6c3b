//! The topics to which a share consumer is subscribed, and which of these topics do not exist.

use super::ShareConsumer;
use crate::api::ErrorCode;
use crate::api::share_acknowledge::RELEASE;
use crate::engine::{Error, Time};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

impl<T: Send> ShareConsumer<T> {
    /// Subscribes to these topics as a member of the group.
    pub fn subscribe(&mut self, now: Time, topics: BTreeSet<Arc<str>>) {
        (self.error, self.ended) = (None, None);
        self.unknown_since.clear();
        self.missing_topic_reported_at = now;
        self.release_buffered(|topic| topics.contains(topic));
        self.member.subscribe(now, topics);
    }

    /// Ends the subscription and leaves the group.
    pub fn unsubscribe(&mut self, now: Time) {
        self.ended = None;
        self.release_buffered(|_| false);
        self.member.leave(now);
    }

    /// Returns the subscribed topics.
    pub fn subscription(&self) -> impl Iterator<Item = &Arc<str>> {
        self.member.subscription().iter()
    }

    /// Releases buffered records of topics that are no longer subscribed.
    pub(super) fn release_buffered(&mut self, is_kept: impl Fn(&Arc<str>) -> bool) {
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.buffer).into_iter().partition(|b| is_kept(&b.topic_partition.topic));
        self.buffer = kept;
        for b in dropped {
            let node = self.nodes.entry(b.node).or_default();
            node.flush = true;
            b.slices.iter().flat_map(|s| &s.records).for_each(|r| node.acks.put(&b.topic_partition, r.offset, RELEASE));
        }
    }

    /// Reports a subscribed topic that has not existed for the API timeout, and again each time that much time passes.
    /// The member keeps waiting for the topic.
    pub(super) fn report_missing(&mut self, now: Time) {
        let (missing_topic_reported_at, timeout) = (self.missing_topic_reported_at, self.config.member.api_timeout);
        let is_missing = |topic: &&Arc<str>| {
            let topic_error = self.topic_errors.get(topic);
            topic_error.is_some_and(|(since, code)| {
                code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                    && now.since(since.max(missing_topic_reported_at)) >= timeout
            })
        };
        let missing = self.member.subscription().iter().find(is_missing).cloned();
        if let (Some(topic), true) = (missing, self.error.is_none()) {
            self.missing_topic_reported_at = now;
            let error = Error::refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("subscribe to {topic:?}"));
            self.error = Some(error.at(&topic, None::<i32>));
        }
    }
}
