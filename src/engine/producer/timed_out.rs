//! Creates the error for records that expired, and names the cause if the producer knows it. This file also writes the
//! log lines about failed records.

use super::Producer;
use crate::engine::{Error, ErrorKind, Time, throttle_error};
use crate::logging::Component;
use std::time::Duration;

impl<D> Producer<D> {
    /// Logs and returns the error of a record that timed out, either in its partition or while the topic's metadata was
    /// missing.
    pub(super) fn timed_out(
        &mut self,
        now: Time,
        topic: usize,
        partition: Option<usize>,
        limit: Duration,
        why: Option<Error>,
    ) -> Error {
        let bound = if partition.is_some() { "delivery.timeout.ms" } else { "max.block.ms" };
        let location = match (self.topics.get(topic), partition) {
            (Some(t), Some(partition)) => format!(" of {}-{partition}", t.name),
            (Some(t), None) => format!(" of {}", t.name),
            (None, _) => String::new(),
        };
        let message = format!("record{location} was not acknowledged within {bound} ({} ms)", limit.as_millis());
        let hint = "check the brokers and the network";
        // Without a token, nothing was tried since the last error.
        let missing = self.unreachable.as_ref().filter(|e| e.kind() == ErrorKind::NoToken).cloned();
        let error = match missing
            .or(why)
            .or_else(|| self.unreachable.clone())
            .or_else(|| self.throttle_of(now, topic, partition))
        {
            Some(why) => Error::because(ErrorKind::Timeout, message, &why).with_hint(why.hint().unwrap_or(hint)),
            None => Error::new(ErrorKind::Timeout, message).with_hint(hint),
        };
        let error = match self.topics.get(topic) {
            Some(t) => error.at(&t.name, partition.and_then(|p| i32::try_from(p).ok())),
            None => error,
        };
        self.log_failure(now, topic, partition, &error);
        error
    }

    /// Returns the error for a partition whose leader throttles the client.
    fn throttle_of(&self, now: Time, topic: usize, partition: Option<usize>) -> Option<Error> {
        let (node, _) = self.cluster.leader(&self.topics.get(topic)?.name, i32::try_from(partition?).ok()?)?;
        let (_, requested) = *self.throttled.get(&node).filter(|(until, _)| *until > now)?;
        Some(throttle_error(&self.cluster, node, requested, self.config.request_timeout))
    }

    /// Logs that records of a topic failed: at once, and then less and less often. An outage may fail thousands of
    /// batches.
    pub(super) fn log_failure(&mut self, now: Time, topic: usize, partition: Option<usize>, error: &Error) {
        let Some(t) = self.topics.get_mut(topic) else {
            return;
        };
        if t.failure_log.is_due(now) {
            let partition = partition.and_then(|p| i32::try_from(p).ok());
            error.clone().at(&t.name, partition).log_warning(Component::Producer);
        }
    }
}
