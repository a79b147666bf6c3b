//! Tests the dev broker: its cluster under simulated time, and its server over real sockets.

mod acls;
mod administration;
mod authentication;
mod cleaning;
mod consumer_groups;
mod draft;
mod failover;
mod faults;
mod fetch_sessions;
mod followers;
mod formats;
mod groups;
mod legacy;
mod migration;

mod nodes;
mod protocol;
mod quotas;
mod reading;
mod releases;
mod restarts;
mod share_groups;
mod sockets;
mod transactions;
mod writing;

use bytes::Bytes;
use klamm::api::header::{ClientId, RequestHeader, get_response_header};
use klamm::api::*;
use klamm::broker::{Cluster, Connection, Node, Options, Output};
use klamm::compress::Compression;
use klamm::record::{BatchBuilder, Producer, batches};
use klamm::wire::{Reader, Uuid, Writer};
use std::time::Duration;

const START_MS: i64 = 1_700_000_000_000;

/// A cluster, its clock, and one client for each node: client `n` is connected to node `n`.
struct World {
    cluster: Cluster,
    now: Duration,
}

#[derive(Debug, PartialEq)]
enum Got {
    Frame(Bytes),
    Nothing,
    Closed,
}

impl World {
    fn new(options: Options) -> Self {
        let node = |id| Node { id, host: "localhost".to_owned(), port: 9000 + id as u16 };
        let nodes: Vec<_> = (1..=options.nodes as i32).map(node).collect();
        let mut cluster = Cluster::new(&options, nodes, START_MS, 1);
        for id in 1..=options.nodes as i32 {
            cluster.connect(id, Connection(id as u64));
        }
        Self { cluster, now: Duration::ZERO }
    }

    /// Starts one node with a topic `t` of one partition.
    fn with_topic() -> Self {
        let mut world = Self::new(Options::default());
        world.create("t", 1, &[]);
        world
    }

    fn create(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Uuid {
        let config = |(name, value): &(&str, &str)| create_topics::Config {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
        };
        let topic = create_topics::Topic {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: -1,
            configs: configs.iter().map(config).collect(),
            ..Default::default()
        };
        let request = create_topics::Request { topics: vec![topic], ..Default::default() };
        let result = self.call(1, 7, &request).topics.remove(0);
        assert_eq!(result.error_code, ErrorCode::NONE, "{:?}", result.error_message);
        result.topic_id
    }

    fn send<R: Request>(&mut self, client: u64, version: i16, correlation_id: i32, request: &R) {
        let frame = frame(R::API, version, correlation_id, &encode(version, request).unwrap());
        self.cluster.handle(self.now, Connection(client), frame);
    }

    /// Returns the next output, which must be for `client`.
    fn next(&mut self, client: u64) -> Got {
        match self.cluster.poll_send() {
            Some(Output::Reply { connection, parts }) => {
                assert_eq!(connection, Connection(client));
                Got::Frame(parts.concat().into())
            }
            Some(Output::Close { connection }) => {
                assert_eq!(connection, Connection(client));
                Got::Closed
            }
            None => Got::Nothing,
        }
    }

    fn receive<R: Request>(&mut self, client: u64, version: i16) -> Option<(i32, R::Response)> {
        match self.next(client) {
            Got::Frame(frame) => Some(response::<R>(version, frame)),
            Got::Nothing => None,
            Got::Closed => panic!("the broker closed the connection"),
        }
    }

    fn call<R: Request>(&mut self, client: u64, version: i16, request: &R) -> R::Response {
        self.send(client, version, 7, request);
        self.receive::<R>(client, version).expect("an answer").1
    }

    fn advance(&mut self, by: Duration) {
        self.now += by;
        self.cluster.handle_timeout(self.now);
    }

    fn produce(&mut self, records: Bytes) -> produce::PartitionResponse {
        self.call(1, 12, &produce_request("t", records)).responses.remove(0).partition_responses.remove(0)
    }

    fn fetch(&mut self, request: &fetch::Request) -> fetch::PartitionResponse {
        self.call(1, 12, request).responses.remove(0).partitions.remove(0)
    }
}

pub(crate) fn frame(api: &Info, version: i16, correlation_id: i32, body: &[u8]) -> Bytes {
    let mut w = Writer::new(version, api.is_flexible(version));
    let client_id = ClientId(Some("test".to_owned()));
    RequestHeader { request_api_key: api.key, request_api_version: version, correlation_id, client_id }
        .put(api, &mut w);
    w.buf.extend_from_slice(body);
    w.finish().unwrap().into()
}

fn response<R: Request>(version: i16, mut frame: Bytes) -> (i32, R::Response) {
    let length = frame.split_to(4);
    assert_eq!(u32::from_be_bytes(length[..].try_into().unwrap()) as usize, frame.len());
    let mut r = Reader::new(frame, version, false);
    let correlation_id = get_response_header(R::API, version, &mut r).unwrap();
    (correlation_id, decode(version, r.rest()).unwrap())
}

fn batch(values: &[&str], producer: Producer) -> Bytes {
    batch_at(START_MS, values, Compression::None, producer)
}

fn batch_at(timestamp: i64, values: &[&str], compression: Compression, producer: Producer) -> Bytes {
    let mut builder = BatchBuilder::with_capacity(0);
    for value in values {
        builder.append(timestamp, None, Some(value.as_bytes()), &[]);
    }
    builder.seal(compression, producer).unwrap().data
}

fn produce_request(topic: &str, records: Bytes) -> produce::Request {
    let partition_data = vec![produce::PartitionData { index: 0, records: Some(records) }];
    produce::Request {
        transactional_id: None,
        acks: -1,
        timeout_ms: 1000,
        topic_data: vec![produce::TopicData { name: topic.to_owned(), topic_id: Uuid::ZERO, partition_data }],
    }
}

fn fetch_request(offset: i64) -> fetch::Request {
    let partition = fetch::Partition { fetch_offset: offset, partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = fetch::Topic { topic: "t".to_owned(), partitions: vec![partition], ..Default::default() };
    fetch::Request { max_wait_ms: 500, min_bytes: 1, topics: vec![topic], ..Default::default() }
}

fn values(records: &Option<Bytes>) -> Vec<(i64, String)> {
    let mut out = Vec::new();
    for batch in batches(records.clone().unwrap()) {
        let batch = batch.unwrap();
        batch.check_crc().unwrap();
        let mut records = batch.records(1 << 20).unwrap();
        while let Some(view) = records.next_view() {
            let view = view.unwrap();
            out.push((view.offset(), String::from_utf8(view.value().unwrap().to_vec()).unwrap()));
        }
    }
    out
}

fn record(offset: i64, value: &str) -> (i64, String) {
    (offset, value.to_owned())
}
