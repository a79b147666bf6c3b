"""Parses positions in a topic, and looks up the offset of a position in each partition.

`--from` and `--to` take positions such as `earliest`, `latest`, `1500`, `-10`, `@2026-05-01T12:00` or `@1700000000000`.
The module resolves a position for each partition separately, and limits the result to existing offsets. If an offset is
below the first offset of a partition, because retention deleted its record, the result is the first offset.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING

from klamm.cli.color import print_hint, print_warning
from klamm.cli.options import duration, near
from klamm.cli.output import CommandError
from klamm.consumer_base import BEGINNING
from klamm.record import at_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    import klamm

ELECTION_SECONDS = 5
RETRY_SECONDS = 0.2


class Kind(Enum):
    """Type of a position."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    LAST = auto()
    TIME = auto()


@dataclass(frozen=True)
class Position:
    """A position to look up in each partition. `number` is an offset, a number of records, or milliseconds since 1970."""

    kind: Kind
    number: int = 0


NAMES = {"earliest": Kind.EARLIEST, "latest": Kind.LATEST, "end": Kind.LATEST}
OTHER_WORDS = {
    **dict.fromkeys(("start", "beginning", "first", "oldest", "smallest"), "earliest"),
    **dict.fromkeys(("last", "newest", "largest"), "latest"),
}
"""Maps words for positions, of other tools and of everyday language, to the words that klamm accepts."""


def parse_position(text: str) -> Position:
    """Parse a position. Raise `ArgumentTypeError` if the text is not a position."""
    if text in NAMES:
        return Position(NAMES[text])
    if text.startswith("@"):
        return Position(Kind.TIME, parse_time(text[1:]))
    kind, digits = (Kind.LAST, text[1:]) if text.startswith("-") else (Kind.OFFSET, text)
    if digits.isascii() and digits.isdigit():
        return Position(kind, int(digits))
    hint = f"did you mean {OTHER_WORDS[text]}?" if text in OTHER_WORDS else near(text, NAMES)
    allowed = "earliest, latest, OFFSET, -N (the last N records), @TIME (ISO 8601 or milliseconds)"
    raise argparse.ArgumentTypeError(f"{text!r} must be one of: {allowed}" + (f"; {hint}" if hint else ""))


def parse_time(text: str) -> int:
    """Parse a time into milliseconds since 1970.

    A time is one of: milliseconds since 1970, an ISO 8601 time, or a duration before now, such as -15m. An ISO 8601 time
    without a UTC offset is in local time.
    """
    if text.startswith("-"):
        return max(round(time.time() * 1000) - duration(text[1:]), 0)
    if text.isascii() and text.isdigit():
        return int(text)
    # Python 3.10 does not parse the Z of ISO 8601.
    iso = text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text
    try:
        # No record is older than 1970, and negative times have a special meaning for brokers.
        return max(round(datetime.fromisoformat(iso).timestamp() * 1000), 0)
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a time, such as 2026-05-01, 2026-05-01T12:30:00, 2026-05-01T12:30:00Z or milliseconds"
        ) from None


def resolve(position: Position, begin: int, end: int, at_time: int | None = None) -> int:
    """Return the offset of a position in one partition.

    Args:
        position: The position.
        begin: First offset of the partition.
        end: End offset of the partition.
        at_time: Offset of the first record at or after the position's time, or None if there is no such record.
    """
    offsets = {
        Kind.EARLIEST: begin,
        Kind.LATEST: end,
        Kind.OFFSET: position.number,
        Kind.LAST: end - position.number,
        Kind.TIME: end if at_time is None else at_time,
    }
    return min(max(offsets[position.kind], begin), end)


def beginnings(consumer: klamm.Consumer, partitions: Sequence[klamm.TopicPartition]) -> dict[klamm.TopicPartition, int]:
    """Return the first offset of each partition.

    During an election, wait some seconds for a leader. If there is still no leader, raise an error, because a broker
    may be down for long.
    """
    end = time.monotonic() + ELECTION_SECONDS
    while True:
        request = at_all(partitions, BEGINNING)
        found = dict(zip(partitions, consumer._list_offsets(request, None, of_led=True).result(), strict=True))  # noqa: SLF001
        leaderless = [f"{each.topic}-{each.partition}" for each, at in found.items() if at is None]
        if not leaderless:
            return {each: at[0] for each, at in found.items() if at is not None}
        if time.monotonic() > end:
            verb = "has" if len(leaderless) == 1 else "have"
            raise CommandError(
                f"cannot look up offsets: {', '.join(leaderless)} {verb} no leader",
                hint="start the broker that has the replica, or read other partitions with --partition",
            )
        time.sleep(RETRY_SECONDS)


def hint_at_time(position: Position, end: int) -> None:
    """Print a hint if an offset is after the end of all partitions and could be a time between the years 2001 and 2286."""
    number = position.number
    if position.kind is not Kind.OFFSET or number <= end:
        return
    for unit, milliseconds in (("seconds", number * 1000), ("milliseconds", number)):
        if 10**12 <= milliseconds < 10**13:
            print_warning(f"offset {number} is after the end of every partition")
            print_hint(f"for a time of {number} {unit} since 1970, write @{milliseconds}")


@dataclass(frozen=True)
class Bounds:
    """The first offset and the end offset of each partition."""

    begin: dict[klamm.TopicPartition, int]
    end: dict[klamm.TopicPartition, int]

    @classmethod
    def ask(cls, consumer: klamm.Consumer, partitions: Sequence[klamm.TopicPartition]) -> Bounds:
        """Look up the first and end offsets of partitions. Raise if a partition has no leader."""
        return cls(beginnings(consumer, partitions), consumer.end_offsets(partitions))

    def locate(self, consumer: klamm.Consumer, position: Position) -> dict[klamm.TopicPartition, int]:
        """Return the offset that a position means in each partition."""
        times: dict[klamm.TopicPartition, tuple[int, int] | None] = {}
        if position.kind is Kind.TIME:
            times = dict(consumer.offsets_for_times(dict.fromkeys(self.begin, position.number)))
        hint_at_time(position, max(self.end.values(), default=0))
        located = {}
        for partition, begin in self.begin.items():
            found = times.get(partition)
            located[partition] = resolve(position, begin, self.end[partition], found[0] if found else None)
        return located
