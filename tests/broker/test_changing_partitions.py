"""Producers and consumers while partitions and topics are added, removed, or without a leader."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

import klamm
from klamm.errors import (
    ConfigError,
    DeliveryError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from klamm.testing import DevBroker
from reading import read_values
from settled import until

TIMEOUT = 30


def test_a_partition_that_was_added_is_found_by_trying_again(broker, topic):
    with (
        klamm.Producer(broker.bootstrap_servers, metadata_max_age_ms=3_600_000) as producer,
        klamm.Admin(broker.bootstrap_servers) as admin,
    ):
        producer.send(topic, b"0", partition=0).result(TIMEOUT)
        count = len(admin.describe_topics([topic])[topic].partitions)
        admin.create_partitions({topic: count + 1})
        with pytest.raises(ConfigError, match="retry: klamm is refreshing"):
            producer.send(topic, b"1", partition=count)
        sent, deadline = None, time.monotonic() + TIMEOUT
        while sent is None:
            assert time.monotonic() < deadline
            with suppress(ConfigError):
                sent = producer.send(topic, b"1", partition=count)
        assert sent.result(TIMEOUT).partition == count


def test_keys_go_to_the_partitions_of_a_recreated_topic(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=4)})
        config = {"metadata_max_age_ms": 200, "allow_auto_create_topics": False, "delivery_timeout_ms": 2000}
        with klamm.Producer(broker.bootstrap_servers, **config) as producer:

            def partitions():
                return {producer.send(topic, b"", key=b"%d" % n).result(TIMEOUT).partition for n in range(40)}

            assert partitions() == {0, 1, 2, 3}
            admin.delete_topics([topic])
            deadline = time.monotonic() + TIMEOUT
            while topic in admin.list_topics():
                assert time.monotonic() < deadline
            admin.create_topics({topic: klamm.NewTopic(partitions=1)})
            # The producer uses the old partitions until it learns the new ones.
            with suppress(ConfigError):
                while time.monotonic() < deadline:
                    with suppress(KafkaTimeoutError):
                        producer.send(topic, b"", partition=3).result(0.5)
            with suppress(DeliveryError):  # the records that the old partitions did not take
                producer.flush(TIMEOUT)
            with pytest.raises(ConfigError, match="has partitions 0 to 0"):
                producer.send(topic, b"", partition=3)
            assert partitions() == {0}


@pytest.mark.parametrize("partitioner", ["round_robin", "murmur2_random", "uniform"])
def test_records_without_a_key_go_to_partitions_with_a_leader(partitioner):
    with DevBroker(brokers=3) as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({"t": klamm.NewTopic(partitions=3, replication_factor=1)})
        gone = admin.describe_topics(["t"])["t"].partitions[1]
        broker.kill(gone.leader)
        for _ in range(10):  # producers start anywhere
            with klamm.Producer(
                broker.bootstrap_servers, partitioner=partitioner, delivery_timeout_ms=10_000
            ) as producer:
                found = {producer.send("t", b"v").result(TIMEOUT).partition for _ in range(6)}
            assert found <= {0, 2}
            assert partitioner != "round_robin" or len(found) == 2


ERRORS = ["LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION", "NETWORK_EXCEPTION"]
MEMBERS = {
    "none": {},
    "range": {"group_id": "g", "partition_assignment_strategy": "range"},
    "cooperative-sticky": {"group_id": "g", "partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_id": "g", "group_protocol": "consumer"},
}


class Listener(klamm.RebalanceListener):
    """Counts the calls of a rebalance listener."""

    def __init__(self):
        self.calls = []

    def assigned(self, partitions):
        self.calls.append(("assigned", len(partitions)))

    def revoked(self, partitions):
        self.calls.append(("revoked", len(partitions)))

    def lost(self, partitions):
        self.calls.append(("lost", len(partitions)))


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("subscription", [{"topics": ["t"]}, {"pattern": "t.*"}], ids=["topics", "pattern"])
@pytest.mark.parametrize("config", MEMBERS.values(), ids=MEMBERS)
def test_an_error_of_a_topic_in_metadata_unassigns_nothing(style, config, subscription, error):
    """A broker that has just restarted may not know the topic for some seconds."""
    listener = Listener()
    with DevBroker(default_partitions=4) as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"before", partition=0).result(TIMEOUT)
        usual = {"metadata_max_age_ms": 100, "retry_backoff_max_ms": 100, "auto_offset_reset": "earliest"}
        if config.get("group_protocol") != "consumer" and "group_id" in config:
            usual["heartbeat_interval_ms"] = 200
        with style.consumer(broker.bootstrap_servers, **usual, **config) as consumer:
            consumer.subscribe(**subscription, **({"on_rebalance": listener} if config else {}))
            until(lambda: consumer.poll(0.1))
            assert len(consumer.assignment()) == 4
            calls = list(listener.calls)
            broker.fault("Metadata", "error", error=error, times=4)
            asked = len(broker.requests("Metadata"))
            until(lambda: consumer.poll(0.1) is not None and len(broker.requests("Metadata")) > asked + 5)
            assert len(consumer.assignment()) == 4
            assert listener.calls == calls
            with klamm.Producer(broker.bootstrap_servers) as producer:
                producer.send("t", b"after", partition=0).result(TIMEOUT)
            assert [record.value for record in consumer.poll(TIMEOUT)] == [b"after"]


def test_an_error_of_a_topic_is_raised_when_it_lasts(style):
    with DevBroker() as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(TIMEOUT)
        with style.consumer(broker.bootstrap_servers, topics=["t"], metadata_max_age_ms=200) as consumer:
            until(lambda: not consumer.poll(0.1) and consumer.assignment())
            broker.fault("Metadata", "error", error="LEADER_NOT_AVAILABLE", times=None)
            began = time.monotonic()
            with pytest.raises(LeaderNotAvailableError, match='subscribe to "t"'):
                consumer.poll(TIMEOUT)
            assert time.monotonic() - began > 4, "for five seconds, it may pass"


@pytest.mark.parametrize("config", [{"group_id": "g"}, {"group_id": "g", "group_protocol": "consumer"}])
def test_a_topic_that_a_group_waits_for_in_vain_is_an_error_of_each_timeout(style, broker, topic, config):
    usual = {"default_api_timeout_ms": 1000, "allow_auto_create_topics": False, "topics": [topic]}
    with style.consumer(broker.bootstrap_servers, **{**usual, **config, "group_id": topic}) as consumer:
        for _ in range(2):
            with pytest.raises(UnknownTopicOrPartitionError, match="subscribe to"):
                consumer.poll(TIMEOUT)
            assert not consumer.poll(0.5)
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send(topic, b"first").result(TIMEOUT)
        assert [record.value for record in consumer.poll(TIMEOUT)] == [b"first"]


@pytest.mark.parametrize("subscription", ["topics", "pattern"])
@pytest.mark.parametrize("config", [{}, {"group_id": True}, {"group_id": True, "group_protocol": "consumer"}])
def test_partitions_and_topics_found_later_start_at_their_first_record(style, broker, topic, config, subscription):
    config = {**config, **({"group_id": topic} if config else {})}
    later = f"{topic}-later"
    with klamm.Admin(broker.bootstrap_servers) as admin, klamm.Producer(broker.bootstrap_servers) as producer:
        admin.create_topics({topic: klamm.NewTopic(partitions=1)})
        producer.send(topic, b"old", partition=0).result(TIMEOUT)
        usual = {"auto_offset_reset": "latest", "metadata_max_age_ms": 500, "allow_auto_create_topics": False}
        with style.consumer(broker.bootstrap_servers, **usual, **config) as consumer:
            if subscription == "topics":
                consumer.subscribe([topic, later])
            else:
                consumer.subscribe(pattern=f"{topic}.*")
            tp = klamm.TopicPartition(topic, 0)
            until(lambda: not consumer.poll(0.1) and consumer.assignment() == {tp})
            assert consumer.position(tp) == 1
            # The listing of all topics is requested beside the membership.
            assert not consumer.poll(0.5)
            admin.create_partitions({topic: 2})
            with klamm.Producer(broker.bootstrap_servers) as another:
                another.send(topic, b"new", partition=1).result(TIMEOUT)
            admin.create_topics({later: klamm.NewTopic(partitions=1)})
            producer.send(later, b"later", partition=0).result(TIMEOUT)
            assert sorted(read_values(consumer, 2)) == [b"later", b"new"]
