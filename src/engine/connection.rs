//! One connection to a broker: negotiates versions, authenticates, matches responses to requests, and detects timeouts.
//!
//! A connection starts as `Negotiating`: ApiVersions is in flight, and the client may not send anything else. After the
//! version negotiation, the connection is `Authenticating` if the client has credentials, and finally `Ready`. After an
//! error, the connection is `Failed`. If the previous connection to the broker got no response to ApiVersions, the new
//! connection starts as `Probing`, see [`super::version_probe`]. Before a SASL session ends, the connection goes from
//! `Ready` back to `Authenticating` (KIP-368). Responses to earlier requests still arrive in that state.
//!
//! Brokers respond in the order of the requests. The connection therefore stores the requests in flight in a queue. If
//! a response arrives out of order, the byte stream is damaged, and the connection fails.

mod cluster_id;
mod errors;
mod exchanges;
mod idle;
mod login;
mod too_large;
mod traces;

use super::call::{Call, Reply, malformed};
use super::sasl::{Credentials, Login, Nonces, gssapi};
use super::timers::Timers;
use super::version_probe::{LAST_WAIT, VersionProbe, next_release, probe_request};
use super::{Error, ErrorKind, Time, earliest};
use crate::api::header::{ClientId, RequestHeader, get_response_header};
use crate::api::{self, ErrorCode, Info, Release, api_versions, sasl_authenticate, sasl_handshake};
use crate::frame::Frames;
use crate::wire::{Reader, Writer};
use bytes::Bytes;
pub use exchanges::Exchange;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The version of the first ApiVersions request. A broker that does not support this version gets a second request in
/// v0.
const FIRST_API_VERSIONS: i16 = 4;

/// The connection sends byte fields of at least this size without a copy. For smaller fields, a copy is cheaper than
/// another buffer.
const SHARED_FROM: usize = 4 << 10;

/// When to renew a session, in percent of its lifetime. The Java client chooses between 85 and 95 percent.
const RENEW_AT: u32 = 85;
/// The shortest time between two renewals of a session. A broker rejects a renewal that starts within one second of the
/// previous one (KIP-368).
const MIN_RENEWAL_INTERVAL: Duration = Duration::from_secs(1);
/// The largest frame before authentication has completed, in bytes.
const MAX_LOGIN_FRAME: usize = 1 << 20;

/// The smallest size of a request, in bytes, that may exceed a broker's limit. In practice, brokers do not have smaller
/// limits.
pub const LARGE_REQUEST: usize = 1 << 20;

/// Identifies a connection, from the attempt to connect to the end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub usize);

struct InFlight<T> {
    correlation_id: i32,
    api: &'static Info,
    version: i16,
    sent_at: Time,
    deadline: Time,
    /// The size of the request, in bytes.
    size: usize,
    owner: Owner<T>,
}

/// The sender of a request.
enum Owner<T> {
    Caller(T),
    /// The connection itself.
    Connection,
    /// The connection itself, with a request whose response has no header (SASL before Kafka 1.0).
    ConnectionBare,
}

/// The timers of a connection, except the timeouts of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionTimer {
    /// How long the broker may be silent before the client probes it as a broker without ApiVersions.
    Silence,
    /// The deadline for the result from the Kerberos library.
    Kerberos,
    /// The time to renew the SASL session.
    Renewal,
}

/// How a connection authenticates.
#[derive(Clone, Debug)]
pub struct LoginConfig {
    /// The client's credentials.
    pub credentials: Arc<Credentials>,
    /// The source of the nonces for the logins of the connection.
    pub nonces: Nonces,
    /// How long the renewal of a session may take.
    pub renewal_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Negotiating,
    /// The client probes the broker. The value is the newest release whose probe got a response.
    Probing(Option<Release>),
    Authenticating,
    /// The broker must first show that it belongs to the client's cluster.
    Verifying,
    Ready,
    /// The connection was idle, and the broker must show that the connection still works.
    Checking,
    Failed,
}

/// A connection to a broker. `T` identifies a caller's request.
pub struct Connection<T> {
    state: ConnectionState,
    client_id: String,
    address: Arc<str>,
    frames: Frames,
    versions: BTreeMap<i16, (i16, i16)>,
    /// The broker's release, if the broker has no ApiVersions and the client has probed it.
    release: Option<Release>,
    /// The epoch of the cluster's features, and the level of the feature `transaction.version`.
    transaction_version: Option<(i64, i16)>,
    in_flight: VecDeque<InFlight<T>>,
    /// Requests to which the broker does not respond, with their version and deadline, until the driver has written
    /// them.
    unanswered: Vec<(T, i16, Time)>,
    /// Whether there is a request to which the broker does not respond, and which it has possibly not read yet.
    is_unconfirmed: bool,
    outbox: VecDeque<Bytes>,
    responses: VecDeque<(T, Result<Reply, Error>)>,
    next_correlation_id: i32,
    login_config: Option<LoginConfig>,
    login: Option<Login>,
    /// A call that the login needs from the Kerberos library.
    library_call: Option<gssapi::LibraryCall>,
    timers: Timers<ConnectionTimer>,
    /// Whether the broker has responded to a caller's request.
    has_answered: bool,
    /// How long a broker may be silent before the client probes it.
    versions_timeout: Duration,
    /// When the broker last sent data. `longest_silence` is the longest time after which the broker sent data again.
    received_at: Time,
    longest_silence: Duration,
    /// When the connection was last used, even for requests without a response.
    used_at: Time,
    /// Whether the connection was ready before.
    was_ready: bool,
    /// The ID of the client's cluster, if the broker has to show that it belongs to this cluster.
    cluster: Option<String>,
    max_frame: usize,
    /// Exchanges that the network has not counted yet.
    exchanges: Vec<Exchange>,
}

impl<T> Connection<T> {
    /// Starts a connection that was just established. The connection negotiates versions, then authenticates.
    pub fn new(
        now: Time,
        address: String,
        client_id: String,
        max_frame: usize,
        timeout: Duration,
        login_config: Option<LoginConfig>,
    ) -> Self {
        let mut this = Self::without_requests(address, client_id, max_frame, login_config);
        (this.received_at, this.used_at) = (now, now);
        this.ask_versions(FIRST_API_VERSIONS, now + timeout);
        this
    }

    /// Starts a connection without authentication to a broker that may have no ApiVersions. `probe` is the result of
    /// earlier connections. If the client may probe the broker next, the broker has `versions_timeout` to begin its
    /// response.
    pub fn with_version_probe(
        now: Time,
        address: String,
        client_id: String,
        max_frame: usize,
        timeout: Duration,
        probe: VersionProbe,
        versions_timeout: Duration,
    ) -> Self {
        let mut this = Self::without_requests(address, client_id, max_frame, None);
        (this.received_at, this.used_at) = (now, now);
        match probe {
            VersionProbe::Known(release) => {
                let of = |entry: &api::Entry| Some((entry.info.key, release.versions(entry.info)?));
                this.versions = api::APIS.iter().filter_map(of).collect();
                this.release = Some(release);
                this.state = ConnectionState::Ready;
                this.was_ready = true;
            }
            VersionProbe::Probe | VersionProbe::Confirm(..) => {
                this.state = ConnectionState::Probing(None);
                this.versions_timeout = versions_timeout;
                this.probe(now, now + timeout);
            }
            VersionProbe::Ask | VersionProbe::Wait => {
                if probe == VersionProbe::Ask && versions_timeout < timeout {
                    this.timers.set(ConnectionTimer::Silence, now + versions_timeout);
                }
                this.ask_versions(FIRST_API_VERSIONS, now + timeout);
            }
        }
        this
    }

    fn without_requests(
        address: String,
        client_id: String,
        max_frame: usize,
        login_config: Option<LoginConfig>,
    ) -> Self {
        Self {
            state: ConnectionState::Negotiating,
            client_id,
            address: address.into(),
            frames: Frames::new(if login_config.is_some() { MAX_LOGIN_FRAME.min(max_frame) } else { max_frame }),
            versions: BTreeMap::new(),
            release: None,
            transaction_version: None,
            in_flight: VecDeque::new(),
            unanswered: Vec::new(),
            is_unconfirmed: false,
            outbox: VecDeque::new(),
            responses: VecDeque::new(),
            next_correlation_id: 0,
            login_config,
            login: None,
            library_call: None,
            timers: Timers::default(),
            has_answered: false,
            versions_timeout: Duration::MAX,
            received_at: Time(0),
            used_at: Time(0),
            longest_silence: Duration::ZERO,
            was_ready: false,
            cluster: None,
            max_frame,
            exchanges: Vec::new(),
        }
    }

    /// Sends the next probe.
    fn probe(&mut self, now: Time, deadline: Time) {
        let ConnectionState::Probing(answered) = self.state else { return };
        match next_release(answered) {
            // A request this small can always be encoded.
            Some(release) => drop(self.ask(&*probe_request(release), 0, deadline)),
            None => {
                self.timers.set(ConnectionTimer::Silence, now + self.versions_timeout.min(LAST_WAIT));
                self.ask_versions(FIRST_API_VERSIONS, deadline);
            }
        }
    }

    /// Returns how the next connection should start, if this connection ended before the broker reported its versions.
    /// Returns `None` if the broker reported its versions, or if the end of the connection does not indicate the
    /// broker's release.
    pub fn next_version_probe(&mut self, closed: bool) -> Option<VersionProbe> {
        let nothing_received = self.frames.buffer().is_empty() && self.login_config.is_none();
        match self.state {
            ConnectionState::Negotiating
                if nothing_received && (closed || self.timers.get(ConnectionTimer::Silence).is_some()) =>
            {
                Some(VersionProbe::Probe)
            }
            ConnectionState::Probing(Some(release))
                if nothing_received && closed != next_release(Some(release)).is_none() =>
            {
                Some(VersionProbe::Known(release))
            }
            _ => None,
        }
    }

    fn ask_versions(&mut self, version: i16, deadline: Time) {
        let request = api_versions::Request {
            client_software_name: "klamm".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        };
        // Both fields are short constants, so they fit their length fields.
        let _ = self.ask(&request, version, deadline);
    }

    /// Sends a request of the connection itself.
    fn ask(&mut self, call: &dyn Call, version: i16, deadline: Time) -> Result<(), Error> {
        let (parts, correlation_id) = self.encode(call, version)?;
        self.outbox.extend(parts);
        self.in_flight.push_back(InFlight {
            correlation_id,
            api: call.api(),
            version,
            sent_at: self.used_at,
            deadline,
            size: 0,
            owner: Owner::Connection,
        });
        Ok(())
    }

    /// Returns whether callers may send requests.
    pub fn is_ready(&self) -> bool {
        self.state == ConnectionState::Ready
    }

    /// Returns whether the connection was ready for requests at some time.
    pub fn was_ready(&self) -> bool {
        self.was_ready
    }

    /// Returns the epoch of the cluster's features and the level of `transaction.version`, if the broker reported them.
    pub fn transaction_version(&self) -> Option<(i64, i16)> {
        self.transaction_version
    }

    /// Returns the newest version of an API that the broker supports, or -1 if it supports none.
    pub fn newest(&self, api: &Info) -> i16 {
        self.versions.get(&api.key).map_or(-1, |(_, high)| *high)
    }

    /// Returns whether the broker has responded to a caller's request.
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the version for a call: the newest version that client and broker support, at most `max`.
    fn version(&self, call: &dyn Call, max: i16) -> Result<i16, Error> {
        let (api, min) = (call.api(), call.min_version());
        let tried = || format!("{} on {}", call.feature(), self.address);
        if let (Some(release), Some(min_release)) = (self.release, call.min_release())
            && release < min_release
        {
            let hint = format!("this requires Kafka {min_release}, the broker is Kafka {release}");
            return Err(Error::refused(ErrorCode::UNSUPPORTED_VERSION, tried()).with_hint(hint));
        }
        let theirs = self.versions.get(&api.key).copied();
        let version = theirs.map(|(low, high)| (low, high.min(api.max_stable).min(max)));
        if let Some((low, version)) = version
            && version >= low.max(min)
        {
            return Ok(version);
        }
        let needs = || {
            let range = |low, high| if high > low { format!("{low} to {high}") } else { format!("{low}") };
            let theirs = theirs.map_or_else(|| "none".to_owned(), |(low, high)| range(low, high));
            let ours = range(min, max.min(api.max_stable));
            format!("version {ours} of {} is needed, the broker has {theirs}", api.name)
        };
        let lacks = theirs.is_none_or(|(_, high)| high < min);
        let hint = match Release::first_with(api, min).filter(|_| lacks) {
            Some(release) => format!("this requires Kafka {release}: {}", needs()),
            None => needs(),
        };
        Err(Error::refused(ErrorCode::UNSUPPORTED_VERSION, tried()).with_hint(hint))
    }

    /// Sends a request. Unless this call fails, [`Connection::poll_response`] later returns the response.
    pub fn send(&mut self, call: &dyn Call, max_version: i16, deadline: Time, token: T) -> Result<(), (T, Error)> {
        let version = match self.version(call, max_version) {
            Ok(version) => version,
            Err(e) => return Err((token, e)),
        };
        let (parts, correlation_id) = match self.encode(call, version) {
            Ok(encoded) => encoded,
            Err(e) => return Err((token, e)),
        };
        let size = parts.iter().map(Bytes::len).sum();
        self.outbox.extend(parts);
        if call.is_answered() {
            let (api, owner, sent_at) = (call.api(), Owner::Caller(token), self.used_at);
            self.in_flight.push_back(InFlight { correlation_id, api, version, sent_at, deadline, size, owner });
        } else {
            self.unanswered.push((token, version, deadline));
            self.is_unconfirmed = true;
        }
        Ok(())
    }

    /// Notes that the driver has written all bytes. Requests to which the broker does not respond are then complete.
    pub fn handle_written(&mut self) {
        let written = self.unanswered.drain(..);
        self.responses.extend(written.map(|(token, version, _)| (token, Ok(Reply { version, body: Bytes::new() }))));
    }

    /// Returns whether there are requests to which the broker does not respond, and which it has possibly not read yet.
    pub fn is_unconfirmed(&self) -> bool {
        self.is_unconfirmed
    }

    /// Returns the buffer for received bytes, which [`Connection::handle_received`] reads.
    pub fn frames(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// Handles the received bytes. After an error, the caller has to close the connection.
    pub fn handle_received(&mut self, now: Time) -> Result<(), Error> {
        if self.state == ConnectionState::Checking {
            self.longest_silence = self.longest_silence.max(now.since(self.received_at));
        }
        (self.received_at, self.used_at) = (now, now);
        loop {
            match self.frames.next_frame() {
                Ok(Some(frame)) => self.handle_frame(now, frame)?,
                Ok(None) => return Ok(()),
                Err(bad) if self.state == ConnectionState::Ready => match self.handle_oversized(bad) {
                    true => return Ok(()),
                    false => return Err(self.not_kafka(bad)),
                },
                Err(bad) => return Err(self.not_kafka(bad)),
            }
        }
    }

    fn handle_frame(&mut self, now: Time, frame: Bytes) -> Result<(), Error> {
        let Some(asked) = self.in_flight.pop_front() else {
            return Err(Error::new(ErrorKind::Network, "unexpected response: no request is in flight"));
        };
        let (api, size, latency) = (asked.api, frame.len() + 4, now.since(asked.sent_at));
        self.exchanges.push(Exchange::Received { api, size, latency });
        if matches!(asked.owner, Owner::ConnectionBare) {
            return self.handle_bare(now, asked.deadline, &frame);
        }
        self.record_response(now, &asked, &frame);
        let mut r = Reader::new(frame, asked.version, false);
        let header = get_response_header(asked.api, asked.version, &mut r).map_err(malformed);
        let answered = header.and_then(|correlation_id| match correlation_id {
            id if id == asked.correlation_id => Ok(()),
            id => {
                let message = format!("response to request {id} instead of {}", asked.correlation_id);
                Err(Error::new(ErrorKind::Network, message))
            }
        });
        if let Err(error) = answered {
            // The request fails with the rest of the connection.
            self.in_flight.push_front(asked);
            return Err(error);
        }
        self.log_response(now, &asked);
        let InFlight { api, version, deadline, .. } = asked;
        let reply = Reply { version, body: r.rest() };
        match asked.owner {
            Owner::Caller(token) => {
                self.has_answered = true;
                self.responses.push_back((token, Ok(reply)));
                Ok(())
            }
            _ if self.state == ConnectionState::Verifying => self.handle_cluster_id(reply),
            _ if self.state == ConnectionState::Checking => {
                self.state = ConnectionState::Ready;
                self.is_unconfirmed = false;
                Ok(())
            }
            _ if self.is_ready() && api.key != sasl_handshake::API.key && api.key != sasl_authenticate::API.key => {
                self.is_unconfirmed = false;
                Ok(())
            }
            _ if api.key == sasl_handshake::API.key => self.handle_handshake(deadline, reply),
            _ if api.key == sasl_authenticate::API.key => self.handle_authenticate(now, deadline, reply),
            _ if api.key != api_versions::API.key => {
                if let ConnectionState::Probing(answered) = &mut self.state {
                    *answered = next_release(*answered);
                }
                self.probe(now, deadline);
                Ok(())
            }
            _ => self.handle_versions(now, deadline, reply),
        }
    }

    fn handle_versions(&mut self, now: Time, deadline: Time, reply: Reply) -> Result<(), Error> {
        self.timers.stop(ConnectionTimer::Silence);
        let Reply { version, body } = reply;
        // A broker that does not know the version responds with a v0 body that begins with this code.
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
        if self.login_config.is_some() {
            return self.log_in(now, deadline);
        }
        self.be_ready(now, deadline, None);
        Ok(())
    }

    fn be_ready(&mut self, now: Time, deadline: Time, session: Option<Duration>) {
        self.frames.allow(self.max_frame);
        if self.login.is_some() {
            self.exchanges.push(Exchange::Login { again: self.was_ready });
        }
        self.login = None;
        if let Some(lifetime) = session {
            let min_wait = if self.was_ready { MIN_RENEWAL_INTERVAL } else { Duration::ZERO };
            self.timers.set(ConnectionTimer::Renewal, now + (lifetime * RENEW_AT / 100).max(min_wait));
        }
        if !self.verifies_cluster(deadline) {
            self.state = ConnectionState::Ready;
            self.was_ready = true;
        }
    }

    /// Ends the connection. Every request in flight fails with `error`.
    pub fn fail(&mut self, error: &Error) {
        self.state = ConnectionState::Failed;
        self.outbox.clear();
        self.timers.clear();
        self.in_flight.iter().for_each(|request| self.record_lost(request, error));
        let unanswered = self.unanswered.drain(..).map(|(token, ..)| token);
        let unanswered = unanswered.map(|token| (token, error.clone()));
        let largest = self.in_flight.iter().map(|f| f.size).max();
        let in_flight = self.in_flight.drain(..).filter_map(|f| match f.owner {
            Owner::Caller(token) if error.kind() == ErrorKind::Oversized && Some(f.size) != largest => {
                Some((token, error.clone().as_kind(ErrorKind::Network)))
            }
            Owner::Caller(token) => Some((token, error.clone())),
            Owner::Connection | Owner::ConnectionBare => None,
        });
        self.responses.extend(unanswered.chain(in_flight).map(|(token, error)| (token, Err(error))));
    }

    /// Returns the requests, responses and logins since the last call.
    pub fn exchanges(&mut self) -> impl Iterator<Item = Exchange> + '_ {
        self.exchanges.drain(..)
    }

    /// Returns the next bytes to send.
    pub fn poll_send(&mut self) -> Option<Bytes> {
        self.outbox.pop_front()
    }

    /// Returns the next response.
    pub fn poll_response(&mut self) -> Option<(T, Result<Reply, Error>)> {
        self.responses.pop_front()
    }

    /// Returns when [`Connection::handle_timeout`] has to be called.
    pub fn next_timeout(&self) -> Option<Time> {
        let late = self.in_flight.iter().map(|f| f.deadline).chain(self.unanswered.iter().map(|u| u.2)).min();
        earliest(late, self.timers.next_timeout())
    }

    /// Handles the deadlines that have passed. Renews a session that is about to end. Returns an error if a response is
    /// late. The caller then has to close the connection, because all later responses would also be late.
    pub fn handle_timeout(&mut self, now: Time) -> Result<(), Error> {
        if let Some(login_config) = &self.login_config
            && self.timers.has_passed(ConnectionTimer::Renewal, now)
        {
            if login_config.credentials.is_valid(now) {
                let deadline = now + login_config.renewal_timeout;
                self.log_in(now, deadline)?;
            } else {
                // The session has not ended yet, and the next token may come in time.
                self.log_expired_token();
                self.timers.set(ConnectionTimer::Renewal, Time::NEVER);
            }
        }
        if self.timers.has_passed(ConnectionTimer::Silence, now) && !self.frames.buffer().is_empty() {
            // The broker is slow, not silent.
            self.timers.stop(ConnectionTimer::Silence);
        }
        if self.timers.has_passed(ConnectionTimer::Kerberos, now) {
            let error = Error::new(ErrorKind::Timeout, "the Kerberos library did not respond in time");
            return Err(error.with_hint("the library waits for the KDC: check krb5.conf and the network"));
        }
        match self.in_flight.iter().find(|f| f.deadline <= now) {
            None if self.timers.has_passed(ConnectionTimer::Silence, now) => {
                Err(Error::new(ErrorKind::Timeout, "no response to ApiVersions in time"))
            }
            None if self.unanswered.iter().any(|u| u.2 <= now) => {
                Err(Error::new(ErrorKind::Timeout, "the broker did not read the request in time"))
            }
            None => Ok(()),
            Some(late) => Err(Error::new(ErrorKind::Timeout, format!("no response to {} in time", late.api.name))),
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
            Error::new(ErrorKind::Config, format!("cannot encode the request: {e}"))
        })?;
        self.next_correlation_id = correlation_id.wrapping_add(1) & i32::MAX;
        self.exchanges.push(Exchange::Sent(length as usize + 4));
        self.record_request(api, version, correlation_id, &parts);
        Ok((parts, correlation_id))
    }
}
