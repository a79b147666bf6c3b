"""Prints the dump of a client's flight recorder as a story: one line for each request, response and change of state.

A dump is JSON Lines. `klamm.logs` and the core write it; the core's `logging/flight.rs` describes the fields.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from klamm.cli.output import CommandError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUPPORTED = 1
"""The format of dumps that this file reads."""


def story(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of the story.

    Raises:
        CommandError: A line is not part of a dump.
    """
    sent: dict[tuple[str, int], int] = {}
    is_first = True
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            yield head(entry) if is_first else line_of(entry, sent)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError, RecursionError) as error:
            raise CommandError(
                f"line {number} is not part of a flight recorder's dump: {error!r}",
                "pass a file that dump_flight() wrote",
            ) from None
        is_first = False
    if is_first:
        raise CommandError("the dump is empty", "pass a file that dump_flight() wrote")


def head(entry: dict[str, Any]) -> str:
    """Return the line about the client."""
    if entry["flight"] != SUPPORTED:
        raise ValueError(f"format {entry['flight']}")
    began = datetime.fromtimestamp(entry["started_us"] / 1e6, timezone.utc).isoformat(timespec="milliseconds")
    lost = f", {entry['dropped']:,} older entries were dropped" if entry["dropped"] else ""
    return one_line(f"client {entry['client_id']!r} of klamm {entry['klamm']}, created at {began}{lost}")


def line_of(entry: dict[str, Any], sent: dict[tuple[str, int], int]) -> str:
    """Return the line of an entry. `sent` has the times of requests without a response."""
    at = int(entry["at_us"])
    time = f"+{at / 1e6:.6f} s"
    if entry["kind"] == "event":
        return one_line(f"{time}  {entry['level']} {entry['component']}: {entry['text']}")
    key = str(entry["broker"]), int(entry["correlation_id"])
    arrow, latency = "->", ""
    if entry["kind"] == "response":
        arrow = "<-"
        if (began := sent.pop(key, None)) is not None:
            latency = f" after {(at - began) / 1e3:.3f} ms"
    else:
        sent[key] = at
    what = f"{entry['api']} version {int(entry['version'])} #{key[1]}, {int(entry['size']):,} bytes"
    return one_line(f"{time}  {arrow} {key[0]}  {what}, checksum {entry['checksum']}{latency}")
