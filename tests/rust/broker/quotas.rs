//! Tests client quotas for producing and fetching.

use super::acls::{log_in, options};
use super::*;
use klamm::api::describe_client_quotas::{ANY, DEFAULT, EXACT};

const SECOND: Duration = Duration::from_secs(1);
const PRODUCER: &str = "producer_byte_rate";
const CONSUMER: &str = "consumer_byte_rate";

type Entity<'a> = &'a [(&'a str, Option<&'a str>)];

fn set(world: &mut World, entity: Entity<'_>, key: &str, value: Option<f64>) -> (ErrorCode, Option<String>) {
    let part = |(kind, name): &(&str, Option<&str>)| alter_client_quotas::Entity {
        entity_type: (*kind).to_owned(),
        entity_name: name.map(str::to_owned),
    };
    let op = alter_client_quotas::Op { key: key.to_owned(), value: value.unwrap_or(0.0), remove: value.is_none() };
    let entry = alter_client_quotas::Entry { entity: entity.iter().map(part).collect(), ops: vec![op] };
    let request = alter_client_quotas::Request { entries: vec![entry], validate_only: false };
    let answer = world.call(1, 1, &request).entries.remove(0);
    (answer.error_code, answer.error_message)
}

fn limit(world: &mut World, entity: Entity<'_>, key: &str, value: f64) {
    assert_eq!(set(world, entity, key, Some(value)).0, ErrorCode::NONE);
}

fn describe(
    world: &mut World,
    components: &[(&str, i8, Option<&str>)],
    strict: bool,
) -> describe_client_quotas::Response {
    let component = |(kind, match_type, name): &(&str, i8, Option<&str>)| describe_client_quotas::Component {
        entity_type: (*kind).to_owned(),
        match_type: *match_type,
        r#match: name.map(str::to_owned),
    };
    let components = components.iter().map(component).collect();
    world.call(1, 1, &describe_client_quotas::Request { components, strict })
}

/// Returns the values of the quotas that match a filter.
fn values_of(world: &mut World, components: &[(&str, i8, Option<&str>)], strict: bool) -> Vec<f64> {
    let entries = describe(world, components, strict).entries.unwrap();
    let mut values: Vec<_> = entries.into_iter().flat_map(|entry| entry.values).map(|quota| quota.value).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn produce_bytes(world: &mut World, client: u64, size: usize) -> i32 {
    let request = produce_request("t", batch(&[&"x".repeat(size)], Producer::NONE));
    let answer = world.call(client, 12, &request);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, ErrorCode::NONE);
    answer.throttle_time_ms
}

#[test]
fn quotas_are_set_described_and_removed() {
    let mut world = World::new(Options::default());
    limit(&mut world, &[("user", Some("a")), ("client-id", Some("c"))], PRODUCER, 1.0);
    limit(&mut world, &[("user", None)], PRODUCER, 2.0);
    limit(&mut world, &[("user", Some("a"))], "request_percentage", 2.5);
    limit(&mut world, &[("client-id", Some("c"))], "controller_mutation_rate", 4.0);
    limit(&mut world, &[("ip", Some("127.0.0.1"))], "connection_creation_rate", 5.0);
    let user = |match_type, name| ("user", match_type, name);
    assert_eq!(values_of(&mut world, &[], false), [1.0, 2.0, 2.5, 4.0, 5.0]);
    assert_eq!(values_of(&mut world, &[], true), [0.0; 0]);
    assert_eq!(values_of(&mut world, &[user(ANY, None)], false), [1.0, 2.0, 2.5]);
    assert_eq!(values_of(&mut world, &[user(ANY, None)], true), [2.0, 2.5]);
    assert_eq!(values_of(&mut world, &[user(EXACT, Some("a"))], true), [2.5]);
    assert_eq!(values_of(&mut world, &[user(DEFAULT, None)], false), [2.0]);
    assert_eq!(values_of(&mut world, &[user(ANY, None), ("client-id", ANY, None)], true), [1.0]);
    assert_eq!(set(&mut world, &[("user", None)], PRODUCER, None).0, ErrorCode::NONE);
    assert_eq!(set(&mut world, &[("user", Some("nobody"))], PRODUCER, None).0, ErrorCode::NONE);
    assert_eq!(values_of(&mut world, &[user(DEFAULT, None)], false), [0.0; 0]);
}

/// Codes and messages are those of Kafka 4.4, except for a misprint in one message.
#[test]
fn invalid_quotas_are_rejected_with_kafkas_messages() {
    let mut world = World::new(Options::default());
    let c: Entity<'_> = &[("client-id", Some("c"))];
    for (entity, key, value, why) in [
        (c, PRODUCER, 0.5, "producer_byte_rate cannot be a fractional value."),
        (c, PRODUCER, 0.0, "Quota producer_byte_rate must be greater than 0"),
        (c, PRODUCER, f64::NAN, "Quota producer_byte_rate must be greater than 0"),
        (c, "bad_rate", 1.0, "Invalid configuration key bad_rate"),
        (&[("ip", Some("::1"))], PRODUCER, 1.0, "Invalid configuration key producer_byte_rate"),
        (&[("thing", Some("c"))], PRODUCER, 1.0, "Unhandled client quota entity type: thing"),
        (&[("user", Some(""))], PRODUCER, 1.0, "Empty user not supported"),
        (&[], PRODUCER, 1.0, "Invalid empty client quota entity"),
        (&[("ip", Some("no host"))], "connection_creation_rate", 1.0, "no host is not a valid IP or resolvable host."),
    ] {
        assert_eq!(set(&mut world, entity, key, Some(value)), (ErrorCode::INVALID_REQUEST, Some(why.to_owned())));
    }
    let mut ask = |components: &[(&str, i8, Option<&str>)]| describe(&mut world, components, false).error_code;
    assert_eq!(ask(&[("thing", ANY, None)]), ErrorCode::UNSUPPORTED_VERSION);
    for bad in [
        &[("user", ANY, None), ("user", DEFAULT, None)][..],
        &[("user", EXACT, None)],
        &[("user", ANY, Some("a"))],
        &[("user", 7, None)],
        &[("ip", ANY, None), ("user", ANY, None)],
        &[("", ANY, None)],
    ] {
        assert_eq!(ask(bad), ErrorCode::INVALID_REQUEST, "{bad:?}");
    }
}

#[test]
fn a_producer_over_its_quota_is_answered_and_then_paused() {
    let mut world = World::with_topic();
    assert_eq!(produce_bytes(&mut world, 1, 20_000), 0);
    limit(&mut world, &[("client-id", Some("test"))], PRODUCER, 1000.0);
    assert_eq!(produce_bytes(&mut world, 1, 5_000), 0);
    let throttled = produce_bytes(&mut world, 1, 8_000);
    assert!((3_000..4_000).contains(&throttled), "{throttled}");
    assert!(world.cluster.is_blocked(Connection(1)));
    world.send(1, 12, 8, &metadata::Request::default());
    world.advance(Duration::from_millis(throttled as u64 - 1));
    assert_eq!(world.next(1), Got::Nothing);
    world.advance(Duration::from_millis(1));
    assert_eq!(world.next(1), Got::Frame(Bytes::new()));
    assert!(world.receive::<metadata::Request>(1, 12).is_some());
    // Bytes from ten seconds ago do not count.
    world.advance(12 * SECOND);
    assert_eq!(produce_bytes(&mut world, 1, 5_000), 0);
    // With acks=0 there is no reply, and the connection is still paused.
    world.send(
        1,
        12,
        9,
        &produce::Request { acks: 0, ..produce_request("t", batch(&[&"x".repeat(9_000)], Producer::NONE)) },
    );
    assert_eq!(world.next(1), Got::Nothing);
    assert!(world.cluster.is_blocked(Connection(1)));
    world.cluster.disconnect(world.now, Connection(1));
    assert_eq!(world.cluster.next_timeout(), None);
}

#[test]
fn a_consumer_over_its_quota_gets_empty_responses_for_a_while() {
    let mut world = World::with_topic();
    for _ in 0..3 {
        produce_bytes(&mut world, 1, 6_000);
    }
    limit(&mut world, &[("user", None)], CONSUMER, 1000.0);
    // At most what the quota allows in its window, here one batch.
    let fetch = |world: &mut World, offset| {
        let mut request = fetch::Request { max_wait_ms: 0, ..fetch_request(offset) };
        request.max_bytes = 1 << 20;
        let mut answer = world.call(1, 12, &request);
        let records = answer.responses.pop().map_or(0, |mut t| values(&t.partitions.remove(0).records).len());
        (answer.throttle_time_ms, records)
    };
    assert_eq!(fetch(&mut world, 0), (0, 1));
    let (throttled, records) = fetch(&mut world, 1);
    assert!((2_000..3_000).contains(&throttled) && records == 0, "{throttled} {records}");
    world.advance(12 * SECOND);
    assert_eq!(world.next(1), Got::Frame(Bytes::new()));
    assert_eq!(fetch(&mut world, 1), (0, 1));
    // A batch that is larger than the window's quota is delivered, since it could never be otherwise.
    limit(&mut world, &[("user", None)], CONSUMER, 100.0);
    world.advance(12 * SECOND);
    let (throttled, records) = fetch(&mut world, 2);
    assert!((50_000..55_000).contains(&throttled) && records == 1, "{throttled} {records}");
}

#[test]
fn the_most_specific_quota_applies() {
    let mut world = World::new(options(true));
    log_in(&mut world, 1, b"\0admin\0secret");
    log_in(&mut world, 20, b"\0alice\0secret");
    world.create("t", 1, &[]);
    let is_slow = |world: &mut World, client| {
        world.advance(100 * SECOND);
        while world.cluster.poll_send().is_some() {}
        let slow = produce_bytes(world, client, 20_000) > 0;
        world.advance(1000 * SECOND);
        while world.cluster.poll_send().is_some() {}
        slow
    };
    limit(&mut world, &[("client-id", None)], PRODUCER, 1e3);
    assert_eq!([is_slow(&mut world, 1), is_slow(&mut world, 20)], [true, true]);
    limit(&mut world, &[("client-id", Some("test"))], PRODUCER, 1e9);
    assert_eq!([is_slow(&mut world, 1), is_slow(&mut world, 20)], [false, false]);
    limit(&mut world, &[("user", Some("alice"))], PRODUCER, 1e3);
    assert_eq!([is_slow(&mut world, 1), is_slow(&mut world, 20)], [false, true]);
    limit(&mut world, &[("user", Some("alice")), ("client-id", None)], PRODUCER, 1e9);
    assert_eq!([is_slow(&mut world, 1), is_slow(&mut world, 20)], [false, false]);
}

#[test]
fn quotas_survive_a_restart() {
    let mut world = World::new(Options::default());
    world.cluster.restore(Duration::ZERO, Bytes::new()).unwrap();
    limit(&mut world, &[("user", None)], PRODUCER, 7.0);
    limit(&mut world, &[("user", Some("gone"))], PRODUCER, 8.0);
    assert_eq!(set(&mut world, &[("user", Some("gone"))], PRODUCER, None).0, ErrorCode::NONE);
    let journal = world.cluster.take_journal().unwrap();
    let mut again = World::new(Options::default());
    again.cluster.restore(Duration::ZERO, journal.into()).unwrap();
    assert_eq!(values_of(&mut again, &[], false), [7.0]);
}
