"""Defines a dict that hides the values of settings, because values may be secret, and a parser for whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

# Java's largest int and long.
MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1

MAX_DIGITS = 100
SHOWN = 200


class Settings(dict[str, str]):
    """A dict of settings by name. `repr` shows only names, so that a traceback with local variables has no secrets."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self)}>"

    def __or__(self, other: Mapping[str, str]) -> Settings:  # type: ignore[override]
        return Settings({**self, **other})

    def only(self, names: Container[str]) -> Settings:
        """Return a copy with only those settings whose names are in `names`."""
        return Settings({name: self[name] for name in self if name in names})


def whole_number(text: str, most: int = MAX_LONG) -> int | None:
    """Parse a whole number from 0 to `most`. Return None if the text is not a number in this range."""
    text = text.strip()
    # Python raises an error for numbers of more than 4,300 digits.
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        return None
    number = int(text)
    return number if number <= most else None


def shortened(text: str) -> str:
    """Return the text, or its beginning and its length if it is too long for an error message."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
