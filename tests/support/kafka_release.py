"""Runs Apache Kafka of any release since 0.8.0 on loopback.

    with start_release("0.9.0.1") as kafka:
        klamm.Producer(kafka.bootstrap_servers)

Releases that need ZooKeeper get one from their own jars. A broker has one node and one copy of each partition.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import kafka_broker
from kafka_broker import HOST, PORT_ATTEMPTS, START_TIMEOUT, RealKafka, release_number
from zookeeper_server import RealZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

# Everything Maven Central has that was seen to start on Java 17: the last of each line that differs.
RELEASES = (
    "0.8.0",
    "0.8.1.1",
    "0.8.2.2",
    "0.9.0.1",
    "0.10.0.1",
    "0.10.2.2",
    "0.11.0.3",
    "1.1.1",
    "2.0.1",
    "2.4.1",
    "2.8.2",
    "3.9.1",
    "4.1.1",
    "4.3.1",
    "4.4.0",
)
FIRST_KRAFT = (3, 3)
PARTITIONS = 2  # of topics that come to be by being used
# snappy-java 1.0, of Kafka before 0.8.2, loads its library in a way that Java 17 only allows with this option.
JVM = (
    "-Xmx320m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
# From this release on, before that one: a setting.
_SETTINGS: tuple[tuple[tuple[int, ...], tuple[int, ...], str, object], ...] = (
    ((0, 8, 2), (9,), "offsets.topic.replication.factor", 1),
    ((0, 8, 2), (9,), "offsets.topic.num.partitions", 4),
    ((0, 8, 2), (9,), "offsets.retention.check.interval.ms", 200),
    ((0, 8, 2), (1,), "delete.topic.enable", "true"),
    ((0, 9), (9,), "log.cleaner.dedupe.buffer.size", 4 << 20),  # 128 MiB of heap by default
    ((0, 11), (9,), "group.initial.rebalance.delay.ms", 0),
    ((0, 11), (9,), "transaction.state.log.replication.factor", 1),
    ((0, 11), (9,), "transaction.state.log.num.partitions", 4),
    ((0, 11), (9,), "transaction.state.log.min.isr", 1),
)
_LOG4J = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class OldKafka:
    """Apache Kafka with the ZooKeeper of its release. It is a context manager."""

    def __init__(
        self,
        version: str,
        node: int = 1,
        zookeeper: RealZooKeeper | None = None,
        config: dict[str, object] | None = None,
    ) -> None:
        """The nodes of a cluster share a `zookeeper`, which the caller stops."""
        self.version = version
        self._node = node
        self._shared = zookeeper
        self._config = dict(config or {})
        self.bootstrap_servers = ""
        self._zookeeper: RealZooKeeper | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    @property
    def pid(self) -> int:
        """Return the broker's process ID."""
        if self._process is None:
            raise RuntimeError("this broker is not running")
        return self._process.pid

    def start(self) -> Self:
        """Fetch the jars if necessary, start ZooKeeper and the broker, and wait until the broker answers."""
        java, jars = kafka_broker.find_java(), kafka_broker.kafka_jars(self.version)
        for attempt in range(1, PORT_ATTEMPTS + 1):
            try:
                # A broker whose session is over is none: a slow machine must not end one.
                if self._shared is None:
                    self._zookeeper = RealZooKeeper(jars=jars, tick_ms=2_000).start()
                self._launch(java, jars, self._shared or self._zookeeper)
            except kafka_broker._PortTakenError:
                self.stop()
                if attempt == PORT_ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return self
        raise AssertionError("unreachable")

    def _launch(self, java: str, jars: Path, zookeeper: RealZooKeeper) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="klamm-kafka-", ignore_cleanup_errors=True)
        home = Path(self._directory.name)
        (port,) = kafka_broker.free_ports(1)
        number = release_number(self.version)
        settings: dict[str, object] = {
            "broker.id": self._node,
            "zookeeper.connect": zookeeper.hosts,
            "zookeeper.session.timeout.ms": 30_000,
            "log.dirs": home / "data",
            "num.partitions": PARTITIONS,
            "num.network.threads": 2,
            "num.io.threads": 4,
            # Tests give records timestamps of their own choice, and retention would go by them.
            "log.retention.hours": 1_000_000,
            **{key: value for since, before, key, value in _SETTINGS if since <= number < before},
            **self._config,
        }
        if number < (0, 9):
            settings |= {"host.name": HOST, "port": port}
        else:
            settings["listeners"] = f"PLAINTEXT://{HOST}:{port}"
        (home / "server.properties").write_text("".join(f"{k}={v}\n" for k, v in settings.items()), "utf-8")
        (home / "log4j.properties").write_text(_LOG4J, "utf-8")
        log = home / "kafka.log"
        options = [
            *JVM,
            "-Dzookeeper.jmx.log4j.disable=true",
            f"-Dlog4j.configuration=file:{home / 'log4j.properties'}",
        ]
        self._process = kafka_broker.start_node([java, *options, "-cp", f"{jars}/*"], home)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._is_ready(port, log):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
                text = kafka_broker.tail(log)
                error = kafka_broker._PortTakenError if "Address already in use" in text else RuntimeError
                raise error(f"Kafka {self.version} ended while starting:\n{text}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"Kafka {self.version} is not ready:\n{kafka_broker.tail(log)}")
        self.bootstrap_servers = f"{HOST}:{port}"

    def _is_ready(self, port: int, log: Path) -> bool:
        if release_number(self.version) >= (0, 9):
            return kafka_broker.broker_count(port) > 0
        # Before 0.9 it lists no brokers before there is a topic, and refuses to make one too early.
        return "tarted (kafka.server.KafkaServer)" in log.read_text("utf-8", errors="replace")

    def stop(self) -> None:
        """Kill both at once and delete their data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._zookeeper is not None:
            self._zookeeper.__exit__()
            self._zookeeper = None
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


@contextlib.contextmanager
def start_release(version: str) -> Iterator[RealKafka | OldKafka]:
    """Start one node of a release."""
    is_kraft = release_number(version) >= FIRST_KRAFT
    config = {"num.partitions": PARTITIONS, "offsets.retention.check.interval.ms": 200}
    with RealKafka(version, config) if is_kraft else OldKafka(version) as kafka:
        yield kafka


def own_consumer(version: str, bootstrap_servers: str, topic: str, count: int) -> list[str]:
    """Return the command that prints the records of partition 0 with a release's own consumer: key, tab, value, `null`
    for no value.
    """
    number = release_number(version)
    jars_of = kafka_broker.tools_jars if number >= (3, 9) else kafka_broker.kafka_jars
    jars = f"{jars_of(version)}/*"
    printed = ["--max-messages", str(count), "--property", "print.key=true"]
    arguments = ["--topic", topic, "--partition", "0", "--offset"]
    tool, where = "kafka.tools.ConsoleConsumer", ["--bootstrap-server", bootstrap_servers]
    if number < (0, 9):
        tool, where = "kafka.tools.SimpleConsumerShell", ["--broker-list", bootstrap_servers, "--no-wait-at-logend"]
        arguments.append("0")
    elif number < (0, 10, 1):
        arguments = ["--new-consumer", "--topic", topic, "--from-beginning"]
    else:
        arguments.append("earliest")
        if number < (2,):
            where.append("--new-consumer")
        elif number >= (3, 9):
            tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    return [kafka_broker.find_java(), *JVM, "-cp", jars, tool, *where, *arguments, *printed]
