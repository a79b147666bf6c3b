//! Common code of the handlers. This file writes the throttle time, and the error of a whole request, into the response
//! of most APIs.
//!
//! For each API, the tables in this file list the response fields that contain the error code. A handler whose response
//! does not fit the tables implements [`RespondWith`] itself.

use crate::api::{self, ErrorCode, Request};

/// A request whose response can report one error code for all items.
pub(super) trait RespondWith: Request {
    /// Returns the response with this error code for the whole request, or for each of its items.
    fn response_with(self, error_code: ErrorCode) -> Self::Response;
}

/// A response that contains the throttle time.
pub(super) trait ThrottleTime {
    /// Sets the time in milliseconds. Versions without the field do not send it.
    fn set_throttle_time(&mut self, ms: i32);
}

/// Implements [`RespondWith`] for APIs whose response has one error code. The listed fields differ from their defaults.
macro_rules! whole {
    ($($api:ident $(|$request:ident|)? { $($field:ident: $value:expr),* })*) => { $(
        impl RespondWith for api::$api::Request {
            fn response_with(self, error_code: ErrorCode) -> api::$api::Response {
                $(let $request = self;)?
                api::$api::Response { error_code, $($field: $value,)* ..Default::default() }
            }
        }
    )* };
}

/// Implements [`RespondWith`] for APIs whose response has a result with an error code for each item of the request.
macro_rules! each_item {
    ($($api:ident: $items:ident => $results:ident: $result:ident |$item:pat_param| { $($fields:tt)* })*) => { $(
        #[allow(clippy::needless_update)]
        impl RespondWith for api::$api::Request {
            fn response_with(self, error_code: ErrorCode) -> api::$api::Response {
                let results = self.$items.into_iter().map(|$item| api::$api::$result {
                    error_code,
                    $($fields)*,
                    ..Default::default()
                });
                api::$api::Response { $results: results.collect(), ..Default::default() }
            }
        }
    )* };
}

/// Implements [`RespondWith`] for APIs whose response has a result with an error code for each partition of each topic.
macro_rules! each_partition {
    ($($api:ident: $topics:ident($($key:ident)*).$partitions:ident => $out:ident: $topic:ident.$results:ident:
       $result:ident |$item:pat_param| { $($fields:tt)* })*) => { $(
        #[allow(clippy::needless_update)]
        impl RespondWith for api::$api::Request {
            fn response_with(self, error_code: ErrorCode) -> api::$api::Response {
                let topics = self.$topics.into_iter().map(|topic| api::$api::$topic {
                    $($key: topic.$key,)*
                    $results: topic.$partitions.into_iter().map(|$item| api::$api::$result {
                        error_code,
                        $($fields)*,
                        ..Default::default()
                    }).collect(),
                    ..Default::default()
                });
                api::$api::Response { $out: topics.collect(), ..Default::default() }
            }
        }
    )* };
}

whole! {
    add_offsets_to_txn {}
    alter_partition_reassignments { error_message: None }
    alter_share_group_offsets {}
    api_versions {}
    consumer_group_heartbeat {}
    create_delegation_token { expiry_timestamp_ms: -1, issue_timestamp_ms: -1, max_timestamp_ms: -1 }
    delete_share_group_offsets {}
    describe_acls { error_message: None }
    describe_client_quotas { error_message: None, entries: None }
    describe_cluster |request| { endpoint_type: request.endpoint_type }
    describe_delegation_token {}
    describe_user_scram_credentials { error_message: None }
    end_txn {}
    get_telemetry_subscriptions {}
    push_telemetry {}
    expire_delegation_token { expiry_timestamp_ms: -1 }
    heartbeat {}
    init_producer_id { producer_epoch: -1 }
    join_group |request| { member_id: request.member_id }
    leave_group {}
    list_config_resources {}
    list_groups {}
    list_partition_reassignments { error_message: None }
    list_transactions {}
    offset_delete {}
    renew_delegation_token { expiry_timestamp_ms: -1 }
    sasl_authenticate { error_message: None }
    sasl_handshake {}
    share_acknowledge {}
    share_fetch {}
    share_group_heartbeat {}
    sync_group {}
}

each_item! {
    alter_client_quotas: entries => entries: EntryResponse |e| { error_message: None, entity: e.entity }
    alter_configs: resources => responses: ResourceResponse
        |r| { error_message: None, resource_type: r.resource_type, resource_name: r.resource_name }
    consumer_group_describe: group_ids => groups: Group |group_id| { group_id }
    create_acls: creations => results: AclResult |_| { error_message: None }
    create_partitions: topics => results: TopicResult |t| { error_message: None, name: t.name }
    create_topics: topics => topics: TopicResult |t| { error_message: None, name: t.name }
    delete_acls: filters => filter_results: FilterResult |_| { error_message: None }
    delete_groups: groups_names => results: GroupResult |group_id| { group_id }
    describe_configs: resources => results: ResourceResult
        |r| { error_message: None, resource_type: r.resource_type, resource_name: r.resource_name }
    describe_groups: groups => groups: Group |group_id| { group_id }
    describe_share_group_offsets: groups => groups: GroupResponse |g| { error_message: None, group_id: g.group_id }
    describe_topic_partitions: topics => topics: TopicResponse |t| { name: Some(t.name) }
    describe_transactions: transactional_ids => transaction_states: TransactionState |id| { transactional_id: id }
    incremental_alter_configs: resources => responses: ResourceResponse
        |r| { error_message: None, resource_type: r.resource_type, resource_name: r.resource_name }
    share_group_describe: group_ids => groups: Group |group_id| { group_id }
}

each_partition! {
    delete_records: topics(name).partitions => topics: TopicResponse.partitions: PartitionResponse
        |p| { partition_index: p.partition_index, low_watermark: -1 }
    describe_producers: topics(name).partition_indexes => topics: TopicResponse.partitions: PartitionResponse
        |index| { partition_index: index }
    list_offsets: topics(name).partitions => topics: TopicResponse.partitions: PartitionResponse
        |p| { partition_index: p.partition_index }
    offset_commit: topics(name topic_id).partitions => topics: TopicResponse.partitions: PartitionResponse
        |p| { partition_index: p.partition_index }
    offset_for_leader_epoch: topics(topic).partitions => topics: TopicResponse.partitions: EpochEndOffset
        |p| { partition: p.partition }
    produce: topic_data(name topic_id).partition_data => responses: TopicResponse.partition_responses: PartitionResponse
        |p| { index: p.index, base_offset: -1 }
    txn_offset_commit: topics(name topic_id).partitions => topics: TopicResponse.partitions: PartitionResponse
        |p| { partition_index: p.partition_index }
}

macro_rules! throttle_time {
    ($($api:ident)*) => { $(
        impl ThrottleTime for api::$api::Response {
            fn set_throttle_time(&mut self, ms: i32) {
                self.throttle_time_ms = ms;
            }
        }
    )* };
}

throttle_time! {
    add_offsets_to_txn add_partitions_to_txn alter_client_quotas alter_configs alter_partition_reassignments
    alter_replica_log_dirs alter_share_group_offsets alter_user_scram_credentials api_versions consumer_group_describe
    consumer_group_heartbeat create_acls create_delegation_token create_partitions create_topics delete_acls
    delete_groups delete_records delete_share_group_offsets delete_topics describe_acls describe_client_quotas
    describe_cluster describe_configs describe_delegation_token describe_groups describe_log_dirs describe_producers
    describe_share_group_offsets describe_topic_partitions describe_transactions describe_user_scram_credentials
    elect_leaders end_txn expire_delegation_token fetch find_coordinator heartbeat incremental_alter_configs
    init_producer_id join_group leave_group list_config_resources list_groups list_offsets list_partition_reassignments list_transactions
    metadata offset_commit offset_delete offset_fetch offset_for_leader_epoch produce renew_delegation_token
    get_telemetry_subscriptions push_telemetry share_acknowledge share_fetch share_group_describe share_group_heartbeat sync_group txn_offset_commit
}

// These responses have no throttle time.
impl ThrottleTime for api::describe_quorum::Response {
    fn set_throttle_time(&mut self, _: i32) {}
}

impl ThrottleTime for api::sasl_handshake::Response {
    fn set_throttle_time(&mut self, _: i32) {}
}

impl ThrottleTime for api::sasl_authenticate::Response {
    fn set_throttle_time(&mut self, _: i32) {}
}
