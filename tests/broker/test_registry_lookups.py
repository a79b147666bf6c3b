"""Lookups of schemas that fail, or that the program cancels."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

import klamm
from klamm import TopicPartition
from klamm.errors import DeserializationError
from klamm.registry import (
    AsyncSchemaRegistry,
    AvroDeserializer,
    AvroSerializer,
    RegistryUnavailableError,
    SchemaRegistry,
)
from klamm.testing import DevBroker
from settled import configure_group

RECORDS = 10


@pytest.fixture
def numbers():
    """Ten numbers in topic `t`, and as many texts in topic `u`."""
    with DevBroker(schema_registry=True) as broker:
        with SchemaRegistry(broker.schema_registry.url) as registry:
            for topic, schema in ("t", '"int"'), ("u", '"string"'):
                to_bytes = AvroSerializer(registry, schema)
                with klamm.Producer(broker.bootstrap_servers, value_serializer=to_bytes) as producer:
                    for n in range(RECORDS):
                        producer.send(topic, n if topic == "t" else str(n), partition=0)
        yield broker


def values(records):
    found = []
    for record in records:
        with pytest.raises(DeserializationError) as caught:
            found.append(record.value)
        found.append(type(caught.value.__cause__))
    return found


def test_a_second_read_of_a_record_retries_the_lookup(numbers):
    with SchemaRegistry(numbers.schema_registry.url, max_retries=0) as registry:
        options = {"auto_offset_reset": "earliest", "value_deserializer": AvroDeserializer(registry)}
        with klamm.Consumer(numbers.bootstrap_servers, topics=["t"], **options) as consumer:
            numbers.schema_registry.fault("error", status=503, times=None)
            records = list(consumer.poll(20))
            assert set(values(records)) == {RegistryUnavailableError}
            numbers.schema_registry.clear_faults()
            assert [record.value for record in records] == [*range(len(records))]


async def until_value(record):
    """Read a record until its schema is known, and return the value. No other lookup of the program runs meanwhile."""
    while True:
        try:
            return record.value
        except DeserializationError:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("is_share", [False, True], ids=["consumer", "share"])
@pytest.mark.parametrize("kind", [AsyncSchemaRegistry, SchemaRegistry], ids=["asyncio", "blocking"])
def test_on_an_event_loop_a_failed_lookup_starts_again_in_the_background(numbers, kind, is_share):
    down = {"status": 503, "times": None}

    async def main():
        registry = kind(numbers.schema_registry.url, max_retries=0)
        options = {"topics": ["t"], "value_deserializer": AvroDeserializer(registry)}
        if is_share:
            consumer = klamm.AsyncShareConsumer(numbers.bootstrap_servers, group_id="s", **options)
        else:
            consumer = klamm.AsyncConsumer(numbers.bootstrap_servers, auto_offset_reset="earliest", **options)
        async with consumer:
            numbers.schema_registry.fault("error", **down)
            records = list(await consumer.poll(20))
            for _ in range(2):
                with pytest.raises(DeserializationError) as caught:
                    _ = records[0].value
                assert type(caught.value.__cause__) is RegistryUnavailableError
            # The first attempt fails, and a later one finds the schema without another read.
            before = len(numbers.schema_registry.requests())
            while len(numbers.schema_registry.requests()) == before:  # noqa: ASYNC110 - the requests come from elsewhere
                await asyncio.sleep(0.01)
            numbers.schema_registry.clear_faults()
            assert await asyncio.wait_for(until_value(records[0]), 30) == 0
            assert [record.value for record in records] == [*range(len(records))]
        closing = registry.close()
        if closing is not None:
            await closing

    if is_share:
        with klamm.Admin(numbers.bootstrap_servers) as admin:
            configure_group(admin, "s", {"share.auto.offset.reset": "earliest"})
    asyncio.run(main())


def test_another_thread_than_that_of_the_event_loop_looks_up_the_schema(numbers):
    async def main():
        with SchemaRegistry(numbers.schema_registry.url, max_retries=0) as registry:
            options = {"auto_offset_reset": "earliest", "value_deserializer": AvroDeserializer(registry)}
            async with klamm.AsyncConsumer(numbers.bootstrap_servers, topics=["t"], **options) as consumer:
                numbers.schema_registry.fault("error", status=503, times=None)
                record = next(iter(await consumer.poll(20)))
                with pytest.raises(DeserializationError):
                    _ = record.value
                numbers.schema_registry.clear_faults()
                assert await asyncio.to_thread(lambda: record.value) == 0

    asyncio.run(main())


@pytest.mark.parametrize("kind", [AsyncSchemaRegistry, SchemaRegistry], ids=["asyncio", "blocking"])
def test_the_records_of_a_poll_share_a_failed_lookup(numbers, style, kind):
    if style.name == "sync":
        kind = SchemaRegistry
    registry = kind(numbers.schema_registry.url, max_retries=0)
    options = {"auto_offset_reset": "earliest", "value_deserializer": AvroDeserializer(registry)}
    numbers.schema_registry.fault("error", status=503, times=None)
    with style.consumer(numbers.bootstrap_servers, topics=["t", "u"], **options) as consumer:
        before, count, polls = len(numbers.schema_registry.requests()), 0, 0
        while count < 2 * RECORDS:
            records = consumer.poll(20, max_records=4)
            assert set(values(records)) == {RegistryUnavailableError}
            assert values(records[:2]) == [RegistryUnavailableError] * len(records[:2])
            count, polls = count + len(records), polls + 1
        # On asyncio, the first read of a record also starts one lookup in the background.
        assert len(numbers.schema_registry.requests()) - before <= (2 if style.name == "sync" else 4) * polls
        numbers.schema_registry.clear_faults()
        for partition in consumer.assignment():
            consumer.seek(partition, 0)
        seen = []
        while len(seen) < 2 * RECORDS:
            seen += [record.value for record in consumer.poll(20)]  # the next poll looks up the schemas again
        assert {*range(RECORDS), *map(str, range(RECORDS))} == set(seen)
    style.wait(registry.close())


class Gate:
    """A deserializer of the registry's kind, whose lookups wait until the test lets them end."""

    def __init__(self):
        self.asked, self.opened = asyncio.Event(), asyncio.Event()
        self.is_known = False

    def __call__(self, data):
        return data

    def missing(self, *_):
        return None if self.is_known else 1

    def is_prepared(self, *of_record):
        return self.missing(*of_record) is None

    async def prepare(self, *_):
        self.asked.set()
        await self.opened.wait()
        self.is_known = True

    def deserialize(self, data, *_):
        return data


async def cancelled(make, gate):
    """Cancel a read while it looks up a schema."""
    reading, asked = asyncio.ensure_future(make()), asyncio.ensure_future(gate.asked.wait())
    await asyncio.wait({reading, asked}, return_when=asyncio.FIRST_COMPLETED)
    assert not reading.done(), reading.result()
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    gate.opened.set()


def offsets(records):
    return [record.offset for record in records]


READS = {"poll": lambda consumer: consumer.poll(20), "next": anext}


@pytest.fixture
def filled():
    with DevBroker() as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"t": klamm.NewTopic(partitions=2)})
            configure_group(admin, "s", {"share.auto.offset.reset": "earliest"})
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [b"%d" % n for n in range(RECORDS)], partition=0)
        yield broker


def reader(broker, gate, **options):
    options = {"topics": ["t"], "auto_offset_reset": "earliest", "value_deserializer": gate, **options}
    return klamm.AsyncConsumer(broker.bootstrap_servers, **options)


@pytest.mark.parametrize("read", READS)
def test_records_of_a_cancelled_read_are_not_committed_and_come_again(filled, read):
    async def main():
        gate = Gate()
        async with reader(filled, gate, group_id="g") as consumer:
            await cancelled(lambda: READS[read](consumer), gate)
        async with klamm.AsyncAdmin(filled.bootstrap_servers) as admin:
            assert set((await admin.group_offsets("g")).values()) <= {0}
        async with reader(filled, gate, group_id="g") as consumer:
            assert offsets(await consumer.poll(20, max_records=3)) == [0, 1, 2]
            assert offsets(await consumer.poll(20)) == [*range(3, RECORDS)]

    asyncio.run(main())


MOVES = {
    "seek": (lambda consumer: consumer.seek(TopicPartition("t", 0), 7), [7, 8, 9]),
    "max records": (lambda _: None, [0, 1, 2, 3]),
    "assign": (lambda consumer: consumer.assign([TopicPartition("t", 0, 8)]), [8, 9]),
    "pause": (lambda consumer: consumer.pause([TopicPartition("t", 0)]), []),
    "subscribe": (lambda consumer: consumer.subscribe(["u"]), []),
    "unsubscribe": (lambda consumer: consumer.subscribe([]), []),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("move", MOVES)
def test_records_of_a_cancelled_read_obey_later_calls(filled, move, read):
    async def main():
        gate = Gate()
        async with reader(filled, gate) as consumer:
            await cancelled(lambda: READS[read](consumer), gate)
            act, expected = MOVES[move]
            act(consumer)
            assert offsets(await consumer.poll(20 if expected else 0.1, max_records=4)) == expected
            if move == "pause":
                consumer.resume([TopicPartition("t", 0)])
                assert offsets(await consumer.poll(20)) == [*range(RECORDS)]

    asyncio.run(main())


def test_a_call_during_a_lookup_applies_to_the_poll(filled):
    async def main():
        gate = Gate()
        async with reader(filled, gate) as consumer:
            polling = asyncio.ensure_future(consumer.poll(20))
            await gate.asked.wait()
            consumer.seek(TopicPartition("t", 0), 7)
            gate.opened.set()
            assert offsets(await polling) == [7, 8, 9]

    asyncio.run(main())


def test_a_member_does_not_deliver_records_of_partitions_that_it_lost(filled):
    async def main():
        gate = Gate()
        with klamm.Producer(filled.bootstrap_servers) as producer:
            producer.send_many("t", [b"%d" % n for n in range(RECORDS)], partition=1)
        options = {"group_id": "g", "heartbeat_interval_ms": 100}
        async with reader(filled, gate, **options) as first:
            await cancelled(lambda: first.poll(20), gate)
            async with reader(filled, None, **options) as second:
                seen = asyncio.ensure_future(second.poll(20))
                while not seen.done():
                    await first.poll(0.05, max_records=0)
                    await asyncio.sleep(0)  # a poll that has records does not give other tasks a turn
                lost = second.assignment()
                delivered = [*await first.poll(5), *await first.poll(1)]
                assert lost
                assert lost.isdisjoint(first.assignment())
                assert lost.isdisjoint(TopicPartition(record.topic, record.partition) for record in delivered)

    asyncio.run(main())


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_a_share_consumer_releases_the_records_of_a_cancelled_read(filled, mode, read):
    async def main():
        gate = Gate()
        options = {"group_id": "s", "topics": ["t"], "share_acknowledgement_mode": mode}
        async with klamm.AsyncShareConsumer(filled.bootstrap_servers, value_deserializer=gate, **options) as consumer:
            await cancelled(lambda: READS[read](consumer), gate)
            assert await consumer.commit() == {}
        options["share_acknowledgement_mode"] = "implicit"
        async with klamm.AsyncShareConsumer(filled.bootstrap_servers, **options) as consumer:
            seen = []
            while len(seen) < RECORDS:
                seen += offsets(await consumer.poll(20))
            assert seen == [*range(RECORDS)]

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["group", "share group"])
@pytest.mark.parametrize("seed", range(6))
def test_reads_that_are_cancelled_at_random_deliver_each_record_once(filled, seed, kind):
    """A deserializer that never knows its schema for long, a program that cancels, and other calls in between."""
    chance = random.Random(seed)

    class Forgetful(Gate):
        async def prepare(self, *_):
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
            self.is_known = True

        def deserialize(self, data, *_):
            self.is_known = chance.random() < 0.5
            return data

    async def main():
        if kind == "group":
            consumer = reader(filled, Forgetful(), group_id="g")
        else:
            options = {"group_id": "s", "topics": ["t"], "value_deserializer": Forgetful()}
            consumer = klamm.AsyncShareConsumer(filled.bootstrap_servers, **options)
        seen = []
        async with consumer:
            while len(seen) < RECORDS:
                one = chance.random() < 0.5
                read = anext(consumer) if one else consumer.poll(20, max_records=chance.randrange(1, 4))
                reading = asyncio.ensure_future(read)
                if chance.random() < 0.6:
                    await asyncio.wait([reading], timeout=chance.choice([0, 0, 0.001]))
                    reading.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    records = [await reading] if one else await reading
                    seen += [int(record.value) for record in records]
                if seen and kind == "group" and chance.random() < 0.3:  # a member cannot commit before it has joined
                    await consumer.commit()
                    partition = TopicPartition("t", 0)
                    assert ((await consumer.committed([partition]))[partition] or 0) == len(seen)
        assert seen == [*range(RECORDS)]

    asyncio.run(main())


def columns(consumer, registry):
    return consumer.arrow(value_format="avro", registry=registry, columns=["offset", "value"], timeout=1)


@pytest.mark.parametrize(("move", "expected"), [("stay", [*range(RECORDS)]), ("seek", [7, 8, 9]), ("pause", [])])
def test_rows_of_a_cancelled_lookup_are_not_committed_and_obey_later_calls(numbers, move, expected):
    partition = TopicPartition("t", 0)

    async def main():
        registry = AsyncSchemaRegistry(numbers.schema_registry.url)
        options = {"topics": ["t"], "group_id": "g", "auto_offset_reset": "earliest"}
        async with registry, klamm.AsyncConsumer(numbers.bootstrap_servers, **options) as consumer:
            before = len(numbers.schema_registry.requests())
            numbers.schema_registry.fault("delay", seconds=20)
            reading = asyncio.ensure_future(anext(columns(consumer, registry)))
            while len(numbers.schema_registry.requests()) == before:
                await asyncio.wait([reading], timeout=0.01)
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            await consumer.commit()
            assert (await consumer.committed([partition]))[partition] in (0, None)
            if move == "seek":
                consumer.seek(partition, 7)
            if move == "pause":
                consumer.pause([partition])
            assert [
                row async for batch in columns(consumer, registry) for row in batch["offset"].to_pylist()
            ] == expected

    asyncio.run(main())


def test_a_commit_between_two_batches_leaves_out_the_record_that_raises(numbers, style):
    with klamm.Producer(numbers.bootstrap_servers) as producer:
        producer.send("t", b"not Avro", partition=0).result(20)
    partition, url = TopicPartition("t", 0), numbers.schema_registry.url
    registry = SchemaRegistry(url)
    options = {"topics": ["t"], "group_id": "g", "auto_offset_reset": "earliest"}
    with registry, style.consumer(numbers.bootstrap_servers, **options) as consumer:
        counts = [0]

        def read():
            for batch in columns(consumer, registry):
                counts.append(counts[-1] + batch.num_rows)
                consumer.commit()
                assert consumer.committed([partition]) == {partition: counts[-1]}

        with pytest.raises(DeserializationError):
            read()
        assert counts[-1] == RECORDS
        assert not list(columns(consumer, registry))
