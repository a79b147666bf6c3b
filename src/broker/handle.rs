//! The handle of a running cluster: starts and stops it, and controls it from any thread.
//!
//! The cluster runs on its own thread, see [`server`](super::server). Each method of the handle sends a function to the
//! cluster's thread and waits until the function has run.

#![allow(clippy::disallowed_methods, reason = "the cluster gets its thread here")]

use super::Time;
use super::fault::Fault;
use super::options::Options;
use super::replay::Recording;
use super::request_log::LoggedRequest;
use super::server::{Addresses, Command, Server};
use super::telemetry::TelemetryPush;
use crate::net::Wake;
use std::io;
use std::net::SocketAddr;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A running cluster. Dropping the handle stops the cluster.
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
    /// Starts a cluster. When the function returns, every node accepts connections.
    pub fn start(options: Options) -> io::Result<Self> {
        if options.nodes == 0 || options.default_partitions < 1 {
            let why = "a cluster needs at least one node, and topics need at least one partition";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        options.check().map_err(invalid)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let (commands, receiver) = channel();
        let server = Server::new(options, stopping.clone(), receiver)?;
        let (addresses, wake, pid) = (server.addresses(), server.wake(), process::id());
        let control = Control { commands, wake: wake.clone(), pid };
        let thread = thread::Builder::new().name("klamm-dev-broker".to_owned()).spawn(move || server.run())?;
        Ok(Self { addresses, control, wake, stopping, thread: Some(thread), pid })
    }

    /// Returns the addresses of the nodes, by node ID. A stopped node keeps its address.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.lock().clone()
    }

    /// Returns the [`Control`], which can control the cluster from any thread.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Closes all sockets and ends the thread. A second call does nothing.
    pub fn stop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A forked child has the object but not the thread. Waiting for the thread would never end.
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

/// Controls a running cluster from any thread: nodes, leaders, coordinators, faults and the clock.
#[derive(Clone, Debug)]
pub struct Control {
    commands: Sender<Command>,
    wake: Wake,
    pid: u32,
}

impl Control {
    /// Closes a node's port and connections. Other nodes with a replica take over the node's partitions. The next
    /// running node takes over its groups and transactions.
    pub fn kill(&self, node: i32) -> io::Result<()> {
        self.call(move |server| server.kill(node))?
    }

    /// Starts a stopped node again, on its old port.
    pub fn start_node(&self, node: i32) -> io::Result<()> {
        self.call(move |server| server.start_node(node))?
    }

    /// Adds a node and returns its ID.
    pub fn add_node(&self) -> io::Result<i32> {
        self.call(Server::add_node)?
    }

    /// Makes a node the leader of a partition.
    pub fn move_leader(&self, topic: String, partition: i32, node: i32) -> io::Result<()> {
        self.call(move |server| server.with_cluster(|cluster, now| cluster.move_leader(now, &topic, partition, node)))??
            .map_err(invalid)
    }

    /// Truncates a log at an offset, as if a lagging replica had become the leader.
    pub fn truncate(&self, topic: String, partition: i32, offset: i64) -> io::Result<()> {
        self.call(move |server| server.with_cluster(|cluster, now| cluster.truncate(now, &topic, partition, offset)))??
            .map_err(invalid)
    }

    /// Compacts a topic.
    pub fn compact(&self, topic: String) -> io::Result<()> {
        self.call(move |server| server.with_cluster(|cluster, now| cluster.compact(now, &topic)))??.map_err(invalid)
    }

    /// Makes a node the coordinator of a group or transactional ID.
    pub fn move_coordinator(&self, key: String, node: i32) -> io::Result<()> {
        self.call(move |server| server.with_cluster(|cluster, now| cluster.move_coordinator(now, &key, node)))??
            .map_err(invalid)
    }

    /// Adds a fault.
    pub fn fault(&self, fault: Fault) -> io::Result<()> {
        self.call(move |server| server.cluster.fault(fault))?.map_err(invalid)
    }

    /// Replays a client's recording of its brokers.
    pub fn repeat(&self, recording: Recording) -> io::Result<()> {
        self.call(move |server| server.with_cluster(|cluster, now| cluster.repeat(now, recording)))??.map_err(invalid)
    }

    /// Removes all faults.
    pub fn clear_faults(&self) -> io::Result<()> {
        self.call(|server| server.cluster.clear_faults())
    }

    /// Returns the last requests, the oldest first.
    pub fn requests(&self) -> io::Result<Vec<LoggedRequest>> {
        self.call(|server| server.cluster.requests())
    }

    /// Returns the metrics that clients pushed, the oldest first.
    pub fn telemetry(&self) -> io::Result<Vec<TelemetryPush>> {
        self.call(|server| server.with_cluster(|cluster, _| cluster.telemetry()))?
    }

    /// Changes the metrics that clients push.
    pub fn want_telemetry(&self, prefixes: Vec<String>, interval_ms: i32, is_delta: bool) -> io::Result<()> {
        self.call(move |server| {
            server.with_cluster(|cluster, _| cluster.want_telemetry(prefixes, interval_ms, is_delta))
        })?
    }

    /// Returns the topics that each node of Kafka 0.7 registers in ZooKeeper, with their partition counts.
    pub fn registered(&self) -> io::Result<Vec<(i32, String, i32)>> {
        self.call(|server| server.cluster.registered())
    }

    /// Advances the cluster's clock, and handles all timeouts that are due by then.
    pub fn advance(&self, by: Duration) -> io::Result<Time> {
        self.call(move |server| server.advance(by))
    }

    fn call<T: Send + 'static>(&self, operation: impl FnOnce(&mut Server) -> T + Send + 'static) -> io::Result<T> {
        let not_running = || io::Error::new(io::ErrorKind::NotConnected, "the cluster is not running");
        // A forked child has the handle but not the thread.
        if process::id() != self.pid {
            return Err(not_running());
        }
        let (done, result) = channel();
        let command = move |server: &mut Server| {
            let _ = done.send(operation(server));
        };
        self.commands.send(Box::new(command)).map_err(|_| not_running())?;
        self.wake.wake();
        result.recv().map_err(|_| not_running())
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
