"""Column types in DDL as the schema of JSON values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from klamm.errors import ConfigError
from klamm.registry.columns.ddl import arrow_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            r"id BIGINT, note string NOT NULL COMMENT 'it\'s', `at ``1` timestamp",
            pa.struct([("id", pa.int64()), ("note", pa.string()), ("at `1", pa.timestamp("us", "UTC"))]),
        ),
        ("array<map<string, decimal(10,2)>>", pa.list_(pa.map_(pa.string(), pa.decimal128(10, 2)))),
        ("struct<a: INT, b: DATE>", pa.struct([("a", pa.int32()), ("b", pa.date32())])),
        ("a int64, b timestamp[ms]", pa.struct([("a", pa.int64()), ("b", pa.timestamp("ms"))])),
        ("decimal", pa.decimal128(10, 0)),
        ("bigint", pa.int64()),
    ],
)
def test_ddl_becomes_an_arrow_type(text, expected):
    assert arrow_type(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty text"), ("id", "unknown type id"), ("id bigint,", "ends too early"), ("a int, b strin", "unknown type strin"),
        ("array<int", "ends too early"), ("a decimal(99,1)", "precision"), ("a decimal(x)", "'x'"), ("[]", r"unexpected \[\]"),
        ("map<int>", "expected ,, not >"), ("a int)", r"unexpected \)"), ("a int; b int", "unexpected ;"), ("<int>", "unexpected <"),
        ("array<" * 1000, "nested too deep"), ("a struct<b: interval>", "unknown type interval"),
    ],
)  # fmt: skip
def test_other_text_is_an_error(text, why):
    with pytest.raises(ConfigError, match=why) as caught:
        arrow_type(text)
    assert len(caught.value.message) < 300
