//! Operations that return the metadata or the partitions of topics.

use super::op::{Op, OpContext, Output};
use crate::api::{ErrorCode, metadata};
use crate::engine::cluster::MetadataCall;
use crate::engine::{Cluster, Error, Reply, Target, Time};
use std::sync::Arc;

const LOOK: u32 = 0;

pub(super) fn ask(cx: &mut OpContext<'_>, topics: Option<&[String]>, create: bool, part: u32) {
    let named = |name: &String| metadata::TopicRequest { name: Some(name.clone()), ..Default::default() };
    let request = metadata::Request {
        topics: topics.map(|names| names.iter().map(named).collect()),
        allow_auto_topic_creation: create,
        ..Default::default()
    };
    cx.send_call(Target::Any, MetadataCall(request), part);
}

pub(super) fn read(now: Time, reply: Reply, all: bool) -> Result<Cluster, Error> {
    let response: metadata::Response = reply.decode()?;
    response.error_code.check().map_err(|code| Error::refused(code, "describe the cluster"))?;
    Ok(Cluster::default().updated(now, response, all))
}

/// Requests the metadata of some or all topics from a broker, not from the cache.
pub struct Describe {
    topics: Option<Vec<String>>,
    found: Option<Arc<Cluster>>,
}

impl Describe {
    /// Requests the metadata of these topics, or of all topics with `None`.
    pub fn new(topics: Option<Vec<String>>) -> Self {
        Self { topics, found: None }
    }
}

impl Op for Describe {
    fn name(&self) -> &'static str {
        match self.topics.as_deref() {
            None => "list the topics",
            Some([]) => "describe the cluster",
            Some(_) => "describe topics",
        }
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

/// Returns the partitions of a topic as soon as they have leaders.
pub struct Partitions {
    topic: String,
    create: bool,
    found: Option<Vec<i32>>,
}

impl Partitions {
    /// Requests the partitions of a topic. With `create`, the broker may create the topic.
    pub fn new(topic: String, create: bool) -> Self {
        Self { topic, create, found: None }
    }
}

impl Op for Partitions {
    fn name(&self) -> &'static str {
        "look up a topic's partitions"
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        ask(cx, Some(std::slice::from_ref(&self.topic)), self.create, LOOK);
        Ok(())
    }

    fn take(&mut self, cx: &mut OpContext<'_>, _part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        let cluster = read(cx.now, reply, false)?;
        let topic = cluster.topics.get(self.topic.as_str());
        // Before Kafka 0.11, a request that must not create the topic is about all topics.
        let code = topic.map_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, |t| t.error);
        let name: Arc<str> = self.topic.as_str().into();
        code.check().map_err(|code| Error::refused(code, format!("topic {name:?}")).at(&name, None))?;
        self.found = topic.map(|t| (0..t.partitions.len() as i32).collect());
        Ok(())
    }

    fn output(&mut self) -> Option<Output> {
        self.found.take().map(Output::Partitions)
    }
}
