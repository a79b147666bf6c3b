"""Serializers and deserializers with bytes and values that do not fit, and with random ones."""

from __future__ import annotations

import decimal
import json

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import klamm
from klamm.errors import ArgumentError, DecodeError, DeserializationError
from klamm.registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    JsonSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaError,
    SchemaNotFoundError,
    SchemaRegistry,
)
from klamm.registry.dev import DevRegistry
from klamm.registry.framing import read, written
from klamm.testing import DevBroker
from registry_samples import (
    ORDER,
    ORDER_JSON,
    PROTO,
    PROTOS,
    VALUE,
    field,
    fields,
)


@pytest.fixture
def client(registry):
    with SchemaRegistry(registry.url) as running:
        yield running


@pytest.fixture
def dev():
    with DevRegistry() as running:
        yield running


@pytest.fixture
def local(dev):
    with SchemaRegistry(dev.url, retries_wait_ms=1, max_retries=1) as running:
        yield running


RECURSIVE = json.dumps(fields(field("next", ["null", "R"])))


class TestBadInput:
    """Each damage is a typed error with the schema, and with the field where it is known."""

    @pytest.fixture
    def order(self, local):
        return AvroSerializer(local, ORDER).serialize(VALUE, "t")

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\x00",
            b"\x00\x00\x00\x01",
            b"\x01" + b"x" * 15,
            b"\x02abcdef",
            b"\xc3\x01abc",
            b"\xc3\x02abcdefgh",
            b"{}",
        ],
    )
    @pytest.mark.parametrize("kind", [AvroDeserializer, JsonDeserializer, ProtobufDeserializer])
    def test_no_framing(self, local, dev, data, kind):
        with pytest.raises(SchemaError, match=r"framing|empty"):
            kind(local).deserialize(data, "t")
        assert dev.requests() == []

    def test_an_unknown_id(self, local):
        with pytest.raises(SchemaNotFoundError):
            AvroDeserializer(local).deserialize(b"\x00\x00\x00\x00\x09x", "t")

    def test_an_unknown_fingerprint(self, local):
        with pytest.raises(SchemaError, match="fingerprint") as caught:
            AvroDeserializer(local).deserialize(b"\xc3\x01abcdefgh", "t")
        assert "schemas" in caught.value.hint

    def test_a_schema_of_another_type(self, local, order):
        for kind in (JsonDeserializer, ProtobufDeserializer):
            with pytest.raises(SchemaError, match="of type AVRO") as caught:
                kind(local).deserialize(order[:5] + b"\x00", "t")
            assert caught.value.schema_id == 1

    def test_a_schema_that_does_not_parse(self, dev, local, order):
        for schema in dev._store._schemas.values():
            schema.text = '{"type": "record"}'
        local.clear_cache()
        with pytest.raises(SchemaError, match="invalid") as caught:
            AvroDeserializer(local).deserialize(order, "t")
        assert caught.value.schema_id == 1

    @pytest.mark.parametrize(
        ("schema", "payload", "path", "why"),
        [
            (fields(field("a", "long")), b"", "a", "shorter"),
            (fields(field("a", "long")), b"\x80", "a", "shorter"),
            (fields(field("a", "long")), b"\x02\x02", "", "1 bytes before the end"),
            (fields(field("a", "string")), b"\x08ab", "a", "length is 4"),
            (fields(field("a", "string")), b"\x01ab", "a", "length is -1"),
            (fields(field("a", "string")), b"\x04\xff\xff", "a", "UTF-8"),
            (fields(field("a", "bytes")), b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01x", "a", "length"),
            (fields(field("a", ["null", "int"])), b"\x04", "a", "no branch 2"),
            (fields(field("a", ["null", "int"])), b"\x01\x02", "a", "no branch -1"),
            (fields(field("a", {"type": "enum", "name": "E", "symbols": ["A"]})), b"\x02", "a", "no symbol 1"),
            (fields(field("a", {"type": "enum", "name": "E", "symbols": ["A"]})), b"\x01", "a", "no symbol -1"),
            (fields(field("a", "int")), b"\xfe\xff\xff\xff\xff\x0f", "a", "an int is"),
            (fields(field("a", "long")), b"\xff" * 11, "a", "ten bytes"),
            (fields(field("a", "boolean")), b"\x02", "a", "boolean is 2"),
            (fields(field("a", "float")), b"ab", "a", "shorter"),
            (
                fields(field("a", {"type": "array", "items": fields(field("b", "string"), name="X")})),
                b"\x04\x02x\x02",
                "a[1].b",
                "length",
            ),
            (fields(field("a", {"type": "array", "items": "null"})), b"\xfe\xff\xff\xff\xff\x0f\x00", "a", "items"),
            (fields(field("a", {"type": "array", "items": "int"})), b"\xfe\xff\xff\xff\xff\x0f\x00", "a", "items"),
            (fields(field("a", {"type": "map", "values": "int"})), b"\x02\x02\xff\x02\x00", 'a["�"]', "UTF-8"),
            (
                fields(field("a", {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0})),
                b"\x04\x7f\xff",
                "a",
                "more than 2 digits",
            ),
        ],
    )
    def test_a_damaged_avro_value(self, local, schema, payload, path, why):
        registered = local.register("t-value", Schema(json.dumps(schema)))
        with pytest.raises(SchemaError, match=why) as caught:
            AvroDeserializer(local).deserialize(written("id", registered.id, None, None) + payload, "t")
        assert (caught.value.path, caught.value.schema_id) == (path, registered.id)
        assert isinstance(caught.value, DecodeError)

    @pytest.mark.parametrize("depth", [10_000, 3_000_000])
    def test_a_value_that_is_nested_too_deep(self, local, depth):
        registered = local.register("t-value", Schema(RECURSIVE))
        prefix = written("id", registered.id, None, None)
        with pytest.raises(SchemaError, match="nested too deep"):
            AvroDeserializer(local).deserialize(prefix + b"\x02" * depth, "t")
        assert AvroDeserializer(local).deserialize(prefix + b"\x02" * 50 + b"\x00", "t")

    @pytest.mark.parametrize(
        ("schema", "value", "path"),
        [
            (ORDER, {"id": "x"}, "id"),
            (ORDER, {}, "id"),
            (ORDER, 7, ""),
            (ORDER, {"id": 1, "prices": ["x"]}, "prices[0]"),
            ('"int"', 1 << 40, ""),
            ('{"type": "enum", "name": "E", "symbols": ["A"]}', "B", ""),
            ('{"type": "bytes", "logicalType": "decimal", "precision": 2}', decimal.Decimal(1000), ""),
        ],
    )
    def test_a_value_that_does_not_fit_its_avro_schema(self, local, schema, value, path):
        with pytest.raises(SchemaError) as caught:
            AvroSerializer(local, schema).serialize(value, "t")
        assert (caught.value.schema_id, caught.value.subject, caught.value.path) == (1, "t-value", path)

    @pytest.mark.parametrize(
        ("payload", "why"),
        [(b"{", "not JSON"), (b"\xff", "not JSON"), (b"[" * 100_000, "not JSON"), (b'{"id": "x"}', "does not fit")],
    )
    def test_a_damaged_json_value(self, local, payload, why):
        registered = local.register("t-value", Schema(ORDER_JSON, "JSON"))
        with pytest.raises(SchemaError, match=why) as caught:
            JsonDeserializer(local).deserialize(written("id", registered.id, None, None) + payload, "t")
        assert caught.value.schema_id == registered.id

    @pytest.mark.parametrize(
        ("keyword", "value", "path", "why"),
        [
            ("anyOf", {"item": {"sku": 5}}, "item.sku", "string"),
            ("oneOf", {"item": {"sku": 5}}, "item.sku", "string"),
            ("anyOf", {"item": 5}, "item", "anyOf"),
            ("anyOf", {"item": [{"sku": "s"}, {"sku": None}]}, "item[1].sku", "string"),
        ],
    )
    def test_the_error_of_a_json_value_is_in_the_alternative_that_fits_best(self, local, keyword, value, path, why):
        item = {"type": "object", "properties": {"sku": {"type": "string"}}}
        alternatives = [{"type": "null"}, item, {"type": "array", "items": item}]
        schema = {"type": "object", "properties": {"item": {keyword: alternatives}}}
        with pytest.raises(SchemaError, match=why) as caught:
            JsonSerializer(local, json.dumps(schema)).serialize(value, "t")
        assert caught.value.path == path

    @pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07", "2019-09", "2020-12", None])
    def test_each_draft_of_json_schema_has_its_rules(self, local, draft):
        # `exclusiveMinimum` is a boolean in draft 4 and a number since. Without a draft, draft 7 applies.
        base = "http://json-schema.org" if (draft or "").startswith("draft") else "https://json-schema.org/draft"
        schema = {"minimum": 5, "exclusiveMinimum": True} if draft == "draft-04" else {"exclusiveMinimum": 5}
        schema |= {} if draft is None else {"$schema": f"{base}/{draft}/schema"}
        serializer = JsonSerializer(local, json.dumps(schema))
        assert serializer.serialize(6, f"t{draft}").endswith(b"6")
        with pytest.raises(SchemaError, match="5"):
            serializer.serialize(5, f"t{draft}")

    def test_json_values_that_cannot_be_written(self, local):
        serializer = JsonSerializer(local, "{}")
        for value in (float("nan"), b"x", object()):
            with pytest.raises(SchemaError, match="JSON"):
                serializer.serialize(value, "t")
        with pytest.raises(SchemaError) as caught:
            JsonSerializer(local, ORDER_JSON).serialize({"id": "x"}, "u")
        assert (caught.value.path, caught.value.subject) == ("id", "u-value")
        assert JsonSerializer(local, ORDER_JSON, validate=False).serialize({"id": "x"}, "u")

    @pytest.mark.parametrize(
        ("rest", "why"),
        [
            (b"", "truncated|ends in"),
            (b"\x02\x10", "no message at position"),
            (b"\x04\x02\x10", "no message at position"),
            (b"\x01", "negative"),
            (b"\xfe\xff\x03", "message indexes"),
            (b"\xff" * 6, "too large"),
            (b"\x02\x02\x0a\x7f", "is not a store.Order"),
        ],
    )
    def test_a_damaged_protobuf_value(self, local, rest, why):
        registered = local.register("t-value", Schema(PROTO, "PROTOBUF"))
        with pytest.raises(SchemaError, match=why):
            ProtobufDeserializer(local).deserialize(written("id", registered.id, None, None) + rest, "t")

    @pytest.mark.parametrize(("index", "name"), [(1, "Line"), (0, "Line")])
    def test_map_fields_count_as_messages_for_some_writers(self, local, index, name):
        registered = local.register("t-value", Schema(PROTO, "PROTOBUF"))
        data = written("id", registered.id, None, (1, index)) + PROTOS[name](text="x").SerializeToString()
        for deserializer in (ProtobufDeserializer(local), ProtobufDeserializer(local, PROTOS[name])):
            assert deserializer.deserialize(data, "t").text == "x"

    def test_a_message_of_another_type(self, local):
        written = ProtobufSerializer(local).serialize(PROTOS["First"](x=1), "t")
        with pytest.raises(SchemaError, match=r"store\.First, not a store\.Order"):
            ProtobufDeserializer(local, PROTOS["Order"]).deserialize(written, "t")
        for value in (7, {"x": 1}):
            with pytest.raises(SchemaError, match="not a Protobuf message"):
                ProtobufSerializer(local).serialize(value, "t")
        with pytest.raises(SchemaError, match=r"for store\.Order"):
            ProtobufSerializer(local, PROTOS["Order"]).serialize(PROTOS["First"](x=1), "t")
        with pytest.raises(ArgumentError):
            ProtobufDeserializer(local, dict)

    def test_a_guid_that_the_registry_does_not_have_is_an_error(self, registry, topic):
        if registry.name == "dev-registry":
            pytest.skip("the dev registry has GUIDs")
        with SchemaRegistry(registry.url) as client, pytest.raises(SchemaError, match="no GUID"):
            AvroSerializer(client, ORDER, framing="guid").serialize(VALUE, topic)

    def test_a_consumer_names_topic_partition_and_offset_and_continues(self):
        with DevBroker(schema_registry=True) as broker, SchemaRegistry(broker.schema_registry.url) as registry:
            serializer = AvroSerializer(registry, '"long"')
            with klamm.Producer(broker.bootstrap_servers) as producer:
                producer.send_many(
                    "t", [serializer.serialize(1, "t"), b"\x00\x00\x00\x00\x01", serializer.serialize(3, "t")]
                )
            with klamm.Consumer(broker.bootstrap_servers, value_deserializer=AvroDeserializer(registry)) as consumer:
                consumer.assign([klamm.TopicPartition("t", 0, 0, 3)])
                first, second, third = consumer
                assert (first.value, third.value) == (1, 3)
                with pytest.raises(klamm.errors.DeserializationError, match="t-0 at offset 1") as caught:
                    second.value  # noqa: B018
                assert caught.value.__cause__.schema_id == 1
                assert caught.value.record.value == b"\x00\x00\x00\x00\x01"


# A busy machine is not a failure.
WITHOUT_DEADLINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@WITHOUT_DEADLINE
@given(st.binary(max_size=40), st.none() | st.binary(max_size=20), st.booleans(), st.sampled_from([4, 8]))
def test_random_bytes_are_a_frame_or_a_typed_error(data, header, has_indexes, id_bytes):
    try:
        frame = read(data, header, id_bytes=id_bytes, has_indexes=has_indexes)
    except SchemaError:
        return
    assert 0 <= frame.start <= len(data)


@WITHOUT_DEADLINE
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=10), st.integers(0, 2**32 - 1))
def test_message_indexes_come_back(indexes, schema_id):
    data = written("id", schema_id, None, tuple(indexes))
    assert read(data, None, has_indexes=True) == (schema_id, len(data), tuple(indexes))


def test_a_file_with_what_the_text_cannot_hold_is_registered_as_a_descriptor(local):
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", package="shop", syntax="proto3")
    file.message_type.add(name="X").field.add(name="a", number=1, type=5, label=1)
    file.service.add(name="S")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.X"))
    written = ProtobufSerializer(local).serialize(kind(a=1), "t")
    assert ProtobufDeserializer(local).deserialize(written, "t").a == 1


MIB = pa.binary(1 << 20)


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_a_small_record_that_needs_much_memory_costs_only_itself(kind):
    """Each item of the records needs one byte in the record, and 1 MiB in the column."""
    fixed = {"type": "fixed", "name": "F", "size": 1 << 20}
    avro = json.dumps(fields(field("l", {"type": "array", "items": ["null", fixed]})))
    text = json.dumps({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "null"}}}})
    with DevBroker(schema_registry=True) as broker, SchemaRegistry(broker.schema_registry.url) as registry:
        schema_id = registry.register("t-value", Schema(*((avro, "AVRO") if kind == "avro" else (text, "JSON")))).id
        records = []
        for items in (0, 3, 900, 0):
            if kind == "avro":
                records.append(AvroSerializer(registry, avro).serialize({"l": [None] * items}, "t"))
            else:
                body = json.dumps({"l": [None] * items}).encode()
                records.append(written("id", schema_id, None, None) + body)
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", records, partition=0)
        schema = avro if kind == "avro" else pa.schema([("l", pa.list_(MIB))])
        options = {"value_format": kind, "registry": registry, "value_schema": schema, "columns": ["value"]}
        found = klamm.read_table(broker.bootstrap_servers, "t", on_error="column", **options)
        assert [row and len(row["l"]) for row in found["value"].to_pylist()] == [0, 3, None, 0]
        assert "more than 512 MiB" in found["value_error"][2].as_py()
        with pytest.raises(DeserializationError, match="t-0 at offset 2"):
            klamm.read_table(broker.bootstrap_servers, "t", **options)
