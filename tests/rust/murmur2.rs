//! The hash that chooses a key's partition, against the Java client's.

use crate::vectors::{hex, int, jsonl};
use klamm::client::murmur2;

#[test]
fn every_key_has_the_hash_and_partitions_of_the_java_client() {
    let lines = jsonl("murmur2.jsonl");
    assert_eq!(lines.len(), 210);
    for line in &lines {
        let hash = murmur2(&hex(line, "key").unwrap());
        assert_eq!(hash, int::<i32>(line, "murmur2"), "{line}");
        let positive = hash & 0x7fff_ffff;
        assert_eq!(positive, int::<i32>(line, "positive"), "{line}");
        for (count, partition) in line["partition"].as_object().unwrap() {
            assert_eq!(i64::from(positive) % count.parse::<i64>().unwrap(), partition.as_i64().unwrap(), "{line}");
        }
    }
}
