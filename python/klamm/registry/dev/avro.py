"""Parses and normalizes Avro schemas for the dev registry, and checks whether two schemas are compatible.

Two schemas are compatible if Avro's schema resolution can resolve the writer's schema to the reader's schema.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from klamm._klamm import AvroSchema
from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        try:
            self.core = AvroSchema(text, list(references.values()))
        except SchemaError as error:
            raise ValueError(str(error)) from None
        try:
            self._schema = json.loads(text)
        except ValueError:
            self._schema = text.strip()

    def canonical(self) -> str:
        """Return the canonical text of the schema. Two schemas count as equal if their canonical texts are equal."""
        return json.dumps(self._schema, separators=(",", ":"), ensure_ascii=False)

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

        return json.dumps(ordered(self._schema), separators=(",", ":"), ensure_ascii=False)


def incompatibilities(reader: Avro, writer: Avro) -> list[str]:
    """Return the reasons why a reader cannot read all data of a writer. The list is empty if the schemas are compatible."""
    return reader.core.incompatibilities(writer.core)
