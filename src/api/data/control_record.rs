//! Control records: what a log holds for brokers and controllers rather than for applications.
//!
//! A record of a control batch has a [`Key`], which says what its value is. Both begin with an int16 version that is
//! no part of the structure in [`Key`] and [`EndTxn`] (KIP-98); the values of the KRaft log hold it as their first
//! field, and the one of [`LeaderChange`] decides how it goes on. That log also has snapshots, which begin and end
//! with a record of their own (KIP-630), and its voters (KIP-853).

use crate::wire::Uuid;

/// A transaction's batches before this one do not count.
pub const ABORT: i16 = 0;
/// A transaction's batches before this one count.
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
    /// The end of a transaction, as [`COMMIT`] or [`ABORT`].
    struct EndTxn {
        /// The coordinator's epoch when it wrote this; a coordinator of an older epoch is a zombie.
        coordinator_epoch: i32,
    }
    /// The first record of a leader of the KRaft quorum; v1 directory ids.
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
        /// When the last record that the snapshot stands for was appended.
        last_contained_log_timestamp: i64,
    }
    struct SnapshotFooter {
        version: i16,
    }
    /// The version of KRaft's own protocol; 1 lets voters come and go.
    struct KRaftVersion {
        version: i16,
        k_raft_version: i16,
    }
    /// The whole quorum, as of this record.
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
