"""Avro in the core: schemas, and values of one schema that are read with another."""

import datetime as dt
import decimal
import io
import json
import uuid

import fastavro
import pytest

from klamm._klamm import AvroReader, AvroSchema
from klamm.registry import SchemaError


def record(*fields, name="R", **attributes):
    return {"type": "record", "name": name, **attributes, "fields": [dict(field) for field in fields]}


def field(name, kind, **attributes):
    return {"name": name, "type": kind, **attributes}


def parsed(schema, *references):
    return AvroSchema(json.dumps(schema), [json.dumps(reference) for reference in references])


def encoded(schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def read(writer, data, reader=None):
    return AvroReader(parsed(writer), None if reader is None else parsed(reader)).read(data, 0)


def pair(name, value):
    return name, value


SCHEMAS = [
    "string",
    ["null", "int", {"type": "array", "items": "bytes"}],
    {"type": "map", "values": {"type": "string", "logicalType": "uuid"}},
    record(field("a", "long", default=5, doc="d"), field("b", ["null", "R"]), namespace="x.y", aliases=["Old"]),
    {"type": "fixed", "name": "a.b.F", "namespace": "c", "size": 3},
    record(
        field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"}),
        field("again", "E"),
        field("other", "x.y.E"),
        namespace="x.y",
    ),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_the_canonical_form_and_the_fingerprint_are_those_of_fastavro(schema):
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    found = parsed(schema)
    assert found.canonical == canonical
    assert found.fingerprint.hex() == fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")


def test_a_schema_with_references_has_no_fingerprint():
    found = parsed(record(field("x", "other.Inner")), record(name="Inner", namespace="other"))
    assert (found.name, found.canonical, found.fingerprint) == ("R", None, b"")


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("nope", "unknown"),
        (record(field("a", "int"), field("a", "int")), "two fields of one name"),
        (record(field("a", "int", default="x")), 'default "x" does not fit the type int'),
        (record(field("a", record(field("b", "int"), name="I"), default={})), "does not fit"),
        (record(field("a", "R", default={})), "too deep"),
        ([["null"], "int"], "directly contains a union"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "twice"),
        ({"type": "fixed", "name": "F", "size": -1}, "size of F"),
        ({"type": "fixed", "name": "F", "size": 1 << 40}, "size of F"),
        ({"type": "record", "name": "R"}, "fields"),
        ({"type": "array"}, "items"),
        (7, "not 7"),
        (record(field("a", record()), field("b", record())), "defined twice"),
    ],
    ids=range(13),
)
def test_an_invalid_schema_is_an_error(schema, why):
    with pytest.raises(SchemaError, match="the Avro schema is invalid") as caught:
        parsed(schema)
    assert why in str(caught.value)


def test_text_that_is_nested_too_deep_or_too_long_is_an_error():
    for text in ('{"type": "array", "items": ' * 100_000, "[" * 1_000_000, '"' + "x" * (17 << 20) + '"'):
        with pytest.raises(SchemaError):
            AvroSchema(text, [])


def test_a_schema_with_100_000_fields_is_read():
    schema = parsed(record(*(field(f"f{i}", "int", default=i) for i in range(100_000))))
    found = AvroReader(parsed(record()), schema).read(b"", 0)
    assert found["f99999"] == 99_999


def doubling(levels, **attributes):
    """Return a schema whose names would expand to 10 ** levels fields."""
    inner = record(field("x", "int"), name="L0")
    for level in range(1, levels):
        again = (field(f"f{i}", f"L{level - 1}", **attributes) for i in range(1, 10))
        inner = record(field("f0", inner, **attributes), *again, name=f"L{level}")
    return inner


def test_names_are_not_expanded():
    schema = parsed(doubling(30))
    with pytest.raises(SchemaError, match="shorter"):
        AvroReader(schema).read(b"\0" * 100, 0)


def test_defaults_that_multiply_are_an_error():
    with pytest.raises(SchemaError, match="defaults of the schema are too large"):
        parsed(record(field("x", doubling(12, default={"x": 1}))))


def test_a_chain_of_many_types_needs_no_deep_stack():
    chain = [record(name="N0")] + [record(field("n", f"N{i - 1}"), name=f"N{i}") for i in range(1, 5_000)]
    schema = parsed(chain)
    AvroReader(schema, schema)
    with pytest.raises(SchemaError, match="nested too deep"):
        AvroReader(schema).read(encoded("long", 4_999), 0)


def test_schemas_whose_cycles_multiply_are_read():
    def cycle(size, name):
        inner = f"{name}0"
        for i in range(size - 1, -1, -1):
            inner = record(field("n", ["null", inner]), name=f"{name}{i}")
        return inner

    assert read(cycle(20, "A"), b"\2\2\0", cycle(19, "B")) == {"n": {"n": {"n": None}}}


def test_arrays_without_bytes_and_defaults_in_them_are_bounded():
    def block(count):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, "long", count)
        return out.getvalue() + b"\0"

    nulls = {"type": "array", "items": "null"}
    assert read(nulls, block(65_000)) == [None] * 65_000
    with pytest.raises(SchemaError, match="10000000 items"):
        read(nulls, block(10_000_000))
    empty = {"type": "array", "items": record(name="I")}
    large = {"type": "array", "items": record(field("d", "string", default="x" * 1_000_000), name="I")}
    with pytest.raises(SchemaError, match="defaults of the value are too large"):
        read(empty, block(60_000), large)


@pytest.mark.parametrize(
    ("logical", "kind", "number", "value"),
    [
        ("date", "int", -1, dt.date(1969, 12, 31)),
        ("date", "int", 2_932_896, dt.date(9999, 12, 31)),
        ("date", "int", -719_162, dt.date(1, 1, 1)),
        ("time-millis", "int", 1, dt.time(microsecond=1000)),
        ("time-micros", "long", 86_399_999_999, dt.time(23, 59, 59, 999_999)),
        ("timestamp-millis", "long", -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.timezone.utc)),
        ("timestamp-micros", "long", 951_782_400_000_000, dt.datetime(2000, 2, 29, tzinfo=dt.timezone.utc)),
        ("timestamp-nanos", "long", 1_999, dt.datetime(1970, 1, 1, 0, 0, 0, 1, dt.timezone.utc)),
        ("local-timestamp-micros", "long", 1, dt.datetime(1970, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001
    ],
)
def test_times(logical, kind, number, value):
    assert read({"type": kind, "logicalType": logical}, encoded("long", number)) == value


@pytest.mark.parametrize(
    ("logical", "number"),
    [
        ("date", 2_932_897),
        ("date", -719_163),
        ("time-millis", -1),
        ("time-millis", 86_400_000),
        ("timestamp-micros", 9_223_371_331_200_000_000),
        ("timestamp-millis", -(1 << 63)),
        ("local-timestamp-millis", (1 << 63) - 1),
    ],
)
def test_times_that_python_cannot_hold_are_an_error_of_their_field(logical, number):
    kind = "int" if logical in ("date", "time-millis") else "long"
    schema = record(field("v", record(field("t", {"type": kind, "logicalType": logical}), name="I")))
    with pytest.raises(SchemaError, match=r"field v\.t") as caught:
        read(schema, encoded("long", number))
    assert caught.value.path == "v.t"


def test_a_unit_of_time_is_that_of_the_reader():
    millis, micros = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, dt.timezone.utc)
    assert read(millis, encoded(millis, at), micros) == at
    assert read(micros, encoded(micros, at + dt.timedelta(microseconds=1)), millis) == at
    assert read(millis, encoded(millis, at), "long") == round(at.timestamp() * 1000)


def test_decimals_and_uuids():
    number = decimal.Decimal("-12345678901234567890123456789012345678901234567.89")
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}
    assert read(wide, encoded(wide, number)) == number
    with pytest.raises(SchemaError, match="more than 40 digits"):
        read({**wide, "precision": 40}, encoded(wide, number))
    assert str(read(wide, encoded(wide, decimal.Decimal("1.5")))) == "1.50"
    key = uuid.uuid4()
    assert read({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, key.bytes) == key
    assert read({"type": "string", "logicalType": "uuid"}, encoded("string", str(key))) == key
    with pytest.raises(SchemaError, match="not a UUID"):
        read({"type": "string", "logicalType": "uuid"}, encoded("string", "x"))
    assert read({"type": "bytes", "logicalType": "big-decimal"}, b"\x08\x04\x04\xd2\x04") == decimal.Decimal("12.34")


def test_a_name_wins_over_an_alias():
    writer = record(field("a", "int"), field("b", "int"))
    reader = record(field("c", "int", aliases=["b"], default=0), field("b", "int"), field("d", "int", aliases=["a"]))
    assert read(writer, b"\2\4", reader) == {"c": 0, "b": 2, "d": 1}


def test_a_record_is_found_in_a_union_by_its_name_without_namespace():
    writer = record(field("x", "int"), namespace="old")
    other = record(field("y", "int", default=0), name="Other")
    reader = [other, record(field("x", "long"), namespace="new")]
    assert AvroReader(parsed(writer), parsed(reader), pair).read(b"\2", 0) == ("new.R", {"x": 1})
    renamed = [other, record(field("x", "long"), name="New", aliases=["old.R"])]
    assert AvroReader(parsed(writer), parsed(renamed), pair).read(b"\2", 0) == ("New", {"x": 1})


def test_branches_of_one_type_differ_in_the_logical_type():
    day, at = {"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "time-millis"}
    assert read([day, at, "int"], b"\2\2") == dt.time(microsecond=1000)
    assert read(["null", at], b"\2\2", ["null", "int", day, at]) == dt.time(microsecond=1000)


def test_a_reader_that_fails_for_every_value_is_an_error():
    with pytest.raises(SchemaError, match="no default for it") as caught:
        read(record(field("a", record(name="I"))), b"", record(field("a", record(field("b", "int"), name="I"))))
    assert caught.value.path == "a.b"
    # A branch that no value uses is no error.
    assert read(["string", "int"], b"\2\2", "int") == 1
    with pytest.raises(SchemaError, match="the writer has string, and the reader has int"):
        read(["string", "int"], b"\0\0", "int")


def test_a_reader_says_all_that_it_cannot_read():
    writer = record(
        field("a", "string"),
        field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        field("u", ["null", "int", record(name="I")]),
    )
    reader = record(
        field("a", "int"),
        field("e", {"type": "enum", "name": "E", "symbols": ["A"]}),
        field("u", ["null", "long", record(name="Other")]),
        field("z", "int"),
    )
    found = parsed(reader).incompatibilities(parsed(writer))
    assert len(found) == 4
    for path, why in (("a", "string"), ("e", '"B"'), ("u", "a union of null, long, Other"), ("z", "no default")):
        assert any(why in each and each.endswith(f"(field {path})") for each in found)
    assert parsed(writer).incompatibilities(parsed(writer)) == []
