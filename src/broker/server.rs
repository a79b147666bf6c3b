//! The thread of a cluster: its sockets and its clock. Each node has a port on 127.0.0.1, and one thread serves all
//! nodes.
//!
//! The server does not read from a connection while a request of that connection waits, or while the client does not
//! read its replies. A connection therefore needs memory only for one read and a few replies. Replies to fetches share
//! memory with the log. The [`handle`](super::handle) starts, controls and stops the cluster's thread.

#![allow(clippy::disallowed_methods, reason = "the cluster gets its clock here")]

use super::any_cluster::AnyCluster;
use super::disk::Disk;
use super::subject;
use super::{Cluster, Connection, Node, Options, Output, Time};
use crate::frame::Frames;
use crate::net::{Event, Listener, Poller, Received, Stream, Wake, tls};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Number of reply bytes in a connection's send queue above which the server stops handling the connection's requests.
const MAX_QUEUED: usize = 1 << 20;

/// Delay before the server accepts again after `accept` failed, for example because of too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// A function that the handle runs on the server's thread, between two turns of the server's loop.
pub(super) type Command = Box<dyn FnOnce(&mut Server) + Send>;

/// Addresses of the nodes, in the order of the node IDs.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    first_node: i32,
    all: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Addresses {
    pub fn lock(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, node: i32) -> Option<SocketAddr> {
        self.lock().get(usize::try_from(node.checked_sub(self.first_node)?).ok()?).copied()
    }
}

/// The listening socket of a node.
struct NodeListener {
    node: i32,
    listener: Listener,
}

#[derive(Debug)]
struct Peer {
    node: i32,
    stream: Stream,
    frames: Frames,
    /// The kernel may have data to read.
    unread: bool,
    /// The client has closed its side of the connection. The server still reads earlier data.
    ended: bool,
    /// The server no longer reads from the connection, and closes it after all replies are written.
    closing: bool,
    /// Whether the server has read the client's certificate, which is available when the first frame arrives.
    is_certified: bool,
    /// Upper bound of the number of bytes in the send queue.
    queued: usize,
}

pub(super) struct Server {
    pub cluster: AnyCluster,
    disk: Option<Disk>,
    /// The disk is full, so the server must not send more output.
    is_full: bool,
    start: Instant,
    /// How much the cluster's clock has been advanced.
    skipped: Duration,
    commands: Receiver<Command>,
    addresses: Addresses,
    stopping: Arc<AtomicBool>,
    poller: Poller,
    scratch: Box<[u8]>,
    /// Listening sockets by token. A stopped node has no listening socket.
    listeners: BTreeMap<usize, NodeListener>,
    peers: HashMap<usize, Peer>,
    next_token: usize,
    /// Connections to serve in this turn, because they have something to read, handle or write.
    ready: BTreeSet<usize>,
    /// Connections with more to read than one turn allows.
    again: BTreeSet<usize>,
    /// Listeners on which `accept` failed.
    accept_failed: BTreeSet<usize>,
    tls: Option<tls::Server>,
}

impl Server {
    /// Binds the ports of all nodes and loads the journal, if it exists. When the function returns, clients can
    /// connect.
    pub fn new(options: Options, stopping: Arc<AtomicBool>, commands: Receiver<Command>) -> io::Result<Self> {
        let poller = Poller::new()?;
        let ports = std::iter::once(options.port).chain(std::iter::repeat(0));
        let bind = |(token, port)| listen(&poller, token, SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let listeners = (0..options.nodes).zip(ports).map(bind).collect::<io::Result<Vec<_>>>()?;
        let addresses = listeners.iter().map(Listener::address).collect::<io::Result<Vec<_>>>()?;
        let nodes = (options.first_node..).zip(&addresses).map(|(id, address)| node(id, *address)).collect();
        let listeners = (options.first_node..).zip(listeners).map(|(node, listener)| NodeListener { node, listener });
        let start_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_millis() as i64);
        let seed = RandomState::new().hash_one(start_ms);
        let mut cluster = AnyCluster::new(&options, nodes, start_ms, seed);
        let mut disk = None;
        if let Some(dir) = &options.data_dir {
            let (mut opened, kept) = Disk::open(dir, options.fsync)?;
            opened.cut(cluster.restore(kept)?)?;
            disk = Some(opened);
        }
        Ok(Self {
            cluster,
            disk,
            is_full: false,
            start: Instant::now(),
            skipped: Duration::ZERO,
            stopping,
            commands,
            next_token: addresses.len(),
            addresses: Addresses { first_node: options.first_node, all: Arc::new(Mutex::new(addresses)) },
            scratch: Stream::scratch(),
            listeners: listeners.enumerate().collect(),
            peers: HashMap::new(),
            ready: BTreeSet::new(),
            again: BTreeSet::new(),
            accept_failed: BTreeSet::new(),
            poller,
            tls: options.tls,
        })
    }

    /// Returns the handle that ends the thread's wait for events.
    pub fn wake(&self) -> Wake {
        self.poller.wake()
    }

    /// Returns the addresses of the nodes, which the server's thread updates.
    pub fn addresses(&self) -> Addresses {
        self.addresses.clone()
    }

    /// Runs until a caller stops the cluster, or until the disk is full.
    pub fn run(mut self) {
        let mut events = Vec::new();
        loop {
            self.poller.arm();
            if self.stopping.load(Ordering::SeqCst) || self.is_full {
                return;
            }
            // After arming: a command that arrives later ends the wait.
            while let Ok(command) = self.commands.try_recv() {
                command(&mut self);
            }
            // Waiting fails only if the poller is broken. Nothing can be served then.
            if self.poller.wait(self.timeout(), &mut events).is_err() {
                return;
            }
            for listener in std::mem::take(&mut self.accept_failed) {
                self.accept(listener);
            }
            for event in events.drain(..) {
                self.handle_event(event);
            }
            self.cluster.handle_timeout(self.now());
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

    /// Runs a function on the modern cluster.
    pub fn with_cluster<T>(&mut self, operation: impl FnOnce(&mut Cluster, Time) -> T) -> io::Result<T> {
        let now = self.now();
        let result = operation(self.cluster.cluster()?, now);
        self.deliver(None);
        Ok(result)
    }

    pub fn kill(&mut self, node: i32) -> io::Result<()> {
        let now = self.now();
        self.cluster.kill(now, node).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        for (_, closed) in self.listeners.extract_if(.., |_, listener| listener.node == node) {
            closed.listener.close(&self.poller);
        }
        // Closed at once, even with replies still queued, as in a crash.
        let tokens = self.peers.iter().filter(|(_, peer)| peer.node == node).map(|(token, _)| *token);
        for token in tokens.collect::<Vec<_>>() {
            self.close(token);
        }
        self.deliver(None);
        Ok(())
    }

    pub fn start_node(&mut self, id: i32) -> io::Result<()> {
        if self.listeners.values().any(|listener| listener.node == id) {
            return Ok(());
        }
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, format!("node {id} does not exist"));
        let address = self.addresses.of(id).ok_or_else(invalid)?;
        self.open(id, address).map(drop)
    }

    pub fn add_node(&mut self) -> io::Result<i32> {
        let count = i32::try_from(self.addresses.lock().len()).unwrap_or(i32::MAX);
        let id = self.addresses.first_node.saturating_add(count);
        let address = self.open(id, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        self.addresses.lock().push(address);
        Ok(id)
    }

    fn open(&mut self, id: i32, address: SocketAddr) -> io::Result<SocketAddr> {
        let token = self.next_token;
        let listener = listen(&self.poller, token, address)?;
        let address = listener.address()?;
        self.next_token += 1;
        self.listeners.insert(token, NodeListener { node: id, listener });
        let now = self.now();
        self.cluster.start_node(now, node(id, address));
        self.deliver(None);
        Ok(address)
    }

    pub fn advance(&mut self, by: Duration) -> Time {
        self.skipped = self.skipped.saturating_add(by);
        let now = self.now();
        self.cluster.handle_timeout(now);
        self.cluster.retain(now);
        self.deliver(None);
        now
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() || !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let timeout = self.cluster.next_timeout().map(|at| at.saturating_sub(self.now()));
        let accept_retry = (!self.accept_failed.is_empty()).then_some(ACCEPT_RETRY_DELAY);
        timeout.into_iter().chain(accept_retry).min()
    }

    fn handle_event(&mut self, event: Event) {
        if self.listeners.contains_key(&event.token) {
            return self.accept(event.token);
        }
        if let Some(peer) = self.peers.get_mut(&event.token) {
            peer.unread |= event.readable;
            peer.ended |= event.ended;
            self.ready.insert(event.token);
        }
    }

    fn accept(&mut self, listener: usize) {
        let Some(NodeListener { node, listener: socket }) = self.listeners.get(&listener) else {
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
                    let frames = Frames::new(self.cluster.max_frame());
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
                    self.cluster.connect(*node, Connection(token as u64));
                }
                Ok(None) => return,
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.accept_failed.insert(listener);
                    return;
                }
            }
        }
    }

    /// Handles a connection's frames, writes the replies and reads once more. An error closes the connection.
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
            let has_more_frames = peer.queued > MAX_QUEUED;
            peer.queued = 0;
            if peer.closing {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            if self.cluster.is_blocked(connection) {
                // The reply brings the connection back, unless its client has gone.
                return if peer.ended { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) };
            }
            if has_more_frames {
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
                // Data before the end is still handled.
                Received::End => is_over = true,
            }
        }
    }

    /// Passes frames to the cluster, as long as the connection is not blocked and its send queue has room.
    fn handle_frames(&mut self, token: usize) {
        let connection = Connection(token as u64);
        while let Some(peer) = self.peers.get_mut(&token) {
            if peer.closing || peer.queued > MAX_QUEUED || self.cluster.is_blocked(connection) {
                return;
            }
            match peer.frames.next_frame() {
                Ok(Some(frame)) => {
                    if !std::mem::replace(&mut peer.is_certified, true)
                        && let Some(name) = peer.stream.peer_certificate().and_then(subject::of)
                    {
                        self.cluster.certify(connection, name);
                    }
                    self.cluster.handle(self.now(), connection, frame);
                    self.deliver(Some(token));
                }
                Ok(None) => return,
                Err(_) => peer.closing = true,
            }
        }
    }

    /// Queues the cluster's output. The caller writes to the connection `serving`. The loop writes to the other
    /// connections in their turn.
    fn deliver(&mut self, serving: Option<usize>) {
        if let Some(disk) = &mut self.disk
            && let Some(frame) = self.cluster.take_journal()
        {
            self.is_full |= disk.append(&frame).is_err();
        }
        if self.is_full {
            return;
        }
        while let Some(output) = self.cluster.poll_send() {
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
        self.cluster.disconnect(now, Connection(token as u64));
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
