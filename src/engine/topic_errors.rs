//! Tracks topics whose metadata has a temporary error: the time of the first error, and the last metadata without an
//! error.
//!
//! A broker that has just restarted may not know a topic or its leaders. If members of a group treated an unknown topic
//! as a topic without partitions, the whole group would revoke its partitions. Decisions about topics and partitions
//! therefore use the last good metadata, from [`TopicErrors::bridge`]. Fetching uses only the current metadata, because
//! it needs the current leader.

use super::{Cluster, Time};
use crate::api::ErrorCode;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a known topic counts as existing although brokers respond that the topic does not exist or is not
/// authorized. Brokers that restart know all topics after a few seconds.
const DOUBT: Duration = Duration::from_secs(10);

/// The topics that have an error. The values are the time of the first error in a row, and the last error code.
#[derive(Debug, Default)]
pub struct TopicErrors(BTreeMap<Arc<str>, (Time, ErrorCode)>);

impl TopicErrors {
    /// Handles a new state of the cluster. Returns this state, but with the entries of `before` for topics with a
    /// temporary error.
    pub fn bridge(&mut self, now: Time, before: &Cluster, cluster: &Arc<Cluster>) -> Arc<Cluster> {
        self.0.retain(|name, _| cluster.topics.get(name).is_some_and(|t| t.error.is_error()));
        let mut bridged = Arc::clone(cluster);
        for (name, topic) in cluster.topics.iter().filter(|(_, t)| t.error.is_error()) {
            let (since, code) = self.0.entry(name.clone()).or_insert((now, topic.error));
            *code = topic.error;
            let may_pass = match *code {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
                    now.since(*since) < DOUBT
                }
                code => !code.is_permanent(),
            };
            let previous = before.topics.get(name).filter(|old| may_pass && !old.error.is_error());
            if let Some(previous) = previous {
                Arc::make_mut(&mut bridged).topics.insert(name.clone(), previous.clone());
            }
        }
        bridged
    }

    /// Returns the error of a topic, and the time of its first error in a row.
    pub fn get(&self, topic: &str) -> Option<(Time, ErrorCode)> {
        self.0.get(topic).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Topic;
    use crate::engine::cluster::Partition;
    use crate::wire::Uuid;

    fn cluster(error: ErrorCode, partitions: usize) -> Arc<Cluster> {
        let led = Partition { leader: 1, leader_epoch: 0, replicas: vec![1], isr: vec![1], older: 0 };
        let topic = Topic { id: Uuid::ZERO, error, internal: false, partitions: vec![led; partitions] };
        Arc::new(Cluster { topics: [("t".into(), topic)].into(), ..Cluster::default() })
    }

    #[test]
    fn a_topic_with_an_error_of_the_moment_keeps_its_partitions() {
        let at = |seconds| Time(0) + Duration::from_secs(seconds);
        for (code, last_known) in [
            (ErrorCode::LEADER_NOT_AVAILABLE, 1_000),
            (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 19),
            (ErrorCode::TOPIC_AUTHORIZATION_FAILED, 19),
            (ErrorCode::INVALID_TOPIC_EXCEPTION, 9),
        ] {
            let mut errors = TopicErrors::default();
            let mut view = errors.bridge(at(1), &Cluster::default(), &cluster(ErrorCode::NONE, 3));
            for seconds in 10..25 {
                view = errors.bridge(at(seconds), &view, &cluster(code, 0));
                let count = view.topics["t"].partitions.len();
                assert_eq!(count, if seconds <= last_known { 3 } else { 0 }, "{code} after {seconds} s");
                assert_eq!(errors.get("t"), Some((at(10), code)));
            }
            view = errors.bridge(at(1_001), &view, &cluster(ErrorCode::NONE, 4));
            assert_eq!((view.topics["t"].partitions.len(), errors.get("t")), (4, None));
        }
    }

    #[test]
    fn a_topic_that_was_never_known_has_only_its_error() {
        let mut errors = TopicErrors::default();
        let view = errors.bridge(Time(1), &Cluster::default(), &cluster(ErrorCode::LEADER_NOT_AVAILABLE, 0));
        assert_eq!(view.topics["t"].error, ErrorCode::LEADER_NOT_AVAILABLE);
    }
}
