//! Computes the assignment of the sticky assignors: the best balance, with as few moved partitions as possible.
//!
//! 1. Members start with the partitions that they validly own.
//! 2. Each free partition goes to the member with the fewest partitions.
//! 3. Partitions move from one member to another member that has at least two partitions fewer. A move may pass through
//!    members in between: each of these members gets one partition and loses another. The algorithm chooses the path on
//!    which the fewest members lose a partition that they owned before, and repeats this until no such path exists.
//! 4. Moved partitions return to their former members if the balance stays the same.
//!
//! The result is an optimal semi-matching (Harvey, Ladner, Lovász and Tamir, 2003): no other assignment is better
//! balanced. Only if the search reaches its maximum number of steps, the assignment may be less balanced.
//!
//! Topics with the same subscribers form a class. Within a class all partitions are alike, so the search only needs the
//! number of partitions of each member. After the search, the algorithm chooses the partitions of each member. Members
//! keep the partitions that they had. New partitions go first to members in the rack of a replica (KIP-881). In
//! contrast to the Java client, klamm never moves a partition only to match a rack.

use super::interface::Group;
use crate::api::data::consumer_protocol::TopicPartitions;
use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

/// How many subscriptions the search for a better balance may visit, which takes about a second. Only if nearly every
/// member has a different subscription, the search may reach this limit and miss the best balance.
const MAX_VISITS: usize = 100_000_000;

/// How many subscriptions `return_kept` may visit.
const MAX_VISITS_FOR_RETURNS: usize = 10_000_000;

/// The partitions that a member claims to have had.
pub(super) struct Claim<'a> {
    /// The generation in which the member had the partitions, or -1 if the claim contains no generation.
    pub generation: i32,
    pub had: Cow<'a, [TopicPartitions]>,
}

/// The member whose claim to a partition is valid.
#[derive(Clone, Copy)]
struct Owner {
    member: usize,
    generation: i32,
}

/// How many partitions of a class a member could keep (`own`), and how many it has now (`now`).
#[derive(Clone, Copy, Default)]
struct Held {
    own: usize,
    now: usize,
}

impl Held {
    /// Returns whether the member has a partition that it did not have before.
    fn has_new(self) -> bool {
        self.now > self.own
    }
}

/// The topics that have the same subscribers.
struct Class<'g> {
    topics: Vec<usize>,
    subscribers: &'g [usize],
}

/// The computed assignment, and the partitions that their former owners have to revoke first.
pub(super) struct Balanced {
    /// The partitions of each member, as pairs of topic and partition.
    pub got: Vec<Vec<(usize, usize)>>,
    /// The new partitions of each member that another member still claims.
    pub contested: Vec<Vec<(usize, usize)>>,
}

/// Computes the assignment from the members' claims.
pub(super) fn balance(group: &Group<'_>, claims: &[Claim<'_>]) -> Balanced {
    let owners = owners(group, claims);
    let mut search = Search::new(group, &owners);
    search.fill();
    search.even_out();
    search.return_kept();
    let got = search.assigned_partitions(&owners);
    let contested = |(m, got): (usize, &Vec<(usize, usize)>)| {
        let by_others = |(t, p): &(usize, usize)| owners[*t][*p].is_some_and(|owner| owner.member != m);
        got.iter().copied().filter(by_others).collect()
    };
    Balanced { contested: got.iter().enumerate().map(contested).collect(), got }
}

/// Returns the valid claim to each partition of each topic. The claim of the newest generation is valid. If several
/// members claim a partition in the same generation, the claim of the first member that still subscribes is valid.
fn owners(group: &Group<'_>, claims: &[Claim<'_>]) -> Vec<Vec<Option<Owner>>> {
    let mut owners: Vec<Vec<Option<Owner>>> = group.topics.iter().map(|t| vec![None; t.racks.len()]).collect();
    let numbers: HashMap<&str, usize> = group.topics.iter().enumerate().map(|(t, topic)| (&**topic.name, t)).collect();
    for (member, Claim { generation, had }) in claims.iter().enumerate() {
        let claim = Owner { member, generation: *generation };
        for topic in had.iter() {
            let Some(t) = numbers.get(&*topic.topic).copied() else {
                continue;
            };
            for partition in &topic.partitions {
                let Some(owner) = usize::try_from(*partition).ok().and_then(|p| owners[t].get_mut(p)) else {
                    continue;
                };
                let is_better = |known: Owner| match claim.generation.cmp(&known.generation) {
                    Ordering::Greater => true,
                    Ordering::Equal => keeper(&group.topics[t].subscribers, Some(known)).is_none(),
                    Ordering::Less => false,
                };
                if owner.is_none_or(is_better) {
                    *owner = Some(claim);
                }
            }
        }
    }
    owners
}

struct Search<'g> {
    group: &'g Group<'g>,
    classes: Vec<Class<'g>>,
    /// The number of free partitions of each class.
    free: Vec<usize>,
    /// The partitions of each member, by class.
    held: Vec<BTreeMap<usize, Held>>,
    /// The classes that each member subscribes to.
    wanted: Vec<Vec<usize>>,
    load: Vec<usize>,
    /// How many subscriptions the search may still visit.
    visits_left: usize,
}

/// How the search reached a member: which member gives a partition to it, and the class of that partition.
#[derive(Clone, Copy)]
struct Step {
    from: usize,
    class: usize,
    /// Whether the giver did not have the partition before.
    free: bool,
    /// How many partitions on the path leave a member that owned them before.
    cost: usize,
}

impl<'g> Search<'g> {
    fn new(group: &'g Group<'g>, owners: &[Vec<Option<Owner>>]) -> Self {
        let mut by_subscribers: HashMap<&[usize], Vec<usize>> = HashMap::new();
        for (t, topic) in group.topics.iter().enumerate() {
            by_subscribers.entry(&topic.subscribers).or_default().push(t);
        }
        let classes = by_subscribers.into_iter().map(|(subscribers, topics)| Class { topics, subscribers });
        let mut classes: Vec<Class<'_>> = classes.collect();
        // Classes with few subscribers come first.
        classes.sort_unstable_by_key(|class| (class.subscribers.len(), class.topics[0]));
        let members = group.members.len();
        let mut search = Self {
            group,
            free: vec![0; classes.len()],
            held: vec![BTreeMap::new(); members],
            wanted: vec![Vec::new(); members],
            load: vec![0; members],
            visits_left: MAX_VISITS,
            classes,
        };
        for (c, class) in search.classes.iter().enumerate() {
            for m in class.subscribers {
                search.wanted[*m].push(c);
            }
            for owner in class.topics.iter().flat_map(|t| &owners[*t]) {
                match keeper(class.subscribers, *owner) {
                    Some(m) => {
                        let held = search.held[m].entry(c).or_default();
                        held.own += 1;
                        held.now += 1;
                        search.load[m] += 1;
                    }
                    None => search.free[c] += 1,
                }
            }
        }
        search
    }

    /// Gives each free partition to the member with the fewest partitions.
    fn fill(&mut self) {
        for (c, class) in self.classes.iter().enumerate() {
            let mut lightest: BinaryHeap<_> = class.subscribers.iter().map(|m| Reverse((self.load[*m], *m))).collect();
            for _ in 0..self.free[c] {
                if let Some(mut top) = lightest.peek_mut() {
                    let m = top.0.1;
                    self.load[m] += 1;
                    self.held[m].entry(c).or_default().now += 1;
                    top.0.0 = self.load[m];
                }
            }
        }
    }

    fn give(&mut self, from: usize, class: usize, to: usize) {
        if let Some(held) = self.held[from].get_mut(&class) {
            held.now -= 1;
        }
        self.held[to].entry(class).or_default().now += 1;
        self.load[from] -= 1;
        self.load[to] += 1;
    }

    /// Moves partitions from members with many partitions to members with few partitions, until no path is left.
    fn even_out(&mut self) {
        let mut active: Vec<bool> = self.wanted.iter().map(|classes| !classes.is_empty()).collect();
        // The smallest count. It rises when members with that count turn out to be unreachable.
        let mut few = 0;
        loop {
            let heaviest = (0..active.len()).filter(|m| active[*m]).max_by_key(|m| (self.load[*m], Reverse(*m)));
            let Some(source) = heaviest else {
                return;
            };
            let Some(reached) = self.reach(source, few, &active) else {
                return;
            };
            let lighter = |m: &usize| reached[*m].is_some() && self.load[*m] + 2 <= self.load[source];
            let cost = |m: usize| reached[m].map_or(usize::MAX, |step| step.cost);
            let mut targets: Vec<usize> = (0..active.len()).filter(lighter).collect();
            targets.sort_unstable_by_key(|m| (self.load[*m], cost(*m), *m));
            match targets.split_first() {
                Some((target, more)) => {
                    few = few.max(self.load[*target]);
                    // One search serves until the source has no more than the other members will have in the end.
                    let found = |m: &usize| *m == source || reached[*m].is_some();
                    let end = self.mean(|m| active[m]).max(self.mean(|m| found(&m)));
                    self.pass(source, *target, &reached);
                    for target in more {
                        if self.load[source] <= end || self.load[source] < self.load[*target] + 2 {
                            break;
                        }
                        self.pass(source, *target, &reached);
                    }
                }
                // All members that can be reached from here have as many or one fewer, and reach no others.
                None => {
                    few = 0;
                    active[source] = false;
                    for m in 0..active.len() {
                        active[m] &= reached[m].is_none();
                    }
                }
            }
        }
    }

    /// Returns the average number of partitions of some members, rounded up.
    fn mean(&self, some: impl Fn(usize) -> bool) -> usize {
        let loads = self.load.iter().enumerate().filter(|(m, _)| some(*m)).map(|(_, load)| *load);
        let (count, sum) = loads.fold((0, 0), |(count, sum), load| (count + 1, sum + load));
        sum.div_ceil(count.max(1))
    }

    /// Moves a partition from `source` to `target` along the path in `reached`, unless an earlier move has broken this
    /// path.
    fn pass(&mut self, source: usize, target: usize, reached: &[Option<Step>]) {
        let steps = || {
            let to = std::iter::successors(Some(target), |to| reached[*to].map(|step| step.from));
            to.take_while(|to| *to != source).filter_map(|to| Some((to, reached[to]?)))
        };
        let is_there = |(_, step): (usize, Step)| {
            let held = self.held[step.from].get(&step.class);
            held.is_some_and(|held| if step.free { held.has_new() } else { held.now > 0 })
        };
        if steps().all(is_there) {
            for (to, step) in steps() {
                self.give(step.from, step.class, to);
            }
        }
    }

    /// Returns the members that could get one more partition if `source` gave one up, with the cheapest path to each.
    /// The search stops early when it has found the cheapest path to a member with `few` partitions. Returns `None`
    /// when the limit of steps is reached.
    fn reach(&mut self, source: usize, few: usize, active: &[bool]) -> Option<Vec<Option<Step>>> {
        let mut reached: Vec<Option<Step>> = vec![None; active.len()];
        let mut cheapest = vec![usize::MAX; self.classes.len()];
        let mut enough = usize::MAX;
        let mut next = VecDeque::from([(source, 0)]);
        while let Some((m, so_far)) = next.pop_front() {
            if enough <= so_far {
                break;
            }
            if m != source && reached[m].is_some_and(|step| step.cost < so_far) {
                continue;
            }
            for (c, held) in self.held[m].iter().filter(|(_, held)| held.now > 0) {
                let free = held.has_new();
                let cost = so_far + usize::from(!free);
                if cheapest[*c] <= cost {
                    continue;
                }
                cheapest[*c] = cost;
                let subscribers = self.classes[*c].subscribers;
                self.visits_left = self.visits_left.checked_sub(subscribers.len())?;
                for to in subscribers.iter().copied().filter(|to| active[*to] && *to != source) {
                    if reached[to].is_some_and(|step| step.cost <= cost) {
                        continue;
                    }
                    reached[to] = Some(Step { from: m, class: *c, free, cost });
                    if self.load[to] <= few && self.load[to] + 2 <= self.load[source] {
                        enough = enough.min(cost);
                    }
                    match free {
                        true => next.push_front((to, cost)),
                        false => next.push_back((to, cost)),
                    }
                }
            }
        }
        Some(reached)
    }

    /// Returns partitions to their former members, if every member keeps its number of partitions, or two members swap
    /// these numbers.
    fn return_kept(&mut self) {
        self.visits_left = MAX_VISITS_FOR_RETURNS;
        for m in 0..self.held.len() {
            let has_new = self.held[m].values().any(|held| held.has_new());
            if !has_new && !self.load.contains(&(self.load[m] + 1)) {
                continue;
            }
            let lost = |(c, held): (&usize, &Held)| (held.now < held.own).then_some(*c);
            for c in self.held[m].iter().filter_map(lost).collect::<Vec<_>>() {
                while self.held[m].get(&c).is_some_and(|held| held.now < held.own) {
                    match self.way_back(m, c) {
                        Some(true) => {}
                        Some(false) => break,
                        None => return,
                    }
                }
            }
        }
    }

    /// Returns one partition of a class to a member through a chain of members. Each member in the chain gives away a
    /// new partition and gets another partition. The chain ends at the member itself, or at a member that has one
    /// partition more. Returns `None` when the limit of steps is reached.
    fn way_back(&mut self, home: usize, class: usize) -> Option<bool> {
        // The member that each member gives a partition to, and its class.
        let mut gives: Vec<Option<(usize, usize)>> = vec![None; self.held.len()];
        let mut is_visited = vec![false; self.classes.len()];
        let mut next = VecDeque::from([(home, class)]);
        let mut end = None;
        'search: while let Some((to, c)) = next.pop_front() {
            if std::mem::replace(&mut is_visited[c], true) {
                continue;
            }
            let subscribers = self.classes[c].subscribers;
            self.visits_left = self.visits_left.checked_sub(subscribers.len())?;
            for from in subscribers.iter().copied() {
                let has_new = self.held[from].get(&c).is_some_and(|held| held.has_new());
                if !has_new || gives[from].is_some() || from == to {
                    continue;
                }
                gives[from] = Some((to, c));
                if from == home || self.load[from] == self.load[home] + 1 {
                    end = Some(from);
                    break 'search;
                }
                next.extend(self.wanted[from].iter().map(|c| (from, *c)));
            }
        }
        let Some(mut at) = end else {
            return Some(false);
        };
        while let Some((to, c)) = gives[at].take() {
            self.give(at, c, to);
            at = to;
        }
        Some(true)
    }

    /// Chooses which partitions each member gets, from the number of its partitions in each class.
    fn assigned_partitions(&self, owners: &[Vec<Option<Owner>>]) -> Vec<Vec<(usize, usize)>> {
        let racks: Vec<Option<&str>> = self.group.members.iter().map(|m| m.rack()).collect();
        let near = |m: usize, (t, p): (usize, usize)| {
            let replicas = &self.group.topics[t].racks[p];
            racks[m].is_none_or(|rack| replicas.iter().any(|r| **r == *rack))
        };
        let mut got: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.load.len()];
        for (c, class) in self.classes.iter().enumerate() {
            let mut kept: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
            let mut open = Vec::new();
            for t in class.topics.iter().copied() {
                for (p, owner) in owners[t].iter().enumerate() {
                    match keeper(class.subscribers, *owner) {
                        Some(m) => kept.entry(m).or_default().push((t, p)),
                        None => open.push((t, p)),
                    }
                }
            }
            let mut takers = VecDeque::new();
            for m in class.subscribers.iter().copied() {
                let now = self.held[m].get(&c).map_or(0, |held| held.now);
                let mut kept = kept.remove(&m).unwrap_or_default();
                // Partitions in other racks go first, then the highest numbers, so that no topic goes as a whole.
                kept.sort_by_key(|(t, p)| (!near(m, (*t, *p)), *p, *t));
                open.extend(kept.drain(now.min(kept.len())..));
                takers.extend((now > kept.len()).then_some((m, now - kept.len())));
                got[m].append(&mut kept);
            }
            // Free partitions come first: members can take them at once, and each should get some.
            open.sort_unstable_by_key(|(t, p)| (owners[*t][*p].is_some(), *t, *p));
            if takers.iter().any(|(m, _)| racks[*m].is_some()) {
                open.retain(|partition| {
                    match takers.iter().position(|(m, _)| racks[*m].is_some() && near(*m, *partition)) {
                        Some(at) => !take(&mut takers, at, &mut got, *partition),
                        None => true,
                    }
                });
            }
            for partition in open {
                take(&mut takers, 0, &mut got, partition);
            }
        }
        got
    }
}

/// Gives a partition to one of the takers, and moves that taker to the end of the queue.
fn take(
    takers: &mut VecDeque<(usize, usize)>,
    at: usize,
    got: &mut [Vec<(usize, usize)>],
    partition: (usize, usize),
) -> bool {
    let Some((m, room)) = takers.remove(at) else {
        return false;
    };
    got[m].push(partition);
    takers.extend((room > 1).then_some((m, room - 1)));
    true
}

/// Returns the member that may keep a partition, because its claim is valid and it still subscribes to the topic.
fn keeper(subscribers: &[usize], owner: Option<Owner>) -> Option<usize> {
    owner.map(|owner| owner.member).filter(|member| subscribers.binary_search(member).is_ok())
}
