"""Decides which columns of a table become parts of a record, and which become fields of its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from klamm.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

IS_NULL = "value_is_null"
"""Name of the column that marks tombstones in a flattened table."""
_PARTS = ("key", "value", "headers", "partition", "timestamp", "topic")
_ASSIGNED = ("offset", "timestamp_type")
"""Columns of fetched records that the broker assigns when a record is written."""


class Layout(NamedTuple):
    """The meaning of the columns of a table.

    Attributes:
        parts: Name of the column for each part of a record.
        fields: Columns that are fields of the value. Empty if the value is a column of its own.
    """

    parts: dict[str, str]
    fields: list[str]


def layout(
    columns: Sequence[str],
    record_columns: Sequence[str] | None,
    typed: Collection[str],
    topic: str | None,
    *,
    is_struct: bool,
    folded: Callable[[str], str] = str,
) -> Layout:
    """Return the meaning of the columns of a table.

    Args:
        columns: Names of the columns.
        record_columns: Columns that are parts of a record, or None. With None, a table with a column `value` has only
            parts of a record, and the columns of any other table are fields of the value.
        typed: The parts that a schema describes: "key", "value" or both.
        topic: Topic of all records, or None if a column names the topic of each record.
        is_struct: Whether the table has a column `value` whose type is a struct.
        folded: Function that maps names that are considered equal to one name.

    Raises:
        ArgumentError: The table lacks a column, or the values of a column would be lost.
        ConfigError: An option is invalid, or the topic of the records is unknown.
    """
    names: dict[str, str] = {}
    for name in columns:
        if names.setdefault(folded(name), name) is not name:
            raise ArgumentError(f"there are two columns `{name}`", hint="rename one of the columns, or drop it")
    if record_columns is None:
        found = _by_names(names, typed, topic, is_struct)
    else:
        found = _asked_for(names, [folded(name) for name in record_columns], typed, topic)
    if topic is None and "topic" not in found.parts:
        raise ConfigError(
            "a value format needs the topic of the records",
            hint="pass the topic, or name a column `topic` as a part of the record",
        )
    return found


def _by_names(names: dict[str, str], typed: Collection[str], topic: str | None, is_struct: bool) -> Layout:
    if "value" in typed and "value" not in names:
        if IS_NULL in names:
            raise ArgumentError(
                f"column `{names[IS_NULL]}` marks the tombstones of a flattened table",
                hint=f"pass record_columns (in Spark, option 'record.columns'), such as key,{IS_NULL}, or drop the column",
            )
        asked = ["key"] if "key" in typed and "key" in names else []
        return _asked_for(names, asked, typed, topic)
    # As in `send_arrow` without a format, the columns that the broker assigns can stay in a table that klamm has read.
    # Beside a value that is no struct, they are more likely fields.
    unused = (*_ASSIGNED, *(() if topic is None else ("topic",))) if is_struct or "value" not in typed else ()
    asked = [name for name in names if name in _PARTS and name not in unused and (name != "topic" or topic is None)]
    return _asked_for({name: names[name] for name in names if name not in unused}, asked, typed, topic)


def _asked_for(names: dict[str, str], asked: list[str], typed: Collection[str], topic: str | None) -> Layout:
    for name in asked:
        if name not in (*_PARTS, IS_NULL):
            raise ConfigError(
                f"column `{name}` cannot be a part of a record", hint=f"allowed: {', '.join((*_PARTS, IS_NULL))}"
            )
        if name not in names:
            raise ArgumentError(f"there is no column `{name}`", hint="the parts of a record have to be columns")
    if "topic" in asked and topic is not None:
        raise ConfigError("the topic is given twice: for all records, and as a column", hint="leave one out")
    parts = {name: names[name] for name in asked}
    fields = [column for name, column in names.items() if name not in parts]
    has_fields = "value" in typed and "value" not in parts
    if has_fields and not fields:
        raise ArgumentError("no column is left for the fields of the value", hint="name fewer parts of the record")
    if not has_fields and (fields or IS_NULL in parts):
        name = parts.get(IS_NULL) or fields[0]
        raise ArgumentError(
            f"column `{name}` is no part of a record, and the column `value` is the whole value",
            hint="drop or rename the column, or pass record_columns (in Spark, option 'record.columns')",
        )
    return Layout(parts, fields if has_fields else [])
