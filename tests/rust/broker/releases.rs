//! Tests clusters that imitate older releases: the API versions, and requests that the release does not know.

use super::{Got, World, frame, response};
use klamm::api::*;
use klamm::broker::{Options, Version};
use klamm::compress::Compression;
use klamm::record::Producer;

fn as_release(name: &str) -> World {
    let as_version = Version::parse(name).unwrap();
    let mut world = World::new(Options { as_version, ..Options::default() });
    world.send(1, 0, 1, &metadata::Request { topics: Some(vec![topic("t")]), ..Default::default() });
    assert!(world.receive::<metadata::Request>(1, 0).is_some());
    world
}

fn topic(name: &str) -> metadata::TopicRequest {
    metadata::TopicRequest { name: Some(name.to_owned()), ..Default::default() }
}

#[test]
fn a_release_serves_its_versions_and_closes_on_any_other() {
    for release in Release::ALL {
        for info in [&produce::API, &fetch::API, &metadata::API, &join_group::API, &end_txn::API] {
            for version in info.min..=info.max_stable {
                let mut world = as_release(release.name());
                let acks = (info.key == produce::API.key).then(|| ("acks".into(), klamm::wire::Value::Int(1)));
                let fields = klamm::wire::Value::Struct(acks.into_iter().collect());
                let body = by_key(info.key).unwrap().request.encode(version, fields).unwrap();
                world.cluster.handle(world.now, klamm::broker::Connection(1), frame(info, version, 3, &body));
                let known = release.versions(info).is_some_and(|(min, max)| (min..=max).contains(&version));
                let expected = |got: &Got| match (known, *release) {
                    (true, _) => matches!(got, Got::Frame(_)),
                    (false, Release::V0_9_0) => *got == Got::Nothing,
                    (false, _) => *got == Got::Closed,
                };
                let got = world.next(1);
                assert!(expected(&got), "{} v{version} of {}: {got:?}", info.name, release.name());
            }
        }
    }
}

#[test]
fn a_release_with_api_versions_lists_its_versions() {
    for release in Release::ALL {
        let mut world = as_release(release.name());
        world.send(1, 0, 1, &api_versions::Request::default());
        let got = world.next(1);
        let Got::Frame(answer) = got else {
            let silent = *release == Release::V0_9_0;
            assert_eq!(got, if silent { Got::Nothing } else { Got::Closed });
            assert!(*release < Release::V0_10_0);
            continue;
        };
        let answer = response::<api_versions::Request>(0, answer).1;
        assert!(*release >= Release::V0_10_0);
        for said in answer.api_keys {
            let known = release.versions(by_key(said.api_key).unwrap().info);
            assert_eq!(known, Some((said.min_version, said.max_version)));
        }
    }
}

#[test]
fn a_release_before_kip_511_says_only_that_it_does_not_know() {
    for (name, keys) in [("2.3", 0), ("2.4", 1)] {
        let mut world = as_release(name);
        world.cluster.handle(world.now, klamm::broker::Connection(1), frame(&api_versions::API, 99, 8, b""));
        let Got::Frame(answer) = world.next(1) else { panic!("no answer") };
        let answer = response::<api_versions::Request>(0, answer).1;
        assert_eq!((answer.error_code, answer.api_keys.len()), (ErrorCode::UNSUPPORTED_VERSION, keys));
    }
}

#[test]
fn features_came_with_4_0() {
    for (name, features) in [("3.9", 0), ("4.0", 1)] {
        let request = api_versions::Request {
            client_software_name: "klamm".to_owned(),
            client_software_version: "0.1".to_owned(),
            ..Default::default()
        };
        assert_eq!(as_release(name).call(1, 3, &request).finalized_features.len(), features, "{name}");
    }
}

#[test]
fn list_offsets_v0_returns_segments_before_a_time() {
    let mut world = as_release("0.8.2");
    let mut ask = |timestamp| {
        let partition = list_offsets::Partition { timestamp, max_num_offsets: 9, ..Default::default() };
        let topic = list_offsets::Topic { name: "t".to_owned(), partitions: vec![partition] };
        let request = list_offsets::Request { replica_id: -1, topics: vec![topic], ..Default::default() };
        world.call(1, 0, &request).topics.remove(0).partitions.remove(0).old_style_offsets
    };
    assert_eq!(ask(list_offsets::LATEST), [0]);
    let mut set = klamm::record::MessageSetBuilder::magic_0();
    set.append(0, -1, None, Some(b"a"));
    let records = set.seal(klamm::compress::Compression::None).unwrap().into();
    let acks = produce::Request { acks: 2, ..super::produce_request("t", records) };
    assert_eq!(world.call(1, 0, &acks).responses[0].partition_responses[0].error_code, ErrorCode::NONE);
    let mut ask = |timestamp| {
        let partition = list_offsets::Partition { timestamp, max_num_offsets: 9, ..Default::default() };
        let topic = list_offsets::Topic { name: "t".to_owned(), partitions: vec![partition] };
        let request = list_offsets::Request { replica_id: -1, topics: vec![topic], ..Default::default() };
        world.call(1, 0, &request).topics.remove(0).partitions.remove(0).old_style_offsets
    };
    assert_eq!(ask(list_offsets::LATEST), [1, 0]);
    assert_eq!(ask(list_offsets::EARLIEST), [0]);
    assert_eq!(ask(super::START_MS - 1), [0; 0]);
    assert_eq!(ask(super::START_MS), [1, 0]);
}

#[test]
fn limits_of_timestamps_came_with_4_0() {
    for (name, version, expected) in
        [("3.4", 9, ErrorCode::NONE), ("3.9", 9, ErrorCode::NONE), ("4.0", 9, ErrorCode::INVALID_TIMESTAMP)]
    {
        let records = super::batch_at(super::START_MS + 7_200_000, &["v"], Compression::None, Producer::NONE);
        let answer = as_release(name).call(1, version, &super::produce_request("t", records));
        assert_eq!(answer.responses[0].partition_responses[0].error_code, expected, "{name}");
    }
}

#[test]
fn the_largest_message_grew_with_2_5() {
    for (name, expected) in [("2.4", "1000012"), ("2.5", "1048588")] {
        let resource = describe_configs::Resource {
            resource_type: describe_configs::TOPIC,
            resource_name: "t".to_owned(),
            configuration_keys: Some(vec!["max.message.bytes".to_owned()]),
        };
        let request = describe_configs::Request { resources: vec![resource], ..Default::default() };
        let described = as_release(name).call(1, 2, &request).results.remove(0).configs.remove(0);
        assert_eq!(described.value.as_deref(), Some(expected), "{name}");
    }
}
