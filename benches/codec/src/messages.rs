//! Metadata and fetch responses of 1,000 partitions, in the types of klamm and of kafka-protocol.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{FetchResponse, MetadataResponse};
use kafka_protocol::protocol::{Decodable, Encodable};
use klamm::api::{self, Message, fetch, metadata};
use klamm::wire::Uuid;

/// A version that both codecs know and current clients use.
pub const METADATA: i16 = 12;
/// See [`METADATA`].
pub const FETCH: i16 = 13;
const TOPICS: u8 = 100;
const PARTITIONS: i32 = 10;

/// Returns the metadata response for 100 topics with ten partitions each.
pub fn metadata_response() -> metadata::Response {
    let brokers = (1..=3).map(|node_id| metadata::Broker {
        node_id,
        host: format!("broker-{node_id}.example.com"),
        port: 9092,
        ..Default::default()
    });
    let partition = |partition_index| metadata::Partition {
        partition_index,
        leader_id: 1 + partition_index % 3,
        leader_epoch: 7,
        replica_nodes: vec![1, 2, 3],
        isr_nodes: vec![1, 2, 3],
        ..Default::default()
    };
    let topic = |t: u8| metadata::Topic {
        name: Some(format!("some.team.topic-{t}")),
        topic_id: Uuid([t; 16]),
        partitions: (0..PARTITIONS).map(partition).collect(),
        ..Default::default()
    };
    metadata::Response {
        brokers: brokers.collect(),
        cluster_id: Some("a2xhbW0ta2xhbW0tMQ".to_owned()),
        controller_id: 1,
        topics: (0..TOPICS).map(topic).collect(),
        ..Default::default()
    }
}

/// Returns a fetch response for the same number of partitions, with one kilobyte of records each.
pub fn fetch_response() -> fetch::Response {
    let records = Bytes::from(vec![7; 1024]);
    let partition = |partition_index| fetch::PartitionResponse {
        partition_index,
        high_watermark: 1000,
        last_stable_offset: 1000,
        log_start_offset: 0,
        records: Some(records.clone()),
        ..Default::default()
    };
    let topic = |t| fetch::TopicResponse {
        topic_id: Uuid([t; 16]),
        partitions: (0..PARTITIONS).map(partition).collect(),
        ..Default::default()
    };
    fetch::Response { responses: (0..TOPICS).map(topic).collect(), ..Default::default() }
}

/// Encodes a message with klamm.
pub fn encoded<M: Message>(version: i16, message: &M) -> Bytes {
    api::encode(version, message).expect("fields that the version has").into()
}

/// Decodes a metadata response with kafka-protocol.
pub fn their_metadata(body: &Bytes) -> MetadataResponse {
    MetadataResponse::decode(&mut body.clone(), METADATA).expect("klamm wrote it")
}

/// Decodes a fetch response with kafka-protocol.
pub fn their_fetch(body: &Bytes) -> FetchResponse {
    FetchResponse::decode(&mut body.clone(), FETCH).expect("klamm wrote it")
}

/// Encodes a message with kafka-protocol.
pub fn their_bytes<M: Encodable>(version: i16, message: &M, size: usize) -> BytesMut {
    let mut out = BytesMut::with_capacity(size);
    message.encode(&mut out, version).expect("fields that the version has");
    out
}
