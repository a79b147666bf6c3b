//! StreamsGroupHeartbeat (88): a Kafka Streams client joins, stays in or leaves a streams group, and receives its tasks
//! (KIP-1071). The group coordinator handles StreamsGroupHeartbeat. Fields that did not change since the last heartbeat
//! are null or -1.
//!
//! * v1: the response can request a topology description (KIP-1331); 64-bit recovery lag; MISSING_CLIENT_TAGS
//!
//! Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, NOT_COORDINATOR,
//! COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID,
//! FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, STREAMS_INVALID_TOPOLOGY,
//! STREAMS_INVALID_TOPOLOGY_EPOCH, STREAMS_TOPOLOGY_FENCED.

use super::ErrorCode;

api! { StreamsGroupHeartbeat = 88, 0..=1, flexible 0 }

/// Member epoch of a member that joins.
pub const JOIN: i32 = 0;
/// Member epoch of a member that leaves.
pub const LEAVE: i32 = -1;
/// Member epoch of a static member that leaves and will return.
pub const LEAVE_STATIC: i32 = -2;
/// Status: the group has a newer topology than the member.
pub const STALE_TOPOLOGY: i8 = 0;
/// Status: source topics are missing, or a pattern matches no topics.
pub const MISSING_SOURCE_TOPICS: i8 = 1;
/// Status: topics that need the same number of partitions have different numbers, or a changelog topic has a wrong
/// number of partitions.
pub const INCORRECTLY_PARTITIONED_TOPICS: i8 = 2;
/// Status: internal topics are missing. The coordinator tries to create these topics.
pub const MISSING_INTERNAL_TOPICS: i8 = 3;
/// Status: a member has requested that the whole application stop.
pub const SHUTDOWN_APPLICATION: i8 = 4;
/// Status: there is no assignment yet.
pub const ASSIGNMENT_DELAYED: i8 = 5;
/// Status: client tags that the coordinator needs to place standby tasks are missing (v1).
pub const MISSING_CLIENT_TAGS: i8 = 6;

message! {
    struct Request {
        group_id: String,
        /// The member ID, which the member chooses and keeps for the life of the process.
        member_id: String,
        member_epoch: i32,
        /// The newest epoch of `partitions_by_user_endpoint` that the member has received.
        endpoint_information_epoch: i32,
        instance_id: Option<String>,
        rack_id: Option<String>,
        rebalance_timeout_ms: i32 = -1,
        /// The topology, which the member sends only with [`JOIN`].
        topology: Option<Topology>,
        active_tasks: Option<Vec<TaskIds>>,
        standby_tasks: Option<Vec<TaskIds>>,
        warmup_tasks: Option<Vec<TaskIds>>,
        /// The process ID, which is the same for all members of a process.
        process_id: Option<String>,
        /// The endpoint of this process for interactive queries.
        user_endpoint: Option<Endpoint>,
        client_tags: Option<Vec<KeyValue>>,
        /// The offsets of each task, summed over the task's changelogs. The end offsets are also sums.
        task_offsets: Option<Vec<TaskOffset>>,
        task_end_offsets: Option<Vec<TaskOffset>>,
        /// Whether the member requests that all members stop.
        shutdown_application: bool,
    }
    struct Topology {
        epoch: i32,
        subtopologies: Vec<Subtopology>,
    }
    struct Subtopology {
        subtopology_id: String,
        source_topics: Vec<String>,
        source_topic_regex: Vec<String>,
        state_changelog_topics: Vec<TopicInfo>,
        repartition_sink_topics: Vec<String>,
        repartition_source_topics: Vec<TopicInfo>,
        copartition_groups: Vec<CopartitionGroup>,
    }
    struct TopicInfo {
        name: String,
        /// The number of partitions, or 0 if the coordinator must calculate it.
        partitions: i32,
        /// The replication factor, or 0 for the broker's default.
        replication_factor: i16,
        topic_configs: Vec<KeyValue>,
    }
    struct KeyValue {
        key: String,
        value: String,
    }
    struct CopartitionGroup {
        /// Each field of a copartition group contains indexes into the subtopology's field of the same name.
        source_topics: Vec<i16>,
        source_topic_regex: Vec<i16>,
        repartition_source_topics: Vec<i16>,
    }
    struct TaskIds {
        subtopology_id: String,
        partitions: Vec<i32>,
    }
    struct Endpoint {
        host: String,
        port: u16,
    }
    struct TaskOffset {
        subtopology_id: String,
        partition: i32,
        offset: i64,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String>,
        member_id: String,
        member_epoch: i32,
        heartbeat_interval_ms: i32,
        /// The same as `acceptable_recovery_lag`, but with 32 bits.
        acceptable_recovery_lag_legacy: i32 [0..=0],
        task_offset_interval_ms: i32,
        /// The maximum lag in offsets of a task that counts as caught up, or -1 if the broker has no limit.
        acceptable_recovery_lag: i64 [1..] = -1,
        status: Option<Vec<Status>> = Some(Vec::new()),
        active_tasks: Option<Vec<TaskIds>>,
        standby_tasks: Option<Vec<TaskIds>>,
        warmup_tasks: Option<Vec<TaskIds>>,
        /// Whether the member should send a StreamsGroupTopologyDescriptionUpdate.
        topology_description_required: bool [1..],
        endpoint_information_epoch: i32,
        /// The partitions of each member's endpoint. An endpoint may appear several times.
        partitions_by_user_endpoint: Option<Vec<EndpointToPartitions>>,
    }
    struct Status {
        status_code: i8,
        status_detail: String,
    }
    struct EndpointToPartitions {
        user_endpoint: Endpoint,
        active_partitions: Vec<TopicPartition>,
        /// The partitions of standby tasks and warm-up tasks.
        standby_partitions: Vec<TopicPartition>,
    }
    struct TopicPartition {
        topic: String,
        partitions: Vec<i32>,
    }
}
