"""Numbers in JSON: exact decimals, units of times, and errors that name the number."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pydantic
import pytest

import klamm
from klamm.errors import ConfigError, DeserializationError
from klamm.registry import JsonDeserializer, JsonSerializer, SchemaError, SchemaRegistry
from klamm.registry.dev import DevRegistry
from klamm.testing import DevBroker

UTC = dt.timezone.utc
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
MICROS, NANOS = pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")


@pytest.fixture(scope="module")
def broker():
    with DevBroker() as running:
        yield running


@pytest.fixture
def read(broker, topic):
    """Return a function that sends a JSON value and reads it as a column of an Arrow type."""

    def of(text, kind, **options):
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send(topic, b'{"v": [%s]}' % text.encode()).result(10)
        schema = pa.schema([("v", pa.list_(kind))])
        options = {"value_format": "json", "value_schema": schema, **options}
        return klamm.read_table(broker.bootstrap_servers, topic, **options)["value"]

    return of


def items(column):
    return column.to_pylist()[-1]["v"]


@pytest.mark.parametrize(
    "text", ["1767323045678", "-1", "1767323045.678", "1.5e3", "0", "null, 1", "18446744073709551615"]
)
@pytest.mark.parametrize(
    "kind",
    [MICROS, NANOS, pa.timestamp("s"), pa.duration("us"), pa.time32("s"), pa.time64("us"), pa.date32()],
    ids=str,
)
def test_a_number_without_a_unit_is_no_time(read, text, kind):
    with pytest.raises(DeserializationError) as caught:
        read(text, kind)
    cause = caught.value.__cause__
    assert text.removeprefix("null, ") in cause.message
    assert ("timestamp_unit" in cause.message) is (kind != pa.date32())
    assert cause.path == ("v[1]" if "null" in text else "v[0]")


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("ms", "1767323045678"),
        ("ms", "1767323045678.0009"),
        ("ms", "1.767323045678e12"),
        ("us", "1767323045678000"),
        ("s", "1767323045.678"),
        ("s", "1767323045.6780009999"),
        ("ns", "1767323045678000999"),
        ("ms", '"2026-01-02T03:04:05.678Z"'),
    ],
)
def test_a_number_with_a_unit_is_a_time(read, unit, text):
    assert items(read(text, MICROS, timestamp_unit=unit)) == [MOMENT]


def test_times_before_1970_are_rounded_down(read):
    column = read("-1, -0.001, 1e-20", pa.timestamp("s", "UTC"), timestamp_unit="ms")
    first = dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert items(column) == [first, first, dt.datetime(1970, 1, 1, tzinfo=UTC)]


def test_nanoseconds_are_exact(read):
    column = read("1767323045678000999", NANOS, timestamp_unit="ns")
    assert column.combine_chunks().field("v").flatten().cast(pa.int64()).to_pylist() == [1_767_323_045_678_000_999]


@pytest.mark.parametrize(
    "text",
    ["1767323045678000", "-1e20", "1e400", "1e-200", "9" * 80, '"0000-12-31T00:00:00Z"', '"0001-01-01T00:00:00+14:00"'],
)
@pytest.mark.parametrize("kind", [MICROS, NANOS], ids=str)
def test_a_time_out_of_range_follows_on_error(read, text, kind):
    options = {"timestamp_unit": "s"}
    with pytest.raises(DeserializationError) as caught:
        read(text, kind, **options)
    assert caught.value.__cause__.path == "v[0]"
    assert read(text, kind, on_error="null", **options).to_pylist() == [None, None]


DECIMAL = pa.decimal128(38, 20)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0.1", DECIMAL, "0.1"),
        ("123456789012345678.12345678901234567890", DECIMAL, "123456789012345678.12345678901234567890"),
        ("-9007199254740993", DECIMAL, "-9007199254740993"),
        ("18446744073709551617", pa.decimal128(38, 0), "18446744073709551617"),
        ("1.5E2", DECIMAL, "150"),
        ("1" * 60 + ".25", pa.decimal256(76, 2), "1" * 60 + ".25"),
        ('"0.30"', DECIMAL, "0.3"),
        ("12.5", pa.decimal32(5, 2), "12.5"),
        ("12.5", pa.decimal64(15, 2), "12.5"),
    ],
)
def test_decimal_columns_have_the_digits_of_the_text(read, text, kind, value):
    assert items(read(text, kind)) == [Decimal(value)]


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("3.7", pa.int64(), "the number 3.7, and the column is Int64"),
        ("300", pa.int8(), "the number 300 does not fit the column's type int8"),
        ("-1", pa.uint16(), "the number -1 does not fit the column's type uint16"),
        ("18446744073709551615", pa.int64(), "18446744073709551615"),
        ("7", pa.string(), "the number 7, and the column is Utf8"),
        ("true", pa.int64(), "true, and the column is Int64"),
        ("true", DECIMAL, "true, and the column is Decimal128(38, 20)"),
        ("[1]", MICROS, "an array, and the column is Timestamp"),
        ('"x"', pa.int64(), 'the string "x", and the column is Int64'),
        ('"noon"', MICROS, 'the string "noon", and the column is Timestamp'),
        ("1.005", pa.decimal128(5, 2), "more digits after the point"),
        ("1e300", DECIMAL, "1e300"),
    ],
)
def test_a_value_of_another_type_is_named_for_what_it_is(read, text, kind, shown):
    with pytest.raises(DeserializationError) as caught:
        read(text, kind)
    assert shown in caught.value.__cause__.message
    assert caught.value.__cause__.path == "v[0]"


def test_an_unknown_unit_is_refused(read):
    with pytest.raises(ConfigError, match="allowed: s, ms, us, ns"):
        read("1", MICROS, timestamp_unit="minutes")


@dataclass
class Price:
    amount: Decimal
    rate: float
    at: dt.datetime
    day: dt.date
    id: uuid.UUID
    large: int
    rest: Any = None


def test_values_of_serializers_are_exact(topic):
    price = Price(
        Decimal("123456789012345678901234567890.12345678901234567890"),
        0.1,
        MOMENT,
        dt.date(2026, 1, 2),
        uuid.UUID(int=7),
        10**30,
        [Decimal("1E+3"), Decimal("-0.10")],
    )
    schema = '{"properties": {"amount": {"type": "number", "minimum": 1}, "at": {"type": "string"}}}'
    with DevRegistry() as dev, SchemaRegistry(dev.url) as registry:
        serializer = JsonSerializer(registry, schema)
        data = serializer.serialize(price, topic)
        assert b'"amount":123456789012345678901234567890.12345678901234567890,' in data
        assert b'"at":"2026-01-02T03:04:05.678000Z"' in data
        assert JsonDeserializer(registry, Price).deserialize(data, topic) == price
        assert JsonDeserializer(registry).deserialize(data, topic)["large"] == 10**30
        model = pydantic.create_model("Model", amount=Decimal, rate=float)
        assert JsonDeserializer(registry, model).deserialize(data, topic).amount == price.amount
        naive = serializer.serialize({"at": MOMENT.replace(tzinfo=None)}, topic)
        assert naive.endswith(b'{"at":"2026-01-02T03:04:05.678000Z"}')
        for value in Decimal("NaN"), Decimal("Infinity"):
            with pytest.raises(SchemaError):
                JsonSerializer(registry, schema, validate=False).serialize({"amount": value}, topic)
        with pytest.raises(SchemaError) as caught:
            serializer.serialize({"amount": Decimal("0.99999999999999999999")}, topic)
        assert caught.value.path == "amount"
        deep = []
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(SchemaError, match="recursion"):
            serializer.serialize(deep, topic)
