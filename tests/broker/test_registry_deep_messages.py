"""Protobuf types that contain themselves, groups, and schemas that grow without limit become columns or typed errors."""

from __future__ import annotations

import pyarrow as pa
import pytest

import klamm
import registry_cluster
from klamm.errors import ConfigError
from klamm.registry import ProtobufDeserializer, ProtobufSerializer, Schema, SchemaError
from registry_samples import messages

cluster, registry = registry_cluster.cluster, registry_cluster.registry

TREE = 'syntax = "proto3"; message Node { int32 id = 1; repeated Node below = 2; Node next = 3; map<string, Node> by = 4; }'
NODE = messages(TREE, "tree.proto")["Node"]


def send(cluster, registry, topic, *values, text=None):
    serializer = ProtobufSerializer(registry)
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        for value in values:
            data = value if text is not None else serializer.serialize(value, topic)
            if text is not None:
                found = registry.register(f"{topic}-value", Schema(text, "PROTOBUF"))
                data = b"\0" + found.id.to_bytes(4, "big") + b"\0" + value
            producer.send(topic, data, partition=0)


def read(cluster, registry, topic, **options):
    options = {"value_format": "protobuf", "registry": registry, **options}
    return klamm.read_table(cluster.bootstrap_servers, topic, **options)["value"]


def chain(length):
    node = NODE(id=length)
    for number in range(length - 1, 0, -1):
        node = NODE(id=number, below=[node], next=node if number == length - 1 else None)
    return node


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_type_that_contains_itself_has_columns_to_a_depth(cluster, registry, depth):
    topic = f"tree-{depth}"
    send(cluster, registry, topic, chain(6))
    (found,) = read(cluster, registry, topic, recursion_depth=depth).to_pylist()
    for number in range(1, depth + 1):
        assert found["id"] == number
        (found,) = found["below"]
    assert NODE.FromString(found["below"][0]) == chain(6).below[0] if depth == 0 else found["below"]
    rest = NODE.FromString(found["below"][0])
    assert rest.id == depth + 2


def test_the_default_depth_and_the_parts_that_stay_encoded(cluster, registry):
    value = NODE(
        id=1, next=NODE(id=2, next=NODE(id=3)), by={"a": NODE(by={"b": NODE(id=4)}), "c": NODE(by={"d": NODE()})}
    )
    send(cluster, registry, "default", value)
    (found,) = read(cluster, registry, "default").to_pylist()
    assert found["next"] == {"id": 2, "below": [], "next": b"\x08\x03", "by": []}
    assert sorted((key, each["by"]) for key, each in found["by"]) == [("a", [("b", b"\x08\x04")]), ("c", [("d", b"")])]
    assert found["below"] == []


def test_an_encoded_message_that_appears_twice_is_merged(cluster, registry):
    data = (
        NODE(next=NODE(next=NODE(id=1))).SerializeToString()
        + NODE(next=NODE(next=NODE(below=[NODE()]))).SerializeToString()
    )
    send(cluster, registry, "twice", data, text=TREE)
    (found,) = read(cluster, registry, "twice").to_pylist()
    assert NODE.FromString(found["next"]["next"]) == NODE(id=1, below=[NODE()])


def test_columns_are_written_back(cluster, registry):
    send(cluster, registry, "before", chain(6))
    table = pa.table({"value": read(cluster, registry, "before")})
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        producer.send_arrow("after", table, value_format="protobuf", registry=registry, value_schema=NODE)
    (data,) = klamm.read_table(cluster.bootstrap_servers, "after")["value"].to_pylist()
    assert ProtobufDeserializer(registry, NODE).deserialize(data) == chain(6)


def test_a_struct_of_protobuf_becomes_columns(cluster, registry):
    text = 'syntax = "proto3"; import "google/protobuf/struct.proto"; message M { google.protobuf.Struct s = 1; int32 id = 2; }'
    send(cluster, registry, "struct", b"\x0a\x0b\x0a\x09\x0a\x01a\x12\x04\x1a\x02hi\x10\x07", text=text)
    (found,) = read(cluster, registry, "struct").to_pylist()
    ((key, value),) = found["s"]["fields"]
    assert (key, value["string_value"], found["id"]) == ("a", "hi", 7)


def test_groups_are_structs(cluster, registry):
    text = """syntax = "proto2"; message M { optional group One = 1 { optional int32 a = 2; optional group In = 3 {
        optional string b = 4; } } repeated group Many = 5 { optional int32 c = 6; } optional int32 d = 7; }"""
    one, many = b"\x0b\x10\x01\x1b\x22\x01x\x1c\x0c", b"\x2b\x30\x02\x2c\x2b\x2c"
    send(cluster, registry, "groups", one + many + b"\x0b\x10\x09\x0c\x38\x03", b"", text=text)
    assert read(cluster, registry, "groups").to_pylist() == [
        {"one": {"a": 9, "in": {"b": "x"}}, "many": [{"c": 2}, {"c": None}], "d": 3},
        {"one": None, "many": [], "d": None},
    ]
    send(cluster, registry, "broken", b"\x0b\x10\x01", b"\x0b\x10\x01\x14", b"\x0b" * 200, text=text)
    assert read(cluster, registry, "broken", on_error="null").to_pylist() == [None] * 3


def levels(count, fields):
    return 'syntax = "proto3"; ' + " ".join(
        f"message L{level} {{ "
        + " ".join(
            f"{f'L{level + 1}' if level < count else 'int32'} f{number} = {number};" for number in range(1, fields + 1)
        )
        + " }"
        for level in range(1, count + 1)
    )


@pytest.mark.parametrize("text", [levels(8, 10), levels(1, 12_000)], ids=["nested", "flat"])
def test_a_schema_with_too_many_columns_is_an_error(cluster, registry, text):
    topic = f"large-{len(text)}"
    send(cluster, registry, topic, b"", text=text)
    with pytest.raises(SchemaError, match="more than 10,000 columns"):
        read(cluster, registry, topic)
    smaller = Schema('syntax = "proto3"; message L1 { int32 f200000 = 200000; }', "PROTOBUF")
    assert read(cluster, registry, topic, value_schema=smaller).to_pylist() == [{"f200000": 0}]


def test_messages_below_32_levels_stay_encoded(cluster, registry):
    send(cluster, registry, "deep", b"", text=levels(50, 1))
    kind, depth = read(cluster, registry, "deep").type, 0
    while pa.types.is_struct(kind):
        kind, depth = kind.field(0).type, depth + 1
    assert (kind, depth) == (pa.binary(), 32)


@pytest.mark.parametrize("depth", [-1, 11, "1", True, None])
def test_the_depth_is_checked(cluster, registry, depth):
    with pytest.raises(ConfigError, match="recursion_depth"):
        read(cluster, registry, "none", recursion_depth=depth)
