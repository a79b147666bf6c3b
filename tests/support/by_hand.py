"""Sends single requests to a broker, encoded with `klamm.protocol` only."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any

from klamm import protocol

if TYPE_CHECKING:
    from typing_extensions import Self

    from conftest import Broker


def receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        assert piece, "the broker hung up"
        data += piece
    return data


class Line:
    """A connection to a node."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = socket.create_connection((host, port), timeout=20)

    @classmethod
    def to(cls, broker: Broker) -> Self:
        """Connect to a cluster's first node."""
        host, port = broker.bootstrap_servers.split(",")[0].rsplit(":", 1)
        return cls(host, int(port))

    def close(self) -> None:
        self._connection.close()

    def __call__(self, name: str, version: int, fields: dict[str, Any], correlation: int = 77) -> dict[str, Any]:
        """Send a request, and return the fields of the response."""
        api = next(api for api in protocol.apis() if api.name == name)
        flexible = api.flexible is not None and version >= api.flexible
        header = struct.pack(">hhih", api.key, version, correlation, 4) + b"test" + b"\x00" * flexible
        frame = header + protocol.encode(name, "request", version, fields)
        self._connection.sendall(struct.pack(">i", len(frame)) + frame)
        (length,) = struct.unpack(">i", receive(self._connection, 4))
        answer = receive(self._connection, length)
        assert struct.unpack(">i", answer[:4]) == (correlation,)
        # The answer about versions has the old header, whatever its version.
        skip = 5 if flexible and name != "ApiVersions" else 4
        return protocol.decode(name, "response", version, answer[skip:])
