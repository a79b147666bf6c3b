//! Simulates a consumer that fetches from the replica in its rack (KIP-392) while this replica rejects fetches.

use super::{World, consumer_config, producer_config, record, seeds};
use klamm::api::{ErrorCode, fetch};
use klamm::broker::{Action, Fault, Options};
use klamm::engine::Time;
use klamm::engine::consumer::{Assigned, Consumer, ConsumerConfig};
use klamm::engine::producer::Producer;
use std::time::Duration;

const SEEDS: u64 = 60;
const RECORDS: u32 = 200;
/// The node in the reader's rack. Node 1 leads the only partition.
const FOLLOWER: i32 = 2;
/// What a replica that lags, moves or has just started may respond.
const REFUSALS: [ErrorCode; 8] = [
    ErrorCode::OFFSET_OUT_OF_RANGE,
    ErrorCode::NOT_LEADER_OR_FOLLOWER,
    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode::UNKNOWN_TOPIC_ID,
    ErrorCode::OFFSET_NOT_AVAILABLE,
    ErrorCode::FENCED_LEADER_EPOCH,
    ErrorCode::UNKNOWN_LEADER_EPOCH,
    ErrorCode::KAFKA_STORAGE_ERROR,
];

#[test]
fn a_replica_that_refuses_fetches_costs_neither_records_nor_a_storm_of_requests() {
    for seed in seeds(SEEDS) {
        let racks = ["a", "b", "c"].map(str::to_owned).to_vec();
        let mut world = World::of(seed, 0, |options| Options { racks, default_partitions: 1, ..options });
        let mut writer = world.client(Producer::<u32>::new(producer_config(true, seed)));
        let reader = ConsumerConfig { rack: "b".to_owned(), ..consumer_config(false) };
        let mut reader = world.client(Consumer::<u32>::new(reader));
        world.create_topic("retention.ms", "-1".to_owned());
        reader.role.assign(Time(0), vec![Assigned { topic: "t".into(), partition: 0, offset: None, end_offset: None }]);

        let code = REFUSALS[(seed % REFUSALS.len() as u64) as usize];
        // The replica refuses from the start, or begins to; some of its requests, or all.
        let begins_at = RECORDS / 2 * (seed / 8 % 2) as u32;
        let probability = [0.3, 1.0][(seed / 16 % 2) as usize];
        // When the replica begins to refuse, and how many fetches it had received until then.
        let mut refuses_since: Option<(Time, usize)> = None;
        let mut sent = 0;
        let asked = |world: &World| world.cluster.requests().filter(|r| r.api == "Fetch" && r.node == FOLLOWER).count();
        let mut read = Vec::new();
        let is_done = world.play(&mut writer, &mut reader, Duration::from_secs(60), |world, writer, reader| {
            if refuses_since.is_none() && read.len() as u32 >= begins_at {
                refuses_since = Some((world.now, asked(world)));
                let always = Fault::always(Action::Error(code));
                let (api, node) = (Some(fetch::API.key), Some(FOLLOWER));
                world.cluster.fault(Fault { api, node, probability, seed, ..always });
            }
            if sent < RECORDS && world.random.below(5) == 0 {
                let topic = writer.role.topic("t").unwrap();
                writer.role.append(world.now, topic, &record(Some(0), &sent.to_be_bytes()), Some(sent)).unwrap();
                sent += 1;
            }
            while writer.role.poll_event().is_some() {}
            let slices = reader
                .role
                .poll_records(world.now, 7, usize::MAX)
                .unwrap_or_else(|e| panic!("seed {seed}, {code}: {e:?}"));
            for slice in &slices {
                read.extend(
                    slice
                        .records
                        .iter()
                        .filter_map(|r| r.value(&slice.data).and_then(|v| v.try_into().ok()).map(u32::from_be_bytes)),
                );
            }
            read.len() as u32 == RECORDS
        });
        assert!(is_done, "seed {seed}, {code}: {} of {RECORDS} were read", read.len());
        assert!(read.iter().copied().eq(0..RECORDS), "seed {seed}, {code}: {read:?}");
        let (since, before) = refuses_since.unwrap();
        assert!(asked(&world) > 0, "seed {seed}, {code}: the replica was never asked");
        let seconds = world.now.since(since).max(Duration::from_secs(1)).as_secs_f64();
        let per_second = (asked(&world) - before) as f64 / seconds;
        assert!(probability < 1.0 || per_second < 40.0, "seed {seed}, {code}: {per_second} requests per second");
    }
}
