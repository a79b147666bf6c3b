//! Tests nodes that die, return and join, and leaders and coordinators that move.

use super::{Got, World, batch, fetch_request, produce_request, record, values};
use klamm::api::*;
use klamm::broker::{Connection, Node, Options};
use klamm::record::Producer;
use std::time::Duration;

fn three() -> World {
    let mut world = World::new(Options { nodes: 3, ..Options::default() });
    world.create("t", 3, &[]);
    world
}

impl World {
    fn metadata(&mut self, client: u64) -> metadata::Response {
        self.call(client, 12, &metadata::Request { topics: None, ..Default::default() })
    }

    fn partition(&mut self, client: u64, index: usize) -> metadata::Partition {
        let mut topics = self.metadata(client).topics.into_iter();
        topics.find(|topic| topic.name.as_deref() == Some("t")).unwrap().partitions.remove(index)
    }

    fn coordinator(&mut self, client: u64, key: &str) -> i32 {
        let request = find_coordinator::Request { coordinator_keys: vec![key.to_owned()], ..Default::default() };
        self.call(client, 4, &request).coordinators[0].node_id
    }

    /// Kills a node to which only the client of the same number is connected.
    fn kill(&mut self, node: i32) {
        self.cluster.kill(self.now, node).unwrap();
        assert_eq!(self.next(node as u64), Got::Closed);
    }

    fn start(&mut self, id: i32) {
        let node = Node { id, host: "localhost".to_owned(), port: 9000 + id as u16 };
        self.cluster.start_node(self.now, node);
        self.cluster.connect(id, Connection(id as u64));
    }
}

#[test]
fn another_replica_leads_after_a_node_dies() {
    let mut world = three();
    let before = world.partition(1, 0);
    let dead = before.leader_id;
    let other = u64::from(dead == 1) + 1;
    let request = produce_request("t", batch(&["a"], Producer::NONE));
    world.call(dead as u64, 12, &request);
    world.kill(dead);
    assert_eq!(world.cluster.kill(world.now, dead), Err(format!("node {dead} is down")));
    let brokers: Vec<_> = world.metadata(other).brokers.iter().map(|b| b.node_id).collect();
    assert!(brokers.len() == 2 && !brokers.contains(&dead));
    let after = world.partition(other, 0);
    assert_eq!((after.leader_id, after.leader_epoch), (before.replica_nodes[1], 1));
    assert_eq!((after.replica_nodes, after.isr_nodes.len()), (before.replica_nodes, 2));
    assert_eq!(after.offline_replicas, [dead]);
    let answer = world.call(after.leader_id as u64, 12, &request);
    assert_eq!(answer.responses[0].partition_responses[0].base_offset, 1, "what was written is still there");

    world.start(dead);
    let again = world.partition(dead as u64, 0);
    assert_eq!((again.leader_id, again.leader_epoch, again.isr_nodes.len()), (after.leader_id, 1, 3));
}

#[test]
fn a_partition_without_another_replica_waits_for_its_node() {
    let mut world = World::new(Options { nodes: 2, ..Options::default() });
    let topic =
        create_topics::Topic { name: "t".to_owned(), num_partitions: 1, replication_factor: 1, ..Default::default() };
    world.call(1, 7, &create_topics::Request { topics: vec![topic], ..Default::default() });
    let leader = world.partition(1, 0).leader_id;
    let other = 3 - leader;
    world.kill(leader);
    let partition = world.partition(other as u64, 0);
    assert_eq!((partition.leader_id, partition.error_code), (-1, ErrorCode::LEADER_NOT_AVAILABLE));
    world.start(leader);
    assert_eq!(world.partition(other as u64, 0).leader_id, leader);
}

#[test]
fn too_few_in_sync_replicas_reject_acks_all() {
    let mut world = World::new(Options { nodes: 3, ..Options::default() });
    world.create("t", 1, &[("min.insync.replicas", "3")]);
    let leader = world.partition(1, 0).leader_id;
    let dead = leader % 3 + 1;
    let produce = |world: &mut World| {
        let answer = world.call(leader as u64, 12, &produce_request("t", batch(&["a"], Producer::NONE)));
        answer.responses[0].partition_responses[0].error_code
    };
    assert_eq!(produce(&mut world), ErrorCode::NONE);
    world.kill(dead);
    assert_eq!(produce(&mut world), ErrorCode::NOT_ENOUGH_REPLICAS);
    world.start(dead);
    assert_eq!(produce(&mut world), ErrorCode::NONE);
}

#[test]
fn a_leader_change_answers_waiting_fetches() {
    let mut world = three();
    let before = world.partition(1, 0);
    let (old, new) = (before.leader_id as u64, before.replica_nodes[2]);
    let mut stale = fetch_request(0);
    stale.topics[0].partitions[0].current_leader_epoch = 0;
    world.send(old, 12, 1, &stale);
    assert_eq!(world.next(old), Got::Nothing);
    world.cluster.move_leader(world.now, "t", 0, new).unwrap();
    let (_, answer) = world.receive::<fetch::Request>(old, 12).unwrap();
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, ErrorCode::FENCED_LEADER_EPOCH);
    assert_eq!((partition.current_leader.leader_id, partition.current_leader.leader_epoch), (new, 1));
    // A client without the epoch may continue on the follower, from v11.
    world.send(old, 12, 1, &fetch_request(0));
    assert_eq!(world.next(old), Got::Nothing);
    world.advance(Duration::from_millis(500));
    assert!(world.receive::<fetch::Request>(old, 12).is_some());
    let answer = world.call(old, 10, &fetch_request(0));
    assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    let answer = world.call(new as u64, 12, &stale);
    assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode::FENCED_LEADER_EPOCH);
    for (topic, partition, node, what) in [("u", 0, 1, "topic 'u'"), ("t", 7, 1, "partition 7"), ("t", 0, 9, "node 9")]
    {
        let error = world.cluster.move_leader(world.now, topic, partition, node).unwrap_err();
        assert!(error.contains(what) && error.contains("does not exist"), "{error}");
    }
}

#[test]
fn a_new_node_can_become_leader() {
    let mut world = three();
    world.start(4);
    assert_eq!(world.metadata(4).brokers.len(), 4);
    let old = world.partition(1, 0);
    world.cluster.move_leader(world.now, "t", 0, 4).unwrap();
    let moved = world.partition(1, 0);
    assert_eq!((moved.leader_id, moved.replica_nodes[0]), (4, 4));
    assert!(!moved.replica_nodes.contains(&old.leader_id));
    world.call(4, 12, &produce_request("t", batch(&["a"], Producer::NONE)));
    let answer = world.call(4, 12, &fetch_request(0));
    assert_eq!(values(&answer.responses[0].partitions[0].records), [record(0, "a")]);
}

#[test]
fn coordinators_move_with_their_state() {
    let mut world = three();
    let first = world.coordinator(1, "x");
    let second = first % 3 + 1;
    let init = |world: &mut World, node: i32| {
        let request = init_producer_id::Request {
            transactional_id: Some("x".to_owned()),
            transaction_timeout_ms: 1000,
            ..Default::default()
        };
        let answer = world.call(node as u64, 4, &request);
        (answer.error_code, answer.producer_epoch)
    };
    assert_eq!(init(&mut world, first), (ErrorCode::NONE, 0));
    world.cluster.move_coordinator(world.now, "x", second).unwrap();
    assert_eq!(init(&mut world, first).0, ErrorCode::NOT_COORDINATOR);
    assert_eq!((world.coordinator(1, "x"), init(&mut world, second)), (second, (ErrorCode::NONE, 1)));
    let third = second % 3 + 1;
    world.kill(second);
    assert_eq!((world.coordinator(third as u64, "x"), init(&mut world, third)), (third, (ErrorCode::NONE, 2)));
    assert_eq!(world.cluster.move_coordinator(world.now, "x", second), Err(format!("node {second} is down")));
    world.start(second);
    assert_eq!(world.coordinator(third as u64, "x"), second);
}
