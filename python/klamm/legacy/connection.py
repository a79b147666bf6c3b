"""Connects to brokers of Kafka 0.6 and 0.7, and checks addresses and timeouts.

On each connection, a broker responds in the order of the requests.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from klamm._klamm import LegacyConnection, encode_request, parse_address
from klamm.errors import ClosedError, ConfigError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self

    from klamm.legacy.messages import Part

_HEADERS_SIZE = 1 << 20  # maximum bytes of a response besides messages: the headers of its parts, or a list of offsets


def address(text: str) -> tuple[str, int]:
    """Parse `host[:port]`, and return host and port. The default port is 9092."""
    if "://" in text:
        # The message does not show the address, because it can contain a password.
        raise ConfigError(
            "the address of a broker of Kafka 0.6 or 0.7 cannot have a protocol",
            hint="write host:port; Kafka before 0.8 has neither TLS nor logins",
        )
    return parse_address(text.strip())


def addresses(brokers: str | Iterable[str]) -> list[tuple[str, int]]:
    """Parse addresses in a list or a comma-separated string, and return host and port of each broker."""
    texts = [text for text in (brokers.split(",") if isinstance(brokers, str) else brokers) if text.strip()]
    if not texts:
        raise ConfigError("the list of brokers is empty", hint="write host:port,host:port")
    return [address(text) for text in texts]


def seconds(name: str, value: float | None) -> float | None:
    """Check that a timeout is positive, and return it."""
    if value is not None and not value > 0:
        raise ConfigError(f"invalid {name} {value}", hint="use a number of seconds above 0, or None to wait forever")
    return value


class Closing:
    """Context manager that closes a client at the end of the block."""

    def close(self) -> None:
        """Close the client."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        with suppress(KafkaError):  # an error of `close` must not replace the exception that ended the block
            self.close()


class Connection:
    """A connection to one broker. The first request opens the connection.

    Only one thread at a time may use a connection. A response may have at most `max_response` bytes of messages.
    """

    def __init__(self, host: str, port: int, timeout: float | None, max_response: int = 0) -> None:
        self.name = f"{host}:{port}"
        self._core = LegacyConnection(host, port, max_response + _HEADERS_SIZE)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._closed = False

    def request(self, request_type: str, parts: list[Part]) -> bytes:
        """Send a request and return the response without its length prefix.

        If the broker has closed the idle connection, this method opens a new connection before it sends the request.
        """
        frame = encode_request({"type": request_type, "parts": parts})  # type: ignore[typeddict-item]
        start = time.monotonic()
        with self._lock:
            self._check()
            self._core.is_open()  # drops the connection if the broker has closed it
            self._core.send(frame, self._timeout)
            remaining = None if self._timeout is None else max(0.0, self._timeout - (time.monotonic() - start))
            return self._core.receive(remaining)

    def send(self, frame: bytes) -> None:
        """Send a request to which the broker does not respond."""
        with self._lock:
            self._check()
            self._core.send(frame, self._timeout)

    def is_open(self) -> bool:
        """Return whether there is a connection that the broker has not closed."""
        with self._lock:
            return self._core.is_open()

    def ask(self, request_type: str, parts: list[Part]) -> None:
        """Send a request. The method `answer` returns the response."""
        self.send(encode_request({"type": request_type, "parts": parts}))  # type: ignore[typeddict-item]

    def answer(self, timeout: float | None) -> bytes:
        """Return the next response without its length prefix."""
        with self._lock:
            self._check()
            return self._core.receive(timeout)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._closed = True
            self._core.close()

    def abort(self) -> None:
        """Close the connection. The requests of other threads that are in flight fail."""
        self._closed = True
        self._core.close()

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("this client is closed", hint="create a new client")
