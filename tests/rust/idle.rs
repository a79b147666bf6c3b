//! Tests idle connections: the client checks an idle connection before the next request, and closes it after a while.

use crate::network::{BOOTSTRAP, World, network_config};
use klamm::engine::{NetworkConfig, Target};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_connection_that_died_while_it_was_idle_costs_three_seconds_and_no_request() {
    for target in [Target::Any, Target::Node(11), Target::Fetch(11), Target::Group(11), Target::Telemetry] {
        let mut world = World::settled();
        world.ask(target);
        world.wait(10 * SECOND);
        // What is sent on these connections gets lost, and nothing says so.
        world.connections.clear();
        let before = world.now;
        world.ask(target);
        assert!(world.now.since(before) <= 3 * SECOND, "{target:?} {:?}", world.now.since(before));
    }
}

#[test]
fn a_connection_that_survives_its_pauses_is_checked_once() {
    let mut world = World::settled();
    world.ask(Target::Node(11));
    let before = world.probes;
    for _ in 0..10 {
        world.wait(3 * SECOND);
        world.ask(Target::Node(11));
    }
    assert_eq!(world.probes, before + 1);
}

#[test]
fn a_connection_that_is_idle_for_too_long_is_closed_and_made_again_when_needed() {
    let max_idle = Some(60 * SECOND);
    let mut world = World::with(NetworkConfig { max_idle, ..network_config("cluster", BOOTSTRAP) });
    world.is_cluster_of(&[11]);
    world.ask(Target::Node(11));
    world.wait(59 * SECOND);
    assert!(!world.connections.is_empty());
    world.wait(2 * SECOND);
    assert!(world.connections.is_empty(), "{:?}", world.connections);
    let before = world.now;
    world.ask(Target::Node(11));
    assert_eq!(world.now, before);
}
