r"""Splits files and standard input into lines of bytes, in batches of bounded size.

Lines end with b"\n", which is not part of the line. The last line may lack the newline. This module never decodes
bytes. A read returns the bytes that are available, so that slow input is passed on at once.
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
"""Maximum size of a read in bytes.

Larger reads are not measurably faster. If a chunk contains only empty lines, the list of lines takes 20 MB.
"""

LINE_LIMIT = 256 * 1024 * 1024
"""Longest line in bytes, far above a broker's default limit for a record (1 MiB)."""


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


def split_lines(chunks: Iterable[bytes], limit: int = LINE_LIMIT, *, delimiter: bytes = b"\n") -> Iterator[list[bytes]]:
    """Split chunks at a delimiter, by default into lines. Each yielded list contains the lines that end in one chunk."""
    incomplete: list[bytes] = []
    size = 0
    for chunk in chunks:
        if len(delimiter) > 1 and incomplete:
            # The delimiter may begin in one chunk and end in the next.
            chunk = b"".join((*incomplete, chunk))  # noqa: PLW2901
            incomplete, size = [], 0
        parts = chunk.split(delimiter)
        rest = parts.pop()
        if parts:
            parts[0] = b"".join((*incomplete, parts[0]))
            incomplete, size = [], 0
            yield parts
        if rest:
            incomplete.append(rest)
            size += len(rest)
        if size > limit:
            raise CommandError(
                f"a line of the input is longer than {limit:,} bytes", "check that the input is text with newlines"
            )
    if incomplete:
        yield [b"".join(incomplete)]


def total_size(paths: Iterable[str | Path]) -> int | None:
    """Return the total size of the files in bytes, or None if a path is not a regular file but, for example, a pipe."""
    total = 0
    for path in paths:
        status = os.fstat(sys.stdin.fileno()) if str(path) == "-" else Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            return None
        total += status.st_size
    return total
