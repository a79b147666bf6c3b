"""Headers with schema IDs: the last one counts, and the header of an earlier value does no harm."""

from __future__ import annotations

import asyncio
import json

import pyarrow as pa
import pytest

import klamm
import registry_cluster
from cli_process import klamm as run
from klamm.errors import DeserializationError
from klamm.registry import (
    AsyncSchemaRegistry,
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    JsonSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaError,
)
from registry_samples import PROTOS, field, fields

cluster, registry = registry_cluster.cluster, registry_cluster.registry

NAME = "__value_schema_id"
OLD = json.dumps(fields(field("a", "string")))
NEW = json.dumps(fields(field("b", "string")))
KINDS = {
    "avro": (lambda r, **more: AvroSerializer(r, NEW, **more), AvroDeserializer, {"b": "done"}),
    "json": (lambda r, **more: JsonSerializer(r, "{}", **more), JsonDeserializer, {"b": "done"}),
    "protobuf": (ProtobufSerializer, lambda r: ProtobufDeserializer(r, PROTOS["First"]), PROTOS["First"](x=3)),
}
FRAMINGS = ("id", "guid", "header_id", "header_guid")
each_kind = pytest.mark.parametrize("kind", KINDS)
each_framing = pytest.mark.parametrize("framing", FRAMINGS)


@pytest.fixture
def stale(registry):
    """The header of an earlier value that had another Avro schema."""
    headers = []
    AvroSerializer(registry, OLD, framing="header_id").serialize({"a": "x"}, "old", headers=headers)
    return headers


@each_kind
@each_framing
def test_a_serializer_removes_the_header_of_an_earlier_value(registry, stale, kind, framing):
    make, reader, value = KINDS[kind]
    headers = [("mine", b"1"), *stale, ("__key_schema_id", b"k"), *stale]
    data = make(registry, framing=framing).serialize(value, f"new-{kind}", headers=headers)
    assert headers[:2] == [("mine", b"1"), ("__key_schema_id", b"k")]
    assert [name for name, _ in headers[2:]] == [NAME] * framing.startswith("header")
    assert reader(registry).deserialize(data, headers=headers) == value


@each_kind
def test_the_last_header_of_a_name_counts(registry, stale, kind):
    make, reader, value = KINDS[kind]
    headers = []
    data = make(registry, framing="header_id").serialize(value, f"new-{kind}", headers=headers)
    assert reader(registry).deserialize(data, headers=[*stale, *headers]) == value
    if kind == "avro":
        assert reader(registry).deserialize(data, headers=[*headers, *stale]) == {"a": "done"}
    else:
        with pytest.raises(SchemaError):
            reader(registry).deserialize(data, headers=[*headers, *stale])


@each_kind
@pytest.mark.parametrize("framing", ["id", "guid"])
@pytest.mark.parametrize("header", ["stale", b"\0\0\0\xff\xff", b"\0\0", b"text"])
def test_a_stale_header_does_not_fail_a_value_with_a_framing(registry, stale, kind, framing, header):
    make, reader, value = KINDS[kind]
    data = make(registry, framing=framing).serialize(value, f"new-{kind}")
    headers = stale if header == "stale" else [(NAME, header)]
    assert reader(registry).deserialize(data, headers=headers) == value


def test_an_avro_value_that_starts_like_a_framing_is_read_with_its_header(registry):
    schema = json.dumps(fields(*(field(name, "long") for name in "abcde")))
    headers = []
    zeros = dict.fromkeys("abcde", 0)
    data = AvroSerializer(registry, schema, framing="header_id").serialize(zeros, "zeros", headers=headers)
    assert data == bytes(5)
    assert AvroDeserializer(registry).deserialize(data, headers=headers) == zeros
    with pytest.raises(SchemaError, match="1 bytes before the end"):
        AvroDeserializer(registry).deserialize(data + b"x", headers=headers)


@each_kind
def test_clients_forward_records_with_their_headers(cluster, registry, stale, kind, topic):
    make, reader, value = KINDS[kind]
    data = make(registry).serialize(value, topic)
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, data, headers=stale).result(10)
    with klamm.Producer(cluster.bootstrap_servers, value_serializer=make(registry)) as producer:
        producer.send(topic, value, headers=stale).result(10)
        producer.send(topic, value, headers=dict(stale)).result(10)
    with klamm.Consumer(cluster.bootstrap_servers, value_deserializer=reader(registry)) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, 0, 3)])
        records = list(consumer)
    assert [record.value for record in records] == [value] * 3
    assert [record.headers for record in records] == [stale, [], []]

    async def main():
        async with (
            AsyncSchemaRegistry(cluster.schema_registry.url) as client,
            klamm.AsyncConsumer(cluster.bootstrap_servers, value_deserializer=reader(client)) as consumer,
        ):
            consumer.assign([klamm.TopicPartition(topic, 0, 0, 3)])
            return [record.value async for record in consumer]

    assert asyncio.run(main()) == [value] * 3


@each_kind
def test_typed_columns_find_the_framing_as_deserializers_do(cluster, registry, stale, kind, topic):
    make, _, value = KINDS[kind]
    text = json.dumps({"type": "object", "properties": {"b": {"type": "string"}}})
    schema = {"avro": NEW, "json": text, "protobuf": PROTOS["First"]}[kind]
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        for framing in FRAMINGS:
            headers = []
            data = make(registry, framing=framing).serialize(value, topic, headers=headers)
            kept = [stale, [(NAME, b"\0\0\0\xff\xff")], [(NAME, b"\0\0")], [(NAME, b"text")], [(NAME, None)]]
            for others in (
                kept if not headers else [[*stale, *headers], [*headers, (NAME, None)], [*stale, *stale, *headers]]
            ):
                producer.send(topic, data, headers=others).result(10)
    options = {"value_format": kind, "registry": registry, "columns": ["value"]}
    found = klamm.read_table(cluster.bootstrap_servers, topic, value_schema=schema, **options)["value"].to_pylist()
    assert found == [{"x": 3} if kind == "protobuf" else {"b": "done"}] * 16
    if kind == "json":
        with pytest.warns(UserWarning, match="inferred from 16 records"):
            again = klamm.read_table(cluster.bootstrap_servers, topic, value_schema="infer", **options)
        assert again["value"].to_pylist() == found


def test_columns_of_avro_values_that_start_like_a_framing(cluster, registry, stale, topic):
    schema = json.dumps(fields(*(field(name, "long") for name in "abcde")))
    headers = []
    zeros = dict.fromkeys("abcde", 0)
    data = AvroSerializer(registry, schema, framing="header_id").serialize(zeros, topic, headers=headers)
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        for value, given in ((data, headers), (data + b"x", headers), (b"text", stale), (data, [(NAME, b"\0\0")])):
            producer.send(topic, value, headers=given).result(10)
    options = {"value_format": "avro", "registry": registry, "value_schema": schema, "on_error": "column"}
    found = klamm.read_table(cluster.bootstrap_servers, topic, columns=["value"], **options)
    assert found["value"].to_pylist() == [zeros, None, None, None]
    # The error is the one of the first framing, as for deserializers.
    assert "1 bytes before the end" in found["value_error"][1].as_py()
    with pytest.raises(DeserializationError, match="offset 1: the value ends 1 bytes before"):
        klamm.read_table(cluster.bootstrap_servers, topic, **{**options, "on_error": "raise"})


def test_send_arrow_removes_the_header_of_an_earlier_value(cluster, registry, stale, topic):
    servers = cluster.bootstrap_servers
    kept = [[("mine", b"1"), *stale], [], None]
    with klamm.Producer(servers) as producer:
        for kind in (
            pa.map_(pa.string(), pa.binary()),
            pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
        ):
            rows = kept if pa.types.is_map(kind) else [row and [{"key": k, "value": v} for k, v in row] for row in kept]
            table = pa.table({"b": ["x", "y", "z"], "headers": pa.array(rows, kind)})
            options = {"value_schema": NEW, "record_columns": ["headers"]}
            producer.send_arrow(topic, table, value_format="avro", registry=registry, **options)
    found = klamm.read_table(servers, topic, value_format="avro", registry=registry, flatten=True)
    assert found["b"].to_pylist() == list("xyzxyz")
    with klamm.Consumer(servers) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, 0, 6)])
        assert [record.headers for record in consumer] == [[("mine", b"1")], [], []] * 2


def test_klamm_produce_removes_the_header_of_an_earlier_value(cluster, topic, tmp_path):
    file = tmp_path / "new.avsc"
    file.write_text(NEW)
    options = ("--value", "avro", "-b", cluster.bootstrap_servers, "--registry", cluster.schema_registry.url)
    done = run("produce", topic, *options, "--schema", str(file), "--header", f"{NAME}=1", stdin=b'{"b": "done"}')
    assert (done.returncode, done.stderr) == (0, b"")
    done = run("consume", topic, *options, "--exit", "--json")
    assert (json.loads(done.stdout)["value"], json.loads(done.stdout)["headers"]) == ({"b": "done"}, [])
