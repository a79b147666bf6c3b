//! Simulates groups of Kafka 0.7: members share a ZooKeeper tree while they join, die, and lose connections and
//! sessions.
//!
//! The tree has the features of ZooKeeper that members use: sessions that outlast connections, ephemeral nodes, and
//! watches that fire once. The simulation chooses the next member at random, so members see the tree in any state
//! between two operations.

use super::{Random, seeds};
use klamm::engine::Time;
use klamm::engine::legacy::zookeeper::{
    BrokerPartition, Config, Event, Input, Operation, OperationResult, Problem, Subscription, ZooKeeperMember,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SEEDS: u64 = 10_000;
const SESSION: Duration = Duration::from_secs(6);
const BACKOFF: Duration = Duration::from_millis(200);
/// Bytes that a reader advances in a step.
const MESSAGE: i64 = 10;

struct Node {
    data: String,
    session: Option<u64>,
}

#[derive(Default)]
struct Tree {
    nodes: BTreeMap<String, Node>,
    /// Members that watch the children of a node.
    watches: BTreeMap<String, BTreeSet<usize>>,
    struck: Vec<(usize, String)>,
}

impl Tree {
    fn children(&self, path: &str) -> Vec<String> {
        let below = format!("{path}/");
        let names = self.nodes.range(below.clone()..).take_while(|(name, _)| name.starts_with(&below));
        let names: BTreeSet<_> = names.map(|(name, _)| name[below.len()..].split('/').next().unwrap()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn strike(&mut self, path: &str) {
        let parent = path.rsplit_once('/').unwrap().0;
        for watcher in self.watches.remove(parent).into_iter().flatten() {
            self.struck.push((watcher, parent.to_owned()));
        }
    }

    fn put(&mut self, path: &str, data: &str, session: Option<u64>) {
        let is_new = self.nodes.insert(path.to_owned(), Node { data: data.to_owned(), session }).is_none();
        if is_new {
            self.strike(path);
        }
    }

    fn end(&mut self, session: u64) {
        let gone: Vec<_> =
            self.nodes.iter().filter(|(_, node)| node.session == Some(session)).map(|(path, _)| path.clone()).collect();
        for path in gone {
            self.nodes.remove(&path);
            self.strike(&path);
        }
    }

    fn apply(&mut self, who: usize, session: u64, operation: &Operation) -> OperationResult {
        match operation {
            Operation::Children(path) => {
                self.watches.entry(path.clone()).or_default().insert(who);
                OperationResult::Names(self.children(path))
            }
            Operation::Read(path) => {
                self.nodes.get(path).map_or(OperationResult::Missing, |node| OperationResult::Data(node.data.clone()))
            }
            Operation::Create(path, data) => match self.nodes.get(path) {
                Some(node) if node.session == Some(session) => OperationResult::Done,
                Some(_) => OperationResult::Exists,
                None => {
                    self.put(path, data, Some(session));
                    OperationResult::Done
                }
            },
            Operation::Delete(path, data) => {
                if self.nodes.get(path).is_some_and(|node| node.session == Some(session) && node.data == *data) {
                    self.nodes.remove(path);
                    self.strike(path);
                }
                OperationResult::Done
            }
            Operation::Write(path, data) => {
                let before = self.nodes.get(path).map_or(0, |node| node.data.parse::<i64>().unwrap());
                assert!(before <= data.parse().unwrap(), "the offset {path} goes back from {before} to {data}");
                self.put(path, data, None);
                OperationResult::Done
            }
            Operation::Match(pattern, _) if pattern.contains('{') => OperationResult::Unreadable("braces".to_owned()),
            Operation::Match(pattern, names) => {
                let prefix = pattern.trim_end_matches(".*");
                OperationResult::Names(names.iter().filter(|name| name.starts_with(prefix)).cloned().collect())
            }
        }
    }
}

struct Member {
    machine: ZooKeeperMember,
    session: u64,
    /// The session has ended on the server. Without a notification, the member notices it at this time at the latest.
    is_expired: bool,
    connected: bool,
    silent_since: Option<Time>,
    alive: bool,
    answer: Option<(u64, OperationResult)>,
    reading: BTreeMap<BrokerPartition, i64>,
    stopping: Option<Vec<BrokerPartition>>,
    /// Partitions that the member reads, and positions where it stopped, until the owner nodes are deleted.
    stopped: BTreeMap<BrokerPartition, i64>,
    /// Offsets that the member was asked to commit and that ZooKeeper has not confirmed.
    noted: BTreeMap<BrokerPartition, i64>,
    steps: u64,
}

impl Member {
    /// Processes the machine's events, and returns whether there were any.
    fn hear(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.machine.poll_event() {
            match event {
                Event::Start(shares) => {
                    for (share, _, offset) in shares {
                        self.reading.insert(share, offset.unwrap_or(0));
                    }
                }
                Event::Stop(shares) => self.stopping = Some(shares),
                Event::Committed(share, offset) => {
                    self.noted.retain(|noted, at| *noted != share || *at > offset);
                }
                Event::Lost => {
                    self.noted.clear();
                    self.reading.clear();
                    self.stopping = None;
                    self.stopped.clear();
                }
            }
            any = true;
        }
        any
    }
}

struct World {
    now: Time,
    random: Random,
    tree: Tree,
    members: Vec<Member>,
    next_session: u64,
}

impl World {
    fn new(seed: u64, topics: &[(&str, u32, u32)]) -> Self {
        let mut tree = Tree::default();
        for (topic, brokers, partitions) in topics {
            for broker in 0..*brokers {
                tree.put(&format!("/brokers/topics/{topic}/{broker}"), &partitions.to_string(), None);
            }
        }
        Self { now: Time(1), random: Random(seed * 2 + 1), tree, members: Vec::new(), next_session: 1 }
    }

    fn join(&mut self, subscription: Subscription) -> usize {
        let config = Config {
            group: "g".to_owned(),
            member: format!("g_m{:02}", self.members.len()),
            subscription,
            backoff: BACKOFF,
            session_timeout: SESSION,
        };
        let mut machine = ZooKeeperMember::new(config);
        machine.handle(self.now, Input::Connected { is_new: true });
        self.members.push(Member {
            machine,
            session: self.next_session,
            is_expired: false,
            connected: true,
            silent_since: None,
            alive: true,
            answer: None,
            reading: BTreeMap::new(),
            stopping: None,
            stopped: BTreeMap::new(),
            noted: BTreeMap::new(),
            steps: 0,
        });
        self.next_session += 1;
        self.members.len() - 1
    }

    /// Kills the process. Its session lasts a while.
    fn kill(&mut self, who: usize) {
        let member = &mut self.members[who];
        (member.alive, member.connected) = (false, false);
        member.silent_since.get_or_insert(self.now);
        member.reading.clear();
    }

    /// Breaks the connection, before or after the server has processed the last request.
    fn cut(&mut self, who: usize) {
        let now = self.now;
        if let Some((number, operation)) = self.members[who].machine.poll_operation() {
            if self.random.below(2) == 0 {
                self.apply(who, &operation);
            }
            self.commit(who);
            self.members[who].answer = Some((number, OperationResult::Failed));
        }
        let member = &mut self.members[who];
        member.connected = false;
        member.silent_since.get_or_insert(now);
        if let Some((number, _)) = member.answer.take() {
            member.machine.handle(now, Input::Answered(number, OperationResult::Failed));
        }
        member.machine.handle(now, Input::Suspended);
    }

    fn reconnect(&mut self, who: usize) {
        let next = self.next_session;
        let member = &mut self.members[who];
        (member.connected, member.silent_since) = (true, None);
        if member.is_expired {
            (member.is_expired, member.session) = (false, next);
            self.next_session += 1;
            member.machine.handle(self.now, Input::Expired);
            member.machine.handle(self.now, Input::Connected { is_new: true });
        } else {
            member.machine.handle(self.now, Input::Connected { is_new: false });
        }
        member.hear();
    }

    /// Ends a session on the server. Its member learns of it when it reconnects.
    fn expire(&mut self, who: usize) {
        let member = &mut self.members[who];
        member.is_expired = true;
        let session = member.session;
        self.tree.end(session);
    }

    /// Runs an operation of a member. A member may only give up a partition that it no longer reads and whose offset is
    /// written.
    fn apply(&mut self, who: usize, operation: &Operation) -> OperationResult {
        let member = &mut self.members[who];
        let answer = self.tree.apply(who, member.session, operation);
        if let Operation::Delete(path, _) = operation {
            let offset = |share: &BrokerPartition| format!("/consumers/g/offsets/{}/{share}", share.topic);
            let is_it = |share: &BrokerPartition| *path == format!("/consumers/g/owners/{}/{share}", share.topic);
            assert!(!member.reading.keys().any(is_it), "{path} is given up while it is read");
            for (share, stopped) in member.stopped.extract_if(.., |share, _| is_it(share)) {
                let kept = self.tree.nodes.get(&offset(&share)).map(|node| node.data.clone());
                assert_eq!(kept, Some(stopped.to_string()), "{path} is given up before its offset is written");
            }
        }
        answer
    }

    /// Runs a step of a member, or returns `false` if there is nothing to do.
    fn step(&mut self, who: usize) -> bool {
        let now = self.now;
        let member = &mut self.members[who];
        if !member.alive {
            return false;
        }
        // Readers hear of things when they come to it.
        if self.random.below(3) == 0 && member.hear() {
            return true;
        }
        member.reading.values_mut().for_each(|offset| *offset += MESSAGE);
        if let Some(shares) = member.stopping.take() {
            let stopped: Vec<_> = shares.into_iter().filter_map(|share| member.reading.remove_entry(&share)).collect();
            member.stopped.extend(stopped.iter().cloned());
            member.noted.extend(stopped.iter().cloned());
            member.machine.handle(now, Input::Stopped(stopped));
            member.steps += 1;
            return true;
        }
        if !member.connected {
            return false;
        }
        member.steps += 1;
        if let Some((number, answer)) = member.answer.take() {
            member.machine.handle(now, Input::Answered(number, answer));
            return true;
        }
        if let Some((number, operation)) = member.machine.poll_operation() {
            assert!(!member.is_expired, "an operation without a session");
            let answer = self.apply(who, &operation);
            self.members[who].answer = Some((number, answer));
            return true;
        }
        false
    }

    fn commit(&mut self, who: usize) {
        let member = &mut self.members[who];
        if member.alive && member.stopping.is_none() {
            let offsets: Vec<_> = member.reading.iter().map(|(share, offset)| (share.clone(), *offset)).collect();
            // What the machine no longer owns is lost. The event that says so is still in its queue.
            let is_owned = |share: &BrokerPartition| member.machine.owned().contains_key(share);
            member.noted.extend(offsets.iter().filter(|(share, _)| is_owned(share)).cloned());
            member.machine.handle(self.now, Input::Commit(offsets));
        }
    }

    /// Runs all members until none has work left, and calls `each` after every step.
    fn settle(&mut self, each: &mut dyn FnMut(&mut Self)) {
        for _ in 0..200_000 {
            let first = self.random.below(self.members.len() as u64) as usize;
            let mut busy = false;
            // A watch may strike late, but before what its member asks next is answered.
            if !self.tree.struck.is_empty() {
                let at = self.random.below(self.tree.struck.len() as u64) as usize;
                let (who, path) = self.tree.struck.swap_remove(at);
                self.members[who].machine.handle(self.now, Input::Changed(path));
                busy = true;
            }
            for at in 0..self.members.len() {
                if self.step((first + at) % self.members.len()) {
                    busy = true;
                    break;
                }
            }
            if !busy {
                busy = self.members.iter_mut().filter(|member| member.alive).any(Member::hear);
            }
            each(self);
            self.check();
            if !busy && !self.pass() {
                return;
            }
        }
        panic!("the group does not settle");
    }

    /// Advances the time to the next deadline.
    fn pass(&mut self) -> bool {
        let session_end =
            |member: &Member| member.silent_since.filter(|_| !member.is_expired).map(|since| since + SESSION);
        let due = |member: &Member| {
            let timeout = member.alive.then(|| member.machine.next_timeout()).flatten();
            timeout.into_iter().chain(session_end(member)).min()
        };
        let away = self.members.iter().position(|member| member.alive && !member.connected);
        let Some(at) = self.members.iter().filter_map(due).min() else {
            return away.inspect(|who| self.reconnect(*who)).is_some();
        };
        self.now = self.now.max(at);
        for who in 0..self.members.len() {
            let member = &mut self.members[who];
            if member.alive {
                member.machine.handle_timeout(self.now);
                member.hear();
            }
            if session_end(&self.members[who]).is_some_and(|at| at <= self.now) {
                self.expire(who);
            }
        }
        if let Some(who) = away
            && self.random.below(2) == 0
        {
            self.reconnect(who);
        }
        true
    }

    /// Checks that no two members read a partition if their sessions last or might last.
    fn check(&self) {
        for member in self.members.iter().filter(|member| member.alive) {
            let is_late = member.silent_since.is_some_and(|since| self.now > since + SESSION);
            assert!(!is_late || member.reading.is_empty(), "a session that must have ended is relied upon");
        }
        let mut seen = BTreeSet::new();
        let valid = self.members.iter().filter(|member| member.alive && !member.is_expired);
        for share in valid.flat_map(|member| member.reading.keys()) {
            assert!(seen.insert(share), "{} {share} has two readers", share.topic);
        }
    }

    /// Checks that in the end each partition has one live owner that reads it.
    fn check_settled(&self, partitions: usize) {
        let owners = self.tree.nodes.range("/consumers/g/owners/".to_owned()..);
        let owners: Vec<_> = owners.take_while(|(path, _)| path.starts_with("/consumers/g/owners/")).collect();
        assert_eq!(owners.len(), partitions);
        let living: Vec<_> = self.members.iter().filter(|member| member.alive).collect();
        assert_eq!(living.iter().map(|member| member.reading.len()).sum::<usize>(), partitions);
        for member in living {
            assert!(member.machine.is_settled());
            assert_eq!(member.noted, BTreeMap::new(), "commits are neither confirmed nor reported as lost");
            assert!(member.machine.owned().keys().eq(member.reading.keys()));
        }
    }
}

fn topic(name: &str, streams: u32) -> Subscription {
    Subscription::Topics([(name.to_owned(), streams)].into())
}

#[test]
fn every_partition_has_one_owner_wherever_a_member_dies() {
    for seed in seeds(SEEDS) {
        let result = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, &[("t", 2, 2)]);
            for _ in 0..3 {
                let streams = 1 + world.random.below(2) as u32;
                world.join(topic("t", streams));
            }
            // The one dies at any of its steps, the other loses its connection, or its session while it is away.
            let (dies, at) = (world.random.below(3) as usize, world.random.below(60));
            let (suffers, then) = ((dies + 1) % 3, world.random.below(60));
            let expires = world.random.below(2) == 0;
            let mut has_suffered = false;
            world.settle(&mut |world| {
                if world.members[dies].alive && world.members[dies].steps >= at {
                    world.kill(dies);
                }
                if !has_suffered && world.members[suffers].steps >= then {
                    has_suffered = true;
                    world.cut(suffers);
                    if expires {
                        world.expire(suffers);
                    }
                }
                if world.random.below(5) == 0 {
                    let who = world.random.below(3) as usize;
                    world.commit(who);
                }
            });
            // Members that did not get this far die now.
            world.kill(dies);
            world.settle(&mut |_| {});
            world.check_settled(4);
        });
        if let Err(why) = result {
            eprintln!("KLAMM_SIM_SEED={seed}");
            std::panic::resume_unwind(why);
        }
    }
}

#[test]
fn twenty_members_with_fifty_partitions_settle_in_one_round() {
    for seed in seeds(20) {
        let mut world = World::new(seed, &[("t", 5, 10)]);
        for _ in 0..20 {
            world.join(topic("t", 1));
        }
        world.settle(&mut |_| {});
        world.check_settled(50);
        let rounds: Vec<_> = world.members.iter().map(|member| member.machine.rounds()).collect();
        world.kill(7);
        world.settle(&mut |_| {});
        world.check_settled(50);
        for (who, member) in world.members.iter().enumerate().filter(|(who, _)| *who != 7) {
            assert_eq!(member.machine.rounds(), rounds[who] + 1, "seed {seed}: member {who}");
            assert!((2..=3).contains(&member.reading.len()));
        }
    }
}

#[test]
fn patterns_take_topics_that_come_later() {
    for seed in seeds(200) {
        let mut world = World::new(seed, &[("logs-a", 1, 2), ("other", 1, 2)]);
        world.join(Subscription::Whitelist(1, "logs-.*".to_owned()));
        world.join(Subscription::Blacklist(2, "logs-.*".to_owned()));
        world.join(Subscription::Whitelist(1, "logs-.*".to_owned()));
        world.settle(&mut |_| {});
        world.check_settled(4);
        world.tree.put("/brokers/topics/logs-b/0", "3", None);
        world.tree.strike("/brokers/topics/logs-b");
        world.settle(&mut |_| {});
        world.check_settled(7);
        assert_eq!(world.members.iter().map(|member| member.reading.len()).collect::<Vec<_>>(), [3, 2, 2]);
    }
}

#[test]
fn partitions_are_shared_in_the_order_of_their_names() {
    // `10-0` is before `2-0`, and streams count, not members.
    let mut world = World::new(1, &[]);
    for broker in ["2", "10"] {
        world.tree.put(&format!("/brokers/topics/jz/{broker}"), "3", None);
    }
    world.join(topic("jz", 1));
    world.join(topic("jz", 3));
    world.settle(&mut |_| {});
    let owner = |place: &str| world.tree.nodes[&format!("/consumers/g/owners/jz/{place}")].data.clone();
    let owners = ["10-0", "10-1", "10-2", "2-0", "2-1", "2-2"].map(owner);
    assert_eq!(owners, ["g_m00-0", "g_m00-0", "g_m01-0", "g_m01-0", "g_m01-1", "g_m01-2"]);
    assert_eq!(world.tree.nodes["/consumers/g/ids/g_m01"].data, r#"{ "jz": 3 }"#);
}

#[test]
fn what_members_register_is_read_back() {
    let two = Subscription::Topics([("a".to_owned(), 1), ("b".to_owned(), 12)].into());
    assert_eq!(two.encode(), r#"{ "a": 1,"b": 12 }"#);
    let white = Subscription::Whitelist(1, "j[pz].*".to_owned());
    let black = Subscription::Blacklist(2, "j[a-o].*".to_owned());
    assert_eq!((white.encode().as_str(), black.encode().as_str()), ("*1*j[pz].*", "!2!j[a-o].*"));
    for subscription in [two, white, black, Subscription::Topics(BTreeMap::new())] {
        assert_eq!(Subscription::decode(&subscription.encode()), Some(subscription));
    }
    for damaged in ["", "{", "*x*y", "*1", "{ \"a\" }", "{ \"a\": -1 }", "{ a: 1 }", "{ \"a: 1 }"] {
        assert_eq!(Subscription::decode(damaged), None, "{damaged}");
    }
}

#[test]
fn a_subscription_that_cannot_be_read_is_reported_and_releases_nothing() {
    for (data, why) in [("*1*t{1}", "braces"), ("{ \"version\": {} }", "not a subscription")] {
        let mut world = World::new(3, &[("t", 1, 2)]);
        world.join(topic("t", 1));
        world.settle(&mut |_| {});
        let path = "/consumers/g/ids/g_other";
        world.tree.put(path, data, Some(100));
        world.settle(&mut |_| {});
        let machine = &world.members[0].machine;
        match machine.problem() {
            Some(Problem::Unreadable { member, data: found, why: reason }) => {
                assert_eq!((member.as_str(), found.as_str()), ("g_other", data));
                assert!(reason.contains(why), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!((machine.owned().len(), world.members[0].reading.len()), (2, 2));
        world.tree.end(100);
        world.settle(&mut |_| {});
        assert_eq!(world.members[0].machine.problem(), None);
        world.check_settled(2);
    }
}

#[test]
fn a_member_id_that_another_session_has_is_reported_until_it_is_free() {
    let mut world = World::new(4, &[("t", 1, 1)]);
    world.tree.put("/consumers/g/ids/g_m00", "{ \"t\": 1 }", Some(100));
    world.join(topic("t", 1));
    let start = world.now;
    let mut reported = false;
    world.settle(&mut |world| match world.members[0].machine.problem() {
        Some(Problem::DuplicateId { since }) => {
            assert_eq!(*since, start);
            reported = true;
            if world.now > start + SESSION {
                world.tree.end(100);
            }
        }
        other => assert_eq!(other, None),
    });
    assert!(reported);
    assert_eq!(world.members[0].machine.problem(), None);
    world.check_settled(1);
}
