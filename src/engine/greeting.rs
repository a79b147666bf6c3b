//! How a client finds out what a broker speaks that has no ApiVersions: one before Kafka 0.10.
//!
//! Asked for its versions, 0.8 closes the connection and 0.9 never answers. A second connection then asks, one after the
//! other, what 0.8.0, 0.8.1, 0.8.2 and 0.9.0 were the first to know, and after all of it for versions once more: the
//! release is the last one whose question was answered. Only who closes at a question after answering another is taken for
//! 0.8, and only who is silent about versions alone for 0.9; so a broker that goes away in mid-handshake, or is slow, is
//! none of them, and is asked for its versions again.

use super::Call;
use crate::api::{
    fetch, find_coordinator, list_groups, list_offsets, metadata, offset_commit, offset_fetch, produce,
};
use crate::api::{describe_groups, heartbeat, join_group, leave_group, sync_group};
use std::time::Duration;

/// How a connection begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Greeting {
    /// ApiVersions, and soon something else if there is no answer.
    #[default]
    Ask,
    /// ApiVersions and nothing else, from whoever answered slowly.
    Wait,
    /// What old brokers know, from the oldest on.
    Probe,
    /// Nothing: what the broker speaks is known.
    Known(Old),
}

/// A line of releases without ApiVersions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Old {
    /// Kafka 0.8.0.
    V0_8_0,
    /// Kafka 0.8.1.
    V0_8_1,
    /// Kafka 0.8.2.
    V0_8_2,
    /// Kafka 0.9.0.
    V0_9_0,
}

impl Old {
    /// All of them, the oldest first.
    pub const ALL: [Self; 4] = [Self::V0_8_0, Self::V0_8_1, Self::V0_8_2, Self::V0_9_0];

    /// Its number, without the last part.
    pub fn name(self) -> &'static str {
        match self {
            Self::V0_8_0 => "0.8.0",
            Self::V0_8_1 => "0.8.1",
            Self::V0_8_2 => "0.8.2",
            Self::V0_9_0 => "0.9.0",
        }
    }

    /// The APIs it has, by key, and the newest version of each; the oldest is 0.
    pub fn versions(self) -> impl Iterator<Item = (i16, i16)> {
        let newest = move |(key, newest): &(i16, [Option<i16>; 4])| newest[self as usize].map(|newest| (*key, newest));
        APIS.iter().filter_map(newest)
    }

    /// The question that it was the first to answer.
    pub fn question(self) -> Box<dyn Call> {
        match self {
            Self::V0_8_0 => Box::new(list_offsets::Request { replica_id: -1, ..Default::default() }),
            Self::V0_8_1 => Box::new(offset_fetch::Request { group_id: PROBE.to_owned(), ..Default::default() }),
            Self::V0_8_2 => Box::new(find_coordinator::Request { key: PROBE.to_owned(), ..Default::default() }),
            Self::V0_9_0 => Box::new(list_groups::Request::default()),
        }
    }

    /// The release after it.
    pub fn next(self) -> Option<Self> {
        Self::ALL.into_iter().find(|other| *other > self)
    }
}

/// The group that is asked about, of which nothing is wanted.
const PROBE: &str = "klamm-probe";
/// How long a broker that answered everything else has for its versions: it is there, so it does not take long.
pub const LAST_WAIT: Duration = Duration::from_millis(500);

/// The newest version of each API in 0.8.0, 0.8.1, 0.8.2 and 0.9.0, as far as clients need it.
const APIS: [(i16, [Option<i16>; 4]); 13] = [
    (produce::API.key, [Some(0), Some(0), Some(0), Some(1)]),
    (fetch::API.key, [Some(0), Some(0), Some(0), Some(1)]),
    (list_offsets::API.key, [Some(0), Some(0), Some(0), Some(0)]),
    (metadata::API.key, [Some(0), Some(0), Some(0), Some(0)]),
    (offset_commit::API.key, [None, Some(0), Some(1), Some(2)]),
    (offset_fetch::API.key, [None, Some(0), Some(1), Some(1)]),
    (find_coordinator::API.key, [None, None, Some(0), Some(0)]),
    (join_group::API.key, [None, None, None, Some(0)]),
    (heartbeat::API.key, [None, None, None, Some(0)]),
    (leave_group::API.key, [None, None, None, Some(0)]),
    (sync_group::API.key, [None, None, None, Some(0)]),
    (describe_groups::API.key, [None, None, None, Some(0)]),
    (list_groups::API.key, [None, None, None, Some(0)]),
];
