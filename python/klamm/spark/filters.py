"""Narrows a batch read to the partitions and offsets that Spark's filters allow.

Spark applies its filters again to each row that it gets from klamm. Therefore, this module only skips records that cannot match, and ignores filters of
unknown types. A filter on timestamps can raise the start offset, but it cannot lower the end offset, because later
records may have earlier timestamps.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql.datasource import Filter

    from klamm.spark.offsets import Offsets, Partition


def narrow(
    filters: Iterable[Filter],
    start: Offsets,
    end: Offsets,
    at_times: Callable[[dict[Partition, int]], dict[Partition, int | None]],
) -> tuple[Offsets, Offsets]:
    """Return start and end offsets of the records that may pass the filters.

    Args:
        filters: Filters that Spark pushes down.
        start: First offset of each partition.
        end: End offset of each partition.
        at_times: Function that returns the offset of the first record at or after a time in ms, for each partition.
    """
    filters = list(filters)
    kept = [tp for tp in end if _allows(filters, "topic", tp[0]) and _allows(filters, "partition", tp[1])]
    first, last = _offset_bounds(filters)
    start = {tp: max(start[tp], first) for tp in kept}
    end = {tp: end[tp] if last is None else min(end[tp], last) for tp in kept}
    if (since := _since(filters)) is not None and kept:
        offsets = at_times(dict.fromkeys(kept, since))
        start = {tp: end[tp] if (at := offsets[tp]) is None else max(start[tp], at) for tp in kept}
    return start, end


def _of(filters: list[Filter], column: str) -> list[Any]:
    return [one for one in filters if getattr(one, "attribute", None) == (column,) and hasattr(one, "value")]


def _allows(filters: list[Filter], column: str, value: Any) -> bool:
    """Return whether the filters allow rows with this value in a column. The column must not contain null."""
    denied = [one.child for one in filters if isinstance(one, Not)]
    return all(_TESTS[type(one)](value, one.value) for one in _of(filters, column) if type(one) in _TESTS) and not any(
        _TESTS[type(one)](value, one.value) for one in _of(denied, column) if type(one) in _TESTS
    )


def _offset_bounds(filters: list[Filter]) -> tuple[int, int | None]:
    first, ends = 0, []
    for one in _of(filters, "offset"):
        match one:
            case EqualTo(value=int(value)) | EqualNullSafe(value=int(value)):
                first = max(first, value)
                ends.append(value + 1)
            case In(value=values) if values and all(isinstance(value, int) for value in values):
                first = max(first, min(values))
                ends.append(max(values) + 1)
            case GreaterThan(value=int(value)):
                first = max(first, value + 1)
            case GreaterThanOrEqual(value=int(value)):
                first = max(first, value)
            case LessThan(value=int(value)):
                ends.append(value)
            case LessThanOrEqual(value=int(value)):
                ends.append(value + 1)
    return first, min(ends, default=None)


def _since(filters: list[Filter]) -> int | None:
    """Return the earliest time in ms that the filters allow, or None."""
    bounds = []
    for one in _of(filters, "timestamp"):
        if isinstance(one, (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual)) and one.value is not None:
            bounds.append(_ms(one.value))
        elif isinstance(one, In) and one.value and all(value is not None for value in one.value):
            bounds.append(min(map(_ms, one.value)))
    # Negative times have a special meaning for brokers: -1 and -2 are the end and the beginning of a partition.
    return max((bound for bound in bounds if bound >= 0), default=None)


def _ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


_TESTS: dict[type, Callable[[Any, Any], bool]] = {
    EqualTo: lambda value, other: value == other,
    EqualNullSafe: lambda value, other: value == other,
    In: lambda value, others: value in others,
    GreaterThan: lambda value, other: value > other,
    GreaterThanOrEqual: lambda value, other: value >= other,
    LessThan: lambda value, other: value < other,
    LessThanOrEqual: lambda value, other: value <= other,
    StringStartsWith: lambda value, start: value.startswith(start),
    StringEndsWith: lambda value, end: value.endswith(end),
    StringContains: lambda value, part: part in value,
}

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
