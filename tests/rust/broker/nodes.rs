//! Tests clusters of several nodes: leaders, coordinators, topics, committed offsets and producer IDs.

use super::{World, batch, fetch_request, produce_request};
use klamm::api::*;
use klamm::broker::Options;
use klamm::record::Producer;
use klamm::wire::Uuid;

#[test]
fn a_node_answers_only_for_partitions_it_leads_and_names_the_leader() {
    let mut world = World::new(Options { nodes: 3, ..Options::default() });
    world.create("t", 6, &[]);
    let metadata = world.call(2, 12, &metadata::Request { topics: None, ..Default::default() });
    assert_eq!(metadata.brokers.len(), 3);
    let partitions = &metadata.topics[0].partitions;
    let leaders: Vec<_> = partitions.iter().map(|p| p.leader_id).collect();
    let mut sorted = leaders.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 1, 2, 2, 3, 3]);
    assert!(partitions.iter().all(|p| p.replica_nodes.len() == 3 && p.replica_nodes[0] == p.leader_id));

    let leader = leaders[0] as u64;
    let other = if leader == 1 { 2 } else { 1 };
    let request = produce_request("t", batch(&["a"], Producer::NONE));
    let answer = world.call(other, 12, &request);
    let partition = &answer.responses[0].partition_responses[0];
    assert_eq!(partition.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(partition.current_leader.leader_id, leaders[0]);
    assert_eq!(answer.node_endpoints[0].port, 9000 + leaders[0]);
    assert_eq!(world.call(leader, 12, &request).responses[0].partition_responses[0].error_code, ErrorCode::NONE);
    let code = |answer: fetch::Response| answer.responses[0].partitions[0].error_code;
    assert_eq!(code(world.call(other, 10, &fetch_request(0))), ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(code(world.call(leader, 10, &fetch_request(0))), ErrorCode::NONE);
}

#[test]
fn no_topics_means_all_in_metadata_v0_and_none_later() {
    let mut world = World::with_topic();
    world.create("u", 2, &[]);
    let none = metadata::Request { topics: Some(Vec::new()), ..Default::default() };
    let all = metadata::Request { topics: None, ..Default::default() };
    let names =
        |response: metadata::Response| -> Vec<_> { response.topics.into_iter().filter_map(|t| t.name).collect() };
    assert_eq!(names(world.call(1, 0, &none)), ["t", "u"]);
    assert_eq!(names(world.call(1, 1, &none)), [""; 0]);
    assert_eq!(names(world.call(1, 1, &all)), ["t", "u"]);
    assert_eq!(names(world.call(1, 13, &all)), ["t", "u"]);
}

#[test]
fn a_metadata_request_creates_a_topic_unless_auto_creation_is_off() {
    let ask = |name: &str, allow| metadata::Request {
        topics: Some(vec![metadata::TopicRequest { name: Some(name.to_owned()), ..Default::default() }]),
        allow_auto_topic_creation: allow,
        ..Default::default()
    };
    let mut world = World::new(Options { default_partitions: 4, ..Options::default() });
    let mut first = |version, name, allow| world.call(1, version, &ask(name, allow)).topics.remove(0);
    assert_eq!(first(4, "new", false).error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(first(4, "a/b", true).error_code, ErrorCode::INVALID_TOPIC_EXCEPTION);
    let made = first(12, "new", true);
    assert_eq!((made.error_code, made.partitions.len()), (ErrorCode::NONE, 4));
    assert!(!made.topic_id.is_zero());
    assert_eq!(first(1, "newer", true).partitions.len(), 4);

    let mut world = World::new(Options { auto_create_topics: false, ..Options::default() });
    assert_eq!(world.call(1, 1, &ask("new", true)).topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn metadata_finds_a_topic_by_id() {
    let mut world = World::new(Options::default());
    let topic_id = world.create("t", 1, &[]);
    let mut by_id = |version, topic_id| {
        let topics = Some(vec![metadata::TopicRequest { topic_id, name: None }]);
        world.call(1, version, &metadata::Request { topics, ..Default::default() }).topics.remove(0)
    };
    assert_eq!(by_id(12, topic_id).name.as_deref(), Some("t"));
    assert_eq!(by_id(12, Uuid([9; 16])).error_code, ErrorCode::UNKNOWN_TOPIC_ID);
    assert_eq!(by_id(10, topic_id).error_code, ErrorCode::INVALID_REQUEST);
}

#[test]
fn topics_that_cannot_be_created_say_why() {
    let mut world = World::with_topic();
    let plain = |name: &str| create_topics::Topic {
        name: name.to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let assign = |indexes: &[i32], brokers: &[i32]| create_topics::Topic {
        num_partitions: -1,
        replication_factor: -1,
        assignments: indexes
            .iter()
            .map(|i| create_topics::ReplicaAssignment { partition_index: *i, broker_ids: brokers.to_vec() })
            .collect(),
        ..plain("x")
    };
    let config = vec![create_topics::Config { name: "no.such".to_owned(), value: Some(String::new()) }];
    for (topic, code) in [
        (plain("t"), ErrorCode::TOPIC_ALREADY_EXISTS),
        (plain("a b"), ErrorCode::INVALID_TOPIC_EXCEPTION),
        (create_topics::Topic { num_partitions: 0, ..plain("x") }, ErrorCode::INVALID_PARTITIONS),
        (create_topics::Topic { num_partitions: 10_001, ..plain("x") }, ErrorCode::POLICY_VIOLATION),
        (create_topics::Topic { replication_factor: 2, ..plain("x") }, ErrorCode::INVALID_REPLICATION_FACTOR),
        (create_topics::Topic { replication_factor: 0, ..plain("x") }, ErrorCode::INVALID_REPLICATION_FACTOR),
        (create_topics::Topic { configs: config, ..plain("x") }, ErrorCode::INVALID_CONFIG),
        (create_topics::Topic { num_partitions: 1, ..assign(&[0], &[1]) }, ErrorCode::INVALID_REQUEST),
        (assign(&[0, 2], &[1]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assign(&[0], &[2]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assign(&[0], &[1, 1]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
    ] {
        let answer = world.call(1, 7, &create_topics::Request { topics: vec![topic], ..Default::default() });
        assert_eq!(answer.topics[0].error_code, code, "{:?}", answer.topics[0]);
        assert!(answer.topics[0].error_message.is_some());
    }
    let twice = create_topics::Request { topics: vec![plain("x"), plain("x")], ..Default::default() };
    let answer = world.call(1, 7, &twice);
    assert!(answer.topics.iter().all(|t| t.error_code == ErrorCode::INVALID_REQUEST));
    let mut only = create_topics::Request { topics: vec![assign(&[1, 0], &[1])], validate_only: true, timeout_ms: 1 };
    assert_eq!(world.call(1, 7, &only).topics[0].num_partitions, 2);
    only.validate_only = false;
    assert_eq!(world.call(1, 7, &only).topics[0].error_code, ErrorCode::NONE, "validating made nothing");
}

/// Returns the client that is connected to a group's coordinator.
fn coordinator(world: &mut World, group: &str) -> u64 {
    let request = find_coordinator::Request { coordinator_keys: vec![group.to_owned()], ..Default::default() };
    let found = world.call(1, 4, &request).coordinators.remove(0);
    let old = find_coordinator::Request { key: group.to_owned(), ..Default::default() };
    assert_eq!(world.call(1, 0, &old).node_id, found.node_id);
    found.node_id as u64
}

#[test]
fn committed_offsets_are_returned_in_every_version() {
    let mut world = World::new(Options { nodes: 3, ..Options::default() });
    let topic_id = world.create("t", 2, &[]);
    let here = coordinator(&mut world, "g");
    for version in 0..=10 {
        let commit = |index, offset| offset_commit::Partition {
            partition_index: index,
            committed_offset: offset,
            committed_metadata: Some(format!("m{offset}")),
            ..Default::default()
        };
        let offset = 10 + i64::from(version);
        let topic = offset_commit::Topic {
            name: "t".to_owned(),
            topic_id,
            partitions: vec![commit(0, offset), commit(7, offset)],
        };
        let request = offset_commit::Request { group_id: "g".to_owned(), topics: vec![topic], ..Default::default() };
        let answer = world.call(here, version, &request).topics.remove(0);
        let codes: Vec<_> = answer.partitions.iter().map(|p| p.error_code).collect();
        assert_eq!(codes, [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]);
        let there = here % 3 + 1;
        let answer = world.call(there, version, &request).topics.remove(0);
        assert_eq!(answer.partitions[0].error_code, ErrorCode::NOT_COORDINATOR);

        let wanted = |all: bool| {
            let topics = vec![offset_fetch::Topic { name: "t".to_owned(), partition_indexes: vec![0, 1] }];
            let group_topics =
                vec![offset_fetch::GroupTopic { name: "t".to_owned(), topic_id, partition_indexes: vec![0, 1] }];
            let group = offset_fetch::Group {
                group_id: "g".to_owned(),
                topics: (!all).then_some(group_topics),
                ..Default::default()
            };
            offset_fetch::Request {
                group_id: "g".to_owned(),
                topics: (!all).then_some(topics),
                groups: vec![group],
                ..Default::default()
            }
        };
        let fetched = |mut response: offset_fetch::Response| -> Vec<_> {
            let partitions = if version >= 8 {
                let group = response.groups.remove(0);
                assert_eq!(group.error_code, ErrorCode::NONE);
                group.topics.into_iter().flat_map(|t| t.partitions).collect::<Vec<_>>()
            } else {
                response.topics.into_iter().flat_map(|t| t.partitions).collect()
            };
            partitions.into_iter().map(|p| (p.committed_offset, p.metadata.unwrap_or_default())).collect()
        };
        let committed = (offset, format!("m{offset}"));
        assert_eq!(fetched(world.call(here, version, &wanted(false))), [committed.clone(), (-1, String::new())]);
        if version >= 2 {
            assert_eq!(fetched(world.call(here, version, &wanted(true))), [committed]);
        }
        let answer = world.call(there, version, &wanted(false));
        let code = match version {
            0 | 1 => answer.topics[0].partitions[0].error_code,
            2..8 => answer.error_code,
            _ => answer.groups[0].error_code,
        };
        assert_eq!(code, ErrorCode::NOT_COORDINATOR);
    }
}
