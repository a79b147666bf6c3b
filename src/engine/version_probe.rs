//! How a client finds out what a broker speaks that has no ApiVersions: one before Kafka 0.10.
//!
//! Asked for its versions, 0.8 closes the connection and 0.9 never answers. A second connection then asks, one after the
//! other, what 0.8.0, 0.8.1, 0.8.2 and 0.9.0 were the first to know, and after all of it for versions once more: the
//! release is the last one whose question was answered. Only who closes at a question after answering another is taken for
//! 0.8, and only who is silent about versions alone for 0.9; and another connection has to end the same way, two more where
//! it was closed, as a network may cut anywhere. So a broker that goes away in mid-handshake, or is slow, is none of them, and
//! is asked for its versions again; and one that has said them once is always asked.

use super::Call;
use crate::api::{Release, find_coordinator, list_groups, list_offsets, offset_fetch};
use std::time::Duration;

/// The group that is asked about, of which nothing is wanted.
const PROBE: &str = "klamm-probe";
/// How long a broker that answered everything else has for its versions: it is there, so it does not take long.
pub const LAST_WAIT: Duration = Duration::from_millis(500);
/// The first release that says its versions.
pub const SAYS_VERSIONS: Release = Release::V0_10_0;

/// How a connection begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionProbe {
    /// ApiVersions, and soon something else if there is no answer.
    #[default]
    Ask,
    /// ApiVersions and nothing else, from whoever answered slowly.
    Wait,
    /// What old brokers know, from the oldest on.
    Probe,
    /// The same again, which has to find the same release, and so often after this.
    Confirm(Release, u32),
    /// Nothing: the broker is of this release.
    Known(Release),
}

/// The release to ask about after one that the broker was found to be no older than; `None` when it may say itself.
pub fn next_release(known: Option<Release>) -> Option<Release> {
    let mut later = Release::ALL.iter().copied().filter(|release| known.is_none_or(|known| *release > known));
    later.next().filter(|release| *release < SAYS_VERSIONS)
}

/// What a release was the first to answer, in v0 and without a change to anything.
pub fn question(release: Release) -> Box<dyn Call> {
    match release {
        Release::V0_8_0 => Box::new(list_offsets::Request { replica_id: -1, ..Default::default() }),
        Release::V0_8_1 => Box::new(offset_fetch::Request { group_id: PROBE.to_owned(), ..Default::default() }),
        Release::V0_8_2 => Box::new(find_coordinator::Request { key: PROBE.to_owned(), ..Default::default() }),
        _ => Box::new(list_groups::Request::default()),
    }
}
