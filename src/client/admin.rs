//! The admin client's calls, for topics, configurations, groups and records.

use super::config::{ClientType, Config};
use super::core::{Client, RunsOps};
use super::shared::{ClientRole, Shared, State};
use super::{Cluster, Error, Pending, Route};
use crate::api::ErrorCode;
use crate::engine::metrics::Family;
use crate::engine::ops::{
    ByName, Completion, Condition, Confirm, Describe, Item, ItemResult, Knowing, Op, Ops, Output, SegmentOffsets,
};
use crate::engine::{Endpoints, Time};
use crate::wire::Value;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// The admin client's state machine, which identifies each operation by its completion.
pub type Machine = Ops<Completion>;

/// The APIs for which an admin client may talk to controllers (KIP-919).
const OF_CONTROLLERS: &[&str] = &[
    "AddRaftVoter",
    "AlterConfigs",
    "AlterPartitionReassignments",
    "ApiVersions",
    "CreateAcls",
    "DeleteAcls",
    "DescribeAcls",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeQuorum",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "ListPartitionReassignments",
    "RemoveRaftVoter",
    "UnregisterBroker",
    "UnregisterController",
    "UpdateFeatures",
];

/// Manages topics, configurations and groups.
pub type Admin = Client<Machine>;

impl ClientRole for Machine {
    type Locked = ();
    type Unlocked = ();
    type Done = (Completion, Result<Output, Error>);
    const METRICS: &str = "admin-client";

    fn families(_state: &State<Self>, _unlocked: &(), _now: Time) -> Vec<Family> {
        Vec::new()
    }

    fn poll_done(state: &mut State<Self>, _unlocked: &()) -> Option<Self::Done> {
        state.role.poll_done()
    }

    fn deliver((completion, result): Self::Done, _shared: &Shared<Self>) {
        completion(result);
    }

    fn fail_all(state: &mut State<Self>, error: &Error) {
        state.role.fail_all(error);
    }
}

impl RunsOps for Machine {
    fn start_op(&mut self, now: Time, op: Box<dyn Op>, timeout: Duration, completion: Completion) {
        self.start(now, op, timeout, completion);
    }
}

impl Client<Machine> {
    /// Creates an admin client, which connects when it is first used.
    pub fn new(config: &Config) -> Result<Self, Error> {
        config.expect(ClientType::Admin)?;
        Ok(Self::start(Ops::new(config.retry_backoff()), (), config.connecting()?, config.api_timeout()))
    }

    /// Sends a request of the named API with these fields, and returns the fields of the response.
    pub fn call(
        &self,
        api: &str,
        fields: Value,
        route: Route,
        versions: RangeInclusive<i16>,
        timeout: Option<Duration>,
    ) -> Result<Pending<ItemResult>, Error> {
        let op = ByName::new(api, fields, self.routed(route), versions)?;
        self.start_by_name(api, op, timeout, |output| match output {
            Output::Items(mut items) => items.pop(),
            _ => None,
        })
    }

    /// Sends requests of the named API for many items, and returns the result of each item. [`ByName::for_items`]
    /// describes `path`.
    pub fn call_for_items(
        &self,
        api: &str,
        path: &str,
        items: Vec<Item>,
        versions: RangeInclusive<i16>,
        timeout: Option<Duration>,
    ) -> Result<Pending<Vec<ItemResult>>, Error> {
        let items = items.into_iter().map(|item| Item { route: self.routed(item.route), ..item }).collect();
        let op = ByName::for_items(api, path, items, versions)?;
        self.start_by_name(api, op, timeout, |output| match output {
            Output::Items(items) => Some(items),
            _ => None,
        })
    }

    /// Waits until brokers report that a change is complete. Returns why it is not complete at the deadline, or `None`.
    pub fn confirm(
        &self,
        conditions: Vec<(String, Condition)>,
        knowing: Knowing,
        timeout: Option<Duration>,
    ) -> Result<Pending<Option<Error>>, Error> {
        self.op(Confirm::new(conditions, knowing), timeout, |output| match output {
            Output::Confirmed(why) => Some(why),
            _ => None,
        })
    }

    fn start_by_name<T: Send + 'static>(
        &self,
        api: &str,
        op: ByName,
        timeout: Option<Duration>,
        convert: fn(Output) -> Option<T>,
    ) -> Result<Pending<T>, Error> {
        self.check_served(api)?;
        let op = if self.endpoints() == Endpoints::Controllers { op.for_unknown_brokers() } else { op };
        self.op(op, timeout, convert)
    }

    fn routed(&self, route: Route) -> Route {
        match (route, self.endpoints()) {
            // Other controllers would refuse most requests.
            (Route::Any, Endpoints::Controllers) => Route::Controller,
            (route, _) => route,
        }
    }

    /// Returns for each partition the end of its log and the start offsets of the segments that were written before a
    /// timestamp. The newest offset comes first, and each partition has at most `limit` offsets. Brokers before 0.10.1
    /// look up timestamps in this way.
    pub fn offsets_before(
        &self,
        wanted: Vec<(Arc<str>, i32, i64)>,
        limit: i32,
        timeout: Option<Duration>,
    ) -> Result<Pending<Vec<Vec<i64>>>, Error> {
        self.check_served("ListOffsets")?;
        self.op(SegmentOffsets::new(wanted, limit), timeout, |output| match output {
            Output::Segments(offsets) => Some(offsets),
            _ => None,
        })
    }

    /// Returns the brokers, the controller, and these topics, or all topics with `None`.
    pub fn describe(
        &self,
        topics: Option<Vec<String>>,
        timeout: Option<Duration>,
    ) -> Result<Pending<Arc<Cluster>>, Error> {
        self.check_served("Metadata")?;
        // Brokers treat a duplicate name as an unknown topic.
        let topics = topics.map(|topics| topics.into_iter().collect::<BTreeSet<_>>().into_iter().collect());
        self.op(Describe::new(topics), timeout, |output| match output {
            Output::Cluster(cluster) => Some(cluster),
            _ => None,
        })
    }

    /// Fails if the client talks to controllers, and controllers do not support the API.
    pub fn check_served(&self, api: &str) -> Result<(), Error> {
        if self.endpoints() == Endpoints::Brokers || OF_CONTROLLERS.contains(&api) {
            return Ok(());
        }
        let error = Error::refused(ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, api);
        let why = format!("{api} needs a broker, but the client talks to controllers");
        Err(error.with_message(why).with_hint("create the client with bootstrap.servers for this call"))
    }
}
