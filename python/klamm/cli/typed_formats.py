"""Serializers and deserializers of the three formats that keep the numbers of JSON exact, for `typed_values`.

`typed_values` imports this module when a command needs it, because the packages of `klamm[registry]` are slow to import.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from klamm.cli.avro_json import AvroJson
from klamm.cli.json_text import dumps, loads
from klamm.registry import AvroDeserializer, JsonDeserializer, JsonSerializer
from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klamm.registry import Schema
    from klamm.registry.framing import Frame

_MAX_DIGITS = 40
"""A number with more digits before its point stays a float in a Protobuf message. No integer type has as many."""


class AvroToJson(AvroDeserializer[Any]):
    """Deserialize Avro values in their JSON form."""

    def _parse(self, schema: Schema, references: Mapping[str, Schema]) -> Any:
        return AvroJson(super()._parse(schema, references))

    def _record_name(self, writer: Any, frame: Frame) -> str:
        return super()._record_name(writer.schema, frame)

    def _decode(self, writer: Any, reader: Any, data: bytes, frame: Frame) -> Any:  # noqa: ARG002
        return writer.decoded(data, frame.start)


class JsonToJson(JsonDeserializer[Any]):
    """Deserialize JSON values with exact numbers."""

    def _decode(self, writer: Any, reader: Any, data: bytes, frame: Frame) -> Any:
        super()._decode(writer, reader, data, frame)  # validates the value
        return loads(data[frame.start :])


class JsonFromText(JsonSerializer[Any]):
    """Serialize JSON values whose numbers can be `Decimal`."""

    def _encode(self, parsed: Any, value: Any) -> bytes:
        super()._encode(parsed, _numbers(value, is_json=True))  # validates the value
        return dumps(value, (",", ":")).encode()


def message_of(kind: Any, value: Any) -> Any:
    """Return the message of a class that a value in proto-JSON describes.

    Raises:
        SchemaError: The value does not fit the message.
    """
    from google.protobuf import json_format

    try:
        pool = kind.DESCRIPTOR.file.pool
        return json_format.ParseDict(_numbers(value), kind(), descriptor_pool=pool)
    except (json_format.ParseError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SchemaError(f"the value does not fit the message {kind.DESCRIPTOR.full_name}: {error}") from None


def _numbers(value: Any, *, is_json: bool = False) -> Any:
    """Return a value with each `Decimal` replaced: by an integer if that is the same number, otherwise by a float.

    With `is_json`, all become floats.
    """
    if isinstance(value, dict):
        return {key: _numbers(item, is_json=is_json) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item, is_json=is_json) for item in value]
    if not isinstance(value, Decimal):
        return value
    if is_json or value.adjusted() >= _MAX_DIGITS or value != value.to_integral_value():
        return float(value)
    return int(value) or float(value)  # -0.0 is a float
