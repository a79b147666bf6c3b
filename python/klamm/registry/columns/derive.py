"""Derives schemas from Arrow types, for applications that write columns without a schema."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from klamm.registry.errors import SchemaError
from klamm.registry.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable

_MILLIS = ("s", "ms")
_DRAFT = "http://json-schema.org/draft-07/schema#"
"""Draft of a derived JSON Schema. Apicurio Registry rejects most schemas that do not name their draft."""


def derived(kind: str, column: pa.DataType, name: str) -> Schema:
    """Return a schema that describes the values of a column.

    Args:
        kind: "avro", "json" or "protobuf".
        column: Arrow type of the column.
        name: Name of the record type.

    Raises:
        SchemaError: The format has no type for values of the column.
    """
    name = _identifier(name)
    if kind == "avro":
        return Schema(json.dumps(_Avro().of(column, name)))
    if kind == "json":
        return Schema(json.dumps({"$schema": _DRAFT, "title": name, **_json(column)}), "JSON")
    if not pa.types.is_struct(column):
        raise SchemaError(f"a column of type {column} is not a Protobuf message", hint="cast the column to a struct")
    lines = ['syntax = "proto3";']
    body = _message(column, name, "")
    if "google.protobuf.Timestamp" in body:
        lines.append('import "google/protobuf/timestamp.proto";')
    if "google.protobuf.Duration" in body:
        lines.append('import "google/protobuf/duration.proto";')
    return Schema("\n".join([*lines, body]) + "\n", "PROTOBUF")


def _identifier(name: str) -> str:
    found = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return found if re.match(r"[A-Za-z_]", found) else f"_{found}"


def is_text(kind: pa.DataType) -> bool:
    """Return whether the values of a type are strings."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _named(name: str, path: str) -> str:
    if _identifier(name) != name:
        raise SchemaError(f"the name {name!r} of a field is not allowed", path=path, hint="rename the column")
    return name


def _none(column: pa.DataType, format_name: str) -> SchemaError:
    return SchemaError(f"{format_name} has no type for {column}", hint="cast the column")


class _Names:
    """Names that are in use."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = set(used)

    def free(self, name: str) -> str:
        """Return the name, with a number if it is in use already, and use it."""
        found, number = name, 2
        while found in self._used:
            found, number = f"{name}_{number}", number + 1
        self._used.add(found)
        return found


class _Avro:
    """Derives an Avro schema, in which each named type has a name of its own."""

    def __init__(self) -> None:
        self._names = _Names()

    def of(self, column: pa.DataType, name: str) -> Any:  # noqa: C901, PLR0911, PLR0912 - one case for each type
        types = pa.types
        if types.is_dictionary(column):
            return self.of(column.value_type, name)
        if types.is_struct(column):
            record, fields = self._names.free(name), []
            for field in column:
                inner = self._nullable(field, f"{name}_{_identifier(field.name)}")
                default = {"default": None} if isinstance(inner, list) else {}
                fields.append({"name": _named(field.name, name), "type": inner, **default})
            return {"type": "record", "name": record, "fields": fields}
        if types.is_list(column) or types.is_large_list(column) or types.is_fixed_size_list(column):
            return {"type": "array", "items": self._nullable(column.value_field, f"{name}_item")}
        if types.is_map(column) and is_text(column.key_type):
            return {"type": "map", "values": self._nullable(column.item_field, f"{name}_value")}
        if types.is_null(column):
            return "null"
        if types.is_boolean(column):
            return "boolean"
        if types.is_integer(column):
            return "long" if column.bit_width > 32 or types.is_uint32(column) else "int"  # noqa: PLR2004
        if types.is_floating(column):
            return "double" if types.is_float64(column) else "float"
        if is_text(column):
            return "string"
        if types.is_decimal(column) and column.scale >= 0:
            return {"type": "bytes", "logicalType": "decimal", "precision": column.precision, "scale": column.scale}
        if types.is_fixed_size_binary(column):
            return {"type": "fixed", "name": self._names.free(name), "size": column.byte_width}
        if types.is_binary(column) or types.is_large_binary(column) or types.is_binary_view(column):
            return "bytes"
        if types.is_date(column):
            return {"type": "int", "logicalType": "date"}
        if types.is_time(column):
            is_millis = types.is_time32(column)
            return {
                "type": "int" if is_millis else "long",
                "logicalType": "time-millis" if is_millis else "time-micros",
            }
        if types.is_timestamp(column):
            unit = "millis" if column.unit in _MILLIS else {"us": "micros", "ns": "nanos"}[column.unit]
            return {"type": "long", "logicalType": f"{'' if column.tz else 'local-'}timestamp-{unit}"}
        if types.is_duration(column):
            return "long"
        raise _none(column, "Avro")

    def _nullable(self, field: pa.Field, name: str) -> Any:
        inner = self.of(field.type, name)
        return ["null", inner] if field.nullable and inner != "null" else inner


def _json(column: pa.DataType) -> dict[str, Any]:  # noqa: C901, PLR0911
    types = pa.types
    if types.is_dictionary(column):
        return _json(column.value_type)
    if types.is_struct(column) and column.num_fields:
        return {"type": "object", "properties": {f.name: _json_field(f) for f in column}}
    if types.is_list(column) or types.is_large_list(column) or types.is_fixed_size_list(column):
        return {"type": "array", "items": _json_field(column.value_field)}
    if types.is_map(column) and is_text(column.key_type):
        return {"type": "object", "additionalProperties": _json_field(column.item_field)}
    if types.is_null(column):
        return {"type": "null"}
    if types.is_boolean(column):
        return {"type": "boolean"}
    if types.is_integer(column):
        return {"type": "integer"}
    if types.is_floating(column) or types.is_decimal(column):
        return {"type": "number"}
    if types.is_date(column):
        return {"type": "string", "format": "date"}
    if types.is_timestamp(column):
        # The format `date-time` follows RFC 3339, which requires a time zone.
        return {"type": "string", "format": "date-time"} if column.tz else {"type": "string"}
    if types.is_binary(column) or types.is_large_binary(column) or types.is_fixed_size_binary(column):
        return {"type": "string", "contentEncoding": "base64"}
    if is_text(column):
        return {"type": "string"}
    raise _none(column, "JSON Schema")


def _json_field(field: pa.Field) -> dict[str, Any]:
    inner = _json(field.type)
    return {**inner, "type": [inner["type"], "null"]} if field.nullable and inner["type"] != "null" else inner


def _message(column: pa.DataType, name: str, indent: str) -> str:
    from klamm.registry.proto import json_name

    inner = indent + "  "
    lines = [f"{indent}message {name} {{"]
    fields = [field.name for field in column]
    names, json_names = _Names(fields), _Names(fields)  # the types and fields of a message share one scope
    for number, field in enumerate(column, 1):
        kind, repeated = field.type, ""
        types = pa.types
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            if types.is_map(kind.value_type):
                raise _none(kind, "Protobuf")
            kind, repeated = kind.value_type, "repeated "
        kind = kind.value_type if types.is_dictionary(kind) else kind
        item = kind.item_type if types.is_map(kind) else kind
        if types.is_struct(item):
            nested = names.free(f"{_identifier(field.name).title().replace('_', '')}Message")
        if types.is_map(kind):
            if types.is_struct(item):
                lines.append(_message(item, nested, inner))
            value = nested if types.is_struct(item) else _scalar(item)
            if not (types.is_integer(kind.key_type) or types.is_boolean(kind.key_type) or is_text(kind.key_type)):
                raise _none(kind, "Protobuf")
            text = f"map<{_scalar(kind.key_type)}, {value}>"
        elif types.is_struct(kind):
            lines.append(_message(kind, nested, inner))
            text = f"{repeated}{nested}"
        else:
            scalar = _scalar(kind)
            optional = "optional " if not repeated and not scalar.startswith("google") else ""
            text = f"{repeated or optional}{scalar}"
        # Protobuf refuses two fields with one JSON name.
        default = json_name(field.name)
        shown = default if default == field.name else json_names.free(default)
        option = "" if shown == default else f' [json_name = "{shown}"]'
        lines.append(f"{inner}{text} {_named(field.name, name)} = {number}{option};")
    return "\n".join([*lines, f"{indent}}}"])


def _scalar(kind: pa.DataType) -> str:  # noqa: PLR0911
    types = pa.types
    if types.is_timestamp(kind):
        return "google.protobuf.Timestamp"
    if types.is_duration(kind):
        return "google.protobuf.Duration"
    if types.is_integer(kind):
        return f"{'uint' if types.is_unsigned_integer(kind) else 'int'}{max(kind.bit_width, 32)}"
    if types.is_floating(kind):
        return "double" if types.is_float64(kind) else "float"
    if types.is_boolean(kind):
        return "bool"
    if is_text(kind):
        return "string"
    if (
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    ) and not types.is_decimal(kind):
        return "bytes"
    raise _none(kind, "Protobuf")
