//! Sockets and the clock for a cluster: one port a node on 127.0.0.1, one thread for all of them.
//!
//! A connection is read only while the cluster and the peer take what comes of it: not while it is parked, nor while
//! its answers wait for the peer to read. So a peer cannot make the broker hold more than what one read brings and
//! what a few answers take (log slices are shared, not copied).

#![allow(clippy::disallowed_methods, reason = "this is where the cluster gets its clock and its thread")]

use super::control::{Commands, Control};
use super::disk::Disk;
use super::machine::Machine;
use super::subject;
use super::{Cluster, Connection, Node, Options, Output, Time};
use crate::frame::Frames;
use crate::net::{Event, Listener, Poller, Received, Stream, Wake, tls};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Answers that may be queued before the kernel has to take them, bytes.
const MAX_QUEUED: usize = 1 << 20;

/// When to accept again after the system refused (too many open files).
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// A running cluster. Dropping it stops it.
#[derive(Debug)]
pub struct Broker {
    addresses: Addresses,
    control: Control,
    wake: Wake,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pid: u32,
}

impl Broker {
    /// Starts a cluster; when this returns, every node accepts connections.
    pub fn start(options: Options) -> io::Result<Self> {
        if options.nodes == 0 || options.default_partitions < 1 {
            let why = "a cluster needs at least one node and topics at least one partition";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let poller = Poller::new()?;
        let ports = std::iter::once(options.port).chain(std::iter::repeat(0));
        let bind = |(token, port)| listen(&poller, token, SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let listeners = (0..options.nodes).zip(ports).map(bind).collect::<io::Result<Vec<_>>>()?;
        let addresses = listeners.iter().map(Listener::address).collect::<io::Result<Vec<_>>>()?;
        let nodes = (1..).zip(&addresses).map(|(id, address)| node(id, *address)).collect();
        let doors = (1..).zip(listeners).map(|(node, listener)| Door { node, listener });
        let start_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_millis() as i64);
        let seed = RandomState::new().hash_one(start_ms);
        let (wake, stopping) = (poller.wake(), Arc::new(AtomicBool::new(false)));
        let (control, commands) = Control::new(wake.clone());
        let next_token = addresses.len();
        let addresses = Addresses(Arc::new(Mutex::new(addresses)));
        let mut machine = Machine::new(&options, nodes, start_ms, seed);
        let mut disk = None;
        if let Some(dir) = &options.data_dir {
            let (mut opened, kept) = Disk::open(dir, options.fsync)?;
            opened.cut(machine.restore(kept)?)?;
            disk = Some(opened);
        }
        let server = Server {
            machine,
            disk,
            is_full: false,
            start: Instant::now(),
            skipped: Duration::ZERO,
            stopping: stopping.clone(),
            commands,
            addresses: addresses.clone(),
            scratch: Stream::scratch(),
            next_token,
            doors: doors.enumerate().collect(),
            peers: HashMap::new(),
            ready: BTreeSet::new(),
            again: BTreeSet::new(),
            refused: BTreeSet::new(),
            poller,
            tls: options.tls,
        };
        let thread = thread::Builder::new().name("klamm-dev-broker".to_owned()).spawn(move || server.run())?;
        Ok(Self { addresses, control, wake, stopping, thread: Some(thread), pid: process::id() })
    }

    /// Where the nodes listen, by node id; a node that is down keeps its address.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.lock().clone()
    }

    /// What steers the cluster, from any thread.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Closes every socket and ends the thread. Stopping again does nothing.
    pub fn stop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A forked child has the object but not the thread, and waiting for it would never end.
        if process::id() == self.pid {
            self.stopping.store(true, Ordering::SeqCst);
            self.wake.wake();
            let _ = thread.join();
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Where the nodes listen, by node id.
#[derive(Clone, Debug)]
struct Addresses(Arc<Mutex<Vec<SocketAddr>>>);

impl Addresses {
    fn lock(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, node: i32) -> Option<SocketAddr> {
        self.lock().get(usize::try_from(node).ok()?.checked_sub(1)?).copied()
    }
}

/// A node's port.
struct Door {
    node: i32,
    listener: Listener,
}

#[derive(Debug)]
struct Peer {
    node: i32,
    stream: Stream,
    frames: Frames,
    /// There may be something to read in the kernel.
    unread: bool,
    /// The peer closed its side; what it sent before is still read.
    ended: bool,
    /// Nothing more is read or handled; the stream is closed once its answers are written.
    closing: bool,
    /// Whether it was looked at whom its certificate names, which is there when the first frame is.
    is_certified: bool,
    /// Answers queued and not known to be written, bytes.
    queued: usize,
}

/// The thread's state.
pub(super) struct Server {
    machine: Machine,
    disk: Option<Disk>,
    /// The disk takes no more, so nothing more may be said.
    is_full: bool,
    start: Instant,
    /// How much the cluster's clock was moved on.
    skipped: Duration,
    commands: Commands,
    addresses: Addresses,
    stopping: Arc<AtomicBool>,
    poller: Poller,
    scratch: Box<[u8]>,
    /// Ports by token; a node that is down has none.
    doors: BTreeMap<usize, Door>,
    peers: HashMap<usize, Peer>,
    next_token: usize,
    /// Peers to look at in this turn: something to read, to handle or to write.
    ready: BTreeSet<usize>,
    /// Peers that have more to read than one turn allows.
    again: BTreeSet<usize>,
    /// Listeners the system refused to accept from.
    refused: BTreeSet<usize>,
    tls: Option<tls::Server>,
}

impl Server {
    fn run(mut self) {
        let mut events = Vec::new();
        loop {
            self.poller.arm();
            if self.stopping.load(Ordering::SeqCst) || self.is_full {
                return;
            }
            // After arming: a command that comes later ends the wait.
            while let Some(command) = self.commands.next() {
                command(&mut self);
            }
            // Waiting fails only if the poller itself is broken, and then nothing can be served.
            if self.poller.wait(self.timeout(), &mut events).is_err() {
                return;
            }
            for listener in std::mem::take(&mut self.refused) {
                self.accept(listener);
            }
            for event in events.drain(..) {
                self.note(event);
            }
            self.machine.handle_timeout(self.now());
            self.deliver(None);
            self.ready.append(&mut self.again);
            while let Some(token) = self.ready.pop_first() {
                if self.serve(token).is_err() {
                    self.close(token);
                }
            }
        }
    }

    fn now(&self) -> Time {
        self.start.elapsed() + self.skipped
    }

    /// Has the cluster do something that was asked for from outside.
    pub fn with_cluster<T>(&mut self, what: impl FnOnce(&mut Cluster, Time) -> T) -> io::Result<T> {
        let now = self.now();
        let result = what(self.machine.cluster()?, now);
        self.deliver(None);
        Ok(result)
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub fn kill(&mut self, node: i32) -> io::Result<()> {
        let now = self.now();
        self.machine.kill(now, node).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        for (_, door) in self.doors.extract_if(.., |_, door| door.node == node) {
            door.listener.close(&self.poller);
        }
        // At once, whatever is still to be written: that is what a crash looks like.
        let its = self.peers.iter().filter(|(_, peer)| peer.node == node).map(|(token, _)| *token);
        for token in its.collect::<Vec<_>>() {
            self.close(token);
        }
        self.deliver(None);
        Ok(())
    }

    pub fn start_node(&mut self, id: i32) -> io::Result<()> {
        if self.doors.values().any(|door| door.node == id) {
            return Ok(());
        }
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, format!("there is no node {id}"));
        let address = self.addresses.of(id).ok_or_else(invalid)?;
        self.open(id, address).map(drop)
    }

    pub fn add_node(&mut self) -> io::Result<i32> {
        let id = i32::try_from(self.addresses.lock().len()).map_or(i32::MAX, |n| n + 1);
        let address = self.open(id, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        self.addresses.lock().push(address);
        Ok(id)
    }

    fn open(&mut self, id: i32, address: SocketAddr) -> io::Result<SocketAddr> {
        let token = self.next_token;
        let listener = listen(&self.poller, token, address)?;
        let address = listener.address()?;
        self.next_token += 1;
        self.doors.insert(token, Door { node: id, listener });
        let now = self.now();
        self.machine.start_node(now, node(id, address));
        self.deliver(None);
        Ok(address)
    }

    pub fn advance(&mut self, by: Duration) -> Time {
        self.skipped = self.skipped.saturating_add(by);
        let now = self.now();
        self.machine.handle_timeout(now);
        self.machine.retain(now);
        self.deliver(None);
        now
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() || !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let parked = self.machine.next_timeout().map(|at| at.saturating_sub(self.now()));
        let refused = (!self.refused.is_empty()).then_some(ACCEPT_AGAIN);
        parked.into_iter().chain(refused).min()
    }

    fn note(&mut self, event: Event) {
        if self.doors.contains_key(&event.token) {
            return self.accept(event.token);
        }
        if let Some(peer) = self.peers.get_mut(&event.token) {
            peer.unread |= event.readable;
            peer.ended |= event.ended;
            self.ready.insert(event.token);
        }
    }

    fn accept(&mut self, listener: usize) {
        let Some(Door { node, listener: socket }) = self.doors.get(&listener) else {
            return;
        };
        loop {
            let token = self.next_token;
            match socket.accept(&self.poller, token) {
                Ok(Some(mut stream)) => {
                    self.next_token += 1;
                    match self.tls.as_ref().map(tls::Server::session) {
                        None => {}
                        Some(Ok(session)) => stream.secure(session),
                        Some(Err(_)) => {
                            stream.close(&self.poller);
                            continue;
                        }
                    }
                    let frames = Frames::new(self.machine.max_frame());
                    let peer = Peer {
                        node: *node,
                        stream,
                        frames,
                        unread: false,
                        ended: false,
                        closing: false,
                        is_certified: false,
                        queued: 0,
                    };
                    self.peers.insert(token, peer);
                    self.machine.connect(*node, Connection(token as u64));
                }
                Ok(None) => return,
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.refused.insert(listener);
                    return;
                }
            }
        }
    }

    /// Handles what a peer sent, writes the answers, and reads once more. An error closes the connection.
    fn serve(&mut self, token: usize) -> io::Result<()> {
        let connection = Connection(token as u64);
        let (mut has_read, mut is_over) = (false, false);
        loop {
            self.handle_frames(token);
            let Some(peer) = self.peers.get_mut(&token) else {
                return Ok(());
            };
            peer.stream.flush(&self.poller)?;
            if !peer.stream.is_flushed() {
                return Ok(()); // a writable event brings us back
            }
            let more = peer.queued > MAX_QUEUED;
            peer.queued = 0;
            if peer.closing {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            if self.machine.is_parked(connection) {
                // The answer brings us back, but not for a client that is gone.
                return if peer.ended { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) };
            }
            if more {
                continue;
            }
            if is_over {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if has_read || !peer.unread {
                if peer.unread {
                    self.again.insert(token);
                }
                return Ok(());
            }
            has_read = true;
            let (buffer, missing) = peer.frames.inbox();
            match peer.stream.receive(&mut self.scratch, buffer, peer.ended, missing)? {
                Received::Drained => peer.unread = peer.ended,
                Received::More => {}
                // What came before the end is still handled.
                Received::End => is_over = true,
            }
        }
    }

    /// Hands the frames that arrived to the cluster, as long as it and the peer's queue take them.
    fn handle_frames(&mut self, token: usize) {
        let connection = Connection(token as u64);
        while let Some(peer) = self.peers.get_mut(&token) {
            if peer.closing || peer.queued > MAX_QUEUED || self.machine.is_parked(connection) {
                return;
            }
            match peer.frames.next_frame() {
                Ok(Some(frame)) => {
                    if !std::mem::replace(&mut peer.is_certified, true)
                        && let Some(name) = peer.stream.peer_certificate().and_then(subject::of)
                    {
                        self.machine.certify(connection, name);
                    }
                    self.machine.handle(self.now(), connection, frame);
                    self.deliver(Some(token));
                }
                Ok(None) => return,
                Err(_) => peer.closing = true,
            }
        }
    }

    /// Queues what the cluster has to say. `serving` is written by whoever serves it, others get their turn.
    fn deliver(&mut self, serving: Option<usize>) {
        if let Some(disk) = &mut self.disk
            && let Some(frame) = self.machine.take_journal()
        {
            self.is_full |= disk.append(&frame).is_err();
        }
        if self.is_full {
            return;
        }
        while let Some(output) = self.machine.poll_send() {
            let (Output::Reply { connection, .. } | Output::Close { connection }) = output;
            let token = connection.0 as usize;
            let Some(peer) = self.peers.get_mut(&token) else {
                continue;
            };
            match output {
                Output::Reply { parts, .. } => {
                    for part in parts {
                        peer.queued += part.len();
                        peer.stream.queue(part);
                    }
                }
                Output::Close { .. } => peer.closing = true,
            }
            if serving != Some(token) {
                self.ready.insert(token);
            }
        }
    }

    fn close(&mut self, token: usize) {
        let now = self.now();
        self.machine.disconnect(now, Connection(token as u64));
        self.deliver(None);
        if let Some(peer) = self.peers.remove(&token) {
            peer.stream.close(&self.poller);
        }
    }
}

fn listen(poller: &Poller, token: usize, address: SocketAddr) -> io::Result<Listener> {
    Listener::bind(poller, token, address)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {address}: {e}")))
}

fn node(id: i32, address: SocketAddr) -> Node {
    Node { id, host: address.ip().to_string(), port: address.port() }
}
