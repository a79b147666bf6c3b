//! Helpers of the fuzz targets.

use bytes::Bytes;
use klamm::api::{self, Entry, MessageHandle};

/// Decodes a body by its API key and version, encodes the result, and decodes it again. The results are compared as
/// text, because a NaN is not equal to itself.
pub fn round_trip(data: &[u8], handle: fn(&Entry) -> &MessageHandle) {
    let [key, version, body @ ..] = data else { return };
    let Some(api) = api::by_key((*key).into()) else { return };
    let (handle, version) = (handle(api), (*version).into());
    let Ok(value) = handle.decode(version, Bytes::copy_from_slice(body)) else { return };
    let again = handle.encode(version, value.clone()).expect("what was decoded can be encoded");
    let back = handle.decode(version, again.into()).expect("what was encoded can be decoded");
    assert!(back == value || format!("{back:?}") == format!("{value:?}"), "{back:?}\n{value:?}");
}
