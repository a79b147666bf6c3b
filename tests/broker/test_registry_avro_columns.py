"""Avro types that contain themselves, schemas that grow without limit, and logical types as columns."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid

import pyarrow as pa
import pytest

import klamm
import registry_cluster
from klamm.registry import AvroSerializer, Schema, SchemaError

cluster, registry = registry_cluster.cluster, registry_cluster.registry

TREE = {"type": "record", "name": "Node", "fields": [
    {"name": "id", "type": "int"},
    {"name": "below", "type": {"type": "array", "items": "Node"}, "default": []},
    {"name": "next", "type": ["null", "Node"], "default": None},
    {"name": "by", "type": {"type": "map", "values": ["null", "Node", "string"]}, "default": {}}]}  # fmt: skip


def send(cluster, registry, topic, schema, *values):
    serializer = AvroSerializer(registry, json.dumps(schema))
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, serializer.serialize(value, topic), partition=0)


def read(cluster, registry, topic, **options):
    options = {"value_format": "avro", "registry": registry, **options}
    return klamm.read_table(cluster.bootstrap_servers, topic, **options)["value"]


def node(number, **fields):
    return {"id": number, "below": [], "next": None, "by": {}, **fields}


def chain(first, last):
    below = [] if first == last else [chain(first + 1, last)]
    return node(first, below=below, next=below[0] if below else None, by=dict.fromkeys("a" if below else "", "x"))


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_type_that_contains_itself_has_columns_to_a_depth(cluster, registry, depth):
    topic = f"avro-tree-{depth}"
    send(cluster, registry, topic, TREE, chain(1, 6))
    (found,) = read(cluster, registry, topic, recursion_depth=depth).to_pylist()
    for number in range(1, depth + 1):
        assert found["id"] == number
        assert found["by"] == [("a", {"Node": None, "string": "x"})]
        (found,) = found["below"]
    assert [json.loads(text) for text in found["below"]] == [chain(depth + 2, 6)]
    assert json.loads(found["next"]) == chain(depth + 2, 6)


def test_a_node_in_a_union_of_several_types(cluster, registry):
    send(cluster, registry, "avro-union", TREE, node(1, by={"a": ("Node", node(2, by={"b": ("Node", node(3))}))}))
    ((found,),) = ([entry[1] for entry in row["by"]] for row in read(cluster, registry, "avro-union").to_pylist())
    assert found["Node"]["by"] == [("b", {"Node": found["Node"]["by"][0][1]["Node"], "string": None})]
    assert json.loads(found["Node"]["by"][0][1]["Node"]) == node(3)


def test_fields_that_are_left_out_do_not_matter(cluster, registry):
    send(cluster, registry, "avro-left-out", TREE, chain(1, 3), node(7))
    reader = {**TREE, "fields": TREE["fields"][:1]}
    for options in ({"value_fields": ["id"]}, {"value_schema": json.dumps(reader)}):
        assert read(cluster, registry, "avro-left-out", **options).to_pylist() == [{"id": 1}, {"id": 7}]
    # The records inside the record keep their fields.
    found = read(cluster, registry, "avro-left-out", value_fields=["next"]).to_pylist()
    assert (found[0]["next"]["id"], found[1]) == (2, {"next": None})


LEAVES = {
    "text": ("string", 'a"\nü', 'a"\nü'),
    "float": ("float", 0.5, 0.5),
    "double": ("double", float("inf"), "Infinity"),
    "bytes": ("bytes", b"\0\xff", "AP8="),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    "bool": ("boolean", True, True),
    "uuid": ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=10), "00000000-0000-0000-0000-00000000000a"),
    "date": ({"type": "int", "logicalType": "date"}, dt.date(2026, 2, 3), "2026-02-03"),
    "time": ({"type": "int", "logicalType": "time-millis"}, dt.time(1, 2, 3, 4000), "01:02:03.004"),
    "stamp": (
        {"type": "long", "logicalType": "timestamp-micros"},
        dt.datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=dt.timezone.utc),
        "2026-02-03T04:05:06.000007Z",
    ),
    "small": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "-0.05", "-0.05"),
    "large": ({"type": "bytes", "logicalType": "decimal", "precision": 99, "scale": 1}, "9" * 90 + ".1", None),
    "free": ({"type": "bytes", "logicalType": "big-decimal"}, "1E+90", "1E+90"),
}


def test_the_text_of_values_of_all_types(cluster, registry):
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, (kind, _, _) in LEAVES.items()]
    schema = {"type": "record", "name": "R", "fields": [*fields, {"name": "r", "type": ["null", "R"], "default": None}]}
    value = {
        name: decimal.Decimal(given) if name in ("small", "large", "free") else given
        for name, (_, given, _) in LEAVES.items()
    }
    send(cluster, registry, "avro-leaves", schema, {"r": value})
    (found,) = read(cluster, registry, "avro-leaves", recursion_depth=0).to_pylist()
    expected = {name: given if text is None else text for name, (_, given, text) in LEAVES.items()}
    assert json.loads(found["r"]) == {**expected, "r": None}


def test_decimals_that_arrow_cannot_represent_are_bytes(cluster, registry):
    wide = {"logicalType": "decimal", "precision": 80, "scale": 3}
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 40, **wide}},
        {"name": "bytes", "type": {"type": "bytes", **wide}},
        {"name": "big", "type": {"type": "bytes", "logicalType": "big-decimal"}},
        {"name": "narrow", "type": {"type": "fixed", "name": "N", "size": 9, "logicalType": "decimal", "precision": 18}}]}  # fmt: skip
    values = [
        {"fixed": number, "bytes": number, "big": number, "narrow": decimal.Decimal(int(number))}
        for number in map(decimal.Decimal, ("-1.5", "0.001"))
    ]
    send(cluster, registry, "avro-decimals", schema, *values)
    found = read(cluster, registry, "avro-decimals")
    kinds = [found.type.field(name).type for name in ("fixed", "bytes", "big", "narrow")]
    assert kinds == [pa.binary(40), pa.binary(), pa.binary(), pa.decimal128(18)]
    assert found.to_pylist() == [
        {"fixed": (-1500).to_bytes(40, "big", signed=True), "bytes": b"\xfa\x24", "big": b"\2\xf1\2",
         "narrow": decimal.Decimal(-1)},
        {"fixed": (1).to_bytes(40, "big"), "bytes": b"\1", "big": b"\2\1\6", "narrow": decimal.Decimal(0)},
    ]  # fmt: skip


def levels(count, fields):
    inner = "int"
    for level in range(count, 0, -1):
        again = [
            {"name": f"f{at}", "type": inner if at == 0 or level == count else f"L{level + 1}"} for at in range(fields)
        ]
        inner = {"type": "record", "name": f"L{level}", "fields": again}
    return inner


@pytest.mark.parametrize("schema", [levels(8, 10), levels(1, 12_000)], ids=["nested", "flat"])
def test_a_schema_with_too_many_columns_is_an_error(cluster, registry, schema):
    topic = f"avro-large-{len(schema['fields'])}"
    registry.register(f"{topic}-value", Schema(json.dumps(schema)))
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, b"\0\0\0\0\1\2")
    with pytest.raises(SchemaError, match="more than 10,000 columns"):
        read(cluster, registry, topic)


def test_types_that_contain_each_other_become_text_below_32_levels(cluster, registry):
    inner = "R0"
    for level in range(20, -1, -1):
        inner = {"type": "record", "name": f"R{level}", "fields": [{"name": "f", "type": ["null", inner]}]}
    send(cluster, registry, "avro-cycle", inner, {"f": {"f": None}})
    kind, depth = read(cluster, registry, "avro-cycle", recursion_depth=10).type, 0
    while pa.types.is_struct(kind):
        kind, depth = kind.field(0).type, depth + 1
    assert (kind, depth) == (pa.string(), 32)


def fields(**kinds):
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}


UUID = {"type": "string", "logicalType": "uuid"}


def test_uuids_have_the_canonical_form_and_other_text_is_an_error(cluster, registry):
    found = registry.register("avro-uuid-value", Schema(json.dumps(fields(a=UUID))))
    values = ["00010203-0405-0607-0809-0A0BFCFDFEFF", "{000102030405060708090a0bfcfdfeff}", "no"]
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        for value in values:
            data = b"\0" + found.id.to_bytes(4, "big") + bytes([2 * len(value)]) + value.encode()
            producer.send("avro-uuid", data, partition=0)
    column = read(cluster, registry, "avro-uuid", on_error="null").to_pylist()
    assert column == [{"a": "00010203-0405-0607-0809-0a0bfcfdfeff"}] * 2 + [None]


@pytest.mark.parametrize(
    ("kind", "column", "why"),
    [
        (UUID, pa.array(["no"]), "is not a UUID"),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, pa.array(["no"]), "is not a UUID"),
        ({"type": "bytes", "logicalType": "big-decimal"}, pa.array([b"\2\1"]), "shorter"),
        ({"type": "int", "logicalType": "time-millis"}, pa.array([-1], pa.time32("ms")), "not within a day"),
        ({"type": "long", "logicalType": "time-micros"}, pa.array([86_400_000_000], pa.time64("us")), "not within a day"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_not_written(cluster, registry, kind, column, why):
    table, topic = pa.table({"a": column}), f"avro-refused-{uuid.uuid4().hex}"
    options = {"value_format": "avro", "registry": registry, "value_schema": json.dumps(fields(a=kind))}
    with (
        klamm.Producer(cluster.bootstrap_servers) as producer,
        pytest.raises(SchemaError, match=f"row 0 of the column value does not fit the schema: .*{why}") as raised,
    ):
        producer.send_arrow(topic, table, **options)
    assert raised.value.path == "a"


def test_uuids_times_and_big_decimals_are_written_as_they_were_read(cluster, registry):
    time = {"type": "int", "logicalType": "time-millis"}
    schema = fields(a=UUID, b={"type": "bytes", "logicalType": "big-decimal"}, c=time)
    value = {"a": uuid.UUID(int=7), "b": decimal.Decimal("1.5"), "c": dt.time(23, 59, 59, 999_000)}
    send(cluster, registry, "avro-copied", schema, value)
    found = read(cluster, registry, "avro-copied")
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        options = {"value_format": "avro", "registry": registry, "value_schema": json.dumps(schema)}
        producer.send_arrow("avro-copy", pa.table({"value": found}), **options)
    assert read(cluster, registry, "avro-copy").to_pylist() == found.to_pylist()


def test_a_batch_ends_before_its_text_needs_much_memory(cluster, registry):
    name = "n" * 1_000_000
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "all", "type": {"type": "array", "items": "R"}}, {"name": name, "type": "boolean"}]}  # fmt: skip
    value = {"all": [{"all": [], name: True}] * 100, name: True}
    send(cluster, registry, "avro-batches", schema, *[value] * 5)
    with klamm.Consumer(cluster.bootstrap_servers) as consumer:
        consumer.assign([klamm.TopicPartition("avro-batches", 0, 0, 5)])
        options = {"value_format": "avro", "registry": registry, "recursion_depth": 0, "columns": ["value"]}
        sizes = [(batch.num_rows, batch.nbytes >> 20) for batch in consumer.arrow(**options)]
    assert sum(rows for rows, _ in sizes) == 5
    assert max(size for _, size in sizes) < 450
