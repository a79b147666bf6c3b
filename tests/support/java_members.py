"""Group members that use Apache Kafka's Java client: one JVM with a thread for each member (`JavaMembers.java`), and
Kafka Streams (`StreamsMember.java`).
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_broker import SMALL_JVM, KafkaUnavailable, find_java, kafka_jars, streams_jars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

ASSIGNORS = {
    name: f"org.apache.kafka.clients.consumer.{cls}Assignor"
    for name, cls in {
        "range": "Range",
        "roundrobin": "RoundRobin",
        "sticky": "Sticky",
        "cooperative-sticky": "CooperativeSticky",
    }.items()
}


def members_command(jars: Path | None = None, source: str = "JavaMembers.java") -> list[str]:
    """Return the command that starts the JVM. It needs a JDK, because it runs a source file."""
    java = find_java()
    if not Path(java).resolve().with_name("javac").exists():
        raise KafkaUnavailable("javac is not installed: the members are started from their source, with a JDK")
    path = f"{jars or kafka_jars()}/*"
    jvm = [java, *SMALL_JVM, "-cp", path, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    return [*jvm, str(Path(__file__).with_name(source))]


@contextlib.contextmanager
def streams_members(servers: str, group: str, topic: str) -> Iterator[None]:
    """Run a program of Kafka Streams, whose two threads are members of a streams group."""
    command = members_command(streams_jars(), "StreamsMember.java")
    with (
        tempfile.TemporaryDirectory(prefix="klamm-streams-") as directory,
        subprocess.Popen(
            [*command, servers, group, topic, directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            if (line := process.stdout.readline()) != "running\n":
                raise RuntimeError(f"Kafka Streams: {line.strip() or 'it ended'}")
            yield
            process.communicate()  # the end of its input lets it leave the group
        finally:
            process.kill()


class JavaMembers:
    """A JVM for members. It is a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            members_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._names = count(1)

    def __enter__(self) -> Self:
        self._answer()
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()

    def open(self, servers: str, group: str, topic: str, **config: object) -> Member:
        """Let a member join. `partition_assignment_strategy` is klamm's name of the assignor."""
        if "partition_assignment_strategy" in config:
            config["partition_assignment_strategy"] = ASSIGNORS[str(config["partition_assignment_strategy"])]
        settings = {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            **{key.replace("_", "."): value for key, value in config.items()},
        }
        name = f"member-{next(self._names)}"
        self.ask("open", name, topic, *(f"{key}={value}" for key, value in settings.items()))
        return Member(self, name)

    def ask(self, *words: str) -> str:
        """Send a command and return the JVM's answer."""
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n") or line.startswith("error: "):
            raise RuntimeError(f"the JVM with the members: {line.strip() or 'it ended'}")
        return line[:-1]


class Member:
    """A member with the methods of those in `members.py`."""

    def __init__(self, members: JavaMembers, name: str) -> None:
        self._members, self._name = members, name
        self._open = True

    def poll(self) -> list[bytes]:
        """Return the records since the last call."""
        return self._members.ask("poll", self._name).encode().split()

    def partitions(self) -> set[int]:
        """Return the assigned partitions."""
        return set(map(int, self._members.ask("partitions", self._name).split()))

    def commit(self) -> None:
        """Commit the position and forget the records read so far."""
        self._members.ask("commit", self._name)

    def close(self) -> None:
        """Leave the group, at most once."""
        if self._open:
            self._open = False
            self._members.ask("close", self._name)
