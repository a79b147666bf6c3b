"""Lookups of schemas that fail, or that the program cancels."""

from __future__ import annotations

import pytest

import klamm
from klamm.errors import DeserializationError
from klamm.registry import (
    AsyncSchemaRegistry,
    AvroDeserializer,
    AvroSerializer,
    RegistryUnavailableError,
    SchemaRegistry,
)
from klamm.testing import DevBroker

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
        assert len(numbers.schema_registry.requests()) - before <= 2 * polls
        numbers.schema_registry.clear_faults()
        for partition in consumer.assignment():
            consumer.seek(partition, 0)
        seen = []
        while len(seen) < 2 * RECORDS:
            seen += [record.value for record in consumer.poll(20)]  # the next poll looks up the schemas again
        assert {*range(RECORDS), *map(str, range(RECORDS))} == set(seen)
    style.wait(registry.close())
