//! Control records: records in a log that are for brokers, controllers and clients, not for applications.
//!
//! The [`Key`] of a control record determines the type of its value. The key and the value each start with an int16
//! version. In [`Key`] and [`EndTxn`] (KIP-98), the version precedes the structure. In the values of the KRaft log, the
//! version is the first field of the structure. Of the values of the KRaft log, only [`LeaderChange`] has more than one
//! version. The KRaft log also has control records for the set of voters (KIP-853), and for the start and the end of a
//! snapshot (KIP-630).

use crate::wire::Uuid;

/// The marker of an aborted transaction.
pub const ABORT: i16 = 0;
/// The marker of a committed transaction.
pub const COMMIT: i16 = 1;
/// A [`LeaderChange`].
pub const LEADER_CHANGE: i16 = 2;
/// A [`SnapshotHeader`].
pub const SNAPSHOT_HEADER: i16 = 3;
/// A [`SnapshotFooter`].
pub const SNAPSHOT_FOOTER: i16 = 4;
/// A [`KRaftVersion`].
pub const KRAFT_VERSION: i16 = 5;
/// [`Voters`].
pub const KRAFT_VOTERS: i16 = 6;

message! {
    struct Key {
        r#type: i16,
    }
    /// End of a transaction: [`COMMIT`] or [`ABORT`].
    struct EndTxn {
        /// Epoch of the coordinator that wrote the marker. A coordinator with an older epoch is a zombie.
        coordinator_epoch: i32,
    }
    /// The first record of a new leader of the KRaft quorum. Version 1 has directory IDs.
    struct LeaderChange {
        version: i16,
        leader_id: i32,
        voters: Vec<Elector>,
        granting_voters: Vec<Elector>,
    }
    struct Elector {
        voter_id: i32,
        voter_directory_id: Uuid [1..],
    }
    struct SnapshotHeader {
        version: i16,
        /// Append time of the last record in the snapshot.
        last_contained_log_timestamp: i64,
    }
    struct SnapshotFooter {
        version: i16,
    }
    /// The version of the KRaft protocol. Version 1 allows dynamic voters.
    struct KRaftVersion {
        version: i16,
        k_raft_version: i16,
    }
    /// The complete voter set from this record on.
    struct Voters {
        version: i16,
        voters: Vec<Voter>,
    }
    struct Voter {
        voter_id: i32,
        voter_directory_id: Uuid,
        endpoints: Vec<Endpoint>,
        k_raft_version_feature: VersionRange,
    }
    struct Endpoint {
        name: String,
        host: String,
        port: u16,
    }
    struct VersionRange {
        min_supported_version: i16,
        max_supported_version: i16,
    }
}
structure! { data ControlRecordTypeSchema: Key, 0..=0 }
structure! { data EndTxnMarker: EndTxn, 0..=0 }
structure! { data LeaderChangeMessage: LeaderChange, 0..=1, flexible 0 }
structure! { data SnapshotHeaderRecord: SnapshotHeader, 0..=0, flexible 0 }
structure! { data SnapshotFooterRecord: SnapshotFooter, 0..=0, flexible 0 }
structure! { data KRaftVersionRecord: KRaftVersion, 0..=0, flexible 0 }
structure! { data VotersRecord: Voters, 0..=0, flexible 0 }
