//! Simulates admin calls for many items while links and nodes fail, leaders and coordinators move, and the controller
//! dies.

use super::{Client, PARTITIONS, SimFault, World, seeds};
use klamm::api::{ErrorCode, list_offsets};
use klamm::broker::{Action, Fault};
use klamm::engine::Time;
use klamm::engine::ops::{ByName, Condition, Confirm, Item, ItemResult, Knowing, Op, Ops, Output, Route};
use klamm::wire::Value;
use std::collections::BTreeSet;
use std::time::Duration;

const SEEDS: u64 = 30;
const GROUP: i8 = 0;
const CALLS: u32 = 30;
const TROUBLE: Duration = Duration::from_secs(60);
/// The timeout of a call is long enough that no call fails.
const TIMEOUT: Duration = Duration::from_secs(300);
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
const BY_PARTITION: &str = "topics:name/partitions:partitionIndex";

fn fields(fields: &[(&str, Value)]) -> Value {
    Value::Struct(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn number(value: &Value, name: &str) -> i64 {
    match value {
        Value::Struct(fields) => match fields.iter().find(|(key, _)| &**key == name) {
            Some((_, Value::Int(number))) => *number,
            found => panic!("{found:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn topic_fields(partition: i32, other: &[(&str, Value)]) -> Value {
    let partition = fields(&[&[("partitionIndex", Value::Int(partition.into()))], other].concat());
    Value::List(vec![fields(&[("name", text("t")), ("partitions", Value::List(vec![partition]))])])
}

fn item(request: Value, route: Route, key: &[&str]) -> Item {
    let key = key.iter().map(|&part| part.to_owned()).collect();
    Item { fields: request, route, tried: "try".to_owned(), key, location: None }
}

/// A call of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallOf {
    /// Looks up offsets at the leaders of partitions.
    Offsets,
    /// Commits offsets of a group, at its coordinator. Each call commits this offset.
    Commit(i64),
    /// Creates topics, at the controller.
    Topics(u32),
    /// Describes groups with a request for each of them.
    Groups,
    /// Waits until all brokers know the leaders of a topic.
    Confirm,
}

impl CallOf {
    fn new(world: &mut World, index: u32) -> Self {
        match world.random.below(5) {
            0 => Self::Offsets,
            1 => Self::Commit(index.into()),
            2 => Self::Topics(index),
            3 => Self::Groups,
            _ => Self::Confirm,
        }
    }

    fn op(self) -> Box<dyn Op> {
        let partitions = 0..PARTITIONS;
        let coordinator = || Route::Coordinator(GROUP, "g".to_owned());
        let key = |partition: i32| ["t".to_owned(), partition.to_string()];
        let of_partition = |partition: i32, request: Value, route: Route| {
            let [topic, partition] = key(partition);
            item(request, route, &[&topic, &partition])
        };
        let (api, path, items): (_, _, Vec<Item>) = match self {
            Self::Offsets => {
                let offset = |p| {
                    let topics = topic_fields(p, &[("timestamp", Value::Int(-1))]);
                    let request = fields(&[("replicaId", Value::Int(-1)), ("topics", topics)]);
                    of_partition(p, request, Route::Leader("t".into(), p))
                };
                ("ListOffsets", BY_PARTITION, partitions.map(offset).collect())
            }
            Self::Commit(offset) => {
                let commit = |p| {
                    let topics = topic_fields(p, &[("committedOffset", Value::Int(offset))]);
                    of_partition(p, fields(&[("groupId", text("g")), ("topics", topics)]), coordinator())
                };
                ("OffsetCommit", BY_PARTITION, partitions.map(commit).collect())
            }
            Self::Topics(index) => {
                let create = |i| {
                    let name = format!("new-{index}-{i}");
                    let (partitions, replicas) =
                        (("numPartitions", Value::Int(1)), ("replicationFactor", Value::Int(1)));
                    let topic = fields(&[("name", text(&name)), partitions, replicas]);
                    item(fields(&[("topics", Value::List(vec![topic]))]), Route::Controller, &[&name])
                };
                ("CreateTopics", "topics:name", (0..3).map(create).collect())
            }
            Self::Groups => {
                let describe = |group: &str| {
                    let request = fields(&[("groups", Value::List(vec![text(group)]))]);
                    item(request, Route::Coordinator(GROUP, group.to_owned()), &[])
                };
                ("DescribeGroups", "", ["g", "h"].map(describe).into())
            }
            Self::Confirm => {
                let condition = Condition::HasLeaders(PARTITIONS as usize);
                return Box::new(Confirm::new(vec![("t".to_owned(), condition)], Knowing::All));
            }
        };
        // OffsetCommit has topic IDs instead of names from version 10 on.
        Box::new(ByName::for_items(api, path, items, 1..=5).unwrap())
    }

    /// Checks the results of a call. Only a change that may have been made before may fail.
    fn check(self, output: &Output) {
        let results = match output {
            Output::Items(results) => results,
            Output::Confirmed(None) if self == Self::Confirm => return,
            other => panic!("{self:?}: {other:?}"),
        };
        assert_eq!(results.len(), if self == Self::Groups { 2 } else { 3 }, "{self:?}");
        for ItemResult { result, repeated } in results {
            match result {
                Err(error) => {
                    let was_made = error.code() == Some(ErrorCode::TOPIC_ALREADY_EXISTS) && *repeated;
                    assert!(was_made && matches!(self, Self::Topics(_)), "{self:?}: {error}");
                }
                Ok(value) if self == Self::Offsets => assert_eq!(number(value, "offset"), 0),
                Ok(_) => {}
            }
        }
    }
}

/// Starts calls at random times, and returns when all of them have ended.
fn play(world: &mut World, client: &mut Client<Ops<u32>>) {
    let mut idle: Client<Ops<u32>> = world.client(Ops::new(BACKOFF));
    let mut calls = Vec::new();
    let mut ended = BTreeSet::new();
    let end = Time(0) + TROUBLE;
    let done = world.play(client, &mut idle, TROUBLE + TIMEOUT, |world, client, _| {
        if world.now > end {
            world.end_trouble();
        }
        if (calls.len() as u32) < CALLS && world.random.below(100) == 0 {
            let call = CallOf::new(world, calls.len() as u32);
            client.role.start(world.now, call.op(), TIMEOUT, calls.len() as u32);
            calls.push(call);
        }
        while let Some((index, result)) = client.role.poll_done() {
            calls[index as usize].check(&result.unwrap());
            assert!(ended.insert(index));
        }
        ended.len() as u32 == CALLS
    });
    assert!(done, "{} of {} calls have ended", ended.len(), calls.len());
}

#[test]
fn every_item_has_a_result_while_leaders_and_coordinators_move_and_nodes_die() {
    let mut struck = BTreeSet::new();
    for seed in seeds(SEEDS) {
        let mut world = World::new(seed, [0, 60, 200][seed as usize % 3]);
        world.create_topic("max.message.bytes", "1000".to_owned());
        world.coordinated = "g";
        world.trouble_one_in = 40;
        world.drop_one_in = [0, 80, 0][seed as usize % 3];
        let mut client = world.client(Ops::new(BACKOFF));
        play(&mut world, &mut client);
        struck.append(&mut world.struck);
    }
    if seeds(SEEDS).count() > 1 {
        use SimFault::{CutAfterRequest, CutInResponse, KillNode, MoveCoordinator, MoveLeader, SilentDrop, StartNode};
        let expected = [CutAfterRequest, CutInResponse, SilentDrop, MoveLeader, MoveCoordinator, KillNode, StartNode];
        assert_eq!(struck, expected.into());
    }
}

#[test]
fn a_call_that_is_late_keeps_the_results_of_its_other_items() {
    for seed in seeds(SEEDS) {
        let mut world = World::new(seed, 0);
        world.create_topic("max.message.bytes", "1000".to_owned());
        for partition in 0..PARTITIONS {
            world.cluster.move_leader(world.since_start(), "t", partition, partition + 1).unwrap();
        }
        let late = world.random.below(PARTITIONS as u64) as usize;
        let action = if seed % 2 == 0 { Action::Drop } else { Action::Delay(TIMEOUT) };
        let (api, node) = (Some(list_offsets::API.key), Some(late as i32 + 1));
        world.cluster.fault(Fault { api, node, ..Fault::always(action) });
        let (mut client, mut idle) = (world.client(Ops::new(BACKOFF)), world.client(Ops::<u32>::new(BACKOFF)));
        client.role.start(world.now, CallOf::Offsets.op(), Duration::from_secs(10), 0);
        let mut results = Vec::new();
        assert!(world.play(&mut client, &mut idle, TIMEOUT, |_, client, _| {
            let Some((_, Ok(Output::Items(items)))) = client.role.poll_done() else { return false };
            results = items;
            true
        }));
        assert_eq!(world.since_start().as_secs(), 10);
        for (partition, item) in results.iter().enumerate() {
            assert_eq!(item.result.is_ok(), partition != late, "seed {seed}: {:?}", item.result);
        }
        let error = results[late].result.as_ref().unwrap_err();
        assert!(error.message().starts_with("ListOffsets did not succeed in 10 s: "), "{error}");
    }
}
