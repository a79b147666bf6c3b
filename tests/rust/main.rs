//! klamm's Rust tests. All Rust tests form one binary, so that the linker runs only once.

mod assignors;
mod bootstrap;
mod broker;
mod controllers;
mod conversion;
mod hostile;
mod idle;
mod layers;
mod legacy;
mod murmur2;
mod network;
mod old_releases;
mod records;
mod sasl;
mod scram;
mod sim;
mod telemetry;
mod topics;
mod vectors;
mod wire;
