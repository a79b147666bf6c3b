"""A ProtobufDeserializer with `to` converts messages without a way through JSON."""

from __future__ import annotations

import datetime as dt
import enum
import json
from collections import UserDict
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

import pytest
from google.protobuf import any_pb2, message_factory

from klamm.registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    JsonSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaError,
    SchemaRegistry,
)
from klamm.registry.dev import DevRegistry
from klamm.registry.pools import pool_of
from klamm.registry.proto import parse

TEXT = """syntax = "proto3"; package shop;
import "google/protobuf/any.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
enum Color { NONE = 0; RED = 1; }
message Line { string text = 1; int32 pieces = 2; }
message Order {
  string customer = 1; int64 number = 2; uint64 big = 3; bytes mark = 4; double price = 5; bool paid = 6; Color color = 7;
  optional string note = 8; Line line = 9; repeated Line lines = 10; map<int64, Line> by_id = 11;
  map<string, Color> colors = 12; oneof pay { string card = 13; int64 cash = 14; }
  google.protobuf.Int64Value limit = 15; google.protobuf.Timestamp at = 16; google.protobuf.Duration wait = 17;
  google.protobuf.Struct extra = 18; google.protobuf.Any detail = 19; Order parent = 20; repeated int64 sizes = 21;
  int32 class = 22;
}"""
FILES = pool_of(parse(TEXT, "order.proto"), {})
ORDER, LINE = (
    message_factory.GetMessageClass(FILES.FindMessageTypeByName(f"shop.{name}")) for name in ("Order", "Line")
)
EMPTY = {
    "customer": "", "number": 0, "big": 0, "mark": b"", "price": 0.0, "paid": False, "color": "NONE", "note": None,
    "line": None, "lines": [], "by_id": {}, "colors": {}, "card": None, "cash": None, "limit": None, "at": None,
    "wait": None, "extra": None, "detail": None, "parent": None, "sizes": [], "class": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def registry():
    with DevRegistry() as dev, SchemaRegistry(dev.url) as client:
        yield client


def read(registry, value, to, topic="t"):
    data = ProtobufSerializer(registry).serialize(value, topic)
    return ProtobufDeserializer(registry, to=to).deserialize(data, "t")


def test_an_empty_message_has_the_defaults(registry):
    assert read(registry, ORDER(), dict) == EMPTY


def test_every_kind_of_field(registry):
    order = ORDER(
        customer="anna", number=-(2**63), big=2**64 - 1, mark=b"\xff\0", price=1.5, paid=True, color=9, note="",
        line=LINE(), lines=[LINE(text="a")], by_id={-7: LINE(pieces=2)}, colors={"x": 1}, cash=0, sizes=[1, 2**62],
        parent=ORDER(color=1),
    )  # fmt: skip
    order.limit.value = 0
    order.at.FromDatetime(dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.timezone.utc))
    order.wait.FromTimedelta(dt.timedelta(seconds=-1.5))
    order.extra.update({"a": [1, None, {"b": True}], "c": "d"})
    setattr(order, "class", 4)
    assert read(registry, order, dict) == {
        **EMPTY, "customer": "anna", "number": -(2**63), "big": 2**64 - 1, "mark": b"\xff\0", "price": 1.5, "paid": True,
        "color": 9, "note": "", "line": {"text": "", "pieces": 0}, "lines": [{"text": "a", "pieces": 0}],
        "by_id": {-7: {"text": "", "pieces": 2}}, "colors": {"x": "RED"}, "cash": 0, "sizes": [1, 2**62],
        "parent": {**EMPTY, "color": "RED"}, "limit": 0, "at": dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.timezone.utc),
        "wait": dt.timedelta(seconds=-1.5), "extra": {"a": [1.0, None, {"b": True}], "c": "d"}, "class": 4,
    }  # fmt: skip


class TestAny:
    def packed(self, message):
        order = ORDER()
        order.detail.type_url = f"type.googleapis.com/{message.DESCRIPTOR.full_name}"
        order.detail.value = message.SerializeToString()
        return order

    def test_a_type_of_the_schema(self, registry):
        order = self.packed(LINE(text="x"))
        assert read(registry, order, dict)["detail"] == {
            "@type": "type.googleapis.com/shop.Line", "text": "x", "pieces": 0,
        }  # fmt: skip
        assert read(registry, order, Detailed).detail == Line("x", 0)

    def test_a_type_that_is_not_a_message_of_fields(self, registry):
        at = ORDER().at
        at.FromSeconds(1)
        found = read(registry, self.packed(at), dict)["detail"]
        assert found["value"] == dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc)

    def test_an_unknown_type(self, registry):
        order = ORDER()
        order.detail.type_url, order.detail.value = "type.googleapis.com/other.M", b"\x01"
        assert read(registry, order, dict)["detail"] == {"type_url": "type.googleapis.com/other.M", "value": b"\x01"}

    def test_damaged_bytes(self, registry):
        order = self.packed(LINE())
        order.detail.value = b"\x0a\xff"
        with pytest.raises(SchemaError) as caught:
            read(registry, order, dict)
        assert caught.value.path == "detail"

    def test_a_bomb_of_nested_values(self, registry):
        inner = any_pb2.Any(type_url="/google.protobuf.Any")
        for _ in range(300):
            inner = any_pb2.Any(type_url="/google.protobuf.Any", value=inner.SerializeToString())
        found = read(registry, self.packed(inner), dict)["detail"]
        for _ in range(7):
            found = found["value"] if isinstance(found["value"], dict) else found
        assert str(found).count("@type") < 10


@pytest.mark.parametrize("seconds", [-62135596801, 253402300800])
def test_times_outside_of_datetime_name_the_field(registry, seconds):
    order = ORDER()
    order.parent.at.seconds = seconds
    with pytest.raises(SchemaError) as caught:
        read(registry, order, dict)
    assert caught.value.path == "parent.at"


class Color(enum.Enum):
    NONE = "NONE"
    RED = "RED"


class Piece(NamedTuple):
    text: str
    pieces: int


@dataclass
class Line:
    text: str
    pieces: int = 7


@dataclass
class Detailed:
    detail: Line


@dataclass
class Order:
    customer: str
    number: int
    mark: bytes
    color: Color
    lines: list[Line]
    by_id: dict[int, Line]
    note: str = "none"
    line: Line | None = None
    limit: int | None = 3
    sizes: list[int] = field(default_factory=list)
    at: Any = None


class Plain(TypedDict, total=False):
    customer: str
    number: int
    note: str


def test_a_dataclass(registry):
    order = ORDER(customer="a", number=2**60, mark=b"\x01", color=1, lines=[LINE(text="x")], by_id={1: LINE()})
    assert read(registry, order, Order) == Order(
        "a", 2**60, b"\x01", Color.RED, [Line("x", 0)], {1: Line("", 0)}, "none", None, 3, [], None
    )


def test_a_typed_dict_lacks_fields_that_are_not_set(registry):
    assert read(registry, ORDER(customer="a"), Plain) == {"customer": "a", "number": 0}
    assert read(registry, ORDER(note="n"), Plain) == {"customer": "", "number": 0, "note": "n"}


def test_a_pydantic_model(registry):
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model(
        "Model", customer=(str, ...), number=(int, ...), mark=(bytes, ...), color=(Color, ...), note=(str, "none"),
        at=(dt.datetime, ...),
    )  # fmt: skip
    order = ORDER(number=2**60, mark=b"\xff")
    order.at.FromSeconds(1)
    found = read(registry, order, model)
    assert (found.number, found.mark, found.color, found.note) == (2**60, b"\xff", Color.NONE, "none")
    assert found.at == dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc)


def test_a_function_gets_a_dict(registry):
    assert read(registry, ORDER(number=3), lambda value: (type(value), value["number"], value["note"])) == (
        dict,
        3,
        None,
    )


def test_fields_of_proto2_that_are_not_set(registry):
    text = 'syntax = "proto2"; message M { optional int32 a = 1 [default = 5]; required int32 b = 2; }'
    kind = message_factory.GetMessageClass(pool_of(parse(text, "two.proto"), {}).FindMessageTypeByName("M"))
    assert read(registry, kind(b=1), dict, "two") == {"a": None, "b": 1}


class TestWriting:
    @pytest.mark.parametrize(
        "value",
        [
            {"mark": b"\xff\0ab"},
            {"mark": b"abcd"},
            {"number": 2**63 - 1, "big": 2**64 - 1},
            {"price": float("inf")},
            {"price": float("-inf")},
            {"at": dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.timezone.utc)},
            {"wait": dt.timedelta(days=2, microseconds=1)},
            {"wait": -dt.timedelta(microseconds=1)},
            {"limit": 0},
            {"by_id": {7: {"text": "", "pieces": 1}}, "colors": {"a": "RED"}},
            {"lines": [{"text": "x", "pieces": 0}], "parent": {**EMPTY, "mark": b"\x01"}},
            {"extra": {"a": [1.0, None]}},
            {"detail": {"@type": "type.googleapis.com/shop.Order", **EMPTY, "mark": b"\xff"}},
            {"detail": {"@type": "type.googleapis.com/google.protobuf.Duration", "value": dt.timedelta(1)}},
            {"note": None, "class": 3, "paid": True, "color": "RED", "cash": 0},
        ],
        ids=str,
    )
    def test_what_is_read_is_written_back(self, registry, value):
        data = ProtobufSerializer(registry, ORDER).serialize(value, "t")
        assert ProtobufDeserializer(registry, to=dict).deserialize(data) == {**EMPTY, **value}

    def test_the_json_form(self, registry):
        value = {"mark": "/w==", "number": "7", "at": "1970-01-01T00:00:01Z", "byId": {"7": {}}, "price": "Infinity"}
        found = ProtobufDeserializer(registry, ORDER).deserialize(
            ProtobufSerializer(registry, ORDER).serialize(value, "t")
        )
        assert (found.mark, found.number, found.at.seconds, found.price) == (b"\xff", 7, 1, float("inf"))
        assert 7 in found.by_id

    def test_a_naive_datetime_is_in_utc(self, registry):
        data = ProtobufSerializer(registry, ORDER).serialize({"at": dt.datetime(1970, 1, 1, 0, 0, 1)}, "t")  # noqa: DTZ001
        assert ProtobufDeserializer(registry, ORDER).deserialize(data).at.seconds == 1

    def test_a_dataclass(self, registry):
        order = Order("a", 2**60, b"\x01ab", Color.RED, [Line("x", 0)], {1: Line("", 0)}, line=Line("y"))
        data = ProtobufSerializer(registry, ORDER).serialize(order, "t")
        assert ProtobufDeserializer(registry, to=Order).deserialize(data) == order

    def test_a_pydantic_model(self, registry):
        pydantic = pytest.importorskip("pydantic")
        model = pydantic.create_model("Model", mark=(bytes, ...), at=(dt.datetime, ...))
        value = model(mark=b"\xff", at=dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc))
        data = ProtobufSerializer(registry, ORDER).serialize(value, "t")
        assert ProtobufDeserializer(registry, to=model).deserialize(data) == value

    def test_objects_inside_a_value_become_fields_in_every_format(self, registry):
        pydantic = pytest.importorskip("pydantic")
        lines = pydantic.RootModel[list[Piece]]([Piece("a", 1)])
        value = {"customer": "b", "line": Piece("x", 2), "lines": lines, "colors": UserDict({"k": Color.RED})}
        piece = {
            "type": "record",
            "name": "Piece",
            "fields": [{"name": "text", "type": "string"}, {"name": "pieces", "type": "int"}],
        }
        colors = {"type": "map", "values": {"type": "enum", "name": "Color", "symbols": ["RED"]}}
        types = {"customer": "string", "line": piece, "lines": {"type": "array", "items": "Piece"}, "colors": colors}
        fields = [{"name": name, "type": each} for name, each in types.items()]
        avro = AvroSerializer(registry, json.dumps({"type": "record", "name": "O", "fields": fields}))
        expected = {
            "customer": "b",
            "line": {"text": "x", "pieces": 2},
            "lines": [{"text": "a", "pieces": 1}],
            "colors": {"k": "RED"},
        }
        assert AvroDeserializer(registry).deserialize(avro.serialize(value, "avro")) == expected
        data = ProtobufSerializer(registry, ORDER).serialize(value, "t")
        assert ProtobufDeserializer(registry, to=dict).deserialize(data) == {**EMPTY, **expected}
        data = JsonSerializer(registry, "{}").serialize({**value, "line": Line("x", 2)}, "json")
        assert JsonDeserializer(registry).deserialize(data) == {**expected, "lines": [["a", 1]]}

    @pytest.mark.parametrize(
        "value", [{"number": 3.7}, {"number": True}, {"mark": 3}, {"none": 1}, {"at": 5}, {"paid": 1}]
    )
    def test_values_of_other_types_are_refused(self, registry, value):
        with pytest.raises(SchemaError, match=r"shop\.Order"):
            ProtobufSerializer(registry, ORDER).serialize(value, "t")
