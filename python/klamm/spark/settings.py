"""Settings by name, which may be secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Mapping


class Settings(dict[str, str]):
    """Settings by name, some of which may be secret: shown, as tracebacks with local variables do, are names alone."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self)}>"

    def __or__(self, other: Mapping[str, str]) -> Settings:  # type: ignore[override]
        return Settings({**self, **other})

    def only(self, names: Container[str]) -> Settings:
        """Leave out all but these."""
        return Settings({name: self[name] for name in self if name in names})
