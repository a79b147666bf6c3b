//! An aborted transaction in a segment's `.txnindex` file (KIP-98), from which brokers answer what a `read_committed`
//! fetch has to leave out. An int16 version comes before it.

message! {
    struct AbortedTransaction {
        producer_id: i64,
        first_offset: i64,
        last_offset: i64,
        /// The last stable offset when it was aborted.
        last_stable_offset: i64,
    }
}
structure! { data AbortedTxn: AbortedTransaction, 0..=0 }
