"""Typed Arrow columns of Protobuf: messages, the rules of its parsers, and bad input."""

from __future__ import annotations

import datetime as dt

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

import klamm
from klamm.errors import DeserializationError
from klamm.registry import ProtobufSerializer, SchemaRegistry
from klamm.registry.framing import written
from klamm.registry.proto import parse
from registry_samples import messages


@pytest.fixture
def servers(pair):
    return pair[0].bootstrap_servers


@pytest.fixture
def registry(pair):
    with SchemaRegistry(pair[1].url) as running:
        yield running


def send(servers, topic, *values):
    """Send values to one partition."""
    with klamm.Producer(servers) as producer:
        producer.send_many(topic, values, partition=0)


PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Kind { UNKNOWN = 0; BOOK = 1; }
message Other { int32 x = 1; }
message Order {
  int64 id = 1;
  optional string note = 2;
  repeated double prices = 3;
  map<string, int32> counts = 4;
  Kind kind = 5;
  message Line { string sku = 1; uint64 big = 2; }
  repeated Line lines = 6;
  google.protobuf.Timestamp at = 7;
  oneof choice { sint32 number = 8; bytes data = 9; }
  Line main = 10;
  google.protobuf.Int64Value wrapped = 11;
  fixed32 f = 12;
}
"""


@pytest.fixture(scope="module")
def order():
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto()
    file.CopyFrom(parse(PROTO, "order.proto"))
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


EMPTY_ORDER = {"id": 0, "note": None, "prices": [], "counts": [], "kind": "UNKNOWN", "lines": [], "at": None,
               "number": None, "data": None, "main": None, "wrapped": None, "f": 0}  # fmt: skip


def test_protobuf_messages_become_structs(servers, registry, topic, order):
    message = order(id=-7, note="", prices=[1.5, 2], counts={"a": 1}, kind=1, number=-3, f=9)
    message.lines.add(sku="x", big=2**64 - 1)
    message.at.FromDatetime(dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.timezone.utc))
    message.main.sku = "m"
    message.wrapped.value = 0
    serializer = ProtobufSerializer(registry, order)
    with klamm.Producer(servers, value_serializer=serializer) as producer:
        producer.send(topic, message)
        producer.send(topic, order(kind=77))
    found = klamm.read_table(servers, topic, value_format="protobuf", registry=registry)["value"].to_pylist()
    assert found[0] == {
        "id": -7, "note": "", "prices": [1.5, 2.0], "counts": [("a", 1)], "kind": "BOOK",
        "lines": [{"sku": "x", "big": 2**64 - 1}], "at": dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.timezone.utc),
        "number": -3, "data": None, "main": {"sku": "m", "big": 0}, "wrapped": 0, "f": 9,
    }  # fmt: skip
    assert found[1] == {**EMPTY_ORDER, "kind": "77"}
    by_class = klamm.read_table(servers, topic, value_format="protobuf", registry=registry, value_schema=order)
    assert by_class["value"].to_pylist() == found


def test_protobuf_parsers_merge_and_take_the_last_value(servers, registry, topic, order):
    serializer = ProtobufSerializer(registry, order)
    prefix = serializer.serialize(order(), topic)
    parts = [order(id=1, number=5), order(id=2, data=b"d"), order(prices=[1])]
    parts[0].main.sku = "first"
    parts[1].main.big = 4
    payload = b"".join(part.SerializeToString() for part in parts)
    unpacked = b"\x19" + b"\x00" * 8
    unknown = b"\xa0\x06\x01" + b"\xab\x06\x08\x01\xac\x06"  # a varint and a group with large numbers
    send(servers, topic, prefix + payload + unpacked + unknown)
    (row,) = klamm.read_table(servers, topic, value_format="protobuf", registry=registry)["value"].to_pylist()
    assert row == {**EMPTY_ORDER, "id": 2, "prices": [1.0, 0.0], "data": b"d", "main": {"sku": "first", "big": 4}}


def test_the_last_field_of_a_oneof_counts_and_embedded_messages_are_merged_from_there(servers, registry, topic):
    text = """syntax = "proto3";
    message M { oneof c { I a = 1; int32 b = 2; I d = 3; } }
    message I { int32 x = 1; int32 y = 2; I2 deep = 3; } message I2 { int32 x = 1; int32 y = 2; }"""
    kind = messages(text, f"{topic}.proto")["M"]
    prefix = ProtobufSerializer(registry, kind).serialize(kind(), topic)
    parts = [
        kind(a={"x": 1, "deep": {"x": 3}}),
        kind(b=5),
        kind(a={"y": 2, "deep": {"y": 4}}),
        kind(a={"deep": {"x": 6}}),
    ]
    payloads = [b"".join(part.SerializeToString() for part in parts[start:end]) for start, end in
                ((0, 1), (0, 2), (0, 3), (0, 4), (2, 4), (1, 3))]  # fmt: skip
    payloads.append(payloads[3] + kind(d={"x": 9}).SerializeToString())
    send(servers, topic, *(prefix + payload for payload in payloads))
    found = klamm.read_table(servers, topic, value_format="protobuf", registry=registry, columns=["value"])

    def plain(message):
        if message is None:
            return None
        return {"x": message.x, "y": message.y, "deep": {"x": message.deep.x, "y": message.deep.y} if message.HasField("deep") else None}  # fmt: skip

    for row, payload in zip(found["value"].to_pylist(), payloads, strict=True):
        expected = kind.FromString(payload)
        chosen = expected.WhichOneof("c")
        of = {name: plain(getattr(expected, name)) if chosen == name else None for name in ("a", "d")}
        assert row == {"a": of["a"], "b": expected.b if chosen == "b" else None, "d": of["d"]}


def test_messages_that_are_split_at_each_level_are_decoded_once(servers, registry, topic):
    depth = 30
    text = 'syntax = "proto3";' + "".join(
        f"message M{level} {{ M{level + 1} next = 1; int32 x = 2; }}" for level in range(depth)
    )
    kind = messages(text + f"message M{depth} {{ int32 x = 1; }}", f"{topic}.proto")["M0"]
    nested = b"\x08\x07"
    for _ in range(depth):
        length = len(nested)
        size = bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])
        nested = b"\x0a" + size + nested + b"\x0a\x00"
    assert len(nested) < 200
    prefix = ProtobufSerializer(registry, kind).serialize(kind(), topic)
    send(servers, topic, prefix + nested)
    (row,) = klamm.read_table(servers, topic, value_format="protobuf", registry=registry)["value"].to_pylist()
    for _ in range(depth):
        row = row["next"]
    assert row == {"x": 7}


@pytest.mark.parametrize(
    ("payload", "why", "path"),
    [
        (b"\x08", "shorter", "id"),
        (b"\x12\x05ab", "shorter", "note"),
        (b"\x12\x01\xff", "UTF-8", "note"),
        (b"\x32\x03\x0a\x01\xff", "UTF-8", "lines[0].sku"),
        (b"\x0f", "wire type", "id"),
        (b"\x00", "number 0", ""),
        (b"\xab\x06" * 200, "nested", ""),
        (b"\x08" + b"\xff" * 11, "64 bits", "id"),
    ],
)
def test_bad_protobuf_is_an_error_with_its_path(servers, registry, topic, order, payload, why, path):  # noqa: PLR0917
    prefix = ProtobufSerializer(registry, order).serialize(order(), topic)
    send(servers, topic, prefix + payload)
    with pytest.raises(DeserializationError, match=why) as raised:
        klamm.read_table(servers, topic, value_format="protobuf", registry=registry)
    assert raised.value.__cause__.path == path


def test_another_message_of_the_file_is_an_error(servers, registry, topic, order):
    prefix = ProtobufSerializer(registry, order).serialize(order(), topic)
    schema_id = int.from_bytes(prefix[1:5], "big")
    send(servers, topic, prefix, written("id", schema_id, None, (0,)), written("id", schema_id, None, (9,)))
    found = klamm.read_table(servers, topic, value_format="protobuf", registry=registry, on_error="column")
    assert found["value"].to_pylist() == [EMPTY_ORDER, None, None]
    assert [("shop.Other" in e, "position" in e) for e in found["value_error"].to_pylist()[1:]] == [
        (True, False),
        (False, True),
    ]
