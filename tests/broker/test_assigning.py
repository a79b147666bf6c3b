"""Assigning partitions: positions of partitions that stay are kept, and an unreadable partition does not block
others.
"""

from __future__ import annotations

import time

import pytest

import klamm
from klamm import TopicPartition
from klamm.errors import UnknownTopicOrPartitionError
from klamm.testing import DevBroker
from reading import read_values

TIMEOUT = 30
UNKNOWN_TOPIC_GRACE = 5  # seconds, as in src/engine/ops/mod.rs


def write(broker, topic, partitions, count=5, **config):
    with klamm.Producer(broker.bootstrap_servers, **config) as producer:
        for number in range(count):
            for partition in partitions:
                producer.send_nowait(topic, b"%d" % number, partition=partition)


def values(records):
    return [record.value for record in records]


def read(consumer, count):
    """Read this many records, and return the errors in between as well."""
    found, errors = [], []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < count:
        assert time.monotonic() < deadline, (found, errors)
        try:
            found += consumer.poll(0.5)
        except klamm.KafkaError as error:
            errors.append(error)
    return found, errors


def test_a_partition_without_a_leader_keeps_no_other_from_being_read():
    with DevBroker(brokers=3) as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({"t": klamm.NewTopic(partitions=3, replication_factor=1)})
        write(broker, "t", range(3))
        broker.kill(admin.describe_topics(["t"])["t"].partitions[0].leader)
        with klamm.Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", number) for number in range(3)])
            found, errors = read(consumer, 10)
            assert {record.partition for record in found} == {1, 2}
            consumer.seek_to_beginning()
            repeated, repeated_errors = read(consumer, 10)
            assert {record.partition for record in repeated} == {1, 2}
        assert errors + repeated_errors == []


def test_a_partition_that_is_not_there_keeps_no_other_from_being_read(broker, topic):
    write(broker, topic, [0])
    with klamm.Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 9)])
        assert read(consumer, 5)[1] == []
        with pytest.raises(UnknownTopicOrPartitionError, match=f"{topic}-9"):
            consumer.position(TopicPartition(topic, 9), timeout=TIMEOUT)
        with pytest.raises(UnknownTopicOrPartitionError, match=f"{topic}-9"):
            consumer.poll(TIMEOUT)
        assert consumer.position(TopicPartition(topic, 0)) == 5


def test_a_number_that_a_topic_has_not_is_an_error_also_with_an_offset(broker, topic):
    write(broker, topic, [0])
    with klamm.Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 9, offset=0)])
        assert read(consumer, 5)[1] == []
        with pytest.raises(UnknownTopicOrPartitionError, match=f"{topic}-9.*partitions 0 to 0"):
            consumer.poll(TIMEOUT)
        write(broker, topic, [0])
        assert {record.partition for record in read(consumer, 5)[0]} == {0}
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_partitions({topic: 10})
        write(broker, topic, [9])
        assert {record.partition for record in read(consumer, 5)[0]} == {9}


def test_an_offset_of_a_topic_that_is_not_there_waits_for_it(broker, topic):
    with klamm.Consumer(broker.bootstrap_servers, allow_auto_create_topics=False) as consumer:
        consumer.assign([TopicPartition(topic, 0, offset=0)])
        assert len(consumer.poll(UNKNOWN_TOPIC_GRACE + 1)) == 0
        write(broker, topic, [0])
        assert read(consumer, 5)[1] == []


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_partition_that_stays_assigned_continues_after_the_delivered_records(broker, partitioned, reset, style):
    first, second = (TopicPartition(partitioned, number) for number in range(2))
    with style.consumer(broker.bootstrap_servers, auto_offset_reset=reset) as consumer:
        consumer.assign([first])
        assert consumer.position(first) == 0
        write(broker, partitioned, [0])
        assert read_values(consumer, 2, max_records=2) == [b"0", b"1"]
        consumer.pause([first])
        consumer.assign([second, first, first])
        assert (consumer.paused(), consumer.position(first)) == ({first}, 2)
        consumer.resume([first])
        assert read_values(consumer, 3) == [b"2", b"3", b"4"]
        consumer.assign([TopicPartition(partitioned, 0, offset=1)])
        assert read_values(consumer, 4) == [b"1", b"2", b"3", b"4"]


def test_what_a_loop_that_was_left_did_not_get_comes_next(broker, partitioned):
    first, second = (TopicPartition(partitioned, number) for number in range(2))
    write(broker, partitioned, [0], linger_ms=1000)
    with klamm.Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([first])
        for record in consumer:
            if record.offset == 1:
                break
        consumer.assign([first, second])
        assert values(read(consumer, 3)[0]) == [b"2", b"3", b"4"]


def test_an_end_offset_that_is_removed_loses_nothing(broker, topic):
    write(broker, topic, [0], count=10, linger_ms=1000)
    with klamm.Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0, offset=0, end_offset=3)])
        assert [record.offset for record in consumer] == [0, 1, 2]
        consumer.assign([TopicPartition(topic, 0)])
        assert [record.offset for record in read(consumer, 7)[0]] == list(range(3, 10))


@pytest.mark.parametrize("repeated", ["topics", "pattern"])
def test_a_topic_that_stays_subscribed_without_a_group_continues_at_its_position(broker, topic, repeated, style):
    other, third = f"{topic}-other", f"{topic}-third"
    for name in topic, other:
        write(broker, name, [0], linger_ms=1000)
    with style.consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert read_values(consumer, 2, max_records=2) == [b"0", b"1"]
        consumer.pause([TopicPartition(topic, 0)])
        if repeated == "topics":
            consumer.subscribe([topic, other, third])
        else:
            consumer.subscribe(pattern=f"{topic}(-other)?")
        found = read(consumer, 5)[0]
        assert {record.topic for record in found} == {other}
        consumer.resume([TopicPartition(topic, 0)])
        assert values(read(consumer, 3)[0]) == [b"2", b"3", b"4"]
        with pytest.raises(klamm.errors.ConfigError):
            consumer.subscribe(pattern="(")
        consumer.subscribe([topic])
        assert consumer.assignment() == {TopicPartition(topic, 0)}
        write(broker, topic, [0], count=1)
        assert values(read(consumer, 1)[0]) == [b"0"]
        consumer.assign([TopicPartition(topic, 0)])
        assert len(read(consumer, 6)[0]) == 6
