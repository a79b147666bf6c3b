"""Computes ranges and limits of offsets, and converts offsets to the JSON of checkpoints and options.

Spark's own connector uses the same JSON, `{"topic":{"0":17}}`. klamm and Spark's connector can therefore read each
other's checkpoints. Spark compares offsets as strings, so the order in the JSON is fixed: by topic, then by partition
number. This module does not connect to a broker.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from klamm.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

Partition = tuple[str, int]
Offsets = dict[Partition, int]

EARLIEST = -2
LATEST = -1


class OffsetRange(NamedTuple):
    """A range of offsets in one partition; `end` is exclusive."""

    topic: str
    partition: int
    start: int
    end: int


class DataLossError(KafkaError):
    """A query cannot read records because they no longer exist.

    Option `failOnDataLoss` controls whether this error is raised.

    Attributes:
        condition: Error condition of Spark's connector, such as `KAFKA_DATA_LOSS.PARTITIONS_DELETED`. The message
            begins with this condition.
    """

    def __init__(self, message: str, *, condition: str, hint: str | None = None) -> None:
        super().__init__(f"[{condition}] {message}", hint=hint)
        self.condition = condition


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Convert offsets to the JSON object that Spark stores in its checkpoint: for each topic, offsets by partition."""
    named: dict[str, dict[str, int]] = {}
    for topic, number in sorted(offsets):
        named.setdefault(topic, {})[str(number)] = offsets[topic, number]
    return named


def from_json(named: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Convert the JSON object of `to_json` back to offsets."""
    return {
        (topic, int(number)): offset for topic, partitions in named.items() for number, offset in partitions.items()
    }


def format_partitions(partitions: set[Partition]) -> str:
    """Return the names of partitions for an error message, such as `t-0, t-1`."""
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions))


def count_offsets(start: Offsets, end: Offsets) -> int:
    """Return the number of offsets from `start` to `end`, summed over all partitions."""
    return sum(max(0, end[tp] - start.get(tp, 0)) for tp in end)


def limit_records(limit: int, start: Offsets, end: Offsets) -> Offsets:
    """Return an end offset for each partition, so that at most `limit` offsets lie between `start` and the end.

    Each partition gets one record, and a part of the rest in proportion to its number of records. If the limit is
    smaller than the number of partitions with records, successive batches take turns through these partitions.
    """
    sizes = {tp: end[tp] - start[tp] for tp in sorted(end) if end[tp] > start[tp]}
    total, count = sum(sizes.values()), len(sizes)
    if total <= limit:
        return end
    limited = {tp: min(start[tp], end[tp]) for tp in end}
    if limit < count:
        # Each batch moves the sum of the offsets by `limit`, so the next batch begins where this batch ends.
        names, first = list(sizes), sum(start[tp] for tp in end)
        return limited | {tp: start[tp] + 1 for tp in (names[(first + turn) % count] for turn in range(limit))}
    before = 0
    for tp, size in sizes.items():
        # Round the running sum instead of each part, so that the parts add up to the limit.
        part = [(limit - count) * records // (total - count) for records in (before, before + size - 1)]
        limited[tp] = start[tp] + 1 + part[1] - part[0]
        before += size - 1
    return limited


def limit_bytes(limit: int, start: Offsets, end: Offsets, record_bytes: Mapping[Partition, float]) -> Offsets:
    """Return an end offset for each partition, so that about `limit` bytes of records lie between `start` and the end.

    The function shortens each partition's range by the same factor, but keeps at least one record. A partition counts
    as empty if the size of its records is unknown.
    """
    sizes = {tp: end[tp] - start[tp] for tp in end if end[tp] > start[tp]}
    total = sum(size * record_bytes.get(tp, 0.0) for tp, size in sizes.items())
    if total <= limit:
        return end
    return end | {tp: start[tp] + max(1, int(size * limit / total)) for tp, size in sizes.items()}


def divide(
    ranges: list[OffsetRange],
    min_parts: int | None,
    max_records: int | None,
    max_bytes: int | None = None,
    record_bytes: Mapping[Partition, float] | None = None,
) -> list[OffsetRange]:
    """Divide ranges into tasks, with the same rules and in the same order as Spark's connector.

    The function first enforces the maximum size of a task. If fewer than `min_parts` tasks result, the function divides
    large ranges in proportion to their sizes, into about `min_parts` tasks in total.

    Args:
        ranges: Ranges to read.
        min_parts: Number of tasks to reach, or None.
        max_records: Maximum number of records of a task, or None.
        max_bytes: Maximum size of a task in bytes, or None; needs `record_bytes`.
        record_bytes: Mean size of a record in each partition.
    """
    parts: list[OffsetRange] = []
    for each in ranges:
        size = each.end - each.start
        most = size if max_records is None else max_records
        if max_bytes is not None and record_bytes is not None:
            one = record_bytes.get((each.topic, each.partition), 0.0)
            most = min(most, max(1, int(max_bytes / one))) if one else most
        parts += _cut(each, -(-size // most))
    if min_parts is None or len(parts) >= min_parts:
        return parts
    sizes = [each.end - each.start for each in parts]
    total = sum(sizes)
    large = [size for size in sizes if _proportion(size, total, min_parts) > 1]
    remaining = max(1, min_parts - (len(sizes) - len(large)))
    return [
        part
        for each, size in zip(parts, sizes, strict=True)
        for part in _cut(
            each, _proportion(size, sum(large), remaining) if _proportion(size, total, min_parts) > 1 else 1
        )
    ]


def join(ranges: list[OffsetRange]) -> list[tuple[OffsetRange, ...]]:
    """Join neighbouring small ranges, so that each group becomes one task.

    A task takes about 20 ms besides its records. Groups have at most `JOINED_OFFSETS` offsets, and at least
    `JOINED_TASKS` groups of about the same size remain.
    """
    most = min(JOINED_OFFSETS, sum(each.end - each.start for each in ranges) // JOINED_TASKS)
    groups: list[tuple[OffsetRange, ...]] = []
    size = 0
    for each in ranges:
        count = each.end - each.start
        if groups and size + count <= most:
            groups[-1] += (each,)
            size += count
        else:
            groups.append((each,))
            size = count
    return groups


def _proportion(size: int, total: int, parts: int) -> int:
    """Return the number of parts for a range of this size: at least 1, and rounded half up as in Java."""
    return max(1, (2 * size * parts + total) // (2 * total))


def _cut(offsets: OffsetRange, parts: int) -> list[OffsetRange]:
    size = offsets.end - offsets.start
    parts = min(parts, size)
    edges = [offsets.start + size * part // parts for part in range(parts + 1)]
    return [offsets._replace(start=start, end=end) for start, end in pairwise(edges)]


# A task of 1,000 small records takes only a few milliseconds longer than a task of one record. Below this number of
# tasks, joining would leave cores of a small cluster without work.
JOINED_OFFSETS = 1000
JOINED_TASKS = 16
