"""Runs the command `klamm` in a pseudo-terminal, and reads the screen as a person would."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import pyte

from cli_process import KLAMM

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from typing_extensions import Self


class Terminal:
    """A command in a terminal. Use it as a context manager, which kills the command at the end."""

    def __init__(self, *arguments: str, columns: int = 100, rows: int = 24, env: dict[str, str] | None = None) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self._master, slave = pty.openpty()
        # A poller has no limit on the numbers of descriptors, unlike `select.select`.
        self._ready = select.poll()
        self._ready.register(self._master, select.POLLIN)
        self._size(rows, columns)
        # pytest-xdist sets these for its workers. They would hide the size of this terminal.
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [*KLAMM, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**inherited, "TERM": "xterm-256color", **(env or {})},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one system call, no locks
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal, which sends SIGWINCH to the command."""
        self._screen.resize(rows, columns)
        self._size(rows, columns)

    def type(self, text: str) -> None:
        """Type keys. "\\x03" is Ctrl+C."""
        os.write(self._master, text.encode())

    @property
    def lines(self) -> list[str]:
        """The lines on the screen that are not empty."""
        return [line.rstrip() for line in self._screen.display if line.strip()]

    def until(self, is_done: Callable[[list[str]], bool], seconds: float = 30) -> list[str]:
        """Read until the screen fulfils a condition, and return its lines."""
        end = time.monotonic() + seconds
        while not is_done(self.lines):
            assert time.monotonic() < end, f"the screen is {self.lines}"
            if not self._read(0.1) and self.process.poll() is not None:
                assert is_done(self.lines), f"the command ended, and the screen is {self.lines}"
        return self.lines

    def end(self, seconds: float = 30) -> int:
        """Read until the command ends, and return its exit code."""
        end = time.monotonic() + seconds
        while self._read(0.1) or self.process.poll() is None:
            assert time.monotonic() < end, f"the screen is {self.lines}"
        return self.process.wait()

    def interrupt(self) -> float:
        """Type Ctrl+C, and return the seconds until the command ends."""
        before = time.monotonic()
        self.type("\x03")
        self.end()
        return time.monotonic() - before

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the command."""
        self.process.send_signal(number)

    def _read(self, seconds: float) -> bool:
        if not self._ready.poll(seconds * 1000):
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # the command has ended
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)
