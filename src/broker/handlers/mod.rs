//! From a frame to an answer: header, version check, the handler of the API, the encoded reply.
//!
//! What Kafka answers by closing the connection closes it here: an unknown API, a version that is not served (for
//! ApiVersions alone there is an answer), a body that cannot be decoded.

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_client_quotas;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_share_group_offsets;
mod alter_user_scram_credentials;
mod api_versions;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_acls;
mod create_delegation_token;
mod create_partitions;
mod create_topics;
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
mod describe_share_group_offsets;
mod describe_topic_partitions;
mod describe_transactions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod end_txn;
mod expire_delegation_token;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
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
mod renew_delegation_token;
mod sasl_authenticate;
mod sasl_handshake;
mod share_acknowledge;
mod share_fetch;
mod share_group_describe;
mod share_group_heartbeat;
mod sync_group;
mod txn_offset_commit;

use super::Time;
use super::cluster::Connection;
use super::group;
use super::quotas::{CONSUMER, PRODUCER};
use super::state::{Clock, State};
use crate::api::Release;
use crate::api::header::{RequestHeader, get_response_header, put_response_header};
use crate::api::{self, ErrorCode, Info, Message, Request};
use crate::wire::{Error, Reader, Value, Wire, Writer};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// Byte fields from here on are sent from where they lie; below, a copy is cheaper than another piece.
const SHARE_FROM: usize = 4 << 10;

/// What is said of rules where there are none.
const NO_AUTHORIZER: &str = "No Authorizer is configured.";

/// Who asks, when, and in which version.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub clock: Clock,
    /// The node that was asked.
    pub node: i32,
    pub connection: Connection,
    pub version: i16,
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<Arc<str>>,
}

impl Context {
    pub fn new(clock: Clock, node: i32, connection: Connection) -> Self {
        Self { clock, node, connection, version: 0, correlation_id: 0, client_id: None }
    }
}

/// What became of a frame.
pub(super) enum Outcome {
    /// Write this.
    Reply(Vec<Bytes>),
    /// There is no answer to this request.
    Silent,
    /// The answer comes later.
    Park(Parked),
    /// The peer broke the protocol.
    Close,
}

/// A request that waits: until something it watches changes, at most until the deadline.
#[derive(Debug)]
pub(super) struct Parked {
    pub context: Context,
    pub deadline: Option<Time>,
    waiting: Waiting,
}

#[derive(Debug)]
enum Waiting {
    Fetch(api::fetch::Request),
    ShareFetch(share_fetch::Waits),
    /// For an answer of [`Answers`](super::group::Answers).
    Group,
}

/// What a handler says.
enum Answer<R> {
    Reply(R),
    Silent,
    Park(Waiting, Option<Time>),
    Close,
}

/// Dispatches to the handlers of these APIs. The broker serves the APIs listed here.
macro_rules! serve {
    ($($module:ident)*) => {
        /// The APIs that are known, from their oldest to their newest stable version.
        static KNOWN: &[&Info] = &[$( &api::$module::API ),*];

        fn dispatch(state: &mut State, context: Context, api: &'static Info, body: Bytes) -> Outcome {
            $( if api.key == api::$module::API.key {
                return answer(context, body, |context, request| $module::handle(state, context, request));
            } )*
            Outcome::Close
        }

        /// Answers a request with an error wherever its API has room for one, and does nothing else.
        pub(super) fn refuse(state: &mut State, request: Opened, code: ErrorCode) -> Outcome {
            let Opened { api, context, body, .. } = request;
            // What an incremental Fetch is about is known to its session alone.
            if api.key == api::fetch::API.key {
                return answer(context, body, |context, request| {
                    Answer::Reply(fetch::refuse_all(state, context, request, code))
                });
            }
            $( if api.key == api::$module::API.key {
                return answer(context, body, |_, request| Answer::Reply($module::refuse(request, code)));
            } )*
            Outcome::Close
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
}

/// An API and the versions of it that are served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    api: &'static Info,
    min: i16,
    max: i16,
}

/// What a release serves of what is known here, or all of that.
pub(super) fn served(release: Option<Release>) -> Vec<Served> {
    let of = |api: &&'static Info| match release {
        None => Some(Served { api, min: api.min, max: api.max_stable }),
        Some(release) => {
            let (min, max) = release.versions(api)?;
            Some(Served { api, min: min.max(api.min), max: max.min(api.max_stable) })
        }
    };
    KNOWN.iter().filter_map(of).collect()
}

/// A request whose header was read, in a version that is served.
pub(super) struct Opened {
    pub api: &'static Info,
    pub context: Context,
    pub body: Bytes,
}

/// Reads the header of a frame; the error is what becomes of one that no handler will see. Brokers of 0.9 leave what
/// they do not know unanswered; those before and after close the connection.
pub(super) fn open(state: &State, mut context: Context, frame: Bytes) -> Result<Opened, Box<Outcome>> {
    let silent = state.release == Some(Release::V0_9_0);
    let unknown = || Box::new(if silent { Outcome::Silent } else { Outcome::Close });
    let mut reader = Reader::new(frame, 0, false);
    let find = |key| state.served.iter().find(|served| served.api.key == key);
    let known = |key| find(key).map(|served| served.api);
    let header = RequestHeader::get(&mut reader, known).map_err(|_| unknown())?;
    let Served { api, min, max } = *find(header.request_api_key).ok_or_else(unknown)?;
    context.version = header.request_api_version;
    context.correlation_id = header.correlation_id;
    context.client_id = header.client_id.0.map(Arc::from);
    if (min..=max).contains(&header.request_api_version) {
        return Ok(Opened { api, context, body: reader.rest() });
    }
    if api.key == api::api_versions::API.key && header.request_api_version > 0 {
        context.version = 0;
        return Err(Box::new(reply(&context, &api_versions::unsupported(state))));
    }
    Err(unknown())
}

/// Whether a connection that has yet to log in may ask this.
pub(super) fn is_for_all(request: &Opened) -> bool {
    [api::api_versions::API.key, api::sasl_handshake::API.key, api::sasl_authenticate::API.key]
        .contains(&request.api.key)
}

/// Handles a request.
pub(super) fn handle(state: &mut State, request: Opened) -> Outcome {
    let Opened { api, context, body } = request;
    let (asking, size) = (context.clone(), body.len());
    match (dispatch(state, context, api, body), api.key) {
        (Outcome::Reply(parts), key) if key == api::produce::API.key => {
            let by = state.meter(&asking, PRODUCER, size);
            Outcome::Reply(throttled(&asking, api, &parts, by, false).unwrap_or(parts))
        }
        (Outcome::Silent, key) if key == api::produce::API.key => {
            state.meter(&asking, PRODUCER, size);
            Outcome::Silent
        }
        (Outcome::Reply(parts), key) if key == api::fetch::API.key => {
            Outcome::Reply(meter_fetch(state, &asking, parts))
        }
        (outcome, _) => outcome,
    }
}

/// A fetch as the client's quota has it: all of it, or nothing for a while.
fn meter_fetch(state: &mut State, context: &Context, parts: Vec<Bytes>) -> Vec<Bytes> {
    let size = parts.iter().map(Bytes::len).sum();
    let by = state.meter(context, CONSUMER, size);
    let is_empty = !by.is_zero() && state.unmeter(context, CONSUMER, size);
    throttled(context, &api::fetch::API, &parts, by, is_empty).unwrap_or(parts)
}

/// The answer that says that a client was throttled, without what it fetched if that is so; `None` if it was not, or
/// if its version cannot say it.
pub(super) fn throttled(
    context: &Context,
    api: &Info,
    parts: &[Bytes],
    by: Duration,
    is_empty: bool,
) -> Option<Vec<Bytes>> {
    if by.is_zero() {
        return None;
    }
    let door = &api::by_key(api.key)?.response;
    let mut reader = Reader::new(parts.concat().split_off(4).into(), context.version, false);
    get_response_header(api, context.version, &mut reader).ok()?;
    let Value::Struct(mut fields) = door.decode(context.version, reader.rest()).ok()? else { return None };
    let (_, time) = fields.iter_mut().find(|(name, _)| **name == *"throttleTimeMs")?;
    *time = Value::Int(i32::try_from(by.as_millis()).unwrap_or(i32::MAX).into());
    if let Some((_, fetched)) = fields.iter_mut().find(|(name, _)| is_empty && **name == *"responses") {
        *fetched = Value::List(Vec::new());
    }
    let body = door.encode(context.version, Value::Struct(fields)).ok()?;
    let mut w = Writer::new(context.version, api.is_flexible(context.version));
    0i32.put(&mut w);
    put_response_header(api, context.version, context.correlation_id, &mut w);
    w.buf.extend_from_slice(&body);
    let length = i32::try_from(w.size() - 4).unwrap_or(i32::MAX);
    *w.buf.first_chunk_mut()? = length.to_be_bytes();
    w.parts().ok()
}

/// Looks again at a parked request; `None` if it goes on waiting.
pub(super) fn resume(state: &mut State, parked: &Parked, expired: bool) -> Option<Result<Vec<Bytes>, Error>> {
    match &parked.waiting {
        Waiting::Fetch(request) => {
            let found = fetch::poll(state, &parked.context, request, expired);
            let found = found.map(|response| encode(&parked.context, &response));
            found.map(|parts| parts.map(|parts| meter_fetch(state, &parked.context, parts)))
        }
        Waiting::ShareFetch(waits) => {
            share_fetch::poll(state, &parked.context, waits, expired).map(|response| encode(&parked.context, &response))
        }
        Waiting::Group => state.groups.answers.take(parked.context.connection).map(|answer| match answer {
            group::Answer::Join(response) => {
                encode(&parked.context, &join_group::in_form(parked.context.version, response))
            }
            group::Answer::Sync(response) => encode(&parked.context, &response),
        }),
    }
}

/// Stops watching for a request that was answered or whose client is gone.
pub(super) fn forget(state: &mut State, connection: Connection, parked: &Parked) {
    match &parked.waiting {
        Waiting::Fetch(request) => fetch::unwatch(state, connection, request),
        Waiting::ShareFetch(waits) => share_fetch::unwatch(state, connection, waits),
        Waiting::Group => state.groups.answers.forget(connection),
    }
}

fn answer<R: Request>(
    context: Context,
    body: Bytes,
    handle: impl FnOnce(&Context, R) -> Answer<R::Response>,
) -> Outcome {
    // Bytes left over are ignored, as Kafka does: librdkafka 2.16 writes three too many in a flexible Metadata request
    // for all topics.
    let mut reader = Reader::new(body, context.version, R::API.is_flexible(context.version));
    let Ok(request) = R::get(&mut reader) else { return Outcome::Close };
    match handle(&context, request) {
        Answer::Reply(response) => reply(&context, &response),
        Answer::Silent => Outcome::Silent,
        Answer::Park(waiting, deadline) => Outcome::Park(Parked { context, deadline, waiting }),
        Answer::Close => Outcome::Close,
    }
}

fn reply<M: Message>(context: &Context, response: &M) -> Outcome {
    // A response that has no form in the version asked for (a name longer than its length field) cannot be sent.
    encode(context, response).map_or(Outcome::Close, Outcome::Reply)
}

/// A response as a frame with its length, log slices shared.
fn encode<M: Message>(context: &Context, response: &M) -> Result<Vec<Bytes>, Error> {
    let mut w = Writer::new(context.version, M::API.is_flexible(context.version)).sharing(SHARE_FROM);
    0i32.put(&mut w);
    put_response_header(M::API, context.version, context.correlation_id, &mut w);
    response.put(&mut w);
    let length = i32::try_from(w.size() - 4).unwrap_or(i32::MAX);
    if let Some(first) = w.buf.first_chunk_mut() {
        *first = length.to_be_bytes();
    }
    w.parts()
}

/// An error code with a sentence for a person.
struct Refusal {
    code: ErrorCode,
    message: Option<String>,
}

impl Refusal {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}
