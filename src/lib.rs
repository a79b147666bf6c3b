//! klamm: Kafka's protocol, a client for it, and a small embedded cluster to test against.
//!
//! The layers, in the order bytes travel:
//!
//! * [`wire`]: bytes to values and back: cursors, varints, limits, the `message!` grammar.
//! * [`api`]: one file per Kafka API, declared once, every version, both directions.

#[macro_use]
pub mod wire;
pub mod api;
#[cfg(feature = "arrow")]
pub mod arrow;
pub mod client;
pub mod compress;
pub mod engine;
pub mod frame;
pub mod net;
#[cfg(feature = "python")]
mod py;
pub mod record;
