//! Tests transactions: producer IDs and epochs, fencing, markers, reads with `read_committed`, and offsets. The
//! assertions match the replies of Apache Kafka 4.4.

use super::{START_MS, World, batch, fetch_request, produce_request, record, values};
use klamm::api::*;
use klamm::broker::Options;
use klamm::record::{Control, Producer, batches};
use std::time::Duration;

const NONE: i16 = 0;
const INVALID_REQUEST: i16 = 42;
const OUT_OF_ORDER: i16 = 45;
const INVALID_EPOCH: i16 = 47;
const INVALID_STATE: i16 = 48;
const INVALID_MAPPING: i16 = 49;
const INVALID_TIMEOUT: i16 = 50;
const CONCURRENT: i16 = 51;
const UNSTABLE: i16 = 88;
const FENCED: i16 = 90;
const ABORTABLE: i16 = 120;

/// Protocol v1 and v2: the newest version of Produce, EndTxn and TxnOffsetCommit of each.
const V1: (i16, i16, i16) = (10, 4, 3);
const V2: (i16, i16, i16) = (12, 5, 5);

impl World {
    fn init_as(&mut self, version: i16, id: Option<&str>, claims: (i64, i16), timeout_ms: i32) -> (i16, i64, i16) {
        let request = init_producer_id::Request {
            transactional_id: id.map(str::to_owned),
            transaction_timeout_ms: timeout_ms,
            producer_id: claims.0,
            producer_epoch: claims.1,
            ..Default::default()
        };
        let answer = self.call(1, version, &request);
        (answer.error_code.0, answer.producer_id, answer.producer_epoch)
    }

    fn init(&mut self, id: &str) -> (i16, i64, i16) {
        self.init_as(5, Some(id), (-1, -1), 60_000)
    }

    fn add(&mut self, version: i16, id: &str, producer: (i64, i16), topic: &str, partitions: &[i32]) -> Vec<i16> {
        let topic = add_partitions_to_txn::Topic { name: topic.to_owned(), partitions: partitions.to_vec() };
        let request = add_partitions_to_txn::Request {
            v3_and_below_transactional_id: id.to_owned(),
            v3_and_below_producer_id: producer.0,
            v3_and_below_producer_epoch: producer.1,
            v3_and_below_topics: vec![topic],
            ..Default::default()
        };
        let topics = self.call(1, version, &request).results_by_topic_v3_and_below;
        topics.into_iter().flat_map(|t| t.results_by_partition).map(|p| p.partition_error_code.0).collect()
    }

    fn end(&mut self, version: i16, id: &str, producer: (i64, i16), committed: bool) -> (i16, i64, i16) {
        let transactional_id = id.to_owned();
        let request =
            end_txn::Request { transactional_id, producer_id: producer.0, producer_epoch: producer.1, committed };
        let answer = self.call(1, version, &request);
        (answer.error_code.0, answer.producer_id, answer.producer_epoch)
    }

    fn write(&mut self, version: i16, id: &str, producer: (i64, i16), sequence: i32, value: &str) -> (i16, i64) {
        let producer = Producer { id: producer.0, epoch: producer.1, base_sequence: sequence, transactional: true };
        let request = produce::Request {
            transactional_id: Some(id.to_owned()),
            ..produce_request("t", batch(&[value], producer))
        };
        let answer = self.call(1, version, &request).responses.remove(0).partition_responses.remove(0);
        (answer.error_code.0, answer.base_offset)
    }

    fn write_plain(&mut self, value: &str) {
        assert_eq!(self.produce(batch(&[value], Producer::NONE)).error_code, ErrorCode::NONE);
    }

    fn fetch_committed(&mut self, offset: i64) -> fetch::PartitionResponse {
        self.fetch(&fetch::Request { isolation_level: 1, max_wait_ms: 0, ..fetch_request(offset) })
    }

    fn list(&mut self, timestamp: i64, isolation_level: i8) -> i64 {
        let partition = list_offsets::Partition { timestamp, ..Default::default() };
        let topic = list_offsets::Topic { name: "t".to_owned(), partitions: vec![partition] };
        let request = list_offsets::Request { isolation_level, topics: vec![topic], ..Default::default() };
        self.call(1, 7, &request).topics.remove(0).partitions.remove(0).offset
    }

    fn state(&mut self, id: &str) -> describe_transactions::TransactionState {
        let request = describe_transactions::Request { transactional_ids: vec![id.to_owned()] };
        self.call(1, 0, &request).transaction_states.remove(0)
    }

    fn known(&mut self) -> Vec<(i64, i32, i32, i64)> {
        let topic = describe_producers::Topic { name: "t".to_owned(), partition_indexes: vec![0] };
        let answer = self.call(1, 0, &describe_producers::Request { topics: vec![topic] });
        let producers = answer.topics[0].partitions[0].active_producers.iter();
        producers.map(|p| (p.producer_id, p.producer_epoch, p.last_sequence, p.current_txn_start_offset)).collect()
    }

    fn commit_offset(&mut self, version: i16, id: &str, producer: (i64, i16), offset: i64, generation: i32) -> i16 {
        let partition = txn_offset_commit::Partition { committed_offset: offset, ..Default::default() };
        let topic =
            txn_offset_commit::Topic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() };
        let request = txn_offset_commit::Request {
            transactional_id: id.to_owned(),
            group_id: "g".to_owned(),
            producer_id: producer.0,
            producer_epoch: producer.1,
            generation_id_or_member_epoch: generation,
            topics: vec![topic],
            ..Default::default()
        };
        self.call(1, version, &request).topics[0].partitions[0].error_code.0
    }

    fn committed_offset(&mut self, require_stable: bool) -> (i16, i64) {
        let topic = offset_fetch::GroupTopic { name: "t".to_owned(), partition_indexes: vec![0], ..Default::default() };
        let group = offset_fetch::Group { group_id: "g".to_owned(), topics: Some(vec![topic]), ..Default::default() };
        let request = offset_fetch::Request { groups: vec![group], require_stable, ..Default::default() };
        let mut group = self.call(1, 9, &request).groups.remove(0);
        let found = group.topics.remove(0).partitions.remove(0);
        (found.error_code.0, found.committed_offset)
    }
}

/// Returns every record with its control type; `None` for a record of an application.
fn marks(answer: &fetch::PartitionResponse) -> Vec<(i64, i16, Option<(bool, i32)>)> {
    let mut out = Vec::new();
    for batch in batches(answer.records.clone().unwrap()) {
        let batch = batch.unwrap();
        batch.check_crc().unwrap();
        assert!(!batch.header.is_control() || batch.header.is_transactional() && batch.header.base_sequence == -1);
        let mut records = batch.records(1 << 20).unwrap();
        while let Some(view) = records.next_view() {
            let view = view.unwrap();
            let control = batch.header.is_control().then(|| Control::parse(view.key(), view.value()).unwrap());
            let mark = control.map(|c| (c == Control::end_of_transaction(true, 0), c.coordinator_epoch.unwrap()));
            out.push((view.offset(), batch.header.producer_epoch, mark));
        }
    }
    out
}

#[test]
fn an_idempotent_producer_always_gets_a_new_id() {
    let mut world = World::new(Options::default());
    let (_, first, epoch) = world.init_as(0, None, (-1, -1), 0);
    assert_eq!(epoch, 0);
    assert_eq!(world.init_as(4, None, (first, 3), 0), (NONE, first + 1, 0));
    assert_eq!(world.init_as(4, None, (first, -1), 0), (INVALID_REQUEST, -1, -1));
}

#[test]
fn a_transactional_id_raises_its_epoch_and_fences_the_old_producer() {
    let mut world = World::new(Options::default());
    let (code, id, epoch) = world.init_as(4, Some("x"), (7, 7), 1000);
    assert_eq!((code, epoch), (NONE, 0), "an unknown producer may claim any ID and epoch");
    assert_eq!(world.init("x"), (NONE, id, 1));
    assert_eq!(world.init_as(4, Some("x"), (id, 1), 1000), (NONE, id, 2));
    assert_eq!(world.init_as(4, Some("x"), (id, 1), 1000), (NONE, id, 2), "a retry");
    assert_eq!(world.init_as(4, Some("x"), (id, 0), 1000).0, FENCED);
    assert_eq!(world.init_as(3, Some("x"), (id, 0), 1000).0, INVALID_EPOCH);
    assert_eq!(world.init_as(4, Some("x"), (id + 9, 2), 1000).0, FENCED);
    assert_eq!(world.init_as(4, Some("x"), (id, 9), 1000).0, FENCED);
    for (transactional_id, timeout_ms, code) in
        [("", 1000, INVALID_REQUEST), ("x", 900_001, INVALID_TIMEOUT), ("x", 0, INVALID_TIMEOUT)]
    {
        assert_eq!(world.init_as(4, Some(transactional_id), (-1, -1), timeout_ms), (code, -1, -1));
    }
}

#[test]
fn an_exhausted_epoch_returns_a_new_producer_id() {
    let mut world = World::with_topic();
    let (_, id, mut epoch) = world.init("x");
    while epoch < i16::MAX - 1 {
        epoch = world.end(5, "x", (id, epoch), false).2;
    }
    assert_eq!(world.write(12, "x", (id, epoch), 0, "a").0, NONE);
    let (code, next, first) = world.end(5, "x", (id, epoch), true);
    assert!(code == NONE && next != id && first == 0);
    assert_eq!(world.end(5, "x", (id, epoch), true), (NONE, next, 0), "a retry");
    assert_eq!(world.init_as(5, Some("x"), (id, epoch), 1000), (NONE, next, 0), "a retry after the answer was lost");
    assert_eq!(world.known(), [(id, i32::from(i16::MAX), -1, -1)]);
    assert_eq!(world.write(12, "x", (next, 0), 0, "b").0, NONE);
}

#[test]
fn protocol_v1_refuses_a_partition_that_was_not_added() {
    let mut world = World::with_topic();
    let (_, id, epoch) = world.init("x");
    let me = (id, epoch);
    assert_eq!(world.write(3, "x", me, 0, "a").0, INVALID_STATE);
    assert_eq!(world.write(10, "x", me, 0, "a").0, INVALID_STATE);
    assert_eq!(world.write(11, "x", me, 0, "a").0, ABORTABLE);
    assert_eq!(world.write(11, "other", me, 0, "a").0, INVALID_MAPPING);
    assert_eq!(world.write(11, "x", (id + 1, 0), 0, "a").0, INVALID_MAPPING);
    assert_eq!(world.write(11, "x", (id, 5), 0, "a").0, INVALID_EPOCH);
    assert_eq!(world.add(3, "x", (id, 5), "t", &[0]), [FENCED]);
    assert_eq!(world.add(1, "x", (id, 5), "t", &[0]), [INVALID_EPOCH]);
    assert_eq!(world.add(3, "x", (id + 1, 0), "t", &[0]), [INVALID_MAPPING]);
    assert_eq!(world.add(3, "", me, "t", &[0]), [INVALID_REQUEST]);
    assert_eq!(world.add(3, "x", me, "t", &[0, 7]), [55, 3]);
    assert_eq!(world.state("x").transaction_state, "Empty");
    assert_eq!(world.add(3, "x", me, "t", &[0]), [NONE]);
    assert_eq!(world.write(3, "x", me, 0, "a"), (NONE, 0));
    assert_eq!(world.write(3, "x", me, 0, "a"), (NONE, 0), "a retry");
    let plain = Producer { id, epoch, base_sequence: 1, transactional: false };
    assert_eq!(world.produce(batch(&["b"], plain)).error_code.0, INVALID_STATE);
}

#[test]
fn read_committed_waits_for_the_end_and_skips_aborted_records() {
    for (produce, end, _) in [V1, V2] {
        let mut world = World::with_topic();
        let (_, id, mut epoch) = world.init("x");
        let mut transaction = |world: &mut World, value: &str, committed: Option<bool>| {
            assert_eq!(world.add(3, "x", (id, epoch), "t", &[0]), [NONE]);
            let sequence = world.known().first().map_or(0, |(_, _, last, _)| last + 1);
            assert_eq!(world.write(produce, "x", (id, epoch), sequence, value).0, NONE);
            if let Some(committed) = committed {
                let (code, _, next) = world.end(end, "x", (id, epoch), committed);
                assert_eq!(code, NONE);
                epoch = if end >= 5 { next } else { epoch };
            }
        };
        transaction(&mut world, "kept", Some(true));
        world.write_plain("plain");
        transaction(&mut world, "dropped", Some(false));
        transaction(&mut world, "open", None);
        world.write_plain("behind");

        let committed = world.fetch_committed(0);
        assert_eq!((committed.high_watermark, committed.last_stable_offset), (7, 5));
        let raised = i16::from(end >= 5);
        let expected = [
            (0, 0, None),
            (1, raised, Some((true, 0))),
            (2, -1, None),
            (3, raised, None),
            (4, 2 * raised, Some((false, 0))),
        ];
        assert_eq!(marks(&committed), expected);
        let aborted = |answer: fetch::PartitionResponse| -> Vec<_> {
            answer.aborted_transactions.unwrap().into_iter().map(|a| (a.producer_id, a.first_offset)).collect()
        };
        assert_eq!(aborted(committed), [(id, 3)]);
        assert_eq!(aborted(world.fetch_committed(4)), [(id, 3)], "from the marker on it still has to be known");
        assert_eq!(aborted(world.fetch_committed(5)), []);
        assert!(world.fetch_committed(6).records.unwrap().is_empty(), "beyond the last stable offset");
        assert_eq!(world.fetch(&fetch_request(0)).aborted_transactions, None);
        assert_eq!(marks(&world.fetch(&fetch_request(5))).len(), 2);
        assert_eq!((world.list(-1, 0), world.list(-1, 1)), (7, 5));
        assert_eq!((world.list(START_MS, 1), world.list(-3, 0), world.list(-2, 1)), (0, 0, 0));

        // A waiting fetch is answered when the transaction ends.
        world.send(1, 12, 1, &fetch::Request { isolation_level: 1, max_wait_ms: 9000, ..fetch_request(5) });
        assert!(world.receive::<fetch::Request>(1, 12).is_none());
        world.cluster.connect(1, klamm::broker::Connection(2));
        let request = end_txn::Request {
            transactional_id: "x".to_owned(),
            producer_id: id,
            producer_epoch: epoch,
            committed: true,
        };
        world.send(2, end, 2, &request);
        let klamm::broker::Output::Reply { connection, .. } = world.cluster.poll_send().unwrap() else { panic!() };
        assert_eq!(connection, klamm::broker::Connection(2));
        let (_, mut answer) = world.receive::<fetch::Request>(1, 12).unwrap();
        let answer = answer.responses.remove(0).partitions.remove(0);
        assert_eq!((answer.last_stable_offset, marks(&answer).len()), (8, 3));
        assert_eq!(values(&answer.records)[..2], [record(5, "open"), record(6, "behind")]);
    }
}

#[test]
fn the_last_stable_offset_is_the_start_of_the_first_open_transaction() {
    let mut world = World::with_topic();
    let (_, one, _) = world.init("one");
    let (_, two, _) = world.init("two");
    world.write(12, "one", (one, 0), 0, "a");
    world.write(12, "two", (two, 0), 0, "b");
    assert_eq!(world.known(), [(one, 0, 0, 0), (two, 0, 0, 1)]);
    world.end(5, "two", (two, 0), false);
    assert_eq!(world.fetch_committed(0).last_stable_offset, 0);
    world.end(5, "one", (one, 0), true);
    let answer = world.fetch_committed(0);
    assert_eq!(answer.last_stable_offset, 4);
    assert_eq!(answer.aborted_transactions.unwrap().len(), 1);
}

#[test]
fn protocol_v2_adds_partitions_by_itself_and_raises_the_epoch_at_every_end() {
    let mut world = World::with_topic();
    let (_, id, _) = world.init("x");
    assert_eq!(world.end(5, "x", (id, 0), true), (INVALID_STATE, -1, -1));
    assert_eq!(world.end(5, "x", (id, 0), false), (NONE, id, 1), "nothing can be aborted");
    assert_eq!(world.end(5, "x", (id, 0), false), (NONE, id, 1), "a retry");
    assert_eq!(world.end(5, "x", (id, 0), true).0, INVALID_STATE);
    assert_eq!(world.write(12, "x", (id, 1), 3, "a").0, OUT_OF_ORDER, "the first batch has sequence 0");
    assert_eq!(world.write(12, "x", (id, 1), 0, "a"), (NONE, 0));
    let state = world.state("x");
    assert_eq!((state.transaction_state.as_str(), &state.topics[0].partitions[..]), ("Ongoing", &[0][..]));
    assert_eq!((state.transaction_start_time_ms, state.transaction_timeout_ms), (START_MS, 60_000));
    assert_eq!(world.end(5, "x", (id, 1), true), (NONE, id, 2));
    assert_eq!(world.end(5, "x", (id, 1), true), (NONE, id, 2), "a retry");
    assert_eq!(world.end(5, "x", (id, 1), false).0, INVALID_STATE);
    assert_eq!(world.known(), [(id, 2, -1, -1)]);
    assert_eq!(world.write(12, "x", (id, 1), 1, "late").0, INVALID_EPOCH);
    assert_eq!(world.write(12, "x", (id, 2), 5, "a").0, OUT_OF_ORDER);
    assert_eq!(world.write(12, "x", (id, 2), 0, "a").0, NONE);
    assert_eq!(world.end(3, "x", (id, 2), true).0, NONE);
    assert_eq!(world.state("x").producer_epoch, 2, "an older EndTxn keeps the epoch");
}

#[test]
fn protocol_v1_ends_what_was_started_and_says_so_again() {
    let mut world = World::with_topic();
    let (_, id, _) = world.init("x");
    let me = (id, 0);
    for (producer, version, code) in
        [(me, 3, INVALID_STATE), ((id, 9), 3, FENCED), ((id, 9), 1, INVALID_EPOCH), ((id + 1, 0), 3, INVALID_MAPPING)]
    {
        assert_eq!(world.end(version, "x", producer, false).0, code);
    }
    assert_eq!(world.end(3, "unknown", me, false).0, INVALID_MAPPING);
    assert_eq!(world.end(3, "", me, false).0, INVALID_REQUEST);
    world.add(3, "x", me, "t", &[0]);
    assert_eq!(world.end(3, "x", me, true).0, NONE);
    assert_eq!(world.end(3, "x", me, true).0, NONE);
    assert_eq!(world.end(3, "x", me, false).0, INVALID_STATE);
}

#[test]
fn a_new_producer_aborts_the_open_transaction_of_the_old_one() {
    let mut world = World::with_topic();
    let (_, id, _) = world.init("x");
    world.write(12, "x", (id, 0), 0, "a");
    assert_eq!(world.init("x").0, CONCURRENT);
    let state = world.state("x");
    assert_eq!((state.transaction_state.as_str(), state.producer_epoch), ("CompleteAbort", 1));
    assert_eq!(world.init("x"), (NONE, id, 2));
    assert_eq!(world.fetch_committed(0).aborted_transactions.unwrap().len(), 1);
    assert_eq!(world.write(12, "x", (id, 0), 1, "zombie").0, INVALID_EPOCH);
    assert_eq!(world.end(5, "x", (id, 0), true).0, FENCED);
}

#[test]
fn a_transaction_that_times_out_is_aborted() {
    let mut world = World::with_topic();
    let (_, id, _) = world.init_as(5, Some("x"), (-1, -1), 1000);
    world.write(12, "x", (id, 0), 0, "a");
    assert_eq!(world.cluster.next_timeout(), Some(Duration::from_secs(1)));
    world.advance(Duration::from_millis(999));
    assert_eq!(world.state("x").transaction_state, "Ongoing");
    world.advance(Duration::from_millis(1));
    assert_eq!((world.state("x").transaction_state.as_str(), world.cluster.next_timeout()), ("CompleteAbort", None));
    assert_eq!(world.fetch_committed(0).last_stable_offset, 2);
    assert_eq!(world.write(12, "x", (id, 0), 1, "b").0, INVALID_EPOCH);
    assert_eq!(world.add(3, "x", (id, 0), "t", &[0]), [FENCED]);
    assert_eq!(world.end(5, "x", (id, 0), true).0, INVALID_STATE);
    assert_eq!(world.end(5, "x", (id, 0), false), (NONE, id, 1));
    assert_eq!(world.init_as(5, Some("x"), (id, 0), 1000), (NONE, id, 1));
}

#[test]
fn offsets_count_when_their_transaction_is_committed() {
    for (_, end, commit) in [V1, V2] {
        let mut world = World::with_topic();
        let (_, id, epoch) = world.init("x");
        if commit < 5 {
            assert_eq!(world.commit_offset(3, "x", (id, epoch), 5, -1), INVALID_STATE);
            assert_eq!(world.commit_offset(4, "x", (id, epoch), 5, -1), ABORTABLE);
            let request = add_offsets_to_txn::Request {
                transactional_id: "x".to_owned(),
                producer_id: id,
                producer_epoch: epoch,
                group_id: "g".to_owned(),
            };
            assert_eq!(world.call(1, 3, &request).error_code, ErrorCode::NONE);
            let fenced = add_offsets_to_txn::Request { producer_epoch: 9, ..request };
            assert_eq!(world.call(1, 3, &fenced).error_code.0, FENCED);
            assert_eq!(world.call(1, 1, &fenced).error_code.0, INVALID_EPOCH);
        }
        assert_eq!(world.commit_offset(commit, "x", (id, epoch), 5, -1), NONE);
        assert_eq!(world.commit_offset(commit, "x", (id, epoch), 6, 2), 25, "the group has no members");
        assert_eq!(world.commit_offset(commit, "x", (id, epoch + 1), 6, -1), INVALID_EPOCH);
        assert_eq!(world.state("x").topics[0].topic, "__consumer_offsets");
        assert_eq!(world.committed_offset(true), (UNSTABLE, -1));
        assert_eq!(world.committed_offset(false), (NONE, -1));
        let (code, _, next) = world.end(end, "x", (id, epoch), true);
        assert_eq!(code, NONE);
        assert_eq!(world.committed_offset(true), (NONE, 5));

        // An aborted offset changes nothing, nor does one that was sent before a later commit.
        let mut me = (id, if end >= 5 { next } else { epoch });
        for committed in [false, true] {
            me.1 = world.init_as(5, Some("x"), me, 1000).2;
            assert_eq!(world.commit_offset(5, "x", me, 9, -1), NONE);
            if committed {
                let partition = offset_commit::Partition { committed_offset: 7, ..Default::default() };
                let topic =
                    offset_commit::Topic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() };
                let request =
                    offset_commit::Request { group_id: "g".to_owned(), topics: vec![topic], ..Default::default() };
                assert_eq!(world.call(1, 8, &request).topics[0].partitions[0].error_code, ErrorCode::NONE);
            }
            assert_eq!(world.end(4, "x", me, committed).0, NONE);
            assert_eq!(world.committed_offset(true), (NONE, if committed { 7 } else { 5 }));
        }
    }
}

#[test]
fn transactions_are_listed_by_state_producer_age_and_pattern() {
    let mut world = World::with_topic();
    let (_, id, _) = world.init("ab");
    world.init("c");
    world.write(12, "ab", (id, 0), 0, "a");
    world.advance(Duration::from_secs(5));
    let mut list = |change: &dyn Fn(&mut list_transactions::Request)| -> Vec<String> {
        let mut request = list_transactions::Request::default();
        change(&mut request);
        let answer = world.call(1, 2, &request);
        answer
            .unknown_state_filters
            .into_iter()
            .chain(answer.transaction_states.into_iter().map(|t| t.transactional_id))
            .collect()
    };
    assert_eq!(list(&|_| ()), ["ab", "c"]);
    assert_eq!(list(&|r| r.state_filters = vec!["Ongoing".to_owned(), "Odd".to_owned()]), ["Odd", "ab"]);
    assert_eq!(list(&|r| r.producer_id_filters = vec![id]), ["ab"]);
    assert_eq!(list(&|r| r.duration_filter = 5000), ["c"], "what never started counts as old, as in Kafka");
    assert_eq!(list(&|r| r.transactional_id_pattern = Some("a.*".to_owned())), ["ab"]);
    assert_eq!(world.state("none").error_code, ErrorCode::TRANSACTIONAL_ID_NOT_FOUND);
    assert_eq!(world.state("").error_code, ErrorCode::INVALID_REQUEST);
}

#[test]
fn brokers_can_verify_that_a_partition_is_in_a_transaction() {
    let mut world = World::with_topic();
    let (_, id, _) = world.init("x");
    let mut ask = |version, verify_only| {
        let topic = add_partitions_to_txn::Topic { name: "t".to_owned(), partitions: vec![0] };
        let transaction = add_partitions_to_txn::Transaction {
            transactional_id: "x".to_owned(),
            producer_id: id,
            producer_epoch: 0,
            verify_only,
            topics: vec![topic],
        };
        let request = add_partitions_to_txn::Request { transactions: vec![transaction], ..Default::default() };
        let answer = world.call(1, version, &request);
        answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code.0
    };
    assert_eq!((ask(5, true), ask(4, true)), (ABORTABLE, INVALID_STATE));
    assert_eq!((ask(5, false), ask(4, true)), (NONE, NONE));
}

#[test]
fn only_the_coordinator_answers() {
    let mut world = World::new(Options { nodes: 3, ..Options::default() });
    world.create("t", 1, &[]);
    let request = find_coordinator::Request {
        coordinator_keys: vec!["x".to_owned()],
        key_type: find_coordinator::TRANSACTION,
        ..Default::default()
    };
    let here = world.call(1, 4, &request).coordinators[0].node_id as u64;
    let there = here % 3 + 1;
    let ask = |world: &mut World, client| {
        let request = init_producer_id::Request {
            transactional_id: Some("x".to_owned()),
            transaction_timeout_ms: 1000,
            ..Default::default()
        };
        let init = world.call(client, 4, &request).error_code;
        let request = end_txn::Request { transactional_id: "x".to_owned(), ..Default::default() };
        let end = world.call(client, 4, &request).error_code;
        let request = describe_transactions::Request { transactional_ids: vec!["x".to_owned()] };
        let found = world.call(client, 0, &list_transactions::Request::default()).transaction_states.len();
        (init, end, world.call(client, 0, &request).transaction_states[0].error_code, found)
    };
    let wrong = ErrorCode::NOT_COORDINATOR;
    assert_eq!(ask(&mut world, here), (ErrorCode::NONE, ErrorCode::INVALID_PRODUCER_ID_MAPPING, ErrorCode::NONE, 1));
    assert_eq!(ask(&mut world, there), (wrong, wrong, wrong, 0));
}
