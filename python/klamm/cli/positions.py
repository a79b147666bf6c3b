"""Places in a topic as a user writes them: `earliest`, `latest`, `1500`, `-10`, `@2026-05-01T12:00`, `@1700000000000`.

One form serves `--from` and `--to`. A place is looked up for each partition by itself and then lies within what the
partition holds: an offset that retention has deleted means the first one that is left.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING

from klamm.cli.output import CommandError
from klamm.consumer import BEGINNING
from klamm.record import timed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import klamm

ELECTION_SECONDS = 5
RETRY_SECONDS = 0.2


class Kind(Enum):
    """What a position counts from."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    LAST = auto()
    TIME = auto()


@dataclass(frozen=True)
class Position:
    """A place in every partition; `number` is an offset, a count of records or milliseconds since 1970."""

    kind: Kind
    number: int = 0


def parse_position(text: str) -> Position:
    """Parse a position; raises the error argparse reports."""
    names = {"earliest": Kind.EARLIEST, "latest": Kind.LATEST, "end": Kind.LATEST}
    if text in names:
        return Position(names[text])
    if text.startswith("@"):
        return Position(Kind.TIME, parse_time(text[1:]))
    kind, digits = (Kind.LAST, text[1:]) if text.startswith("-") else (Kind.OFFSET, text)
    if digits.isascii() and digits.isdigit():
        return Position(kind, int(digits))
    raise argparse.ArgumentTypeError(
        f"{text!r} is none of: earliest, latest, OFFSET, -N (the last N), @TIME (ISO 8601 or milliseconds)"
    )


def parse_time(text: str) -> int:
    """Parse milliseconds since 1970 or an ISO 8601 time; one without an offset is local time."""
    if text.isascii() and text.isdigit():
        return int(text)
    # Python 3.10 does not know the Z of ISO 8601.
    iso = text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text
    try:
        # No record is older than 1970, and brokers take negative times for ends.
        return max(round(datetime.fromisoformat(iso).timestamp() * 1000), 0)
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: write 2026-05-01, 2026-05-01T12:30:00, 2026-05-01T12:30:00Z or milliseconds"
        ) from None


def place(position: Position, begin: int, end: int, at_time: int | None = None) -> int:
    """Turn a position into an offset of a partition that holds `begin` to `end`; `at_time` answers a time."""
    offsets = {
        Kind.EARLIEST: begin,
        Kind.LATEST: end,
        Kind.OFFSET: position.number,
        Kind.LAST: end - position.number,
        Kind.TIME: end if at_time is None else at_time,
    }
    return min(max(offsets[position.kind], begin), end)


def beginnings(consumer: klamm.Consumer, partitions: Sequence[klamm.TopicPartition]) -> dict[klamm.TopicPartition, int]:
    """Ask where partitions begin; a leader is waited for as long as an election takes, not as long as a broker is away."""
    end = time.monotonic() + ELECTION_SECONDS
    while True:
        asked = timed(dict.fromkeys(partitions, BEGINNING))
        found = dict(zip(partitions, consumer._list_offsets(asked, None, of_led=True).result(), strict=True))  # noqa: SLF001
        leaderless = [f"{each.topic}-{each.partition}" for each, at in found.items() if at is None]
        if not leaderless:
            return {each: at[0] for each, at in found.items() if at is not None}
        if time.monotonic() > end:
            verb = "has" if len(leaderless) == 1 else "have"
            raise CommandError(
                f"{', '.join(leaderless)} {verb} no leader who could say what is there",
                hint="bring the broker back that has the replica, or name the other partitions alone",
            )
        time.sleep(RETRY_SECONDS)


@dataclass(frozen=True)
class Bounds:
    """What partitions hold now: the first offset of each, and the one behind the last."""

    begin: dict[klamm.TopicPartition, int]
    end: dict[klamm.TopicPartition, int]

    @classmethod
    def ask(cls, consumer: klamm.Consumer, partitions: Sequence[klamm.TopicPartition]) -> Bounds:
        """Ask the brokers; an error if nobody leads a partition, and so nobody can say."""
        return cls(beginnings(consumer, partitions), consumer.end_offsets(partitions))

    def locate(self, consumer: klamm.Consumer, position: Position) -> dict[klamm.TopicPartition, int]:
        """Turn a position into one offset a partition."""
        times: dict[klamm.TopicPartition, tuple[int, int] | None] = {}
        if position.kind is Kind.TIME:
            times = dict(consumer.offsets_for_times(dict.fromkeys(self.begin, position.number)))
        located = {}
        for partition, begin in self.begin.items():
            found = times.get(partition)
            located[partition] = place(position, begin, self.end[partition], found[0] if found else None)
        return located
