//! Tests clients that connect to the controllers of a KRaft cluster (KIP-919). These clients follow the active
//! controller.

use crate::network::{BOOTSTRAP, World, network_config};
use klamm::engine::{Endpoints, MetadataDemand, NetworkConfig, Target};
use std::time::Duration;

/// Returns a client that knows the controllers 11, 12 and 13, the first of which is active.
fn controllers() -> World {
    let config = NetworkConfig { endpoints: Endpoints::Controllers, ..network_config("cluster", BOOTSTRAP) };
    let mut world = World::with(config);
    world.active = Some(11);
    world.is_cluster_of(&[11, 12, 13]);
    world.network.demand(world.now, MetadataDemand { refresh: true, ..MetadataDemand::default() });
    world.wait(Duration::from_secs(1));
    assert_eq!(world.knows(), [11, 12, 13]);
    world
}

fn served(world: &mut World, target: Target) -> u16 {
    world.ask(target);
    world.served.pop().unwrap()
}

#[test]
fn a_request_reaches_the_active_controller_unless_it_names_another_one() {
    let mut world = controllers();
    // A broker, whose configurations the controllers change, is no controller.
    for (target, port) in [
        (Target::Any, 11),
        (Target::Controller, 11),
        (Target::Node(99), 11),
        (Target::Node(12), 12),
        (Target::Node(13), 13),
    ] {
        assert_eq!(served(&mut world, target), port, "{target:?}");
    }
    assert!(world.asked.is_empty(), "controllers serve no Metadata");
}

#[test]
fn requests_follow_the_active_controller_when_it_dies() {
    let mut world = controllers();
    assert_eq!(served(&mut world, Target::Any), 11);
    world.active = Some(13);
    world.kill(11);
    world.wait(Duration::from_secs(1));
    assert_eq!(served(&mut world, Target::Any), 13);
    assert_eq!(served(&mut world, Target::Controller), 13);
    assert_eq!(served(&mut world, Target::Node(99)), 13);
}
