//! Record batches against the Java client: what it wrote is read and written alike, and what it refuses is refused,
//! after the same records.

use crate::vectors::{self, hex, int, text};
use bytes::Bytes;
use klamm::compress::{Compression, DEFAULT_LIMIT};
use klamm::record::{Batch, BatchBuilder, Producer, RecordSet, TimestampType, batches};
use serde_json::{Value as Json, json};

/// What a reader gets out of some bytes: the batches, in the form of the vectors, and what ended the walk.
#[derive(Default)]
struct Reading {
    batches: Vec<Json>,
    /// Records of the batch that broke, before it did.
    records: usize,
    trailing_bytes: usize,
    error: Option<String>,
}

/// Reads as the Java consumer does: next batch, checksum, records.
fn read(data: Bytes, check_crc: bool) -> Reading {
    let mut reading = Reading::default();
    let mut walk = batches(data);
    for batch in walk.by_ref() {
        reading.records = 0;
        let read = batch.and_then(|batch| {
            if check_crc {
                batch.check_crc()?;
            }
            let mut set = batch.records(DEFAULT_LIMIT)?;
            let records: Result<Vec<Json>, _> = std::iter::from_fn(|| next_record(&batch, &mut set))
                .inspect(|record| reading.records += usize::from(record.is_ok()))
                .collect();
            Ok(describe(&batch, records?))
        });
        match read {
            Ok(batch) => reading.batches.push(batch),
            Err(e) => {
                reading.error = Some(e.to_string());
                return reading;
            }
        }
    }
    reading.trailing_bytes = walk.left();
    reading
}

fn next_record(batch: &Batch, set: &mut RecordSet) -> Option<Result<Json, klamm::wire::Error>> {
    let timestamp_type = timestamp_type(batch);
    Some(set.next_view()?.map(|view| {
        let headers: Vec<Json> = view
            .headers()
            .map(|(key, value)| json!({"key": String::from_utf8_lossy(key), "value": value.map(to_hex)}))
            .collect();
        json!({
            "offset": view.offset(),
            "timestamp": view.timestamp(),
            "timestamp_type": timestamp_type,
            "key": view.key().map(to_hex),
            "value": view.value().map(to_hex),
            "headers": headers,
        })
    }))
}

fn timestamp_type(batch: &Batch) -> &'static str {
    match batch.header.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

fn describe(batch: &Batch, records: Vec<Json>) -> Json {
    let header = &batch.header;
    json!({
        "magic": header.magic,
        "size": header.size(),
        "base_offset": header.base_offset,
        "last_offset": header.last_offset(),
        "next_offset": header.next_offset(),
        "crc": header.crc,
        "attributes": header.attributes,
        "compression": header.compression().map(Compression::name),
        "timestamp_type": timestamp_type(batch),
        "max_timestamp": header.max_timestamp,
        "partition_leader_epoch": header.partition_leader_epoch,
        "last_offset_delta": header.last_offset_delta,
        "base_timestamp": header.base_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "count": header.count,
        "transactional": header.is_transactional(),
        "control": header.is_control(),
        "delete_horizon_ms": header.delete_horizon_ms(),
        "records": records,
    })
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The batches of an expectation, without what klamm does not compute: sequence numbers of single records and the
/// meaning of control records, which a client only skips.
fn expected(expect: &Json) -> Vec<Json> {
    let mut batches = expect["batches"].as_array().unwrap().clone();
    for batch in &mut batches {
        batch.as_object_mut().unwrap().remove("last_sequence");
        for record in batch["records"].as_array_mut().unwrap() {
            record.as_object_mut().unwrap().retain(|name, _| name != "sequence" && name != "control");
        }
    }
    batches
}

#[test]
fn every_batch_reads_as_java_wrote_it() {
    for line in vectors::lines("records.jsonl.gz") {
        let reading = read(hex(&line, "hex").unwrap(), true);
        let (id, expect) = (text(&line, "id"), &line["expect"]);
        assert_eq!(reading.error, None, "{id}");
        assert_eq!(reading.batches, expected(expect), "{id}");
        assert_eq!(reading.trailing_bytes, int::<usize>(expect, "trailing_bytes"), "{id}");
    }
}

/// What is different between a reading and Java's, in words.
fn disagreement(reading: &Reading, java: &Json) -> Option<String> {
    let ok = java["ok"] == true;
    if reading.error.is_none() != ok {
        return Some(format!("got {:?}, Java says {}", reading.error, java["message"]));
    }
    let trailing = if ok { int(java, "trailing_bytes") } else { 0 };
    let records = if ok { reading.records } else { int(java, "records_before") };
    if (reading.trailing_bytes, reading.records) != (trailing, records) {
        let Reading { trailing_bytes, records: found, error, .. } = reading;
        return Some(format!(
            "{found} records and {trailing_bytes} bytes left, Java {records} and {trailing}: {error:?}"
        ));
    }
    (reading.batches != expected(java)).then(|| format!("{:?} is not {}", reading.batches, java["batches"]))
}

fn disagreements(check: &str, skip: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for line in vectors::lines("records_corrupt.jsonl.gz") {
        let (id, reading) = (text(&line, "id"), read(hex(&line, "hex").unwrap(), check == "check_crc"));
        if let Some(why) = disagreement(&reading, &line["java"][check]).filter(|_| !skip(id)) {
            found.push(format!("{id}: {why}"));
        }
    }
    found
}

#[test]
fn every_broken_batch_gets_javas_verdict_after_the_same_records() {
    let found = disagreements("check_crc", |_| false);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn without_the_checksum_broken_batches_get_javas_verdict_too() {
    // What flipped bits in compressed data decompress to depends on the decompressor.
    let found = disagreements("skip_crc", |id| id.ends_with("-payload-flipped") && id != "v2-payload-flipped");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Writes a batch of an expectation; `None` if a producer cannot write it.
fn write(batch: &Json) -> Option<Vec<u8>> {
    let records = batch["records"].as_array().unwrap();
    let base_offset: i64 = int(batch, "base_offset");
    let contiguous = records.iter().zip(base_offset..).all(|(r, offset)| int::<i64>(r, "offset") == offset);
    let as_a_producer = records.len() as i64 == int::<i64>(batch, "last_offset_delta") + 1 && !records.is_empty();
    let broker_only = batch["control"] == true || !batch["delete_horizon_ms"].is_null();
    if !contiguous || !as_a_producer || broker_only || batch["timestamp_type"] != "CreateTime" {
        return None;
    }
    let mut builder = BatchBuilder::with_capacity(0);
    for record in records {
        let headers: Vec<(&str, Option<Bytes>)> =
            record["headers"].as_array().unwrap().iter().map(|h| (text(h, "key"), hex(h, "value"))).collect();
        let headers: Vec<(&str, Option<&[u8]>)> = headers.iter().map(|(k, v)| (*k, v.as_deref())).collect();
        let (key, value) = (hex(record, "key"), hex(record, "value"));
        builder.append(int(record, "timestamp"), key.as_deref(), value.as_deref(), &headers);
    }
    let producer = Producer {
        id: int(batch, "producer_id"),
        epoch: int(batch, "producer_epoch"),
        base_sequence: int(batch, "base_sequence"),
        transactional: batch["transactional"] == true,
    };
    let compression = Compression::from_name(text(batch, "compression")).unwrap();
    let mut data = builder.seal(compression, producer).unwrap().data.to_vec();
    // The broker's part, outside the checksum.
    data[..8].copy_from_slice(&base_offset.to_be_bytes());
    data[12..16].copy_from_slice(&int::<i32>(batch, "partition_leader_epoch").to_be_bytes());
    Some(data)
}

#[test]
fn what_a_producer_can_write_is_written_byte_for_byte_as_java_does() {
    let (mut written, mut unwritten) = (0, Vec::new());
    for line in vectors::lines("records.jsonl.gz") {
        let bytes = hex(&line, "hex").unwrap();
        let mut at = 0;
        for batch in line["expect"]["batches"].as_array().unwrap() {
            let size: usize = int(batch, "size");
            let whole = bytes.slice(at..at + size);
            at += size;
            if batch["compression"] != "none" {
                continue;
            }
            match write(batch) {
                Some(data) => {
                    assert_eq!(to_hex(&data), to_hex(&whole), "{}", text(&line, "id"));
                    written += 1;
                }
                None => unwritten.push(text(&line, "id").to_owned()),
            }
        }
    }
    // What only a broker writes: gaps that compaction leaves, batches without records, control batches, its own time.
    let brokers =
        ["gap", "edges", "empty-batch", "control", "v2-transaction", "log-append", "broker-stamped", "horizon"];
    let missing: Vec<_> = unwritten.iter().filter(|id| !brokers.iter().any(|what| id.contains(what))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(written, 31);
}

#[test]
fn compressed_batches_read_back_as_they_were_written() {
    for line in vectors::lines("records.jsonl.gz") {
        for batch in &expected(&line["expect"]) {
            let Some(data) = write(batch) else { continue };
            let reading = read(data.into(), true);
            assert_eq!(reading.error, None, "{}", text(&line, "id"));
            assert_eq!(reading.batches[0]["records"], batch["records"], "{}", text(&line, "id"));
        }
    }
}
