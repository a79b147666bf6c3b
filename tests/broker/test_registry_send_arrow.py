"""`send_arrow` with a schema registry: typed columns become records that other clients read."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import json
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as ConfluentAvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

import klamm
from klamm.errors import ArgumentError, ConfigError
from klamm.registry import (
    AsyncSchemaRegistry,
    AvroDeserializer,
    IncompatibleSchemaError,
    JsonDeserializer,
    ProtobufDeserializer,
    Schema,
    SchemaError,
    SchemaNotFoundError,
    SchemaRegistry,
)

NOON = dt.datetime(2024, 1, 2, 12, 0, 0, 123_456, dt.timezone.utc)
LINE = pa.struct([("sku", pa.string()), ("n", pa.int16())])
TYPES = {
    "id": (pa.int64(), [1, -2, None]),
    "small": (pa.uint8(), [1, 255, None]),
    "name": (pa.string(), ["a", "", None]),
    "kind": (pa.dictionary(pa.int32(), pa.string()), ["x", "y", None]),
    "price": (pa.float64(), [1.5, -0.0, None]),
    "ok": (pa.bool_(), [True, False, None]),
    "data": (pa.binary(), [b"\x00", b"", None]),
    "amount": (pa.decimal128(12, 2), [decimal.Decimal("-1.25"), decimal.Decimal(0), None]),
    "day": (pa.date32(), [dt.date(2024, 2, 29), dt.date(1, 1, 1), None]),
    "at": (pa.timestamp("us", "UTC"), [NOON, dt.datetime(1, 1, 1, tzinfo=dt.timezone.utc), None]),
    "tags": (pa.list_(pa.string()), [["a", None], [], None]),
    "lines": (pa.large_list(LINE), [[{"sku": "s", "n": 1}], [], None]),
    "counts": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], [], None]),
}


@pytest.fixture
def servers(pair):
    return pair[0].bootstrap_servers


@pytest.fixture
def registry(pair):
    with SchemaRegistry(pair[1].url) as running:
        yield running


def columns(*left_out):
    return {name: pa.array(values, kind) for name, (kind, values) in TYPES.items() if name not in left_out}


def sent(servers, topic, data, registry=None, **options):
    options = {"value_format": "avro", "registry": registry, **options}
    with klamm.Producer(servers) as producer:
        return producer.send_arrow(topic, data, **options)


def values(servers, topic):
    return sorted(klamm.read_table(servers, topic, columns=["offset", "value"]).to_pylist(), key=lambda r: r["offset"])


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_typed_columns_come_back_as_they_were(servers, registry, topic, kind):
    # Protobuf and JSON have no null for lists, and JSON none for maps of pairs.
    left_out = {"avro": (), "json": ("amount",), "protobuf": ("tags", "lines", "counts", "amount", "day")}[kind]
    data = columns(*left_out)
    assert sent(servers, topic, pa.table(data), registry, value_format=kind) == 3
    found = klamm.read_table(servers, topic, value_format=kind, registry=registry, flatten=True)
    for name, expected in data.items():
        rows = found[name].to_pylist()
        assert rows == expected.to_pylist(), name


Y, Z = [{"y": 1}], {"z": "x"}
ALIKE = [
    {"line": Y, "line_item": Z},  # the items of `line` are records too
    {"line_item": Z, "line": Y},
    {"a": {"b": {"y": 1}}, "a_b": Z, "A_B": {"y": 2}, "a_b_2": {"z": 3.5}},
    {"ab": {"y": 1}, "aB": Z, "a_b": {"y": True}, "AbMessage": 1, "ABMessage": {"y": b"x"}},
    {"f": b"ab", "f_item": [b"cd"]},
]


@pytest.mark.parametrize("row", ALIKE, ids=[" ".join(row) for row in ALIKE])
@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_columns_whose_derived_types_would_have_one_name(servers, registry, topic, kind, row):
    table = pa.Table.from_pylist([row])
    if "f" in row:
        table = table.cast(pa.schema([("f", pa.binary(2)), ("f_item", pa.list_(pa.binary(2)))]))
    sent(servers, topic, table, registry, value_format=kind)
    found = klamm.read_table(servers, topic, columns=["value"], value_format=kind, registry=registry)
    assert found["value"].to_pylist() == [row]


def test_lists_and_maps_of_protobuf(servers, registry, topic):
    data = pa.table({
        "tags": pa.array([["a", "b"], []]), "lines": pa.array([[{"sku": "s", "n": 1}], []], pa.list_(LINE)),
        "counts": pa.array([[("a", 0)], []], pa.map_(pa.string(), pa.int64())), "in": pa.array([{"sku": "", "n": 0}, None], LINE),
    })  # fmt: skip
    sent(servers, topic, data, registry, value_format="protobuf")
    found = klamm.read_table(servers, topic, value_format="protobuf", registry=registry)["value"].to_pylist()
    assert found == data.to_pylist()
    deserializer = ProtobufDeserializer(registry, to=dict)
    assert deserializer.deserialize(values(servers, topic)[0]["value"], topic)["tags"] == ["a", "b"]


def test_other_clients_read_the_records(servers, registry, topic):
    sent(servers, topic, pa.table(columns("amount")), registry)
    client = SchemaRegistryClient({"url": registry._settings.urls[0]})
    read = ConfluentAvroDeserializer(client)
    context = SerializationContext(topic, MessageField.VALUE)
    rows = [read(row["value"], context) for row in values(servers, topic)]
    mine = [AvroDeserializer(registry).deserialize(row["value"], topic) for row in values(servers, topic)]
    assert rows == mine
    assert (rows[0]["id"], rows[0]["at"], rows[0]["counts"], rows[2]["lines"]) == (1, NOON, {"a": 1}, None)


def test_json_is_what_the_schema_describes(servers, registry, topic):
    sent(servers, topic, pa.table(columns()), registry, value_format="json")
    derived = json.loads(registry.get_version(f"{topic}-value").schema.text)
    assert derived["$schema"] == "http://json-schema.org/draft-07/schema#"
    first, _, last = (JsonDeserializer(registry).deserialize(row["value"], topic) for row in values(servers, topic))
    assert (first["at"], first["day"], first["amount"], first["data"]) == (
        "2024-01-02T12:00:00.123456Z",
        "2024-02-29",
        -1.25,
        "AA==",
    )
    assert set(last.values()) == {None}


def test_a_given_schema_decides_about_types_and_defaults(servers, registry, topic):
    schema = json.dumps({"type": "record", "name": "R", "fields": [
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["x", "y"]}},
        {"name": "new", "type": "string", "default": "d"},
        {"name": "id", "type": "int"},
        {"name": "amount", "type": {"type": "fixed", "name": "A", "size": 3, "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "u", "type": ["null", "long", "string"]}]})  # fmt: skip
    data = pa.table({
        "id": [1], "kind": ["y"], "amount": pa.array([decimal.Decimal("-1.5")], pa.decimal128(5, 1)),
        "at": pa.array([NOON.replace(microsecond=5000)], pa.timestamp("ns", "UTC")), "u": ["s"],
    })  # fmt: skip
    sent(servers, topic, data, registry, value_schema=schema)
    (row,) = values(servers, topic)
    assert AvroDeserializer(registry).deserialize(row["value"], topic) == {
        "kind": "y", "new": "d", "id": 1, "amount": decimal.Decimal("-1.50"), "at": NOON.replace(microsecond=5000), "u": "s"
    }  # fmt: skip
    sent(servers, topic, data, registry, value_schema="latest")
    assert [r["value"] for r in values(servers, topic)] == [row["value"]] * 2


def test_what_was_read_can_be_sent_again(servers, registry, topic):
    sent(
        servers,
        topic,
        pa.table({"value": pa.array([{"u": 1}, None]), "key": pa.array([b"k", None], pa.binary())}),
        registry,
    )
    found = klamm.read_table(servers, topic, value_format="avro", registry=registry)
    sent(servers, f"{topic}-copy", found.drop(["topic"]), registry)
    copied = klamm.read_table(servers, f"{topic}-copy", value_format="avro", registry=registry)
    assert (
        copied.select(["key", "value"]).sort_by("key").to_pylist()
        == found.select(["key", "value"]).sort_by("key").to_pylist()
    )


def test_the_examples_of_the_page_run(pair, topic, capsys):
    page = (Path(__file__).parents[2] / "docs" / "registry-columns.md").read_text(encoding="utf-8")
    code = "".join(part.partition("```")[0] for part in page.split("```python\n")[1:] if "spark.read" not in part)
    code = code.replace("localhost:9092", pair[0].bootstrap_servers)
    code = code.replace("http://localhost:8081", pair[1].url)
    for name in ("typed-orders", "keyed-orders"):
        code = code.replace(name, f"{topic}-{name}")
    exec(compile(code, "docs/registry-columns.md", "exec"), {})  # noqa: S102 - our own page
    printed = capsys.readouterr().out
    assert '[["fragile",null]]' in printed.replace("\n", "").replace(" ", "")
    assert printed.splitlines()[-1] == "[{'id': 1}, None]"
    assert f"`{printed.splitlines()[-1]}`" in page


def test_keys_are_encoded_and_a_column_of_a_record_keeps_its_meaning(servers, registry, topic):
    times = pa.array([5, 6], pa.timestamp("ms", "UTC"))
    data = pa.table({"key": pa.array([7, 8], pa.int32()), "timestamp": times, "x": [1, 2]})
    sent(servers, topic, data, registry, key_format="avro", record_columns=["key", "timestamp"])
    found = klamm.read_table(
        servers, topic, value_format="avro", key_format="avro", registry=registry, flatten=True
    ).sort_by("key")
    assert found["key"].to_pylist() == [7, 8]
    assert found["x"].to_pylist() == [1, 2]
    assert found["timestamp"].cast(pa.int64()).to_pylist() == [5, 6]


def test_an_async_producer_sends_typed_columns(servers, registry, topic):
    data = pa.table({"x": [1, 2]})

    async def send(client):
        async with klamm.AsyncProducer(servers) as producer:
            return await producer.send_arrow(topic, data, value_format="avro", registry=client)

    async def both():
        async with AsyncSchemaRegistry(registry._settings.urls[0]) as client:
            return await send(client), await send(registry)

    assert asyncio.run(both()) == (2, 2)
    found = klamm.read_table(servers, topic, value_format="avro", registry=registry, flatten=True)
    assert sorted(found["x"].to_pylist()) == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("field", "schema", "why"),
    [
        (pa.array(["x"]), "long", "cannot be written as long"),
        (pa.array([2**40]), "int", "does not fit"),
        (pa.array([None], pa.int64()), "long", "does not allow null"),
        (pa.array(["z"]), {"type": "enum", "name": "E", "symbols": ["a"]}, "no symbol"),
        (pa.array([decimal.Decimal("99.9")]), {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1}, "does not fit"),
        (pa.array(["no"]), {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, "not a UUID"),
        (pa.array([b"ab"]), {"type": "fixed", "name": "F", "size": 3}, "does not fit"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_an_error_and_nothing_is_sent(servers, registry, topic, field, schema, why):  # noqa: PLR0917
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": schema}]})
    with pytest.raises(SchemaError, match=why):
        sent(servers, topic, pa.table({"x": field}), registry, value_schema=text)
    with klamm.Admin(servers) as admin:
        assert topic not in admin.list_topics() or values(servers, topic) == []


def test_columns_and_schemas_that_differ_are_refused(servers, registry, topic):
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": "long"}]})
    with pytest.raises(SchemaError, match="not in the schema") as raised:
        sent(servers, topic, pa.table({"x": [1], "y": [2]}), registry, value_schema=text)
    assert raised.value.path == "y"
    with pytest.raises(SchemaError, match="without a default") as raised:
        sent(servers, topic, pa.table({"y": [1]}), registry, value_schema=text)
    assert raised.value.path == "x"
    for options, error in [
        ({"value_schema": "latest", "value_format": "json"}, SchemaError),
        ({"value_format": "xml"}, ConfigError),
        ({"registry": None}, ConfigError),
        ({"value_schema": Schema("{}", "JSON")}, ConfigError),
        ({"nonsense": 1}, ArgumentError),
    ]:
        with pytest.raises(error):
            sent(servers, topic, pa.table({"x": [1]}), **{"registry": registry, **options})
    with pytest.raises(SchemaNotFoundError):
        sent(servers, f"{topic}-none", pa.table({"x": [1]}), registry, value_schema="latest")
    registry.set_config("BACKWARD", f"{topic}-value")
    with pytest.raises(IncompatibleSchemaError):
        sent(servers, topic, pa.table({"x": ["text"]}), registry)
    with pytest.raises(ArgumentError):
        sent(servers, topic, [1], registry)
    with pytest.raises(ConfigError, match="topic"):
        sent(servers, None, pa.table({"x": [1]}), registry)


def test_a_json_schema_that_is_a_boolean_has_no_name(servers, registry, topic):
    options = {"value_format": "json", "registry": registry, "subject_name_strategy": "RECORD"}
    with klamm.Producer(servers) as producer, pytest.raises(ConfigError, match="the schema has none"):
        producer.send_arrow(topic, pa.table({"value": [1]}), value_schema=Schema("true", "JSON"), **options)
