//! Builds fetch requests and handles their responses.
//!
//! With a fetch session (KIP-227), a request contains only the changes since the previous request. The partitions that
//! have waited longest come first in a request, because a broker fills a response in the requested order.
//! `fetch_response.rs` decodes the responses and reads the records.

use super::fetch_response::{DecodeOptions, FetchResult, FetchedPartition, RequestedPartition};
use super::partition::{ImplausibleBatches, Partition};
use super::{Consumer, ConsumerToken};
use crate::api::{ErrorCode, Info, fetch};
use crate::engine::call::MAX_MALFORMED;
use crate::engine::{Call, Deadline, Error, ErrorKind, Outgoing, Target, Time, TopicPartition, throttle, wait_after};
use crate::logging::Component;
use crate::wire::{Uuid, Wire, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long the broker may delay a fetch while other partitions of the broker have full buffers.
const SHORT_WAIT: Duration = Duration::from_millis(10);
/// The shortest time between two fetches from a broker that returns no records while the application does not wait for
/// records. With `fetch.max.wait.ms` 0, the consumer would otherwise send thousands of fetches per second.
pub const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// A partition with an empty buffer needs room for a quarter of the bytes that a partition may buffer. With less room,
/// each fetch would return only one batch.
const MIN_ROOM_DIVISOR: usize = 4;
/// The largest response is the prefetch limit divided by this number, within `MIN_RESPONSE` and `MAX_RESPONSE`. A
/// response stays in memory until the application has dropped its last record. Until then, other responses also need
/// room.
const RESPONSE_SIZE_DIVISOR: usize = 8;
const MIN_RESPONSE: usize = 1 << 20;
const MAX_RESPONSE: usize = 8 << 20;
/// The newest Fetch version that identifies topics by name.
const MAX_VERSION_WITH_TOPIC_NAMES: i16 = 12;
/// The hint for an error about lost records below the end offset of a partition.
const END_OFFSET_HINT: &str = "records before the end offset were deleted or never written: read from beginning_offsets() to \
    end_offsets(), seek, or set auto.offset.reset to earliest to read what remains";
/// How often the requested size may be halved, down to 1 KiB from the default 1 MiB. A broker returns a whole batch
/// even if it is larger than the requested size.
const MAX_HALVINGS: u32 = 10;

/// How long the consumer does not fetch a partition after it reported that the response is too large. For each attempt,
/// the broker has to read and send the whole response.
const OVERSIZED_PAUSE: Duration = Duration::from_secs(30);
/// How long the consumer fetches a partition from its leader after a follower failed. The time is longer after several
/// failures.
const FOLLOWER_PAUSE: Duration = Duration::from_secs(5);

struct FetchCall(fetch::Request);

impl Call for FetchCall {
    fn api(&self) -> &'static Info {
        &fetch::API
    }
    fn put(&self, w: &mut Writer) {
        Wire::put(&self.0, w);
    }
    fn max_broker_wait(&self) -> Duration {
        Duration::from_millis(self.0.max_wait_ms.unsigned_abs().into())
    }
}

/// A partition in a fetch session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SessionPartition {
    offset: i64,
    leader_epoch: i32,
    id: Uuid,
    max_bytes: i32,
}

/// Fetch state of a broker.
#[derive(Debug, Default)]
pub(super) struct BrokerFetchState {
    /// The partitions of the request in flight.
    in_flight: Option<Vec<RequestedPartition>>,
    /// The largest expected size of the response to the request in flight, in bytes.
    max_expected_bytes: usize,
    /// When the last request was sent.
    pub sent_at: Time,
    /// How often the requested size was halved after timeouts. On a slow connection, a full response may take longer
    /// than the request timeout. Without halving, the consumer would request the same size again and again.
    halvings: u32,
    /// The number of malformed responses in a row. The consumer treats a malformed response like a lost response,
    /// because the next response may be intact.
    malformed: u32,
    /// The number of fetch session errors in a row.
    session_errors: u32,
    /// The end of the time in which the consumer fetches one partition at a time, to find the partition whose response
    /// is too large.
    single_until: Time,
    /// The consumer sends no fetch to the broker before this time, because the broker throttles the client (KIP-219).
    pub throttled_until: Time,
    /// The end of the pause after a response without records. The pause ends early if the application waits for records.
    pub idle_until: Time,
    /// The ID of the fetch session, or 0 without a session.
    session_id: i32,
    session_epoch: i32,
    partitions: BTreeMap<TopicPartition, SessionPartition>,
}

impl BrokerFetchState {
    /// Returns the time before which the consumer sends no fetch to the broker.
    pub fn pauses_until(&self) -> Time {
        self.throttled_until.max(self.idle_until)
    }

    fn end_session(&mut self) {
        self.session_id = 0;
        self.session_epoch = 0;
        self.partitions.clear();
    }
}

impl<T: Send> Consumer<T> {
    /// Returns the broker to fetch a partition from: a nearer follower, or the leader.
    fn source(&self, p: &Partition, now: Time) -> Option<i32> {
        let nearer = p.replica.filter(|(node, until)| *until > now && self.cluster.brokers.contains_key(node));
        match nearer {
            Some((node, _)) => Some(node),
            None => self.cluster.leader(&p.topic, p.partition).map(|(node, _)| node),
        }
    }

    /// Returns two numbers of bytes: how much of the prefetch limit is free, and how much of that is left after the
    /// requests in flight.
    fn free_bytes(&self) -> (usize, usize) {
        let buffered: usize = self.partitions.values().map(|p| p.buffered).sum();
        let expected: usize = self.nodes.values().filter(|n| n.in_flight.is_some()).map(|n| n.max_expected_bytes).sum();
        let bound = self.config.prefetch_bytes;
        let free = bound.saturating_sub(buffered.saturating_add(self.leftover.bytes(bound)));
        (free, free.saturating_sub(expected))
    }

    /// Returns how many bytes a partition may buffer before its fetches stop.
    fn max_buffered(&self) -> usize {
        (self.config.max_partition_bytes as usize).min(self.config.prefetch_bytes)
    }

    /// Returns the next broker to fetch from.
    fn next_source(&self, now: Time) -> Option<i32> {
        let is_idle =
            |node: &i32| self.nodes.get(node).is_none_or(|n| n.in_flight.is_none() && n.pauses_until() <= now);
        let wanting = self.partitions.values().filter(|p| p.wants_more(now, self.max_buffered()));
        wanting.filter_map(|p| self.source(p, now)).find(is_idle)
    }

    /// Returns whether a fetch may be sent now.
    pub fn can_fetch(&self, now: Time) -> bool {
        (self.free_bytes().1 > 0 || self.is_starved(now)) && self.next_source(now).is_some()
    }

    /// Ends the pauses after responses without records, because the application waits for records.
    pub fn end_idle_pause(&mut self) {
        self.nodes.values_mut().for_each(|n| n.idle_until = Time(0));
    }

    /// Returns whether paused partitions buffer so much that an empty partition has no room.
    fn is_starved(&self, now: Time) -> bool {
        self.free_bytes().0 < self.max_buffered() / MIN_ROOM_DIVISOR
            && self.partitions.values().any(Partition::is_droppable)
            && self.partitions.values().any(|p| p.buffered == 0 && p.wants_more(now, 1))
    }

    /// Drops buffers of paused partitions until there is room for an empty partition.
    fn make_room(&mut self, now: Time) {
        while self.is_starved(now)
            && let Some(p) = self.partitions.values_mut().find(|p| p.is_droppable())
        {
            p.drop_buffered();
        }
    }

    /// Builds the next fetch request.
    pub(super) fn next_fetch(&mut self, now: Time) -> Option<Outgoing<ConsumerToken>> {
        self.make_room(now);
        let (free, room) = self.free_bytes();
        if room == 0 {
            return None;
        }
        let node = self.next_source(now)?;
        let max_buffered = self.max_buffered();

        // Each broker gets an equal part, so that long polls of idle brokers leave room for the others.
        let fetchable = self.partitions.values().filter(|p| p.is_fetchable());
        let sources: BTreeSet<i32> = fetchable.filter_map(|p| self.source(p, now)).collect();
        let room = room.min(free.div_ceil(sources.len().max(1)));

        let of_broker = self.partitions.iter().filter(|(_, p)| self.source(p, now) == Some(node));
        let (fetchable_now, others): (Vec<_>, Vec<_>) = of_broker.partition(|(_, p)| p.wants_more(now, max_buffered));
        // A partition that waits longer than the broker would needs no shorter wait.
        let max_wait = self.config.max_wait;
        let held_back = others.iter().any(|(_, p)| p.is_fetchable() && p.retry_at < now + max_wait);
        let mut slots: Vec<(Time, usize)> = fetchable_now.iter().map(|(slot, p)| (p.last_records_at, **slot)).collect();
        slots.sort_unstable();
        let is_single = slots.len() > 1 && self.nodes.get(&node).is_some_and(|n| n.single_until > now);
        if is_single {
            slots.truncate(1);
        }

        let halvings = self.nodes.get(&node).map_or(0, |n| n.halvings);
        let halved = |bytes: i32| (bytes >> halvings).max(1);
        let mut requested = Vec::with_capacity(slots.len());
        let mut all_have_topic_ids = true;
        for (_, slot) in slots {
            let Some(p) = self.partitions.get_mut(&slot) else { continue };
            let id = self.cluster.topics.get(&p.topic).map(|t| t.id).unwrap_or_default();
            all_have_topic_ids &= !id.is_zero();
            p.fetching = true;
            let leader_epoch = self.cluster.leader(&p.topic, p.partition).map_or(-1, |(_, epoch)| epoch);
            let (topic, partition, generation, offset) = (p.topic.clone(), p.partition, p.generation, p.fetch_offset);
            let max_bytes = self.config.max_partition_bytes.saturating_mul(p.max_bytes_factor);
            let max_bytes = halved(match p.end_offset {
                _ if p.max_bytes_factor > 1 => max_bytes.min(self.config.max_bytes),
                Some(end) => {
                    let offsets = usize::try_from(end.saturating_sub(offset)).unwrap_or(0);
                    let limit = self.densities.limit(&p.topic_partition(), offsets);
                    max_bytes.min(i32::try_from(limit).unwrap_or(i32::MAX))
                }
                None => max_bytes,
            });
            let stops_at_implausible = p.implausible_batches != ImplausibleBatches::Accept
                && p.implausible_batches != ImplausibleBatches::Refetching(offset);
            requested.push(RequestedPartition {
                slot,
                generation,
                offset,
                topic,
                id,
                partition,
                leader_epoch,
                max_bytes,
                stops_at_implausible,
            });
        }
        let expected =
            requested.iter().fold(0_usize, |sum, a| sum.saturating_add(usize::try_from(a.max_bytes).unwrap_or(0)));
        let response = (self.config.prefetch_bytes / RESPONSE_SIZE_DIVISOR).clamp(MIN_RESPONSE, MAX_RESPONSE).min(room);
        let max_bytes = halved(self.config.max_bytes).min(i32::try_from(response).unwrap_or(i32::MAX));
        let (topics, forgotten_topics_data, session_id, session_epoch) = self.update_session(node, &requested);
        // The leader would name the follower again that has just failed.
        let needs_leader = requested.iter().filter_map(|a| self.partitions.get(&a.slot)).any(|p| p.leader_until > now);
        let rack_id = if needs_leader { String::new() } else { self.config.rack.clone() };
        let wait = if held_back || is_single { self.config.max_wait.min(SHORT_WAIT) } else { self.config.max_wait };
        let request = fetch::Request {
            max_wait_ms: wait.as_millis() as i32,
            min_bytes: self.config.min_bytes,
            max_bytes,
            isolation_level: self.config.read_committed.into(),
            session_id,
            session_epoch,
            topics,
            forgotten_topics_data,
            rack_id,
            ..Default::default()
        };
        let options = DecodeOptions {
            check_crcs: self.config.check_crcs,
            read_committed: self.config.read_committed,
            max_decompressed_bytes: self.config.decompress_limit,
            decompression_budget: room,
        };
        let broker = self.nodes.entry(node).or_default();
        broker.in_flight = Some(requested.clone());
        broker.sent_at = now;
        broker.max_expected_bytes = expected.min(usize::try_from(max_bytes).unwrap_or(0));
        Some(Outgoing {
            target: Target::Fetch(node),
            call: Box::new(FetchCall(request)),
            token: ConsumerToken::Fetch(requested, options, self.leftover.clone()),
            deadline: Deadline::ToAnswer(now + self.config.request_timeout + wait),
            max_version: if all_have_topic_ids { i16::MAX } else { MAX_VERSION_WITH_TOPIC_NAMES },
        })
    }

    /// Returns what the request must contain: all partitions, or the changes since the last request of the session.
    fn update_session(
        &mut self,
        node: i32,
        requested: &[RequestedPartition],
    ) -> (Vec<fetch::Topic>, Vec<fetch::ForgottenTopic>, i32, i32) {
        let broker = self.nodes.entry(node).or_default();
        let mut topics: Vec<fetch::Topic> = Vec::new();
        let mut forgotten: Vec<fetch::ForgottenTopic> = Vec::new();
        let mut previous = std::mem::take(&mut broker.partitions);
        for r in requested {
            let current =
                SessionPartition { offset: r.offset, leader_epoch: r.leader_epoch, id: r.id, max_bytes: r.max_bytes };
            let key = TopicPartition::new(r.topic.clone(), r.partition);
            let is_unchanged = previous.get(&key) == Some(&current);
            // A recreated topic has a new ID, so the session must forget the old one.
            if previous.get(&key).is_none_or(|old| old.id == current.id) {
                previous.remove(&key);
            }
            broker.partitions.insert(key, current);
            if is_unchanged {
                continue;
            }
            let partition = fetch::Partition {
                partition: r.partition,
                fetch_offset: r.offset,
                current_leader_epoch: r.leader_epoch,
                partition_max_bytes: r.max_bytes,
                ..Default::default()
            };
            match topics.last_mut().filter(|t| *t.topic == *r.topic) {
                Some(t) => t.partitions.push(partition),
                None => {
                    let (topic, topic_id) = (r.topic.to_string(), r.id);
                    topics.push(fetch::Topic { topic, topic_id, partitions: vec![partition] });
                }
            }
        }
        for (TopicPartition { topic, partition }, old) in previous {
            match forgotten.last_mut().filter(|t| t.topic_id == old.id && *t.topic == *topic) {
                Some(t) => t.partitions.push(partition),
                None => forgotten.push(fetch::ForgottenTopic {
                    topic: topic.to_string(),
                    topic_id: old.id,
                    partitions: vec![partition],
                }),
            }
        }
        (topics, forgotten, broker.session_id, broker.session_epoch)
    }

    /// Handles the response to a fetch.
    pub(super) fn handle_fetch(&mut self, now: Time, node: i32, result: Result<FetchResult, Error>) {
        let broker = self.nodes.entry(node).or_default();
        let requested = broker.in_flight.take().unwrap_or_default();
        match result {
            Ok(all) => {
                self.measured.note_fetch(now, &all);
                let FetchResult { session_id, throttle: requested, partitions } = all;
                let wait = throttle(Component::Consumer, &self.cluster, node, requested, self.config.request_timeout);
                broker.throttled_until = now + wait;
                (broker.malformed, broker.session_errors) = (0, 0);
                // At this speed, a response of twice the size takes half of the timeout. An empty response proves
                // nothing.
                if partitions.iter().all(FetchedPartition::is_empty) {
                    broker.idle_until = broker.sent_at + IDLE_PAUSE;
                }
                let is_quick = now.since(broker.sent_at) < self.config.request_timeout / 4 + self.config.max_wait;
                if is_quick && partitions.iter().any(|p| !p.chunks.is_empty()) {
                    broker.halvings = broker.halvings.saturating_sub(1);
                }
                match session_id {
                    0 => broker.end_session(),
                    id => {
                        broker.session_id = id;
                        // The epoch wraps around to 1, because 0 starts a session.
                        broker.session_epoch =
                            if broker.session_epoch == i32::MAX { 1 } else { broker.session_epoch + 1 };
                    }
                }
                for fetched in partitions {
                    self.handle_fetched(now, node, fetched);
                }
                self.find_positions(now);
            }
            Err(error) => {
                broker.end_session();
                if error.kind() == ErrorKind::Timeout {
                    broker.halvings = (broker.halvings + 1).min(MAX_HALVINGS);
                }
                broker.malformed = if error.kind() == ErrorKind::Decode { broker.malformed + 1 } else { 0 };
                let is_retriable = error.is_retriable() || (1..MAX_MALFORMED).contains(&broker.malformed);
                let is_session_error = matches!(
                    error.code(),
                    Some(
                        ErrorCode::FETCH_SESSION_ID_NOT_FOUND
                            | ErrorCode::INVALID_FETCH_SESSION_EPOCH
                            | ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR
                    )
                );
                broker.session_errors = if is_session_error { broker.session_errors.saturating_add(1) } else { 0 };
                if broker.session_errors > 1 {
                    // One such error is normal. Without backoff, a broker that always answers so would get thousands of
                    // requests per second.
                    broker.throttled_until =
                        now + wait_after(broker.session_errors - 1, self.config.retry_backoff, now.0);
                }
                let is_first_session_error = is_session_error && broker.session_errors == 1;
                let is_oversized = error.code() == Some(ErrorCode::RECORD_LIST_TOO_LARGE);
                if is_oversized {
                    broker.single_until = now + 2 * OVERSIZED_PAUSE;
                }
                let is_single = requested.len() == 1;
                for requested in requested {
                    let Some(p) = self.partitions.get_mut(&requested.slot) else {
                        continue;
                    };
                    p.fetching = false;
                    if is_first_session_error {
                        continue;
                    }
                    let failed_on_follower = p.leave_follower(now, node, self.config.replica_max_age);
                    if is_session_error {
                        continue;
                    }
                    let is_temporary = p.fails(now, error.code(), is_retriable, self.config.retry_backoff);
                    if is_temporary || failed_on_follower || p.generation != requested.generation {
                        continue;
                    }
                    if !is_oversized {
                        p.set_error(error.clone().at(&requested.topic, requested.partition));
                    } else if is_single {
                        p.fail_oversized(now, requested.offset, &error);
                    }
                }
                self.demand.refresh |= !is_session_error;
            }
        }
    }

    fn handle_fetched(&mut self, now: Time, node: i32, fetched: FetchedPartition) {
        let FetchedPartition {
            requested,
            code,
            readable_end,
            log_start_offset,
            replica,
            chunks,
            density,
            mut error,
            has_implausible_batch,
            cut_off,
            ..
        } = fetched;
        let max_age = self.config.replica_max_age;
        let reset = self.reset_position(now);
        let Some(p) = self.partitions.get_mut(&requested.slot) else {
            return;
        };
        p.fetching = false;
        // While the position is being validated, records must not be read: they would have epochs that the validation
        // does not cover, so that the log would look truncated.
        if p.generation != requested.generation || p.validating {
            return;
        }
        match code {
            ErrorCode::NONE => {
                p.failures = 0;
                p.unknown_since = None;
                p.topic_id = requested.id;
                if readable_end >= 0 {
                    p.readable_end = readable_end;
                    p.lag.record(now, (readable_end - p.position).max(0) as f64);
                    self.measured.note_lag(now, readable_end - p.position);
                }
                p.log_start_offset = log_start_offset;
                if let Some(replica) = replica {
                    // After metadata.max.age.ms, the consumer asks the leader for a nearer follower again.
                    p.replica = Some((replica, now + self.config.replica_max_age));
                    return;
                }
                if !chunks.is_empty() {
                    p.last_records_at = now;
                    p.max_bytes_factor = 1;
                }
                if error.is_some() && p.leave_follower(now, node, max_age) {
                    // The leader may have the batch intact.
                    error = None;
                } else if !chunks.is_empty() && p.is_from_follower(node) {
                    p.follower_failures = 0;
                }
                p.oversized = 0;
                if p.end_offset.is_some() {
                    self.densities.note(p.topic_partition(), density);
                }
                p.buffer(chunks, error);
                p.implausible_batches = match (has_implausible_batch, requested.stops_at_implausible) {
                    (true, true) => ImplausibleBatches::Refetching(p.fetch_offset),
                    (false, _) if p.implausible_batches != ImplausibleBatches::Accept => ImplausibleBatches::Refetch,
                    _ => ImplausibleBatches::Accept,
                };
                if cut_off {
                    let max = self.config.max_bytes;
                    if requested.max_bytes >= max {
                        let what = format!("fetch {}-{} at offset {}", p.topic, p.partition, requested.offset);
                        let error = Error::refused(ErrorCode::RECORD_LIST_TOO_LARGE, what);
                        let hint = format!(
                            "the next message is larger than fetch.max.bytes ({max}); raise fetch.max.bytes, or seek past the message"
                        );
                        p.set_error(error.with_hint(hint).at(&p.topic, p.partition));
                    }
                    p.max_bytes_factor = p.max_bytes_factor.saturating_mul(2);
                }
            }
            // A follower may lag behind the leader; only the leader knows the range.
            ErrorCode::OFFSET_OUT_OF_RANGE if p.leave_follower(now, node, max_age) => {}
            // The buffered records come first. The application may need seconds for them.
            ErrorCode::OFFSET_OUT_OF_RANGE if p.has_buffered() && p.may_reset(reset) => {
                p.back_off(now, self.config.retry_backoff);
            }
            ErrorCode::OFFSET_OUT_OF_RANGE if p.may_reset(reset) => p.reset_out_of_range(reset),
            code => {
                let failed_on_follower = p.leave_follower(now, node, max_age);
                let is_temporary = p.fails(now, Some(code), code.is_retriable(), self.config.retry_backoff);
                let is_awaited = self.is_member && is_unknown_topic(code);
                if !(is_temporary || is_awaited || failed_on_follower) {
                    let what = format!("fetch {}-{} at offset {}", p.topic, p.partition, requested.offset);
                    let error = Error::refused(code, what).at(&p.topic, p.partition);
                    let is_bounded = code == ErrorCode::OFFSET_OUT_OF_RANGE && p.end_offset.is_some();
                    p.set_error(if is_bounded { error.with_hint(END_OFFSET_HINT) } else { error });
                }
                self.demand.refresh = true;
            }
        }
    }
}

impl Partition {
    fn is_from_follower(&self, node: i32) -> bool {
        self.replica.is_some_and(|(replica, _)| replica == node)
    }

    /// Handles the failure of a broker. If the broker is the follower that serves this partition, the consumer fetches
    /// from the leader for a while. This time grows with each failure in a row. Returns whether the broker is that
    /// follower. In that case, only the leader's response counts.
    fn leave_follower(&mut self, now: Time, node: i32, max_age: Duration) -> bool {
        let is_follower = self.is_from_follower(node);
        if is_follower {
            self.replica = None;
            self.follower_failures = self.follower_failures.saturating_add(1);
            let pause = wait_after(self.follower_failures, (FOLLOWER_PAUSE, max_age.max(FOLLOWER_PAUSE)), now.0);
            self.leader_until = now + pause;
        }
        is_follower
    }

    /// Notes a response that is too large to be read. The first such responses are not reported, because their length
    /// may be damaged.
    fn fail_oversized(&mut self, now: Time, offset: i64, error: &Error) {
        self.oversized = self.oversized.saturating_add(1);
        if self.oversized < MAX_MALFORMED {
            return;
        }
        self.retry_at = now + OVERSIZED_PAUSE;
        let what = format!("fetch {}-{} at offset {offset}: {}", self.topic, self.partition, error.message());
        let oversized = error.clone().with_message(what).at(&self.topic, self.partition);
        self.set_error(oversized);
    }
}

/// Returns whether an error means that the topic does not exist. A group member keeps the partitions of a deleted topic
/// until the group revokes them, and does not report the error. The Java consumer does the same.
pub fn is_unknown_topic(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID)
}

#[cfg(test)]
mod tests {
    use super::super::frame::Frame;
    use super::super::{Assigned, ConsumerConfig, Reset};
    use super::*;
    use crate::engine::Role;
    use crate::engine::cluster::{Broker, Cluster, Partition as Led, Topic};
    use std::sync::Arc;

    fn config() -> ConsumerConfig {
        ConsumerConfig {
            group: None,
            reset: Reset::Earliest,
            started_ms: 0,
            auto_commit: None,
            offsets_retention: None,
            min_bytes: 1,
            max_wait: Duration::from_millis(500),
            max_bytes: 1 << 20,
            max_partition_bytes: 1 << 20,
            prefetch_bytes: 1 << 20,
            check_crcs: true,
            read_committed: false,
            rack: String::new(),
            replica_max_age: Duration::from_secs(300),
            retry_backoff: (Duration::from_millis(50), Duration::from_secs(1)),
            request_timeout: Duration::from_secs(5),
            api_timeout: Duration::from_secs(60),
            decompress_limit: 1 << 20,
        }
    }

    /// Creates a consumer of three partitions with the same leader.
    fn three_partitions() -> Consumer<u32> {
        let led = Led { leader: 1, leader_epoch: 0, replicas: vec![1], isr: vec![1], older: 0 };
        let topic = Topic { id: Uuid::ZERO, error: ErrorCode::NONE, internal: false, partitions: vec![led; 3] };
        let node = Broker { id: 1, host: "h".to_owned(), port: 9092, rack: None };
        let cluster =
            Cluster { brokers: [(1, node)].into(), topics: [("t".into(), topic)].into(), ..Cluster::default() };
        let mut consumer = Consumer { cluster: Arc::new(cluster), ..Consumer::new(config()) };
        let assigned = |partition| Assigned { topic: "t".to_owned(), partition, offset: Some(0), end_offset: None };
        consumer.assign(Time(0), (0..3).map(assigned).collect());
        consumer
    }

    fn requested_partitions(outgoing: Option<Outgoing<ConsumerToken>>) -> Vec<i32> {
        match outgoing.map(|o| o.token) {
            Some(ConsumerToken::Fetch(requested, ..)) => requested.iter().map(|r| r.partition).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn the_partition_that_waited_longest_is_requested_first() {
        let mut consumer = three_partitions();
        for (p, last_records_at) in consumer.partitions.values_mut().zip([30, 10, 20]) {
            p.last_records_at = Time(last_records_at);
        }
        assert_eq!(requested_partitions(consumer.next_fetch(Time(40))), [1, 2, 0]);
    }

    #[test]
    fn kept_responses_count_against_the_prefetch_limit() {
        let mut consumer = three_partitions();
        let answer = vec![0; consumer.config.prefetch_bytes];
        let (kept, delivered) = Frame::new(answer.into(), consumer.leftover.clone());
        assert!(!consumer.can_fetch(Time(40)) && consumer.next_fetch(Time(40)).is_none());
        drop(kept);
        assert!(consumer.can_fetch(Time(40)));
        assert_eq!(
            consumer.free_bytes().0,
            consumer.config.prefetch_bytes / 2,
            "records that the application keeps leave half"
        );
        drop(delivered);
        assert_eq!(consumer.free_bytes().0, consumer.config.prefetch_bytes);
        assert!(consumer.next_fetch(Time(40)).is_some());
    }

    #[test]
    fn a_response_is_a_part_of_the_prefetch_limit() {
        for (prefetch, answer) in [(64 << 20, 8 << 20), (16 << 20, 2 << 20), (2 << 20, 1 << 20), (1 << 10, 1 << 10)] {
            let mut consumer = three_partitions();
            (consumer.config.prefetch_bytes, consumer.config.max_bytes) = (prefetch, 50 << 20);
            consumer.config.max_partition_bytes = 50 << 20;
            assert!(consumer.next_fetch(Time(40)).is_some());
            assert_eq!(consumer.nodes.get(&1).map(|node| node.max_expected_bytes), Some(answer));
        }
    }

    #[test]
    fn a_read_up_to_an_end_offset_requests_about_what_remains() {
        let mut consumer = three_partitions();
        for (p, end) in consumer.partitions.values_mut().zip([None, Some(1_000), Some(1 << 20)]) {
            p.end_offset = end;
        }
        let requested = |consumer: &mut Consumer<u32>, now| match consumer.next_fetch(now).map(|o| o.token) {
            Some(ConsumerToken::Fetch(requested, ..)) => requested.iter().map(|r| r.max_bytes).collect::<Vec<_>>(),
            _ => Vec::new(),
        };
        assert_eq!(requested(&mut consumer, Time(40)), [1 << 20, 128_000, 1 << 20]);
        // A message larger than that doubles the configured size, because old brokers return a part of it.
        for p in consumer.partitions.values_mut() {
            (p.fetching, p.max_bytes_factor) = (false, 2);
        }
        consumer.nodes.clear();
        assert_eq!(requested(&mut consumer, Time(50)), [1 << 20; 3]);
    }

    #[test]
    fn an_unknown_session_is_replaced_at_once() {
        for code in [ErrorCode::FETCH_SESSION_ID_NOT_FOUND, ErrorCode::INVALID_FETCH_SESSION_EPOCH] {
            let mut consumer = three_partitions();
            consumer
                .nodes
                .insert(1, BrokerFetchState { session_id: 7, session_epoch: 3, ..BrokerFetchState::default() });
            assert_eq!(requested_partitions(consumer.next_fetch(Time(40))), [0, 1, 2]);
            consumer.handle_fetch(Time(50), 1, Err(Error::refused(code, "fetch")));
            let node = consumer.nodes.get(&1).map(|n| (n.session_id, n.session_epoch, n.partitions.len()));
            assert_eq!(node, Some((0, 0, 0)));
            assert!(!consumer.is_ready() && !consumer.demand.refresh, "it is not reported");
            assert_eq!(requested_partitions(consumer.next_fetch(Time(50))), [0, 1, 2]);
        }
    }

    #[test]
    fn a_broker_that_never_knows_its_session_gets_the_next_fetch_after_a_backoff() {
        let mut consumer = three_partitions();
        let fails = |consumer: &mut Consumer<u32>, now| {
            assert_eq!(requested_partitions(consumer.next_fetch(now)), [0, 1, 2]);
            let error = Error::refused(ErrorCode::FETCH_SESSION_ID_NOT_FOUND, "fetch");
            consumer.handle_fetch(now, 1, Err(error));
            consumer.next_timeout(now).filter(|_| !consumer.can_fetch(now)).map(|at| at.since(now).as_millis())
        };
        let mut now = Time(0) + Duration::from_secs(1);
        assert_eq!(fails(&mut consumer, now), None, "the first time at once");
        for (least, most) in [(40, 60), (80, 120), (160, 240)] {
            let wait = fails(&mut consumer, now).unwrap();
            assert!((least..=most).contains(&wait), "{wait} ms");
            now = now + Duration::from_millis(241);
        }
    }
}
