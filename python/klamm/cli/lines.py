r"""Lines out of bytes: exact, undecoded, in batches of bounded size.

A line is what stands between two b"\n"; the newline is not part of it, every other byte is. A last line without a
newline counts. Reads return what is there, so that lines typed or piped slowly are passed on at once.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from klamm.cli.output import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK = 256 * 1024
"""Bytes a read: the gain of larger ones is lost in noise, and a chunk of empty lines still fits in 20 MB of objects."""

LINE_LIMIT = 256 * 1024 * 1024
"""Longest line held in memory; far above what a broker takes by default (1 MiB)."""


def read_chunks(path: str | Path) -> Iterator[bytes]:
    """Read a file, or standard input for `-`, without waiting for a full buffer."""
    with open_raw(path) as source:
        while chunk := source.read(CHUNK):
            yield chunk


def open_raw(path: str | Path) -> io.FileIO:
    """Open a file for unbuffered reading; `-` is standard input, which stays open."""
    if str(path) == "-":
        return io.FileIO(sys.stdin.fileno(), closefd=False)
    return io.FileIO(path)


def split_lines(chunks: Iterable[bytes], limit: int = LINE_LIMIT) -> Iterator[list[bytes]]:
    """Split chunks into lines; each batch holds the lines that end in one chunk."""
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        parts = chunk.split(b"\n")
        rest = parts.pop()
        if parts:
            parts[0] = b"".join((*held, parts[0]))
            held, size = [], 0
            yield parts
        if rest:
            held.append(rest)
            size += len(rest)
        if size > limit:
            raise CommandError(f"a line is longer than {limit:,} bytes", "lines end with a newline; is this text?")
    if held:
        yield [b"".join(held)]


def total_size(paths: Iterable[str | Path]) -> int | None:
    """Sum the sizes of regular files; `None` when something else, such as a pipe, is among them."""
    total = 0
    for path in paths:
        status = os.fstat(sys.stdin.fileno()) if str(path) == "-" else Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            return None
        total += status.st_size
    return total
