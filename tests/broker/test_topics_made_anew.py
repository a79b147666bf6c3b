"""Topics that are deleted and recreated under a reader: no record of the new topic is skipped."""

from __future__ import annotations

import time

import pytest

import klamm
from klamm.errors import OffsetOutOfRangeError
from reading import read_values

WAIT_S = 60
# What is committed meanwhile would be of one topic and count for the other.
CONFIG = {"metadata_max_age_ms": 200, "auto_commit_interval_ms": 60_000, "allow_auto_create_topics": False}


def write(broker, topic, values):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value, partition=0).result(20)


def make(broker, topic, *, anew=False):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        if anew:
            admin.delete_topics([topic])
        admin.create_topics({topic: klamm.NewTopic()})


def until_it_reads(consumer):
    end = time.monotonic() + WAIT_S
    while not (tps := consumer.assignment()) or None in consumer.lag().values():
        assert time.monotonic() < end, tps
        assert not consumer.poll(timeout=0.1)


OLD, NEW = [b"old%d" % n for n in range(5)], [b"new%d" % n for n in range(8)]


@pytest.mark.parametrize(
    ("protocol", "reset"), [(None, "earliest"), (None, "latest"), ("classic", "earliest"), ("consumer", "earliest")]
)
def test_reading_restarts_at_the_first_record(style, broker, topic, protocol, reset):
    make(broker, topic)
    group = {"group_id": topic, "group_protocol": protocol} if protocol else {}
    with style.consumer(
        broker.bootstrap_servers, topics=[topic], auto_offset_reset=reset, **CONFIG, **group
    ) as consumer:
        until_it_reads(consumer)
        write(broker, topic, OLD)
        assert read_values(consumer, 5) == OLD
        make(broker, topic, anew=True)
        write(broker, topic, NEW)
        assert read_values(consumer, 8) == NEW


def test_without_a_reset_it_is_an_error(style, broker, topic):
    make(broker, topic)
    write(broker, topic, OLD)
    with style.consumer(broker.bootstrap_servers, auto_offset_reset="none", **CONFIG) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, offset=0)])
        assert read_values(consumer, 5) == OLD
        make(broker, topic, anew=True)
        with pytest.raises(OffsetOutOfRangeError, match=f"{topic}-0 at offset 5: the topic was recreated"):
            read_values(consumer, 1)
        write(broker, topic, NEW)
        consumer.seek(klamm.TopicPartition(topic, 0), 6)
        assert read_values(consumer, 2) == NEW[6:]
