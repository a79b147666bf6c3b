//! Checks the round trip of responses: if klamm encodes a decoded response and decodes it again, the response is the
//! same.
//!
//! The input consists of the API key, the version and the body.

#![no_main]

use klamm_fuzz::round_trip;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| round_trip(data, |api| &api.response));
