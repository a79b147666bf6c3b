//! Administration of groups: list, describe and delete them, and read and change their offsets and lag.
//!
//! All brokers are asked for the list. All else is asked of the group's coordinator, which the operations find first,
//! and again when the group has another one.

use super::group::{COORDINATOR, MAX_FETCH, MIN_FETCH_ALL, OFFSETS as ANSWER, reach_coordinator};
use super::topics::{ask as ask_topics, read as read_topics};
use super::{Commit, CommittedOffset, ListOffsets, Op, OpContext, Output};
use crate::api::list_offsets::LATEST;
use crate::api::{ErrorCode, delete_groups, list_groups, offset_delete, offset_fetch};
use crate::engine::TopicPartition;
use crate::engine::group::GroupMetadata;
use crate::engine::{Error, Reply, Target, coordinator};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListing {
    /// The name.
    pub group: String,
    /// The protocol type, such as `consumer` or `connect`; empty for a group that only has offsets.
    pub protocol_type: String,
    /// The state, such as `Stable`; empty if the broker is too old to tell (before Kafka 2.6).
    pub state: String,
    /// The type, such as `classic`; empty if the broker is too old to tell (before Kafka 3.8).
    pub kind: String,
}

/// ListGroups of all brokers.
pub struct ListGroups {
    states: Vec<String>,
    types: Vec<String>,
    responded: BTreeSet<i32>,
    found: BTreeMap<String, GroupListing>,
    done: bool,
}

impl ListGroups {
    /// Lists all groups, or those in one of these states or of one of these types.
    pub fn new(states: Vec<String>, types: Vec<String>) -> Self {
        Self { states, types, responded: BTreeSet::new(), found: BTreeMap::new(), done: false }
    }

    /// Returns an error if the broker is too old for a filter. It would ignore the filter.
    fn check_filters(&self, version: i16) -> Result<(), Error> {
        let unknown = match version {
            ..4 if !self.states.is_empty() => "state, which needs Kafka 2.6",
            ..5 if !self.types.is_empty() => "type, which needs Kafka 3.8",
            _ => return Ok(()),
        };
        Err(Error::refused(ErrorCode::UNSUPPORTED_VERSION, format!("list groups by {unknown}")))
    }
}

impl Op for ListGroups {
    fn name(&self) -> &'static str {
        "list groups"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        if !cx.knows_brokers() {
            return Ok(());
        }
        let missing: Vec<i32> =
            cx.cluster.brokers.keys().filter(|node| !self.responded.contains(node)).copied().collect();
        for node in &missing {
            let request = list_groups::Request { states_filter: self.states.clone(), types_filter: self.types.clone() };
            cx.send(Target::Node(*node), request, ANSWER);
        }
        self.done = missing.is_empty();
        Ok(())
    }

    fn take(&mut self, cx: &mut OpContext<'_>, _part: u32, node: i32, reply: Reply) -> Result<(), Error> {
        self.check_filters(reply.version)?;
        let response: list_groups::Response = reply.decode()?;
        response.error_code.check().map_err(|code| Error::refused(code, "list groups"))?;
        for g in response.groups {
            let listing = GroupListing {
                group: g.group_id,
                protocol_type: g.protocol_type,
                state: g.group_state,
                kind: g.group_type,
            };
            self.found.insert(listing.group.clone(), listing);
        }
        self.responded.insert(node);
        self.done = cx.cluster.brokers.keys().all(|node| self.responded.contains(node));
        Ok(())
    }

    fn output(&mut self) -> Option<Output> {
        self.done.then(|| Output::Groups(std::mem::take(&mut self.found).into_values().collect()))
    }
}

/// A request to a group's coordinator.
pub trait Question: Send {
    /// What the request does, for messages.
    const NAME: &'static str;
    /// Sends the request.
    fn ask(&self, cx: &mut OpContext<'_>, node: i32, group: &str);
    /// Reads the response; `None` sends the request again.
    fn read(&mut self, group: &str, reply: Reply) -> Result<Option<Output>, Error>;
    /// Returns the error of a request without a response.
    fn fail(&mut self, _group: &str, error: Error) -> Error {
        error
    }
}

/// An operation on a group, which finds the coordinator first.
pub struct OfGroup<Q> {
    group: String,
    question: Q,
    coordinator: Option<i32>,
    output: Option<Output>,
}

impl<Q> OfGroup<Q> {
    pub(super) fn of(group: String, question: Q) -> Self {
        Self { group, question, coordinator: None, output: None }
    }
}

impl<Q: Question> Op for OfGroup<Q> {
    fn name(&self) -> &'static str {
        Q::NAME
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        if let Some(node) = reach_coordinator(cx, self.coordinator, &self.group) {
            self.question.ask(cx, node, &self.group);
        }
        Ok(())
    }

    fn take(&mut self, cx: &mut OpContext<'_>, part: u32, _node: i32, reply: Reply) -> Result<(), Error> {
        if part == COORDINATOR {
            self.coordinator = Some(coordinator::read(reply, format_args!("group {:?}", self.group))?);
            return self.step(cx);
        }
        match self.question.read(&self.group, reply) {
            Ok(None) => self.step(cx),
            Ok(mut output) => {
                if let (Some(Output::Group(found)), Some(node)) = (&mut output, self.coordinator) {
                    found.coordinator = node;
                }
                self.output = output;
                Ok(())
            }
            Err(e) => {
                if e.code().is_some_and(coordinator::is_moved) {
                    self.coordinator = None;
                }
                Err(e)
            }
        }
    }

    fn fail(&mut self, _cx: &mut OpContext<'_>, _part: u32, error: Error) -> Result<(), Error> {
        Err(match self.coordinator.take() {
            Some(_) => self.question.fail(&self.group, error),
            None => error,
        })
    }

    fn output(&mut self) -> Option<Output> {
        self.output.take()
    }
}

/// DeleteGroups for one group.
#[derive(Default)]
pub struct DeleteGroup {
    /// Whether an earlier attempt had no response, so that it may have deleted the group.
    tried: bool,
}

impl OfGroup<DeleteGroup> {
    /// Deletes a group without members, and its offsets.
    pub fn delete(group: String) -> Self {
        Self::of(group, DeleteGroup::default())
    }
}

impl Question for DeleteGroup {
    const NAME: &'static str = "delete a group";

    fn ask(&self, cx: &mut OpContext<'_>, node: i32, group: &str) {
        cx.send(Target::Node(node), delete_groups::Request { groups_names: vec![group.to_owned()] }, ANSWER);
    }

    fn read(&mut self, group: &str, reply: Reply) -> Result<Option<Output>, Error> {
        let response: delete_groups::Response = reply.decode()?;
        for result in response.results {
            match result.error_code {
                ErrorCode::GROUP_ID_NOT_FOUND if self.tried => {}
                code => code.check().map_err(|code| Error::refused(code, format!("delete group {group:?}")))?,
            }
        }
        Ok(Some(Output::Done))
    }

    fn fail(&mut self, _group: &str, error: Error) -> Error {
        self.tried = true;
        error
    }
}

/// OffsetDelete.
pub struct DeleteOffsets(Vec<TopicPartition>);

impl OfGroup<DeleteOffsets> {
    /// Deletes a group's offsets of partitions that no member subscribes to.
    pub fn delete_offsets(group: String, partitions: Vec<TopicPartition>) -> Self {
        let output = partitions.is_empty().then_some(Output::Done);
        Self { output, ..Self::of(group, DeleteOffsets(partitions)) }
    }
}

impl Question for DeleteOffsets {
    const NAME: &'static str = "delete a group's offsets";

    fn ask(&self, cx: &mut OpContext<'_>, node: i32, group: &str) {
        let mut topics: BTreeMap<&str, Vec<offset_delete::Partition>> = BTreeMap::new();
        for TopicPartition { topic, partition } in &self.0 {
            topics.entry(topic).or_default().push(offset_delete::Partition { partition_index: *partition });
        }
        let topic = |(name, partitions): (&str, _)| offset_delete::Topic { name: name.to_owned(), partitions };
        let topics = topics.into_iter().map(topic).collect();
        cx.send(Target::Node(node), offset_delete::Request { group_id: group.to_owned(), topics }, ANSWER);
    }

    fn read(&mut self, group: &str, reply: Reply) -> Result<Option<Output>, Error> {
        let response: offset_delete::Response = reply.decode()?;
        let refused = |code| Error::refused(code, format!("delete offsets of group {group:?}"));
        response.error_code.check().map_err(refused)?;
        for topic in response.topics {
            for p in topic.partitions {
                let at = |code| refused(code).at(&topic.name.as_str().into(), p.partition_index);
                p.error_code.check().map_err(at)?;
            }
        }
        Ok(Some(Output::Done))
    }
}

/// OffsetFetch for all offsets of a group.
pub struct AllOffsets;

impl OfGroup<AllOffsets> {
    /// Requests all offsets of a group.
    pub fn offsets(group: String) -> Self {
        Self::of(group, AllOffsets)
    }
}

impl Question for AllOffsets {
    const NAME: &'static str = "fetch a group's offsets";

    fn ask(&self, cx: &mut OpContext<'_>, node: i32, group: &str) {
        let all = offset_fetch::Group { group_id: group.to_owned(), topics: None, ..Default::default() };
        let request = offset_fetch::Request {
            group_id: group.to_owned(),
            topics: None,
            groups: vec![all],
            // Offsets of open transactions are left out and not waited for.
            require_stable: false,
        };
        cx.send_within(Target::Node(node), request, ANSWER, MIN_FETCH_ALL, MAX_FETCH);
    }

    fn read(&mut self, group: &str, reply: Reply) -> Result<Option<Output>, Error> {
        let response: offset_fetch::Response = reply.decode()?;
        let refused = |code| Error::refused(code, format!("fetch the offsets of group {group:?}"));
        response.error_code.check().map_err(refused)?;
        let mut topics: Vec<(String, Vec<offset_fetch::PartitionResponse>)> =
            response.topics.into_iter().map(|t| (t.name, t.partitions)).collect();
        for of_group in response.groups {
            // A group that does not exist has no offsets.
            match of_group.error_code {
                ErrorCode::GROUP_ID_NOT_FOUND => {}
                code => code.check().map_err(refused)?,
            }
            topics.extend(of_group.topics.into_iter().map(|t| (t.name, t.partitions)));
        }
        let mut found = Vec::new();
        for (topic, partitions) in topics {
            let topic: Arc<str> = topic.into();
            for p in partitions {
                p.error_code.check().map_err(|code| refused(code).at(&topic, p.partition_index))?;
                found.push(CommittedOffset {
                    leader_epoch: p.committed_leader_epoch,
                    metadata: p.metadata.unwrap_or_default(),
                    ..CommittedOffset::new(topic.clone(), p.partition_index, p.committed_offset)
                });
            }
        }
        found.retain(|o| o.offset >= 0);
        found.sort_unstable_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        Ok(Some(Output::Committed(found.into_iter().map(Some).collect())))
    }
}

/// OffsetCommit for a group without members.
pub struct AlterOffsets(Commit);

impl AlterOffsets {
    /// Sets committed offsets.
    pub fn new(group: String, offsets: Vec<CommittedOffset>) -> Self {
        Self(Commit::new(GroupMetadata::outside(group), offsets))
    }
}

impl Op for AlterOffsets {
    fn name(&self) -> &'static str {
        "alter a group's offsets"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        self.0.step(cx)
    }

    fn take(&mut self, cx: &mut OpContext<'_>, part: u32, node: i32, reply: Reply) -> Result<(), Error> {
        self.0.take(cx, part, node, reply).map_err(|e| match e.code() {
            Some(ErrorCode::UNKNOWN_MEMBER_ID) => e.with_hint("the group has members; stop them first"),
            _ => e,
        })
    }

    fn fail(&mut self, cx: &mut OpContext<'_>, part: u32, error: Error) -> Result<(), Error> {
        self.0.fail(cx, part, error)
    }

    fn output(&mut self) -> Option<Output> {
        self.0.output()
    }
}

enum Stage {
    Committed(OfGroup<AllOffsets>),
    /// Metadata: which topics still exist.
    Topics,
    Ends(ListOffsets),
}

/// The lag of a group: how many records it has yet to read of each partition with a committed offset. It is `None` for
/// a partition that was deleted or has no leader.
pub struct GroupLag {
    stage: Stage,
    offsets: Vec<CommittedOffset>,
    /// Which offsets are of partitions that exist.
    there: Vec<usize>,
    lags: Option<Vec<(TopicPartition, Option<i64>)>>,
}

impl GroupLag {
    /// Requests the lag of a group.
    pub fn new(group: String) -> Self {
        let stage = Stage::Committed(OfGroup::offsets(group));
        Self { stage, offsets: Vec::new(), there: Vec::new(), lags: None }
    }

    fn finish(&mut self, ends: &[Option<(i64, i64)>]) {
        let mut lags: Vec<_> =
            self.offsets.iter().map(|o| (TopicPartition::new(o.topic.clone(), o.partition), None)).collect();
        for (i, end) in self.there.iter().zip(ends) {
            if let (Some(o), Some((_, lag)), Some((end, _))) = (self.offsets.get(*i), lags.get_mut(*i), end) {
                *lag = Some(end.saturating_sub(o.offset).max(0));
            }
        }
        self.lags = Some(lags);
    }
}

impl Op for GroupLag {
    fn name(&self) -> &'static str {
        "look up a group's lag"
    }

    fn step(&mut self, cx: &mut OpContext<'_>) -> Result<(), Error> {
        match &mut self.stage {
            Stage::Committed(op) => op.step(cx),
            Stage::Topics => {
                let names: BTreeSet<String> = self.offsets.iter().map(|o| o.topic.to_string()).collect();
                ask_topics(cx, Some(&Vec::from_iter(names)), false, ANSWER);
                Ok(())
            }
            Stage::Ends(op) => op.step(cx),
        }
    }

    fn take(&mut self, cx: &mut OpContext<'_>, part: u32, node: i32, reply: Reply) -> Result<(), Error> {
        match &mut self.stage {
            Stage::Committed(op) => {
                op.take(cx, part, node, reply)?;
                let Some(Output::Committed(found)) = op.output() else {
                    return Ok(());
                };
                self.offsets = found.into_iter().flatten().collect();
                if self.offsets.is_empty() {
                    self.finish(&[]);
                    return Ok(());
                }
                self.stage = Stage::Topics;
            }
            Stage::Topics => {
                let cluster = read_topics(cx.now, reply, false)?;
                let is_there = |o: &CommittedOffset| {
                    let partitions = cluster.topics.get(&o.topic).map_or(0, |t| t.partitions.len());
                    usize::try_from(o.partition).is_ok_and(|p| p < partitions)
                };
                let there = self.offsets.iter().enumerate().filter(|(_, o)| is_there(o));
                let (there, wanted): (Vec<_>, Vec<_>) =
                    there.map(|(i, o)| (i, (o.topic.clone(), o.partition, LATEST))).unzip();
                self.there = there;
                if wanted.is_empty() {
                    self.finish(&[]);
                    return Ok(());
                }
                self.stage = Stage::Ends(ListOffsets::of_led(cx.now, wanted, false));
            }
            Stage::Ends(op) => return op.take(cx, part, node, reply),
        }
        self.step(cx)
    }

    fn fail(&mut self, cx: &mut OpContext<'_>, part: u32, error: Error) -> Result<(), Error> {
        match &mut self.stage {
            Stage::Committed(op) => op.fail(cx, part, error),
            _ => Err(error),
        }
    }

    fn output(&mut self) -> Option<Output> {
        if let Stage::Ends(op) = &mut self.stage
            && let Some(Output::Offsets(ends)) = op.output()
        {
            self.finish(&ends);
        }
        self.lags.take().map(Output::Lags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{self, Message, find_coordinator, list_offsets, metadata};
    use crate::engine::{ClientResponse, Cluster, ErrorKind, Role, Time};
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
            ops.start(Time(1), Box::new(ListGroups::new(Vec::new(), Vec::new())), Duration::from_secs(60), ());
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

    /// Offsets of deleted partitions are rare, because brokers delete them. No test with a broker meets one.
    #[test]
    fn the_lag_of_a_partition_that_is_gone_is_unknown() {
        let now = Time(1);
        let cluster = Arc::new(Cluster::default().updated(now, metadata("t"), true));
        let mut ops = super::super::Ops::new((Duration::from_millis(1), Duration::from_millis(1)));
        ops.handle_cluster(now, &cluster);
        ops.start(now, Box::new(GroupLag::new("g".to_owned())), Duration::from_secs(1), ());
        let mut answer = |version: i16, body: Vec<u8>| {
            let token = ops.poll_send(now).unwrap().token;
            let result = Ok(Reply { version, body: body.into() });
            ops.handle_response(now, ClientResponse { token, node: 1, result });
            ops.poll_done()
        };
        fn body<M: Message>(version: i16, message: &M) -> (i16, Vec<u8>) {
            (version, api::encode(version, message).unwrap())
        }
        let committed = |index| offset_fetch::PartitionResponse {
            partition_index: index,
            committed_offset: 3,
            ..Default::default()
        };
        let topic = offset_fetch::TopicResponse { name: "t".to_owned(), partitions: vec![committed(0), committed(1)] };
        let end = list_offsets::PartitionResponse { offset: 10, ..Default::default() };
        let end = list_offsets::TopicResponse { name: "t".to_owned(), partitions: vec![end] };
        let (v, b) = body(0, &find_coordinator::Response { node_id: 1, ..Default::default() });
        assert!(answer(v, b).is_none());
        let (v, b) = body(1, &offset_fetch::Response { topics: vec![topic], ..Default::default() });
        assert!(answer(v, b).is_none());
        let (v, b) = body(1, &metadata("t"));
        assert!(answer(v, b).is_none());
        let (v, b) = body(1, &list_offsets::Response { topics: vec![end], ..Default::default() });
        let Some(((), Ok(Output::Lags(lags)))) = answer(v, b) else { panic!("no lags") };
        assert_eq!(lags, [(("t", 0).into(), Some(7)), (("t", 1).into(), None)]);
    }
}
