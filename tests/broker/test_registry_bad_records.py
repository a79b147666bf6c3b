"""Each kind of bad record, read as columns and as objects: a typed error with the place of the record, or a null or error row."""

from __future__ import annotations

import asyncio
import json

import pytest

import klamm
from klamm.errors import DecodeError, DeserializationError
from klamm.registry import (
    AvroDeserializer,
    JsonDeserializer,
    ProtobufDeserializer,
    Schema,
    SchemaError,
    SchemaNotFoundError,
    SchemaRegistry,
)
from klamm.registry.dev import DevRegistry

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}
AVRO = json.dumps({"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"]},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
        {"name": "sku", "type": "string"}, {"name": "price", "type": DECIMAL}]}}}]})  # fmt: skip
JSON = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object", "properties": {
    "id": {"type": "integer"}, "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}}}})  # fmt: skip
PROTO = 'syntax = "proto3"; message Order { int32 id = 1; message Line { string sku = 1; } repeated Line lines = 2; }'
SCHEMAS = {"avro": Schema(AVRO), "json": Schema(JSON, "JSON"), "protobuf": Schema(PROTO, "PROTOBUF")}
OTHERS = {"avro": SCHEMAS["json"], "json": SCHEMAS["protobuf"], "protobuf": SCHEMAS["avro"]}
DESERIALIZERS = {"avro": AvroDeserializer, "json": JsonDeserializer, "protobuf": ProtobufDeserializer}
GOOD = {
    "avro": b"\x02\x02\x02x\x00\x02\x02s\x02\x05\x00",
    "json": b'{"id": 1, "lines": [{"sku": "s"}]}',
    "protobuf": b"\x00\x08\x01\x12\x03\x0a\x01s",
}
# The format, the bytes after the framing, what the error says, and the path of the field.
BAD = {
    "avro shorter": ("avro", GOOD["avro"][:-2], "shorter|length", "lines[0].price"),
    "avro longer": ("avro", GOOD["avro"] + b"\x00", "before the end", ""),
    "avro union branch": ("avro", b"\x02\x04", "no branch", "note"),
    "avro enum symbol": ("avro", b"\x02\x00\x04", "no symbol", "kind"),
    "avro string": ("avro", b"\x02\x00\x00\x02\x02\xff\x02\x05\x00", "UTF-8", "lines[0].sku"),
    "avro decimal": ("avro", b"\x02\x00\x00\x02\x02s\x04\x03\xe8\x00", "more than 2 digits", "lines[0].price"),
    "avro number": ("avro", b"\xfe\xff\xff\xff\xff\x01\x00\x00\x00", "32 bits|an int is", "id"),
    "avro items": ("avro", b"\x02\x00\x00\xfe\xff\xff\xff\xff\x01", "items", "lines"),
    "json shorter": ("json", GOOD["json"][:-1], "not valid JSON|not JSON", ""),
    "json longer": ("json", GOOD["json"] + b"}", "not valid JSON|not JSON", ""),
    "json string": ("json", b'{"lines": [{"sku": "\xff"}]}', "not valid JSON|not JSON", None),
    "json type": ("json", b'{"id": 1, "lines": [{"sku": 5}]}', "number|does not fit", "lines[0].sku"),
    "json nesting": ("json", b'{"id": ' + b"[" * 100_000, "array|not JSON", None),
    "protobuf shorter": ("protobuf", GOOD["protobuf"][:-1], "shorter|is not", None),
    "protobuf longer": ("protobuf", GOOD["protobuf"] + b"\x08", "shorter|is not", None),
    "protobuf string": ("protobuf", b"\x00\x12\x03\x0a\x01\xff", "UTF-8|is not", None),
    "protobuf group": ("protobuf", b"\x00" + b"\xab\x06" * 200, "nested|is not", None),
    "protobuf message": ("protobuf", b"\x02\x08", "position", None),
}  # fmt: skip


@pytest.fixture
def registry(pair):
    with SchemaRegistry(pair[1].url) as running:
        yield running


def framed(schema_id, payload):
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


def check(error, topic, value, why):
    """Check what the error of the bad record says, and return its cause."""
    assert isinstance(error, DeserializationError)
    assert isinstance(error, DecodeError)
    assert (error.topic, error.partition, error.offset) == (topic, 1, 2)
    assert error.record.raw_value == value
    text = f"{error}: {error.__cause__}"
    assert f"{topic}-1 at offset 2" in text
    assert any(part in text for part in why.split("|")), text
    return error.__cause__


def read_each(servers, topic, kind, registry, value, why):  # noqa: PLR0917
    """Read a bad record between two good ones, in all ways, and return the causes of the errors."""
    causes = []
    with klamm.Consumer(servers, value_deserializer=DESERIALIZERS[kind](registry)) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 1, 1, 4)])
        before, bad, after = consumer
        assert before.value == after.value is not None
        with pytest.raises(DeserializationError) as raised:
            bad.value  # noqa: B018
        causes.append(check(raised.value, topic, value, why))

    async def read():
        async with klamm.AsyncConsumer(servers) as consumer:
            consumer.assign([klamm.TopicPartition(topic, 1, 1, 4)])
            with pytest.raises(DeserializationError) as raised:  # noqa: PT012
                async for batch in consumer.arrow(value_format=kind, registry=registry, columns=["offset", "value"]):
                    assert batch.column("offset").to_pylist() == [1]
            rest = [b async for b in consumer.arrow(value_format=kind, registry=registry, columns=["offset"])]
            assert [offset for batch in rest for offset in batch.column("offset").to_pylist()] == [3]
            return raised.value

    causes.append(check(asyncio.run(read()), topic, value, why))
    options = {"value_format": kind, "registry": registry, "start": {1: 1}, "columns": ["offset", "value"]}
    with pytest.raises(DeserializationError) as raised:
        klamm.read_table(servers, topic, **options)
    causes.append(check(raised.value, topic, value, why))
    before, bad, after = klamm.read_table(servers, topic, on_error="null", **options).sort_by("offset")["value"]
    assert before.as_py() == after.as_py() is not None
    assert bad.as_py() is None
    found = klamm.read_table(servers, topic, on_error="column", **options).sort_by("offset").to_pylist()
    assert [row["value_raw"] for row in found] == [None, value, None]
    assert any(part in found[1]["value_error"] for part in why.split("|"))
    return causes


def send(servers, topic, good, bad):
    with klamm.Admin(servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(2)})
    with klamm.Producer(servers) as producer:
        producer.send_many(topic, [good, good, bad, good], partition=1)


@pytest.mark.parametrize("what", BAD)
def test_a_damaged_value(pair, registry, topic, what):
    kind, payload, why, path = BAD[what]
    schema_id = registry.register(f"{topic}-value", SCHEMAS[kind]).id
    good = framed(schema_id, GOOD[kind])
    value = framed(schema_id, payload)
    send(pair[0].bootstrap_servers, topic, good, value)
    causes = read_each(pair[0].bootstrap_servers, topic, kind, registry, value, why)
    assert all(isinstance(cause, SchemaError) for cause in causes)
    assert {cause.schema_id for cause in causes} == {schema_id}
    if path is not None:
        assert [cause.path for cause in causes] == [path] * 3


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_damaged_framing(pair, registry, topic, kind):
    schema_id = registry.register(f"{topic}-value", SCHEMAS[kind]).id
    good = framed(schema_id, GOOD[kind])
    for number, (value, why) in enumerate(
        [(b"\x05" + good[1:], "framing"), (good[:3], "framing"), (b"\x01" + bytes(15), "framing"), (b"", "empty")]
    ):
        send(pair[0].bootstrap_servers, f"{topic}-{number}", good, value)
        registry.register(f"{topic}-{number}-value", SCHEMAS[kind])
        causes = read_each(pair[0].bootstrap_servers, f"{topic}-{number}", kind, registry, value, why)
        assert [(type(cause), cause.path) for cause in causes] == [(SchemaError, "")] * 3


@pytest.mark.parametrize("kind", SCHEMAS)
def test_an_unknown_schema_id(pair, registry, topic, kind):
    schema_id = registry.register(f"{topic}-value", SCHEMAS[kind]).id
    good, value = framed(schema_id, GOOD[kind]), framed(987_654, GOOD[kind])
    send(pair[0].bootstrap_servers, topic, good, value)
    causes = read_each(pair[0].bootstrap_servers, topic, kind, registry, value, "987654")
    assert {type(cause) for cause in causes} == {SchemaNotFoundError}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_of_another_type(pair, registry, topic, kind):
    schema_id = registry.register(f"{topic}-value", SCHEMAS[kind]).id
    other = registry.register(f"{topic}-other", OTHERS[kind])
    good, value = framed(schema_id, GOOD[kind]), framed(other.id, GOOD[kind])
    send(pair[0].bootstrap_servers, topic, good, value)
    causes = read_each(pair[0].bootstrap_servers, topic, kind, registry, value, f"of type {other.schema.type}")
    assert [(type(cause), cause.schema_id) for cause in causes] == [(SchemaError, other.id)] * 3


BROKEN = {"avro": '{"type": "record"}', "json": '{"type": ', "protobuf": "message Order {"}


@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_a_schema_of_a_writer_that_does_not_parse(dev_pair, topic, kind):
    with DevRegistry() as dev, SchemaRegistry(dev.url) as registry:
        schema_id = registry.register(f"{topic}-value", SCHEMAS[kind]).id
        newer = {"avro": AVRO.replace('"Order"', '"Order", "doc": "x"'), "protobuf": PROTO + "message Other {}"}[kind]
        broken_id = registry.register(f"{topic}-other", Schema(newer, SCHEMAS[kind].type)).id
        dev._store._schemas[".", broken_id].text = BROKEN[kind]
        registry.clear_cache()
        good, value = framed(schema_id, GOOD[kind]), framed(broken_id, GOOD[kind])
        send(dev_pair[0].bootstrap_servers, topic, good, value)
        causes = read_each(dev_pair[0].bootstrap_servers, topic, kind, registry, value, "invalid|cannot parse")
        assert [(type(cause), cause.schema_id) for cause in causes] == [(SchemaError, broken_id)] * 3


def test_a_recursive_schema_is_refused_by_columns_and_read_by_deserializers(dev_pair, topic):
    servers, kind = dev_pair[0].bootstrap_servers, "json"
    text = '{"title": "Order", "type": "object", "properties": {"next": {"$ref": "#"}}}'
    payload = b'{"next": {}}'
    with SchemaRegistry(dev_pair[1].url) as registry:
        schema_id = registry.register(f"{topic}-value", Schema(text, SCHEMAS[kind].type)).id
        with klamm.Producer(servers) as producer:
            producer.send(topic, framed(schema_id, payload), partition=0)
        with pytest.raises(SchemaError, match="recursive") as raised:
            klamm.read_table(servers, topic, value_format=kind, registry=registry)
        assert raised.value.path == "next"
        with klamm.Consumer(servers, value_deserializer=DESERIALIZERS[kind](registry)) as consumer:
            consumer.assign([klamm.TopicPartition(topic, 0, 0, 1)])
            assert next(record.value for record in consumer) is not None
