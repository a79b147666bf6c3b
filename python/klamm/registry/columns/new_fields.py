"""Finds fields that a writer's schema has and a column does not have, so that a reader can refuse the writer's records.

Each function returns the path of the first field of the writer's schema that the column does not have, or None. The
functions compare nested fields only if the writer and the column have the same type. If the types of a field differ,
the functions ignore the field, because decoding its value raises an error. For Avro, the core finds these fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable


def of_protobuf(message: Any, plan: list[Any], path: str = "") -> str | None:
    """Return the path of the first field of a message whose number is not in the plan.

    Args:
        message: Descriptor of the writer's message.
        plan: The result of `klamm.registry.columns.protobuf.columns` for the message of the column.
        path: Path of the message.
    """
    kinds = {number: kind for number, _, kind, *_ in plan}
    for field in message.fields:
        if field.number not in kinds:
            return joined(path, field.name)
    return _first(
        of_protobuf(field.message_type, kinds[field.number][1], joined(path, field.name))
        for field in message.fields
        if field.message_type is not None and kinds[field.number][0] in ("message", "group")
    )


def of_json(writer: pa.DataType, column: pa.DataType, path: str = "") -> str | None:
    """Return the path of the first field of the writer's type that the column's type does not have."""
    if pa.types.is_struct(writer) and pa.types.is_struct(column):
        names = {field.name for field in column}
        for field in writer:
            if field.name not in names:
                return joined(path, field.name)
        return _first(of_json(field.type, column.field(field.name).type, joined(path, field.name)) for field in writer)
    if pa.types.is_list(writer) and pa.types.is_list(column):
        return of_json(writer.value_type, column.value_type, f"{path}[]")
    if pa.types.is_map(writer) and pa.types.is_map(column):
        return of_json(writer.item_type, column.item_type, f"{path}[]")
    return None


def joined(path: str, name: str) -> str:
    """Return the path of the field `name` inside the value at `path`."""
    return f"{path}.{name}" if path else name


def _first(paths: Iterable[str | None]) -> str | None:
    return next((path for path in paths if path is not None), None)
