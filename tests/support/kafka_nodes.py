"""Runs several nodes of Apache Kafka on loopback, which can be killed and restarted: what `kafka_cluster` and
`kafka_quorum` share.
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
    START_TIMEOUT,
    VERSION,
    broker_count,
    find_java,
    free_ports,
    kafka_jars,
    small_jvm,
    start_formatting,
    start_node,
    tail,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Self


class KafkaNodes:
    """Nodes with numbers. It is a context manager. Subclasses configure the nodes."""

    def __init__(self, nodes: Iterable[int], ports: int, format_options: Mapping[int, str] | None = None) -> None:
        """Prepare nodes that together need this number of ports.

        Args:
            format_options: The option of each node for formatting its log directory.
        """
        self._nodes = list(nodes)
        self._port_count = ports
        self._format_options = format_options or {}
        self._ports: list[int] = []
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def _properties(self, node: int) -> str:
        """Return the configuration of a node."""
        raise NotImplementedError

    def _wait_until_ready(self) -> None:
        """Wait until all nodes know each other."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        java = find_java()
        self._java = [java, *small_jvm(java, VERSION), "-cp", f"{kafka_jars(VERSION)}/*"]
        self._directory = tempfile.TemporaryDirectory(prefix="klamm-nodes-", ignore_cleanup_errors=True)
        self._ports = free_ports(self._port_count)
        try:
            self._format_all()
            for node in self._nodes:
                self.start_node(node)
            self._wait_until_ready()
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
        """Start a node, with its old address and data if it has run before."""
        self._processes[node] = start_node(self._java, self._home(node))

    def _wait_for(self, port: int, brokers: int, nodes: Iterable[int]) -> None:
        """Wait until the broker at a port knows this number of brokers. None of these nodes may end."""
        deadline = time.monotonic() + START_TIMEOUT
        while broker_count(port) < brokers:
            for node in nodes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._processes[node].wait(0.05)
                    raise RuntimeError(f"node {node} ended:\n{self._log(node)}")
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{HOST}:{port} is not ready after {START_TIMEOUT:.0f} s:\n{self._log(self._nodes[0])}"
                )

    def _home(self, node: int) -> Path:
        assert self._directory is not None
        return Path(self._directory.name) / f"node-{node}"

    def _log(self, node: int) -> str:
        return tail(self._home(node) / "kafka.log")

    def _format_all(self) -> None:
        formats = {node: self._format(node) for node in self._nodes}
        failed = [node for node, process in formats.items() if process.wait() != 0]
        if failed:
            raise RuntimeError(f"a node could not format its log directory:\n{self._log(failed[0])}")

    def _format(self, node: int) -> subprocess.Popen[bytes]:
        home = self._home(node)
        home.mkdir()
        (home / "server.properties").write_text(self._properties(node), encoding="utf-8")
        options = [self._format_options[node]] if node in self._format_options else []
        return start_formatting(self._java, home, *options)
