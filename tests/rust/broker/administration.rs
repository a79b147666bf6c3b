//! Tests the administration APIs, except the APIs for topics and groups.

use super::{World, batch};
use klamm::api::*;
use klamm::broker::Options;
use klamm::record::Producer;

fn three_nodes() -> World {
    let mut world = World::new(Options { nodes: 3, max_bytes: 1000, ..Options::default() });
    world.create("t", 3, &[]);
    world
}

fn leader(world: &mut World, index: usize) -> (i32, Vec<i32>) {
    let topic = metadata::TopicRequest { name: Some("t".to_owned()), ..Default::default() };
    let request = metadata::Request { topics: Some(vec![topic]), ..Default::default() };
    let partition = world.call(1, 12, &request).topics.remove(0).partitions.remove(index);
    (partition.leader_id, partition.replica_nodes)
}

#[test]
fn the_whole_configuration_is_replaced() {
    let mut world = World::new(Options::default());
    world.create("t", 1, &[("retention.ms", "5"), ("max.message.bytes", "7")]);
    let mut alter = |name: &str, value: &str| {
        let config = alter_configs::Config { name: name.to_owned(), value: Some(value.to_owned()) };
        let resource = alter_configs::Resource {
            resource_type: describe_configs::TOPIC,
            resource_name: "t".to_owned(),
            configs: vec![config],
        };
        let request = alter_configs::Request { resources: vec![resource], validate_only: false };
        world.call(1, 2, &request).responses.remove(0).error_code
    };
    assert_eq!(alter("retention.ms", "x"), ErrorCode::INVALID_CONFIG);
    assert_eq!(alter("retention.ms", "9"), ErrorCode::NONE);
    let resource = describe_configs::Resource {
        resource_type: describe_configs::TOPIC,
        resource_name: "t".to_owned(),
        ..Default::default()
    };
    let resource = describe_configs::Resource { configuration_keys: None, ..resource };
    let request = describe_configs::Request { resources: vec![resource], ..Default::default() };
    let found = world.call(1, 4, &request).results.remove(0).configs;
    let set: Vec<_> =
        found.iter().filter(|c| c.config_source == 1).map(|c| (&c.name[..], c.value.as_deref())).collect();
    assert_eq!(set, [("retention.ms", Some("9"))]);
}

#[test]
fn a_node_describes_its_log_directory() {
    let mut world = three_nodes();
    let (first, _) = leader(&mut world, 0);
    let written = world.call(first as u64, 12, &super::produce_request("t", batch(&["a"], Producer::NONE)));
    assert_eq!(written.responses[0].partition_responses[0].error_code, ErrorCode::NONE);
    let all = world.call(1, 4, &describe_log_dirs::Request { topics: None }).results.remove(0);
    assert_eq!((all.total_bytes, all.topics[0].partitions.len()), (1000, 3));
    assert!(all.usable_bytes < 1000 && all.topics[0].partitions[0].partition_size > 60);
    let wanted = describe_log_dirs::Topic { topic: "t".to_owned(), partitions: vec![2] };
    let one = world.call(1, 4, &describe_log_dirs::Request { topics: Some(vec![wanted]) }).results.remove(0);
    assert_eq!(one.topics[0].partitions.iter().map(|p| p.partition_index).collect::<Vec<_>>(), [2]);
}

#[test]
fn the_preferred_replica_is_elected() {
    let mut world = three_nodes();
    let (first, replicas) = leader(&mut world, 0);
    let elect = |world: &mut World, all: bool| {
        let one = elect_leaders::TopicPartitions { topic: "t".to_owned(), partitions: vec![0] };
        let request = elect_leaders::Request { topic_partitions: (!all).then(|| vec![one]), ..Default::default() };
        let results = world.call(1, 2, &request).replica_election_results;
        results.first().map(|topic| topic.partition_result[0].error_code)
    };
    assert_eq!(elect(&mut world, false), Some(ErrorCode::ELECTION_NOT_NEEDED));
    assert_eq!(elect(&mut world, true), None);
    world.cluster.move_leader(world.now, "t", 0, replicas[1]).unwrap();
    assert_eq!(elect(&mut world, true), Some(ErrorCode::NONE));
    assert_eq!(leader(&mut world, 0).0, first);
    world.cluster.kill(world.now, first).unwrap();
    while world.cluster.poll_send().is_some() {}
    let client = 1 + u64::from(first == 1);
    let one = elect_leaders::TopicPartitions { topic: "t".to_owned(), partitions: vec![0] };
    let request = elect_leaders::Request { topic_partitions: Some(vec![one]), ..Default::default() };
    let answer = world.call(client, 2, &request).replica_election_results.remove(0).partition_result.remove(0);
    assert_eq!(answer.error_code, ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE);
}

#[test]
fn partitions_are_reassigned_at_once() {
    let mut world = three_nodes();
    let assign = |world: &mut World, replicas: Option<Vec<i32>>| {
        let partition = alter_partition_reassignments::Partition { partition_index: 0, replicas };
        let topic = alter_partition_reassignments::Topic { name: "t".to_owned(), partitions: vec![partition] };
        let request = alter_partition_reassignments::Request {
            allow_replication_factor_change: false,
            topics: vec![topic],
            ..Default::default()
        };
        world.call(1, 1, &request).responses.remove(0).partitions.remove(0).error_code
    };
    assert_eq!(assign(&mut world, Some(vec![2])), ErrorCode::INVALID_REPLICATION_FACTOR);
    assert_eq!(assign(&mut world, Some(vec![2, 2, 1])), ErrorCode::INVALID_REPLICA_ASSIGNMENT);
    assert_eq!(assign(&mut world, Some(vec![7, 2, 1])), ErrorCode::INVALID_REPLICA_ASSIGNMENT);
    assert_eq!(assign(&mut world, None), ErrorCode::NO_REASSIGNMENT_IN_PROGRESS);
    assert_eq!(assign(&mut world, Some(vec![3, 2, 1])), ErrorCode::NONE);
    assert_eq!(leader(&mut world, 0).1, [3, 2, 1]);
    assert!(world.call(1, 0, &list_partition_reassignments::Request::default()).topics.is_empty());
}

#[test]
fn topics_are_described_in_pages() {
    let mut world = three_nodes();
    world.create("u", 2, &[]);
    let mut request = describe_topic_partitions::Request { response_partition_limit: 2, ..Default::default() };
    let mut pages = Vec::new();
    loop {
        let answer = world.call(1, 0, &request);
        let page = answer.topics.iter().flat_map(|t| t.partitions.iter().map(|p| (t.name.clone(), p.partition_index)));
        pages.push(page.map(|(name, index)| format!("{}-{index}", name.unwrap())).collect::<Vec<_>>().join(" "));
        request.cursor = answer.next_cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    assert_eq!(pages, ["t-0 t-1", "t-2 u-0", "u-1"]);
}

#[test]
fn a_cluster_lists_its_nodes_and_has_no_delegation_tokens() {
    let mut world = three_nodes();
    world.cluster.kill(world.now, 3).unwrap();
    while world.cluster.poll_send().is_some() {}
    let mut nodes = |include_fenced_brokers| {
        let request = describe_cluster::Request { include_fenced_brokers, ..Default::default() };
        world.call(1, 2, &request).brokers.iter().map(|b| (b.broker_id, b.is_fenced)).collect::<Vec<_>>()
    };
    assert_eq!(nodes(false), [(1, false), (2, false)]);
    assert_eq!(nodes(true), [(1, false), (2, false), (3, true)]);
    let answer = world.call(1, 2, &create_delegation_token::Request::default());
    assert_eq!(answer.error_code, ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED);
}
