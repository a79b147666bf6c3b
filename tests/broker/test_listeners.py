"""Rebalance listeners may close their consumer, and finish even if the caller stops waiting."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import klamm
from klamm.testing import DevBroker
from settled import until


@pytest.fixture
def filled():
    with DevBroker() as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("t", b"%d" % number).result(10)
        yield broker


class Listener(klamm.RebalanceListener):
    def __init__(self):
        self.events = []

    def assigned(self, partitions):
        self.events.append(f"assigned {len(partitions)}")


@pytest.mark.parametrize("end", ["close", "unsubscribe"])
@pytest.mark.parametrize("ended", ["close", "unsubscribe"])
def test_a_listener_may_end_what_is_ending(filled, ended, end):
    class Ending(Listener):
        def revoked(self, partitions):
            self.events.append(f"revoked {len(partitions)}")
            getattr(consumer, ended)()

    listener = Ending()
    with klamm.Consumer(filled.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"], on_rebalance=listener)
        assert len(consumer.poll(30)) > 0
        getattr(consumer, end)()
        assert listener.events == ["assigned 1", "revoked 1"]


def test_an_async_listener_may_close_the_consumer(filled):
    class Closing(Listener):
        async def revoked(self, partitions):
            self.events.append(f"revoked {len(partitions)}")
            await self.consumer.close()

    async def main():
        listener = Closing()
        listener.consumer = consumer = klamm.AsyncConsumer(filled.bootstrap_servers, group_id="g")
        consumer.subscribe(["t"], on_rebalance=listener)
        while not consumer.assignment():
            await consumer.poll(0.1)
        await consumer.close()
        assert listener.events == ["assigned 1", "revoked 1"]

    asyncio.run(main())


def test_a_poll_that_is_cancelled_leaves_the_listener_to_finish(filled):
    class Seeking(klamm.RebalanceListener):
        def __init__(self, consumer):
            self.consumer = consumer
            self.is_called, self.may_go_on = asyncio.Event(), asyncio.Event()

        async def assigned(self, partitions):
            self.is_called.set()
            await self.may_go_on.wait()
            for partition in partitions:
                self.consumer.seek(partition, 7)

    async def main():
        async with klamm.AsyncConsumer(
            filled.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            listener = Seeking(consumer)
            consumer.subscribe(["t"], on_rebalance=listener)
            poll = asyncio.ensure_future(consumer.poll(30))
            await listener.is_called.wait()
            poll.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await poll
            second = asyncio.ensure_future(consumer.poll(30))
            listener.may_go_on.set()
            assert [record.offset for record in await second] == [7, 8, 9]

    asyncio.run(main())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_a_listener_commits_is_where_reading_starts(broker, topic, protocol):
    partition = klamm.TopicPartition(topic, 0)
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number).result(30)

    class Committing(klamm.RebalanceListener):
        def assigned(self, _partitions):
            consumer.commit({partition: 7})
            self.position = consumer.position(partition, timeout=30)

    listener = Committing()
    with klamm.Consumer(
        broker.bootstrap_servers, group_id=topic, group_protocol=protocol, auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic], on_rebalance=listener)
        assert [record.offset for record in consumer.poll(30)] == [7, 8, 9]
        assert listener.position == 7


def test_no_topics_end_a_subscription(filled):
    class Recording(Listener):
        def revoked(self, partitions):
            self.events.append(f"revoked {len(partitions)}")

    listener = Recording()
    with (
        klamm.Consumer(filled.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer,
        klamm.Admin(filled.bootstrap_servers) as admin,
    ):
        consumer.subscribe(["t"], on_rebalance=listener)
        assert len(consumer.poll(30)) > 0
        consumer.subscribe([])
        assert listener.events == ["assigned 1", "revoked 1"]
        assert consumer.assignment() == set()
        until(lambda: admin.describe_groups(["g"])["g"].state == "Empty")
        assert admin.group_offsets("g") == {klamm.TopicPartition("t", 0): 10}


def test_an_async_member_awaits_the_end_of_its_subscription(filled):
    async def main():
        async with klamm.AsyncConsumer(filled.bootstrap_servers, group_id="g", topics=["t"]) as consumer:
            with pytest.raises(klamm.errors.ConfigError, match="cannot wait until the consumer leaves"):
                consumer.subscribe([])
            await consumer.unsubscribe()
            consumer.subscribe([])
            with pytest.raises(klamm.errors.ConfigError, match="neither topics nor partitions"):
                await consumer.poll(None)

    asyncio.run(main())


@pytest.mark.parametrize("change", ["assigned", "revoked"])
def test_an_async_close_ends_in_time_whatever_the_listener_waits_for(filled, change):
    class Slow(klamm.RebalanceListener):
        def __init__(self):
            self.is_called, self.may_go_on, self.is_done = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def wait(self):
            self.is_called.set()
            await self.may_go_on.wait()
            self.is_done.set()

        async def assigned(self, _partitions):
            if change == "assigned":
                await self.wait()

        async def revoked(self, _partitions):
            await self.wait()

    async def main():
        listener = Slow()
        consumer = klamm.AsyncConsumer(filled.bootstrap_servers, group_id="g", auto_offset_reset="earliest")
        consumer.subscribe(["t"], on_rebalance=listener)
        poll = asyncio.ensure_future(consumer.poll(30))
        if change == "assigned":
            await listener.is_called.wait()
            poll.cancel()
        else:
            assert len(await poll) > 0
        with pytest.raises(klamm.errors.KafkaTimeoutError, match="listener did not finish within"):
            await asyncio.wait_for(consumer.close(0.2), 20)
        with pytest.raises(klamm.errors.ClosedError):
            await consumer.poll(0)
        listener.may_go_on.set()
        await asyncio.wait_for(listener.is_done.wait(), 20)

    asyncio.run(main())
