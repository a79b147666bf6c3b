//! The assignor `range` cuts each topic into one range of partitions for each subscriber. If the partitions do not
//! divide evenly, each of the first subscribers gets one more partition. A member therefore gets the same partition
//! numbers in topics that have the same subscribers and the same number of partitions.
//!
//! The assignor uses racks (KIP-881) if members and replicas have a rack in common, and if not every rack has all
//! partitions. In that case, a first pass assigns partitions to members in the rack of a replica. It gives a member at
//! most as many partitions as the member's range would contain. It handles topics together if they have the same
//! subscribers and the same number of partitions. Then the assignor cuts the remaining partitions into ranges.

use super::interface::{Assignment, Assignor, Group, Member, Topic, Topics};
use std::collections::{BTreeMap, BTreeSet};

/// The assignor `range`.
pub struct Range;

impl Assignor for Range {
    fn name(&self) -> &'static str {
        "range"
    }

    fn assign(&self, topics: &Topics, members: &[Member<'_>]) -> Assignment {
        let group = Group::new(topics, members);
        let racks: Vec<Option<&str>> = group.members.iter().map(Member::rack).collect();
        let mut ranges: Vec<TopicRanges<'_>> =
            group.topics.iter().map(|topic| TopicRanges::new(topic, &racks)).collect();
        if ranges.iter().any(|s| s.needs_racks) {
            let mut alike: BTreeMap<(&[usize], usize), Vec<&mut TopicRanges<'_>>> = BTreeMap::new();
            for s in &mut ranges {
                alike.entry((&s.topic.subscribers, s.owner.len())).or_default().push(s);
            }
            for mut alike in alike.into_values() {
                match &mut alike[..] {
                    [one] if one.needs_racks => one.cut(true),
                    [_] => {}
                    several => together(several),
                }
            }
        }
        let mut owned = vec![Vec::new(); group.members.len()];
        for (t, mut s) in ranges.into_iter().enumerate() {
            s.cut(false);
            for (p, owner) in s.owner.iter().enumerate() {
                if let Some(m) = owner.map(|i| s.topic.subscribers[i]) {
                    owned[m].push((t, p));
                }
            }
        }
        group.assignment(owned)
    }
}

/// The assignment of one topic. This struct names members by their index among the topic's subscribers.
struct TopicRanges<'a> {
    topic: &'a Topic<'a>,
    /// The rack of each subscriber.
    racks: Vec<Option<&'a str>>,
    needs_racks: bool,
    /// The owner of each partition.
    owner: Vec<Option<usize>>,
    /// The number of partitions of each subscriber.
    count: Vec<usize>,
    least: usize,
    /// How many subscribers may still get one partition more than `least`.
    extra: usize,
}

impl<'a> TopicRanges<'a> {
    fn new(topic: &'a Topic<'a>, racks: &[Option<&'a str>]) -> Self {
        let (partitions, subscribers) = (topic.racks.len(), topic.subscribers.len());
        let racks: Vec<Option<&str>> = topic.subscribers.iter().map(|m| racks[*m]).collect();
        let member_racks: BTreeSet<&str> = racks.iter().flatten().copied().collect();
        let of_each = || topic.racks.iter().map(|racks| racks.iter().map(|r| &**r).collect::<BTreeSet<&str>>());
        let needs_racks = !member_racks.is_empty() && {
            let all: BTreeSet<&str> = topic.racks.iter().flatten().map(|r| &**r).collect();
            !all.is_disjoint(&member_racks) && !of_each().all(|some| some == all)
        };
        Self {
            topic,
            racks,
            needs_racks,
            owner: vec![None; partitions],
            count: vec![0; subscribers],
            least: partitions / subscribers,
            extra: partitions % subscribers,
        }
    }

    /// Returns how many more partitions a subscriber may get.
    fn room(&self, i: usize) -> usize {
        (self.least + usize::from(self.extra > 0)).saturating_sub(self.count[i])
    }

    /// Returns whether a partition has a replica in a subscriber's rack, or the subscriber has no rack.
    fn near(&self, i: usize, p: usize) -> bool {
        self.racks[i].is_none_or(|rack| self.topic.racks[p].iter().any(|r| **r == *rack))
    }

    fn give(&mut self, i: usize, partitions: &[usize]) {
        for p in partitions {
            self.owner[*p] = Some(i);
        }
        self.count[i] += partitions.len();
        if self.count[i] > self.least && !partitions.is_empty() {
            self.extra = self.extra.saturating_sub(1);
        }
    }

    /// Gives partitions to the subscribers in order, up to the limit of each subscriber. With `only_near`, a subscriber
    /// gets only partitions in its rack.
    fn cut(&mut self, only_near: bool) {
        let mut free: Vec<usize> = (0..self.owner.len()).filter(|p| self.owner[*p].is_none()).collect();
        for i in 0..self.count.len() {
            let room = self.room(i);
            let fits = |p: &usize| !only_near || self.near(i, *p);
            let chosen: Vec<usize> = free.iter().copied().filter(fits).take(room).collect();
            self.give(i, &chosen);
            // Without the filter, the first partitions were chosen.
            match only_near {
                true => free.retain(|p| self.owner[*p].is_none()),
                false => drop(free.drain(..chosen.len())),
            }
        }
    }
}

/// Gives each partition number, in all topics at once, to the first subscriber whose rack has this partition of every
/// topic.
fn together(topics: &mut [&mut TopicRanges<'_>]) {
    let Some(first) = topics.first() else {
        return;
    };
    // Without racks, no partition is nearer than another.
    if first.racks.iter().all(Option::is_none) {
        return;
    }
    let partitions = first.owner.len();
    let mut waiting: Vec<usize> = (0..first.count.len()).collect();
    for p in 0..partitions {
        let fits = |i: &usize| topics.iter().all(|t| t.near(*i, p) && t.room(*i) > 0);
        let Some(at) = waiting.iter().position(fits) else {
            continue;
        };
        let i = waiting[at];
        topics.iter_mut().for_each(|t| t.give(i, &[p]));
        if topics.iter().all(|t| t.room(i) == 0) {
            waiting.remove(at);
        }
    }
}
