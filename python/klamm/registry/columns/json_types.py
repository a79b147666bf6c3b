"""Converts JSON Schemas to Arrow types, and infers Arrow types from values.

A column has one type. If the schema allows values of different types, or does not name a type, the column contains the
values as JSON text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MAX_DEPTH = 60
_MAX_SAFE = 1 << 63
_TEXT = {b"klamm.json": b"text"}
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
    try:
        documents = {"": json.loads(text), **{key: json.loads(other) for key, other in references.items()}}
    except ValueError as error:
        raise SchemaError(f"the JSON Schema is invalid: {error}") from None
    return _Types(documents).field(name, documents[""], "", "", ())


class _Types:
    def __init__(self, documents: dict[str, Any]) -> None:
        self._documents = documents

    def field(self, name: str, schema: Any, document: str, path: str, outer: tuple[int, ...]) -> pa.Field:
        schema, document, outer = self._resolved(schema, document, path, outer)
        if len(outer) > _MAX_DEPTH:
            raise SchemaError("the schema is nested too deep for columns", path=path.removeprefix("."))
        kind = self._type(schema, document, path, outer)
        return pa.field(name, pa.string(), metadata=_TEXT) if kind is None else pa.field(name, kind)

    def _resolved(
        self, schema: Any, document: str, path: str, outer: tuple[int, ...]
    ) -> tuple[Any, str, tuple[int, ...]]:
        """Follow references. If only one alternative of a schema is not null, use this alternative."""
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, dict):
                break
            if isinstance(schema.get("$ref"), str):
                schema, document = self._target(schema["$ref"], document, path)
                if id(schema) in outer:
                    raise SchemaError(
                        "the schema is recursive, and a column has a fixed depth",
                        path=path.removeprefix("."),
                        hint="read the topic with a deserializer instead",
                    )
                outer = (*outer, id(schema))
                continue
            choices = schema.get("oneOf") or schema.get("anyOf")
            if not isinstance(choices, list):
                break
            others = [c for c in choices if not (isinstance(c, dict) and c.get("type") == "null")]
            if len(others) != 1 or "properties" in schema:
                break
            schema = others[0]
        return schema, document, (*outer, id(schema))

    def _target(self, reference: str, document: str, path: str) -> tuple[Any, str]:
        base, _, pointer = reference.partition("#")
        document = base or document
        found = self._documents.get(document)
        if found is None:
            found = next(
                (d for d in self._documents.values() if isinstance(d, dict) and d.get("$id") == document), None
            )
        for part in pointer.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            else:
                found = found.get(key) if isinstance(found, dict) else None
        if found is None:
            raise SchemaError(f"the schema references {reference!r}, which is missing", path=path.removeprefix("."))
        return found, document

    def _type(self, schema: Any, document: str, path: str, outer: tuple[int, ...]) -> pa.DataType | None:  # noqa: PLR0911
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
            return pa.list_(self.field("item", schema["items"], document, f"{path}[]", outer))
        properties = self._properties(schema, document, path, outer) if kind in (None, "object") else {}
        if properties:
            return pa.struct(
                [self.field(name, of, doc, f"{path}.{name}", outer) for name, (of, doc) in properties.items()]
            )
        values = schema.get("additionalProperties")
        if kind == "object" and isinstance(values, dict):
            return pa.map_(pa.string(), self.field("value", values, document, f"{path}[]", outer))
        return None

    def _properties(
        self, schema: dict[str, Any], document: str, path: str, outer: tuple[int, ...]
    ) -> dict[str, tuple[Any, str]]:
        found: dict[str, tuple[Any, str]] = {}
        if len(outer) > _MAX_DEPTH:
            raise SchemaError("the schema is nested too deep for columns", path=path.removeprefix("."))
        for part in schema.get("allOf") or ():
            resolved, where, inner = self._resolved(part, document, path, outer)
            if isinstance(resolved, dict):
                found.update(self._properties(resolved, where, path, inner))
        own = schema.get("properties")
        found.update({name: (of, document) for name, of in own.items()} if isinstance(own, dict) else {})
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
        return pa.field(name, pa.string(), metadata=_TEXT)
    if isinstance(shape, dict):
        return pa.field(name, pa.struct([_field_of(key, inner) for key, inner in shape.items()]))
    if isinstance(shape, tuple):
        return pa.field(name, pa.list_(_field_of("item", shape[1])))
    return pa.field(name, pa.string() if shape == "string" else _SIMPLE["null" if shape is None else shape])
