//! Request handling, from a frame to a reply: the header, the version check, the API's handler, the encoded reply.
//!
//! As in Kafka, three errors close the connection: an unknown API, a version that is not served, and a body that cannot
//! be decoded. An ApiVersions request with an unknown version still gets a reply.

/// Returns the address of a node as the `NodeEndpoint` that the handler imports.
macro_rules! node_endpoint {
    ($state:expr, $id:expr) => {
        $state.node($id).map(|node| NodeEndpoint {
            node_id: node.id,
            host: node.host.clone(),
            port: node.port.into(),
            rack: $state.rack(node.id),
        })
    };
}

/// Defines the handler of an API that describes groups of one kind. The handler imports the types of its API, which have
/// the same fields in both APIs.
macro_rules! describe_groups {
    ($kind:literal, $variant:ident, $assignor:expr) => {
        pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
            let include_operations = request.include_authorized_operations;
            let describe = |group_id: String| match describe(state, context, &group_id) {
                Ok(found) => {
                    let authorized_operations =
                        state.operations_if(include_operations, context, Resource::Group(&group_id));
                    Group { group_id, authorized_operations, ..found }
                }
                Err(ApiError { code, message }) => {
                    Group { group_id, error_code: code, error_message: message, ..Group::default() }
                }
            };
            HandlerResult::Reply(Response {
                groups: request.group_ids.into_iter().map(describe).collect(),
                ..Response::default()
            })
        }

        fn describe(state: &State, context: &Context, group_id: &str) -> Result<Group, ApiError> {
            let group = state.group_to_describe(context, group_id, $kind, |group| match group {
                group::Group::$variant(group) => Some(group),
                _ => None,
            })?;
            let members = group.describe(&state.topics);
            let may_describe = |topic: &String| state.allows(context, Operation::Describe, Resource::Topic(topic));
            if !members.iter().flat_map(topics).all(may_describe) {
                let why = "The group has described topic(s) that the client is not authorized to describe.";
                return Err(ApiError::new(ErrorCode::TOPIC_AUTHORIZATION_FAILED, why));
            }
            Ok(Group {
                group_state: group.state().to_owned(),
                group_epoch: group.epoch,
                assignment_epoch: group.assignment_epoch,
                assignor_name: $assignor(group).to_owned(),
                members,
                ..Group::default()
            })
        }

        /// Returns the topics that a member reads or owns.
        fn topics(member: &Member) -> impl Iterator<Item = &String> {
            member.subscribed_topic_names.iter().chain(member.assignment.topic_partitions.iter().map(|t| &t.topic_name))
        }
    };
}

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_client_quotas;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_share_group_offsets;
mod alter_user_scram_credentials;
mod api_versions;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_acls;
mod create_delegation_token;
mod create_partitions;
mod create_topics;
mod defaults;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_share_group_offsets;
mod delete_topics;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_delegation_token;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_share_group_offsets;
mod describe_topic_partitions;
mod describe_transactions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod end_txn;
mod expire_delegation_token;
mod fetch;
mod find_coordinator;
mod get_telemetry_subscriptions;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod push_telemetry;
mod renew_delegation_token;
mod sasl_authenticate;
mod sasl_handshake;
mod share_acknowledge;
mod share_fetch;
mod share_group_describe;
mod share_group_heartbeat;
mod sync_group;
mod txn_offset_commit;

use super::group;
use super::ids::Connection;
use super::request::{Context, FrameResult, HandlerResult, RawRequest, ServedApi, Wait, WaitingRequest, encode};
use super::state::State;
use crate::api::Release;
use crate::api::header::RequestHeader;
use crate::api::{self, ErrorCode, Info, Message, Request};
use crate::wire::{Error, Reader};
use bytes::Bytes;
use defaults::{RespondWith, ThrottleTime};
use std::sync::Arc;

/// Dispatches requests to the handlers of the listed APIs. The broker serves only the listed APIs.
macro_rules! serve {
    ($($module:ident)*) => {
        /// All APIs, from their oldest to their newest stable version.
        static KNOWN: &[&Info] = &[$( &api::$module::API ),*];

        pub(super) fn handle(state: &mut State, request: RawRequest) -> FrameResult {
            let RawRequest { api, context, body } = request;
            $( if api.key == api::$module::API.key {
                return respond(context, body, |context, request| $module::handle(state, context, request));
            } )*
            FrameResult::Close
        }

        /// Rejects a request without calling its handler. The error code goes into the error fields of the response.
        pub(super) fn reject(state: &mut State, request: RawRequest, code: ErrorCode) -> FrameResult {
            let RawRequest { api, context, body } = request;
            // Only the fetch session knows the partitions of an incremental Fetch.
            if api.key == api::fetch::API.key {
                return respond(context, body, |context, request| {
                    HandlerResult::Reply(fetch::response_with(state, context, request, code))
                });
            }
            if api.key == api::metadata::API.key {
                return respond(context, body, |context, request| {
                    HandlerResult::Reply(metadata::response_with(state, context, request, code))
                });
            }
            $( if api.key == api::$module::API.key {
                return respond(context, body, |_, request: api::$module::Request| {
                    HandlerResult::Reply(request.response_with(code))
                });
            } )*
            FrameResult::Close
        }
    };
}

serve! {
    produce
    fetch
    list_offsets
    offset_for_leader_epoch
    metadata
    offset_commit
    offset_fetch
    find_coordinator
    join_group
    heartbeat
    leave_group
    sync_group
    describe_groups
    list_groups
    sasl_handshake
    api_versions
    create_topics
    delete_topics
    delete_records
    init_producer_id
    add_partitions_to_txn
    add_offsets_to_txn
    end_txn
    describe_acls
    create_acls
    delete_acls
    describe_configs
    alter_configs
    describe_log_dirs
    sasl_authenticate
    create_partitions
    create_delegation_token
    renew_delegation_token
    expire_delegation_token
    describe_delegation_token
    delete_groups
    elect_leaders
    incremental_alter_configs
    alter_partition_reassignments
    list_partition_reassignments
    offset_delete
    list_config_resources
    describe_quorum
    alter_replica_log_dirs
    describe_client_quotas
    alter_client_quotas
    describe_user_scram_credentials
    alter_user_scram_credentials
    describe_cluster
    txn_offset_commit
    describe_producers
    describe_transactions
    list_transactions
    consumer_group_heartbeat
    consumer_group_describe
    describe_topic_partitions
    share_group_heartbeat
    share_group_describe
    share_fetch
    share_acknowledge
    describe_share_group_offsets
    alter_share_group_offsets
    delete_share_group_offsets
    get_telemetry_subscriptions
    push_telemetry
}

/// Returns the APIs and versions that a release serves. Without a release, returns all APIs and versions. As in Kafka,
/// the telemetry APIs need a receiver.
pub(super) fn served(release: Option<Release>, has_telemetry: bool) -> Vec<ServedApi> {
    let telemetry = [api::get_telemetry_subscriptions::API.key, api::push_telemetry::API.key];
    let of = |api: &&'static Info| match release {
        None => Some(ServedApi { api, min: api.min, max: api.max_stable }),
        Some(release) => {
            let (min, max) = release.versions(api)?;
            Some(ServedApi { api, min: min.max(api.min), max: max.min(api.max_stable) })
        }
    };
    KNOWN.iter().filter(|api| has_telemetry || !telemetry.contains(&api.key)).filter_map(of).collect()
}

/// Decodes the header of a frame. The error is the result for a request that reaches no handler. Kafka 0.9 does not
/// reply to an unknown request, whereas earlier and later releases close the connection.
pub(super) fn decode_header(state: &State, mut context: Context, frame: Bytes) -> Result<RawRequest, Box<FrameResult>> {
    let silent = state.release == Some(Release::V0_9_0);
    let unknown = || Box::new(if silent { FrameResult::NoReply } else { FrameResult::Close });
    let mut reader = Reader::new(frame, 0, false);
    let find = |key| state.served.iter().find(|served| served.api.key == key);
    let known = |key| find(key).map(|served| served.api);
    let header = RequestHeader::get(&mut reader, known).map_err(|_| unknown())?;
    let ServedApi { api, min, max } = *find(header.request_api_key).ok_or_else(unknown)?;
    context.version = header.request_api_version;
    context.correlation_id = header.correlation_id;
    context.client_id = header.client_id.0.map(Arc::from);
    if (min..=max).contains(&header.request_api_version) {
        let body = reader.rest();
        context.body_size = body.len();
        return Ok(RawRequest { api, context, body });
    }
    if api.key == api::api_versions::API.key && header.request_api_version > 0 {
        context.version = 0;
        return Err(Box::new(reply(&context, api_versions::unsupported(state))));
    }
    Err(unknown())
}

/// Returns whether a client may send this request before it has authenticated.
pub(super) fn needs_no_authentication(request: &RawRequest) -> bool {
    [api::api_versions::API.key, api::sasl_handshake::API.key, api::sasl_authenticate::API.key]
        .contains(&request.api.key)
}

/// Checks a waiting request again. Returns `None` if it has to wait longer.
pub(super) fn resume(state: &mut State, waiting: &WaitingRequest, expired: bool) -> Option<Result<Vec<Bytes>, Error>> {
    match &waiting.wait {
        Wait::Fetch(request) => fetch::poll(state, &waiting.context, request, expired)
            .map(|response| encode_reply(&waiting.context, response)),
        Wait::ShareFetch(wait) => share_fetch::poll(state, &waiting.context, wait, expired)
            .map(|response| encode_reply(&waiting.context, response)),
        Wait::Group => state.groups.replies.take(waiting.context.connection).map(|reply| match reply {
            group::GroupReply::Join(response) => {
                encode_reply(&waiting.context, join_group::with_nullable_protocol(waiting.context.version, response))
            }
            group::GroupReply::Sync(response) => encode_reply(&waiting.context, response),
        }),
    }
}

/// Stops watching for a request if it has a reply or if its client has disconnected.
pub(super) fn forget(state: &mut State, connection: Connection, waiting: &WaitingRequest) {
    match &waiting.wait {
        Wait::Fetch(request) => fetch::unwatch(state, connection, request),
        Wait::ShareFetch(wait) => share_fetch::unwatch(state, connection, wait),
        Wait::Group => state.groups.replies.forget(connection),
    }
}

fn respond<R: Request<Response: ThrottleTime>>(
    context: Context,
    body: Bytes,
    handle: impl FnOnce(&Context, R) -> HandlerResult<R::Response>,
) -> FrameResult {
    // As in Kafka, extra bytes are ignored: librdkafka 2.16 writes three too many in a flexible Metadata request for
    // all topics.
    let mut reader = Reader::new(body, context.version, R::API.is_flexible(context.version));
    let Ok(request) = R::get(&mut reader) else { return FrameResult::Close };
    match handle(&context, request) {
        HandlerResult::Reply(response) => reply(&context, response),
        HandlerResult::NoReply => FrameResult::NoReply,
        HandlerResult::Wait(wait, deadline) => FrameResult::Wait(Box::new(WaitingRequest { context, deadline, wait })),
        HandlerResult::Close => FrameResult::Close,
    }
}

fn reply<M: Message + ThrottleTime>(context: &Context, response: M) -> FrameResult {
    // A response cannot be sent if the version has no form for it, such as a name that is longer than its length field
    // allows.
    encode_reply(context, response).map_or(FrameResult::Close, FrameResult::Reply)
}

/// Encodes a reply, with the throttle time that a fault sets.
fn encode_reply<M: Message + ThrottleTime>(context: &Context, mut response: M) -> Result<Vec<Bytes>, Error> {
    if let Some(ms) = context.throttle_ms {
        response.set_throttle_time(ms);
    }
    encode(context, &response)
}
