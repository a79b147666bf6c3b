//! What the sticky assignors share: the best balance, with as few partitions moved as that needs.
//!
//! Members begin with what they have a valid claim to; what nobody has goes to whoever has least. Then partitions move
//! from members with many to members with at least two fewer, directly or by way of others that take one and give one,
//! until there is no such way left. That is the best balance by every measure that prefers even counts (an optimal
//! semi-matching: Harvey, Ladner, Lovász and Tamir, 2003). Of two ways, what costs fewer kept partitions is taken, and at the end
//! partitions that moved return where that leaves the balance as it is.
//!
//! Topics with the same subscribers are one class, within which partitions are all alike: only counts matter until the
//! end. Then members keep what they had, and new partitions go to members in the rack of a replica first (KIP-881). Racks
//! move nothing that could stay, unlike in Java.

use super::Group;
use crate::api::data::consumer_protocol::TopicPartitions;
use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

/// How many subscriptions the search for a better balance looks at, which takes about a second. Only in groups where
/// nearly everybody subscribes to something else is that too few; their balance is not quite the best then.
const PATIENCE: usize = 100_000_000;

/// The same for giving back what moved.
const PATIENCE_FOR_RETURNS: usize = 10_000_000;

/// What a member says it had.
pub(super) struct Claim<'a> {
    /// In which generation; -1 before the first.
    pub generation: i32,
    pub had: Cow<'a, [TopicPartitions]>,
}

/// Who is believed to have had a partition.
#[derive(Clone, Copy)]
struct Owner {
    member: usize,
    generation: i32,
}

/// What a member has of a class: how many partitions it could keep, how many it has now.
#[derive(Clone, Copy, Default)]
struct Held {
    own: usize,
    now: usize,
}

impl Held {
    /// Whether it has one that it did not have before.
    fn has_new(self) -> bool {
        self.now > self.own
    }
}

/// Topics with the same subscribers.
struct Class<'g> {
    topics: Vec<usize>,
    subscribers: &'g [usize],
}

/// What each member gets, and what of it others would have to give up first.
pub(super) struct Balanced {
    /// Of each member, topics and partitions.
    pub got: Vec<Vec<(usize, usize)>>,
    /// Those of them that somebody else claims.
    pub contested: Vec<Vec<(usize, usize)>>,
}

/// Shares a group's partitions out; a claim for each member.
pub(super) fn balance(group: &Group<'_>, claims: &[Claim<'_>]) -> Balanced {
    let owners = owners(group, claims);
    let mut search = Search::new(group, &owners);
    search.fill();
    search.even_out();
    search.return_kept();
    let got = search.places(&owners);
    let contested = |(m, got): (usize, &Vec<(usize, usize)>)| {
        let by_others = |(t, p): &(usize, usize)| owners[*t][*p].is_some_and(|owner| owner.member != m);
        got.iter().copied().filter(by_others).collect()
    };
    Balanced { contested: got.iter().enumerate().map(contested).collect(), got }
}

/// Who has a claim to each partition of each topic. What a newer generation claims, older ones lost. Of several in the same
/// one, the first that still subscribes keeps it and the others let go of it at once, so that it stays with somebody.
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
    /// Of each class, how many partitions nobody has.
    free: Vec<usize>,
    /// Of each member, by class.
    held: Vec<BTreeMap<usize, Held>>,
    /// Of each member, the classes it subscribes to.
    wanted: Vec<Vec<usize>>,
    load: Vec<usize>,
    patience: usize,
}

/// How a member was reached: the member that gives it something, and of which class.
#[derive(Clone, Copy)]
struct Step {
    from: usize,
    class: usize,
    /// Whether what it gives is new to it.
    free: bool,
    /// How many kept partitions are given on the way.
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
        // Whoever has little choice chooses first.
        classes.sort_unstable_by_key(|class| (class.subscribers.len(), class.topics[0]));
        let members = group.members.len();
        let mut search = Self {
            group,
            free: vec![0; classes.len()],
            held: vec![BTreeMap::new(); members],
            wanted: vec![Vec::new(); members],
            load: vec![0; members],
            patience: PATIENCE,
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

    /// Gives what nobody has to whoever has least.
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

    /// Moves partitions from members with many to members with few, until no such way is left.
    fn even_out(&mut self) {
        let mut active: Vec<bool> = self.wanted.iter().map(|classes| !classes.is_empty()).collect();
        // As few as whoever has least; what is found to be out of reach raises it.
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
                    // What one search found serves until the source has no more than the others will have in the end.
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
                // Whatever can be reached from here has as many or one fewer, and can reach nobody else.
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

    /// How many partitions each of some members has, rounded up.
    fn mean(&self, some: impl Fn(usize) -> bool) -> usize {
        let loads = self.load.iter().enumerate().filter(|(m, _)| some(*m)).map(|(_, load)| *load);
        let (count, sum) = loads.fold((0, 0), |(count, sum), load| (count + 1, sum + load));
        sum.div_ceil(count.max(1))
    }

    /// Moves a partition from `source` to `target` in the way found, unless what others passed on meanwhile is missing.
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

    /// Who could get a partition more if `source` gave one up, at the cost of the fewest kept ones: everybody, or enough to
    /// have found one with `few` in the cheapest way. `None` when patience ends.
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
                self.patience = self.patience.checked_sub(subscribers.len())?;
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

    /// Gives partitions back to who had them, where counts stay what they are or two members swap theirs.
    fn return_kept(&mut self) {
        self.patience = PATIENCE_FOR_RETURNS;
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

    /// Gives one partition of a class back, if somebody has a new one, and somebody else a new one for that one, and so
    /// on, up to the member itself or one that has one partition more. `None` when patience ends.
    fn way_back(&mut self, home: usize, class: usize) -> Option<bool> {
        // Of each member, to whom it gives what.
        let mut gives: Vec<Option<(usize, usize)>> = vec![None; self.held.len()];
        let mut asked = vec![false; self.classes.len()];
        let mut next = VecDeque::from([(home, class)]);
        let mut end = None;
        'search: while let Some((to, c)) = next.pop_front() {
            if std::mem::replace(&mut asked[c], true) {
                continue;
            }
            let subscribers = self.classes[c].subscribers;
            self.patience = self.patience.checked_sub(subscribers.len())?;
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

    /// The partitions behind the counts.
    fn places(&self, owners: &[Vec<Option<Owner>>]) -> Vec<Vec<(usize, usize)>> {
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
                // What is far goes first, then the highest numbers, so that no topic goes as a whole.
                kept.sort_by_key(|(t, p)| (!near(m, (*t, *p)), *p, *t));
                open.extend(kept.drain(now.min(kept.len())..));
                takers.extend((now > kept.len()).then_some((m, now - kept.len())));
                got[m].append(&mut kept);
            }
            // What nobody has comes first: it can be taken at once, and everybody should have some of it.
            open.sort_unstable_by_key(|(t, p)| (owners[*t][*p].is_some(), *t, *p));
            if takers.iter().any(|(m, _)| racks[*m].is_some()) {
                open.retain(|place| match takers.iter().position(|(m, _)| racks[*m].is_some() && near(*m, *place)) {
                    Some(at) => !take(&mut takers, at, &mut got, *place),
                    None => true,
                });
            }
            for place in open {
                take(&mut takers, 0, &mut got, place);
            }
        }
        got
    }
}

/// Gives a partition to one of those who take, who then is the last in turn.
fn take(
    takers: &mut VecDeque<(usize, usize)>,
    at: usize,
    got: &mut [Vec<(usize, usize)>],
    place: (usize, usize),
) -> bool {
    let Some((m, room)) = takers.remove(at) else {
        return false;
    };
    got[m].push(place);
    takers.extend((room > 1).then_some((m, room - 1)));
    true
}

/// The member that may keep a partition: it is believed, and still subscribes.
fn keeper(subscribers: &[usize], owner: Option<Owner>) -> Option<usize> {
    owner.map(|owner| owner.member).filter(|member| subscribers.binary_search(member).is_ok())
}
