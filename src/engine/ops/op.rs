//! The interface of operations: the trait that each operation implements, the calls that an operation can make while it
//! runs, and the types of results.
//!
//! `mod.rs` runs operations. Each operation is in a file of its own.

use super::item::ItemResult;
use crate::api::Request;
use crate::engine::call::AtLeast;
use crate::engine::{Call, Cluster, Error, MetadataDemand, Reply, Target, Time};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The result of an operation.
#[derive(Clone, Debug)]
pub enum Output {
    /// Success without a value.
    Done,
    /// For each partition, an offset and its timestamp (-1 for none), or `None` if the partition has no matching
    /// record.
    Offsets(Vec<Option<(i64, i64)>>),
    /// For each partition, the start offsets of its segments and the end of its log, the newest first.
    Segments(Vec<Vec<i64>>),
    /// For each partition, the leader epoch and its end offset, or -1 if the broker does not know this or an older
    /// epoch.
    EpochEnds(Vec<(i32, i64)>),
    /// For each partition, the committed offset.
    Committed(Vec<Option<CommittedOffset>>),
    /// The committed offsets of the partitions at these positions of the list, while open transactions contain offsets
    /// of the others.
    StableCommitted(Vec<(usize, Option<CommittedOffset>)>),
    /// Brokers and topics.
    Cluster(Arc<Cluster>),
    /// Partition numbers.
    Partitions(Vec<i32>),
    /// Why a change is not confirmed at the deadline, or `None` if it is confirmed.
    Confirmed(Option<Error>),
    /// For each item, its result.
    Items(Vec<ItemResult>),
}

/// A committed offset, which is the next offset that a consumer of the group reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// The next offset to read.
    pub offset: i64,
    /// The leader epoch of the record before this offset, or -1 if unknown.
    pub leader_epoch: i32,
    /// Text that the application stores together with the offset.
    pub metadata: String,
    /// The time of the commit in milliseconds since 1970, or -1 for the time when the broker receives it. The client
    /// can never read this time back.
    pub timestamp: i64,
}

impl CommittedOffset {
    /// Creates an offset without leader epoch, metadata and timestamp.
    pub fn new(topic: Arc<str>, partition: i32, offset: i64) -> Self {
        Self { topic, partition, offset, leader_epoch: -1, metadata: String::new(), timestamp: -1 }
    }
}

/// The context of a running operation.
pub struct OpContext<'a> {
    /// The time.
    pub now: Time,
    /// The state of the cluster.
    pub cluster: &'a Arc<Cluster>,
    pub(super) demand: &'a mut MetadataDemand,
    /// The topics whose metadata the operation needs.
    pub(super) wanted: &'a mut BTreeSet<Arc<str>>,
    pub(super) sent: Vec<(Target, Box<dyn Call>, u32, i16)>,
}

impl OpContext<'_> {
    /// Sends a request. `part` comes back with the response.
    pub fn send(&mut self, target: Target, request: impl Request, part: u32) {
        self.send_at_most(target, request, part, i16::MAX);
    }

    /// Sends a request in a version up to `max_version`.
    pub fn send_at_most(&mut self, target: Target, request: impl Request, part: u32, max_version: i16) {
        self.sent.push((target, Box::new(request), part, max_version));
    }

    /// Sends a request in a version from `min` to `max`.
    pub fn send_within(&mut self, target: Target, request: impl Request, part: u32, min: i16, max: i16) {
        self.sent.push((target, Box::new(AtLeast(request, min)), part, max));
    }

    /// Sends a request that determines its oldest version itself.
    pub fn send_call(&mut self, target: Target, call: impl Call + 'static, part: u32) {
        self.send_call_at_most(target, call, part, i16::MAX);
    }

    /// Sends a request that determines its oldest version itself, in a version up to `max_version`.
    pub fn send_call_at_most(&mut self, target: Target, call: impl Call + 'static, part: u32, max_version: i16) {
        self.sent.push((target, Box::new(call), part, max_version));
    }

    /// Demands metadata of a topic.
    pub fn want_topic(&mut self, topic: &Arc<str>) {
        self.wanted.insert(topic.clone());
        self.demand.topics.insert(topic.clone());
    }

    /// Returns whether the brokers are known. If not, demands metadata.
    pub fn knows_brokers(&mut self) -> bool {
        let knows = !self.cluster.brokers.is_empty();
        self.demand.refresh |= !knows;
        knows
    }

    /// Demands new metadata, because the known metadata is stale.
    pub fn refresh(&mut self) {
        self.demand.refresh = true;
    }
}

/// Returns why an item has no result yet. The arguments are the item's request in flight and the error of its last attempt.
pub type Explain<'a> = dyn Fn(Option<u32>, Option<&Error>) -> Error + 'a;

/// An operation, which sends requests until it has a result.
pub trait Op: Send {
    /// Returns the name of the operation for messages, such as `list offsets`.
    fn name(&self) -> &'static str;
    /// Returns whether the operation only reads. After an unexpected error, it is then retried for some seconds.
    fn only_reads(&self) -> bool {
        false
    }
    /// Returns whether the operation decides itself which errors are final. An error that it returns then only delays the
    /// next attempt.
    fn handles_errors(&self) -> bool {
        false
    }
    /// Returns whether `step` has to be called again although requests are in flight.
    fn has_idle_items(&self) -> bool {
        false
    }
    /// Ends the operation at the deadline, and returns the results of the items that are done. `time` is the timeout.
    /// Without an output, the whole operation fails.
    fn expire(&mut self, _time: Duration, _explain: &Explain<'_>) -> Option<Output> {
        None
    }
    /// Sends the missing requests.
    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error>;
    /// Handles a response. After a retriable error, the operation retries. Any other error ends the operation.
    fn take(&mut self, cx: &mut OpContext<'_>, part: u32, node: i32, reply: Reply) -> Result<(), Error>;
    /// Notes that a request had no response. Another broker may now be responsible.
    fn lost(&mut self) {}
    /// Handles the error of a request without a response.
    fn fail(&mut self, _cx: &mut OpContext<'_>, _part: u32, error: Error) -> Result<(), Error> {
        self.lost();
        Err(error)
    }
    /// Returns the result, if no response is missing.
    fn output(&mut self) -> Option<Output>;
}
