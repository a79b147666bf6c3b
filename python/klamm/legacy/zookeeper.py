"""What brokers and consumers of Kafka 0.7 keep in ZooKeeper, through kazoo.

    /brokers/ids/N                  ephemeral    creator:host:port
    /brokers/topics/T/N             ephemeral    how many partitions of T broker N has
    /consumers/G/ids/C              ephemeral    what consumer C reads
    /consumers/G/owners/T/N-P       ephemeral    the stream that reads partition P of T on broker N
    /consumers/G/offsets/T/N-P      persistent   where it is read on

All parents are persistent and have no data. Brokers from 0.8 on have groups with the same offsets, by partition alone.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from klamm.errors import ConfigError, DecodeError, NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from typing_extensions import Self

    from klamm.record import TopicPartition

SESSION_TIMEOUT = 6.0  # Kafka's zk.sessiontimeout.ms


def connect(hosts: str, timeout: float | None, session_timeout: float = SESSION_TIMEOUT, **options: Any) -> Any:
    """Return a kazoo client that is connected."""
    try:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as error:
        raise ConfigError("this needs kazoo to talk to ZooKeeper", hint="pip install klamm[zookeeper]") from error
    client = KazooClient(hosts, timeout=session_timeout, **options)
    try:
        client.start(3600.0 if timeout is None else timeout)
    except KazooTimeoutError as error:
        client.close()
        raise NetworkError(
            f"could not connect to ZooKeeper at {hosts} in time", hint="host:port,host:port/chroot"
        ) from error
    return client


def create(client: Any, path: str, data: bytes | None, *, ephemeral: bool) -> None:
    """Create a node with what is missing above it, as Kafka does: parents without data."""
    from kazoo.exceptions import NodeExistsError, NoNodeError

    while True:
        try:
            client.create_async(path, data, ephemeral=ephemeral).get()
        except NoNodeError:
            parent = path.rpartition("/")[0]
            if not parent:
                raise
            with suppress(NodeExistsError):  # somebody else was faster
                create(client, parent, None, ephemeral=False)
        else:
            return


def parse_broker(data: bytes) -> tuple[str, int]:
    """Return the address in a broker's registration, `creator:host:port`, whose creator may have colons of its own."""
    try:
        _, host, port = data.decode().rsplit(":", 2)
        return host, int(port)
    except ValueError as error:
        raise DecodeError(f"{data!r} is no registration of a broker") from error


class Registry:
    """The brokers and partitions of a cluster, kept fresh by watches."""

    def __init__(self, hosts: str, timeout: float | None) -> None:
        self._client = connect(hosts, timeout)
        self._lock = threading.Lock()
        self._known: dict[str, Any] = {}
        self._client.add_listener(lambda state: self._known.clear() if state == "LOST" else None)

    def broker(self, number: int) -> tuple[str, int]:
        """Return a broker's address."""
        path = f"/brokers/ids/{number}"
        found = self._cached(path, self._reading(path))
        if found is None:
            raise NetworkError(f"broker {number} is not registered any more")
        return parse_broker(found)

    def partitions(self, topic: str) -> list[tuple[int, int]]:
        """Return the partitions of a topic, (broker, partition), by number; partition 0 of every broker if it is new."""
        path = f"/brokers/topics/{topic}"
        brokers = self._numbers(path)
        found = []
        for number in brokers:
            place = f"{path}/{number}"
            count = self._cached(place, self._reading(place))
            found += [(number, partition) for partition in range(_count(count))]
        return found or [(number, 0) for number in self._numbers("/brokers/ids")]

    def _numbers(self, path: str) -> list[int]:
        names = self._cached(path, lambda watch: self._client.get_children(path, watch=watch)) or []
        return sorted(int(name) for name in names if name.isdecimal())

    def _reading(self, path: str) -> Callable[[Any], Any]:
        return lambda watch: self._client.get(path, watch=watch)[0]

    def _cached(self, path: str, read: Callable[[Any], Any]) -> Any:
        from kazoo.exceptions import KazooException, NoNodeError

        with self._lock:
            if path in self._known:
                return self._known[path]

            def forget(_: object) -> None:
                self._known.pop(path, None)

            try:
                self._known[path] = found = read(forget)
            except NoNodeError:
                # The watch tells when it comes into being.
                if self._client.exists(path, watch=forget) is None:
                    self._known[path] = None
                return None
            except KazooException as error:
                raise NetworkError(f"ZooKeeper did not tell {path}: {error!r}") from error
            return found

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()


def _count(data: bytes | None) -> int:
    return int(data) if data is not None and data.isdigit() else 0


class ZooKeeperOffsets:
    """The offsets that a group of Kafka 0.8 keeps in ZooKeeper; those of 0.7 are by broker, and bytes.

    with klamm.legacy.ZooKeeperOffsets("zk:2181", "readers") as offsets:
        print(offsets.read())
    """

    def __init__(self, hosts: str, group: str, *, timeout: float | None = 10.0) -> None:
        if not group or "/" in group:
            raise ConfigError(f"a group cannot be called {group!r}")
        self._client = connect(hosts, timeout)
        self._path = f"/consumers/{group}/offsets"

    def read(self) -> dict[TopicPartition, int]:
        """Return the next offset to read of each partition."""
        from klamm.record import TopicPartition

        found = {}
        for topic in self._names(self._path):
            for name in self._names(f"{self._path}/{topic}"):
                data = self._client.get(f"{self._path}/{topic}/{name}")[0] or b""
                if name.isdecimal() and data.strip().isdigit():
                    found[TopicPartition(topic, int(name))] = int(data)
        return found

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the next offset to read of partitions. Members that run overwrite it with their own."""
        from kazoo.exceptions import NoNodeError

        for place, offset in offsets.items():
            path, data = f"{self._path}/{place.topic}/{place.partition}", b"%d" % offset
            try:
                self._client.set(path, data)
            except NoNodeError:
                create(self._client, path, data, ephemeral=False)

    def _names(self, path: str) -> list[str]:
        from kazoo.exceptions import NoNodeError

        try:
            return sorted(self._client.get_children(path))
        except NoNodeError:
            return []

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
