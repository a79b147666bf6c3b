//! Simulates producing without transactions, and reading the records back.

use super::{
    LONG_THROTTLE, PARTITIONS, SHORT_THROTTLE, SimFault, World, consumer_config, producer_config, record, seeds, tokens,
};
use klamm::api::ErrorCode;
use klamm::engine::consumer::{Consumer, ConsumerConfig};
use klamm::engine::producer::{Producer, ProducerConfig};
use klamm::engine::{Error, ErrorKind, Time};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

const SEEDS: u64 = 500;

/// The result of a record.
#[derive(Clone, Debug)]
enum Outcome {
    /// The partition, and the offset or -1 if the broker did not send it.
    Acknowledged(i32, i64),
    Failed(Error),
}

/// The faults of a scenario.
struct Plan {
    config: ProducerConfig,
    count: u32,
    /// Whether leaders may move and nodes may stop during the read as well.
    is_troubled: bool,
    /// The topic's size limit, which one record in 37 exceeds.
    max_message_bytes: Option<usize>,
    /// Whether brokers throttle the producer from time to time.
    is_throttled: bool,
}

impl Plan {
    /// Only the faults of all scenarios.
    fn plain(config: ProducerConfig, count: u32) -> Self {
        Self { config, count, is_troubled: false, max_message_bytes: None, is_throttled: false }
    }
}

/// A throttling broker: the end of the throttle, and the broker's metrics at its start.
#[derive(Default)]
struct Quiet {
    until: Time,
    throttled: Duration,
    requests: u64,
}

/// The result of one scenario: the log of each partition as a reader saw it, and the result of each record.
struct Story {
    log: BTreeMap<i32, Vec<u32>>,
    outcomes: HashMap<u32, Outcome>,
    sent: u32,
    read_offsets: BTreeMap<i32, Vec<i64>>,
    /// The largest number of requests in flight to one broker.
    most_in_flight: u64,
    /// The total throttle time.
    throttled: Duration,
    /// The faults that struck.
    struck: BTreeSet<SimFault>,
}

impl Story {
    fn acknowledged(&self) -> impl Iterator<Item = (u32, i32, i64)> {
        self.outcomes.iter().filter_map(|(record, outcome)| match outcome {
            Outcome::Acknowledged(partition, offset) => Some((*record, *partition, *offset)),
            Outcome::Failed(_) => None,
        })
    }

    fn failures(&self) -> impl Iterator<Item = &Error> {
        self.outcomes.values().filter_map(|outcome| match outcome {
            Outcome::Failed(error) => Some(error),
            Outcome::Acknowledged(..) => None,
        })
    }
}

/// Produces `count` records over faulty links, then reads everything over faulty links.
fn tell(seed: u64, idempotent: bool, count: u32) -> Story {
    tell_of(seed, Plan::plain(producer_config(idempotent, seed), count))
}

fn tell_of(seed: u64, plan: Plan) -> Story {
    let Plan { config, count, is_troubled, max_message_bytes, is_throttled } = plan;
    let mut world = World::new(seed, 40 + seed % 60);
    world.mute_one_in = if seed.is_multiple_of(3) { 50 } else { 0 };
    world.drop_one_in = if seed.is_multiple_of(7) { 100 } else { 0 };
    world.deny_one_in = if seed.is_multiple_of(2) { 10 } else { 0 };
    world.refuse_one_in = if seed.is_multiple_of(3) { 30 } else { 0 };
    world.twice_one_in = if seed.is_multiple_of(5) { 50 } else { 0 };
    world.damage_one_in = if seed.is_multiple_of(4) { 200 } else { 0 };
    world.trouble_one_in = [if is_troubled { 5 } else { 0 }, 30, 200][(seed / 2 % 3) as usize];
    if let Some(limit) = max_message_bytes {
        world.create_topic("max.message.bytes", limit.to_string());
    }
    if is_throttled {
        world.throttle();
    }
    let mut writer = world.client(Producer::<u32>::new(config));
    // Few bytes at a time: more responses in flight when a leader moves.
    let max_partition_bytes = if is_troubled { 200 } else { 2000 };
    let reader = ConsumerConfig { max_partition_bytes, ..consumer_config(false) };
    let mut reader = world.client(Consumer::<u32>::new(reader));
    let mut story = Story {
        log: BTreeMap::new(),
        outcomes: HashMap::new(),
        sent: 0,
        read_offsets: BTreeMap::new(),
        most_in_flight: 0,
        throttled: Duration::ZERO,
        struck: BTreeSet::new(),
    };
    let mut next_send = Time(0);
    // What has happened since it was looked at last happened then.
    let (mut left_alone, mut looked) = (BTreeMap::<i32, Quiet>::new(), Time(0));
    let settled = world.play(&mut writer, &mut reader, Duration::from_secs(600), |world, writer, _| {
        while story.sent < count && next_send <= world.now {
            let mut value = story.sent.to_be_bytes().to_vec();
            if let (Some(limit), true) = (max_message_bytes, story.sent % 37 == 5) {
                // Noise, which no codec makes small.
                value.extend(std::iter::repeat_with(|| world.random.below(256) as u8).take(limit));
            }
            let record = record(Some((story.sent % PARTITIONS as u32) as i32), &value);
            let topic = writer.role.topic("t").unwrap();
            writer.role.append(world.now, topic, &record, Some(story.sent)).unwrap();
            story.sent += 1;
            next_send = world.now + Duration::from_micros(world.random.below(3_000));
        }
        while let Some(event) = writer.role.poll_event() {
            for d in event.deliveries {
                let outcome = match &event.result {
                    Ok((base, _)) if *base < 0 => Outcome::Acknowledged(event.partition, -1),
                    Ok((base, _)) => Outcome::Acknowledged(event.partition, base + i64::from(d.index)),
                    Err(error) => Outcome::Failed(error.clone()),
                };
                let before = story.outcomes.insert(d.completion, outcome.clone());
                assert!(
                    before.is_none(),
                    "seed {seed}: record {} has two outcomes: {before:?}, {outcome:?}",
                    d.completion
                );
            }
        }
        let brokers = writer.role.metrics().brokers;
        let disconnected = std::mem::take(&mut writer.disconnected);
        for (node, b) in &brokers {
            story.most_in_flight = story.most_in_flight.max(b.in_flight);
            let quiet = left_alone.entry(*node).or_default();
            // The throttle time ends with the connection.
            let is_new = disconnected.contains(node);
            quiet.until = if is_new { Time(0) } else { quiet.until };
            assert!(looked >= quiet.until || b.requests == quiet.requests, "seed {seed}: {node} is not left alone");
            if b.throttled > quiet.throttled && !is_new {
                // Of two answers at once the longer one counts.
                let is_long = b.throttled - quiet.throttled >= LONG_THROTTLE;
                quiet.until = quiet.until.max(looked + if is_long { LONG_THROTTLE } else { SHORT_THROTTLE });
            }
            (quiet.throttled, quiet.requests) = (b.throttled, b.requests);
        }
        story.throttled = brokers.values().map(|b| b.throttled).sum();
        looked = world.now;
        story.sent == count && writer.role.outstanding() == 0
    });
    assert!(settled, "seed {seed}: {} records have no outcome", writer.role.outstanding());
    assert_eq!(story.outcomes.len(), story.sent as usize, "seed {seed}: records without an outcome");
    world.cut_one_in *= 2;
    (world.mute_one_in, world.drop_one_in) = (0, 0);
    if !is_troubled {
        world.end_trouble();
    }
    reader.role.subscribe(world.now, vec!["t".to_owned()]);
    let mut wanted: HashSet<u32> = story.acknowledged().map(|(record, ..)| record).collect();
    let mut quiet = None;
    world.play(&mut writer, &mut reader, Duration::from_secs(600), |world, _, reader| {
        while let Ok(slices) = reader.role.poll_records(world.now, 7, usize::MAX) {
            if slices.is_empty() {
                break;
            }
            for slice in slices {
                for record in &slice.records {
                    let value =
                        record.value(&slice.data).and_then(|v| v.first_chunk().copied()).map(u32::from_be_bytes);
                    let value = value.unwrap();
                    wanted.remove(&value);
                    story.log.entry(slice.partition).or_default().push(value);
                    story.read_offsets.entry(slice.partition).or_default().push(record.offset);
                }
            }
        }
        // A few seconds more than it takes to read the rest, to see whether something comes twice.
        if wanted.is_empty() && quiet.is_none() {
            world.end_trouble();
            quiet = Some(world.now);
        }
        quiet.is_some_and(|q| world.now > q + Duration::from_secs(3))
    });
    story.struck = world.struck.clone();
    story
}

#[test]
fn a_flush_covers_records_whose_topic_was_not_known_yet() {
    let mut world = World::new(1, 0);
    let mut writer = world.client(Producer::<u32>::new(producer_config(true, 1)));
    let mut reader = world.client(Consumer::<u32>::new(consumer_config(false)));
    let record = record(None, b"v");
    for ticket in 0..10 {
        let topic = writer.role.topic("t").unwrap();
        writer.role.append(world.now, topic, &record, Some(ticket)).unwrap();
    }
    let flush = writer.role.flush();
    let mut outcomes = 0;
    let flushed = world.play(&mut writer, &mut reader, Duration::from_secs(60), |_, writer, _| {
        outcomes += std::iter::from_fn(|| writer.role.poll_event()).map(|e| e.deliveries.len()).sum::<usize>();
        writer.role.is_flushed(flush)
    });
    assert!(flushed);
    assert_eq!(outcomes, 10);
}

#[test]
fn every_kind_of_fault_strikes() {
    let mut struck: BTreeSet<_> = (0..60).flat_map(|seed| tell(seed, true, 120).struck).collect();
    struck.extend((0..10).flat_map(tokens::tell));
    assert_eq!(struck, SimFault::ALL.into());
}

#[test]
fn with_idempotence_every_acknowledged_record_is_in_the_log_once_and_in_order() {
    for seed in seeds(SEEDS) {
        is_there_once_and_in_order(seed, &tell(seed, true, 120));
    }
}

#[test]
fn records_that_expire_or_are_too_large_have_one_outcome_and_are_in_the_log_once_at_most() {
    let (mut expired, mut too_large, mut acknowledged) = (0, 0, 0);
    for seed in seeds(SEEDS) {
        let config = ProducerConfig {
            delivery_timeout: Duration::from_secs(2 + seed % 3),
            request_timeout: Duration::from_secs(1),
            linger: Duration::from_millis(20 * (seed % 3)),
            ..producer_config(true, seed)
        };
        let story = tell_of(seed, Plan { max_message_bytes: Some(200), ..Plan::plain(config, 240) });
        for (partition, log) in &story.log {
            assert!(log.is_sorted_by(|a, b| a < b), "seed {seed}: partition {partition} holds {log:?}");
        }
        for (record, partition, offset) in story.acknowledged() {
            let at = story.log.get(&partition).and_then(|log| log.binary_search(&record).ok());
            let is_there = at.is_some_and(|at| offset < 0 || story.read_offsets[&partition][at] == offset);
            assert!(is_there, "seed {seed}: record {record} is not at {partition}@{offset}");
            acknowledged += 1;
        }
        expired += story.failures().filter(|e| e.kind() == ErrorKind::Timeout).count();
        too_large += story.failures().filter(|e| e.code() == Some(ErrorCode::MESSAGE_TOO_LARGE)).count();
    }
    // What the scenarios are about does happen in them.
    let played = seeds(SEEDS).count();
    let is_played = expired > played && too_large > played && acknowledged > 100 * played;
    assert!(played < 100 || is_played, "{expired} expired, {too_large} too large, {acknowledged} acknowledged");
}

#[test]
fn without_idempotence_every_acknowledged_record_is_in_the_log_at_least_once() {
    for seed in seeds(SEEDS) {
        let story = tell(seed, false, 60);
        for (record, partition, _) in story.acknowledged() {
            let log = story.log.get(&partition).map(Vec::as_slice).unwrap_or_default();
            assert!(log.contains(&record), "seed {seed}: record {record} is not in partition {partition}: {log:?}");
        }
    }
}

/// Checks the guarantees of idempotence, and that no record failed.
fn is_there_once_and_in_order(seed: u64, story: &Story) {
    let failure = story.failures().next().map(|error| format!("{error:?}"));
    assert_eq!(failure, None, "seed {seed}: nothing may fail within the delivery timeout");
    for (partition, log) in &story.log {
        assert!(log.is_sorted_by(|a, b| a < b), "seed {seed}: partition {partition} holds {log:?}");
    }
    let logged: usize = story.log.values().map(Vec::len).sum();
    assert_eq!(logged, story.sent as usize, "seed {seed}");
}

/// Runs a scenario for each seed in which many records arrive at once, so that the maximum of requests is in flight.
fn tell_with(seed: u64, idempotent: bool, max_in_flight: usize, is_throttled: bool) -> Story {
    let config = ProducerConfig { max_in_flight, batch_size: 130, ..producer_config(idempotent, seed) };
    let story = tell_of(seed, Plan { is_throttled, ..Plan::plain(config, 120) });
    let most = story.most_in_flight;
    assert!(most <= max_in_flight as u64, "seed {seed}: {most} requests were in flight, not {max_in_flight} at most");
    story
}

#[test]
fn with_any_number_of_requests_in_flight_idempotence_keeps_records_once_and_in_order() {
    for max_in_flight in [1, 2] {
        let mut reached = 0;
        for seed in seeds(SEEDS) {
            let story = tell_with(seed, true, max_in_flight, false);
            is_there_once_and_in_order(seed, &story);
            reached = reached.max(story.most_in_flight);
        }
        assert_eq!(reached, max_in_flight as u64, "so many requests were never in flight");
    }
}

#[test]
fn without_idempotence_more_than_five_requests_may_be_in_flight_and_nothing_acknowledged_is_lost() {
    let mut reached = 0;
    for seed in seeds(SEEDS) {
        let story = tell_with(seed, false, 20, false);
        for (record, partition, _) in story.acknowledged() {
            let log = story.log.get(&partition).map(Vec::as_slice).unwrap_or_default();
            assert!(log.contains(&record), "seed {seed}: record {record} is not in partition {partition}: {log:?}");
        }
        reached = reached.max(story.most_in_flight);
    }
    let played = seeds(SEEDS).count();
    assert!(played < 100 || reached > 5, "no more than {reached} requests were ever in flight");
}

#[test]
fn one_request_at_a_time_keeps_the_order_without_idempotence() {
    for seed in seeds(SEEDS) {
        let story = tell_with(seed, false, 1, false);
        for (partition, log) in &story.log {
            // A batch whose answer was lost comes again as a whole, with nothing before it that came later.
            let mut seen = HashSet::new();
            let first: Vec<u32> = log.iter().copied().filter(|record| seen.insert(*record)).collect();
            assert!(first.is_sorted(), "seed {seed}: partition {partition} holds {log:?}");
        }
    }
}

#[test]
fn brokers_that_ask_for_it_are_left_alone_and_get_everything_once_and_in_order() {
    let mut throttled = 0;
    for seed in seeds(SEEDS) {
        let story = tell_with(seed, true, 1 + seed as usize % 5, true);
        is_there_once_and_in_order(seed, &story);
        throttled += u32::from(story.throttled > Duration::from_millis(600));
    }
    let played = seeds(SEEDS).count();
    assert!(played < 100 || throttled as usize > played / 4, "throttled for long in {throttled} of {played}");
}

#[test]
fn an_acknowledged_offset_is_where_the_record_lies_and_readers_skip_nothing() {
    for seed in seeds(SEEDS) {
        let story = tell(seed, true, 60);
        for (partition, offsets) in &story.read_offsets {
            let expected: Vec<i64> = (0..offsets.len() as i64).collect();
            assert_eq!(*offsets, expected, "seed {seed}: partition {partition}");
        }
        for (record, partition, offset) in story.acknowledged() {
            if offset >= 0 {
                assert_eq!(story.log[&partition][offset as usize], record, "seed {seed}");
            }
        }
    }
}

#[test]
fn readers_skip_and_repeat_nothing_while_leaders_move() {
    for seed in seeds(200) {
        let plan = Plan::plain(producer_config(true, seed), 240);
        let story = tell_of(seed, Plan { is_troubled: true, ..plan });
        let read: usize = story.read_offsets.values().map(Vec::len).sum();
        assert_eq!(read, story.sent as usize, "seed {seed}");
        for (partition, offsets) in &story.read_offsets {
            let expected: Vec<i64> = (0..offsets.len() as i64).collect();
            assert_eq!(*offsets, expected, "seed {seed}: partition {partition}");
        }
    }
}

#[test]
fn a_call_with_many_records_pauses_until_the_network_took_some_of_them() {
    let mut world = World::new(1, 0);
    let config = ProducerConfig { batch_size: 1 << 20, buffer_memory: 64 << 20, ..producer_config(true, 1) };
    let mut writer = world.client(Producer::<u32>::new(ProducerConfig { max_request_size: 4 << 20, ..config }));
    let mut reader = world.client(Consumer::<u32>::new(consumer_config(false)));
    let value = vec![7; 100_000];
    let (mut sent, mut pauses, mut most) = (0, 0, 0);
    let done = world.play(&mut writer, &mut reader, Duration::from_secs(60), |world, writer, _| {
        while sent < 400 && !writer.role.is_paused() {
            let record = record(None, &value);
            let topic = writer.role.topic("t").unwrap();
            writer.role.append(world.now, topic, &record, None).unwrap();
            sent += 1;
            pauses += u32::from(writer.role.is_ahead());
            most = most.max(writer.role.metrics().buffered_bytes);
        }
        while writer.role.poll_event().is_some() {}
        sent == 400 && writer.role.outstanding() == 0
    });
    assert!(done && pauses > 1, "{sent} sent, {pauses} pauses");
    assert!((16 << 20..17 << 20).contains(&most), "{most} bytes waited");
}
