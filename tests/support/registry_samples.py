"""Schemas and values that the tests of serializers and deserializers share."""

from __future__ import annotations

import json

from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

from klamm.registry.proto import parse

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "prices", "type": {"type": "array", "items": "double"}, "default": []},
        ],
    }
)
ORDER_JSON = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": {"type": ["string", "null"]}},
        "required": ["id"],
    }
)
VALUE = {"id": 7, "note": "x", "prices": [1.5, 2.0]}


def messages(text, name, *imports):
    """Return the message classes of .proto files: the imports first."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file, source in (*imports, (name, text)):
        pool.AddSerializedFile(parse(source, file).SerializeToString())
    found = {}

    def add(descriptors):
        for descriptor in descriptors:
            found[descriptor.name] = message_factory.GetMessageClass(descriptor)
            add(descriptor.nested_types)

    add(pool.FindFileByName(name).message_types_by_name.values())
    return found


PROTO = """
syntax = "proto3";
package store;
import "google/protobuf/timestamp.proto";
message First { int32 x = 1; }
message Order {
  int64 id = 1;
  optional string note = 2;
  repeated double prices = 3;
  map<string, int32> counts = 4;
  google.protobuf.Timestamp at = 5;
  message Line { string text = 1; }
  Line line = 6;
  oneof choice { string left = 7; int32 right = 8; }
}
"""
PROTOS = messages(PROTO, "order.proto")
ADDRESS = 'syntax = "proto3"; package shop; message Address { string street = 1; }'
PERSON = 'syntax = "proto3"; package shop; import "address.proto"; message Person { Address home = 1; }'
PERSONS = messages(PERSON, "person.proto", ("address.proto", ADDRESS))


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def fields(*members, **more):
    return {"type": "record", "name": "R", "fields": list(members), **more}
