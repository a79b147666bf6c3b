"""Typed columns beside fastavro: pairs of schemas that changed, and random schemas, values and bytes."""

from __future__ import annotations

import datetime as dt
import io
import json
import uuid

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import klamm
from klamm.errors import ConfigError, DeserializationError
from klamm.registry import Schema, SchemaRegistry
from klamm.registry.framing import written
from registry_samples import messages


@pytest.fixture(scope="module")
def cluster(pair):
    broker, registry = pair
    with SchemaRegistry(registry.url) as client:
        yield broker, client


@pytest.fixture(scope="module")
def dev_cluster(dev_pair):
    broker, registry = dev_pair
    with SchemaRegistry(registry.url) as client:
        yield broker, client


def record(*fields, name="R", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
INNER = record(field("x", "int"), field("y", "string"), name="Inner")
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
AT = dt.datetime(2024, 1, 2, 3, 4, 5, 6000, dt.timezone.utc)

# Writer, reader, and values of the writer.
PAIRS = {
    "int to long": (record(field("a", "int")), record(field("a", "long")), [{"a": -1}, {"a": 2**31 - 1}]),
    "int to float": (record(field("a", "int")), record(field("a", "float")), [{"a": -1}, {"a": 2**24}]),
    "int to double": (record(field("a", "int")), record(field("a", "double")), [{"a": -1}, {"a": 2**31 - 1}]),
    "long to float": (record(field("a", "long")), record(field("a", "float")), [{"a": -1}, {"a": 2**24}]),
    "long to double": (record(field("a", "long")), record(field("a", "double")), [{"a": -1}, {"a": 2**53}]),
    "float to double": (record(field("a", "float")), record(field("a", "double")), [{"a": 0.1}, {"a": -2.5}]),
    "string to bytes": (record(field("a", "string")), record(field("a", "bytes")), [{"a": "ä"}, {"a": ""}]),
    "bytes to string": (record(field("a", "bytes")), record(field("a", "string")), [{"a": "ä".encode()}]),
    "field with default": (
        record(field("a", "int")),
        record(field("b", "string", default="d"), field("a", "int"), field("c", ["null", "int"], default=None)),
        [{"a": 1}],
    ),
    "default of a record": (record(), record(field("in", INNER, default={"x": 5, "y": "z"})), [{}]),
    "defaults of arrays and maps": (
        record(),
        record(
            field("a", {"type": "array", "items": "int"}, default=[1, 2]),
            field("m", {"type": "map", "values": "string"}, default={"k": "v"}),
        ),
        [{}],
    ),
    "field removed": (
        record(field("gone", {"type": "array", "items": INNER}), field("a", "int"), field("map", {"type": "map", "values": ["null", "int"]})),
        record(field("a", "int")),
        [{"gone": [{"x": 1, "y": "s"}], "a": 3, "map": {"k": None, "l": 2}}],
    ),
    "order of fields": (
        record(field("a", "int"), field("b", "string")),
        record(field("b", "string"), field("a", "int")),
        [{"a": 1, "b": "x"}],
    ),
    "alias of a field": (record(field("old", "int")), record(field("new", "int", aliases=["old"])), [{"old": 4}]),
    "alias of a record": (
        record(field("in", INNER)),
        record(field("in", record(field("y", "string"), field("x", "long"), name="Renamed", aliases=["Inner"]))),
        [{"in": {"x": 1, "y": "s"}}],
    ),
    "enum with more symbols": (
        record(field("e", ENUM)),
        record(field("e", {**ENUM, "symbols": ["C", "B", "A", "D"]})),
        [{"e": "A"}, {"e": "C"}],
    ),
    "enum with a default": (
        record(field("e", ENUM)),
        record(field("e", {**ENUM, "symbols": ["A", "OTHER"], "default": "OTHER"})),
        [{"e": "A"}, {"e": "B"}],
    ),
    "type to union": (record(field("a", "int")), record(field("a", ["null", "long"])), [{"a": 1}]),
    "union to type": (record(field("a", ["null", "int"])), record(field("a", "long")), [{"a": 1}]),
    "union to union": (
        record(field("a", ["int", "null"])),
        record(field("a", ["null", "double"])),
        [{"a": 1}, {"a": None}],
    ),
    "items of arrays and maps": (
        record(field("a", {"type": "array", "items": "int"}), field("m", {"type": "map", "values": INNER})),
        record(
            field("a", {"type": "array", "items": ["null", "long"]}),
            field("m", {"type": "map", "values": record(field("z", "int", default=9), field("x", "double"), name="Inner")}),
        ),
        [{"a": [1, 2], "m": {"k": {"x": 1, "y": "s"}}}],
    ),
    "unit of a timestamp": (
        record(field("t", MILLIS)),
        record(field("t", {"type": "long", "logicalType": "timestamp-micros"})),
        [{"t": AT}],
    ),
    "fixed": (
        record(field("f", {"type": "fixed", "name": "F", "size": 2})),
        record(field("f", ["null", {"type": "fixed", "name": "F", "size": 2}])),
        [{"f": b"ab"}],
    ),
}  # fmt: skip


def encoded(schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def columns(cluster, writer, reader, payloads, **options):
    """Return the values that klamm reads from payloads of a writer, with a reader's schema."""
    broker, registry = cluster
    topic = f"t{uuid.uuid4().hex}"
    schema_id = registry.register(f"{topic}-value", Schema(json.dumps(writer))).id
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for payload in payloads:
            producer.send(topic, written("id", schema_id, None, None) + payload, partition=0)
    options = {"value_format": "avro", "registry": registry, "value_schema": json.dumps(reader), **options}
    return klamm.read_table(broker.bootstrap_servers, topic, columns=["value"], **options)["value"]


def plain(value, kind):
    """Return a value of fastavro as the column has it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        names = [f.name for f in kind]
        if isinstance(value, dict) and set(value) == set(names):
            return {name: plain(value[name], kind.field(name).type) for name in names}
        (branch,) = [f for f in kind if is_branch(value, f)]
        return {f.name: plain(value, f.type) if f.name == branch.name else None for f in kind}
    if pa.types.is_list(kind):
        return [plain(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return [(key, plain(item, kind.item_type)) for key, item in value.items()]
    return value


def is_branch(value, f):
    return f.name == {bool: "boolean", int: "long", str: "string", bytes: "bytes", float: "double"}.get(type(value))


@pytest.mark.parametrize("name", PAIRS)
def test_a_changed_schema_is_resolved_as_fastavro_does(cluster, name):
    writer, reader, values = PAIRS[name]
    payloads = [encoded(writer, value) for value in values]
    expected = [
        fastavro.schemaless_reader(io.BytesIO(p), fastavro.parse_schema(writer), fastavro.parse_schema(reader))
        for p in payloads
    ]
    found = columns(cluster, writer, reader, payloads)
    assert found.to_pylist() == [plain(value, found.type) for value in expected]


INCOMPATIBLE = {
    "string to int": (record(field("a", "string")), record(field("a", "int")), {"a": "x"}, "a"),
    "long to int": (record(field("a", "long")), record(field("a", "int")), {"a": 1}, "a"),
    "no default": (record(), record(field("a", "int")), {}, "a"),
    "size of fixed": (
        record(field("f", {"type": "fixed", "name": "F", "size": 2})),
        record(field("f", {"type": "fixed", "name": "F", "size": 3})),
        {"f": b"ab"},
        "f",
    ),
    "symbol": (record(field("e", ENUM)), record(field("e", {**ENUM, "symbols": ["A"]})), {"e": "B"}, "e"),
    "branch": (record(field("a", ["null", "string"])), record(field("a", ["null", "int"])), {"a": "x"}, "a"),
    "null": (record(field("a", ["null", "int"])), record(field("a", "int")), {"a": None}, "a"),
    "nested": (
        record(field("l", {"type": "array", "items": INNER})),
        record(field("l", {"type": "array", "items": record(field("x", "string"), name="Inner")})),
        {"l": [{"x": 1, "y": ""}]},
        "l[].x",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INCOMPATIBLE)
def test_a_change_that_cannot_be_resolved_is_an_error(cluster, name):
    writer, reader, value, path = INCOMPATIBLE[name]
    with pytest.raises(DeserializationError) as raised:
        columns(cluster, writer, reader, [encoded(writer, value)])
    assert raised.value.__cause__.path == path
    assert columns(cluster, writer, reader, [encoded(writer, value)], on_error="null").to_pylist() == [None]


# Two versions, a value of each, the field that only the newer one has, and the columns of the older one.
NEWER = {
    "avro": (
        record(field("l", {"type": "array", "items": record(field("x", "int"), name="Inner")}), field("old", "int", default=0)),
        record(field("l", {"type": "array", "items": record(field("x", "int"), field("new", "int", default=0), name="Inner")})),
        {"l": [{"x": 1}], "old": 5}, {"l": [{"x": 2, "new": 7}]}, "l[].new",
        [{"l": [{"x": 1}], "old": 5}, {"l": [{"x": 2}], "old": 0}],
    ),
    "json": (
        {"title": "R", "type": "object", "properties": {"in": {"type": "object", "properties": {"x": {"type": "integer"}}}, "old": {"type": "integer"}}},
        {"title": "R", "type": "object", "properties": {"in": {"type": "object", "properties": {"x": {"type": "integer"}, "new": {"type": "integer"}}}}},
        {"in": {"x": 1}, "old": 5}, {"in": {"x": 2, "new": 7}}, "in.new",
        [{"in": {"x": 1}, "old": 5}, {"in": {"x": 2}, "old": None}],
    ),
    "protobuf": (
        'syntax = "proto3"; message R { repeated Inner l = 1; int32 old = 2; message Inner { int32 x = 1; } }',
        'syntax = "proto3"; message R { repeated Inner l = 1; message Inner { int32 x = 1; int32 new = 2; } }',
        {"l": [{"x": 1}], "old": 5}, {"l": [{"x": 2, "new": 7}]}, "l.new",
        [{"l": [{"x": 1}], "old": 5}, {"l": [{"x": 2}], "old": 0}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", NEWER)
def test_fields_that_newer_writers_add_are_dropped_or_refused(cluster, kind):
    older, newer, first, second, path, kept = NEWER[kind]
    broker, registry = cluster
    topic = f"t{uuid.uuid4().hex}"
    # Other subjects have the schemas too, with other numbers of versions.
    ids = []
    for number, schema in enumerate((older, newer)):
        text = schema if kind == "protobuf" else json.dumps(schema)
        found = Schema(text, {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}[kind])
        ids.append(registry.register(f"{topic}-value", found).id)
        registry.register(f"{topic}-{number}", found)
        registry.set_config("NONE", f"{topic}-value")

    def value(at, schema, of):
        if kind == "avro":
            return written("id", ids[at], None, None) + encoded(schema, of)
        if kind == "json":
            return written("id", ids[at], None, None) + json.dumps(of).encode()
        message = messages(schema, f"{topic}-{at}.proto")["R"](**of)
        return written("id", ids[at], None, (0,)) + message.SerializeToString()

    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, [value(0, older, first), value(1, newer, second)], partition=0)
    options = {"value_format": kind, "registry": registry, "columns": ["value"]}
    for refused in ({"value_schema": 1}, {"value_schema": registry.get_version(f"{topic}-value", 1).schema}):
        options["value_schema"] = refused["value_schema"]
        assert klamm.read_table(broker.bootstrap_servers, topic, **options)["value"].to_pylist() == kept
        options["on_new_fields"] = "raise"
        with pytest.raises(DeserializationError, match=f"{topic}-0 at offset 1") as raised:
            klamm.read_table(broker.bootstrap_servers, topic, **options)
        assert (raised.value.__cause__.path, raised.value.__cause__.schema_id) == (path, ids[1])
        found = klamm.read_table(broker.bootstrap_servers, topic, on_error="column", **options)
        assert found["value"].to_pylist() == [kept[0], None]
        assert path in found["value_error"][1].as_py()
        del options["on_new_fields"]
    # The newer version removed `old`, which is no new field.
    options = {**options, "value_schema": "latest", "on_new_fields": "raise"}
    assert len(klamm.read_table(broker.bootstrap_servers, topic, **options)) == 2


def test_new_fields_are_refused_only_with_a_registry_and_by_known_words(cluster):
    servers, registry = cluster[0].bootstrap_servers, cluster[1]
    with pytest.raises(ConfigError, match="needs a registry"):
        klamm.read_table(servers, "t", value_format="json", value_schema=pa.schema([]), on_new_fields="raise")
    with pytest.raises(ConfigError, match="on_new_fields cannot be 'skip'"):
        klamm.read_table(servers, "t", value_format="avro", registry=registry, on_new_fields="skip")


SCALARS = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=8),
    "bytes": st.binary(max_size=8),
}


@st.composite
def schemas(draw, depth=0, names=None):  # noqa: PLR0911
    """Draw a schema and a strategy of its values."""
    names = iter(range(10**6)) if names is None else names
    kind = draw(
        st.sampled_from([*SCALARS, *(("array", "map", "record", "optional", "union", "enum") if depth < 3 else ())])
    )
    if kind in SCALARS:
        return kind, SCALARS[kind]
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCDEF"), min_size=1, unique=True))
        return {"type": "enum", "name": f"E{next(names)}", "symbols": symbols}, st.sampled_from(symbols)
    if kind == "union":
        branches = draw(st.lists(st.sampled_from(["boolean", "long", "string", "bytes"]), min_size=2, unique=True))
        return branches, st.one_of([SCALARS[branch] for branch in branches])
    inner, values = draw(schemas(depth=depth + 1, names=names))
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=3), values, max_size=3)
    if kind == "optional" and not isinstance(inner, list):
        return ["null", inner], st.none() | values
    fields = [field("f0", inner)]
    strategies = {"f0": values}
    for at in range(1, draw(st.integers(1, 3))):
        schema, values = draw(schemas(depth=depth + 1, names=names))
        fields.append(field(f"f{at}", schema))
        strategies[f"f{at}"] = values
    return record(*fields, name=f"R{next(names)}"), st.fixed_dictionaries(strategies)


SLOW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(st.data())
def test_random_values_are_read_as_fastavro_reads_them(dev_cluster, data):
    schema, values = data.draw(schemas())
    schema = record(field("v", schema), name="Top")
    drawn = [{"v": value} for value in data.draw(st.lists(values, min_size=1, max_size=4))]
    payloads = [encoded(schema, value) for value in drawn]
    expected = [fastavro.schemaless_reader(io.BytesIO(p), fastavro.parse_schema(schema)) for p in payloads]
    found = columns(dev_cluster, schema, schema, payloads)
    assert found.to_pylist() == [plain(value, found.type) for value in expected]


@SLOW
@given(st.data())
def test_damaged_bytes_cost_only_their_own_record(dev_cluster, data):
    schema, values = data.draw(schemas())
    schema = record(field("v", schema), name="Top")
    good = encoded(schema, {"v": data.draw(values)})
    bad = data.draw(st.binary(max_size=100))
    at = data.draw(st.integers(0, len(good)))
    mixed = [good, bad, good[:at] + bad, good[:at], good]
    found = columns(dev_cluster, schema, schema, mixed, on_error="null")
    assert len(found) == len(mixed)
    assert found[0].as_py() == found[4].as_py() is not None
    assert found.nbytes < 200_000  # a record of 100 bytes has at most 1,100 items
