//! Schemas and values of schema registries: parses schemas, resolves a writer's schema to a reader's schema, and
//! decodes and encodes values.
//!
//! The decoders write to a trait and the encoders read from a trait, so that the same code serves Arrow columns
//! (`crate::registry`) and Python objects (`crate::py`). Requests to a registry and the framing of records belong to the
//! callers.

pub mod decode;
pub mod encode;
pub mod fault;
pub mod resolve;
pub mod schema;
pub(crate) mod text;
pub(crate) mod varint;
