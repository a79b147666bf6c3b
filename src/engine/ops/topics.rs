//! Creates, deletes and describes topics.

use super::{Op, OpContext, Output};
use crate::api::{ErrorCode, create_partitions, create_topics, delete_topics, metadata};
use crate::engine::cluster::AskMetadata;
use crate::engine::{Cluster, Error, Reply, Target, Time};
use std::sync::Arc;

/// A topic to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// The name.
    pub name: String,
    /// The number of partitions; -1 for the brokers' default (Kafka 2.4 and newer).
    pub partitions: i32,
    /// The replication factor; -1 for the brokers' default (Kafka 2.4 and newer).
    pub replication_factor: i16,
    /// Settings that differ from the brokers' defaults.
    pub configs: Vec<(String, String)>,
}

/// The parts of the operations below: the change, and metadata that shows it. The controller responds when it has made
/// the change, but the other brokers learn of it a moment later. Callers want to use what they created.
const CHANGE: u32 = 0;
const LOOK: u32 = 1;

/// CreateTopics. It succeeds when a broker knows the topics and their leaders.
pub struct CreateTopics {
    topics: Vec<NewTopic>,
    names: Vec<String>,
    validate_only: bool,
    /// Whether an attempt had no response, so that it may have created the topic.
    is_doubtful: bool,
    done: bool,
}

impl CreateTopics {
    /// Creates topics. With `validate_only` the broker only checks the request.
    pub fn new(topics: Vec<NewTopic>, validate_only: bool) -> Self {
        let done = topics.is_empty();
        let names = topics.iter().map(|t| t.name.clone()).collect();
        Self { topics, names, validate_only, is_doubtful: false, done }
    }
}

fn refused(code: ErrorCode, what: String, why: Option<String>, topic: &str) -> Error {
    let why = why.filter(|w| !w.is_empty());
    Error::refused(code, why.map_or_else(|| what.clone(), |w| format!("{what}: {w}"))).at(&topic.into(), None)
}

impl Op for CreateTopics {
    fn name(&self) -> &'static str {
        "create topics"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        if self.done || !cx.knows_brokers() {
            return Ok(());
        }
        if self.topics.is_empty() {
            ask(cx, Some(&self.names), false, LOOK);
            return Ok(());
        }
        let config =
            |(name, value): &(String, String)| create_topics::Config { name: name.clone(), value: Some(value.clone()) };
        let topic = |t: &NewTopic| create_topics::Topic {
            name: t.name.clone(),
            num_partitions: t.partitions,
            replication_factor: t.replication_factor,
            assignments: Vec::new(),
            configs: t.configs.iter().map(config).collect(),
        };
        let topics = self.topics.iter().map(topic).collect();
        let request = create_topics::Request { topics, timeout_ms: 30_000, validate_only: self.validate_only };
        // Version 0 cannot only validate.
        cx.send_within(Target::Controller, request, CHANGE, self.validate_only.into(), i16::MAX);
        Ok(())
    }

    fn take(&mut self, cx: &mut OpContext<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        if part == LOOK {
            let cluster = read(cx.now, reply, false)?;
            let has_leaders = |name: &String| {
                let partitions = cluster.topics.get(name.as_str()).map_or(0, |t| t.partitions.len() as i32);
                partitions > 0 && (0..partitions).all(|p| cluster.leader(name, p).is_some())
            };
            self.done = self.names.iter().all(has_leaders);
            return Ok(());
        }
        let response: create_topics::Response = reply.decode()?;
        let mut failed = None;
        for t in response.topics {
            match t.error_code.check() {
                // An earlier attempt may have created the topic.
                Ok(()) => self.topics.retain(|new| new.name != t.name),
                Err(code) => {
                    let error = refused(code, format!("create topic {:?}", t.name), t.error_message, &t.name);
                    failed = Some(if self.is_doubtful && code == ErrorCode::TOPIC_ALREADY_EXISTS {
                        error.with_hint("this call may have created the topic: an earlier attempt had no response")
                    } else {
                        error
                    });
                    self.is_doubtful |= code == ErrorCode::REQUEST_TIMED_OUT;
                }
            }
        }
        self.done = failed.is_none() && self.validate_only;
        match failed {
            Some(e) => Err(e),
            None if self.done => Ok(()),
            None => self.step(cx),
        }
    }

    fn lost(&mut self) {
        self.is_doubtful = true;
    }

    fn output(&mut self) -> Option<Output> {
        self.done.then_some(Output::Done)
    }
}

/// CreatePartitions. It succeeds when a broker knows the partitions and their leaders.
pub struct CreatePartitions {
    /// The number of partitions of each topic, including the existing ones.
    counts: Vec<(String, i32)>,
    left: Vec<(String, i32)>,
    validate_only: bool,
    done: bool,
}

impl CreatePartitions {
    /// Adds partitions to topics. With `validate_only` the broker only checks the request.
    pub fn new(counts: Vec<(String, i32)>, validate_only: bool) -> Self {
        Self { done: counts.is_empty(), left: counts.clone(), counts, validate_only }
    }
}

impl Op for CreatePartitions {
    fn name(&self) -> &'static str {
        "create partitions"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        if self.done || !cx.knows_brokers() {
            return Ok(());
        }
        if self.left.is_empty() {
            let names: Vec<String> = self.counts.iter().map(|(name, _)| name.clone()).collect();
            ask(cx, Some(&names), false, LOOK);
            return Ok(());
        }
        let topic = |(name, count): &(String, i32)| create_partitions::Topic {
            name: name.clone(),
            count: *count,
            assignments: None,
        };
        let topics = self.left.iter().map(topic).collect();
        let request = create_partitions::Request { topics, timeout_ms: 30_000, validate_only: self.validate_only };
        cx.send(Target::Controller, request, CHANGE);
        Ok(())
    }

    fn take(&mut self, cx: &mut OpContext<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        if part == LOOK {
            let cluster = read(cx.now, reply, false)?;
            self.done = self.counts.iter().all(|(name, count)| (0..*count).all(|p| cluster.leader(name, p).is_some()));
            return Ok(());
        }
        let response: create_partitions::Response = reply.decode()?;
        let mut failed = None;
        for t in response.results {
            match t.error_code.check() {
                Ok(()) => self.left.retain(|(name, _)| *name != t.name),
                Err(code) => {
                    let what = format!("create partitions of {:?}", t.name);
                    failed = Some(refused(code, what, t.error_message, &t.name));
                }
            }
        }
        self.done = failed.is_none() && self.validate_only;
        match failed {
            Some(e) => Err(e),
            None if self.done => Ok(()),
            None => self.step(cx),
        }
    }

    fn output(&mut self) -> Option<Output> {
        self.done.then_some(Output::Done)
    }
}

/// DeleteTopics. It succeeds when a broker no longer knows the topics.
pub struct DeleteTopics {
    topics: Vec<String>,
    names: Vec<String>,
    done: bool,
}

impl DeleteTopics {
    /// Deletes topics by name.
    pub fn new(topics: Vec<String>) -> Self {
        let done = topics.is_empty();
        Self { names: topics.clone(), topics, done }
    }
}

impl Op for DeleteTopics {
    fn name(&self) -> &'static str {
        "delete topics"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        if self.done || !cx.knows_brokers() {
            return Ok(());
        }
        if self.topics.is_empty() {
            ask(cx, Some(&self.names), false, LOOK);
            return Ok(());
        }
        let named = |name: &String| delete_topics::Topic { name: Some(name.clone()), ..Default::default() };
        let request = delete_topics::Request {
            topics: self.topics.iter().map(named).collect(),
            topic_names: self.topics.clone(),
            timeout_ms: 30_000,
        };
        cx.send(Target::Controller, request, CHANGE);
        Ok(())
    }

    fn take(&mut self, cx: &mut OpContext<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        if part == LOOK {
            let cluster = read(cx.now, reply, false)?;
            let is_gone = |name: &String| cluster.topics.get(name.as_str()).is_none_or(|t| t.partitions.is_empty());
            self.done = self.names.iter().all(is_gone);
            return Ok(());
        }
        let response: delete_topics::Response = reply.decode()?;
        let mut failed = None;
        for t in response.responses {
            let name = t.name.unwrap_or_default();
            match t.error_code.check() {
                Ok(()) => self.topics.retain(|n| *n != name),
                Err(code) => failed = Some(refused(code, format!("delete topic {name:?}"), t.error_message, &name)),
            }
        }
        match failed {
            Some(e) => Err(e),
            None => self.step(cx),
        }
    }

    fn output(&mut self) -> Option<Output> {
        self.done.then_some(Output::Done)
    }
}

pub(super) fn ask(cx: &mut OpContext<'_>, topics: Option<&[String]>, create: bool, part: u32) {
    let named = |name: &String| metadata::TopicRequest { name: Some(name.clone()), ..Default::default() };
    let request = metadata::Request {
        topics: topics.map(|names| names.iter().map(named).collect()),
        allow_auto_topic_creation: create,
        ..Default::default()
    };
    cx.send_call(Target::Any, AskMetadata(request), part);
}

pub(super) fn read(now: Time, reply: Reply, all: bool) -> Result<Cluster, Error> {
    let response: metadata::Response = reply.decode()?;
    response.error_code.check().map_err(|code| Error::refused(code, "describe the cluster"))?;
    Ok(Cluster::default().updated(now, response, all))
}

/// Metadata of some or all topics, from a broker and not from the cache.
pub struct Describe {
    topics: Option<Vec<String>>,
    found: Option<Arc<Cluster>>,
}

impl Describe {
    /// Requests metadata of topics; `None` stands for all.
    pub fn new(topics: Option<Vec<String>>) -> Self {
        Self { topics, found: None }
    }
}

impl Op for Describe {
    fn name(&self) -> &'static str {
        "describe the cluster"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        ask(cx, self.topics.as_deref(), false, LOOK);
        Ok(())
    }

    fn take(&mut self, cx: &mut OpContext<'_>, _part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        let mut cluster = read(cx.now, reply, self.topics.is_none())?;
        if let Some(names) = &self.topics {
            cluster.keep(names.iter().map(String::as_str));
        }
        self.found = Some(Arc::new(cluster));
        Ok(())
    }

    fn output(&mut self) -> Option<Output> {
        self.found.take().map(Output::Cluster)
    }
}

/// The partitions of a topic, once they have leaders.
pub struct Partitions {
    topic: String,
    create: bool,
    found: Option<Vec<i32>>,
}

impl Partitions {
    /// Requests the partitions of a topic. With `create` the broker may create the topic.
    pub fn new(topic: String, create: bool) -> Self {
        Self { topic, create, found: None }
    }
}

impl Op for Partitions {
    fn name(&self) -> &'static str {
        "look up a topic's partitions"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        ask(cx, Some(std::slice::from_ref(&self.topic)), self.create, LOOK);
        Ok(())
    }

    fn take(&mut self, cx: &mut OpContext<'_>, _part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        let cluster = read(cx.now, reply, false)?;
        let Some(topic) = cluster.topics.get(self.topic.as_str()) else {
            return Ok(());
        };
        let name: Arc<str> = self.topic.as_str().into();
        topic.error.check().map_err(|code| Error::refused(code, format!("topic {name:?}")).at(&name, None))?;
        self.found = Some((0..topic.partitions.len() as i32).collect());
        Ok(())
    }

    fn output(&mut self) -> Option<Output> {
        self.found.take().map(Output::Partitions)
    }
}
