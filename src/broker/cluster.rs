//! The cluster as a machine without I/O: frames and time go in, replies come out.
//!
//! ```text
//! connect(node, c)  handle(now, c, frame)  disconnect(c)  handle_timeout(now)    in
//! poll_send() -> Output     next_timeout() -> Time     is_parked(c)              out
//! ```
//!
//! As in Kafka, a connection's requests are handled one at a time and answered in order. A request that has to wait
//! (a long poll) parks its connection: what the client sent behind it stays queued until the answer or the deadline.
//! The listener stops reading from a parked connection, so that the queue is bounded by what one read brings.

use super::handlers::{self, Context, Outcome, Parked};
use super::state::{Clock, Node, State};
use super::{Options, Time};
use bytes::Bytes;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// A connection, numbered by whoever accepts it; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub u64);

/// What the listener has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write these pieces, one after the other: a frame with its length.
    Reply {
        /// To whom.
        connection: Connection,
        /// Pieces of the frame; the long ones are slices of the log.
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
}

#[derive(Debug)]
struct Client {
    node: i32,
    queue: VecDeque<Bytes>,
    parked: Option<Parked>,
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
        }
    }

    /// A client connected to a node.
    pub fn connect(&mut self, node: i32, connection: Connection) {
        self.clients.insert(connection, Client { node, queue: VecDeque::new(), parked: None });
    }

    /// A client is gone; what it asked for is forgotten.
    pub fn disconnect(&mut self, connection: Connection) {
        if let Some(Client { parked: Some(parked), .. }) = self.clients.remove(&connection) {
            self.deadlines.remove(&(parked.deadline, connection));
            handlers::forget(&mut self.state, connection, &parked);
        }
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
        self.clients.get(&connection).is_some_and(|c| c.parked.is_some())
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
        while let Some(&(_, connection)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            self.resume(now, connection, true);
        }
        self.settle(now);
    }

    /// Handles a connection's frames until one parks it.
    fn run(&mut self, now: Time, connection: Connection) {
        while let Some(client) = self.clients.get_mut(&connection) {
            if client.parked.is_some() {
                return;
            }
            let Some(frame) = client.queue.pop_front() else {
                return;
            };
            let context = Context::new(Clock::new(now, self.start_ms), client.node, connection);
            match handlers::handle(&mut self.state, context, frame) {
                Outcome::Reply(parts) => self.outputs.push_back(Output::Reply { connection, parts }),
                Outcome::Silent => {}
                Outcome::Park(parked) => {
                    self.deadlines.insert((parked.deadline, connection));
                    client.parked = Some(parked);
                }
                Outcome::Close => {
                    self.clients.remove(&connection);
                    self.outputs.push_back(Output::Close { connection });
                }
            }
        }
    }

    /// Looks again at every parked request that something happened to.
    fn settle(&mut self, now: Time) {
        while let Some(connection) = self.state.woken.pop_first() {
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
        self.deadlines.remove(&(parked.deadline, connection));
        handlers::forget(&mut self.state, connection, parked);
        client.parked = None;
        match parts {
            Ok(parts) => self.outputs.push_back(Output::Reply { connection, parts }),
            Err(_) => {
                self.clients.remove(&connection);
                self.outputs.push_back(Output::Close { connection });
            }
        }
        self.run(now, connection);
    }
}
