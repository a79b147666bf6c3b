//! Tests arbitrary records in all formats and compressions, and conversions between formats.

use bytes::Bytes;
use klamm::compress::{Compression, DEFAULT_LIMIT};
use klamm::record::{BatchBuilder, Header, MessageSetBuilder, Producer, batches, down_convert, up_convert};
use klamm::wire::Error;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

type Octets = Option<Vec<u8>>;

#[derive(Clone, Debug, PartialEq)]
struct Record {
    offset: i64,
    timestamp: i64,
    key: Octets,
    value: Octets,
    headers: Vec<(String, Octets)>,
}

impl Record {
    /// Returns the part of the record that an older format keeps.
    fn in_magic(&self, magic: i8) -> Self {
        let timestamp = if magic == 0 { -1 } else { self.timestamp };
        let headers = if magic < 2 { Vec::new() } else { self.headers.clone() };
        Self { timestamp, headers, ..self.clone() }
    }
}

fn write(magic: i8, compression: Compression, records: &[Record]) -> Bytes {
    if magic < 2 {
        let mut set = if magic == 0 { MessageSetBuilder::magic_0() } else { MessageSetBuilder::magic_1(None) };
        for r in records {
            set.append(r.offset, r.timestamp, r.key.as_deref(), r.value.as_deref());
        }
        return set.seal(compression).unwrap().into();
    }
    let base = records.first().map_or(0, |r| r.offset);
    let mut builder = BatchBuilder::with_capacity(0);
    for r in records {
        let headers: Vec<_> = r.headers.iter().map(|(k, v)| (k.as_bytes(), v.as_deref())).collect();
        let delta = (r.offset - base) as i32;
        builder.append_at(delta, r.timestamp, r.key.as_deref(), r.value.as_deref(), &headers);
    }
    at_offset(&builder.seal(compression, Producer::NONE).unwrap().data, base)
}

fn at_offset(batch: &[u8], offset: i64) -> Bytes {
    [&offset.to_be_bytes(), &batch[8..]].concat().into()
}

/// Returns all records, and the magic and compression of each batch.
fn read(data: Bytes, in_runs: bool) -> Result<(Vec<Record>, Vec<(i8, Compression)>), Error> {
    let (mut records, mut kinds) = (Vec::new(), Vec::new());
    let walk = batches(data);
    for batch in if in_runs { walk.in_runs() } else { walk } {
        let batch = batch?;
        batch.check_crc()?;
        kinds.push((batch.header.magic, batch.header.compression().unwrap()));
        let mut set = batch.records(DEFAULT_LIMIT)?;
        while let Some(view) = set.next_view() {
            let view = view?;
            let header =
                |(k, v): (&[u8], Option<&[u8]>)| (String::from_utf8(k.to_vec()).unwrap(), v.map(<[u8]>::to_vec));
            records.push(Record {
                offset: view.offset(),
                timestamp: view.timestamp(),
                key: view.key().map(<[u8]>::to_vec),
                value: view.value().map(<[u8]>::to_vec),
                headers: view.headers().map(header).collect(),
            });
        }
    }
    Ok((records, kinds))
}

fn octets() -> impl Strategy<Value = Octets> {
    option::weighted(0.8, vec(prop_oneof![Just(b'a'), any::<u8>()], 0..200))
}

/// Returns records with rising offsets, mostly by one.
fn records() -> impl Strategy<Value = Vec<Record>> {
    let gap = prop_oneof![9 => Just(1i64), 1 => 1..100_000i64];
    let timestamp = prop_oneof![Just(-1), 1_600_000_000_000..1_700_000_000_000i64];
    let headers = vec((".{0,20}", octets()), 0..3);
    let record = (gap, timestamp, octets(), octets(), headers);
    (0..i64::from(u32::MAX), vec(record, 1..40)).prop_map(|(first, records)| {
        let mut offset = first;
        let place = |(gap, timestamp, key, value, headers)| {
            offset += gap;
            Record { offset, timestamp, key, value, headers }
        };
        records.into_iter().map(place).collect()
    })
}

fn kinds() -> impl Iterator<Item = (i8, Compression)> {
    let all = (0..=2).flat_map(|magic| Compression::ALL.map(|compression| (magic, compression)));
    all.filter(|(magic, compression)| *magic == 2 || *compression != Compression::Zstd)
}

fn for_all(check: impl Fn(&[Record])) {
    let config = Config { cases: 32, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let check = |records: Vec<Record>| {
        check(&records);
        Ok(())
    };
    runner.run(&records(), check).unwrap();
}

fn in_magic(magic: i8, records: &[Record]) -> Vec<Record> {
    records.iter().map(|r| r.in_magic(magic)).collect()
}

#[test]
fn records_come_back_from_every_format_and_compression() {
    for_all(|records| {
        for (magic, compression) in kinds() {
            let data = write(magic, compression, records);
            for in_runs in [false, true] {
                let (found, kinds) = read(data.clone(), in_runs).unwrap();
                assert_eq!(found, in_magic(magic, records), "{magic} {compression:?}");
                assert!(kinds.iter().all(|kind| *kind == (magic, compression)));
                let one_each = magic < 2 && compression == Compression::None && !in_runs;
                assert_eq!(kinds.len(), if one_each { records.len() } else { 1 });
            }
        }
    });
}

#[test]
fn no_prefix_of_a_batch_is_read_and_every_longer_one_is() {
    for_all(|records| {
        for (magic, compression) in kinds().filter(|(_, compression)| *compression != Compression::None) {
            let data = write(magic, compression, records);
            for cut in [0, 11, 12, 16, 17, data.len() / 2, data.len() - 1] {
                assert_eq!(read(data.slice(..cut), false).unwrap().0, [], "{magic} {compression:?} {cut}");
                let longer = [&data, &data[..cut]].concat().into();
                assert_eq!(read(longer, true).unwrap().0.len(), records.len());
            }
        }
    });
}

#[test]
fn conversion_keeps_what_the_other_format_has() {
    for_all(|records| {
        for (magic, compression) in kinds().filter(|(_, compression)| *compression != Compression::Zstd) {
            let data = write(magic, compression, records);
            for to in 0..=2 {
                let converted = match to {
                    _ if to < magic => down_convert(data.clone(), to, 0, DEFAULT_LIMIT).unwrap(),
                    _ => up_convert(data.clone(), to, DEFAULT_LIMIT).unwrap(),
                };
                let (found, kinds) = read(converted, true).unwrap();
                assert_eq!(found, in_magic(to.min(magic), records), "{magic} to {to}, {compression:?}");
                assert_eq!(kinds, [(to, compression)]);
            }
        }
    });
}

fn plain(offset: i64, timestamp: i64) -> Record {
    let value = Some(format!("{offset}").into_bytes());
    Record { offset, timestamp, key: None, value, headers: Vec::new() }
}

fn offsets(data: Bytes) -> Vec<i64> {
    read(data, false).unwrap().0.iter().map(|r| r.offset).collect()
}

#[test]
fn conversion_down_copies_older_batches_and_leaves_out_control_batches_and_what_was_not_asked_for() {
    let records: Vec<_> = (5..9).map(|offset| plain(offset, 1)).collect();
    let mut control = write(2, Compression::None, &[plain(9, 1)]).to_vec();
    let mut header = Header::parse(&control).unwrap().unwrap();
    header.set_control();
    header.stamp(&mut control);
    let empty = BatchBuilder::with_capacity(0).seal(Compression::None, Producer::NONE).unwrap().data;
    let old = write(0, Compression::Gzip, &[plain(3, -1), plain(4, -1)]);
    let data: Bytes = [&old, &write(2, Compression::None, &records), &control[..], &empty].concat().into();
    let converted = down_convert(data.clone(), 1, 7, DEFAULT_LIMIT).unwrap();
    assert_eq!(converted[..old.len()], old[..]);
    assert_eq!(offsets(converted), [3, 4, 7, 8]);
    // A compressed batch stays whole.
    let data = write(2, Compression::Lz4, &records);
    assert_eq!(offsets(down_convert(data, 1, 7, DEFAULT_LIMIT).unwrap()), [5, 6, 7, 8]);
}

#[test]
fn zstd_and_damaged_batches_are_not_converted() {
    let zstd = write(2, Compression::Zstd, &[plain(0, 1)]);
    assert!(down_convert(zstd, 1, 0, DEFAULT_LIMIT).unwrap_err().to_string().contains("zstd"));
    for magic in 0..=2 {
        let mut data = write(magic, Compression::None, &[plain(0, 1), plain(1, 1)]).to_vec();
        *data.last_mut().unwrap() ^= 1;
        let result = if magic == 2 { down_convert } else { |data, _, _, limit| up_convert(data, 2, limit) };
        assert!(result(data.into(), 0, 0, DEFAULT_LIMIT).unwrap_err().to_string().contains("checksum"), "{magic}");
    }
}

#[test]
fn append_times_survive_conversion() {
    let mut set = MessageSetBuilder::magic_1(Some(70));
    set.append(3, 1, None, Some(b"a"));
    set.append(4, 2, None, Some(b"b"));
    let mut later = MessageSetBuilder::magic_1(Some(90));
    later.append(5, 3, None, Some(b"c"));
    let data: Bytes = [set.seal(Compression::None).unwrap(), later.seal(Compression::None).unwrap()].concat().into();
    let up = up_convert(data.clone(), 2, DEFAULT_LIMIT).unwrap();
    let times: Vec<_> = batches(up.clone()).map(|b| b.unwrap().header).collect();
    let times: Vec<_> =
        times.iter().map(|h| (h.base_offset, h.count, h.timestamp_type() as i32, h.max_timestamp)).collect();
    assert_eq!(times, [(3, 2, 1, 70), (5, 1, 1, 90)]);
    assert_eq!(down_convert(up, 1, 0, DEFAULT_LIMIT).unwrap(), data);
}

#[test]
fn records_that_no_batch_can_hold_together_get_batches_of_their_own() {
    let mut set = MessageSetBuilder::magic_0();
    for offset in [5, 6, 6, 2, 1 << 40] {
        set.append(offset, -1, None, None);
    }
    let up = up_convert(set.seal(Compression::Gzip).unwrap().into(), 2, DEFAULT_LIMIT).unwrap();
    let bases: Vec<_> = batches(up.clone()).map(|b| b.unwrap().header.base_offset).collect();
    assert_eq!(bases, [5, 6, 2, 1 << 40]);
    assert_eq!(offsets(up), [5, 6, 6, 2, 1 << 40]);
}

#[test]
fn offsets_that_fall_are_not_converted() {
    let batch = |offsets: [i64; 2]| write(0, Compression::Gzip, &offsets.map(|offset| plain(offset, -1)));
    for offsets in [[7, 6], [-1, 0]] {
        assert!(up_convert(batch(offsets), 1, DEFAULT_LIMIT).unwrap_err().to_string().contains("offset"));
    }
    let mut negative = write(2, Compression::Gzip, &[plain(0, 1)]).to_vec();
    let mut header = Header::parse(&negative).unwrap().unwrap();
    header.base_offset = -1;
    header.stamp(&mut negative);
    assert!(down_convert(negative.into(), 1, -1, DEFAULT_LIMIT).unwrap_err().to_string().contains("offset"));
}
