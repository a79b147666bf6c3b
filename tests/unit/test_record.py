"""Records and partitions, without a broker."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Sequence
from datetime import datetime, timezone

import pytest

import klamm
from klamm._klamm import Deserializers
from klamm.errors import ArgumentError, ConfigError, DeserializationError


def test_partitions_are_in_the_order_of_topic_and_number():
    tps = [klamm.TopicPartition("b", 0), klamm.TopicPartition("a", 10), klamm.TopicPartition("a", 9, offset=99)]
    assert sorted(tps) == tps[::-1]


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


@pytest.mark.parametrize(
    "timestamp_ms", [1_700_000_000_000_000, 2**63 - 1, -(2**63), -62_135_596_800_001, 253_402_300_800_000]
)
def test_a_timestamp_that_no_datetime_can_represent_is_none(timestamp_ms):
    record = klamm.Record("t", timestamp_ms=timestamp_ms)
    assert (record.timestamp, record.timestamp_ms) == (None, timestamp_ms)


def test_a_record_of_your_own_takes_a_datetime():
    moment = datetime(2026, 5, 1, 12, 30, 0, 500_000, tzinfo=timezone.utc)
    assert klamm.Record("t", timestamp_ms=moment).timestamp == moment
    with pytest.raises(ArgumentError, match="timestamp_ms has to be an int"):
        klamm.Record("t", timestamp_ms=True)


def test_header_names_that_are_not_utf8_survive_a_pickle_and_a_copy():
    names = [name.decode("utf-8", "surrogateescape") for name in (b"name-\xe4b", b"name-\xf6b", b"\xed\xa0\x80", b"")]
    record = klamm.Record("t", headers=[(name, b"%d" % n) for n, name in enumerate(names)])
    assert [name for name, _ in record.headers] == names
    for copied in pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record):  # noqa: S301 - our own
        assert copied == record
        assert copied.headers == record.headers
    assert r"'name-\udce4b'" in repr(record)
    with pytest.raises(ConfigError, match="not valid Unicode"):
        klamm.Record("t", headers=[("\ud800", b"1")])


def test_a_repr_is_short_and_says_how_long_the_value_is():
    text = repr(klamm.Record("t", 0, 5, 1, value=b"x" * 1_000, headers=[("h", b"1")]))
    assert text.startswith("Record(topic='t', partition=0, offset=5, timestamp_ms=1, key=None, value=b'xxx")
    assert "1000 bytes" in text
    assert "headers=[('h', b'1')]" in text
    assert len(text) < 250


def test_a_repr_stays_short_whatever_the_headers():
    headers = [(f"h{number}" + "x" * 100, b"y" * 1_000) for number in range(50)]
    text = repr(klamm.Record("t", headers=headers))
    assert text.endswith(", ... (50 headers)])")
    assert "headers=[('h0xxx" in text
    assert len(text) < 1_000


def test_records_are_equal_if_position_and_content_are():
    fields = {"partition": 1, "offset": 2, "timestamp_ms": 3, "key": b"k", "value": b"v", "headers": [("h", b"1")]}
    record = klamm.Record("t", **fields)
    assert record == klamm.Record("t", **fields)
    assert hash(record) == hash(klamm.Record("t", **fields))
    others = {
        "partition": 2,
        "offset": 3,
        "timestamp_ms": 4,
        "key": None,
        "value": b"",
        "headers": [],
        "timestamp_type": 1,
    }
    for name, other in others.items():
        assert record != klamm.Record("t", **{**fields, name: other}), name
    assert record != klamm.Record("u", **fields)
    assert record != "t"


def test_a_record_cannot_be_changed():
    with pytest.raises(AttributeError):
        klamm.Record("t").value = b"v"


def test_records_survive_a_pickle_and_a_copy():
    record = klamm.Record("t", 2, 7, 1_500, b"k", None, [("a", None)], timestamp_type=1)
    for copied in pickle.loads(pickle.dumps(record)), copy.copy(record):  # noqa: S301 - our own
        assert copied == record
        assert copied.timestamp_type == 1


def test_deserializers_make_of_bytes_what_they_like_and_once():
    seen = []
    made = Deserializers(None, lambda value: seen.append(value) or value.decode())(
        klamm.Record("t", 0, 5, 1, b"k", b"v")
    )
    assert isinstance(made, klamm.Record)
    assert (made.key, made.value, made.value) == (b"k", "v", "v")
    assert seen == [b"v"]
    assert (made.topic, made.partition, made.offset, made.timestamp_ms, made.headers) == ("t", 0, 5, 1, [])
    assert repr(made) == repr(klamm.Record("t", 0, 5, 1, b"k", b"v"))


def test_null_is_not_deserialized():
    made = Deserializers(bytes.decode, bytes.decode)(klamm.Record("t"))
    assert (made.key, made.value) == (None, None)


def test_a_deserialized_record_survives_a_pickle():
    made = Deserializers(int, json.loads)(klamm.Record("t", key=b"5", value=b'{"a": 1}'))
    copied = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own
    assert (copied.key, copied.value) == (5, {"a": 1})
    assert copied == made


def test_what_a_deserializer_raises_says_of_which_record():
    made = Deserializers(None, json.loads)(klamm.Record("t", 3, 9, key=b"k", value=b"{"))
    with pytest.raises(
        DeserializationError, match="cannot deserialize the value of the record in t-3 at offset 9"
    ) as caught:
        _ = made.value
    error = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (error.topic, error.partition, error.offset, error.path) == ("t", 3, 9, "value")
    assert (error.record.key, error.record.value) == (b"k", b"{")
    assert isinstance(caught.value.__cause__, json.JSONDecodeError)
    assert made.key == b"k"


def test_an_interrupt_in_a_deserializer_stays_one():
    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _ = Deserializers(interrupted, None)(klamm.Record("t", key=b"k")).key


@pytest.mark.parametrize("kind", [klamm.Consumer, klamm.AsyncConsumer])
def test_a_deserializer_has_to_be_a_function(kind):
    with pytest.raises(ArgumentError, match="value_deserializer has to be a function of bytes, not str"):
        kind("127.0.0.1:1", value_deserializer="json")


@pytest.mark.parametrize("kind", [klamm.Consumer, klamm.AsyncConsumer])
def test_consumers_without_deserializers_are_as_they_were(kind):
    assert type(kind("127.0.0.1:1")) is kind
    hooked = kind("127.0.0.1:1", value_deserializer=bytes.decode)
    assert isinstance(hooked, kind)
    assert repr(hooked) == f"<klamm.{kind.__name__} of 127.0.0.1:1>"


@pytest.mark.parametrize("kind", [klamm.Record, klamm.Records, klamm.Consumer, klamm.AsyncConsumer])
def test_what_deserializers_make_is_a_parameter_of_the_type(kind):
    assert kind[str, int].__origin__ is kind
    assert kind[str, int].__args__ == (str, int)


def test_a_subclass_of_a_record_works():
    class Mine(klamm.Record):
        pass

    made = [Mine("t", offset=number) for number in range(20)]
    assert [record.offset for record in made] == list(range(20))
    assert made[3] == klamm.Record("t", offset=3)


def test_a_timestamp_type_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="timestamp type 2 does not exist"):
        klamm.Record("t", timestamp_type=2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"value": "text"}, r"value is a str, but Kafka stores bytes; hint: encode it: value.encode\(\)"),
        ({"key": 5}, "key has to be bytes-like or None, not int"),
        ({"headers": [("h", "text")]}, r"headers\[0\].value is a str"),
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


def test_records_have_the_methods_of_a_sequence():
    nothing = klamm.Records()
    assert nothing == klamm.Records()
    assert nothing != []
    assert nothing.count(klamm.Record("t")) == 0
    with pytest.raises(ValueError):  # noqa: PT011 - a list's has no words of its own
        nothing.index(klamm.Record("t"))
    with pytest.raises(IndexError):
        nothing[1 << 70]


def test_records_are_a_sequence():
    assert isinstance(klamm.Records(), Sequence)
    assert list(klamm.Records()) == []
    assert repr(klamm.Records()) == "<Records: none>"
    with pytest.raises(IndexError):
        klamm.Records()[0]


def test_columns_that_no_record_has_are_named():
    pytest.importorskip("pyarrow")
    with pytest.raises(ConfigError, match=r'no column "valu"; hint: there are topic, partition'):
        klamm.Records().to_arrow(["valu"])
