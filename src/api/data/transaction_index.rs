//! An entry of a segment's `.txnindex` file: an aborted transaction (KIP-98). Brokers read this file to list the
//! transactions that a `read_committed` consumer must skip. An int16 version precedes each entry.

message! {
    struct AbortedTransaction {
        producer_id: i64,
        first_offset: i64,
        last_offset: i64,
        /// Last stable offset at the time of the abort.
        last_stable_offset: i64,
    }
}
structure! { data AbortedTxn: AbortedTransaction, 0..=0 }
