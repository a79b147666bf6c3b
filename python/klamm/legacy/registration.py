"""Registers the nodes and topics of a Kafka 0.7 dev broker in ZooKeeper, as brokers of 0.7 do.

Only `klamm.testing.DevBroker` uses this module. The module `zookeeper` describes the layout of ZooKeeper's nodes.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from klamm.errors import KafkaError, KafkaTimeoutError, NetworkError
from klamm.legacy.zookeeper import connect, create, disconnect, wait_for

if TYPE_CHECKING:
    from klamm._klamm import DevBrokerCore

_POLL_SECONDS = 0.05  # seconds between checks for new topics; real brokers also register topics with a delay

_TIMEOUT = 2.0  # seconds for each call to ZooKeeper


class Registration:
    """Registers all nodes of a dev broker in one ZooKeeper session. `remove` unregisters a killed node at once."""

    def __init__(self, broker: DevBrokerCore, hosts: str) -> None:
        self._broker = broker
        self._client = connect(hosts, 10.0)
        self._lock = threading.Lock()
        self._registered: dict[str, bytes] = {}
        self._down: set[int] = set()
        self._stopped = threading.Event()
        self._client.add_listener(self._session_changed)
        self._register()
        self._thread = threading.Thread(target=self._poll, name="klamm-registration", daemon=True)
        self._thread.start()

    def add(self, node: int | None) -> None:
        """Register a node that was started."""
        with self._lock:
            self._down.discard(node or 0)
        self._register()

    def remove(self, node: int) -> None:
        """Remove the registration of a killed node.

        If ZooKeeper is unreachable, klamm removes the registration when the connection is restored.
        """
        with self._lock:
            self._down.add(node)
            with suppress(KafkaTimeoutError, NetworkError):
                self._remove_down()

    def close(self) -> None:
        """Close the session, which removes all registrations."""
        self._stopped.set()
        self._thread.join()
        disconnect(self._client)

    def _session_changed(self, state: Any) -> None:
        if state == "LOST":  # ZooKeeper has deleted the session's nodes
            self._registered.clear()

    def _poll(self) -> None:
        from kazoo.exceptions import KazooException

        while not self._stopped.wait(_POLL_SECONDS):
            with suppress(KafkaError, KazooException):  # the broker or ZooKeeper is not available
                self._register()

    def _remove_down(self) -> None:
        from kazoo.exceptions import NoNodeError

        for path in [path for path in self._registered if int(path.rpartition("/")[2]) in self._down]:
            if not self._client.connected:
                return
            with suppress(NoNodeError):
                wait_for(self._client.delete_async(path), _TIMEOUT, f"delete {path}")
            del self._registered[path]

    def _register(self) -> None:
        """Register the nodes and topics that are not registered.

        If ZooKeeper is unreachable, the next check repeats the registration.
        """
        from kazoo.exceptions import NodeExistsError

        with self._lock, suppress(KafkaTimeoutError, NetworkError):
            self._remove_down()
            nodes = {}
            for number, address in enumerate(self._broker._addresses(), start=1):  # noqa: SLF001 - internal API of the core
                host, port = address.rsplit(":", 1)
                path = f"/brokers/ids/{number}"
                created_ms = time.time_ns() // 1_000_000
                nodes[path] = self._registered.get(path) or f"{host}-{created_ms}:{host}:{port}".encode()
            for number, topic, count in self._broker._registered():  # noqa: SLF001
                if "/" not in topic:  # a slash cannot be part of a ZooKeeper node's name
                    nodes[f"/brokers/topics/{topic}/{number}"] = str(count).encode()
            for path, data in nodes.items():
                if path in self._registered or int(path.rpartition("/")[2]) in self._down:
                    continue
                if not self._client.connected:
                    return
                try:
                    create(self._client, path, data, ephemeral=True, timeout=_TIMEOUT)
                except NodeExistsError:
                    if path.startswith("/brokers/ids"):
                        continue  # the node belongs to another broker, or to an earlier session that still exists
                self._registered[path] = data
