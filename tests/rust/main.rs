//! klamm's Rust tests, one binary, so that they are linked once.

mod broker;
mod hostile;
mod layers;
mod records;
mod vectors;
mod wire;
