"""Awaits that are cancelled at random moments, or never begin: no record is lost, doubled or committed unread."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

import klamm
from klamm import TopicPartition

RECORDS = 120
SEEDS = range(12)


async def often_cancelled(chance, wait):
    """Await a fresh `wait()` until one of them finishes. Some never begin, some are cancelled after a few steps of the loop."""
    while True:
        awaitable = wait()
        kind = chance.random()
        if kind < 0.2:
            if asyncio.iscoroutine(awaitable):
                awaitable.close()
            continue
        if kind < 0.5:
            return await awaitable
        task = asyncio.ensure_future(awaitable)
        for _ in range(chance.choice([0, 0, 1, 1, 2, 5, 20])):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            return await task


@pytest.fixture
def filled(broker, topic):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"%d" % n for n in range(RECORDS)], partition=0)
    return topic


def settings(group, **config):
    return {"group_id": group, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 300, **config}


@pytest.mark.parametrize("deserializer", [None, bytes.decode], ids=["bytes", "text"])
@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_of_a_consumer_is_read_once_and_the_rest_stays_uncommitted(broker, filled, seed, deserializer):
    chance = random.Random(seed)

    async def read(count):
        config = settings(filled, value_deserializer=deserializer, max_poll_records=chance.choice([1, 7, 500]))
        async with klamm.AsyncConsumer(broker.bootstrap_servers, topics=[filled], **config) as consumer:
            waits = [lambda: anext(consumer), lambda: consumer.poll(20, max_records=3)]
            offsets = []
            while len(offsets) < count:
                got = await often_cancelled(chance, chance.choice(waits))
                offsets += [record.offset for record in ([got] if isinstance(got, klamm.Record) else got)]
                if chance.random() < 0.1:
                    await often_cancelled(chance, consumer.commit)
            await consumer.commit()
            committed = await consumer.committed([TopicPartition(filled, 0)])
            assert committed[TopicPartition(filled, 0)] == len(offsets)
            return offsets

    async def main():
        first = await read(RECORDS // 2)
        async with klamm.AsyncConsumer(broker.bootstrap_servers, topics=[filled], **settings(filled)) as consumer:
            rest = []
            while len(first) + len(rest) < RECORDS:
                rest.append((await asyncio.wait_for(anext(consumer), 30)).offset)
        return first + rest

    assert asyncio.run(main()) == list(range(RECORDS))


@pytest.mark.parametrize("seed", SEEDS)
def test_each_send_that_is_not_cancelled_is_written_once(broker, topic, seed):
    chance = random.Random(seed)

    async def main():
        finished = []
        async with klamm.AsyncProducer(broker.bootstrap_servers, buffer_memory=20_000, batch_size=2_000) as producer:

            async def send(value):
                task = asyncio.ensure_future(producer.send(topic, value, partition=0))
                for _ in range(chance.choice([0, 1, 5, 50])):
                    await asyncio.sleep(0)
                if chance.random() < 0.4:
                    task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    finished.append(((await task).offset, value))

            await asyncio.gather(*(send(b"%d-" % n + b"x" * 500) for n in range(RECORDS)))
        return finished

    finished = asyncio.run(main())
    with klamm.Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        end = consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        written = []
        while len(written) < end:
            written += [(record.offset, record.value) for record in consumer.poll(30)]
    assert set(finished) <= set(written)
    values = [value for _, value in written]
    assert len(values) == len(set(values)), "a record was written twice"
