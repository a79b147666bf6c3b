"""Running the command `klamm` as users do: a process of its own, its output read from pipes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

KLAMM = (sys.executable, "-m", "klamm")


def klamm(*arguments: str, stdin: bytes = b"", timeout: float = 60) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    return subprocess.run([*KLAMM, *arguments], input=stdin, capture_output=True, timeout=timeout, check=False)


@contextmanager
def started(*arguments: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command with pipes to all three streams; kill it if it is still there at the end."""
    process = subprocess.Popen(
        [*KLAMM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def interrupt(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGINT) -> tuple[int, float, bytes]:
    """Send a signal; return the exit code, the seconds until it came, and what was printed to standard error."""
    before = time.monotonic()
    process.send_signal(number)
    code = process.wait(timeout=30)
    seconds = time.monotonic() - before
    return code, seconds, process.stderr.read() if process.stderr else b""
