//! Checks batches of any format: the iteration ends, records are inside their batch, and a batch has no more records
//! than bytes.
//!
//! Input: batches. The target ignores checksums, because a fuzzer cannot produce valid checksums.

#![no_main]

use bytes::Bytes;
use klamm::record::batches;
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 16 << 20;

fuzz_target!(|data: &[u8]| {
    let mut walked = 0;
    for batch in batches(Bytes::copy_from_slice(data)) {
        let Ok(batch) = batch else { break };
        walked += batch.data.len();
        let _ = batch.check_crc();
        let Ok(mut set) = batch.records(LIMIT) else { continue };
        let mut payload = 0;
        while let Some(Ok(view)) = set.next_view() {
            payload += view.key().map_or(0, <[u8]>::len) + view.value().map_or(0, <[u8]>::len);
            payload += view.headers().map(|(key, value)| key.len() + value.map_or(0, <[u8]>::len)).sum::<usize>();
        }
        assert!(payload <= LIMIT);
    }
    assert!(walked <= data.len());
});
