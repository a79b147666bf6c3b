"""Offsets of partitions: arithmetic, and the JSON that checkpoints and options hold.

The JSON is that of Spark's own connector, `{"topic":{"0":17}}`, so a checkpoint of either is read by
the other. Spark compares offsets as strings, so the order is fixed: by topic, then by partition
number. Nothing here talks to a broker.
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
    """The records of one partition from `start` up to, and not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int


class DataLossError(KafkaError):
    """Records that a query was to read are no longer there.

    `condition` is what Spark's connector calls it, such as `KAFKA_DATA_LOSS.PARTITIONS_DELETED`; the message begins with it.
    """

    def __init__(self, message: str, *, condition: str, hint: str | None = None) -> None:
        super().__init__(f"[{condition}] {message}", hint=hint)
        self.condition = condition


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Bring offsets into the form that Spark writes into its checkpoint."""
    named: dict[str, dict[str, int]] = {}
    for topic, number in sorted(offsets):
        named.setdefault(topic, {})[str(number)] = offsets[topic, number]
    return named


def from_json(named: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Undo `to_json`."""
    return {
        (topic, int(number)): offset for topic, partitions in named.items() for number, offset in partitions.items()
    }


def listed(partitions: set[Partition]) -> str:
    """Name partitions in a message."""
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions))


def behind(start: Offsets, end: Offsets) -> int:
    """Count the offsets between two places."""
    return sum(max(0, end[tp] - start.get(tp, 0)) for tp in end)


def share(limit: int, start: Offsets, end: Offsets) -> Offsets:
    """Move `end` back so that `limit` records lie between the two.

    Each partition gets its proportion, but never nothing: a small partition beside large ones must not wait until they are empty.
    """
    sizes = {tp: end[tp] - start[tp] for tp in sorted(end) if end[tp] > start[tp]}
    total = sum(sizes.values())
    if total <= limit:
        return end
    shared = dict(end)
    before = 0
    for tp, size in sizes.items():
        # Rounded as a running sum, so that the parts add up to the limit.
        part = limit * (before + size) // total - limit * before // total
        shared[tp] = start[tp] + max(1, part)
        before += size
    return shared


def share_bytes(limit: int, start: Offsets, end: Offsets, record_bytes: Mapping[Partition, float]) -> Offsets:
    """Move `end` back so that records of `limit` bytes lie between the two, as far as sizes are known.

    Every partition is cut by the same factor, and keeps one record at least.
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
    """Divide ranges into tasks: none larger than allowed, and about as many as asked for.

    Both rules are those of Spark's connector, in its order. Ranges that are small beside the others stay whole, and the others
    share what is left of `min_parts` by their sizes.
    """
    parts: list[OffsetRange] = []
    for span in ranges:
        size = span.end - span.start
        most = size if max_records is None else max_records
        if max_bytes is not None and record_bytes is not None:
            one = record_bytes.get((span.topic, span.partition), 0.0)
            most = min(most, max(1, int(max_bytes / one))) if one else most
        parts += _cut(span, -(-size // most))
    if min_parts is None or len(parts) >= min_parts:
        return parts
    sizes = [span.end - span.start for span in parts]
    total = sum(sizes)
    large = [size for size in sizes if _proportion(size, total, min_parts) > 1]
    left = max(1, min_parts - (len(sizes) - len(large)))
    return [
        part
        for span, size in zip(parts, sizes, strict=True)
        for part in _cut(span, _proportion(size, sum(large), left) if _proportion(size, total, min_parts) > 1 else 1)
    ]


def _proportion(size: int, total: int, parts: int) -> int:
    """Round half up, as Java does."""
    return max(1, (2 * size * parts + total) // (2 * total))


def _cut(span: OffsetRange, parts: int) -> list[OffsetRange]:
    size = span.end - span.start
    parts = min(parts, size)
    edges = [span.start + size * part // parts for part in range(parts + 1)]
    return [OffsetRange(span.topic, span.partition, start, end) for start, end in pairwise(edges)]
