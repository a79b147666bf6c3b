"""Typed Arrow columns from the schemas of a registry: formats, framings, schemas that change, flattening and errors."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import io
import json
import uuid
import warnings

import fastavro
import pyarrow as pa
import pytest

import klamm
from klamm.errors import ArgumentError, ConfigError, DeserializationError
from klamm.registry import (
    AsyncSchemaRegistry,
    AvroDeserializer,
    AvroSerializer,
    InvalidSchemaError,
    JsonSerializer,
    Reference,
    RegistryAuthenticationError,
    RegistryUnavailableError,
    Schema,
    SchemaError,
    SchemaNotFoundError,
    SchemaRegistry,
)
from klamm.registry.dev import DevRegistry
from klamm.registry.framing import written

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [
                {"name": "sku", "type": "string"}, {"name": "price", "type": "double"}]}}, "default": []},
    ],
}  # fmt: skip
VALUES = [{"id": 1, "note": "x", "lines": [{"sku": "a", "price": 1.5}]}, {"id": -2, "note": None, "lines": []}]


@pytest.fixture
def servers(pair):
    return pair[0].bootstrap_servers


@pytest.fixture
def registry(pair):
    with SchemaRegistry(pair[1].url) as running:
        yield running


def send(servers, topic, *values, keys=None, headers=()):
    """Send values, which are bytes or None, to one partition."""
    with klamm.Producer(servers) as producer:
        for at, value in enumerate(values):
            producer.send(topic, value, key=None if keys is None else keys[at], headers=headers, partition=0)


def framed(schema_id, schema, value):
    import io

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return written("id", schema_id, None, None) + out.getvalue()


def table(servers, topic, registry, **options):
    return klamm.read_table(servers, topic, value_format="avro", registry=registry, **options)


def test_values_become_a_struct_column(servers, registry, topic):
    serializer = AvroSerializer(registry, json.dumps(ORDER))
    with klamm.Producer(servers, value_serializer=serializer) as producer:
        for value in [*VALUES, None]:
            producer.send(topic, value, key=b"k")
    found = table(servers, topic, registry)
    assert found.column_names[:3] == ["topic", "partition", "offset"]
    assert found["value"].to_pylist() == [*VALUES, None]
    assert found["key"].to_pylist() == [b"k"] * 3
    assert found.schema.field("value").type == pa.struct(
        [
            ("id", pa.int64()),
            ("note", pa.string()),
            ("lines", pa.list_(pa.struct([("sku", pa.string()), ("price", pa.float64())]))),
        ]
    )


def test_flatten_makes_columns_of_the_fields(servers, registry, topic):
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "int"}, {"name": "offset", "type": "int"}],
    }
    with klamm.Producer(servers, value_serializer=AvroSerializer(registry, json.dumps(schema))) as producer:
        producer.send(topic, {"id": 1, "offset": 9})
        producer.send(topic, None)
    found = table(servers, topic, registry, columns=["offset", "value"], flatten=True)
    assert found.column_names == ["offset", "id", "value_offset", "value_is_null"]
    assert found.to_pylist() == [
        {"offset": 0, "id": 1, "value_offset": 9, "value_is_null": False},
        {"offset": 1, "id": None, "value_offset": None, "value_is_null": True},
    ]


def test_keys_are_decoded_like_values(servers, registry, topic):
    serializers = {
        "key_serializer": AvroSerializer(registry, '"long"'),
        "value_serializer": AvroSerializer(registry, json.dumps(ORDER)),
    }
    with klamm.Producer(servers, **serializers) as producer:
        producer.send(topic, VALUES[0], key=7)
        producer.send(topic, VALUES[1], key=None)
    found = table(servers, topic, registry, key_format="avro")
    assert found["key"].to_pylist() == [7, None]
    assert found["value"].to_pylist() == VALUES
    only = klamm.read_table(servers, topic, key_format="avro", registry=registry, columns=["key"])
    assert only.to_pydict() == {"key": [7, None]}


def test_an_empty_topic_has_the_typed_schema(servers, registry, topic):
    with klamm.Admin(servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(1)})
    registry.register(f"{topic}-value", Schema(json.dumps(ORDER)))
    found = table(servers, topic, registry, flatten=True, columns=["offset", "value"])
    assert (found.num_rows, found.column_names) == (0, ["offset", "id", "note", "lines", "value_is_null"])
    assert table(servers, topic, registry, on_error="column", columns=["value"]).column_names == [
        "value",
        "value_error",
        "value_raw",
    ]


def test_a_consumer_iterates_over_typed_batches(servers, registry, topic):
    with klamm.Producer(servers, value_serializer=AvroSerializer(registry, json.dumps(ORDER))) as producer:
        for at in range(10):
            producer.send(topic, {"id": at}, partition=0)
    with klamm.Consumer(servers) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, 0, 10)])
        batches = list(consumer.arrow(max_rows=4, value_format="avro", registry=registry))
    assert [row["id"] for batch in batches for row in batch.column("value").to_pylist()] == list(range(10))
    assert max(batch.num_rows for batch in batches) <= 4

    async def read(client):
        async with klamm.AsyncConsumer(servers) as consumer:
            consumer.assign([klamm.TopicPartition(topic, 0, 0, 10)])
            return [b async for b in consumer.arrow(value_format="avro", registry=client, flatten=True)]

    async def both():
        async with AsyncSchemaRegistry(registry._settings.urls[0]) as client:
            return await read(client), await read(registry)

    for found in asyncio.run(both()):
        assert pa.Table.from_batches(found)["id"].to_pylist() == list(range(10))


def test_a_registry_can_be_an_address(pair, servers, registry, topic):
    with klamm.Producer(servers, value_serializer=AvroSerializer(registry, json.dumps(ORDER))) as producer:
        producer.send(topic, VALUES[0])
    url = pair[1].url
    assert table(servers, topic, url)["value"].to_pylist() == VALUES[:1]
    assert table(servers, topic, {"url": url})["value"].to_pylist() == VALUES[:1]


def test_writers_may_change_their_schema_from_record_to_record(servers, registry, topic):
    first = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "int"}, {"name": "gone", "type": "string"}],
    }
    second = {"type": "record", "name": "R", "fields": [
        {"name": "b", "type": "string", "default": "new"}, {"name": "a", "type": ["null", "long"]}]}  # fmt: skip
    ids = [registry.register(f"{topic}-value", Schema(json.dumps(s))).id for s in (first, second)]
    values = []
    for at in range(50):
        value = {"a": at, "gone": "x"} if at % 2 else {"a": None if at % 4 else at, "b": str(at)}
        values.append(framed(ids[0], first, value) if at % 2 else framed(ids[1], second, value))
    send(servers, topic, *values)
    expected = [{"b": "new", "a": at} if at % 2 else {"b": str(at), "a": None if at % 4 else at} for at in range(50)]
    assert table(servers, topic, registry)["value"].to_pylist() == expected
    # The first version as the reader's schema: null is no int, and `gone` has no default.
    oldest = table(servers, topic, registry, value_schema=1, on_error="null")["value"].to_pylist()
    assert oldest == [{"a": at, "gone": "x"} if at % 2 else None for at in range(50)]
    given = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "double"]}]})
    for schema in (given, Schema(given)):
        assert table(servers, topic, registry, value_schema=schema)["value"].to_pylist() == [
            {"a": e["a"]} for e in expected
        ]


LOGICAL = {
    "date": ({"type": "int", "logicalType": "date"}, dt.date(2024, 2, 29), pa.date32()),
    "time-millis": ({"type": "int", "logicalType": "time-millis"}, dt.time(1, 2, 3, 4000), pa.time32("ms")),
    "time-micros": ({"type": "long", "logicalType": "time-micros"}, dt.time(1, 2, 3, 4), pa.time64("us")),
    "timestamp-millis": (
        {"type": "long", "logicalType": "timestamp-millis"},
        dt.datetime(1969, 1, 2, 3, 4, 5, 6000, dt.timezone.utc),
        pa.timestamp("ms", "UTC"),
    ),
    "timestamp-micros": (
        {"type": "long", "logicalType": "timestamp-micros"},
        dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.timezone.utc),
        pa.timestamp("us", "UTC"),
    ),
    "local-timestamp-micros": (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        dt.datetime(2024, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - local time has none
        pa.timestamp("us"),
    ),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 3},
        decimal.Decimal("-1234567.891"),
        pa.decimal128(10, 3),
    ),
    "decimal-fixed": (
        {"type": "fixed", "name": "D", "size": 20, "logicalType": "decimal", "precision": 45, "scale": 2},
        decimal.Decimal(f"{'9' * 43}.99"),
        pa.decimal256(45, 2),
    ),
    "uuid": ({"type": "string", "logicalType": "uuid"}, str(uuid.UUID(int=5)), pa.string()),
    "fixed": ({"type": "fixed", "name": "F", "size": 3}, b"abc", pa.binary(3)),
    "bytes": ("bytes", b"\x00\xff", pa.binary()),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string()),
    "boolean": ("boolean", True, pa.bool_()),
    "float": ("float", 1.5, pa.float32()),
    "map": ({"type": "map", "values": ["null", "int"]}, {"a": 1, "b": None}, pa.map_(pa.string(), pa.int32())),
    "null": ("null", None, pa.null()),
    "nested": (
        {"type": "array", "items": {"type": "array", "items": "int"}},
        [[1], [], [2, 3]],
        pa.list_(pa.list_(pa.int32())),
    ),
}


@pytest.mark.parametrize("kind", LOGICAL)
def test_types_of_avro_become_types_of_arrow(servers, registry, topic, kind):
    schema, value, expected = LOGICAL[kind]
    record = {"type": "record", "name": "R", "fields": [{"name": "x", "type": schema}, {"name": "y", "type": "int"}]}
    with klamm.Producer(servers, value_serializer=AvroSerializer(registry, json.dumps(record))) as producer:
        producer.send(topic, {"x": value, "y": 1})
    found = table(servers, topic, registry)["value"]
    assert found.type.field("x").type == expected
    (row,) = found.to_pylist()
    assert (dict(row["x"]) if kind == "map" else row["x"], row["y"]) == (value, 1)


def test_nanoseconds_and_uuids_of_fixed_size(servers, registry, topic):
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "u", "type": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}}]}  # fmt: skip
    schema_id = registry.register(f"{topic}-value", Schema(json.dumps(schema))).id
    number = uuid.uuid4()
    send(servers, topic, written("id", schema_id, None, None) + b"\x02" + number.bytes)
    found = table(servers, topic, registry, flatten=True)
    assert found.schema.field("t").type == pa.timestamp("ns", "UTC")
    assert found["t"].cast(pa.int64()).to_pylist() == [1]
    assert found["u"].to_pylist() == [str(number)]


def test_unions_of_more_types_become_a_struct_with_a_field_for_each(servers, registry, topic):
    inner = {"type": "record", "name": "shop.Line", "fields": [{"name": "n", "type": "int"}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["null", "string", "long", inner]}]}
    with klamm.Producer(servers, value_serializer=AvroSerializer(registry, json.dumps(schema))) as producer:
        for value in (None, "a", 5, {"n": 1}):
            producer.send(topic, {"u": value})
    assert table(servers, topic, registry, flatten=True)["u"].to_pylist() == [
        None,
        {"string": "a", "long": None, "Line": None},
        {"string": None, "long": 5, "Line": None},
        {"string": None, "long": None, "Line": {"n": 1}},
    ]


def test_values_that_are_no_records(servers, registry, topic):
    for at, (schema, value) in enumerate(
        [('"string"', "a"), ('"bytes"', b"\x01\x02"), ('{"type": "array", "items": "int"}', [1])]
    ):
        with klamm.Producer(servers, value_serializer=AvroSerializer(registry, schema)) as producer:
            producer.send(f"{topic}-{at}", value)
        assert table(servers, f"{topic}-{at}", registry, flatten=True)["value"].to_pylist() == [value]


@pytest.mark.parametrize("framing", ["id", "guid", "header_id", "header_guid", "apicurio"])
def test_all_framings_are_recognized(pair, servers, registry, topic, framing):
    if pair[1].name == "real-registry" and "guid" in framing:
        pytest.skip("Apicurio Registry has no GUIDs")
    serializer = AvroSerializer(registry, json.dumps(ORDER), framing=framing)
    with klamm.Producer(servers, value_serializer=serializer) as producer:
        for value in VALUES:
            producer.send(topic, value)
    assert table(servers, topic, registry, id_bytes=8 if framing == "apicurio" else 4)["value"].to_pylist() == VALUES


@pytest.mark.parametrize("strategy", ["RECORD", "TOPIC_RECORD"])
def test_the_subject_of_the_latest_version_can_have_the_record_name(servers, registry, topic, strategy):
    schema = {**ORDER, "name": topic.replace("-", "_")}
    serializer = AvroSerializer(registry, json.dumps(schema), subject_name_strategy=strategy)
    with klamm.Producer(servers, value_serializer=serializer) as producer:
        producer.send(topic, VALUES[0])
    assert table(servers, topic, registry, subject_name_strategy=strategy)["value"].to_pylist() == VALUES[:1]
    with pytest.raises(SchemaNotFoundError, match=f"{topic}-value"):
        table(servers, topic, registry)


def test_references_are_resolved(servers, registry, topic):
    registry.register(
        f"{topic}-line", Schema('{"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}')
    )
    text = '{"type": "record", "name": "R", "fields": [{"name": "line", "type": "Line"}]}'
    schema = Schema(text, references=[Reference("Line", f"{topic}-line", 1)])
    with klamm.Producer(servers, value_serializer=AvroSerializer(registry, schema)) as producer:
        producer.send(topic, {"line": {"n": 3}})
    assert table(servers, topic, registry)["value"].to_pylist() == [{"line": {"n": 3}}]


# Bad input


def bad(schema_id, text):
    """Return bad values, with what the error says and the path of the field."""
    prefix = written("id", schema_id, None, None)
    assert text
    return {
        "magic byte": (b"\x05abc", "first byte is 5", ""),
        "no bytes": (b"", "no schema ID", ""),
        "truncated header": (b"\x00\x00", "needs 5 bytes and has 2", ""),
        "unknown ID": (written("id", 999_999, None, None) + b"\x02", "999999", ""),
        "shorter": (prefix + b"\x02\x02\x08ab", "a length is 4, and 2 bytes remain", "note"),
        "shorter array": (prefix + b"\x02\x00\x02\x00\x02", "2 bytes remain", "lines"),
        "longer": (prefix + b"\x02\x00\x00\x00", "ends 1 bytes before the end", ""),
        "union branch": (prefix + b"\x02\x04\x00", "the union has no branch 2", "note"),
        "negative branch": (prefix + b"\x02\x01\x00", "the union has no branch -1", "note"),
        "string that is not UTF-8": (prefix + b"\x02\x02\x02\xff\x00", "not UTF-8", "note"),
        "negative length": (prefix + b"\x02\x02\x01", "a length is -1", "note"),
        "huge length": (
            prefix + b"\x02\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "a length is 9223372036854775807",
            "note",
        ),
        "huge array": (prefix + b"\x02\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "items", "lines"),
        "too long number": (prefix + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x00", "64 bits", "id"),
    }


@pytest.mark.parametrize("what", bad(1, "x"))
def test_a_bad_value_is_an_error_with_the_path_of_its_field(servers, registry, topic, what):
    schema_id = registry.register(f"{topic}-value", Schema(json.dumps(ORDER))).id
    good = framed(schema_id, ORDER, VALUES[0])
    value, why, path = bad(schema_id, "x")[what]
    send(servers, topic, good, value, good)
    with pytest.raises(DeserializationError, match=f"{topic}-0 at offset 1") as raised:
        table(servers, topic, registry)
    error = raised.value
    assert (error.topic, error.partition, error.offset, error.record.raw_value) == (topic, 0, 1, value)
    assert why in str(error)
    cause = error.__cause__
    assert isinstance(cause, SchemaNotFoundError if what == "unknown ID" else SchemaError)
    if value[:1] == b"\0" and len(value) > 5 and what != "unknown ID":
        assert (cause.schema_id, cause.path) == (schema_id, path)
    assert table(servers, topic, registry, on_error="null")["value"].to_pylist() == [VALUES[0], None, VALUES[0]]
    found = table(servers, topic, registry, on_error="column", columns=["offset", "value"])
    assert found.column_names == ["offset", "value", "value_error", "value_raw"]
    assert found["value"].to_pylist() == [VALUES[0], None, VALUES[0]]
    assert found["value_raw"].to_pylist() == [None, value, None]
    errors = found["value_error"].to_pylist()
    assert errors[::2] == [None, None]
    assert why in errors[1]


@pytest.mark.parametrize(
    ("schema", "payload", "why"),
    [
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "the enum has no symbol 1"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\x04\x03\xe8", "more than 2 digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}, b"\x50" + b"\x7f" * 40, "digits"),
        ("boolean", b"\x02", "instead of 0 or 1"),
        ("int", b"\xfe\xff\xff\xff\xff\x01", "32 bits"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01", "not within a day"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\x0f\x00", "items"),
        ({"type": "array", "items": {"type": "record", "name": "Z", "fields": []}}, b"\xfe\xff\xff\x0f\x00", "items"),
    ],
)  # fmt: skip
def test_a_value_outside_its_type_is_an_error(servers, registry, topic, schema, payload, why):  # noqa: PLR0917
    record = {"type": "record", "name": "R", "fields": [{"name": "x", "type": schema}]}
    schema_id = registry.register(f"{topic}-value", Schema(json.dumps(record))).id
    send(servers, topic, written("id", schema_id, None, None) + payload)
    with pytest.raises(DeserializationError, match=why) as raised:
        table(servers, topic, registry)
    assert raised.value.__cause__.path.startswith("x")


def test_a_schema_of_another_type_or_that_does_not_parse(servers, registry, topic):
    registry.register(f"{topic}-value", Schema(json.dumps(ORDER)))
    other = registry.register(
        f"{topic}-json", Schema('{"$schema": "http://json-schema.org/draft-07/schema#"}', "JSON")
    ).id
    send(servers, topic, written("id", other, None, None) + b"{}")
    with pytest.raises(DeserializationError, match="type JSON, not AVRO"):
        table(servers, topic, registry)
    assert table(servers, topic, registry, on_error="null")["value"].to_pylist() == [None]
    with pytest.raises(SchemaError, match="invalid"):
        table(servers, topic, registry, value_schema='{"type": "nothing"}')
    with pytest.raises(SchemaError, match="type JSON"):
        table(servers, topic, registry, value_schema=Schema("{}", "JSON"))


@pytest.mark.parametrize(("depth", "is_nullable", "is_read"), [(40, False, True), (50, False, False), (20, True, True), (30, True, True), (70, False, False)])  # fmt: skip
def test_a_schema_that_is_nested_deeper_than_columns_is_refused(servers, registry, topic, depth, is_nullable, is_read):  # noqa: PLR0917
    schema, value = "int", 7
    for level in range(depth):
        kind = ["null", schema] if is_nullable else schema
        schema, value = {"type": "record", "name": f"R{level}", "fields": [{"name": "f", "type": kind}]}, {"f": value}

    def read():
        schema_id = registry.register(f"{topic}-value", Schema(json.dumps(schema))).id
        send(servers, topic, framed(schema_id, schema, value))
        return table(servers, topic, registry)["value"].to_pylist()

    if is_read:
        assert read() == [value]
        return
    # The dev registry refuses a schema that klamm cannot parse.
    with pytest.raises((SchemaError, DeserializationError, InvalidSchemaError), match="nested too deep"):
        read()


HOSTILE = {
    "nulls": ({"type": "array", "items": "null"}, 0),
    "records without fields": ({"type": "array", "items": {"type": "record", "name": "Z", "fields": []}}, 0),
    "booleans": ({"type": "array", "items": "boolean"}, 1),
    "nullable doubles": ({"type": "array", "items": ["null", "double"]}, 1),
    "empty lists": ({"type": "array", "items": {"type": "array", "items": "double"}}, 1),
    "empty maps": ({"type": "array", "items": {"type": "map", "values": "double"}}, 1),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_record_of_a_hundred_bytes_has_at_most_1100_items(servers, registry, topic, what):
    kind, size = HOSTILE[what]
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}
    schema_id = registry.register(f"{topic}-value", Schema(json.dumps(schema))).id
    prefix = written("id", schema_id, None, None)

    def payload(items):
        """Return a value of 100 bytes whose only block says that it has so many items."""
        block = io.BytesIO()
        fastavro.schemaless_writer(block, "long", items)
        return prefix + (block.getvalue() + bytes(100))[:100]

    most = 1100 if size == 0 else 97
    values = [payload(most), payload(most + 1), payload(2**40), prefix + b"\x02" * 100]
    send(servers, topic, *values)
    found = table(servers, topic, registry, on_error="column", columns=["value"])
    assert found["value_error"][1].as_py() is not None
    assert found["value_error"][2].as_py() is not None
    # Each item has at most eight bytes, two offsets and two bits; a record has at most 1,100.
    assert found["value"].nbytes < len(values) * 1100 * (8 + 2 * 4 + 1)
    deserializer = AvroDeserializer(registry)
    with pytest.raises(SchemaError, match="items"):
        deserializer.deserialize(values[2], topic)


def test_a_reader_without_a_default_refuses_the_writer(servers, registry, topic):
    schema_id = registry.register(f"{topic}-value", Schema(json.dumps(ORDER))).id
    send(servers, topic, framed(schema_id, ORDER, VALUES[0]))
    reader = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "new", "type": "int"}]})
    with pytest.raises(DeserializationError, match="no default") as raised:
        table(servers, topic, registry, value_schema=reader)
    assert (raised.value.__cause__.path, raised.value.__cause__.schema_id) == ("new", schema_id)


def test_after_an_error_the_consumer_continues_with_the_next_record(servers, registry, topic):
    schema_id = registry.register(f"{topic}-value", Schema(json.dumps(ORDER))).id
    values = [framed(schema_id, ORDER, {"id": at}) for at in range(10)]
    send(servers, topic, *values[:4], b"bad", *values[4:])
    with klamm.Consumer(servers) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, 0, 11)])
        found = []
        with pytest.raises(DeserializationError):  # noqa: PT012
            for batch in consumer.arrow(value_format="avro", registry=registry, flatten=True):
                found += batch.column("id").to_pylist()
        assert found == [0, 1, 2, 3]
        for batch in consumer.arrow(value_format="avro", registry=registry, flatten=True):
            found += batch.column("id").to_pylist()
    assert found == list(range(10))


def test_a_registry_that_is_down_loses_no_record(servers, topic):
    with (
        DevRegistry() as dev,
        SchemaRegistry(dev.url, max_retries=0) as client,
        klamm.Consumer(servers) as consumer,
    ):
        schema_id = client.register(f"{topic}-value", Schema(json.dumps(ORDER))).id
        client.clear_cache()
        send(servers, topic, *[framed(schema_id, ORDER, {"id": at}) for at in range(5)])
        consumer.assign([klamm.TopicPartition(topic, 0, 0, 5)])
        options = {"value_format": "avro", "registry": client, "on_error": "null", "flatten": True}
        dev.fault("error", status=503, times=1)
        with pytest.raises(RegistryUnavailableError):
            list(consumer.arrow(**options))
        dev.fault("error", status=503, times=1, path="/schemas/ids/")
        with pytest.raises(RegistryUnavailableError):
            list(consumer.arrow(**options))
        assert pa.Table.from_batches(list(consumer.arrow(**options)))["id"].to_pylist() == list(range(5))


def test_wrong_credentials_are_an_error_without_the_password(servers, topic):
    send(servers, topic, b"\x00\x00\x00\x00\x01\x02")
    with (
        DevRegistry(users={"alice": "right"}) as dev,
        SchemaRegistry(dev.url, basic_auth_user_info="alice:s3cret") as client,
    ):
        for on_error in ("raise", "null"):
            with pytest.raises(RegistryAuthenticationError) as raised:
                table(servers, topic, client, on_error=on_error)
            assert "s3cret" not in str(raised.value)


def test_arguments_that_do_not_fit_are_refused(servers, registry, topic):
    with klamm.Consumer(servers) as consumer:
        for options, why in [
            ({"value_format": "xml", "registry": registry}, "xml"),
            ({"value_format": "avro"}, "needs a registry"),
            ({"value_format": "json"}, "needs a registry"),
            ({"value_format": "avro", "registry": registry, "on_error": "skip"}, "on_error"),
            ({"value_format": "avro", "registry": registry, "id_bytes": 5}, "id_bytes"),
            ({"value_format": "avro", "registry": registry, "value_schema": pa.schema([])}, "Arrow schema"),
            ({"value_format": "avro", "registry": registry, "value_schema": "infer"}, "infer"),
            ({"value_schema": "latest"}, "value_format"),
        ]:
            with pytest.raises(ConfigError, match=why):
                consumer.arrow(**options)
        with pytest.raises(ArgumentError, match="max_row"):
            consumer.arrow(max_row=5)
    with pytest.raises(ArgumentError, match="url"):
        table(servers, topic, 5)


def test_the_raw_bytes_stay_reachable_beside_deserialized_values(servers, registry, topic):
    with klamm.Producer(servers, value_serializer=AvroSerializer(registry, json.dumps(ORDER))) as producer:
        producer.send(topic, VALUES[0], key=b"k")
        producer.send(topic, None)
    deserializer = AvroDeserializer(registry)
    with klamm.Consumer(servers, value_deserializer=deserializer, key_deserializer=bytes.decode) as consumer:
        consumer.assign([klamm.TopicPartition(topic, p, 0, None) for p in consumer.partitions_for(topic)])
        records = []
        while len(records) < 2:
            records += consumer.poll(10)
    (full,) = [r for r in records if r.raw_value is not None]
    (empty,) = [r for r in records if r.raw_value is None]
    assert (full.value, full.key, full.raw_key) == (VALUES[0], "k", b"k")
    assert deserializer.deserialize(full.raw_value) == VALUES[0]
    assert (empty.value, empty.raw_key) == (None, None)


# JSON

JSON_SCHEMA = json.dumps({"title": "R", "type": "object", "properties": {
    "id": {"type": "integer"}, "price": {"type": ["number", "null"]}, "at": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"}, "tags": {"type": "array", "items": {"type": "string"}},
    "in": {"$ref": "#/definitions/in"}, "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "any": {}}, "definitions": {"in": {"type": "object", "properties": {"ok": {"type": "boolean"}}}}})  # fmt: skip
JSON_VALUE = {"id": 1, "price": 2.5, "at": "2024-01-02T03:04:05.5Z", "day": "2024-01-02", "tags": ["a", "b"],
              "in": {"ok": True}, "map": {"a": 1}, "any": [1, {"x": None}]}  # fmt: skip
JSON_ROW = {**JSON_VALUE, "at": dt.datetime(2024, 1, 2, 3, 4, 5, 500_000, dt.timezone.utc), "day": dt.date(2024, 1, 2),
            "map": [("a", 1)], "any": '[1, {"x": null}]'}  # fmt: skip


def test_json_is_decoded_by_its_schema(servers, registry, topic):
    with klamm.Producer(servers, value_serializer=JsonSerializer(registry, JSON_SCHEMA)) as producer:
        producer.send(topic, JSON_VALUE)
        producer.send(topic, {"id": 2, "more": [1]})
    found = klamm.read_table(servers, topic, value_format="json", registry=registry)["value"].to_pylist()
    assert found[0] | {"any": ""} == JSON_ROW | {"any": ""}
    assert json.loads(found[0]["any"]) == JSON_VALUE["any"]
    assert found[1] == {**dict.fromkeys(JSON_ROW), "id": 2}


def test_plain_json_takes_an_arrow_schema_or_infers_one(servers, topic):
    send(servers, topic, b'{"a": 1, "b": "x"}', b'{"a": 2.5, "c": [true, null]}', b'{"a": null}', None)
    schema = pa.schema([("b", pa.string()), ("a", pa.decimal128(5, 2))])
    found = klamm.read_table(servers, topic, value_format="json", value_schema=schema, flatten=True, columns=["value"])
    assert found.to_pydict() == {
        "b": ["x", None, None, None],
        "a": [decimal.Decimal(1), decimal.Decimal("2.5"), None, None],
        "value_is_null": [False, False, False, True],
    }
    with pytest.warns(UserWarning, match="inferred from 3 records"):
        found = klamm.read_table(servers, topic, value_format="json", value_schema="infer")
    assert found.schema.field("value").type == pa.struct(
        [("a", pa.float64()), ("b", pa.string()), ("c", pa.list_(pa.bool_()))]
    )
    assert found["value"].to_pylist()[1] == {"a": 2.5, "b": None, "c": [True, None]}
    assert found.schema.field("value").metadata == {b"klamm.inferred": b"3"}


@pytest.mark.parametrize(
    ("text", "why", "path"),
    [
        (b'{"id": "x"}', "string", "id"),
        (b'{"id": 1.5}', "fraction", "id"),
        (b'{"id": 99999999999999999999}', "number", "id"),
        (b'{"tags": ["a", 5]}', "number", "tags[1]"),
        (b'{"in": {"ok": 1}}', "number", "in.ok"),
        (b'{"map": {"k": "v"}}', "string", 'map["k"]'),
        (b'{"day": "2024-02-30"}', "string", "day"),
        (b'{"id": 1', "valid JSON", ""),
        (b'{"id": 1} x', "valid JSON", ""),
        (b'{"any": "\xff"}', "valid JSON", "any"),
        (b"[" * 5000, "array", ""),
    ],
)
def test_bad_json_is_an_error_with_its_path(servers, registry, topic, text, why, path):  # noqa: PLR0917
    schema_id = registry.register(f"{topic}-value", Schema(JSON_SCHEMA, "JSON")).id
    send(servers, topic, written("id", schema_id, None, None) + text)
    with pytest.raises(DeserializationError, match=why) as raised:
        klamm.read_table(servers, topic, value_format="json", registry=registry)
    assert (raised.value.__cause__.path, raised.value.__cause__.schema_id) == (path, schema_id)


def test_no_warning_comes_from_reading(servers, registry, topic):
    with klamm.Producer(servers, value_serializer=AvroSerializer(registry, json.dumps(ORDER))) as producer:
        producer.send(topic, VALUES[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table(servers, topic, registry)
