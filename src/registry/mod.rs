//! Decodes keys and values into Arrow columns, and encodes Arrow columns as values. The schemas are in a schema
//! registry.
//!
//! The Python code in `klamm/registry/columns` reads the schemas and makes a decoding plan for each schema. The
//! module `registry` decodes records with these plans. `frame` finds the framing that names the schema of a record.
//! `typed`, `json` and `protobuf` decode the payload, and `column` collects the values. `encode` encodes a column as
//! record values. The module `registry` does not use the network. The function `unknown` lists the framings whose
//! schemas the caller has to look up.

mod avro;
mod column;
mod decoder;
mod encode;
mod frame;
mod json;
mod protobuf;

pub use crate::typed::fault::Fault;
pub use column::{Column, nullable};
pub use decoder::{Decoded, Decoder, Failure, Plan, unknown};
pub use encode::encode;
pub use frame::Framing;
