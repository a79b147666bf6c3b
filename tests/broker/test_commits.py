"""Explicit commits: metadata of offsets, and results of commits that do not wait."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

import klamm
from kafka_broker import RealKafka
from klamm import OffsetAndMetadata, TopicPartition
from klamm.errors import ConfigError, RebalanceInProgressError, TopicAuthorizationFailedError, UnsupportedVersionError
from klamm.testing import DevBroker
from running import or_skip
from settled import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Broker
    from styles import Driven, Style

WAIT_S = 20


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """A topic with ten records in one partition."""
    fill(broker.bootstrap_servers, topic)
    return topic


@pytest.fixture
def dev() -> Iterator[DevBroker]:
    """A separate dev broker with the topic `t`."""
    with DevBroker() as broker:
        fill(broker.bootstrap_servers, "t")
        yield broker


def fill(servers: str, topic: str) -> None:
    with klamm.Admin(servers) as admin, klamm.Producer(servers) as producer:
        admin.create_topics({topic: klamm.NewTopic()})
        producer.send_many(topic, [b"%d" % n for n in range(10)])


class Recorder:
    """Records the calls of an `on_commit` and their threads."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[dict[TopicPartition, OffsetAndMetadata], Exception | None]] = []
        self.threads: set[int] = set()

    def __call__(self, offsets: dict[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        self.outcomes.append((offsets, error))
        self.threads.add(threading.get_ident())

    def offsets(self) -> list[int]:
        return [at.offset for offsets, error in self.outcomes if error is None for at in offsets.values()]


def reader(style: Style, servers: str, topic: str) -> Driven:
    """A consumer without automatic commits that reads the topic from the beginning."""
    config: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = style.consumer(servers, group_id=f"group-{topic}", **config)
    consumer.assign([TopicPartition(topic, 0)])
    return consumer


def test_the_callback_of_a_commit_runs_in_the_thread_that_uses_the_consumer(style, broker, filled):
    tp, recorder = TopicPartition(filled, 0), Recorder()
    with reader(style, broker.bootstrap_servers, filled) as consumer:
        assert len(consumer.poll(WAIT_S, 4)) == 4
        consumer.commit_nowait(on_commit=recorder)
        consumer.commit_nowait({tp: OffsetAndMetadata(7, "seven")}, recorder)
        consumer.commit_nowait({tp: 8})
        # Nothing is left to read: the outcomes come while the program waits for records.
        consumer.seek_to_end()
        until(lambda: consumer.poll(0.1) or len(recorder.outcomes) == 2)
        assert recorder.offsets() == [4, 7]
        assert recorder.outcomes[1] == ({tp: OffsetAndMetadata(7, "seven")}, None)
        assert recorder.threads == {threading.get_ident()}
        assert consumer.committed([tp]) == {tp: 8}


def test_a_commit_runs_the_callbacks_of_earlier_commits(style, broker, filled):
    tp, recorder = TopicPartition(filled, 0), Recorder()
    with reader(style, broker.bootstrap_servers, filled) as consumer:
        for offset in 1, 2, 3:
            consumer.commit_nowait({tp: offset}, recorder)
        consumer.commit({tp: 4})
        until(lambda: len(recorder.outcomes) == 3 or consumer.poll(0.1) is None)
        assert recorder.offsets() == [1, 2, 3]


def test_the_callback_of_a_commit_gets_its_error(style, dev):
    recorder = Recorder()
    with reader(style, dev.bootstrap_servers, "t") as consumer:
        dev.fault("OffsetCommit", "error", error="TOPIC_AUTHORIZATION_FAILED")
        consumer.commit_nowait({TopicPartition("t", 0): 1}, recorder)
        consumer.seek_to_end()
        until(lambda: consumer.poll(0.1) or recorder.outcomes)
        ((offsets, error),) = recorder.outcomes
        assert offsets == {TopicPartition("t", 0): OffsetAndMetadata(1)}
        assert isinstance(error, TopicAuthorizationFailedError)


def test_close_waits_for_commits_in_flight(style, dev):
    tp, recorder = TopicPartition("t", 0), Recorder()
    consumer = reader(style, dev.bootstrap_servers, "t")
    assert len(consumer.poll(WAIT_S)) == 10
    dev.fault("OffsetCommit", "delay", seconds=0.5)
    for offset in 1, 2, 3:
        consumer.commit_nowait({tp: offset}, recorder)
    consumer.close()
    assert recorder.offsets() == [1, 2, 3]
    assert recorder.threads == {threading.get_ident()}
    with klamm.Admin(dev.bootstrap_servers) as admin:
        assert admin.group_offsets("group-t") == {tp: 3}


@pytest.mark.parametrize("times", [5, None])
def test_the_end_waits_a_moment_for_a_group_whose_members_share(style, dev, times):
    """The coordinator accepts commits once the leader has sent the assignment, which may never happen."""
    consumer = style.consumer(dev.bootstrap_servers, group_id="g", topics=["t"], auto_offset_reset="earliest")
    assert len(consumer.poll(WAIT_S)) == 10
    dev.fault("OffsetCommit", "error", error="REBALANCE_IN_PROGRESS", times=times)
    began = time.monotonic()
    with nullcontext() if times else pytest.raises(RebalanceInProgressError, match="may be read again"):
        consumer.close()
    assert time.monotonic() - began < WAIT_S
    with klamm.Admin(dev.bootstrap_servers) as admin:
        assert list(admin.group_offsets("g").values()) == ([10] if times else [])


def test_an_exception_in_the_callback_of_a_commit_is_raised_by_the_poll(dev):
    def fail(_offsets: object, _error: object) -> None:
        raise ZeroDivisionError

    recorder, tp = Recorder(), TopicPartition("t", 0)
    with klamm.Consumer(dev.bootstrap_servers, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([TopicPartition("t", 0, 0)])
        consumer.commit_nowait({tp: 1}, fail)
        consumer.commit_nowait({tp: 2}, recorder)
        with pytest.raises(ZeroDivisionError):
            until(lambda: consumer.poll(0.1, 1) is None)
        until(lambda: consumer.poll(0.1) is None or recorder.outcomes)
        assert recorder.offsets() == [2]


def test_offsets_are_committed_with_the_epoch_of_the_record_before(style, broker, filled):
    tp = TopicPartition(filled, 0)
    with reader(style, broker.bootstrap_servers, filled) as consumer:
        assert len(consumer.poll(WAIT_S, 4)) == 4
        for given, kept in [
            (None, OffsetAndMetadata(4, "", 0)),  # more was fetched than that
            (3, OffsetAndMetadata(3, "", 0)),
            (OffsetAndMetadata(2, "two"), OffsetAndMetadata(2, "two", 0)),
            (OffsetAndMetadata(10, "", 0), OffsetAndMetadata(10, "", 0)),
            (9, OffsetAndMetadata(9)),  # no member read the records before
        ]:
            consumer.commit(None if given is None else {tp: given})
            assert consumer.committed_metadata([tp]) == {tp: kept}
    with (
        pytest.raises(ConfigError, match=r"the offset of .*-0 cannot be -1"),
        klamm.Consumer("b:1", group_id="g") as consumer,
    ):
        consumer.commit({tp: -1})


@pytest.fixture
def forgetful() -> Iterator[RealKafka]:
    """An Apache Kafka that expires offsets every 0.2 s instead of every ten minutes."""
    with or_skip(RealKafka(config={"offsets.retention.check.interval.ms": 200})) as kafka:
        yield kafka


def test_brokers_keep_offsets_for_the_configured_time(forgetful):
    servers, tp = forgetful.bootstrap_servers, TopicPartition("t", 0)
    fill(servers, "t")
    for group, retention_ms in ("long", 3_600_000), ("short", 1), ("usual", -1):
        with klamm.Consumer(servers, group_id=group, offsets_retention_ms=retention_ms) as consumer:
            consumer.commit({tp: 3})
    with klamm.Admin(servers) as admin:
        until(lambda: not admin.group_offsets("short"))
        assert admin.group_offsets("long") == admin.group_offsets("usual") == {tp: 3}


def test_a_member_commits_with_a_retention_too(filled, broker):
    servers, tp = broker.bootstrap_servers, TopicPartition(filled, 0)
    config: dict[str, Any] = {"auto_offset_reset": "earliest", "offsets_retention_ms": 3_600_000}
    with klamm.Consumer(servers, topics=filled, group_id=f"group-{filled}", **config) as consumer:
        assert len(consumer.poll(WAIT_S, 4)) == 4
        consumer.commit()
        assert consumer.committed([tp]) == {tp: 4}


def test_brokers_that_know_no_retention_of_a_commit_are_not_asked_to_keep_it():
    """Kafka 0.8.2 has OffsetCommit up to v1, which only carries a commit time."""
    with (
        DevBroker(as_version="0.8.2") as broker,
        klamm.Consumer(broker.bootstrap_servers, group_id="g", offsets_retention_ms=1000) as consumer,
        pytest.raises(UnsupportedVersionError, match="version 2 to 4 of OffsetCommit is needed, the broker has 0 to 1"),
    ):
        consumer.commit({TopicPartition("t", 0): 1})


def test_a_time_of_a_commit_is_refused_by_brokers_that_take_none():
    """Kafka 0.8.2 to 3.9 have OffsetCommit v1. tests/matrix tests them."""
    with (
        DevBroker(as_version="4.4") as broker,
        klamm.Consumer(broker.bootstrap_servers, group_id="g") as consumer,
        pytest.raises(UnsupportedVersionError, match="version 1 of OffsetCommit is needed, the broker has 2 to 10"),
    ):
        consumer.commit({TopicPartition("t", 0): OffsetAndMetadata(1, timestamp_ms=1)})


def test_a_time_of_a_commit_is_refused_beside_what_goes_without_one(dev):
    servers, tp = dev.bootstrap_servers, TopicPartition("t", 0)
    timed = {tp: OffsetAndMetadata(1, timestamp_ms=1)}
    with klamm.Consumer(servers, group_id="g") as consumer:
        with pytest.raises(ConfigError, match="the time of a commit of t-0 cannot be -1"):
            consumer.commit({tp: OffsetAndMetadata(1, timestamp_ms=-1)})
        with (
            klamm.Producer(servers, transactional_id="id") as producer,
            pytest.raises(ConfigError, match="cannot have a timestamp_ms"),
            producer.transaction() as tx,
        ):
            tx.commit_offsets(consumer.group_metadata(), timed)
    both = pytest.raises(ConfigError, match="no version of OffsetCommit has both the time of a commit and")
    with klamm.Consumer(servers, group_id="g", offsets_retention_ms=1000) as consumer, both:
        consumer.commit(timed)
    static: dict[str, Any] = {"group_instance_id": "one", "auto_offset_reset": "earliest"}
    with klamm.Consumer(servers, group_id="g", topics="t", **static) as consumer:
        assert len(consumer.poll(WAIT_S, 4)) == 4
        with both:
            consumer.commit(timed)


def test_commits_with_a_time_reach_brokers_that_take_one():
    with (
        DevBroker(as_version="3.9") as broker,
        klamm.Admin(broker.bootstrap_servers) as admin,
        klamm.Consumer(broker.bootstrap_servers, group_id="g") as consumer,
    ):
        tp = TopicPartition("t", 0)
        admin.create_topics({"t": klamm.NewTopic()})
        consumer.commit({tp: OffsetAndMetadata(5, "text", timestamp_ms=1_000)})
        assert consumer.committed_metadata([tp]) == {tp: OffsetAndMetadata(5, "text")}
        recorder, timed = Recorder(), {tp: OffsetAndMetadata(6, "text", timestamp_ms=1_000)}
        consumer.commit_nowait(timed, recorder)
        consumer.commit(timed)  # the callbacks of earlier commits run first
        assert recorder.outcomes == [(timed, None)]


@pytest.mark.parametrize("other", [{"group_protocol": "consumer"}, {"group_instance_id": "one"}])
def test_a_retention_is_refused_beside_what_newer_versions_alone_can_say(dev, other):
    with pytest.raises(ConfigError, match=r"offsets\.retention\.ms cannot be combined with group\."):
        klamm.Consumer(dev.bootstrap_servers, topics="t", group_id="g", offsets_retention_ms=1000, **other)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("when", ["interval", "close", "unsubscribe"])
def test_position_0_of_an_empty_partition_is_committed_automatically(style, broker, topic, protocol, when):
    """Otherwise the next member starts after the records that arrive in between."""
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic()})
        tp, group = TopicPartition(topic, 0), f"group-{topic}"
        config: dict[str, Any] = {"group_id": group, "topics": [topic], "group_protocol": protocol}
        interval_ms = 100 if when == "interval" else 60_000
        consumer = style.consumer(broker.bootstrap_servers, auto_commit_interval_ms=interval_ms, **config)
        until(lambda: not consumer.poll(0.1) and consumer.assignment())
        assert consumer.position(tp) == 0
        if when == "interval":
            until(lambda: not consumer.poll(0.1) and admin.group_offsets(group))
        elif when == "unsubscribe":
            consumer.unsubscribe()
        consumer.close()
        assert admin.group_offsets(group) == {tp: 0}
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send(topic, b"in between").result(WAIT_S)
        with style.consumer(broker.bootstrap_servers, **config) as second:
            assert [record.value for record in second.poll(WAIT_S)] == [b"in between"]


def test_a_partition_without_a_position_is_not_committed(style, dev):
    dev.fault("ListOffsets", "error", error="LEADER_NOT_AVAILABLE", times=None)
    config: dict[str, Any] = {"auto_commit_interval_ms": 50, "auto_offset_reset": "latest"}
    with style.consumer(dev.bootstrap_servers, group_id="g", topics=["t"], **config) as consumer:
        until(lambda: not consumer.poll(0.1) and dev.requests("ListOffsets"))
        assert not consumer.poll(0.5)
    assert not dev.requests("OffsetCommit")
