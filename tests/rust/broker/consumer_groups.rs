//! Tests KIP-848 groups: epochs, target assignments, and the order of revocations. The assertions match the replies of
//! Apache Kafka 4.4 in the cases in which Kafka computes assignments immediately.

use super::World;
use klamm::api::consumer_group_heartbeat::{JOIN, LEAVE, LEAVE_STATIC, Request, Response, TopicPartitions};
use klamm::api::*;
use klamm::broker::Options;
use klamm::wire::Uuid;
use std::time::Duration;

const NONE: i16 = 0;
const UNKNOWN_MEMBER: i16 = 25;
const UNSUPPORTED_VERSION: i16 = 35;
const INVALID_REQUEST: i16 = 42;
const NON_EMPTY: i16 = 68;
const NOT_FOUND: i16 = 69;
const FENCED_INSTANCE: i16 = 82;
const FENCED_EPOCH: i16 = 110;
const UNRELEASED: i16 = 111;
const UNSUPPORTED_ASSIGNOR: i16 = 112;
const STALE_EPOCH: i16 = 113;
const INVALID_PATTERN: i16 = 128;

const SECOND: Duration = Duration::from_secs(1);

/// A member from its client's point of view.
#[derive(Clone, Debug)]
struct Member {
    id: &'static str,
    epoch: i32,
    /// Partitions of topic `t`.
    owned: Vec<i32>,
}

impl World {
    fn with_partitions() -> (Self, Uuid) {
        let mut world = Self::new(Options::default());
        let topic = world.create("t", 4, &[]);
        (world, topic)
    }

    fn heartbeat(&mut self, request: &Request) -> Response {
        self.call(1, 1, request)
    }

    fn join(&mut self, id: &'static str) -> Member {
        let answer = self.heartbeat(&join(id));
        assert_eq!(answer.error_code.0, NONE, "{:?}", answer.error_message);
        Member { id, epoch: answer.member_epoch, owned: partitions(&answer).unwrap() }
    }

    /// Sends a heartbeat with the current assignment, and applies the new one.
    fn beat(&mut self, topic: Uuid, member: &mut Member) -> i16 {
        let owned = TopicPartitions { topic_id: topic, partitions: member.owned.clone() };
        let answer = self.heartbeat(&Request { topic_partitions: Some(vec![owned]), ..just(member) });
        if answer.error_code.0 == NONE {
            member.epoch = answer.member_epoch;
            if let Some(owned) = partitions(&answer) {
                member.owned = owned;
            }
        }
        answer.error_code.0
    }

    fn describe_consumers(&mut self) -> consumer_group_describe::Group {
        let request = consumer_group_describe::Request { group_ids: vec!["g".to_owned()], ..Default::default() };
        self.call(1, 1, &request).groups.remove(0)
    }

    fn commit_as(&mut self, version: i16, member: &str, epoch: i32) -> i16 {
        let topic =
            offset_commit::Topic { name: "t".to_owned(), partitions: vec![Default::default()], ..Default::default() };
        let request = offset_commit::Request {
            group_id: "g".to_owned(),
            member_id: member.to_owned(),
            generation_id_or_member_epoch: epoch,
            topics: vec![topic],
            ..Default::default()
        };
        self.call(1, version, &request).topics[0].partitions[0].error_code.0
    }

    fn fetch_as(&mut self, member: Option<&str>, epoch: i32) -> i16 {
        let group = offset_fetch::Group {
            group_id: "g".to_owned(),
            member_id: member.map(str::to_owned),
            member_epoch: epoch,
            topics: None,
        };
        let request = offset_fetch::Request { groups: vec![group], ..Default::default() };
        self.call(1, 9, &request).groups[0].error_code.0
    }
}

fn just(member: &Member) -> Request {
    Request {
        group_id: "g".to_owned(),
        member_id: member.id.to_owned(),
        member_epoch: member.epoch,
        ..Default::default()
    }
}

fn join(id: &str) -> Request {
    Request {
        group_id: "g".to_owned(),
        member_id: id.to_owned(),
        member_epoch: JOIN,
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["t".to_owned()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

fn join_static(id: &str) -> Request {
    Request { instance_id: Some("i".to_owned()), ..join(id) }
}

fn partitions(answer: &Response) -> Option<Vec<i32>> {
    let assigned = answer.assignment.as_ref()?;
    Some(assigned.topic_partitions.iter().flat_map(|topic| topic.partitions.clone()).collect())
}

#[test]
fn a_partition_is_released_before_another_member_gets_it() {
    let (mut world, topic) = World::with_partitions();
    let mut a = world.join("a");
    assert_eq!((a.epoch, a.owned.as_slice()), (2, &[0, 1, 2, 3][..]));
    let mut b = world.join("b");
    assert_eq!((b.epoch, b.owned.len()), (3, 0), "all is a's still");

    let full = a.clone();
    world.beat(topic, &mut a);
    assert_eq!((a.epoch, a.owned.len()), (2, 2), "a is asked to let go");
    assert_eq!(world.beat(topic, &mut full.clone()), NONE, "but has not yet");
    world.beat(topic, &mut b);
    assert_eq!(b.owned.len(), 0);
    assert_eq!(world.describe_consumers().group_state, "Reconciling");

    world.beat(topic, &mut a);
    assert_eq!(a.epoch, 3, "now it has");
    world.beat(topic, &mut b);
    assert_eq!(b.owned.len(), 2);
    let group = world.describe_consumers();
    assert_eq!((group.group_state.as_str(), group.group_epoch, group.assignment_epoch), ("Stable", 3, 3));
    assert_eq!((group.assignor_name.as_str(), group.members.len()), ("uniform", 2));
    let first = &group.members[0];
    assert_eq!((first.member_epoch, first.client_id.as_str(), first.member_type), (3, "test", 1));
    assert_eq!(first.assignment, first.target_assignment);
    assert_eq!(first.assignment.topic_partitions[0].topic_name, "t");
}

#[test]
fn partitions_of_a_leaving_member_go_to_the_others() {
    let (mut world, topic) = World::with_partitions();
    let (mut a, mut b) = (world.join("a"), world.join("b"));
    for _ in 0..2 {
        world.beat(topic, &mut a);
        world.beat(topic, &mut b);
    }
    assert_eq!((a.owned.len(), b.owned.len()), (2, 2));
    let kept = b.owned.clone();
    let answer = world.heartbeat(&Request { member_epoch: LEAVE, ..just(&a) });
    assert_eq!((answer.error_code.0, answer.member_epoch), (NONE, LEAVE));
    world.beat(topic, &mut b);
    assert_eq!((b.epoch, b.owned.len()), (4, 4));
    assert!(kept.iter().all(|p| b.owned.contains(p)));
    assert_eq!(world.beat(topic, &mut a), UNKNOWN_MEMBER);
    world.heartbeat(&Request { member_epoch: LEAVE, ..just(&b) });
    assert_eq!(world.describe_consumers().group_state, "Empty");
    let request = delete_groups::Request { groups_names: vec!["g".to_owned()] };
    assert_eq!(world.call(1, 2, &request).results[0].error_code.0, NONE);
    assert_eq!(world.heartbeat(&just(&b)).error_code.0, NOT_FOUND);
}

#[test]
fn a_member_that_is_silent_or_keeps_its_partitions_is_fenced() {
    let (mut world, topic) = World::with_partitions();
    let (a, mut b) = (world.join("a"), world.join("b"));
    world.advance(44 * SECOND);
    assert_eq!(world.beat(topic, &mut b), NONE);
    world.advance(SECOND);
    assert_eq!(world.heartbeat(&just(&a)).error_code.0, UNKNOWN_MEMBER);
    world.beat(topic, &mut b);
    assert_eq!(b.owned.len(), 4);

    let mut c = world.join("c");
    let all = b.clone();
    assert_eq!(world.beat(topic, &mut b), NONE, "b is asked to let go");
    for _ in 0..2 {
        world.advance(30 * SECOND - SECOND);
        assert_eq!((world.beat(topic, &mut all.clone()), world.beat(topic, &mut c)), (NONE, NONE));
    }
    world.advance(2 * SECOND);
    assert_eq!(world.beat(topic, &mut all.clone()), UNKNOWN_MEMBER, "a minute is over");
    world.beat(topic, &mut c);
    assert_eq!(c.owned.len(), 4);
}

#[test]
fn an_outdated_epoch_is_fenced() {
    let (mut world, topic) = World::with_partitions();
    let mut a = world.join("a");
    assert_eq!(world.heartbeat(&Request { member_epoch: 3, ..just(&a) }).error_code.0, FENCED_EPOCH);
    assert_eq!(world.heartbeat(&Request { member_epoch: 1, ..just(&a) }).error_code.0, FENCED_EPOCH);
    world.create("u", 2, &[]);
    let names = Some(vec!["t".to_owned(), "u".to_owned()]);
    let request = Request { subscribed_topic_names: names, ..just(&a) };
    let answer = world.heartbeat(&request);
    assert_eq!((answer.member_epoch, partitions(&answer).unwrap().len()), (3, 6));
    assert_eq!(
        world.beat(topic, &mut a.clone()),
        NONE,
        "the answer may have been lost: it has a part of what it should"
    );
    assert_eq!(world.heartbeat(&just(&a)).error_code.0, FENCED_EPOCH, "but it has to say so");
    a.epoch = 3;
    assert_eq!(partitions(&world.heartbeat(&just(&a))), None, "nothing changed");
    let again = world.heartbeat(&join("a"));
    assert_eq!((again.error_code.0, again.member_epoch), (NONE, 4), "who starts over is taken back");
}

#[test]
fn a_static_member_keeps_its_partitions_while_it_is_away() {
    let (mut world, topic) = World::with_partitions();
    assert_eq!(world.heartbeat(&join_static("a")).member_epoch, 2);
    assert_eq!(world.heartbeat(&join_static("b")).error_code.0, UNRELEASED);
    let mut other = world.join("other");
    let away = Request { group_id: "g".to_owned(), member_epoch: LEAVE_STATIC, ..join_static("a") };
    assert_eq!(world.heartbeat(&away).member_epoch, LEAVE_STATIC);
    world.beat(topic, &mut other);
    assert_eq!(other.owned.len(), 0);
    let answer = world.heartbeat(&join_static("b"));
    assert_eq!((answer.error_code.0, partitions(&answer).unwrap().len()), (NONE, 2));
    let old = Request { member_epoch: 2, ..join_static("a") };
    assert_eq!(world.heartbeat(&old).error_code.0, FENCED_INSTANCE);
    let mut stranger = old;
    stranger.instance_id = Some("j".to_owned());
    assert_eq!(world.heartbeat(&stranger).error_code.0, UNKNOWN_MEMBER);
    world.beat(topic, &mut other);
    assert_eq!(other.owned.len(), 2);
    world.advance(45 * SECOND);
    assert_eq!(world.describe_consumers().group_state, "Empty", "no member waits for ever");
}

#[test]
fn members_choose_the_assignor_and_patterns_find_topics() {
    let (mut world, _) = World::with_partitions();
    world.create("tt", 4, &[]);
    let by_pattern = |id: &str| Request {
        subscribed_topic_names: None,
        subscribed_topic_regex: Some("^(t.*".to_owned()),
        ..join(id)
    };
    assert_eq!(world.heartbeat(&by_pattern("a")).error_code.0, INVALID_PATTERN);
    let by_pattern = |id: &str| Request {
        subscribed_topic_regex: Some("^t.*".to_owned()),
        server_assignor: Some("range".to_owned()),
        ..by_pattern(id)
    };
    assert_eq!(partitions(&world.heartbeat(&by_pattern("a"))).unwrap().len(), 8);
    let group = world.describe_consumers();
    assert_eq!(group.assignor_name, "range");
    assert_eq!(group.members[0].subscribed_topic_regex.as_deref(), Some("^t.*"));
    world.create("ttt", 1, &[]);
    let answer = world.heartbeat(&just(&Member { id: "a", epoch: 2, owned: Vec::new() }));
    assert_eq!(partitions(&answer).unwrap().len(), 9, "one that is new");
}

#[test]
fn only_members_in_their_epoch_commit_and_fetch_offsets() {
    let (mut world, _) = World::with_partitions();
    assert_eq!(world.commit_as(9, "a", 2), NOT_FOUND);
    world.join("a");
    assert_eq!([world.commit_as(9, "a", 2), world.commit_as(10, "a", 2)], [NONE, 100], "v10 has ids, not names");
    assert_eq!(world.commit_as(8, "a", 2), UNSUPPORTED_VERSION);
    assert_eq!([world.commit_as(9, "a", 1), world.commit_as(9, "a", 3)], [STALE_EPOCH, STALE_EPOCH]);
    assert_eq!([world.commit_as(9, "x", 2), world.commit_as(9, "", -1)], [UNKNOWN_MEMBER, UNKNOWN_MEMBER]);
    assert_eq!([world.fetch_as(Some("a"), 2), world.fetch_as(None, -1)], [NONE, NONE]);
    assert_eq!([world.fetch_as(Some("a"), 3), world.fetch_as(Some("x"), 2)], [STALE_EPOCH, UNKNOWN_MEMBER]);
    world.advance(45 * SECOND);
    assert_eq!(world.commit_as(8, "", -1), NONE, "anybody may for a group without members");
}

#[test]
fn an_empty_group_accepts_the_other_protocol() {
    let (mut world, _) = World::with_partitions();
    let joining = join_group::Request {
        group_id: "g".to_owned(),
        session_timeout_ms: 10_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![Default::default()],
        ..Default::default()
    };
    assert_eq!(world.call(1, 1, &joining).error_code.0, NONE);
    assert_eq!(world.heartbeat(&join("a")).error_code.0, NOT_FOUND);
    world.advance(10 * SECOND);
    assert_eq!(world.heartbeat(&join("a")).error_code.0, NONE);
    let request = list_groups::Request { types_filter: vec!["Consumer".to_owned()], ..Default::default() };
    assert_eq!(world.call(1, 5, &request).groups[0].group_type, "consumer");
    assert_eq!(world.call(1, 1, &joining).error_code.0, 23, "INCONSISTENT_GROUP_PROTOCOL");
    let delete = delete_groups::Request { groups_names: vec!["g".to_owned()] };
    assert_eq!(world.call(1, 2, &delete).results[0].error_code.0, NON_EMPTY);
    world.advance(45 * SECOND);
    assert_eq!(world.call(1, 1, &joining).error_code.0, NONE);
}

#[test]
fn invalid_heartbeats_are_rejected() {
    let (mut world, _) = World::with_partitions();
    for (request, code) in [
        (Request { group_id: String::new(), ..join("a") }, INVALID_REQUEST),
        (Request { instance_id: Some(String::new()), ..join("a") }, INVALID_REQUEST),
        (Request { rack_id: Some(String::new()), ..join("a") }, INVALID_REQUEST),
        (Request { rebalance_timeout_ms: -1, ..join("a") }, INVALID_REQUEST),
        (Request { topic_partitions: None, ..join("a") }, INVALID_REQUEST),
        (Request { topic_partitions: Some(vec![Default::default()]), ..join("a") }, INVALID_REQUEST),
        (Request { subscribed_topic_names: None, ..join("a") }, INVALID_REQUEST),
        (Request { member_epoch: LEAVE_STATIC, ..join("a") }, INVALID_REQUEST),
        (Request { member_epoch: -3, ..join("a") }, INVALID_REQUEST),
        (Request { server_assignor: Some("sticky".to_owned()), ..join("a") }, UNSUPPORTED_ASSIGNOR),
        (Request { member_epoch: 1, ..join("a") }, NOT_FOUND),
        (join(""), INVALID_REQUEST),
    ] {
        assert_eq!(world.heartbeat(&request).error_code.0, code, "{request:?}");
    }
    let answer = world.call(1, 0, &join(""));
    assert_eq!(answer.error_code.0, NONE);
    assert_eq!(answer.member_id.unwrap().len(), 36, "v0 is given an id");
}

#[test]
fn a_group_continues_on_another_coordinator() {
    let mut world = World::new(Options { nodes: 2, ..Options::default() });
    let topic = world.create("t", 4, &[]);
    world.cluster.move_coordinator(world.now, "g", 1).unwrap();
    let mut a = world.join("a");
    world.advance(40 * SECOND);
    world.cluster.move_coordinator(world.now, "g", 2).unwrap();
    assert_eq!(world.beat(topic, &mut a), 16, "NOT_COORDINATOR");
    world.advance(40 * SECOND);
    let answer = world.call(2, 1, &just(&a));
    assert_eq!((answer.error_code.0, answer.member_epoch), (NONE, 2), "its session began anew");
}
