"""Runs several nodes of a real Apache Kafka on loopback, which can be killed and restarted.

    with KafkaCluster() as cluster:
        cluster.kill(2)       # SIGKILL: no flush, no notification cluster.start_node(2) # on the same ports, with the
        same data

Each node is broker and controller. Each topic has three replicas, and two must be in sync. The cluster therefore
survives the loss of one node without losing records acknowledged with `acks=all`. A single node has one copy.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_broker import (
    HOST,
    SMALL_JVM,
    START_TIMEOUT,
    VERSION,
    broker_count,
    find_java,
    free_ports,
    kafka_jars,
    properties_text,
    start_formatting,
    start_node,
    tail,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self

_REPLICATED = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    # A node that is gone is noticed after this time; 9 s by default.
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1000,
}


class KafkaCluster:
    """A cluster with nodes numbered from 1. It is a context manager."""

    def __init__(
        self,
        nodes: int = 3,
        config: Mapping[str, object] | None = None,
        listener_addresses: Sequence[Mapping[str, str]] = (),
        racks: Sequence[str] = (),
    ) -> None:
        """Prepare a cluster.

        Args:
            racks: Racks of the nodes. Consumers in a rack are sent to the replica there.
            listener_addresses: More listeners of each node: a name in capitals, and the address that clients get, such
                as that of a proxy.
        """
        single = dict.fromkeys((key for key in _REPLICATED if key.endswith(("factor", "replicas", "isr"))), 1)
        self._config = {**_REPLICATED, **(single if nodes == 1 else {}), **(config or {})}
        self._count = nodes
        if racks:
            self._config["replica.selector.class"] = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        self._racks = racks
        self._extra_listeners = listener_addresses or [{}] * nodes
        self.listener_addresses: list[dict[str, str]] = []
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._ports: list[int] = []

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of all nodes, including dead ones."""
        return ",".join(f"{HOST}:{port}" for port in self._ports[: self._count])

    def port(self, node: int) -> int:
        """Return the port of a node's own listener."""
        return self._ports[node - 1]

    def __enter__(self) -> Self:
        java, jars = find_java(), kafka_jars(VERSION)
        self._java = [java, *SMALL_JVM, "-cp", f"{jars}/*"]
        self._directory = tempfile.TemporaryDirectory(prefix="klamm-cluster-", ignore_cleanup_errors=True)
        self._ports = free_ports(2 * self._count + sum(map(len, self._extra_listeners)))
        more = iter(self._ports[2 * self._count :])
        self.listener_addresses = [{name: f"{HOST}:{next(more)}" for name in extra} for extra in self._extra_listeners]
        voters = ",".join(f"{n}@{HOST}:{self._ports[self._count + n - 1]}" for n in self._nodes())
        try:
            self._format_all(voters)
            for node in self._nodes():
                self.start_node(node)
            for node in self._nodes():
                self.wait_for(node, self._count)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill all nodes and delete their data."""
        for node in list(self._processes):
            self.kill(node)
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def kill(self, node: int) -> None:
        """End a node with SIGKILL."""
        process = self._processes.pop(node)
        process.kill()
        process.wait()

    def start_node(self, node: int) -> None:
        """Start a node again, with its old address and data."""
        self._processes[node] = start_node(self._java, self._home(node))

    def fill_disk(self, node: int) -> None:
        """Keep all files of a node from growing, as if its disk were full. The node ends soon after. Linux only."""
        limit = resource.RLIMIT_FSIZE
        resource.prlimit(self._processes[node].pid, limit, (1, resource.RLIM_INFINITY))

    def wait_for(self, node: int, brokers: int) -> None:
        """Wait until a node answers and knows this number of brokers."""
        deadline = time.monotonic() + START_TIMEOUT
        while broker_count(self.port(node)) < brokers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._processes[node].wait(0.05)
                raise RuntimeError(f"node {node} ended:\n{tail(self._log(node))}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"node {node} is not ready after {START_TIMEOUT:.0f} s:\n{tail(self._log(node))}")

    def _nodes(self) -> range:
        return range(1, self._count + 1)

    def _home(self, node: int) -> Path:
        assert self._directory is not None
        return Path(self._directory.name) / f"node-{node}"

    def _listeners(self, node: int) -> dict[str, object]:
        port, controller_port = self._ports[node - 1], self._ports[self._count + node - 1]
        plain, controller = f"PLAINTEXT://{HOST}:{port}", f"CONTROLLER://{HOST}:{controller_port}"
        own, extra = (
            [f"{name}://{address}" for name, address in listener_addresses[node - 1].items()]
            for listener_addresses in (self.listener_addresses, self._extra_listeners)
        )
        names = ["PLAINTEXT", "CONTROLLER", *self._extra_listeners[node - 1]]
        return {
            "listeners": ",".join([plain, *own, controller]),
            "advertised.listeners": ",".join([plain, *extra]),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        }

    def _log(self, node: int) -> Path:
        return self._home(node) / "kafka.log"

    def _format_all(self, voters: str) -> None:
        formats = [self._format(node, voters) for node in self._nodes()]
        if any(process.wait() != 0 for process in formats):
            raise RuntimeError(f"a node could not format its log directory:\n{tail(self._log(1))}")

    def _format(self, node: int, voters: str) -> subprocess.Popen[bytes]:
        home = self._home(node)
        home.mkdir()
        properties = home / "server.properties"
        ports = self._ports[node - 1], self._ports[self._count + node - 1]
        config = {**self._listeners(node), **self._config}
        if self._racks:
            config["broker.rack"] = self._racks[node - 1]
        properties.write_text(properties_text(config, home / "data", ports, node, voters), encoding="utf-8")
        return start_formatting(self._java, home)
