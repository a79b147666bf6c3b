//! The handle by which a program steers a cluster that runs: nodes, leaders, coordinators, faults, the clock.
//!
//! Whatever is asked is done on the cluster's thread, between two of its turns; the answer says that it is done.

use super::Time;
use super::fault::Fault;
use super::listener::Server;
use super::requests::Seen;
use crate::net::Wake;
use std::io;
use std::process;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Something to do on the cluster's thread.
type Command = Box<dyn FnOnce(&mut Server) + Send>;

/// See the top of this file.
#[derive(Clone, Debug)]
pub struct Control {
    commands: Sender<Command>,
    wake: Wake,
    pid: u32,
}

/// The other end of a [`Control`].
pub(super) struct Commands(Receiver<Command>);

impl Commands {
    pub fn next(&self) -> Option<Command> {
        self.0.try_recv().ok()
    }
}

impl Control {
    pub(super) fn new(wake: Wake) -> (Self, Commands) {
        let (commands, receiver) = channel();
        (Self { commands, wake, pid: process::id() }, Commands(receiver))
    }

    /// Closes a node's port and its connections; what it led or coordinated moves to other nodes.
    pub fn kill(&self, node: i32) -> io::Result<()> {
        self.ask(move |server| server.kill(node))?
    }

    /// Starts a node that was killed, on the port it had.
    pub fn start_node(&self, node: i32) -> io::Result<()> {
        self.ask(move |server| server.start_node(node))?
    }

    /// Starts one node more and gives its id.
    pub fn add_node(&self) -> io::Result<i32> {
        self.ask(Server::add_node)?
    }

    /// Has a partition led by a node.
    pub fn move_leader(&self, topic: String, partition: i32, node: i32) -> io::Result<()> {
        self.ask(move |server| server.with_cluster(|cluster, now| cluster.move_leader(now, &topic, partition, node)))??
            .map_err(invalid)
    }

    /// Cuts a log at an offset, as the election of a replica that lagged behind does.
    pub fn truncate(&self, topic: String, partition: i32, offset: i64) -> io::Result<()> {
        self.ask(move |server| server.with_cluster(|cluster, now| cluster.truncate(now, &topic, partition, offset)))??
            .map_err(invalid)
    }

    /// Has a topic compacted.
    pub fn compact(&self, topic: String) -> io::Result<()> {
        self.ask(move |server| server.with_cluster(|cluster, now| cluster.compact(now, &topic)))??.map_err(invalid)
    }

    /// Has a group or transactional id coordinated by a node.
    pub fn move_coordinator(&self, key: String, node: i32) -> io::Result<()> {
        self.ask(move |server| server.with_cluster(|cluster, now| cluster.move_coordinator(now, &key, node)))??
            .map_err(invalid)
    }

    /// Has something go wrong from now on.
    pub fn fault(&self, fault: Fault) -> io::Result<()> {
        self.ask(move |server| server.with_cluster(|cluster, _| cluster.fault(fault)))?
    }

    /// Has nothing go wrong any more.
    pub fn clear_faults(&self) -> io::Result<()> {
        self.ask(|server| server.with_cluster(|cluster, _| cluster.clear_faults()))?
    }

    /// The last requests, the oldest first.
    pub fn requests(&self) -> io::Result<Vec<Seen>> {
        self.ask(|server| server.machine().requests())
    }

    /// The topics that each node of Kafka 0.7 registers in ZooKeeper, and how many partitions they have.
    pub fn registered(&self) -> io::Result<Vec<(i32, String, i32)>> {
        self.ask(|server| server.machine().registered())
    }

    /// Moves the cluster's clock on, and does what is due by then.
    pub fn advance(&self, by: Duration) -> io::Result<Time> {
        self.ask(move |server| server.advance(by))
    }

    fn ask<T: Send + 'static>(&self, what: impl FnOnce(&mut Server) -> T + Send + 'static) -> io::Result<T> {
        let gone = || io::Error::new(io::ErrorKind::NotConnected, "the cluster does not run");
        // A forked child has the handle but not the thread.
        if process::id() != self.pid {
            return Err(gone());
        }
        let (done, result) = channel();
        let command = move |server: &mut Server| {
            let _ = done.send(what(server));
        };
        self.commands.send(Box::new(command)).map_err(|_| gone())?;
        self.wake.wake();
        result.recv().map_err(|_| gone())
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
