"""Partitioners: those of other clients, round robin, sticky, and functions."""

from __future__ import annotations

from collections import Counter

import pytest

import klamm
from klamm.errors import ArgumentError, ConfigError
from klamm.testing import DevBroker
from settled import until

confluent_kafka = pytest.importorskip("confluent_kafka")

PARTITIONS = 7


@pytest.fixture
def wide(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=PARTITIONS)})
    return topic


def partitions_of(broker, topic):
    """Return how often a key went to each partition."""
    table = klamm.read_table(broker.bootstrap_servers, topic, columns=["key", "partition"]).to_pylist()
    return Counter((row["key"], row["partition"]) for row in table)


@pytest.mark.parametrize("name", ["murmur2_random", "consistent_random", "fnv1a_random"])
def test_keys_go_where_librdkafka_puts_them(broker, wide, name):
    keys = [b"key-%d" % n for n in range(300)] + [b"", b"a", b"ab", b"abc", b"\xff\xfe\x00", "\u00fc".encode()]
    if name == "consistent_random":
        keys.remove(b"")  # goes to any partition
    other = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": name})
    for key in keys:
        other.produce(wide, b"v", key=key)
    assert other.flush(20) == 0
    with klamm.Producer(broker.bootstrap_servers, partitioner=name) as producer:
        producer.send_many(wide, [b"v"] * len(keys), keys=keys)
    found = partitions_of(broker, wide)
    assert len(found) == len(keys)
    assert set(found.values()) == {2}


def test_round_robin_gives_every_partition_its_turn_whatever_the_key(broker, wide):
    with klamm.Producer(broker.bootstrap_servers, partitioner="round_robin") as producer:
        producer.send_many(wide, [b"v"] * 10 * PARTITIONS, keys=[b"the same"] * 10 * PARTITIONS)
    assert partitions_of(broker, wide) == {(b"the same", number): 10 for number in range(PARTITIONS)}


def test_uniform_sticks_to_a_partition_for_a_batch_and_reaches_all(broker, wide):
    with klamm.Producer(broker.bootstrap_servers, partitioner="uniform", batch_size=2_000, linger_ms=5) as producer:
        producer.send_many(wide, [b"x" * 100] * 5_000, keys=[b"the same"] * 5_000)
    counts = partitions_of(broker, wide)
    assert len(counts) == PARTITIONS
    assert max(counts.values()) < 5 * min(counts.values())


@pytest.mark.parametrize("adapts", [True, False])
def test_a_node_that_is_slow_gets_less_of_what_may_go_anywhere(style, adapts):
    """KIP-794: a partition with more waiting batches gets fewer records."""
    slow = 2
    with DevBroker(brokers=2) as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"t": klamm.NewTopic(partitions=4, replication_factor=1)})
            leaders = [partition.leader for partition in admin.describe_topics(["t"])["t"].partitions]
        assert sorted(leaders) == [1, 1, slow, slow]
        config = {"batch_size": 1_000, "partitioner_adaptive_partitioning_enable": adapts}
        with style.producer(broker.bootstrap_servers, max_in_flight_requests_per_connection=1, **config) as producer:
            for number in range(4):
                producer.send_nowait("t", b"the topic is known", partition=number)
            producer.flush()
            broker.fault("Produce", "delay", seconds=0.02, times=None, node=slow)
            for _ in range(100):
                # At most fifty batches wait.
                until(lambda: producer.client.metrics().outstanding < 450)
                for _ in range(50):
                    producer.send_nowait("t", b"x" * 90)
            producer.flush()
            broker.clear_faults()
        table = klamm.read_table(broker.bootstrap_servers, "t", columns=["partition"])
    counts = Counter(leaders[partition] for partition in table["partition"].to_pylist())
    share = counts[slow] / table.num_rows
    assert share < 0.35 if adapts else 0.4 < share < 0.6, counts


def test_a_function_chooses(style, broker, wide):
    seen = set()

    def choose(topic, _, value, count):
        seen.add((topic, count))
        return int(value) % count

    with style.producer(broker.bootstrap_servers, partitioner=choose) as producer:
        assert producer.send(wide, b"5", key=b"k").partition == 5
        assert producer.send(wide, b"5", partition=1).partition == 1
        producer.send_many(wide, [b"%d" % n for n in range(21)])
    assert seen == {(wide, PARTITIONS)}
    assert Counter(partition for _, partition in partitions_of(broker, wide).elements()) == {
        number: 3 + (number in {1, 5}) for number in range(PARTITIONS)
    }


def test_a_partitioner_that_returns_nonsense_raises(broker, wide):
    with klamm.Producer(broker.bootstrap_servers, partitioner=lambda *_: 99) as producer:
        delivery = producer.send(wide, b"v")
        with pytest.raises(ConfigError, match=f"has partitions 0 to {PARTITIONS - 1}, not 99"):
            delivery.result(20)
    with klamm.Producer(broker.bootstrap_servers, partitioner=lambda *_: True) as producer:
        assert producer.send(wide, b"v").result(20).partition == 1
    with klamm.Producer(broker.bootstrap_servers, partitioner=lambda *_: "first") as producer:  # noqa: SIM117
        with pytest.raises(ArgumentError, match="has to return an int, not str"):
            producer.send(wide, b"v")


def test_a_function_may_be_a_key_of_the_dict(style, broker, wide):
    config = {"bootstrap.servers": broker.bootstrap_servers, "partitioner": lambda *_: 4}
    with style.producer(config) as producer:
        assert producer.send(wide, b"v", key=b"k").partition == 4
    assert callable(config["partitioner"])
    with style.producer(config, partitioner=lambda *_: 2) as producer:
        assert producer.send(wide, b"v", key=b"k").partition == 2


def test_an_event_loop_does_not_wait_for_the_number_of_partitions(broker, wide):
    producer = klamm.AsyncProducer(broker.bootstrap_servers, partitioner=lambda *_: 0)
    with pytest.raises(ConfigError, match="await send or send_many first"):
        producer.send_nowait(wide, b"v")
    producer._close(0)
