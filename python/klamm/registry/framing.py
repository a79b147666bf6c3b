"""Reads and writes framings, the forms in which a record stores the schema ID of its key or value.

| framing | bytes |
| --- | --- |
| `id` | 0, four bytes of schema ID |
| `guid` | 1, 16 bytes of schema GUID |
| `header_id`, `header_guid` | the bytes of `id` or `guid` in a record header; the key or value is only the payload |
| `apicurio` | 0, eight bytes of schema ID |
| `single_object` | C3 01, eight bytes of fingerprint (Avro only) |

For Protobuf, the position of the message type in its `.proto` file follows the ID. This module only reads and writes
bytes. It does not look up schemas.
"""

from __future__ import annotations

import struct
import uuid
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

Framing: TypeAlias = "Literal['id', 'guid', 'header_id', 'header_guid', 'apicurio', 'single_object']"
"""Where a serializer stores the ID of a record's schema."""

FRAMINGS = ("id", "guid", "header_id", "header_guid", "apicurio", "single_object")
HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}
"""Names of the record headers that contain the schema ID or GUID of the key and of the value."""
_MAX_INDEXES = 64
_SINGLE_OBJECT = b"\xc3\x01"


class Frame(NamedTuple):
    """The schema ID of a key or value, and the offset of the payload.

    Attributes:
        schema: Schema ID, schema GUID, or the fingerprint as eight bytes.
        start: Offset of the payload in the bytes of the key or value.
        indexes: For Protobuf, the position of the message type in its `.proto` file.
    """

    schema: int | str | bytes
    start: int
    indexes: tuple[int, ...] = ()


def read(data: bytes, header: bytes | None, *, id_bytes: int = 4, has_indexes: bool = False) -> Frame:
    """Return the schema ID at the start of a key or value, or in its header, and the offset of the payload.

    Args:
        data: Bytes of the key or value.
        header: Value of the record header that can contain the ID, or None.
        id_bytes: Length of a schema ID in bytes: 4, or 8 for an Apicurio Registry with IDs of eight bytes.
        has_indexes: Whether the position of a Protobuf message type follows the ID.

    Raises:
        SchemaError: The bytes do not start with a schema ID, or are too short.
    """
    source = data if header is None else header
    schema, at = _schema(source, id_bytes, "" if header is None else " of the record header")
    indexes: tuple[int, ...] = ()
    if has_indexes:
        indexes, at = _read_indexes(source, at)
    return Frame(schema, at if header is None else 0, indexes)


def frames(data: bytes, header: bytes | None, *, id_bytes: int, has_indexes: bool, is_avro: bool) -> list[Frame]:
    """Return the framings that a key or value can have, with the most likely first.

    A value with a framing of its own can have the header of an earlier value, if a program copied the headers of a
    record. Only an Avro value can start with the bytes of a framing and still have none: JSON text and Protobuf messages
    never start with 0 or 1.

    Raises:
        SchemaError: The key or value has no valid framing.
    """
    if header is None or data[:1] not in (b"\x00", b"\x01"):
        return [read(data, header, id_bytes=id_bytes, has_indexes=has_indexes)]
    found, error = [], None
    for source in (header, None) if is_avro else (None, header):
        try:
            found.append(read(data, source, id_bytes=id_bytes, has_indexes=has_indexes))
        except SchemaError as failed:
            error = error or failed
    if error is not None and not found:
        raise error
    return found if is_avro else found[:1]


def without_framing(headers: Iterable[Any], field: str) -> list[Any]:
    """Return the headers of a record without the header that contains the schema ID of its key or value."""
    name = HEADERS[field]
    return [each for each in headers if not (isinstance(each, (tuple, list)) and each and each[0] == name)]


def _schema(source: bytes, id_bytes: int, where: str) -> tuple[int | str | bytes, int]:
    magic = source[:1]
    if magic == b"\x00":
        end = 1 + id_bytes
        if len(source) >= end:
            return int.from_bytes(source[1:end], "big"), end
    elif magic == b"\x01":
        end = 17
        if len(source) >= end:
            return str(uuid.UUID(bytes=bytes(source[1:end]))), end
    elif source[:2] == _SINGLE_OBJECT:
        end = 10
        if len(source) >= end:
            return bytes(source[2:end]), end
    elif not magic:
        raise SchemaError("the value is empty, so it has no schema ID")
    else:
        raise SchemaError(
            f"the first byte{where} is {magic[0]}, which is not the start of a known framing",
            hint="use the deserializer only for topics whose producers use a serializer of a schema registry",
        )
    raise SchemaError(f"the framing{where} needs {end} bytes and has {len(source)}", hint="the record is truncated")


def written(framing: Framing, schema_id: int, guid: str | None, indexes: tuple[int, ...] | None) -> bytes:
    """Return the bytes that a serializer writes before the payload or into a record header.

    Raises:
        SchemaError: The registry returned no GUID, or the ID is too large for the framing.
    """
    position = b"" if indexes is None else _write_indexes(indexes)
    if framing in ("guid", "header_guid"):
        if guid is None:
            raise SchemaError(
                f"the registry has no GUID for schema {schema_id}", hint="use framing='id'", schema_id=schema_id
            )
        return b"\x01" + uuid.UUID(guid).bytes + position
    try:
        return struct.pack(">bq" if framing == "apicurio" else ">bI", 0, schema_id) + position
    except struct.error:
        raise SchemaError(
            f"schema ID {schema_id} does not fit into four bytes", hint="use framing='apicurio'", schema_id=schema_id
        ) from None


def single_object(fingerprint: bytes) -> bytes:
    """Return the bytes that come before a payload in Avro's single-object encoding."""
    return _SINGLE_OBJECT + fingerprint


def _write_indexes(indexes: tuple[int, ...]) -> bytes:
    """Return the encoded position of a message type in its file.

    The encoded position of the first type is a single zero byte.
    """
    if indexes == (0,):
        return b"\x00"
    return b"".join(map(_varint, (len(indexes), *indexes)))


def _varint(number: int) -> bytes:
    rest, written = number << 1, bytearray()  # zigzag encoding of a number that is never negative
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def _read_indexes(source: bytes, at: int) -> tuple[tuple[int, ...], int]:
    count, at = _read_varint(source, at)
    if count > _MAX_INDEXES:
        raise SchemaError(f"the framing has {count} message indexes, more than {_MAX_INDEXES}")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(source, at)
        indexes.append(index)
    return tuple(indexes) or (0,), at


def _read_varint(source: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(source):
            raise SchemaError("the framing ends in the message indexes", hint="the record is truncated")
        byte = source[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - seven bits a byte
            if value & 1:
                raise SchemaError("the framing has a negative message index")
            return value >> 1, at
    raise SchemaError("the framing has a message index that is too large")


def indexes_of(message: Any) -> tuple[int, ...]:
    """Return the position of a message type in its file: the index at each level of nesting."""
    if message.containing_type is not None:
        siblings = list(message.containing_type.nested_types)
        return (*indexes_of(message.containing_type), siblings.index(message))
    return (list(message.file.message_types_by_name.values()).index(message),)
