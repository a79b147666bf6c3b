//! Groups of consumers: who reads which partition.

pub mod assignor;
