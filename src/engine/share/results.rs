//! Reports the results of acknowledgements to the commits that wait for them.
//!
//! `mod.rs` sends the acknowledgements. If no commit waits for the result of an acknowledgement, the next commit
//! returns that result.

use super::{ShareConsumer, add_result};
use crate::engine::{Error, TopicIdPartition, TopicPartition};

/// The largest number of results that the consumer keeps if the application does not take them.
const MAX_RESULTS: usize = 1 << 12;

impl<T: Send> ShareConsumer<T> {
    /// Reports the results of a request's acknowledgements to the commits that wait for them.
    pub(super) fn report_results(&mut self, id: i32, round: u64, results: Vec<(TopicIdPartition, Option<Error>)>) {
        let mut is_reported = false;
        for commit in &mut self.commits {
            if !commit.rounds.remove(&(id, round)) {
                continue;
            }
            is_reported = true;
            for (topic_partition, error) in &results {
                add_result(&mut commit.results, topic_partition.topic_partition(), error.clone());
            }
        }
        if !is_reported {
            let room = MAX_RESULTS.saturating_sub(self.results.len());
            self.results
                .extend(results.into_iter().take(room).map(|(s, e)| (TopicPartition::new(s.topic, s.partition), e)));
        }
        let (ended, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.commits).into_iter().partition(|c| c.rounds.is_empty());
        self.commits = open;
        self.done.extend(ended.into_iter().map(|c| (c.completion, c.results.into_iter().collect())));
    }

    /// Fails the acknowledgements in flight.
    pub(super) fn fail_sending(&mut self, id: i32, error: &Error) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let round = node.round;
        let sent = std::mem::take(&mut node.sending);
        if !sent.is_empty() {
            self.report_results(id, round, sent.partitions().map(|s| (s.clone(), Some(error.clone()))).collect());
        }
    }

    /// Fails the unsent acknowledgements.
    pub(super) fn fail_waiting(&mut self, id: i32, error: &Error) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.sending = std::mem::take(&mut node.acks);
        if !node.sending.is_empty() {
            node.round += 1;
            self.fail_sending(id, error);
        }
    }
}
