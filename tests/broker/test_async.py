"""asyncio: many tasks on one client, cancellation, and different event loops."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import random

import pyarrow as pa
import pytest

import klamm
from klamm.errors import (
    BufferFullError,
    ClosedError,
    ConfigError,
    GroupAuthorizationFailedError,
    KafkaTimeoutError,
    TransactionAbortedError,
)
from klamm.testing import DevBroker
from settled import configure_group


def test_many_sends_are_under_way_at_once(broker, partitioned):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            sends = [producer.send(partitioned, b"%d" % i, key=b"%d" % i) for i in range(1_000)]
            return await asyncio.gather(*sends)

    positions = {(metadata.partition, metadata.offset) for metadata in asyncio.run(main())}
    assert len(positions) == 1_000


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


def test_a_task_can_be_made_of_a_send(broker, topic):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            tasks = [asyncio.create_task(producer.send(topic, b"%d" % i)) for i in range(10)]
            delivery = producer.send_nowait(topic, b"10")
            tasks += [asyncio.create_task(delivery), asyncio.create_task(delivery.within(20))]
            with pytest.raises(ConfigError, match="not 77"):
                await asyncio.create_task(producer.send(topic, b"v", partition=77))
            return [metadata.offset for metadata in await asyncio.gather(*tasks)]

    assert asyncio.run(main()) == [*range(11), 10]


def test_a_task_of_a_send_can_be_cancelled(one_topic):
    async def main():
        async with klamm.AsyncProducer(one_topic.bootstrap_servers) as producer:
            await producer.send("t", value(0))
            one_topic.fault("Produce", "delay", seconds=0.2)
            task = asyncio.create_task(producer.send("t", value(1)))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert in_log(one_topic) == [0, 1]  # the wait was cancelled, not the record


def test_a_task_can_be_made_of_a_send_that_waits_for_room(one_topic):
    async def main():
        async with klamm.AsyncProducer(one_topic.bootstrap_servers, buffer_memory=5_000) as producer:
            await producer.send("t", value(0))
            one_topic.fault("Produce", "delay", seconds=0.2)
            tasks = [asyncio.create_task(producer.send("t", value(i))) for i in range(1, 20)]
            await asyncio.sleep(0)
            tasks[14].cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

    ends = asyncio.run(main())
    assert isinstance(ends.pop(14), asyncio.CancelledError)
    assert sorted(metadata.offset for metadata in ends) == list(range(1, 19))
    assert in_log(one_topic) == [i for i in range(20) if i != 15]


def test_a_task_can_be_made_of_the_next_record(broker, topic):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            await producer.send(topic, b"0")
            await producer.send(topic, b"1")
        async with klamm.AsyncConsumer(broker.bootstrap_servers) as consumer:
            consumer.assign([klamm.TopicPartition(topic, 0, offset=0)])
            return [(await asyncio.create_task(anext(consumer))).value for _ in range(2)]

    assert asyncio.run(main()) == [b"0", b"1"]


async def cancel_at_once(make):
    """Cancel awaitables in each way that does not let them begin."""
    waiting = asyncio.ensure_future(make())
    waiting.cancel()
    together = asyncio.gather(make(), asyncio.sleep(20))
    together.cancel()
    make().close()
    ends = await asyncio.gather(
        asyncio.wait_for(make(), 0), waiting, together, asyncio.wait_for(make(), -1), return_exceptions=True
    )
    assert all(isinstance(end, (asyncio.TimeoutError, asyncio.CancelledError)) for end in ends)


@pytest.mark.parametrize("deserializer", [None, bytes.decode], ids=["bytes", "text"])
def test_an_anext_that_never_began_takes_no_record(broker, topic, deserializer):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            await producer.send_many(topic, [b"%d" % n for n in range(5)], partition=0)
        config = {"group_id": topic, "topics": [topic], "auto_offset_reset": "earliest"}
        async with klamm.AsyncConsumer(broker.bootstrap_servers, value_deserializer=deserializer, **config) as consumer:
            read = [(await anext(consumer)).offset]
            await cancel_at_once(lambda: anext(consumer))
            await consumer.commit()
            committed = (await consumer.committed([klamm.TopicPartition(topic, 0)])).popitem()[1]
            while len(read) < 5:
                read.append((await asyncio.wait_for(anext(consumer), 20)).offset)
            return read, committed

    assert asyncio.run(main()) == (list(range(5)), 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("style", ["group", "share group"])
def test_reads_that_are_cancelled_at_random_lose_no_record(broker, topic, style, seed):
    choice, count = random.Random(seed), 60
    if style == "share group":
        with klamm.Admin(broker.bootstrap_servers) as admin:
            configure_group(admin, topic, {"share.auto.offset.reset": "earliest"})

    async def read(consumer):
        """Read the offsets. Some reads are cancelled before they begin, or a few turns of the loop later."""
        offsets = []
        while len(offsets) < count:
            reading = asyncio.ensure_future(anext(consumer))
            if choice.random() < 0.6:
                for _ in range(choice.randrange(4)):
                    await asyncio.sleep(0)
                reading.cancel()
            try:
                offsets.append((await asyncio.wait_for(reading, 30)).offset)
            except asyncio.CancelledError:
                continue
        return offsets

    async def main():
        servers, partition = broker.bootstrap_servers, klamm.TopicPartition(topic, 0)
        async with klamm.AsyncProducer(servers) as producer, klamm.AsyncAdmin(servers) as admin:
            await producer.send_many(topic, [b"v"] * count, partition=0)
            if style == "group":
                options = {"group_id": topic, "topics": [topic], "auto_offset_reset": "earliest"}
                async with klamm.AsyncConsumer(servers, **options) as consumer:
                    offsets = await read(consumer)
                return offsets, (await admin.group_offsets(topic))[partition]
            async with klamm.AsyncShareConsumer(servers, topic, [topic]) as consumer:
                offsets = await read(consumer)
            # A record that was taken and not delivered would come before this one.
            await producer.send(topic, b"last", partition=0)
            async with klamm.AsyncShareConsumer(servers, topic, [topic]) as consumer:
                return offsets, (await asyncio.wait_for(anext(consumer), 30)).offset

    assert asyncio.run(main()) == (list(range(count)), count)


@pytest.mark.parametrize("deserializer", [None, bytes.decode], ids=["bytes", "text"])
def test_anext_with_a_default_returns_it_at_the_end_and_raises_errors(broker, topic, deserializer):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            await producer.send(topic, b"0", partition=0)
        consumer = klamm.AsyncConsumer(broker.bootstrap_servers, value_deserializer=deserializer)
        consumer.assign([klamm.TopicPartition(topic, 0, 0, 1)])
        seen = []
        while (record := await anext(consumer, None)) is not None:
            seen.append(record.offset)
        assert await anext(consumer, "end") == "end"
        await consumer.unsubscribe()
        with pytest.raises(ConfigError, match="wait for ever"):
            await anext(consumer, None)
        await consumer.close()
        with pytest.raises(ClosedError):
            await anext(consumer, None)
        return seen

    assert asyncio.run(main()) == [0]


@pytest.mark.parametrize("style", ["consumer", "share consumer"])
def test_anext_with_a_default_raises_the_errors_of_a_broker(style):
    async def main():
        with DevBroker() as dev:
            dev.fault("FindCoordinator", "error", error="GROUP_AUTHORIZATION_FAILED", times=None)
            make = klamm.AsyncConsumer if style == "consumer" else klamm.AsyncShareConsumer
            async with make(dev.bootstrap_servers, group_id="g", topics=["t"]) as consumer:
                with pytest.raises(GroupAuthorizationFailedError):
                    await asyncio.wait_for(anext(consumer, None), 20)

    asyncio.run(main())


def test_an_error_that_is_known_is_raised_by_the_await(broker, topic):
    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers, max_request_size=10_000) as producer:
            delivery = producer.send_nowait(topic, b"v", partition=77)
            with pytest.raises(ConfigError, match="not 77"):
                await delivery
            waiting = delivery.within(5)
            with pytest.raises(ConfigError, match="not 77"):
                await waiting
            with pytest.raises(ConfigError, match="not 77"):
                await asyncio.wait_for(delivery.within(5), 20)

    asyncio.run(main())


def test_a_wait_starts_with_its_first_step(broker, topic):
    with klamm.Producer(broker.bootstrap_servers, linger_ms=200) as producer:
        waiting = producer.send(topic, b"v").within(20)  # no event loop runs yet

        async def main():
            return (await waiting).offset

        assert asyncio.run(main()) == 0


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
        with pytest.raises(KafkaTimeoutError, match="1 record was still in flight"):
            await producer.close(timeout=0.05)

    asyncio.run(main())


def test_a_client_works_on_one_loop_after_another(broker, topic):
    producer = klamm.AsyncProducer(broker.bootstrap_servers)

    async def send():
        return await producer.send(topic, b"v")

    assert [asyncio.run(send()).offset for _ in range(3)] == [0, 1, 2]
    asyncio.run(producer.close())


class Proactor(asyncio.SelectorEventLoop):
    """An event loop that cannot watch sockets, like Windows' proactor loop."""

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


def test_a_loop_that_is_closed_early_does_not_disturb_the_producer(broker, topic):
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


def test_a_wait_for_a_delivery_times_out_and_the_record_is_still_sent():
    async def main():
        with DevBroker() as broker:
            async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer:
                await producer.send("t", b"first")
                broker.fault("Produce", "delay", seconds=0.5)
                delivery = producer.send_nowait("t", b"slow")
                with pytest.raises(KafkaTimeoutError, match=r"no acknowledgement within 0\.05 s"):
                    await delivery.within(0.05)
                return (await delivery.within(20)).offset, (await delivery.within(None)).offset

    assert asyncio.run(main()) == (1, 1)


def test_each_task_resumes_in_its_own_context(broker, topic):
    name = contextvars.ContextVar("name")

    async def one(producer, mine):
        name.set(mine)
        for _ in range(50):
            await producer.send(topic, b"v")
            assert name.get() == mine
            assert asyncio.current_task().get_name() == mine

    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer:
            await asyncio.gather(*[asyncio.create_task(one(producer, mine), name=mine) for mine in ("a", "b", "c")])
            assert name.get(None) is None

    asyncio.run(main())


def test_a_cancelled_wait_names_the_reason(broker, topic):
    async def main():
        async with klamm.AsyncConsumer(broker.bootstrap_servers, topics=[topic]) as consumer:
            waiting = asyncio.create_task(consumer.poll(timeout=20))
            await asyncio.sleep(0)
            waiting.cancel("shutting down")
            with pytest.raises(asyncio.CancelledError, match="shutting down"):
                await waiting
            assert not await consumer.poll(timeout=0.01)

    asyncio.run(main())


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_gets_through_a_task_that_was_waiting(broker, topic, kind):
    async def main(producer):
        for _ in range(20):
            await producer.send(topic, b"v")
        raise kind

    producer = klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0)
    with pytest.raises(kind):
        asyncio.run(main(producer))
    asyncio.run(producer.close())


def test_tasks_written_in_python_wait_as_well(broker, topic):
    """Tasks written in Python, as debuggers and nested loops use them. They inspect awaitables differently from tasks
    in C.
    """

    async def main():
        asyncio.get_running_loop().set_task_factory(
            lambda loop, coroutine, **kw: PythonTask(coroutine, loop=loop, **kw)
        )
        async with klamm.AsyncProducer(broker.bootstrap_servers, linger_ms=0) as producer:
            return await asyncio.create_task(last_of(producer))

    async def last_of(producer):
        return [(await producer.send(topic, b"v")).offset for _ in range(50)][-1]

    PythonTask = asyncio.tasks._PyTask  # noqa: N806
    assert asyncio.run(main()) == 49


def test_polls_that_found_nothing_leave_nothing(broker, topic):
    def waits():
        return sum(type(thing).__name__ == "LoopFuture" for thing in gc.get_objects())

    async def main():
        async with klamm.AsyncConsumer(broker.bootstrap_servers) as consumer:
            consumer.assign([klamm.TopicPartition(topic, 0, 0)])
            for _ in range(50):
                assert not await consumer.poll(timeout=0.001)
            waiting = [asyncio.create_task(consumer.poll(timeout=20)) for _ in range(50)]
            await asyncio.sleep(0)
            assert waits() == 50
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            del waiting, task
            return waits()

    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.partitions_for(topic)
    assert asyncio.run(main()) == 0


def value(number):
    """Return a value that fills a fifth of a small buffer."""
    return b"%04d" % number * 250


def in_log(broker, **config):
    """Return the numbers of the values in topic `t`, in order."""
    table = klamm.read_table(broker.bootstrap_servers, "t", columns=["value"], **config)
    return [int(bytes(v[:4])) for v in table.column("value").to_pylist()]


@pytest.fixture
def one_topic():
    """A broker with a topic of one partition and a configurable delay."""
    with DevBroker() as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"t": klamm.NewTopic(partitions=1)})
        yield broker


QUEUED = pytest.mark.parametrize(
    "config", [{"buffer_memory": 5_000}, {"partitioner": lambda *_: 0}], ids=["full buffer", "own partitioner"]
)


@QUEUED
def test_a_flush_covers_records_that_wait_their_turn(one_topic, config):
    async def main():
        async with klamm.AsyncProducer(one_topic.bootstrap_servers, **config) as producer:
            sends = [producer.send("t", value(i)) for i in range(40)]
            await producer.flush(timeout=20)
            # The sender's own task may have its turn after this one.
            assert in_log(one_topic) == list(range(40))
            await asyncio.gather(*sends)

    asyncio.run(main())


def test_first_records_of_a_topic_keep_their_order_while_its_partitions_are_unknown(one_topic):
    async def main():
        async with klamm.AsyncProducer(one_topic.bootstrap_servers, partitioner=lambda *_: 0) as producer:
            ask, turns = producer.partitions_for, iter(range(9, 0, -1))

            async def resume_in_reverse_order(topic, timeout=None):
                partitions = await ask(topic, timeout)
                for _ in range(next(turns)):
                    await asyncio.sleep(0)
                return partitions

            producer.partitions_for = resume_in_reverse_order
            await asyncio.gather(*(producer.send("t", value(i)) for i in range(9)))

    asyncio.run(main())
    assert in_log(one_topic) == list(range(9))


@QUEUED
def test_a_commit_covers_records_that_wait_their_turn(one_topic, config):
    async def main():
        async with klamm.AsyncProducer(one_topic.bootstrap_servers, transactional_id="tx", **config) as producer:
            async with producer.transaction() as tx:
                sends = [tx.send("t", value(i)) for i in range(40)]
            await asyncio.gather(*sends)

    asyncio.run(main())
    assert in_log(one_topic, isolation_level="read_committed") == list(range(40))


@QUEUED
def test_a_close_covers_records_that_wait_their_turn(one_topic, config):
    async def main():
        producer = klamm.AsyncProducer(one_topic.bootstrap_servers, **config)
        sends = [producer.send("t", value(i)) for i in range(40)]
        await producer.close(timeout=20)
        return [metadata.offset for metadata in await asyncio.gather(*sends)]

    assert asyncio.run(main()) == list(range(40))
    assert in_log(one_topic) == list(range(40))


@pytest.mark.parametrize("bulk", ["send_many", "send_arrow"])
def test_bulk_calls_do_not_overtake_records_that_wait_their_turn(one_topic, bulk):
    async def main():
        async with klamm.AsyncProducer(one_topic.bootstrap_servers, buffer_memory=5_000) as producer:
            await producer.send("t", value(0))
            one_topic.fault("Produce", "delay", seconds=0.3)
            sends = [producer.send("t", value(i)) for i in range(1, 20)]
            values = [value(i) for i in range(20, 23)]
            await getattr(producer, bulk)("t", values if bulk == "send_many" else pa.table({"value": values}))
            await asyncio.gather(*sends)

    asyncio.run(main())
    assert in_log(one_topic) == list(range(23))


def test_an_abort_ends_records_that_wait_their_turn(one_topic):
    async def main():
        config = {"transactional_id": "tx", "buffer_memory": 5_000}
        async with klamm.AsyncProducer(one_topic.bootstrap_servers, **config) as producer:
            tx = producer.transaction()
            await tx.__aenter__()
            await tx.send("t", value(0))
            one_topic.fault("Produce", "delay", seconds=0.5)
            sends = [tx.send("t", value(i)) for i in range(1, 40)]
            await tx.abort(timeout=20)
            ends = await asyncio.gather(*sends, return_exceptions=True)
            assert sum(isinstance(end, TransactionAbortedError) for end in ends) > 30
            async with producer.transaction() as tx:
                await asyncio.gather(*(tx.send("t", value(i)) for i in range(40)))

    asyncio.run(main())
    assert in_log(one_topic, isolation_level="read_committed") == list(range(40))


def test_a_record_that_fails_in_the_send_queue_aborts_the_transaction(one_topic):
    async def main():
        config = {"transactional_id": "tx", "partitioner": lambda *_: "nonsense"}
        async with klamm.AsyncProducer(one_topic.bootstrap_servers, **config) as producer:
            tx = producer.transaction()
            await tx.__aenter__()
            await tx.send("t", value(0), partition=0)
            lost = tx.send("t", value(1))
            with pytest.raises(TransactionAbortedError, match="partitioner has to return an int"):
                await tx.commit(timeout=20)
            with pytest.raises(TypeError, match="partitioner has to return an int"):
                await lost

    asyncio.run(main())
    assert in_log(one_topic, isolation_level="read_committed") == []


def test_a_flush_and_a_close_that_time_out_say_what_waited(one_topic):
    async def main():
        producer = klamm.AsyncProducer(one_topic.bootstrap_servers, buffer_memory=5_000)
        await producer.send("t", value(0))
        one_topic.fault("Produce", "delay", seconds=600, times=None)
        sends = [producer.send("t", value(i)) for i in range(40)]
        with pytest.raises(
            KafkaTimeoutError, match=r"the flush did not complete within 0\.05 s: 3. records are still queued"
        ):
            await producer.flush(timeout=0.05)
        with pytest.raises(KafkaTimeoutError, match="records were still in flight"):
            await producer.close(timeout=0.05)
        return await asyncio.gather(*sends, return_exceptions=True)

    assert {type(end) for end in asyncio.run(main())} == {ClosedError}


def test_no_record_is_queued_for_longer_than_max_block_ms(one_topic):
    async def main():
        producer = klamm.AsyncProducer(one_topic.bootstrap_servers, buffer_memory=5_000, max_block_ms=300)
        await producer.send("t", value(0))
        one_topic.fault("Produce", "delay", seconds=600, times=None)
        for i in range(4):
            producer.send_nowait("t", value(i))
        sends = [producer.send("t", value(i)) for i in range(100)]
        # One after the other they would wait for half a minute.
        ends = await asyncio.wait_for(asyncio.gather(*sends, return_exceptions=True), 10)
        assert {type(end) for end in ends} == {KafkaTimeoutError}
        assert all("no room in the buffer" in str(end) for end in ends)
        with pytest.raises(KafkaTimeoutError, match="4 records were still in flight"):
            await producer.close(timeout=0)

    asyncio.run(main())


def test_a_send_that_is_cancelled_in_the_send_queue_is_not_sent(one_topic):
    async def main():
        async with klamm.AsyncProducer(one_topic.bootstrap_servers, buffer_memory=5_000) as producer:
            await producer.send("t", value(0))
            one_topic.fault("Produce", "delay", seconds=0.2)
            sends = [producer.send("t", value(i)) for i in range(1, 20)]
            sends[14].cancel()
            await asyncio.sleep(0)
            sends[12].cancel()
            await asyncio.gather(*sends, return_exceptions=True)

    asyncio.run(main())
    assert in_log(one_topic) == [i for i in range(20) if i not in {13, 15}]


def test_a_send_queue_of_a_closed_loop_blocks_no_other_record(one_topic):
    producer = klamm.AsyncProducer(one_topic.bootstrap_servers, buffer_memory=5_000)

    async def start():
        await producer.send("t", value(0))
        one_topic.fault("Produce", "delay", seconds=0.2)
        return [producer.send("t", value(i)) for i in range(1, 20)]

    async def main():
        sends = [producer.send("t", value(i)) for i in range(20, 40)]
        await producer.flush(timeout=20)
        await asyncio.gather(*sends)

    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(start())
    loop.close()
    asyncio.run(main())
    asyncio.run(producer.close(timeout=20))
    assert in_log(one_topic)[-20:] == list(range(20, 40))
    del left
