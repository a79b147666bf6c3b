//! The cluster that the server runs: a modern [`Cluster`], or the [legacy brokers](super::legacy) of Kafka 0.6 and 0.7.

use super::legacy::Brokers;
use super::request_log::LoggedRequest;
use super::version::Version;
use super::{Cluster, Connection, Fault, Node, Options, Output, Time};
use crate::frame::DEFAULT_MAX_FRAME;
use bytes::Bytes;
use std::io;

/// Calls a method that modern and legacy clusters have in common.
macro_rules! either {
    ($any:expr, $cluster:ident => $call:expr) => {
        match $any {
            Self::Modern($cluster) => $call,
            Self::Legacy($cluster) => $call,
        }
    };
}

#[derive(Debug)]
pub(super) enum AnyCluster {
    Modern(Box<Cluster>),
    Legacy(Box<Brokers>),
}

impl AnyCluster {
    pub fn new(options: &Options, nodes: Vec<Node>, start_ms: i64, seed: u64) -> Self {
        match options.as_version {
            Version::Current | Version::Release(_) => {
                Self::Modern(Box::new(Cluster::new(options, nodes, start_ms, seed)))
            }
            Version::Legacy(_) | Version::Draft => Self::Legacy(Box::new(Brokers::new(options, start_ms, seed))),
        }
    }

    /// Returns the modern cluster. Fails for legacy brokers, which have no leaders and coordinators.
    pub fn cluster(&mut self) -> io::Result<&mut Cluster> {
        match self {
            Self::Modern(cluster) => Ok(cluster),
            Self::Legacy(_) => {
                let why = "legacy brokers (Kafka 0.6 and 0.7) have no leaders or coordinators";
                Err(io::Error::new(io::ErrorKind::InvalidInput, why))
            }
        }
    }

    pub fn max_frame(&self) -> usize {
        match self {
            Self::Modern(_) => DEFAULT_MAX_FRAME,
            Self::Legacy(brokers) => brokers.max_frame(),
        }
    }

    pub fn connect(&mut self, node: i32, connection: Connection) {
        either!(self, cluster => cluster.connect(node, connection));
    }

    /// Records the name in a client's TLS certificate.
    pub fn certify(&mut self, connection: Connection, name: String) {
        if let Self::Modern(cluster) = self {
            cluster.certify(connection, name);
        }
    }

    pub fn disconnect(&mut self, now: Time, connection: Connection) {
        match self {
            Self::Modern(cluster) => cluster.disconnect(now, connection),
            Self::Legacy(brokers) => brokers.disconnect(connection),
        }
    }

    pub fn handle(&mut self, now: Time, connection: Connection, frame: Bytes) {
        either!(self, cluster => cluster.handle(now, connection, frame));
    }

    pub fn is_blocked(&self, connection: Connection) -> bool {
        matches!(self, Self::Modern(cluster) if cluster.is_blocked(connection))
    }

    pub fn poll_send(&mut self) -> Option<Output> {
        either!(self, cluster => cluster.poll_send())
    }

    pub fn next_timeout(&self) -> Option<Time> {
        either!(self, cluster => cluster.next_timeout())
    }

    pub fn handle_timeout(&mut self, now: Time) {
        either!(self, cluster => cluster.handle_timeout(now));
    }

    pub fn fault(&mut self, fault: Fault) -> Result<(), String> {
        match self {
            Self::Modern(cluster) => {
                cluster.fault(fault);
                Ok(())
            }
            Self::Legacy(brokers) => brokers.fault(fault),
        }
    }

    pub fn clear_faults(&mut self) {
        either!(self, cluster => cluster.clear_faults());
    }

    pub fn kill(&mut self, now: Time, node: i32) -> Result<(), String> {
        match self {
            Self::Modern(cluster) => cluster.kill(now, node),
            Self::Legacy(brokers) => brokers.kill(node),
        }
    }

    pub fn start_node(&mut self, now: Time, node: Node) {
        match self {
            Self::Modern(cluster) => cluster.start_node(now, node),
            Self::Legacy(brokers) => brokers.start_node(now, &node),
        }
    }

    /// Restores the state from a journal. Returns how many bytes of the journal are complete frames.
    pub fn restore(&mut self, journal: Bytes) -> io::Result<usize> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        match self {
            Self::Modern(cluster) => cluster
                .restore(Time::ZERO, journal)
                .map_err(|e| invalid(format!("data_dir does not contain a valid journal of a dev broker: {e}"))),
            Self::Legacy(_) => Err(invalid(
                "legacy brokers (Kafka 0.6 and 0.7) keep data in memory only and do not support data_dir".to_owned(),
            )),
        }
    }

    /// Returns journal entries. The caller must write these entries before it sends more output.
    pub fn take_journal(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Modern(cluster) => cluster.take_journal(),
            Self::Legacy(_) => None,
        }
    }

    /// Applies retention, after the clock was advanced.
    pub fn retain(&mut self, now: Time) {
        if let Self::Modern(cluster) = self {
            cluster.retain(now);
        }
    }

    pub fn requests(&self) -> Vec<LoggedRequest> {
        either!(self, cluster => cluster.requests().cloned().collect())
    }

    /// Returns the topics that each node registers in ZooKeeper, with their partition counts.
    pub fn registered(&self) -> Vec<(i32, String, i32)> {
        match self {
            Self::Modern(_) => Vec::new(),
            Self::Legacy(brokers) => {
                brokers.topics().map(|(node, topic, count)| (node, topic.to_owned(), count)).collect()
            }
        }
    }
}
