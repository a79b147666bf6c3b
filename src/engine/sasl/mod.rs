//! Proving to a broker who the client is (SASL): a file for each mechanism.

pub mod scram;
