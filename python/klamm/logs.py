"""Writes the log lines of klamm's clients to Python's `logging`.

The core puts log lines into a bounded queue without taking the GIL. One daemon thread for all clients of the process
reads the queue and calls the loggers. The thread starts when the program uses the first client. After a fork, the child
process gets a queue and a thread of its own.

Log lines go to children of the logger `klamm`, such as `klamm.group`, or to the client's own logger. The core knows the
level of each logger. Therefore, a log line below the logger's level costs only one comparison.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klamm._klamm import ErrorQueue, LogQueue, LogTarget, log_components, set_log_level
from klamm.errors import ArgumentError
from klamm.threads import start_daemon

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm._klamm import LogLine

COMPONENTS = log_components()
LOGGER = logging.getLogger("klamm")
LOGGERS = [LOGGER.getChild(name) for name in COMPONENTS]

FLUSH_SECONDS = 2.0
"""Longest wait for a slow logger at the end of the program, in seconds."""

OFF = logging.CRITICAL + 1


class _Levels(dict[int, bool]):
    """Cache of the logger `klamm`. `logging` clears the cache whenever the level of any logger changes."""

    def clear(self) -> None:
        super().clear()
        refresh_levels()


class _Process:
    """The state that all clients of this process share."""

    def __init__(self) -> None:
        self.queue = LogQueue()
        self.targets: weakref.WeakSet[LogTarget] = weakref.WeakSet()
        self.debugs = False
        self.lock = threading.RLock()
        self.refused: set[int] = set()
        self.threads: list[tuple[LogQueue | ErrorQueue, threading.Thread]] = []


_process = _Process()


def target(logger: Any, on_error: Callable[[Exception], object] | None, debugs: bool) -> LogTarget:
    """Create the log target of a new client, which writes to `logger` or else to children of the logger `klamm`.

    A client with `on_error` gets a separate thread that calls `on_error`. An `on_error` that blocks therefore does not
    stop other clients.
    """
    if logger is not None and not all(callable(getattr(logger, name, None)) for name in ("log", "isEnabledFor")):
        raise ArgumentError(
            f"logger has to be a logging.Logger, not {type(logger).__name__}",
            hint="pass logging.getLogger(...), or an object with its methods log and isEnabledFor",
        )
    errors = None
    if on_error is not None:
        errors = ErrorQueue()
        _start("klamm-on-error", _call, errors, on_error)
    made = LogTarget(_process.queue, LOGGERS if logger is None else [logger] * len(COMPONENTS), errors)
    with _process.lock:
        _process.targets.add(made)
        _process.debugs |= debugs
    refresh_levels()
    return made


def refresh_levels() -> None:
    """Pass the current levels of all loggers to the core."""
    with _process.lock:
        lowest = logging.DEBUG if _process.debugs else OFF
        for each in list(_process.targets):
            levels = [_level(logger) for logger in each.loggers]
            each.set_levels(levels)
            lowest = min(lowest, *levels)
        set_log_level(lowest)


def _level(logger: Any) -> int:
    if hasattr(logger, "getEffectiveLevel"):
        # `isEnabledFor` fills a cache, and this function may run while `logging` clears its caches.
        disabled = logging.root.manager.disable
        level: int = max(logger.getEffectiveLevel(), disabled + 1 if disabled else 0)
        return level
    return next((level for level in (10, 20, 30, 40) if logger.isEnabledFor(level)), OFF)


def start_drain() -> None:
    """Start the thread that writes the log lines of this process."""
    _start("klamm-logs", _drain, _process.queue)


def _start(name: str, function: Callable[..., object], queue: LogQueue | ErrorQueue, *args: Any) -> None:
    thread = start_daemon(name, function, queue, *args)
    if thread is not None:
        with _process.lock:
            _process.threads = [(each, other) for each, other in _process.threads if other.is_alive()]
            _process.threads.append((queue, thread))


def dump_flights(directory: str | os.PathLike[str]) -> list[Path]:
    """Write the flight recorder of each client in this process to a separate file, and return the paths.

    Only you can read the files.
    """
    written = []
    for number, each in enumerate(list(_process.targets)):
        path = Path(directory) / f"klamm-{os.getpid()}-{number}.flight"
        if each.dump_flight(path):
            written.append(path)
    return written


def dump_flights_on(signal_number: int, directory: str | os.PathLike[str] = ".") -> None:
    """Write the flight recorders of all clients when this process gets a signal, such as `signal.SIGUSR2`.

    Only the main thread may call `dump_flights_on`. The previous handler of the signal also runs.
    """
    import signal

    before = signal.getsignal(signal_number)

    def handle(number: int, frame: Any) -> None:
        dump_flights(directory)
        if callable(before):
            before(number, frame)

    signal.signal(signal_number, handle)


def flush(seconds: float = FLUSH_SECONDS) -> bool:
    """Wait until all log lines so far are written, but at most `seconds`. Return whether all lines are written."""
    return _process.queue.flush(seconds)


def _drain(queue: LogQueue) -> None:
    while (taken := queue.take()) is not None:
        lines, dropped = taken
        for line in lines:
            _write(line)
        if dropped:
            text = f"{dropped} log lines were dropped, because the loggers took longer than the clients"
            _guarded(LOGGER, LOGGER.warning, text)


def _write(line: LogLine) -> None:
    logger = line.loggers[line.component]
    fields = {name: getattr(line, name) for name in ("client_id", "broker", "topic", "partition")}
    if isinstance(logger, logging.Logger):
        _guarded(logger, _handle, logger, line, fields)
    else:
        _guarded(logger, logger.log, line.level, line.text, extra=fields)


def _handle(logger: logging.Logger, line: LogLine, fields: dict[str, Any]) -> None:
    if line.is_demanded or logger.isEnabledFor(line.level):
        component = COMPONENTS[line.component]
        record = logger.makeRecord(logger.name, line.level, __file__, 0, line.text, (), None, component, fields)
        record.relativeCreated += (line.created - record.created) * 1000
        record.created, record.msecs = line.created, float(int(line.created % 1 * 1000))
        logger.handle(record)


def _guarded(logger: Any, call: Any, *args: Any, **named: Any) -> None:
    """Call a logger or callback.

    Catch all exceptions, so that the thread continues, and report only the first exception of each logger or callback.
    """
    try:
        call(*args, **named)
    except BaseException as error:  # noqa: BLE001 - a logger may raise anything, and the client continues
        if id(logger) not in _process.refused:
            _process.refused.add(id(logger))
            _say(f"klamm: {logger!r} raised {error!r}; the client continues and does not report this again")


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")


def _call(errors: ErrorQueue, on_error: Callable[[Exception], object]) -> None:
    while (error := errors.take()) is not None:
        _guarded(on_error, on_error, error)


def _end() -> None:
    """Write the last log lines, and end the threads.

    A thread that waits in the core must not outlive the interpreter.
    """
    end = time.monotonic() + FLUSH_SECONDS
    for queue, _ in _process.threads:
        queue.close()
    for _, thread in _process.threads:
        thread.join(max(0.0, end - time.monotonic()))


def _after_fork() -> None:
    """Create new state in a forked child, where the queue may be locked and the parent's thread does not exist."""
    global _process  # noqa: PLW0603
    _process = _Process()


LOGGER._cache = _Levels()  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public notification of a new level
atexit.register(_end)
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)
