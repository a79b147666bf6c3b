//! The functions that the benches measure. The time benches and the instruction bench share these functions, so that
//! both measure the same work.
//!
//! `klamm`, `kafka_protocol` and `barnabas` do the same work on the same bytes. [`floor`] is the minimum work that any
//! codec must do: compute the checksum of a batch, and copy the batch once.

use bytes::Bytes;

pub mod barnabas;
pub mod floor;
pub mod kafka_protocol;
pub mod klamm;
pub mod legacy;
pub mod messages;

/// Size and number of the records in a batch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Name in the table.
    pub name: &'static str,
    /// Number of records.
    pub records: usize,
    /// Size of each key in bytes.
    pub key: usize,
    /// Size of each value in bytes.
    pub value: usize,
}

/// A typical record, a large one, and a very small one.
pub const SHAPES: [Shape; 3] = [
    Shape { name: "100 bytes", records: 10_000, key: 16, value: 100 },
    Shape { name: "1 KiB", records: 10_000, key: 16, value: 1024 },
    Shape { name: "8 bytes", records: 10_000, key: 4, value: 8 },
];

/// First timestamp of a batch. Eight records have the same millisecond.
pub const START_MS: i64 = 1_700_000_000_000;

/// A record to write.
#[derive(Clone, Debug)]
pub struct Plain {
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// The key.
    pub key: Bytes,
    /// Words, so that the value can be compressed.
    pub value: Bytes,
}

impl Shape {
    /// Returns the records, contiguous in memory, so that codecs are measured and not caches.
    pub fn plain(&self) -> Vec<Plain> {
        let mut words = Words(0x2545_f491_4f6c_dd1d);
        let mut text = Vec::new();
        for i in 0..self.records {
            text.extend_from_slice(format!("{:0width$}", i * 7919 % self.records, width = self.key).as_bytes());
            text.extend_from_slice(&words.text(self.value));
        }
        let mut text = Bytes::from(text);
        let record = |i| Plain {
            timestamp: START_MS + i as i64 / 8,
            key: text.split_to(self.key),
            value: text.split_to(self.value),
        };
        (0..self.records).map(record).collect()
    }
}

/// Returns text from a vocabulary, the same in every run.
struct Words(u64);

impl Words {
    fn text(&mut self, size: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(size + 16);
        while out.len() < size {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            // A few words are frequent and many are rare, as in a log.
            let rank = (self.0 >> 40) % ((self.0 >> 8) % 997 + 3);
            out.extend_from_slice(format!("{rank:x}:{:x} ", rank * rank * 31).as_bytes());
        }
        out.truncate(size);
        out
    }
}
