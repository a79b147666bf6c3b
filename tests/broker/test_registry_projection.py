"""`value_fields` decodes only some fields of the values."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import klamm
import registry_cluster
from klamm.errors import ConfigError, DeserializationError
from klamm.registry import AvroSerializer, Schema, SchemaError
from registry_samples import field, fields

cluster, registry = registry_cluster.cluster, registry_cluster.registry

PROTO = 'syntax = "proto3"; message R { int64 a = 1; string b = 2; M m = 3; message M { int32 x = 1; } }'
LINE = {"type": "record", "name": "Line", "namespace": "shop.lines", "fields": [
    {"name": "n", "type": "int"}, {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["X", "Y"]}}]}  # fmt: skip


def written(cluster, registry, topic, kind):
    table = pa.table({"a": [1, 2], "b": ["x", None], "m": [{"x": 1}, None]})
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        producer.send_arrow(topic, table, value_format=kind, registry=registry)
    return {"value_format": kind, "registry": registry, "columns": ["value"]}


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_only_the_named_fields_are_decoded(cluster, registry, topic, kind):
    options = written(cluster, registry, topic, kind)
    found = klamm.read_table(cluster.bootstrap_servers, topic, value_fields=["m", "a"], **options)
    assert found["value"].to_pylist() == [{"a": 1, "m": {"x": 1}}, {"a": 2, "m": None}]
    flat = klamm.read_table(cluster.bootstrap_servers, topic, value_fields=["b"], flatten=True, **options)
    assert flat.to_pydict() == {"b": ["x", None], "value_is_null": [False, False]}
    for wrong in (["c"], ["A"]):
        with pytest.raises(ConfigError, match=f"no field '{wrong[0]}'"):
            klamm.read_table(cluster.bootstrap_servers, topic, value_fields=wrong, **options)


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_a_field_that_is_left_out_is_no_new_field(cluster, registry, topic, kind):
    options = written(cluster, registry, topic, kind)
    registry.set_config("NONE", f"{topic}-value")
    options |= {"value_fields": ["a"], "on_new_fields": "raise", "value_schema": 1}
    assert klamm.read_table(cluster.bootstrap_servers, topic, **options)["value"].to_pylist() == [{"a": 1}, {"a": 2}]
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        newer = pa.table({"a": [3], "b": ["y"], "m": [{"x": 1}], "new": [1]})
        producer.send_arrow(topic, newer, value_format=kind, registry=registry)
    with pytest.raises(DeserializationError, match="field new"):
        klamm.read_table(cluster.bootstrap_servers, topic, **options)


def test_types_that_a_left_out_field_defines_stay_known(cluster, registry, topic):
    schema = fields(
        field("first", LINE),
        field("lines", {"type": "array", "items": ["null", "shop.lines.Line"]}),
        field("kind", "shop.lines.Kind"),
    )
    value = {"first": {"n": 1, "kind": "X"}, "lines": [None, {"n": 2, "kind": "Y"}], "kind": "X"}
    with klamm.Producer(
        cluster.bootstrap_servers, value_serializer=AvroSerializer(registry, json.dumps(schema))
    ) as producer:
        producer.send(topic, value).result(10)
    for wanted in (["lines"], ["kind"], ["lines", "kind"], ["kind", "first"]):
        options = {"value_format": "avro", "registry": registry, "columns": ["value"], "value_fields": wanted}
        found = klamm.read_table(cluster.bootstrap_servers, topic, **options)["value"].to_pylist()
        assert found == [{name: value[name] for name in schema_order(schema, wanted)}]


def schema_order(schema, wanted):
    return [one["name"] for one in schema["fields"] if one["name"] in wanted]


def test_a_nullable_record_and_other_values(cluster, registry, topic):
    schema = json.dumps(["null", fields(field("a", "long"), field("b", "long"), namespace="n")])
    with klamm.Producer(cluster.bootstrap_servers, value_serializer=AvroSerializer(registry, schema)) as producer:
        producer.send(topic, {"a": 1, "b": 2}).result(10)
    options = {"value_format": "avro", "registry": registry, "columns": ["value"], "value_fields": ["b"]}
    assert klamm.read_table(cluster.bootstrap_servers, topic, **options)["value"].to_pylist() == [{"b": 2}]
    for text, kind in (('"long"', "avro"), ('{"type": "integer"}', "json")):
        options |= {"value_format": kind, "value_schema": Schema(text, kind.upper())}
        with pytest.raises(ConfigError, match="fields of a"):
            klamm.read_table(cluster.bootstrap_servers, topic, **options)


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"type":"array","items":' * 200 + '"int"' + "}" * 200, "{", '{"type": "record", "name": "R", "fields": 7}'],
)  # fmt: skip
def test_a_schema_that_is_invalid_or_nested_too_deep_is_a_typed_error(cluster, registry, topic, text):
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, b"\0\0\0\0\1\2").result(10)
    options = {"value_format": "avro", "registry": registry, "value_schema": text, "value_fields": ["a"]}
    with pytest.raises(SchemaError, match="the Avro schema is invalid"):
        klamm.read_table(cluster.bootstrap_servers, topic, **options)
