//! What the listener drives: a cluster, or brokers from before there were clusters.

use super::old::Brokers;
use super::requests::Seen;
use super::version::Version;
use super::{Cluster, Connection, Node, Options, Output, Time};
use crate::frame::DEFAULT_MAX_FRAME;
use bytes::Bytes;
use std::io;

#[derive(Debug)]
pub(super) enum Machine {
    Modern(Box<Cluster>),
    Old(Box<Brokers>),
}

impl Machine {
    pub fn new(options: &Options, nodes: Vec<Node>, start_ms: i64, seed: u64) -> Self {
        match options.as_version {
            Version::Current | Version::Release(_) => {
                Self::Modern(Box::new(Cluster::new(options, nodes, start_ms, seed)))
            }
            Version::Old(_) | Version::Draft => Self::Old(Box::new(Brokers::new(options, start_ms, seed))),
        }
    }

    /// The cluster, for what only clusters have.
    pub fn cluster(&mut self) -> io::Result<&mut Cluster> {
        match self {
            Self::Modern(cluster) => Ok(cluster),
            Self::Old(_) => {
                let why = "brokers of this version have no leaders, coordinators and faults";
                Err(io::Error::new(io::ErrorKind::InvalidInput, why))
            }
        }
    }

    pub fn max_frame(&self) -> usize {
        match self {
            Self::Modern(_) => DEFAULT_MAX_FRAME,
            Self::Old(brokers) => brokers.max_frame(),
        }
    }

    pub fn connect(&mut self, node: i32, connection: Connection) {
        match self {
            Self::Modern(cluster) => cluster.connect(node, connection),
            Self::Old(brokers) => brokers.connect(node, connection),
        }
    }

    /// A client showed a certificate.
    pub fn certify(&mut self, connection: Connection, name: String) {
        if let Self::Modern(cluster) = self {
            cluster.certify(connection, name);
        }
    }

    pub fn disconnect(&mut self, now: Time, connection: Connection) {
        match self {
            Self::Modern(cluster) => cluster.disconnect(now, connection),
            Self::Old(brokers) => brokers.disconnect(connection),
        }
    }

    pub fn handle(&mut self, now: Time, connection: Connection, frame: Bytes) {
        match self {
            Self::Modern(cluster) => cluster.handle(now, connection, frame),
            Self::Old(brokers) => brokers.handle(now, connection, frame),
        }
    }

    pub fn is_parked(&self, connection: Connection) -> bool {
        match self {
            Self::Modern(cluster) => cluster.is_parked(connection),
            Self::Old(_) => false,
        }
    }

    pub fn poll_send(&mut self) -> Option<Output> {
        match self {
            Self::Modern(cluster) => cluster.poll_send(),
            Self::Old(brokers) => brokers.poll_send(),
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        match self {
            Self::Modern(cluster) => cluster.next_timeout(),
            Self::Old(brokers) => brokers.next_timeout(),
        }
    }

    pub fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Modern(cluster) => cluster.handle_timeout(now),
            Self::Old(brokers) => brokers.handle_timeout(now),
        }
    }

    pub fn kill(&mut self, now: Time, node: i32) -> Result<(), String> {
        match self {
            Self::Modern(cluster) => cluster.kill(now, node),
            Self::Old(brokers) => brokers.kill(node),
        }
    }

    pub fn start_node(&mut self, now: Time, node: Node) {
        match self {
            Self::Modern(cluster) => cluster.start_node(now, node),
            Self::Old(brokers) => brokers.start_node(now, &node),
        }
    }

    /// Makes again what was kept; how many bytes of it are whole.
    pub fn restore(&mut self, journal: Bytes) -> io::Result<usize> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        match self {
            Self::Modern(cluster) => cluster
                .restore(Time::ZERO, journal)
                .map_err(|e| invalid(format!("what is in data_dir is not what a dev broker wrote: {e}"))),
            Self::Old(_) => Err(invalid("brokers of this version are kept in memory alone".to_owned())),
        }
    }

    /// What has to be kept before anything more is sent.
    pub fn take_journal(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Modern(cluster) => cluster.take_journal(),
            Self::Old(_) => None,
        }
    }

    /// The clock was moved on: what goes by age does so now.
    pub fn retain(&mut self, now: Time) {
        if let Self::Modern(cluster) = self {
            cluster.retain(now);
        }
    }

    pub fn requests(&self) -> Vec<Seen> {
        match self {
            Self::Modern(cluster) => cluster.requests().cloned().collect(),
            Self::Old(brokers) => brokers.requests().cloned().collect(),
        }
    }

    /// The topics that each node registers in ZooKeeper, and how many partitions they have.
    pub fn registered(&self) -> Vec<(i32, String, i32)> {
        match self {
            Self::Modern(_) => Vec::new(),
            Self::Old(brokers) => {
                brokers.topics().map(|(node, topic, count)| (node, topic.to_owned(), count)).collect()
            }
        }
    }
}
