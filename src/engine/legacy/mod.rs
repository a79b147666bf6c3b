//! State machines for Kafka before 0.8, kept apart so that the rest of the engine reads without them.
//!
//! The crate's `legacy` module has the requests and messages of those releases; its connections are in
//! `client::legacy`.

pub mod zookeeper;
