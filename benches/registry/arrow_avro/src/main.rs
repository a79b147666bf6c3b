//! Decodes framed Avro values with arrow-avro, and prints the number of records and the CPU time in seconds.
//!
//! The arguments are a schema file, a values file, the number of rounds, and the schema ID of all values. In the values
//! file, each value follows its length in four bytes. Each round decodes the whole values file.

use arrow_avro::reader::ReaderBuilder;
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use std::{env, fs};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [schema, values, rounds, id] = arguments.as_slice() else { panic!("SCHEMA VALUES ROUNDS ID") };
    let schema = AvroSchema::new(fs::read_to_string(schema).expect("a schema"));
    let data = fs::read(values).expect("values");
    let rounds: usize = rounds.parse().expect("a number");
    let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    store.set(Fingerprint::Id(id.parse().expect("an ID")), schema).expect("a valid schema");
    let began = cpu_seconds();
    let mut decoder =
        ReaderBuilder::new().with_batch_size(ROWS).with_writer_schema_store(store).build_decoder().expect("a decoder");
    let mut records = 0;
    for _ in 0..rounds {
        let mut rest = data.as_slice();
        while let Some((length, after)) = rest.split_first_chunk() {
            let (value, after) = after.split_at(u32::from_be_bytes(*length) as usize);
            assert_eq!(decoder.decode(value).expect("a valid value"), value.len());
            rest = after;
            if decoder.batch_is_full() {
                records += decoder.flush().expect("a batch").map_or(0, |batch| batch.num_rows());
            }
        }
    }
    records += decoder.flush().expect("a batch").map_or(0, |batch| batch.num_rows());
    println!("[{records}, {}]", cpu_seconds() - began);
}

/// Returns the CPU time of this process, from Linux.
fn cpu_seconds() -> f64 {
    let line = fs::read_to_string("/proc/self/schedstat").expect("Linux");
    let nanoseconds: f64 = line.split(' ').next().and_then(|word| word.parse().ok()).expect("nanoseconds");
    nanoseconds / 1e9
}

/// As many rows as a batch of `read_table` has.
const ROWS: usize = 65_536;
