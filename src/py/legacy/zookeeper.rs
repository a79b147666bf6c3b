//! [`ZooKeeperMember`]: membership of a group of Kafka 0.7, for `klamm.legacy`.
//!
//! The state machine of a member is in `engine::legacy`. A thread of `klamm.legacy` runs the state machine's operations
//! on ZooKeeper.

use crate::client::Time;
use crate::client::zookeeper::{
    self, BrokerPartition, Config, Event, Input, Operation, OperationResult, Problem, Subscription,
};
use crate::py::error::exception;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A topic, a broker and a partition.
type PartitionTuple = (String, u32, u32);
/// An operation on ZooKeeper's tree.
#[pyclass(frozen, get_all, module = "klamm._klamm")]
pub(in crate::py) struct ZooKeeperOperation {
    number: u64,
    /// `children`, `read`, `create`, `delete`, `write` or `match`.
    kind: &'static str,
    /// A path, or the pattern of `match`.
    path: String,
    data: String,
    names: Vec<String>,
}
/// The type of the event, and its partitions, each with its stream and its first offset.
type MemberEvent = (&'static str, Vec<(PartitionTuple, u32, Option<i64>)>);

/// The state machine of a member. All times are in seconds and from the same clock.
#[pyclass(frozen, module = "klamm._klamm")]
pub(in crate::py) struct ZooKeeperMember(Mutex<zookeeper::ZooKeeperMember>);

impl ZooKeeperMember {
    fn lock(&self) -> MutexGuard<'_, zookeeper::ZooKeeperMember> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl ZooKeeperMember {
    #[new]
    fn new(
        group: String,
        member: String,
        topics: BTreeMap<String, u32>,
        pattern: Option<(bool, u32, String)>,
        backoff: f64,
        session_timeout: f64,
    ) -> Self {
        let subscription = match pattern {
            None => Subscription::Topics(topics),
            Some((true, streams, pattern)) => Subscription::Whitelist(streams, pattern),
            Some((false, streams, pattern)) => Subscription::Blacklist(streams, pattern),
        };
        let (backoff, session_timeout) = (duration(backoff), duration(session_timeout));
        let config = Config { group, member, subscription, backoff, session_timeout };
        Self(Mutex::new(zookeeper::ZooKeeperMember::new(config)))
    }

    fn connected(&self, now: f64, is_new: bool) {
        self.lock().handle(time(now), Input::Connected { is_new });
    }

    fn suspended(&self, now: f64) {
        self.lock().handle(time(now), Input::Suspended);
    }

    fn expired(&self, now: f64) {
        self.lock().handle(time(now), Input::Expired);
    }

    fn changed(&self, now: f64, path: String) {
        self.lock().handle(time(now), Input::Changed(path));
    }

    /// Handles the result of an operation: `done`, `missing`, `exists`, `failed`, `names`, `data` or
    /// `unreadable` with the reason as data.
    #[pyo3(signature = (now, number, what, names=None, data=None))]
    fn answered(
        &self,
        py: Python<'_>,
        now: f64,
        number: u64,
        what: &str,
        names: Option<Vec<String>>,
        data: Option<String>,
    ) -> PyResult<()> {
        let result = match (what, names, data) {
            ("done", ..) => OperationResult::Done,
            ("missing", ..) => OperationResult::Missing,
            ("exists", ..) => OperationResult::Exists,
            ("failed", ..) => OperationResult::Failed,
            ("names", Some(names), _) => OperationResult::Names(names),
            ("data", _, Some(data)) => OperationResult::Data(data),
            ("unreadable", _, Some(why)) => OperationResult::Unreadable(why),
            _ => return Err(exception(py, "ConfigError", &format!("result {what:?} does not exist"), None)),
        };
        self.lock().handle(time(now), Input::Answered(number, result));
        Ok(())
    }

    fn stopped(&self, now: f64, offsets: Vec<(PartitionTuple, i64)>) {
        self.lock().handle(time(now), Input::Stopped(partitions(offsets)));
    }

    fn commit(&self, now: f64, offsets: Vec<(PartitionTuple, i64)>) {
        self.lock().handle(time(now), Input::Commit(partitions(offsets)));
    }

    /// Runs the timers that are due.
    fn tick(&self, now: f64) {
        self.lock().handle_timeout(time(now));
    }

    /// Returns the time of the next timer.
    fn due(&self) -> Option<f64> {
        self.lock().next_timeout().map(|at| at.since(Time::default()).as_secs_f64())
    }

    /// Returns the next operation on ZooKeeper's tree, or None.
    fn operation(&self) -> Option<ZooKeeperOperation> {
        let (number, operation) = self.lock().poll_operation()?;
        let (kind, path, data, names) = match operation {
            Operation::Children(path) => ("children", path, String::new(), Vec::new()),
            Operation::Read(path) => ("read", path, String::new(), Vec::new()),
            Operation::Create(path, data) => ("create", path, data, Vec::new()),
            Operation::Delete(path, data) => ("delete", path, data, Vec::new()),
            Operation::Write(path, data) => ("write", path, data, Vec::new()),
            Operation::Match(pattern, names) => ("match", pattern, String::new(), names),
        };
        Some(ZooKeeperOperation { number, kind, path, data, names })
    }

    /// Returns the next event for readers: `start`, `stop`, `lost` or `committed`.
    fn event(&self) -> Option<MemberEvent> {
        let tuple = |partition: BrokerPartition| (partition.topic, partition.broker, partition.partition);
        Some(match self.lock().poll_event()? {
            Event::Start(partitions) => (
                "start",
                partitions.into_iter().map(|(partition, stream, offset)| (tuple(partition), stream, offset)).collect(),
            ),
            Event::Stop(partitions) => {
                ("stop", partitions.into_iter().map(|partition| (tuple(partition), 0, None)).collect())
            }
            Event::Lost => ("lost", Vec::new()),
            Event::Committed(partition, offset) => ("committed", vec![(tuple(partition), 0, Some(offset))]),
        })
    }

    /// Returns why the member gets no partitions. If a member's subscription is unreadable, the result has that
    /// member's ID, its data and the error. If another session holds this member's ID, the result is the number of
    /// seconds since then.
    fn problem(&self, now: f64) -> (Option<(String, String, String)>, Option<f64>) {
        match self.lock().problem() {
            Some(Problem::Unreadable { member, data, why }) => {
                (Some((member.clone(), data.clone(), why.clone())), None)
            }
            Some(Problem::DuplicateId { since }) => (None, Some(time(now).since(*since).as_secs_f64())),
            None => (None, None),
        }
    }

    /// Returns whether the member owns all its partitions.
    fn is_settled(&self) -> bool {
        self.lock().is_settled()
    }
}

fn partitions(offsets: Vec<(PartitionTuple, i64)>) -> Vec<(BrokerPartition, i64)> {
    let partition = |(topic, broker, partition)| BrokerPartition { topic, broker, partition };
    offsets.into_iter().map(|(tuple, offset)| (partition(tuple), offset)).collect()
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn time(seconds: f64) -> Time {
    Time::default() + duration(seconds)
}
