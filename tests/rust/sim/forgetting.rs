//! Simulates clients that stop requesting metadata of topics when they no longer use the topics (KIP-526).

use super::{Client, World, consumer_config, producer_config, record};
use klamm::engine::Time;
use klamm::engine::consumer::Consumer;
use klamm::engine::producer::{Event, Producer, ProducerConfig};
use std::collections::BTreeSet;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const ABSENT: usize = 20;

/// Clients that refresh metadata every five seconds and do not create topics.
fn world() -> World {
    let mut world = World::new(1, 0);
    world.metadata_max_age = 5 * SECOND;
    world.makes_topics = false;
    world
}

/// A producer that forgets topics after twenty seconds, and a consumer.
fn clients(world: &World) -> (Client<Producer<u32>>, Client<Consumer<u32>>) {
    let config = ProducerConfig { metadata_max_idle: 20 * SECOND, ..producer_config(true, 1) };
    (world.client(Producer::new(config)), world.client(Consumer::new(consumer_config(false))))
}

fn send(world: &World, writer: &mut Client<Producer<u32>>, topic: &str, value: u32) {
    let topic = writer.role.topic(topic).unwrap();
    writer.role.append(world.now, topic, &record(Some(0), &value.to_be_bytes()), Some(value)).unwrap();
}

/// Runs until all records have their results.
fn settle(
    world: &mut World,
    writer: &mut Client<Producer<u32>>,
    reader: &mut Client<Consumer<u32>>,
) -> Vec<Event<u32>> {
    let mut events = Vec::new();
    let settled = world.play(writer, reader, 60 * SECOND, |_, writer, _| {
        events.extend(std::iter::from_fn(|| writer.role.poll_event()));
        writer.role.outstanding() == 0
    });
    assert!(settled);
    events
}

fn wait(world: &mut World, writer: &mut Client<Producer<u32>>, reader: &mut Client<Consumer<u32>>, time: Duration) {
    world.play(writer, reader, time, |_, _, _| false);
}

/// Returns the topics that were requested since a time.
fn named(world: &World, from: Time) -> BTreeSet<&str> {
    let since = world.named.iter().filter(|(at, _)| *at >= from);
    since.flat_map(|(_, topics)| topics).map(String::as_str).collect()
}

#[test]
fn topics_that_are_not_there_are_asked_for_while_records_wait_for_them_and_no_longer() {
    let mut world = world();
    let (mut writer, mut reader) = clients(&world);
    for i in 0..ABSENT {
        send(&world, &mut writer, &format!("absent-{i}"), i as u32);
    }
    let events = settle(&mut world, &mut writer, &mut reader);
    assert!(events.iter().all(|e| e.result.is_err()) && events.len() == ABSENT, "{events:?}");
    let from = world.now;
    assert_eq!(named(&world, Time(0)).len(), ABSENT);
    wait(&mut world, &mut writer, &mut reader, 60 * SECOND);
    assert_eq!(named(&world, from), BTreeSet::new());
    assert_eq!(writer.role.metrics().topics.len(), 0);
}

#[test]
fn a_topic_that_was_not_there_is_found_once_it_is() {
    let mut world = world();
    let (mut writer, mut reader) = clients(&world);
    send(&world, &mut writer, "t", 0);
    assert!(settle(&mut world, &mut writer, &mut reader)[0].result.is_err());
    send(&world, &mut writer, "absent", 1);
    assert!(settle(&mut world, &mut writer, &mut reader)[0].result.is_err());
    world.create_topic("max.message.bytes", "1000".to_owned());
    send(&world, &mut writer, "t", 2);
    let from = world.now;
    let events = settle(&mut world, &mut writer, &mut reader);
    assert!(matches!(&events[..], [Event { result: Ok((0, _)), .. }]), "{events:?}");
    assert!(world.now.since(from) < SECOND, "{}", world.now);
}

#[test]
fn an_unused_topic_is_dropped_and_its_sequence_numbers_continue_later() {
    let mut world = world();
    world.create_topic("max.message.bytes", "1000".to_owned());
    let (mut writer, mut reader) = clients(&world);
    for value in 0..6 {
        send(&world, &mut writer, "t", value);
        let events = settle(&mut world, &mut writer, &mut reader);
        assert!(matches!(&events[..], [Event { result: Ok((at, _)), .. }] if *at == i64::from(value)), "{events:?}");
        // Between two of them it is forgotten, and that twice.
        let idle = if value % 3 == 2 { 60 } else { 15 };
        let from = world.now + 26 * SECOND;
        wait(&mut world, &mut writer, &mut reader, idle * SECOND);
        assert_eq!(named(&world, from), BTreeSet::new());
        assert!(named(&world, Time(0)).contains("t"));
    }
}

#[test]
fn a_consumer_asks_for_the_topics_that_it_reads_alone() {
    let mut world = world();
    world.create_topic("max.message.bytes", "1000".to_owned());
    let (mut writer, mut reader) = clients(&world);
    reader.role.subscribe(world.now, vec!["t".to_owned(), "absent".to_owned()]);
    wait(&mut world, &mut writer, &mut reader, 20 * SECOND);
    assert_eq!(named(&world, Time(0)), BTreeSet::from(["t", "absent"]));
    reader.role.subscribe(world.now, vec!["t".to_owned()]);
    let from = world.now;
    wait(&mut world, &mut writer, &mut reader, 20 * SECOND);
    assert_eq!(named(&world, from + SECOND), BTreeSet::from(["t"]));
    reader.role.unsubscribe(world.now);
    let from = world.now;
    wait(&mut world, &mut writer, &mut reader, 20 * SECOND);
    assert_eq!(named(&world, from + SECOND), BTreeSet::new());
}
