"""Runs a real Apache ZooKeeper on loopback, for groups of Kafka 0.7.

    with RealZooKeeper() as zookeeper:
        klamm.legacy.GroupConsumer07(zookeeper.hosts, "g", ["t"])

The jars come from Maven Central, as in `kafka_broker`. If the machine lacks a requirement, `KafkaUnavailable` names it.
Kafka 0.7 came with ZooKeeper 3.3.4, whose connect response is a byte shorter than in later versions.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import kafka_broker

if TYPE_CHECKING:
    from typing_extensions import Self

VERSIONS = ["3.3.4", "3.9.3"]
START_TIMEOUT = 30.0
# The pom of the old one names artifacts that Maven Central has not; that of the new one leaves some out that it needs.
_ALONE = {"3.3.4": ["log4j:log4j:1.2.17"]}
_MORE = [
    "io.dropwizard.metrics:metrics-core:4.1.12.1",
    "org.xerial.snappy:snappy-java:1.1.10.5",
    kafka_broker.LOGGING_ARTIFACT,
]


def _jars_of(version: str) -> Path:
    name, extra = f"zookeeper-{version}", _ALONE.get(version)
    artifacts = [f"org.apache.zookeeper:zookeeper:{version}", *(extra or _MORE)]
    return kafka_broker._jars(name, name, artifacts, exclusions=extra is not None)


class RealZooKeeper:
    """ZooKeeper in a separate process. It is a context manager and deletes its data at the end."""

    def __init__(self, version: str = VERSIONS[-1], jars: Path | None = None, tick_ms: int = 200) -> None:
        """`jars` are a broker's, which include the ZooKeeper of its release. A session lasts at most 20 ticks."""
        self.version = version
        self._jars = jars
        self._tick_ms = tick_ms
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    @property
    def hosts(self) -> str:
        return f"{kafka_broker.HOST}:{self.port}"

    def start(self) -> Self:
        """Start it, or restart it with the same port and data. If it runs, do nothing."""
        if self._process is not None:
            return self
        java = kafka_broker.find_java()
        jars = self._jars or _jars_of(self.version)
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="klamm-zookeeper-", ignore_cleanup_errors=True)
        home = Path(self._directory.name)
        if not self.port:
            (self.port,) = kafka_broker.free_ports(1)
            lines = f"dataDir={home / 'data'}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            # A session is a number of ticks: those of tests are short.
            (home / "zoo.cfg").write_text(
                lines + f"tickTime={self._tick_ms}\nmaxClientCnxns=0\nadmin.enableServer=false\n", "utf-8"
            )
        options = ["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true"]
        main = ["org.apache.zookeeper.server.ZooKeeperServerMain", str(home / "zoo.cfg")]
        command = [java, *options, "-cp", f"{jars}/*", *main]
        with (home / "zookeeper.log").open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-c", kafka_broker._LAUNCHER, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._wait(home / "zookeeper.log")
        return self

    def _wait(self, log: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                with socket.create_connection((kafka_broker.HOST, self.port), 1) as probe:
                    probe.settimeout(1)
                    probe.sendall(b"srvr")
                    if probe.recv(1):
                        return
            except OSError:
                pass
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"ZooKeeper {self.version} did not start:\n{kafka_broker.tail(log)}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._directory is not None:
            self._directory.cleanup()
