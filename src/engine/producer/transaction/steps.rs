//! Builds the requests of a transaction and reads their responses.

use super::{
    Error, MAX_ADD_PARTITIONS, MAX_COMMIT, MAX_COMMIT_1, MAX_END_1, Slot, State, Step, Transactions, is_abortable,
};
use crate::api::{
    ErrorCode, Info, add_offsets_to_txn, add_partitions_to_txn, end_txn, find_coordinator, init_producer_id,
    txn_offset_commit,
};
use crate::engine::{Call, Deadline, Outgoing, Reply, Target, Time, coordinator};
use crate::wire::{Wire, Writer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The InitProducerId request. Before version 3, the request cannot contain the current epoch.
struct Init(init_producer_id::Request);

impl Call for Init {
    fn api(&self) -> &'static Info {
        &init_producer_id::API
    }
    fn put(&self, w: &mut Writer) {
        let mut request = self.0.clone();
        if w.version < 3 {
            (request.producer_id, request.producer_epoch) = (-1, -1);
        }
        Wire::put(&request, w);
    }
}

impl Transactions {
    fn producer(&self) -> (i64, i16) {
        self.producer.unwrap_or((-1, -1))
    }

    /// Builds InitProducerId, for the first or the next epoch.
    pub(super) fn init_producer(&self, now: Time, target: Target) -> Outgoing<Step> {
        let (producer_id, producer_epoch) = self.producer();
        let request = init_producer_id::Request {
            transactional_id: Some(self.settings.id.to_string()),
            transaction_timeout_ms: i32::try_from(self.settings.timeout.as_millis()).unwrap_or(i32::MAX),
            producer_id,
            producer_epoch,
            ..Default::default()
        };
        self.outgoing(now, target, Box::new(Init(request)), Step::Init, i16::MAX)
    }

    /// Builds EndTxn.
    pub(super) fn end_txn(&self, now: Time, target: Target) -> Outgoing<Step> {
        let (producer_id, producer_epoch) = self.producer();
        let committed = matches!(self.state, State::Committing);
        let transactional_id = self.settings.id.to_string();
        let request = end_txn::Request { transactional_id, producer_id, producer_epoch, committed };
        let max = if self.version2 { i16::MAX } else { MAX_END_1 };
        self.outgoing(now, target, Box::new(request), Step::End, max)
    }

    /// Builds AddPartitionsToTxn for all partitions to add.
    pub(super) fn add_partitions(
        &mut self,
        now: Time,
        target: Target,
        name: impl Fn(usize) -> Option<Arc<str>>,
    ) -> Outgoing<Step> {
        let id = self.settings.id.to_string();
        let (producer_id, producer_epoch) = self.producer();
        let slots: Vec<Slot> = self.to_add.iter().copied().collect();
        let mut topics: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in &slots {
            topics.entry(*topic).or_default().push(*partition as i32);
        }
        let topic =
            |(topic, partitions)| Some(add_partitions_to_txn::Topic { name: name(topic)?.to_string(), partitions });
        let request = add_partitions_to_txn::Request {
            v3_and_below_transactional_id: id,
            v3_and_below_producer_id: producer_id,
            v3_and_below_producer_epoch: producer_epoch,
            v3_and_below_topics: topics.into_iter().filter_map(topic).collect(),
            ..Default::default()
        };
        self.begun = true;
        self.outgoing(now, target, Box::new(request), Step::Partitions(slots), MAX_ADD_PARTITIONS)
    }

    /// Builds the next request for the first offset commit: AddOffsetsToTxn if needed, FindCoordinator if needed, then
    /// TxnOffsetCommit.
    pub(super) fn send_offsets(&mut self, now: Time, target: Target) -> Option<Outgoing<Step>> {
        let transactional_id = self.settings.id.to_string();
        let (producer_id, producer_epoch) = self.producer();
        let commit = self.commits.front()?;
        let group_id = commit.group.group.clone();
        // Under version 2 the group coordinator adds the group.
        let is_added = self.version2 || self.groups.contains(&group_id);
        if !is_added {
            let request = add_offsets_to_txn::Request { transactional_id, producer_id, producer_epoch, group_id };
            self.begun = true;
            return Some(self.outgoing(now, target, Box::new(request), Step::Offsets, i16::MAX));
        }
        let Some(coordinator) = commit.coordinator else {
            return Some(self.find(now, find_coordinator::GROUP, &group_id, Step::GroupCoordinator));
        };
        let mut topics: BTreeMap<&str, Vec<txn_offset_commit::Partition>> = BTreeMap::new();
        for offset in &commit.offsets {
            let partition = txn_offset_commit::Partition {
                partition_index: offset.partition,
                committed_offset: offset.offset,
                committed_leader_epoch: offset.leader_epoch,
                committed_metadata: Some(offset.metadata.clone()),
            };
            topics.entry(&offset.topic).or_default().push(partition);
        }
        let topic = |(name, partitions): (&str, _)| txn_offset_commit::Topic {
            name: name.to_owned(),
            partitions,
            ..Default::default()
        };
        let request = txn_offset_commit::Request {
            transactional_id,
            group_id,
            producer_id,
            producer_epoch,
            generation_id_or_member_epoch: commit.group.generation,
            member_id: commit.group.member.clone(),
            group_instance_id: commit.group.instance.clone(),
            topics: topics.into_iter().map(topic).collect(),
        };
        self.begun = true;
        let max = if self.version2 { MAX_COMMIT } else { MAX_COMMIT_1 };
        Some(self.outgoing(now, Target::Node(coordinator), Box::new(request), Step::CommitOffsets, max))
    }

    /// Builds FindCoordinator.
    pub(super) fn find(&self, now: Time, key_type: i8, key: &str, step: Step) -> Outgoing<Step> {
        self.outgoing(now, Target::Any, Box::new(coordinator::request(key_type, key)), step, i16::MAX)
    }

    fn outgoing(
        &self,
        now: Time,
        target: Target,
        call: Box<dyn Call>,
        token: Step,
        max_version: i16,
    ) -> Outgoing<Step> {
        Outgoing { target, call, token, deadline: Deadline::ToAnswer(now + self.settings.request_timeout), max_version }
    }

    /// Reads the response to a request, and applies it. The error tells what the broker rejected.
    pub(super) fn read(&mut self, step: &Step, reply: Reply) -> Result<(), Error> {
        let id = self.settings.id.clone();
        let refused = move |code: ErrorCode, tried: &str| -> Result<(), Error> {
            code.check().map_err(|code| Error::refused(code, format!("{tried} of transactional id {id:?}")))
        };
        match step {
            Step::Coordinator => {
                let whose = format_args!("transactional id {:?}", self.settings.id);
                self.coordinator = Some(coordinator::read(reply, whose)?);
            }
            Step::GroupCoordinator => {
                if let Some(commit) = self.commits.front_mut() {
                    let whose = format_args!("group {:?}", commit.group.group);
                    commit.coordinator = Some(coordinator::read(reply, whose)?);
                }
            }
            Step::Init => {
                let r: init_producer_id::Response = reply.decode()?;
                refused(r.error_code, "initialize the producer")?;
                if matches!(self.state, State::Initializing) {
                    self.set_producer_id(r.producer_id, r.producer_epoch);
                    self.state = State::Ready;
                    self.complete_call(Ok(()));
                }
            }
            Step::Partitions(slots) => {
                let r: add_partitions_to_txn::Response = reply.decode()?;
                let results = r.results_by_topic_v3_and_below.iter().flat_map(|t| &t.results_by_partition);
                let worst = worst(results.map(|result| result.partition_error_code));
                refused(worst, "add partitions to the transaction")?;
                self.confirmed = true;
                for slot in slots {
                    self.to_add.remove(slot);
                    self.added.insert(*slot);
                }
            }
            Step::Offsets => {
                let r: add_offsets_to_txn::Response = reply.decode()?;
                refused(r.error_code, "add offsets to the transaction")?;
                self.confirmed = true;
                self.groups.extend(self.commits.front().map(|commit| commit.group.group.clone()));
            }
            Step::CommitOffsets => {
                let r: txn_offset_commit::Response = reply.decode()?;
                for result in r.topics.iter().flat_map(|t| &t.partitions) {
                    refused(result.error_code, "commit offsets in the transaction")?;
                }
                if let Some(commit) = self.commits.pop_front() {
                    self.done.push_back((commit.call, Ok(())));
                }
            }
            Step::End => {
                let r: end_txn::Response = reply.decode()?;
                let is_abort = matches!(self.state, State::Aborting(_));
                if r.error_code == ErrorCode::INVALID_TXN_STATE && is_abort && !self.confirmed {
                    // The request that would have started the transaction was lost. If it still arrives, the next epoch
                    // ends the transaction.
                    self.has_gap = true;
                    self.finish();
                    return Ok(());
                }
                refused(r.error_code, "end the transaction")?;
                if r.producer_id >= 0 {
                    self.set_producer_id(r.producer_id, r.producer_epoch);
                    self.has_gap = false;
                }
                self.finish();
            }
        }
        Ok(())
    }
}

/// Returns the most severe code: first codes that end the producer, then codes that end the transaction, then retriable
/// codes. OPERATION_NOT_ATTEMPTED comes last, because it only means that the broker rejected another partition.
fn worst(codes: impl Iterator<Item = ErrorCode>) -> ErrorCode {
    let is_abortable = |code| is_abortable(&Step::Partitions(Vec::new()), code);
    let rank =
        |code: &ErrorCode| (*code == ErrorCode::OPERATION_NOT_ATTEMPTED, code.is_retriable(), is_abortable(*code));
    codes.filter(|code| code.is_error()).min_by_key(rank).unwrap_or(ErrorCode::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_severe_code_does_not_depend_on_the_order() {
        let codes = [
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode::TOPIC_AUTHORIZATION_FAILED,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::OPERATION_NOT_ATTEMPTED,
            ErrorCode::NONE,
        ];
        for (i, code) in codes.iter().enumerate() {
            let rest = codes.get(i..).unwrap_or_default();
            assert_eq!(worst(rest.iter().copied()), *code);
            assert_eq!(worst(rest.iter().rev().copied()), *code);
        }
    }
}
