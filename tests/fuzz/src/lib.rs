//! Helpers of the fuzz targets.

use bytes::Bytes;
use klamm::api::{self, Door, Entry};

/// Decodes a body by its API key and version, encodes the result, and decodes it again. The results are compared as
/// text, because a NaN is not equal to itself.
pub fn round_trip(data: &[u8], door: fn(&Entry) -> &Door) {
    let [key, version, body @ ..] = data else { return };
    let Some(api) = api::by_key((*key).into()) else { return };
    let (door, version) = (door(api), (*version).into());
    let Ok(value) = door.decode(version, Bytes::copy_from_slice(body)) else { return };
    let again = door.encode(version, value.clone()).expect("what was decoded can be encoded");
    let back = door.decode(version, again.into()).expect("what was encoded can be decoded");
    assert!(back == value || format!("{back:?}") == format!("{value:?}"), "{back:?}\n{value:?}");
}
