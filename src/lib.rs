//! klamm: Kafka's protocol, a client for it, and a small embedded cluster to test against.
//!
//! The crate has layers. A test checks that each layer uses only the layers above it in this list:
//!
//! * [`random`]: reproducible pseudo-random numbers.
//! * [`logging`]: log lines, through the crate `log`, and the flight recorder.
//! * [`wire`]: encodes and decodes the types of the protocol: cursors, varints, limits, the `message!` grammar.
//! * [`frame`]: the int32 length before every request and response.
//! * [`api`]: one file for each Kafka API, which declares all versions of its request and response.
//! * [`compress`]: gzip, snappy, lz4, zstd, with bounded output.
//! * [`record`]: the contents of a log: batches, their checks, records decoded on demand.
//! * [`legacy`]: the protocol of Kafka 0.6 and 0.7: requests without versions, messages at byte offsets.
//! * [`otlp`]: the metrics that clients push to brokers (KIP-714).
//! * [`engine`]: state machines without sockets, threads, locks or clocks.
//! * [`net`]: sockets and wake-ups, independent of Kafka.
//! * [`client`]: runs the state machines of `engine` over the sockets of `net`: producer, consumer, share consumer,
//!   admin.
//! * `broker` (feature `broker`): the embedded dev broker, which shares the codec and `net` with the client.
//! * `arrow` (feature `arrow`): record batches as Arrow columns, and back.
//! * `typed` (feature `registry`): schemas of registries, and the decoders and encoders of their values.
//! * `registry` (feature `registry`): keys and values whose schemas are in a schema registry, as Arrow columns.
//! * `py` (feature `python`): the extension module for Python.

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
#[cfg(feature = "registry")]
pub mod typed;
