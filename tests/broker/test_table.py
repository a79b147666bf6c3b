"""Whole topics as tables: start, end, and termination of the read."""

from __future__ import annotations

import io
import sys
import time
from datetime import datetime, timedelta, timezone

import pytest

import klamm
from kafka_broker import KafkaUnavailable, RealKafka
from klamm import TopicPartition
from klamm.errors import ConfigError, KafkaTimeoutError
from klamm.testing import DevBroker
from settled import wait_until_settled


def read(broker, topics, **options):
    """Return the (partition, value) of all rows, sorted by partition."""
    table = klamm.read_table(broker.bootstrap_servers, topics, columns=["partition", "value"], **options)
    return sorted(zip(table["partition"].to_pylist(), table["value"].to_pylist(), strict=True), key=lambda row: row[0])


@pytest.fixture
def dealt(broker, partitioned):
    """Four partitions, five records in each of the first three."""
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for number in range(5):
            for partition in range(3):
                producer.send(partitioned, b"%d" % number, partition=partition, timestamp_ms=1_000 * number + 1)
    return partitioned


def test_an_offset_counts_for_every_partition(broker, dealt):
    assert read(broker, dealt, start=4) == [(0, b"4"), (1, b"4"), (2, b"4")]
    assert read(broker, dealt, start={0: 3, 2: 4}) == [(0, b"3"), (0, b"4"), (2, b"4")]
    assert read(broker, dealt, end={TopicPartition(dealt, 1): 1}) == [(1, b"0")]


def test_offsets_outside_of_the_log_become_the_nearest_in_it(broker, dealt):
    everything = read(broker, dealt)
    assert len(everything) == 15
    assert read(broker, dealt, start=0, end=1_000_000) == everything
    assert read(broker, dealt, start=1_000_000) == []
    assert read(broker, dealt, start=-5) == everything


def test_a_time_is_exact(broker, topic):
    at = datetime(2024, 2, 29, 12, 30, 15, 999_000, tzinfo=timezone.utc)  # a float of seconds says ...998.9 ms
    millisecond, microsecond = timedelta(milliseconds=1), timedelta(microseconds=1)
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for moment in at - millisecond, at, at + millisecond:
            producer.send(topic, b"v", timestamp_ms=moment).result(20)
    for start, rows in (
        (at, 2),
        (at - microsecond, 2),
        (at + microsecond, 1),
        (datetime(1900, 1, 1, tzinfo=at.tzinfo), 3),
    ):
        assert len(read(broker, topic, start=start)) == rows, start
    assert len(read(broker, topic, end=at)) == 1


def test_several_topics_make_one_table(broker, dealt, topic):
    other = f"{topic}-other"
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send(other, b"x").result(20)
    table = klamm.read_table(broker.bootstrap_servers, [dealt, other])
    assert sorted(set(table["topic"].to_pylist())) == sorted([dealt, other])
    assert table.num_rows == 16
    assert klamm.read_table(broker.bootstrap_servers, []).num_rows == 0
    with pytest.raises(ConfigError, match=f"end names a partition that does not exist: {other}-9"):
        read(broker, [dealt, other], end={TopicPartition(other, 9): 1})


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_the_end_of_a_transaction_ends_a_read(broker, topic, isolation, ends):
    """The last offset belongs to a transaction marker, which consumers never receive."""
    with klamm.Producer(broker.bootstrap_servers, transactional_id=topic) as producer:
        transaction = producer.transaction()
        transaction.__enter__()
        transaction.send(topic, b"v").result(20)
        getattr(transaction, ends)()
    wait_until_settled(broker.bootstrap_servers, topic)
    with klamm.Consumer(broker.bootstrap_servers) as consumer:
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 2}
    expected = [] if (isolation, ends) == ("read_committed", "abort") else [(0, b"v")]
    assert read(broker, topic, isolation_level=isolation) == expected


def test_an_open_transaction_ends_a_read_of_committed_records(broker, topic):
    with klamm.Producer(broker.bootstrap_servers) as plain:
        plain.send(topic, b"before").result(20)
        with klamm.Producer(broker.bootstrap_servers, transactional_id=topic) as producer:
            transaction = producer.transaction()
            transaction.__enter__()
            transaction.send(topic, b"open").result(20)
            plain.send(topic, b"behind").result(20)
            assert read(broker, topic, isolation_level="read_committed", end=100) == [(0, b"before")]
            assert len(read(broker, topic)) == 3
            transaction.abort()


def test_a_topic_that_is_not_there_is_an_error(broker, topic):
    with pytest.raises(klamm.KafkaError, match=topic):
        klamm.read_table(broker.bootstrap_servers, topic, default_api_timeout_ms=2_000)


class Terminal(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


@pytest.mark.parametrize(("is_terminal", "progress"), [(True, True), (True, False), (False, True)])
def test_progress_is_for_terminals(broker, dealt, monkeypatch, is_terminal, progress):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal(is_terminal))
    assert len(read(broker, dealt, progress=progress)) == 15
    shown = sys.stderr.getvalue()
    assert ("15/15" in shown) == (is_terminal and progress)
    assert bool(shown) == (is_terminal and progress)


def test_a_partition_that_is_not_read_needs_no_leader():
    with DevBroker(brokers=3) as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({"t": klamm.NewTopic(partitions=3, replication_factor=1)})
        with klamm.Producer(broker.bootstrap_servers) as producer:
            for number in range(5):
                producer.send("t", b"%d" % number, partition=1)
        broker.kill(admin.describe_topics(["t"])["t"].partitions[0].leader)
        assert read(broker, "t", start={1: 3}, end={1: 9, 0: 9}) == [(1, b"3"), (1, b"4")]
        assert read(broker, "t", start="earliest", end={1: 1}) == [(1, b"0")]
        with pytest.raises(KafkaTimeoutError, match="t-0"):
            read(broker, "t", default_api_timeout_ms=1_000)


def test_holes_of_a_compacted_log_end_a_read():
    """The records at the start and the end no longer exist."""
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.0"}
    kafka = RealKafka(config={"log.cleaner.backoff.ms": 100})
    try:
        kafka.start()
    except KafkaUnavailable as reason:
        pytest.skip(f"real Kafka: {reason}")
    try:
        with klamm.Admin(kafka.bootstrap_servers) as admin:
            admin.create_topics({"log": klamm.NewTopic(partitions=1, configs=settings)})
        with klamm.Producer(kafka.bootstrap_servers, linger_ms=50) as producer:
            deadline = time.monotonic() + 60
            producer.send_many("log", [b"%d" % i for i in range(100)], keys=[b"%d" % (i % 3) for i in range(100)])
            producer.flush()
            # Only segments that are full are compacted, and what comes late begins a new one.
            while klamm.read_table(kafka.bootstrap_servers, "log", end=100).num_rows > 3:
                assert time.monotonic() < deadline, "the log was not compacted"
                producer.send("log", b"late", key=b"late").result(20)
        assert read(kafka, "log", end=100) == [(0, b"97"), (0, b"98"), (0, b"99")]
        assert read(kafka, "log", start=5, end=98) == [(0, b"97")]
        assert read(kafka, "log", start=5, end=50) == []
    finally:
        kafka.stop()
