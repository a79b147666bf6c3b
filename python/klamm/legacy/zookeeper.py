"""Reads and writes the data that brokers and consumers of Kafka 0.7 keep in ZooKeeper, through kazoo.

| path | node | data |
|---|---|---|
| /brokers/ids/N | ephemeral | address of broker N, as creator:host:port |
| /brokers/topics/T/N | ephemeral | number of partitions of topic T on broker N |
| /consumers/G/ids/C | ephemeral | topics that consumer C of group G reads |
| /consumers/G/owners/T/N-P | ephemeral | stream that reads partition P of topic T on broker N |
| /consumers/G/offsets/T/N-P | persistent | offset to read next |

Parents are persistent and have no data. Kafka 0.8 has the same paths for offsets, with the partition number alone.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from klamm.errors import ConfigError, DecodeError, NetworkError
from klamm.legacy.connection import Closing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from klamm.record import TopicPartition

SESSION_TIMEOUT = 6.0  # Kafka's zk.sessiontimeout.ms


def connect(hosts: str, timeout: float | None, session_timeout: float = SESSION_TIMEOUT, **options: Any) -> Any:
    """Connect to ZooKeeper and return the kazoo client."""
    try:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as error:
        raise ConfigError(
            "kazoo, the ZooKeeper client, is not installed", hint="pip install klamm[zookeeper]"
        ) from error
    client = KazooClient(hosts, timeout=session_timeout, **options)
    try:
        client.start(3600.0 if timeout is None else timeout)
    except KazooTimeoutError as error:
        client.close()
        raise NetworkError(
            f"could not connect to ZooKeeper at {hosts} in time", hint="check the address: host:port,host:port/chroot"
        ) from error
    return client


def create(client: Any, path: str, data: bytes | None, *, ephemeral: bool) -> None:
    """Create a node and its missing parents, which get no data, as Kafka does."""
    from kazoo.exceptions import NodeExistsError, NoNodeError

    while True:
        try:
            client.create_async(path, data, ephemeral=ephemeral).get()
        except NoNodeError:
            parent = path.rpartition("/")[0]
            if not parent:
                raise
            with suppress(NodeExistsError):  # another client created it first
                create(client, parent, None, ephemeral=False)
        else:
            return


def write(client: Any, path: str, data: bytes) -> None:
    """Set the data of a persistent node, and create the node if it is missing."""
    from kazoo.exceptions import NoNodeError

    try:
        client.set(path, data)
    except NoNodeError:
        create(client, path, data, ephemeral=False)


def check_group(group: str) -> None:
    """Raise if a group id cannot be the name of a ZooKeeper node."""
    if not group or "/" in group:
        raise ConfigError(f"invalid group {group!r}", hint="use a name that is not empty and has no slash")


def parse_broker(data: bytes) -> tuple[str, int]:
    """Return host and port of a broker's registration, `creator:host:port`. The creator may contain colons too."""
    try:
        _, host, port = data.decode().rsplit(":", 2)
        return host, int(port)
    except ValueError as error:
        raise DecodeError(f"invalid registration of a broker in ZooKeeper: {data!r}") from error


class Registry:
    """Cache of a cluster's brokers and partitions; ZooKeeper watches invalidate its entries."""

    def __init__(self, hosts: str, timeout: float | None) -> None:
        self._client = connect(hosts, timeout)
        self._lock = threading.Lock()
        self._known: dict[str, Any] = {}
        self._client.add_listener(lambda state: self._known.clear() if state == "LOST" else None)

    def broker(self, number: int) -> tuple[str, int]:
        """Return host and port of a broker."""
        data = self._data(f"/brokers/ids/{number}")
        if data is None:
            raise NetworkError(f"broker {number} is no longer registered in ZooKeeper")
        return parse_broker(data)

    def partitions(self, topic: str) -> list[tuple[int, int]]:
        """Return the partitions of a topic, (broker, partition), in order. A new topic has partition 0 on every broker."""
        path = f"/brokers/topics/{topic}"
        found = []
        for number in self._numbers(path):
            count = _count(self._data(f"{path}/{number}"))
            found += [(number, partition) for partition in range(count)]
        return found or [(number, 0) for number in self._numbers("/brokers/ids")]

    def _numbers(self, path: str) -> list[int]:
        names = self._cached(path, lambda watch: self._client.get_children(path, watch=watch)) or []
        return sorted(int(name) for name in names if name.isdecimal())

    def _data(self, path: str) -> bytes | None:
        data: bytes | None = self._cached(path, lambda watch: self._client.get(path, watch=watch)[0])
        return data

    def _cached(self, path: str, read: Callable[[Any], Any]) -> Any:
        from kazoo.exceptions import KazooException, NoNodeError

        with self._lock:
            if path in self._known:
                return self._known[path]

            def invalidate(_: object) -> None:
                self._known.pop(path, None)

            try:
                self._known[path] = found = read(invalidate)
            except NoNodeError:
                # The watch fires when the node is created.
                if self._client.exists(path, watch=invalidate) is None:
                    self._known[path] = None
                return None
            except KazooException as error:
                raise NetworkError(f"could not read {path} from ZooKeeper: {error!r}") from error
            return found

    def close(self) -> None:
        """Close the ZooKeeper session."""
        self._client.stop()
        self._client.close()


def _count(data: bytes | None) -> int:
    return int(data) if data is not None and data.isdigit() else 0


class ZooKeeperOffsets(Closing):
    """Reads and writes the offsets that a group of Kafka 0.8 keeps in ZooKeeper.

    Offsets of Kafka 0.7 are different: they are byte offsets, for each broker and partition.

    Args:
        hosts: Addresses of ZooKeeper, `host:port,host:port/chroot`.
        group: Group id.
        timeout: Seconds for connecting. Default 10. None waits forever.

    Raises:
        ConfigError: The group id is invalid, or kazoo is not installed (`pip install klamm[zookeeper]`).
        NetworkError: ZooKeeper cannot be reached in time.

    Example:
        with klamm.legacy.ZooKeeperOffsets("zk:2181", "readers") as offsets:
            print(offsets.read())
    """

    def __init__(self, hosts: str, group: str, *, timeout: float | None = 10.0) -> None:
        check_group(group)
        self._client = connect(hosts, timeout)
        self._path = f"/consumers/{group}/offsets"

    def read(self) -> dict[TopicPartition, int]:
        """Return the committed offset, the next to read, of each partition."""
        from klamm.record import TopicPartition

        found = {}
        for topic in self._names(self._path):
            for name in self._names(f"{self._path}/{topic}"):
                data = self._client.get(f"{self._path}/{topic}/{name}")[0] or b""
                if name.isdecimal() and data.strip().isdigit():
                    found[TopicPartition(topic, int(name))] = int(data)
        return found

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set committed offsets. Running members of the group overwrite them with their own.

        Args:
            offsets: The next offset to read of each partition.
        """
        for tp, offset in offsets.items():
            write(self._client, f"{self._path}/{tp.topic}/{tp.partition}", b"%d" % offset)

    def _names(self, path: str) -> list[str]:
        from kazoo.exceptions import NoNodeError

        try:
            return sorted(self._client.get_children(path))
        except NoNodeError:
            return []

    def close(self) -> None:
        """Close the ZooKeeper session."""
        self._client.stop()
        self._client.close()
