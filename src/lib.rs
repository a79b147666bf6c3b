//! klamm: Kafka's protocol, a client for it, and a small embedded cluster to test against.
//!
//! The layers, in the order bytes travel; each uses only those above it, and a test holds them to that:
//!
//! * [`random`]: reproducible pseudo-random numbers.
//! * [`logging`]: log lines, through the crate `log`.
//! * [`wire`]: bytes to values and back: cursors, varints, limits, the `message!` grammar.
//! * [`frame`]: the int32 length before every request and response.
//! * [`api`]: one file per Kafka API, declared once, every version, both directions.
//! * [`compress`]: gzip, snappy, lz4, zstd, with bounded output.
//! * [`record`]: what a log holds: batches, their checks, lazy records.
//! * [`legacy`]: what Kafka 0.6 and 0.7 speak: requests without versions, messages at byte offsets.
//! * [`otlp`]: the metrics that clients push to brokers (KIP-714).
//! * [`engine`]: state machines without sockets, threads, locks or clocks.
//! * [`net`]: sockets and wake-ups, without Kafka.
//! * [`client`]: the two together: producer, consumer, admin.
//! * `broker` (feature `broker`): the embedded dev broker; it shares the codec with the client and nothing else.
//! * `arrow` (feature `arrow`): record batches as Arrow columns, and back.
//! * `registry` (feature `registry`): the values of schema registries as Arrow columns.
//! * `py` (feature `python`): the extension module; it converts, waits and raises.

#[macro_use]
pub mod wire;
#[macro_use]
pub mod logging;
pub mod api;
#[cfg(feature = "arrow")]
pub mod arrow;
#[cfg(feature = "broker")]
pub mod broker;
pub mod client;
pub mod compress;
pub mod engine;
pub mod frame;
pub mod legacy;
pub mod net;
pub mod otlp;
#[cfg(feature = "python")]
mod py;
pub mod random;
pub mod record;
#[cfg(feature = "registry")]
pub mod registry;
