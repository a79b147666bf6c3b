//! The types of a handler's arguments and results, such as the context of a request.
//!
//! The handlers, the state and the cluster depend on this file, but this file depends on none of them.

use super::clock::{Clock, Time};
use super::ids::{Connection, ShareSessionKey, TopicIdPartition};
use crate::api::header::put_response_header;
use crate::api::{self, ErrorCode, Info, Message};
use crate::wire::{Error, Wire, Writer};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Minimum size of a byte field that the server sends from the log without a copy. For smaller fields, a copy is
/// cheaper.
const SHARE_FROM: usize = 4 << 10;

/// An action for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write these parts in order. Together, the parts are a frame with its length, or only a part of a frame if a
    /// fault has cut the frame.
    Reply {
        /// The connection to write to.
        connection: Connection,
        /// Parts of the frame. Long parts are slices of the log. An empty list means that the server may read from the
        /// connection again.
        parts: Vec<Bytes>,
    },
    /// Close the connection after all earlier replies are written, because the client broke the protocol.
    Close {
        /// The connection to close.
        connection: Connection,
    },
}

/// The client, node, time and version of a request.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub clock: Clock,
    /// The node that received the request.
    pub node: i32,
    pub connection: Connection,
    pub version: i16,
    pub correlation_id: i32,
    pub client_id: Option<Arc<str>>,
    /// Bytes of the request without its header.
    pub body_size: usize,
    /// The throttle time that a fault puts into the reply.
    pub throttle_ms: Option<i32>,
}

impl Context {
    pub fn new(clock: Clock, node: i32, connection: Connection) -> Self {
        Self {
            clock,
            node,
            connection,
            version: 0,
            correlation_id: 0,
            client_id: None,
            body_size: 0,
            throttle_ms: None,
        }
    }
}

/// An API, and the range of its versions that the cluster serves.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedApi {
    pub api: &'static Info,
    pub min: i16,
    pub max: i16,
}

/// A request in a served version. The header is decoded, but the body is not.
pub(super) struct RawRequest {
    pub api: &'static Info,
    pub context: Context,
    pub body: Bytes,
}

/// The result of a handler.
pub(super) enum HandlerResult<R> {
    Reply(R),
    NoReply,
    /// The request has to wait, at most until the deadline.
    Wait(Wait, Option<Time>),
    /// Close the connection, because the client broke the protocol.
    Close,
}

/// The result of handling a frame: a [`HandlerResult`] with an encoded reply.
pub(super) enum FrameResult {
    Reply(Vec<Bytes>),
    NoReply,
    Wait(Box<WaitingRequest>),
    Close,
}

/// A request that waits for a change, at most until the deadline.
#[derive(Debug)]
pub(super) struct WaitingRequest {
    pub context: Context,
    pub deadline: Option<Time>,
    pub wait: Wait,
}

#[derive(Debug)]
pub(super) enum Wait {
    /// Records in one of the partitions of this request.
    Fetch(api::fetch::Request),
    ShareFetch(ShareFetchWait),
    /// A reply to JoinGroup or SyncGroup, in the cluster's [`PendingReplies`](super::group::PendingReplies).
    Group,
}

#[derive(Debug)]
pub(super) struct ShareFetchWait {
    pub group_id: String,
    pub session: ShareSessionKey,
    pub partitions: Vec<TopicIdPartition>,
    /// The results of the acknowledgements in the request.
    pub acknowledged: BTreeMap<TopicIdPartition, ErrorCode>,
    pub max_bytes: usize,
    pub max_records: usize,
    pub min_bytes: usize,
    pub acquire_mode: i8,
    /// Whether the response names all partitions of the session, like the first response of a session.
    pub is_full: bool,
}

/// An error code and, for APIs that have a field for it, a message.
#[derive(Debug)]
pub(super) struct ApiError {
    pub code: ErrorCode,
    pub message: Option<String>,
}

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }
}

impl From<ErrorCode> for ApiError {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}

/// Returns a duration in milliseconds, for a field of a response.
pub(super) fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// Encodes a response as a frame with its length. The frame shares slices of the log instead of copying them.
pub(super) fn encode<M: Message>(context: &Context, response: &M) -> Result<Vec<Bytes>, Error> {
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
