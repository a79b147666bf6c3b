//! Detects the release of a broker without ApiVersions, which is a broker before Kafka 0.10.
//!
//! Kafka 0.8 closes the connection after an ApiVersions request, and 0.9 never responds to an ApiVersions request. The
//! client therefore opens a second connection and sends one probe for each of 0.8.0, 0.8.1, 0.8.2 and 0.9.0. The probe
//! for a release is a request that earlier releases do not support. After the probes, the client sends ApiVersions
//! again. The last probe with a response shows the release of the broker.
//!
//! * A broker counts as 0.8 only if it responds to one probe and closes the connection after a later probe.
//! * A broker counts as 0.9 only if it responds to all probes but not to ApiVersions.
//! * The client repeats the probes on new connections, because a network failure can close a connection at any time.
//!   It repeats them once if the broker did not respond to ApiVersions, and twice if the broker closed the connection.
//!   All connections must show the same release.
//! * If the broker stops or is slow during the probes, the client tries ApiVersions again.
//! * A broker that has ever responded to ApiVersions is never probed.

use super::Call;
use crate::api::{Release, find_coordinator, list_groups, list_offsets, offset_fetch};
use std::time::Duration;

/// The group name in probes.
const PROBE: &str = "klamm-probe";
/// How long a broker may take to respond to ApiVersions after it has responded to all probes. A broker that responds to
/// the probes is alive and should respond fast.
pub const LAST_WAIT: Duration = Duration::from_millis(500);
/// The first release with ApiVersions.
pub const SAYS_VERSIONS: Release = Release::V0_10_0;

/// How a connection starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionProbe {
    /// The connection starts with ApiVersions. If there is no response soon, the next connection starts with probes.
    #[default]
    Ask,
    /// The connection starts with ApiVersions. Even if the response is slow, the client does not probe the broker.
    Wait,
    /// The connection starts with probes, from the oldest release on.
    Probe,
    /// The connection starts with probes, which have to show this release again. The number is how many more
    /// connections must confirm the release after this connection.
    Confirm(Release, u32),
    /// The connection starts without negotiation, because the broker's release is known.
    Known(Release),
}

/// Returns the release to probe after `known`, the newest release whose probe got a response. Returns `None` if
/// ApiVersions is next.
pub fn next_release(known: Option<Release>) -> Option<Release> {
    let mut later = Release::ALL.iter().copied().filter(|release| known.is_none_or(|known| *release > known));
    later.next().filter(|release| *release < SAYS_VERSIONS)
}

/// Returns a request that was new in this release. The request has version 0 and changes nothing on the broker.
pub fn probe_request(release: Release) -> Box<dyn Call> {
    match release {
        Release::V0_8_0 => Box::new(list_offsets::Request { replica_id: -1, ..Default::default() }),
        Release::V0_8_1 => Box::new(offset_fetch::Request { group_id: PROBE.to_owned(), ..Default::default() }),
        Release::V0_8_2 => Box::new(find_coordinator::Request { key: PROBE.to_owned(), ..Default::default() }),
        _ => Box::new(list_groups::Request::default()),
    }
}
