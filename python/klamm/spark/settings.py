"""A dict of settings whose values are never shown, because they may be secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Mapping


class Settings(dict[str, str]):
    """A dict of settings by name. Its `repr` shows names only, so that tracebacks with local variables reveal no secrets."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self)}>"

    def __or__(self, other: Mapping[str, str]) -> Settings:  # type: ignore[override]
        return Settings({**self, **other})

    def only(self, names: Container[str]) -> Settings:
        """Return the settings with these names."""
        return Settings({name: self[name] for name in self if name in names})
