//! Compares record batches with the Java client: klamm reads and writes the same bytes. In a damaged batch, klamm fails
//! after the same record as the Java client.

use crate::vectors::{self, hex, int, text};
use bytes::Bytes;
use klamm::compress::{Codec, Compression, DEFAULT_LIMIT};
use klamm::record::{BatchBuilder, Control, HEADER_SIZE, Header, MessageSetBuilder, Producer, RecordSet, batches};
use serde_json::{Value as Json, json};

/// The result of reading bytes: the batches in the form of the vectors, and the final error.
#[derive(Default)]
struct Reading {
    batches: Vec<Json>,
    /// Records of the damaged batch before its error.
    records: usize,
    trailing_bytes: usize,
    error: Option<String>,
}

/// Reads like the Java consumer: next batch, checksum, records.
fn read(data: Bytes, check_crc: bool) -> Reading {
    let mut reading = Reading::default();
    let mut walk = batches(data);
    for batch in walk.by_ref() {
        reading.records = 0;
        let read = batch.and_then(|batch| {
            if check_crc {
                batch.check_crc()?;
            }
            let set = batch.records(DEFAULT_LIMIT)?;
            let mut set = if check_crc { set } else { set.skip_crcs() };
            let records: Result<Vec<Json>, _> = std::iter::from_fn(|| next_record(&batch.header, &mut set))
                .inspect(|record| reading.records += usize::from(record.is_ok()))
                .collect();
            Ok(describe(&batch.header, records?))
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

fn next_record(header: &Header, set: &mut RecordSet) -> Option<Result<Json, klamm::wire::Error>> {
    Some(set.next_view()?.map(|view| {
        let headers: Vec<Json> = view
            .headers()
            .map(|(key, value)| json!({"key": String::from_utf8_lossy(key), "value": value.map(to_hex)}))
            .collect();
        let mut record = json!({
            "offset": view.offset(),
            "timestamp": view.timestamp(),
            "timestamp_type": header.timestamp_type().name(),
            "key": view.key().map(to_hex),
            "value": view.value().map(to_hex),
            "headers": headers,
        });
        if header.producer_id >= 0 {
            record["sequence"] = header.sequence_at(view.offset()).into();
        }
        if let Some(control) = Control::parse(view.key(), view.value()).filter(|_| header.is_control()) {
            let kind = control.control_type;
            record["control"] = json!({"version": control.version, "type_id": kind.number(), "type": kind.name()});
            if let Some(epoch) = control.coordinator_epoch {
                record["control"]["coordinator_epoch"] = epoch.into();
            }
        }
        record
    }))
}

fn describe(header: &Header, records: Vec<Json>) -> Json {
    // Where a compressed message begins shows inside of it.
    let first_offset =
        records.first().filter(|_| header.magic < 2).map_or(json!(header.base_offset), |r| r["offset"].clone());
    let mut batch = json!({
        "magic": header.magic,
        "size": header.size(),
        "base_offset": first_offset,
        "last_offset": header.last_offset(),
        "next_offset": header.next_offset(),
        "crc": header.crc,
        "attributes": header.attributes,
        "compression": header.compression().map(Compression::name),
        "timestamp_type": header.timestamp_type().name(),
        "max_timestamp": header.max_timestamp,
    });
    if header.magic == 2 {
        batch["partition_leader_epoch"] = header.partition_leader_epoch.into();
        batch["last_offset_delta"] = header.last_offset_delta.into();
        batch["base_timestamp"] = header.base_timestamp.into();
        batch["producer_id"] = header.producer_id.into();
        batch["producer_epoch"] = header.producer_epoch.into();
        batch["base_sequence"] = header.base_sequence.into();
        batch["last_sequence"] = header.last_sequence().into();
        batch["count"] = header.count.into();
        batch["transactional"] = header.is_transactional().into();
        batch["control"] = header.is_control().into();
        batch["delete_horizon_ms"] = header.delete_horizon_ms().into();
    }
    batch["records"] = records.into();
    batch
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_batch_reads_as_java_wrote_it() {
    for line in vectors::lines("records.jsonl.gz") {
        let reading = read(hex(&line, "hex").unwrap(), true);
        let (id, expect) = (text(&line, "id"), &line["expect"]);
        assert_eq!(reading.error, None, "{id}");
        assert_eq!(Json::from(reading.batches), expect["batches"], "{id}");
        assert_eq!(reading.trailing_bytes, int::<usize>(expect, "trailing_bytes"), "{id}");
    }
}

/// Describes the difference between a result and Java's.
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
    let found = Json::from(reading.batches.clone());
    (found != java["batches"]).then(|| format!("{found} is not {}", java["batches"]))
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

/// Writes the batch of an expectation.
fn write(batch: &Json, codec: Codec) -> Vec<u8> {
    let append_time = (batch["timestamp_type"] == "LogAppendTime").then(|| int(batch, "max_timestamp"));
    let records = batch["records"].as_array().unwrap().iter().map(|record| {
        let headers = record["headers"].as_array().unwrap().iter();
        let headers: Vec<(&str, Option<Bytes>)> = headers.map(|h| (text(h, "key"), hex(h, "value"))).collect();
        (
            int::<i64>(record, "offset"),
            int::<i64>(record, "timestamp"),
            hex(record, "key"),
            hex(record, "value"),
            headers,
        )
    });
    if batch["magic"] != 2 {
        let old = batch["magic"] == 0;
        let mut set = if old { MessageSetBuilder::magic_0() } else { MessageSetBuilder::magic_1(append_time) };
        for (offset, timestamp, key, value, _) in records {
            set.append(offset, timestamp, key.as_deref(), value.as_deref());
        }
        return set.seal(codec).unwrap();
    }
    let base_offset: i64 = int(batch, "base_offset");
    let mut builder = BatchBuilder::with_capacity(0).with_base_timestamp(int(batch, "base_timestamp"));
    for (offset, timestamp, key, value, headers) in records {
        let headers: Vec<(&[u8], Option<&[u8]>)> = headers.iter().map(|(k, v)| (k.as_bytes(), v.as_deref())).collect();
        let delta = i32::try_from(offset - base_offset).unwrap();
        builder.append_at(delta, timestamp, key.as_deref(), value.as_deref(), &headers);
    }
    let producer = Producer {
        id: int(batch, "producer_id"),
        epoch: int(batch, "producer_epoch"),
        base_sequence: int(batch, "base_sequence"),
        transactional: batch["transactional"] == true,
    };
    let mut data = builder.seal(codec, producer).unwrap().data.to_vec();
    // The broker's part.
    let mut header = Header::parse(&data).unwrap().unwrap();
    header.base_offset = base_offset;
    header.partition_leader_epoch = int(batch, "partition_leader_epoch");
    header.last_offset_delta = int(batch, "last_offset_delta");
    header.max_timestamp = int(batch, "max_timestamp");
    if let Some(ms) = append_time {
        header.set_append_time(ms);
    }
    if batch["control"] == true {
        header.set_control();
    }
    if !batch["delete_horizon_ms"].is_null() {
        header.set_delete_horizon();
    }
    header.stamp(&mut data);
    data
}

#[test]
fn a_batch_of_no_records_has_a_stream_that_begins_as_one() {
    for (compression, is_read) in [(Compression::Gzip, true), (Compression::Lz4, true), (Compression::Zstd, false)] {
        let sealed = BatchBuilder::with_capacity(0).seal(compression, Producer::NONE).unwrap().data;
        assert_eq!(read(sealed.clone(), true).error, None);
        let mut damaged = sealed.to_vec();
        damaged[HEADER_SIZE] ^= 1;
        Header::parse(&damaged).unwrap().unwrap().stamp(&mut damaged);
        assert_eq!(read(damaged.into(), true).error.is_some(), is_read, "{compression:?}");
    }
}

fn compression(batch: &Json) -> Compression {
    Compression::from_name(text(batch, "compression")).unwrap()
}

#[test]
fn what_is_not_compressed_is_written_byte_for_byte_as_java_does() {
    let mut written = 0;
    for line in vectors::lines("records.jsonl.gz").iter().filter(|line| line["exact"] == true) {
        let (bytes, expect) = (hex(line, "hex").unwrap(), &line["expect"]);
        let batches = expect["batches"].as_array().unwrap();
        let data: Vec<u8> = batches.iter().flat_map(|batch| write(batch, compression(batch).into())).collect();
        let whole = &bytes[..bytes.len() - int::<usize>(expect, "trailing_bytes")];
        assert_eq!(to_hex(&data), to_hex(whole), "{}", text(line, "id"));
        written += batches.len();
    }
    assert!(written > 700, "{written}");
}

/// Returns the batch without fields that depend on the compressor. In magic 0 and 1, a wrapper has the offset of its
/// last record.
fn without_sizes(batch: &Json) -> Json {
    let mut batch = batch.clone();
    for name in ["size", "crc"] {
        batch[name] = Json::Null;
    }
    if batch["magic"] != 2 && batch["compression"] != "none" {
        let last =
            batch["records"].as_array().and_then(|records| records.last()).map(|r| r["offset"].as_i64().unwrap());
        batch["last_offset"] = last.into();
        batch["next_offset"] = last.map(|offset| offset + 1).into();
        batch["max_timestamp"] = Json::Null;
    }
    batch
}

#[test]
fn every_batch_reads_back_as_it_was_written() {
    for line in vectors::lines("records.jsonl.gz") {
        for batch in line["expect"]["batches"].as_array().unwrap() {
            let reading = read(write(batch, compression(batch).into()).into(), true);
            assert_eq!(reading.error, None, "{}", text(&line, "id"));
            assert_eq!(without_sizes(&reading.batches[0]), without_sizes(batch), "{}", text(&line, "id"));
        }
    }
}
