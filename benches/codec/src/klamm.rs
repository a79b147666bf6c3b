//! klamm's codec.

use crate::Plain;
use bytes::Bytes;
use klamm::arrow::{Columns, Layout, Rows, to_batch};
use klamm::compress::{Compression, DEFAULT_LIMIT};
use klamm::record::{BatchBuilder, Producer, Record, batches};
use std::hint::black_box;

/// Encodes one batch, as a producer does.
pub fn encode(records: &[Plain], compression: Compression) -> Bytes {
    let mut builder = BatchBuilder::with_capacity(2 << 20);
    for r in records {
        builder.append(r.timestamp, Some(&r.key), Some(&r.value), &[]);
    }
    builder.seal(compression, Producer::NONE).expect("no codec fails to write").data
}

/// Decodes views of all records, checks the checksum, and returns the number of bytes in keys and values.
pub fn views(data: &Bytes) -> usize {
    let mut bytes = 0;
    for batch in batches(data.clone()) {
        let batch = batch.expect("written above");
        batch.check_crc().expect("written above");
        let mut set = batch.records(DEFAULT_LIMIT).expect("written above");
        while let Some(Ok(record)) = set.next_view() {
            bytes += black_box(record.key()).map_or(0, <[u8]>::len) + black_box(record.value()).map_or(0, <[u8]>::len);
        }
    }
    bytes
}

/// Decodes all records to Arrow columns, checks the checksum, and returns the number of rows.
pub fn columns(data: &Bytes, columns: &Columns) -> usize {
    let mut rows = 0;
    for batch in batches(data.clone()) {
        let batch = batch.expect("written above");
        batch.check_crc().expect("written above");
        let mut set = batch.records(DEFAULT_LIMIT).expect("written above");
        let mut records: Vec<Record> = Vec::with_capacity(set.size_hint().1.unwrap_or(0));
        while let Some(Ok(record)) = set.next() {
            records.push(record);
        }
        let slice = Rows {
            topic: "t",
            partition: 0,
            timestamp_type: batch.header.timestamp_type(),
            data: set.data(),
            records: &records,
        };
        rows += black_box(to_batch(columns, &[slice]).expect("smaller than 2 GiB")).num_rows();
    }
    rows
}

/// Returns the columns of a consumer.
pub fn all_columns() -> Columns {
    Columns::new::<&str>(Layout::Klamm, None).expect("all there are")
}
