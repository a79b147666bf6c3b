"""The JSON form of Avro values: what it prints can be read again, and a branch of a union is never guessed."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from klamm.cli.avro_json import AvroJson
from klamm.cli.json_text import dumps, loads
from klamm.registry import Schema
from klamm.registry.avro import parse
from klamm.registry.errors import SchemaError

UTC = dt.timezone.utc
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
TIMESTAMP = {"type": "long", "logicalType": "timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}
ENUM = {"type": "enum", "name": "shop.Color", "symbols": ["AAAA", "RED"]}
FIXED = {"type": "fixed", "name": "Mark", "size": 3}


def record(name, **fields):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


JOBS = [record("shop.Started", job="long"), record("shop.Stopped", job="long"), record("Tree", next=["null", "Tree"])]
MAP = {"type": "map", "values": "string"}


def form(schema):
    return AvroJson(parse(Schema(json.dumps(schema)), {}))


@pytest.mark.parametrize(("schema", "text", "expected"), [
    (DECIMAL, "1234567890123456.78", Decimal("1234567890123456.78")),
    (DECIMAL, '"1234567890123456.78"', Decimal("1234567890123456.78")),
    ("long", "9223372036854775807", 9223372036854775807),
    ("long", "12345678901234567.0", 12345678901234567),
    ("double", '"-Infinity"', float("-inf")), ("double", "7", 7.0), ("bytes", '"AP8="', b"\0\xff"),
    (TIMESTAMP, '"2026-03-01T12:00:00Z"', dt.datetime(2026, 3, 1, 12, tzinfo=UTC)),
    (TIMESTAMP, '"2026-03-01T12:00:00"', dt.datetime(2026, 3, 1, 12, tzinfo=UTC)),
    (TIMESTAMP, "1767323045000", 1767323045000),
    (["null", "string"], '"x"', "x"), (["null", "string"], '{"string": "x"}', "x"),
    (["null", "string"], "null", None), (["null", "string"], '{"null": null}', None),
    (["string", "bytes"], '"AP8="', ("string", "AP8=")), (["string", "bytes"], '{"bytes": "AP8="}', ("bytes", b"\0\xff")),
    (["int", "long", "double"], "5", ("int", 5)), (["int", "long", "double"], "5000000000", ("long", 5000000000)),
    (["int", "long", "double"], "5.0", ("double", 5.0)), (["int", "long", "double"], '{"long": 5}', ("long", 5)),
    (["float", "double"], "0.1", ("double", 0.1)), (["float", "double"], '{"float": 0.1}', ("float", 0.1)),
    ([DATE, TIMESTAMP], '"2026-03-01"', ("int", dt.date(2026, 3, 1))),
    ([DATE, TIMESTAMP], '"2026-03-01T00:00:00Z"', ("long", dt.datetime(2026, 3, 1, tzinfo=UTC))),
    (JOBS, '{"shop.Stopped": {"job": 2}}', ("shop.Stopped", {"job": 2})),
    (JOBS, '{"Stopped": {"job": 2}}', ("shop.Stopped", {"job": 2})),
    (JOBS, '{"next": {"next": null}}', ("Tree", {"next": {"next": None}})),
    (JOBS, '{"next": {"Tree": {"next": null}}}', ("Tree", {"next": {"next": None}})),
    (["string", MAP], '{"string": "x"}', ("string", "x")), (["string", MAP], '{"a": "x"}', ("map", {"a": "x"})),
    (["null", MAP], '{"string": "x"}', {"string": "x"}),
    ([ENUM, FIXED], '"RED"', ("shop.Color", "RED")), ([ENUM, "string"], '{"Color": "RED"}', ("shop.Color", "RED")),
    (["null", record("Rec", Rec="int")], '{"Rec": 5}', {"Rec": 5}),
])  # fmt: skip
def test_values_are_read_as_plain_values_and_in_avros_own_form(schema, text, expected):
    found = form(schema).read(loads(text))
    assert found == expected
    assert type(found) is type(expected)
    if isinstance(found, tuple):
        assert type(found[1]) is type(expected[1])


@pytest.mark.parametrize(("schema", "text", "why"), [
    (JOBS, '{"job": 2}', 'shop.Started, shop.Stopped equally well; name one: {"shop.Started": …}'),
    ([ENUM, "bytes"], '"AAAA"', "equally well"), ([DECIMAL, FIXED], '"1234"', "equally well"),
    (["int", "double"], "9007199254740993", "fits none of the types int, double"),
    (["null", "string"], "5", "5 is not of type string"), (["null", "string"], '{"string": 5}', "5 is not of type string"),
    ("long", "3.7", "not of type long"), ("long", "true", "not of type long"), ("long", "9223372036854775808", "not of type"),
    ("double", "1e400", "too large"), ("float", "1e39", "too large"), ("string", "5", "not of type string"),
    (DECIMAL, "0.001", "does not fit decimal(38, 2)"), (DECIMAL, "1e100000000", "does not fit"), (DECIMAL, '"NaN"', "finite"),
    (FIXED, '"AP8="', "not of type Mark"), ("bytes", '"\u00ff"', "not of type bytes"), ("string", "null", "not of type string"),
    (record("R", a="int"), "{}", "the field a of R is missing"),
])  # fmt: skip
def test_what_does_not_fit_or_is_ambiguous_is_an_error(schema, text, why):
    with pytest.raises(SchemaError) as caught:
        form(schema).read(loads(text))
    assert why in caught.value.message


def test_an_error_has_the_path_of_the_field():
    nested = record(
        "R", lines={"type": "array", "items": record("L", prices={"type": "map", "values": ["null", "int"]})}
    )
    with pytest.raises(SchemaError) as caught:
        form(nested).read({"lines": [{"prices": {"a": 1}}, {"prices": {"b": "x"}}]})
    assert caught.value.path == "lines[1].prices.b"


def test_a_deep_value_takes_no_exponential_time():
    inner = record("B", next=["null", "A", "B"], x="string")
    kinds = [record("A", next=["null", "A", inner], x="int"), "B"]
    value = None
    for _ in range(60):
        value = {"next": value, "x": "text"}
    name, found = form(kinds).read(value)
    assert (name, found["next"][0]) == ("B", "B")
    for _ in range(20_000):
        value = {"next": value, "x": "text"}
    with pytest.raises(SchemaError, match="nested too deep"):
        form(kinds).read(value)


LEAVES = [
    ("null", st.none()), ("boolean", st.booleans()), ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)), ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)), ("string", st.text()), ("bytes", st.binary(max_size=6)),
    (DECIMAL, st.decimals(-(10**30), 10**30, places=2)), (DATE, st.dates()), (ENUM, st.sampled_from(["AAAA", "RED"])),
    (TIMESTAMP, st.integers(0, 2**47).map(lambda us: dt.datetime.fromtimestamp(0, UTC) + dt.timedelta(microseconds=us))),
    (FIXED, st.binary(min_size=3, max_size=3)), ({"type": "string", "logicalType": "uuid"}, st.uuids()),
    ({"type": "long", "logicalType": "time-micros"}, st.times()),
]  # fmt: skip
COMPOUND = [
    ({"type": "map", "values": ["null", "string", "bytes"]}, st.dictionaries(st.text(), st.none() | st.text() | st.binary())),
    (record("Pair", string="int", bytes=["null", "double"]), st.fixed_dictionaries({"string": st.just(1), "bytes": st.none()})),
    ({"type": "array", "items": "double"}, st.lists(st.floats(allow_nan=False))),
    (record("One", string=MAP), st.fixed_dictionaries({"string": st.dictionaries(st.just("string"), st.text())})),
]  # fmt: skip


def type_name(schema):
    return schema if isinstance(schema, str) else schema.get("name", schema["type"])


@st.composite
def typed_values(draw):
    branches = draw(
        st.lists(st.sampled_from(LEAVES + COMPOUND), min_size=1, max_size=6, unique_by=lambda b: type_name(b[0]))
    )
    schema, values = draw(st.sampled_from(branches))
    return [each for each, _ in branches], (type_name(schema), draw(values))


@given(typed_values())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_printed_can_be_read_again(case):
    union, (name, value) = case
    parsed = fastavro.parse_schema(record("Value", v=union))
    data, again = io.BytesIO(), io.BytesIO()
    fastavro.schemaless_writer(data, parsed, {"v": None if value is None else (name, value)})
    converted = form(parsed)
    read = converted.read(loads(dumps(converted.decoded(data.getvalue()))))
    fastavro.schemaless_writer(again, parsed, read)
    assert again.getvalue() == data.getvalue()


def test_a_record_that_equals_another_one_is_printed_with_its_name():
    alike = [record("shop.Started", job="long"), record("shop.Stopped", job="long")]
    schema = Schema(json.dumps(record("Value", v=alike)))
    data = io.BytesIO()
    fastavro.schemaless_writer(data, json.loads(schema.text), {"v": ("shop.Stopped", {"job": 2})})
    converted = AvroJson(parse(schema, {}))
    assert converted.decoded(data.getvalue()) == {"v": {"shop.Stopped": {"job": 2}}}
