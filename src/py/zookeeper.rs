//! `ZooKeeperMember`: membership of a group of Kafka 0.7, for `klamm.legacy`, whose thread talks to ZooKeeper.

use super::error::exception;
use crate::client::Time;
use crate::client::zookeeper::{self, BrokerPartition, Config, Event, Input, Operation, OperationResult, Subscription};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A topic, a broker, a partition.
type Place = (String, u32, u32);
/// Its number, what to do, a path or a pattern, data, names.
type Asked = (u64, &'static str, String, String, Vec<String>);
/// What it is, and the places it is about, each with its stream and the offset to begin at.
type Said = (&'static str, Vec<(Place, u32, Option<i64>)>);

/// The machine; times are seconds of any one clock.
#[pyclass(frozen, module = "klamm._klamm")]
pub(super) struct ZooKeeperMember(Mutex<zookeeper::ZooKeeperMember>);

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

    /// The answer to an operation: `done`, `missing`, `exists` or `failed`, `names` with them, `data` with that.
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
        let answer = match (what, names, data) {
            ("done", ..) => OperationResult::Done,
            ("missing", ..) => OperationResult::Missing,
            ("exists", ..) => OperationResult::Exists,
            ("failed", ..) => OperationResult::Failed,
            ("names", Some(names), _) => OperationResult::Names(names),
            ("data", _, Some(data)) => OperationResult::Data(data),
            _ => return Err(exception(py, "ConfigError", &format!("there is no answer {what:?}"), None)),
        };
        self.lock().handle(time(now), Input::Answered(number, answer));
        Ok(())
    }

    fn stopped(&self, now: f64, offsets: Vec<(Place, i64)>) {
        self.lock().handle(time(now), Input::Stopped(shares(offsets)));
    }

    fn commit(&self, now: f64, offsets: Vec<(Place, i64)>) {
        self.lock().handle(time(now), Input::Commit(shares(offsets)));
    }

    /// Does what is due.
    fn tick(&self, now: f64) {
        self.lock().handle_timeout(time(now));
    }

    /// When something is due.
    fn due(&self) -> Option<f64> {
        self.lock().next_timeout().map(|at| at.since(Time::default()).as_secs_f64())
    }

    /// What to do with the tree next.
    fn operation(&self) -> Option<Asked> {
        let (number, operation) = self.lock().poll_operation()?;
        Some(match operation {
            Operation::Children(path) => (number, "children", path, String::new(), Vec::new()),
            Operation::Read(path) => (number, "read", path, String::new(), Vec::new()),
            Operation::Create(path, data) => (number, "create", path, data, Vec::new()),
            Operation::Delete(path, data) => (number, "delete", path, data, Vec::new()),
            Operation::Write(path, data) => (number, "write", path, data, Vec::new()),
            Operation::Match(pattern, names) => (number, "match", pattern, String::new(), names),
        })
    }

    /// What to say to readers next: `start`, `stop` or `lost`.
    fn event(&self) -> Option<Said> {
        let place = |share: BrokerPartition| (share.topic, share.broker, share.partition);
        Some(match self.lock().poll_event()? {
            Event::Start(shares) => {
                ("start", shares.into_iter().map(|(share, stream, offset)| (place(share), stream, offset)).collect())
            }
            Event::Stop(shares) => ("stop", shares.into_iter().map(|share| (place(share), 0, None)).collect()),
            Event::Lost => ("lost", Vec::new()),
        })
    }

    /// Whether offsets are still to be written.
    fn is_committing(&self) -> bool {
        self.lock().is_committing()
    }

    /// Whether it owns all that it should.
    fn is_settled(&self) -> bool {
        self.lock().is_settled()
    }
}

fn shares(offsets: Vec<(Place, i64)>) -> Vec<(BrokerPartition, i64)> {
    let share = |(topic, broker, partition)| BrokerPartition { topic, broker, partition };
    offsets.into_iter().map(|(place, offset)| (share(place), offset)).collect()
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn time(seconds: f64) -> Time {
    Time::default() + duration(seconds)
}
