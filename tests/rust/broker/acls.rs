//! Tests authorization: the access rules, and the operations that each API checks.

use super::*;
use klamm::broker::{Acls, Sasl};
use std::collections::BTreeMap;

pub(super) const ANY: i8 = 1;
const MATCH: i8 = 2;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;
const TOPIC: i8 = 2;
const GROUP: i8 = 3;
const CLUSTER: i8 = 4;
const TRANSACTIONAL_ID: i8 = 5;
const ALL: i8 = 2;
const READ: i8 = 3;
const WRITE: i8 = 4;
const CREATE: i8 = 5;
const ALTER: i8 = 7;
const DESCRIBE: i8 = 8;
const ALTER_CONFIGS: i8 = 11;
const IDEMPOTENT_WRITE: i8 = 12;
const DENY: i8 = 2;
const ALLOW: i8 = 3;

/// Connections of the super user and of alice.
const ADMIN: u64 = 1;
const ALICE: u64 = 20;

pub(super) fn options(allow_everyone_if_no_acl_found: bool) -> Options {
    let users = ["admin", "alice"].map(|name| (name.to_owned(), "secret".to_owned()));
    let users = BTreeMap::from([("PLAIN".to_owned(), BTreeMap::from(users))]);
    let super_users = ["User:admin".to_owned()].into();
    Options {
        sasl: Some(Sasl { users, max_reauth: None }),
        acls: Some(Acls { super_users, allow_everyone_if_no_acl_found }),
        ..Options::default()
    }
}

pub(super) fn log_in(world: &mut World, client: u64, token: &'static [u8]) {
    world.cluster.connect(1, Connection(client));
    world.call(client, 1, &sasl_handshake::Request { mechanism: "PLAIN".to_owned() });
    let token = sasl_authenticate::Request { auth_bytes: Bytes::from_static(token) };
    assert_eq!(world.call(client, 0, &token).error_code, ErrorCode::NONE);
}

/// Starts a cluster with topic `t`, the super user and alice.
fn world() -> World {
    let mut world = World::new(options(false));
    log_in(&mut world, ADMIN, b"\0admin\0secret");
    log_in(&mut world, ALICE, b"\0alice\0secret");
    world.create("t", 1, &[]);
    world
}

fn rule(resource_type: i8, pattern: i8, name: &str, operation: i8, permission_type: i8) -> create_acls::Acl {
    create_acls::Acl {
        resource_type,
        resource_pattern_type: pattern,
        resource_name: name.to_owned(),
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation,
        permission_type,
    }
}

fn add(world: &mut World, rule: create_acls::Acl) -> ErrorCode {
    let request = create_acls::Request { creations: vec![rule] };
    world.call(ADMIN, 1, &request).results.remove(0).error_code
}

fn allow(world: &mut World, resource_type: i8, name: &str, operation: i8) {
    assert_eq!(add(world, rule(resource_type, LITERAL, name, operation, ALLOW)), ErrorCode::NONE);
}

fn filter() -> describe_acls::Request {
    describe_acls::Request {
        resource_type_filter: ANY,
        resource_name_filter: None,
        pattern_type_filter: ANY,
        principal_filter: None,
        host_filter: None,
        operation: ANY,
        permission_type: ANY,
    }
}

/// Returns the names and pattern types of the rules that match a filter.
fn found(world: &mut World, filter: &describe_acls::Request) -> Vec<(String, i8, usize)> {
    let answer = world.call(ADMIN, 3, filter);
    assert_eq!(answer.error_code, ErrorCode::NONE);
    answer.resources.into_iter().map(|r| (r.resource_name, r.pattern_type, r.acls.len())).collect()
}

/// Deletes every rule.
fn clear(world: &mut World) -> usize {
    let all = delete_acls::Filter {
        resource_type_filter: ANY,
        resource_name_filter: None,
        pattern_type_filter: ANY,
        principal_filter: None,
        host_filter: None,
        operation: ANY,
        permission_type: ANY,
    };
    let request = delete_acls::Request { filters: vec![all] };
    world.call(ADMIN, 3, &request).filter_results.remove(0).matching_acls.len()
}

fn write(world: &mut World) -> ErrorCode {
    let request = produce_request("t", batch(&["v"], Producer::NONE));
    world.call(ALICE, 12, &request).responses.remove(0).partition_responses.remove(0).error_code
}

fn read(world: &mut World) -> ErrorCode {
    let request = fetch::Request { max_wait_ms: 0, ..fetch_request(0) };
    world.call(ALICE, 12, &request).responses.remove(0).partitions.remove(0).error_code
}

fn look(world: &mut World, names: Option<&[&str]>) -> Vec<(String, ErrorCode)> {
    let topic = |name: &&str| metadata::TopicRequest { name: Some((*name).to_owned()), ..Default::default() };
    let topics = names.map(|names| names.iter().map(topic).collect());
    let request = metadata::Request { topics, allow_auto_topic_creation: true, ..Default::default() };
    let topics = world.call(ALICE, 12, &request).topics;
    topics.into_iter().map(|t| (t.name.unwrap_or_default(), t.error_code)).collect()
}

#[test]
fn without_an_authorizer_rules_are_disabled() {
    let mut world = World::new(Options::default());
    assert_eq!(world.call(1, 3, &filter()).error_code, ErrorCode::SECURITY_DISABLED);
    assert_eq!(add(&mut world, rule(TOPIC, LITERAL, "t", READ, ALLOW)), ErrorCode::SECURITY_DISABLED);
    let request = delete_acls::Request { filters: vec![Default::default()] };
    assert_eq!(world.call(1, 3, &request).filter_results[0].error_code, ErrorCode::SECURITY_DISABLED);
}

#[test]
fn operations_need_an_allow_rule_and_a_deny_rule_wins() {
    let mut world = world();
    assert_eq!(write(&mut world), ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    assert_eq!(read(&mut world), ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    allow(&mut world, TOPIC, "t", WRITE);
    assert_eq!([write(&mut world), read(&mut world)], [ErrorCode::NONE, ErrorCode::TOPIC_AUTHORIZATION_FAILED]);
    allow(&mut world, TOPIC, "*", READ);
    assert_eq!(read(&mut world), ErrorCode::NONE);
    assert_eq!(add(&mut world, rule(TOPIC, PREFIXED, "t", READ, DENY)), ErrorCode::NONE);
    assert_eq!([write(&mut world), read(&mut world)], [ErrorCode::NONE, ErrorCode::TOPIC_AUTHORIZATION_FAILED]);
    assert_eq!(clear(&mut world), 3);
    assert_eq!(write(&mut world), ErrorCode::TOPIC_AUTHORIZATION_FAILED);
}

#[test]
fn a_rule_applies_to_its_principal() {
    for (principal, host, allowed) in [
        ("User:alice", "*", true),
        ("User:*", "127.0.0.1", true),
        ("User:alice", "10.0.0.1", false),
        ("User:bob", "*", false),
        ("Group:alice", "*", false),
    ] {
        let mut world = world();
        let to = create_acls::Acl {
            principal: principal.to_owned(),
            host: host.to_owned(),
            ..rule(TOPIC, LITERAL, "t", ALL, ALLOW)
        };
        assert_eq!(add(&mut world, to), ErrorCode::NONE);
        assert_eq!(write(&mut world) == ErrorCode::NONE, allowed, "{principal} {host}");
    }
}

#[test]
fn with_allow_everyone_only_resources_with_rules_are_restricted() {
    let mut world = World::new(options(true));
    log_in(&mut world, ADMIN, b"\0admin\0secret");
    log_in(&mut world, ALICE, b"\0alice\0secret");
    world.create("t", 1, &[]);
    assert_eq!(write(&mut world), ErrorCode::NONE);
    let for_bob = create_acls::Acl { principal: "User:bob".to_owned(), ..rule(TOPIC, LITERAL, "t", WRITE, ALLOW) };
    add(&mut world, for_bob);
    assert_eq!(write(&mut world), ErrorCode::TOPIC_AUTHORIZATION_FAILED);
}

#[test]
fn topics_are_hidden_without_describe_and_created_with_create() {
    let (none, refused) = (ErrorCode::NONE, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    let mut world = world();
    world.create("u", 1, &[]);
    assert_eq!(look(&mut world, None), []);
    // Write includes describe.
    allow(&mut world, TOPIC, "t", WRITE);
    assert_eq!(look(&mut world, None), [("t".to_owned(), none)]);
    assert_eq!(look(&mut world, Some(&["t", "u"])), [("t".to_owned(), none), ("u".to_owned(), refused)]);
    allow(&mut world, TOPIC, "new", DESCRIBE);
    assert_eq!(look(&mut world, Some(&["new"])), [("new".to_owned(), refused)]);
    allow(&mut world, TOPIC, "new", CREATE);
    assert_eq!(look(&mut world, Some(&["new"])), [("new".to_owned(), none)]);
    let by_id = |world: &mut World| {
        let id = metadata::Request { topics: None, ..Default::default() };
        let id =
            world.call(ADMIN, 12, &id).topics.into_iter().find(|t| t.name.as_deref() == Some("u")).unwrap().topic_id;
        let topic = metadata::TopicRequest { topic_id: id, name: None };
        let request = metadata::Request { topics: Some(vec![topic]), ..Default::default() };
        world.call(ALICE, 12, &request).topics.remove(0)
    };
    let hidden = by_id(&mut world);
    assert_eq!((hidden.error_code, hidden.name), (ErrorCode::UNKNOWN_TOPIC_ID, None));
    allow(&mut world, TOPIC, "u", DESCRIBE);
    assert_eq!(by_id(&mut world).name.as_deref(), Some("u"));
}

#[test]
fn authorized_operations_are_those_that_rules_allow() {
    let mut world = world();
    allow(&mut world, TOPIC, "t", READ);
    allow(&mut world, TOPIC, "t", ALTER_CONFIGS);
    let mut ask = || {
        let request = metadata::Request {
            topics: None,
            include_topic_authorized_operations: true,
            include_cluster_authorized_operations: true,
            ..Default::default()
        };
        let alice = world.call(ALICE, 8, &request);
        let admin = world.call(ADMIN, 8, &request);
        [alice, admin].map(|r| (r.topics[0].topic_authorized_operations, r.cluster_authorized_operations))
    };
    let topic = 1 << READ | 1 << DESCRIBE | 1 << 10 | 1 << ALTER_CONFIGS;
    assert_eq!(ask(), [(topic, 0), (0b1101_1111_1000, 0b1_1111_1010_0000)]);
}

/// Every request of alice, and the error codes she gets.
fn refusals(world: &mut World) -> Vec<(&'static str, ErrorCode)> {
    let (group_id, id) = (|| "g".to_owned(), || "x".to_owned());
    let name = || "t".to_owned();
    let mut all = Vec::new();
    macro_rules! ask {
        ($api:ident $version:literal { $($field:ident: $value:expr),* $(,)? }, |$answer:ident| $code:expr) => {{
            #[allow(clippy::needless_update, reason = "some requests have no more fields")]
            let request = $api::Request { $($field: $value,)* ..Default::default() };
            #[allow(unused_mut, reason = "some codes are taken out")]
            let mut $answer = world.call(ALICE, $version, &request);
            all.push((stringify!($api), $code));
        }};
    }
    let places = || vec![list_offsets::Topic { name: name(), partitions: vec![Default::default()] }];
    ask!(list_offsets 7 { topics: places() }, |a| a.topics[0].partitions[0].error_code);
    let asked = offset_for_leader_epoch::Topic { topic: name(), partitions: vec![Default::default()] };
    ask!(offset_for_leader_epoch 3 { topics: vec![asked] }, |a| a.topics[0].partitions[0].error_code);
    let committed = offset_commit::Topic { name: name(), partitions: vec![Default::default()], ..Default::default() };
    ask!(offset_commit 8 { group_id: group_id(), generation_id_or_member_epoch: -1, topics: vec![committed] },
        |a| a.topics[0].partitions[0].error_code);
    ask!(offset_fetch 7 { group_id: group_id(), topics: None }, |a| a.error_code);
    let group = offset_fetch::Group { group_id: group_id(), topics: None, ..Default::default() };
    ask!(offset_fetch 8 { groups: vec![group] }, |a| a.groups[0].error_code);
    ask!(find_coordinator 4 { coordinator_keys: vec![group_id()] }, |a| a.coordinators[0].error_code);
    ask!(find_coordinator 3 { key: id(), key_type: 1 }, |a| a.error_code);
    ask!(join_group 9 { group_id: group_id(), session_timeout_ms: 10_000 }, |a| a.error_code);
    ask!(heartbeat 4 { group_id: group_id() }, |a| a.error_code);
    ask!(leave_group 5 { group_id: group_id() }, |a| a.error_code);
    ask!(sync_group 4 { group_id: group_id() }, |a| a.error_code);
    ask!(describe_groups 5 { groups: vec![group_id()] }, |a| a.groups[0].error_code);
    ask!(delete_groups 2 { groups_names: vec![group_id()] }, |a| a.results[0].error_code);
    ask!(offset_delete 0 { group_id: group_id() }, |a| a.error_code);
    ask!(consumer_group_heartbeat 1 { group_id: group_id() }, |a| a.error_code);
    ask!(consumer_group_describe 1 { group_ids: vec![group_id()] }, |a| a.groups[0].error_code);
    ask!(share_group_heartbeat 1 { group_id: group_id() }, |a| a.error_code);
    ask!(share_group_describe 1 { group_ids: vec![group_id()] }, |a| a.groups[0].error_code);
    ask!(share_fetch 1 { group_id: Some(group_id()), member_id: Some(id()) }, |a| a.error_code);
    ask!(share_acknowledge 1 { group_id: Some(group_id()), member_id: Some(id()) }, |a| a.error_code);
    let topic =
        create_topics::Topic { name: "new".to_owned(), num_partitions: 1, replication_factor: 1, ..Default::default() };
    ask!(create_topics 7 { topics: vec![topic] }, |a| a.topics[0].error_code);
    let topic = create_partitions::Topic { name: name(), count: 2, ..Default::default() };
    ask!(create_partitions 3 { topics: vec![topic] }, |a| a.results[0].error_code);
    let topic = delete_records::Topic { name: name(), partitions: vec![Default::default()] };
    ask!(delete_records 2 { topics: vec![topic] }, |a| a.topics[0].partitions[0].error_code);
    ask!(delete_topics 5 { topic_names: vec![name()] }, |a| a.responses[0].error_code);
    let resource =
        |resource_type| describe_configs::Resource { resource_type, resource_name: name(), ..Default::default() };
    ask!(describe_configs 4 { resources: vec![resource(describe_configs::TOPIC)] }, |a| a.results[0].error_code);
    ask!(describe_configs 4 { resources: vec![resource(describe_configs::BROKER)] }, |a| a.results[0].error_code);
    ask!(describe_configs 4 { resources: vec![resource(describe_configs::GROUP)] }, |a| a.results[0].error_code);
    let resource =
        alter_configs::Resource { resource_type: describe_configs::TOPIC, resource_name: name(), ..Default::default() };
    ask!(alter_configs 2 { resources: vec![resource] }, |a| a.responses[0].error_code);
    let resource = incremental_alter_configs::Resource {
        resource_type: describe_configs::TOPIC,
        resource_name: name(),
        ..Default::default()
    };
    ask!(incremental_alter_configs 1 { resources: vec![resource] }, |a| a.responses[0].error_code);
    ask!(list_config_resources 1 {}, |a| a.error_code);
    ask!(describe_quorum 2 {}, |a| a.error_code);
    let topic = alter_replica_log_dirs::Topic { name: name(), partitions: vec![0] };
    let dir = alter_replica_log_dirs::Dir { path: name(), topics: vec![topic] };
    ask!(alter_replica_log_dirs 2 { dirs: vec![dir] }, |a| a.results[0].partitions[0].error_code);
    ask!(describe_log_dirs 4 { topics: None }, |a| a.error_code);
    ask!(elect_leaders 2 { topic_partitions: None }, |a| a.error_code);
    ask!(alter_partition_reassignments 1 { topics: Vec::new() }, |a| a.error_code);
    ask!(list_partition_reassignments 0 { topics: None }, |a| a.error_code);
    ask!(describe_user_scram_credentials 0 { users: None }, |a| a.error_code);
    let gone = alter_user_scram_credentials::Deletion { name: name(), mechanism: 1 };
    ask!(alter_user_scram_credentials 0 { deletions: vec![gone] }, |a| a.results[0].error_code);
    ask!(init_producer_id 4 { transactional_id: Some(id()), producer_id: -1, producer_epoch: -1 }, |a| a.error_code);
    ask!(init_producer_id 4 { transactional_id: None, producer_id: -1, producer_epoch: -1 }, |a| a.error_code);
    let topic = add_partitions_to_txn::Topic { name: name(), partitions: vec![0] };
    ask!(add_partitions_to_txn 3 { v3_and_below_transactional_id: id(), v3_and_below_topics: vec![topic] },
        |a| a.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code);
    ask!(add_partitions_to_txn 5 { transactions: Vec::new() }, |a| a.error_code);
    ask!(add_offsets_to_txn 3 { transactional_id: id(), group_id: group_id() }, |a| a.error_code);
    ask!(end_txn 3 { transactional_id: id() }, |a| a.error_code);
    let topic = txn_offset_commit::Topic { name: name(), partitions: vec![Default::default()], ..Default::default() };
    ask!(txn_offset_commit 3 { transactional_id: id(), group_id: group_id(), topics: vec![topic] },
        |a| a.topics[0].partitions[0].error_code);
    let topic = describe_producers::Topic { name: name(), partition_indexes: vec![0] };
    ask!(describe_producers 0 { topics: vec![topic] }, |a| a.topics[0].partitions[0].error_code);
    ask!(describe_transactions 0 { transactional_ids: vec![id()] }, |a| a.transaction_states[0].error_code);
    let topic = describe_topic_partitions::Topic { name: name() };
    ask!(describe_topic_partitions 0 { topics: vec![topic], response_partition_limit: 9 }, |a| a.topics[0].error_code);
    let group = describe_share_group_offsets::Group { group_id: group_id(), topics: None };
    ask!(describe_share_group_offsets 1 { groups: vec![group] }, |a| a.groups[0].error_code);
    ask!(alter_share_group_offsets 0 { group_id: group_id() }, |a| a.error_code);
    ask!(delete_share_group_offsets 0 { group_id: group_id() }, |a| a.error_code);
    ask!(describe_client_quotas 1 { components: Vec::new() }, |a| a.error_code);
    ask!(alter_client_quotas 1 { entries: vec![Default::default()] }, |a| a.entries[0].error_code);
    ask!(describe_acls 3 { resource_type_filter: ANY }, |a| a.error_code);
    ask!(create_acls 3 { creations: vec![rule(TOPIC, LITERAL, "t", READ, ALLOW)] }, |a| a.results[0].error_code);
    ask!(delete_acls 3 { filters: vec![Default::default()] }, |a| a.filter_results[0].error_code);
    all
}

#[test]
fn every_api_checks_authorization_first() {
    let refused = |code: &ErrorCode| {
        [
            ErrorCode::TOPIC_AUTHORIZATION_FAILED,
            ErrorCode::GROUP_AUTHORIZATION_FAILED,
            ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ]
        .contains(code)
    };
    let mut world = world();
    for (api, code) in refusals(&mut world) {
        assert!(refused(&code), "{api}: {code:?}");
    }
    for (kind, name) in [(TOPIC, "*"), (GROUP, "g"), (GROUP, "t"), (CLUSTER, "kafka-cluster"), (TRANSACTIONAL_ID, "x")]
    {
        allow(&mut world, kind, name, ALL);
    }
    for (api, code) in refusals(&mut world) {
        assert!(!refused(&code), "{api}: {code:?}");
    }
}

#[test]
fn groups_and_transactions_also_need_access_to_their_topics() {
    let mut world = world();
    allow(&mut world, GROUP, "g", ALL);
    allow(&mut world, TRANSACTIONAL_ID, "x", ALL);
    let of_topics = [
        "offset_commit",
        "txn_offset_commit",
        "add_partitions_to_txn",
        "delete_records",
        "describe_producers",
        "list_offsets",
    ];
    let refused = refusals(&mut world);
    let of = |api: &str| refused.iter().find(|(name, _)| *name == api).unwrap().1;
    assert_eq!(of_topics.map(of), [ErrorCode::TOPIC_AUTHORIZATION_FAILED; 6]);
    let named = || vec!["t".to_owned()];
    let member_id = || "m".to_owned();
    let consumer = consumer_group_heartbeat::Request {
        group_id: "h".to_owned(),
        member_id: member_id(),
        rebalance_timeout_ms: 1000,
        subscribed_topic_names: Some(named()),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    allow(&mut world, GROUP, "h", ALL);
    assert_eq!(world.call(ALICE, 1, &consumer).error_code, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    let share = share_group_heartbeat::Request {
        group_id: "s".to_owned(),
        member_id: member_id(),
        subscribed_topic_names: Some(named()),
        ..Default::default()
    };
    allow(&mut world, GROUP, "s", ALL);
    assert_eq!(world.call(ALICE, 1, &share).error_code, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    let partition = alter_share_group_offsets::Partition { partition_index: 0, start_offset: 0 };
    let topic = alter_share_group_offsets::Topic { topic_name: "t".to_owned(), partitions: vec![partition] };
    let alter = alter_share_group_offsets::Request { group_id: "s".to_owned(), topics: vec![topic] };
    let answer = world.call(ALICE, 0, &alter).responses.remove(0);
    assert_eq!(answer.partitions[0].error_code, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    // A member must be allowed to describe the topic. Other clients see neither the topic nor its readers.
    allow(&mut world, TOPIC, "t", DESCRIBE);
    assert_eq!(world.call(ALICE, 1, &share).error_code, ErrorCode::NONE);
    add(&mut world, rule(TOPIC, LITERAL, "t", DESCRIBE, DENY));
    let described =
        world.call(ALICE, 1, &share_group_describe::Request { group_ids: vec!["s".to_owned()], ..Default::default() });
    assert_eq!(described.groups[0].error_code, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
}

#[test]
fn an_idempotent_producer_needs_write_on_a_topic_or_idempotent_write() {
    let mut world = world();
    let ask = |world: &mut World| {
        let fresh = init_producer_id::Request {
            transactional_id: None,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        world.call(ALICE, 4, &fresh).error_code
    };
    assert_eq!(ask(&mut world), ErrorCode::CLUSTER_AUTHORIZATION_FAILED);
    add(&mut world, rule(TOPIC, PREFIXED, "logs-", WRITE, ALLOW));
    assert_eq!(ask(&mut world), ErrorCode::NONE);
    add(&mut world, rule(TOPIC, PREFIXED, "lo", WRITE, DENY));
    assert_eq!(ask(&mut world), ErrorCode::CLUSTER_AUTHORIZATION_FAILED);
    allow(&mut world, CLUSTER, "kafka-cluster", IDEMPOTENT_WRITE);
    assert_eq!(ask(&mut world), ErrorCode::NONE);
}

#[test]
fn before_2_8_an_idempotent_producer_needs_idempotent_write() {
    for (release, needs) in [("2.4", true), ("2.7", true), ("2.8", false), ("3.9", false)] {
        let as_version = klamm::broker::Version::parse(release).unwrap();
        let mut world = World::new(Options { as_version, ..options(false) });
        log_in(&mut world, ADMIN, b"\0admin\0secret");
        log_in(&mut world, ALICE, b"\0alice\0secret");
        let topic = metadata::TopicRequest { name: Some("t".to_owned()), ..Default::default() };
        world.call(ADMIN, 8, &metadata::Request { topics: Some(vec![topic]), ..Default::default() });
        allow(&mut world, TOPIC, "t", WRITE);
        let ask = init_producer_id::Request { transactional_id: None, ..Default::default() };
        let write = |producer| produce_request("t", batch(&["v"], producer));
        let refused = |world: &mut World, producer| {
            let response = world.call(ALICE, 8, &write(producer)).responses.remove(0);
            let id = world.call(ALICE, 1, &ask).error_code;
            [id, response.partition_responses[0].error_code].map(|code| code == ErrorCode::CLUSTER_AUTHORIZATION_FAILED)
        };
        let producer = Producer { id: 1000, epoch: 0, base_sequence: 0, transactional: false };
        assert_eq!(refused(&mut world, Producer::NONE), [needs, false], "{release}");
        assert_eq!(refused(&mut world, producer), [needs, needs], "{release}");
        allow(&mut world, CLUSTER, "kafka-cluster", IDEMPOTENT_WRITE);
        assert_eq!(refused(&mut world, producer), [false, false], "{release}");
    }
}

#[test]
fn filters_find_rules_by_their_fields_and_by_matching_resources() {
    let mut world = world();
    for (pattern, name) in [(LITERAL, "tea"), (LITERAL, "*"), (PREFIXED, "te"), (PREFIXED, "tea-")] {
        add(&mut world, rule(TOPIC, pattern, name, READ, ALLOW));
    }
    add(&mut world, rule(TOPIC, LITERAL, "tea", WRITE, DENY));
    add(&mut world, rule(TOPIC, LITERAL, "tea", WRITE, DENY));
    let names = |pattern, name: &str| describe_acls::Request {
        pattern_type_filter: pattern,
        resource_name_filter: Some(name.to_owned()),
        ..filter()
    };
    let tea = || ("tea".to_owned(), LITERAL, 2);
    assert_eq!(found(&mut world, &filter()).len(), 4);
    assert_eq!(found(&mut world, &names(ANY, "tea")), [tea()]);
    assert_eq!(found(&mut world, &names(LITERAL, "tea")), [tea()]);
    assert_eq!(found(&mut world, &names(PREFIXED, "tea")), []);
    let all = [("*".to_owned(), LITERAL, 1), tea(), ("te".to_owned(), PREFIXED, 1)];
    assert_eq!(found(&mut world, &names(MATCH, "tea")), all);
    let denied = describe_acls::Request { permission_type: DENY, ..filter() };
    assert_eq!(found(&mut world, &denied), [("tea".to_owned(), LITERAL, 1)]);
    let nobody = describe_acls::Request { principal_filter: Some("User:bob".to_owned()), ..filter() };
    assert_eq!(found(&mut world, &nobody), []);
    let strange = describe_acls::Request { operation: 99, ..filter() };
    assert_eq!(world.call(ADMIN, 3, &strange).error_code, ErrorCode::INVALID_REQUEST);
    let gone = delete_acls::Filter {
        resource_type_filter: TOPIC,
        resource_name_filter: Some("tea".to_owned()),
        pattern_type_filter: MATCH,
        principal_filter: None,
        host_filter: None,
        operation: READ,
        permission_type: ANY,
    };
    let request = delete_acls::Request { filters: vec![gone] };
    assert_eq!(world.call(ADMIN, 3, &request).filter_results[0].matching_acls.len(), 3);
    assert_eq!(found(&mut world, &filter()), [("tea".to_owned(), LITERAL, 1), ("tea-".to_owned(), PREFIXED, 1)]);
}

#[test]
fn an_invalid_rule_is_rejected() {
    let mut world = world();
    let no_colon = create_acls::Acl { principal: "alice".to_owned(), ..rule(TOPIC, LITERAL, "t", READ, ALLOW) };
    for bad in [
        rule(ANY, LITERAL, "t", READ, ALLOW),
        rule(TOPIC, MATCH, "t", READ, ALLOW),
        rule(TOPIC, LITERAL, "t", ANY, ALLOW),
        rule(TOPIC, LITERAL, "t", READ, 99),
        rule(TOPIC, LITERAL, "", READ, ALLOW),
        rule(CLUSTER, LITERAL, "other", ALTER, ALLOW),
        no_colon,
    ] {
        assert_eq!(add(&mut world, bad.clone()), ErrorCode::INVALID_REQUEST, "{bad:?}");
    }
    assert_eq!(clear(&mut world), 0);
}

#[test]
fn rules_take_memory() {
    let mut world = World::new(Options { max_bytes: 1000, ..options(false) });
    log_in(&mut world, ADMIN, b"\0admin\0secret");
    let mut add = |n: usize| add(&mut world, rule(TOPIC, LITERAL, &n.to_string(), READ, ALLOW));
    let kept = (0..100).take_while(|n| add(*n) == ErrorCode::NONE).count();
    assert!((2..10).contains(&kept));
    assert_eq!(add(100), ErrorCode::KAFKA_STORAGE_ERROR);
    clear(&mut world);
}

#[test]
fn rules_survive_a_restart() {
    let super_users = ["User:ANONYMOUS".to_owned()].into();
    let acls = Some(Acls { super_users, allow_everyone_if_no_acl_found: false });
    let options = Options { acls, ..Options::default() };
    let mut world = World::new(options.clone());
    world.cluster.restore(Duration::ZERO, Bytes::new()).unwrap();
    allow(&mut world, GROUP, "gone", READ);
    assert_eq!(clear(&mut world), 1);
    add(&mut world, rule(TOPIC, PREFIXED, "t", READ, DENY));
    let journal = world.cluster.take_journal().unwrap();
    let mut again = World::new(options);
    again.cluster.restore(Duration::ZERO, journal.into()).unwrap();
    assert_eq!(found(&mut again, &filter()), [("t".to_owned(), PREFIXED, 1)]);
}
