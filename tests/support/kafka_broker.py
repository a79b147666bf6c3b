"""Runs a real Apache Kafka on loopback.

    with RealKafka() as kafka:
        klamm.Producer(kafka.bootstrap_servers)

The broker is one KRaft node (broker and controller in one JVM) on free ports. Its data is in a temporary directory,
which is deleted with it. Maven fetches the jars from Maven Central once per version and keeps them in `$KLAMM_CACHE` or
the user's cache directory. If the machine lacks a requirement, `KafkaUnavailable` names it, and tests skip. If the
broker does not start although all requirements are met, `RuntimeError` has the end of its log.

The broker ends with the process that started it, see `_LAUNCHER`.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from class_archives import archive_options
from locked import locked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self

HOST = "127.0.0.1"
VERSION = "4.4.0"
START_TIMEOUT = 60.0  # seconds; 2 to 4 on an idle machine
MAVEN_TIMEOUT = (
    90.0  # below the time limit of the test that happens to ask first; what was fetched by then stays fetched
)
PORT_ATTEMPTS = 3

# A test broker is small: C1 alone starts 1 s sooner, the serial collector needs no threads. Benchmarks pass their own.
SMALL_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# Jars beside those that the published pom of a version names.
EXTRA_ARTIFACTS = {
    # ZooKeeper 3.4.13, which the pom asks for, makes addresses on Java 14 and later that it never connects to.
    "2.0.1": ["org.apache.zookeeper:zookeeper:3.4.12"],
    # The cluster's id is written with a class that left the JDK in Java 11.
    "0.10.2.2": ["javax.xml.bind:jaxb-api:2.3.1"],
    "0.11.0.3": ["javax.xml.bind:jaxb-api:2.3.1"],
}
LOGGING_ARTIFACT = "org.slf4j:slf4j-simple:1.7.36"  # without a binding nothing says why a broker did not start
LOG4J_ARTIFACT = "org.slf4j:slf4j-reload4j:1.7.36"  # of 1.0 to 3.9, which use log4j 1.2 without asking for it
# Poms of log4j 1.2.15 depend on packages that are not in public repositories and that Kafka does not need.
_NEEDLESS = ("com.sun.jdmk", "com.sun.jmx", "javax.jms")

# Tests give records old timestamps. Retention goes by them, and would delete these records while a shared broker runs.
NO_RETENTION = {"log.retention.ms": -1}

_SMALL_KAFKA = {
    "num.network.threads": 2,
    "num.io.threads": 4,
    "group.initial.rebalance.delay.ms": 0,  # 3 s by default
    "group.consumer.heartbeat.interval.ms": 500,  # 5 s by default, after which a member learns what changed
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.assignment.interval.ms": 0,  # 1 s by default
    "group.consumer.min.assignment.interval.ms": 0,
    "group.share.heartbeat.interval.ms": 500,
    "group.share.min.heartbeat.interval.ms": 500,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.assignment.interval.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.min.heartbeat.interval.ms": 500,
    "group.streams.assignment.interval.ms": 0,
    # By default, a node that gets no CPU for 9 s loses its partitions until its next heartbeat.
    "broker.session.timeout.ms": 60_000,
    "log.cleaner.dedupe.buffer.size": 4 << 20,  # 128 MiB of heap by default
    **NO_RETENTION,
    # One node holds one copy of everything; 50 partitions of each internal topic would cost seconds.
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.num.partitions": 4,
    "transaction.state.log.min.isr": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,  # 10 s by default
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.num.partitions": 4,
    "share.coordinator.state.topic.min.isr": 1,
}

# Python runs this, which asks Linux to kill it when its parent dies and then becomes the JVM: same process, so the wish
# holds however the tests end, a SIGKILL included. A `preexec_fn` would save a step, but may deadlock where threads run.
_LAUNCHER = """
import ctypes, os, signal, sys
parent, *command = sys.argv[1:]
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it died before we asked
        sys.exit(1)
os.execv(command[0], command)
"""


class KafkaUnavailable(Exception):  # noqa: N818 - not an error: the tests skip with it
    """This machine cannot run a real Kafka. The message gives the reason."""


class RealKafka:
    """Apache Kafka in a separate process. Use it as a context manager, or call `start()` and `stop()`.

    Start it from a thread that lives as long as the broker: for Linux, the parent ends with the thread that forked.
    """

    def __init__(
        self,
        version: str = VERSION,
        config: Mapping[str, object] | None = None,
        jvm_options: Sequence[str] | None = None,
        features: Mapping[str, int] | None = None,
        *,
        listeners: Mapping[str, str] | None = None,
        format_options: Sequence[str] = (),
        classes: Path | None = None,
    ) -> None:
        """Describe a broker. Nothing runs before `start()`.

        Args:
            version: A release of Kafka.
            config: Settings of the broker, beside those of a small one.
            jvm_options: Options of the JVM. By default, those of `small_jvm`.
            features: Features and their levels, for formatting.
            listeners: Additional listeners: names in capitals, and their security protocols.
            format_options: Other options for formatting.
            classes: The directory of plug-ins.
        """
        self.version = version
        self.bootstrap_servers = ""
        self.controller = ""
        self._config = dict(config or {})
        self._jvm_options = jvm_options
        self._features = dict(features or {})
        self._listeners = dict(listeners or {})
        self._format_options = list(format_options)
        self._classes = classes
        self.addresses: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    @property
    def pid(self) -> int:
        """Return the JVM's process ID."""
        if self._process is None:
            raise RuntimeError("this broker is not running")
        return self._process.pid

    def start(self) -> Self:
        """Fetch the jars if necessary, format a new log directory, and wait until the broker answers."""
        java = find_java()
        jars = kafka_jars(self.version)
        for attempt in range(1, PORT_ATTEMPTS + 1):
            try:
                path = f"{jars}/*" if self._classes is None else f"{self._classes}:{jars}/*"
                options = small_jvm(java, self.version) if self._jvm_options is None else self._jvm_options
                self._launch([java, *options, "-cp", path])
            except _PortTakenError:
                self.stop()
                if attempt == PORT_ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return self
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """Kill the broker, wait for its end, and delete its data. An orderly shutdown would take up to 3 s."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self, java: list[str]) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="klamm-kafka-", ignore_cleanup_errors=True)
        home = Path(self._directory.name)
        port, controller_port, *more = free_ports(2 + len(self._listeners))
        self.addresses = {name: f"{HOST}:{own}" for name, own in zip(self._listeners, more, strict=True)}
        config = {**_listeners_config(self._listeners, self.addresses, port, controller_port), **self._config}
        properties = home / "server.properties"
        properties.write_text(properties_text(config, home / "data", (port, controller_port)), encoding="utf-8")
        log = home / "kafka.log"
        features = [part for name, level in self._features.items() for part in ("--feature", f"{name}={level}")]
        if start_formatting(java, home, *features, *self._format_options).wait() != 0:
            raise RuntimeError(f"Kafka {self.version} could not format its log directory:\n{tail(log)}")
        self._process = start_node(java, home)
        self._wait_until_ready(port, log)
        self.bootstrap_servers = f"{HOST}:{port}"
        self.controller = f"{HOST}:{controller_port}"

    def _wait_until_ready(self, port: int, log: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT
        while broker_count(port) == 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
                text = tail(log)
                taken = "Address already in use" in text or "BindException" in text
                raise (_PortTakenError if taken else RuntimeError)(
                    f"Kafka {self.version} ended while starting:\n{text}"
                )
            if time.monotonic() > deadline:
                raise RuntimeError(f"Kafka {self.version} is not ready after {START_TIMEOUT:.0f} s:\n{tail(log)}")


def small_jvm(java: str, version: str) -> list[str]:
    """Return the options of a JVM for a small node. One of the usual version has an archive of its classes."""
    if version != VERSION:
        return [*SMALL_JVM]

    def dump(option: str) -> None:
        with RealKafka(jvm_options=[*SMALL_JVM, option]) as kafka:
            os.kill(kafka.pid, signal.SIGTERM)
            os.waitid(os.P_PID, kafka.pid, os.WEXITED | os.WNOWAIT)

    return [*SMALL_JVM, *archive_options(f"kafka-{version}", java, kafka_jars(version), dump)]


def _listeners_config(
    protocols: Mapping[str, str], addresses: Mapping[str, str], port: int, controller_port: int
) -> dict[str, object]:
    if not protocols:
        return {}
    every = {"PLAINTEXT": f"{HOST}:{port}", **addresses}
    own = ",".join(f"{name}://{address}" for name, address in every.items())
    kinds = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **protocols}
    return {
        "listeners": f"{own},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": own,
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in kinds.items()),
    }


def _java_of(java: Sequence[str], home: Path) -> list[str]:
    # The temporary directory is for the native codecs, which a killed JVM leaves behind.
    log_options = [f"-Dkafka.logs.dir={home}", f"-Djava.io.tmpdir={home}"]
    return [*java, *log_options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


def start_formatting(java: Sequence[str], home: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start formatting the log directory of `server.properties` in `home`. The log file starts empty."""
    command = [*_java_of(java, home), "kafka.tools.StorageTool", "format", "--cluster-id", "a2xhbW0ta2xhbW0tMQ"]
    with (home / "kafka.log").open("wb") as out:
        return subprocess.Popen(
            [*command, "--config", str(home / "server.properties"), *options],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )


def start_node(java: Sequence[str], home: Path) -> subprocess.Popen[bytes]:
    """Start the node of `server.properties` in `home`, which appends to the log file."""
    command = [*_java_of(java, home), "kafka.Kafka", str(home / "server.properties")]
    with (home / "kafka.log").open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # Ctrl+C is for the tests; they stop the broker when their clients are closed
        )


class _PortTakenError(RuntimeError):
    """Another process took a port before the broker could use it."""


def kafka_jars(version: str = VERSION) -> Path:
    """Return the directory with the jars of a Kafka version. Maven fills it the first time."""
    number = release_number(version)
    scalas = (((0, 8, 2), "2.10"), ((2, 0), "2.11"), ((2, 6), "2.12"), ((99,), "2.13"))
    scala = next(scala for before, scala in scalas if number < before)
    logging = [LOGGING_ARTIFACT] if number >= (4,) else [LOG4J_ARTIFACT] if number >= (1,) else []
    # What is named before the broker wins over what its pom asks for.
    artifacts = [*EXTRA_ARTIFACTS.get(version, []), f"org.apache.kafka:kafka_{scala}:{version}", *logging]
    return _jars(version, version, artifacts)


def release_number(version: str) -> tuple[int, ...]:
    """Return a version as numbers that can be compared."""
    return tuple(int(part) for part in version.split("."))


def tools_jars(version: str = VERSION) -> Path:
    """Return the directory with the jars of Kafka's command line tools, which are not among the broker's."""
    artifacts = [f"org.apache.kafka:kafka-tools:{version}", LOGGING_ARTIFACT, *EXTRA_ARTIFACTS.get(version, [])]
    return _jars(f"{version}-tools", version, artifacts)


def clients_jar(version: str) -> Path:
    """Return the client library of a Kafka version, without the broker's jars unless they are already here."""
    jars = _cache_directory() / "kafka" / version
    if not jars.exists():
        artifacts = [f"org.apache.kafka:kafka-clients:{version}"]
        jars = _jars(f"{version}-clients", version, artifacts, "-DexcludeTransitive=true")
    return jars / f"kafka-clients-{version}.jar"


def streams_jars(version: str = VERSION) -> Path:
    """Return the directory with the jars of Kafka Streams and its client."""
    return _jars(f"{version}-streams", version, [f"org.apache.kafka:kafka-streams:{version}", LOGGING_ARTIFACT])


def spark_connector_jars() -> list[Path]:
    """Return the jars of Spark's own Kafka connector, for comparison.

    Maven Central lacks some artifacts of the newest Spark. These versions fit together and run with it.
    """
    version = "4.2.0"
    artifacts = [
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.12.1",
    ]
    name = f"spark-connector-{version}"
    return sorted(_jars(name, name, artifacts, exclusions=True).glob("*.jar"))


def spark_avro_jars() -> list[Path]:
    """Return the jar of `from_avro`, for comparison."""
    name = "spark-avro-4.2.0"
    return sorted(_jars(name, name, ["org.apache.spark:spark-avro_2.13:4.2.0"], exclusions=True).glob("*.jar"))


def _jars(name: str, version: str, artifacts: Sequence[str], *options: str, exclusions: bool = False) -> Path:
    jars = _cache_directory() / "kafka" / name
    if jars.exists():
        return jars
    jars.parent.mkdir(parents=True, exist_ok=True)
    with locked(jars.parent / f"{name}.lock"):
        if not jars.exists():  # else another process was faster
            with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=jars.parent) as scratch:
                _copy_dependencies(version, _pom(artifacts, exclusions=exclusions), options, Path(scratch))
                (Path(scratch) / "jars").rename(jars)
    return jars


def _copy_dependencies(version: str, pom: str, options: Sequence[str], scratch: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable("mvn is not installed (apt install maven, brew install maven)")
    (scratch / "pom.xml").write_text(pom, encoding="utf-8")
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars", *options]
    try:
        done = subprocess.run(
            [maven, "-B", "-q", "-ntp", *goal],
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=MAVEN_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KafkaUnavailable(
            f"mvn did not fetch Kafka {version} within {MAVEN_TIMEOUT:.0f} s; the next run continues"
        ) from None
    if done.returncode != 0:
        error = next(
            (line for line in done.stdout.splitlines() if "[ERROR]" in line), done.stdout.strip() or "no message"
        )
        error = re.sub(r"\x1b\[[0-9;]*m", "", error).removeprefix("[ERROR]").strip()
        raise KafkaUnavailable(f"mvn could not fetch Kafka {version}: {error[:300]}")


def _pom(artifacts: Sequence[str], *, exclusions: bool) -> str:
    # What the artifacts depend on is left alone, not even resolved.
    groups = ["*"] if exclusions else _NEEDLESS
    left_out = "".join(f"<exclusion><groupId>{g}</groupId><artifactId>*</artifactId></exclusion>" for g in groups)
    without = f"<exclusions>{left_out}</exclusions>"
    dependencies = ""
    for artifact in artifacts:
        group, name, version = artifact.split(":")
        coordinates = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        dependencies += f"<dependency>{coordinates}{without}</dependency>\n"
    return (
        "<project><modelVersion>4.0.0</modelVersion><packaging>pom</packaging>\n"
        "<groupId>klamm</groupId><artifactId>test-broker</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}</dependencies></project>\n"
    )


def properties_text(
    config: Mapping[str, object], data: Path, ports: tuple[int, int], node: int = 1, voters: str = ""
) -> str:
    """Return the configuration of a node that is broker and controller. A single node is the only voter."""
    port, controller_port = ports
    entries: dict[str, object] = {
        "node.id": node,
        "process.roles": "broker,controller",
        "controller.quorum.voters": voters or f"{node}@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": data,
        **_SMALL_KAFKA,
        **config,
    }
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in entries.items()}
    return "".join(f"{key}={text}\n" for key, text in texts.items())


def broker_count(port: int) -> int:
    """Return the number of brokers in a Metadata v0 response, or 0 without a response. Kafka 0.8 to 4.4 serve v0."""
    api_key, api_version, correlation_id, client_id, topics = 3, 0, 1, b"klamm-tests", 0
    body = struct.pack(
        f">hhih{len(client_id)}si", api_key, api_version, correlation_id, len(client_id), client_id, topics
    )
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection, connection.makefile("rb") as answer:
            connection.sendall(struct.pack(">i", len(body)) + body)
            _size, _correlation_id, brokers = struct.unpack(">iii", answer.read(12))
    except (OSError, struct.error):  # not listening yet, or hung up on us
        return 0
    return int(brokers)


def free_ports(count: int) -> list[int]:
    """Return free ports. All are held until the last is chosen, so that they differ.

    A node binds its ports seconds later. So they are below those that systems give to outgoing connections.
    """
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            port = random.SystemRandom().randrange(20_000, 32_768)
            with contextlib.suppress(OSError):  # taken
                held.enter_context(socket.create_server((HOST, port)))
                ports.append(port)
    return ports


def find_java() -> str:
    if "KLAMM_TEST_WITHOUT_JAVA" in os.environ:
        raise KafkaUnavailable("the fast lane starts no Java")
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        raise KafkaUnavailable("java is not installed (17 or newer)")
    return java


def _cache_directory() -> Path:
    if own := os.environ.get("KLAMM_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "klamm"


def tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-3000:]


def main() -> None:
    """Run a broker until Ctrl+C: `python tests/support/kafka_broker.py [key=value ...]`."""
    with RealKafka(config=dict(item.split("=", 1) for item in sys.argv[1:])) as kafka:
        print(f"Apache Kafka {kafka.version} at {kafka.bootstrap_servers}, pid {kafka.pid}; Ctrl+C ends it", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
