"""Records and their names, without a broker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

import pytest

import klamm
from klamm.errors import ArgumentError, ConfigError


def test_a_record_of_your_own_has_what_you_gave_it():
    record = klamm.Record("t", 2, 7, 1_500, key=b"", value=bytearray(b"v"), headers={"a": b"1", "b": None})
    assert (record.topic, record.partition, record.offset, record.timestamp_ms) == ("t", 2, 7, 1_500)
    assert (record.key, record.value, record.headers) == (b"", b"v", [("a", b"1"), ("b", None)])
    assert record.timestamp == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=timezone.utc)
    assert record.timestamp_type == 0


def test_a_record_may_have_nothing():
    record = klamm.Record("t")
    assert (record.key, record.value, record.headers, record.timestamp) == (None, None, [], None)
    assert (record.timestamp_ms, record.timestamp_type) == (-1, -1)


@pytest.mark.parametrize("timestamp_ms", [0, -5_000, 253_402_300_799_999])
def test_a_timestamp_is_exact(timestamp_ms):
    timestamp = klamm.Record("t", timestamp_ms=timestamp_ms).timestamp
    assert timestamp is not None
    assert (timestamp - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds() * 1000 == timestamp_ms


def test_a_repr_is_short_and_says_how_long_the_value_is():
    text = repr(klamm.Record("t", 0, 5, 1, value=b"x" * 1_000, headers=[("h", b"1")]))
    assert text.startswith("Record(topic='t', partition=0, offset=5, timestamp_ms=1, key=None, value=b'xxx")
    assert "1000 bytes" in text
    assert "headers=[('h', b'1')]" in text
    assert len(text) < 250


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"value": "text"}, r"value is a str, and Kafka stores bytes; hint: encode it: value.encode\(\)"),
        ({"key": 5}, "key has to be bytes-like or None, not int"),
        ({"headers": [("h", "text")]}, "header value is a str"),
        ({"headers": [b"h"]}, "pairs of str and bytes, not bytes"),
        ({"headers": [(b"h", b"v")]}, "pairs of str and bytes"),
        ({"headers": 5}, "pairs of str and bytes, not int"),
    ],
)
def test_what_is_no_bytes_is_refused_with_advice(arguments, says):
    with pytest.raises(ArgumentError, match=says):
        klamm.Record("t", **arguments)


def test_partitions_are_equal_whatever_their_offsets():
    one, other = klamm.TopicPartition("t", 1, offset=5), klamm.TopicPartition("t", 1, end_offset=9)
    assert one == other
    assert hash(one) == hash(other)
    assert {one: "there"}[other] == "there"
    assert one != klamm.TopicPartition("t", 2, offset=5)


def test_records_are_a_sequence():
    assert isinstance(klamm.Records(), Sequence)
    assert list(klamm.Records()) == []
    with pytest.raises(IndexError):
        klamm.Records()[0]


def test_columns_that_no_record_has_are_named():
    pytest.importorskip("pyarrow")
    with pytest.raises(ConfigError, match=r'no column "valu"; hint: there are topic, partition'):
        klamm.Records().to_arrow(["valu"])
