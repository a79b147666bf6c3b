"""`send_arrow` with a format: which columns become parts of a record, and which become fields of its value."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import klamm
import registry_cluster
from klamm.errors import ArgumentError, ConfigError
from klamm.registry import AvroDeserializer, Schema, SchemaError, SchemaNotFoundError
from registry_samples import field, fields

cluster, registry = registry_cluster.cluster, registry_cluster.registry

OWN = ("key", "topic", "partition", "offset", "timestamp", "timestamp_type", "headers")


@pytest.fixture
def send(cluster, registry):
    def send(topic, columns, **options):
        with klamm.Producer(cluster.bootstrap_servers) as producer:
            return producer.send_arrow(
                topic, pa.table(columns), **{"value_format": "avro", "registry": registry, **options}
            )

    return send


@pytest.fixture
def records(cluster, registry):
    def records(topic):
        with klamm.Consumer(cluster.bootstrap_servers, value_deserializer=AvroDeserializer(registry)) as consumer:
            tp = klamm.TopicPartition(topic, 0, 0)
            consumer.assign([klamm.TopicPartition(topic, 0, 0, consumer.end_offsets([tp])[tp])])
            return list(consumer)

    return records


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
@pytest.mark.parametrize("is_given", [True, False])
def test_columns_are_fields_of_the_value_unless_they_are_named(cluster, registry, send, topic, kind, is_given):  # noqa: PLR0917
    columns = {"id": [1], **{name: [90 + at] for at, name in enumerate(OWN)}}
    if is_given and kind == "avro":
        schema = json.dumps(fields(*(field(name, "long", default=0) for name in columns)))
        send(topic, columns, value_schema=schema)
    else:
        send(topic, columns, value_format=kind)
    options = {"value_format": kind, "registry": registry, "columns": ["value", "key"]}
    found = klamm.read_table(cluster.bootstrap_servers, topic, **options).to_pylist()
    assert found == [{"value": {name: value for name, (value,) in columns.items()}, "key": None}]


def test_named_columns_are_parts_of_the_record(send, records, topic):
    columns = {"key": [b"k"], "id": [1], "timestamp": [5], "offset": [9], "headers": [[("h", b"x")]]}
    columns["headers"] = pa.array(columns["headers"], pa.map_(pa.string(), pa.binary()))
    send(topic, columns, record_columns=["timestamp", "key", "headers"])
    (record,) = records(topic)
    assert (record.key, record.timestamp_ms, record.headers) == (b"k", 5, [("h", b"x")])
    assert record.value == {"id": 1, "offset": 9}


def test_a_column_names_the_topic_of_each_record(registry, send, records, topic):
    names = [f"{topic}-a", f"{topic}-b", f"{topic}-a"]
    columns = {"topic": pa.array(names).dictionary_encode(), "id": [1, 2, 3]}
    assert send(None, columns, record_columns=["topic"]) == 3
    assert [record.value for record in records(names[0])] == [{"id": 1}, {"id": 3}]
    assert [record.value for record in records(names[1])] == [{"id": 2}]
    assert json.loads(registry.get_version(f"{topic}-b-value").schema.text)["name"].endswith("_b_value")
    assert send(None, {"topic": names[:1], "value": [{"id": 4}]}) == 1
    assert records(names[0])[-1].value == {"id": 4}
    with pytest.raises(ArgumentError, match="row 1: there is no topic"):
        send(None, {"topic": [names[0], None], "id": [1, 2]}, record_columns=["topic"])
    with pytest.raises(ConfigError, match="twice"):
        send(topic, {"topic": names, "id": [1, 2, 3]}, record_columns=["topic"])


@pytest.mark.parametrize(
    ("columns", "options", "name"),
    [
        ({"value": [1.5], "sensor": ["a"]}, {}, "sensor"),
        ({"value": [1.5], "offset": [9]}, {}, "offset"),
        ({"value": [1.5], "topic": ["t"]}, {}, "topic"),
        ({"value": [{"a": 1}], "sensor": ["a"]}, {}, "sensor"),
        ({"value": [1.5], "key": [b"k"]}, {"record_columns": ["value"]}, "key"),
        ({"id": [1]}, {"record_columns": ["key"]}, "key"),
        ({"key": [b"k"]}, {"record_columns": ["key"]}, "no column is left"),
        ({"id": [1], "value_is_null": [True]}, {}, "value_is_null"),
        ({"value": [1], "value_is_null": [True]}, {"record_columns": ["value", "value_is_null"]}, "value_is_null"),
        ({"id": [1], "value_is_null": [1]}, {"record_columns": ["value_is_null"]}, "has to be bool"),
        ({"id": [1], "value_is_null": [None]}, {"record_columns": ["value_is_null"]}, "has to be bool"),
        ({"id": [1], "offset": [9]}, {"record_columns": ["offset"]}, "offset"),
        ({"id": [1], "key": [b"k"]}, {"record_columns": "key"}, "record_columns"),
    ],
)
def test_a_column_whose_values_would_be_lost_is_an_error(cluster, send, topic, columns, options, name):  # noqa: PLR0917
    with pytest.raises((ArgumentError, ConfigError), match=name):
        send(topic, columns, **options)
    with klamm.Admin(cluster.bootstrap_servers) as admin:
        assert topic not in admin.list_topics()


def test_two_columns_of_one_name_are_an_error(cluster, registry, topic):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["id", "id"])
    with klamm.Producer(cluster.bootstrap_servers) as producer, pytest.raises(ArgumentError, match="two columns `id`"):
        producer.send_arrow(topic, table, value_format="avro", registry=registry)


def test_a_column_value_can_be_a_field(send, records, topic):
    send(topic, {"value": [1.5], "sensor": ["a"]}, record_columns=[])
    assert [record.value for record in records(topic)] == [{"value": 1.5, "sensor": "a"}]


def test_a_field_that_only_the_schema_has_is_not_filled_from_the_record(send, records, topic):
    schema = json.dumps(fields(field("id", "long"), field("offset", "long", default=-1)))
    send(topic, {"id": [1]}, value_schema=schema)
    send(topic, {"id": [1], "offset": [9]}, value_schema=schema)
    assert [record.value["offset"] for record in records(topic)] == [-1, 9]
    with pytest.raises(SchemaError, match="not in the schema") as raised:
        send(topic, {"id": [1], "partition": [0]}, value_schema=schema)
    assert raised.value.path == "partition"


def test_schemas_are_looked_up_and_not_registered_on_request(registry, send, records, topic):
    schema = Schema(json.dumps(fields(field("id", "long"))))
    options = {"value_schema": schema, "auto_register_schemas": False}
    with pytest.raises(SchemaNotFoundError):
        send(topic, {"id": [1]}, **options)
    assert f"{topic}-value" not in registry.subjects()
    registry.register(f"{topic}-value", schema)
    send(topic, {"id": [1]}, **options)
    assert [record.value for record in records(topic)] == [{"id": 1}]


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_a_flattened_table_tells_tombstones_from_records_of_nulls(cluster, registry, send, topic, kind):
    value = pa.array([None, {"a": None}, {"a": 1}], pa.struct([("a", pa.int64())]))
    send(topic, {"key": [b"1", b"2", b"3"], "value": value}, value_format=kind)
    options = {"value_format": kind, "registry": registry}
    flat = klamm.read_table(cluster.bootstrap_servers, topic, flatten=True, **options)
    assert flat.select(["a", "value_is_null"]).to_pylist() == [
        {"a": None, "value_is_null": True},
        {"a": None, "value_is_null": False},
        {"a": 1, "value_is_null": False},
    ]
    copied = dict(zip(flat.column_names, flat.columns, strict=True))
    copied = {name: copied[name] for name in ("a", "key", "value_is_null")}
    send(f"{topic}-copy", copied, value_format=kind, record_columns=["key", "value_is_null"])
    again = klamm.read_table(cluster.bootstrap_servers, f"{topic}-copy", columns=["key", "value"], **options)
    assert again["value"].to_pylist() == value.to_pylist()
    with klamm.Consumer(cluster.bootstrap_servers) as consumer:
        consumer.assign([klamm.TopicPartition(f"{topic}-copy", 0, 0, 3)])
        assert [record.value is None for record in consumer] == [True, False, False]


def test_a_record_that_cannot_be_decoded_is_no_tombstone(cluster, registry, send, topic):
    send(topic, {"value": pa.array([None, {"a": 1}])})
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, b"bad").result(10)
    for on_error in ("null", "column"):
        options = {"value_format": "avro", "registry": registry, "flatten": True, "on_error": on_error}
        flat = klamm.read_table(cluster.bootstrap_servers, topic, columns=["value"], **options)
        assert flat["value_is_null"].to_pylist() == [True, False, None]
        assert flat.column_names == ["a", "value_is_null", *["value_error", "value_raw"] * (on_error == "column")]
    columns = {name: flat[name] for name in ("a", "value_is_null")}
    with pytest.raises(ArgumentError, match="row 2: `value_is_null` is null"):
        send(f"{topic}-copy", columns, record_columns=["value_is_null"])


def test_a_flattened_key_has_its_own_column_for_nulls(cluster, registry, send, topic):
    key = pa.array([{"k": 1}, None])
    send(topic, {"key": key, "value": [{"a": 1}, {"a": 2}]}, key_format="avro")
    options = {"value_format": "avro", "key_format": "avro", "registry": registry, "flatten": True}
    flat = klamm.read_table(cluster.bootstrap_servers, topic, columns=["key", "value"], **options)
    assert flat.column_names == ["k", "key_is_null", "a", "value_is_null"]
    assert flat["key_is_null"].to_pylist() == [False, True]
