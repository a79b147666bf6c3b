"""Bounds the time of a whole blocking HTTP request.

The timeouts of the HTTP library apply to each read. A server that sends a header or a byte of the body now and then
never exceeds them. This module therefore shortens the timeout of each read, write and connect to the time that is left.
On asyncio, a request can be cancelled instead.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Deadline(threading.local):
    at = float("inf")


_deadline = _Deadline()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Return a context manager in which the requests of this thread end after some seconds."""
    _deadline.at = time.monotonic() + seconds
    try:
        yield
    finally:
        _deadline.at = float("inf")


def bounded(client: Any) -> Any:
    """Make the connections of a blocking client of httpx2 end at the deadline of the thread. Return the client."""
    # The library passes a network backend to its pools, but has no argument for it.
    for transport in (client._transport, *client._mounts.values()):  # noqa: SLF001
        pool = getattr(transport, "_pool", None)
        if pool is not None:
            pool._network_backend = _Backend(pool._network_backend)  # noqa: SLF001
    return client


def _left(timeout: float | None, late: str) -> float:
    import httpcore2

    seconds = _deadline.at - time.monotonic()
    if seconds <= 0:
        raise getattr(httpcore2, late)
    return seconds if timeout is None else min(timeout, seconds)


class _Backend:
    """Opens connections."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _Stream:
        return _Stream(self._backend.connect_tcp(host, port, timeout=_left(timeout, "ConnectTimeout"), **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class _Stream:
    """A connection, with or without TLS."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = self._stream.read(max_bytes, _left(timeout, "ReadTimeout"))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(timeout, "WriteTimeout"))

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, _left(timeout, "ConnectTimeout")))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
