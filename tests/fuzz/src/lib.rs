//! What fuzz targets share.

use bytes::Bytes;
use klamm::api::{self, Door, Entry};

/// Decodes a body by its API's key and version, encodes what came out and decodes that again. A float may be NaN,
/// which is not equal to itself, but prints as itself.
pub fn round_trip(data: &[u8], door: fn(&Entry) -> &Door) {
    let [key, version, body @ ..] = data else { return };
    let Some(api) = api::by_key((*key).into()) else { return };
    let (door, version) = (door(api), (*version).into());
    let Ok(value) = door.decode(version, Bytes::copy_from_slice(body)) else { return };
    let again = door.encode(version, value.clone()).expect("what was decoded can be encoded");
    let back = door.decode(version, again.into()).expect("what was encoded can be decoded");
    assert!(back == value || format!("{back:?}") == format!("{value:?}"), "{back:?}\n{value:?}");
}
