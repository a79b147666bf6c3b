//! The share session with one leader: its partitions, and the acknowledgements that are waiting or in flight (KIP-932).
//! `requests` builds the requests of the session, and the share consumer handles their responses.

use super::acks::Acks;
use crate::engine::{Time, TopicIdPartition};
use std::collections::BTreeSet;

/// A leader and its share session.
#[derive(Default)]
pub struct LeaderSession {
    /// The epoch of the next request.
    pub epoch: i32,
    /// The partitions of the session. `next_partitions` contains the partitions after the request in flight succeeds.
    pub partitions: BTreeSet<TopicIdPartition>,
    pub next_partitions: BTreeSet<TopicIdPartition>,
    /// The acknowledgements to send. `sending` contains the acknowledgements in flight.
    pub acks: Acks,
    pub sending: Acks,
    /// The number of the last request with acknowledgements.
    pub round: u64,
    pub busy: bool,
    pub sent_at: Time,
    /// The end of the pause after a response without records, which lasts `IDLE_PAUSE`.
    pub idle_until: Time,
    /// Whether the request in flight closes the session.
    pub closing: bool,
    /// Whether the consumer must send the acknowledgements without waiting for a fetch.
    pub flush: bool,
    pub retry_at: Time,
    pub failures: u32,
    /// When whole requests began to fail with temporary errors. `malformed` is the number of malformed responses in a
    /// row.
    pub unknown_since: Option<Time>,
    pub malformed: u32,
    /// The number of share session errors in a row.
    pub session_errors: u32,
}
