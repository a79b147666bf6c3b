//! Tests classic groups: generations, sessions, static members and commits. The assertions match the replies of Apache
//! Kafka 4.4.

use super::{World, response};
use bytes::Bytes;
use klamm::api::data::consumer_protocol::{self, Subscription};
use klamm::api::*;
use klamm::broker::{Connection, Options, Output};
use std::collections::BTreeMap;
use std::time::Duration;

const NONE: i16 = 0;
const NOT_COORDINATOR: i16 = 16;
const ILLEGAL_GENERATION: i16 = 22;
const INCONSISTENT: i16 = 23;
const INVALID_GROUP_ID: i16 = 24;
const UNKNOWN_MEMBER: i16 = 25;
const INVALID_SESSION: i16 = 26;
const REBALANCE: i16 = 27;
const NON_EMPTY: i16 = 68;
const NOT_FOUND: i16 = 69;
const MEMBER_ID_REQUIRED: i16 = 79;
const FENCED: i16 = 82;
const SUBSCRIBED: i16 = 86;

const SECOND: Duration = Duration::from_secs(1);

/// Members, each with its own connection, and their replies.
struct Party {
    world: World,
    inbox: BTreeMap<u64, Bytes>,
}

fn subscription(topic: &str) -> Bytes {
    let subscription = Subscription { topics: vec![topic.to_owned()], ..Default::default() };
    consumer_protocol::encode(1, &subscription).unwrap().into()
}

fn join(member_id: &str) -> join_group::Request {
    join_as(member_id, &["range"])
}

fn join_as(member_id: &str, protocols: &[&str]) -> join_group::Request {
    let protocol = |name: &&str| join_group::Protocol { name: (*name).to_owned(), metadata: subscription("t") };
    join_group::Request {
        group_id: "g".to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        member_id: member_id.to_owned(),
        protocol_type: "consumer".to_owned(),
        protocols: protocols.iter().map(protocol).collect(),
        ..Default::default()
    }
}

fn join_static(instance: &str, member_id: &str) -> join_group::Request {
    join_group::Request { group_instance_id: Some(instance.to_owned()), ..join(member_id) }
}

fn sync(member_id: &str, generation_id: i32, shares: &[(&str, &'static str)]) -> sync_group::Request {
    let assignment = |(id, share): &(&str, &'static str)| sync_group::Assignment {
        member_id: (*id).to_owned(),
        assignment: Bytes::from_static(share.as_bytes()),
    };
    sync_group::Request {
        group_id: "g".to_owned(),
        generation_id,
        member_id: member_id.to_owned(),
        protocol_type: Some("consumer".to_owned()),
        protocol_name: Some("range".to_owned()),
        assignments: shares.iter().map(assignment).collect(),
        ..Default::default()
    }
}

impl Party {
    fn with(options: Options) -> Self {
        let mut world = World::new(options);
        world.create("t", 4, &[]);
        for client in 10..20 {
            world.cluster.connect(1, Connection(client));
        }
        Self { world, inbox: BTreeMap::new() }
    }

    fn new() -> Self {
        Self::with(Options::default())
    }

    fn collect(&mut self) {
        while let Some(output) = self.world.cluster.poll_send() {
            let Output::Reply { connection: Connection(client), parts } = output else { panic!("{output:?}") };
            assert!(self.inbox.insert(client, parts.concat().into()).is_none(), "two answers for {client}");
        }
    }

    fn send<R: Request>(&mut self, client: u64, version: i16, request: &R) {
        self.world.send(client, version, 7, request);
        self.collect();
    }

    fn take<R: Request>(&mut self, client: u64, version: i16) -> Option<R::Response> {
        self.inbox.remove(&client).map(|frame| response::<R>(version, frame).1)
    }

    fn call<R: Request>(&mut self, client: u64, version: i16, request: &R) -> R::Response {
        self.send(client, version, request);
        self.take::<R>(client, version).expect("an answer")
    }

    fn advance(&mut self, seconds: u64) {
        self.world.advance(SECOND * seconds as u32);
        self.collect();
    }

    fn joined(&mut self, client: u64) -> Option<join_group::Response> {
        self.take::<join_group::Request>(client, 9)
    }

    fn synced(&mut self, client: u64) -> Option<(i16, Bytes)> {
        self.take::<sync_group::Request>(client, 5).map(|answer| (answer.error_code.0, answer.assignment))
    }

    /// Requests a member ID and joins with it. The reply may have to wait until the others rejoin.
    fn enter(&mut self, client: u64) -> String {
        let answer = self.call(client, 9, &join(""));
        assert_eq!(answer.error_code.0, MEMBER_ID_REQUIRED);
        assert!(answer.member_id.starts_with("test-") && answer.member_id.len() == 41, "{}", answer.member_id);
        self.send(client, 9, &join(&answer.member_id));
        answer.member_id
    }

    /// Returns a stable group of two in generation 2, led by `a`.
    fn of_two() -> (Self, String, String) {
        let mut party = Self::new();
        let a = party.enter(10);
        assert_eq!(party.joined(10).unwrap().generation_id, 1);
        party.send(10, 5, &sync(&a, 1, &[(&a, "all")]));
        assert_eq!(party.synced(10), Some((NONE, Bytes::from_static(b"all"))));
        let b = party.enter(11);
        assert_eq!(party.beat(10, &a, 1), REBALANCE);
        party.send(10, 9, &join(&a));
        let (first, second) = (party.joined(10).unwrap(), party.joined(11).unwrap());
        assert_eq!((first.generation_id, second.generation_id), (2, 2));
        assert_eq!((first.members.len(), second.members.len()), (2, 0));
        assert_eq!((first.leader.as_str(), second.leader.as_str()), (a.as_str(), a.as_str()));
        party.send(11, 5, &sync(&b, 2, &[]));
        assert_eq!(party.synced(11), None, "the leader has not spoken");
        party.send(10, 5, &sync(&a, 2, &[(&a, "half"), (&b, "rest")]));
        assert_eq!(party.synced(10), Some((NONE, Bytes::from_static(b"half"))));
        assert_eq!(party.synced(11), Some((NONE, Bytes::from_static(b"rest"))));
        (party, a, b)
    }

    fn beat(&mut self, client: u64, member_id: &str, generation_id: i32) -> i16 {
        self.beat_as(client, member_id, None, generation_id)
    }

    fn beat_as(&mut self, client: u64, member_id: &str, instance: Option<&str>, generation_id: i32) -> i16 {
        let request = heartbeat::Request {
            group_id: "g".to_owned(),
            generation_id,
            member_id: member_id.to_owned(),
            group_instance_id: instance.map(str::to_owned),
        };
        self.call(client, 4, &request).error_code.0
    }

    fn leave(&mut self, client: u64, members: &[(&str, Option<&str>)]) -> Vec<i16> {
        let member = |(id, instance): &(&str, Option<&str>)| leave_group::Member {
            member_id: (*id).to_owned(),
            group_instance_id: instance.map(str::to_owned),
            reason: None,
        };
        let members = members.iter().map(member).collect();
        let request = leave_group::Request { group_id: "g".to_owned(), members, ..Default::default() };
        self.call(client, 5, &request).members.iter().map(|m| m.error_code.0).collect()
    }

    fn commit(&mut self, version: i16, member_id: &str, generation: i32, offset: i64) -> i16 {
        let partition = offset_commit::Partition { committed_offset: offset, ..Default::default() };
        let topic = offset_commit::Topic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() };
        let request = offset_commit::Request {
            group_id: "g".to_owned(),
            generation_id_or_member_epoch: generation,
            member_id: member_id.to_owned(),
            topics: vec![topic],
            ..Default::default()
        };
        self.call(1, version, &request).topics[0].partitions[0].error_code.0
    }

    fn describe(&mut self) -> describe_groups::Group {
        let request = describe_groups::Request { groups: vec!["g".to_owned()], ..Default::default() };
        self.call(1, 6, &request).groups.remove(0)
    }

    fn state(&mut self) -> String {
        self.describe().group_state
    }

    fn delete(&mut self) -> i16 {
        let request = delete_groups::Request { groups_names: vec!["g".to_owned()] };
        self.call(1, 3, &request).results[0].error_code.0
    }
}

#[test]
fn two_members_share_a_generation_and_the_leader_assigns() {
    let (mut party, a, b) = Party::of_two();
    assert_eq!((party.beat(10, &a, 2), party.beat(11, &b, 2)), (NONE, NONE));
    let group = party.describe();
    assert_eq!((group.group_state.as_str(), group.protocol_type.as_str()), ("Stable", "consumer"));
    assert_eq!(group.protocol_data, "range");
    let found: BTreeMap<_, _> = group
        .members
        .iter()
        .map(|m| (m.member_id.as_str(), (&m.member_assignment[..], m.client_id.as_str())))
        .collect();
    assert_eq!(found, BTreeMap::from([(&*a, (&b"half"[..], "test")), (&*b, (&b"rest"[..], "test"))]));
    assert_eq!(group.members[0].member_metadata, subscription("t"));
    assert_eq!(group.members[0].client_host, "/127.0.0.1");
}

#[test]
fn a_silent_member_is_removed_and_the_others_rebalance() {
    let (mut party, a, b) = Party::of_two();
    party.advance(9);
    assert_eq!(party.beat(10, &a, 2), NONE);
    party.advance(1);
    assert_eq!(party.state(), "PreparingRebalance", "the session of b is over");
    assert_eq!(party.beat(11, &b, 2), UNKNOWN_MEMBER);
    assert_eq!(party.beat(10, &a, 2), REBALANCE);
    party.send(10, 9, &join(&a));
    assert_eq!(party.joined(10).unwrap().generation_id, 3);
    party.advance(10);
    assert_eq!(party.state(), "Empty", "generation 3 began and a never synced nor beat");
}

#[test]
fn a_commit_is_a_sign_of_life() {
    let (mut party, a, b) = Party::of_two();
    for _ in 0..3 {
        party.advance(9);
        assert_eq!((party.commit(8, &a, 2, 5), party.commit(8, &b, 2, 5)), (NONE, NONE));
    }
    assert_eq!(party.state(), "Stable");
}

#[test]
fn a_member_that_does_not_rejoin_in_time_is_removed() {
    let (mut party, a, b) = Party::of_two();
    party.send(10, 9, &join(&a));
    assert_eq!(party.joined(10), None, "b has to come as well");
    for _ in 0..6 {
        assert_eq!(party.beat(11, &b, 2), REBALANCE);
        party.advance(10 - 1);
    }
    assert_eq!(party.beat(11, &b, 2), REBALANCE);
    party.advance(6);
    let answer = party.joined(10).unwrap();
    assert_eq!((answer.generation_id, answer.members.len()), (3, 1));
    assert_eq!(party.beat(11, &b, 2), UNKNOWN_MEMBER);
}

#[test]
fn a_member_that_does_not_sync_in_time_is_removed() {
    let (mut party, a, b) = Party::of_two();
    party.send(10, 9, &join(&a));
    party.send(11, 9, &join(&b));
    assert_eq!((party.joined(10).unwrap().generation_id, party.joined(11).unwrap().generation_id), (3, 3));
    party.send(10, 5, &sync(&a, 3, &[]));
    assert_eq!(party.synced(10), Some((NONE, Bytes::new())), "a leader that assigns nothing");
    for _ in 0..6 {
        party.advance(9);
        assert_eq!((party.beat(10, &a, 3), party.beat(11, &b, 3)), (NONE, NONE));
    }
    party.advance(6);
    assert_eq!((party.beat(10, &a, 3), party.beat(11, &b, 3)), (REBALANCE, UNKNOWN_MEMBER));
}

#[test]
fn a_rebalance_does_not_wait_for_members_that_left() {
    let (mut party, a, b) = Party::of_two();
    party.send(10, 9, &join(&a));
    assert_eq!(party.joined(10), None);
    assert_eq!(
        party.leave(11, &[(&b, None), ("x", None), ("", Some("nobody"))]),
        [NONE, UNKNOWN_MEMBER, UNKNOWN_MEMBER]
    );
    assert_eq!(party.joined(10).unwrap().generation_id, 3);
    assert_eq!(party.delete(), NON_EMPTY);
    let request = leave_group::Request { group_id: "g".to_owned(), member_id: a, ..Default::default() };
    assert_eq!(party.call(10, 2, &request).error_code.0, NONE);
    assert_eq!(party.call(10, 2, &request).error_code.0, UNKNOWN_MEMBER);
    assert_eq!(party.state(), "Empty");
    assert_eq!(party.call(10, 9, &join("a")).error_code.0, UNKNOWN_MEMBER, "an empty group knows no member");
    assert_eq!(party.delete(), NONE);
    assert_eq!((party.delete(), party.describe().error_code.0), (NOT_FOUND, NOT_FOUND));
    assert_eq!(party.leave(10, &[("x", None)]), [UNKNOWN_MEMBER]);
}

#[test]
fn in_version_0_the_session_timeout_is_the_rebalance_timeout() {
    let mut party = Party::new();
    let answer = party.call(10, 0, &join(""));
    assert_eq!((answer.error_code.0, answer.generation_id, answer.members.len()), (NONE, 1, 1));
    let a = answer.member_id;
    let request = sync_group::Request { protocol_type: None, protocol_name: None, ..sync(&a, 1, &[]) };
    assert_eq!(party.call(10, 0, &request).error_code.0, NONE);
    party.send(11, 0, &join(""));
    assert!(party.inbox.is_empty());
    party.advance(5);
    assert_eq!(party.beat(10, &a, 1), REBALANCE);
    party.advance(5);
    let answer = party.take::<join_group::Request>(11, 0).unwrap();
    assert_eq!((answer.generation_id, answer.members.len()), (2, 1), "ten seconds, not sixty");
}

#[test]
fn the_protocol_is_the_common_one_that_most_members_prefer() {
    let mut party = Party::new();
    let mut ids = Vec::new();
    for (client, protocols) in [(10, &["x", "y", "z"]), (11, &["z", "y", "w"]), (12, &["w", "z", "y"])] {
        let id = party.call(client, 9, &join_as("", protocols)).member_id;
        party.send(client, 9, &join_as(&id, protocols));
        ids.push((client, id, protocols));
    }
    assert_eq!(party.call(13, 9, &join_as("", &["x", "w"])).error_code.0, INCONSISTENT);
    let other_type = join_group::Request { protocol_type: "connect".to_owned(), ..join_as("", &["z"]) };
    assert_eq!(party.call(13, 9, &other_type).error_code.0, INCONSISTENT);
    let (_, first, protocols) = &ids[0];
    assert_eq!(party.joined(10).unwrap().protocol_name.as_deref(), Some("x"), "while it was alone");
    party.send(10, 9, &join_as(first, *protocols));
    for (client, id, _) in &ids {
        let answer = party.joined(*client).unwrap();
        assert_eq!((&answer.member_id, answer.protocol_name.as_deref()), (id, Some("z")));
    }
    let request = sync_group::Request { protocol_name: Some("y".to_owned()), ..sync(first, 2, &[]) };
    assert_eq!(party.call(10, 5, &request).error_code.0, INCONSISTENT);
}

#[test]
fn an_unchanged_rejoin_is_answered_and_a_changed_one_rebalances() {
    let (mut party, a, b) = Party::of_two();
    let answer = party.call(11, 9, &join(&b));
    assert_eq!((answer.error_code.0, answer.generation_id, answer.members.len()), (NONE, 2, 0));
    assert_eq!(party.state(), "Stable");
    party.send(11, 9, &join_as(&b, &["range", "more"]));
    assert_eq!((party.joined(11), party.state().as_str()), (None, "PreparingRebalance"));
    party.send(10, 9, &join(&a));
    assert_eq!(party.joined(11).unwrap().generation_id, 3);
    assert_eq!(party.joined(10).unwrap().generation_id, 3);
    let answer = party.call(10, 9, &join(&a));
    assert_eq!((answer.generation_id, answer.members.len()), (3, 2), "the answer before may have been lost");
    party.send(11, 5, &sync(&b, 3, &[]));
    party.send(10, 9, &join_as(&a, &["range", "more"]));
    assert_eq!(party.synced(11), Some((REBALANCE, Bytes::new())), "a new rebalance before the leader assigned");
}

#[test]
fn a_static_member_keeps_its_place_and_fences_the_one_before() {
    let mut party = Party::new();
    let first = party.call(10, 9, &join_static("i", ""));
    assert_eq!((first.error_code.0, first.generation_id), (NONE, 1));
    assert!(first.member_id.starts_with("i-"));
    party.send(10, 5, &sync(&first.member_id, 1, &[(&first.member_id, "all")]));
    assert_eq!(party.synced(10).unwrap().1, "all");

    let second = party.call(11, 9, &join_static("i", ""));
    assert_eq!((second.error_code.0, second.generation_id, second.skip_assignment), (NONE, 1, true));
    assert!(second.member_id != first.member_id && second.leader == second.member_id && second.members.len() == 1);
    party.send(11, 5, &sync(&second.member_id, 1, &[]));
    assert_eq!(party.synced(11).unwrap().1, "all", "its assignment waited for it");
    assert_eq!(party.beat_as(10, &first.member_id, Some("i"), 1), FENCED);
    assert_eq!(party.call(10, 9, &join_static("i", &first.member_id)).error_code.0, FENCED);
    assert_eq!(party.leave(10, &[(&first.member_id, Some("i"))]), [FENCED]);
    assert_eq!(party.state(), "Stable");

    let old = party.call(12, 8, &join_static("i", ""));
    assert_eq!((old.leader, old.members.len()), (second.member_id, 0), "before v9 it is kept from assigning");
    assert_eq!(party.leave(1, &[("", Some("i"))]), [NONE], "as an operator does");
    assert_eq!(party.state(), "Empty");
}

#[test]
fn a_new_member_id_expires_after_the_session_timeout() {
    let mut party = Party::new();
    let late = party.call(10, 9, &join("")).member_id;
    party.enter(11);
    assert_eq!(party.joined(11), None);
    party.advance(10);
    assert_eq!(party.joined(11).unwrap().members.len(), 1);
    assert_eq!(party.call(10, 9, &join(&late)).error_code.0, UNKNOWN_MEMBER);
}

#[test]
fn a_new_group_waits_for_the_initial_rebalance_delay() {
    let delay = 3 * SECOND;
    let mut party = Party::with(Options { group_initial_rebalance_delay: delay, ..Options::default() });
    party.enter(10);
    party.advance(2);
    party.enter(11);
    party.advance(2);
    assert_eq!(party.joined(10), None, "a member joined, so the group waits once more");
    party.advance(3);
    assert_eq!(party.joined(10).unwrap().members.len(), 2);
    assert_eq!(party.joined(11).unwrap().generation_id, 1);
}

#[test]
fn invalid_requests_are_rejected() {
    let mut party = Party::new();
    for (request, code) in [
        (join_group::Request { group_id: String::new(), ..join("") }, INVALID_GROUP_ID),
        (join_group::Request { session_timeout_ms: 5_999, ..join("") }, INVALID_SESSION),
        (join_group::Request { session_timeout_ms: 1_800_001, ..join("") }, INVALID_SESSION),
        (join_group::Request { protocols: Vec::new(), ..join("") }, INCONSISTENT),
        (join_group::Request { protocol_type: String::new(), ..join("") }, INCONSISTENT),
        (join("nobody"), UNKNOWN_MEMBER),
    ] {
        assert_eq!(party.call(10, 9, &request).error_code.0, code);
    }
    let bare = sync_group::Request { protocol_name: None, ..sync("x", 1, &[]) };
    assert_eq!(party.call(10, 5, &bare).error_code.0, INCONSISTENT);
    assert_eq!(party.call(10, 4, &bare).error_code.0, UNKNOWN_MEMBER);
    let (mut party, a, _) = Party::of_two();
    assert_eq!(party.beat(10, &a, 1), ILLEGAL_GENERATION);
    assert_eq!(party.call(10, 5, &sync(&a, 1, &[])).error_code.0, ILLEGAL_GENERATION);
}

#[test]
fn only_members_of_the_current_generation_may_commit() {
    let (mut party, a, b) = Party::of_two();
    assert_eq!(party.commit(8, &a, 2, 7), NONE);
    assert_eq!(party.commit(8, "", -1, 1), UNKNOWN_MEMBER);
    assert_eq!(party.commit(8, "stranger", 2, 1), UNKNOWN_MEMBER);
    assert_eq!(party.commit(8, &a, 1, 1), ILLEGAL_GENERATION);
    party.send(10, 9, &join(&a));
    assert_eq!(party.commit(8, &b, 2, 8), NONE, "what it read before it joins again");
    party.send(11, 9, &join(&b));
    assert_eq!(party.commit(8, &b, 3, 9), REBALANCE);
    party.inbox.clear();
    assert_eq!(party.leave(10, &[(&a, None), (&b, None)]), [NONE, NONE]);
    assert_eq!(party.commit(8, &a, 3, 1), UNKNOWN_MEMBER);
    assert_eq!(party.commit(8, "", -1, 10), NONE, "the group has no members");
    assert_eq!(party.delete(), NONE);
    assert_eq!((party.commit(8, &a, 3, 1), party.commit(9, &a, 3, 1)), (ILLEGAL_GENERATION, NOT_FOUND));
    let offsets = offset_fetch::Request { group_id: "g".to_owned(), topics: None, ..Default::default() };
    assert!(party.call(1, 7, &offsets).topics.is_empty(), "the offsets went with the group");
    assert_eq!(party.commit(8, "", -1, 10), NONE);
    assert_eq!((party.state().as_str(), party.describe().protocol_type.as_str()), ("Empty", ""));
}

#[test]
fn offsets_of_unread_topics_can_be_deleted() {
    let (mut party, a, _) = Party::of_two();
    party.world.create("other", 1, &[]);
    let topic = |name: &str| offset_delete::Topic {
        name: name.to_owned(),
        partitions: vec![offset_delete::Partition { partition_index: 0 }],
    };
    let request =
        offset_delete::Request { group_id: "g".to_owned(), topics: vec![topic("t"), topic("other"), topic("no")] };
    assert_eq!(party.commit(8, &a, 2, 7), NONE);
    let codes = |answer: offset_delete::Response| -> Vec<_> {
        answer.topics.iter().map(|t| t.partitions[0].error_code.0).collect()
    };
    assert_eq!(codes(party.call(1, 0, &request)), [SUBSCRIBED, NONE, 3]);
    party.advance(10);
    party.advance(60);
    assert_eq!(party.state(), "Empty");
    assert_eq!(codes(party.call(1, 0, &request)), [NONE, NONE, 3]);
    let offsets = offset_fetch::Request { group_id: "g".to_owned(), topics: None, ..Default::default() };
    assert!(party.call(1, 7, &offsets).topics.iter().all(|t| t.partitions.is_empty()));
}

#[test]
fn groups_are_listed_by_state_and_type() {
    let (mut party, ..) = Party::of_two();
    let other = offset_commit::Request { group_id: "simple".to_owned(), ..Default::default() };
    party.call(1, 8, &other);
    let mut list = |states: &[&str], types: &[&str]| -> Vec<String> {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let request = list_groups::Request { states_filter: own(states), types_filter: own(types) };
        let groups = party.call(1, 5, &request).groups;
        groups
            .into_iter()
            .map(|g| format!("{} {} {} {}", g.group_id, g.protocol_type, g.group_state, g.group_type))
            .collect()
    };
    let (group, simple) = ("g consumer Stable classic", "simple  Empty classic");
    assert_eq!(list(&[], &[]), [group, simple]);
    assert_eq!(list(&["stable"], &["Classic"]), [group]);
    assert_eq!(list(&["EMPTY"], &[]), [simple]);
    assert!(list(&[], &["consumer"]).is_empty());
}

#[test]
fn a_group_continues_on_another_coordinator() {
    let mut party = Party::with(Options { nodes: 2, ..Options::default() });
    party.world.cluster.move_coordinator(party.world.now, "g", 1).unwrap();
    let a = party.enter(10);
    assert_eq!(party.joined(10).unwrap().generation_id, 1);
    party.send(10, 5, &sync(&a, 1, &[(&a, "all")]));
    party.inbox.clear();
    let new = party.call(11, 9, &join("")).member_id;
    party.send(11, 9, &join(&new));
    party.world.cluster.move_coordinator(party.world.now, "g", 2).unwrap();
    party.collect();
    assert_eq!(party.joined(11).unwrap().error_code.0, NOT_COORDINATOR);
    assert_eq!(party.beat(10, &a, 1), NOT_COORDINATOR);
    assert_eq!(party.call(10, 9, &join(&a)).error_code.0, NOT_COORDINATOR);
    party.world.cluster.connect(2, Connection(20));
    party.send(20, 9, &join(&a));
    assert_eq!(party.joined(20).unwrap().generation_id, 2, "the new one knows it; who was not in a generation is gone");
    assert_eq!(party.call(2, 9, &join(&new)).error_code.0, UNKNOWN_MEMBER);
    party.send(20, 5, &sync(&a, 2, &[(&a, "all")]));
    party.inbox.clear();
    party.world.cluster.kill(party.world.now, 2).unwrap();
    while party.world.cluster.poll_send().is_some() {}
    assert_eq!(party.beat(10, &a, 2), NONE, "and so does the one after it, without a rebalance");
}

#[test]
fn a_waiting_member_that_disconnects_stays_until_its_session_ends() {
    let (mut party, a, b) = Party::of_two();
    party.send(10, 9, &join(&a));
    party.world.cluster.disconnect(party.world.now, Connection(10));
    party.send(11, 9, &join(&b));
    let answer = party.joined(11).unwrap();
    assert_eq!((answer.generation_id, answer.leader), (3, a));
    party.advance(10);
    assert_eq!(party.state(), "Empty");
}

#[test]
fn members_count_towards_memory() {
    let mut party = Party::with(Options { max_bytes: 8 << 10, ..Options::default() });
    let mut codes = Vec::new();
    for _ in 0..200 {
        codes.push(party.call(10, 9, &join("")).error_code.0);
    }
    assert_eq!(codes.first(), Some(&MEMBER_ID_REQUIRED));
    assert_eq!(codes.last(), Some(&15), "COORDINATOR_NOT_AVAILABLE");
    party.advance(10);
    assert_eq!(party.call(10, 9, &join("")).error_code.0, MEMBER_ID_REQUIRED, "ids that were not used cost no more");
    assert_eq!(party.world.cluster.next_timeout(), Some(20 * SECOND));
}
