"""Clients shared by many threads. On a free-threaded CPython, only klamm itself synchronises them."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import klamm
from klamm import TopicPartition
from klamm.errors import ClosedError, KafkaTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Broker

RECORDS = 300
PARTITIONS = 3


@pytest.fixture
def divided(broker: Broker, topic: str) -> str:
    """A topic with several partitions."""
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=PARTITIONS)})
    return topic


def together(*works: Callable[[], None]) -> None:
    """Start all functions at the same moment, each in its own thread, and raise their exceptions."""
    start = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        start.wait(20)
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for running in [pool.submit(run, work) for work in works]:
            running.result(60)


def read_all(servers: str, topic: str) -> list[klamm.Record]:
    with klamm.Consumer(servers) as consumer:
        tps = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        ends = consumer.end_offsets(tps)
        consumer.assign([TopicPartition(topic, tp.partition, 0, ends[tp]) for tp in tps])
        return list(consumer)


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled") or sys._is_gil_enabled(), reason="not a free-threaded CPython")
def test_the_extension_leaves_the_lock_of_the_interpreter_off():
    """CPython enables the GIL for the process when it imports an extension that does not declare otherwise."""
    import klamm._klamm

    assert klamm._klamm
    assert not sys._is_gil_enabled()


class Senders:
    """The ways to send, each for one thread, which uses its name as the key."""

    def __init__(self, producer: klamm.Producer, topic: str) -> None:
        self.producer, self.topic = producer, topic
        self.counts: Counter[object] = Counter()
        self._lock = threading.Lock()

    def waiting(self, key: bytes) -> None:
        for number in range(RECORDS // 10):
            self.producer.send(self.topic, b"%d" % number, key=key).result(30)

    def listening(self, key: bytes) -> None:
        for number in range(RECORDS):
            self.producer.send(self.topic, b"%d" % number, key=key).add_done_callback(lambda _: self._count(key))

    def hurrying(self, key: bytes) -> None:
        for number in range(RECORDS):
            self.producer.send_nowait(self.topic, b"%d" % number, key=key)
        self.producer.flush(30)

    def in_bulk(self, key: bytes) -> None:
        self.producer.send_many(self.topic, [b"%d" % number for number in range(RECORDS)], keys=[key] * RECORDS)

    def looking(self) -> None:
        for _ in range(50):
            assert sum(topic.errors for topic in self.producer.metrics().topics.values()) == 0
            self.producer.flush(30)

    def _count(self, key: bytes) -> None:
        with self._lock:
            self.counts[key] += 1


def by_key(_topic: str, key: bytes | None, _value: bytes | None, partitions: int) -> int:
    return int(key or b"0") % partitions


@pytest.mark.parametrize("config", [{}, {"linger_ms": 0}, {"buffer_memory": 20_000, "batch_size": 2000}])
def test_every_way_of_sending_at_once(broker, divided, config):
    with klamm.Producer(broker.bootstrap_servers, partitioner=by_key, **config) as producer:
        senders = Senders(producer, divided)
        ways = [senders.waiting, senders.listening, senders.hurrying, senders.in_bulk] * 2
        works = [lambda way=way, name=name: way(b"%d" % name) for name, way in enumerate(ways)]
        together(senders.looking, *works)
    assert senders.counts == {b"1": RECORDS, b"5": RECORDS}
    found: dict[bytes, list[int]] = {}
    for record in read_all(broker.bootstrap_servers, divided):
        found.setdefault(record.key, []).append(int(record.value))
    for name, way in enumerate(ways):
        count = RECORDS // 10 if way == senders.waiting else RECORDS
        assert found[b"%d" % name] == list(range(count)), "a thread's records are in order, each once"


def test_a_consumer_that_one_thread_reads_and_others_ask(broker, divided):
    servers = broker.bootstrap_servers
    tps = [TopicPartition(divided, number) for number in range(PARTITIONS)]
    total = 8 * RECORDS
    with klamm.Producer(servers) as producer:
        producer.send_many(divided, [b"%d" % number for number in range(total)])
    config: dict[str, Any] = {"auto_offset_reset": "earliest", "max_poll_records": 50}
    with klamm.Consumer(servers, topics=divided, group_id=f"group-{divided}", **config) as consumer:
        done = threading.Event()
        seen: Counter[int] = Counter()

        def reading() -> None:
            try:
                while len(seen) < total:
                    seen.update(int(record.value) for record in consumer.poll(20))
                    consumer.commit_nowait()
            finally:
                done.set()

        def asking() -> None:
            while not done.is_set():
                assert consumer.assignment() <= set(tps)
                consumer.committed(tps)
                consumer.end_offsets(tps)
                consumer.lag()

        together(reading, asking, asking)
        assert set(seen) == set(range(total))
        assert set(seen.values()) == {1}


def test_an_admin_that_threads_share(broker, divided):
    with klamm.Admin(broker.bootstrap_servers) as admin:

        def work(number: int) -> None:
            name = f"{divided}-{number}"
            admin.create_topics({name: klamm.NewTopic(partitions=1 + number)})
            assert len(admin.describe_topics([name])[name].partitions) == 1 + number
            admin.delete_topics([name])

        together(*(lambda number=number: work(number) for number in range(8)))


def send_and_close(servers: str, topic: str) -> list[klamm.Delivery]:
    producer, begun = klamm.Producer(servers), threading.Event()
    deliveries: list[klamm.Delivery] = []

    def sending() -> None:
        with suppress(ClosedError):
            while True:
                deliveries.append(producer.send(topic, b"v"))
                begun.set()

    def closing() -> None:
        assert begun.wait(20)
        with suppress(KafkaTimeoutError):
            producer.close(timeout=0)

    together(sending, closing)
    return deliveries


def test_a_record_that_is_sent_during_a_close_gets_a_result(broker, divided):
    end = time.monotonic() + 3
    while time.monotonic() < end:
        for delivery in send_and_close(broker.bootstrap_servers, divided):
            error = delivery.exception(timeout=20)
            assert error is None or isinstance(error, ClosedError)
