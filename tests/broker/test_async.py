"""asyncio: many tasks on one client, cancellation, and loops of all kinds."""

from __future__ import annotations

import asyncio

import pytest

import klamm
from klamm.errors import BufferFullError, KafkaTimeoutError


def test_many_sends_are_under_way_at_once(broker, partitioned):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            sends = [producer.send(partitioned, b"%d" % i, key=b"%d" % i) for i in range(1_000)]
            return await asyncio.gather(*sends)

    places = {(metadata.partition, metadata.offset) for metadata in asyncio.run(main())}
    assert len(places) == 1_000


def test_a_full_buffer_makes_sends_wait_their_turn(broker, topic):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers, buffer_memory=10_000, batch_size=2_000) as producer:

            def fill():
                while True:
                    producer.send_nowait(topic, b"filler" * 20)

            with pytest.raises(BufferFullError):
                fill()
            sends = [producer.send(topic, b"%d" % i * 100) for i in range(200)]
            return await asyncio.gather(*sends)

    offsets = [metadata.offset for metadata in asyncio.run(main())]
    assert offsets == sorted(offsets)


def test_send_nowait_gives_a_delivery_to_await_later(broker, topic):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            deliveries = [producer.send_nowait(topic, b"%d" % i) for i in range(10)]
            assert all(isinstance(delivery, klamm.Delivery) for delivery in deliveries)
            return [(await delivery).offset for delivery in deliveries]

    assert asyncio.run(main()) == list(range(10))


def test_a_cancelled_wait_leaves_the_record_on_its_way(broker, topic):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=100) as producer:
            waiting = asyncio.ensure_future(producer.send(topic, b"v"))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await producer.flush(timeout=20)

    asyncio.run(main())
    table = klamm.read_table(broker.bootstrap_servers, topic)
    assert table.column("value").to_pylist() == [b"v"]


def test_one_delivery_may_be_awaited_often_and_by_many(broker, topic):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            delivery = producer.send(topic, b"v")

            async def wait():
                return await delivery

            first = await asyncio.gather(wait(), wait())
            return [*first, await delivery]

    assert len(set(asyncio.run(main()))) == 1


def test_a_blocking_producers_delivery_can_be_awaited(broker, topic):
    async def main():
        with klamm.Producer(broker.bootstrap_servers) as producer:
            return await producer.send(topic, b"v")

    assert asyncio.run(main()).offset == 0


def test_other_tasks_run_while_one_waits(broker, topic):
    async def main():
        async with klamm.AsyncConsumer(broker.bootstrap_servers) as consumer:
            consumer.assign([klamm.TopicPartition(topic, 0, 0)])
            waiting = asyncio.ensure_future(consumer.__anext__())
            async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
                await producer.send(topic, b"v")
            return await asyncio.wait_for(waiting, 20)

    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=1)})
    assert asyncio.run(main()).value == b"v"


def test_a_wait_that_times_out_says_what_for():
    async def main():
        producer = klamm.AsyncProducer("127.0.0.1:1")
        producer.send_nowait("t", b"v")
        with pytest.raises(KafkaTimeoutError, match=r"no end of the flush within 0\.05 s"):
            await producer.flush(timeout=0.05)
        with pytest.raises(KafkaTimeoutError, match="1 records had no outcome"):
            await producer.close(timeout=0.05)

    asyncio.run(main())


def test_a_client_works_on_one_loop_after_another(broker, topic):
    producer = klamm.AsyncProducer(broker.bootstrap_servers)

    async def send():
        return await producer.send(topic, b"v")

    assert [asyncio.run(send()).offset for _ in range(3)] == [0, 1, 2]
    asyncio.run(producer.close())


class Proactor(asyncio.SelectorEventLoop):
    """A loop that cannot watch sockets, like the one that Windows has."""

    def add_reader(self, fd, callback, *args):
        if getattr(callback, "__name__", "") == "drain":
            raise NotImplementedError
        return super().add_reader(fd, callback, *args)


def test_a_loop_that_cannot_watch_sockets_is_called(broker, topic):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            return await asyncio.gather(*(producer.send(topic, b"v") for _ in range(100)))

    loop = Proactor()
    try:
        assert len(loop.run_until_complete(main())) == 100
    finally:
        loop.close()


def test_a_loop_that_is_closed_early_harms_nobody(broker, topic):
    loop = asyncio.new_event_loop()
    producer = klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=200)

    async def start():
        waiting = asyncio.ensure_future(producer.send(topic, b"v"))
        await asyncio.sleep(0)
        waiting.cancel()

    loop.run_until_complete(start())
    loop.close()
    asyncio.run(producer.flush(timeout=20))
    asyncio.run(producer.close())


def test_closing_a_consumer_ends_a_wait(broker, topic):
    async def main():
        consumer = klamm.AsyncConsumer(broker.bootstrap_servers)
        consumer.assign([klamm.TopicPartition(topic, 0, 0)])
        waiting = asyncio.ensure_future(consumer.__anext__())
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(klamm.errors.ClosedError):
            await asyncio.wait_for(waiting, 10)

    asyncio.run(main())
