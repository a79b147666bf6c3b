"""JSON text of commands: numbers stay exact, and each line is JSON."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pytest

from klamm.cli.json_text import dumps, loads


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
