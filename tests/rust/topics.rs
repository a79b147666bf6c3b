//! Tests metadata requests: for topics by name, for topics by ID, and for all topics.

use crate::network::World;
use klamm::api::metadata;
use klamm::engine::MetadataDemand;
use klamm::wire::Uuid;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn names(names: &[&str]) -> BTreeSet<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn id(byte: u8) -> Uuid {
    Uuid([byte; 16])
}

/// Returns a client that is connected to brokers with the topics `a`, `b` and `c`, and has not requested them yet.
fn settled() -> World {
    let mut world = World::settled();
    world.topics = [("a", 1), ("b", 2), ("c", 3)].map(|(name, byte)| (name.to_owned(), id(byte))).into();
    world.asked.clear();
    world
}

fn demand(world: &mut World, demand: MetadataDemand) {
    world.network.demand(world.now, demand);
    world.wait(SECOND);
}

fn known(world: &World) -> BTreeSet<Arc<str>> {
    world.network.cluster().topics.keys().cloned().collect()
}

/// Returns the number of topics by name and by ID in a request.
fn named_and_known_by_id(request: &metadata::Request) -> (usize, usize) {
    let topics = || request.topics.iter().flatten();
    (topics().filter(|t| t.name.is_some()).count(), topics().filter(|t| !t.topic_id.is_zero()).count())
}

#[test]
fn names_and_ids_are_asked_for_apart_because_brokers_answer_ids_alone() {
    let mut world = settled();
    demand(&mut world, MetadataDemand { topics: names(&["a"]), ids: [id(2)].into(), ..MetadataDemand::default() });
    assert_eq!(known(&world), names(&["a", "b"]));
    let asked: Vec<_> = world.asked.iter().map(named_and_known_by_id).collect();
    assert_eq!(asked, [(0, 1), (1, 0)]);
}

#[test]
fn ids_are_asked_for_again_when_the_answer_is_lost() {
    let mut world = settled();
    world.loses = 1;
    demand(&mut world, MetadataDemand { ids: [id(2)].into(), ..MetadataDemand::default() });
    assert_eq!(known(&world), names(&["b"]));
}

#[test]
fn metadata_of_all_topics_makes_a_request_for_ids_unnecessary() {
    let mut world = settled();
    demand(&mut world, MetadataDemand { ids: [id(2)].into(), all: true, ..MetadataDemand::default() });
    assert_eq!(known(&world), names(&["a", "b", "c"]));
    assert!(world.asked.iter().all(|request| request.topics.is_none()), "{:?}", world.asked);
}
