//! Tests groups with members of both protocols (KIP-848, online migration): the replies that members of each protocol
//! get when the group changes its protocol. The assertions match the replies of Apache Kafka 4.4 in the cases in which
//! Kafka computes assignments immediately.

use super::World;
use bytes::Bytes;
use klamm::api::consumer_group_heartbeat::{self, JOIN, LEAVE, TopicPartitions};
use klamm::api::data::consumer_protocol::{self, Assignment, Subscription};
use klamm::api::*;
use klamm::broker::Options;
use klamm::wire::Uuid;
use std::collections::BTreeMap;
use std::time::Duration;

const NONE: i16 = 0;
const ILLEGAL_GENERATION: i16 = 22;
const INCONSISTENT: i16 = 23;
const UNKNOWN_MEMBER: i16 = 25;
const REBALANCE: i16 = 27;
const NOT_FOUND: i16 = 69;
const FENCED_INSTANCE: i16 = 82;

/// A member of the classic protocol from its client's point of view.
#[derive(Clone, Debug)]
struct Classic {
    id: String,
    instance: Option<&'static str>,
    generation: i32,
    owned: Vec<i32>,
}

/// A cluster with a topic of four partitions, and a classic group with one member that reads it.
struct Migration {
    world: World,
    topic: Uuid,
    classic: Classic,
}

fn encoded<M: Message>(message: &M) -> Bytes {
    consumer_protocol::encode(1, message).unwrap().into()
}

fn list(partitions: &[i32]) -> Vec<consumer_protocol::TopicPartitions> {
    vec![consumer_protocol::TopicPartitions { topic: "t".to_owned(), partitions: partitions.to_vec() }]
}

fn native(id: &str, member_epoch: i32) -> consumer_group_heartbeat::Request {
    let joins = member_epoch == JOIN;
    consumer_group_heartbeat::Request {
        group_id: "g".to_owned(),
        member_id: id.to_owned(),
        member_epoch,
        rebalance_timeout_ms: if joins { 60_000 } else { -1 },
        subscribed_topic_names: joins.then(|| vec!["t".to_owned()]),
        topic_partitions: joins.then(Vec::new),
        ..Default::default()
    }
}

impl Migration {
    fn with(policy: &str, instance: Option<&'static str>, user_data: Option<&'static [u8]>) -> Self {
        let config = BTreeMap::from([("group.consumer.migration.policy".to_owned(), policy.to_owned())]);
        let mut world = World::new(Options { config, ..Options::default() });
        let topic = world.create("t", 4, &[]);
        let classic = Classic { id: String::new(), instance, generation: -1, owned: Vec::new() };
        let mut migration = Self { world, topic, classic: classic.clone() };
        let mut classic = migration.rejoin(classic).unwrap();
        let user_data = user_data.map(Bytes::from_static);
        let assignment = Assignment { assigned_partitions: list(&[0, 1, 2, 3]), user_data };
        let assignment = sync_group::Assignment { member_id: classic.id.clone(), assignment: encoded(&assignment) };
        assert_eq!(migration.sync_with(&mut classic, vec![assignment]), NONE);
        assert_eq!(classic.owned, [0, 1, 2, 3]);
        migration.classic = classic;
        migration
    }

    fn new() -> Self {
        Self::with("BIDIRECTIONAL", None, None)
    }

    /// Joins with the partitions that the member owns. The error is the code.
    fn rejoin(&mut self, member: Classic) -> Result<Classic, i16> {
        let subscription =
            Subscription { topics: vec!["t".to_owned()], owned_partitions: list(&member.owned), ..Default::default() };
        let protocol = join_group::Protocol { name: "range".to_owned(), metadata: encoded(&subscription) };
        let request = join_group::Request {
            group_id: "g".to_owned(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 20_000,
            member_id: member.id.clone(),
            group_instance_id: member.instance.map(str::to_owned),
            protocol_type: "consumer".to_owned(),
            protocols: vec![protocol],
            ..Default::default()
        };
        // v5 has instance IDs, and asks no static member for a member ID first.
        let version = if member.instance.is_some() { 5 } else { 3 };
        let answer = self.world.call(1, version, &request);
        match answer.error_code.0 {
            NONE => Ok(Classic { id: answer.member_id, generation: answer.generation_id, ..member }),
            code => Err(code),
        }
    }

    fn sync_with(&mut self, member: &mut Classic, assignments: Vec<sync_group::Assignment>) -> i16 {
        let request = sync_group::Request {
            group_id: "g".to_owned(),
            generation_id: member.generation,
            member_id: member.id.clone(),
            group_instance_id: member.instance.map(str::to_owned),
            protocol_type: Some("consumer".to_owned()),
            protocol_name: Some("range".to_owned()),
            assignments,
        };
        let answer = self.world.call(1, 5, &request);
        if answer.error_code.0 == NONE {
            let assignment = consumer_protocol::decode::<Assignment>(answer.assignment).unwrap();
            member.owned = assignment.assigned_partitions.into_iter().flat_map(|topic| topic.partitions).collect();
        }
        answer.error_code.0
    }

    fn sync(&mut self, member: &mut Classic) -> i16 {
        self.sync_with(member, Vec::new())
    }

    fn beat(&mut self, member: &Classic) -> i16 {
        let request = heartbeat::Request {
            group_id: "g".to_owned(),
            generation_id: member.generation,
            member_id: member.id.clone(),
            group_instance_id: member.instance.map(str::to_owned),
        };
        self.world.call(1, 4, &request).error_code.0
    }

    /// Sends a heartbeat of the other protocol. Returns the error code, the epoch, and the partitions if they changed.
    fn beat_native(&mut self, request: &consumer_group_heartbeat::Request) -> (i16, i32, Option<Vec<i32>>) {
        let answer = self.world.call(1, 1, request);
        let partitions = answer
            .assignment
            .map(|assignment| assignment.topic_partitions.into_iter().flat_map(|topic| topic.partitions).collect());
        (answer.error_code.0, answer.member_epoch, partitions)
    }

    fn owning(&self, id: &str, epoch: i32, partitions: &[i32]) -> consumer_group_heartbeat::Request {
        let owned = TopicPartitions { topic_id: self.topic, partitions: partitions.to_vec() };
        consumer_group_heartbeat::Request { topic_partitions: Some(vec![owned]), ..native(id, epoch) }
    }

    fn protocol(&mut self) -> String {
        let request = list_groups::Request::default();
        self.world.call(1, 5, &request).groups.remove(0).group_type
    }

    /// Returns the types and partition counts of the members.
    fn described(&mut self) -> Vec<(i8, usize)> {
        let request = consumer_group_describe::Request { group_ids: vec!["g".to_owned()], ..Default::default() };
        let members = self.world.call(1, 1, &request).groups.remove(0).members;
        let count = |member: &consumer_group_describe::Member| {
            member.assignment.topic_partitions.iter().map(|topic| topic.partitions.len()).sum()
        };
        let mut found: Vec<_> = members.iter().map(|member| (member.member_type, count(member))).collect();
        found.sort_unstable();
        found
    }

    fn commit(&mut self, version: i16, member: &str, epoch: i32) -> i16 {
        let topic =
            offset_commit::Topic { name: "t".to_owned(), partitions: vec![Default::default()], ..Default::default() };
        let request = offset_commit::Request {
            group_id: "g".to_owned(),
            member_id: member.to_owned(),
            generation_id_or_member_epoch: epoch,
            topics: vec![topic],
            ..Default::default()
        };
        self.world.call(1, version, &request).topics[0].partitions[0].error_code.0
    }

    /// Lets a member of the new protocol join, and both reach their partitions.
    fn settled() -> (Self, i32) {
        let mut m = Self::new();
        let (code, epoch, partitions) = m.beat_native(&native("n", JOIN));
        assert_eq!((code, partitions), (NONE, Some(vec![])), "the classic member still owns all partitions");
        // The classic member keeps half, and joins again when it has released the rest.
        assert_eq!(m.beat(&m.classic.clone()), REBALANCE);
        let mut classic = m.rejoin(m.classic.clone()).unwrap();
        assert_eq!(m.sync(&mut classic), NONE);
        assert_eq!(classic.owned.len(), 2);
        assert_eq!(m.beat(&classic), REBALANCE, "until it has shown that it released them");
        let mut classic = m.rejoin(classic).unwrap();
        assert_eq!(m.sync(&mut classic), NONE);
        assert_eq!((classic.owned.len(), m.beat(&classic)), (2, NONE));
        let (code, epoch, partitions) = m.beat_native(&m.owning("n", epoch, &[]));
        assert_eq!((code, epoch), (NONE, classic.generation));
        let mut all = [partitions.unwrap(), classic.owned.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
        m.classic = classic;
        (m, epoch)
    }
}

#[test]
fn a_classic_group_becomes_a_consumer_group_and_its_members_share() {
    let (mut m, epoch) = Migration::settled();
    assert_eq!((m.protocol().as_str(), m.described()), ("consumer", vec![(0, 2), (1, 2)]));
    let classic = m.classic.clone();
    assert_eq!(m.commit(8, &classic.id, classic.generation), NONE, "members of the classic protocol need no v9");
    assert_eq!(m.commit(9, &classic.id, classic.generation + 1), ILLEGAL_GENERATION);
    assert_eq!(m.commit(9, "n", epoch), NONE);
    let other = Classic { generation: classic.generation - 1, ..classic.clone() };
    assert_eq!(m.beat(&other), ILLEGAL_GENERATION);
    assert_eq!(m.sync(&mut other.clone()), ILLEGAL_GENERATION);
    let other = Classic { id: "n".to_owned(), generation: epoch, ..classic };
    assert_eq!(m.beat(&other), UNKNOWN_MEMBER, "the member uses the other protocol");
}

#[test]
fn a_group_becomes_classic_again_when_its_last_native_member_leaves() {
    let (mut m, _) = Migration::settled();
    assert_eq!(m.beat_native(&native("n", LEAVE)).0, NONE);
    assert_eq!(m.protocol(), "classic");
    assert_eq!(m.beat(&m.classic.clone()), REBALANCE);
    let mut classic = m.rejoin(m.classic.clone()).unwrap();
    let assignment = Assignment { assigned_partitions: list(&[0, 1, 2, 3]), user_data: None };
    let assignment = sync_group::Assignment { member_id: classic.id.clone(), assignment: encoded(&assignment) };
    assert_eq!(m.sync_with(&mut classic, vec![assignment]), NONE);
    assert_eq!((classic.owned.len(), m.beat(&classic)), (4, NONE));
}

#[test]
fn the_last_native_member_may_also_time_out() {
    let (mut m, _) = Migration::settled();
    for _ in 0..9 {
        m.world.advance(Duration::from_secs(5));
        let _ = m.beat(&m.classic.clone());
    }
    assert_eq!(m.protocol(), "classic");
}

#[test]
fn a_classic_member_that_is_silent_or_does_not_join_again_is_removed() {
    let (mut m, epoch) = Migration::settled();
    m.world.advance(Duration::from_secs(10));
    assert_eq!(m.beat(&m.classic.clone()), UNKNOWN_MEMBER, "its own session timeout counts");
    let (_, epoch, partitions) = m.beat_native(&native("n", epoch));
    assert_eq!(partitions.unwrap().len(), 4);

    // A member that only sends heartbeats although it has to join again.
    let joining = Classic { id: String::new(), owned: Vec::new(), ..m.classic.clone() };
    let mut classic = m.rejoin(joining).unwrap();
    assert_eq!(m.sync(&mut classic), NONE);
    m.beat_native(&m.owning("n", epoch, &[0, 1, 2, 3]));
    assert_eq!(m.beat_native(&native("o", JOIN)).0, NONE);
    for _ in 0..4 {
        assert_eq!(m.beat(&classic), REBALANCE);
        m.world.advance(Duration::from_secs(5));
    }
    assert_eq!(m.beat(&classic), UNKNOWN_MEMBER, "20 s are its rebalance timeout");
}

#[test]
fn members_of_both_protocols_leave() {
    let (mut m, epoch) = Migration::settled();
    let leave = |id: &str| {
        let member = leave_group::Member { member_id: id.to_owned(), ..Default::default() };
        leave_group::Request { group_id: "g".to_owned(), members: vec![member], ..Default::default() }
    };
    assert_eq!(m.world.call(1, 5, &leave("n")).members[0].error_code.0, UNKNOWN_MEMBER);
    assert_eq!(m.world.call(1, 5, &leave(&m.classic.id.clone())).members[0].error_code.0, NONE);
    let (_, _, partitions) = m.beat_native(&native("n", epoch));
    assert_eq!((partitions.unwrap().len(), m.protocol().as_str()), (4, "consumer"));
}

#[test]
fn a_static_member_changes_its_protocol_without_leaving() {
    let mut m = Migration::with("bidirectional", Some("i"), None);
    let old = m.classic.clone();
    let mut joining = native("n", JOIN);
    joining.instance_id = Some("i".to_owned());
    let (code, _, partitions) = m.beat_native(&joining);
    assert_eq!((code, partitions.unwrap().len()), (NONE, 4));
    assert_eq!(m.beat(&old), FENCED_INSTANCE);
    // Back again: the group has no other member, so it becomes classic.
    let joining = Classic { id: String::new(), owned: Vec::new(), ..old };
    assert!(m.rejoin(joining).is_ok());
    assert_eq!(m.protocol(), "classic");
}

#[test]
fn the_policy_and_custom_assignors_prevent_a_migration() {
    for policy in ["disabled", "downgrade"] {
        let mut m = Migration::with(policy, None, None);
        assert_eq!(m.beat_native(&native("n", JOIN)).0, NOT_FOUND, "{policy}");
        assert_eq!(m.beat(&m.classic.clone()), NONE);
    }
    let mut m = Migration::with("bidirectional", None, Some(b"what a custom assignor keeps"));
    let answer = m.world.call(1, 1, &native("n", JOIN));
    assert_eq!(answer.error_code.0, NOT_FOUND);
    assert!(answer.error_message.unwrap().contains("custom assignor"));
    assert_eq!(m.beat(&m.classic.clone()), NONE);

    let mut m = Migration::with("disabled", None, None);
    m.world.advance(Duration::from_secs(10));
    assert_eq!(m.beat_native(&native("n", JOIN)).0, NONE);
    let joining = Classic { id: String::new(), owned: Vec::new(), ..m.classic.clone() };
    assert_eq!(m.rejoin(joining).unwrap_err(), INCONSISTENT);

    // A group that may not become classic keeps its members.
    let mut m = Migration::with("upgrade", None, None);
    assert_eq!(m.beat_native(&native("n", JOIN)).0, NONE);
    assert_eq!(m.beat_native(&native("n", LEAVE)).0, NONE);
    assert_eq!(m.protocol(), "consumer");
    assert_eq!(m.beat(&m.classic.clone()), REBALANCE);
}

#[test]
fn a_classic_member_without_an_assignor_in_common_is_rejected() {
    let (mut m, _) = Migration::settled();
    let subscription = Subscription { topics: vec!["t".to_owned()], ..Default::default() };
    let joining = |name: &str, metadata: Bytes| join_group::Request {
        group_id: "g".to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 20_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![join_group::Protocol { name: name.to_owned(), metadata }],
        ..Default::default()
    };
    for request in [joining("sticky", encoded(&subscription)), joining("range", Bytes::from_static(b"?"))] {
        assert_eq!(m.world.call(1, 3, &request).error_code.0, INCONSISTENT);
    }
    let connect =
        join_group::Request { protocol_type: "connect".to_owned(), ..joining("range", encoded(&subscription)) };
    assert_eq!(m.world.call(1, 3, &connect).error_code.0, INCONSISTENT);
}
