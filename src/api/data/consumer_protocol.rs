//! The embedded consumer protocol: data that members of a classic group send each other through their coordinator. The
//! coordinator does not interpret the data. [`Subscription`] is the metadata in JoinGroup, and [`Assignment`] is the
//! assignment in SyncGroup. The protocol type is `consumer`. Version 1 of the subscription adds the partitions that the
//! member owns, for cooperative rebalances (KIP-429). Version 2 adds the generation in which the member owned its
//! partitions (KIP-792). Version 3 adds the member's rack (KIP-881). The format of the assignment is the same in all
//! versions.
//!
//! The encoded data starts with the version. New versions only add fields at the end. A member therefore reads an
//! unknown newer version like the newest version that it knows. A member with old software can therefore lead a group
//! that also has newer members.

use crate::api::{self, Message};
use crate::wire::{Error, Reader, Wire};
use bytes::Bytes;

message! {
    struct Subscription {
        topics: Vec<String>,
        user_data: Option<Bytes>,
        owned_partitions: Vec<TopicPartitions> [1..],
        generation_id: i32 [2..] = -1,
        rack_id: Option<String> [3..],
    }
    struct Assignment {
        assigned_partitions: Vec<TopicPartitions>,
        user_data: Option<Bytes>,
    }
    struct TopicPartitions {
        topic: String,
        partitions: Vec<i32>,
    }
}
structure! { data ConsumerProtocolSubscription: Subscription, 0..=3 }
structure! { data ConsumerProtocolAssignment: Assignment, 0..=3 }

/// Encodes the version and a body.
pub fn encode<M: Message>(version: i16, message: &M) -> Result<Vec<u8>, Error> {
    let body = api::encode(version, message)?;
    Ok([&version.to_be_bytes()[..], &body].concat())
}

/// Null user data, for a body that ends before this field.
const NO_USER_DATA: [u8; 4] = (-1_i32).to_be_bytes();

/// Decodes the body after a version. As in Java, decoding ignores fields of newer versions. Fields that are missing at
/// the end have their defaults, because some clients write a newer version than the version of their fields.
pub fn decode<M: Message>(data: Bytes) -> Result<M, Error> {
    let mut r = Reader::new(data, 0, false);
    let version = i16::get(&mut r).map_err(|e| e.of(M::API.name, M::KIND, 0))?;
    let newest = version.min(M::API.max);
    M::API.check(M::KIND, newest)?;
    let body = r.rest();
    let decoded = |version, body: Bytes| M::get(&mut Reader::new(body, version, false));
    decoded(newest, body.clone()).or_else(|error| {
        let older = (M::API.min..newest).rev().find_map(|version| decoded(version, body.clone()).ok());
        let shortest = || decoded(M::API.min, [&body[..], &NO_USER_DATA].concat().into()).ok();
        older.or_else(shortest).ok_or_else(|| error.of(M::API.name, M::KIND, version))
    })
}
