"""Escapes control characters in text that commands print to a terminal.

Names, keys, values and error texts come from other programs. A terminal obeys escape sequences in the text that it
shows: they can change its title, clear it, or hide lines. Files and pipes get the text unchanged.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that change the direction of text
    r"\ud800-\udfff]"  # bytes that are not valid in the encoding
)


def visible(text: str) -> str:
    r"""Return a text with control characters as escapes such as `\u001b`, which JSON can contain."""
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


@contextmanager
def escaped_terminals() -> Iterator[None]:
    """Return a context manager in which standard output and standard error escape control characters on a terminal."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(escaped_if_terminal, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def escaped_if_terminal(stream: TextIO) -> TextIO:
    """Return a stream that escapes control characters, if the stream is a terminal, otherwise the stream itself."""
    return cast("TextIO", EscapedText(stream)) if stream.isatty() else stream


def unescaped(stream: TextIO) -> TextIO:
    """Return the stream that prints control characters as they are, for escape sequences of klamm itself."""
    return cast("TextIO", getattr(stream, "terminal", stream))


class EscapedText:
    """A text stream that escapes control characters and otherwise behaves like another stream."""

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal

    @property
    def buffer(self) -> EscapedBytes:
        """Return the stream for bytes."""
        return EscapedBytes(self.terminal)

    def write(self, text: str) -> int:
        """Write a text. Return its length."""
        self.terminal.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


class EscapedBytes:
    """The stream for bytes of a terminal. It escapes control characters, and bytes that are not valid text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        """Write bytes. Return their number."""
        encoding = self._stream.encoding
        text = visible(data.decode(encoding, "backslashreplace"))
        self._stream.buffer.write(text.encode(encoding, "backslashreplace"))
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream.buffer, name)
