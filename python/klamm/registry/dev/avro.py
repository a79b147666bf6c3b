"""Parses and normalizes Avro schemas for the dev registry, and checks whether two schemas are compatible.

Two schemas are compatible if Avro's schema resolution can resolve the writer's schema to the reader's schema.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ["record", "error", "enum", "fixed"]
_PROMOTIONS = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_ORDER = ("type", "name", "namespace", "fields", "symbols", "items", "values", "size", "logicalType", "default")


class Avro:
    """A parsed Avro schema.

    Args:
        text: The schema as JSON, or the name of a primitive type.
        references: Texts of the referenced schemas by name. Each schema comes after the schemas that it references.

    Raises:
        ValueError: The schema is invalid. The message says why.
    """

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        import fastavro

        known: dict[str, Any] = {}
        self.names: dict[str, Any] = {}
        try:
            for reference in references.values():
                schema = _loaded(reference)
                fastavro.parse_schema(schema, named_schemas=known)
                self._add(schema, "")
            self.schema = _loaded(text)
            fastavro.parse_schema(self.schema, named_schemas=known)
            self.root = self._add(self.schema, "")
        except Exception as error:  # noqa: BLE001 - the parser raises many types for JSON that is not a schema
            raise ValueError(f"{type(error).__name__}: {error}") from None

    def canonical(self) -> str:
        """Return the canonical text of the schema. Two schemas count as equal if their canonical texts are equal."""
        return json.dumps(self.schema, separators=(",", ":"), ensure_ascii=False)

    def normalized(self) -> str:
        """Return the text of the schema with attributes in a fixed order."""

        def ordered(node: Any) -> Any:
            if isinstance(node, list):
                return [ordered(item) for item in node]
            if not isinstance(node, dict):
                return node
            keys = [key for key in _ORDER if key in node] + sorted(key for key in node if key not in _ORDER)
            return {
                key: ordered(node[key]) if key in ("type", "fields", "items", "values") else node[key] for key in keys
            }

        return json.dumps(ordered(self.schema), separators=(",", ":"), ensure_ascii=False)

    def _add(self, node: Any, namespace: str) -> Any:
        """Return a part of the schema, with all names expanded to full names, and store its named types."""
        if isinstance(node, str):
            return node if node in PRIMITIVES else _full_name(node, namespace)
        if isinstance(node, list):
            return [self._add(branch, namespace) for branch in node]
        kind = node["type"]
        inner = {"array": "items", "map": "values"}.get(kind) if isinstance(kind, str) else None
        if inner is not None:
            return {"type": kind, inner: self._add(node[inner], namespace)}
        return self._add_named(node, namespace) if kind in NAMED else self._add(kind, namespace)

    def _add_named(self, node: Any, namespace: str) -> str:
        name = _full_name(node["name"], node.get("namespace", namespace))
        inner = name.rpartition(".")[0]
        kind = "record" if node["type"] == "error" else node["type"]
        aliases = {_full_name(alias, inner) for alias in node.get("aliases", ())}
        found: dict[str, Any] = {**node, "type": kind, "name": name, "aliases": aliases}
        self.names[name] = found
        if kind == "record":
            found["fields"] = [{**field, "type": self._add(field["type"], inner)} for field in node["fields"]]
        return name

    def resolved(self, node: Any) -> Any:
        """Return the named type if the argument is a name. Return any other argument unchanged."""
        return self.names.get(node, node) if isinstance(node, str) else node


def incompatibilities(reader: Avro, writer: Avro) -> list[str]:
    """Return the reasons why a reader cannot read all data of a writer. The list is empty if the schemas are compatible."""
    return _Check(reader, writer).check(reader.root, writer.root, "/")


class _Check:
    def __init__(self, reader: Avro, writer: Avro) -> None:
        self._reader, self._writer = reader, writer
        self._seen: set[tuple[str, str]] = set()

    def check(self, reader: Any, writer: Any, path: str) -> list[str]:
        if isinstance(reader, str) and isinstance(writer, str):
            if (reader, writer) in self._seen and reader not in PRIMITIVES:
                return []
            self._seen.add((reader, writer))
        if isinstance(writer, list):
            return [why for i, branch in enumerate(writer) for why in self.check(reader, branch, f"{path}{i}/")]
        if isinstance(reader, list):
            return self._union(reader, writer, path)
        reader, writer = self._reader.resolved(reader), self._writer.resolved(writer)
        read, written = _kind(reader), _kind(writer)
        if read == written and read not in PRIMITIVES:
            return self._same_kind(reader, writer, path)
        if read == written or read in _PROMOTIONS.get(written, ()):
            return []
        return [f"TYPE_MISMATCH at {path}: reader type {read} not compatible with writer type {written}"]

    def _same_kind(self, reader: Any, writer: Any, path: str) -> list[str]:
        kind = _kind(reader)
        if kind in NAMED and not _same_name(reader, writer):
            return [f"NAME_MISMATCH at {path}name: expected {writer['name']}, found {reader['name']}"]
        return getattr(self, f"_{kind}")(reader, writer, path)  # type: ignore[no-any-return]

    def _array(self, reader: Any, writer: Any, path: str) -> list[str]:
        return self.check(reader["items"], writer["items"], f"{path}items/")

    def _map(self, reader: Any, writer: Any, path: str) -> list[str]:
        return self.check(reader["values"], writer["values"], f"{path}values/")

    def _union(self, reader: list[Any], writer: Any, path: str) -> list[str]:
        for branch in reader:
            # A failed check must not mark its types as seen, because another branch still has to compare these types.
            seen = set(self._seen)
            if not self.check(branch, writer, path):
                return []
            self._seen = seen
        return [
            f"MISSING_UNION_BRANCH at {path}: reader union lacks writer type {_kind(self._writer.resolved(writer))}"
        ]

    def _record(self, reader: Any, writer: Any, path: str) -> list[str]:
        written = {field["name"]: field for field in writer["fields"]}
        found = []
        for i, field in enumerate(reader["fields"]):
            names = [field["name"], *field.get("aliases", ())]
            source = next((written[name] for name in names if name in written), None)
            where = f"{path}fields/{i}/"
            if source is not None:
                found += self.check(field["type"], source["type"], f"{where}type/")
            elif "default" not in field:
                found.append(f"READER_FIELD_MISSING_DEFAULT_VALUE at {where}: field {field['name']} has no default")
        return found

    def _enum(self, reader: Any, writer: Any, path: str) -> list[str]:
        missing = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
        if missing and "default" not in reader:
            return [f"MISSING_ENUM_SYMBOLS at {path}symbols: {', '.join(missing)}"]
        return []

    def _fixed(self, reader: Any, writer: Any, path: str) -> list[str]:
        if reader["size"] != writer["size"]:
            return [f"FIXED_SIZE_MISMATCH at {path}size: expected {writer['size']}, found {reader['size']}"]
        return []


def _kind(node: Any) -> str:
    return node if isinstance(node, str) else str(node["type"])


def _same_name(reader: Any, writer: Any) -> bool:
    """Return whether two named types match: by the name without namespace, or by an alias of the reader."""
    last = writer["name"].rpartition(".")[2]
    return bool(reader["name"].rpartition(".")[2] == last or writer["name"] in reader["aliases"])


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise
