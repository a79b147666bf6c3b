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
/// Member epoch of a static member that leaves and will be back.
pub const LEAVE_STATIC: i32 = -2;
/// Status: the group has a newer topology than the member.
pub const STALE_TOPOLOGY: i8 = 0;
/// Status: source topics are missing, or a pattern matches none.
pub const MISSING_SOURCE_TOPICS: i8 = 1;
/// Status: topics that have to have equally many partitions do not, or a changelog topic has too few or too many.
pub const INCORRECTLY_PARTITIONED_TOPICS: i8 = 2;
/// Status: internal topics are missing; the coordinator tries to create them.
pub const MISSING_INTERNAL_TOPICS: i8 = 3;
/// Status: a member wants the whole application to stop.
pub const SHUTDOWN_APPLICATION: i8 = 4;
/// Status: there is no assignment yet.
pub const ASSIGNMENT_DELAYED: i8 = 5;
/// Status: tags that place standby tasks are missing (v1).
pub const MISSING_CLIENT_TAGS: i8 = 6;

message! {
    struct Request {
        group_id: String,
        /// Chosen by the member and kept for the life of the process.
        member_id: String,
        member_epoch: i32,
        /// The newest epoch of `partitions_by_user_endpoint` the member has.
        endpoint_information_epoch: i32,
        instance_id: Option<String>,
        rack_id: Option<String>,
        rebalance_timeout_ms: i32 = -1,
        /// Sent with [`JOIN`] only.
        topology: Option<Topology>,
        active_tasks: Option<Vec<TaskIds>>,
        standby_tasks: Option<Vec<TaskIds>>,
        warmup_tasks: Option<Vec<TaskIds>>,
        /// The same for all members of a process.
        process_id: Option<String>,
        /// Where interactive queries reach this process.
        user_endpoint: Option<Endpoint>,
        client_tags: Option<Vec<KeyValue>>,
        /// Summed over the changelogs of a task, as are the end offsets.
        task_offsets: Option<Vec<TaskOffset>>,
        task_end_offsets: Option<Vec<TaskOffset>>,
        /// Asks all members to stop.
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
        /// 0: as many as it takes.
        partitions: i32,
        /// 0: the broker's default.
        replication_factor: i16,
        topic_configs: Vec<KeyValue>,
    }
    struct KeyValue {
        key: String,
        value: String,
    }
    struct CopartitionGroup {
        /// Indexes into the fields of the same name of the subtopology, in all three.
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
        /// As `acceptable_recovery_lag`, in 32 bits.
        acceptable_recovery_lag_legacy: i32 [0..=0],
        task_offset_interval_ms: i32,
        /// Offsets a task may lack and still count as caught up; -1 if the broker has no such limit.
        acceptable_recovery_lag: i64 [1..] = -1,
        status: Option<Vec<Status>> = Some(Vec::new()),
        active_tasks: Option<Vec<TaskIds>>,
        standby_tasks: Option<Vec<TaskIds>>,
        warmup_tasks: Option<Vec<TaskIds>>,
        /// Asks for a StreamsGroupTopologyDescriptionUpdate.
        topology_description_required: bool [1..],
        endpoint_information_epoch: i32,
        /// An entry a member, so an endpoint may come several times.
        partitions_by_user_endpoint: Option<Vec<EndpointToPartitions>>,
    }
    struct Status {
        status_code: i8,
        status_detail: String,
    }
    struct EndpointToPartitions {
        user_endpoint: Endpoint,
        active_partitions: Vec<TopicPartition>,
        /// Of warm-up tasks too.
        standby_partitions: Vec<TopicPartition>,
    }
    struct TopicPartition {
        topic: String,
        partitions: Vec<i32>,
    }
}
