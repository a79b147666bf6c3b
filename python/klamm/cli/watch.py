"""Prints a message within a second if no broker can be reached, while the clients of a command keep retrying.

Clients retry in silence until their timeout. While the clients retry, a thread tries plain TCP connections to the
bootstrap addresses, and prints the first failure. On a terminal, the thread shows a spinner until an address accepts a
connection. When an address has accepted a connection, the thread stops, because the clients report all later errors.
This module also prints warnings that the clients log, and the same warning at most once in ten minutes. While the
thread runs, the module prints no warnings about connections.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from contextlib import contextmanager
from itertools import cycle
from time import monotonic
from typing import TYPE_CHECKING

from klamm.cli.color import print_warning
from klamm.cli.output import one_line
from klamm.cli.terminal import unescaped

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_TRY = 0.3
"""Seconds that the thread waits before it tries to connect. Most commands take less time."""
CONNECT_SECONDS = 0.3
PAUSE = 1.0
DEFAULT_PORT = 9092
FRAME = 0.1
SHOWN = {"klamm.network", "klamm.group", "klamm.consumer", "klamm.share", "klamm.registry"}
"""The loggers whose warnings are printed.

For warnings of all other loggers, the command itself fails with the logged error.
"""
AGAIN_SECONDS = 600.0
"""Time until a warning is printed again. The clients log a problem that lasts several times."""
FLUSH_SECONDS = 0.5
"""At the end, wait at most this long for warnings that are not printed yet."""


class Warnings(logging.Handler):
    """Prints the warnings of the clients, except for connection failures while the connection thread runs."""

    def __init__(self, thread: threading.Thread) -> None:
        super().__init__()
        self.thread = thread
        self.printed: dict[str, float] = {}
        """Maps each line of the last ten minutes to the time when it was printed."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the warning on one line, unless the same line was printed a short time ago."""
        said_by_thread = record.name == "klamm.network" and self.thread.is_alive()
        if record.name not in SHOWN or said_by_thread:
            return
        line = one_line(f"{record.levelname.lower()}: {record.getMessage()}")
        self.printed = {text: time for text, time in self.printed.items() if record.created < time + AGAIN_SECONDS}
        if line not in self.printed:
            self.printed[line] = record.created
            print_warning(line)


@contextmanager
def watching(bootstrap: str) -> Iterator[None]:
    """In the block, try connections to the addresses in a thread, and print the warnings of the clients."""
    stop = threading.Event()
    thread = threading.Thread(target=watch, args=(bootstrap, stop), daemon=True, name="klamm-connection-watch")
    warnings = Warnings(thread)
    logging.getLogger("klamm").addHandler(warnings)
    thread.start()
    try:
        yield
    finally:
        if (logs := sys.modules.get("klamm.logs")) is not None:
            logs.flush(FLUSH_SECONDS)
        logging.getLogger("klamm").removeHandler(warnings)
        stop.set()
        # The thread may be in the middle of a spinner's frame.
        thread.join(FRAME)


def watch(bootstrap: str, stop: threading.Event) -> None:
    """Try connections until one of the addresses accepts. Print the first failure."""
    printed = None
    pause = FIRST_TRY
    while not wait(stop, pause, printed):
        pause = PAUSE
        failure = first_failure(bootstrap)
        if failure is None or stop.is_set():
            return
        if printed is None:
            print_warning(f"{failure}; retrying")
        printed = failure


def wait(stop: threading.Event, seconds: float, text: str | None) -> bool:
    """Wait some seconds, and return whether the command has ended.

    Show a spinner if a connection failed before (`text` is the failure) and standard error is a terminal.
    """
    if text is None or not sys.stderr.isatty():
        return stop.wait(seconds)
    frames = cycle("|/-\\")
    for _ in range(round(seconds / FRAME)):
        print(f"\r{next(frames)} waiting for a broker", end="", file=unescaped(sys.stderr), flush=True)
        if stop.wait(FRAME):
            break
    print("\r\033[K", end="", file=unescaped(sys.stderr), flush=True)
    return stop.is_set()


def first_failure(bootstrap: str) -> str | None:
    """Return why no connection to the first address is possible, or None if any address accepts a connection."""
    addresses = [each.strip() for each in bootstrap.split(",") if each.strip()]
    failures = {address: f"cannot connect to {address}: no answer yet" for address in addresses}
    accepted = threading.Event()
    threads = [
        threading.Thread(target=connect, args=(address, failures, accepted), daemon=True) for address in addresses
    ]
    for thread in threads:
        thread.start()
    end = monotonic() + CONNECT_SECONDS
    for thread in threads:
        thread.join(max(0.0, end - monotonic()))
    return None if accepted.is_set() or not failures else failures[addresses[0]]


def connect(address: str, failures: dict[str, str], accepted: threading.Event) -> None:
    """Connect to an address. Store a failure in `failures`, or set `accepted` after a success."""
    try:
        socket.create_connection(split_address(address), CONNECT_SECONDS).close()
    except TimeoutError:
        pass
    except OSError as error:
        failures[address] = f"cannot connect to {address}: {error.strerror or error}"
    except (ValueError, OverflowError):
        accepted.set()  # the client refuses this address with a better message
    else:
        accepted.set()


def split_address(address: str) -> tuple[str, int]:
    """Return the host and the port of a bootstrap address. A protocol is ignored, and a missing port is 9092."""
    rest = address.rpartition("://")[2]
    host, colon, port = rest.rpartition(":")
    if not colon or rest.endswith("]"):
        return rest.strip("[]"), DEFAULT_PORT
    return host.strip("[]"), int(port)
