//! StreamsGroupDescribe (89): describes streams groups, their topology, members and tasks (KIP-1071). The group
//! coordinator handles StreamsGroupDescribe.
//!
//! * v1: topology descriptions (KIP-1331), the assignor's name (KIP-1357)
//!
//! Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
//! COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND.

use super::ErrorCode;

api! { StreamsGroupDescribe = 89, 0..=1, flexible 0 }

message! {
    struct Request {
        group_ids: Vec<String>,
        include_authorized_operations: bool,
        include_topology_description: bool [1..],
    }
    struct Response {
        throttle_time_ms: i32,
        groups: Vec<Group>,
    }
    struct Group {
        error_code: ErrorCode,
        error_message: Option<String>,
        group_id: String,
        group_state: String,
        group_epoch: i32,
        assignment_epoch: i32,
        /// The topology that the coordinator uses, or null if there is an error.
        topology: Option<Topology>,
        members: Vec<Member>,
        /// A bit for each operation that the client may perform, or `i32::MIN` if not requested.
        authorized_operations: i32 = i32::MIN,
        /// The description that the application sent in StreamsGroupTopologyDescriptionUpdate.
        topology_description: Option<TopologyDescription> [1..],
        /// The status of the description: 0 not requested, 1 not stored, 2 unreadable for the broker, 3 available.
        topology_description_status: i8 [1..],
        /// The assignor of the next assignment. The current assignment may be from another assignor.
        assignor_name: Option<String> [1..],
    }
    struct Topology {
        epoch: i32,
        /// The subtopologies, with topics instead of patterns. Null while source topics are missing or wrongly
        /// partitioned.
        subtopologies: Option<Vec<Subtopology>>,
    }
    struct Subtopology {
        subtopology_id: String,
        source_topics: Vec<String>,
        repartition_sink_topics: Vec<String>,
        state_changelog_topics: Vec<TopicInfo>,
        repartition_source_topics: Vec<TopicInfo>,
    }
    struct TopicInfo {
        name: String,
        partitions: i32,
        replication_factor: i16,
        topic_configs: Vec<KeyValue>,
    }
    struct KeyValue {
        key: String,
        value: String,
    }
    struct Member {
        member_id: String,
        member_epoch: i32,
        instance_id: Option<String>,
        rack_id: Option<String>,
        client_id: String,
        client_host: String,
        topology_epoch: i32,
        process_id: String,
        user_endpoint: Option<Endpoint>,
        client_tags: Vec<KeyValue>,
        task_offsets: Vec<TaskOffset>,
        task_end_offsets: Vec<TaskOffset>,
        assignment: Assignment,
        target_assignment: Assignment,
        /// Whether the member still uses the classic protocol.
        is_classic: bool,
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
    struct Assignment {
        active_tasks: Vec<TaskIds>,
        standby_tasks: Vec<TaskIds>,
        warmup_tasks: Vec<TaskIds>,
    }
    struct TaskIds {
        subtopology_id: String,
        partitions: Vec<i32>,
    }
    struct TopologyDescription {
        subtopologies: Vec<SubtopologyDescription>,
        global_stores: Vec<GlobalStoreDescription>,
    }
    struct SubtopologyDescription {
        subtopology_id: String,
        nodes: Vec<NodeDescription>,
    }
    struct NodeDescription {
        name: String,
        /// 1 source, 2 processor, 3 sink.
        node_type: i8,
        /// The topics of a source. Empty if the source chooses its topics at run time.
        source_topics: Vec<String>,
        /// The topic of a sink. Null if the sink chooses its topic at run time.
        sink_topic: Option<String>,
        /// The state stores of a processor.
        stores: Vec<String>,
        successors: Vec<String>,
    }
    struct GlobalStoreDescription {
        source: NodeDescription,
        processor: NodeDescription,
    }
}
