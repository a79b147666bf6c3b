"""Connections to brokers of Kafka 0.6 and 0.7, whose answers come in the order of the requests."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from klamm._klamm import LegacyConnection, encode_request
from klamm.errors import ClosedError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from klamm.legacy import Part

PORT = 9092
_HEADERS = 1 << 20  # of an answer's parts, and the longest list of offsets


def address(text: str) -> tuple[str, int]:
    """Return host and port; the port is 9092 if none is named."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or host.endswith(":") or port.endswith("]"):
        host, port = text.strip(), str(PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ConfigError(f"{text!r} is no address of a broker", hint="write host:port")
    return host, int(port)


def addresses(brokers: str | Iterable[str]) -> list[tuple[str, int]]:
    """Return the hosts and ports of a list, or of a text with commas."""
    listed = [text for text in (brokers.split(",") if isinstance(brokers, str) else brokers) if text.strip()]
    if not listed:
        raise ConfigError("no broker is named", hint="write host:port,host:port")
    return [address(text) for text in listed]


def seconds(name: str, value: float | None) -> float | None:
    """Check a timeout."""
    if value is not None and not value > 0:
        raise ConfigError(f"{name} cannot be {value}, only a number of seconds above 0, or None to wait for ever")
    return value


class Connection:
    """One broker, connected to when it is first needed. Threads take turns; answers have at most `max_answer` bytes of messages."""

    def __init__(self, host: str, port: int, timeout: float | None, max_answer: int = 0) -> None:
        self.name = f"{host}:{port}"
        self._core = LegacyConnection(host, port, max_answer + _HEADERS)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._closed = False

    def ask(self, kind: str, parts: list[Part]) -> bytes:
        """Return the answer to a request, without its length.

        Nothing here changes a broker, so a connection that broke while nobody looked is made anew once.
        """
        frame = encode_request({"type": kind, "parts": parts})  # type: ignore[typeddict-item]
        start = time.monotonic()
        with self._lock:
            self._check()
            self._core.is_open()  # closes what the broker has closed
            self._core.send(frame, self._timeout)
            left = None if self._timeout is None else max(0.0, self._timeout - (time.monotonic() - start))
            return self._core.receive(left)

    def tell(self, frame: bytes) -> None:
        """Write a request that has no answer."""
        with self._lock:
            self._check()
            self._core.send(frame, self._timeout)

    def is_open(self) -> bool:
        """Whether there is a connection that the broker has not closed."""
        with self._lock:
            return self._core.is_open()

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._closed = True
            self._core.close()

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("this client is closed", hint="make a new one")
