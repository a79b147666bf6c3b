//! Tests fault injection: the effect of each fault, and the requests that a fault affects.

use super::protocol::served;
use super::{Got, World, batch, fetch_request, frame, produce_request, record, values};
use bytes::Bytes;
use klamm::api::header::get_response_header;
use klamm::api::*;
use klamm::broker::{Action, Connection, Fault, Options};
use klamm::record::Producer;
use klamm::wire::{Reader, Value};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

impl World {
    fn once(&mut self, api: &Info, action: Action) {
        self.cluster.fault(Fault { api: Some(api.key), times: Some(1), ..Fault::always(action) });
    }

    /// Produces one record and returns the first output.
    fn try_produce(&mut self) -> Got {
        self.send(1, 12, 7, &produce_request("t", batch(&["a"], Producer::NONE)));
        self.next(1)
    }

    /// Returns the number of records in the log, through another connection.
    fn written(&mut self) -> usize {
        self.cluster.connect(1, Connection(99));
        let answer = self.call(99, 12, &fetch::Request { max_wait_ms: 0, ..fetch_request(0) });
        values(&answer.responses[0].partitions[0].records).len()
    }
}

fn whole(got: &Got) -> &Bytes {
    let Got::Frame(bytes) = got else { panic!("{got:?}") };
    assert_eq!(u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len() - 4);
    bytes
}

#[test]
fn lost_and_cut_replies_follow_handling_and_a_drop_precedes_it() {
    for (action, written) in [(Action::Drop, 0), (Action::LoseAnswer, 1), (Action::Cut, 1)] {
        let mut world = World::with_topic();
        world.once(&produce::API, action);
        let mut got = world.try_produce();
        if action == Action::Cut {
            let Got::Frame(part) = &got else { panic!("{got:?}") };
            let size = u32::from_be_bytes(part[..4].try_into().unwrap()) as usize + 4;
            assert_eq!(part.len(), size / 2);
            got = world.next(1);
        }
        assert_eq!(got, Got::Closed, "{action:?}");
        assert_eq!(world.written(), written, "{action:?}");
    }
}

#[test]
fn a_delayed_reply_delays_later_requests() {
    let mut world = World::with_topic();
    world.once(&produce::API, Action::Delay(SECOND));
    assert_eq!(world.try_produce(), Got::Nothing);
    world.send(1, 12, 8, &metadata::Request::default());
    assert_eq!(world.next(1), Got::Nothing);
    assert!(world.cluster.is_blocked(Connection(1)));
    assert_eq!(world.written(), 1);
    assert_eq!(world.cluster.next_timeout(), Some(SECOND));
    world.advance(SECOND);
    assert_eq!(world.receive::<produce::Request>(1, 12).unwrap().0, 7);
    assert_eq!(world.receive::<metadata::Request>(1, 12).unwrap().0, 8);
    assert_eq!(world.cluster.next_timeout(), None);
}

#[test]
fn a_delay_of_a_long_poll_starts_when_it_is_answered() {
    let mut world = World::with_topic();
    world.once(&fetch::API, Action::Delay(SECOND));
    world.send(1, 12, 1, &fetch_request(0));
    world.advance(SECOND / 2);
    assert_eq!(world.next(1), Got::Nothing);
    world.advance(SECOND);
    assert!(world.receive::<fetch::Request>(1, 12).is_some());
    // A delayed reply to a closed connection is dropped.
    world.once(&fetch::API, Action::Delay(SECOND));
    world.send(1, 12, 1, &fetch::Request { max_wait_ms: 0, ..fetch_request(0) });
    world.cluster.disconnect(world.now, Connection(1));
    assert_eq!(world.cluster.next_timeout(), None);
}

#[test]
fn a_dripping_reply_arrives_in_ten_pieces() {
    let mut world = World::with_topic();
    world.once(&metadata::API, Action::Drip(SECOND));
    world.send(1, 12, 7, &metadata::Request { topics: None, ..Default::default() });
    let (mut bytes, mut pieces) = (Vec::new(), 0);
    while let Some(at) = world.cluster.next_timeout() {
        world.advance(at - world.now);
        let Got::Frame(piece) = world.next(1) else { panic!("no piece") };
        bytes.extend_from_slice(&piece);
        pieces += 1;
    }
    assert_eq!((pieces, world.now), (10, SECOND));
    assert_eq!(super::response::<metadata::Request>(12, bytes.into()).1.topics.len(), 1);
}

#[test]
fn a_corrupt_reply_has_one_wrong_bit() {
    let answer = |seed| {
        let mut world = World::with_topic();
        if let Some(seed) = seed {
            world.cluster.fault(Fault { seed, ..Fault::always(Action::Corrupt) });
        }
        whole(&world.try_produce()).clone()
    };
    let (good, bad) = (answer(None), answer(Some(1)));
    let wrong: u32 = good.iter().zip(&bad).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!((wrong, &good[..8]), (1, &bad[..8]));
    assert_eq!(bad, answer(Some(1)));
    assert_ne!(bad, answer(Some(2)));
}

#[test]
fn a_throttle_fault_sets_the_throttle_time() {
    let mut world = World::with_topic();
    world.create("u", 1, &[]);
    world.cluster.fault(Fault::always(Action::Throttle(SECOND)));
    let answer = world.call(1, 12, &produce_request("t", batch(&["a"], Producer::NONE)));
    assert_eq!(answer.throttle_time_ms, 1000);
    let answer = world.call(1, 12, &fetch_request(0));
    assert_eq!(answer.throttle_time_ms, 1000);
    assert_eq!(values(&answer.responses[0].partitions[0].records), [record(0, "a")]);
    assert_eq!(world.call(1, 0, &metadata::Request::default()).topics.len(), 2);
    assert_eq!(world.call(1, 1, &api_versions::Request::default()).throttle_time_ms, 1000);
}

/// Collects every error code in a value.
fn codes(value: &Value) -> Vec<i64> {
    match value {
        Value::Struct(fields) => fields
            .iter()
            .flat_map(|(name, value)| match value {
                Value::Int(code) if matches!(&**name, "errorCode" | "partitionErrorCode") => vec![*code],
                value => codes(value),
            })
            .collect(),
        Value::List(values) => values.iter().flat_map(codes).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn every_api_can_return_an_injected_error_in_every_version() {
    let code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
    let field = |name: &str, value| (name.into(), value);
    let text = || Value::String("t".to_owned());
    for api in served() {
        for version in api.info.min..=api.info.max_stable {
            // One item in each list, so that each has a result.
            let partitions = |name| {
                let partition = Value::Struct(match name {
                    "partitionData" => vec![field("index", Value::Int(0)), field("records", Value::Null)],
                    _ => Vec::new(),
                });
                Value::List(vec![partition])
            };
            let indexes = || Value::List(vec![Value::Int(0)]);
            let id = |name: &'static str, first: i16, rest: Vec<(Arc<str>, Value)>| {
                let mut fields = rest;
                if version < first {
                    fields.push((name.into(), Value::String("t".to_owned())));
                }
                Value::List(vec![Value::Struct(fields)])
            };
            let fields = match api.info.name {
                "Produce" => {
                    let topics = id("name", 13, vec![field("partitionData", partitions("partitionData"))]);
                    vec![field("acks", Value::Int(1)), field("topicData", topics)]
                }
                "Fetch" => vec![field("topics", id("topic", 13, vec![field("partitions", partitions(""))]))],
                "ListOffsets" | "DeleteRecords" => {
                    vec![field("topics", id("name", 99, vec![field("partitions", partitions(""))]))]
                }
                "OffsetCommit" => vec![field("topics", id("name", 10, vec![field("partitions", partitions(""))]))],
                "TxnOffsetCommit" => vec![field("topics", id("name", 6, vec![field("partitions", partitions(""))]))],
                "OffsetFetch" if version >= 8 => {
                    vec![field("groups", Value::List(vec![Value::Struct(vec![field("groupId", text())])]))]
                }
                "OffsetFetch" => vec![field("topics", id("name", 99, vec![field("partitionIndexes", indexes())]))],
                "DescribeProducers" => {
                    vec![field("topics", id("name", 99, vec![field("partitionIndexes", indexes())]))]
                }
                "Metadata" | "CreateTopics" | "CreatePartitions" | "DescribeTopicPartitions" => {
                    vec![field("topics", id("name", 99, Vec::new()))]
                }
                "DeleteTopics" if version >= 6 => vec![field("topics", id("name", 99, Vec::new()))],
                "DeleteTopics" => vec![field("topicNames", Value::List(vec![text()]))],
                "FindCoordinator" if version >= 4 => vec![field("coordinatorKeys", Value::List(vec![text()]))],
                "DescribeGroups" => vec![field("groups", Value::List(vec![text()]))],
                "ConsumerGroupDescribe" | "ShareGroupDescribe" => vec![field("groupIds", Value::List(vec![text()]))],
                "OffsetForLeaderEpoch" => {
                    vec![field("topics", id("topic", 99, vec![field("partitions", partitions(""))]))]
                }
                "AlterReplicaLogDirs" => {
                    let topics = id("name", 99, vec![field("partitions", indexes())]);
                    vec![field("dirs", Value::List(vec![Value::Struct(vec![field("topics", topics)])]))]
                }
                "AlterUserScramCredentials" => vec![field("deletions", id("name", 99, Vec::new()))],
                "ElectLeaders" => {
                    let topics = id("topic", 99, vec![field("partitions", indexes())]);
                    vec![field("topicPartitions", topics)]
                }
                "IncrementalAlterConfigs" | "AlterConfigs" | "DescribeConfigs" => {
                    vec![field("resources", Value::List(vec![Value::Struct(vec![field("resourceName", text())])]))]
                }
                "CreateAcls" => vec![field("creations", Value::List(vec![Value::Struct(Vec::new())]))],
                "DeleteAcls" => vec![field("filters", Value::List(vec![Value::Struct(Vec::new())]))],
                "AlterClientQuotas" => vec![field("entries", Value::List(vec![Value::Struct(Vec::new())]))],
                "DescribeShareGroupOffsets" => {
                    vec![field("groups", Value::List(vec![Value::Struct(vec![field("groupId", text())])]))]
                }
                "DeleteGroups" => vec![field("groupsNames", Value::List(vec![text()]))],
                "DescribeTransactions" => vec![field("transactionalIds", Value::List(vec![text()]))],
                "AddPartitionsToTxn" => {
                    let topics = id("name", 99, vec![field("partitions", indexes())]);
                    match version {
                        ..4 => vec![field("v3AndBelowTopics", topics)],
                        _ => {
                            let transaction = Value::Struct(vec![field("topics", topics)]);
                            vec![field("transactions", Value::List(vec![transaction]))]
                        }
                    }
                }
                _ => Vec::new(),
            };
            let body = api.request.encode(version, Value::Struct(fields)).unwrap();
            let mut world = World::new(Options::default());
            world.once(api.info, Action::Error(code));
            world.cluster.handle(world.now, Connection(1), frame(api.info, version, 3, &body));
            let answer = world.next(1);
            let mut r = Reader::new(whole(&answer).slice(4..), version, false);
            get_response_header(api.info, version, &mut r).unwrap();
            let found = codes(&api.response.decode(version, r.rest()).unwrap());
            let (code, name) = (i64::from(code.0), api.info.name);
            // Fetch and Metadata also have a code for the whole response, which has another meaning.
            let beside = found.iter().filter(|found| **found == 0).count();
            assert!(found.contains(&code) && beside <= usize::from(matches!(name, "Fetch" | "Metadata")));
            assert!(found.iter().all(|found| [0, code].contains(found)), "{name} v{version}: {found:?}");
        }
    }
}

#[test]
fn a_fault_hits_matching_requests_the_given_number_of_times() {
    let error = Action::Error(ErrorCode::KAFKA_STORAGE_ERROR);
    let mut world = World::new(Options { nodes: 2, ..Options::default() });
    let id = world.create("t", 1, &[]);
    world.create("u", 1, &[]);
    let strikes = |world: &mut World, client, topic: &str| {
        let request = list_offsets::Topic { name: topic.to_owned(), partitions: vec![Default::default()] };
        let request = list_offsets::Request { topics: vec![request], ..Default::default() };
        world.call(client, 7, &request).topics[0].partitions[0].error_code == ErrorCode::KAFKA_STORAGE_ERROR
    };
    let api = Some(list_offsets::API.key);
    world.cluster.fault(Fault { api, times: Some(2), ..Fault::always(error) });
    assert_eq!([(); 3].map(|()| strikes(&mut world, 1, "t")), [true, true, false]);

    world.cluster.fault(Fault { api: Some(fetch::API.key), ..Fault::always(error) });
    world.cluster.fault(Fault { node: Some(2), ..Fault::always(error) });
    assert_eq!([1, 2, 1, 2].map(|client| strikes(&mut world, client, "t")), [false, true, false, true]);

    world.cluster.clear_faults();
    world.cluster.fault(Fault { topic: Some("t".to_owned()), ..Fault::always(error) });
    assert_eq!(["t", "u"].map(|topic| strikes(&mut world, 1, topic)), [true, false]);
    let mut by_id = fetch_request(0);
    by_id.topics[0].topic_id = id;
    let answer = world.call(1, 13, &by_id);
    assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode::KAFKA_STORAGE_ERROR);

    let chance = |seed| {
        let mut world = World::with_topic();
        world.cluster.fault(Fault { probability: 0.3, seed, ..Fault::always(error) });
        (0..1000).map(|_| strikes(&mut world, 1, "t")).collect::<Vec<_>>()
    };
    let struck = chance(1);
    assert!((250..350).contains(&struck.iter().filter(|struck| **struck).count()));
    assert!(struck == chance(1) && struck != chance(2));
}

#[test]
fn requests_are_logged() {
    let mut world = World::with_topic();
    world.advance(SECOND);
    world.send(1, 12, 5, &metadata::Request::default());
    world.next(1);
    let seen = world.cluster.requests().last().unwrap();
    assert_eq!((seen.node, seen.api, seen.version, seen.correlation_id), (1, "Metadata", 12, 5));
    assert_eq!((seen.client_id.as_deref(), seen.time), (Some("test"), SECOND));
    for _ in 0..10_000 {
        world.call(1, 12, &metadata::Request::default());
    }
    assert_eq!(world.cluster.requests().count(), 10_000);
}
