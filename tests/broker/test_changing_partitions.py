"""Producers while partitions are added, removed, or without a leader."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

import klamm
from klamm.errors import ConfigError, KafkaTimeoutError
from klamm.testing import DevBroker

PATIENCE = 30


def test_a_partition_that_was_added_is_found_by_trying_again(broker, topic):
    with (
        klamm.Producer(broker.bootstrap_servers, metadata_max_age_ms=3_600_000) as producer,
        klamm.Admin(broker.bootstrap_servers) as admin,
    ):
        producer.send(topic, b"0", partition=0).result(PATIENCE)
        count = len(admin.describe_topics([topic])[topic].partitions)
        admin.create_partitions({topic: count + 1})
        with pytest.raises(ConfigError, match="retry: klamm is refreshing"):
            producer.send(topic, b"1", partition=count)
        sent, deadline = None, time.monotonic() + PATIENCE
        while sent is None:
            assert time.monotonic() < deadline
            with suppress(ConfigError):
                sent = producer.send(topic, b"1", partition=count)
        assert sent.result(PATIENCE).partition == count


def test_keys_go_to_the_partitions_of_a_recreated_topic(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=4)})
        config = {"metadata_max_age_ms": 200, "allow_auto_create_topics": False, "delivery_timeout_ms": 2000}
        with klamm.Producer(broker.bootstrap_servers, **config) as producer:

            def partitions():
                return {producer.send(topic, b"", key=b"%d" % n).result(PATIENCE).partition for n in range(40)}

            assert partitions() == {0, 1, 2, 3}
            admin.delete_topics([topic])
            deadline = time.monotonic() + PATIENCE
            while topic in admin.list_topics():
                assert time.monotonic() < deadline
            admin.create_topics({topic: klamm.NewTopic(partitions=1)})
            # Until the producer has heard of it, the old partitions are taken for good.
            with suppress(ConfigError):
                while time.monotonic() < deadline:
                    with suppress(KafkaTimeoutError):
                        producer.send(topic, b"", partition=3).result(0.5)
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
                found = {producer.send("t", b"v").result(PATIENCE).partition for _ in range(6)}
            assert found <= {0, 2}
            assert partitioner != "round_robin" or len(found) == 2
