//! Builds metadata requests for the topics that the role needs, and sends them one at a time, to the least loaded
//! broker.
//!
//! A broker may create the topics in a request that allows this. A refresh must not bring a deleted topic back, so
//! separate requests create the topics for which the role has demanded this.

use super::Network;
use super::events::log_leaders;
use super::peer::{MetadataPurpose, PeerToken};
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
        let is_absent = |topic: &Arc<str>| self.cluster.topics.get(topic).is_none_or(|t| t.error.is_error());
        let mut creates: BTreeSet<Arc<str>> = demand.creates.into_iter().filter(is_needed).filter(is_absent).collect();
        creates.retain(|topic| self.config.allow_auto_topic_creation && !self.creation.topics.contains(topic));
        for topic in demand.topics.into_iter().filter(is_needed) {
            due |= !self.cluster.topics.contains_key(&topic) && !creates.contains(&topic);
            self.unneeded_topics.remove(&topic);
            self.topics.insert(topic);
        }
        if due || !creates.is_empty() || !demand.ids.is_empty() {
            // Repeated demands for a refresh wait for the backoff.
            let at = if self.metadata_backoff.failures() == 0 { now } else { now + self.metadata_backoff.next_wait() };
            if due {
                self.refresh_at = Some(self.refresh_at.map_or(at, |t| t.min(at)));
            }
            if !creates.is_empty() {
                self.creation.at = Some(self.creation.at.map_or(at, |t| t.min(at)));
                self.creation.topics.extend(creates);
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
        self.creation.topics.retain(|topic| needed.contains(topic));
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
        let ids = (!self.topic_ids.is_empty()).then_some(self.topic_ids_due_at);
        earliest(earliest(self.refresh_at, self.creation.at), ids)
    }

    /// Sends a metadata request if one is due.
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
        let purpose = self.next_metadata_purpose(now);
        let by_name = |name: &Arc<str>| metadata::TopicRequest { name: Some(name.to_string()), ..Default::default() };
        let topics = match &purpose {
            MetadataPurpose::All(_) => None,
            MetadataPurpose::Ids(ids) => {
                Some(ids.iter().map(|id| metadata::TopicRequest { topic_id: *id, name: None }).collect())
            }
            MetadataPurpose::Refresh => Some(self.topics.difference(&self.creation.topics).map(by_name).collect()),
            MetadataPurpose::Create => Some(self.creation.topics.iter().map(by_name).collect()),
        };
        let allow_auto_topic_creation = matches!(purpose, MetadataPurpose::Create);
        let request = metadata::Request { topics, allow_auto_topic_creation, ..Default::default() };
        let deadline = Deadline::ToAnswer(now + self.config.request_timeout);
        let call = self.config.endpoints.request(request);
        self.send(now, id, call, i16::MAX, deadline, PeerToken::Metadata(purpose));
    }

    /// Returns what the next metadata request is for. A response about all topics answers the IDs too. Brokers ignore
    /// the names in a request that also has IDs.
    fn next_metadata_purpose(&mut self, now: Time) -> MetadataPurpose {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.creation.at) {
            self.creation.at = None;
            if !self.all_topics && !self.watches_all && self.topics.len() == self.creation.topics.len() {
                // There are no other topics to refresh.
                self.refresh_at = None;
            }
            if !self.creation.topics.is_empty() {
                return MetadataPurpose::Create;
            }
        }
        let refresh = is_due(self.refresh_at);
        if refresh && (std::mem::take(&mut self.all_topics) || self.watches_all) {
            self.refresh_at = None;
            return MetadataPurpose::All(std::mem::take(&mut self.topic_ids));
        }
        if self.topic_ids_due_at <= now && !self.topic_ids.is_empty() {
            return MetadataPurpose::Ids(std::mem::take(&mut self.topic_ids));
        }
        self.refresh_at = None;
        MetadataPurpose::Refresh
    }

    /// Repeats a failed metadata request after a wait.
    pub(super) fn schedule_metadata_retry(&mut self, now: Time, purpose: MetadataPurpose) {
        let at = now + self.metadata_backoff.next_wait();
        let creates = matches!(purpose, MetadataPurpose::Create);
        self.all_topics |= matches!(purpose, MetadataPurpose::All(_));
        if let MetadataPurpose::All(ids) | MetadataPurpose::Ids(ids) = purpose {
            self.topic_ids.extend(ids);
        }
        self.topic_ids_due_at = at;
        self.refresh_at = Some(self.refresh_at.map_or(at, |t| t.max(at)));
        self.creation.at = if creates { Some(at) } else { self.creation.at.map(|t| t.max(at)) };
    }

    /// Forgets the topics that exist now, and schedules the next request for the topics to create. Returns whether some
    /// of them do not exist yet.
    pub(super) fn note_created(&mut self, at: Time, cluster: &Cluster) {
        let exists = |topic: &Arc<str>| cluster.topics.get(topic).is_some_and(|t| !t.error.is_error());
        self.creation.topics.retain(|topic| !exists(topic));
        let is_open = !self.creation.topics.is_empty();
        self.creation.at = is_open.then(|| self.creation.at.map_or(at, |t| t.min(at)));
    }
}
