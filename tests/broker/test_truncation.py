"""Logs that lost records under a reader (KIP-320)."""

from __future__ import annotations

import pytest

import klamm
from klamm.errors import OffsetOutOfRangeError
from klamm.testing import DevBroker


@pytest.fixture
def cluster():
    with DevBroker() as broker:
        yield broker


def write(broker, topic, numbers):
    """One batch for each number."""
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, partition=0).result(10)


def read(consumer, count):
    values = []
    while len(values) < count:
        values += [int(record.value) for record in consumer.poll(20)]
    return values


def test_a_reader_goes_back_to_where_the_log_was_cut(style, cluster):
    write(cluster, "t", range(10))
    tp = klamm.TopicPartition("t", 0, offset=0)
    with style.consumer(cluster.bootstrap_servers, metadata_max_age_ms=200, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        assert read(consumer, 10) == list(range(10))
        cluster.truncate("t", 0, 6)
        # What is at the lost offsets now is not what was read there.
        write(cluster, "t", range(100, 110))
        assert read(consumer, 10) == list(range(100, 110))
        assert consumer.position(tp) == 16


def test_without_a_reset_it_is_an_error(style, cluster):
    write(cluster, "t", range(10))
    tp = klamm.TopicPartition("t", 0, offset=0)
    with style.consumer(cluster.bootstrap_servers, metadata_max_age_ms=200, auto_offset_reset="none") as consumer:
        consumer.assign([tp])
        read(consumer, 10)
        cluster.truncate("t", 0, 6)
        write(cluster, "t", range(100, 110))
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError, match="t-0 at offset 10: the log was truncated to 6"):
                read(consumer, 1)
        consumer.seek(tp, 6)
        assert read(consumer, 10) == list(range(100, 110))


def test_a_committed_offset_knows_its_epoch(cluster):
    write(cluster, "t", range(10))
    settings = {"group_id": "g", "topics": ["t"], "auto_offset_reset": "earliest"}
    with klamm.Consumer(cluster.bootstrap_servers, **settings) as consumer:
        read(consumer, 10)
        consumer.commit()
    cluster.truncate("t", 0, 6)
    write(cluster, "t", range(100, 110))
    with klamm.Consumer(cluster.bootstrap_servers, **settings) as consumer:
        assert read(consumer, 10) == list(range(100, 110))


def test_a_leader_that_has_everything_changes_nothing(cluster):
    cluster.add_node()
    write(cluster, "t", range(10))
    settings = {"metadata_max_age_ms": 200, "auto_offset_reset": "none"}
    with klamm.Consumer(cluster.bootstrap_servers, **settings) as consumer:
        consumer.assign([klamm.TopicPartition("t", 0, offset=0)])
        read(consumer, 10)
        for node in (2, 1, 2):
            cluster.move_leader("t", 0, node)
            write(cluster, "t", [node])
            assert read(consumer, 1) == [node]


def test_what_comes_while_a_new_leader_is_asked_is_no_cut(cluster):
    cluster.add_node()
    write(cluster, "t", [0])
    for number in range(1, 5):
        cluster.move_leader("t", 0, number % 2 + 1)
        write(cluster, "t", [number])
    # A batch an answer, and so an epoch. The old leader has handled the next fetch when the leader moves, and answers it before
    # the new one has said where the epoch before ends.
    cluster.fault("Fetch", "delay", seconds=0.2, times=None)
    cluster.fault("OffsetForLeaderEpoch", "delay", seconds=0.4, times=None)
    settings = {"metadata_max_age_ms": 50, "auto_offset_reset": "none", "max_partition_fetch_bytes": 1}
    seen = []
    with klamm.Consumer(cluster.bootstrap_servers, **settings) as consumer:
        consumer.assign([klamm.TopicPartition("t", 0, offset=0, end_offset=5)])
        for record in consumer:
            seen.append(int(record.value))
            cluster.move_leader("t", 0, len(seen) % 2 + 1)
    assert seen == list(range(5))
    assert cluster.requests("OffsetForLeaderEpoch")


def test_a_reader_waits_until_a_broker_knows_where_its_epoch_ends(cluster):
    write(cluster, "t", range(10))
    settings = {"metadata_max_age_ms": 100, "auto_offset_reset": "earliest", "default_api_timeout_ms": 500}
    with klamm.Consumer(cluster.bootstrap_servers, **settings) as consumer:
        consumer.assign([klamm.TopicPartition("t", 0, offset=0)])
        read(consumer, 10)
        cluster.fail_next("OffsetForLeaderEpoch", error="UNKNOWN_LEADER_EPOCH", times=None)
        cluster.truncate("t", 0, 6)
        write(cluster, "t", range(100, 110))
        asked = len(cluster.requests("OffsetForLeaderEpoch"))
        # Several times as long as a question may take.
        assert not consumer.poll(2)
        assert len(cluster.requests("OffsetForLeaderEpoch")) > asked
        cluster.clear_faults()
        assert read(consumer, 10) == list(range(100, 110))


def test_a_partition_that_may_not_be_asked_about_keeps_no_other_from_being_checked(cluster):
    cluster.add_node()
    with klamm.Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics({name: klamm.NewTopic(replication_factor=2) for name in ("t", "secret")})
    for name, node in (("t", 1), ("secret", 2)):
        cluster.move_leader(name, 0, node)
        write(cluster, name, range(10))
    settings = {"metadata_max_age_ms": 100, "auto_offset_reset": "earliest"}
    with klamm.Consumer(cluster.bootstrap_servers, **settings) as consumer:
        consumer.assign([klamm.TopicPartition(name, 0, offset=0) for name in ("t", "secret")])
        read(consumer, 20)
        cluster.fail_next("OffsetForLeaderEpoch", error="TOPIC_AUTHORIZATION_FAILED", node=2, times=None)
        cluster.truncate("t", 0, 6)
        cluster.truncate("secret", 0, 10)
        write(cluster, "t", range(100, 110))
        assert read(consumer, 10) == list(range(100, 110))
        # The consumer does not wait for offsets that it may not request.
        write(cluster, "secret", [10])
        assert read(consumer, 1) == [10]
