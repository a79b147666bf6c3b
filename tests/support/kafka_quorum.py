"""Runs Apache Kafka with a dynamic quorum of controllers (KIP-853): voters can be added and removed.

    with KafkaQuorum() as kafka:
        kafka.controllers     # addresses of nodes 1 and 2

Node 1 is broker and controller, and the only voter. Node 2 is a controller that observes. Node 3 is a broker.
"""

from __future__ import annotations

from kafka_broker import HOST, properties_text
from kafka_nodes import KafkaNodes

ROLES = {1: "broker,controller", 2: "controller", 3: "broker"}
# The first node begins a quorum of its own. The others learn the voters from it.
FORMATS = {1: "--standalone", 2: "--no-initial-controllers", 3: "--no-initial-controllers"}


class KafkaQuorum(KafkaNodes):
    """Three nodes. It is a context manager."""

    def __init__(self) -> None:
        super().__init__(ROLES, ports=4, format_options=FORMATS)

    @property
    def bootstrap_servers(self) -> str:
        """Return the address of the broker of node 1."""
        return f"{HOST}:{self._ports[0]}"

    @property
    def controllers(self) -> list[str]:
        """Return the addresses of the controllers of nodes 1 and 2."""
        return [f"{HOST}:{port}" for port in self._ports[1:3]]

    def _properties(self, node: int) -> str:
        broker, first, second, other = self._ports
        plain = f"PLAINTEXT://{HOST}:{broker if node == 1 else other}"
        controller = f"CONTROLLER://{HOST}:{first if node == 1 else second}"
        listeners = {1: f"{plain},{controller}", 2: controller, 3: plain}[node]
        config = {
            "process.roles": ROLES[node],
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": "",
            "controller.quorum.bootstrap.servers": f"{HOST}:{first}",
            # The controller notices after this time that a broker is gone; 9 s by default.
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
        }
        return properties_text(config, self._home(node) / "data", (0, 0), node)

    def _wait_until_ready(self) -> None:
        self._wait_for(self._ports[0], 2, self._nodes)
