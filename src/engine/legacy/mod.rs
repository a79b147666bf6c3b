//! State machines for Kafka before 0.8. The rest of the engine does not use these state machines.
//!
//! The crate's `legacy` module has the requests and messages of these old releases. `client::legacy` implements the
//! connections to brokers of Kafka before 0.8.

pub mod zookeeper;
