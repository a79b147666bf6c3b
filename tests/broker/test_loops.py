"""A loop over a consumer ends at the end of its records or with an error, never because of a listener or callback."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

import klamm
from klamm.errors import ConfigError
from klamm.testing import DevBroker
from settled import configure_group, until
from styles import Style

STOPS = [StopIteration, StopAsyncIteration]


@pytest.fixture
def filled():
    with DevBroker() as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [b"%d" % n for n in range(10)], partition=0)
        yield broker


def check_raises(stop, records):
    # A blocking generator raises StopAsyncIteration unchanged, because it ends no blocking loop.
    with pytest.raises((RuntimeError, StopAsyncIteration)) as caught:
        list(records)
    causes = [caught.value]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    assert isinstance(causes[-1], stop)


class Stopping(klamm.RebalanceListener):
    def __init__(self, stop):
        self.stop = stop

    def assigned(self, _partitions):
        raise self.stop("by mistake")


@pytest.mark.parametrize("read", [iter, lambda consumer: consumer.arrow()], ids=["loop", "arrow"])
@pytest.mark.parametrize("stop", STOPS)
def test_a_listener_does_not_end_a_loop(filled, style, stop, read):
    options = {"group_id": "g", "auto_offset_reset": "earliest"}
    with style.consumer(filled.bootstrap_servers, **options) as consumer:
        consumer.subscribe(["t"], on_rebalance=Stopping(stop))
        check_raises(stop, read(consumer))
        assert len(consumer.poll(20)) == 10  # the rebalance took effect


@pytest.mark.parametrize("stop", STOPS)
def test_a_coroutine_of_a_listener_does_not_end_a_loop(filled, stop):
    class Later(klamm.RebalanceListener):
        async def assigned(self, _partitions):
            raise stop("by mistake")

    style = Style("async")
    with style.consumer(filled.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"], on_rebalance=Later())
        check_raises(stop, consumer)
    style.close()


@pytest.mark.parametrize("stop", STOPS)
def test_the_callback_of_a_commit_does_not_end_a_loop(filled, stop):
    def on_commit(_offsets, _error):
        raise stop("by mistake")

    partition = klamm.TopicPartition("t", 0)
    with (
        klamm.Consumer(filled.bootstrap_servers, "g", ["t"], auto_offset_reset="earliest") as consumer,
        klamm.Admin(filled.bootstrap_servers) as admin,
    ):
        records = iter(consumer)
        next(records)
        consumer.commit_nowait({partition: 1}, on_commit)
        until(lambda: admin.group_offsets("g").get(partition) == 1)
        check_raises(stop, records)


@pytest.mark.parametrize("stop", STOPS)
def test_the_callback_of_acknowledgements_does_not_end_a_loop(filled, style, stop):
    def on_acknowledged(_results):
        raise stop("by mistake")

    with klamm.Admin(filled.bootstrap_servers) as admin:
        configure_group(admin, "s", {"share.auto.offset.reset": "earliest"})
    consumer = style.share_consumer(filled.bootstrap_servers, "s", ["t"], on_acknowledged=on_acknowledged)
    records = iter(consumer)
    for _ in range(10):
        next(records)
    with klamm.Producer(filled.bootstrap_servers) as producer:
        producer.send("t", b"10", partition=0).result(20)  # the fetch of this record acknowledges the others
    check_raises(stop, records)
    with contextlib.suppress(stop):  # the close reports the remaining results
        consumer.close()


def drain(consumer, read, seen):
    """Read for ever, and return the error that ends the wait."""
    try:
        while True:
            seen.extend(read(consumer))
    except ConfigError as error:
        return str(error)


async def drain_async(consumer, read, seen):
    try:
        while True:
            if hasattr(reading := read(consumer), "__aiter__"):
                async for _ in reading:
                    seen.append(1)
            else:
                seen.extend(await reading)
    except ConfigError as error:
        return str(error)


def each(consumer):
    yield from consumer


READS = {"loop": each, "poll": lambda consumer: consumer.poll(None), "arrow": lambda consumer: consumer.arrow()}
ENDS = {
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "no topics": lambda consumer: consumer.subscribe([]),
    "no partitions": lambda consumer: consumer.assign([]),
}
CASES = [("consumer", read, end) for read in READS for end in ENDS]
CASES += [("share consumer", read, end) for read in ("loop", "poll") for end in ("unsubscribe", "no topics")]


def from_earliest(broker, kind):
    if kind == "consumer":
        return {"topics": ["t"], "auto_offset_reset": "earliest"}
    with klamm.Admin(broker.bootstrap_servers) as admin:
        configure_group(admin, "s", {"share.auto.offset.reset": "earliest"})
    return {"topics": ["t"], "group_id": "s"}


@pytest.mark.parametrize(("kind", "read", "end"), CASES)
def test_a_wait_ends_when_another_thread_unsubscribes(filled, kind, read, end):
    make = klamm.Consumer if kind == "consumer" else klamm.ShareConsumer
    with ThreadPoolExecutor(1) as pool, make(filled.bootstrap_servers, **from_earliest(filled, kind)) as consumer:
        seen = []
        reading = pool.submit(drain, consumer, READS[read], seen)
        until(lambda: seen)
        ENDS[end](consumer)
        assert "wait for ever" in reading.result(20)


@pytest.mark.parametrize(("kind", "read", "end"), CASES)
def test_a_wait_ends_when_another_task_unsubscribes(filled, kind, read, end):
    make = klamm.AsyncConsumer if kind == "consumer" else klamm.AsyncShareConsumer
    options = from_earliest(filled, kind)

    async def main():
        async with make(filled.bootstrap_servers, **options) as consumer:
            seen = []
            readers = {**READS, "loop": lambda consumer: consumer}
            reading = asyncio.ensure_future(drain_async(consumer, readers[read], seen))
            while len(seen) < (10 if read != "arrow" else 1):
                await asyncio.wait([reading], timeout=0.01)
            if (ended := ENDS[end](consumer)) is not None:
                await ended
            assert "wait for ever" in await asyncio.wait_for(reading, 20)

    asyncio.run(main())


def test_a_poll_with_a_timeout_waits_for_the_next_subscription(filled):
    async def main():
        async with klamm.AsyncConsumer(filled.bootstrap_servers, topics=["none"]) as consumer:
            polling = asyncio.ensure_future(consumer.poll(30))
            await asyncio.sleep(0)
            consumer.subscribe([])
            consumer.assign([klamm.TopicPartition("t", 0, offset=7)])
            assert len(await polling) == 3

    asyncio.run(main())
