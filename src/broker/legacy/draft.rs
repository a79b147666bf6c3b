//! Serves the draft protocol, which was proposed after Kafka 0.7. The records are in the logs of [`super::Brokers`],
//! and the codec is [`crate::legacy::draft`].
//!
//! Requests on a connection do not wait for each other, and the client matches replies by correlation ID. A fetch
//! request can wait for messages, and a produce request can wait for acknowledgements of replicas. A partition has only
//! one replica, so a produce request that requires more than one acknowledgement fails after its timeout.

use super::super::ids::Connection;
use super::super::request::Output;
use super::super::{Time, request_log::LoggedRequest};
use super::{Brokers, Close, DraftWait, WaitingRequest};
use crate::legacy::draft::{Header, PartitionData, Request, Response, ResponseHeader, TopicData};
use crate::legacy::{ErrorCode, Fetch, Produce};
use bytes::Bytes;

/// Maximum bytes of a partition in a response. Requests have no limit of their own.
const MAX_BYTES: i32 = 1 << 20;
/// Error code of a message set without an error.
const NO_ERROR: i16 = -1;

impl Brokers {
    /// Handles a frame, without its length.
    pub(super) fn handle_draft(&mut self, now: Time, connection: Connection, node: i32, frame: Bytes) {
        if self.try_draft(now, connection, node, frame).is_err() {
            self.close(connection);
        }
    }

    fn try_draft(&mut self, now: Time, connection: Connection, node: i32, frame: Bytes) -> Result<(), Close> {
        let request = Request::decode(frame).map_err(|_| Close)?;
        let Header { version, correlation_id, client_id } = request.header();
        if *version != 0 {
            return Err(Close);
        }
        self.requests.add(LoggedRequest {
            time: now,
            node,
            api: if matches!(request, Request::Produce { .. }) { "Produce" } else { "Fetch" },
            version: *version,
            client_id: Some(client_id.clone()),
            correlation_id: *correlation_id,
        });
        match &request {
            Request::Produce { header, required_acks, ack_timeout, data } => {
                let response = self.produce_draft(now, node, header, data);
                match required_acks {
                    0 => {}
                    1 => self.send_response(connection, &response)?,
                    _ => {
                        let deadline = wait(now, *ack_timeout);
                        self.waiting.push(WaitingRequest {
                            connection,
                            node,
                            deadline,
                            wait: DraftWait::Acks(late(response)),
                        });
                    }
                }
                self.wake_fetches(now);
            }
            Request::Fetch { max_wait, min_bytes, .. } => {
                let deadline = wait(now, *max_wait);
                let response = self.fetch_draft(now, node, &request)?;
                if is_full(&response, *min_bytes) || deadline <= now {
                    return self.send_response(connection, &response);
                }
                self.waiting.push(WaitingRequest { connection, node, deadline, wait: DraftWait::Fetch(request) });
            }
        }
        Ok(())
    }

    /// Replies to waiting requests whose deadline has passed.
    pub(super) fn expire_draft(&mut self, now: Time) {
        for waiting in self.waiting.extract_if(.., |waiting| waiting.deadline <= now).collect::<Vec<_>>() {
            let response = match waiting.wait {
                DraftWait::Acks(response) => Ok(response),
                DraftWait::Fetch(request) => self.fetch_draft(now, waiting.node, &request),
            };
            if response.and_then(|response| self.send_response(waiting.connection, &response)).is_err() {
                self.close(waiting.connection);
            }
        }
        self.wake_fetches(now);
    }

    /// Replies to waiting fetches that have enough data.
    fn wake_fetches(&mut self, now: Time) {
        for waiting in std::mem::take(&mut self.waiting) {
            if let DraftWait::Fetch(request @ Request::Fetch { min_bytes, .. }) = &waiting.wait
                && let Ok(response) = self.fetch_draft(now, waiting.node, request)
                && is_full(&response, *min_bytes)
                && self.send_response(waiting.connection, &response).is_ok()
            {
                continue;
            }
            self.waiting.push(waiting);
        }
    }

    fn send_response(&mut self, connection: Connection, response: &Response) -> Result<(), Close> {
        let frame = response.encode().map_err(|_| Close)?;
        self.outputs.push_back(Output::Reply { connection, parts: vec![frame.into()] });
        Ok(())
    }

    fn produce_draft(&mut self, now: Time, node: i32, header: &Header, data: &[TopicData]) -> Response {
        let now_ms = self.clock(now);
        let (mut errors, mut offsets, mut error) = (Vec::new(), Vec::new(), ErrorCode::NONE);
        for TopicData { topic, partitions } in data {
            for PartitionData { partition, message_set } in partitions {
                let part = Produce { topic: topic.clone(), partition: *partition, message_set: message_set.clone() };
                let stored = self.check(topic, *partition).and_then(|()| {
                    let begin = self.log(node, now_ms, topic, *partition).map_or(0, |log| log.written());
                    let invalid = |_: Close| ErrorCode::INVALID_MESSAGE;
                    self.produce(node, now_ms, &part).map(|()| begin).map_err(invalid)
                });
                errors.push(stored.as_ref().map_or_else(|code| code.0, |_| NO_ERROR));
                offsets.push(stored.map_or(-1, |begin| i64::try_from(begin).unwrap_or(i64::MAX)));
                if errors.last() == Some(&ErrorCode::UNKNOWN.0) && offsets.last() == Some(&-1) {
                    error = ErrorCode::UNKNOWN;
                }
            }
        }
        Response::Produce { header: header_of(header, error), errors, offsets }
    }

    fn fetch_draft(&mut self, now: Time, node: i32, request: &Request) -> Result<Response, Close> {
        let Request::Fetch { header, topics, .. } = request else { return Err(Close) };
        let now_ms = self.clock(now);
        let (mut data, mut error) = (Vec::new(), ErrorCode::NONE);
        for requested in topics {
            if requested.partitions.len() != requested.offsets.len() {
                return Err(Close);
            }
            let mut partitions = Vec::new();
            for (partition, offset) in requested.partitions.iter().zip(&requested.offsets) {
                let (topic, offset) = (requested.topic.clone(), i64::from(*offset));
                let part = Fetch { topic, partition: *partition, offset, max_size: MAX_BYTES };
                let message_set = match self.fetch(node, now_ms, &part) {
                    Ok(slice) => slice.parts.concat().into(),
                    Err(code) => {
                        error = if error == ErrorCode::NONE { code } else { error };
                        Bytes::new()
                    }
                };
                partitions.push(PartitionData { partition: *partition, message_set });
            }
            data.push(TopicData { topic: requested.topic.clone(), partitions });
        }
        Ok(Response::Fetch { header: header_of(header, error), data })
    }
}

fn header_of(request: &Header, error: ErrorCode) -> ResponseHeader {
    ResponseHeader { correlation_id: request.correlation_id, version: request.version, error: error.0 }
}

/// Returns the response to a produce request whose replicas did not acknowledge in time.
fn late(response: Response) -> Response {
    match response {
        Response::Produce { header, errors, offsets } => {
            Response::Produce { header: ResponseHeader { error: ErrorCode::UNKNOWN.0, ..header }, errors, offsets }
        }
        fetch @ Response::Fetch { .. } => fetch,
    }
}

/// Returns whether the broker can respond to a fetch, because there is enough data or an error.
fn is_full(response: &Response, min_bytes: i32) -> bool {
    let Response::Fetch { header, data } = response else { return true };
    let sets = data.iter().flat_map(|topic| &topic.partitions).map(|part| part.message_set.len());
    header.error != 0 || sets.sum::<usize>() >= usize::try_from(min_bytes).unwrap_or(0)
}

fn wait(now: Time, ms: i32) -> Time {
    now + Time::from_millis(u64::try_from(ms).unwrap_or(0))
}
