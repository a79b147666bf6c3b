"""Parses and normalizes JSON Schemas for the dev registry, and checks whether a new schema is compatible.

A new schema is compatible if it accepts all data of the old schema. The rules follow the strict policy, which is the
default of Confluent's registry. A new schema may add a property if the old schema allowed no additional properties. A
new schema may remove a property if it allows additional properties. A change that no rule covers is compatible.
"""

from __future__ import annotations

import json
import operator
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from klamm.registry.errors import SchemaError
from klamm.registry.json_schema import Documents, loaded, subschemas, uri_of

if TYPE_CHECKING:
    from collections.abc import Mapping

# Keywords with a limit. The new value of an upper limit must not be lower. The new value of a lower limit must not be higher.
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_MAX_DEPTH = 100
_MAX_COMPARISONS = 100_000
"""Most pairs of subschemas that one check compares. Alternatives of alternatives could take exponential time."""
_ANY: dict[str, Any] = {}
"""The schema that accepts all values. It is one object, because pairs are remembered by the identity of their parts."""


class Json:
    """A parsed JSON Schema.

    Args:
        text: The schema.
        references: Texts of the referenced schemas by name.

    Raises:
        ValueError: The schema is invalid. The error message says why.
    """

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        import jsonschema_rs

        try:
            self._schema = json.loads(text)
            if not isinstance(self._schema, (dict, bool)):
                raise TypeError("a JSON Schema is an object or a boolean")  # noqa: TRY301
            jsonschema_rs.meta.validate(loaded(text, is_checked=False))
            texts = {name: _absolute(each, name) for name, each in references.items()}
            self._documents = Documents(_absolute(text, ""), texts, is_checked=False)
        except jsonschema_rs.ValidationError as error:
            raise ValueError(error.message) from None
        except SchemaError as error:
            raise ValueError(error.message) from None
        except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        self.root = self._documents.root
        self._found: dict[str, Any] = {}

    def canonical(self) -> str:
        """Return the canonical text of the schema. Two schemas count as equal if their canonical texts are equal."""
        return json.dumps(self._schema, separators=(",", ":"), ensure_ascii=False)

    def normalized(self) -> str:
        """Return the text of the schema with sorted keys."""
        return json.dumps(self._schema, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    def resolved(self, node: Any) -> Any:
        """Follow the `$ref` of a subschema. Return the target, or the subschema itself if the target is missing."""
        for _ in range(_MAX_DEPTH):
            if not isinstance(node, dict) or not isinstance(reference := node.get("$ref"), str):
                break
            if reference not in self._found:
                try:
                    found = self._documents.lookup(self._documents.resolver, reference).contents
                except SchemaError:
                    break
                self._found[reference] = found
            node = self._found[reference]
        return node


def _absolute(text: str, name: str) -> str:
    """Return a schema whose references are absolute URIs. `name` is the name under which other schemas refer to it."""
    schema = loaded(text, is_checked=False)
    unseen = [(schema, uri_of({}, name))]
    while unseen:
        node, base = unseen.pop()
        if isinstance(node, dict):
            base = uri_of(node, base)
            if isinstance(reference := node.get("$ref"), str):
                is_local = reference.startswith("#")  # `urljoin` knows no base such as urn:uuid:…
                node["$ref"] = base.partition("#")[0] + reference if is_local else urljoin(base, reference)
            unseen += [(each, base) for each in subschemas(node)]
        elif isinstance(node, list):
            unseen += [(each, base) for each in node]
    return json.dumps(schema)


def incompatibilities(reader: Json, writer: Json) -> list[str]:
    """Return the reasons why a new schema (the reader) does not accept all data of an old schema (the writer).

    The result is empty if the new schema accepts all data.
    """
    return _Check(reader, writer).check(reader.root, writer.root, "#/", 0)


class _Check:
    def __init__(self, reader: Json, writer: Json) -> None:
        self._reader, self._writer = reader, writer
        self._seen: dict[tuple[int, int], None] = {}
        """The pairs that are compared now, or that are compatible if these are, in this order."""
        self._failed: dict[tuple[int, int], list[str]] = {}
        self._left = _MAX_COMPARISONS

    def check(self, new: Any, old: Any, path: str, depth: int) -> list[str]:
        new, old = self._reader.resolved(new), self._writer.resolved(old)
        is_same = new == old and "$ref" not in str(new)  # equal references can mean different schemas
        if new is True or new == {} or old is False or is_same or depth > _MAX_DEPTH:
            return []
        pair = id(new), id(old)
        if pair in self._seen:
            return []
        if pair not in self._failed:
            self._seen[pair] = None
            self._left -= 1
            if self._left < 0:
                return [f"SCHEMA_TOO_COMPLEX at {path}"]
            found = self._compared(new, _ANY if old is True else old, path, depth)
            if not found:
                return []
            self._failed[pair] = found
        return self._failed[pair]

    def _compared(self, new: Any, old: Any, path: str, depth: int) -> list[str]:
        if new is False:
            return [f"SCHEMA_REMOVED at {path}"]
        for keyword in ("oneOf", "anyOf"):
            if keyword in new:
                return self._sum(new[keyword], old.get(keyword, [old]), f"{path}{keyword}/", depth)
        for keyword in ("oneOf", "anyOf"):
            if keyword in old:
                return [w for branch in old[keyword] for w in self.check(new, branch, f"{path}{keyword}/", depth + 1)]
        return [
            *self._type(new, old, path),
            *self._limits(new, old, path),
            *self._object(new, old, path, depth),
            *self._array(new, old, path, depth),
            *self._all(new, old, path, depth),
        ]

    def _sum(self, new: list[Any], old: list[Any], path: str, depth: int) -> list[str]:
        for branch in old:
            if not any(self._fits(candidate, branch, path, depth + 1) for candidate in new):
                return [f"SUM_TYPE_NARROWED at {path}"]
        return []

    def _all(self, new: Any, old: Any, path: str, depth: int) -> list[str]:
        return [
            f"PRODUCT_TYPE_EXTENDED at {path}allOf/"
            for branch in new.get("allOf", [])
            if not any(self._fits(branch, earlier, path, depth + 1) for earlier in old.get("allOf", []))
        ]

    def _fits(self, new: Any, old: Any, path: str, depth: int) -> bool:
        """Return whether a schema accepts all data of another one. If not, forget what only followed from this pair."""
        known = len(self._seen)
        fits = not self.check(new, old, path, depth)
        while not fits and len(self._seen) > known:
            self._seen.popitem()
        return fits

    def _type(self, new: Any, old: Any, path: str) -> list[str]:
        allowed, written = _types(new), _types(old)
        if allowed is not None and (written is None or not written <= allowed):
            return [f"TYPE_NARROWED at {path}type"]
        return []

    def _limits(self, new: Any, old: Any, path: str) -> list[str]:
        found = []
        for keywords, is_narrower in (_UPPER, operator.lt), (_LOWER, operator.gt):
            found += [
                f"{keyword.upper()}_NARROWED at {path}{keyword}"
                for keyword in keywords
                if keyword in new and (keyword not in old or is_narrower(new[keyword], old[keyword]))
            ]
        if "pattern" in new and new["pattern"] != old.get("pattern"):
            found.append(f"PATTERN_CHANGED at {path}pattern")
        if "multipleOf" in new and ("multipleOf" not in old or old["multipleOf"] % new["multipleOf"]):
            found.append(f"MULTIPLE_OF_CHANGED at {path}multipleOf")
        values, earlier = _values(new), _values(old)
        if values is not None and (earlier is None or any(value not in values for value in earlier)):
            found.append(f"ENUM_ARRAY_NARROWED at {path}enum")
        return found

    def _object(self, new: Any, old: Any, path: str, depth: int) -> list[str]:
        properties, before = new.get("properties", {}), old.get("properties", {})
        others, others_before = new.get("additionalProperties", True), old.get("additionalProperties", True)
        found = []
        for name in before:
            where = f"{path}properties/{name}"
            if name in properties:
                found += self.check(properties[name], before[name], where, depth + 1)
            elif others is False:
                found.append(f"PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL at {where}")
            elif isinstance(others, dict):
                found += self.check(others, before[name], where, depth + 1)
        for name in sorted(properties.keys() - before.keys()):
            found += self._added(properties[name], others_before, f"{path}properties/{name}", depth)
        for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
            default = self._reader.resolved(properties.get(name, {}))
            if not (isinstance(default, dict) and "default" in default):
                found.append(f"REQUIRED_ATTRIBUTE_ADDED at {path}required/{name}")
        if others is False and others_before is not False:
            found.append(f"ADDITIONAL_PROPERTIES_REMOVED at {path}additionalProperties")
        elif isinstance(others, dict) and others_before is not False:
            found += self.check(others, others_before, f"{path}additionalProperties/", depth + 1)
        return found

    def _added(self, new: Any, others_before: Any, path: str, depth: int) -> list[str]:
        """Check a new property.

        If the old schema allowed additional properties, existing data may already contain the new property.
        """
        if others_before is False or self._reader.resolved(new) in (True, {}):
            return []
        if isinstance(others_before, dict) and others_before:
            return self.check(new, others_before, path, depth + 1)
        return [f"PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at {path}"]

    def _array(self, new: Any, old: Any, path: str, depth: int) -> list[str]:
        found = []
        if isinstance(new.get("items"), (dict, bool)):
            items = old.get("items", True)
            found += self.check(new["items"], True if isinstance(items, list) else items, f"{path}items/", depth + 1)
        if new.get("uniqueItems") and not old.get("uniqueItems"):
            found.append(f"UNIQUE_ITEMS_ADDED at {path}uniqueItems")
        return found


def _types(schema: Any) -> set[str] | None:
    """Return the types that a schema accepts, or None if the schema accepts all types."""
    if "type" not in schema:
        return None
    named = {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
    return named | {"integer"} if "number" in named else named


def _values(schema: Any) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")
