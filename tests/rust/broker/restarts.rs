//! Tests restarts: what a cluster restores from its journal after its process was killed.

use super::{START_MS, World, batch, fetch_request, produce_request, record, values};
use bytes::Bytes;
use klamm::api::*;
use klamm::broker::{Cluster, Connection, Node, Options};
use klamm::record::Producer;
use std::time::Duration;

const START: Duration = Duration::ZERO;

/// A cluster with its journal in memory.
struct Kept {
    world: World,
    journal: Vec<u8>,
}

impl Kept {
    fn new() -> Self {
        let mut kept = Self { world: World::new(Options::default()), journal: Vec::new() };
        assert_eq!(kept.world.cluster.restore(START, Bytes::new()).unwrap(), 0);
        kept
    }

    fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let answer = self.world.call(1, version, request);
        self.journal.extend(self.world.cluster.take_journal().unwrap_or_default());
        answer
    }

    fn create(&mut self, name: &str, configs: &[(&str, &str)]) {
        self.world.create(name, 1, configs);
        self.journal.extend(self.world.cluster.take_journal().unwrap());
    }

    fn produce(&mut self, records: Bytes) -> produce::PartitionResponse {
        let request = produce::Request { transactional_id: Some("x".to_owned()), ..produce_request("t", records) };
        self.call(12, &request).responses.remove(0).partition_responses.remove(0)
    }

    /// Restarts with the first bytes of the journal. Returns the new cluster and how many bytes it read.
    fn restarted(&self, bytes: usize) -> (World, usize) {
        let node = Node { id: 1, host: "localhost".to_owned(), port: 9001 };
        let mut cluster = Cluster::new(&Options::default(), vec![node], START_MS + 1000, 2);
        let taken = cluster.restore(START, Bytes::copy_from_slice(&self.journal[..bytes])).unwrap();
        cluster.connect(1, Connection(1));
        (World { cluster, now: START }, taken)
    }

    fn again(&self) -> World {
        let (world, taken) = self.restarted(self.journal.len());
        assert_eq!(taken, self.journal.len());
        world
    }
}

fn idempotent(base_sequence: i32) -> Producer {
    Producer { id: 9, epoch: 0, base_sequence, transactional: false }
}

fn commit(offset: i64) -> offset_commit::Request {
    let partition = offset_commit::Partition {
        committed_offset: offset,
        committed_metadata: Some("m".to_owned()),
        ..Default::default()
    };
    let topic = offset_commit::Topic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() };
    offset_commit::Request {
        group_id: "g".to_owned(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    }
}

fn committed(world: &mut World) -> (i64, Option<String>) {
    let topic = offset_fetch::Topic { name: "t".to_owned(), partition_indexes: vec![0] };
    let request = offset_fetch::Request { group_id: "g".to_owned(), topics: Some(vec![topic]), ..Default::default() };
    let found = world.call(1, 7, &request).topics.remove(0).partitions.remove(0);
    (found.committed_offset, found.metadata)
}

fn now(offset: i64) -> fetch::Request {
    fetch::Request { max_wait_ms: 0, ..fetch_request(offset) }
}

#[test]
fn acknowledged_changes_survive_a_restart() {
    let mut kept = Kept::new();
    kept.create("t", &[("retention.ms", "-1")]);
    kept.create("gone", &[]);
    kept.produce(batch(&["a", "b"], idempotent(0)));
    kept.produce(batch(&["c"], idempotent(2)));
    kept.call(8, &commit(1));
    kept.call(8, &commit(2));
    kept.call(5, &delete_topics::Request { topic_names: vec!["gone".to_owned()], ..Default::default() });
    let fresh =
        init_producer_id::Request { transactional_id: None, producer_id: -1, producer_epoch: -1, ..Default::default() };
    let ids = kept.call(4, &fresh);
    assert_eq!(ids.error_code, ErrorCode::NONE);

    let mut world = kept.again();
    let answer = world.fetch(&now(0));
    assert_eq!(values(&answer.records), [record(0, "a"), record(1, "b"), record(2, "c")]);
    assert_eq!(committed(&mut world), (2, Some("m".to_owned())));
    let topics = world.call(1, 12, &metadata::Request { topics: None, ..Default::default() }).topics;
    assert_eq!(topics.iter().map(|t| t.name.as_deref().unwrap()).collect::<Vec<_>>(), ["t"]);
    let groups = world.call(1, 4, &list_groups::Request::default()).groups;
    assert_eq!((groups.len(), groups[0].group_state.as_str()), (1, "Empty"));
    // The producer is known, and no ID is assigned twice.
    assert_eq!(world.produce(batch(&["c"], idempotent(2))).base_offset, 2);
    assert_eq!(world.produce(batch(&["d"], idempotent(3))).base_offset, 3);
    assert!(world.call(1, 4, &fresh).producer_id > ids.producer_id);
    // Each leader starts a new epoch.
    assert_eq!(topics[0].partitions[0].leader_epoch, 1);
}

#[test]
fn an_incomplete_frame_is_dropped() {
    let mut kept = Kept::new();
    kept.create("t", &[]);
    let mut ends = vec![kept.journal.len()];
    for n in 0..3 {
        assert_eq!(kept.produce(batch(&[&n.to_string()], idempotent(n))).error_code, ErrorCode::NONE);
        ends.push(kept.journal.len());
    }
    for bytes in ends[0]..=kept.journal.len() {
        let (mut world, taken) = kept.restarted(bytes);
        let whole = ends.iter().rposition(|end| *end <= bytes).unwrap();
        assert_eq!(taken, ends[whole]);
        assert_eq!(world.fetch(&now(0)).high_watermark, whole as i64);
    }
    for at in 0..kept.journal.len() {
        let mut damaged = Kept { world: World::new(Options::default()), journal: kept.journal.clone() };
        damaged.journal[at] ^= 1;
        assert!(damaged.restarted(damaged.journal.len()).1 < kept.journal.len());
    }
}

#[test]
fn an_open_transaction_continues_or_times_out_after_a_restart() {
    let mut kept = Kept::new();
    kept.create("t", &[]);
    let id = Some("x".to_owned());
    let request = init_producer_id::Request {
        transactional_id: id,
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    let given = kept.call(4, &request);
    let producer = |base_sequence| Producer {
        id: given.producer_id,
        epoch: given.producer_epoch,
        base_sequence,
        transactional: true,
    };
    assert_eq!(kept.produce(batch(&["a"], producer(0))).error_code, ErrorCode::NONE);
    let end = end_txn::Request {
        transactional_id: "x".to_owned(),
        producer_id: given.producer_id,
        producer_epoch: given.producer_epoch,
        committed: true,
    };
    let mut world = kept.again();
    let read_committed = |world: &mut World| {
        let answer = world.fetch(&fetch::Request { isolation_level: 1, ..now(0) });
        (answer.last_stable_offset, answer.aborted_transactions.map_or(0, |aborted| aborted.len()))
    };
    assert_eq!(read_committed(&mut world), (0, 0));
    assert_eq!(world.call(1, 3, &end).error_code, ErrorCode::NONE);
    assert_eq!(read_committed(&mut world), (2, 0));

    // After another restart its timeout has passed.
    let mut world = kept.again();
    world.advance(Duration::from_secs(61));
    assert_eq!(read_committed(&mut world), (2, 1));
    kept.journal.extend(world.cluster.take_journal().unwrap());
    let mut world = kept.again();
    assert_eq!(read_committed(&mut world), (2, 1));
    assert_eq!(world.call(1, 3, &end).error_code, ErrorCode::PRODUCER_FENCED);
}

#[test]
fn deleted_records_stay_deleted_after_a_restart() {
    let mut kept = Kept::new();
    kept.create("t", &[("cleanup.policy", "compact,delete")]);
    for n in 0..4 {
        let mut builder = klamm::record::BatchBuilder::with_capacity(0);
        builder.append(START_MS, Some(if n == 3 { b"b" } else { b"a" }), Some(&[b'0' + n]), &[]);
        kept.produce(builder.seal(klamm::compress::Compression::None, Producer::NONE).unwrap().data);
    }
    kept.world.cluster.compact(START, "t").unwrap();
    kept.journal.extend(kept.world.cluster.take_journal().unwrap());
    assert_eq!(values(&kept.again().fetch(&now(0)).records), [record(2, "2"), record(3, "3")]);
    let partition = delete_records::Partition { partition_index: 0, offset: 3 };
    let topic = delete_records::Topic { name: "t".to_owned(), partitions: vec![partition] };
    kept.call(2, &delete_records::Request { topics: vec![topic], timeout_ms: 0 });
    assert_eq!(kept.again().fetch(&now(2)).error_code, ErrorCode::OFFSET_OUT_OF_RANGE);
    assert_eq!(values(&kept.again().fetch(&now(3)).records), [record(3, "3")]);
    kept.world.cluster.truncate(START, "t", 0, 3).unwrap();
    kept.journal.extend(kept.world.cluster.take_journal().unwrap());
    assert_eq!(kept.again().fetch(&now(3)).high_watermark, 3);
}
