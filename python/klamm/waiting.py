"""Waits for results, either in the calling thread or on the event loop.

A coroutine that waits with `self._wait` contains the logic that a blocking class and its asyncio counterpart share. The
asyncio class awaits the coroutine. The blocking class passes the coroutine to `run`. In a blocking class, `_wait`
blocks the thread and never suspends, so the coroutine finishes in one step. Methods for single records do not use
`run`, because each call would create a coroutine.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from klamm.errors import ConfigError, KafkaError
from klamm.hints import ClientType

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from os import PathLike
    from types import TracebackType

    from typing_extensions import Self

    from klamm._klamm import LogTarget, Pending

T = TypeVar("T")
C = TypeVar("C", bound=type)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("the coroutine of a blocking client suspended")


def error_in_flight() -> BaseException | None:
    """Return the exception that the program is handling.

    In a function that `atexit` calls, return the exception that ended the program.
    """
    error = sys.exc_info()[1]
    if error is None and not threading.main_thread().is_alive():
        return getattr(sys, "last_value", None)
    return error


@contextmanager
def not_end_of_loop() -> Iterator[None]:
    """Raise `RuntimeError` if the user's code raises `StopAsyncIteration`, which would end the program's `async for`.

    Python itself does the same with `StopIteration` in coroutines (PEP 479).
    """
    try:
        yield
    except StopAsyncIteration as error:
        raise RuntimeError("a listener, callback or deserializer raised StopAsyncIteration in a loop") from error


def call_on_loop(call: Callable[[], None]) -> Callable[[object], None]:
    """Return a callback that makes the running event loop call a function. Any thread may call the callback."""
    import asyncio

    loop = asyncio.get_running_loop()

    def schedule(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(call)

    return schedule


def documented_by(blocking: type) -> Callable[[C], C]:
    """Return a class decorator that copies missing docstrings of methods from the blocking class.

    The decorator makes `help()` complete for both classes, although each docstring exists once.
    """

    def document(cls: C) -> C:
        for name, method in vars(cls).items():
            if not name.startswith("_") and callable(method) and method.__doc__ is None:
                method.__doc__ = getattr(blocking, name).__doc__
        return cls

    return document


class Waiting(metaclass=ClientType):
    """The base class of `Blocking` and `Asyncio`."""

    _close_timeout: float
    """Longest time that closing the client may take after an exception, in seconds."""

    if TYPE_CHECKING:

        @property
        def _log_target(self) -> LogTarget:
            """The object to which the client writes its log lines and flight recorder entries."""

    def dump_flight(self, path: str | PathLike[str]) -> None:
        """Write this client's last requests, responses and state changes to a file that only you can read.

        The dump has sizes, checksums and error codes, but no credentials. With `flight_recorder_values`, the dump also
        has keys and values. `klamm decode --flight FILE` prints the dump, and `DevBroker.replay` replays the dump in a
        test.

        Args:
            path: Path of the file to write. `dump_flight` replaces an existing file or symbolic link.

        Raises:
            ConfigError: `flight_recorder_bytes` is 0, or the client has not been used yet.
            OSError: The file cannot be written.
        """
        if not self._log_target.dump_flight(path):
            raise ConfigError(
                "the flight recorder is empty: it is off, or the client has not been used yet",
                hint="use the client first, and remove flight_recorder_bytes=0",
            )

    async def _wait(self, pending: Pending[T], timeout: float | None = None) -> T:
        """Wait for the result of a call to the core, and return the result.

        `timeout` is in seconds. None means no limit.
        """
        raise NotImplementedError

    async def _end(self, timeout: float | None, processed: bool | None) -> None:
        """Close the client.

        `processed` says whether the application has processed the last record that it received.
        """
        raise NotImplementedError

    async def _exit(self, kind: type[BaseException] | None) -> None:
        # If the block ended normally, the program has processed the last record. An exception may be about any record.
        if kind is None:
            await self._end(None, True)
        else:
            with suppress(KafkaError):  # the exception that ends the block takes precedence
                await self._end(self._close_timeout, False)


class Blocking(Waiting):
    """A client that waits in the calling thread."""

    async def _wait(self, pending: Pending[T], timeout: float | None = None) -> T:
        return pending.result(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(self._exit(kind))


class Asyncio(Waiting):
    """A client that waits on the event loop."""

    if TYPE_CHECKING:

        def _hurry(self, seconds: float) -> None:
            """Limit how many more seconds a close in another thread can continue."""

    async def _wait(self, pending: Pending[T], timeout: float | None = None) -> T:
        return await pending.within(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(kind)

    async def _close_in_thread(self, close: Callable[..., None], timeout: float | None, *more: object) -> None:
        """Run a method that closes the client in a separate thread, because the method waits for brokers.

        After a cancellation of this coroutine, a close with a `timeout` of at most `close_timeout` ends at once. A
        close with a longer `timeout` continues in its thread for at most `close_timeout`.
        """
        import asyncio

        try:
            await asyncio.to_thread(close, timeout, *more)
        except asyncio.CancelledError:
            self._hurry(self._time_after_cancel(timeout))
            raise

    def _time_after_cancel(self, timeout: float | None) -> float:
        """Return how many seconds a close with this timeout may continue after a cancellation."""
        return 0 if timeout is not None and timeout <= self._close_timeout else self._close_timeout
