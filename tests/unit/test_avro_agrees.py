"""Generated schemas, values and bytes: klamm and fastavro agree, and damaged bytes are a value or a typed error."""

import contextlib
import datetime as dt
import decimal
import io
import itertools
import json
import uuid

import fastavro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from klamm._klamm import AvroReader, AvroSchema, AvroWriter
from klamm.registry import SchemaError
from klamm.registry.convert import simplified

# A busy machine is not a failure.
CALM = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
NAMES = itertools.count()
UTC = dt.timezone.utc
TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
DECIMAL = {"logicalType": "decimal", "precision": 30, "scale": 4}
DECIMALS = st.decimals(-(10**20), 10**20, places=4, allow_nan=False)


def named(kind, **attributes):
    return {"type": kind, "name": f"ns.N{next(NAMES)}", **attributes}


def leaves():
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    return st.one_of(
        st.just(("null", st.none())),
        st.just(("boolean", st.booleans())),
        st.just(("int", st.integers(-(2**31), 2**31 - 1))),
        st.just(("long", st.integers(-(2**63), 2**63 - 1))),
        st.just(("float", st.floats(width=32, allow_nan=False))),
        st.just(("double", st.floats(allow_nan=False))),
        st.just(("bytes", st.binary(max_size=20))),
        st.just(("string", text)),
        st.just(({"type": "string", "logicalType": "uuid"}, st.uuids())),
        st.just(({"type": "int", "logicalType": "date"}, st.dates())),
        st.just(({"type": "long", "logicalType": "time-micros"}, st.times())),
        st.just(({"type": "long", "logicalType": "timestamp-micros"}, TIMES)),
        st.just(({"type": "bytes", **DECIMAL}, DECIMALS)),
        st.builds(lambda: (named("fixed", size=3), st.binary(min_size=3, max_size=3))),
        st.builds(lambda: (named("fixed", size=16, **DECIMAL), DECIMALS)),
        st.builds(lambda: (named("enum", symbols=["A", "B"]), st.sampled_from(["A", "B"]))),
    )


def grown(inner):
    return st.one_of(
        inner.map(lambda p: ({"type": "array", "items": p[0]}, st.lists(p[1], max_size=4))),
        inner.map(
            lambda p: ({"type": "map", "values": p[0]}, st.dictionaries(st.text("abc", max_size=3), p[1], max_size=4))
        ),
        inner.filter(lambda p: p[0] != "null" and not isinstance(p[0], list)).map(
            lambda p: (["null", p[0]], st.none() | p[1])
        ),
        st.lists(inner, max_size=3).map(
            lambda pairs: (
                named("record", fields=[{"name": f"f{i}", "type": pair[0]} for i, pair in enumerate(pairs)]),
                st.fixed_dictionaries({f"f{i}": pair[1] for i, pair in enumerate(pairs)}),
            )
        ),
    )


PAIRS = st.recursive(leaves(), grown, max_leaves=6)


def record(kind):
    return {"type": "record", "name": "Root", "fields": [{"name": "v", "type": kind}]}


def fastavro_written(schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@CALM
@given(PAIRS, st.data())
def test_values_and_bytes_are_those_of_fastavro(pair, data):
    schema, value = record(pair[0]), {"v": data.draw(pair[1])}
    core = AvroSchema(json.dumps(schema), [])
    expected = fastavro_written(schema, value)
    if "decimal" not in json.dumps(schema):  # fastavro writes some decimals with a byte that is not necessary
        assert AvroWriter(core, simplified, True).write(value) == expected
    reader = AvroReader(core)
    found = reader.read(expected, 0)
    assert found == fastavro.schemaless_reader(io.BytesIO(expected), fastavro.parse_schema(schema), None) == value
    assert reader.read(AvroWriter(core, simplified, True).write(value), 0) == value
    # Every other sequence of bytes is a value, or a typed error.
    damaged = bytearray(expected or b"\0")
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    for other in (bytes(damaged), expected[: data.draw(st.integers(0, len(expected)))]):
        with contextlib.suppress(SchemaError):
            reader.read(other, 0)


@CALM
@given(PAIRS, PAIRS, st.data())
def test_values_of_another_schema_are_read_as_by_the_same_plan_twice(writer, reader, data):
    """Resolution and skipping agree: a reader without the field reads what follows it."""
    kinds = [{"name": "v", "type": writer[0]}, {"name": "end", "type": "string"}]
    schema = {"type": "record", "name": "Root", "fields": kinds}
    value = fastavro_written(schema, {"v": data.draw(writer[1]), "end": "end"})
    default = {"name": "w", "type": ["null", reader[0]] if reader[0] != "null" else "null", "default": None}
    if isinstance(reader[0], list):
        default["type"] = reader[0]
    target = {"type": "record", "name": "Root", "fields": [default, kinds[1]]}
    plan = AvroReader(AvroSchema(json.dumps(schema), []), AvroSchema(json.dumps(target), []))
    assert plan.read(value, 0) == {"w": None, "end": "end"}


def test_decimals_and_uuids_of_all_sizes_come_back():
    schema = record({"type": "bytes", "logicalType": "decimal", "precision": 100, "scale": 3})
    core = AvroSchema(json.dumps(schema), [])
    for digits in range(1, 97):
        for sign in (1, -1):
            value = {"v": decimal.Decimal((sign < 0, (9,) * digits, -3))}
            assert AvroReader(core).read(AvroWriter(core, simplified, True).write(value), 0) == value
    key = {"v": uuid.UUID(int=0)}
    core = AvroSchema(json.dumps(record({"type": "string", "logicalType": "uuid"})), [])
    assert AvroReader(core).read(AvroWriter(core, simplified, True).write(key), 0) == key
