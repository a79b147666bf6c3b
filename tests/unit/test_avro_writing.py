"""Python objects that become Avro values in the core."""

import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import time
import uuid
from typing import NamedTuple

import pydantic
import pytest

from klamm._klamm import AvroReader, AvroSchema, AvroWriter
from klamm.registry import SchemaError
from klamm.registry.convert import simplified

UTC = dt.timezone.utc


def record(*fields, name="R", **attributes):
    return {"type": "record", "name": name, **attributes, "fields": [dict(field) for field in fields]}


def field(name, kind, **attributes):
    return {"name": name, "type": kind, **attributes}


def logical(kind, name, **attributes):
    return {"type": kind, "logicalType": name, **attributes}


def write(schema, value, *, strict=False):
    return AvroWriter(AvroSchema(json.dumps(schema), []), simplified, strict).write(value)


def come_back(schema, value):
    return AvroReader(AvroSchema(json.dumps(schema), [])).read(write(schema, value), 0)


@dataclasses.dataclass
class Started:
    id: int


@dataclasses.dataclass
class Stopped:
    id: int


class Failed(pydantic.BaseModel):
    id: int = pydantic.Field(alias="ID")
    last: Started | Stopped | None = None


class Paused(NamedTuple):
    id: int


EVENTS = [
    "null",
    record(field("id", "long"), name="Started", namespace="a"),
    record(field("id", "long"), name="Stopped", namespace="a"),
    record(field("ID", "long"), field("last", ["null", "a.Started", "a.Stopped"]), name="Failed"),
    record(field("id", "long"), name="Paused"),
    record(field("id", "long"), field("why", "string"), name="Ended"),
    {"type": "map", "values": "long"},
    {"type": "array", "items": "string"},
    "long",
]


@pytest.mark.parametrize(
    ("value", "branch"),
    [
        (None, 0),
        (Started(1), 1),
        (Stopped(1), 2),
        (Failed(ID=1, last=Stopped(2)), 3),
        (Paused(1), 4),
        (("Stopped", {"id": 1}), 2),
        (("a.Stopped", {"id": 1}), 2),
        (("Stopped", Started(1)), 2),
        ({"-type": "a.Stopped", "id": 1}, 2),
        ({"id": 1}, 1),
        ({"id": 1, "why": "x"}, 5),
        ({"other": 1}, 6),
        (("long", 1), 8),
        (("a", "b"), 7),
        (["a"], 7),
    ],
)
def test_the_name_decides_the_branch_of_a_union(value, branch):
    assert write(EVENTS, value)[0] == branch * 2


def test_the_class_of_an_inner_value_decides_too():
    assert write(EVENTS, Failed(ID=1, last=Stopped(2))) == b"\6\2\4\4"
    assert write({"type": "array", "items": EVENTS}, [Stopped(1), Started(1)]) == b"\4\4\2\2\2\0"


def test_a_branch_that_the_union_does_not_have_is_an_error():
    for value in (("Gone", {"id": 1}), {"-type": "Gone", "id": 1}):
        with pytest.raises(SchemaError, match='no branch "Gone"'):
            write([EVENTS[1], "null", "long"], value)


NUMBERS = ["null", "float", "double", "int", "long"]
TIMES = ["null", logical("int", "date"), logical("long", "timestamp-millis"), logical("int", "time-millis"), "string"]


@pytest.mark.parametrize(
    ("schema", "value", "branch"),
    [
        (NUMBERS, 5, 3),
        (NUMBERS, 1 << 40, 4),
        (NUMBERS, 0.1, 2),
        (NUMBERS, math.inf, 2),
        (["double", "boolean"], True, 1),
        (["boolean", "double"], 1 << 40, 1),
        (TIMES, dt.datetime(2026, 1, 1, 12, tzinfo=UTC), 2),
        (TIMES, dt.date(2026, 1, 1), 1),
        (TIMES, dt.time(1), 3),
        ([logical("long", "timestamp-millis"), logical("long", "timestamp-micros")], dt.datetime(1970, 1, 1, 0, 0, 0, 1), 1),  # noqa: DTZ001
        ([logical("long", "timestamp-micros"), logical("long", "local-timestamp-micros")], dt.datetime(2026, 1, 1), 1),  # noqa: DTZ001
        (["string", logical("string", "uuid")], uuid.uuid4(), 1),
        (["string", {"type": "enum", "name": "E", "symbols": ["A"]}], "A", 0),
        (["bytes", logical("bytes", "decimal", precision=4, scale=2)], decimal.Decimal("1.5"), 1),
        ([{"type": "fixed", "name": "F", "size": 2}, "bytes"], b"abc", 1),
        (["bytes", {"type": "fixed", "name": "F", "size": 2}], bytearray(b"ab"), 0),
    ],
)  # fmt: skip
def test_a_branch_that_loses_information_is_not_chosen(schema, value, branch):
    assert write(schema, value)[0] == branch * 2


class Color(str, enum.Enum):
    RED = "RED"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        ("string", Color.RED, "RED"),
        ({"type": "enum", "name": "Color", "symbols": ["RED"]}, Color.RED, "RED"),
        ("int", Level.HIGH, 3),
        ("double", 3, 3.0),
        ("float", 0.5, 0.5),
        ({"type": "array", "items": "int"}, (1, 2), [1, 2]),
        ({"type": "array", "items": "int"}, {1}, [1]),
        ({"type": "array", "items": "int"}, range(2), [0, 1]),
        ("bytes", memoryview(b"ab"), b"ab"),
        ({"type": "map", "values": "int"}, {"é": 1}, {"é": 1}),
        (record(field("a", "int", default=7), field("b", ["string", "null"])), {}, {"a": 7, "b": None}),
        (record(field("a", record(field("b", "int"), name="I"), default={"b": 3})), {}, {"a": {"b": 3}}),
        (logical("int", "date"), dt.date(1, 1, 1), dt.date(1, 1, 1)),
        (logical("long", "timestamp-nanos"), dt.datetime(2026, 1, 1, tzinfo=UTC), dt.datetime(2026, 1, 1, tzinfo=UTC)),
        (logical("long", "timestamp-micros"), 5, dt.datetime(1970, 1, 1, 0, 0, 0, 5, UTC)),
        (
            logical("long", "timestamp-millis"),
            dt.datetime(2026, 1, 1, 3, tzinfo=dt.timezone(dt.timedelta(hours=3))),
            dt.datetime(2026, 1, 1, tzinfo=UTC),
        ),
        (logical("long", "time-micros"), dt.time(23, 59, 59, 999_999), dt.time(23, 59, 59, 999_999)),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, b"x" * 12, b"x" * 12),
        (logical("bytes", "decimal", precision=4, scale=2), 3, decimal.Decimal("3.00")),
        (logical("bytes", "decimal", precision=4, scale=2), decimal.Decimal("1.5000"), decimal.Decimal("1.50")),
        (logical("bytes", "big-decimal"), decimal.Decimal("-12.5"), decimal.Decimal("-12.5")),
        (logical("bytes", "big-decimal"), decimal.Decimal("1E+3"), decimal.Decimal("1E+3")),
        (
            {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
            uuid.UUID(int=1 << 127),
            uuid.UUID(int=1 << 127),
        ),
    ],
)
def test_values_come_back(schema, value, found):
    back = come_back(schema, value)
    assert back == found
    assert str(back) == str(found)


@pytest.mark.parametrize("text", ["0", "-1", "127", "128", "-128", "-129", "255", "-32768", "9" * 38, "-" + "9" * 60])
def test_decimals_are_written_in_as_few_bytes_as_by_java(text):
    number, digits = decimal.Decimal(text).scaleb(-2, decimal.Context(prec=76)), int(text)
    schema = logical("bytes", "decimal", precision=70, scale=2)
    size = (digits if digits >= 0 else ~digits).bit_length() // 8 + 1
    assert write(schema, number) == bytes([size * 2]) + digits.to_bytes(size, "big", signed=True)
    assert come_back(schema, number) == number
    schema = {"type": "fixed", "name": "F", "size": 32, "logicalType": "decimal", "precision": 70, "scale": 2}
    assert write(schema, number) == digits.to_bytes(32, "big", signed=True)


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("long", 3.7, "of type float, and the schema has long"),
        ("long", 3.0, "of type float, and the schema has long"),
        ("long", True, "of type bool, and the schema has long"),
        ("int", "5", "of type str, and the schema has int"),
        ("int", 1 << 31, "does not fit the type int"),
        ("long", 1 << 63, "of type int, and the schema has long"),
        ("double", True, "of type bool, and the schema has double"),
        ("double", (1 << 53) + 1, "more digits than the type double"),
        ("float", 16_777_217, "more digits than the type float"),
        ("float", 1e300, "does not fit the type float"),
        ("double", decimal.Decimal("1.5"), "of type Decimal"),
        ("boolean", 1, "of type int, and the schema has boolean"),
        ("string", b"x", "of type bytes, and the schema has string"),
        ("string", "\ud800", "surrogates"),
        ("bytes", "x", "of type str, and the schema has bytes"),
        ("null", 0, "of type int, and the schema has null"),
        (logical("int", "date"), dt.datetime(2026, 1, 1, tzinfo=UTC), "of type datetime, and the schema has int (date)"),
        (logical("long", "timestamp-millis"), dt.date(2026, 1, 1), "of type date"),
        (logical("int", "time-millis"), -1, "not within a day"),
        (logical("long", "timestamp-nanos"), dt.datetime(2300, 1, 1, tzinfo=UTC), "1677 to 2262"),
        (logical("bytes", "decimal", precision=4, scale=2), decimal.Decimal("1.234"), "more than 2 digits after"),
        (logical("bytes", "decimal", precision=4, scale=2), decimal.Decimal("123.4"), "more than 4 digits"),
        (logical("bytes", "decimal", precision=4, scale=2), decimal.Decimal("1E+999999"), "more than 4 digits"),
        (logical("bytes", "decimal", precision=4, scale=2), decimal.Decimal("NaN"), "NaN"),
        (logical("bytes", "decimal", precision=4, scale=2), 1.5, "of type float"),
        (logical("string", "uuid"), "x", "not a UUID"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", 'no symbol "B"'),
        ({"type": "fixed", "name": "F", "size": 2}, b"abc", "3 bytes, and F has 2"),
        ({"type": "array", "items": "int"}, 5, "of type int, and the schema has array"),
        ({"type": "map", "values": "int"}, {1: 1}, "keys of a map"),
        (record(field("b", "int"), name="I"), {}, "missing"),
        (record(field("b", "int"), name="I"), object(), "of type object, and the schema has I"),
        (["null", "string"], 5, "of type int, and the schema has string"),
        (["null", "int", "double"], 1 << 40, "does not fit the type int"),
        (["null", "string", "bytes"], 5, "of type int, and the schema has union"),
        ([logical("int", "date"), "string"], dt.datetime(2026, 1, 1, tzinfo=UTC), "of type datetime"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_an_error_with_the_path(kind, value, why):
    schema = record(field("v", {"type": "array", "items": kind}))
    with pytest.raises(SchemaError) as caught:
        write(schema, {"v": [value]})
    assert why in str(caught.value)
    assert caught.value.path.startswith("v[0]")


def test_fields_that_the_schema_lacks_are_refused_on_demand():
    schema = record(field("id", "long"), field("inner", ["null", record(field("x", "int"), name="I")]))
    assert write(schema, {"id": 1, "emial": "a"}) == b"\2\0"
    for value, path in (({"id": 1, "emial": "a"}, "emial"), ({"id": 1, "inner": {"x": 1, "y": 2}}, "inner.y")):
        with pytest.raises(SchemaError, match="does not have the field") as caught:
            write(schema, value, strict=True)
        assert caught.value.path == path
    assert write(schema, {"-type": "R", "id": 1}, strict=True) == b"\2\0"


def test_a_time_without_a_zone_is_utc_on_every_machine(monkeypatch):
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    time.tzset()
    try:
        at = dt.datetime(2026, 3, 1, 12)  # noqa: DTZ001
        assert come_back(logical("long", "timestamp-millis"), at) == at.replace(tzinfo=UTC)
        assert come_back(logical("long", "local-timestamp-millis"), at) == at
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_value_that_contains_itself_is_an_error():
    schema = record(field("next", ["null", "R"]))
    value = {"next": None}
    value["next"] = value
    with pytest.raises(SchemaError, match="nested too deep"):
        write(schema, value)


def test_unions_in_unions_take_no_exponential_time():
    inner = record(field("l", ["null", "A", "B"]), field("v", "int"), name="B")
    schema = record(field("l", ["null", "A", inner]), field("v", "int"), name="A")
    value = {"l": None, "v": "x"}
    for _ in range(40):
        value = {"l": value, "v": 1}
    with pytest.raises(SchemaError, match="of type str, and the schema has int"):
        write(schema, value)
