"""Runs several nodes of a real Apache Kafka on loopback, which can be killed and restarted.

    with KafkaCluster() as cluster:
        cluster.kill(2)       # SIGKILL: no flush, no notification
        cluster.start_node(2) # on the same ports, with the same data

Each node is broker and controller. Each topic has three replicas, and two must be in sync. The cluster therefore
survives the loss of one node without losing records acknowledged with `acks=all`. A single node has one copy.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from kafka_broker import HOST, properties_text
from kafka_nodes import KafkaNodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


class KafkaCluster(KafkaNodes):
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
        if racks:
            self._config["replica.selector.class"] = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        self._racks = racks
        self._extra_listeners = listener_addresses or [{}] * nodes
        super().__init__(range(1, nodes + 1), ports=2 * nodes + sum(map(len, self._extra_listeners)))

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of all nodes, including dead ones."""
        return ",".join(f"{HOST}:{self.port(node)}" for node in self._nodes)

    @property
    def controllers(self) -> list[str]:
        """Return the addresses of the controllers of all nodes."""
        return [f"{HOST}:{self._controller_port(node)}" for node in self._nodes]

    @property
    def listener_addresses(self) -> list[dict[str, str]]:
        """Return the own addresses of the additional listeners of each node."""
        more = iter(self._ports[2 * len(self._nodes) :])
        return [{name: f"{HOST}:{next(more)}" for name in extra} for extra in self._extra_listeners]

    def port(self, node: int) -> int:
        """Return the port of a node's own listener."""
        return self._ports[node - 1]

    def fill_disk(self, node: int) -> None:
        """Keep all files of a node from growing, as if its disk were full. The node ends soon after. Linux only."""
        limit = resource.RLIMIT_FSIZE
        resource.prlimit(self._processes[node].pid, limit, (1, resource.RLIM_INFINITY))

    def wait_for(self, node: int, brokers: int) -> None:
        """Wait until a node answers and knows this number of brokers."""
        self._wait_for(self.port(node), brokers, [node])

    def _wait_until_ready(self) -> None:
        for node in self._nodes:
            self.wait_for(node, len(self._nodes))

    def _controller_port(self, node: int) -> int:
        return self._ports[len(self._nodes) + node - 1]

    def _listeners(self, node: int) -> dict[str, object]:
        port, controller_port = self.port(node), self._controller_port(node)
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

    def _properties(self, node: int) -> str:
        config = {**self._listeners(node), **self._config}
        if self._racks:
            config["broker.rack"] = self._racks[node - 1]
        voters = ",".join(f"{voter}@{HOST}:{self._controller_port(voter)}" for voter in self._nodes)
        ports = self.port(node), self._controller_port(node)
        return properties_text(config, self._home(node) / "data", ports, node, voters)
