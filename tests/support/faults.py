"""Faulty peers: servers that answer nonsense, and a proxy that damages or cuts the responses of a real broker."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

HTTP_ANSWER = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request"
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x46"  # protocol_version, fatal: what TLS servers say to plain text


@contextmanager
def server(answer: bytes | None, *, hold: bool = False) -> Iterator[str]:
    """Listen, answer any request and close the connection, or never answer and keep it open."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_ones: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                open_ones.append(connection)
                if hold:
                    continue
                with suppress(OSError):
                    connection.recv(4096)
                    if answer:
                        connection.sendall(answer)
                connection.close()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        _hang_up(listener)
        for connection in open_ones:
            connection.close()
        thread.join(10)


@contextmanager
def closed_port() -> Iterator[str]:
    """Return an address without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


class Proxy:
    """A proxy between clients and a broker with one node. It replaces the broker's port by its own and passes all
    responses through `fault`, which may change them or raise `Cut`. Like a broker, it closes the connection at a request
    of more than `max_request` bytes.
    """

    def __init__(self, broker: str, fault: Callable[[bytes], bytes] = bytes, *, max_request: int | None = None) -> None:
        host, port = broker.rsplit(":", 1)
        self._broker = (host, int(port))
        self.fault = fault
        self._max_request = max_request
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        self._pairs: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.die()

    def die(self) -> None:
        """Close all connections and accept no more."""
        _hang_up(self._listener)
        for connection in self._pairs:
            _hang_up(connection)
        self._accepting.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._broker)
                self._pairs += [client, broker]
                threading.Thread(target=self._pump, args=(client, broker, self._limit()), daemon=True).start()
                threading.Thread(target=self._pump, args=(broker, client, self._damage), daemon=True).start()

    def _limit(self) -> Callable[[bytes], bytes]:
        left = 0

        def admit(data: bytes) -> bytes:
            nonlocal left
            at = 0
            while at < len(data):
                if left == 0:
                    left = 4 + int.from_bytes(data[at : at + 4], "big")
                    if self._max_request is not None and left > self._max_request:
                        raise Cut(b"")
                step = min(left, len(data) - at)
                left, at = left - step, at + step
            return data

        return admit

    def _damage(self, data: bytes) -> bytes:
        named = self._broker[1].to_bytes(4, "big")
        return self.fault(data.replace(b"127.0.0.1" + named, b"127.0.0.1" + self.port.to_bytes(4, "big")))

    def _pump(self, source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes]) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 20):
                try:
                    target.sendall(change(data))
                except Cut as cut:
                    target.sendall(cut.last_words)
                    break
        _hang_up(source)
        _hang_up(target)


class Cut(Exception):  # noqa: N818 - an instruction, not an error
    """Sends these bytes and closes the connection."""

    def __init__(self, last_words: bytes) -> None:
        self.last_words = last_words


def _hang_up(connection: socket.socket) -> None:
    # Closing alone leaves another thread's `accept` or `recv` waiting.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
