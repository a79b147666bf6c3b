//! Tests fetching from followers (KIP-392): which nodes accept a fetch, and to which replica a leader refers a client.

use super::{World, batch, fetch_request, produce_request, record, values};
use klamm::api::*;
use klamm::broker::Options;
use klamm::record::Producer;

/// Starts five nodes in racks a, b, c, a, b, with topic `t` on nodes 1, 2, 3 and 5, led by 1.
fn world(racks: &[&str]) -> World {
    let racks = racks.iter().map(|rack| (*rack).to_owned()).collect();
    let mut world = World::new(Options { nodes: 5, racks, ..Options::default() });
    let assignment = create_topics::ReplicaAssignment { partition_index: 0, broker_ids: vec![1, 2, 3, 5] };
    let topic = create_topics::Topic {
        name: "t".to_owned(),
        num_partitions: -1,
        replication_factor: -1,
        assignments: vec![assignment],
        ..Default::default()
    };
    let request = create_topics::Request { topics: vec![topic], ..Default::default() };
    assert_eq!(world.call(1, 7, &request).topics[0].error_code, ErrorCode::NONE);
    for value in ["a", "b"] {
        world.call(1, 12, &produce_request("t", batch(&[value], Producer::NONE)));
    }
    world
}

fn ask(world: &mut World, node: u64, version: i16, rack: &str, offset: i64) -> fetch::PartitionResponse {
    let request = fetch::Request { rack_id: rack.to_owned(), max_wait_ms: 500, ..fetch_request(offset) };
    world.call(node, version, &request).responses.remove(0).partitions.remove(0)
}

const RACKS: &[&str] = &["a", "b", "c"];

#[test]
fn racks_are_assigned_to_nodes_in_turn() {
    let mut world = world(RACKS);
    let metadata = world.call(1, 12, &metadata::Request::default());
    let racks = |rack: fn(&metadata::Broker) -> Option<&str>| metadata.brokers.iter().map(rack).collect::<Vec<_>>();
    assert_eq!(racks(|b| b.rack.as_deref()), ["a", "b", "c", "a", "b"].map(Some));
    let cluster = world.call(1, 0, &describe_cluster::Request { endpoint_type: 1, ..Default::default() });
    assert_eq!(cluster.brokers[4].rack.as_deref(), Some("b"));
    let mut none = self::world(&[]);
    assert!(none.call(1, 12, &metadata::Request::default()).brokers.iter().all(|b| b.rack.is_none()));
}

#[test]
fn a_leader_sends_a_client_to_a_follower_in_its_rack() {
    let mut world = world(RACKS);
    for (rack, replica) in [("a", -1), ("b", 5), ("c", 3), ("d", -1), ("", -1)] {
        let answer = ask(&mut world, 1, 11, rack, 0);
        assert_eq!((answer.error_code, answer.preferred_read_replica), (ErrorCode::NONE, replica), "{rack}");
        assert_eq!(values(&answer.records).len(), if replica < 0 { 2 } else { 0 });
        assert_eq!((answer.high_watermark, answer.log_start_offset), (2, 0));
    }
    let answer = ask(&mut world, 3, 11, "c", 1);
    assert_eq!((values(&answer.records), answer.preferred_read_replica), (vec![record(1, "b")], -1));
    // A follower also serves clients from other racks.
    assert_eq!(values(&ask(&mut world, 2, 12, "", 0).records).len(), 2);
    // Also at the end of the log, where there is nothing to read yet. Beyond the end no replica is preferred.
    assert_eq!(ask(&mut world, 1, 12, "c", 2).preferred_read_replica, 3);
    assert_eq!(ask(&mut world, 1, 12, "c", 3).error_code, ErrorCode::OFFSET_OUT_OF_RANGE);
}

#[test]
fn a_node_without_a_replica_and_versions_before_11_are_refused_by_all_but_the_leader() {
    let mut world = world(RACKS);
    let answer = ask(&mut world, 4, 12, "a", 0);
    assert_eq!((answer.error_code, answer.current_leader.leader_id), (ErrorCode::NOT_LEADER_OR_FOLLOWER, 1));
    assert_eq!(ask(&mut world, 2, 10, "", 0).error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(values(&ask(&mut world, 1, 10, "", 0).records).len(), 2);
    let mut request = fetch_request(0);
    request.topics[0].partitions[0].current_leader_epoch = 7;
    let answer = world.call(2, 12, &request).responses.remove(0).partitions.remove(0);
    assert_eq!(answer.error_code, ErrorCode::UNKNOWN_LEADER_EPOCH);
}

#[test]
fn no_client_is_sent_to_a_stopped_node() {
    let mut world = world(RACKS);
    world.cluster.kill(world.now, 5).unwrap();
    while world.cluster.poll_send().is_some() {}
    assert_eq!(ask(&mut world, 1, 12, "b", 0).preferred_read_replica, 2);
    world.cluster.kill(world.now, 2).unwrap();
    while world.cluster.poll_send().is_some() {}
    let answer = ask(&mut world, 1, 12, "b", 0);
    assert_eq!((answer.preferred_read_replica, values(&answer.records).len()), (-1, 2));
}
