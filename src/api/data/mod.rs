//! Structures inside other data: a group's metadata, control records, an index file. They are declared like APIs, and
//! have names of type `data`.

pub mod consumer_protocol;
pub mod control_record;
pub mod principal;
pub mod transaction_index;
