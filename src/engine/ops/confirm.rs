//! Waits until brokers know a change: new topics and partitions, deleted topics, new leaders and finished reassignments.

use super::op::{Explain, Op, OpContext, Output};
use super::topics;
use crate::api::{list_partition_reassignments as reassignments, metadata};
use crate::engine::cluster::MetadataCall;
use crate::engine::{Cluster, Error, ErrorKind, Reply, Target};
use crate::wire::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The state of a topic or of a partition after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The topic has at least this number of partitions, and all partitions have leaders.
    HasLeaders(usize),
    /// The topic with this ID is deleted. Without an ID, there is no topic with its name.
    IsDeleted(Option<Uuid>),
    /// The partition has a leader.
    IsLed(i32),
    /// The first replica of the partition is its leader.
    IsLedByFirst(i32),
    /// The reassignment of the partition is finished.
    IsReassigned(i32),
}

impl Condition {
    /// Returns whether metadata fulfils the condition.
    fn holds(self, topic: &str, cluster: &Cluster) -> bool {
        let found = cluster.topics.get(topic).filter(|found| !found.error.is_error());
        let is_led = |partition| cluster.leader(topic, partition).is_some();
        match self {
            Self::HasLeaders(count) => found
                .is_some_and(|found| found.partitions.len() >= count && (0..found.partitions.len() as i32).all(is_led)),
            // A topic with another ID was created after the deletion, for example by auto-creation.
            Self::IsDeleted(id) => cluster.topics.get(topic).is_none_or(|found| {
                found.partitions.is_empty() || (found.id != Uuid::ZERO && id.is_some_and(|id| id != found.id))
            }),
            Self::IsLed(partition) => is_led(partition),
            Self::IsLedByFirst(partition) => {
                let found = found.and_then(|found| found.partitions.get(usize::try_from(partition).ok()?));
                found.is_some_and(|found| found.replicas.first() == Some(&found.leader))
            }
            Self::IsReassigned(_) => true,
        }
    }
}

/// The brokers that have to know a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowing {
    /// Any broker.
    One,
    /// All brokers that run.
    All,
    /// The controller, for reassignments.
    Controller,
}

/// Requests the state of topics until all conditions hold.
pub struct Confirm {
    conditions: Vec<(String, Condition)>,
    knowing: Knowing,
    in_flight: BTreeSet<u32>,
    /// The brokers that know the change.
    confirmed: BTreeSet<i32>,
    done: bool,
    error: Option<Error>,
}

impl Confirm {
    /// Waits until these brokers report that the conditions of topics hold.
    pub fn new(conditions: Vec<(String, Condition)>, knowing: Knowing) -> Self {
        let (in_flight, confirmed) = (BTreeSet::new(), BTreeSet::new());
        Self { conditions, knowing, in_flight, confirmed, done: false, error: None }
    }

    fn send(&mut self, cx: &mut OpContext<'_>, target: Target, part: u32) {
        if !self.in_flight.insert(part) {
            return;
        }
        if self.knowing == Knowing::Controller {
            let mut partitions: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
            for (topic, condition) in &self.conditions {
                if let Condition::IsReassigned(partition) = condition {
                    partitions.entry(topic).or_default().push(*partition);
                }
            }
            let topic = |(name, partition_indexes): (&str, _)| reassignments::Topic {
                name: name.to_owned(),
                partition_indexes,
            };
            let topics = Some(partitions.into_iter().map(topic).collect());
            return cx.send(target, reassignments::Request { topics, ..Default::default() }, part);
        }
        let names: BTreeSet<&String> = self.conditions.iter().map(|(topic, _)| topic).collect();
        let named = |name: &String| metadata::TopicRequest { name: Some(name.clone()), ..Default::default() };
        let topics = Some(names.into_iter().map(named).collect());
        let request = metadata::Request { topics, allow_auto_topic_creation: false, ..Default::default() };
        cx.send_call(target, MetadataCall(request), part);
    }

    /// Returns what a response lacks.
    fn lacking(&self, cx: &OpContext<'_>, reply: Reply) -> Result<Option<String>, Error> {
        if self.knowing == Knowing::Controller {
            let response: reassignments::Response = reply.decode()?;
            response.error_code.check().map_err(|code| Error::refused(code, "list reassignments"))?;
            let moving = response.topics.iter().find_map(|topic| Some((&topic.name, topic.partitions.first()?)));
            return Ok(moving.map(|(topic, p)| format!("the replicas of {topic}-{} still move", p.partition_index)));
        }
        let cluster = topics::read(cx.now, reply, false)?;
        let lacking = self.conditions.iter().find(|(topic, condition)| !condition.holds(topic, &cluster));
        Ok(lacking.map(|(topic, condition)| match condition {
            Condition::HasLeaders(_) => format!("topic {topic:?} does not have leaders of all partitions yet"),
            Condition::IsDeleted(_) => format!("topic {topic:?} still exists"),
            Condition::IsLed(partition) => format!("{topic}-{partition} has no leader yet"),
            Condition::IsLedByFirst(partition) | Condition::IsReassigned(partition) => {
                format!("the first replica of {topic}-{partition} is not the leader yet")
            }
        }))
    }

    fn note(&mut self, error: Error) -> Result<(), Error> {
        self.error = Some(error.clone());
        Err(error)
    }

    fn are_all_confirmed(&self, cx: &OpContext<'_>) -> bool {
        let brokers = &cx.cluster.brokers;
        self.knowing == Knowing::All && !brokers.is_empty() && brokers.keys().all(|id| self.confirmed.contains(id))
    }
}

impl Op for Confirm {
    fn name(&self) -> &'static str {
        "confirm the change"
    }

    fn has_idle_items(&self) -> bool {
        !self.done && self.knowing == Knowing::All
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        if !cx.knows_brokers() {
            return Ok(());
        }
        match self.knowing {
            Knowing::One => self.send(cx, Target::Any, 0),
            Knowing::Controller => self.send(cx, Target::Controller, 0),
            Knowing::All => {
                self.done = self.are_all_confirmed(cx);
                let brokers = cx.cluster.brokers.keys().copied().filter(|id| !self.confirmed.contains(id));
                for id in brokers.collect::<Vec<i32>>() {
                    self.send(cx, Target::Node(id), id.cast_unsigned());
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, cx: &mut OpContext<'_>, part: u32, node: i32, reply: Reply) -> Result<(), Error> {
        self.in_flight.remove(&part);
        if let Some(lacking) = self.lacking(cx, reply)? {
            let error = Error::new(ErrorKind::Timeout, lacking);
            return self.note(error.from_broker(cx.cluster.address(node)).of_node(node));
        }
        self.confirmed.insert(node);
        self.done = self.knowing != Knowing::All || self.are_all_confirmed(cx);
        Ok(())
    }

    fn fail(&mut self, _cx: &mut OpContext<'_>, part: u32, error: Error) -> Result<(), Error> {
        self.in_flight.remove(&part);
        self.note(error)
    }

    fn expire(&mut self, _time: Duration, explain: &Explain<'_>) -> Option<Output> {
        let part = self.in_flight.first().copied();
        Some(Output::Confirmed(Some(explain(part, self.error.as_ref()))))
    }

    fn output(&mut self) -> Option<Output> {
        self.done.then_some(Output::Confirmed(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ErrorCode, encode};
    use crate::engine::ops::Ops;
    use crate::engine::{ClientResponse, Outgoing, Role, Time};
    use std::sync::Arc;

    const BACKOFF: Duration = Duration::from_millis(1);

    /// Returns metadata of brokers and of the partitions of the topic `t`.
    fn known(brokers: &[i32], leaders: &[i32]) -> metadata::Response {
        let partition = |(i, leader): (usize, &i32)| metadata::Partition {
            partition_index: i as i32,
            leader_id: *leader,
            replica_nodes: vec![1, 2],
            ..Default::default()
        };
        let partitions: Vec<_> = leaders.iter().enumerate().map(partition).collect();
        let code = if leaders.is_empty() { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION } else { ErrorCode::NONE };
        let topic = metadata::Topic {
            error_code: code,
            name: Some("t".to_owned()),
            topic_id: Uuid([1; 16]),
            partitions,
            ..Default::default()
        };
        let broker =
            |id: &i32| metadata::Broker { node_id: *id, host: "h".to_owned(), port: *id, ..Default::default() };
        metadata::Response { brokers: brokers.iter().map(broker).collect(), topics: vec![topic], ..Default::default() }
    }

    #[test]
    fn conditions_hold_for_the_metadata_after_a_change() {
        let cluster = |leaders: &[i32]| Cluster::default().updated(Time(1), known(&[1, 2], leaders), false);
        let holds = |condition: Condition, leaders: &[i32]| condition.holds("t", &cluster(leaders));
        assert!(holds(Condition::HasLeaders(2), &[1, 2]));
        assert!(!holds(Condition::HasLeaders(2), &[1, -1]) && !holds(Condition::HasLeaders(3), &[1, 2]));
        assert!(!holds(Condition::HasLeaders(1), &[]));
        let (same, other) = (Some(Uuid([1; 16])), Some(Uuid([2; 16])));
        assert!(holds(Condition::IsDeleted(same), &[]) && holds(Condition::IsDeleted(other), &[1]));
        assert!(!holds(Condition::IsDeleted(same), &[1]) && !holds(Condition::IsDeleted(None), &[1]));
        assert!(holds(Condition::IsLed(1), &[1, 2]) && !holds(Condition::IsLed(1), &[1, -1]));
        assert!(holds(Condition::IsLedByFirst(0), &[1]) && !holds(Condition::IsLedByFirst(0), &[2]));
    }

    struct Running(Ops<()>, Time);

    impl Running {
        fn next(&mut self, brokers: &[i32]) -> Vec<Outgoing<super::super::OpToken>> {
            self.1 = self.1 + Duration::from_millis(2);
            let cluster = Cluster::default().updated(self.1, known(brokers, &[]), true);
            self.0.handle_cluster(self.1, &Arc::new(cluster));
            self.0.handle_timeout(self.1);
            std::iter::from_fn(|| self.0.poll_send(self.1)).collect()
        }

        fn answer(&mut self, request: &Outgoing<super::super::OpToken>, leaders: &[i32]) {
            let Target::Node(node) = request.target else { panic!("{:?}", request.target) };
            let body = encode(12, &known(&[1, 2], leaders)).unwrap();
            let result = Ok(Reply { version: 12, body: body.into() });
            self.0.handle_response(self.1, ClientResponse { token: request.token, node, result });
        }
    }

    #[test]
    fn all_brokers_that_still_run_have_to_know_the_change() {
        let mut running = Running(Ops::new((BACKOFF, BACKOFF)), Time(1));
        let op = Confirm::new(vec![("t".to_owned(), Condition::HasLeaders(1))], Knowing::All);
        running.0.start(Time(1), Box::new(op), Duration::from_secs(60), ());
        let requests = running.next(&[1, 2, 3]);
        assert_eq!(requests.len(), 3);
        running.answer(&requests[0], &[]);
        running.answer(&requests[1], &[1]);
        // Broker 3 is silent, and broker 1 is asked again.
        let again = running.next(&[1, 2, 3]);
        assert_eq!(again.iter().map(|r| r.target).collect::<Vec<_>>(), [Target::Node(1)]);
        running.answer(&again[0], &[1]);
        assert!(running.0.poll_done().is_none());
        // Broker 3 has stopped.
        assert!(running.next(&[1, 2]).is_empty());
        assert!(matches!(running.0.poll_done(), Some(((), Ok(Output::Confirmed(None))))));
    }

    #[test]
    fn the_error_after_a_timeout_names_the_broker_and_what_is_missing() {
        let mut running = Running(Ops::new((BACKOFF, BACKOFF)), Time(1));
        let op = Confirm::new(vec![("t".to_owned(), Condition::HasLeaders(1))], Knowing::All);
        running.0.start(Time(1), Box::new(op), Duration::from_secs(60), ());
        for request in running.next(&[1, 2]) {
            running.answer(&request, &[]);
        }
        running.0.handle_timeout(Time(1) + Duration::from_secs(60));
        let Some(((), Ok(Output::Confirmed(Some(why))))) = running.0.poll_done() else { panic!() };
        assert_eq!(why.message(), "topic \"t\" does not have leaders of all partitions yet");
        assert!(why.broker().is_some());
    }
}
