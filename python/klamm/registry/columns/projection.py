"""Leaves fields out of the reader's schema, so that the decoder skips them and their types do not matter."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from klamm.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from klamm.registry.schema import Schema

_NAMED = ("record", "error", "enum", "fixed")


def chosen(available: Sequence[str], wanted: Sequence[str], folded: Callable[[str], str]) -> set[str]:
    """Return the fields that a projection keeps.

    Args:
        available: Names of all fields.
        wanted: Names of the fields to keep.
        folded: Function that maps names that are considered equal to one name.

    Raises:
        ConfigError: A wanted field does not exist.
    """
    names = {folded(name) for name in wanted}
    for name in wanted:
        if folded(name) not in map(folded, available):
            raise ConfigError(f"the value has no field {name!r}", hint=f"it has {', '.join(available)}")
    return {name for name in available if folded(name) in names}


def of_avro(schema: Schema, wanted: Sequence[str], folded: Callable[[str], str]) -> Schema:
    """Return an Avro schema whose record has only the wanted fields.

    Raises:
        ConfigError: A wanted field does not exist, or the schema is no record.
    """
    root = json.loads(schema.text)
    branches = [branch for branch in root if branch != "null"] if isinstance(root, list) else [root]
    record = branches[0] if len(branches) == 1 else None
    if not isinstance(record, dict) or record.get("type") not in ("record", "error"):
        raise ConfigError("only the fields of a record can be chosen, and the schema is no record", hint="leave it out")
    kept = chosen([field["name"] for field in record["fields"]], wanted, folded)
    definitions: dict[str, Any] = {}
    _collect(root, "", definitions)
    defined: set[str] = set()
    record["fields"] = [field for field in record["fields"] if field["name"] in kept]
    return replace(schema, text=json.dumps(_copied(root, "", definitions, defined)))


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _own_name(schema: dict[str, Any], namespace: str) -> str:
    return _full_name(schema["name"], schema.get("namespace", namespace))


def _collect(schema: Any, namespace: str, definitions: dict[str, Any]) -> None:
    """Find the definition of each named type, with the namespace that surrounds it."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, namespace, definitions)
    elif isinstance(schema, dict):
        if schema["type"] in _NAMED:
            name = _own_name(schema, namespace)
            definitions.setdefault(name, {**schema, "name": name})
            namespace = name.rpartition(".")[0]
        for inner in _children(schema):
            _collect(inner, namespace, definitions)


def _children(schema: dict[str, Any]) -> list[Any]:
    found = [schema[key] for key in ("items", "values") if key in schema]
    found += [field["type"] for field in schema.get("fields", ())]
    return found if isinstance(schema["type"], str) else [*found, schema["type"]]


def _copied(schema: Any, namespace: str, definitions: dict[str, Any], defined: set[str]) -> Any:
    """Copy a schema. The first use of each named type becomes its definition, which may have been in a lost field."""
    if isinstance(schema, list):
        return [_copied(branch, namespace, definitions, defined) for branch in schema]
    if isinstance(schema, str):
        name = _full_name(schema, namespace)
        name = name if name in definitions else schema
        if name not in definitions or name in defined:
            return name
        return _copied(definitions[name], "", definitions, defined)
    copy = dict(schema)
    if schema["type"] in _NAMED:
        copy["name"] = _own_name(schema, namespace)
        if copy["name"] in defined:
            return copy["name"]
        copy.pop("namespace", None)
        defined.add(copy["name"])
        namespace = copy["name"].rpartition(".")[0]
    for key in ("items", "values"):
        if key in copy:
            copy[key] = _copied(copy[key], namespace, definitions, defined)
    if "fields" in copy:
        copy["fields"] = [
            {**field, "type": _copied(field["type"], namespace, definitions, defined)} for field in copy["fields"]
        ]
    if not isinstance(copy["type"], str):
        copy["type"] = _copied(copy["type"], namespace, definitions, defined)
    return copy
