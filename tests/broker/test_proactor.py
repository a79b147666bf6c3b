"""asyncio on Windows: its default loop cannot watch sockets. Here a loop of Linux refuses to, so that klamm takes the same path.

A loop that raises NotImplementedError is called by `call_soon_threadsafe`, as the loops of Windows are.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

import klamm


class ProactorLike(asyncio.SelectorEventLoop):
    """An event loop that watches no socket but its own."""

    def add_reader(self, fd, callback, *args):
        raise NotImplementedError

    add_writer = remove_reader = remove_writer = add_reader


def run(main):
    loop = ProactorLike()
    try:
        return loop.run_until_complete(asyncio.wait_for(main, 60))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def test_single_records_and_many_at_once(broker, topic):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            # More in a row than after which a loop of Linux would watch the client's sockets.
            one_by_one = [(await producer.send(topic, b"%d" % number, partition=0)).offset for number in range(20)]
            rest = await asyncio.gather(*(producer.send(topic, b"x", partition=0) for _ in range(100)))
            return one_by_one, sorted(metadata.offset for metadata in rest)

    one_by_one, rest = run(main())
    assert one_by_one == list(range(20))
    assert rest == list(range(20, 120))


def test_a_group_reads_commits_and_continues(broker, topic):
    async def read(count):
        consumer = klamm.AsyncConsumer(
            broker.bootstrap_servers, group_id=topic, topics=[topic], auto_offset_reset="earliest"
        )
        async with consumer:
            return [(await consumer.__anext__()).value for _ in range(count)]

    async def send():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            await producer.send_many(topic, [b"%d" % number for number in range(10)], partition=0)

    run(send())
    assert run(read(4)) == [b"0", b"1", b"2", b"3"]
    assert run(read(6)) == [b"4", b"5", b"6", b"7", b"8", b"9"]


def test_a_transaction(broker, topic):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers, transactional_id=topic) as producer:
            await producer.init_transactions()
            async with producer.transaction() as tx:
                await tx.send(topic, b"kept")
            tx = producer.transaction()
            async with tx:
                await tx.send(topic, b"dropped")
                await tx.abort()
        consumer = klamm.AsyncConsumer(
            broker.bootstrap_servers, topics=[topic], auto_offset_reset="earliest", isolation_level="read_committed"
        )
        async with consumer:
            return [record.value for record in await consumer.poll(timeout=30)]

    assert run(main()) == [b"kept"]


def test_administration_and_errors(broker, topic):
    async def main():
        async with klamm.AsyncAdmin(broker.bootstrap_servers) as admin:
            await admin.create_topics({topic: klamm.NewTopic()})
            with pytest.raises(klamm.errors.TopicAlreadyExistsError):
                await admin.create_topics({topic: klamm.NewTopic()})
            return await admin.list_topics()

    assert topic in run(main())


def test_cancelled_and_expired_waits(broker, topic):
    async def main():
        async with klamm.AsyncConsumer(broker.bootstrap_servers) as consumer:
            consumer.assign([klamm.TopicPartition(topic, 0, offset=0)])
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(consumer.__anext__(), 0.1)
            waiting = asyncio.ensure_future(consumer.__anext__())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
                await producer.send(topic, b"v", partition=0)
            return (await consumer.__anext__()).value

    assert run(main()) == b"v"


def test_one_client_on_loops_of_two_threads(broker, topic):
    producer = klamm.AsyncProducer(broker.bootstrap_servers)
    offsets = []

    async def send():
        for _ in range(20):
            offsets.append((await producer.send(topic, b"v", partition=0)).offset)  # noqa: PERF401 - one by one

    threads = [threading.Thread(target=run, args=(send(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    run(producer.close())
    assert sorted(offsets) == list(range(40))


def test_a_closed_loop_does_not_stay_in_memory(broker, topic):
    async def send(producer):
        await producer.send(topic, b"v")

    ended = []
    producer = klamm.AsyncProducer(broker.bootstrap_servers)
    for _ in range(3):
        loop = ProactorLike()
        loop.run_until_complete(send(producer))
        loop.close()
        ended.append(weakref.ref(loop))
    run(producer.close())
    del loop
    gc.collect()
    assert [loop() for loop in ended] == [None, None, None]


def test_the_io_thread_never_waits_for_the_interpreter(broker, topic):
    # A thread that holds the interpreter waits for the locks that the I/O thread holds while it wakes a loop.
    values = [b"%d" % number for number in range(3000)]

    async def write():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            for start in range(0, len(values), 10):
                await asyncio.gather(
                    *(producer.send(topic, value, partition=0) for value in values[start : start + 10])
                )

    async def read():
        consumer = klamm.AsyncConsumer(broker.bootstrap_servers, topics=[topic], auto_offset_reset="earliest")
        async with consumer:
            return [(await consumer.__anext__()).value for _ in values]

    async def both():
        return (await asyncio.gather(write(), read()))[1]

    assert run(both()) == values
