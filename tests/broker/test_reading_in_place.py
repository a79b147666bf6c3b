"""Inline polling: a reader of single records polls the sockets itself while the I/O thread pauses."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path

import pytest

import klamm
from klamm.testing import DevBroker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems' pollers have room for one thread")

MANY = 300


class Threads:
    """The I/O threads that this process starts from now on."""

    def __init__(self):
        self._before = set(self._all())

    def _all(self):
        return [task for task in Path("/proc/self/task").iterdir() if (task / "comm").read_text() == "klamm-io\n"]

    def sleeps(self):
        """Return how often they went to sleep."""
        states = [(task / "status").read_text() for task in self._all() if task not in self._before]
        assert states
        return sum(int(state.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for state in states)


def one_by_one(producer, consumer, topic, count=MANY):
    """Send each record after the previous one was read. The reader waits first."""
    records = iter(consumer)
    for i in range(count):
        value = b"%d" % i
        delivery = producer.send(topic, value, partition=0)
        assert next(records).value == value
        delivery.result(20)


@pytest.fixture
def producer(broker):
    with klamm.Producer(broker.bootstrap_servers, linger_ms=0) as producer:
        yield producer


@pytest.fixture
def consumer(broker, producer, topic):
    producer.send(topic, b"first", partition=0).result(20)
    with klamm.Consumer(broker.bootstrap_servers, group_id=f"{topic}-group", auto_commit_interval_ms=200) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, 1)])
        yield consumer


def test_the_reader_reads_records_that_come_one_by_one(producer, topic, broker):
    producer.send(topic, b"first", partition=0).result(20)
    threads = Threads()
    with klamm.Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, 1)])
        one_by_one(producer, consumer, topic)
        before = threads.sleeps()
        one_by_one(producer, consumer, topic)
        # Each record would wake the thread once or twice.
        assert threads.sleeps() - before < MANY / 2


def test_many_records_at_once_are_the_threads_business_and_few_the_readers_again(producer, consumer, topic):
    values = [b"%0100d" % i for i in range(20_000)]
    for _ in range(3):
        one_by_one(producer, consumer, topic, 50)
        producer.send_many(topic, values, partition=0)
        records = iter(consumer)
        assert [next(records).value for _ in values] == values


def test_offsets_are_committed_in_time_though_the_program_does_not_come_back(producer, consumer, topic, broker):
    one_by_one(producer, consumer, topic)
    tp = klamm.TopicPartition(topic, 0)
    consumer.commit(timeout=20)
    producer.send(topic, b"handled", partition=0).result(20)
    producer.send(topic, b"taken", partition=0).result(20)
    assert [next(iter(consumer)).value for _ in range(2)] == [b"handled", b"taken"]
    deadline = time.monotonic() + 20
    with klamm.Consumer(broker.bootstrap_servers, group_id=f"{topic}-group") as other:
        while other.committed([tp], timeout=20)[tp] != MANY + 2:
            assert time.monotonic() < deadline


def test_what_is_asked_between_two_records_is_answered(producer, consumer, topic):
    """Other responses belong to the I/O thread, which must be woken for them."""
    one_by_one(producer, consumer, topic)
    tp = klamm.TopicPartition(topic, 0)
    for i in range(50):
        one_by_one(producer, consumer, topic, 1)
        consumer.commit(timeout=20)
        assert consumer.committed([tp], timeout=20) == {tp: MANY + i + 2}


def test_another_thread_may_read_or_close_while_one_reads(producer, consumer, topic):
    one_by_one(producer, consumer, topic)
    seen, ended = [], []

    def read():
        try:
            while True:
                seen.extend(record.value for record in consumer.poll(timeout=20))
        except klamm.KafkaError as error:
            ended.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    values = [b"%d" % i for i in range(MANY)]
    for value in values:
        producer.send(topic, value, partition=0).result(20)
    deadline = time.monotonic() + 20
    while len(seen) < MANY:
        assert time.monotonic() < deadline
    consumer.close(timeout=20)
    for thread in threads:
        thread.join(20)
    assert sorted(seen) == sorted(values)
    assert len(ended) == 3


def test_a_connection_that_breaks_is_made_again():
    with DevBroker() as broker, klamm.Producer(broker.bootstrap_servers, linger_ms=0) as producer:
        producer.send("t", b"first", partition=0).result(20)
        with klamm.Consumer(broker.bootstrap_servers) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0, 1)])
            one_by_one(producer, consumer, "t")
            for _ in range(3):
                broker.fault("Fetch", "cut")
                one_by_one(producer, consumer, "t")


async def one_by_one_on_a_loop(producer, consumer, topic, count=MANY):
    records = aiter(consumer)
    for i in range(count):
        value = b"%d" % i
        delivery = producer.send_nowait(topic, value, partition=0)
        assert (await asyncio.wait_for(anext(records), 20)).value == value
        await delivery


def test_an_event_loop_reads_records_that_come_one_by_one(broker, topic):
    async def main():
        async with (
            klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer,
            klamm.AsyncConsumer(broker.bootstrap_servers) as consumer,
        ):
            await producer.send(topic, b"first", partition=0)
            threads = Threads()
            consumer.assign([klamm.TopicPartition(topic, 0, 1)])
            await one_by_one_on_a_loop(producer, consumer, topic)
            before = threads.sleeps()
            await one_by_one_on_a_loop(producer, consumer, topic)
            return threads.sleeps() - before

    assert asyncio.run(main()) < MANY / 2


def test_a_loop_that_is_busy_or_over_leaves_reading_to_the_thread():
    """Calls of other threads are answered although the loop's thread does not poll."""

    async def main(broker):
        async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer:
            await producer.send("t", b"first", partition=0)
            consumer = klamm.AsyncConsumer(broker.bootstrap_servers, group_id="g", auto_commit_interval_ms=200)
            consumer.assign([klamm.TopicPartition("t", 0, 1)])
            await one_by_one_on_a_loop(producer, consumer, "t")
            await one_by_one_on_a_loop(producer, consumer, "t", 1)
            wait_for_commit(broker, MANY + 1)
            return consumer

    def wait_for_commit(broker, offset):
        tp = klamm.TopicPartition("t", 0)
        deadline = time.monotonic() + 20
        with klamm.Consumer(broker.bootstrap_servers, group_id="g") as other:
            while other.committed([tp], timeout=20)[tp] != offset:
                assert time.monotonic() < deadline

    async def go_on(broker, consumer):
        async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer, consumer:
            await one_by_one_on_a_loop(producer, consumer, "t")

    with DevBroker() as broker:
        consumer = asyncio.run(main(broker))
        asyncio.run(go_on(broker, consumer))
        wait_for_commit(broker, 2 * MANY + 2)


def test_a_closed_consumer_leaves_nothing_in_the_loop(broker, topic):
    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    async def main():
        counts = []
        async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer:
            for _ in range(20):
                offset = (await producer.send(topic, b"v", partition=0)).offset
                async with klamm.AsyncConsumer(broker.bootstrap_servers) as consumer:
                    consumer.assign([klamm.TopicPartition(topic, 0, offset + 1)])
                    await one_by_one_on_a_loop(producer, consumer, topic, 20)
                counts.append(descriptors())
        return counts

    counts = asyncio.run(main())
    # Those of a dev broker in this process come and go.
    assert counts[-1] < counts[0] + 10
