"""Converts Avro schemas to Arrow types. The Rust core parses the schemas, and decodes the values (`src/typed`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from klamm.registry.columns.json_types import TEXT
from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from klamm._klamm import AvroSchema

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL = {
    "uuid": pa.string(),
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}
_MAX_DEPTH = 60
_MAX_RECURSIVE_DEPTH = 32
"""A record that contains itself becomes text at this depth, whatever the recursion depth."""
_MAX_COLUMNS = 10_000
"""Most columns of one schema, with those of all records inside. Types with many fields in each other grow fast."""
_MAX_DIGITS_128, _MAX_DIGITS_256 = 38, 76


class Avro:
    """The columns of an Avro schema.

    Args:
        schema: The parsed schema.
        recursion_depth: Number of records of one type inside a record of this type that become columns. Records
            inside these become JSON text.
    """

    def __init__(self, schema: AvroSchema, recursion_depth: int = 1) -> None:
        self._schema, self._recursion_depth, self._count = schema, recursion_depth, 0
        self._nodes: dict[int, Any] = {}
        self.root = schema.root

    def field(self, name: str) -> pa.Field:
        """Return the field of a column with values of this schema.

        Raises:
            SchemaError: The schema is nested too deeply, or has too many columns.
        """
        self._count = 0
        return self._field(name, self.root, "", ())

    def node(self, index: int) -> Any:
        """Return a type of the schema. The types inside this type are indexes."""
        if index not in self._nodes:
            self._nodes[index] = self._schema.node(index)
        return self._nodes[index]

    def members(self, branches: list[int]) -> list[int]:
        """Return the branches of a union that are not null."""
        return [branch for branch in branches if kind_of(self.node(branch)) != "null"]

    def member_names(self, members: list[int]) -> list[str]:
        """Return a column name for each branch of a union: the name of the branch's type."""
        nodes = map(self.node, members)
        full = [str(node.get("name", node["type"])) for node in nodes]
        short = [name.rpartition(".")[2] for name in full]
        return short if len(set(short)) == len(short) else full

    def _field(self, name: str, index: int, path: str, outer: tuple[str, ...]) -> pa.Field:
        node = self.node(index)
        self._count += 1
        if self._count > _MAX_COLUMNS:
            raise SchemaError(
                f"the schema has more than {_MAX_COLUMNS:,} columns with the records inside",
                path=path.removeprefix("."),
                hint="pass a smaller recursion_depth, or a schema without the fields that you do not need",
            )
        check_depth(path, outer)
        if isinstance(node, list):
            members = self.members(node)
            if len(members) != 1:
                return pa.field(name, self._members_type(members, path, (*outer, "")))
            node = self.node(members[0])
        kind, inner = node["type"], (*outer, "")
        if kind == "record":
            if self._is_text(node["name"], outer):
                return pa.field(name, pa.string(), metadata=TEXT)
            inner = (*outer, node["name"])
            fields = [self._field(f["name"], f["type"], f"{path}.{f['name']}", inner) for f in node["fields"]]
            return pa.field(name, pa.struct(fields))
        if kind == "array":
            return pa.field(name, pa.list_(self._field("item", node["items"], f"{path}[]", inner)))
        if kind == "map":
            return pa.field(name, pa.map_(pa.string(), self._field("value", node["values"], f"{path}[]", inner)))
        return pa.field(name, leaf_type(node))

    def _is_text(self, name: str, outer: tuple[str, ...]) -> bool:
        count = outer.count(name)
        return count > self._recursion_depth or (count > 0 and len(outer) >= _MAX_RECURSIVE_DEPTH)

    def _members_type(self, members: list[int], path: str, outer: tuple[str, ...]) -> pa.DataType:
        if not members:
            return pa.null()
        names = self.member_names(members)
        return pa.struct([self._field(name, member, path, outer) for name, member in zip(names, members, strict=True)])


def kind_of(node: Any) -> str:
    """Return the name of a type, such as "record" or "union"."""
    return "union" if isinstance(node, list) else node["type"]


def logical_of(node: Any) -> str | None:
    """Return the logical type of a type, or None if there is none or Arrow cannot represent the values."""
    logical: str | None = node.get("logicalType")
    if logical == "decimal":
        return logical if node["precision"] <= _MAX_DIGITS_256 else None
    return logical if logical in _LOGICAL else None


def leaf_type(node: Any) -> pa.DataType:
    """Return the Arrow type of a type that contains no other types."""
    logical = logical_of(node)
    if logical == "decimal":
        decimal = pa.decimal256 if node["precision"] > _MAX_DIGITS_128 else pa.decimal128
        return decimal(node["precision"], node["scale"])
    if logical is not None:
        return _LOGICAL[logical]
    return pa.binary(node["size"]) if node["type"] == "fixed" else _PRIMITIVES[node["type"]]


def check_depth(path: str, outer: tuple[str, ...]) -> None:
    """Raise an error for a type that is nested too deeply.

    Raises:
        SchemaError: The type is nested too deeply.
    """
    if len(outer) > _MAX_DEPTH:
        raise SchemaError("the schema is nested too deep for columns", path=path.removeprefix("."))
