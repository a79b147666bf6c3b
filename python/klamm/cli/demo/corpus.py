"""Finds and counts the lines that the demo produces.

By default, the demo produces the source lines of Python's standard library. Every machine with Python has these
hundreds of thousands of lines. This module counts lines and bytes in the chunks from disk, not in the split lines, so
that the final comparison also checks the splitting.
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
"""Folders inside the standard library's folder that do not belong to the library."""

STDIN = "-"
"""Path that means standard input."""


@dataclass
class Count:
    """Number of records, and number of bytes in the values of these records."""

    records: int = 0
    bytes: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.records + other.records, self.bytes + other.bytes)


@dataclass(frozen=True)
class Source:
    """A file, and the record key for the lines of the file."""

    key: bytes
    path: str


@dataclass
class Corpus:
    """The files to produce, and the counts of each package. `batches` fills `counts` while it reads the files."""

    sources: list[Source]
    counts: dict[str, Count] = field(default_factory=dict)

    @property
    def size(self) -> int | None:
        """Return the total size in bytes, or None if it is not known in advance."""
        return total_size(source.path for source in self.sources)

    @property
    def total(self) -> Count:
        """Return the total counts of all files that `batches` has read so far."""
        return sum(self.counts.values(), Count())

    def batches(self) -> Iterator[tuple[bytes, list[bytes]]]:
        """Read all files.

        Yield lists of lines, each with the key of its file. A long file yields more than one list.
        """
        for source in self.sources:
            count = self.counts.setdefault(package_of(source.key), Count())
            for lines in split_lines(counted(read_chunks(source.path), count)):
                yield source.key, lines


def counted(chunks: Iterable[bytes], count: Count) -> Iterator[bytes]:
    """Yield chunks unchanged. Add the number of lines, and of bytes that are not newlines, to `count`."""
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
    """Return the name of the package of a key: the first component of the path, without `.py`."""
    return key.decode("utf-8", "replace").split("/", 1)[0].removesuffix(".py")


def find_corpus(source: str | None) -> Corpus:
    """Return the files to produce: the standard library, a file, a folder, or standard input."""
    if source is None:
        return Corpus(standard_library(Path(sysconfig.get_paths()["stdlib"])))
    if source == STDIN:
        return Corpus([Source(b"stdin", STDIN)])
    path = Path(source)
    path.stat()  # raises if the path does not exist, before the demo starts a broker
    sources = folder(path) if path.is_dir() else [Source(os.fsencode(path.name), source)]
    if not sources:
        raise CommandError(f"{source} contains no files", "pass a file, or a folder with files")
    return Corpus(sources)


def standard_library(root: Path) -> list[Source]:
    """Return the `.py` files of the standard library."""
    return [source for source in folder(root) if source.path.endswith(".py")]


def folder(root: Path) -> list[Source]:
    """Return the regular files below a folder, sorted, without following links to folders."""
    files = []
    for parent, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - NOT_STANDARD)
        files += [path for name in names if (path := Path(parent, name)).is_file()]
    return [Source(os.fsencode(path.relative_to(root).as_posix()), str(path)) for path in sorted(files)]
