"""Archives of the classes that a JVM loads (class data sharing, JEP 350): with one, Spark and Kafka start in half the time."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from locked import locked

if TYPE_CHECKING:
    from collections.abc import Callable

_FOLDER = Path(__file__).parents[2] / "target" / "class-archives"


def archive_options(name: str, java: str, jars: Path, dump: Callable[[str], None]) -> list[str]:
    """Return the options with which a JVM uses the archive of `name`, and make the archive if there is none.

    Args:
        name: What is started, and its version.
        java: The JVM's executable.
        jars: The directory of the class path. An archive is valid for these files and this JVM only.
        dump: Starts the program with the given option and ends it, which writes the archive.
    """
    executable = Path(java).resolve()
    valid_for = [executable, executable.stat().st_mtime, jars, jars.stat().st_mtime]
    archive = _FOLDER / f"{name}-{hashlib.sha256(repr(valid_for).encode()).hexdigest()[:12]}.jsa"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with locked(_FOLDER / f"{name}.lock"):
        if not archive.exists():
            for stale in _FOLDER.glob(f"{name}-*.jsa"):
                stale.unlink()
            new = archive.with_suffix(".new")
            new.unlink(missing_ok=True)  # of a run that was killed
            dump(f"-XX:ArchiveClassesAtExit={new}")
            # A JVM ignores an empty archive. So a JVM that makes none is asked only once.
            new.touch()
            new.rename(archive)
    # The JVM writes its warnings, also those about archives, to the standard output, where programs are read.
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr"]
