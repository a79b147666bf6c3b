"""Random Arrow tables come back from `send_arrow` and `read_table` as they were, with the schema that klamm derives."""

from __future__ import annotations

import datetime as dt
import uuid

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import klamm
import registry_cluster
from klamm.registry import ProtobufDeserializer, SchemaError

cluster, registry = registry_cluster.cluster, registry_cluster.registry

KINDS = ["avro", "json", "protobuf"]
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
YEAR_1, YEAR_9999 = -62_135_596_800, 253_402_300_799  # in seconds since 1970
DAY = 86_400 * 10**9


def integers(bits, signed=True):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


def times(unit, step):
    """Return times since 1970 that the unit can represent, as multiples of `step` nanoseconds."""
    least, most = max(YEAR_1 * 10**9, -(2**63) * UNITS[unit]), min(YEAR_9999 * 10**9, (2**63 - 1) * UNITS[unit])
    step = max(step, UNITS[unit])
    return st.integers(-(-least // step), most // step).map(lambda count: count * step // UNITS[unit])


def leaves(kind):
    """Return the types without children that a format accepts, and strategies of their values."""
    text, data = st.text(max_size=6), st.binary(max_size=6)
    found = [(pa.bool_(), st.booleans()), (pa.float64(), st.floats(allow_nan=False, allow_infinity=kind != "json"))]
    found += [(pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=kind != "json"))]
    found += [(getattr(pa, f"int{bits}")(), integers(bits)) for bits in (8, 16, 32, 64)]
    found += [(getattr(pa, f"uint{bits}")(), integers(bits, signed=False)) for bits in (8, 16, 32)]
    # Avro and JSON Schema have only signed integers.
    found += [(pa.uint64(), integers(64, signed=False) if kind == "protobuf" else st.integers(0, 2**63 - 1))]
    found += [
        (of, text) for of in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))
    ]
    found += [(pa.dictionary(pa.int32(), pa.int64()), integers(64))] if kind != "protobuf" else []
    found += [(of, data) for of in (pa.binary(), pa.large_binary())] + [
        (pa.binary(3), st.binary(min_size=3, max_size=3))
    ]
    found += [(pa.timestamp(unit, "UTC"), times(unit, 1 if kind == "avro" else 1000)) for unit in UNITS]
    if kind != "protobuf":
        found += [(pa.null(), st.none()), (pa.date32(), st.dates()), (pa.date64(), st.dates())]
    if kind == "protobuf":
        found += [
            (
                pa.duration(unit),
                st.integers(-(10**12), 10**12).map(lambda n, unit=unit: n * max(1000 // UNITS[unit], 1)),
            )
            for unit in UNITS
        ]
    if kind == "avro":
        found += [(pa.timestamp(unit), times(unit, 1)) for unit in UNITS]
        found += [(pa.time32(unit), st.integers(0, DAY // UNITS[unit] - 1)) for unit in ("s", "ms")]
        found += [
            (pa.time64(unit), st.integers(0, DAY // 1000 - 1).map(lambda n, unit=unit: n * 1000 // UNITS[unit]))
            for unit in ("us", "ns")
        ]
        found += [
            (pa.decimal128(9, 2), st.decimals(-(10**6), 10**6, places=2)),
            (pa.decimal256(50, 9), st.decimals(-(10**40), 10**40, places=9)),
        ]
    return found


@st.composite
def types(draw, kind, depth=0, in_list=False):
    """Draw a type and a strategy of its values."""
    nested = ["struct", "list", "map"] if depth < 2 else []
    if in_list and kind == "protobuf":
        nested = nested[:1]
    chosen = draw(st.sampled_from([*range(6), *nested]))
    if chosen == "struct":
        names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3, unique=True))
        members = {name: draw(types(kind, depth + 1)) for name in names}
        return pa.struct([(name, of) for name, (of, _) in members.items()]), st.fixed_dictionaries(
            {name: values for name, (_, values) in members.items()}
        )
    if chosen == "list":
        inner, values = draw(types(kind, depth + 1, in_list=True))
        # Protobuf has no null for items and lists.
        values = values.filter(lambda value: value is not None) if kind == "protobuf" else values
        lists = st.lists(values, max_size=3)
        of = draw(st.sampled_from([pa.list_, pa.large_list]))
        return of(inner), lists if kind == "protobuf" else st.none() | lists
    if chosen == "map":
        inner, values = draw(types(kind, depth + 1, in_list=True))
        values = values.filter(lambda value: value is not None) if kind == "protobuf" else values
        pairs = st.dictionaries(st.text(max_size=3), values, max_size=3).map(lambda found: list(found.items()))
        return pa.map_(pa.string(), inner), pairs if kind == "protobuf" else st.none() | pairs
    of, values = draw(st.sampled_from(leaves(kind)))
    return of, st.none() | values


def plain(value):  # noqa: PLR0911
    """Return a value of Arrow in a form that does not depend on its unit and its layout."""
    of = value.type
    if not value.is_valid:
        return None
    if pa.types.is_dictionary(of):
        return plain(value.dictionary[value.index.as_py()])
    if pa.types.is_struct(of):
        return {name: plain(value[name]) for name in sorted(field.name for field in of)}
    if pa.types.is_map(of):
        return [(entry["key"].as_py(), plain(entry["value"])) for entry in value.values]
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return [plain(item) for item in value.values]
    if pa.types.is_date(of):
        return value.as_py().isoformat()
    if pa.types.is_temporal(of):
        return value.value * UNITS[of.unit]
    return value.as_py()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_table_comes_back_as_it_was(cluster, registry, kind, data):
    of, values = data.draw(types(kind))
    rows = data.draw(st.lists(values, min_size=1, max_size=4))
    table = pa.table({"x": pa.array(rows, of)})
    topic = f"{kind}-{uuid.uuid4().hex}"
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        assert producer.send_arrow(topic, table, value_format=kind, registry=registry) == len(rows)
    options = {"value_format": kind, "registry": registry, "columns": ["value"], "flatten": True}
    found = klamm.read_table(cluster.bootstrap_servers, topic, **options)["x"]
    assert [plain(value) for value in found] == [plain(value) for value in table["x"]]


@pytest.mark.parametrize(
    ("kind", "column", "why"),
    [
        ("json", pa.array([10**12], pa.timestamp("s", "UTC")), "year"),
        ("json", pa.array([-(10**11)], pa.timestamp("s", "UTC")), "year"),
        ("json", pa.array([3 * 10**6], pa.date32()), "year"),
        ("protobuf", pa.array([[("a", None)]], pa.map_(pa.string(), pa.int32())), "null"),
        ("protobuf", pa.array([1], pa.timestamp("ns", "UTC")), "would lose data"),
        ("avro", pa.array([1], pa.time64("ns")), "would lose data"),
        ("avro", pa.array([2**63], pa.uint64()), "not in range"),
        ("avro", pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32())), "Avro has no type"),
        ("json", pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32())), "JSON Schema has no type"),
        ("protobuf", pa.array([[(1.5, 2)]], pa.map_(pa.float64(), pa.int32())), "Protobuf has no type"),
        ("protobuf", pa.array([[[("a", 1)]]], pa.list_(pa.map_(pa.string(), pa.int32()))), "Protobuf has no type"),
        ("json", pa.array([{}], pa.struct([])), "JSON Schema has no type"),
        ("avro", pa.array([100], pa.decimal128(5, -2)), "Avro has no type"),
    ],
)
def test_what_would_not_come_back_is_refused(cluster, registry, topic, kind, column, why):  # noqa: PLR0917
    with klamm.Producer(cluster.bootstrap_servers) as producer, pytest.raises(SchemaError, match=why):
        producer.send_arrow(topic, pa.table({"x": column}), value_format=kind, registry=registry)


def test_other_clients_read_negative_durations(cluster, registry, topic):
    table = pa.table({"x": pa.array([-1_500_000, -1, 1_500_000], pa.duration("us"))})
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        producer.send_arrow(topic, table, value_format="protobuf", registry=registry)
    with klamm.Consumer(cluster.bootstrap_servers, value_deserializer=ProtobufDeserializer(registry)) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, 0, 3)])
        found = [record.value.x for record in consumer]
    assert [(one.seconds, one.nanos) for one in found] == [(-1, -500_000_000), (0, -1000), (1, 500_000_000)]
    assert [one.ToTimedelta() for one in found] == [dt.timedelta(seconds=x) for x in (-1.5, -1e-6, 1.5)]
