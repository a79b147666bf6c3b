"""Parses and normalizes Protobuf schemas for the dev registry, and checks whether a new schema is compatible.

A new schema is compatible if it can read the data of the old schema.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2

from klamm.registry.errors import SchemaError
from klamm.registry.messages import is_repeated
from klamm.registry.pools import pool_of
from klamm.registry.proto import FieldProto, descriptor, lossless_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILE = "schema.proto"
_TEXT = {FieldProto.TYPE_STRING, FieldProto.TYPE_BYTES}
# Groups of types. A reader can read a value of one type as any other type in the same group.
_GROUPS = (
    {FieldProto.TYPE_INT32, FieldProto.TYPE_UINT32, FieldProto.TYPE_INT64, FieldProto.TYPE_UINT64}
    | {FieldProto.TYPE_BOOL, FieldProto.TYPE_ENUM},
    {FieldProto.TYPE_SINT32, FieldProto.TYPE_SINT64},
    _TEXT,
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
            self._text, self._file = text, descriptor(text, _FILE)
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

    The rules are those of Confluent's registry. The list is empty if the new schema can read the data of the old schema.
    """
    new, old = reader.descriptor, writer.descriptor
    if new.package != old.package:
        return [f"PACKAGE_CHANGED at #/: {old.package or 'none'} became {new.package or 'none'}"]
    comparison = _Comparison()
    comparison.messages(new.message_types_by_name, old.message_types_by_name, "#/")
    return comparison.found


class _Comparison:
    """Collects the incompatible changes between two versions of a file."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._compared: set[tuple[Any, Any]] = set()

    def messages(self, new: Any, old: Any, path: str) -> None:
        for name, message in old.items():
            if message.GetOptions().map_entry:
                continue  # compared as the type of its field
            if name not in new:
                self.found.append(f"MESSAGE_REMOVED at {path}{name}")
            else:
                self._message(new[name], message, f"{path}{name}/")

    def _message(self, new: Any, old: Any, path: str) -> None:
        self.messages(new.nested_types_by_name, old.nested_types_by_name, path)
        before, after = old.fields_by_number, new.fields_by_number
        for number, field in before.items():
            if number in after:
                self._field(after[number], field, f"{path}{number}")
            elif _oneof(field) is None and field.is_required:
                self.found.append(f"REQUIRED_FIELD_REMOVED at {path}{number}")
            elif _oneof(field) is not None and not _is_deleted(_oneof(field), new):
                self.found.append(f"ONEOF_FIELD_REMOVED at {path}{number}")
        for number, field in after.items():
            if number not in before and field.is_required:
                self.found.append(f"REQUIRED_FIELD_ADDED at {path}{number}")
        for oneof in new.oneofs:
            if all(_oneof(field) is None for field in oneof.fields):
                continue
            # Fields may come into one oneof only if they excluded each other before.
            of = [before[field.number] for field in oneof.fields if field.number in before]
            single = [field.number for field in of if _oneof(field) is None]
            if len(single) + len({_oneof(field).name for field in of if _oneof(field) is not None}) > 1:
                why = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if len(single) > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
                self.found.append(f"{why} at {path}{oneof.name}")

    def _field(self, new: Any, old: Any, path: str) -> None:
        kinds = _kind(new), _kind(old)
        if kinds[0] != kinds[1]:
            is_scalar = all(kind not in ("message", "map") for kind in kinds)
            self.found.append(f"{'FIELD_SCALAR_KIND_CHANGED' if is_scalar else 'FIELD_KIND_CHANGED'} at {path}")
        elif kinds[0] == "map":
            for name in ("key", "value"):
                pair = [field.message_type.fields_by_name[name] for field in (new, old)]
                self._field(pair[0], pair[1], path)
        elif kinds[0] == "message":
            self._types(new.message_type, old.message_type, path)
        elif kinds[0] != _TEXT and _label(new) != _label(old):
            self.found.append(f"FIELD_NUMERIC_LABEL_CHANGED at {path}")

    def _types(self, new: Any, old: Any, path: str) -> None:
        names = [each.full_name.removeprefix(f"{each.file.package}.") for each in (new, old)]
        if names[0] != names[1]:
            self.found.append(f"FIELD_NAMED_TYPE_CHANGED at {path}")
        elif (new, old) not in self._compared and old.file.name != _FILE:
            # The types of the file itself are compared by name. Each version can import other versions of other files.
            self._compared.add((new, old))
            count = len(self.found)
            self._message(new, old, f"{path}/")
            if len(self.found) > count:
                self.found.append(f"FIELD_NAMED_TYPE_CHANGED at {path}")


def _is_deleted(oneof: Any, message: Any) -> bool:
    """Return whether a message no longer has a oneof, nor any of its fields."""
    is_kept = any(field.number in message.fields_by_number for field in oneof.fields)
    return oneof.name not in message.oneofs_by_name and not is_kept


def _oneof(field: Any) -> Any:
    """Return the oneof of a field, but not the implicit oneof of an `optional` field."""
    if field.containing_oneof is None:
        return None
    name = field.containing_oneof.name
    return None if name == f"_{field.name}" and len(field.containing_oneof.fields) == 1 else field.containing_oneof


def _kind(field: Any) -> Any:
    """Return "map", "message", or the types that a value of this field can be read as."""
    if field.message_type is not None:
        return "map" if field.message_type.GetOptions().map_entry else "message"
    return next((group for group in _GROUPS if field.type in group), field.type)


def _label(field: Any) -> str:
    return "repeated" if is_repeated(field) else "required" if field.is_required else "optional"
