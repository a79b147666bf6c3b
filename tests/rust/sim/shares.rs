//! Simulates share groups whose members acknowledge, release, stall, leave and die while links and nodes fail.

use super::{Client, PARTITIONS, World, producer_config, record, seeds};
use bytes::Bytes;
use klamm::api::header::{ClientId, RequestHeader};
use klamm::api::{self, describe_configs, incremental_alter_configs as alter};
use klamm::broker::Connection;
use klamm::engine::group::ShareMemberConfig;
use klamm::engine::producer::Producer;
use klamm::engine::share::{Acknowledgement, ShareConfig, ShareConsumer};
use klamm::engine::{Time, TopicPartition};
use klamm::wire::Writer;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SEEDS: u64 = 60;
const MEMBERS: usize = 3;
const RECORDS: u32 = 200;
/// Time after the last fault: sessions and locks of dead members end.
const SETTLES_WITHIN: Duration = Duration::from_secs(180);

type Place = (TopicPartition, i64);

fn config(seed: u64) -> ShareConfig {
    ShareConfig {
        member: ShareMemberConfig {
            group: "g".to_owned(),
            rack: String::new(),
            request_timeout: Duration::from_secs(5),
            api_timeout: Duration::from_secs(60),
            retry_backoff: (Duration::from_millis(50), Duration::from_secs(1)),
            seed,
        },
        started_ms: 0,
        record_limit: seed.is_multiple_of(2),
        max_records: 10,
        min_bytes: 1,
        max_wait: Duration::from_millis(500),
        max_bytes: 1 << 20,
        check_crcs: true,
        decompress_limit: 1 << 20,
    }
}

/// Configures the group to start at the beginning of topics.
fn start_at_the_beginning(world: &mut World) {
    let setting = alter::Config {
        name: "share.auto.offset.reset".to_owned(),
        config_operation: alter::SET,
        value: Some("earliest".to_owned()),
    };
    let resource = alter::Resource {
        resource_type: describe_configs::GROUP,
        resource_name: "g".to_owned(),
        configs: vec![setting],
    };
    let request = alter::Request { resources: vec![resource], validate_only: false };
    let mut w = Writer::new(1, true);
    let client_id = ClientId(None);
    let header =
        RequestHeader { request_api_key: alter::API.key, request_api_version: 1, correlation_id: 0, client_id };
    header.put(&alter::API, &mut w);
    w.buf.extend_from_slice(&api::encode(1, &request).unwrap());
    let connection = Connection(u64::MAX);
    world.cluster.connect(1, connection);
    world.cluster.handle(Duration::ZERO, connection, Bytes::from(w.finish().unwrap()));
    world.cluster.disconnect(Duration::ZERO, connection);
}

/// The activity of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// The member polls.
    Well,
    /// The member waits for the response to a commit.
    Commits,
    /// The member processes its records until this time.
    Busy(Time),
    /// The member is dead, with its links, until this time.
    Dead(Time),
    /// The member leaves and may return at this time.
    Leaves(Time),
}

struct Story {
    seed: u64,
    born: u64,
    moods: Vec<Mood>,
    /// Acknowledgements of each member since its last commit.
    said: Vec<BTreeMap<Place, (Acknowledgement, i16)>>,
    /// Records that are done for the brokers, with their delivery counts.
    settled: BTreeMap<Place, i16>,
    seen: BTreeSet<u32>,
    sent: u32,
    acknowledged: BTreeSet<u32>,
}

impl Story {
    fn member(&mut self, world: &World) -> Client<ShareConsumer<u32>> {
        self.born += 1;
        let mut client = world.client(ShareConsumer::new(config(self.seed * 1000 + self.born)));
        client.role.subscribe(world.now, ["t".into()].into());
        client
    }

    fn step(&mut self, world: &mut World, members: &mut [Client<ShareConsumer<u32>>], is_quiet: bool) {
        for (i, member) in members.iter_mut().enumerate() {
            while let Some((_, outcomes)) = member.role.poll_done() {
                let said = std::mem::take(&mut self.said[i]);
                for (key, _) in outcomes.iter().filter(|(_, error)| error.is_none()) {
                    let done = |(place, (what, _)): &(&Place, &(Acknowledgement, i16))| {
                        place.0 == *key && matches!(what, Acknowledgement::Accept | Acknowledgement::Reject)
                    };
                    self.settled.extend(said.iter().filter(done).map(|(place, (_, count))| (place.clone(), *count)));
                }
                if self.moods[i] == Mood::Commits {
                    self.moods[i] = Mood::Well;
                }
            }
            member.role.take_results();
            match self.moods[i] {
                Mood::Dead(until) | Mood::Leaves(until) if until <= world.now || is_quiet => {
                    if let Mood::Leaves(since) = self.moods[i]
                        && !member.role.has_left()
                        && (!is_quiet || world.now < since + Duration::from_secs(30))
                    {
                        continue;
                    }
                    *member = self.member(world);
                    self.said[i].clear();
                    self.moods[i] = Mood::Well;
                }
                Mood::Busy(until) if until <= world.now || is_quiet => self.moods[i] = Mood::Well,
                Mood::Well => self.poll(world, i, member, is_quiet),
                _ => {}
            }
        }
    }

    fn poll(&mut self, world: &mut World, i: usize, member: &mut Client<ShareConsumer<u32>>, is_quiet: bool) {
        let slices = member.role.poll_records(world.now, 7);
        let slices = slices.unwrap_or_else(|e| panic!("seed {}: member {i}: {e:?}", self.seed));
        let has_some = !slices.is_empty();
        for slice in slices {
            for record in &slice.records {
                let value = record.value(&slice.data).and_then(|v| v.try_into().ok()).map(u32::from_be_bytes);
                let place = (TopicPartition::new(slice.topic.clone(), slice.partition), record.offset);
                // One that was handed out before may wait in a member whose connection broke.
                let is_old = self.settled.get(&place).is_none_or(|count| slice.delivery_count < *count);
                assert!(is_old, "seed {}: {place:?} comes again", self.seed);
                assert!(slice.delivery_count >= 1);
                self.seen.insert(value.unwrap());
                let what = match world.random.below(10) {
                    0 if !is_quiet => Acknowledgement::Release,
                    1 => Acknowledgement::Reject,
                    2 if !is_quiet => Acknowledgement::Renew,
                    _ => Acknowledgement::Accept,
                };
                assert!(member.role.acknowledge(&slice.topic, slice.partition, record.offset, what));
                if what == Acknowledgement::Renew {
                    assert!(member.role.acknowledge(
                        &slice.topic,
                        slice.partition,
                        record.offset,
                        Acknowledgement::Accept
                    ));
                }
                self.said[i].insert(place, (Acknowledgement::Accept.min_with(what), slice.delivery_count));
            }
        }
        if has_some {
            member.role.commit(0);
            self.moods[i] = Mood::Commits;
        } else if !is_quiet && world.random.below(100) == 0 {
            let later = world.now + Duration::from_millis(world.random.below(10_000));
            self.moods[i] = match world.random.below(3) {
                0 => Mood::Busy(later),
                1 => {
                    let ids: Vec<_> = member.links.keys().copied().collect();
                    ids.into_iter().for_each(|id| world.cut(member, id));
                    // What is left of it says nothing.
                    *member = world.client(ShareConsumer::new(config(0)));
                    Mood::Dead(later)
                }
                _ => {
                    member.role.leave(world.now);
                    Mood::Leaves(later)
                }
            };
        }
    }

    fn produce(&mut self, world: &mut World, writer: &mut Client<Producer<u32>>) {
        if world.random.below(5) == 0 && self.sent < RECORDS {
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
}

/// Returns the final one of two acknowledgements of a record. A renewed lock is not final.
trait Last {
    fn min_with(self, said: Self) -> Self;
}

impl Last for Acknowledgement {
    fn min_with(self, said: Self) -> Self {
        if said == Self::Renew { self } else { said }
    }
}

fn tell(seed: u64) {
    let mut world = World::new(seed, 200 + seed % 300);
    world.mute_one_in = if seed.is_multiple_of(3) { 300 } else { 0 };
    world.damage_one_in = if seed.is_multiple_of(4) { 200 } else { 0 };
    world.trouble_one_in = [0, 300, 1000][(seed / 2 % 3) as usize];
    world.coordinated = "g";
    world.look_every = Duration::from_millis(25);
    start_at_the_beginning(&mut world);
    let mut story = Story {
        seed,
        born: 0,
        moods: vec![Mood::Well; MEMBERS],
        said: vec![BTreeMap::new(); MEMBERS],
        settled: BTreeMap::new(),
        seen: BTreeSet::new(),
        sent: 0,
        acknowledged: BTreeSet::new(),
    };
    let mut writer = world.client(Producer::<u32>::new(producer_config(true, seed)));
    let mut members: Vec<Client<ShareConsumer<u32>>> = (0..MEMBERS).map(|_| story.member(&world)).collect();
    world.play_many(&mut writer, &mut members, Duration::from_secs(40), |world, writer, members| {
        story.produce(world, writer);
        story.step(world, members, false);
        false
    });
    world.end_trouble();
    (world.cut_one_in, world.mute_one_in, world.damage_one_in) = (0, 0, 0);
    let all_seen = world.play_many(&mut writer, &mut members, SETTLES_WITHIN, |world, writer, members| {
        story.produce(world, writer);
        story.step(world, members, true);
        story.sent == RECORDS && writer.role.outstanding() == 0 && story.acknowledged.is_subset(&story.seen)
    });
    let missed: Vec<_> = story.acknowledged.difference(&story.seen).collect();
    assert!(all_seen, "seed {seed}: no member got {missed:?} of {}; {:?}", story.sent, story.moods);
    let left = world.play_many(&mut writer, &mut members, Duration::from_secs(30), |world, _, members| {
        members.iter_mut().for_each(|m| {
            if story.born > 0 {
                m.role.leave(world.now);
            }
        });
        story.born = 0;
        members.iter().all(|m| m.role.has_left())
    });
    assert!(left, "seed {seed}: a member does not get away");
}

#[test]
fn every_record_is_handed_out_until_it_is_accepted_and_not_after() {
    seeds(SEEDS).for_each(tell);
}
