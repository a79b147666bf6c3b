"""The calls of Java's Admin, on the dev broker and on Apache Kafka."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

import klamm
from klamm.admin import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    FeatureUpdate,
    NewPartitions,
    OffsetSpec,
    QuotaEntity,
    QuotaName,
    RaftEndpoint,
    RemovedMember,
    Replica,
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from klamm.errors import (
    ArgumentError,
    BrokerIdNotRegisteredError,
    BrokerNotAvailableError,
    CombinedError,
    GroupIdNotFoundError,
    InvalidPartitionsError,
    InvalidTopicExceptionError,
    InvalidUpdateVersionError,
    KafkaTimeoutError,
    LogDirNotFoundError,
    NetworkError,
    NoReassignmentInProgressError,
    ResourceNotFoundError,
    TransactionalIdNotFoundError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from klamm.testing import DevBroker
from settled import until


@pytest.fixture
def admin(broker):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def filled(broker, admin, topic):
    """A topic with two partitions, and ten records in the first."""
    admin.create_topics({topic: klamm.NewTopic(2)}, wait=True)
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"v", partition=0, timestamp_ms=1000 + number)
    return topic


def only_kafka(broker):
    if not broker.name.startswith("real"):
        pytest.skip("the dev broker does not have this API")


def test_one_topic_that_fails_does_not_hide_the_others(admin, topic):
    with pytest.raises(InvalidTopicExceptionError) as caught:
        admin.create_topics({topic: klamm.NewTopic(2), "bad!": klamm.NewTopic()}, wait=True)
    created = caught.value.results[topic]
    assert created.partitions == 2
    described = admin.describe_topics(ids=[created.topic_id], authorized_operations=True)[topic]
    assert described.topic_id == created.topic_id
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 1})
    with pytest.raises(CombinedError) as combined:
        admin.describe_topics([topic, f"{topic}-x", f"{topic}-y"])
    assert list(combined.value.results) == [topic]
    assert {type(error) for error in combined.value.exceptions} == {UnknownTopicOrPartitionError}
    with pytest.raises(UnknownTopicOrPartitionError) as caught:
        admin.delete_topics([f"{topic}-x", topic], wait=True)
    assert topic in caught.value.results
    assert topic not in admin.list_topics()


def test_a_topic_that_is_created_again_meanwhile_is_deleted():
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers) as admin, ThreadPoolExecutor(2) as pool:
        admin.create_topics({"t": klamm.NewTopic()}, wait=True)
        with klamm.Admin(broker.bootstrap_servers) as other:
            first = other.describe_topics(["t"])["t"]
            broker.fault("Metadata", "drop", times=None)
            deleted = pool.submit(admin.delete_topics, ["t"], 60)
            until(lambda: broker.requests("DeleteTopics"))
            created = pool.submit(other.create_topics, {"t": klamm.NewTopic()}, 60)
            until(lambda: len(broker.requests("CreateTopics")) == 2)
            broker.clear_faults()
            assert deleted.result() is None
            assert created.result()["t"].topic_id != first.topic_id


def test_replicas_can_be_assigned(admin, topic):
    node = admin.describe_cluster().brokers[0].id
    admin.create_topics({topic: klamm.NewTopic(assignments=[[node], [node]])})
    admin.create_partitions({topic: NewPartitions(3, [[node]])}, wait=True)
    found = admin.describe_topics([topic])[topic].partitions
    assert [part.replicas for part in found] == [[node]] * 3
    assert [part.offline for part in found] == [[]] * 3


def test_offsets_by_position_and_time(admin, filled):
    first, second = klamm.TopicPartition(filled, 0), klamm.TopicPartition(filled, 1)
    found = admin.list_offsets({first: OffsetSpec.LATEST, second: OffsetSpec.LATEST})
    assert [each.offset for each in found.values()] == [10, 0]
    for spec, expected in ((OffsetSpec.MAX_TIMESTAMP, (9, 1009)), (1005, (5, 1005)), (5000, (None, None))):
        found = admin.list_offsets({first: spec}, isolation_level="read_committed")
        assert (found[first].offset, found[first].timestamp_ms) == expected
    assert admin.delete_records({first: 4}) == {first: 4}
    for spec in (OffsetSpec.EARLIEST, OffsetSpec.EARLIEST_LOCAL):
        assert admin.list_offsets({first: spec})[first].offset == 4
    assert admin.list_offsets({first: OffsetSpec.LATEST_TIERED})[first].offset is None
    assert admin.offsets_for_leader_epochs({first: 0})[first].end_offset == 10


def test_settings_of_two_resources_change_at_once(admin, filled):
    here, nowhere = ConfigResource("topic", filled), ConfigResource("topic", f"{filled}-x")
    admin.alter_configs("topic", filled, {"cleanup.policy": "delete"})
    append = ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND)
    with pytest.raises(UnknownTopicOrPartitionError) as caught:
        admin.incremental_alter_configs({here: [append], nowhere: [append]})
    assert list(caught.value.results) == [here]

    def policy():
        asked = admin.describe_resources([here], names=["cleanup.policy"], synonyms=True, documentation=True)
        return asked[here]["cleanup.policy"].value

    # The brokers learn of a change a moment after the controller.
    until(lambda: policy() == "delete,compact")
    subtract = ConfigChange("cleanup.policy", "delete", ConfigOperation.SUBTRACT)
    admin.incremental_alter_configs({here: [subtract]})
    until(lambda: admin.describe_configs("topic", filled)["cleanup.policy"].value == "compact")


def test_config_resources_are_listed(broker, admin, filled):
    only_kafka(broker)
    assert ConfigResource("topic", filled) in admin.list_config_resources(["topic"])
    assert admin.list_client_metrics_resources() == []


def test_offsets_of_groups_have_metadata(admin, filled):
    first, second = klamm.TopicPartition(filled, 0), klamm.TopicPartition(filled, 1)
    group = f"g-{filled}"
    given = klamm.OffsetAndMetadata(7, "why", 0)
    admin.alter_group_offsets(group, {first: given, second: 0})
    found = admin.list_group_offsets({group: None, f"{group}-x": [first]}, require_stable=True)
    assert found == {group: {first: given, second: klamm.OffsetAndMetadata(0)}, f"{group}-x": {}}
    assert admin.group_offsets(group) == {first: 7, second: 0}
    assert admin.group_lag(group) == {first: 3, second: 0}
    admin.delete_group_offsets(group, [second])
    assert admin.group_offsets(group) == {first: 7}
    with pytest.raises(GroupIdNotFoundError) as caught:
        admin.describe_groups([group, f"{group}-x"], authorized_operations=True)
    assert caught.value.results[group].authorized_operations
    with pytest.raises(GroupIdNotFoundError) as caught:
        admin.delete_groups([f"{group}-x", group])
    assert list(caught.value.results) == [group]


def test_members_are_removed_from_a_group(broker, admin, filled):
    group = f"g-{filled}"
    config = {"topics": [filled], "group_instance_id": "one"}
    with klamm.Consumer(broker.bootstrap_servers, group, **config) as consumer:
        until(lambda: not consumer.poll(0.1) and consumer.assignment())
        with pytest.raises(UnknownMemberIdError) as caught:
            admin.remove_group_members(group, ["nosuch", "one"], reason="a test")
        assert list(caught.value.results) == [RemovedMember("one")]
    with pytest.raises(GroupIdNotFoundError):
        admin.remove_group_members(f"{group}-x")


def test_share_groups_have_offsets_and_lag(admin, filled):
    group, first = f"s-{filled}", klamm.TopicPartition(filled, 0)

    def alter() -> bool:
        """Return whether the offset is changed. Kafka's group coordinator learns of a topic after the leaders."""
        try:
            admin.alter_share_group_offsets(group, {first: 6})
        except UnknownTopicOrPartitionError:
            return False
        return True

    until(alter)
    found = admin.share_group_offsets([group])[group][first]
    assert (found.offset, found.lag) == (6, 4)
    admin.delete_share_group_offsets(group, [filled])
    assert admin.share_group_offsets([group]) == {group: {}}


def test_leaders_reassignments_and_directories(admin, filled):
    first = klamm.TopicPartition(filled, 0)
    node = admin.describe_cluster().brokers[0].id
    assert admin.elect_leaders([first], wait=True) == {first: False}
    with pytest.raises(NoReassignmentInProgressError) as caught:
        admin.alter_partition_reassignments({first: [node], klamm.TopicPartition(filled, 1): None}, wait=True)
    assert list(caught.value.results) == [first]
    assert admin.list_partition_reassignments([first]) == {}
    (path, found), *_ = admin.describe_log_dirs([node], [first])[node].items()
    assert first in found.replicas
    replica = Replica(filled, 0, node)
    assert admin.describe_replica_log_dirs([replica])[replica].path == path


def test_a_replica_moves_only_to_an_existing_directory(broker, admin, filled):
    only_kafka(broker)
    node = admin.describe_cluster().brokers[0].id
    with pytest.raises(LogDirNotFoundError):
        admin.alter_replica_log_dirs({Replica(filled, 0, node): "/nosuch"})


def test_quotas(admin, topic):
    alice, other = QuotaEntity(user=topic), QuotaEntity(QuotaName.DEFAULT, f"c-{topic}")
    admin.alter_client_quotas({alice: {"producer_byte_rate": 100}, other: {"consumer_byte_rate": 50.0}})
    # The brokers learn of a change a moment after the controller.
    until(lambda: other in admin.describe_client_quotas(QuotaEntity(client_id=QuotaName.ANY)))
    assert admin.describe_client_quotas(alice, strict=True) == {alice: {"producer_byte_rate": 100.0}}
    admin.alter_client_quotas({alice: {"producer_byte_rate": None}, other: {"consumer_byte_rate": None}})
    until(lambda: admin.describe_client_quotas(alice) == {})


def test_scram_users(admin, topic):
    with pytest.raises(ResourceNotFoundError) as caught:
        admin.alter_user_scram_credentials([ScramUpsertion(topic, "secret"), ScramDeletion(f"{topic}-x")])
    assert list(caught.value.results) == [topic]
    until(lambda: topic in admin.describe_user_scram_credentials())
    assert admin.describe_user_scram_credentials([topic]) == {topic: [ScramCredential(ScramMechanism.SHA_256, 4096)]}
    admin.alter_user_scram_credentials([ScramDeletion(topic)])
    assert "secret" not in repr(ScramUpsertion(topic, "secret"))


def test_transactions_are_described_and_fenced(broker, admin, filled):
    name, first = f"tx-{filled}", klamm.TopicPartition(filled, 0)
    with klamm.Producer(broker.bootstrap_servers, transactional_id=name) as producer:
        transaction = producer.transaction()
        transaction.__enter__()
        transaction.send(filled, b"v", partition=0).result(20)
        with pytest.raises(TransactionalIdNotFoundError) as caught:
            admin.describe_transactions([name, f"{name}-x"])
        described = caught.value.results[name]
        assert (described.state, described.partitions) == ("Ongoing", [first])
        (listed,) = admin.list_transactions(["Ongoing"], [described.producer_id], pattern=f"{name}.*")
        assert listed.transactional_id == name
        starts = {each.producer_id: each.transaction_start_offset for each in admin.describe_producers([first])[first]}
        assert starts[described.producer_id] == 10
        assert admin.fence_producers([name])[name].producer_id == described.producer_id
        admin.force_terminate_transaction(name)
        with pytest.raises(klamm.KafkaError):
            transaction.commit()


def test_markers_need_force(admin, filled):
    with pytest.raises(ArgumentError, match="coordinator"):
        admin.write_transaction_markers([klamm.TopicPartition(filled, 0)], 1, 0, 0, commit=True)


def test_the_cluster_its_coordinators_and_versions(admin, topic):
    described = admin.describe_cluster(fenced=True, authorized_operations=True)
    assert described.brokers == admin.describe_cluster().brokers
    assert described.authorized_operations
    node = described.brokers[0]
    assert {each.port for each in admin.find_coordinators([topic, "g"]).values()} <= {b.port for b in described.brokers}
    assert admin.find_coordinators([topic], "transaction")[topic].id in {b.id for b in described.brokers}
    assert admin.api_versions([node.id])[node.id]["Metadata"].max >= 13
    assert "transaction.version" in admin.describe_features().finalized


def test_features_and_the_quorum_of_controllers(broker, admin):
    only_kafka(broker)
    with pytest.raises(InvalidUpdateVersionError, match="metadata"):
        admin.update_features({"metadata.version": FeatureUpdate(1, "safe_downgrade")}, validate_only=True)
    quorum = admin.describe_metadata_quorum()
    assert quorum.leader in {voter.id for voter in quorum.voters}
    assert quorum.controllers[quorum.leader][0].name == "CONTROLLER"
    with pytest.raises(BrokerIdNotRegisteredError):
        admin.unregister_broker(77)
    some_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    with pytest.raises(UnsupportedVersionError, match="voter"):
        admin.add_raft_voter(77, some_id, [RaftEndpoint("CONTROLLER", "localhost", 1)])
    with pytest.raises(UnsupportedVersionError, match="voter"):
        admin.remove_raft_voter(77, some_id)


def test_an_old_broker_names_the_release_that_is_needed():
    with DevBroker(as_version="2.3") as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        with pytest.raises(UnsupportedVersionError, match=r"Kafka 2\.4"):
            admin.alter_partition_reassignments({klamm.TopicPartition("t", 0): [1]})
        with pytest.raises(UnsupportedVersionError, match=r"Kafka 2\.6"):
            admin.describe_client_quotas()
        with pytest.raises(UnsupportedVersionError, match=r"Kafka 2\.6"):
            admin.list_groups(["Stable"])


def test_moves_and_elections_can_be_waited_for():
    with DevBroker(brokers=3) as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({"t": klamm.NewTopic(assignments=[[1, 2]])}, wait=True)
        first = klamm.TopicPartition("t", 0)
        admin.alter_partition_reassignments({first: [3, 2]}, wait=True)
        assert admin.describe_topics(["t"])["t"].partitions[0].replicas == [3, 2]
        broker.move_leader("t", 0, 2)
        assert admin.elect_leaders([first], wait=True) == {first: True}
        assert admin.describe_topics(["t"])["t"].partitions[0].leader == 3


def test_asyncio_has_the_same_calls(broker, filled):
    async def main():
        async with klamm.AsyncAdmin(broker.bootstrap_servers) as admin:
            await admin.create_topics({f"{filled}-a": klamm.NewTopic()}, wait=True)
            first = klamm.TopicPartition(f"{filled}-a", 0)
            offsets = await admin.list_offsets({first: OffsetSpec.LATEST})
            await admin.delete_topics([f"{filled}-a"])
            return offsets[first].offset

    assert asyncio.run(main()) == 0


def test_without_a_broker_a_call_on_several_items_has_one_error():
    with klamm.Admin("127.0.0.1:1", default_api_timeout_ms=300) as admin, pytest.raises(NetworkError):
        admin.create_topics({"a": klamm.NewTopic(), "b": klamm.NewTopic()})


CALLS_OF_BROKER_99 = {
    "describe_configs": lambda admin: admin.describe_configs("broker", "99"),
    "alter_configs": lambda admin: admin.alter_configs("broker", "99", {"log.cleaner.threads": "1"}),
    "describe_log_dirs": lambda admin: admin.describe_log_dirs([99]),
    "describe_replica_log_dirs": lambda admin: admin.describe_replica_log_dirs([Replica("t", 0, 99)]),
    "alter_replica_log_dirs": lambda admin: admin.alter_replica_log_dirs({Replica("t", 0, 99): "/log"}),
    "describe_producers": lambda admin: admin.describe_producers([klamm.TopicPartition("t", 0)], broker=99),
    "api_versions": lambda admin: admin.api_versions([99]),
}


@pytest.mark.parametrize("call", CALLS_OF_BROKER_99)
def test_a_broker_that_is_not_in_the_cluster_is_an_error_after_a_few_attempts(call):
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers, default_api_timeout_ms=20_000) as admin:
        with pytest.raises(BrokerNotAvailableError, match="broker 99 is not in the metadata") as caught:
            CALLS_OF_BROKER_99[call](admin)
        assert "describe_cluster" in caught.value.hint
        assert len(broker.requests("Metadata")) < 8


def test_a_change_waits_only_for_the_brokers_that_still_run():
    with DevBroker(brokers=3) as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        broker.fault("Metadata", "delay", seconds=1, times=None, node=3)
        admin.list_topics()
        with ThreadPoolExecutor(1) as pool:
            created = pool.submit(admin.create_topics, {"t": klamm.NewTopic(assignments=[[1]])}, 20, wait=True)
            until(lambda: any(request.node == 3 for request in broker.requests("Metadata")))
            broker.kill(3)
            assert created.result()["t"].partitions == 1


def test_an_unknown_partition_is_an_error_after_a_few_attempts():
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.list_offsets({klamm.TopicPartition("none", 0): 0})
        # New topics are known everywhere well within a second, so that more attempts would only be a delay.
        assert len(broker.requests("Metadata")) < 8


FIRST = klamm.TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("call", "what", "results"),
    [
        (lambda admin: admin.create_topics({"new": klamm.NewTopic()}, 0.5), "CreateTopics of new", {"new"}),
        (lambda admin: admin.create_partitions({"t": 2}, 0.5), "CreatePartitions of t", {"t"}),
        (lambda admin: admin.delete_topics(["t"], 0.5), "DeleteTopics of t", {"t"}),
        (lambda admin: admin.elect_leaders([FIRST], timeout=0.5, wait=True), "ElectLeaders", {FIRST}),
        (
            lambda admin: admin.alter_partition_reassignments({FIRST: [2]}, 0.5, wait=True),
            "AlterPartitionReassignments",
            {FIRST},
        ),
    ],
)
def test_a_change_without_confirmation_names_its_request_and_keeps_its_results(call, what, results):
    with DevBroker(brokers=2) as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({"t": klamm.NewTopic(assignments=[[1, 2]])}, wait=True)
        broker.move_leader("t", 0, 2)
        for api in ("Metadata", "ListPartitionReassignments"):
            broker.fault(api, "delay", seconds=60, times=None)
        with pytest.raises(KafkaTimeoutError, match=rf"^{what} is not confirmed after 0\.5 s: ") as caught:
            call(admin)
        assert set(caught.value.results) == results
        assert "continue" in caught.value.hint


def test_an_unconfirmed_topic_does_not_hide_the_errors_of_other_topics():
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.list_topics()
        broker.fault("Metadata", "delay", seconds=60, times=None)
        with pytest.raises(CombinedError) as caught:
            admin.create_topics({"good": klamm.NewTopic(), "bad!": klamm.NewTopic()}, timeout=0.5)
        assert {name: type(error) for name, error in caught.value.errors.items()} == {
            "bad!": InvalidTopicExceptionError,
            "good": KafkaTimeoutError,
        }
        assert list(caught.value.results) == ["good"]


def test_a_call_that_times_out_in_a_retry_names_the_error_before_the_retry():
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.list_topics()
        broker.fail_next("CreateTopics", error="THROTTLING_QUOTA_EXCEEDED")
        broker.fault("CreateTopics", "delay", seconds=60, times=None)
        with pytest.raises(KafkaTimeoutError, match=r"in 0\.5 s: create topic 't': THROTTLING_QUOTA_EXCEEDED"):
            admin.create_topics({"t": klamm.NewTopic()}, timeout=0.5)


@pytest.mark.parametrize(("backoff_ms", "attempts"), [(1, 3), (5_000, 1)])
def test_retries_wait_for_the_configured_backoff(backoff_ms, attempts):
    backoff = {"retry_backoff_ms": backoff_ms, "retry_backoff_max_ms": backoff_ms}
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers, **backoff) as admin:
        admin.list_topics()
        for _ in range(2):
            broker.fail_next("CreateTopics", error="THROTTLING_QUOTA_EXCEEDED")
        # With the long backoff, the first retry would be after the timeout.
        if attempts == 1:
            with pytest.raises(KafkaTimeoutError, match="create topic 't': THROTTLING_QUOTA_EXCEEDED") as caught:
                admin.create_topics({"t": klamm.NewTopic()}, timeout=2)
            assert (caught.value.topic, caught.value.broker) == ("t", broker.bootstrap_servers)
        else:
            assert set(admin.create_topics({"t": klamm.NewTopic()}, timeout=60)) == {"t"}
        assert len(broker.requests("CreateTopics")) == attempts
