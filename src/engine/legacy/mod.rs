//! State machines for Kafka before 0.8. The rest of the engine does not use these state machines.
//!
//! The crate's `legacy` module has the requests and messages of these old releases. `client::legacy` has the
//! connections.

pub mod zookeeper;
