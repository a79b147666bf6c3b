//! A decoded request encodes, and decodes to the same request again.
//!
//! Input: the API's key, the version, the body.

#![no_main]

use klamm_fuzz::round_trip;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| round_trip(data, |api| &api.request));
