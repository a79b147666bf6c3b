//! Simulates groups whose members join, leave, stall and die while links and nodes fail and the coordinator moves.

use super::{Client, PARTITIONS, World, consumer_config, producer_config, record, seeds};
use klamm::engine::consumer::Consumer;
use klamm::engine::group::{Change, GroupConfig, Protocol, Strategy, assignor};
use klamm::engine::ops::{Committed, Output};
use klamm::engine::producer::Producer;
use klamm::engine::{ErrorKind, Time, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SEEDS: u64 = 100;
const MEMBERS: usize = 4;
const HEARTBEAT: Duration = Duration::from_millis(500);
/// Time after the last fault: sessions of dead members end, and all members join again.
const SETTLES_WITHIN: Duration = Duration::from_secs(40);
/// The same with the coordinator's sessions of 45 s.
const COORDINATOR_SETTLES_WITHIN: Duration = Duration::from_secs(120);

/// Returns the protocol of a group for a seed.
const STRATEGIES: [&[&str]; 6] = [
    &["range"],
    &["roundrobin"],
    &["sticky"],
    &["cooperative-sticky"],
    &["range", "cooperative-sticky"],
    &["cooperative-sticky", "range"],
];

fn group_config(seed: u64, member: usize, protocol: Protocol) -> GroupConfig {
    let is_classic = matches!(protocol, Protocol::Classic(_));
    GroupConfig {
        group: "g".to_owned(),
        // Some are static members, which come back under their old name.
        instance: (seed % 4 == 3 && member < 2).then(|| format!("i{member}")),
        rack: String::new(),
        protocol,
        session_timeout: if is_classic { Duration::from_secs(6) } else { Duration::from_secs(600) },
        heartbeat_interval: HEARTBEAT,
        max_poll_interval: Duration::from_secs(10),
        request_timeout: Duration::from_secs(5),
        api_timeout: Duration::from_secs(60),
        retry_backoff: (Duration::from_millis(50), Duration::from_secs(1)),
        seed: seed * 100 + member as u64,
    }
}

/// The activity of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// The member polls.
    Well,
    /// The member does not poll until this time; its heartbeats continue.
    Busy(Time),
    /// The member is dead, with its links, until this time.
    Dead(Time),
    /// The member has left and may return at this time.
    Out(Time),
}

struct Story {
    seed: u64,
    protocol: Protocol,
    heartbeat_interval: Duration,
    session_timeout: Option<Duration>,
    moods: Vec<Mood>,
    born: u64,
    /// Owners of partitions by generation.
    owners: BTreeMap<(TopicPartition, i32), usize>,
    processed: BTreeSet<u32>,
    sent: u32,
    acknowledged: BTreeSet<u32>,
    committed: Vec<i64>,
    /// The last revocation of each member. Incremental rebalances must not revoke partitions that stay.
    given_up: Option<Vec<Vec<TopicPartition>>>,
}

impl Story {
    fn new(seed: u64, protocol: Protocol, heartbeat_interval: Duration) -> Self {
        Self {
            seed,
            protocol,
            heartbeat_interval,
            session_timeout: None,
            moods: vec![Mood::Well; MEMBERS],
            born: 0,
            owners: BTreeMap::new(),
            processed: BTreeSet::new(),
            sent: 0,
            acknowledged: BTreeSet::new(),
            committed: vec![-1; PARTITIONS as usize],
            given_up: None,
        }
    }

    fn member(&mut self, world: &World, index: usize) -> Client<Consumer<u32>> {
        self.born += 1;
        let mut config = consumer_config(false);
        let seed = self.seed + 1000 * self.born;
        let heartbeat_interval = self.heartbeat_interval;
        let config_of = group_config(self.seed, index, self.protocol.clone());
        let session_timeout = self.session_timeout.unwrap_or(config_of.session_timeout);
        config.group = Some(GroupConfig { seed, heartbeat_interval, session_timeout, ..config_of });
        config.auto_commit = Some(Duration::from_millis(700));
        let mut client = world.client(Consumer::<u32>::new(config));
        client.role.subscribe(world.now, vec!["t".to_owned()]);
        client
    }

    /// Checks each member's activity and that it owns its partitions.
    fn step(&mut self, world: &mut World, members: &mut [Client<Consumer<u32>>], is_quiet: bool) {
        for (i, member) in members.iter_mut().enumerate() {
            match self.moods[i] {
                Mood::Dead(until) if until <= world.now || is_quiet => {
                    *member = self.member(world, i);
                    self.moods[i] = Mood::Well;
                }
                Mood::Out(until) if until <= world.now || is_quiet => {
                    *member = self.member(world, i);
                    self.moods[i] = Mood::Well;
                }
                Mood::Busy(until) if until <= world.now || is_quiet => self.moods[i] = Mood::Well,
                _ => {}
            }
            if self.moods[i] == Mood::Well {
                self.poll(world, i, member);
                if !is_quiet && world.random.below(200) == 0 {
                    let later = world.now + Duration::from_millis(world.random.below(15_000));
                    self.moods[i] = match world.random.below(3) {
                        0 => Mood::Busy(later),
                        1 => {
                            let ids: Vec<_> = member.links.keys().copied().collect();
                            ids.into_iter().for_each(|id| world.cut(member, id));
                            // What is left of it does nothing: it reads nothing and sends nothing.
                            *member = world.client(Consumer::<u32>::new(consumer_config(false)));
                            Mood::Dead(later)
                        }
                        _ => {
                            member.role.mark_all_processed();
                            let offsets = member.role.uncommitted();
                            member.role.commit(world.now, offsets, Duration::from_secs(2), 0);
                            member.role.leave(world.now);
                            Mood::Out(later)
                        }
                    };
                }
            }
            if let Some(work) = member.role.poll_work() {
                let made = work.run();
                member.role.assigned(world.now, made);
            }
            while member.role.poll_done().is_some() {}
        }
        for (i, member) in members.iter().enumerate().filter(|(i, _)| !matches!(self.moods[*i], Mood::Dead(_))) {
            let Some(me) = member.role.group_metadata().filter(|me| me.generation >= 0) else { continue };
            for place in member.role.assignment() {
                let owner = *self.owners.entry((place.clone(), me.generation)).or_insert(i);
                assert_eq!(owner, i, "seed {}: {place:?} has two owners in generation {}", self.seed, me.generation);
            }
        }
    }

    fn poll(&mut self, world: &World, index: usize, member: &mut Client<Consumer<u32>>) {
        member.role.note_activity(world.now);
        member.role.mark_all_processed();
        while let Some(change) = member.role.take_change(world.now) {
            if let Change::Assigned(places) = &change {
                assert!(!places.is_empty());
            }
            if let Some(given_up) = self.given_up.as_mut().map(|members| &mut members[index]) {
                match &change {
                    Change::Revoked(places) => given_up.clone_from(places),
                    Change::Assigned(places) => {
                        let back: Vec<_> = places.iter().filter(|place| given_up.contains(place)).collect();
                        assert!(back.is_empty(), "seed {}: {back:?} were given up and stayed", self.seed);
                    }
                    Change::Lost(_) => {}
                }
            }
            member.role.handled(world.now);
        }
        let slices = member.role.poll_records(world.now, 20, usize::MAX);
        for slice in slices.unwrap_or_else(|e| panic!("seed {}: member {index}: {e:?}", self.seed)) {
            for record in &slice.records {
                let value = record.value(&slice.data).and_then(|v| v.try_into().ok()).map(u32::from_be_bytes);
                self.processed.insert(value.unwrap());
            }
        }
    }

    fn produce(&mut self, world: &mut World, writer: &mut Client<Producer<u32>>) {
        if world.random.below(5) == 0 && self.sent < 400 {
            let value = self.sent.to_be_bytes();
            let record = record(Some((self.sent % PARTITIONS as u32) as i32), &value);
            let topic = writer.role.topic("t").unwrap();
            writer.role.append(world.now, topic, &record, Some(self.sent)).unwrap();
            self.sent += 1;
        }
        while let Some(event) = writer.role.poll_event() {
            if event.result.is_ok() {
                self.acknowledged.extend(event.deliveries.iter().map(|d| d.completion));
            }
        }
    }

    /// The last client only watches committed offsets.
    fn watch(&mut self, world: &World, watcher: &mut Client<Consumer<u32>>) {
        while let Some((_, result)) = watcher.role.poll_done() {
            let Ok(Output::Committed(offsets)) = result else { continue };
            let offsets: Vec<i64> = offsets.iter().map(|o| o.as_ref().map_or(-1, |o| o.offset)).collect();
            let back = self.committed.iter().zip(&offsets).any(|(before, now)| now < before);
            assert!(!back, "seed {}: commits went from {:?} back to {offsets:?}", self.seed, self.committed);
            self.committed = offsets;
            self.ask_for_committed(world, watcher);
        }
    }

    fn ask_for_committed(&self, world: &World, watcher: &mut Client<Consumer<u32>>) {
        let places: Vec<TopicPartition> = (0..PARTITIONS).map(|p| TopicPartition::new("t", p)).collect();
        let op = Committed::new("g".to_owned(), places);
        watcher.role.start(world.now, Box::new(op), Duration::from_secs(600), 0);
    }

    fn is_settled(&self, members: &[Client<Consumer<u32>>]) -> bool {
        let owned: Vec<_> = members.iter().flat_map(|m| m.role.assignment()).collect();
        let generations: BTreeSet<i32> =
            members.iter().filter_map(|m| m.role.group_metadata()).map(|m| m.generation).collect();
        owned.len() == PARTITIONS as usize
            && owned.iter().collect::<BTreeSet<_>>().len() == owned.len()
            && generations.len() == 1
            && members.iter().all(|m| !m.role.has_change())
    }
}

fn tell(seed: u64, protocol: Protocol, settles_within: Duration) {
    let mut world = World::new(seed, 200 + seed % 300);
    world.mute_one_in = if seed.is_multiple_of(3) { 200 } else { 0 };
    world.trouble_one_in = [0, 300, 1000][(seed / 2 % 3) as usize];
    world.damage_one_in = if seed.is_multiple_of(2) { 500 } else { 0 };
    world.deny_one_in = if seed.is_multiple_of(5) { 10 } else { 0 };
    world.coordinated = "g";
    world.look_every = Duration::from_millis(25);
    let mut story = Story::new(seed, protocol, HEARTBEAT);
    let mut writer = world.client(Producer::<u32>::new(producer_config(true, seed)));
    let mut clients: Vec<Client<Consumer<u32>>> = (0..MEMBERS).map(|i| story.member(&world, i)).collect();
    clients.push(world.client(Consumer::<u32>::new(consumer_config(false))));
    story.ask_for_committed(&world, clients.last_mut().unwrap());

    world.play_many(&mut writer, &mut clients, Duration::from_secs(60), |world, writer, clients| {
        let (watcher, members) = clients.split_last_mut().unwrap();
        story.produce(world, writer);
        story.step(world, members, false);
        story.watch(world, watcher);
        false
    });
    world.end_trouble();
    world.cut_one_in = 0;
    world.mute_one_in = 0;
    world.damage_one_in = 0;
    world.deny_one_in = 0;
    let quiet = world.now;
    let settled = world.play_many(&mut writer, &mut clients, settles_within, |world, writer, clients| {
        let (watcher, members) = clients.split_last_mut().unwrap();
        story.produce(world, writer);
        story.step(world, members, true);
        story.watch(world, watcher);
        story.is_settled(members) && world.now > quiet + Duration::from_secs(8)
    });
    let state: Vec<_> = clients.iter().map(|c| (c.role.group_metadata(), c.role.assignment())).collect();
    assert!(settled, "seed {seed}: the group does not settle: {state:?}");
    let caught_up = world.play_many(&mut writer, &mut clients, Duration::from_secs(60), |world, writer, clients| {
        let (_, members) = clients.split_last_mut().unwrap();
        story.produce(world, writer);
        story.step(world, members, true);
        writer.role.outstanding() == 0 && story.acknowledged.is_subset(&story.processed)
    });
    let missed: Vec<_> = story.acknowledged.difference(&story.processed).collect();
    assert!(caught_up, "seed {seed}: {missed:?} of {} were skipped", story.sent);
}

#[test]
fn classic_groups_settle_and_skip_nothing() {
    for seed in seeds(SEEDS) {
        let names = STRATEGIES[(seed % STRATEGIES.len() as u64) as usize];
        tell(
            seed,
            Protocol::Classic(names.iter().map(|name| Strategy::Known(assignor::by_name(name).unwrap())).collect()),
            SETTLES_WITHIN,
        );
    }
}

/// A member with partitions learns of a rebalance long before a whole heartbeat interval has passed.
#[test]
fn members_that_start_one_after_the_other_share_soon() {
    let interval = Duration::from_secs(4);
    for seed in seeds(SEEDS / 5) {
        let mut world = World::new(seed, 0);
        world.coordinated = "g";
        let names = STRATEGIES[(seed % STRATEGIES.len() as u64) as usize];
        let strategies = names.iter().map(|name| Strategy::Known(assignor::by_name(name).unwrap()));
        let mut story = Story::new(seed, Protocol::Classic(strategies.collect()), interval);
        let mut writer = world.client(Producer::<u32>::new(producer_config(true, seed)));
        let mut members = Vec::new();
        for index in 0..MEMBERS {
            members.push(story.member(&world, index));
            let apart = Duration::from_millis(seed % 20 * 50);
            world.play_many(&mut writer, &mut members, apart, |world, _, members| {
                story.step(world, members, true);
                false
            });
        }
        let settled = world.play_many(&mut writer, &mut members, interval / 2, |world, _, members| {
            story.step(world, members, true);
            let has_joined = |m: &Client<Consumer<u32>>| m.role.group_metadata().is_some_and(|me| me.generation >= 0);
            story.is_settled(members) && members.iter().all(has_joined)
        });
        assert!(settled, "seed {seed}: not within half an interval");
    }
}

/// Members join one after another, and the others keep reading the partitions that stay.
#[test]
fn what_stays_with_a_member_of_a_cooperative_group_is_never_given_up() {
    for seed in seeds(SEEDS / 5) {
        let mut world = World::new(seed, 0);
        world.coordinated = "g";
        let strategy = Strategy::Known(assignor::by_name("cooperative-sticky").unwrap());
        let mut story = Story::new(seed, Protocol::Classic(vec![strategy]), HEARTBEAT);
        story.given_up = Some(vec![Vec::new(); MEMBERS]);
        let mut writer = world.client(Producer::<u32>::new(producer_config(true, seed)));
        let mut members = Vec::new();
        for index in 0..MEMBERS {
            members.push(story.member(&world, index));
            let settled = world.play_many(&mut writer, &mut members, SETTLES_WITHIN, |world, _, members| {
                story.step(world, members, true);
                story.is_settled(members)
            });
            assert!(settled, "seed {seed}: not settled with {index} before");
        }
        let gave_up = story.given_up.iter().flatten().any(|places| !places.is_empty());
        assert!(gave_up, "seed {seed}: nothing moved");
    }
}

#[test]
fn a_coordinator_of_whom_nothing_can_be_read_is_an_error() {
    let strategy = Strategy::Known(assignor::by_name("range").unwrap());
    for protocol in [Protocol::Classic(vec![strategy]), Protocol::Consumer(None)] {
        let mut world = World::new(1, 0);
        world.damage_one_in = 1;
        let mut story = Story::new(1, protocol, HEARTBEAT);
        let mut writer = world.client(Producer::<u32>::new(producer_config(true, 1)));
        let mut member = story.member(&world, 0);
        let mut found = None;
        world.play(&mut writer, &mut member, Duration::from_secs(60), |world, _, member| {
            found = member.role.poll_records(world.now, 20, usize::MAX).err();
            found.is_some()
        });
        let error = found.expect("an error");
        assert_eq!(error.kind(), ErrorKind::Decode, "{error:?}");
    }
}

#[test]
fn groups_that_the_coordinator_assigns_settle_and_skip_nothing() {
    for seed in seeds(SEEDS / 2) {
        tell(seed, Protocol::Consumer((seed % 2 == 0).then(|| "range".to_owned())), COORDINATOR_SETTLES_WITHIN);
    }
}

#[test]
fn the_others_hear_of_a_member_that_leaves_while_the_coordinator_dies() {
    for seed in seeds(SEEDS / 5) {
        let range = Strategy::Known(assignor::by_name("range").unwrap());
        let protocols = [Protocol::Classic(vec![range]), Protocol::Consumer(None)];
        let mut world = World::new(seed, 0);
        world.cluster.move_coordinator(world.since_start(), "g", 2).unwrap();
        let mut story = Story::new(seed, protocols[(seed % 2) as usize].clone(), HEARTBEAT);
        story.session_timeout = Some(Duration::from_secs(60));
        let mut writer = world.client(Producer::<u32>::new(producer_config(true, seed)));
        let mut members: Vec<Client<Consumer<u32>>> = (0..MEMBERS).map(|i| story.member(&world, i)).collect();
        let mut settle = |world: &mut World, members: &mut [Client<Consumer<u32>>], here: usize, within| {
            world.play_many(&mut writer, members, within, |world, _, members| {
                story.step(world, &mut members[..here], true);
                story.is_settled(&members[..here])
            })
        };
        let settled = settle(&mut world, &mut members, MEMBERS, Duration::from_secs(60));
        assert!(settled, "seed {seed}: not settled at first");
        world.cluster.kill(world.since_start(), 2).unwrap();
        world.down = Some(2);
        // Before it can know of that, or after.
        let a_while = Duration::from_millis(world.random.below(1_000) * (seed / 2 % 2));
        let left = world.now + a_while;
        settle(&mut world, &mut members, 0, a_while);
        assert!(world.now >= left);
        members[MEMBERS - 1].role.leave(world.now);
        // The coordinator itself would find out after 45 s, or 60.
        let settled = settle(&mut world, &mut members, MEMBERS - 1, Duration::from_secs(20));
        assert!(settled, "seed {seed}: the others wait for one that left");
    }
}
