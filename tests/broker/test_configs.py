"""Configurations of topics, brokers and groups, and added partitions, on both brokers.

Kafka's controller answers a change at once; its brokers learn of it a moment later.
"""

from __future__ import annotations

import pytest

import klamm
from klamm.errors import (
    ConfigError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidRequestError,
    UnknownTopicOrPartitionError,
)
from klamm.testing import DevBroker
from settled import until


@pytest.fixture
def admin(style, broker):
    """An admin client of either style."""
    with style.admin(broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def made(admin, topic):
    """A topic with its own configuration."""
    admin.create_topics({topic: klamm.NewTopic(partitions=1, configs={"retention.ms": "60000"})}, wait=True)
    return topic


def test_settings_of_a_topic(admin, made):
    settings = admin.describe_configs("topic", made)
    assert settings["retention.ms"].value == "60000"
    assert settings["retention.ms"].source is klamm.ConfigSource.TOPIC
    assert settings["cleanup.policy"].value == "delete"
    assert settings["cleanup.policy"].source is klamm.ConfigSource.DEFAULT
    assert not settings["retention.ms"].sensitive
    admin.alter_configs("topic", made, {"cleanup.policy": "compact", "retention.ms": None, "preallocate": True})
    until(lambda: admin.describe_configs("topic", made)["preallocate"].value == "true")
    settings = admin.describe_configs("topic", made)
    assert settings["cleanup.policy"].value == "compact"
    assert settings["retention.ms"].source is not klamm.ConfigSource.TOPIC
    assert settings["retention.ms"].value == "-1"  # shared brokers keep the old records of tests


def test_a_setting_that_counts(broker, admin, made):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        admin.alter_configs("topic", made, {"message.timestamp.type": "LogAppendTime"})
        until(lambda: producer.send(made, b"v", timestamp_ms=5).result(10).timestamp_ms > 5)


def test_checking_changes_nothing(admin, made):
    admin.alter_configs("topic", made, {"retention.ms": 1}, validate_only=True)
    assert admin.describe_configs("topic", made)["retention.ms"].value == "60000"
    admin.create_partitions({made: 5}, validate_only=True)
    assert len(admin.describe_topics([made])[made].partitions) == 1


def test_what_is_refused(admin, made):
    with pytest.raises(InvalidConfigError, match=r"alter configs of topic .*no\.such\.thing"):
        admin.alter_configs("topic", made, {"no.such.thing": "1"})
    with pytest.raises(InvalidConfigError, match=r"retention\.ms"):
        admin.alter_configs("topic", made, {"retention.ms": "soon"})
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.describe_configs("topic", made + "-not", timeout=10)
    with pytest.raises(ConfigError, match="allowed: topic, broker"):
        admin.describe_configs("topics", made)
    with pytest.raises(ConfigError, match="is not a number"):
        admin.describe_configs("broker", "one")


def test_settings_of_a_group(admin, topic):
    admin.alter_configs("group", topic, {"share.auto.offset.reset": "earliest"})
    until(lambda: admin.describe_configs("group", topic)["share.auto.offset.reset"].value == "earliest")
    assert admin.describe_configs("group", topic)["share.auto.offset.reset"].source is klamm.ConfigSource.GROUP


def test_the_settings_of_a_broker(admin):
    node = admin.describe_cluster().brokers[0]
    settings = admin.describe_configs("broker", str(node.id))
    assert settings["node.id"].value == str(node.id)
    assert settings["node.id"].read_only
    assert settings["message.max.bytes"].value == "1048588"
    assert not settings["message.max.bytes"].read_only
    assert settings["ssl.keystore.password"].sensitive


def test_a_changed_setting_of_a_broker_is_the_default_of_its_topics(admin, topic):
    admin.create_topics({topic: klamm.NewTopic(partitions=1)})
    node = str(admin.describe_cluster().brokers[0].id)

    def of_topic():
        setting = admin.describe_configs("topic", topic)["index.interval.bytes"]
        return setting.value, setting.source

    admin.alter_configs("broker", node, {"log.index.interval.bytes": 4321})
    until(lambda: of_topic() == ("4321", klamm.ConfigSource.BROKER_DYNAMIC))
    admin.alter_configs("broker", node, {"log.index.interval.bytes": None})
    until(lambda: of_topic() == ("4096", klamm.ConfigSource.DEFAULT))
    for name, value, error in (
        ("num.partitions", 3, InvalidRequestError),
        ("log.retention.ms", "soon", InvalidRequestError),
        ("min.insync.replicas", 2, InvalidConfigError),
    ):
        with pytest.raises(error, match=name.replace(".", r"\.")):
            admin.alter_configs("broker", node, {name: value})


def test_the_file_of_the_brokers(style):
    config = {"num.partitions": 3, "log.retention.hours": 2, "auto.create.topics.enable": True, "message.max.bytes": 99}
    with DevBroker(config=config) as cluster, style.admin(cluster.bootstrap_servers) as client:
        client.create_topics({"t": klamm.NewTopic()})
        assert len(client.describe_topics(["t"])["t"].partitions) == 3
        settings = client.describe_configs("topic", "t")
        assert settings["retention.ms"].value == "7200000"
        assert settings["max.message.bytes"].value == "99"
        assert settings["max.message.bytes"].source is klamm.ConfigSource.BROKER_FILE


@pytest.mark.parametrize(
    ("config", "why"),
    [({"no.such.name": 1}, "no.such.name"), ({"num.partitions": "many"}, "Not a number of type INT")],
)
def test_a_file_with_an_error_is_refused(config, why):
    with pytest.raises(ConfigError, match=why):
        DevBroker(config=config)


def test_nodes_are_numbered_from_the_first(style):
    with DevBroker(brokers=2, first_node=0) as cluster, style.admin(cluster.bootstrap_servers) as client:
        assert [node.id for node in client.describe_cluster().brokers] == [0, 1]
        assert client.describe_configs("broker", "0")["node.id"].value == "0"
        assert cluster.add_node() == 2
        cluster.kill(0)
        until(lambda: [node.id for node in client.describe_cluster().brokers] == [1, 2])
        cluster.start(0)
        until(lambda: len(client.describe_cluster().brokers) == 3)
    with pytest.raises(ConfigError, match="at least 0"):
        DevBroker(first_node=-1)


def test_a_broker_is_asked_itself(style):
    with DevBroker(brokers=3) as cluster, style.admin(cluster.bootstrap_servers) as client:
        for node in (2, 3, 1):
            client.describe_configs("broker", str(node))
        assert [request.node for request in cluster.requests("DescribeConfigs")] == [2, 3, 1]


def test_more_partitions(broker, admin, made):
    admin.create_partitions({made: 4})
    until(lambda: len(admin.describe_topics([made])[made].partitions) == 4)
    with klamm.Producer(broker.bootstrap_servers) as producer:
        assert producer.send(made, b"v", partition=3).result(10).offset == 0
    with pytest.raises(InvalidPartitionsError, match="4 partition"):
        admin.create_partitions({made: 4})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({made: 2})
