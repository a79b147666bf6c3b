"""What dev brokers of Kafka 0.7 tell ZooKeeper: that they are there, and which topics they have."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from klamm.errors import KafkaError
from klamm.legacy.zookeeper import connect, create

if TYPE_CHECKING:
    from klamm.testing import DevBroker

_EVERY = 0.05  # seconds between looks for new topics; brokers register theirs a little after they come into being, too


class Registration:
    """The nodes of a dev broker in ZooKeeper, all in one session. A node that is killed is gone from there at once."""

    def __init__(self, broker: DevBroker, hosts: str) -> None:
        self._broker = broker
        self._client = connect(hosts, 10.0)
        self._lock = threading.Lock()
        self._made: dict[str, bytes] = {}
        self._down: set[int] = set()
        self._stopped = threading.Event()
        self._client.add_listener(self._listen)
        self._register()
        self._thread = threading.Thread(target=self._watch, name="klamm-registration", daemon=True)
        self._thread.start()

    def add(self, node: int | None) -> None:
        """Register a node that was started."""
        with self._lock:
            self._down.discard(node or 0)
        self._register()

    def remove(self, node: int) -> None:
        """Take a node out that was killed."""
        from kazoo.exceptions import NoNodeError

        with self._lock:
            self._down.add(node)
            for path in [path for path in self._made if path.endswith(f"/{node}")]:
                del self._made[path]
                with suppress(NoNodeError):
                    self._client.delete(path)

    def close(self) -> None:
        """End the session, and with it what was registered."""
        self._stopped.set()
        self._thread.join()
        self._client.stop()
        self._client.close()

    def _listen(self, state: Any) -> None:
        if state == "LOST":  # the session, and all its nodes
            self._made = {}

    def _watch(self) -> None:
        from kazoo.exceptions import KazooException

        while not self._stopped.wait(_EVERY):
            try:
                self._register()
            except (KafkaError, KazooException):
                continue  # ZooKeeper or the broker is away; the next look tells

    def _register(self) -> None:
        from kazoo.exceptions import NodeExistsError

        with self._lock:
            nodes = {}
            for number, address in enumerate(self._broker._addresses(), start=1):  # noqa: SLF001 - its own core
                host, port = address.rsplit(":", 1)
                path = f"/brokers/ids/{number}"
                nodes[path] = self._made.get(path) or f"{host}-{time.time_ns() // 1_000_000}:{host}:{port}".encode()
            for number, topic, count in self._broker._registered():  # noqa: SLF001
                if "/" not in topic:  # ZooKeeper has no place for others
                    nodes[f"/brokers/topics/{topic}/{number}"] = str(count).encode()
            for path, data in nodes.items():
                if path in self._made or int(path.rpartition("/")[2]) in self._down:
                    continue
                try:
                    create(self._client, path, data, ephemeral=True)
                except NodeExistsError:
                    if path.startswith("/brokers/ids"):
                        continue  # of another broker, or of a session of ours that has not ended yet
                self._made[path] = data
