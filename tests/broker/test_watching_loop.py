"""External event loop: a loop that awaits single records reads the responses itself while the I/O thread pauses."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

import klamm
from klamm.testing import DevBroker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems' pollers cannot be watched")

MANY = 100
"""Enough records for the loop to watch the sockets: it takes eight single records."""


async def one_by_one(producer, topic, count=MANY):
    for i in range(count):
        await producer.send(topic, b"%d" % i)


def test_the_loop_reads_the_responses_to_single_records(broker, topic):
    readers = Counter()

    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer:
            for _ in range(5 * MANY):
                delivery = producer.send_nowait(topic, b"v")
                delivery.add_done_callback(lambda _: readers.update([threading.get_ident()]))
                await delivery

    asyncio.run(main())
    assert readers.total() == 5 * MANY
    assert readers[threading.get_ident()] > MANY


def test_a_task_resumes_in_the_loop_iteration_that_brought_its_response(broker, topic):
    class Counting(asyncio.SelectorEventLoop):
        turns = 0

        def _run_once(self):
            self.turns += 1
            super()._run_once()

    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer:
            await one_by_one(producer, topic)
            before = loop.turns
            await one_by_one(producer, topic, 5 * MANY)
            return loop.turns - before

    loop = Counting()
    try:
        # The thread may be faster now and then, and an answer may come in pieces.
        assert loop.run_until_complete(main()) < 7 * MANY
    finally:
        loop.close()


def test_the_thread_polls_for_many_records_and_the_loop_for_single_ones(broker, topic):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer:
            for _ in range(3):
                await one_by_one(producer, topic)
                await asyncio.gather(*[producer.send(topic, b"v") for _ in range(1_000)])
            return (await producer.send(topic, b"last")).offset

    assert asyncio.run(main()) == 3 * (MANY + 1_000)


def test_a_record_is_sent_again_while_the_loop_is_busy():
    """The loop's thread is busy until the record has arrived, which the first attempt did not bring."""

    def read(broker, offset):
        with klamm.Consumer(broker.bootstrap_servers) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0, offset)])
            return [record.value for record in consumer.poll(timeout=20)]

    async def main(broker):
        async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer:
            await one_by_one(producer, "t")
            broker.fail_next("Produce", error="NOT_LEADER_OR_FOLLOWER")
            delivery = producer.send_nowait("t", b"again")
            found = read(broker, MANY)
            return found, (await delivery).offset

    with DevBroker() as broker:
        assert asyncio.run(main(broker)) == ([b"again"], MANY)


def test_a_connection_that_breaks_is_made_again():
    async def main(broker):
        async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer:
            await one_by_one(producer, "t")
            for _ in range(3):
                broker.fault("Produce", "cut")
                await one_by_one(producer, "t")
            return (await producer.send("t", b"last")).offset

    with DevBroker() as broker:
        assert asyncio.run(main(broker)) == 4 * MANY


def test_records_of_a_closed_loop_are_delivered(broker, topic):
    producer = klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0)

    async def leave_one():
        await one_by_one(producer, topic)
        return producer.send_nowait(topic, b"left")

    deliveries = [asyncio.run(leave_one()) for _ in range(3)]
    assert [delivery.result(20).offset for delivery in deliveries] == [MANY, 2 * MANY + 1, 3 * MANY + 2]
    asyncio.run(producer.close())


def test_a_closed_producer_leaves_nothing_in_the_loop(broker, topic):
    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    async def main():
        counts = []
        for _ in range(20):
            async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer:
                await one_by_one(producer, topic, 20)
            counts.append(descriptors())
        return counts

    counts = asyncio.run(main())
    # Those of a dev broker in this process come and go.
    assert counts[-1] < counts[0] + 10


def test_a_callback_may_close_the_producer_while_the_loop_does_its_work(broker, topic):
    async def main():
        for _ in range(5):
            producer = klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0)
            await one_by_one(producer, topic)
            delivery = producer.send_nowait(topic, b"v")
            delivery.add_done_callback(lambda _, producer=producer: producer._close(0))
            assert (await delivery).topic == topic

    asyncio.run(main())
