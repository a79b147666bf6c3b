//! Kafka 0.6 and 0.7 for Python: the codec, connections, and membership of ZooKeeper groups.
//!
//! The rest of `src/py` does not depend on the files in this directory.

mod codec;
mod connection;
mod messages;
mod zookeeper;

pub(super) use codec::{decode_request, decode_response, encode_request, encode_response};
pub(super) use connection::{LegacyConnection, parse_address};
pub(super) use messages::{Fetched07, Message07, decode_fetched, decode_messages, encode_messages};
pub(super) use zookeeper::{ZooKeeperMember, ZooKeeperOperation};
