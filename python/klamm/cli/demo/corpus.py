"""The lines the demo produces, and how many there are.

Without an input these are the source lines of the running interpreter's standard library: real text, hundreds of
thousands of lines, on every machine. Lines and bytes are counted on the chunks as they come from disk, not on the
split lines, so that the comparison at the end covers the splitting too.
"""

from __future__ import annotations

import os
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from klamm.cli.lines import read_chunks, split_lines, total_size
from klamm.cli.output import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOT_STANDARD = {"site-packages", "dist-packages", "__pycache__"}
"""Folders inside the standard library's that are not part of it."""

STDIN = "-"
"""The path that means standard input."""


@dataclass
class Count:
    """Records and the bytes of their values."""

    records: int = 0
    bytes: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.records + other.records, self.bytes + other.bytes)


@dataclass(frozen=True)
class Source:
    """One file, and the key of its lines."""

    key: bytes
    path: str


@dataclass
class Corpus:
    """What to produce; `counts` grows, package by package, while `batches` is read."""

    sources: list[Source]
    counts: dict[str, Count] = field(default_factory=dict)

    @property
    def size(self) -> int | None:
        """Bytes in all, or None where that is not known beforehand."""
        return total_size(source.path for source in self.sources)

    @property
    def total(self) -> Count:
        """Everything read so far."""
        return sum(self.counts.values(), Count())

    def batches(self) -> Iterator[tuple[bytes, list[bytes]]]:
        """Read everything: a key and some of its lines at a time."""
        for source in self.sources:
            count = self.counts.setdefault(package_of(source.key), Count())
            for lines in split_lines(counted(read_chunks(source.path), count)):
                yield source.key, lines


def counted(chunks: Iterable[bytes], count: Count) -> Iterator[bytes]:
    """Pass chunks on; count their lines and the bytes that are not newlines."""
    last = b"\n"
    for chunk in chunks:
        newlines = chunk.count(b"\n")
        count.records += newlines
        count.bytes += len(chunk) - newlines
        last = chunk[-1:]
        yield chunk
    if last != b"\n":
        count.records += 1


def package_of(key: bytes) -> str:
    """Name the package a key belongs to: its first component, without `.py`."""
    return key.decode("utf-8", "replace").split("/", 1)[0].removesuffix(".py")


def find_corpus(source: str | None) -> Corpus:
    """Find what to produce: the standard library, or a file, a folder, or `-`."""
    if source is None:
        return Corpus(standard_library(Path(sysconfig.get_paths()["stdlib"])))
    if source == STDIN:
        return Corpus([Source(b"stdin", STDIN)])
    path = Path(source)
    path.stat()  # raises before a broker is started when there is nothing
    found = folder(path) if path.is_dir() else [Source(os.fsencode(path.name), source)]
    if not found:
        raise CommandError(f"{source}: no files in it")
    return Corpus(found)


def standard_library(root: Path) -> list[Source]:
    """List the modules of the standard library."""
    return [source for source in folder(root) if source.path.endswith(".py")]


def folder(root: Path) -> list[Source]:
    """List the regular files below a folder, sorted; links to folders are not followed."""
    files = []
    for place, names, leaves in os.walk(root):
        names[:] = sorted(set(names) - NOT_STANDARD)
        files += [path for leaf in leaves if (path := Path(place, leaf)).is_file()]
    return [Source(os.fsencode(path.relative_to(root).as_posix()), str(path)) for path in sorted(files)]
