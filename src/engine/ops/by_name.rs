//! Operations for which a single response is the result. The caller selects the API by its name.
//!
//! The caller accesses the fields of the request and the response by name. The operation finds the broker to which the
//! request goes. The operation repeats the request as long as a broker responds that another broker is responsible, or
//! that the coordinator is not ready yet. The caller handles the errors in a response that do not cause a retry.

use super::op::{Op, OpContext, Output};
use crate::api::{self, Entry, ErrorCode, Info};
use crate::engine::call::malformed;
use crate::engine::{Call, Error, ErrorKind, Reply, Target, Time, coordinator};
use crate::wire::{Value, Writer};
use std::ops::RangeInclusive;

/// The broker to which a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// Any broker.
    Any,
    /// The controller.
    Controller,
    /// The broker with this ID.
    Broker(i32),
    /// The coordinator of a key. The number is the key type of FindCoordinator.
    Coordinator(i8, String),
}

impl Route {
    /// Returns the errors after which the operation sends the request to another broker, or sends it later. If the
    /// caller has chosen a broker by its ID, the caller handles the errors about other leaders.
    fn moved(&self) -> &'static [ErrorCode] {
        match self {
            Self::Controller => &[ErrorCode::NOT_CONTROLLER, ErrorCode::NOT_LEADER_OR_FOLLOWER],
            Self::Any | Self::Broker(_) => {
                &[ErrorCode::COORDINATOR_NOT_AVAILABLE, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS]
            }
            Self::Coordinator(..) => &[
                ErrorCode::NOT_COORDINATOR,
                ErrorCode::COORDINATOR_NOT_AVAILABLE,
                ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ],
        }
    }
}

/// A request whose API and fields are given by name.
pub struct ByName {
    entry: &'static Entry,
    fields: Value,
    min: i16,
    max: i16,
    route: Route,
    coordinator: Option<i32>,
    /// When the first metadata response without the broker of the route arrived.
    missing_since: Option<Time>,
    /// Whether the metadata need not have the broker of the route.
    takes_unknown_brokers: bool,
    /// Whether an attempt had no response, so that the broker may already have made the change.
    repeated: bool,
    found: Option<Value>,
}

impl ByName {
    /// Creates an operation that sends the request in one of `versions`. Fails if there is no such API, or if none of
    /// the versions has all fields.
    pub fn new(name: &str, fields: Value, route: Route, versions: RangeInclusive<i16>) -> Result<Self, Error> {
        let Some(entry) = api::by_name(name) else {
            return Err(Error::new(ErrorKind::Config, format!("there is no API {name:?}")));
        };
        let fits = |version: &i16| entry.request.encode(*version, fields.clone()).map(|_| ());
        let (first, last) = (entry.info.min.max(*versions.start()), entry.info.max_stable.min(*versions.end()));
        let mut fitting = (first..=last).filter(|version| fits(version).is_ok());
        let Some(min) = fitting.next() else {
            let why = fits(&last).err().map_or_else(String::new, |error| error.to_string());
            return Err(Error::new(ErrorKind::Config, why));
        };
        let max = fitting.next_back().unwrap_or(min);
        Ok(Self {
            entry,
            min,
            max,
            fields,
            route,
            coordinator: None,
            missing_since: None,
            takes_unknown_brokers: false,
            repeated: false,
            found: None,
        })
    }

    /// Sends the request even if the metadata does not have the broker of the route. Controllers answer for brokers, which
    /// are not in the metadata of controllers.
    pub fn for_unknown_brokers(self) -> Self {
        Self { takes_unknown_brokers: true, ..self }
    }

    fn target(&mut self, cx: &mut OpContext<'_>) -> Result<Option<Target>, Error> {
        if !cx.knows_brokers() {
            return Ok(None);
        }
        Ok(Some(match &self.route {
            Route::Any => Target::Any,
            Route::Controller => Target::Controller,
            Route::Broker(id) if self.takes_unknown_brokers || cx.cluster.brokers.contains_key(id) => {
                self.missing_since = None;
                Target::Node(*id)
            }
            Route::Broker(id) => return Err(self.missing_broker(*id, cx.cluster.updated_at)),
            Route::Coordinator(key_type, key) => {
                match self.coordinator.filter(|n| cx.cluster.brokers.contains_key(n)) {
                    Some(node) => Target::Node(node),
                    None => {
                        cx.send_call(Target::Any, coordinator::request(*key_type, key), COORDINATOR);
                        return Ok(None);
                    }
                }
            }
        }))
    }

    /// Returns the error for a broker that is not in the metadata. The error is retriable until a second response lacks
    /// the broker, because the first response may be stale.
    fn missing_broker(&mut self, id: i32, updated_at: Time) -> Error {
        let message = format!("broker {id} is not in the metadata of the cluster");
        if *self.missing_since.get_or_insert(updated_at) == updated_at {
            return Error::new(ErrorKind::Network, message);
        }
        Error::refused(ErrorCode::BROKER_NOT_AVAILABLE, format!("{}: {message}", self.name())).with_hint(
            "check the broker ID, and whether the broker runs; describe_cluster returns the brokers that run",
        )
    }
}

impl Op for ByName {
    fn name(&self) -> &'static str {
        self.entry.info.name
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        if let Some(target) = self.target(cx)? {
            let call = NamedCall { entry: self.entry, fields: self.fields.clone(), min: self.min };
            cx.send_call_at_most(target, call, RESPONSE, self.max);
        }
        Ok(())
    }

    fn take(&mut self, cx: &mut OpContext<'_>, part: u32, node: i32, reply: Reply) -> Result<(), Error> {
        if part == COORDINATOR {
            let Route::Coordinator(_, key) = &self.route else { return Ok(()) };
            self.coordinator = Some(coordinator::read(reply, format_args!("{key:?}"))?);
            return self.step(cx);
        }
        // As Java's client, this ignores bytes after the body.
        let decoded = self.entry.response.decode_prefix(reply.version, reply.body).map_err(malformed)?;
        if let Some(code) = misdirected(&decoded.value, self.route.moved()) {
            if coordinator::is_moved(code) {
                self.coordinator = None;
            }
            return Err(Error::refused(code, self.name()));
        }
        self.found = Some(decoded.value);
        if let Some(Value::Struct(fields)) = &mut self.found {
            fields.push(("repeated".into(), Value::Bool(self.repeated)));
            fields.push(("broker".into(), Value::Int(node.into())));
        }
        Ok(())
    }

    fn lost(&mut self) {
        self.coordinator = None;
        self.repeated = true;
    }

    fn output(&mut self) -> Option<Output> {
        self.found.take().map(Output::Response)
    }
}

struct NamedCall {
    entry: &'static Entry,
    fields: Value,
    min: i16,
}

impl Call for NamedCall {
    fn api(&self) -> &'static Info {
        self.entry.info
    }

    fn put(&self, w: &mut Writer) {
        match self.entry.request.encode(w.version, self.fields.clone()) {
            Ok(body) => w.buf.extend(body),
            Err(error) => w.fail(error.reason().clone()),
        }
    }

    fn min_version(&self) -> i16 {
        self.min
    }
}

/// Returns the first error in a response that is in `moved`.
fn misdirected(value: &Value, moved: &[ErrorCode]) -> Option<ErrorCode> {
    match value {
        Value::Struct(fields) => fields.iter().find_map(|(name, value)| match value {
            Value::Int(code) if &**name == "errorCode" => {
                moved.iter().copied().find(|known| i64::from(known.0) == *code)
            }
            value => misdirected(value, moved),
        }),
        Value::List(items) => items.iter().find_map(|item| misdirected(item, moved)),
        _ => None,
    }
}

const COORDINATOR: u32 = 0;
const RESPONSE: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{list_groups, metadata};
    use crate::engine::{ClientResponse, Cluster, Role};
    use std::sync::Arc;
    use std::time::Duration;

    fn metadata(topic: &str) -> metadata::Response {
        let partition = metadata::Partition { leader_id: 1, ..Default::default() };
        let topic = metadata::Topic { name: Some(topic.to_owned()), partitions: vec![partition], ..Default::default() };
        let broker = metadata::Broker { node_id: 1, host: "h".to_owned(), port: 1, ..Default::default() };
        metadata::Response { brokers: vec![broker], topics: vec![topic], ..Default::default() }
    }

    #[test]
    fn a_malformed_answer_is_asked_for_again_and_three_are_an_error() {
        for malformed in [2, 3] {
            let cluster = Arc::new(Cluster::default().updated(Time(1), metadata("t"), true));
            let mut ops = super::super::Ops::new((Duration::from_millis(1), Duration::from_millis(1)));
            ops.handle_cluster(Time(1), &cluster);
            let fields = Value::Struct(Vec::new());
            let op = ByName::new("ListGroups", fields, Route::Any, 0..=i16::MAX).unwrap();
            ops.start(Time(1), Box::new(op), Duration::from_secs(60), ());
            let whole = api::encode(0, &list_groups::Response::default()).unwrap();
            let mut result = None;
            for round in 0..=malformed {
                let now = Time(1 + 1_000_000 * round);
                ops.handle_timeout(now);
                let Some(sent) = ops.poll_send(now) else { break };
                let body = if round < malformed { whole[1..].to_vec() } else { whole.clone() };
                let reply = Ok(Reply { version: 0, body: body.into() });
                ops.handle_response(now, ClientResponse { token: sent.token, node: 1, result: reply });
                result = result.or(ops.poll_done());
            }
            let error = result.expect("an end").1.err();
            assert_eq!(error.map(|e| e.kind()), (malformed == 3).then_some(ErrorKind::Decode));
        }
    }

    #[test]
    fn a_broker_that_two_metadata_responses_lack_is_an_error() {
        let mut ops = super::super::Ops::new((Duration::from_millis(1), Duration::from_millis(1)));
        let op = ByName::new("ListGroups", Value::Struct(Vec::new()), Route::Broker(99), 0..=i16::MAX).unwrap();
        ops.start(Time(0), Box::new(op), Duration::from_secs(60), ());
        let mut responses = 0;
        let error = loop {
            let now = Time(1_000_000 * (responses + 1));
            assert!(ops.poll_demand().is_some_and(|demand| demand.refresh));
            responses += 1;
            ops.handle_cluster(now, &Arc::new(Cluster::default().updated(now, metadata("t"), true)));
            ops.handle_timeout(now);
            if let Some(((), result)) = ops.poll_done() {
                break result.unwrap_err();
            }
        };
        assert_eq!((responses, error.code()), (2, Some(ErrorCode::BROKER_NOT_AVAILABLE)));
        assert!(ops.poll_send(Time(0)).is_none());
    }
}
