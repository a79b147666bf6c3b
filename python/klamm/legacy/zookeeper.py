"""Reads and writes the data that brokers and consumers of Kafka 0.7 keep in ZooKeeper, through kazoo.

| path | node | data |
|---|---|---|
| /brokers/ids/N | ephemeral | address of broker N, as creator:host:port |
| /brokers/topics/T/N | ephemeral | number of partitions of topic T on broker N |
| /consumers/G/ids/C | ephemeral | topics that consumer C of group G reads |
| /consumers/G/owners/T/N-P | ephemeral | stream that reads partition P of topic T on broker N |
| /consumers/G/offsets/T/N-P | persistent | offset to read next |

Parent nodes are persistent and have no data. In Kafka 0.8, the path of an offset ends with P (the partition) instead of
N-P (the broker and the partition).
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from klamm.errors import ConfigError, DecodeError, KafkaTimeoutError, NetworkError
from klamm.legacy.connection import Closing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klamm.record import TopicPartition

SESSION_TIMEOUT = 6.0  # Kafka's zk.sessiontimeout.ms
_RECONNECT_SECONDS = 0.5  # longest pause between attempts to connect; kazoo's default is an hour
_CLOSE_SECONDS = 2.0  # longest wait for the end of a session; after that, kazoo ends the session in the background


def connect(hosts: str, timeout: float | None, session_timeout: float = SESSION_TIMEOUT, **options: Any) -> Any:
    """Connect to ZooKeeper and return the kazoo client."""
    try:
        from kazoo.client import KazooClient
    except ImportError as error:
        raise ConfigError(
            "kazoo, the ZooKeeper client, is not installed", hint="pip install 'klamm[zookeeper]'"
        ) from error
    retry = {"max_tries": -1, "max_delay": _RECONNECT_SECONDS}
    client = KazooClient(hosts, timeout=session_timeout, connection_retry=retry, **options)
    try:
        _start(client, hosts, timeout)
    except BaseException:
        disconnect(client)
        raise
    return client


def _start(client: Any, hosts: str, timeout: float | None) -> None:
    if not client.start_async().wait(timeout):
        raise NetworkError(
            f"could not connect to ZooKeeper at {hosts} in time", hint="check the address: host:port,host:port/chroot"
        )
    # ZooKeeper does not reject a missing chroot: each later call would report a missing node instead.
    if client.chroot and wait_for(client.exists_async("/"), timeout, f"check the chroot of {hosts}") is None:
        raise ConfigError(
            f"ZooKeeper at {hosts} has no node {client.chroot}",
            hint="check the chroot: it must be that of zookeeper.connect (zk.connect) of the brokers",
        )


def disconnect(client: Any) -> None:
    """End a session. If ZooKeeper does not answer, the session ends in the background."""

    def end() -> None:
        client.stop()
        client.close()

    thread = threading.Thread(target=end, name="klamm-zookeeper-close", daemon=True)
    thread.start()
    thread.join(_CLOSE_SECONDS)


def wait_for(result: Any, timeout: float | None, action: str) -> Any:
    """Wait for the result of an asynchronous call of kazoo.

    While ZooKeeper is unreachable, kazoo's synchronous calls would wait forever.

    Raises:
        KafkaTimeoutError: ZooKeeper did not answer in time.
        NetworkError: The connection or the session broke.
        NoNodeError: The node does not exist.
        NodeExistsError: A node with this path exists.
    """
    from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError

    try:
        return result.get(timeout=timeout)
    except (NoNodeError, NodeExistsError):
        raise
    except KazooTimeoutError as error:
        raise KafkaTimeoutError(f"could not {action} in ZooKeeper in time", hint=_AWAY) from error
    except KazooException as error:
        raise NetworkError(f"could not {action} in ZooKeeper: {error!r}", hint=_AWAY) from error


def create(client: Any, path: str, data: bytes | None, *, ephemeral: bool, timeout: float | None) -> None:
    """Create a node and its missing parents. As in Kafka, the parents have no data."""
    from kazoo.exceptions import NodeExistsError, NoNodeError

    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            wait_for(client.create_async(path, data, ephemeral=ephemeral), remaining, f"create {path}")
        except NoNodeError:
            parent = path.rpartition("/")[0]
            if not parent:
                raise
            with suppress(NodeExistsError):  # another client has created the parent node first
                create(client, parent, None, ephemeral=False, timeout=remaining)
        else:
            return


def write(client: Any, path: str, data: bytes, timeout: float | None) -> None:
    """Set the data of a persistent node, and create the node if it is missing."""
    from kazoo.exceptions import NoNodeError

    try:
        wait_for(client.set_async(path, data), timeout, f"write {path}")
    except NoNodeError:
        create(client, path, data, ephemeral=False, timeout=timeout)


def check_name(what: str, name: str) -> None:
    """Raise an error if a group id or a member id cannot be the name of a ZooKeeper node."""
    if not name or "/" in name:
        raise ConfigError(f"invalid {what} {name!r}", hint="use a name that is not empty and has no slash")


def parse_broker(data: bytes) -> tuple[str, int]:
    """Parse a broker's registration, `creator:host:port`, and return host and port.

    The creator is an address and a time, `address-milliseconds`. IPv6 addresses contain colons.
    """
    text = data.decode(errors="replace")
    match = re.fullmatch(r".*?-[0-9]+:(.+):([0-9]{1,5})", text) or re.fullmatch(r".*:([^:]+):([0-9]{1,5})", text)
    if match is None:
        raise DecodeError(f"invalid registration of a broker in ZooKeeper: {data!r}")
    return match[1].removeprefix("[").removesuffix("]"), int(match[2])


class Registry:
    """The last known brokers and partitions of a cluster.

    ZooKeeper watches refresh these values in kazoo's threads. A caller waits for ZooKeeper only at the first use of a
    topic or broker. While ZooKeeper is unreachable, the last known values stay valid.
    """

    def __init__(self, hosts: str, timeout: float | None) -> None:
        self._timeout = timeout
        self._lock = threading.Lock()
        self._nodes: dict[str, _Node] = {}
        self._new_topics: dict[str, set[int]] = {}  # for each new topic, the brokers that may not have registered it
        self._client = connect(hosts, timeout)
        self._client.add_listener(self._session_changed)

    def broker(self, number: int) -> tuple[str, int]:
        """Return host and port of a broker. Raise NetworkError if the broker is not registered."""
        data = self._value(f"/brokers/ids/{number}", is_list=False)
        if data is None:
            raise NetworkError(f"broker {number} is no longer registered in ZooKeeper")
        return parse_broker(data)

    def partitions(self, topic: str) -> list[tuple[int, int]]:
        """Return the partitions of a topic as sorted pairs of broker and partition number.

        A new topic has partition 0 on every live broker. The list also contains the partitions that brokers have
        registered.
        """
        path = f"/brokers/topics/{topic}"
        live = {number for number in self._numbers("/brokers/ids") if self._data(f"/brokers/ids/{number}")}
        counts = {number: _count(self._data(f"{path}/{number}")) for number in self._numbers(path) if number in live}
        partitions = {(number, partition) for number, count in counts.items() for partition in range(count)}
        with self._lock:
            if not partitions:
                self._new_topics[topic] = live
            began = self._new_topics.get(topic, set()) & live
            if began <= {number for number, _ in partitions}:
                self._new_topics.pop(topic, None)
            else:
                self._new_topics[topic] = began
        return sorted(partitions | {(number, 0) for number in began})

    def _numbers(self, path: str) -> list[int]:
        names = self._value(path, is_list=True) or []
        return [int(name) for name in names if name.isdecimal()]

    def _data(self, path: str) -> bytes | None:
        """Return the data of a node.

        Return None if there is no node, or if ZooKeeper is unreachable and the data was never read.
        """
        data: bytes | None = self._value(path, is_list=False, needs_connection=True)
        return data

    def _value(self, path: str, *, is_list: bool, needs_connection: bool = False) -> Any:
        with self._lock:
            node = self._nodes.get(path)
            is_new = node is None
            if node is None:
                node = self._nodes[path] = _Node(path, is_list=is_list)
        if is_new:
            self._refresh(node)
        if needs_connection and not self._client.connected:
            return node.value
        if not node.is_known.wait(self._timeout):
            raise KafkaTimeoutError(f"could not read {path} in ZooKeeper in time", hint=_AWAY)
        if node.error is not None:
            raise NetworkError(f"could not read {path} in ZooKeeper: {node.error!r}", hint=_AWAY) from node.error
        return node.value

    def _session_changed(self, state: Any) -> None:
        """Read all nodes again after a new connection, because kazoo drops the watches of a broken connection."""
        if state == "CONNECTED":
            with self._lock:
                nodes = list(self._nodes.values())
            for node in nodes:
                self._refresh(node)

    def _refresh(self, node: _Node) -> None:
        """Start to read and to watch a node, without waiting for the result."""
        read = self._client.get_children_async if node.is_list else self._client.get_async
        read(node.path, watch=lambda event: self._changed(node, event)).rawlink(lambda result: self._read(node, result))

    def _changed(self, node: _Node, event: Any) -> None:
        if event.type != "NONE":  # NONE: the connection broke, so the next connection refreshes the node
            self._refresh(node)

    def _read(self, node: _Node, result: Any) -> None:
        from kazoo.exceptions import NoNodeError

        if isinstance(result.exception, NoNodeError):
            exists = self._client.exists_async(node.path, watch=lambda event: self._changed(node, event))
            exists.rawlink(lambda found: self._checked(node, found))
        elif result.exception is not None:
            self._fail(node, result.exception)
        else:
            node.set(result.value if node.is_list else result.value[0])

    def _checked(self, node: _Node, result: Any) -> None:
        if result.exception is not None:
            self._fail(node, result.exception)
        elif result.value is None:
            node.set(None)
        else:
            self._refresh(node)  # another client has created the node in the meantime

    def _fail(self, node: _Node, error: Exception) -> None:
        """Handle a failed read. If the connection broke, klamm repeats the read over the next connection."""
        from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError

        if isinstance(error, (ConnectionClosedError, ConnectionLoss, SessionExpiredError)) or node.is_known.is_set():
            return
        with self._lock:
            self._nodes.pop(node.path, None)
        node.error = error
        node.is_known.set()

    def close(self) -> None:
        """Close the ZooKeeper session."""
        disconnect(self._client)


class _Node:
    """The last known children or data of a node, or None if the node does not exist."""

    def __init__(self, path: str, *, is_list: bool) -> None:
        self.path, self.is_list = path, is_list
        self.value: Any = None
        self.error: Exception | None = None
        self.is_known = threading.Event()

    def set(self, value: Any) -> None:
        self.value = value
        self.is_known.set()


def _count(data: bytes | None) -> int:
    return int(data) if data is not None and data.isdigit() else 0


class ZooKeeperOffsets(Closing):
    """Reads and writes the offsets that a group of Kafka 0.8 keeps in ZooKeeper.

    This class does not handle the offsets of Kafka 0.7, which are byte offsets for each broker and partition.

    Args:
        hosts: Addresses of ZooKeeper, `host:port,host:port/chroot`.
        group: Group id.
        timeout: Seconds for connecting, and for each `read` and `write`. Default 10. None waits forever.

    Raises:
        ConfigError: The group id is invalid, the chroot does not exist, or kazoo is not installed (`pip install
            'klamm[zookeeper]'`).
        NetworkError: ZooKeeper cannot be reached in time.

    Example:
        with klamm.legacy.ZooKeeperOffsets("zk:2181", "readers") as offsets:
            print(offsets.read())
    """

    def __init__(self, hosts: str, group: str, *, timeout: float | None = 10.0) -> None:
        check_name("group", group)
        self._timeout = timeout
        self._client = connect(hosts, timeout)
        self._path = f"/consumers/{group}/offsets"

    def read(self) -> dict[TopicPartition, int]:
        """Return the committed offset of each partition, which is the next offset to read.

        Raises:
            KafkaTimeoutError: ZooKeeper did not answer in time.
            NetworkError: The connection to ZooKeeper broke.
        """
        from kazoo.exceptions import NoNodeError

        from klamm.record import TopicPartition

        found = {}
        deadline = self._deadline()
        for topic in self._names(self._path, deadline):
            for name in self._names(f"{self._path}/{topic}", deadline):
                path = f"{self._path}/{topic}/{name}"
                try:
                    data = wait_for(self._client.get_async(path), _left(deadline), f"read {path}")[0] or b""
                except NoNodeError:
                    continue  # another client has deleted the node in the meantime
                if name.isdecimal() and data.strip().isdigit():
                    found[TopicPartition(topic, int(name))] = int(data)
        return found

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set committed offsets. If members of the group are running, they overwrite these offsets with their own.

        Args:
            offsets: For each partition, the next offset to read.

        Raises:
            KafkaTimeoutError: ZooKeeper did not answer in time. ZooKeeper may have stored some of the offsets.
            NetworkError: The connection to ZooKeeper broke. ZooKeeper may have stored some of the offsets.
        """
        deadline = self._deadline()
        for tp, offset in offsets.items():
            write(self._client, f"{self._path}/{tp.topic}/{tp.partition}", b"%d" % offset, _left(deadline))

    def _names(self, path: str, deadline: float | None) -> list[str]:
        from kazoo.exceptions import NoNodeError

        try:
            return sorted(wait_for(self._client.get_children_async(path), _left(deadline), f"list {path}"))
        except NoNodeError:
            return []

    def _deadline(self) -> float | None:
        return None if self._timeout is None else time.monotonic() + self._timeout

    def close(self) -> None:
        """Close the ZooKeeper session."""
        disconnect(self._client)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


_AWAY = "check that ZooKeeper runs and that its address is right, or pass a longer timeout"
