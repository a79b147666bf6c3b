"""Converts the text of .proto files to descriptors and back, for the syntaxes proto2 and proto3.

The package protobuf has descriptors but no parser for .proto files. This parser reads everything that affects how a message
is encoded: messages, enums, fields, oneofs, maps and imports. The parser skips services, extensions and custom options.
The package protobuf resolves and checks names and numbers when `klamm.registry.protobuf` adds a file to a pool.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, NoReturn

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

FieldProto = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    name.lower().removeprefix("type_"): number
    for name, number in FieldProto.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}
"""For each name of a scalar type, such as "int32", the number of the type in a descriptor."""
NAMES = {number: name for name, number in SCALARS.items()}

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))
    |(?P<name>[.]?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
    |(?P<symbol>[-+{}\[\]()<>=;,:/])""",
    re.VERBOSE | re.DOTALL,
)
_MAX_DEPTH = 64
_MAX_FIELD = 536_870_911
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def parse(text: str, name: str = "schema.proto") -> descriptor_pb2.FileDescriptorProto:
    """Parse a .proto file into a descriptor. The parser does not resolve the names of types.

    Args:
        text: The text of the file.
        name: Name of the file in the descriptor.

    Raises:
        SchemaError: The text is not a .proto file, or uses groups or editions.
    """
    return _Parser(text, name).file()


def descriptor(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    """Return the descriptor of a schema. The schema is the text of a .proto file, or a serialized descriptor in base64."""
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        return parse(text, name)
    file.name = name
    return file


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._result = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto2")
        self._tokens = self._split()
        self._at = 0

    def _split(self) -> list[tuple[str, str, int]]:
        tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None:
                self._fail(f"unexpected character {self._text[at]!r}", at)
            if match.lastgroup is not None:
                tokens.append((match.lastgroup, match[0], at))
            at = match.end()
        return [*tokens, ("end", "end of file", at)]

    def _fail(self, message: str, at: int | None = None) -> NoReturn:
        at = self._tokens[self._at][2] if at is None else at
        raise SchemaError(f"cannot parse the Protobuf schema: line {self._text.count(chr(10), 0, at) + 1}: {message}")

    @property
    def _next(self) -> str:
        kind, text, _ = self._tokens[self._at]
        return "" if kind == "string" else text

    def _take(self, kind: str) -> str:
        found, text, _ = self._tokens[self._at]
        if found != kind:
            self._fail(f"expected a {kind}, found {text}")
        self._at += 1
        return text

    def _accept(self, text: str) -> bool:
        if self._next == text and self._tokens[self._at][0] != "end":
            self._at += 1
            return True
        return False

    def _expect(self, *texts: str) -> None:
        for text in texts:
            if not self._accept(text):
                self._fail(f"expected {text!r}, found {self._tokens[self._at][1]}")

    def _string(self) -> str:
        text = self._take("string")
        while self._tokens[self._at][0] == "string":
            text = text[:-1] + self._take("string")[1:]

        def character(match: re.Match[str]) -> str:
            escaped = match[1]
            if escaped[0] in "xX":
                return chr(int(escaped[1:], 16))
            if escaped[0] in "01234567":
                return chr(int(escaped, 8))
            return _ESCAPES.get(escaped, escaped)

        return re.sub(r"\\([xX][0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", character, text[1:-1], flags=re.DOTALL)

    def _integer(self) -> int:
        text = self._take("number")
        try:
            return int(text, 16) if "x" in text.lower() else int(text, 8 if re.fullmatch(r"[-+]?0[0-7]+", text) else 10)
        except ValueError:
            self._fail(f"expected a whole number, found {text}")

    def file(self) -> descriptor_pb2.FileDescriptorProto:
        result = self._result
        if self._next == "edition":
            self._fail("editions are not supported, only proto2 and proto3")
        if self._accept("syntax"):
            self._expect("=")
            result.syntax = self._string()
            if result.syntax not in ("proto2", "proto3"):
                self._fail(f"unknown syntax {result.syntax!r}")
            self._expect(";")
        while self._tokens[self._at][0] != "end":
            self._top()
        return result

    def _top(self) -> None:
        result = self._result
        if self._accept("import"):
            if self._accept("public"):
                result.public_dependency.append(len(result.dependency))
            elif self._accept("weak"):
                result.weak_dependency.append(len(result.dependency))
            result.dependency.append(self._string())
            self._expect(";")
        elif self._accept("package"):
            result.package = self._take("name")
            self._expect(";")
        elif self._accept("option"):
            self._option(result.options)
            self._expect(";")
        elif self._accept("message"):
            self._message(result.message_type.add(), 1)
        elif self._accept("enum"):
            self._enum(result.enum_type.add())
        elif self._accept("extend") or self._accept("service"):
            self._take("name")
            self._skip_block()
        elif not self._accept(";"):
            self._fail(f"unexpected {self._tokens[self._at][1]}")

    def _skip_block(self) -> None:
        self._expect("{")
        depth = 1
        while depth:
            if self._tokens[self._at][0] == "end":
                self._fail("expected '}'")
            depth += {"{": 1, "}": -1}.get(self._next, 0)
            self._at += 1

    def _option(self, options: Any) -> None:
        """Parse `name = value` into `options`. Skip custom options, and options that do not affect the encoding."""
        is_custom = self._accept("(")
        name = self._take("name")
        if is_custom:
            self._expect(")")
            if self._tokens[self._at][0] == "name":
                self._take("name")
        self._expect("=")
        if self._next == "{":
            self._skip_block()
            return
        value = self._value()
        field = None if is_custom else options.DESCRIPTOR.fields_by_name.get(name)
        if field is None or field.is_repeated:
            return
        try:
            if field.enum_type is not None:
                number = field.enum_type.values_by_name.get(value)
                if number is not None:
                    setattr(options, name, number.number)
            elif field.type == field.TYPE_BOOL:
                setattr(options, name, value == "true")
            elif field.type == field.TYPE_STRING:
                setattr(options, name, value)
        except (TypeError, ValueError):
            self._fail(f"invalid value of option {name}")

    def _value(self) -> str:
        kind = self._tokens[self._at][0]
        if kind == "string":
            return self._string()
        if self._next == "[":
            while not self._accept("]"):
                if self._tokens[self._at][0] == "end":
                    self._fail("expected ']'")
                self._at += 1
            return ""
        sign = "-" if self._accept("-") else ""
        return sign + self._take("number" if self._tokens[self._at][0] == "number" else "name")

    def _message(self, message: Any, depth: int) -> None:
        if depth > _MAX_DEPTH:
            self._fail(f"messages are nested more than {_MAX_DEPTH} levels deep")
        message.name = self._take("name")
        self._expect("{")
        optional: list[Any] = []
        while not self._accept("}"):
            if self._accept("message"):
                self._message(message.nested_type.add(), depth + 1)
            elif self._accept("enum"):
                self._enum(message.enum_type.add())
            elif self._accept("oneof"):
                self._oneof(message)
            elif not self._skipped(message):
                self._field(message, optional)
        # The oneofs of proto3's optional fields come after all other oneofs.
        for field in optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")

    def _skipped(self, message: Any) -> bool:
        """If the next statement is neither a type nor a field, parse it and return True. Otherwise return False."""
        if self._accept("option"):
            self._option(message.options)
            self._expect(";")
        elif self._accept("reserved"):
            self._reserved(message, message.reserved_range.add, _MAX_FIELD, 1)
        elif self._accept("extensions"):
            while not self._accept(";"):
                if self._tokens[self._at][0] == "end":
                    self._fail("expected ';'")
                self._at += 1
        elif self._accept("extend"):
            self._take("name")
            self._skip_block()
        else:
            return self._accept(";")
        return True

    def _reserved(self, parent: Any, add: Callable[[], Any], most: int, end_is_after: int) -> None:
        while True:
            kind = self._tokens[self._at][0]
            if kind == "string":
                parent.reserved_name.append(self._string())
            elif kind == "name":
                parent.reserved_name.append(self._take("name"))
            else:
                start = end = self._integer()
                if self._accept("to"):
                    end = most if self._accept("max") else self._integer()
                span = add()
                span.start, span.end = start, end + end_is_after
            if not self._accept(","):
                break
        self._expect(";")

    def _oneof(self, message: Any) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._take("name"))
        self._expect("{")
        while not self._accept("}"):
            if self._accept("option"):
                self._option(descriptor_pb2.OneofOptions())
                self._expect(";")
            elif not self._accept(";"):
                field = self._one_field(message, FieldProto.LABEL_OPTIONAL)
                field.oneof_index = index

    def _field(self, message: Any, optional: list[Any]) -> None:
        label = {"optional": FieldProto.LABEL_OPTIONAL, "required": FieldProto.LABEL_REQUIRED}.get(self._next)
        if self._next == "repeated":
            label = FieldProto.LABEL_REPEATED
        # The parser always reads a word such as `optional` as a label, never as the name of a type.
        if label is not None:
            self._at += 1
            field = self._one_field(message, label)
            if label == FieldProto.LABEL_OPTIONAL and self._result.syntax == "proto3":
                field.proto3_optional = True
                optional.append(field)
        elif self._next == "map" and self._tokens[self._at + 1][1] == "<":
            self._map(message)
        elif self._result.syntax == "proto2":
            self._fail(f"expected a label such as optional, found {self._tokens[self._at][1]}")
        else:
            self._one_field(message, FieldProto.LABEL_OPTIONAL)

    def _type(self, field: Any) -> None:
        name = self._take("name")
        if name == "group":
            self._fail("groups are not supported")
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def _one_field(self, message: Any, label: int) -> Any:
        field = message.field.add(label=label)
        self._type(field)
        self._end_of_field(field)
        return field

    def _end_of_field(self, field: Any) -> None:
        field.name = self._take("name")
        self._expect("=")
        field.number = self._number()
        if self._accept("["):
            while True:
                name = self._next
                if name in ("default", "json_name") and self._tokens[self._at + 1][1] == "=":
                    self._at += 2
                    value = self._value()
                    setattr(field, "default_value" if name == "default" else name, value)
                else:
                    self._option(field.options)
                if not self._accept(","):
                    break
            self._expect("]")
        self._expect(";")

    def _number(self) -> int:
        number = self._integer()
        if not 1 <= number <= _MAX_FIELD:
            self._fail(f"field number {number} is out of range")
        return number

    def _map(self, message: Any) -> None:
        self._expect("map", "<")
        entry = descriptor_pb2.DescriptorProto()
        entry.options.map_entry = True
        for number, name in enumerate(("key", "value"), 1):
            part = entry.field.add(name=name, number=number, label=FieldProto.LABEL_OPTIONAL)
            self._type(part)
            self._expect("," if number == 1 else ">")
        field = message.field.add(label=FieldProto.LABEL_REPEATED)
        self._end_of_field(field)
        entry.name = "".join(word[:1].upper() + word[1:] for word in field.name.split("_")) + "Entry"
        field.type_name = entry.name
        field.type = FieldProto.TYPE_MESSAGE
        message.nested_type.append(entry)

    def _enum(self, enum: Any) -> None:
        enum.name = self._take("name")
        self._expect("{")
        while not self._accept("}"):
            if self._accept("option"):
                self._option(enum.options)
                self._expect(";")
            elif self._accept("reserved"):
                self._reserved(enum, enum.reserved_range.add, (1 << 31) - 1, 0)
            elif not self._accept(";"):
                value = enum.value.add(name=self._take("name"))
                self._expect("=")
                number = self._integer()
                if not -(1 << 31) <= number < 1 << 31:
                    self._fail(f"enum value {number} is out of range")
                value.number = number
                if self._accept("["):
                    while True:
                        self._option(value.options)
                        if not self._accept(","):
                            break
                    self._expect("]")
                self._expect(";")


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
    return str(field.type_name or NAMES[field.type])


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
    if field.json_name and field.json_name != _json_name(field.name):
        options.append(f"json_name = {_quoted(field.json_name)}")
    return f"{kind} {field.name} = {field.number}" + (f" [{', '.join(options)}];" if options else ";")


def _json_name(name: str) -> str:
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
