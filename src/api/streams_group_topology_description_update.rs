//! StreamsGroupTopologyDescriptionUpdate (93): a Kafka Streams client sends a readable description of its topology
//! (KIP-1331). The client sends the description to the group coordinator when a StreamsGroupHeartbeat response requests
//! it.
//!
//! Errors: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
//! INVALID_REQUEST, UNSUPPORTED_VERSION, UNKNOWN_MEMBER_ID (also if the group is gone), GROUP_ID_NOT_FOUND,
//! STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED.

use super::ErrorCode;

api! { StreamsGroupTopologyDescriptionUpdate = 93, 0..=0, flexible 0 }

message! {
    struct Request {
        group_id: String,
        member_id: String,
        topology_epoch: i32,
        topology_description: TopologyDescription,
    }
    struct TopologyDescription {
        subtopologies: Vec<Subtopology>,
        global_stores: Vec<GlobalStore>,
    }
    struct Subtopology {
        subtopology_id: String,
        nodes: Vec<Node>,
    }
    struct Node {
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
    struct GlobalStore {
        source: Node,
        processor: Node,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String>,
    }
}
