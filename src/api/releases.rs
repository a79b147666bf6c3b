//! The API versions of each Kafka release, as a broker of that release reports them.
//!
//! Brokers before 0.10 do not report versions, so their versions come from the protocol guide. For releases up to 3.2,
//! the table lists the API versions that brokers with ZooKeeper support. From release 3.3 on, the table lists the API
//! versions that brokers with KRaft support. If the first KRaft releases lacked an API, the table keeps the ZooKeeper
//! versions of that API. The table leaves out unstable versions, because brokers do not report them. The table also
//! leaves out the telemetry APIs, because brokers report them only with a plugin.

use super::*;
use std::fmt;

macro_rules! releases {
    ($($release:ident = $name:literal,)*) => {
        /// A release of Kafka. A patch release has the same API versions as its release.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)]
        pub enum Release { $($release,)* }

        impl Release {
            /// All releases, oldest first.
            pub const ALL: &[Self] = &[$(Self::$release,)*];

            /// Returns the usual name, such as `0.8.2` or `4.4`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$release => $name,)* }
            }
        }
    };
}

releases! {
    V0_8_0 = "0.8.0", V0_8_1 = "0.8.1", V0_8_2 = "0.8.2", V0_9_0 = "0.9.0", V0_10_0 = "0.10.0", V0_10_1 = "0.10.1",
    V0_10_2 = "0.10.2", V0_11_0 = "0.11.0", V1_0 = "1.0", V1_1 = "1.1", V2_0 = "2.0", V2_1 = "2.1", V2_2 = "2.2",
    V2_3 = "2.3", V2_4 = "2.4", V2_5 = "2.5", V2_6 = "2.6", V2_7 = "2.7", V2_8 = "2.8", V3_0 = "3.0", V3_1 = "3.1",
    V3_2 = "3.2", V3_3 = "3.3", V3_4 = "3.4", V3_5 = "3.5", V3_6 = "3.6", V3_7 = "3.7", V3_8 = "3.8", V3_9 = "3.9",
    V4_0 = "4.0", V4_1 = "4.1", V4_2 = "4.2", V4_3 = "4.3", V4_4 = "4.4",
}

/// The versions of an API from a release on.
type Since = (Release, i16, i16);

macro_rules! history {
    ($($api:ident: $($release:ident $min:literal..=$max:literal),*;)*) => {
        static HISTORY: &[(&Info, &[Since])] = &[$((&$api::API, &[$((Release::$release, $min, $max),)*]),)*];
    };
}

history! {
    produce: V0_8_0 0..=0, V0_9_0 0..=1, V0_10_0 0..=2, V0_11_0 0..=3, V1_0 0..=5, V2_0 0..=6, V2_1 0..=7, V2_4 0..=8,
        V2_8 0..=9, V3_7 0..=10, V3_8 0..=11, V4_0 0..=12, V4_1 0..=13;
    fetch: V0_8_0 0..=0, V0_9_0 0..=1, V0_10_0 0..=2, V0_10_1 0..=3, V0_11_0 0..=5, V1_0 0..=6, V1_1 0..=7,
        V2_0 0..=8, V2_1 0..=10, V2_3 0..=11, V2_7 0..=12, V3_1 0..=13, V3_5 0..=15, V3_7 0..=16, V3_9 0..=17,
        V4_0 4..=17, V4_1 4..=18;
    list_offsets: V0_8_0 0..=0, V0_10_1 0..=1, V0_11_0 0..=2, V2_0 0..=3, V2_1 0..=4, V2_2 0..=5, V2_8 0..=6,
        V3_0 0..=7, V3_5 0..=8, V3_9 0..=9, V4_0 1..=10, V4_2 1..=11;
    metadata: V0_8_0 0..=0, V0_10_0 0..=1, V0_10_1 0..=2, V0_11_0 0..=4, V1_0 0..=5, V2_0 0..=6, V2_1 0..=7,
        V2_3 0..=8, V2_4 0..=9, V2_8 0..=11, V3_1 0..=12, V4_0 0..=13;
    offset_commit: V0_8_1 0..=0, V0_8_2 0..=1, V0_9_0 0..=2, V0_11_0 0..=3, V2_0 0..=4, V2_1 0..=6, V2_3 0..=7,
        V2_4 0..=8, V3_7 0..=9, V4_0 2..=9, V4_2 2..=10;
    offset_fetch: V0_8_1 0..=0, V0_8_2 0..=1, V0_10_2 0..=2, V0_11_0 0..=3, V2_0 0..=4, V2_1 0..=5, V2_4 0..=6,
        V2_5 0..=7, V3_0 0..=8, V3_7 0..=9, V4_0 1..=9, V4_2 1..=10;
    find_coordinator: V0_8_2 0..=0, V0_11_0 0..=1, V2_0 0..=2, V2_4 0..=3, V3_0 0..=4, V3_8 0..=5, V3_9 0..=6;
    join_group: V0_9_0 0..=0, V0_10_1 0..=1, V0_11_0 0..=2, V2_0 0..=3, V2_2 0..=4, V2_3 0..=5, V2_4 0..=6,
        V2_5 0..=7, V3_2 0..=9;
    heartbeat: V0_9_0 0..=0, V0_11_0 0..=1, V2_0 0..=2, V2_3 0..=3, V2_4 0..=4;
    leave_group: V0_9_0 0..=0, V0_11_0 0..=1, V2_0 0..=2, V2_4 0..=4, V3_2 0..=5;
    sync_group: V0_9_0 0..=0, V0_11_0 0..=1, V2_0 0..=2, V2_3 0..=3, V2_4 0..=4, V2_5 0..=5;
    describe_groups: V0_9_0 0..=0, V0_11_0 0..=1, V2_0 0..=2, V2_3 0..=3, V2_4 0..=5, V4_0 0..=6;
    list_groups: V0_9_0 0..=0, V0_11_0 0..=1, V2_0 0..=2, V2_4 0..=3, V2_6 0..=4, V3_8 0..=5;
    sasl_handshake: V0_10_0 0..=0, V1_0 0..=1;
    api_versions: V0_10_0 0..=0, V0_11_0 0..=1, V2_0 0..=2, V2_4 0..=3, V3_9 0..=4, V4_4 0..=5;
    create_topics: V0_10_1 0..=0, V0_10_2 0..=1, V0_11_0 0..=2, V2_0 0..=3, V2_4 0..=5, V2_7 0..=6, V2_8 0..=7,
        V4_0 2..=7;
    delete_topics: V0_10_1 0..=0, V0_11_0 0..=1, V2_0 0..=2, V2_1 0..=3, V2_4 0..=4, V2_7 0..=5, V2_8 0..=6,
        V4_0 1..=6;
    delete_records: V0_11_0 0..=0, V2_0 0..=1, V2_6 0..=2;
    init_producer_id: V0_11_0 0..=0, V2_0 0..=1, V2_4 0..=2, V2_5 0..=3, V2_7 0..=4, V3_8 0..=5;
    offset_for_leader_epoch: V0_11_0 0..=0, V2_0 0..=1, V2_1 0..=2, V2_3 0..=3, V2_8 0..=4, V4_0 2..=4;
    add_partitions_to_txn: V0_11_0 0..=0, V2_0 0..=1, V2_7 0..=2, V2_8 0..=3, V3_6 0..=4, V3_8 0..=5;
    add_offsets_to_txn: V0_11_0 0..=0, V2_0 0..=1, V2_7 0..=2, V2_8 0..=3, V3_8 0..=4;
    end_txn: V0_11_0 0..=0, V2_0 0..=1, V2_7 0..=2, V2_8 0..=3, V3_8 0..=4, V4_0 0..=5;
    write_txn_markers: V0_11_0 0..=0, V2_8 0..=1, V4_0 1..=1, V4_2 1..=2;
    txn_offset_commit: V0_11_0 0..=0, V2_0 0..=1, V2_1 0..=2, V2_5 0..=3, V3_8 0..=4, V4_0 0..=5, V4_4 0..=6;
    describe_acls: V0_11_0 0..=0, V2_0 0..=1, V2_5 0..=2, V3_3 0..=3, V4_0 1..=3;
    create_acls: V0_11_0 0..=0, V2_0 0..=1, V2_5 0..=2, V3_3 0..=3, V4_0 1..=3;
    delete_acls: V0_11_0 0..=0, V2_0 0..=1, V2_5 0..=2, V3_3 0..=3, V4_0 1..=3;
    describe_configs: V0_11_0 0..=0, V1_1 0..=1, V2_0 0..=2, V2_6 0..=3, V2_8 0..=4, V4_0 1..=4;
    alter_configs: V0_11_0 0..=0, V2_0 0..=1, V2_8 0..=2;
    alter_replica_log_dirs: V1_0 0..=0, V2_0 0..=1, V2_8 0..=2, V4_0 1..=2;
    describe_log_dirs: V1_0 0..=0, V2_0 0..=1, V2_6 0..=2, V3_2 0..=3, V3_3 0..=4, V4_0 1..=4, V4_3 1..=5;
    sasl_authenticate: V1_0 0..=0, V2_2 0..=1, V2_5 0..=2;
    create_partitions: V1_0 0..=0, V2_0 0..=1, V2_5 0..=2, V2_7 0..=3;
    create_delegation_token: V1_1 0..=0, V2_0 0..=1, V2_4 0..=2, V3_6 0..=3, V4_0 1..=3;
    renew_delegation_token: V1_1 0..=0, V2_0 0..=1, V2_5 0..=2, V4_0 1..=2;
    expire_delegation_token: V1_1 0..=0, V2_0 0..=1, V2_5 0..=2, V4_0 1..=2;
    describe_delegation_token: V1_1 0..=0, V2_0 0..=1, V2_5 0..=2, V3_6 0..=3, V4_0 1..=3;
    delete_groups: V1_1 0..=0, V2_0 0..=1, V2_4 0..=2, V4_4 0..=3;
    elect_leaders: V2_2 0..=0, V2_4 0..=2;
    incremental_alter_configs: V2_3 0..=0, V2_4 0..=1;
    alter_partition_reassignments: V2_4 0..=0, V4_1 0..=1;
    list_partition_reassignments: V2_4 0..=0;
    offset_delete: V2_4 0..=0;
    describe_client_quotas: V2_6 0..=0, V2_8 0..=1;
    alter_client_quotas: V2_6 0..=0, V2_8 0..=1;
    describe_user_scram_credentials: V2_7 0..=0;
    alter_user_scram_credentials: V2_7 0..=0;
    describe_quorum: V3_3 0..=1, V3_9 0..=2;
    update_features: V2_7 0..=0, V3_3 0..=1, V4_0 0..=2;
    describe_cluster: V2_8 0..=0, V3_7 0..=1, V4_0 0..=2;
    describe_producers: V2_8 0..=0;
    unregister_broker: V3_3 0..=0;
    describe_transactions: V3_0 0..=0;
    list_transactions: V3_0 0..=0, V3_8 0..=1, V4_1 0..=2;
    consumer_group_heartbeat: V3_7 0..=0, V4_0 0..=1;
    consumer_group_describe: V3_8 0..=0, V4_0 0..=1;
    list_config_resources: V3_7 0..=0, V4_1 0..=1;
    describe_topic_partitions: V3_8 0..=0;
    share_group_heartbeat: V4_1 1..=1;
    share_group_describe: V4_1 1..=1;
    share_fetch: V4_1 1..=1, V4_2 1..=2;
    share_acknowledge: V4_1 1..=1, V4_2 1..=2;
    add_raft_voter: V3_9 0..=0, V4_2 0..=1;
    remove_raft_voter: V3_9 0..=0;
    streams_group_heartbeat: V4_2 0..=0, V4_4 0..=1;
    streams_group_describe: V4_2 0..=0, V4_4 0..=1;
    describe_share_group_offsets: V4_1 0..=0, V4_2 0..=1;
    alter_share_group_offsets: V4_1 0..=0;
    delete_share_group_offsets: V4_1 0..=0;
    streams_group_topology_description_update: V4_4 0..=0;
    unregister_controller: V4_4 0..=0;
}

impl Release {
    /// Returns the release with a name such as `0.10.2`. The name can also be a patch release, such as `0.10.2.1` or
    /// `4.4.0`.
    pub fn parse(name: &str) -> Option<Self> {
        let is = |release: &&Self| {
            name.strip_prefix(release.name()).is_some_and(|rest| {
                let patch = rest.strip_prefix('.').unwrap_or("0");
                (rest.is_empty() || rest.starts_with('.')) && patch.parse::<u16>().is_ok()
            })
        };
        Self::ALL.iter().find(is).copied()
    }

    /// Returns the oldest and the newest version of an API, if the release has it.
    pub fn versions(self, api: &Info) -> Option<(i16, i16)> {
        let (_, history) = HISTORY.iter().find(|(info, _)| info.key == api.key)?;
        history.iter().rev().find(|(since, ..)| *since <= self).map(|(_, min, max)| (*min, *max))
    }

    /// Returns the first release that has this or a newer version of an API.
    pub fn first_with(api: &Info, version: i16) -> Option<Self> {
        let (_, history) = HISTORY.iter().find(|(info, _)| info.key == api.key)?;
        history.iter().find(|(.., max)| *max >= version).map(|(since, ..)| *since)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Release;
    use crate::api::{api_versions, fetch, get_telemetry_subscriptions, produce, share_fetch};

    #[test]
    fn names_are_of_releases_and_their_patches() {
        assert!(Release::ALL.iter().all(|release| Release::parse(release.name()) == Some(*release)));
        assert_eq!(Release::parse("0.8.2.2"), Some(Release::V0_8_2));
        assert_eq!(Release::parse("0.10.2.1"), Some(Release::V0_10_2));
        assert_eq!(Release::parse("4.4.0"), Some(Release::V4_4));
        for name in ["", "0.8", "0.10", "4", "4.40", "4.4.", "4.4.x", "4.4.0.0", "0.8.2.2.2"] {
            assert_eq!(Release::parse(name), None, "{name}");
        }
    }

    #[test]
    fn versions_are_those_from_the_last_change_on() {
        assert_eq!(Release::V0_8_0.versions(&produce::API), Some((0, 0)));
        assert_eq!(Release::V3_0.versions(&fetch::API), Some((0, 12)));
        assert_eq!(Release::V4_4.versions(&fetch::API), Some((4, 18)));
        assert_eq!(Release::V0_9_0.versions(&api_versions::API), None);
        assert_eq!(Release::first_with(&fetch::API, 13), Some(Release::V3_1));
        assert_eq!(Release::first_with(&share_fetch::API, 0), Some(Release::V4_1));
        assert_eq!(Release::first_with(&fetch::API, 99), None);
        assert_eq!(Release::first_with(&get_telemetry_subscriptions::API, 0), None);
    }

    #[test]
    fn what_is_listed_is_known() {
        for (api, history) in super::HISTORY {
            assert!(history.windows(2).all(|w| w[0].0 < w[1].0), "{}", api.name);
            assert!(history.iter().all(|(_, min, max)| api.min <= *min && *max <= api.max_stable), "{}", api.name);
        }
    }
}
