//! The partitions that the consumer reads: partitions that the application assigned, all partitions of subscribed
//! topics, or partitions that the consumer's group assigned.
//!
//! This file applies changes of the assignment: it adds and removes partitions. `engine/group` implements the
//! membership in the group.

use super::partition::{Partition, PositionState};
use super::{Assigned, Consumer};
use crate::api::ErrorCode;
use crate::api::list_offsets::{EARLIEST, LATEST};
use crate::engine::group::{Assignments, Change, GroupMetadata, Subscription, Work};
use crate::engine::ops::UNKNOWN_TOPIC_GRACE;
use crate::engine::{Error, ErrorKind, Time, Topic, TopicPartition};
use crate::wire::Uuid;
use regex_lite::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The topics or partitions that the application wants to read.
#[derive(Debug, Default)]
pub(super) enum Wanted {
    /// Only the partitions that the application assigned.
    #[default]
    Assigned,
    /// The topics with these names.
    Topics(BTreeSet<Arc<str>>),
    /// Topics whose whole name matches a pattern. The compiled pattern is missing if only the coordinator supports the
    /// syntax of the pattern.
    Pattern(String, Option<Regex>),
}

/// The partitions that existed when a subscription began. The consumer reads a partition that it finds later from the
/// first record, because the whole partition is new. `auto.offset.reset` `latest` would skip the records that arrived
/// before the consumer found the partition.
#[derive(Debug, Default)]
pub(super) struct FirstKnown {
    /// The ID and the number of partitions of each topic.
    topics: BTreeMap<Arc<str>, (Uuid, usize)>,
    /// Whether the metadata has all topics of the cluster.
    is_complete: bool,
}

impl FirstKnown {
    fn note(&mut self, name: &Arc<str>, topic: &Topic) {
        let count = match topic.error {
            ErrorCode::NONE => topic.partitions.len(),
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => 0,
            _ => return,
        };
        self.topics.entry(name.clone()).or_insert((topic.id, count));
    }

    /// Returns whether the partition did not exist yet when the subscription began.
    fn is_later(&self, topic: &str, id: Uuid, partition: i32) -> bool {
        match self.topics.get(topic) {
            Some((first, _)) if *first != id && !first.is_zero() && !id.is_zero() => true,
            Some((_, count)) => usize::try_from(partition).is_ok_and(|p| p >= *count),
            None => self.is_complete,
        }
    }
}

/// A change of the assignment that the application is handling.
#[derive(Debug)]
pub(super) struct Changing {
    change: Change,
    /// Whether the auto-commit before a revocation is in flight.
    pub committing: bool,
    handled: bool,
}

impl<T: Send> Consumer<T> {
    /// Assigns exactly these partitions, and auto-commits the offsets of the previously assigned partitions. A
    /// partition that was assigned before keeps its position and stays paused, unless the caller gives an offset.
    pub fn assign(&mut self, now: Time, assigned: Vec<Assigned>) {
        self.commit_before_change(now);
        let stays_manual = matches!(self.wanted, Wanted::Assigned);
        let mut previous = std::mem::take(&mut self.partitions);
        previous.retain(|_, p| stays_manual && p.state != PositionState::Lost);
        let slots = std::mem::take(&mut self.slots);
        self.unsubscribe(now);
        for a in assigned {
            let partition = TopicPartition::new(a.topic.as_str(), a.partition);
            let kept = slots.get(&partition).filter(|_| a.offset.is_none());
            if let Some((slot, p)) = kept.and_then(|slot| Some((*slot, previous.remove(slot)?))) {
                self.remove(&partition);
                self.slots.insert(partition, slot);
                self.partitions.insert(slot, p);
            }
            match kept.and_then(|slot| self.partitions.get_mut(slot)) {
                Some(p) => p.set_end_offset(a.end_offset),
                None => {
                    self.demand.creates.insert(a.topic.as_str().into());
                    self.add(now, a);
                }
            }
        }
        self.find_positions(now);
        self.check_positions(now);
        self.check_missing(now);
    }

    /// Subscribes to these topics. With a group, the consumer joins the group. Without a group, it reads all partitions
    /// of the topics, including partitions that are added later.
    pub fn subscribe(&mut self, now: Time, topics: Vec<String>) {
        let topics: BTreeSet<Arc<str>> = topics.into_iter().map(Arc::from).collect();
        if topics.is_empty() {
            // A member without topics would get no partitions, but would still take part in rebalances.
            self.commit_before_change(now);
            return self.unsubscribe(now);
        }
        self.want(now, Wanted::Topics(topics));
    }

    /// Subscribes to the topics whose whole name matches a pattern, including topics that are created later.
    pub fn subscribe_pattern(&mut self, now: Time, pattern: &str) -> Result<(), Error> {
        // A coordinator that matches gets the pattern unchanged; both match whole names. The pattern must also compile
        // without the added group: `a)|(b` is invalid, but would be valid inside of it.
        let whole = Regex::new(pattern).and_then(|_| Regex::new(&format!("^(?:{pattern})$")));
        let regex = match whole {
            Ok(regex) => Some(regex),
            Err(_) if self.coordinator_matches() => None,
            Err(e) => {
                let what = format!("subscribe to pattern {pattern:?}: not a valid regular expression: {e}");
                let hint = "it must match a topic's whole name, as in logs-.*; lookaround and Unicode classes are not supported";
                return Err(Error::new(ErrorKind::Config, what).with_hint(hint));
            }
        };
        self.want(now, Wanted::Pattern(pattern.to_owned(), regex));
        Ok(())
    }

    fn want(&mut self, now: Time, wanted: Wanted) {
        if self.group.is_none() && !matches!(self.wanted, Wanted::Assigned) {
            self.retain_wanted(&wanted);
        } else if !self.is_member {
            self.commit_before_change(now);
            self.unsubscribe(now);
        }
        self.wanted = wanted;
        self.closing_since = None;
        self.demand.drops_topics = true;
        self.subscribed_at = now;
        self.first_known = FirstKnown::default();
        self.error = None;
        self.ended = None;
        self.is_member = self.group.is_some();
        self.subscription = None;
        let is_pattern = matches!(self.wanted, Wanted::Pattern(..));
        self.demand.watch_all = Some(is_pattern && !self.coordinator_matches());
        // Also if the coordinator matches: which topics exist already decides where new ones start.
        self.demand.all |= is_pattern;
        if let Wanted::Topics(topics) = &self.wanted {
            self.demand.topics.extend(topics.iter().cloned());
            self.demand.creates.extend(topics.iter().cloned());
            self.demand.refresh = true;
        }
        self.update_topics(now);
    }

    /// Removes partitions that are no longer subscribed, and partitions whose position was lost. The remaining
    /// partitions keep their positions.
    fn retain_wanted(&mut self, wanted: &Wanted) {
        let is_wanted = |p: &Partition| match wanted {
            Wanted::Assigned => false,
            Wanted::Topics(topics) => topics.contains(&p.topic),
            Wanted::Pattern(_, regex) => regex.as_ref().is_some_and(|regex| regex.is_match(&p.topic)),
        };
        let is_removed = |p: &&Partition| p.state == PositionState::Lost || !is_wanted(p);
        let removed: Vec<TopicPartition> =
            self.partitions.values().filter(is_removed).map(Partition::topic_partition).collect();
        removed.iter().for_each(|partition| self.remove(partition));
    }

    /// Returns whether the consumer has no partitions, and no subscribed topics that may get partitions.
    pub fn reads_nothing(&self) -> bool {
        let has_topics = match &self.wanted {
            Wanted::Assigned => false,
            Wanted::Topics(topics) => !topics.is_empty(),
            Wanted::Pattern(..) => true,
        };
        self.partitions.is_empty() && !has_topics
    }

    fn coordinator_matches(&self) -> bool {
        self.group.as_ref().is_some_and(|g| g.matches_patterns())
    }

    /// Removes all partitions. If the consumer is a group member, it leaves the group.
    pub fn unsubscribe(&mut self, now: Time) {
        if let (true, Some(group)) = (self.is_member, &mut self.group) {
            group.leave(now, "the consumer unsubscribed");
            group.forget();
        }
        self.is_member = false;
        self.closing_since = None;
        self.changing = None;
        self.paused_before_rebalance.clear();
        self.wanted = Wanted::Assigned;
        self.demand.drops_topics = true;
        self.demand.watch_all = Some(false);
        self.partitions.clear();
        self.slots.clear();
        self.error = None;
        self.ended = None;
        let error = Error::new(ErrorKind::Config, "partition is no longer assigned");
        self.done.extend(self.positions.drain(..).map(|(completion, ..)| (completion, Err(error.clone()))));
    }

    pub(super) fn add(&mut self, now: Time, a: Assigned) {
        let topic: Arc<str> = a.topic.into();
        self.demand.topics.insert(topic.clone());
        let mut p = Partition::new(topic.clone(), a.partition, a.end_offset);
        match a.offset {
            Some(offset) => p.start_at(offset),
            None if self.config.group.is_none() => p.reset(self.first_position(now, &topic, a.partition)),
            None => {}
        }
        self.remove(&TopicPartition::new(topic.clone(), a.partition));
        self.slots.insert(TopicPartition::new(topic, a.partition), self.next_slot);
        self.partitions.insert(self.next_slot, p);
        self.next_slot += 1;
    }

    fn remove(&mut self, partition: &TopicPartition) {
        let Some(slot) = self.slots.remove(partition) else {
            return;
        };
        self.partitions.remove(&slot);
        self.demand.drops_topics = true;
        let error = Error::new(ErrorKind::Config, format!("{partition} is no longer assigned"));
        let (removed, kept) = std::mem::take(&mut self.positions).into_iter().partition(|(_, s, _)| *s == slot);
        self.positions = kept;
        self.done.extend(Vec::into_iter(removed).map(|(completion, ..)| (completion, Err(error.clone()))));
    }

    /// Notes the partitions of the subscribed topics in the first metadata after the subscription began.
    pub(super) fn note_first_known(&mut self) {
        if self.bridged.updated_at < self.subscribed_at {
            return;
        }
        match &self.wanted {
            Wanted::Topics(names) => {
                for (name, topic) in names.iter().filter_map(|name| self.bridged.topics.get_key_value(name)) {
                    self.first_known.note(name, topic);
                }
            }
            Wanted::Pattern(..) if self.bridged.complete && !self.first_known.is_complete => {
                self.bridged.topics.iter().for_each(|(name, topic)| self.first_known.note(name, topic));
                self.first_known.is_complete = true;
            }
            _ => {}
        }
    }

    /// Returns where to start reading a partition that has no committed offset.
    pub(super) fn first_position(&self, now: Time, topic: &str, partition: i32) -> PositionState {
        let id = self.bridged.topics.get(topic).map_or(Uuid::ZERO, |t| t.id);
        match self.reset_position(now) {
            PositionState::ByTimestamp(LATEST)
                if !matches!(self.wanted, Wanted::Assigned) && self.first_known.is_later(topic, id, partition) =>
            {
                PositionState::ByTimestamp(EARLIEST)
            }
            position => position,
        }
    }

    /// Updates the subscribed topics and their partitions after new metadata.
    pub(super) fn update_topics(&mut self, now: Time) {
        let (names, pattern): (BTreeSet<Arc<str>>, _) = match &self.wanted {
            Wanted::Assigned => return,
            Wanted::Topics(topics) => (topics.clone(), None),
            Wanted::Pattern(pattern, _) if self.coordinator_matches() => (BTreeSet::new(), Some(pattern.clone())),
            Wanted::Pattern(..) if !self.cluster.complete => return,
            Wanted::Pattern(_, regex) => {
                let matches = |name: &str| regex.as_ref().is_some_and(|regex| regex.is_match(name));
                let fits = |t: &(&Arc<str>, &Topic)| !t.1.internal && !t.1.error.is_error() && matches(t.0);
                (self.bridged.topics.iter().filter(fits).map(|(name, _)| name.clone()).collect(), None)
            }
        };
        if matches!(self.wanted, Wanted::Topics(_)) {
            self.report_topic_errors(now, &names);
        }
        match &mut self.group {
            Some(group) if self.is_member => {
                let subscription = Subscription { topics: names, pattern };
                if self.subscription.as_ref() != Some(&subscription) {
                    self.subscription = Some(subscription.clone());
                    group.subscribe(now, subscription);
                }
            }
            _ => {
                for topic in names {
                    let metadata = self.bridged.topics.get(&topic).filter(|t| !t.error.is_error());
                    for partition in 0..metadata.map_or(0, |t| t.partitions.len()) as i32 {
                        if !self.slots.contains_key(&TopicPartition::new(topic.clone(), partition)) {
                            let topic = topic.to_string();
                            self.add(now, Assigned { topic, partition, offset: None, end_offset: None });
                        }
                    }
                }
                self.find_positions(now);
            }
        }
    }

    /// Reports errors of subscribed topics. Temporary errors are reported only after some time. If a topic is unknown
    /// to a group member, the member reports the topic at longer intervals, because other members may know the topic.
    fn report_topic_errors(&mut self, now: Time, names: &BTreeSet<Arc<str>>) {
        for topic in names {
            let Some((since, code)) = self.topic_errors.get(topic) else { continue };
            let is_awaited = self.is_member && code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            let since = if is_awaited { since.max(self.missing_topic_reported_at) } else { since };
            let timeout = match code {
                _ if is_awaited => self.config.api_timeout,
                code if code.is_permanent() => Duration::ZERO,
                _ => UNKNOWN_TOPIC_GRACE,
            };
            if self.error.is_none() && now.since(since.max(self.subscribed_at)) >= timeout {
                self.missing_topic_reported_at = if is_awaited { now } else { self.missing_topic_reported_at };
                self.error = Some(Error::refused(code, format!("subscribe to {topic:?}")).at(topic, None));
            }
        }
    }

    /// Returns whether the group assigns the partitions.
    pub fn is_member(&self) -> bool {
        self.is_member
    }

    /// Returns the group, generation and member ID, if the consumer has a group.
    pub fn group_metadata(&self) -> Option<GroupMetadata> {
        let config = self.config.group.as_ref()?;
        Some(match &self.group {
            Some(group) if self.is_member => group.metadata(),
            _ => GroupMetadata::outside(config.group.clone()),
        })
    }

    /// Notes that the application polls, for `max.poll.interval.ms`.
    pub fn note_activity(&mut self, now: Time) {
        if let (true, Some(group)) = (self.is_member, &mut self.group) {
            group.note_activity(now);
        }
    }

    /// Returns whether the application must take a change of the assignment before it gets records.
    pub fn has_change(&self) -> bool {
        self.changing.is_none() && self.group.as_ref().is_some_and(|g| g.has_change())
    }

    /// Takes the next change, which [`Consumer::handled`] ends. Before that, the application may commit offsets of
    /// revoked partitions, and seek in new partitions.
    pub fn take_change(&mut self, now: Time) -> Option<Change> {
        if self.changing.is_some() {
            return None;
        }
        let change = self.group.as_mut()?.take_change()?;
        let mut committing = false;
        match &change {
            Change::Revoked(_) => committing = self.commit_before_revocation(now),
            Change::Lost(partitions) => partitions.iter().for_each(|p| self.remove(p)),
            Change::Assigned(partitions) => {
                for assigned in partitions {
                    let (topic, partition) = (assigned.topic.to_string(), assigned.partition);
                    self.add(now, Assigned { topic, partition, offset: None, end_offset: None });
                    self.delay_start(assigned);
                    if self.paused_before_rebalance.remove(assigned) {
                        let _ = self.set_paused(&[(assigned.topic.to_string(), assigned.partition)], true);
                    }
                }
            }
        }
        self.measured.note_taken(now);
        self.changing = Some(Changing { change: change.clone(), committing, handled: false });
        Some(change)
    }

    /// Delays the request for the start offset, because the application may seek or commit another offset while it
    /// handles the change.
    fn delay_start(&mut self, partition: &TopicPartition) {
        if let Some(p) = self.slots.get(partition).and_then(|slot| self.partitions.get_mut(slot)) {
            p.retry_at = Time::NEVER;
        }
    }

    /// Requests the delayed start offsets, except those of partitions where the application called seek.
    pub(super) fn request_starts(&mut self, now: Time, partitions: &[TopicPartition]) {
        for partition in partitions {
            let p = self.slots.get(partition).and_then(|slot| self.partitions.get_mut(slot));
            if let Some(p) = p.filter(|p| p.retry_at == Time::NEVER) {
                p.retry_at = Time(0);
            }
        }
        self.find_positions(now);
    }

    /// Notes that the application has handled the change.
    pub fn handled(&mut self, now: Time) {
        if let Some(Changing { change: Change::Assigned(partitions), .. }) = &self.changing {
            let partitions = partitions.clone();
            self.request_starts(now, &partitions);
        }
        if let Some(changing) = &mut self.changing {
            changing.handled = true;
            self.measured.note_handled(now, &changing.change);
        }
        self.end_change();
    }

    /// Ends the change after the application has handled it and the auto-commit is complete.
    pub(super) fn end_change(&mut self) {
        let Some(changing) = self.changing.take_if(|c| c.handled && !c.committing) else {
            return;
        };
        if let Change::Revoked(partitions) = &changing.change {
            let paused = self.paused().into_iter().filter(|p| partitions.contains(p));
            self.paused_before_rebalance.extend(paused);
            partitions.iter().for_each(|p| self.remove(p));
        }
        if let Some(group) = &mut self.group {
            group.handled();
            if !group.is_rebalancing() {
                self.paused_before_rebalance.clear();
            }
        }
    }

    /// Leaves the group, if the consumer is a member of it.
    pub fn leave(&mut self, now: Time) {
        if let (true, Some(group)) = (self.is_member, &mut self.group) {
            group.leave(now, "the consumer is closed");
        }
    }

    /// Returns whether the group coordinator needs no further request.
    pub fn has_left(&self) -> bool {
        self.group.as_ref().is_none_or(|g| g.has_left())
    }

    /// Logs that the coordinator has not confirmed that the consumer left its group, if the consumer is leaving.
    pub fn log_unfinished_leave(&self) {
        if let Some(group) = &self.group {
            group.log_unfinished_leave();
        }
    }

    /// Returns an assignment to compute for the group, outside of every lock.
    pub fn poll_work(&mut self) -> Option<Work> {
        self.group.as_mut()?.poll_work()
    }

    /// Handles the computed assignment.
    pub fn assigned(&mut self, now: Time, assignments: Assignments) {
        if let Some(group) = &mut self.group {
            group.assigned(now, assignments);
        }
        self.take_group_error();
    }

    /// Takes the errors of the membership, so that polls can raise them.
    pub(super) fn take_group_error(&mut self) {
        if let Some(error) = self.group.as_mut().and_then(|g| g.take_error()) {
            self.ended = Some(error);
        }
        let nonfatal_error = self.group.as_mut().and_then(|g| g.take_nonfatal_error());
        self.error = nonfatal_error.or_else(|| self.error.take());
    }
}
