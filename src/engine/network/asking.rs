//! What the brokers are asked of the cluster, and when: what roles want to know of it is asked of the nearest broker, one
//! question at a time.

use super::Network;
use crate::api::metadata;
use crate::engine::cluster::AskMetadata;
use crate::engine::peer::Token;
use crate::engine::{Time, Wish};
use std::sync::Arc;

impl<T> Network<T> {
    /// Takes in what a role wants to know.
    pub fn wish(&mut self, now: Time, wish: Wish) {
        let starts_watching = wish.watch_all == Some(true) && !self.watches_all;
        self.watches_all = wish.watch_all.unwrap_or(self.watches_all);
        let mut due = wish.refresh || wish.all || starts_watching || !wish.ids.is_empty();
        self.all_topics |= wish.all;
        self.ids.extend(wish.ids);
        if !wish.moved.is_empty() {
            self.cluster = Arc::new(self.cluster.after(&wish.moved));
            self.cluster_changed = true;
            self.meet_brokers(now);
        }
        for topic in wish.topics {
            due |= !self.cluster.topics.contains_key(&topic);
            self.topics.insert(topic);
        }
        if due {
            // Asked for again and again, a refresh keeps its distance to the one before.
            let at = if self.metadata_backoff.failures() == 0 { now } else { now + self.metadata_backoff.next_wait() };
            self.refresh_at = Some(self.refresh_at.map_or(at, |t| t.min(at)));
        }
        self.refresh_if_due(now);
    }

    pub(super) fn refresh_if_due(&mut self, now: Time) {
        if self.asking || self.refresh_at.is_none_or(|at| at > now) {
            return;
        }
        let Some(id) = self.nearest() else {
            self.reach_somebody(now);
            return;
        };
        self.asking = true;
        self.refresh_at = None;
        let all = std::mem::take(&mut self.all_topics) || self.watches_all;
        let named = |name: &Arc<str>| metadata::TopicRequest { name: Some(name.to_string()), ..Default::default() };
        let known = self.topics.iter().map(named);
        let ids = std::mem::take(&mut self.ids).into_iter();
        let known = known.chain(ids.map(|topic_id| metadata::TopicRequest { topic_id, name: None }));
        let request = metadata::Request {
            topics: if all { None } else { Some(known.collect()) },
            allow_auto_topic_creation: self.config.allow_auto_topic_creation,
            ..Default::default()
        };
        let deadline = now + self.config.request_timeout;
        self.send(now, id, Box::new(AskMetadata(request)), i16::MAX, deadline, Token::Metadata { all });
    }
}
