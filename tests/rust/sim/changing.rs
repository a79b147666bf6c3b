//! Simulates groups whose topics are created, extended and deleted while members come and go and links and nodes fail.
//!
//! Members subscribe to a pattern. The simulation does not use a topic name twice, because
//! `tests/broker/test_topics_made_anew.py` tests recreated topics.

use super::{Client, PARTITIONS, World, consumer_config, producer_config, record, seeds};
use klamm::api::{create_partitions, create_topics, delete_topics};
use klamm::engine::consumer::Consumer;
use klamm::engine::group::{GroupConfig, Protocol, Strategy, assignor};
use klamm::engine::producer::Producer;
use klamm::engine::{Time, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SEEDS: u64 = 40;
const MEMBERS: usize = 3;
/// The pattern does not match all topics.
const PATTERN: &str = "t[0-9]+";
const OTHER: &str = "other";
/// Maximum number of topics and records in a scenario.
const TOPICS: u32 = 12;
const RECORDS: u32 = 1000;
/// Time after the last change: the next refresh of metadata, and the end of a session.
const SETTLES_WITHIN: Duration = Duration::from_secs(120);

/// An existing topic.
struct Topic {
    partitions: i32,
    /// Acknowledged records of the topic.
    acknowledged: BTreeSet<u32>,
}

struct Story {
    seed: u64,
    protocol: Protocol,
    topics: BTreeMap<String, Topic>,
    made: u32,
    sent: BTreeMap<u32, String>,
    processed: BTreeSet<u32>,
    /// When absent members return.
    gone: [Option<Time>; MEMBERS],
    born: u64,
    owners: BTreeMap<(TopicPartition, i32), usize>,
}

impl Story {
    fn new(seed: u64, protocol: Protocol) -> Self {
        Self {
            seed,
            protocol,
            topics: BTreeMap::new(),
            made: 0,
            sent: BTreeMap::new(),
            processed: BTreeSet::new(),
            gone: [None; MEMBERS],
            born: 0,
            owners: BTreeMap::new(),
        }
    }

    fn member(&mut self, world: &World) -> Client<Consumer<u32>> {
        self.born += 1;
        let mut config = consumer_config(false);
        config.group = Some(GroupConfig {
            group: "g".to_owned(),
            instance: None,
            rack: String::new(),
            protocol: self.protocol.clone(),
            session_timeout: Duration::from_secs(6),
            heartbeat_interval: Duration::from_millis(500),
            max_poll_interval: Duration::from_secs(10),
            request_timeout: Duration::from_secs(5),
            api_timeout: Duration::from_secs(60),
            retry_backoff: (Duration::from_millis(50), Duration::from_secs(1)),
            seed: self.seed + 1000 * self.born,
        });
        config.auto_commit = Some(Duration::from_millis(700));
        let mut client = world.client(Consumer::<u32>::new(config));
        client.role.subscribe_pattern(world.now, PATTERN).unwrap();
        client
    }

    fn make_topic(&mut self, world: &mut World) {
        let (name, partitions) = (format!("t{}", self.made), 1 + world.random.below(PARTITIONS as u64) as i32);
        self.made += 1;
        self.topics.insert(name.clone(), Topic { partitions, acknowledged: BTreeSet::new() });
        let named = |name: &str| create_topics::Topic {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: -1,
            ..Default::default()
        };
        let request = create_topics::Request { topics: vec![named(&name)], ..Default::default() };
        world.by_hand(&request);
    }

    /// Creates, extends or deletes a topic.
    fn change_topics(&mut self, world: &mut World) {
        let index = world.random.below(self.topics.len().max(1) as u64) as usize;
        let name = self.topics.keys().nth(index).cloned();
        match (world.random.below(4), name) {
            (0 | 1, _) | (_, None) if self.made < TOPICS => self.make_topic(world),
            (2, Some(name)) => {
                let topic = self.topics.get_mut(&name).unwrap();
                topic.partitions += 1 + world.random.below(2) as i32;
                let grown = create_partitions::Topic { name, count: topic.partitions, assignments: None };
                let request = create_partitions::Request { topics: vec![grown], ..Default::default() };
                world.by_hand(&request);
            }
            (3, Some(name)) if self.topics.len() > 2 => {
                self.topics.remove(&name);
                let topic = delete_topics::Topic { name: Some(name), ..Default::default() };
                let request = delete_topics::Request { topics: vec![topic], ..Default::default() };
                world.by_hand(&request);
            }
            _ => {}
        }
    }

    fn produce(&mut self, world: &mut World, writer: &mut Client<Producer<u32>>) {
        let next = self.sent.len() as u32;
        if next < RECORDS && world.random.below(10) == 0 && !self.topics.is_empty() {
            let index = world.random.below(self.topics.len() as u64) as usize;
            let name = self.topics.keys().nth(index).unwrap().clone();
            let topic = writer.role.topic(&name).unwrap();
            writer.role.append(world.now, topic, &record(None, &next.to_be_bytes()), Some(next)).unwrap();
            self.sent.insert(next, name);
        }
        while let Some(event) = writer.role.poll_event() {
            for delivery in event.deliveries.iter().filter(|_| event.result.is_ok()) {
                let topic = self.sent.get(&delivery.completion).and_then(|name| self.topics.get_mut(name));
                if let Some(topic) = topic {
                    topic.acknowledged.insert(delivery.completion);
                }
            }
        }
    }

    fn step(&mut self, world: &mut World, members: &mut [Client<Consumer<u32>>], is_quiet: bool) {
        for (i, member) in members.iter_mut().enumerate() {
            if self.gone[i].is_some_and(|until| until <= world.now || is_quiet) {
                *member = self.member(world);
                self.gone[i] = None;
            }
            if self.gone[i].is_none() {
                self.poll(world, i, member);
                if !is_quiet && world.random.below(400) == 0 {
                    self.gone[i] = Some(world.now + Duration::from_millis(world.random.below(10_000)));
                    if world.random.below(2) == 0 {
                        member.role.leave(world.now);
                    } else {
                        let ids: Vec<_> = member.links.keys().copied().collect();
                        ids.into_iter().for_each(|id| world.cut(member, id));
                        *member = world.client(Consumer::<u32>::new(consumer_config(false)));
                    }
                }
            }
            if let Some(work) = member.role.poll_work() {
                let made = work.run();
                member.role.assigned(world.now, made);
            }
            while member.role.poll_done().is_some() {}
            let me = member.role.group_metadata().filter(|me| me.generation >= 0 && self.gone[i].is_none());
            for place in me.iter().flat_map(|_| member.role.assignment()) {
                let generation = me.as_ref().unwrap().generation;
                let owner = *self.owners.entry((place.clone(), generation)).or_insert(i);
                assert_eq!(owner, i, "seed {}: {place:?} has two owners in generation {generation}", self.seed);
                assert_ne!(*place.topic, *OTHER, "seed {}: it does not match", self.seed);
            }
        }
    }

    fn poll(&mut self, world: &World, index: usize, member: &mut Client<Consumer<u32>>) {
        member.role.note_activity(world.now);
        member.role.mark_all_processed();
        while member.role.take_change(world.now).is_some() {
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

    /// Returns whether the members own exactly the existing partitions.
    fn is_settled(&self, members: &[Client<Consumer<u32>>]) -> bool {
        let owned: Vec<_> = members.iter().flat_map(|m| m.role.assignment()).collect();
        let there = self
            .topics
            .iter()
            .flat_map(|(name, t)| (0..t.partitions).map(move |p| TopicPartition::new(name.as_str(), p)));
        let unique: BTreeSet<TopicPartition> = owned.iter().cloned().collect();
        unique.len() == owned.len() && unique == there.collect() && members.iter().all(|m| !m.role.has_change())
    }

    /// Returns acknowledged records of existing topics that no member has received.
    fn skipped(&self) -> Vec<u32> {
        let acknowledged = self.topics.values().flat_map(|topic| &topic.acknowledged);
        acknowledged.filter(|value| !self.processed.contains(value)).copied().collect()
    }
}

fn tell(seed: u64, protocol: Protocol) {
    let mut world = World::new(seed, 200 + seed % 300);
    world.trouble_one_in = [0, 300, 1000][(seed / 2 % 3) as usize];
    world.coordinated = "g";
    world.look_every = Duration::from_millis(25);
    world.metadata_max_age = Duration::from_secs(3);
    world.makes_topics = false;
    let mut story = Story::new(seed, protocol);
    let other = create_topics::Topic {
        name: OTHER.to_owned(),
        num_partitions: 1,
        replication_factor: -1,
        ..Default::default()
    };
    world.by_hand(&create_topics::Request { topics: vec![other], ..Default::default() });
    story.make_topic(&mut world);
    let mut writer = world.client(Producer::<u32>::new(producer_config(true, seed)));
    let mut members: Vec<Client<Consumer<u32>>> = (0..MEMBERS).map(|_| story.member(&world)).collect();

    world.play_many(&mut writer, &mut members, Duration::from_secs(60), |world, writer, members| {
        if world.random.below(200) == 0 {
            story.change_topics(world);
        }
        story.produce(world, writer);
        story.step(world, members, false);
        false
    });
    world.end_trouble();
    world.cut_one_in = 0;
    let settled = world.play_many(&mut writer, &mut members, SETTLES_WITHIN, |world, writer, members| {
        story.produce(world, writer);
        story.step(world, members, true);
        story.is_settled(members)
    });
    let state: Vec<_> = members.iter().map(|m| (m.role.group_metadata(), m.role.assignment())).collect();
    let there: Vec<_> = story.topics.iter().map(|(name, topic)| (name, topic.partitions)).collect();
    assert!(settled, "seed {seed}: the group does not settle on {there:?}: {state:?}");
    let caught_up = world.play_many(&mut writer, &mut members, Duration::from_secs(120), |world, writer, members| {
        story.produce(world, writer);
        story.step(world, members, true);
        writer.role.outstanding() == 0 && story.skipped().is_empty()
    });
    assert!(caught_up, "seed {seed}: {:?} of {} were skipped", story.skipped(), story.sent.len());
    let kept = story.topics.values().map(|topic| topic.acknowledged.len()).sum::<usize>();
    assert!(kept > 0, "seed {seed}: nothing was written");
}

#[test]
fn classic_groups_follow_topics_that_come_grow_and_go() {
    const STRATEGIES: [&str; 4] = ["range", "roundrobin", "sticky", "cooperative-sticky"];
    for seed in seeds(SEEDS) {
        let strategy = assignor::by_name(STRATEGIES[(seed % 4) as usize]).unwrap();
        tell(seed, Protocol::Classic(vec![Strategy::Known(strategy)]));
    }
}

#[test]
fn groups_that_the_coordinator_assigns_follow_topics_that_come_grow_and_go() {
    for seed in seeds(SEEDS) {
        tell(seed, Protocol::Consumer(None));
    }
}
