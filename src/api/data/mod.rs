//! Structures that travel inside other things: in a group's metadata, in control records, in an index file. They are
//! declared as APIs are, and known by name as APIs are, with the kind `data`.

pub mod consumer_protocol;
pub mod control_record;
pub mod principal;
pub mod transaction_index;
