//! Server-side assignors of KIP-848 groups: `uniform` and `range`.
//!
//! Like Kafka's assignor, `uniform` gives each member the same number of partitions, plus or minus one, and moves as
//! few partitions as possible. If the partitions do not divide evenly, some members get one extra partition. In Kafka,
//! the extra partitions may go to different members than in the dev broker.

use crate::wire::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// Partitions by topic.
pub(in crate::broker) type AssignedPartitions = BTreeMap<Uuid, BTreeSet<i32>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::broker) enum Assignor {
    Uniform,
    Range,
}

/// A member: the topics that it reads, and its previous target assignment.
#[derive(Debug, Default)]
pub(super) struct MemberSubscription {
    pub instance: Option<String>,
    pub topics: BTreeSet<Uuid>,
    pub previous: AssignedPartitions,
}

impl Assignor {
    /// Returns the assignor that a client requests by name.
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Uniform, Self::Range].into_iter().find(|assignor| assignor.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// Computes the assignment. `topics` has the number of partitions of each topic.
    pub(super) fn assign(
        self,
        members: BTreeMap<String, MemberSubscription>,
        topics: &BTreeMap<Uuid, i32>,
    ) -> BTreeMap<String, AssignedPartitions> {
        match self {
            Self::Uniform => uniform(members, topics),
            Self::Range => range(&members, topics),
        }
    }
}

/// Assigns partitions uniformly. Members keep the partitions that they may keep. Each free partition goes to the member
/// with the fewest partitions. Members with too many partitions then give partitions to other members.
fn uniform(
    members: BTreeMap<String, MemberSubscription>,
    topics: &BTreeMap<Uuid, i32>,
) -> BTreeMap<String, AssignedPartitions> {
    let mut free: AssignedPartitions = topics.iter().map(|(topic, count)| (*topic, (0..*count).collect())).collect();
    let mut table = AssignmentTable::default();
    for (id, member) in members {
        let mut assignment = AssignedPartitions::new();
        for (topic, partitions) in member.previous {
            let Some(free) = free.get_mut(&topic).filter(|_| member.topics.contains(&topic)) else { continue };
            let kept: BTreeSet<_> = partitions.into_iter().filter(|p| free.remove(p)).collect();
            if !kept.is_empty() {
                assignment.insert(topic, kept);
            }
        }
        table.add_member(id, member.topics, assignment);
    }
    for (topic, partitions) in free {
        let mut by_load = table.by_load(topic, false);
        for partition in partitions {
            let Some((load, member)) = by_load.pop_first() else { break };
            table.assign(member, topic, partition);
            by_load.insert((load + 1, member));
        }
    }
    // Each move makes the loads more equal, so the loop ends.
    while topics.keys().filter(|topic| table.balance(**topic)).count() > 0 {}
    table.ids.into_iter().zip(table.assignments).collect()
}

/// The members by index, and the number of partitions of each member.
#[derive(Debug, Default)]
struct AssignmentTable {
    ids: Vec<String>,
    assignments: Vec<AssignedPartitions>,
    loads: Vec<usize>,
    readers: BTreeMap<Uuid, Vec<usize>>,
}

impl AssignmentTable {
    fn add_member(&mut self, id: String, topics: BTreeSet<Uuid>, assignment: AssignedPartitions) {
        for topic in topics {
            self.readers.entry(topic).or_default().push(self.ids.len());
        }
        self.ids.push(id);
        self.loads.push(assignment.values().map(BTreeSet::len).sum());
        self.assignments.push(assignment);
    }

    fn load(&self, member: usize) -> usize {
        self.loads.get(member).copied().unwrap_or(0)
    }

    /// Returns the members that read a topic, or that have partitions of the topic, in the order of their load.
    fn by_load(&self, topic: Uuid, holders: bool) -> BTreeSet<(usize, usize)> {
        let has =
            |member: usize| self.assignments.get(member).is_some_and(|assignment| assignment.contains_key(&topic));
        let readers = self.readers.get(&topic).into_iter().flatten().copied();
        readers.filter(|member| !holders || has(*member)).map(|member| (self.load(member), member)).collect()
    }

    fn assign(&mut self, member: usize, topic: Uuid, partition: i32) {
        if let (Some(assignment), Some(load)) = (self.assignments.get_mut(member), self.loads.get_mut(member)) {
            assignment.entry(topic).or_default().insert(partition);
            *load += 1;
        }
    }

    fn unassign(&mut self, member: usize, topic: Uuid) -> Option<i32> {
        let assignment = self.assignments.get_mut(member)?;
        let partitions = assignment.get_mut(&topic)?;
        let partition = partitions.pop_last()?;
        if partitions.is_empty() {
            assignment.remove(&topic);
        }
        *self.loads.get_mut(member)? -= 1;
        Some(partition)
    }

    /// Moves partitions of a topic from the members with the most partitions to the members with the fewest. Returns
    /// whether any partition moved.
    fn balance(&mut self, topic: Uuid) -> bool {
        let (mut readers, mut holders) = (self.by_load(topic, false), self.by_load(topic, true));
        let mut moved = false;
        while let (Some(&least), Some(&most)) = (readers.first(), holders.last()) {
            if most.0 <= least.0 + 1 {
                break;
            }
            let Some(partition) = self.unassign(most.1, topic) else { break };
            self.assign(least.1, topic, partition);
            moved = true;
            readers.remove(&most);
            readers.remove(&least);
            holders.remove(&most);
            holders.remove(&least);
            readers.extend([(most.0 - 1, most.1), (least.0 + 1, least.1)]);
            holders.insert((least.0 + 1, least.1));
            if self.assignments.get(most.1).is_some_and(|assignment| assignment.contains_key(&topic)) {
                holders.insert((most.0 - 1, most.1));
            }
        }
        moved
    }
}

/// Assigns a range of each topic's partitions to each member. Static members come first, so that members get the same
/// partitions of similar topics.
fn range(
    members: &BTreeMap<String, MemberSubscription>,
    topics: &BTreeMap<Uuid, i32>,
) -> BTreeMap<String, AssignedPartitions> {
    let mut order: Vec<_> = members.iter().collect();
    order.sort_by_key(|(id, member)| (member.instance.is_none(), member.instance.as_ref(), *id));
    let mut assigned: BTreeMap<String, AssignedPartitions> =
        members.keys().map(|id| (id.clone(), AssignedPartitions::new())).collect();
    for (topic, count) in topics {
        let readers: Vec<_> = order.iter().filter(|(_, member)| member.topics.contains(topic)).collect();
        let Ok(reader_count) = i32::try_from(readers.len()) else { continue };
        let mut start = 0;
        for (n, (id, _)) in (0..reader_count).zip(readers) {
            let end = start + count / reader_count + i32::from(n < count % reader_count);
            if let Some(assignment) = assigned.get_mut(*id).filter(|_| start < end) {
                assignment.insert(*topic, (start..end).collect());
            }
            start = end;
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Uuid = Uuid([1; 16]);
    const U: Uuid = Uuid([2; 16]);

    fn reader(topics: &[Uuid], previous: &[(Uuid, &[i32])]) -> MemberSubscription {
        let previous =
            previous.iter().map(|(topic, partitions)| (*topic, partitions.iter().copied().collect())).collect();
        MemberSubscription { instance: None, topics: topics.iter().copied().collect(), previous }
    }

    fn assign(
        assignor: Assignor,
        readers: Vec<(&str, MemberSubscription)>,
        topics: &[(Uuid, i32)],
    ) -> Vec<Vec<(u8, Vec<i32>)>> {
        let readers = readers.into_iter().map(|(id, reader)| (id.to_owned(), reader)).collect();
        let assigned = assignor.assign(readers, &topics.iter().copied().collect());
        let plain = |assignment: AssignedPartitions| {
            assignment.into_iter().map(|(t, p)| (t.0[0], p.into_iter().collect())).collect()
        };
        assigned.into_values().map(plain).collect()
    }

    #[test]
    fn uniform_is_even_and_moves_as_little_as_it_can() {
        let both = [T, U];
        let readers = vec![
            ("a", reader(&both, &[(T, &[0, 1, 2]), (U, &[0])])),
            ("b", reader(&both, &[])),
            ("c", reader(&both, &[(U, &[1])])),
        ];
        let found = assign(Assignor::Uniform, readers, &[(T, 3), (U, 3)]);
        assert_eq!(
            found,
            [vec![(1, vec![0]), (2, vec![0])], vec![(1, vec![2]), (2, vec![2])], vec![(1, vec![1]), (2, vec![1])]]
        );
    }

    #[test]
    fn uniform_assigns_only_subscribed_topics() {
        let readers = vec![
            ("a", reader(&[T], &[(T, &[0, 1]), (U, &[0, 1, 2])])),
            ("b", reader(&[U], &[])),
            ("c", reader(&[], &[])),
        ];
        let found = assign(Assignor::Uniform, readers, &[(T, 2), (U, 4)]);
        assert_eq!(found, [vec![(1, vec![0, 1])], vec![(2, vec![0, 1, 2, 3])], vec![]]);
    }

    #[test]
    fn range_gives_runs_and_static_members_come_first() {
        let fixed = MemberSubscription { instance: Some("i".to_owned()), ..reader(&[T, U], &[]) };
        let readers = vec![("a", reader(&[T, U], &[])), ("b", reader(&[U], &[])), ("z", fixed)];
        let found = assign(Assignor::Range, readers, &[(T, 3), (U, 4)]);
        assert_eq!(
            found,
            [vec![(1, vec![2]), (2, vec![2])], vec![(2, vec![3])], vec![(1, vec![0, 1]), (2, vec![0, 1])]]
        );
    }
}
