//! The Kafka release that a cluster imitates.

use crate::api::Release;
use std::fmt;

/// The release that a cluster imitates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Every API and version that the dev broker supports.
    #[default]
    Current,
    /// The APIs and versions of a release.
    Release(Release),
    /// Brokers with byte offsets, see [`LegacyVersion`].
    Legacy(LegacyVersion),
    /// A broker of Kafka 0.7.2 that also serves the draft protocol.
    Draft,
}

/// A release from before Kafka's versioned protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum LegacyVersion {
    V0_6_1,
    V0_7_0,
    V0_7_1,
    V0_7_2,
}

const NAMES: &[(&str, Version)] = &[
    ("0.6.1", Version::Legacy(LegacyVersion::V0_6_1)),
    ("0.7.0", Version::Legacy(LegacyVersion::V0_7_0)),
    ("0.7.1", Version::Legacy(LegacyVersion::V0_7_1)),
    ("0.7.2", Version::Legacy(LegacyVersion::V0_7_2)),
    ("draft", Version::Draft),
];

impl Version {
    /// Parses a name. The error is a message that lists the valid names.
    pub fn parse(name: &str) -> Result<Self, String> {
        let alias = NAMES.iter().find(|(alias, _)| *alias == name).map(|(_, version)| *version);
        alias.or_else(|| Release::parse(name).map(Self::Release)).ok_or_else(|| {
            let names = NAMES.iter().map(|(alias, _)| *alias).chain(Release::ALL.iter().map(|release| release.name()));
            format!("unknown Kafka version {name:?}; the dev broker supports {}", names.collect::<Vec<_>>().join(", "))
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, version)| version == self).map_or("current", |(name, _)| name);
        f.write_str(if let Self::Release(release) = self { release.name() } else { name })
    }
}
