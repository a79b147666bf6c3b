"""Offsets of partitions: arithmetic, and the JSON that checkpoints and options hold.

The JSON is that of Spark's own connector, `{"topic":{"0":17}}`, so a checkpoint of either is read by
the other. Spark compares offsets as strings, so the order is fixed: by topic, then by partition
number. Nothing here talks to a broker.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from klamm.errors import ConfigError, KafkaError

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
    """Records that a query was to read are no longer there."""


def parse_offsets(text: str, option: str) -> Offsets:
    """Read the value of `startingOffsets` or `endingOffsets`."""
    form = (
        f"option '{option}' must be earliest, latest or JSON such as "
        f"""{{"topic":{{"0":17,"1":-2}}}} (-2 earliest, -1 latest), got '{text}'"""
    )
    try:
        named = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{form}: {error}") from None
    if not isinstance(named, dict) or not named:
        raise ConfigError(form)
    offsets: Offsets = {}
    for topic, partitions in named.items():
        if not isinstance(partitions, dict) or not partitions:
            raise ConfigError(form)
        for number, offset in partitions.items():
            if not number.isdecimal() or not _is_offset(offset):
                raise ConfigError(form)
            offsets[topic, int(number)] = offset
    return offsets


def _is_offset(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= EARLIEST


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
