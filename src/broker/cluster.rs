//! The cluster as a state machine without I/O: frames and time go in, replies come out.
//!
//! ```text
//! in    connect  certify  handle  disconnect  handle_timeout
//! out   poll_send -> Output   next_timeout -> Time   is_blocked
//! test  kill  start_node  move_leader  move_coordinator  fault
//! ```
//!
//! As in Kafka, the cluster handles the requests of a connection one at a time and sends the replies in the same order.
//! A request that has to wait (a long poll) blocks its connection: later requests stay queued until the cluster has
//! sent the reply. If an injected fault delays a reply, the connection is also blocked until the cluster sends the
//! reply. The server does not read from a blocked connection, so the queued requests take at most the bytes of one
//! read.

use super::clock::{Clock, Time};
use super::fault::{self, Action, Fault, Faults};
use super::handlers;
use super::ids::Connection;
use super::options::{Node, Options};
use super::replay::Recording;
use super::request::{Context, FrameResult, Output, WaitingRequest, millis};
use super::request_log::{LoggedRequest, RequestLog};
use super::sasl::Authenticator;
use super::state::State;
use super::telemetry::TelemetryPush;
use super::version::Version;
use crate::wire::Error;
use bytes::Bytes;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// How often retention runs, as in Kafka. Retention also runs each time a test advances the clock. Retention has no
/// timer: the cluster deletes due data before it handles the next request.
const RETENTION_INTERVAL: Time = Time::from_secs(300);

/// The cluster: its state, its connections and the requests that wait.
#[derive(Debug)]
pub struct Cluster {
    state: State,
    clients: HashMap<Connection, Client>,
    deadlines: BTreeSet<(Time, Connection)>,
    outputs: VecDeque<Output>,
    start_ms: i64,
    /// When retention ran last.
    last_retention: Time,
    faults: Faults,
    requests: RequestLog,
}

#[derive(Debug)]
struct Client {
    node: i32,
    queue: VecDeque<Bytes>,
    waiting: Option<Box<WaitingRequest>>,
    /// The fault that will change the reply to the waiting request.
    fault: Option<ReplyFault>,
    delayed: Option<DelayedReply>,
}

/// A fault that changes the reply to a request.
#[derive(Debug)]
struct ReplyFault {
    action: Action,
    random: u64,
}

/// A reply that a fault delays. The cluster sends one piece at each scheduled time.
#[derive(Debug)]
struct DelayedReply {
    pieces: VecDeque<Vec<Bytes>>,
    at: Time,
    every: Time,
}

impl Cluster {
    /// Creates a cluster without topics. `start_ms` is the wall clock at time zero, in milliseconds since 1970. `seed`
    /// determines the generated IDs.
    pub fn new(options: &Options, nodes: Vec<Node>, start_ms: i64, seed: u64) -> Self {
        let release = match options.as_version {
            Version::Release(release) => Some(release),
            _ => None,
        };
        Self {
            state: State::new(options, nodes, release, handlers::served(release, options.telemetry), seed),
            clients: HashMap::new(),
            deadlines: BTreeSet::new(),
            outputs: VecDeque::new(),
            start_ms,
            last_retention: Time::ZERO,
            faults: Faults::default(),
            requests: RequestLog::default(),
        }
    }

    /// Adds a client's connection to a node.
    pub fn connect(&mut self, node: i32, connection: Connection) {
        self.clients
            .insert(connection, Client { node, queue: VecDeque::new(), waiting: None, fault: None, delayed: None });
    }

    /// Records the name in the client's TLS certificate.
    pub fn certify(&mut self, connection: Connection, name: String) {
        self.state.certified.insert(connection, name);
    }

    /// Removes a connection and drops its requests. Records that the connection's client acquired from share groups
    /// become available again.
    pub fn disconnect(&mut self, now: Time, connection: Connection) {
        self.forget(connection);
        self.reply_to_woken(now);
    }

    fn forget(&mut self, connection: Connection) {
        let Some(client) = self.clients.remove(&connection) else {
            return;
        };
        if let Some(waiting) = client.waiting {
            if let Some(at) = waiting.deadline {
                self.deadlines.remove(&(at, connection));
            }
            handlers::forget(&mut self.state, connection, &waiting);
        }
        if let Some(delayed) = client.delayed {
            self.deadlines.remove(&(delayed.at, connection));
        }
        self.state.disconnect(connection);
    }

    /// Handles a frame, without its length.
    pub fn handle(&mut self, now: Time, connection: Connection, frame: Bytes) {
        let Some(client) = self.clients.get_mut(&connection) else {
            return;
        };
        client.queue.push_back(frame);
        self.run(now, connection);
        self.reply_to_woken(now);
    }

    /// Returns whether the connection waits for a reply. The server does not read from a connection that waits for a
    /// reply.
    pub fn is_blocked(&self, connection: Connection) -> bool {
        self.clients.get(&connection).is_some_and(Client::is_blocked)
    }

    /// Restores the state from a journal, and starts to record changes. Returns how many bytes of the journal are
    /// complete frames.
    pub fn restore(&mut self, now: Time, journal: Bytes) -> Result<usize, Error> {
        self.state.restore(Clock::new(now, self.start_ms), journal)
    }

    /// Returns journal entries. The caller must write these entries before it sends more output.
    pub fn take_journal(&mut self) -> Option<Vec<u8>> {
        self.state.take_journal()
    }

    /// Returns the next output.
    pub fn poll_send(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns when the caller must call [`Self::handle_timeout`] next.
    pub fn next_timeout(&self) -> Option<Time> {
        let waiting = self.deadlines.first().map(|(at, _)| *at);
        waiting.into_iter().chain(self.state.next_timeout()).min()
    }

    /// Replies to requests whose deadline has passed, and expires transactions and group members.
    pub fn handle_timeout(&mut self, now: Time) {
        self.state.handle_timeout(Clock::new(now, self.start_ms));
        if now >= self.last_retention.saturating_add(RETENTION_INTERVAL) {
            self.last_retention = now;
            self.retain(now);
        }
        while let Some(&(_, connection)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            match self.clients.get_mut(&connection).and_then(|client| client.delayed.take()) {
                Some(delayed) => self.send_next_piece(now, connection, delayed),
                None => self.resume(now, connection, true),
            }
        }
        self.reply_to_woken(now);
    }

    /// Stops a node and closes its connections. Other nodes with a replica take over the node's partitions. The next
    /// running node takes over its groups and transactions. The error is a message.
    pub fn kill(&mut self, now: Time, node: i32) -> Result<(), String> {
        self.state.kill(now, node)?;
        let connections =
            self.clients.iter().filter(|(_, client)| client.node == node).map(|(connection, _)| *connection);
        for connection in connections.collect::<BTreeSet<_>>() {
            self.close(connection);
        }
        self.reply_to_woken(now);
        Ok(())
    }

    /// Starts a node that was stopped, or adds a new one.
    pub fn start_node(&mut self, now: Time, node: Node) {
        self.state.start(now, node);
        self.reply_to_woken(now);
    }

    /// Makes a node the leader of a partition. The error is a message.
    pub fn move_leader(&mut self, now: Time, topic: &str, partition: i32, node: i32) -> Result<(), String> {
        self.state.move_leader(topic, partition, node)?;
        self.reply_to_woken(now);
        Ok(())
    }

    /// Truncates a log at an offset, as if a lagging replica had become the leader. The error is a message.
    pub fn truncate(&mut self, now: Time, topic: &str, partition: i32, offset: i64) -> Result<(), String> {
        self.state.truncate(topic, partition, offset)?;
        self.reply_to_woken(now);
        Ok(())
    }

    /// Applies the retention of all topics.
    pub fn retain(&mut self, now: Time) {
        self.state.retain(Clock::new(now, self.start_ms));
        self.reply_to_woken(now);
    }

    /// Compacts a topic. The error is a message.
    pub fn compact(&mut self, now: Time, topic: &str) -> Result<(), String> {
        self.state.compact(Clock::new(now, self.start_ms), topic)
    }

    /// Makes a node the coordinator of a group or transactional ID. The error is a message.
    pub fn move_coordinator(&mut self, now: Time, key: &str, node: i32) -> Result<(), String> {
        self.state.move_coordinator(now, key, node)?;
        self.reply_to_woken(now);
        Ok(())
    }

    /// Adds a fault.
    pub fn fault(&mut self, fault: Fault) {
        self.faults.add(fault);
    }

    /// Replays a client's recording of its brokers. The error is a message.
    pub fn repeat(&mut self, now: Time, recording: Recording) -> Result<(), String> {
        self.state.restore_recording(Clock::new(now, self.start_ms), &recording)?;
        for (api, result) in recording.results {
            self.faults.repeat(api, result);
        }
        self.reply_to_woken(now);
        Ok(())
    }

    /// Removes all faults.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Returns the metrics that clients pushed, the oldest first.
    pub fn telemetry(&self) -> Vec<TelemetryPush> {
        self.state.telemetry.pushes()
    }

    /// Changes the metrics that clients push: the prefixes of metric names, the push interval, and whether totals are
    /// deltas.
    pub fn want_telemetry(&mut self, prefixes: Vec<String>, interval_ms: i32, is_delta: bool) {
        self.state.telemetry.want(prefixes, interval_ms, is_delta);
    }

    /// Returns the last requests of all nodes, the oldest first.
    pub fn requests(&self) -> impl Iterator<Item = &LoggedRequest> {
        self.requests.all()
    }

    /// Handles the frames of a connection, until a request has to wait.
    fn run(&mut self, now: Time, connection: Connection) {
        while let Some(client) = self.clients.get_mut(&connection).filter(|client| !client.is_blocked()) {
            let Some(frame) = client.queue.pop_front() else {
                return;
            };
            let context = Context::new(Clock::new(now, self.start_ms), client.node, connection);
            let (result, fault) = self.serve(context, frame);
            let has_failed = self.state.authenticator.as_ref().is_some_and(|auth| auth.has_failed(connection));
            match result {
                FrameResult::Reply(parts) => self.send_reply(now, connection, parts, fault),
                FrameResult::NoReply => self.pause(now, connection),
                FrameResult::Wait(waiting) => {
                    if let Some(client) = self.clients.get_mut(&connection) {
                        self.deadlines.extend(waiting.deadline.map(|at| (at, connection)));
                        client.waiting = Some(waiting);
                        client.fault = fault;
                    }
                }
                FrameResult::Close => self.close(connection),
            }
            if has_failed {
                self.close(connection);
            }
        }
    }

    /// Handles a frame, and returns the fault for its reply.
    fn serve(&mut self, context: Context, frame: Bytes) -> (FrameResult, Option<ReplyFault>) {
        if self.state.authenticator.as_ref().is_some_and(|auth| auth.expects_raw_token(context.connection)) {
            return (self.handle_raw_token(&context, &frame), None);
        }
        let mut request = match handlers::decode_header(&self.state, context, frame) {
            Ok(request) => request,
            Err(result) => return (*result, None),
        };
        let (api, context) = (request.api, request.context.clone());
        self.requests.add(LoggedRequest {
            time: context.clock.now,
            node: context.node,
            api: api.name,
            version: context.version,
            client_id: context.client_id.as_deref().map(str::to_owned),
            correlation_id: context.correlation_id,
        });
        let is_authenticated = |auth: &Authenticator| auth.is_authenticated(context.connection, context.clock.now);
        if !handlers::needs_no_authentication(&request)
            && !self.state.authenticator.as_ref().is_none_or(is_authenticated)
        {
            return (FrameResult::Close, None);
        }
        match self.faults.select(&self.state, &request) {
            None => (handlers::handle(&mut self.state, request), None),
            Some((Action::Drop, _)) => (FrameResult::Close, None),
            Some((Action::Error(code), _)) => (handlers::reject(&mut self.state, request, code), None),
            Some((action, random)) => {
                if let Action::Throttle(by) = action {
                    request.context.throttle_ms = Some(millis(by));
                }
                let result = handlers::handle(&mut self.state, request);
                (result, Some(ReplyFault { action, random }))
            }
        }
    }

    /// Handles a SASL token without a SaslAuthenticate header. The reply also has no header, and a failure closes the
    /// connection.
    fn handle_raw_token(&mut self, context: &Context, token: &[u8]) -> FrameResult {
        match self.state.handle_token(context.clock, context.connection, token) {
            Some(Ok(reply)) => {
                let length = i32::try_from(reply.message.len()).unwrap_or(i32::MAX).to_be_bytes();
                FrameResult::Reply(vec![Bytes::copy_from_slice(&length), reply.message.into()])
            }
            Some(Err(_)) | None => FrameResult::Close,
        }
    }

    /// Sends a reply, after the fault has changed it.
    fn send_reply(&mut self, now: Time, connection: Connection, parts: Vec<Bytes>, fault: Option<ReplyFault>) {
        let Some(ReplyFault { action, random }) = fault else {
            self.outputs.push_back(Output::Reply { connection, parts });
            return self.pause(now, connection);
        };
        // A fault replaces the pause that a quota demands.
        self.state.quotas.take_pause(connection);
        let parts = match action {
            Action::Delay(by) => {
                let delayed = DelayedReply { pieces: [parts].into(), at: now.saturating_add(by), every: by };
                return self.delay_reply(connection, delayed);
            }
            Action::Drip(over) => {
                let pieces: VecDeque<_> = fault::drips(&parts).into_iter().map(|piece| vec![piece]).collect();
                let every = over / u32::try_from(pieces.len()).unwrap_or(1).max(1);
                return self.delay_reply(connection, DelayedReply { pieces, at: now.saturating_add(every), every });
            }
            Action::LoseAnswer => return self.close(connection),
            Action::Cut => {
                self.outputs.push_back(Output::Reply { connection, parts: vec![fault::half(&parts)] });
                return self.close(connection);
            }
            Action::Corrupt => vec![fault::corrupt(&parts, random)],
            Action::Drop | Action::Error(_) | Action::Throttle(_) => parts,
        };
        self.outputs.push_back(Output::Reply { connection, parts });
    }

    /// Blocks a connection that exceeds its quota. When the pause ends, an output without bytes makes the server read
    /// again.
    fn pause(&mut self, now: Time, connection: Connection) {
        if let Some(by) = self.state.quotas.take_pause(connection) {
            self.delay_reply(
                connection,
                DelayedReply { pieces: [Vec::new()].into(), at: now.saturating_add(by), every: by },
            );
        }
    }

    fn delay_reply(&mut self, connection: Connection, delayed: DelayedReply) {
        if let Some(client) = self.clients.get_mut(&connection) {
            self.deadlines.insert((delayed.at, connection));
            client.delayed = Some(delayed);
        }
    }

    /// Sends the next piece of a delayed reply.
    fn send_next_piece(&mut self, now: Time, connection: Connection, mut delayed: DelayedReply) {
        self.deadlines.remove(&(delayed.at, connection));
        if let Some(parts) = delayed.pieces.pop_front() {
            self.outputs.push_back(Output::Reply { connection, parts });
        }
        if delayed.pieces.is_empty() {
            return self.run(now, connection);
        }
        delayed.at = now.saturating_add(delayed.every);
        self.delay_reply(connection, delayed);
    }

    /// Removes a client and closes its connection.
    fn close(&mut self, connection: Connection) {
        self.forget(connection);
        self.outputs.push_back(Output::Close { connection });
    }

    /// Checks each woken request, and replies if the request is complete.
    fn reply_to_woken(&mut self, now: Time) {
        while let Some(connection) = self.state.next_woken() {
            self.resume(now, connection, false);
        }
    }

    fn resume(&mut self, now: Time, connection: Connection, expired: bool) {
        let Some(client) = self.clients.get_mut(&connection) else {
            return;
        };
        let Some(waiting) = &mut client.waiting else {
            return;
        };
        waiting.context.clock = Clock::new(now, self.start_ms);
        let Some(parts) = handlers::resume(&mut self.state, waiting, expired) else {
            return;
        };
        if let Some(at) = waiting.deadline {
            self.deadlines.remove(&(at, connection));
        }
        handlers::forget(&mut self.state, connection, waiting);
        client.waiting = None;
        let fault = client.fault.take();
        match parts {
            Ok(parts) => self.send_reply(now, connection, parts, fault),
            Err(_) => self.close(connection),
        }
        self.run(now, connection);
    }
}

impl Client {
    fn is_blocked(&self) -> bool {
        self.waiting.is_some() || self.delayed.is_some()
    }
}
