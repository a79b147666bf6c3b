"""Locks between processes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is created if it is missing."""
    import fcntl  # Windows has no such module, and conftest.py imports this file there as well

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
