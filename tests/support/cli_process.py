"""Runs the command `klamm` in a separate process and reads its output from pipes."""

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
    """Run a command until it ends."""
    return subprocess.run([*KLAMM, *arguments], input=stdin, capture_output=True, timeout=timeout, check=False)


@contextmanager
def started(*arguments: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command with pipes for all three streams, and kill it at the end if it still runs."""
    process = subprocess.Popen(
        [*KLAMM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def interrupt(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGINT) -> tuple[int, float, bytes]:
    """Send a signal. Return the exit code, the seconds until the exit, and the text on standard error."""
    before = time.monotonic()
    process.send_signal(number)
    code = process.wait(timeout=30)
    seconds = time.monotonic() - before
    return code, seconds, process.stderr.read() if process.stderr else b""
