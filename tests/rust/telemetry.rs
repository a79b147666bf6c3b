//! Tests the connection for telemetry, which a client uses for no other request.

use crate::network::World;
use klamm::api::list_groups;
use klamm::engine::{Deadline, Outgoing, Target};
use std::time::Duration;

/// Returns a client with one connection to each of the brokers 11 and 12, and with a connection for telemetry. Also
/// returns the broker to which the telemetry goes.
fn with_telemetry() -> (World, u16) {
    let mut world = World::settled();
    world.ask(Target::Telemetry);
    let [port] = world.tried[..] else { panic!("{:?}", world.tried) };
    (world, port)
}

#[test]
fn telemetry_has_one_connection_that_no_other_request_uses() {
    let (mut world, port) = with_telemetry();
    world.ask(Target::Telemetry);
    assert_eq!(world.tried, [port]);
    // The connection for telemetry is the newest one, and the only one that is left.
    let newest = *world.connections.keys().max().unwrap();
    for id in world.connections.keys().copied().filter(|id| *id != newest).collect::<Vec<_>>() {
        world.connections.remove(&id);
        world.network.handle_closed(world.now, id, None);
    }
    world.wait(Duration::from_secs(5));
    world.ask(Target::Any);
    assert!(world.tried.len() > 1, "the request used the connection for telemetry");
}

#[test]
fn telemetry_moves_to_another_broker_if_its_broker_dies() {
    let (mut world, port) = with_telemetry();
    world.kill(port);
    world.wait(Duration::from_secs(5));
    world.ask(Target::Telemetry);
    assert_eq!(world.served.last(), Some(&(23 - port)));
}

#[test]
fn telemetry_fails_at_once_while_its_connection_waits_for_the_backoff() {
    let (mut world, _) = with_telemetry();
    let id = *world.connections.keys().max().unwrap();
    world.connections.remove(&id);
    world.network.handle_closed(world.now, id, None);
    let deadline = Deadline::ToAnswer(world.now + Duration::from_secs(60));
    let call = Box::new(list_groups::Request::default());
    let outgoing = Outgoing { target: Target::Telemetry, call, token: 7, deadline, max_version: i16::MAX };
    world.network.submit(world.now, outgoing);
    let response = world.network.poll_response().unwrap();
    assert_eq!(response.token, 7);
    assert!(response.result.is_err());
}
