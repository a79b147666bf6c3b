"""How a client waits: in the calling thread, or on the event loop.

Logic that a blocking class and its asyncio counterpart share is written once, as a coroutine that waits with `self._wait`.
The asyncio class awaits that coroutine. The blocking class passes it to `run`: there `_wait` blocks the thread instead of
suspending, so the coroutine finishes in one step. Calls for single records do not take this path, because it costs a
coroutine a call.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from klamm.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from typing_extensions import Self

    from klamm._klamm import Pending

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


def documented_by(blocking: type) -> Callable[[C], C]:
    """Return a class decorator that copies missing docstrings of methods from the blocking class.

    `help()` is complete for both classes this way, and the text exists once.
    """

    def document(cls: C) -> C:
        for name, method in vars(cls).items():
            if not name.startswith("_") and callable(method) and method.__doc__ is None:
                method.__doc__ = getattr(blocking, name).__doc__
        return cls

    return document


class Waiting:
    """What `Blocking` and `Asyncio` have in common."""

    async def _wait(self, pending: Pending[T], timeout: float | None = None) -> T:
        """Return the result of a call of the core. Without a timeout in seconds, wait without limit."""
        raise NotImplementedError

    async def _end(self, timeout: float | None, processed: bool | None) -> None:
        """Close the client. `processed` says whether the application is done with the last record that it received."""
        raise NotImplementedError

    async def _exit(self, kind: type[BaseException] | None) -> None:
        # After a normal end the last record was processed, too. An exception may be about any record.
        if kind is None:
            await self._end(None, True)
        else:
            with suppress(KafkaError):  # the exception that ends the block matters more
                await self._end(close_timeout(kind), False)


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

    async def _wait(self, pending: Pending[T], timeout: float | None = None) -> T:
        return await pending.within(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(kind)


def close_timeout(kind: type[BaseException]) -> float | None:
    """Return how long to wait for a close after an exception: not at all after an interrupt such as Ctrl+C."""
    return None if issubclass(kind, Exception) else 0
