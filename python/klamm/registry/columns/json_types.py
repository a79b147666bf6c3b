"""Converts JSON Schemas to Arrow types, and infers Arrow types from values.

A column has one type. If the schema allows values of different types, or does not name a type, the column contains the
values as JSON text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import pyarrow as pa

from klamm.registry.errors import SchemaError
from klamm.registry.json_schema import Documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MAX_DEPTH = 60
_MAX_FIELDS = 10_000
"""A schema of a few lines can describe millions of fields, if it refers to one definition many times."""
_MAX_SAFE = 1 << 63
TEXT = {b"klamm.json": b"text"}
_FORMATS = {"date-time": pa.timestamp("us", "UTC"), "date": pa.date32()}
_SIMPLE = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "null": pa.null()}


def arrow_field(text: str, references: Mapping[str, str], name: str) -> pa.Field:
    """Return the Arrow field for a column with values of a JSON Schema.

    Args:
        text: The schema.
        references: Texts of the referenced schemas, by name.
        name: Name of the field.

    Raises:
        SchemaError: The schema is invalid, or recursive.
    """
    documents = Documents(text, references, is_checked=False)
    resolver = documents.resolver
    return _Types(documents).field(name, documents.root, resolver, "", ((resolver.base_uri, ""),))


class _Types:
    def __init__(self, documents: Documents) -> None:
        self._documents, self._count = documents, 0

    def field(self, name: str, schema: Any, resolver: Any, path: str, outer: tuple[Any, ...]) -> pa.Field:
        """Return the field for a schema. `outer` has an entry for each schema around it, and their references."""
        self._count += 1
        if self._count > _MAX_FIELDS:
            raise SchemaError(
                f"the schema has more than {_MAX_FIELDS:,} fields", hint="read the topic with a deserializer"
            )
        schema, resolver, outer = self._resolved(schema, resolver, path, outer)
        if len(outer) > _MAX_DEPTH:
            raise SchemaError("the schema is nested too deep for columns", path=path.removeprefix("."))
        kind = self._type(schema, resolver, path, outer)
        return pa.field(name, pa.string(), metadata=TEXT) if kind is None else pa.field(name, kind)

    def _resolved(
        self, schema: Any, resolver: Any, path: str, outer: tuple[Any, ...]
    ) -> tuple[Any, Any, tuple[Any, ...]]:
        """Follow references. If only one alternative of a schema is not null, use this alternative."""
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, dict):
                break
            if isinstance(reference := schema.get("$ref"), str):
                found = self._documents.lookup(resolver, reference)
                resolver, schema = found.resolver, found.contents
                key = resolver.base_uri, reference.partition("#")[2]
                if key in outer:
                    raise SchemaError(
                        "the schema is recursive, and a column has a fixed depth",
                        path=path.removeprefix("."),
                        hint="read the topic with a deserializer instead",
                    )
                outer = (*outer, key)
                continue
            choices = schema.get("oneOf") or schema.get("anyOf")
            if not isinstance(choices, list):
                break
            others = [c for c in choices if not (isinstance(c, dict) and c.get("type") == "null")]
            if len(others) != 1 or "properties" in schema:
                break
            schema = others[0]
        if isinstance(schema, dict) and isinstance(own := schema.get("$id"), str) and not own.startswith("#"):
            resolver = self._documents.registry.resolver(urljoin(resolver.base_uri, own.removesuffix("#")))
        return schema, resolver, (*outer, None)

    def _type(self, schema: Any, resolver: Any, path: str, outer: tuple[Any, ...]) -> pa.DataType | None:  # noqa: PLR0911
        """Return the Arrow type of a schema, or None if the column must contain JSON text."""
        if not isinstance(schema, dict):
            return None
        kind = _kind(schema)
        if kind in _SIMPLE:
            return _SIMPLE[kind]
        if kind == "string":
            if schema.get("contentEncoding") == "base64":
                return pa.binary()
            return _FORMATS.get(str(schema.get("format")), pa.string())
        if kind == "array" and isinstance(schema.get("items"), dict):
            return pa.list_(self.field("item", schema["items"], resolver, f"{path}[]", outer))
        properties = self._properties(schema, resolver, path, outer) if kind in (None, "object") else {}
        if properties:
            return pa.struct(
                [self.field(name, of, doc, f"{path}.{name}", outer) for name, (of, doc) in properties.items()]
            )
        values = schema.get("additionalProperties")
        if kind == "object" and isinstance(values, dict):
            return pa.map_(pa.string(), self.field("value", values, resolver, f"{path}[]", outer))
        return None

    def _properties(
        self, schema: dict[str, Any], resolver: Any, path: str, outer: tuple[Any, ...]
    ) -> dict[str, tuple[Any, Any]]:
        found: dict[str, tuple[Any, Any]] = {}
        if len(outer) > _MAX_DEPTH:
            raise SchemaError("the schema is nested too deep for columns", path=path.removeprefix("."))
        for part in schema.get("allOf") or ():
            resolved, where, inner = self._resolved(part, resolver, path, outer)
            if isinstance(resolved, dict):
                found.update(self._properties(resolved, where, path, inner))
        own = schema.get("properties")
        found.update({name: (of, resolver) for name, of in own.items()} if isinstance(own, dict) else {})
        return found


def _kind(schema: dict[str, Any]) -> str | None:
    """Return the type of a schema that allows one type, or one type and null. Otherwise return None."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [k for k in kind if k != "null"]
        kind = kinds[0] if len(kinds) == 1 else ("number" if set(kinds) == {"integer", "number"} else None)
        return kind if schema.get("type") != ["null"] else "null"
    if kind is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        if values and all(isinstance(value, str) for value in values):
            return "string"
    return kind if isinstance(kind, str) else None


def inferred(values: Iterable[bytes], name: str) -> pa.Field:
    """Return an Arrow field whose type can represent all given JSON values."""
    found: Any = None
    for value in values:
        try:
            found = _merged(found, _shape(json.loads(value), 0))
        except (ValueError, RecursionError):
            continue  # ignore a value that is not JSON
    return _field_of(name, found)


# A shape describes the inferred type of values. A shape is None (all values are null), the name of a type, ("list",
# shape), or a dict of shapes. The shape "text" can represent all values.
def _shape(value: Any, depth: int) -> Any:  # noqa: PLR0911
    if depth > _MAX_DEPTH:
        return "text"
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if -_MAX_SAFE <= value < _MAX_SAFE else "text"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        items: Any = None
        for item in value:
            items = _merged(items, _shape(item, depth + 1))
        return ("list", items)
    return {key: _shape(inner, depth + 1) for key, inner in value.items()}


def _merged(one: Any, other: Any) -> Any:
    if one is None or one == other:
        return other
    if other is None:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: _merged(one.get(key), other.get(key)) for key in {**one, **other}}
    if isinstance(one, tuple) and isinstance(other, tuple):
        return ("list", _merged(one[1], other[1]))
    if {"integer", "number"} == {one, other} if isinstance(one, str) and isinstance(other, str) else False:
        return "number"
    return "text"


def _field_of(name: str, shape: Any) -> pa.Field:
    if shape in ("text", {}):
        return pa.field(name, pa.string(), metadata=TEXT)
    if isinstance(shape, dict):
        return pa.field(name, pa.struct([_field_of(key, inner) for key, inner in shape.items()]))
    if isinstance(shape, tuple):
        return pa.field(name, pa.list_(_field_of("item", shape[1])))
    return pa.field(name, pa.string() if shape == "string" else _SIMPLE["null" if shape is None else shape])
