"""Prints the dump of a client's flight recorder as text: one line for each request, response and change of state.

A dump has the format JSON Lines. `klamm.logs` and the Rust core write dumps. The core's `logging/flight.rs` describes the
fields.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from klamm.cli.output import CommandError, counted, one_line
from klamm.errors import ConfigError, DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SUPPORTED = 1
"""Version of the dump format that this module reads."""

BAD = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    OSError,
    RecursionError,
    ConfigError,
    DecodeError,
)
"""Exceptions that an invalid line of a dump can cause."""

NO_RESPONSE = {"lost": "the connection ended before the response", "timed_out": "no response in time"}
"""Texts to print for requests that got no response, by the type of the entry in the dump."""


def story(lines: Iterable[str], decode: Callable[[str, int, str, bytes], Iterable[str]]) -> Iterator[str]:
    """Yield the lines to print for each entry of a dump. `decode` returns the JSON text of a message, in parts.

    Raises:
        CommandError: A line is not part of a dump.
    """
    sent: dict[tuple[str, int], int] = {}
    is_first = True
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            yield head(entry) if is_first else line_of(entry, sent)
            if not is_first and "body" in entry:
                yield content(entry, decode)
        except BAD as error:
            raise CommandError(
                f"line {number} is not part of a flight recorder's dump: {error!r}",
                "pass a file that dump_flight() wrote",
            ) from None
        is_first = False
    if is_first:
        raise CommandError("the dump is empty", "pass a file that dump_flight() wrote")


def head(entry: dict[str, Any]) -> str:
    """Return the line that describes the client."""
    if entry["flight"] != SUPPORTED:
        raise ValueError(f"format {entry['flight']}")
    began = datetime.fromtimestamp(entry["started_us"] / 1e6, timezone.utc).isoformat(timespec="milliseconds")
    lost = f", older entries dropped: {entry['dropped']:,}" if entry["dropped"] else ""
    return one_line(f"client {entry['client_id']!r} of klamm {entry['klamm']}, created at {began}{lost}")


def line_of(entry: dict[str, Any], sent: dict[tuple[str, int], int]) -> str:
    """Return the line that describes an entry. `sent` maps each unanswered request to the time when it was sent."""
    at = int(entry["at_us"])
    time = f"+{at / 1e6:.6f} s"
    if entry["kind"] == "event":
        return one_line(f"{time}  {entry['level']} {entry['component']}: {entry['text']}")
    key = str(entry["broker"]), int(entry["correlation_id"])
    request_text = f"{entry['api']} version {int(entry['version'])} #{key[1]}"
    if entry["kind"] in NO_RESPONSE:
        sent.pop(key, None)
        return one_line(f"{time}  x  {key[0]}  {request_text}: {NO_RESPONSE[entry['kind']]}")
    arrow, latency = "->", ""
    if entry["kind"] == "response":
        arrow = "<-"
        if (began := sent.pop(key, None)) is not None:
            latency = f" after {(at - began) / 1e3:.3f} ms"
    else:
        sent[key] = at
    errors = "".join(f", {shown(error)}" for error in entry.get("errors", []))
    size = f"{counted(int(entry['size']), 'byte')}, checksum {entry['checksum']}"
    return one_line(f"{time}  {arrow} {key[0]}  {request_text}, {size}{latency}{errors}")


def shown(error: dict[str, Any]) -> str:
    """Return the error code of an error in a response, with the topic and partition if the response names them."""
    names = [str(error[name]) for name in ("topic", "topic_id", "partition") if name in error]
    return f"{error['code']} ({'-'.join(names)})" if names else str(error["code"])


def content(entry: dict[str, Any], decode: Callable[[str, int, str, bytes], Iterable[str]]) -> str:
    """Return the decoded message of an entry as indented JSON text."""
    body = bytes.fromhex(entry["body"])
    return "    " + "".join(decode(entry["api"], int(entry["version"]), entry["kind"], body))
