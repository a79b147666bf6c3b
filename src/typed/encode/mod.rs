//! Encoders of values, one for each format.

pub mod avro;
