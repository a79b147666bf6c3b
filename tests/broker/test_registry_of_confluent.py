"""Typed columns beside confluent-kafka: what its producers and serializers write, and what its consumers read."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest
from confluent_kafka import SerializingProducer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

import klamm
from confluent_orders import FORMATS, PROTO, ROWS, TABLE, consumed, deserializer, plain, produced, serializer
from klamm.registry import AsyncSchemaRegistry, SchemaRegistry
from registry_samples import messages

LOGHUB = os.environ.get("KLAMM_LOGHUB")


@pytest.fixture
def servers(pair):
    return pair[0].bootstrap_servers


@pytest.fixture
def registry(pair):
    with SchemaRegistry(pair[1].url) as running:
        yield running


@pytest.fixture
def other(pair):
    with SchemaRegistryClient({"url": pair[1].url}) as running:
        yield running


@pytest.mark.parametrize("kind", FORMATS)
def test_klamm_reads_what_its_serializers_wrote(servers, registry, other, topic, kind):
    produced(servers, topic, serializer(other, kind), ROWS)
    options = MappingProxyType({"value_format": kind, "registry": registry})
    found = klamm.read_table(servers, topic, columns=["offset", "value"], **options)
    assert found["offset"].to_pylist() == [0, 1]
    assert plain(found["value"].to_pylist()) == ROWS
    with klamm.Consumer(servers) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, 0, 2)])
        batches = list(consumer.arrow(flatten=True, columns=["value"], **options))
    assert plain(pa.Table.from_batches(batches).drop(["value_is_null"]).to_pylist()) == ROWS

    async def read():
        async with AsyncSchemaRegistry(registry._settings.urls[0]) as client, klamm.AsyncConsumer(servers) as consumer:
            consumer.assign([klamm.TopicPartition(topic, 0, 0, 2)])
            asked = {"value_format": kind, "registry": client, "columns": ["value"], "flatten": True}
            return [batch async for batch in consumer.arrow(**asked)]

    found = pa.Table.from_batches(asyncio.run(read()))
    assert plain(found.drop(["value_is_null"]).to_pylist()) == ROWS


@pytest.mark.parametrize("given", ["derived", "given", "latest"])
@pytest.mark.parametrize("kind", FORMATS)
def test_its_deserializers_read_what_klamm_wrote(servers, registry, other, topic, kind, given):  # noqa: PLR0917
    options = {"value_format": kind, "registry": registry}
    if given != "derived":
        # Its serializer registers the schema, and writes the first record.
        produced(servers, topic, serializer(other, kind), ROWS[:1])
        latest = registry.get_version(f"{topic}-value").schema
        options["value_schema"] = latest if given == "given" else "latest"
    expected = ROWS if given == "derived" else [ROWS[0], *ROWS]
    with klamm.Producer(servers) as producer:
        partitioned = TABLE.append_column("partition", pa.array([0, 0], pa.int32()))
        producer.send_arrow(topic, partitioned, record_columns=["partition"], **options)
    message = PROTO
    if kind == "protobuf" and given == "derived":
        other = None  # the deserializer would ask for a descriptor, which Apicurio Registry does not return for a text
        text = registry.get_version(f"{topic}-value").schema.text
        classes = messages(text, "derived.proto")
        message = next(one for one in classes.values() if "counts" in one.DESCRIPTOR.fields_by_name)
    found = consumed(servers, topic, deserializer(other, kind, message), len(expected))
    assert [message.value() for message in found] == expected


def test_keys_of_both_clients(servers, registry, other, topic):
    key = AvroSerializer(other, '"string"')
    produced(servers, topic, serializer(other, "avro"), ROWS, **{"key.serializer": key})
    options = {"value_format": "avro", "key_format": "avro", "registry": registry}
    found = klamm.read_table(servers, topic, columns=["key", "value"], **options)
    assert found["key"].to_pylist() == ["k", "k"]
    with klamm.Producer(servers) as producer:
        producer.send_arrow(f"{topic}-copy", found, **options)
        producer.flush()
    reader = {"key.deserializer": AvroDeserializer(other)}
    back = consumed(servers, f"{topic}-copy", AvroDeserializer(other), 2, **reader)
    assert [(message.key(), message.value()) for message in back] == [("k", row) for row in ROWS]


LINE = json.dumps({"type": "record", "name": "Line", "fields": [
    {"name": "file", "type": "string"}, {"name": "number", "type": "int"}, {"name": "text", "type": "string"},
    {"name": "words", "type": {"type": "array", "items": "string"}},
    {"name": "digits", "type": ["null", "long"], "default": None}]})  # fmt: skip


@pytest.mark.skipif(LOGHUB is None, reason="KLAMM_LOGHUB names no copy of loghub")
def test_real_log_lines_pass_between_both_clients(servers, registry, other, topic):
    with klamm.Admin(servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(4), f"{topic}-copy": klamm.NewTopic(4)})
    lines = []
    for path in sorted(Path(LOGHUB).glob("*_2k.log")):
        for number, text in enumerate(path.read_text("utf-8", "replace").splitlines()):
            digits = "".join(letter for letter in text if letter in "0123456789")[:18]
            digits = int(digits) if digits else None
            lines.append({"file": path.name, "number": number, "text": text, "words": text.split(), "digits": digits})
    assert len(lines) >= 30_000
    encode = AvroSerializer(other, LINE)
    producer = SerializingProducer({"bootstrap.servers": servers, "value.serializer": encode, "linger.ms": 20})
    for at, line in enumerate(lines):
        producer.produce(topic, value=line, partition=at % 4)
        producer.poll(0)
    assert producer.flush(120) == 0
    options = {"value_format": "avro", "registry": registry}
    found = klamm.read_table(servers, topic, columns=["partition", "value"], flatten=True, **options)
    order = [("file", "ascending"), ("number", "ascending")]
    ours = found.sort_by(order)
    assert ours.drop(["partition", "value_is_null"]).to_pylist() == sorted(
        lines, key=lambda line: (line["file"], line["number"])
    )
    # The other way: klamm writes the columns, with a schema that it derives.
    with klamm.Producer(servers) as sender:
        parts = ["partition", "value_is_null"]
        assert sender.send_arrow(f"{topic}-copy", found, record_columns=parts, **options) == len(lines)
    back = consumed(servers, f"{topic}-copy", AvroDeserializer(other), len(lines), range(4))
    assert (
        sorted((m.value() for m in back), key=lambda line: (line["file"], line["number"]))
        == ours.drop(["partition", "value_is_null"]).to_pylist()
    )
