//! The release of Kafka that a cluster passes itself off as.

use crate::api::Release;
use std::fmt;

/// What clients meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Every API in every version that is served here.
    #[default]
    Current,
    /// What a broker of a release with versioned requests serves of that.
    Release(Release),
    /// Brokers with byte offsets: see [`Old`].
    Old(Old),
    /// A broker of the proposal that came after 0.7, which otherwise is one of 0.7.2.
    Draft,
}

/// A release from before Kafka had a protocol with versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Old {
    V0_6_1,
    V0_7_0,
    V0_7_1,
    V0_7_2,
}

const NAMES: &[(&str, Version)] = &[
    ("0.6.1", Version::Old(Old::V0_6_1)),
    ("0.7.0", Version::Old(Old::V0_7_0)),
    ("0.7.1", Version::Old(Old::V0_7_1)),
    ("0.7.2", Version::Old(Old::V0_7_2)),
    ("draft", Version::Draft),
];

impl Version {
    /// From its name; the error is a sentence with the names that there are.
    pub fn parse(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, version)| *version);
        found.or_else(|| Release::parse(name).map(Self::Release)).ok_or_else(|| {
            let names = NAMES.iter().map(|(known, _)| *known).chain(Release::ALL.iter().map(|release| release.name()));
            format!("there is no version {name:?} here, only {}", names.collect::<Vec<_>>().join(", "))
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, version)| version == self).map_or("current", |(name, _)| name);
        f.write_str(if let Self::Release(release) = self { release.name() } else { name })
    }
}
