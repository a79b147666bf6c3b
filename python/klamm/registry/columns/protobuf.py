"""Converts Protobuf messages to Arrow types, and creates the plans with which the Rust core decodes messages.

`src/registry/protobuf.rs` describes the format of these decoding plans. Protobuf identifies fields by number, so the
plan for the reader's message can decode the values of all writers.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from klamm.registry.errors import SchemaError
from klamm.registry.messages import is_repeated

KINDS = {
    1: ("double", pa.float64()),
    2: ("float", pa.float32()),
    3: ("int64", pa.int64()),
    4: ("uint64", pa.uint64()),
    5: ("int32", pa.int32()),
    6: ("fixed64", pa.uint64()),
    7: ("fixed32", pa.uint32()),
    8: ("bool", pa.bool_()),
    9: ("string", pa.string()),
    12: ("bytes", pa.binary()),
    13: ("uint32", pa.uint32()),
    15: ("sfixed32", pa.int32()),
    16: ("sfixed64", pa.int64()),
    17: ("sint32", pa.int32()),
    18: ("sint64", pa.int64()),
}
_GROUP, _ENUM = 10, 14
TIMES = {
    "google.protobuf.Timestamp": pa.timestamp("us", "UTC"),
    "google.protobuf.Duration": pa.duration("us"),
}
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


_MAX_COLUMNS = 10_000
"""Most columns of one message, with those of all messages inside. Types with many fields in each other grow fast."""
_MAX_DEPTH = 32
"""Messages that are nested deeper stay encoded, because the core parses plans of a limited depth."""


def columns(message: Any, recursion_depth: int) -> tuple[pa.DataType, list[Any]]:
    """Return the Arrow type of a message, and the plan that decodes messages of this type.

    Args:
        message: The descriptor of the message.
        recursion_depth: Number of messages of one type inside a message of this type that become columns. Messages
            inside these stay encoded.

    Raises:
        SchemaError: The message has too many columns.
    """
    return _Columns(message, recursion_depth).of(message, ())


class _Columns:
    def __init__(self, message: Any, recursion_depth: int) -> None:
        self._root, self._recursion_depth, self._count = message, recursion_depth, 0

    def of(self, message: Any, outer: tuple[str, ...]) -> tuple[pa.DataType, list[Any]]:
        outer = (*outer, message.full_name)
        fields, plans = [], []
        self._count += len(message.fields)
        if self._count > _MAX_COLUMNS:
            raise SchemaError(
                f"the message {self._root.full_name} has more than {_MAX_COLUMNS:,} columns with the messages inside",
                hint="pass a smaller recursion_depth, or a schema without the fields that you do not need",
            )
        for field in message.fields:
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            kind, plan = self._value(field, outer)
            if is_map:
                key, value = kind.field(0), kind.field(1)
                kind = pa.map_(key.type, pa.field("value", value.type))
                shape = "map"
            elif is_repeated(field):
                kind, shape = pa.list_(pa.field("item", kind)), "repeated"
            else:
                # If an entry of a map lacks its key or value, the default applies.
                has_default = message.GetOptions().map_entry or not field.has_presence
                shape = "implicit" if has_default else "optional"
            oneof = field.containing_oneof
            fields.append(pa.field(field.name, kind))
            plans.append([field.number, field.name, plan, shape, None if oneof is None else oneof.index])
        return pa.struct(fields), plans

    def _value(self, field: Any, outer: tuple[str, ...]) -> tuple[pa.DataType, list[Any]]:
        if field.type == _ENUM:
            return pa.string(), ["enum", [[value.number, value.name] for value in field.enum_type.values]]
        if field.message_type is None:
            name, kind = KINDS[field.type]
            return kind, [name]
        name = field.message_type.full_name
        if name in TIMES:
            return TIMES[name], ["time"]
        is_map = field.message_type.GetOptions().map_entry
        if not is_map and (outer.count(name) > self._recursion_depth or len(outer) >= _MAX_DEPTH):
            return pa.binary(), ["encoded"]
        kind, plan = self.of(field.message_type, outer)
        if name in WRAPPERS:
            return kind.field(0).type, ["wrapper", plan]
        return kind, ["group", plan, field.number] if field.type == _GROUP else ["message", plan]
