//! The cluster as a machine without I/O: frames and time go in, replies come out.
//!
//! ```text
//! connect(node, c)  certify(c, name)  handle(now, c, frame)  disconnect(now, c)  handle_timeout(now)    in
//! poll_send() -> Output     next_timeout() -> Time     is_parked(c)              out
//! kill  start_node  move_leader  move_coordinator  fault                         what a test does to it
//! ```
//!
//! As in Kafka, a connection's requests are handled one at a time and answered in order. A request that has to wait
//! (a long poll) parks its connection: what the client sent behind it stays queued until the answer or the deadline.
//! The listener stops reading from a parked connection, so that the queue is bounded by what one read brings. An answer
//! that a fault holds back parks its connection in the same way.

use super::fault::{self, Action, Fault, Faults};
use super::handlers::{self, Context, Outcome, Parked};
use super::requests::{Requests, Seen};
use super::sasl::Door;
use super::state::{Clock, Node, State};
use super::{Options, Time};
use crate::api::Info;
use crate::wire::Error;
use bytes::Bytes;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// How often retention is looked after, as in Kafka, besides whenever the clock is moved on. Nobody is woken for it:
/// what is due is gone before the next request is answered.
const RETENTION_INTERVAL: Time = Time::from_secs(300);

/// A connection, numbered by whoever accepts it; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub u64);

/// What the listener has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write these pieces, one after the other: a frame with its length, unless a fault left only a part of it.
    Reply {
        /// To whom.
        connection: Connection,
        /// Pieces of the frame; the long ones are slices of the log. None if there is only to be read on.
        parts: Vec<Bytes>,
    },
    /// Close the connection once what came before is written: the client broke the protocol.
    Close {
        /// Which one.
        connection: Connection,
    },
}

/// See the top of this file.
#[derive(Debug)]
pub struct Cluster {
    state: State,
    clients: HashMap<Connection, Client>,
    deadlines: BTreeSet<(Time, Connection)>,
    outputs: VecDeque<Output>,
    start_ms: i64,
    /// When retention was last looked after.
    retained: Time,
    faults: Faults,
    requests: Requests,
}

#[derive(Debug)]
struct Client {
    node: i32,
    queue: VecDeque<Bytes>,
    parked: Option<Parked>,
    /// What goes wrong with the answer to the request that is parked.
    struck: Option<Struck>,
    late: Option<Late>,
}

/// A request whose answer something happens to.
#[derive(Debug)]
struct Struck {
    action: Action,
    random: u64,
    api: &'static Info,
    context: Context,
}

/// An answer that is held back: a piece goes out whenever the time has come.
#[derive(Debug)]
struct Late {
    pieces: VecDeque<Vec<Bytes>>,
    at: Time,
    every: Time,
}

impl Cluster {
    /// A cluster without topics. `start_ms` is the wall clock at time zero, milliseconds since 1970; `seed` makes
    /// the ids it hands out.
    pub fn new(options: &Options, nodes: Vec<Node>, start_ms: i64, seed: u64) -> Self {
        Self {
            state: State::new(options, nodes, seed),
            clients: HashMap::new(),
            deadlines: BTreeSet::new(),
            outputs: VecDeque::new(),
            start_ms,
            retained: Time::ZERO,
            faults: Faults::default(),
            requests: Requests::default(),
        }
    }

    /// A client connected to a node.
    pub fn connect(&mut self, node: i32, connection: Connection) {
        self.clients
            .insert(connection, Client { node, queue: VecDeque::new(), parked: None, struck: None, late: None });
    }

    /// A client showed a certificate, which names somebody.
    pub fn certify(&mut self, connection: Connection, name: String) {
        self.state.certified.insert(connection, name);
    }

    /// A client is gone; what it asked for is forgotten, and what it held of share groups is free.
    pub fn disconnect(&mut self, now: Time, connection: Connection) {
        self.forget(connection);
        self.settle(now);
    }

    fn forget(&mut self, connection: Connection) {
        let Some(client) = self.clients.remove(&connection) else {
            return;
        };
        if let Some(parked) = client.parked {
            if let Some(at) = parked.deadline {
                self.deadlines.remove(&(at, connection));
            }
            handlers::forget(&mut self.state, connection, &parked);
        }
        if let Some(late) = client.late {
            self.deadlines.remove(&(late.at, connection));
        }
        self.state.hang_up(connection);
    }

    /// A frame arrived, without its length.
    pub fn handle(&mut self, now: Time, connection: Connection, frame: Bytes) {
        let Some(client) = self.clients.get_mut(&connection) else {
            return;
        };
        client.queue.push_back(frame);
        self.run(now, connection);
        self.settle(now);
    }

    /// Whether the connection waits for an answer, so that nothing more needs to be read from it.
    pub fn is_parked(&self, connection: Connection) -> bool {
        self.clients.get(&connection).is_some_and(Client::is_parked)
    }

    /// Makes again what a journal of a cluster has, and keeps one from now on; how many of its bytes are whole.
    pub fn restore(&mut self, now: Time, journal: Bytes) -> Result<usize, Error> {
        self.state.restore(Clock::new(now, self.start_ms), journal)
    }

    /// What has to be kept before anything more is sent.
    pub fn take_journal(&mut self) -> Option<Vec<u8>> {
        self.state.take_journal()
    }

    /// What to write or close next.
    pub fn poll_send(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        let parked = self.deadlines.first().map(|(at, _)| *at);
        parked.into_iter().chain(self.state.next_timeout()).min()
    }

    /// Answers what has waited long enough, and ends what has lasted too long.
    pub fn handle_timeout(&mut self, now: Time) {
        self.state.handle_timeout(Clock::new(now, self.start_ms));
        if now >= self.retained.saturating_add(RETENTION_INTERVAL) {
            self.retained = now;
            self.retain(now);
        }
        while let Some(&(_, connection)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            match self.clients.get_mut(&connection).and_then(|client| client.late.take()) {
                Some(late) => self.go_on(now, connection, late),
                None => self.resume(now, connection, true),
            }
        }
        self.settle(now);
    }

    /// Takes a node down and its connections with it. What it led and coordinated moves to other nodes, where there is
    /// a replica; the error is a sentence.
    pub fn kill(&mut self, now: Time, node: i32) -> Result<(), String> {
        self.state.kill(now, node)?;
        let its = self.clients.iter().filter(|(_, client)| client.node == node).map(|(connection, _)| *connection);
        for connection in its.collect::<BTreeSet<_>>() {
            self.close(connection);
        }
        self.settle(now);
        Ok(())
    }

    /// Brings a node up again, or a new one in.
    pub fn start_node(&mut self, now: Time, node: Node) {
        self.state.start(now, node);
        self.settle(now);
    }

    /// Has a partition led by a node; the error is a sentence.
    pub fn move_leader(&mut self, now: Time, topic: &str, partition: i32, node: i32) -> Result<(), String> {
        self.state.move_leader(topic, partition, node)?;
        self.settle(now);
        Ok(())
    }

    /// Cuts a log at an offset, as the election of a replica that lagged behind does; the error is a sentence.
    pub fn truncate(&mut self, now: Time, topic: &str, partition: i32, offset: i64) -> Result<(), String> {
        self.state.truncate(topic, partition, offset)?;
        self.settle(now);
        Ok(())
    }

    /// Has the retention of all topics take what is due.
    pub fn retain(&mut self, now: Time) {
        self.state.retain(Clock::new(now, self.start_ms));
        self.settle(now);
    }

    /// Has a topic compacted; the error is a sentence.
    pub fn compact(&mut self, now: Time, topic: &str) -> Result<(), String> {
        self.state.compact(Clock::new(now, self.start_ms), topic)
    }

    /// Has a group or transactional id coordinated by a node; the error is a sentence.
    pub fn move_coordinator(&mut self, now: Time, key: &str, node: i32) -> Result<(), String> {
        self.state.move_coordinator(now, key, node)?;
        self.settle(now);
        Ok(())
    }

    /// Has something go wrong from now on.
    pub fn fault(&mut self, fault: Fault) {
        self.faults.add(fault);
    }

    /// Has nothing go wrong any more.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// The last requests of all nodes, the oldest first.
    pub fn requests(&self) -> impl Iterator<Item = &Seen> {
        self.requests.all()
    }

    /// Handles a connection's frames until one parks it.
    fn run(&mut self, now: Time, connection: Connection) {
        while let Some(client) = self.clients.get_mut(&connection).filter(|client| !client.is_parked()) {
            let Some(frame) = client.queue.pop_front() else {
                return;
            };
            let context = Context::new(Clock::new(now, self.start_ms), client.node, connection);
            let (outcome, struck) = self.serve(context, frame);
            let is_refused = self.state.door.as_ref().is_some_and(|door| door.is_refused(connection));
            match outcome {
                Outcome::Reply(parts) => self.answer(now, connection, parts, struck),
                Outcome::Silent => self.pause(now, connection),
                Outcome::Park(parked) => {
                    if let Some(client) = self.clients.get_mut(&connection) {
                        self.deadlines.extend(parked.deadline.map(|at| (at, connection)));
                        client.parked = Some(parked);
                        client.struck = struck;
                    }
                }
                Outcome::Close => self.close(connection),
            }
            if is_refused {
                self.close(connection);
            }
        }
    }

    /// What becomes of a frame, and of the answer to it.
    fn serve(&mut self, context: Context, frame: Bytes) -> (Outcome, Option<Struck>) {
        if self.state.door.as_ref().is_some_and(|door| door.wants_bare_token(context.connection)) {
            return (self.take_bare(&context, &frame), None);
        }
        let request = match handlers::open(&self.state, context, frame) {
            Ok(request) => request,
            Err(outcome) => return (*outcome, None),
        };
        let (api, context) = (request.api, request.context.clone());
        self.requests.note(Seen {
            time: context.clock.now,
            node: context.node,
            api: api.name,
            version: context.version,
            client_id: context.client_id.as_deref().map(str::to_owned),
            correlation_id: context.correlation_id,
        });
        let is_open = |door: &Door| door.is_open(context.connection, context.clock.now);
        if !handlers::is_for_all(&request) && !self.state.door.as_ref().is_none_or(is_open) {
            return (Outcome::Close, None);
        }
        match self.faults.strike(&self.state, &request) {
            None => (handlers::handle(&mut self.state, request), None),
            Some((Action::Drop, _)) => (Outcome::Close, None),
            Some((Action::Error(code), _)) => (handlers::refuse(&mut self.state, request, code), None),
            Some((action, random)) => {
                let outcome = handlers::handle(&mut self.state, request);
                (outcome, Some(Struck { action, random, api, context }))
            }
        }
    }

    /// A token without SaslAuthenticate: its answer is as bare, and a refusal is the end of the connection.
    fn take_bare(&mut self, context: &Context, token: &[u8]) -> Outcome {
        match self.state.take_token(context.clock, context.connection, token) {
            Some(Ok(told)) => {
                let length = i32::try_from(told.message.len()).unwrap_or(i32::MAX).to_be_bytes();
                Outcome::Reply(vec![Bytes::copy_from_slice(&length), told.message.into()])
            }
            Some(Err(_)) | None => Outcome::Close,
        }
    }

    /// Sends an answer, or what a fault leaves of it.
    fn answer(&mut self, now: Time, connection: Connection, parts: Vec<Bytes>, struck: Option<Struck>) {
        let Some(Struck { action, random, api, context }) = struck else {
            self.outputs.push_back(Output::Reply { connection, parts });
            return self.pause(now, connection);
        };
        // Whatever else happens to the answer, it is later than that.
        self.state.quotas.take_pause(connection);
        let parts = match action {
            Action::Delay(by) => {
                let late = Late { pieces: [parts].into(), at: now.saturating_add(by), every: by };
                return self.hold_back(connection, late);
            }
            Action::Drip(over) => {
                let pieces: VecDeque<_> = fault::drips(&parts).into_iter().map(|piece| vec![piece]).collect();
                let every = over / u32::try_from(pieces.len()).unwrap_or(1).max(1);
                return self.hold_back(connection, Late { pieces, at: now.saturating_add(every), every });
            }
            Action::LoseAnswer => return self.close(connection),
            Action::Cut => {
                self.outputs.push_back(Output::Reply { connection, parts: vec![fault::half(&parts)] });
                return self.close(connection);
            }
            Action::Throttle(by) => handlers::throttled(&context, api, &parts, by, false).unwrap_or(parts),
            Action::Corrupt => vec![fault::corrupt(&parts, random)],
            Action::Drop | Action::Error(_) => parts,
        };
        self.outputs.push_back(Output::Reply { connection, parts });
    }

    /// Has a connection wait that is over its quota. That it may go on, the listener hears by an answer of no bytes.
    fn pause(&mut self, now: Time, connection: Connection) {
        if let Some(by) = self.state.quotas.take_pause(connection) {
            self.hold_back(connection, Late { pieces: [Vec::new()].into(), at: now.saturating_add(by), every: by });
        }
    }

    fn hold_back(&mut self, connection: Connection, late: Late) {
        if let Some(client) = self.clients.get_mut(&connection) {
            self.deadlines.insert((late.at, connection));
            client.late = Some(late);
        }
    }

    /// Sends the next piece of an answer that is held back.
    fn go_on(&mut self, now: Time, connection: Connection, mut late: Late) {
        self.deadlines.remove(&(late.at, connection));
        if let Some(parts) = late.pieces.pop_front() {
            self.outputs.push_back(Output::Reply { connection, parts });
        }
        if late.pieces.is_empty() {
            return self.run(now, connection);
        }
        late.at = now.saturating_add(late.every);
        self.hold_back(connection, late);
    }

    /// Forgets a client and has its connection closed.
    fn close(&mut self, connection: Connection) {
        self.forget(connection);
        self.outputs.push_back(Output::Close { connection });
    }

    /// Looks again at every parked request that something happened to.
    fn settle(&mut self, now: Time) {
        while let Some(connection) = self.state.next_woken() {
            self.resume(now, connection, false);
        }
    }

    fn resume(&mut self, now: Time, connection: Connection, expired: bool) {
        let Some(client) = self.clients.get_mut(&connection) else {
            return;
        };
        let Some(parked) = &mut client.parked else {
            return;
        };
        parked.context.clock = Clock::new(now, self.start_ms);
        let Some(parts) = handlers::resume(&mut self.state, parked, expired) else {
            return;
        };
        if let Some(at) = parked.deadline {
            self.deadlines.remove(&(at, connection));
        }
        handlers::forget(&mut self.state, connection, parked);
        client.parked = None;
        let struck = client.struck.take();
        match parts {
            Ok(parts) => self.answer(now, connection, parts, struck),
            Err(_) => self.close(connection),
        }
        self.run(now, connection);
    }
}

impl Client {
    fn is_parked(&self) -> bool {
        self.parked.is_some() || self.late.is_some()
    }
}
