//! Builds metadata requests for the topics that the role needs, and sends them one at a time, to the least loaded
//! broker.

use super::Network;
use super::events::log_leaders;
use super::peer::PeerToken;
use crate::api::metadata;
use crate::engine::{Cluster, Deadline, MetadataDemand, Time, earliest};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Network {
    /// Handles the metadata demand of the role.
    pub fn demand(&mut self, now: Time, demand: MetadataDemand) {
        let starts_watching = demand.watch_all == Some(true) && !self.watches_all;
        self.watches_all = demand.watch_all.unwrap_or(self.watches_all);
        let mut due = demand.refresh || demand.all || starts_watching;
        self.all_topics |= demand.all;
        if !demand.leader_changes.is_empty() {
            let cluster = self.cluster.with_leader_changes(&demand.leader_changes);
            log_leaders(&self.cluster, &cluster);
            self.cluster = Arc::new(cluster);
            self.cluster_changed = true;
            self.update_peers(now);
        }
        if let Some(needed) = &demand.needed {
            self.retain_topics(now, needed);
        }
        let is_needed = |topic: &Arc<str>| demand.needed.as_ref().is_none_or(|needed| needed.contains(topic));
        for topic in demand.topics.into_iter().filter(is_needed) {
            due |= !self.cluster.topics.contains_key(&topic);
            self.unneeded_topics.remove(&topic);
            self.topics.insert(topic);
        }
        if due || !demand.ids.is_empty() {
            // Repeated demands for a refresh wait for the backoff.
            let at = if self.metadata_backoff.failures() == 0 { now } else { now + self.metadata_backoff.next_wait() };
            if due {
                self.refresh_at = Some(self.refresh_at.map_or(at, |t| t.min(at)));
            }
            if !demand.ids.is_empty() {
                self.topic_ids_due_at = if self.topic_ids.is_empty() { at } else { self.topic_ids_due_at.min(at) };
                self.topic_ids.extend(demand.ids);
            }
        }
        self.refresh_if_due(now);
    }

    /// Requests only these topics from now on. The network keeps the metadata of other topics until it is too old,
    /// because the role may need these topics again. The network drops the errors of other topics, because these errors
    /// may soon be wrong.
    fn retain_topics(&mut self, now: Time, needed: &BTreeSet<Arc<str>>) {
        let (kept, dropped) = std::mem::take(&mut self.topics).into_iter().partition(|topic| needed.contains(topic));
        self.topics = kept;
        let exists = |topic: &Arc<str>| self.cluster.topics.get(topic).is_some_and(|t| !t.error.is_error());
        let (existing, absent): (BTreeSet<_>, BTreeSet<_>) = BTreeSet::into_iter(dropped).partition(exists);
        self.unneeded_topics.extend(existing.into_iter().map(|topic| (topic, now)));
        if absent.iter().any(|topic| self.cluster.topics.contains_key(topic)) {
            let mut cluster = (*self.cluster).clone();
            cluster.topics.retain(|name, _| !absent.contains(name));
            self.cluster = Arc::new(cluster);
            self.cluster_changed = true;
        }
    }

    /// Removes topics from a new state of the cluster if their metadata is too old.
    pub(super) fn forget_old(&mut self, now: Time, cluster: &mut Cluster) {
        let max_age = self.config.metadata_max_age;
        for (topic, _) in self.unneeded_topics.extract_if(.., |_, since| now.since(*since) >= max_age) {
            // A complete response has renewed all topics.
            if !cluster.complete {
                cluster.topics.remove(&topic);
            }
        }
    }

    /// Returns when the next metadata request is due.
    pub(super) fn metadata_due_at(&self) -> Option<Time> {
        earliest(self.refresh_at, (!self.topic_ids.is_empty()).then_some(self.topic_ids_due_at))
    }

    /// Sends a metadata request if one is due. Brokers ignore the names in a request that also has IDs.
    pub(super) fn refresh_if_due(&mut self, now: Time) {
        if self.metadata_in_flight || self.metadata_due_at().is_none_or(|at| at > now) {
            return;
        }
        let Some(id) = self.least_loaded() else {
            self.connect_any(now);
            return;
        };
        if self.checks_first(now, id) {
            // The request follows once the connection is ready again.
            return;
        }
        self.metadata_in_flight = true;
        let refresh = self.refresh_at.is_some_and(|at| at <= now);
        let all = refresh && (std::mem::take(&mut self.all_topics) || self.watches_all);
        // A response about all topics answers the IDs too.
        let by_id = all || self.topic_ids_due_at <= now;
        let ids = if by_id { std::mem::take(&mut self.topic_ids) } else { Default::default() };
        let by_name = |name: &Arc<str>| metadata::TopicRequest { name: Some(name.to_string()), ..Default::default() };
        let topics = if ids.is_empty() {
            self.topics.iter().map(by_name).collect()
        } else {
            ids.iter().map(|id| metadata::TopicRequest { topic_id: *id, name: None }).collect()
        };
        if all || ids.is_empty() {
            self.refresh_at = None;
        }
        let request = metadata::Request {
            topics: if all { None } else { Some(topics) },
            allow_auto_topic_creation: self.config.allow_auto_topic_creation,
            ..Default::default()
        };
        let deadline = Deadline::ToAnswer(now + self.config.request_timeout);
        let call = self.config.endpoints.request(request);
        self.send(now, id, call, i16::MAX, deadline, PeerToken::Metadata { all, ids });
    }
}
