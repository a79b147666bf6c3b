//! Tests share groups: acquisition, locks, deliveries and sessions. The assertions match the replies of Apache Kafka
//! 4.4.

use super::{World, batch, values};
use klamm::api::share_acknowledge::{ACCEPT, GAP, REJECT, RELEASE, RENEW};
use klamm::api::share_fetch::{AcknowledgementBatch, Partition, RECORD_LIMIT, Request, Response, Topic};
use klamm::api::*;
use klamm::broker::{Connection, Options};
use klamm::record::Producer;
use klamm::wire::Uuid;
use std::time::Duration;

const NONE: i16 = 0;
const INVALID_REQUEST: i16 = 42;
const NOT_FOUND: i16 = 69;
const FENCED_EPOCH: i16 = 110;
const INVALID_STATE: i16 = 121;
const SESSION_NOT_FOUND: i16 = 122;
const INVALID_EPOCH: i16 = 123;

const SECOND: Duration = Duration::from_secs(1);

/// A member with its own connection that fetches from topic `t`.
struct Member {
    client: u64,
    id: &'static str,
    epoch: i32,
    topic: Uuid,
}

impl World {
    fn shared() -> (Self, Member, Member) {
        let mut world = Self::new(Options::default());
        let topic = world.create("t", 1, &[]);
        let mut member = |client, id| {
            world.cluster.connect(1, Connection(client));
            assert_eq!(world.share_beat(id, 0).0, NONE);
            let mut member = Member { client, id, epoch: 0, topic };
            assert_eq!(world.share(&mut member, &[]), []);
            member
        };
        let (a, b) = (member(10, "a"), member(11, "b"));
        (world, a, b)
    }

    fn share_beat(&mut self, id: &str, epoch: i32) -> (i16, i32) {
        let answer = self.share_heartbeat(id, epoch);
        (answer.error_code.0, answer.member_epoch)
    }

    fn share_heartbeat(&mut self, id: &str, epoch: i32) -> share_group_heartbeat::Response {
        let request = share_group_heartbeat::Request {
            group_id: "s".to_owned(),
            member_id: id.to_owned(),
            member_epoch: epoch,
            subscribed_topic_names: (epoch == 0).then(|| vec!["t".to_owned()]),
            ..Default::default()
        };
        self.call(1, 1, &request)
    }

    fn put(&mut self, records: &[&str]) {
        assert_eq!(self.produce(batch(records, Producer::NONE)).error_code, ErrorCode::NONE);
    }

    /// Fetches without waiting. Returns the acquired ranges: first and last offset, and number of deliveries.
    fn share(&mut self, member: &mut Member, done: &[(i64, i64, i8)]) -> Vec<(i64, i64, i16)> {
        let request = member.fetch(done, 0);
        let answer = self.call(member.client, 2, &request);
        member.epoch += 1;
        assert_eq!(answer.error_code.0, NONE);
        acquired(&answer)
    }

    fn acknowledge(&mut self, member: &mut Member, done: &[(i64, i64, i8)]) -> (i16, i16) {
        let partition = share_acknowledge::Partition {
            partition_index: 0,
            acknowledgement_batches: done
                .iter()
                .map(|(first, last, kind)| share_acknowledge::AcknowledgementBatch {
                    first_offset: *first,
                    last_offset: *last,
                    acknowledge_types: vec![*kind],
                })
                .collect(),
        };
        let topic = share_acknowledge::Topic { topic_id: member.topic, partitions: vec![partition] };
        let request = share_acknowledge::Request {
            group_id: Some("s".to_owned()),
            member_id: Some(member.id.to_owned()),
            share_session_epoch: member.epoch,
            is_renew_ack: done.iter().any(|(_, _, kind)| *kind == RENEW),
            topics: vec![topic],
        };
        let answer = self.call(member.client, 2, &request);
        if !answer.error_code.is_error() {
            member.epoch += 1;
        }
        let partition = answer.responses.first().map_or(NONE, |topic| topic.partitions[0].error_code.0);
        (answer.error_code.0, partition)
    }
}

impl Member {
    fn fetch(&self, done: &[(i64, i64, i8)], max_wait_ms: i32) -> Request {
        let partition = Partition {
            acknowledgement_batches: done
                .iter()
                .map(|(first, last, kind)| AcknowledgementBatch {
                    first_offset: *first,
                    last_offset: *last,
                    acknowledge_types: vec![*kind],
                })
                .collect(),
            ..Default::default()
        };
        Request {
            group_id: Some("s".to_owned()),
            member_id: Some(self.id.to_owned()),
            share_session_epoch: self.epoch,
            max_wait_ms,
            min_bytes: 1,
            max_records: 100,
            batch_size: 100,
            share_acquire_mode: RECORD_LIMIT,
            topics: vec![Topic { topic_id: self.topic, partitions: vec![partition] }],
            ..Default::default()
        }
    }
}

fn acquired(answer: &Response) -> Vec<(i64, i64, i16)> {
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    let all = partitions.flat_map(|partition| &partition.acquired_records);
    all.map(|a| (a.first_offset, a.last_offset, a.delivery_count)).collect()
}

#[test]
fn a_record_is_acquired_by_one_member_at_a_time() {
    let (mut world, mut a, mut b) = World::shared();
    world.put(&["0", "1", "2", "3"]);
    let limited = Request { max_records: 2, ..a.fetch(&[], 0) };
    let answer = world.call(10, 2, &limited);
    a.epoch += 1;
    assert_eq!(acquired(&answer), [(0, 1, 1)]);
    assert_eq!(answer.acquisition_lock_timeout_ms, 30_000);
    let records = values(&answer.responses[0].partitions[0].records);
    assert_eq!(records.len(), 4, "a batch comes whole, and what is the member's is said beside");
    assert_eq!(world.share(&mut b, &[]), [(2, 3, 1)]);
    assert_eq!((world.share(&mut a, &[]), world.share(&mut b, &[])), (vec![], vec![]));

    world.acknowledge(&mut a, &[(0, 0, ACCEPT), (1, 1, RELEASE)]);
    assert_eq!(world.share(&mut b, &[(2, 2, REJECT), (3, 3, RELEASE)]), [(1, 1, 2), (3, 3, 2)]);
    assert_eq!(world.share(&mut b, &[(1, 1, ACCEPT), (3, 3, GAP)]), []);
    world.put(&["4"]);
    assert_eq!(world.share(&mut a, &[]), [(4, 4, 1)]);
}

#[test]
fn a_group_starts_at_the_end_of_the_log() {
    let mut world = World::new(Options::default());
    let topic = world.create("t", 1, &[]);
    world.put(&["before"]);
    assert_eq!(world.share_beat("a", 0), (NONE, 2));
    let mut a = Member { client: 1, id: "a", epoch: 0, topic };
    assert_eq!(world.share(&mut a, &[]), []);
    world.put(&["after"]);
    assert_eq!(world.share(&mut a, &[]), [(1, 1, 1)]);
}

impl World {
    fn configure(&mut self, group: &str, name: &str, value: &str) -> i16 {
        let config = incremental_alter_configs::Config {
            name: name.to_owned(),
            config_operation: incremental_alter_configs::SET,
            value: Some(value.to_owned()),
        };
        let resource = incremental_alter_configs::Resource {
            resource_type: describe_configs::GROUP,
            resource_name: group.to_owned(),
            configs: vec![config],
        };
        let request = incremental_alter_configs::Request { resources: vec![resource], validate_only: false };
        self.call(1, 1, &request).responses[0].error_code.0
    }
}

#[test]
fn a_share_group_can_be_configured() {
    const INVALID_CONFIG: i16 = 40;
    let mut world = World::new(Options::default());
    let topic = world.create("t", 1, &[]);
    world.put(&["before"]);
    for (name, value) in [
        ("no.such.name", "1"),
        ("share.session.timeout.ms", "0"),
        ("share.session.timeout.ms", "x"),
        ("share.auto.offset.reset", "x"),
    ] {
        assert_eq!(world.configure("s", name, value), INVALID_CONFIG, "{name}");
    }
    assert_eq!(world.configure("", "share.session.timeout.ms", "1000"), INVALID_REQUEST);
    for (name, value) in [
        ("share.auto.offset.reset", "earliest"),
        ("share.record.lock.duration.ms", "1000"),
        ("share.session.timeout.ms", "7000"),
        ("share.heartbeat.interval.ms", "900"),
    ] {
        assert_eq!(world.configure("s", name, value), NONE, "{name}");
    }
    assert_eq!(world.share_heartbeat("a", 0).heartbeat_interval_ms, 900);
    let mut a = Member { client: 1, id: "a", epoch: 0, topic };
    assert_eq!(world.share(&mut a, &[]), [(0, 0, 1)]);
    world.advance(SECOND);
    assert_eq!(world.share(&mut a, &[]), [(0, 0, 2)]);
    world.advance(6 * SECOND);
    assert_eq!(world.share_beat("a", 2).0, 25, "UNKNOWN_MEMBER_ID");
}

#[test]
fn whole_batches_are_returned_unless_the_record_limit_is_strict() {
    let (mut world, a, _) = World::shared();
    world.put(&["0", "1", "2"]);
    world.put(&["3", "4"]);
    let request = Request { max_records: 1, share_acquire_mode: 0, ..a.fetch(&[], 0) };
    let answer = world.call(10, 2, &request);
    assert_eq!(acquired(&answer), [(0, 2, 1)]);
    assert_eq!(values(&answer.responses[0].partitions[0].records).len(), 3);
}

#[test]
fn an_expired_lock_releases_the_record_to_a_waiting_member() {
    let (mut world, mut a, b) = World::shared();
    world.put(&["0"]);
    assert_eq!(world.share(&mut a, &[]), [(0, 0, 1)]);
    world.advance(20 * SECOND);
    assert_eq!(world.acknowledge(&mut a, &[(0, 0, RENEW)]), (NONE, NONE), "thirty seconds more");
    world.send(11, 2, 7, &b.fetch(&[], 60_000));
    world.advance(29 * SECOND);
    assert!(world.receive::<Request>(11, 2).is_none());
    world.advance(SECOND);
    let (_, answer) = world.receive::<Request>(11, 2).unwrap();
    assert_eq!(acquired(&answer), [(0, 0, 2)]);
    assert_eq!(world.acknowledge(&mut a, &[(0, 0, ACCEPT)]), (NONE, INVALID_STATE));
}

#[test]
fn a_record_is_delivered_at_most_five_times() {
    let (mut world, mut a, _) = World::shared();
    world.put(&["bad"]);
    for count in 1..=5 {
        assert_eq!(world.share(&mut a, &[]), [(0, 0, count)]);
        world.acknowledge(&mut a, &[(0, 0, RELEASE)]);
    }
    assert_eq!(world.share(&mut a, &[]), []);
}

#[test]
fn a_fetch_waits_for_new_and_for_released_records() {
    let (mut world, a, mut b) = World::shared();
    world.send(10, 2, 7, &a.fetch(&[], 500));
    world.put_quietly("0");
    let (_, answer) = world.receive::<Request>(10, 2).unwrap();
    assert_eq!(acquired(&answer), [(0, 0, 1)]);
    world.send(11, 2, 7, &b.fetch(&[], 500));
    b.epoch += 1;
    world.cluster.disconnect(world.now, Connection(10));
    let (_, answer) = world.receive::<Request>(11, 2).unwrap();
    assert_eq!(acquired(&answer), [(0, 0, 2)], "what a held is free again");
    world.send(11, 2, 7, &b.fetch(&[(0, 0, ACCEPT)], 500));
    world.advance(Duration::from_millis(500));
    let (_, answer) = world.receive::<Request>(11, 2).unwrap();
    assert_eq!(answer.responses[0].partitions[0].acknowledge_error_code.0, NONE);
}

impl World {
    /// Produces a record on a connection of its own, and ignores other replies before its own.
    fn put_quietly(&mut self, value: &str) {
        let request = super::produce_request("t", batch(&[value], Producer::NONE));
        self.cluster.connect(1, Connection(99));
        self.send(99, 12, 7, &produce::Request { acks: 0, ..request });
    }
}

#[test]
fn acknowledgements_are_applied_all_or_none() {
    let (mut world, mut a, mut b) = World::shared();
    world.put(&["0", "1"]);
    assert_eq!(world.share(&mut a, &[]), [(0, 1, 1)]);
    for (done, code) in [
        (vec![(0, 2, ACCEPT)], INVALID_STATE),
        (vec![(0, 0, ACCEPT), (5, 5, ACCEPT)], INVALID_STATE),
        (vec![(1, 0, ACCEPT)], INVALID_REQUEST),
        (vec![(0, 1, ACCEPT), (1, 1, ACCEPT)], INVALID_REQUEST),
        (vec![(1, 1, ACCEPT), (0, 0, ACCEPT)], INVALID_REQUEST),
        (vec![(0, 0, 9)], INVALID_REQUEST),
    ] {
        assert_eq!(world.acknowledge(&mut a, &done), (NONE, code), "{done:?}");
    }
    assert_eq!(world.acknowledge(&mut b, &[(0, 0, ACCEPT)]), (NONE, INVALID_STATE));
    assert_eq!(world.acknowledge(&mut a, &[(0, i64::MAX, RELEASE)]), (NONE, INVALID_STATE));
    assert_eq!(world.acknowledge(&mut a, &[(0, 1, ACCEPT)]), (NONE, NONE));
}

#[test]
fn sessions_have_epochs_and_release_their_records_when_they_end() {
    let (mut world, mut a, mut b) = World::shared();
    world.put(&["0"]);
    assert_eq!(world.share(&mut a, &[]), [(0, 0, 1)]);
    let bad = Request { share_session_epoch: a.epoch + 1, ..a.fetch(&[], 0) };
    assert_eq!(world.call(10, 2, &bad).error_code.0, INVALID_EPOCH);
    assert_eq!(world.acknowledge(&mut Member { epoch: 0, ..a }, &[]).0, INVALID_EPOCH);
    let stranger = Request { member_id: Some("c".to_owned()), ..a.fetch(&[], 0) };
    assert_eq!(world.call(10, 2, &stranger).error_code.0, SESSION_NOT_FOUND);
    let other = Request { group_id: Some("none".to_owned()), ..a.fetch(&[], 0) };
    assert_eq!(world.call(10, 2, &other).error_code.0, SESSION_NOT_FOUND);
    let opens = Request { share_session_epoch: 0, ..a.fetch(&[(0, 0, ACCEPT)], 0) };
    assert_eq!(world.call(10, 2, &opens).error_code.0, INVALID_REQUEST);
    let mut last = Member { epoch: -1, ..a };
    assert_eq!(world.acknowledge(&mut last, &[]), (NONE, NONE));
    assert_eq!(world.share(&mut b, &[]), [(0, 0, 2)]);
}

#[test]
fn a_fetch_for_a_group_without_members_waits_and_finds_nothing() {
    let mut world = World::new(Options::default());
    let topic = world.create("t", 1, &[]);
    world.put(&["0"]);
    let mut member = Member { client: 1, id: "a", epoch: 0, topic };
    world.send(1, 2, 7, &member.fetch(&[], 500));
    world.advance(Duration::from_millis(499));
    assert!(world.receive::<Request>(1, 2).is_none());
    world.advance(Duration::from_millis(1));
    let (_, found) = world.receive::<Request>(1, 2).expect("the wait is over");
    assert_eq!((found.error_code.0, acquired(&found)), (NONE, vec![]));
    assert_eq!(world.share_beat("a", 0).0, NONE);
    assert_eq!(world.share(&mut member, &[]), []);
    world.put(&["1"]);
    assert_eq!(world.share(&mut member, &[]), [(1, 1, 1)]);
}

#[test]
fn members_share_partitions_as_they_join_and_leave() {
    let mut world = World::new(Options::default());
    world.create("t", 2, &[]);
    assert_eq!(world.share_beat("a", 0), (NONE, 2));
    assert_eq!(world.share_beat("b", 0), (NONE, 3));
    let answer = world.share_heartbeat("a", 2);
    assert_eq!((answer.member_epoch, &answer.assignment.unwrap().topic_partitions[0].partitions), (3, &vec![0]));
    assert!(world.share_heartbeat("a", 3).assignment.is_none(), "nothing changed");
    assert_eq!(world.share_beat("a", 2), (NONE, 3), "the answer may have been lost");
    assert_eq!(world.share_beat("a", 9).0, FENCED_EPOCH);
    let describe = share_group_describe::Request { group_ids: vec!["s".to_owned()], ..Default::default() };
    let group = world.call(1, 1, &describe).groups.remove(0);
    assert_eq!((group.group_state.as_str(), group.assignor_name.as_str(), group.group_epoch), ("Stable", "simple", 3));
    let shares: Vec<_> = group.members.iter().map(|m| m.assignment.topic_partitions[0].partitions.clone()).collect();
    assert_eq!(shares, [[0], [1]]);
    let commit = offset_commit::Request {
        group_id: "s".to_owned(),
        topics: vec![offset_commit::Topic {
            name: "t".to_owned(),
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(world.call(1, 8, &commit).topics[0].partitions[0].error_code.0, NOT_FOUND);
    let list = list_groups::Request { types_filter: vec!["share".to_owned()], ..Default::default() };
    let listed = world.call(1, 5, &list).groups.remove(0);
    assert_eq!((listed.protocol_type.as_str(), listed.group_type.as_str()), ("share", "share"));
    assert_eq!(world.share_beat("a", -1), (NONE, -1));
    assert_eq!(world.share_beat("b", 3), (NONE, 4));
    world.advance(45 * SECOND);
    assert_eq!(world.call(1, 1, &describe).groups[0].group_state, "Empty");
    let delete = delete_groups::Request { groups_names: vec!["s".to_owned()] };
    assert_eq!(world.call(1, 2, &delete).results[0].error_code.0, NONE);
    assert_eq!(world.share_beat("b", 4).0, NOT_FOUND);
}

#[test]
fn a_new_leader_keeps_done_records_and_releases_the_others() {
    let mut world = World::new(Options { nodes: 2, ..Options::default() });
    let topic = world.create("t", 1, &[]);
    world.cluster.move_coordinator(world.now, "s", 1).unwrap();
    world.cluster.move_leader(world.now, "t", 0, 1).unwrap();
    assert_eq!(world.share_beat("a", 0).0, NONE);
    let mut a = Member { client: 1, id: "a", epoch: 0, topic };
    world.share(&mut a, &[]);
    world.put(&["0", "1"]);
    assert_eq!(world.share(&mut a, &[]), [(0, 1, 1)]);
    assert_eq!(world.acknowledge(&mut a, &[(0, 0, ACCEPT)]), (NONE, NONE));
    world.cluster.move_leader(world.now, "t", 0, 2).unwrap();
    let answer = world.call(1, 2, &a.fetch(&[], 0));
    let partition = &answer.responses[0].partitions[0];
    assert_eq!((partition.error_code.0, partition.current_leader.leader_id), (6, 2), "NOT_LEADER_OR_FOLLOWER");
    assert_eq!(answer.node_endpoints[0].port, 9002);
    let mut there = Member { client: 2, epoch: 0, ..a };
    assert_eq!(world.share(&mut there, &[]), [(1, 1, 2)]);
}

impl World {
    /// Returns partition, start offset and lag.
    fn starts(&mut self, topics: Option<Vec<describe_share_group_offsets::Topic>>) -> Vec<(i32, i64, i64)> {
        let group = describe_share_group_offsets::Group { group_id: "s".to_owned(), topics };
        let answer = self.call(1, 1, &describe_share_group_offsets::Request { groups: vec![group] }).groups.remove(0);
        assert_eq!(answer.error_code.0, NONE);
        let partitions = answer.topics.into_iter().flat_map(|t| t.partitions);
        partitions.map(|p| (p.partition_index, p.start_offset, p.lag)).collect()
    }

    /// Returns the code of the response, or that of the partition.
    fn start_at(&mut self, topic: &str, partition_index: i32, start_offset: i64) -> i16 {
        let partition = alter_share_group_offsets::Partition { partition_index, start_offset };
        let topic = alter_share_group_offsets::Topic { topic_name: topic.to_owned(), partitions: vec![partition] };
        let request = alter_share_group_offsets::Request { group_id: "s".to_owned(), topics: vec![topic] };
        let answer = self.call(1, 0, &request);
        let of_partition = answer.responses.first().map_or(NONE, |t| t.partitions[0].error_code.0);
        if answer.error_code.is_error() { answer.error_code.0 } else { of_partition }
    }

    fn forget_offsets(&mut self, topic: &str) -> i16 {
        let topic = delete_share_group_offsets::Topic { topic_name: topic.to_owned() };
        let request = delete_share_group_offsets::Request { group_id: "s".to_owned(), topics: vec![topic] };
        let answer = self.call(1, 0, &request);
        let of_topic = answer.responses.first().map_or(NONE, |t| t.error_code.0);
        if answer.error_code.is_error() { answer.error_code.0 } else { of_topic }
    }
}

#[test]
fn a_group_describes_its_offsets() {
    let mut world = World::new(Options::default());
    assert_eq!(world.starts(None), [], "an unknown group is not an error");
    let (mut world, mut a, _) = World::shared();
    assert_eq!(world.starts(None), [(0, 0, 0)]);
    world.put(&["0", "1", "2", "3", "4"]);
    assert_eq!(world.share(&mut a, &[]), [(0, 4, 1)]);
    world.acknowledge(&mut a, &[(0, 1, ACCEPT), (3, 3, ACCEPT)]);
    assert_eq!(world.starts(None), [(0, 2, 2)], "what is done behind the start is no lag");
    let named = describe_share_group_offsets::Topic { topic_name: "t".to_owned(), partitions: vec![0, 9] };
    assert_eq!(world.starts(Some(vec![named])), [(0, 2, 2), (9, -1, -1)]);
}

#[test]
fn offsets_of_an_empty_group_can_be_altered() {
    let (mut world, mut a, _) = World::shared();
    world.put(&["0", "1", "2", "3", "4"]);
    assert_eq!(world.share(&mut a, &[]), [(0, 4, 1)]);
    const NON_EMPTY: i16 = 68;
    assert_eq!([world.start_at("t", 0, 3), world.forget_offsets("t")], [NON_EMPTY, NON_EMPTY]);
    for id in ["a", "b"] {
        assert_eq!(world.share_beat(id, -1).0, NONE);
    }
    assert_eq!([world.start_at("t", 9, 3), world.start_at("none", 0, 3)], [3, 3]);
    for offset in [i64::MIN, i64::MAX, 3] {
        assert_eq!(world.start_at("t", 0, offset), NONE);
        assert_eq!(world.starts(None)[0].1, offset);
    }
    world.cluster.connect(1, Connection(12));
    assert_eq!(world.share_beat("c", 0).0, NONE);
    let mut c = Member { client: 12, id: "c", epoch: 0, topic: a.topic };
    assert_eq!(world.share(&mut c, &[]), [(3, 4, 1)]);

    assert_eq!(world.share_beat("c", -1).0, NONE);
    assert_eq!([world.forget_offsets("t"), world.forget_offsets("t"), world.forget_offsets("none")], [NONE, 3, 3]);
    assert_eq!(world.starts(None), []);
}

#[test]
fn altering_offsets_creates_an_unknown_group() {
    let mut world = World::with_topic();
    assert_eq!(world.forget_offsets("t"), NOT_FOUND);
    world.put(&["0", "1", "2"]);
    assert_eq!(world.start_at("t", 0, 2), NONE);
    assert_eq!(world.starts(None), [(0, 2, 1)]);
    let group = |group_id: &str| alter_share_group_offsets::Request { group_id: group_id.to_owned(), topics: vec![] };
    assert_eq!(world.call(1, 0, &group("")).error_code, ErrorCode::INVALID_GROUP_ID);
}
