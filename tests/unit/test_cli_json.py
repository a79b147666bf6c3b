"""JSON text of commands: numbers stay exact, and each line is JSON."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pytest
from google.protobuf import json_format, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.cli.json_text import dumps, loads
from klamm.cli.typed_formats import message_of
from klamm.registry.pools import pool_of
from klamm.registry.proto import parse


@pytest.mark.parametrize("text", [
    '{"amount": 1234567890123456.78, "n": 123456789012345678901234567890}', "[1.50, -0.0, 1E+400, 0E-10, 12]",
    '["\\ud800", "\u00e9", "\\udc00\\ud800"]', "[true, false, null, {}, []]", '"\\u0000"',
])  # fmt: skip
def test_text_stays_the_same(text):
    assert dumps(loads(text)) == text


def test_values_that_json_does_not_have():
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    value = {"a": [math.nan, {"b": (math.inf, Decimal("0.1"))}], "c": -math.inf, "d": b"\x00\xff", "e": Decimal("NaN")}
    found = json.loads(dumps(value), parse_constant=refuse)
    assert found == {"a": ["NaN", {"b": ["Infinity", 0.1]}], "c": "-Infinity", "d": "AP8=", "e": "NaN"}


@pytest.mark.parametrize("text", ["", "{", b"\xff", "[" * 100_000, "1e999999999999999999999", "9" * 10_000])
def test_text_that_is_not_json_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the texts come from the standard library
        loads(text)


PROTO = """syntax = "proto3"; import "google/protobuf/struct.proto"; import "google/protobuf/timestamp.proto";
message M { uint64 u = 1; sint64 s = 2; double d = 3; float f = 4; bytes b = 5; string t = 6; repeated M items = 7;
map<int64, string> names = 8; oneof kind { int32 i = 9; bool yes = 10; } google.protobuf.Timestamp at = 11;
google.protobuf.Struct any = 12; fixed64 x = 13; }"""
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.decimals(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON_VALUES)
@settings(max_examples=60, deadline=None)
def test_json_comes_back(value):
    again = loads(dumps(value))
    assert again == value
    assert dumps(again) == dumps(value)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_protobuf_messages_come_back(data):
    def message(depth):
        made = kind()
        for name, values in (
            ("u", st.integers(0, 2**64 - 1)), ("s", st.integers(-(2**63), 2**63 - 1)), ("d", st.floats()),
            ("f", st.floats(width=32)), ("b", st.binary()), ("t", st.text()), ("i", st.integers(-5, 5)), ("yes", st.booleans()),
            ("x", st.integers(0, 2**64 - 1)),
        ):  # fmt: skip
            if data.draw(st.booleans()):
                setattr(made, name, data.draw(values))
        made.names.update(data.draw(st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.text())))
        made.at.seconds = data.draw(st.integers(-(10**9), 10**10))
        made.any.update({"n": data.draw(st.integers(-(2**53), 2**53)), "l": [None, {"x": 0.1}]})
        if depth < 2 and data.draw(st.booleans()):
            made.items.append(message(depth + 1))
        return made

    pool = pool_of(parse(PROTO, "m.proto"), {})
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))
    sent = message(0)
    shown = json_format.MessageToDict(sent, preserving_proto_field_name=True)
    again = message_of(kind, loads(dumps(shown)))
    assert again.SerializeToString(deterministic=True) == sent.SerializeToString(deterministic=True)
