//! Parsers of schema text, one for each format.

pub mod avro;
mod avro_defaults;
mod avro_parser;
pub mod protobuf;
