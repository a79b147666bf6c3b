//! Compares the hash that selects the partition of a key with the hash of the Java client.

use crate::vectors::{hex, int, jsonl};
use klamm::engine::producer::{murmur2, partition_of};

#[test]
fn every_key_has_the_hash_and_partitions_of_the_java_client() {
    let lines = jsonl("murmur2.jsonl");
    assert!(!lines.is_empty());
    for line in &lines {
        let key = hex(line, "key").unwrap();
        let hash = murmur2(&key);
        assert_eq!(hash, int::<i32>(line, "murmur2"), "{line}");
        let positive = hash & 0x7fff_ffff;
        assert_eq!(positive, int::<i32>(line, "positive"), "{line}");
        for (count, partition) in line["partition"].as_object().unwrap() {
            let found = partition_of(&key, count.parse().unwrap());
            assert_eq!(Some(found as u64), partition.as_u64(), "{line}");
        }
    }
}
