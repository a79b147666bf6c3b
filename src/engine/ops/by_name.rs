//! Operations whose API and fields are given by name: one request, or requests for many items.
//!
//! An item is a topic, a partition, a group or another thing that a request can name. The operation finds the broker of
//! each item, sends each broker one request, and reads one result for each item. An item whose error is transient is
//! retried with the configured backoff, until it has a result or the deadline has passed. The caller builds the fields
//! of each item and reads the fields of each result.

use super::fields::{Failure, Level, NamedCall, collect, first_failure, fitting_versions, merged, refused};
use super::item::{Item, ItemResult, Progress, Route};
use super::op::{Explain, Op, OpContext, Output};
use super::{WAIT_LONGER, by_leader};
use crate::api::{self, Entry, ErrorCode};
use crate::engine::call::malformed;
use crate::engine::{Error, ErrorKind, Reply, Target, coordinator};
use crate::wire::Value;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::time::Duration;

/// A request in flight.
enum Sent {
    /// FindCoordinator, for these items.
    Lookup(Vec<usize>),
    /// The request of these items.
    Request(Vec<usize>),
}

/// Where an item can go now.
enum Next {
    Send(Target),
    Find(i8, String),
    WaitForMetadata,
}

/// How a response is read.
enum Reading {
    /// The response is the result. The caller handles all errors but those about another broker.
    Response,
    /// The response is the result of the only item in the request, and its first error is the error of the item.
    Single,
    /// The results are in lists of the response.
    Lists(Vec<Level>),
}

/// Requests whose API and fields are given by name.
pub struct ByName {
    entry: &'static Entry,
    reading: Reading,
    items: Vec<Progress>,
    sent: BTreeMap<u32, Sent>,
    next_part: u32,
    /// Whether the metadata need not have the broker of a route.
    takes_unknown_brokers: bool,
}

impl ByName {
    /// Creates an operation that sends one request. Its result is the response with two more fields: `repeated` says
    /// whether an earlier attempt had no response, and `broker` is the ID of the broker that responded. The caller handles
    /// the errors in the response, except for those that tell that another broker is responsible. The operation fails if
    /// there is no such API, or if none of `versions` has all fields.
    pub fn new(name: &str, fields: Value, route: Route, versions: RangeInclusive<i16>) -> Result<Self, Error> {
        let item = Item { fields, route, tried: name.to_owned(), key: Vec::new(), location: None };
        Self::reading(name, Reading::Response, vec![item], &versions)
    }

    /// Creates an operation for many items.
    ///
    /// `path` says where a response has the results: the names of nested lists, each with the fields that identify an
    /// element, such as `topics:name/partitions:partitionIndex`. The values of these fields are the key of an item. If
    /// the path is empty, each item has a request of its own, and the response is the result.
    pub fn for_items(name: &str, path: &str, items: Vec<Item>, versions: RangeInclusive<i16>) -> Result<Self, Error> {
        let reading = match path {
            "" => Reading::Single,
            path => Reading::Lists(Level::parse(path)),
        };
        Self::reading(name, reading, items, &versions)
    }

    fn reading(name: &str, reading: Reading, items: Vec<Item>, versions: &RangeInclusive<i16>) -> Result<Self, Error> {
        let Some(entry) = api::by_name(name) else {
            return Err(Error::new(ErrorKind::Config, format!("there is no API {name:?}")));
        };
        let shared = match &reading {
            Reading::Lists(_) => {
                Some(fitting_versions(entry, &merged(items.iter().map(|item| &item.fields)), versions)?)
            }
            Reading::Response | Reading::Single => None,
        };
        let progress = |item: Item| {
            let versions = match shared {
                Some(versions) => versions,
                None => fitting_versions(entry, &item.fields, versions)?,
            };
            Ok(Progress {
                item,
                versions,
                coordinator: None,
                part: None,
                repeated: false,
                error: None,
                failures: 0,
                checked_at: None,
                result: None,
            })
        };
        let items = items.into_iter().map(progress).collect::<Result<_, Error>>()?;
        Ok(Self { entry, reading, items, sent: BTreeMap::new(), next_part: 0, takes_unknown_brokers: false })
    }

    /// Sends requests even if the metadata does not have the broker of a route. Controllers answer for brokers, which
    /// are not in the metadata of controllers.
    pub fn for_unknown_brokers(self) -> Self {
        Self { takes_unknown_brokers: true, ..self }
    }

    /// Returns where an item can go now, or the error of an item without a broker.
    fn next(&self, cx: &mut OpContext<'_>, at: usize) -> Result<Next, Error> {
        let Some(Progress { item, coordinator, .. }) = self.items.get(at) else { return Ok(Next::WaitForMetadata) };
        Ok(match &item.route {
            Route::Any => Next::Send(Target::Any),
            Route::Controller => Next::Send(Target::Controller),
            Route::Broker(id) if self.takes_unknown_brokers || cx.cluster.brokers.contains_key(id) => {
                Next::Send(Target::Node(*id))
            }
            Route::Broker(id) => {
                let tried = format!("{}: broker {id} is not in the metadata of the cluster", item.tried);
                return Err(Error::refused(ErrorCode::BROKER_NOT_AVAILABLE, item.tried.as_str())
                    .with_message(tried)
                    .with_hint(
                        "check the broker ID, and whether the broker runs; describe_cluster returns the brokers that run",
                    ));
            }
            Route::Coordinator(key_type, key) => match coordinator.filter(|n| cx.cluster.brokers.contains_key(n)) {
                Some(node) => Next::Send(Target::Node(node)),
                None => Next::Find(*key_type, key.clone()),
            },
            Route::Leader(topic, partition) => match by_leader::leader(cx, topic, *partition) {
                Ok(Some(leader)) => Next::Send(Target::Node(leader)),
                Ok(None) => Next::WaitForMetadata,
                Err(error) => return Err(error.code().map_or(error, |code| item.refused(code, None))),
            },
        })
    }

    /// Sends the requests of items that have a broker, and looks up the coordinators of others.
    fn send(&mut self, cx: &mut OpContext<'_>, items: Vec<usize>) -> Result<(), Error> {
        let mut last = Ok(());
        let mut lookups: BTreeMap<(i8, String), Vec<usize>> = BTreeMap::new();
        let mut requests: Vec<(Target, Vec<usize>)> = Vec::new();
        for at in items {
            match self.next(cx, at) {
                Ok(Next::Send(target)) => match requests.iter_mut().find(|(other, _)| *other == target) {
                    Some((_, items)) if matches!(self.reading, Reading::Lists(_)) => items.push(at),
                    _ => requests.push((target, vec![at])),
                },
                Ok(Next::Find(key_type, key)) => lookups.entry((key_type, key)).or_default().push(at),
                Ok(Next::WaitForMetadata) => {}
                Err(error) => last = self.fail_unroutable(cx, at, error).and(last),
            }
        }
        for ((key_type, key), items) in lookups {
            let part = self.begin(Sent::Lookup(items));
            cx.send_call(Target::Any, coordinator::request(key_type, &key), part);
        }
        for (target, mut items) in requests {
            // Partitions of a topic have to follow one another to be merged.
            items.sort_by_key(|at| self.items.get(*at).and_then(|progress| progress.item.key.first()));
            let of_request = || items.iter().filter_map(|at| self.items.get(*at));
            let fields = merged(of_request().map(|progress| &progress.item.fields));
            let (min, max) = of_request().next().map_or((0, 0), |progress| progress.versions);
            let part = self.begin(Sent::Request(items));
            cx.send_call_at_most(target, NamedCall { entry: self.entry, fields, min }, part, max);
        }
        last
    }

    fn begin(&mut self, sent: Sent) -> u32 {
        let part = self.next_part;
        self.next_part += 1;
        let (Sent::Lookup(items) | Sent::Request(items)) = &sent;
        for at in items {
            if let Some(progress) = self.items.get_mut(*at) {
                progress.part = Some(part);
            }
        }
        self.sent.insert(part, sent);
        part
    }

    /// Handles the error of an item for which the metadata has no broker. The same metadata counts only once.
    fn fail_unroutable(&mut self, cx: &OpContext<'_>, at: usize, error: Error) -> Result<(), Error> {
        let Some(progress) = self.items.get_mut(at) else { return Ok(()) };
        if progress.checked_at.replace(cx.cluster.updated_at) == Some(cx.cluster.updated_at) {
            return Err(error);
        }
        progress.fail(error)
    }

    /// Handles an error that several items share.
    fn fail_items(&mut self, items: &[usize], error: &Error) -> Result<(), Error> {
        let mut last = Ok(());
        for at in items {
            last = self.settle(*at, Err(error.clone())).and(last);
        }
        last
    }

    fn settle(&mut self, at: usize, result: Result<Value, Error>) -> Result<(), Error> {
        let Some(progress) = self.items.get_mut(at) else { return Ok(()) };
        progress.part = None;
        match result {
            Ok(value) => progress.result = Some(Ok(value)),
            Err(error) => progress.fail(error)?,
        }
        Ok(())
    }

    /// Reads the results of the items of a request.
    fn read(&mut self, node: &Responder, items: &[usize], response: Value) -> Result<(), Error> {
        let Reading::Lists(levels) = &self.reading else {
            // Such a request has one item.
            return items.first().map_or(Ok(()), |at| self.read_whole(node, *at, response));
        };
        if let Some(failure) = Failure::of(&response, None) {
            let mut tried = items.iter().filter_map(|at| Some(self.items.get(*at)?.item.tried.as_str()));
            let first = tried.next().unwrap_or_default();
            let tried = if tried.all(|other| other == first) { first } else { self.entry.info.name };
            let error = refused(failure.code, tried, failure.why);
            return self.fail_items(items, &node.place(error));
        }
        let mut found = HashMap::new();
        collect(response, levels, &mut Vec::new(), &mut found);
        let mut last = Ok(());
        for at in items {
            let Some(progress) = self.items.get(*at) else { continue };
            let result = match found.remove(&progress.item.key) {
                None => {
                    let message = format!("{}: the response has no result", progress.item.tried);
                    Err(progress.item.locate(Error::new(ErrorKind::Decode, message)))
                }
                Some(value) => match Failure::of(&value, None) {
                    Some(failure) => Err(progress.item.refused(failure.code, failure.why)),
                    None => Ok(value),
                },
            };
            last = self.settle(*at, result.map_err(|error| node.place(error))).and(last);
        }
        last
    }

    /// Reads a response that is the result of one item.
    fn read_whole(&mut self, node: &Responder, at: usize, mut response: Value) -> Result<(), Error> {
        let Some(progress) = self.items.get(at) else { return Ok(()) };
        let item = &progress.item;
        let error = match self.reading {
            Reading::Response => {
                let moved = |failure: &Failure<'_>| item.route.moved().contains(&failure.code);
                first_failure(&response, None, &moved).map(|failure| Error::refused(failure.code, item.tried.as_str()))
            }
            _ => first_failure(&response, None, &|_| true).map(|failure| {
                let error = item.refused(failure.code, failure.why);
                match (failure.topic, failure.partition) {
                    (Some(topic), Some(partition)) => error.at(&topic.into(), partition),
                    _ => error,
                }
            }),
        };
        if let Some(error) = error {
            return self.settle(at, Err(node.place(error)));
        }
        if let Value::Struct(fields) = &mut response {
            fields.push(("repeated".into(), Value::Bool(progress.repeated)));
            fields.push(("broker".into(), Value::Int(node.id.into())));
        }
        self.settle(at, Ok(response))
    }
}

impl Op for ByName {
    fn name(&self) -> &'static str {
        self.entry.info.name
    }

    fn handles_errors(&self) -> bool {
        true
    }

    fn has_idle_items(&self) -> bool {
        self.items.iter().any(Progress::is_idle)
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        if !cx.knows_brokers() {
            return Ok(());
        }
        let idle = self.items.iter().enumerate().filter(|(_, progress)| progress.is_idle()).map(|(at, _)| at).collect();
        self.send(cx, idle)
    }

    fn take(&mut self, cx: &mut OpContext<'_>, part: u32, node: i32, reply: Reply) -> Result<(), Error> {
        let node = Responder { id: node, address: cx.cluster.brokers.get(&node).map(|_| cx.cluster.address(node)) };
        match self.sent.remove(&part) {
            Some(Sent::Lookup(items)) => {
                let first = items.first().and_then(|at| self.items.get(*at));
                let Some(Route::Coordinator(_, key)) = first.map(|progress| &progress.item.route) else {
                    return Ok(());
                };
                match coordinator::read(reply, format_args!("{key:?}")) {
                    Ok(found) => {
                        for at in &items {
                            if let Some(progress) = self.items.get_mut(*at) {
                                (progress.coordinator, progress.part) = (Some(found), None);
                            }
                        }
                        self.send(cx, items)
                    }
                    Err(error) => self.fail_items(&items, &node.place(error)),
                }
            }
            Some(Sent::Request(items)) => {
                // As Java's client, this ignores bytes after the body.
                match self.entry.response.decode_prefix(reply.version, reply.body).map_err(malformed) {
                    Ok(decoded) => self.read(&node, &items, decoded.value),
                    Err(error) => self.fail_items(&items, &node.place(error)),
                }
            }
            None => Ok(()),
        }
    }

    fn fail(&mut self, _cx: &mut OpContext<'_>, part: u32, error: Error) -> Result<(), Error> {
        let Some(sent) = self.sent.remove(&part) else { return Ok(()) };
        let is_request = matches!(sent, Sent::Request(_));
        let (Sent::Lookup(items) | Sent::Request(items)) = sent;
        for at in &items {
            if let Some(progress) = self.items.get_mut(*at) {
                progress.coordinator = None;
                progress.repeated |= is_request;
            }
        }
        self.fail_items(&items, &error)
    }

    fn expire(&mut self, time: Duration, explain: &Explain<'_>) -> Option<Output> {
        let mut shared: Option<(Error, Error)> = None;
        for progress in self.items.iter_mut().filter(|progress| progress.result.is_none()) {
            let why = explain(progress.part, progress.error.as_ref());
            let error = match shared {
                // Items with the same reason share one error.
                Some((other, error)) if other.is_same(&why) => error,
                _ => {
                    let error = Error::in_vain(self.entry.info.name, time, &why, WAIT_LONGER);
                    if progress.part.is_some() { progress.item.locate(error) } else { error }
                }
            };
            progress.result = Some(Err(error.clone()));
            shared = Some((why, error));
        }
        self.output()
    }

    fn output(&mut self) -> Option<Output> {
        if self.items.iter().any(|progress| progress.result.is_none()) {
            return None;
        }
        let result = |Progress { result, repeated, .. }| Some(ItemResult { result: result?, repeated });
        Some(Output::Items(std::mem::take(&mut self.items).into_iter().filter_map(result).collect()))
    }
}

/// The broker of a response.
struct Responder {
    id: i32,
    address: Option<String>,
}

impl Responder {
    /// Adds the broker to an error.
    fn place(&self, error: Error) -> Error {
        match &self.address {
            Some(address) => error.from_broker(address).of_node(self.id),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{create_topics, delete_groups, describe_producers, list_groups, metadata};
    use crate::engine::call::MAX_MALFORMED;
    use crate::engine::ops::item::MAX_UNKNOWN_TOPIC;
    use crate::engine::ops::{OpToken, Ops};
    use crate::engine::{ClientResponse, Cluster, Outgoing, Role, Time};
    use std::sync::Arc;

    const BACKOFF: Duration = Duration::from_millis(1);

    struct Running {
        ops: Ops<()>,
        now: Time,
    }

    impl Running {
        fn new(op: ByName) -> Self {
            let mut ops = Ops::new((BACKOFF, BACKOFF));
            ops.start(Time(1), Box::new(op), Duration::from_secs(60), ());
            Self { ops, now: Time(1) }
        }

        /// Lets the backoff pass and new metadata arrive. Returns the requests.
        fn next(&mut self, topics: &[(&str, &[i32])]) -> Vec<Outgoing<OpToken>> {
            self.now = self.now + Duration::from_millis(2);
            let cluster = Cluster::default().updated(self.now, metadata(topics), true);
            self.ops.handle_cluster(self.now, &Arc::new(cluster));
            self.ops.handle_timeout(self.now);
            std::iter::from_fn(|| self.ops.poll_send(self.now)).collect()
        }

        fn answer(&mut self, request: &Outgoing<OpToken>, body: Vec<u8>, version: i16) {
            let node = if let Target::Node(node) = request.target { node } else { 1 };
            let result = Ok(Reply { version, body: body.into() });
            self.ops.handle_response(self.now, ClientResponse { token: request.token, node, result });
        }

        fn results(&mut self) -> Option<Vec<ItemResult>> {
            match self.ops.poll_done()?.1.unwrap() {
                Output::Items(items) => Some(items),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Returns metadata of brokers 1 and 2, and of topics with the leaders of their partitions.
    fn metadata(topics: &[(&str, &[i32])]) -> metadata::Response {
        let topic = |(name, leaders): &(&str, &[i32])| {
            let partition = |(i, leader): (usize, &i32)| metadata::Partition {
                partition_index: i as i32,
                leader_id: *leader,
                ..Default::default()
            };
            let partitions = leaders.iter().enumerate().map(partition).collect();
            metadata::Topic { name: Some((*name).to_owned()), partitions, ..Default::default() }
        };
        let broker = |id| metadata::Broker { node_id: id, host: "h".to_owned(), port: id, ..Default::default() };
        let (brokers, topics) = (vec![broker(1), broker(2)], topics.iter().map(topic).collect());
        metadata::Response { brokers, topics, ..Default::default() }
    }

    fn of(fields: &[(&str, Value)]) -> Value {
        Value::Struct(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
    }

    fn list_groups_of(route: Route) -> ByName {
        ByName::new("ListGroups", of(&[]), route, 0..=i16::MAX).unwrap()
    }

    fn topic(name: &str) -> Item {
        let topics = Value::List(vec![of(&[("name", Value::String(name.to_owned()))])]);
        Item {
            fields: of(&[("topics", topics)]),
            route: Route::Controller,
            tried: format!("create topic {name}"),
            key: vec![name.to_owned()],
            location: Some((name.into(), None)),
        }
    }

    fn created(results: &[(&str, ErrorCode)]) -> Vec<u8> {
        let topic = |(name, code): &(&str, ErrorCode)| create_topics::TopicResult {
            name: (*name).to_owned(),
            error_code: *code,
            ..Default::default()
        };
        let topics = results.iter().map(topic).collect();
        api::encode(2, &create_topics::Response { topics, ..Default::default() }).unwrap()
    }

    fn producers_of(topic: &str, partition: i32) -> Item {
        let partitions = Value::List(vec![Value::Int(partition.into())]);
        let topics = of(&[("name", Value::String(topic.to_owned())), ("partitionIndexes", partitions)]);
        Item {
            fields: of(&[("topics", Value::List(vec![topics]))]),
            route: Route::Leader(topic.into(), partition),
            tried: format!("describe producers of {topic}-{partition}"),
            key: vec![topic.to_owned(), partition.to_string()],
            location: Some((topic.into(), Some(partition))),
        }
    }

    fn described(partitions: &[(i32, ErrorCode)]) -> Vec<u8> {
        let partition = |(partition, code): &(i32, ErrorCode)| describe_producers::PartitionResponse {
            partition_index: *partition,
            error_code: *code,
            ..Default::default()
        };
        let partitions = partitions.iter().map(partition).collect();
        let topic = describe_producers::TopicResponse { name: "t".to_owned(), partitions };
        api::encode(0, &describe_producers::Response { topics: vec![topic], ..Default::default() }).unwrap()
    }

    const OF_PARTITIONS: &str = "topics:name/partitions:partitionIndex";

    fn describe(partitions: &[i32]) -> Running {
        let items = partitions.iter().map(|partition| producers_of("t", *partition)).collect();
        Running::new(ByName::for_items("DescribeProducers", OF_PARTITIONS, items, 0..=i16::MAX).unwrap())
    }

    #[test]
    fn a_malformed_answer_is_asked_for_again_and_three_are_an_error() {
        for malformed in [2, 3] {
            let mut running = Running::new(list_groups_of(Route::Any));
            let whole = api::encode(0, &list_groups::Response::default()).unwrap();
            let mut result = None;
            for round in 0..=malformed {
                let Some(sent) = running.next(&[]).pop() else { break };
                running.answer(&sent, if round < malformed { whole[1..].to_vec() } else { whole.clone() }, 0);
                result = result.or(running.results());
            }
            let error = result.expect("an end").remove(0).result.err();
            assert_eq!(error.map(|e| e.kind()), (malformed == 3).then_some(ErrorKind::Decode));
        }
    }

    #[test]
    fn a_broker_that_two_metadata_responses_lack_is_an_error() {
        let mut running = Running::new(list_groups_of(Route::Broker(99)));
        let mut responses = 0;
        let error = loop {
            assert!(running.ops.poll_demand().is_some_and(|demand| demand.refresh));
            responses += 1;
            assert!(running.next(&[]).is_empty());
            if let Some(mut results) = running.results() {
                break results.remove(0).result.unwrap_err();
            }
        };
        assert_eq!((responses, error.code()), (2, Some(ErrorCode::BROKER_NOT_AVAILABLE)));
    }

    #[test]
    fn one_request_goes_to_each_leader_and_only_failed_items_are_repeated() {
        let mut running = describe(&[0, 1, 2]);
        let mut requests = running.next(&[("t", &[1, 2, 1])]);
        requests.sort_by_key(|request| matches!(request.target, Target::Node(2)));
        assert_eq!(requests.iter().map(|r| r.target).collect::<Vec<_>>(), [Target::Node(1), Target::Node(2)]);
        running.answer(&requests[0], described(&[(0, ErrorCode::NONE), (2, ErrorCode::NOT_LEADER_OR_FOLLOWER)]), 0);
        // Broker 2 is silent, and the partition that has moved is retried.
        let again = running.next(&[("t", &[1, 2, 2])]);
        assert_eq!(again.iter().map(|r| r.target).collect::<Vec<_>>(), [Target::Node(2)]);
        running.answer(&again[0], described(&[(2, ErrorCode::NONE)]), 0);
        assert!(running.results().is_none());
        running.answer(&requests[1], described(&[(1, ErrorCode::POLICY_VIOLATION)]), 0);
        let results = running.results().unwrap();
        let codes: Vec<_> = results.iter().map(|r| r.result.as_ref().err().and_then(Error::code)).collect();
        assert_eq!(codes, [None, Some(ErrorCode::POLICY_VIOLATION), None]);
        let error = results[1].result.as_ref().unwrap_err();
        assert!(error.message().starts_with("describe producers of t-1: POLICY_VIOLATION"));
        assert_eq!((error.topic(), error.partition(), error.node()), (Some("t"), Some(1), Some(2)));
    }

    #[test]
    fn an_unknown_topic_is_an_error_after_four_responses_and_a_leader_is_awaited() {
        let mut running = describe(&[0]);
        for leaderless in 0..20 {
            assert!(running.next(&[("t", &[-1])]).is_empty() && running.results().is_none(), "{leaderless}");
        }
        let unknown = metadata::Topic {
            name: Some("t".to_owned()),
            error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ..Default::default()
        };
        for response in 1..=MAX_UNKNOWN_TOPIC {
            assert!(running.results().is_none(), "{response}");
            running.now = running.now + Duration::from_millis(2);
            let known = metadata::Response { topics: vec![unknown.clone()], ..metadata(&[]) };
            let cluster = Arc::new(Cluster::default().updated(running.now, known, true));
            running.ops.handle_cluster(running.now, &cluster);
            // The same metadata counts once.
            for _ in 0..3 {
                running.now = running.now + Duration::from_millis(2);
                running.ops.handle_timeout(running.now);
            }
        }
        let error = running.results().unwrap().remove(0).result.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        assert_eq!((error.topic(), error.partition()), (Some("t"), Some(0)));
    }

    #[test]
    fn at_the_deadline_the_items_that_are_done_keep_their_results() {
        let mut running = describe(&[0, 1]);
        let requests = running.next(&[("t", &[1, 2])]);
        let silent = requests.iter().position(|r| matches!(r.target, Target::Node(2))).unwrap();
        running.answer(&requests[1 - silent], described(&[(0, ErrorCode::NONE)]), 0);
        running.ops.handle_timeout(Time(1) + Duration::from_secs(60));
        let results = running.results().unwrap();
        assert!(results[0].result.is_ok());
        let error = results[1].result.as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        let expected = "DescribeProducers did not succeed in 60 s: broker 2 has not responded";
        assert!(error.message().starts_with(expected), "{error}");
        assert_eq!((error.topic(), error.partition(), error.broker()), (Some("t"), Some(1), Some("h:2")));
    }

    #[test]
    fn a_timeout_names_the_last_error_of_the_item_and_shares_the_error_of_the_network() {
        let mut running = Running::new(
            ByName::for_items("CreateTopics", "topics:name", vec![topic("a"), topic("b")], 0..=i16::MAX).unwrap(),
        );
        let request = running.next(&[]).pop().unwrap();
        let throttled = ErrorCode::THROTTLING_QUOTA_EXCEEDED;
        running.answer(&request, created(&[("a", throttled), ("b", ErrorCode::NONE)]), 2);
        running.ops.handle_timeout(Time(1) + Duration::from_secs(60));
        let error = running.results().unwrap().remove(0).result.unwrap_err();
        assert!(error.message().contains("in 60 s: create topic a: THROTTLING_QUOTA_EXCEEDED"), "{error}");

        let mut running = Running::new(
            ByName::for_items("CreateTopics", "topics:name", vec![topic("a"), topic("b")], 0..=i16::MAX).unwrap(),
        );
        running.ops.handle_unreachable(Time(2), &Error::new(ErrorKind::Network, "no broker can be reached"));
        running.ops.handle_timeout(Time(1) + Duration::from_secs(60));
        let results = running.results().unwrap();
        let [a, b] = [0, 1].map(|i| results[i].result.as_ref().unwrap_err());
        assert!(a.is_same(b) && a.kind() == ErrorKind::Network);
    }

    #[test]
    fn an_item_that_responses_lack_is_an_error_and_a_lost_response_is_remembered() {
        let mut running = Running::new(
            ByName::for_items("CreateTopics", "topics:name", vec![topic("a"), topic("b")], 0..=i16::MAX).unwrap(),
        );
        let request = running.next(&[]).pop().unwrap();
        let lost = Err(Error::new(ErrorKind::Network, "connection lost"));
        running.ops.handle_response(running.now, ClientResponse { token: request.token, node: 1, result: lost });
        for _ in 0..MAX_MALFORMED {
            let request = running.next(&[]).pop().unwrap();
            running.answer(&request, created(&[("a", ErrorCode::NONE)]), 2);
        }
        let results = running.results().unwrap();
        assert!(results[0].result.is_ok() && results[0].repeated && results[1].repeated);
        let error = results[1].result.as_ref().unwrap_err();
        assert!(error.message().contains("create topic b: the response has no result"), "{error}");
    }

    #[test]
    fn items_with_requests_of_their_own_look_up_a_coordinator_once() {
        let group = |name: &str| Item {
            fields: of(&[("groupsNames", Value::List(vec![Value::String(name.to_owned())]))]),
            route: Route::Coordinator(0, "shared".to_owned()),
            tried: format!("delete group {name}"),
            key: Vec::new(),
            location: None,
        };
        let items = vec![group("a"), group("b")];
        let mut running = Running::new(ByName::for_items("DeleteGroups", "", items, 0..=i16::MAX).unwrap());
        let lookup = running.next(&[]);
        assert_eq!(lookup.len(), 1);
        let found = crate::api::find_coordinator::Response { node_id: 2, ..Default::default() };
        running.answer(&lookup[0], api::encode(0, &found).unwrap(), 0);
        let requests: Vec<_> = std::iter::from_fn(|| running.ops.poll_send(running.now)).collect();
        assert_eq!(requests.iter().map(|r| r.target).collect::<Vec<_>>(), [Target::Node(2); 2]);
        let deleted = |code| {
            let result = delete_groups::GroupResult { error_code: code, ..Default::default() };
            api::encode(0, &delete_groups::Response { results: vec![result], ..Default::default() }).unwrap()
        };
        running.answer(&requests[0], deleted(ErrorCode::NONE), 0);
        running.answer(&requests[1], deleted(ErrorCode::NOT_COORDINATOR), 0);
        // The coordinator has moved: the item asks for it again.
        assert_eq!(running.next(&[]).pop().map(|request| request.target), Some(Target::Any));
    }
}
