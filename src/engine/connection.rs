//! One connection to a broker: which versions it speaks, which answer belongs to which request, what takes too long.
//!
//! States: `Negotiating` (ApiVersions is out, nothing else may go) → `Ready` → `Failed`. Answers come in the order of
//! the requests, so what is in flight is a queue; an answer out of order means that the stream is broken.

use super::{Error, ErrorKind, Time};
use crate::api::header::{ClientId, RequestHeader, get_response_header};
use crate::api::{self, ErrorCode, Info, api_versions, metadata};
use crate::frame::{BadLength, Frames};
use crate::wire::{self, Reader, Wire, Writer};
use bytes::{Bytes, BytesMut};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The version ApiVersions is first asked in. An older broker answers UNSUPPORTED_VERSION and is asked again in v0.
const FIRST_API_VERSIONS: i16 = 4;

/// Byte fields from this size on are sent from where they lie; below it one copy is cheaper than one more piece.
const SHARED_FROM: usize = 4 << 10;

/// A request body without its type.
pub trait Call: Send {
    /// The API.
    fn api(&self) -> &'static Info;
    /// Appends the body.
    fn put(&self, w: &mut Writer);
    /// The oldest version that can say what the request means.
    fn min_version(&self) -> i16 {
        self.api().min
    }
    /// Whether the broker answers: it does not answer Produce with `acks` 0.
    fn is_answered(&self) -> bool {
        true
    }
    /// How long the broker may hold the answer back on purpose.
    fn held(&self) -> Duration {
        Duration::ZERO
    }
}

/// Any request is a call; what is special about Produce lives in the producer.
impl<R: api::Request> Call for R {
    fn api(&self) -> &'static Info {
        R::API
    }
    fn put(&self, w: &mut Writer) {
        Wire::put(self, w);
    }
}

/// A broker's answer: the body and the version it is in.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The version asked in.
    pub version: i16,
    /// The body; empty for a request that is not answered.
    pub body: Bytes,
}

impl Reply {
    /// The typed answer.
    pub fn decode<R: api::Message>(self) -> Result<R, Error> {
        api::decode(self.version, self.body).map_err(malformed)
    }
}

fn malformed(e: wire::Error) -> Error {
    Error::new(ErrorKind::Decode, format!("broker sent a malformed message: {e}"))
}

struct InFlight<T> {
    correlation_id: i32,
    api: &'static Info,
    version: i16,
    deadline: Time,
    token: Option<T>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Negotiating,
    Ready,
    Failed,
}

/// A connection's machine. `T` is what a request's answer is matched with.
pub struct Connection<T> {
    state: State,
    client_id: String,
    address: String,
    frames: Frames,
    versions: HashMap<i16, (i16, i16)>,
    /// The epoch of the cluster's features and its `transaction.version`, if the broker said.
    transaction_version: Option<(i64, i16)>,
    in_flight: VecDeque<InFlight<T>>,
    /// Requests that are not answered, until they are written; then the deadline and the version they were sent in.
    unanswered: Vec<(T, i16, Time)>,
    /// Whether such a request was ever sent.
    is_unheard: bool,
    outbox: VecDeque<Bytes>,
    answers: VecDeque<(T, Result<Reply, Error>)>,
    next_correlation_id: i32,
}

impl<T> Connection<T> {
    /// A connection that was just made; it asks for versions at once.
    pub fn new(now: Time, address: String, client_id: String, max_frame: usize, timeout: Duration) -> Self {
        let mut this = Self {
            state: State::Negotiating,
            client_id,
            address,
            frames: Frames::new(max_frame),
            versions: HashMap::new(),
            transaction_version: None,
            in_flight: VecDeque::new(),
            unanswered: Vec::new(),
            is_unheard: false,
            outbox: VecDeque::new(),
            answers: VecDeque::new(),
            next_correlation_id: 0,
        };
        this.ask_versions(FIRST_API_VERSIONS, now + timeout);
        this
    }

    fn ask_versions(&mut self, version: i16, deadline: Time) {
        let request = api_versions::Request {
            client_software_name: "klamm".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        };
        // Both fields are short constants, so they fit their length fields.
        if let Ok((parts, correlation_id)) = self.encode(&request, version) {
            self.outbox.extend(parts);
            self.in_flight.push_back(InFlight {
                correlation_id,
                api: &api_versions::API,
                version,
                deadline,
                token: None,
            });
        }
    }

    /// Whether requests may be sent.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// The epoch of the cluster's features and its `transaction.version`, if the broker said.
    pub fn transaction_version(&self) -> Option<(i64, i16)> {
        self.transaction_version
    }

    /// Requests that wait for an answer.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The version to use for a call: the newest both sides know, at most `max`.
    fn version(&self, call: &dyn Call, max: i16) -> Result<i16, Error> {
        let (api, min) = (call.api(), call.min_version());
        let unsupported = |theirs: String| {
            let hint = if api.key == metadata::API.key {
                "bootstrap.servers must name brokers; is this a KRaft controller?".to_owned()
            } else {
                format!("this needs version {min} to {}, the broker has {theirs}", max.min(api.max_stable))
            };
            Error::refused(ErrorCode::UNSUPPORTED_VERSION, format!("{} on {}", api.name, self.address)).with_hint(hint)
        };
        let Some(&(low, high)) = self.versions.get(&api.key) else {
            return Err(unsupported("none".to_owned()));
        };
        let version = high.min(api.max_stable).min(max);
        if version < low.max(min) {
            return Err(unsupported(format!("{low} to {high}")));
        }
        Ok(version)
    }

    /// Sends a request. Its answer comes out of [`Connection::poll_answer`], unless this returns the token.
    pub fn send(&mut self, call: &dyn Call, max_version: i16, deadline: Time, token: T) -> Result<(), (T, Error)> {
        let version = match self.version(call, max_version) {
            Ok(version) => version,
            Err(e) => return Err((token, e)),
        };
        let (parts, correlation_id) = match self.encode(call, version) {
            Ok(encoded) => encoded,
            Err(e) => return Err((token, e)),
        };
        self.outbox.extend(parts);
        if call.is_answered() {
            let api = call.api();
            self.in_flight.push_back(InFlight { correlation_id, api, version, deadline, token: Some(token) });
        } else {
            self.unanswered.push((token, version, deadline));
            self.is_unheard = true;
        }
        Ok(())
    }

    /// Takes in that everything sent so far was given to the network: the end of requests that are not answered.
    pub fn handle_written(&mut self) {
        let written = self.unanswered.drain(..);
        self.answers.extend(written.map(|(token, version, _)| (token, Ok(Reply { version, body: Bytes::new() }))));
    }

    /// Whether requests were sent that the broker does not answer: only its end of the connection tells that it read
    /// them.
    pub fn is_unheard(&self) -> bool {
        self.is_unheard
    }

    /// The buffer that received bytes go to; [`Connection::handle_received`] reads them.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.frames.buffer()
    }

    /// Takes in what has arrived. An error means that the connection has to be closed.
    pub fn handle_received(&mut self) -> Result<(), Error> {
        loop {
            match self.frames.next_frame() {
                Ok(Some(frame)) => self.handle_frame(frame)?,
                Ok(None) => return Ok(()),
                Err(bad) => return Err(self.not_kafka(bad)),
            }
        }
    }

    fn handle_frame(&mut self, frame: Bytes) -> Result<(), Error> {
        let Some(asked) = self.in_flight.pop_front() else {
            return Err(Error::new(ErrorKind::Network, "broker answered a request that was not sent"));
        };
        let mut r = Reader::new(frame, asked.version, false);
        let correlation_id = get_response_header(asked.api, asked.version, &mut r).map_err(malformed)?;
        if correlation_id != asked.correlation_id {
            let message = format!("broker answered request {correlation_id} instead of {}", asked.correlation_id);
            // Whoever waited for this answer hears of it with the rest.
            self.in_flight.push_front(asked);
            return Err(Error::new(ErrorKind::Network, message));
        }
        match asked.token {
            Some(token) => {
                self.answers.push_back((token, Ok(Reply { version: asked.version, body: r.rest() })));
                Ok(())
            }
            None => self.handle_versions(asked.version, asked.deadline, r.rest()),
        }
    }

    fn handle_versions(&mut self, version: i16, deadline: Time, body: Bytes) -> Result<(), Error> {
        // The answer to a version the broker does not know is a v0 body that begins with this code.
        let code = body.first_chunk::<2>().map(|b| ErrorCode(i16::from_be_bytes(*b)));
        if code == Some(ErrorCode::UNSUPPORTED_VERSION) && version > 0 {
            self.ask_versions(0, deadline);
            return Ok(());
        }
        let response: api_versions::Response = Reply { version, body }.decode()?;
        response.error_code.check().map_err(|code| Error::refused(code, "version negotiation"))?;
        self.versions = response.api_keys.iter().map(|k| (k.api_key, (k.min_version, k.max_version))).collect();
        let feature = response.finalized_features.iter().find(|f| f.name == "transaction.version");
        self.transaction_version = feature.map(|f| (response.finalized_features_epoch, f.max_version_level));
        self.state = State::Ready;
        Ok(())
    }

    fn not_kafka(&self, bad: BadLength) -> Error {
        if self.state == State::Ready {
            // It spoke Kafka's protocol before: the stream is damaged, and another connection may be better.
            return Error::new(ErrorKind::Network, format!("what the broker sent is damaged: {bad}"));
        }
        let error = Error::new(ErrorKind::Decode, format!("peer does not speak Kafka's protocol: {bad}"));
        match bad.found {
            [b'H', b'T', b'T', b'P'] => error.with_hint("this is an HTTP server; check the port"),
            [0x15 | 0x16, 3, ..] => error.with_hint("this port speaks TLS; use the plaintext listener's port"),
            _ => error.with_hint("check host and port"),
        }
    }

    /// Ends the connection: every request in flight is answered with `error`.
    pub fn fail(&mut self, error: &Error) {
        self.state = State::Failed;
        self.outbox.clear();
        let unanswered = self.unanswered.drain(..).map(|(token, ..)| token);
        let tokens = unanswered.chain(self.in_flight.drain(..).filter_map(|f| f.token));
        self.answers.extend(tokens.map(|token| (token, Err(error.clone()))));
    }

    /// What the peer's silent end of the connection means in this state.
    pub fn closed_by_peer(&self) -> Error {
        match self.state {
            State::Negotiating => {
                Error::new(ErrorKind::Network, "connection closed before the broker said its versions")
                    .with_hint("is this a TLS or SASL listener, or a broker before 0.10?")
            }
            _ => Error::new(ErrorKind::Network, "connection closed by the broker"),
        }
    }

    /// The next bytes to send.
    pub fn poll_send(&mut self) -> Option<Bytes> {
        self.outbox.pop_front()
    }

    /// The next answer.
    pub fn poll_answer(&mut self) -> Option<(T, Result<Reply, Error>)> {
        self.answers.pop_front()
    }

    /// When the oldest request in flight is late.
    pub fn next_timeout(&self) -> Option<Time> {
        self.in_flight.iter().map(|f| f.deadline).chain(self.unanswered.iter().map(|u| u.2)).min()
    }

    /// An error if an answer is late: the connection has to be closed, because what comes later cannot be trusted to come.
    pub fn handle_timeout(&self, now: Time) -> Result<(), Error> {
        match self.in_flight.iter().find(|f| f.deadline <= now) {
            None if self.unanswered.iter().any(|u| u.2 <= now) => {
                Err(Error::new(ErrorKind::Timeout, "broker did not read what was sent in time"))
            }
            None => Ok(()),
            Some(late) => Err(Error::new(ErrorKind::Timeout, format!("no answer to {} in time", late.api.name))),
        }
    }

    fn encode(&mut self, call: &dyn Call, version: i16) -> Result<(Vec<Bytes>, i32), Error> {
        let api = call.api();
        let correlation_id = self.next_correlation_id;
        let client_id = ClientId(Some(self.client_id.clone()));
        let mut w = Writer::new(version, api.is_flexible(version)).sharing(SHARED_FROM);
        w.buf.extend_from_slice(&[0; 4]);
        RequestHeader { request_api_key: api.key, request_api_version: version, correlation_id, client_id }
            .put(api, &mut w);
        call.put(&mut w);
        let length = (w.size() - 4) as u32;
        if let Some(field) = w.buf.first_chunk_mut() {
            *field = length.to_be_bytes();
        }
        let parts = w.parts().map_err(|e| {
            let e = e.of(api.name, "request", version);
            Error::new(ErrorKind::Config, format!("cannot be sent: {e}"))
        })?;
        self.next_correlation_id = correlation_id.wrapping_add(1) & i32::MAX;
        Ok((parts, correlation_id))
    }
}
