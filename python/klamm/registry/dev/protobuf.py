"""Parses and normalizes Protobuf schemas for the dev registry, and checks whether a new schema is compatible.

A new schema is compatible if it can read the data of the old schema.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2

from klamm.registry.errors import SchemaError
from klamm.registry.pools import pool_of
from klamm.registry.proto import FieldProto, descriptor, lossless_text

if TYPE_CHECKING:
    from collections.abc import Mapping

# Groups of types. A reader can read a value of one type as any other type in the same group.
_GROUPS = (
    {FieldProto.TYPE_INT32, FieldProto.TYPE_UINT32, FieldProto.TYPE_INT64, FieldProto.TYPE_UINT64}
    | {FieldProto.TYPE_BOOL, FieldProto.TYPE_ENUM},
    {FieldProto.TYPE_SINT32, FieldProto.TYPE_SINT64},
    {FieldProto.TYPE_STRING, FieldProto.TYPE_BYTES},
    {FieldProto.TYPE_FIXED32, FieldProto.TYPE_SFIXED32},
    {FieldProto.TYPE_FIXED64, FieldProto.TYPE_SFIXED64},
)


class Protobuf:
    """A parsed .proto file.

    Args:
        text: The text of the file, or its serialized descriptor in base64.
        references: Texts of the imported files by name. Each file comes after the files that it imports.

    Raises:
        ValueError: The schema is invalid. The message says why.
    """

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        try:
            self._text, self._file = text, descriptor(text, "schema.proto")
            files = {name: descriptor(reference, name) for name, reference in references.items()}
            self.descriptor = pool_of(self._file, files).FindFileByName(self._file.name)
        except SchemaError as error:
            raise ValueError(error.message) from None
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None

    def canonical(self) -> str:
        """Return the canonical text of the file. Two schemas count as equal if their canonical texts are equal."""
        return lossless_text(self._file) or self._text

    def normalized(self) -> str:
        """Return the text of the file with sorted imports, fields and enum values."""
        file = descriptor_pb2.FileDescriptorProto()
        file.CopyFrom(self._file)
        if not file.public_dependency and not file.weak_dependency:
            dependencies = sorted(file.dependency)
            del file.dependency[:]
            file.dependency.extend(dependencies)

        def sort(messages: Any, enums: Any) -> None:
            for message in messages:
                message.field.sort(key=lambda field: field.number)
                sort(message.nested_type, message.enum_type)
            for enum in enums:
                first, rest = enum.value[0], sorted(enum.value[1:], key=lambda value: (value.number, value.name))
                values = [type(first).FromString(value.SerializeToString()) for value in (first, *rest)]
                del enum.value[:]
                enum.value.extend(values)

        sort(file.message_type, file.enum_type)
        return lossless_text(file) or self._text

    def serialized(self) -> str:
        """Return the serialized descriptor in base64, which Confluent's clients request."""
        return base64.b64encode(self._file.SerializeToString()).decode("ascii")


def incompatibilities(reader: Protobuf, writer: Protobuf) -> list[str]:
    """Return the reasons why a new schema (the reader) cannot read the data of an old schema (the writer).

    The list is empty if the new schema can read the data of the old schema.
    """
    new, old = reader.descriptor, writer.descriptor
    if new.package != old.package:
        return [f"PACKAGE_CHANGED at #/: {old.package or 'none'} became {new.package or 'none'}"]
    found: list[str] = []
    _messages(new.message_types_by_name, old.message_types_by_name, "#/", found)
    return found


def _messages(new: Any, old: Any, path: str, found: list[str]) -> None:
    for name, message in old.items():
        if name not in new:
            found.append(f"MESSAGE_REMOVED at {path}{name}")
        else:
            _message(new[name], message, f"{path}{name}/", found)


def _message(new: Any, old: Any, path: str, found: list[str]) -> None:
    _messages(new.nested_types_by_name, old.nested_types_by_name, path, found)
    before, after = old.fields_by_number, new.fields_by_number
    found += [why for number, field in before.items() for why in _field(after.get(number), field, f"{path}{number}")]
    for number, field in after.items():
        if number not in before and field.is_required:
            found.append(f"REQUIRED_FIELD_ADDED at {path}{number}")
    for oneof in new.oneofs:
        moved = [f for f in oneof.fields if f.number in before and _oneof(before[f.number]) is None and _oneof(f)]
        if len(moved) > 1 or (moved and any(_oneof(before.get(f.number)) for f in oneof.fields)):
            found.append(f"FIELDS_MOVED_TO_ONEOF at {path}{oneof.name}")


def _field(new: Any, old: Any, path: str) -> list[str]:
    if new is None:
        if old.is_required:
            return [f"REQUIRED_FIELD_REMOVED at {path}"]
        return [f"ONEOF_FIELD_REMOVED at {path}"] if _oneof(old) is not None else []
    if not _same_kind(new, old):
        return [f"FIELD_KIND_CHANGED at {path}"]
    if new.message_type is not None and new.message_type.full_name != old.message_type.full_name:
        return [f"FIELD_NAMED_TYPE_CHANGED at {path}"]
    return []


def _oneof(field: Any) -> Any:
    """Return the oneof of a field, but not the implicit oneof of an `optional` field."""
    if field is None or field.containing_oneof is None:
        return None
    name = field.containing_oneof.name
    return None if name == f"_{field.name}" and len(field.containing_oneof.fields) == 1 else field.containing_oneof


def _same_kind(new: Any, old: Any) -> bool:
    kinds = {new.type, old.type}
    if len(kinds) > 1 and not any(kinds <= group for group in _GROUPS):
        return False
    is_text = kinds <= {FieldProto.TYPE_STRING, FieldProto.TYPE_BYTES} or FieldProto.TYPE_MESSAGE in kinds
    # A single number and a packed list of numbers have different encodings.
    return bool(new.is_repeated == old.is_repeated or is_text)
