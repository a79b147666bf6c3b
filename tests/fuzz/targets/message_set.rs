//! Checks conversions between formats: readable records stay readable, and no input causes a panic.
//!
//! Input: a byte whose lowest bit selects the target format, and batches of any format. The conversion does not check
//! batches that already have the target format, so damaged batches may stay damaged.

#![no_main]

use bytes::Bytes;
use klamm::record::{batches, down_convert, up_convert};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 16 << 20;

fn is_readable(data: &Bytes) -> bool {
    batches(data.clone()).all(|batch| {
        let records = batch.and_then(|batch| batch.records(LIMIT));
        records.is_ok_and(|mut records| records.all(|record| record.is_ok()))
    })
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let (magic, data) = ((choice & 1) as i8, Bytes::copy_from_slice(rest));
    let converted = [down_convert(data.clone(), magic, i64::MIN, LIMIT), up_convert(data.clone(), magic + 1, LIMIT)];
    for converted in converted.into_iter().flatten() {
        assert!(is_readable(&converted) || !is_readable(&data));
    }
});
