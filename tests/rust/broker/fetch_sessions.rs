//! Tests fetch sessions (KIP-227): what a response leaves out, what ends a session, and how many sessions a node keeps.

use super::{Got, World, batch, produce_request, record, values};
use klamm::api::*;
use klamm::broker::{Action, Connection, Fault, Options};
use klamm::record::Producer;
use std::time::Duration;

const VERSION: i16 = 12;

fn topic(name: &str, partitions: &[(i32, i64)]) -> fetch::Topic {
    let partition = |(partition, fetch_offset): &(i32, i64)| fetch::Partition {
        partition: *partition,
        fetch_offset: *fetch_offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    fetch::Topic {
        topic: name.to_owned(),
        partitions: partitions.iter().map(partition).collect(),
        ..Default::default()
    }
}

fn request(session_id: i32, session_epoch: i32, topics: Vec<fetch::Topic>) -> fetch::Request {
    fetch::Request { session_id, session_epoch, topics, ..Default::default() }
}

/// Returns the content of a response: topic, partition, code and records.
fn content(response: &fetch::Response) -> Vec<(&str, i32, ErrorCode, usize)> {
    assert_eq!(response.error_code, ErrorCode::NONE);
    let all = response.responses.iter().flat_map(|t| t.partitions.iter().map(|p| (&*t.topic, p)));
    all.map(|(name, p)| (name, p.partition_index, p.error_code, values(&p.records).len())).collect()
}

impl World {
    fn write_to(&mut self, topic: &str, index: i32) {
        let mut request = produce_request(topic, batch(&["v"], Producer::NONE));
        request.topic_data[0].partition_data[0].index = index;
        let answer = self.call(1, 12, &request);
        assert_eq!(answer.responses[0].partition_responses[0].error_code, ErrorCode::NONE);
    }

    /// Starts with topic `t` of two partitions, topic `u` of one, and a session with all three.
    fn with_session() -> (Self, i32) {
        let mut world = Self::new(Options::default());
        world.create("t", 2, &[]);
        world.create("u", 1, &[]);
        let all = vec![topic("t", &[(0, 0), (1, 0)]), topic("u", &[(0, 0)])];
        let answer = world.call(1, VERSION, &request(0, 0, all));
        assert_eq!(content(&answer).len(), 3, "a full request has a full answer");
        assert!(answer.session_id > 0);
        (world, answer.session_id)
    }

    fn go_on(&mut self, session: i32, epoch: i32, topics: Vec<fetch::Topic>) -> fetch::Response {
        let answer = self.call(1, VERSION, &request(session, epoch, topics));
        assert_eq!((answer.error_code, answer.session_id), (ErrorCode::NONE, session));
        answer
    }

    fn code(&mut self, client: u64, version: i16, request: &fetch::Request) -> ErrorCode {
        let answer = self.call(client, version, request);
        assert!(answer.error_code == ErrorCode::NONE || answer.session_id == 0 && answer.responses.is_empty());
        answer.error_code
    }
}

#[test]
fn incremental_requests_and_responses_carry_changes() {
    let (mut world, session) = World::with_session();
    assert_eq!(content(&world.go_on(session, 1, vec![])), []);
    world.write_to("t", 1);
    assert_eq!(content(&world.go_on(session, 2, vec![])), [("t", 1, ErrorCode::NONE, 1)]);
    assert_eq!(content(&world.go_on(session, 3, vec![])), [("t", 1, ErrorCode::NONE, 1)], "it was not taken yet");
    assert_eq!(content(&world.go_on(session, 4, vec![topic("t", &[(1, 1)])])), []);
    // Changed offsets are sent as well, without records.
    let request = delete_records::Request {
        topics: vec![delete_records::Topic {
            name: "t".to_owned(),
            partitions: vec![delete_records::Partition { partition_index: 1, offset: 1 }],
        }],
        timeout_ms: 1000,
    };
    assert_eq!(world.call(1, 2, &request).topics[0].partitions[0].error_code, ErrorCode::NONE);
    let answer = world.go_on(session, 5, vec![]);
    assert_eq!(content(&answer), [("t", 1, ErrorCode::NONE, 0)]);
    assert_eq!(answer.responses[0].partitions[0].log_start_offset, 1);
    assert_eq!(content(&world.go_on(session, 6, vec![])), []);
}

#[test]
fn a_long_poll_without_topics_waits_for_the_session() {
    let (mut world, session) = World::with_session();
    world.cluster.connect(1, Connection(2));
    let waits = fetch::Request { max_wait_ms: 500, min_bytes: 1, ..request(session, 1, vec![]) };
    world.send(2, VERSION, 5, &waits);
    assert_eq!(world.next(2), Got::Nothing);
    world.write_to("u", 0);
    let (_, answer) = world.receive::<fetch::Request>(2, VERSION).unwrap();
    assert_eq!(content(&answer), [("u", 0, ErrorCode::NONE, 1)]);
    assert_eq!(values(&answer.responses[0].partitions[0].records), [record(0, "v")]);
    let waits = fetch::Request { max_wait_ms: 500, min_bytes: 1, ..request(session, 2, vec![topic("u", &[(0, 1)])]) };
    world.send(2, VERSION, 5, &waits);
    world.advance(Duration::from_millis(500));
    assert_eq!(content(&world.receive::<fetch::Request>(2, VERSION).unwrap().1), []);
}

#[test]
fn forgotten_partitions_are_not_read_and_an_empty_session_ends() {
    let (mut world, session) = World::with_session();
    for (name, index) in [("t", 0), ("t", 1), ("u", 0)] {
        world.write_to(name, index);
    }
    let forget = |name: &str, partitions: &[i32]| fetch::ForgottenTopic {
        topic: name.to_owned(),
        partitions: partitions.to_vec(),
        ..Default::default()
    };
    let forgets = |epoch, topics| fetch::Request { forgotten_topics_data: topics, ..request(session, epoch, vec![]) };
    let answer = world.call(1, VERSION, &forgets(1, vec![forget("t", &[0, 7])]));
    assert_eq!(content(&answer), [("t", 1, ErrorCode::NONE, 1), ("u", 0, ErrorCode::NONE, 1)]);
    let answer = world.call(1, VERSION, &forgets(2, vec![forget("t", &[1]), forget("u", &[0])]));
    assert_eq!((content(&answer), answer.session_id), (vec![], 0));
    assert_eq!(world.code(1, VERSION, &forgets(3, vec![])), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
}

#[test]
fn partitions_with_records_are_read_last_in_the_next_fetch() {
    let (mut world, session) = World::with_session();
    for (name, index) in [("t", 0), ("t", 1), ("u", 0)] {
        world.write_to(name, index);
    }
    let mut order = Vec::new();
    for epoch in 1..=4 {
        let limited = fetch::Request { max_bytes: 1, ..request(session, epoch, vec![]) };
        let answer = world.call(1, VERSION, &limited);
        let with = content(&answer).into_iter().find(|(.., records)| *records > 0).unwrap();
        order.push((with.0.to_owned(), with.1));
    }
    assert_eq!(order, [("t", 0), ("t", 1), ("u", 0), ("t", 0)].map(|(name, index)| (name.to_owned(), index)));
}

#[test]
fn an_error_is_in_every_response_and_the_recovery_in_one() {
    let (mut world, session) = World::with_session();
    world.create("later", 1, &[]);
    let delete = delete_topics::Request { topic_names: vec!["u".to_owned()], ..Default::default() };
    world.call(1, 5, &delete);
    let gone = [("u", 0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 0)];
    assert_eq!(content(&world.go_on(session, 1, vec![])), gone);
    assert_eq!(content(&world.go_on(session, 2, vec![])), gone);
    world.create("u", 1, &[]);
    assert_eq!(content(&world.go_on(session, 3, vec![])), [("u", 0, ErrorCode::NONE, 0)]);
    assert_eq!(content(&world.go_on(session, 4, vec![])), []);
}

#[test]
fn a_session_belongs_to_its_node_and_counts_requests() {
    let mut world = World::new(Options { nodes: 2, ..Options::default() });
    world.create("t", 1, &[]);
    let opened = |world: &mut World| world.call(1, VERSION, &request(0, 0, vec![topic("t", &[(0, 0)])])).session_id;
    let session = opened(&mut world);
    assert_eq!(world.code(1, VERSION, &request(session, 2, vec![])), ErrorCode::INVALID_FETCH_SESSION_EPOCH);
    assert_eq!(world.code(1, VERSION, &request(session, -2, vec![])), ErrorCode::INVALID_FETCH_SESSION_EPOCH);
    assert_eq!(world.code(1, 13, &request(session, 1, vec![])), ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
    assert_eq!(world.code(2, VERSION, &request(session, 1, vec![])), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    assert_eq!(world.code(1, VERSION, &request(0, 1, vec![])), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    assert_eq!(world.code(1, VERSION, &request(session, 1, vec![])), ErrorCode::NONE, "none of that counted");
    assert_eq!(world.code(1, VERSION, &request(session, 1, vec![])), ErrorCode::INVALID_FETCH_SESSION_EPOCH);

    // Full requests end the session, with or without a new one.
    let other = opened(&mut world);
    assert_ne!(other, session);
    let again = world.call(1, VERSION, &request(session, 0, vec![topic("t", &[(0, 0)])])).session_id;
    assert!(again > 0 && again != session);
    assert_eq!(world.code(1, VERSION, &request(session, 2, vec![])), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    let last = world.call(1, VERSION, &request(again, -1, vec![topic("t", &[(0, 0)])]));
    assert_eq!((content(&last).len(), last.session_id), (1, 0));
    assert_eq!(world.code(1, VERSION, &request(again, 1, vec![])), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    assert_eq!(world.code(1, VERSION, &request(other, 1, vec![])), ErrorCode::NONE);

    world.cluster.kill(world.now, 1).unwrap();
    assert_eq!(world.next(1), Got::Closed);
    world.cluster.start_node(world.now, klamm::broker::Node { id: 1, host: "localhost".to_owned(), port: 9001 });
    world.cluster.connect(1, Connection(1));
    assert_eq!(world.code(1, VERSION, &request(other, 2, vec![])), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
}

#[test]
fn sessions_of_versions_with_topic_ids_use_ids() {
    let mut world = World::new(Options::default());
    let id = world.create("t", 1, &[]);
    let by_id = |id| vec![fetch::Topic { topic_id: id, ..topic("", &[(0, 0)]) }];
    let session = world.call(1, 18, &request(0, 0, by_id(id))).session_id;
    assert_eq!(world.code(1, VERSION, &request(session, 1, vec![])), ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
    world.write_to("t", 0);
    let answer = world.call(1, 18, &request(session, 1, vec![]));
    assert_eq!((answer.responses[0].topic_id, content(&answer).len()), (id, 1));
    // A topic that is created again is a new one: the client forgets the old one.
    let delete = delete_topics::Request { topic_names: vec!["t".to_owned()], ..Default::default() };
    world.call(1, 5, &delete);
    let anew = world.create("t", 1, &[]);
    let answer = world.call(1, 18, &request(session, 2, by_id(anew)));
    let codes: Vec<_> = answer.responses.iter().map(|t| (t.topic_id, t.partitions[0].error_code)).collect();
    assert_eq!(codes.len(), 2);
    assert!(codes.contains(&(id, ErrorCode::UNKNOWN_TOPIC_ID)) && codes.contains(&(anew, ErrorCode::NONE)));
    let forgotten_topics_data = vec![fetch::ForgottenTopic { topic: String::new(), topic_id: id, partitions: vec![0] }];
    let answer = world.call(1, 18, &fetch::Request { forgotten_topics_data, ..request(session, 3, vec![]) });
    assert_eq!(content(&answer), []);
}

#[test]
fn a_request_with_an_old_session_epoch_is_rejected() {
    let (mut world, session) = World::with_session();
    world.cluster.connect(1, Connection(2));
    let waits = fetch::Request { max_wait_ms: 500, min_bytes: 1, ..request(session, 1, vec![]) };
    world.send(2, VERSION, 5, &waits);
    assert_eq!(content(&world.go_on(session, 2, vec![])), []);
    world.advance(Duration::from_millis(500));
    let (_, answer) = world.receive::<fetch::Request>(2, VERSION).unwrap();
    assert_eq!((answer.error_code, answer.session_id), (ErrorCode::INVALID_FETCH_SESSION_EPOCH, session));
    assert_eq!(content(&world.go_on(session, 3, vec![])), []);
}

#[test]
fn a_node_has_a_thousand_sessions_and_replaces_old_ones() {
    let mut world = World::new(Options::default());
    world.create("t", 3, &[]);
    let open = |world: &mut World, partitions: &[(i32, i64)]| {
        world.call(1, VERSION, &request(0, 0, vec![topic("t", partitions)])).session_id
    };
    let two = [(0, 0), (1, 0)];
    let sessions: Vec<_> = (0..1000).map(|_| open(&mut world, &two)).collect();
    assert!(sessions.iter().all(|id| *id > 0));
    assert_eq!(open(&mut world, &two), 0);
    world.advance(Duration::from_secs(120));
    assert_eq!(open(&mut world, &two), 0, "two minutes are not more than two minutes");
    world.advance(Duration::from_millis(1));
    for id in &sessions[1..] {
        assert_eq!(world.code(1, VERSION, &request(*id, 1, vec![])), ErrorCode::NONE);
    }
    let unused = open(&mut world, &[(0, 0)]);
    assert!(unused > 0);
    assert_eq!(world.code(1, VERSION, &request(sessions[0], 1, vec![])), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    // All others were just used. Since they are old, a larger session replaces the smallest.
    assert_eq!(open(&mut world, &two), 0);
    assert_eq!(open(&mut world, &[(0, 0)]), 0);
    assert!(open(&mut world, &[(0, 0), (1, 0), (2, 0)]) > 0);
    assert_eq!(world.code(1, VERSION, &request(unused, 1, vec![])), ErrorCode::NONE, "this one is young");
    let left = sessions[1..].iter().filter(|id| world.code(1, VERSION, &request(**id, 2, vec![])) == ErrorCode::NONE);
    assert_eq!(left.count(), 998);
}

#[test]
fn sessions_take_memory_and_free_it() {
    let mut world = World::new(Options { max_bytes: 4000, ..Options::default() });
    let open = |world: &mut World, session, epoch, count| {
        let partitions: Vec<_> = (0..count).map(|index| (index, 0)).collect();
        world.call(1, VERSION, &request(session, epoch, vec![topic("t", &partitions)]))
    };
    for _ in 0..100 {
        let answer = open(&mut world, 0, 0, 5);
        assert!(answer.session_id > 0);
        assert_eq!(open(&mut world, 0, 0, 10).session_id, 0, "there is no room for that");
        assert_eq!(open(&mut world, answer.session_id, -1, 0).session_id, 0);
    }
    let session = open(&mut world, 0, 0, 5).session_id;
    let refused = open(&mut world, session, 1, 10);
    assert_eq!(refused.error_code, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    assert!(open(&mut world, 0, 0, 5).session_id > 0);
}

#[test]
fn faults_match_the_topics_of_a_session() {
    let (mut world, session) = World::with_session();
    let error = Action::Error(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    let fault = Fault { api: Some(fetch::API.key), times: Some(1), ..Fault::always(error) };
    world.cluster.fault(Fault { topic: Some("u".to_owned()), ..fault.clone() });
    assert_eq!(
        content(&world.call(1, VERSION, &request(0, -1, vec![topic("t", &[(0, 0)])]))).len(),
        1,
        "that is about another topic"
    );
    let all = content(&world.go_on(session, 1, vec![])).iter().map(|(.., code, _)| *code).collect::<Vec<_>>();
    assert_eq!(all, [ErrorCode::NOT_LEADER_OR_FOLLOWER; 3]);
    assert_eq!(content(&world.go_on(session, 2, vec![])).len(), 3, "there is news after an error");
    let of_session = Action::Error(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    world.cluster.fault(Fault { action: of_session, ..fault });
    assert_eq!(world.code(1, VERSION, &request(session, 3, vec![])), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    assert_eq!(content(&world.go_on(session, 3, vec![])), [], "that request was not handled");
}
