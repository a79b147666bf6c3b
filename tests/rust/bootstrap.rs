//! Tests rebootstrapping. A client rebootstraps if it reaches no broker of the cluster (KIP-899), or if a broker
//! requests it (KIP-1102).

use crate::network::{BOOTSTRAP, MINUTE, World};
use klamm::api::list_groups;
use klamm::engine::{Deadline, ErrorKind, MetadataDemand, Outgoing, Target, Time};
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn a_broker_that_is_named_before_the_metadata_is_there_is_asked_when_it_is() {
    let mut world = World::new();
    world.is_cluster_of(&[7, 8]);
    world.ask(Target::Node(8));
    assert_eq!((world.now, world.knows()), (Time(0), vec![7, 8]));
}

#[test]
fn when_all_brokers_are_gone_the_bootstrap_list_leads_to_those_that_took_their_place() {
    let mut world = World::settled();
    let before = world.now;
    world.is_cluster_of(&[21, 22]);
    world.ask(Target::Any);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.knows(), [21, 22]);
    assert!(world.tried.contains(&BOOTSTRAP), "{:?}", world.tried);
    assert!(world.now.since(before) < Duration::from_secs(3), "{:?}", world.now.since(before));
}

#[test]
fn a_cluster_that_asks_for_it_is_left_for_the_bootstrap_list() {
    let mut world = World::settled();
    // Those known so far can be reached still, and say so of themselves; the list leads elsewhere.
    let elsewhere = vec![21, 22];
    world.says.extend([(BOOTSTRAP, elsewhere.clone()), (21, elsewhere.clone()), (22, elsewhere)]);
    world.sends_away.extend([(11, u32::MAX), (12, u32::MAX)]);
    world.network.demand(world.now, MetadataDemand { refresh: true, ..MetadataDemand::default() });
    world.wait(Duration::from_secs(2));
    assert_eq!(world.knows(), [21, 22]);
    let old: Vec<_> = world.tried.iter().filter(|port| (11..20).contains(*port)).collect();
    assert!(old.is_empty() && world.tried.contains(&BOOTSTRAP), "{:?}", world.tried);
    assert!(world.connections.values().all(|(port, _)| *port == BOOTSTRAP || *port > 20));
}

#[test]
fn who_is_sent_away_again_and_again_waits_longer_each_time() {
    let mut world = World::new();
    world.is_cluster_of(&[11]);
    world.sends_away.insert(BOOTSTRAP, 1_000);
    world.network.demand(world.now, MetadataDemand { refresh: true, ..MetadataDemand::default() });
    world.wait(MINUTE);
    let asked = 1_000 - world.sends_away[&BOOTSTRAP];
    assert!((10..100).contains(&asked), "asked {asked} times in a minute");
    world.sends_away.clear();
    world.wait(Duration::from_secs(3));
    assert_eq!(world.knows(), [11]);
}

#[test]
fn a_request_whose_answer_has_no_whole_header_ends_at_once() {
    let mut world = World::settled();
    world.most = 6;
    let (call, deadline) = (Box::new(list_groups::Request::default()), Deadline::ToAnswer(world.now + MINUTE));
    world
        .network
        .submit(world.now, Outgoing { target: Target::Node(11), call, token: 7, deadline, max_version: i16::MAX });
    while let Some(action) = world.network.poll_action() {
        world.act(action);
    }
    let answer = world.network.poll_response().expect("an end");
    assert_eq!((answer.token, answer.result.err().map(|e| e.kind())), (7, Some(ErrorKind::Network)));
}

#[test]
fn a_request_that_timed_out_does_not_report_the_error_of_another_broker() {
    let mut world = World::new();
    world.is_cluster_of(&[11, 12]);
    world.network.demand(world.now, MetadataDemand { refresh: true, ..MetadataDemand::default() });
    world.wait(Duration::from_secs(1));
    world.says.remove(&11);
    world.silent.insert(12);
    let (now, second) = (world.now, Duration::from_secs(1));
    for (node, deadline) in [(11, now + 60 * second), (12, now + 2 * second)] {
        let (call, target) = (Box::new(list_groups::Request::default()), Target::Node(node));
        let token = node as usize;
        world
            .network
            .submit(now, Outgoing { target, call, token, deadline: Deadline::ToSend(deadline), max_version: i16::MAX });
    }
    let mut errors = BTreeMap::new();
    while errors.len() < 2 && world.now < now + 5 * second {
        world.network.handle_timeout(world.now);
        while let Some(action) = world.network.poll_action() {
            world.act(action);
        }
        let ended = std::iter::from_fn(|| world.network.poll_response());
        errors.extend(ended.filter_map(|a| Some((a.token, a.result.err()?.kind()))));
        world.now = world.network.next_timeout(world.now).unwrap_or(now + MINUTE);
    }
    assert_eq!(errors, BTreeMap::from([(11, ErrorKind::Network), (12, ErrorKind::Timeout)]));
}
