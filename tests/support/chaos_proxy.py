"""A proxy in front of a real broker that causes network faults.

    with ChaosProxy() as proxy:              # has an address before the broker starts, so the broker can advertise it
    proxy.target = "127.0.0.1:9092" proxy.latency = 0.2                  # seconds for each piece, both ways, until it
    is 0 again proxy.cut(reset=True)                # all open connections; new ones are served

The proxy only forwards bytes and knows nothing of Kafka. It cannot refuse a connection whose broker is dead: it accepts
and closes it. It cannot lose packets either, because loopback hides that from programs.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from typing_extensions import Self

TO_BROKER, TO_CLIENT = "to the broker", "to the client"
PIECE = 1 << 16


class Line:
    """A client's connection and the matching one to the broker."""

    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self.writers = list(writers)
        self.is_dead = False

    def end(self, *, reset: bool) -> None:
        for writer in self.writers:
            if reset:
                # Nothing that still waits is sent, and the other end gets an RST for a FIN.
                with suppress(OSError):
                    writer.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )
                writer.transport.abort()
            else:
                writer.close()


class ChaosProxy:
    """Forwards from `address` to `target`. Its attributes are the lasting faults."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._socket = socket.create_server((host, port), backlog=128)
        self.port: int = self._socket.getsockname()[1]
        self.address = f"{host}:{self.port}"
        self.target = ""
        self.latency = 0.0
        self.drip: tuple[int, float] | None = None
        """Bytes to forward at a time, and the pause after them, in seconds."""
        self.silent = False
        """Whether new connections are accepted but their bytes never arrive."""
        self.lateness: Iterator[float] = iter(())
        """Delay of new connections before the proxy serves them, in seconds."""
        self.connections = 0
        self._corruptions: list[tuple[str, bytes, int, threading.Event]] = []
        self._lines: set[Line] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-proxy")

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, sock=self._socket))
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close all connections and accept no more."""
        if self._loop.is_closed():
            return
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self, *, reset: bool = False) -> int:
        """Close all open connections with a FIN or an RST, and return their number."""
        return self._do(self._cut(reset=reset))

    def half_open(self) -> int:
        """Make all open connections silent forever, as if the peer had lost power."""

        async def silence() -> int:
            for line in self._lines:
                line.is_dead = True
            return len(self._lines)

        return self._do(silence())

    def corrupt(self, direction: str, after: bytes = b"", at: int = 0) -> threading.Event:
        """Flip a bit of one byte: the byte `at` bytes after the next `after`, by default the first byte.

        The event is set when that has happened.
        """
        done = threading.Event()
        self._corruptions.append((direction, after, at, done))
        return done

    def heal(self) -> None:
        """End all lasting faults. Silent connections stay silent."""
        self.latency, self.drip, self.silent, self.lateness = 0.0, None, False, iter(())
        self._corruptions.clear()

    def _do(self, task: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result(30)

    async def _cut(self, *, reset: bool) -> int:
        lines = list(self._lines)
        for line in lines:
            line.end(reset=reset)
        return len(lines)

    async def _end(self) -> None:
        self._server.close()
        await self._cut(reset=True)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        line = Line(writer)
        line.is_dead = self.silent
        self._lines.add(line)
        try:
            await asyncio.sleep(next(self.lateness, 0.0))
            await self._join(line, reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one end is gone, or the proxy is
        finally:
            line.end(reset=False)
            self._lines.discard(line)
            self._tasks.discard(task)

    async def _join(self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.target.rsplit(":", 1)
        broker_reader, broker_writer = await asyncio.open_connection(host, int(port))
        line.writers.append(broker_writer)
        pumps = [
            asyncio.ensure_future(self._pump(line, reader, broker_writer, TO_BROKER)),
            asyncio.ensure_future(self._pump(line, broker_reader, writer, TO_CLIENT)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, line: Line, source: asyncio.StreamReader, target: asyncio.StreamWriter, direction: str
    ) -> None:
        while data := await source.read(PIECE):
            if self.latency:
                await asyncio.sleep(self.latency)
            if line.is_dead or self.silent:
                line.is_dead = True  # what was swallowed is missing for good
                continue
            data = self._damaged(data, direction)
            while data:
                size, pause = self.drip or (len(data), 0.0)
                target.write(data[:size])
                await target.drain()
                data = data[size:]
                if pause:
                    await asyncio.sleep(pause)

    def _damaged(self, data: bytes, direction: str) -> bytes:
        for entry in self._corruptions:
            way, after, at, done = entry
            found = data.find(after)
            index = found + len(after) + at
            if way == direction and found >= 0 and 0 <= index < len(data):
                self._corruptions.remove(entry)
                done.set()
                return data[:index] + bytes([data[index] ^ 0x10]) + data[index + 1 :]
        return data
