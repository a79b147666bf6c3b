"""Generates log lines for `klamm.pipeline` or reads log lines from a folder, and sends the lines to a topic."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import klamm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Line = tuple[str, bytes]


def generated(count: int, seed: int = 0, rate: float = 100.0) -> Iterator[Line]:
    """Generate log lines of three systems, in the order of their timestamps.

    One line in 200 has no timestamp, and one line in 200 has an unknown system.

    Args:
        count: Number of lines.
        seed: Seed of the random generator.
        rate: Mean number of lines per second, by the timestamps in the lines.
    """
    chance = random.Random(seed)
    now = BEGIN
    for number in range(count):
        now += timedelta(seconds=chance.expovariate(rate))
        system = chance.choice(("billing", "gateway", "gateway", "search"))
        level = chance.choices(("INFO", "WARN", "ERROR"), (90, 8, 2))[0]
        line = f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}Z {level} request {number} took {chance.randint(1, 900)} ms"
        kind = chance.randrange(200)
        if kind == 0:
            line = f"    at {system}.Handler.run(Handler.java:{chance.randint(1, 400)})"
        yield ("unheard-of" if kind == 1 else system, line.encode())


def of_folder(folder: Path) -> Iterator[Line]:
    """Read the lines of all `*.log` files in a folder. The name of a file has the form `SYSTEM_REST.log`."""
    for path in sorted(folder.glob("*.log")):
        lines = path.read_bytes().split(b"\n")
        for line in lines if lines[-1] else lines[:-1]:
            yield path.stem.partition("_")[0], line


def send(bootstrap: str, topic: str, lines: Iterable[Line]) -> int:
    """Produce lines with the system as the key, and return the number of lines."""
    sent = 0
    with klamm.Producer(bootstrap) as producer:
        for sent, (system, line) in enumerate(lines, 1):  # noqa: B007 - the last value is the result
            producer.send_nowait(topic, line, key=system.encode())
        producer.flush(timeout=60)
    return sent


BEGIN = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)

# The time of this line is so late that the line closes every window. Without this line, the last windows stay open.
END: Line = ("gateway", b"2100-01-01T00:00:00.000Z INFO the end")
