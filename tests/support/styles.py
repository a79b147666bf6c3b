"""Runs one test in both styles: blocking and asyncio classes behind the same plain calls.

    def test_something(style, broker):
        with style.producer(broker.bootstrap_servers) as producer:
            assert producer.send("t", b"v").offset == 0

A `Driven` client has the methods of the real client. It waits for deliveries, coroutines and asynchronous iterators.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import klamm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

WAIT_S = 20


class Style:
    """A style: how to create and call clients."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._loop = asyncio.new_event_loop() if name == "async" else None

    def producer(self, *args: Any, **config: Any) -> Driven:
        return Driven(self, klamm.AsyncProducer if self._loop else klamm.Producer, args, config)

    def consumer(self, *args: Any, **config: Any) -> Driven:
        return Driven(self, klamm.AsyncConsumer if self._loop else klamm.Consumer, args, config)

    def share_consumer(self, *args: Any, **config: Any) -> Driven:
        return Driven(self, klamm.AsyncShareConsumer if self._loop else klamm.ShareConsumer, args, config)

    def admin(self, *args: Any, **config: Any) -> Driven:
        return Driven(self, klamm.AsyncAdmin if self._loop else klamm.Admin, args, config)

    def run(self, method: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call a method and return its result. A method of an asynchronous client runs in its event loop."""
        if self._loop is None:
            return method(*args, **keywords)

        async def call() -> list[Any]:
            return [method(*args, **keywords)]

        return self._loop.run_until_complete(call())[0]

    def wait(self, result: Any) -> Any:
        """Wait for the result of a call."""
        if self._loop is None:
            return result.result(WAIT_S) if isinstance(result, klamm.Delivery) else result
        if inspect.isawaitable(result):
            return self._loop.run_until_complete(asyncio.wait_for(result, WAIT_S))
        return result

    def iterate(self, items: Any) -> Iterator[Any]:
        """Iterate over a blocking or an asynchronous iterator."""
        if self._loop is None or not hasattr(items, "__aiter__"):
            yield from items
            return
        walk = aiter_(items)
        while True:
            try:
                yield self.wait(walk.__anext__())
            except StopAsyncIteration:
                return

    def close(self) -> None:
        if self._loop is not None:
            self._loop.close()


class Driven:
    """A client whose calls wait for their results."""

    def __init__(self, style: Style, kind: type, args: tuple[Any, ...], config: dict[str, Any]) -> None:
        self._style = style
        self.client = kind(*args, **config)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)

        def call(*args: Any, **keywords: Any) -> Any:
            result = self._style.run(method, *args, **keywords)
            if name == "send_nowait":
                return result  # what may be awaited later is not awaited now
            if hasattr(result, "__anext__") or inspect.isgenerator(result):
                return self._style.iterate(result)
            return self._style.wait(result)

        return call

    def __iter__(self) -> Iterator[Any]:
        return self._style.iterate(self.client)

    def __enter__(self) -> Self:
        enter = getattr(self.client, "__aenter__", None) or self.client.__enter__
        self._style.wait(enter())
        return self

    def __exit__(self, *error: object) -> None:
        leave = getattr(self.client, "__aexit__", None) or self.client.__exit__
        self._style.wait(leave(*error))


def aiter_(items: Any) -> Any:
    return items.__aiter__()
