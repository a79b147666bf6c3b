//! Builds metadata requests for the topics that the role needs, and sends them one at a time, to the nearest broker.

use super::Network;
use super::events::log_leaders;
use super::peer::PeerToken;
use crate::api::metadata;
use crate::engine::{Cluster, Deadline, MetadataDemand, Time, earliest};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Network {
    /// Takes in what the role has to know of the cluster.
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
        if let Some(wanted) = &demand.wanted {
            self.keep(now, wanted);
        }
        let is_wanted = |topic: &Arc<str>| demand.wanted.as_ref().is_none_or(|wanted| wanted.contains(topic));
        for topic in demand.topics.into_iter().filter(is_wanted) {
            due |= !self.cluster.topics.contains_key(&topic);
            self.let_go.remove(&topic);
            self.topics.insert(topic);
        }
        if due || !demand.ids.is_empty() {
            // Refreshes that are demanded again and again keep their distance.
            let at = if self.metadata_backoff.failures() == 0 { now } else { now + self.metadata_backoff.next_wait() };
            if due {
                self.refresh_at = Some(self.refresh_at.map_or(at, |t| t.min(at)));
            }
            if !demand.ids.is_empty() {
                self.ids_at = if self.ids.is_empty() { at } else { self.ids_at.min(at) };
                self.ids.extend(demand.ids);
            }
        }
        self.refresh_if_due(now);
    }

    /// Requests only these topics from now on. Metadata of the others stays until it is too old, because the role may
    /// need them again. Errors of the others are dropped, because they may be wrong a moment later.
    fn keep(&mut self, now: Time, wanted: &BTreeSet<Arc<str>>) {
        let (kept, gone) = std::mem::take(&mut self.topics).into_iter().partition(|topic| wanted.contains(topic));
        self.topics = kept;
        let is_there = |topic: &Arc<str>| self.cluster.topics.get(topic).is_some_and(|t| !t.error.is_error());
        let (there, absent): (BTreeSet<_>, BTreeSet<_>) = BTreeSet::into_iter(gone).partition(is_there);
        self.let_go.extend(there.into_iter().map(|topic| (topic, now)));
        if absent.iter().any(|topic| self.cluster.topics.contains_key(topic)) {
            let mut cluster = (*self.cluster).clone();
            cluster.topics.retain(|name, _| !absent.contains(name));
            self.cluster = Arc::new(cluster);
            self.cluster_changed = true;
        }
    }

    /// Drops topics from a new state of the cluster whose metadata is too old.
    pub(super) fn forget_old(&mut self, now: Time, cluster: &mut Cluster) {
        let max_age = self.config.metadata_max_age;
        for (topic, _) in self.let_go.extract_if(.., |_, since| now.since(*since) >= max_age) {
            // A complete response has renewed all topics.
            if !cluster.complete {
                cluster.topics.remove(&topic);
            }
        }
    }

    /// Returns when the next metadata request is due.
    pub(super) fn metadata_due_at(&self) -> Option<Time> {
        earliest(self.refresh_at, (!self.ids.is_empty()).then_some(self.ids_at))
    }

    /// Sends a metadata request if one is due. Brokers ignore the names in a request that also has IDs.
    pub(super) fn refresh_if_due(&mut self, now: Time) {
        if self.metadata_in_flight || self.metadata_due_at().is_none_or(|at| at > now) {
            return;
        }
        let Some(id) = self.nearest() else {
            self.reach_any(now);
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
        let by_id = all || self.ids_at <= now;
        let ids = if by_id { std::mem::take(&mut self.ids) } else { Default::default() };
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
