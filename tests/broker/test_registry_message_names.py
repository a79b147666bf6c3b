"""An option names the Protobuf message of typed columns, if a schema has several."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

import klamm
import registry_cluster
from klamm.cli import main
from klamm.errors import ConfigError, DeserializationError
from klamm.registry import ProtobufDeserializer, ProtobufSerializer, Reference, Schema, SchemaError
from registry_samples import messages

cluster, registry = registry_cluster.cluster, registry_cluster.registry

TEXT = """syntax = "proto3"; package shop;
message Money { int64 cents = 1; }
message Order { string customer = 1; message Line { string text = 1; } repeated Line lines = 2; }"""
CLASSES = messages(TEXT, "order.proto")
IMPORTED = (
    'syntax = "proto3"; import "order.proto"; message Other { int32 a = 1; } message Sale { shop.Money price = 1; }'
)


def send(cluster, registry, topic, data, **options):
    options = {"value_format": "protobuf", "registry": registry, **options}
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        producer.send_arrow(topic, pa.table(data), **options)


def read(cluster, registry, topic, **options):
    options = {"value_format": "protobuf", "registry": registry, **options}
    return klamm.read_table(cluster.bootstrap_servers, topic, **options)["value"].to_pylist()


def raw(cluster, topic):
    return klamm.read_table(cluster.bootstrap_servers, topic)["value"].to_pylist()


@pytest.mark.parametrize("name", ["Order", "Line"])
def test_a_class_is_the_schema_and_the_message(cluster, registry, name):
    data = {"customer": ["anna"]} if name == "Order" else {"text": ["bell"]}
    send(cluster, registry, f"class-{name}", data, value_schema=CLASSES[name])
    (value,) = raw(cluster, f"class-{name}")
    found = ProtobufDeserializer(registry, CLASSES[name]).deserialize(value)
    assert found == CLASSES[name](**{field: values[0] for field, values in data.items()})
    assert registry.get_version(f"class-{name}-value").schema.text.count("message") == 3


def test_the_files_that_a_class_imports_are_registered(cluster, registry):
    sale = messages(IMPORTED, "sale.proto", ("order.proto", TEXT))["Sale"]
    send(cluster, registry, "sales", {"price": [{"cents": 3}]}, value_schema=sale)
    assert registry.get_version("sales-value").schema.references == (Reference("order.proto", "order.proto", 1),)
    (value,) = raw(cluster, "sales")
    assert ProtobufDeserializer(registry, to=dict).deserialize(value) == {"price": {"cents": 3}}


@pytest.mark.parametrize("name", ["shop.Order", "Order"])
@pytest.mark.parametrize("schema", [TEXT, "latest", CLASSES["Money"]])
def test_an_option_names_the_message_to_write(cluster, registry, name, schema):
    topic = f"write-{name}-{schema if schema == 'latest' else type(schema).__name__}"
    registry.register(f"{topic}-value", Schema(TEXT, "PROTOBUF"))
    send(cluster, registry, topic, {"customer": ["anna"]}, value_schema=schema, value_message=name)
    (value,) = raw(cluster, topic)
    assert ProtobufDeserializer(registry).deserialize(value).DESCRIPTOR.full_name == "shop.Order"


def test_an_option_names_the_message_to_read(cluster, registry):
    serializer = ProtobufSerializer(registry)
    with klamm.Producer(cluster.bootstrap_servers, value_serializer=serializer) as producer:
        for value in (CLASSES["Money"](cents=3), CLASSES["Order"](customer="bo")):
            producer.send("read", value, partition=0)
    read_with = lambda **options: read(cluster, registry, "read", on_error="null", **options)  # noqa: E731
    assert read_with() == [{"cents": 3}, None]
    assert read_with(value_message="shop.Order") == [None, {"customer": "bo", "lines": []}]
    assert read_with(value_message="Money", value_schema=Schema(TEXT, "PROTOBUF")) == [{"cents": 3}, None]
    with pytest.raises(DeserializationError, match=r"a shop\.Money, and the column a shop\.Order"):
        read(cluster, registry, "read", value_message="shop.Order")


def test_errors(cluster, registry):
    with pytest.raises(SchemaError, match=r"no message shop\.None"):
        send(cluster, registry, "wrong", {"cents": [1]}, value_schema=TEXT, value_message="shop.None")
    for options in (
        {"value_format": "avro", "value_message": "M"},
        {"value_format": "json", "value_schema": CLASSES["Order"]},
    ):
        with pytest.raises(ConfigError, match="only for Protobuf"):
            send(cluster, registry, "wrong", {"cents": [1]}, **options)
    with pytest.raises(ConfigError, match="only for Protobuf"):
        read(cluster, registry, "wrong", value_format="avro", value_message="M")


def test_the_command_produces_the_named_message(cluster, registry, monkeypatch, tmp_path):
    file = tmp_path / "order.proto"
    file.write_text(TEXT)
    words = ["produce", "command", "--value", "protobuf", "--schema", str(file), "--message", "Order"]
    (tmp_path / "input").write_text('{"customer": "anna"}\n')
    with (tmp_path / "input").open() as lines:
        monkeypatch.setattr(sys, "stdin", lines)
        assert main([*words, "-b", cluster.bootstrap_servers, "--registry", cluster.schema_registry.url]) in (0, None)
    (value,) = raw(cluster, "command")
    assert ProtobufDeserializer(registry).deserialize(value).customer == "anna"
