//! Brokers of Kafka 0.6 and 0.7, as a state machine without I/O. The state machine has the same methods as
//! [`super::Cluster`].
//!
//! ```text
//! accept   topic names and message sets that the broker accepts
//! log      segments, flushing, offsets
//! draft    the draft protocol after 0.7, served from the same logs
//! silence  faults: requests that are dropped, or handled late
//! ```
//!
//! Nodes are independent. Each node has its own topics, and all topics have the same number of partitions. The
//! behaviour follows captured traffic of the brokers 0.6.1, 0.7.0, 0.7.1 and 0.7.2. The captures are in
//! `tests/vectors/legacy.jsonl.gz`, and `docs/legacy.md` describes them. Most legacy requests get no reply. If the
//! broker rejects a request, it often just closes the connection.
//!
//! If a compressed message does not contain valid gzip data, Kafka 0.7.0 halts its JVM, whereas the dev broker closes
//! the connection. ZooKeeper is not part of this module. The Python package registers the nodes in ZooKeeper.

mod accept;
mod draft;
mod log;
mod silence;

use super::ids::Connection;
use super::request::Output;
use super::request_log::{LoggedRequest, RequestLog};
use super::version::{LegacyVersion, Version};
use super::{Fault, Node, Options, Time};
use crate::legacy::{ErrorCode, Fetch, Offsets, Produce, Request, RequestType, Response};
use crate::random::Random;
use accept::SetCheck;
use bytes::Bytes;
use log::{EARLIEST, LATEST, Log, Slice};
use silence::{Fate, Silence};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

pub use log::Settings;

/// The brokers of a legacy cluster.
#[derive(Debug)]
pub struct Brokers {
    release: LegacyVersion,
    /// Whether clients speak the draft protocol.
    is_draft: bool,
    /// Waiting requests of the draft protocol.
    waiting: Vec<WaitingRequest>,
    settings: Settings,
    nodes: i32,
    partitions: i32,
    max_bytes: usize,
    start_ms: i64,
    /// Chooses a partition for partition -1.
    random: Random,
    /// Bytes in all logs.
    held: usize,
    clients: HashMap<Connection, i32>,
    /// By node, topic and partition.
    logs: BTreeMap<(i32, String, i32), Log>,
    outputs: VecDeque<Output>,
    requests: RequestLog,
    silence: Silence,
}

/// A request that waits.
#[derive(Debug)]
struct WaitingRequest {
    connection: Connection,
    node: i32,
    deadline: Time,
    wait: DraftWait,
}

#[derive(Debug)]
enum DraftWait {
    /// Waits for messages.
    Fetch(crate::legacy::draft::Request),
    /// Waits for acknowledgements of more replicas, which do not exist.
    Acks(crate::legacy::draft::Response),
}

/// The error that makes the server close the connection.
struct Close;

/// The result of a fetch.
type FetchResult = Result<Slice, ErrorCode>;

impl Brokers {
    /// Creates nodes without topics. `start_ms` is the wall clock at time zero, in milliseconds since 1970.
    pub fn new(options: &Options, start_ms: i64, seed: u64) -> Self {
        let release = if let Version::Legacy(release) = options.as_version { release } else { LegacyVersion::V0_7_2 };
        Self {
            release,
            is_draft: options.as_version == Version::Draft,
            waiting: Vec::new(),
            settings: options.legacy.clone(),
            nodes: i32::try_from(options.nodes).unwrap_or(i32::MAX),
            partitions: options.default_partitions,
            max_bytes: options.max_bytes,
            start_ms,
            random: Random::new(seed),
            held: 0,
            clients: HashMap::new(),
            logs: BTreeMap::new(),
            outputs: VecDeque::new(),
            requests: RequestLog::default(),
            silence: Silence::default(),
        }
    }

    /// Returns the maximum frame size. A larger frame closes the connection.
    pub fn max_frame(&self) -> usize {
        // 0.6.1 was observed to wait for larger frames.
        if self.release == LegacyVersion::V0_6_1 { i32::MAX as usize } else { crate::frame::DEFAULT_MAX_FRAME }
    }

    /// Adds a client's connection to a node.
    pub fn connect(&mut self, node: i32, connection: Connection) {
        self.clients.insert(connection, node);
    }

    /// Removes a connection.
    pub fn disconnect(&mut self, connection: Connection) {
        self.clients.remove(&connection);
        self.silence.forget(connection);
        self.waiting.retain(|waiting| waiting.connection != connection);
    }

    /// Handles a frame, without its length.
    pub fn handle(&mut self, now: Time, connection: Connection, frame: Bytes) {
        let Some(&node) = self.clients.get(&connection) else {
            return;
        };
        match self.silence.apply(now, connection, node, frame) {
            Fate::Handled(frame) => self.handle_now(now, connection, node, frame),
            Fate::Held => {}
            Fate::Dropped => self.close(connection),
        }
    }

    fn handle_now(&mut self, now: Time, connection: Connection, node: i32, frame: Bytes) {
        if self.is_draft {
            return self.handle_draft(now, connection, node, frame);
        }
        match self.serve(now, node, frame) {
            Ok(Some(parts)) => self.outputs.push_back(Output::Reply { connection, parts }),
            Ok(None) => {}
            Err(Close) => self.close(connection),
        }
    }

    /// Returns the next output.
    pub fn poll_send(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns when the caller must call [`Self::handle_timeout`] next.
    pub fn next_timeout(&self) -> Option<Time> {
        let at = self.logs.values().filter_map(|log| log.next_tick_ms(&self.settings)).min();
        let due = at.map(|at| Time::from_millis(u64::try_from(at - self.start_ms).unwrap_or(0)));
        let waiting = self.waiting.iter().map(|waiting| waiting.deadline);
        due.into_iter().chain(waiting).chain(self.silence.next_timeout()).min()
    }

    /// Flushes logs, deletes segments, and handles requests when this is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let now_ms = self.clock(now);
        let deleted: usize = self.logs.values_mut().map(|log| log.tick(&self.settings, now_ms)).sum();
        self.held = self.held.saturating_sub(deleted);
        self.expire_draft(now);
        for (connection, mut frames) in self.silence.take_due(now) {
            if let (Some(first), Some(&node)) = (frames.pop_front(), self.clients.get(&connection)) {
                self.handle_now(now, connection, node, first);
            }
            for frame in frames {
                self.handle(now, connection, frame);
            }
        }
    }

    /// Adds a fault. Returns an error if legacy brokers do not support the fault.
    pub fn fault(&mut self, fault: Fault) -> Result<(), String> {
        self.silence.add(fault)
    }

    /// Removes all faults. Requests that already wait are still handled late.
    pub fn clear_faults(&mut self) {
        self.silence.clear();
    }

    /// Stops a node and closes its connections. The logs of the node stay.
    pub fn kill(&mut self, node: i32) -> Result<(), String> {
        if !(1..=self.nodes).contains(&node) {
            return Err(format!("node {node} does not exist"));
        }
        let its: Vec<_> =
            self.clients.iter().filter(|(_, at)| **at == node).map(|(connection, _)| *connection).collect();
        for connection in its {
            self.close(connection);
        }
        Ok(())
    }

    /// Starts a node again. The node recovers its logs, so all written messages become visible.
    pub fn start_node(&mut self, now: Time, node: &Node) {
        self.nodes = self.nodes.max(node.id);
        let now_ms = self.clock(now);
        for (_, log) in self.logs.iter_mut().filter(|((at, ..), _)| *at == node.id) {
            log.flush(now_ms);
        }
    }

    /// Returns the last requests of all nodes, the oldest first.
    pub fn requests(&self) -> impl Iterator<Item = &LoggedRequest> {
        self.requests.all()
    }

    /// Returns the topics that each node registers, with their partition counts.
    pub fn topics(&self) -> impl Iterator<Item = (i32, &str, i32)> {
        let partitions = self.logs.keys().map(|(node, topic, _)| (*node, topic.as_str()));
        partitions.collect::<BTreeSet<_>>().into_iter().map(|(node, topic)| (node, topic, self.partitions))
    }

    fn clock(&self, now: Time) -> i64 {
        self.start_ms.saturating_add(i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
    }

    fn close(&mut self, connection: Connection) {
        self.disconnect(connection);
        self.outputs.push_back(Output::Close { connection });
    }

    /// Returns the parts of the reply, or `None` if the request gets no reply.
    fn serve(&mut self, now: Time, node: i32, frame: Bytes) -> Result<Option<Vec<Bytes>>, Close> {
        let request = Request::decode_lenient(frame).map_err(|_| Close)?;
        let api = match request.request_type() {
            RequestType::Produce => "Produce",
            RequestType::Fetch => "Fetch",
            RequestType::MultiFetch => "MultiFetch",
            RequestType::MultiProduce => "MultiProduce",
            RequestType::Offsets => "Offsets",
        };
        self.requests.add(LoggedRequest { time: now, node, api, version: 0, client_id: None, correlation_id: 0 });
        let now_ms = self.clock(now);
        match request {
            Request::Produce(part) => self.produce(node, now_ms, &part).map(|()| None),
            // Parts before a rejected one stay stored.
            Request::MultiProduce(parts) => {
                parts.iter().try_for_each(|part| self.produce(node, now_ms, part)).map(|()| None)
            }
            Request::Fetch(part) => {
                let result = self.fetch(node, now_ms, &part);
                let mut out = Vec::new();
                put(&mut out, result);
                Ok(Some(out))
            }
            Request::MultiFetch(parts) => {
                let results: Vec<_> = parts.iter().map(|part| self.fetch(node, now_ms, part)).collect();
                let size = |result: &FetchResult| 6 + result.as_ref().map_or(0, |slice| slice.size);
                let mut out = vec![head(results.iter().map(size).sum(), ErrorCode::NONE)];
                results.into_iter().for_each(|result| put(&mut out, result));
                Ok(Some(out))
            }
            Request::Offsets(part) => self.offsets(node, now_ms, &part).map(Some),
        }
    }

    fn produce(&mut self, node: i32, now_ms: i64, part: &Produce) -> Result<(), Close> {
        let partition = match part.partition {
            -1 => self.any_partition(),
            partition => partition,
        };
        self.check(&part.topic, partition).map_err(|_| Close)?;
        let (release, max) = (self.release, self.settings.max_message_bytes);
        // The log is created even if the set is rejected.
        self.log(node, now_ms, &part.topic, partition).ok_or(Close)?;
        let (bytes, messages) = match accept::judge(release, &part.message_set, max) {
            SetCheck::Store { bytes, messages } => (bytes, messages),
            SetCheck::Drop => return Ok(()),
            SetCheck::Close => return Err(Close),
        };
        if bytes > self.max_bytes.saturating_sub(self.held) {
            return Err(Close);
        }
        self.held += bytes;
        // A copy, because the frame may be much larger than the part that is stored.
        let set = Bytes::copy_from_slice(part.message_set.get(..bytes).unwrap_or_default());
        let settings = self.settings.clone();
        if let Some(log) = self.log(node, now_ms, &part.topic, partition) {
            log.append(release, &settings, now_ms, set, messages);
        }
        Ok(())
    }

    fn fetch(&mut self, node: i32, now_ms: i64, part: &Fetch) -> FetchResult {
        self.check(&part.topic, part.partition)?;
        let max_size = part.max_size.into();
        match self.existing(node, now_ms, &part.topic, part.partition) {
            Ok(Some(log)) => log.read(part.offset, max_size).map_err(|_| ErrorCode::OFFSET_OUT_OF_RANGE),
            Ok(None) => Ok(Slice::default()),
            Err(Close) => Err(ErrorCode::UNKNOWN),
        }
    }

    fn offsets(&mut self, node: i32, now_ms: i64, part: &Offsets) -> Result<Vec<Bytes>, Close> {
        self.check(&part.topic, part.partition).map_err(|_| Close)?;
        let offsets = match self.existing(node, now_ms, &part.topic, part.partition)? {
            Some(log) => log.offsets_before(part.time, now_ms, usize::try_from(part.max_number).map_err(|_| Close)?),
            None if matches!(part.time, LATEST | EARLIEST) => vec![0],
            None => Vec::new(),
        };
        let response = Response::Offsets { error: ErrorCode::NONE, offsets };
        response.encode().map(|frame| vec![frame.into()]).map_err(|_| Close)
    }

    fn check(&self, topic: &str, partition: i32) -> Result<(), ErrorCode> {
        if !accept::is_topic(self.release, topic) {
            return Err(ErrorCode::UNKNOWN);
        }
        let exists = (0..self.partitions).contains(&partition);
        if exists { Ok(()) } else { Err(ErrorCode::WRONG_PARTITION) }
    }

    /// Returns a log for reading. Up to 0.7.0, a read creates a missing log.
    fn existing(&mut self, node: i32, now_ms: i64, topic: &str, partition: i32) -> Result<Option<&Log>, Close> {
        if self.release <= LegacyVersion::V0_7_0 {
            return self.log(node, now_ms, topic, partition).map(|log| Some(&*log)).ok_or(Close);
        }
        Ok(self.logs.get(&(node, topic.to_owned(), partition)))
    }

    /// Returns a log. Creates a missing log if the name is valid.
    fn log(&mut self, node: i32, now_ms: i64, topic: &str, partition: i32) -> Option<&mut Log> {
        if !accept::fits_a_file(topic, partition) {
            return None;
        }
        Some(self.logs.entry((node, topic.to_owned(), partition)).or_insert_with(|| Log::new(now_ms)))
    }

    fn any_partition(&mut self) -> i32 {
        let count = u64::try_from(self.partitions).unwrap_or(1).max(1);
        i32::try_from(self.random.next_u64() % count).unwrap_or(0)
    }
}

/// Returns the length and error code of a response. If the requested size is negative, the length is wrong, as in real
/// brokers.
fn head(size: i64, error: ErrorCode) -> Bytes {
    let length = i32::try_from(2 + size).unwrap_or(i32::MAX);
    [length.to_be_bytes().as_slice(), &error.0.to_be_bytes()].concat().into()
}

fn put(out: &mut Vec<Bytes>, result: FetchResult) {
    match result {
        Ok(slice) => {
            out.push(head(slice.size, ErrorCode::NONE));
            out.extend(slice.parts);
        }
        Err(error) => out.push(head(0, error)),
    }
}
