"""Schema IDs in the contexts of a registry: a lookup by ID names the subject."""

from __future__ import annotations

import json
from urllib.parse import quote

import pyarrow as pa
import pytest

import klamm
from klamm.errors import ConfigError
from klamm.registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistry,
)
from klamm.registry.dev import DevRegistry
from klamm.testing import DevBroker
from registry_samples import messages
from stub_registry import StubRegistry

INT, STRING = {"schema": '"int"'}, {"schema": '"string"'}
FRAMED = b"\0\0\0\0\1"


def of_context(topic, field, _):
    return f":.{topic[0]}:{topic}-{field}"


def by_id(subject, schema_id=1):
    return f"/schemas/ids/{schema_id}?subject={quote(subject, safe='')}"


@pytest.mark.parametrize(
    ("kind", "schema", "payload"),
    [
        (AvroDeserializer, INT, b"\2"),
        (JsonDeserializer, {"schema": "{}", "schemaType": "JSON"}, b"1"),
        (ProtobufDeserializer, {"schema": 'syntax = "proto3"; message M {}', "schemaType": "PROTOBUF"}, b"\0"),
    ],
    ids=["avro", "json", "protobuf"],
)
def test_a_lookup_by_id_names_the_subject_once(kind, schema, payload):
    with StubRegistry({by_id("t-value"): schema}) as stub, SchemaRegistry(stub.url) as registry:
        for topic in "t", "u":  # both subjects are in the default context
            kind(registry).deserialize(FRAMED + payload, topic)
    assert stub.paths == [by_id("t-value")]


def test_without_a_topic_or_with_the_name_of_a_record_a_lookup_names_no_subject():
    with StubRegistry({"/schemas/ids/1": INT}) as stub, SchemaRegistry(stub.url) as registry:
        assert AvroDeserializer(registry).deserialize(FRAMED + b"\2") == 1
    with StubRegistry({"/schemas/ids/1": INT}) as stub, SchemaRegistry(stub.url) as registry:
        assert AvroDeserializer(registry, subject_name_strategy="RECORD").deserialize(FRAMED + b"\2", "t") == 1
    with StubRegistry({"/schemas/ids/1": INT}) as stub, SchemaRegistry(stub.url) as registry:
        needs_name = AvroDeserializer(registry, subject_name_strategy=lambda _topic, _field, name: name.lower())
        assert needs_name.deserialize(FRAMED + b"\2", "t") == 1


def test_an_id_has_one_schema_in_each_context():
    responses = {by_id(":.a:a1-value"): INT, by_id(":.b:b1-value"): STRING}
    with StubRegistry(responses) as stub, SchemaRegistry(stub.url) as registry:
        deserializer = AvroDeserializer(registry, subject_name_strategy=of_context)
        for _ in range(2):
            assert deserializer.deserialize(FRAMED + b"\2", "a1") == 1
            assert deserializer.deserialize(FRAMED + b"\2x", "b1") == "x"
            assert deserializer.deserialize(FRAMED + b"\4", "a2") == 2
        assert not deserializer.is_prepared(FRAMED, "c", "value", None)
    assert stub.paths == [*responses]


def test_references_are_in_the_context_of_the_schema():
    leaf = {"type": "record", "name": "Leaf", "fields": [{"name": "x", "type": "int"}]}
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "leaf", "type": "Leaf"}]}
    references = [{"name": "Leaf", "subject": "leaf", "version": 1}]
    responses = {
        by_id(":.a:a-value"): {"schema": json.dumps(tree), "references": references},
        "/subjects/%3A.a%3Aleaf/versions/1?deleted=true": {"schema": json.dumps(leaf), "id": 2, "version": 1},
    }
    with StubRegistry(responses) as stub, SchemaRegistry(stub.url) as registry:
        deserializer = AvroDeserializer(registry, subject_name_strategy=of_context)
        assert deserializer.deserialize(FRAMED + b"\2", "a") == {"leaf": {"x": 1}}
    assert stub.paths == [*responses]


def test_a_serializer_with_an_id_names_the_subject():
    with StubRegistry({by_id(":.a:a-value", 7): INT}) as stub, SchemaRegistry(stub.url) as registry:
        serializer = AvroSerializer(registry, use_schema_id=7, subject_name_strategy=of_context)
        assert serializer.serialize(1, "a") == b"\0\0\0\0\7\2"


def test_columns_name_the_subject():
    responses = {
        "/subjects/%3A.a%3Aa-value/versions/latest": {"schema": '"int"', "id": 1, "version": 1},
        "/subjects/%3A.b%3Ab-value/versions/latest": {"schema": '"int"', "id": 1, "version": 1},
        by_id(":.a:a-value"): INT,
        by_id(":.b:b-value"): INT,
    }
    with StubRegistry(responses) as stub, DevBroker() as broker, SchemaRegistry(stub.url) as registry:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            for topic in "a", "b":
                producer.send(topic, FRAMED + b"\2")
        options = {"value_format": "avro", "registry": registry, "subject_name_strategy": of_context}
        for topic in "a", "b":
            assert klamm.read_table(broker.bootstrap_servers, topic, **options)["value"].to_pylist() == [1]
        with klamm.Consumer(broker.bootstrap_servers) as consumer:
            consumer.assign([klamm.TopicPartition("a", 0, 0, 1), klamm.TopicPartition("b", 0, 0, 1)])
            with pytest.raises(ConfigError, match="different contexts"):
                list(consumer.arrow(**options))
    assert by_id(":.a:a-value") in stub.paths
    assert by_id(":.b:b-value") in stub.paths


@pytest.mark.parametrize("how", ["serializer", "columns"])
@pytest.mark.parametrize("strategy", [of_context, lambda topic, _, record: f":.{topic}:{len(record)}"])
def test_the_imports_of_a_message_class_are_registered_in_the_context_of_the_subject(how, strategy):
    leaf = 'syntax = "proto3"; package shop; message Leaf { int32 x = 1; }'
    tree = 'syntax = "proto3"; package shop; import "leaf.proto"; message Tree { Leaf leaf = 1; }'
    kind = messages(tree, "tree.proto", ("leaf.proto", leaf))["Tree"]
    with DevRegistry() as dev, SchemaRegistry(dev.url) as registry:
        if how == "serializer":
            serializer = ProtobufSerializer(registry, kind, subject_name_strategy=strategy)
            data = serializer.serialize(kind(leaf={"x": 1}), "a")
        else:
            options = {"value_format": "protobuf", "value_schema": kind, "registry": registry}
            with DevBroker() as broker, klamm.Producer(broker.bootstrap_servers) as producer:
                rows = pa.table({"value": pa.array([{"leaf": {"x": 1}}])})
                producer.send_arrow("a", rows, subject_name_strategy=strategy, **options)
                producer.flush()
                with klamm.Consumer(broker.bootstrap_servers, topics=["a"], auto_offset_reset="earliest") as consumer:
                    data = next(iter(consumer)).value
        subject = strategy("a", "value", "shop.Tree")
        assert set(registry.subjects(":*:")) == {subject, ":.a:leaf.proto"}
        assert [each.subject for each in registry.get_version(subject).schema.references] == ["leaf.proto"]
        found = ProtobufDeserializer(registry, to=dict, subject_name_strategy=of_context).deserialize(data, "a")
        assert found == {"leaf": {"x": 1}}
