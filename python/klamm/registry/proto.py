"""Converts the text of .proto files to descriptors and back.

The Rust core parses the text. This module resolves options, and the package protobuf resolves and checks names and numbers
when a file is added to a pool (`klamm.registry.pools`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, message_factory, text_format
from google.protobuf.message import DecodeError

from klamm._klamm import parse_proto
from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor_pool import DescriptorPool

FieldProto = descriptor_pb2.FieldDescriptorProto
_SCALARS = {number: name.lower().removeprefix("type_") for name, number in FieldProto.Type.items()}
_MAX_FIELD = 536_870_911
_UNINTERPRETED = b"\xba\x3e"
"""Tag of the field `uninterpreted_option`, which all messages with options have."""


def parse(text: str, name: str = "schema.proto") -> descriptor_pb2.FileDescriptorProto:
    """Parse a .proto file into a descriptor, as protoc does but without the positions in the text.

    The names of types are as in the text: a pool resolves them. Custom options stay in `uninterpreted_option`, because
    imported files declare them.

    Args:
        text: The text of the file: proto2, proto3, or an edition.
        name: Name of the file in the descriptor.

    Raises:
        SchemaError: The text is not a .proto file.
    """
    try:
        data = parse_proto(text, name)
    except ValueError as error:
        raise SchemaError(f"cannot parse the Protobuf schema: {error}") from None
    file = descriptor_pb2.FileDescriptorProto.FromString(data)
    resolve_options(file, None)
    return file


def descriptor(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    """Return the descriptor of a schema. The schema is the text of a .proto file, or a serialized descriptor in base64."""
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        return parse(text, name)
    file.name = name
    return file


def resolve_options(file: descriptor_pb2.FileDescriptorProto, pool: DescriptorPool | None) -> bool:
    """Replace options in `uninterpreted_option` by their fields and extensions. Return whether the file was changed.

    Args:
        file: The descriptor of the file.
        pool: Pool with the file and its imports, for custom options. An option that no file declares stays as it is.
            None for Protobuf's own options.

    Raises:
        SchemaError: One of Protobuf's own options has a value of another type.
    """
    if _UNINTERPRETED not in file.SerializeToString():
        return False
    counts = [_resolve(options, scope, pool) for scope, options in _all_options(file, file.package)]
    return any(counts)


def _all_options(message: Any, scope: str) -> Iterator[tuple[str, Any]]:
    for field, value in message.ListFields():
        if field.name == "options":
            yield scope, value
        elif field.message_type is not None:
            # Every declaration of a .proto file can have options; only types are scopes of names.
            for each in value if isinstance(value, Iterable) else ():
                yield from _all_options(each, f"{scope}.{each.name}" if field.name.endswith("_type") else scope)


def _resolve(options: Any, scope: str, pool: DescriptorPool | None) -> bool:
    """Resolve the options of one declaration. Return whether any of them could be resolved."""
    unresolved, kind = [], type(options)
    if pool is not None:
        try:
            kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(options.DESCRIPTOR.full_name))
        except KeyError:
            return False
    found = kind()
    for option in options.uninterpreted_option:
        names = [_option_name(part, scope, pool) for part in option.name]
        if "" in names:
            unresolved.append(option)
            continue
        text = f"{' { '.join(names)}: {_option_value(option)}{' }' * (len(names) - 1)}"
        try:
            text_format.Merge(text, found, descriptor_pool=pool)
        except (text_format.ParseError, RecursionError, UnicodeError, TypeError, ValueError) as error:
            if pool is None and names[0] in options.DESCRIPTOR.fields_by_name:
                raise SchemaError(f"cannot parse the Protobuf schema: option {names[0]}: {error}") from None
            unresolved.append(option)
    count = len(options.uninterpreted_option)
    if len(unresolved) < count:
        del options.uninterpreted_option[:]
        options.MergeFromString(found.SerializeToString())
        options.uninterpreted_option.extend(unresolved)
    return len(unresolved) < count


def _option_name(part: Any, scope: str, pool: DescriptorPool | None) -> str:
    """Return a part of an option's name in Protobuf's text format, or an empty text for an unknown extension."""
    if not part.is_extension:
        return str(part.name_part)
    outer = [] if part.name_part.startswith(".") else scope.split(".")
    for count in range(len(outer), -1, -1) if pool is not None else ():
        name = ".".join((*outer[:count], part.name_part.removeprefix(".")))
        try:
            return f"[{pool.FindExtensionByName(name).full_name}]"  # type: ignore[union-attr]
        except KeyError:
            continue
    return ""


def _option_value(option: Any) -> str:
    """Return the value of an option in Protobuf's text format."""
    if option.HasField("aggregate_value"):
        return f"{{ {option.aggregate_value} }}"
    if option.HasField("string_value"):
        return '"' + "".join(f"\\{byte:03o}" for byte in option.string_value) + '"'
    kinds = ("identifier_value", "positive_int_value", "negative_int_value", "double_value")
    return next((str(getattr(option, kind)) for kind in kinds if option.HasField(kind)), "")


def lossless_text(file: descriptor_pb2.FileDescriptorProto) -> str | None:
    """Return the text of a .proto file, or None if `to_text` leaves out parts of the descriptor."""
    text = to_text(file)
    try:
        return text if _plain(parse(text, file.name)) == _plain(file) else None
    except SchemaError:
        return None


def _plain(file: Any) -> Any:
    """Return a copy of a descriptor without the parts that differ between compilers: full type names and JSON names."""
    plain = descriptor_pb2.FileDescriptorProto()
    plain.CopyFrom(file)
    plain.ClearField("source_code_info")
    plain.syntax = plain.syntax or "proto2"

    def strip(messages: Any) -> None:
        for message in messages:
            for field in message.field:
                field.type_name = field.type_name.rpartition(".")[2]
                if field.type_name and field.type != FieldProto.TYPE_GROUP:
                    field.ClearField("type")
                field.ClearField("json_name")
            strip(message.nested_type)
            message.field.sort(key=lambda field: field.number)

    strip(plain.message_type)
    return plain


def to_text(file: descriptor_pb2.FileDescriptorProto) -> str:
    """Return the text of a .proto file with the content of a descriptor. Leave out services, extensions and custom options."""
    lines = [f'syntax = "{file.syntax or "proto2"}";']
    if file.package:
        lines.append(f"package {file.package};")
    for index, dependency in enumerate(file.dependency):
        kind = "public " if index in file.public_dependency else "weak " if index in file.weak_dependency else ""
        lines.append(f"import {kind}{_quoted(dependency)};")
    lines += [f"option {option};" for option in _options(file.options)]
    for message in file.message_type:
        _write_message(lines, message, file.syntax == "proto3", "")
    for enum in file.enum_type:
        _write_enum(lines, enum, "")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    letters = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(letters.get(letter, letter) for letter in text) + '"'


def _options(options: Any) -> list[str]:
    found = []
    for field, value in options.ListFields():
        if field.name == "map_entry" or field.is_extension or field.is_repeated:
            continue
        if field.enum_type is not None:
            found.append(f"{field.name} = {field.enum_type.values_by_number[value].name}")
        elif isinstance(value, bool):
            found.append(f"{field.name} = {str(value).lower()}")
        elif isinstance(value, str):
            found.append(f"{field.name} = {_quoted(value)}")
    return found


def _write_message(lines: list[str], message: Any, is_proto3: bool, margin: str) -> None:
    lines.append(f"{margin}message {message.name} {{")
    inner = margin + "  "
    lines += [f"{inner}option {option};" for option in _options(message.options)]
    entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    for span in message.reserved_range:
        last = "max" if span.end > _MAX_FIELD else span.end - 1
        lines.append(
            f"{inner}reserved {span.start};" if last == span.start else f"{inner}reserved {span.start} to {last};"
        )
    lines += [f"{inner}reserved {_quoted(name)};" for name in message.reserved_name]
    # Records store positions of nested types, so the text must keep these positions. The entry type of a map field is
    # one of the nested types. A parser derives the entry type from the map field, so write the field at the entry
    # type's position.
    for nested in message.nested_type:
        if nested.name in entries:
            fields = [field for field in message.field if _is_map(field) and field.type_name.endswith(nested.name)]
            lines += [f"{inner}{_field_text(field, entries, False, is_proto3)}" for field in fields]
        else:
            _write_message(lines, nested, is_proto3, inner)
    for enum in message.enum_type:
        _write_enum(lines, enum, inner)
    written: set[int] = set()
    for field in message.field:
        if field.type_name.rpartition(".")[2] in entries and _is_map(field):
            continue
        if field.HasField("oneof_index") and not field.proto3_optional:
            if field.oneof_index not in written:
                written.add(field.oneof_index)
                lines.append(f"{inner}oneof {message.oneof_decl[field.oneof_index].name} {{")
                members = [f for f in message.field if f.HasField("oneof_index") and f.oneof_index == field.oneof_index]
                lines += [f"{inner}  {_field_text(member, entries, True, is_proto3)}" for member in members]
                lines.append(f"{inner}}}")
        else:
            lines.append(f"{inner}{_field_text(field, entries, False, is_proto3)}")
    lines.append(f"{margin}}}")


def _is_map(field: Any) -> bool:
    return bool(field.label == FieldProto.LABEL_REPEATED and field.type_name.endswith("Entry"))


def _type_text(field: Any) -> str:
    return str(field.type_name or _SCALARS[field.type])


def _field_text(field: Any, entries: dict[str, Any], is_in_oneof: bool, is_proto3: bool) -> str:
    entry = entries.get(field.type_name.rpartition(".")[2]) if field.label == FieldProto.LABEL_REPEATED else None
    label = {FieldProto.LABEL_REPEATED: "repeated ", FieldProto.LABEL_REQUIRED: "required "}.get(field.label, "")
    if not label and not is_in_oneof and (not is_proto3 or field.proto3_optional):
        label = "optional "
    kind = label + _type_text(field)
    if entry is not None:
        kind = f"map<{_type_text(entry.field[0])}, {_type_text(entry.field[1])}>"
    options = _options(field.options)
    if field.HasField("default_value"):
        is_text = field.type in (FieldProto.TYPE_STRING, FieldProto.TYPE_BYTES)
        options.insert(0, f"default = {_quoted(field.default_value) if is_text else field.default_value}")
    if field.json_name and field.json_name != json_name(field.name):
        options.append(f"json_name = {_quoted(field.json_name)}")
    return f"{kind} {field.name} = {field.number}" + (f" [{', '.join(options)}];" if options else ";")


def json_name(name: str) -> str:
    """Return the name that a field has by default in Protobuf's JSON form."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _write_enum(lines: list[str], enum: Any, margin: str) -> None:
    lines.append(f"{margin}enum {enum.name} {{")
    lines += [f"{margin}  option {option};" for option in _options(enum.options)]
    for value in enum.value:
        options = _options(value.options)
        lines.append(f"{margin}  {value.name} = {value.number}" + (f" [{', '.join(options)}];" if options else ";"))
    for span in enum.reserved_range:
        last = "max" if span.end == (1 << 31) - 1 else span.end
        same = last == span.start
        lines.append(f"{margin}  reserved {span.start};" if same else f"{margin}  reserved {span.start} to {last};")
    lines += [f"{margin}  reserved {_quoted(name)};" for name in enum.reserved_name]
    lines.append(f"{margin}}}")
