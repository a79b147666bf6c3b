"""Orders in the three formats of schema registries, and confluent-kafka's clients that write and read them."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
from confluent_kafka import DeserializingConsumer, SerializingProducer, TopicPartition
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

from registry_samples import messages

AT = dt.datetime(2024, 1, 2, 3, 4, 5, 6000, dt.timezone.utc)
AVRO = json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["BOOK", "PEN"]}},
    {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
        {"name": "sku", "type": "string"}, {"name": "price", "type": "double"}]}}},
    {"name": "counts", "type": {"type": "map", "values": "int"}}]})  # fmt: skip
JSON = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object", "properties": {
    "id": {"type": "integer"}, "note": {"type": ["string", "null"]}, "at": {"type": "string", "format": "date-time"},
    "kind": {"type": "string"}, "lines": {"type": "array", "items": {"type": "object", "properties": {
        "sku": {"type": "string"}, "price": {"type": "number"}}}},
    "counts": {"type": "object", "additionalProperties": {"type": "integer"}}}})  # fmt: skip
PROTO = messages(
    """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  optional string note = 2;
  google.protobuf.Timestamp at = 3;
  enum Kind { BOOK = 0; PEN = 1; }
  Kind kind = 4;
  message Line { string sku = 1; double price = 2; }
  repeated Line lines = 5;
  map<string, int32> counts = 6;
}
""",
    "confluent_order.proto",
)["Order"]
ROWS = [
    {"id": 1, "note": "x", "at": AT, "kind": "PEN", "lines": [{"sku": "a", "price": 1.5}, {"sku": "b", "price": 0.0}], "counts": {"k": 1}},
    {"id": -(2**60), "note": None, "at": AT, "kind": "BOOK", "lines": [], "counts": {}},
]  # fmt: skip
FORMATS = ("avro", "json", "protobuf")
TABLE = pa.table(
    {
        "id": pa.array([row["id"] for row in ROWS]),
        "note": pa.array([row["note"] for row in ROWS], pa.string()),
        "at": pa.array([row["at"] for row in ROWS], pa.timestamp("us", "UTC")),
        "kind": pa.array([row["kind"] for row in ROWS]),
        "lines": pa.array(
            [row["lines"] for row in ROWS], pa.list_(pa.struct([("sku", pa.string()), ("price", pa.float64())]))
        ),
        "counts": pa.array([list(row["counts"].items()) for row in ROWS], pa.map_(pa.string(), pa.int32())),
    }
)


def serializer(other, kind):
    """Return confluent-kafka's serializer of orders."""
    if kind == "avro":
        return AvroSerializer(other, AVRO)
    if kind == "json":
        return JSONSerializer(JSON, other, lambda row, _: {**row, "at": row["at"].isoformat()})
    encode = ProtobufSerializer(PROTO, other, {"use.deprecated.format": False})

    def serialize(row, context):
        message = PROTO(**{**row, "at": None})
        message.at.FromDatetime(row["at"])
        return encode(message, context)

    return serialize


def deserializer(other, kind, message=PROTO):
    """Return confluent-kafka's deserializer of orders."""
    if kind == "avro":
        return AvroDeserializer(other)
    if kind == "json":
        return JSONDeserializer(
            None,
            from_dict=lambda row, _: {**row, "at": dt.datetime.fromisoformat(row["at"].replace("Z", "+00:00"))},
            schema_registry_client=other,
        )
    decode = ProtobufDeserializer(message, {"use.deprecated.format": False}, other)

    def deserialize(data, context):
        found = decode(data, context)
        return {
            "id": found.id,
            "note": found.note if found.HasField("note") else None,
            "at": found.at.ToDatetime(dt.timezone.utc),
            "kind": found.kind if isinstance(found.kind, str) else PROTO.Kind.Name(found.kind),
            "lines": [{"sku": line.sku, "price": line.price} for line in found.lines],
            "counts": dict(found.counts),
        }

    return deserialize


def produced(servers, topic, encode, values, **more):
    """Send values with confluent-kafka's producer."""
    producer = SerializingProducer({"bootstrap.servers": servers, "value.serializer": encode, **more})
    for value in values:
        producer.produce(topic, key="k" if "key.serializer" in more else None, value=value, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def consumed(servers, topic, decode, count, partitions=(0,), **more):
    """Return the messages that confluent-kafka's consumer reads."""
    consumer = DeserializingConsumer(
        {"bootstrap.servers": servers, "group.id": topic, "enable.auto.commit": False, "value.deserializer": decode, **more}
    )  # fmt: skip
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found = []
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None, f"only {len(found)} of {count} records arrived"
            found.append(message)
        return found
    finally:
        consumer.close()


def plain(rows):
    """Return rows with dicts for maps."""
    return [{**row, "counts": dict(row["counts"])} for row in rows]
