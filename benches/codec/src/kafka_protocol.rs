//! The codec kafka-protocol, whose records own their keys and values.

use crate::Plain;
use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record, RecordBatchDecoder,
    RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use std::hint::black_box;

/// Returns the records in kafka-protocol's types.
pub fn records(records: &[Plain]) -> Vec<Record> {
    let record = |(i, r): (usize, &Plain)| Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        timestamp_type: TimestampType::Creation,
        offset: i as i64,
        sequence: NO_SEQUENCE,
        timestamp: r.timestamp,
        key: Some(r.key.clone()),
        value: Some(r.value.clone()),
        headers: IndexMap::new(),
    };
    records.iter().enumerate().map(record).collect()
}

/// Encodes one batch.
pub fn encode(records: &[Record]) -> Bytes {
    let mut out = BytesMut::with_capacity(2 << 20);
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut out, records, &options).expect("records that fit a batch");
    out.freeze()
}

/// Decodes every record and returns the number of bytes in keys and values.
pub fn decode(data: &Bytes) -> usize {
    let set = RecordBatchDecoder::decode(&mut data.clone()).expect("a good batch");
    let size = |b: &Option<Bytes>| b.as_ref().map_or(0, Bytes::len);
    set.records.iter().map(|r| black_box(size(&r.key)) + black_box(size(&r.value))).sum()
}
