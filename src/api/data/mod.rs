//! Structures inside other data: the metadata of a group member, control records, an index file. This module declares
//! the structures with `message!`, like the APIs. In `klamm.protocol`, the structures have the type `data`.

pub mod consumer_protocol;
pub mod control_record;
pub mod principal;
pub mod transaction_index;
