"""Converts Avro schemas to Arrow types, and creates the plans with which the Rust core decodes values.

A plan resolves the schema of a writer to the schema of the reader by the rules of the Avro specification: promotion, defaults,
aliases, and unions. `src/registry/avro.rs` describes the form of a plan. The core uses one plan for all records of a
writer's schema.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from klamm.registry.avro import parse
from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klamm.registry.schema import Schema

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
# For each logical type of integers: the integer type, the number of units per second, and the Arrow type.
_TIMES = {
    "date": ("int", 0, pa.date32()),
    "time-millis": ("int", 10**3, pa.time32("ms")),
    "time-micros": ("long", 10**6, pa.time64("us")),
    "timestamp-millis": ("long", 10**3, pa.timestamp("ms", "UTC")),
    "timestamp-micros": ("long", 10**6, pa.timestamp("us", "UTC")),
    "timestamp-nanos": ("long", 10**9, pa.timestamp("ns", "UTC")),
    "local-timestamp-millis": ("long", 10**3, pa.timestamp("ms")),
    "local-timestamp-micros": ("long", 10**6, pa.timestamp("us")),
    "local-timestamp-nanos": ("long", 10**9, pa.timestamp("ns")),
}
_SECONDS_PER_DAY = 86_400
_MAX_DEPTH = 60
_UUID_BYTES = 16
_MAX_DIGITS_128, _MAX_DIGITS_256 = 38, 76


class Avro:
    """A parsed Avro schema with its named types.

    Args:
        schema: The schema.
        references: The referenced schemas by name. Each schema comes after the schemas that it references.

    Raises:
        SchemaError: The schema is invalid.
    """

    def __init__(self, schema: Schema, references: Mapping[str, Schema]) -> None:
        import fastavro

        self.is_bytes = parse(schema, references).is_bytes
        known: dict[str, Any] = {}
        try:
            for reference in references.values():
                fastavro.parse_schema(_loaded(reference.text), named_schemas=known)
            field = {"name": "value", "type": _loaded(schema.text)}
            wrapped: Any = fastavro.parse_schema(
                {"type": "record", "name": "klamm_Value", "fields": [field]}, named_schemas=known
            )
        except Exception as error:  # noqa: BLE001 - fastavro raises many types
            raise SchemaError(f"the Avro schema is invalid: {type(error).__name__}: {error}") from None
        self.names: Mapping[str, Any] = wrapped.get("__named_schemas", {})
        self.root = wrapped["fields"][0]["type"]

    def arrow_type(self) -> pa.DataType:
        """Return the Arrow type of a column with values of this schema.

        Raises:
            SchemaError: The schema is recursive, or nested too deeply.
        """
        return self._type(self.root, "", ())

    def resolved(self, schema: Any) -> Any:
        """Return the schema of a named type if the argument is a name. Return any other argument unchanged."""
        if isinstance(schema, str) and schema not in _PRIMITIVES:
            return self.names[schema]
        return schema

    def _type(self, schema: Any, path: str, outer: tuple[str, ...]) -> pa.DataType:  # noqa: PLR0911
        schema = self.resolved(schema)
        check_depth(schema, path, outer)
        kind = kind_of(schema)
        if kind == "union":
            return self._union_type(schema, path, outer)
        if kind in ("record", "error"):
            outer = (*outer, schema["name"])
            return pa.struct(
                [
                    pa.field(f["name"], self._type(f["type"], f"{path}.{f['name']}", outer))
                    for f in unique_fields(schema, path)
                ]
            )
        inner = (*outer, "")
        if kind == "array":
            return pa.list_(pa.field("item", self._type(schema["items"], f"{path}[]", inner)))
        if kind == "map":
            return pa.map_(pa.string(), pa.field("value", self._type(schema["values"], f"{path}[]", inner)))
        if kind == "enum":
            return pa.string()
        logical = logical_of(schema)
        if logical == "decimal":
            wide = schema["precision"] > _MAX_DIGITS_128
            return (pa.decimal256 if wide else pa.decimal128)(schema["precision"], schema.get("scale", 0))
        if logical == "uuid":
            return pa.string()
        if kind == "fixed":
            return pa.binary(schema["size"])
        return _TIMES[logical][2] if logical in _TIMES else _PRIMITIVES[kind]

    def _union_type(self, branches: list[Any], path: str, outer: tuple[str, ...]) -> pa.DataType:
        members = [branch for branch in branches if kind_of(self.resolved(branch)) != "null"]
        if not members:
            return pa.null()
        if len(members) == 1:
            return self._type(members[0], path, outer)
        names = self.member_names(members)
        inner = (*outer, "")
        return pa.struct(
            [pa.field(name, self._type(member, path, inner)) for name, member in zip(names, members, strict=True)]
        )

    def member_names(self, members: list[Any]) -> list[str]:
        """Return a column name for each branch of a union: the name of the branch's type."""
        full = [_name_of(self.resolved(member)) for member in members]
        short = [name.rpartition(".")[2] for name in full]
        return short if len(set(short)) == len(short) else full


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if text.strip().isalpha():  # the name of a primitive type
            return text.strip()
        raise


def plan(writer: Avro, reader: Avro) -> list[Any]:
    """Return the plan that decodes values of a writer into a column with the reader's type.

    Raises:
        SchemaError: The schema of the writer cannot be resolved to the schema of the reader.
    """
    if writer.is_bytes and kind_of(reader.resolved(reader.root)) in ("bytes", "string"):
        return ["rest"]
    return _Resolver(writer, reader).plan(writer.root, reader.root, "", ())


def kind_of(schema: Any) -> str:
    """Return the name of a schema's type, such as "record" or "union". The schema must not be a reference to a name."""
    if isinstance(schema, list):
        return "union"
    return schema if isinstance(schema, str) else schema["type"]


def logical_of(schema: Any) -> str | None:
    """Return the logical type of a schema, or None if the schema has none.

    The function ignores invalid logical types, as the specification requires.
    """
    if not isinstance(schema, dict):
        return None
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical == "decimal":
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        is_valid = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision
        if kind in ("bytes", "fixed") and is_valid and 0 < precision <= _MAX_DIGITS_256:  # type: ignore[operator]
            return "decimal"
        return None
    if logical == "uuid":
        return "uuid" if kind == "string" or (kind == "fixed" and schema["size"] == _UUID_BYTES) else None
    return logical if isinstance(logical, str) and logical in _TIMES and _TIMES[logical][0] == kind else None


def check_depth(schema: Any, path: str, outer: tuple[str, ...]) -> None:
    """Raise an error for a type that contains itself, because a column has a fixed depth.

    Raises:
        SchemaError: The type contains itself, or is nested too deeply.
    """
    if isinstance(schema, dict) and schema.get("name") in outer:
        raise SchemaError(
            f"the schema is recursive: {schema['name']} contains itself, and a column has a fixed depth",
            path=path.removeprefix("."),
            hint="read the topic with a deserializer instead",
        )
    if len(outer) > _MAX_DEPTH:
        raise SchemaError("the schema is nested too deep for columns", path=path.removeprefix("."))


def unique_fields(schema: Any, path: str) -> list[Any]:
    """Return the fields of a record schema. Raise an error if two fields have the same name."""
    fields: list[Any] = schema["fields"]
    if len({field["name"] for field in fields}) < len(fields):
        raise SchemaError("the record has two fields of one name", path=path.removeprefix("."))
    return fields


def _name_of(schema: Any) -> str:
    kind = kind_of(schema)
    return str(schema["name"]) if kind in ("record", "error", "enum", "fixed") else kind


def _aliases(schema: Any) -> set[str]:
    return {alias.rpartition(".")[2] for alias in schema.get("aliases") or ()}


class _Unresolvable(SchemaError):  # noqa: N818
    """The writer's schema allows a value that the reader's schema does not allow."""


class _Resolver:
    def __init__(self, writer: Avro, reader: Avro) -> None:
        self._writer, self._reader = writer, reader

    def plan(self, writer: Any, reader: Any, path: str, outer: tuple[str, ...]) -> list[Any]:
        writer, reader = self._writer.resolved(writer), self._reader.resolved(reader)
        check_depth(reader, path, outer)
        if kind_of(writer) == "union":
            return ["union", [self._branch(branch, reader, path, outer) for branch in writer]]
        if kind_of(reader) == "union":
            return self._into_union(writer, reader, path, outer)
        if not self._matches(writer, reader, strict=False):
            raise _Unresolvable(
                f"the writer has {_name_of(writer)}, and the reader has {_name_of(reader)}", path=path.removeprefix(".")
            )
        return self._same(writer, reader, path, outer)

    def _branch(self, branch: Any, reader: Any, path: str, outer: tuple[str, ...]) -> list[Any]:
        try:
            return self.plan(branch, reader, path, outer)
        except _Unresolvable as error:
            return ["fail", _with_path(error)]

    def _into_union(self, writer: Any, branches: list[Any], path: str, outer: tuple[str, ...]) -> list[Any]:
        resolved = [self._reader.resolved(branch) for branch in branches]
        exact = [branch for branch in resolved if self._matches(writer, branch, strict=True)]
        chosen = next(
            iter(exact or [branch for branch in resolved if self._matches(writer, branch, strict=False)]), None
        )
        if chosen is None:
            names = ", ".join(map(_name_of, resolved))
            raise _Unresolvable(
                f"the writer has {_name_of(writer)}, and the reader has a union of {names}", path=path.removeprefix(".")
            )
        if kind_of(chosen) == "null":
            return ["null"]
        members = [branch for branch in resolved if kind_of(branch) != "null"]
        if len(members) == 1:
            return self._same(writer, chosen, path, outer)
        at = next(i for i, member in enumerate(members) if member is chosen or member == chosen)
        return ["member", at, self._same(writer, chosen, path, (*outer, ""))]

    def _matches(self, writer: Any, reader: Any, *, strict: bool) -> bool:
        """Return whether the outer types match, regardless of fields, items and values.

        With `strict`, names must match, and the method does not promote types.
        """
        mine, theirs = kind_of(reader), kind_of(writer)
        if mine != theirs:
            return not strict and mine in _PROMOTIONS.get(theirs, ())
        if mine in ("record", "error"):
            return not strict or self._same_name(writer, reader)
        if mine == "fixed":
            return bool(writer["size"] == reader["size"]) and (not strict or self._same_name(writer, reader))
        if mine == "enum":
            return not strict or self._same_name(writer, reader)
        return not strict or logical_of(writer) == logical_of(reader) or logical_of(reader) is None

    @staticmethod
    def _same_name(writer: Any, reader: Any) -> bool:
        name = writer["name"].rpartition(".")[2]
        return name == reader["name"].rpartition(".")[2] or name in _aliases(reader)

    def _same(self, writer: Any, reader: Any, path: str, outer: tuple[str, ...]) -> list[Any]:  # noqa: PLR0911
        """Return the plan that decodes the writer's type into the reader's type. The outer types must match."""
        kind, theirs = kind_of(reader), kind_of(writer)
        inner = (*outer, "")
        if kind in ("record", "error"):
            return self._record(writer, reader, path, (*outer, reader["name"]))
        if kind == "array":
            return ["array", self.plan(writer["items"], reader["items"], f"{path}[]", inner)]
        if kind == "map":
            return ["map", self.plan(writer["values"], reader["values"], f"{path}[]", inner)]
        if kind == "enum":
            known, default = set(reader["symbols"]), reader.get("default")
            return [
                "enum",
                [[s, True] if s in known else [default or s, default is not None] for s in writer["symbols"]],
            ]
        logical, of_writer = logical_of(reader), logical_of(writer)
        size = writer["size"] if theirs == "fixed" else None
        if logical == "decimal":
            return ["decimal", size, (writer if of_writer == "decimal" else reader).get("scale", 0)]
        if logical == "uuid" and theirs == "fixed":
            return ["uuid"]
        if kind == "fixed":
            return ["fixed", size]
        if logical in _TIMES and _TIMES[logical][1]:
            return _time(logical, of_writer, theirs)
        return ["bytes" if theirs == "string" else theirs]

    def _record(self, writer: Any, reader: Any, path: str, outer: tuple[str, ...]) -> list[Any]:
        fields = unique_fields(reader, path)
        written = {field["name"] for field in writer["fields"]}
        sources: dict[str, int] = {}  # index of the reader's field by the name of the writer's field
        missing = []
        for at, field in enumerate(fields):
            names = [field["name"], *(field.get("aliases") or ())]
            name = next((n for n in names if n in written and n not in sources), None)
            if name is None:
                missing.append(at)
            else:
                sources[name] = at
        steps: list[Any] = []
        for field in writer["fields"]:
            if field["name"] not in sources:
                steps.append(["skip", field["name"], skip(self._writer, field["type"], f"{path}.{field['name']}", ())])
                continue
            at = sources[field["name"]]
            name = fields[at]["name"]
            steps.append(["read", at, name, self.plan(field["type"], fields[at]["type"], f"{path}.{name}", outer)])
        own = _Resolver(self._reader, self._reader)
        for at in missing:
            field, inside = fields[at], f"{path}.{fields[at]['name']}"
            if "default" not in field:
                raise _Unresolvable(
                    "the writer does not have the field, and the reader has no default for it",
                    path=inside.removeprefix("."),
                    hint="add a default to new fields, and an alias to renamed ones",
                )
            filled = bytes(encoded(self._reader, field["type"], field["default"], inside))
            steps.append(
                ["fill", at, field["name"], own.plan(field["type"], field["type"], inside, outer), list(filled)]
            )
        return ["record", steps]


def _with_path(error: SchemaError) -> str:
    return f"{error.message} (field {error.path})" if error.path else error.message


def _time(logical: str, of_writer: str | None, theirs: str) -> list[Any]:
    """Return the plan that decodes a time or a timestamp. The writer's unit can differ from the reader's unit."""
    unit = _TIMES[logical][1]
    written = _TIMES[of_writer][1] if of_writer in _TIMES else 0
    multiply, divide = (1, 1) if not written else (max(unit // written, 1), max(written // unit, 1))
    if logical.startswith("time-"):
        return ["time", multiply, divide, _SECONDS_PER_DAY * unit]
    return [theirs] if multiply == divide else ["scaled", multiply, divide]


def skip(avro: Avro, schema: Any, path: str, outer: tuple[str, ...]) -> list[Any]:  # noqa: PLR0911
    """Return the plan that skips a value whose field is not in the reader's schema."""
    schema = avro.resolved(schema)
    check_depth(schema, path, outer)
    kind, inner = kind_of(schema), (*outer, "")
    if kind == "union":
        return ["union", [skip(avro, branch, path, inner) for branch in schema]]
    if kind in ("record", "error"):
        inner = (*outer, schema["name"])
        return [
            "record",
            [["skip", f["name"], skip(avro, f["type"], f"{path}.{f['name']}", inner)] for f in schema["fields"]],
        ]
    if kind == "array":
        return ["array", skip(avro, schema["items"], f"{path}[]", inner)]
    if kind == "map":
        return ["map", skip(avro, schema["values"], f"{path}[]", inner)]
    if kind == "enum":
        return ["enum", [[symbol, True] for symbol in schema["symbols"]]]
    if kind == "fixed":
        return ["fixed", schema["size"]]
    return ["bytes" if kind == "string" else kind]


def encoded(avro: Avro, schema: Any, default: Any, path: str, depth: int = 0) -> bytearray:
    """Return a default value in Avro's binary encoding.

    Raises:
        SchemaError: The default value does not fit its type.
    """
    schema = avro.resolved(schema)
    kind = kind_of(schema)
    if depth > _MAX_DEPTH:
        raise SchemaError("the default is nested too deep", path=path.removeprefix("."))
    try:
        return bytearray(_encoded(avro, schema, kind, default, path, depth))
    except (TypeError, KeyError, ValueError, AttributeError, struct.error):
        raise SchemaError(
            f"the default {default!r} does not fit the type {_name_of(schema)}", path=path.removeprefix(".")
        ) from None


def _encoded(avro: Avro, schema: Any, kind: str, default: Any, path: str, depth: int) -> Any:  # noqa: C901, PLR0911, PLR0912, PLR0917
    if kind == "union":
        for at, branch in enumerate(schema):
            try:
                return _long(at) + encoded(avro, branch, default, path, depth + 1)
            except SchemaError:
                continue
        raise ValueError
    if kind == "null" and default is not None:
        raise ValueError
    if kind == "null":
        return bytearray()
    if kind == "boolean":
        if not isinstance(default, bool):
            raise TypeError
        return bytearray([default])
    if kind in ("int", "long"):
        if (
            isinstance(default, bool)
            or not isinstance(default, int)
            or abs(default) > 1 << (31 if kind == "int" else 63)
        ):
            raise TypeError
        return _long(default)
    if kind in ("float", "double"):
        if isinstance(default, bool):
            raise TypeError
        return bytearray(struct.pack("<f" if kind == "float" else "<d", float(default)))
    if kind in ("bytes", "fixed"):
        data = default if isinstance(default, bytes) else default.encode("latin-1")
        if kind == "fixed" and len(data) != schema["size"]:
            raise ValueError
        return bytearray(data) if kind == "fixed" else _long(len(data)) + data
    if kind == "string":
        data = default.encode()
        return _long(len(data)) + data
    if kind == "enum":
        return _long(schema["symbols"].index(default))
    out = bytearray()
    if kind == "array":
        for item in default:
            out += _long(1) + encoded(avro, schema["items"], item, f"{path}[]", depth + 1)
        return out + b"\0"
    if kind == "map":
        for key, value in default.items():
            name = key.encode()
            out += _long(1) + _long(len(name)) + name + encoded(avro, schema["values"], value, path, depth + 1)
        return out + b"\0"
    for field in schema["fields"]:
        value = default[field["name"]] if field["name"] in default else field["default"]
        out += encoded(avro, field["type"], value, f"{path}.{field['name']}", depth + 1)
    return out


def _long(value: int) -> bytearray:
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    rest &= (1 << 64) - 1
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return out
