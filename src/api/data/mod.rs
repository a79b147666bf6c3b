//! Structures inside other data: the metadata of a group member, control records, an index file. The macro `message!`
//! declares these structures, as it declares the requests and responses. In `klamm.protocol`, the structures have the
//! kind `data`.

pub mod consumer_protocol;
pub mod control_record;
pub mod principal;
pub mod transaction_index;
