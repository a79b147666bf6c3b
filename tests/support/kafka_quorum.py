"""Runs Apache Kafka with a dynamic quorum of controllers (KIP-853): voters can be added and removed.

    with KafkaQuorum() as kafka:
        kafka.controllers     # addresses of nodes 1 and 2

Node 1 is broker and controller, and the only voter. Node 2 is a controller that observes. Node 3 is a broker.
"""

from __future__ import annotations

import contextlib
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
    from typing_extensions import Self

ROLES = {1: "broker,controller", 2: "controller", 3: "broker"}
# The first node begins a quorum of its own. The others learn the voters from it.
FORMATS = {1: ("--standalone",), 2: ("--no-initial-controllers",), 3: ("--no-initial-controllers",)}


class KafkaQuorum:
    """Three nodes. It is a context manager."""

    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap_servers(self) -> str:
        """Return the address of the broker of node 1."""
        return f"{HOST}:{self._ports[0]}"

    @property
    def controllers(self) -> list[str]:
        """Return the addresses of the controllers of nodes 1 and 2."""
        return [f"{HOST}:{port}" for port in self._ports[1:3]]

    def stop_node(self, node: int) -> None:
        """End a node with SIGKILL."""
        process = self._processes.pop(node)
        process.kill()
        process.wait()

    def __enter__(self) -> Self:
        self._java = [find_java(), *SMALL_JVM, "-cp", f"{kafka_jars(VERSION)}/*"]
        self._directory = tempfile.TemporaryDirectory(prefix="klamm-quorum-", ignore_cleanup_errors=True)
        self._ports = free_ports(4)
        try:
            self._format_all()
            for node in ROLES:
                self._processes[node] = start_node(self._java, self._home(node))
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill all nodes and delete their data."""
        for node in list(self._processes):
            self.stop_node(node)
        self._directory.cleanup()

    def _home(self, node: int) -> Path:
        return Path(self._directory.name) / f"node-{node}"

    def _log(self, node: int) -> Path:
        return self._home(node) / "kafka.log"

    def _format_all(self) -> None:
        formats = [self._format(node) for node in ROLES]
        if any(process.wait() != 0 for process in formats):
            raise RuntimeError(f"a node could not format its log directory:\n{tail(self._log(1))}")

    def _format(self, node: int) -> subprocess.Popen[bytes]:
        home = self._home(node)
        home.mkdir()
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
        text = properties_text(config, home / "data", (0, 0), node)
        (home / "server.properties").write_text(text, encoding="utf-8")
        return start_formatting(self._java, home, *FORMATS[node])

    def _wait(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while broker_count(self._ports[0]) < 2:
            for node, process in self._processes.items():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.05)
                    raise RuntimeError(f"node {node} ended:\n{tail(self._log(node))}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the nodes are not ready after {START_TIMEOUT:.0f} s:\n{tail(self._log(1))}")
