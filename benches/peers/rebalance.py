"""Measures how long a group of ten members takes to assign a topic of 100 partitions: klamm, confluent-kafka and Apache Kafka's client.

The members of a client are threads of one process. The process runs through all rounds, and the members join again in each round. Every
millisecond, the bench asks the process for the assignments. The measured time ends when every member has partitions and
every partition has exactly one owner.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

MEMBERS, PARTITIONS = 10, 100
EVENTS = ("ten join", "one leaves", "one joins")
PROTOCOLS: dict[str, dict[str, str]] = {
    "range": {"partition.assignment.strategy": "range"},
    "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
# The default is 3 s, or 5 s with the protocol of KIP-848. With the default, the heartbeat interval would dominate the result.
HEARTBEAT = {"heartbeat.interval.ms": "500"}
WAIT_S = 60
NAMES = {"klamm": "klamm", "confluent": "confluent-kafka", "java": "Java"}
WORKER = Path(__file__).resolve().with_name("members.py")

Result = dict[str, Any]


class Members:
    """A context manager for a process with the members of one client."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.numbers = itertools.count(1)
        self.names: list[str] = []

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            command(self.client), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.answer()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def open(self, topic: str, config: dict[str, str]) -> None:
        name = str(next(self.numbers))
        self.names.append(name)
        self.ask("open", name, topic, *(f"{key}={value}" for key, value in config.items()))

    def close(self) -> None:
        self.ask("close", self.names.pop())

    def until_assigned(self) -> float:
        """Wait until all partitions are assigned, and return the time."""
        deadline = time.perf_counter() + WAIT_S
        while True:
            assigned = [partitions.split() for partitions in self.ask("shares").split(";")]
            now = time.perf_counter()
            if all(assigned) and sum(map(len, assigned)) == len(set().union(*assigned)) == PARTITIONS:
                return now
            if now > deadline:
                raise TimeoutError(f"members have {[len(each) for each in assigned]} partitions after {WAIT_S} s")
            time.sleep(0.001)

    def ask(self, *words: str) -> str:
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> str:
        line = self.process.stdout.readline()
        if not line.endswith("\n") or line.startswith("error: "):
            raise RuntimeError(line.strip() or "the process of the members ended")
        return line[:-1]


def command(client: str) -> list[str]:
    if client != "java":
        return [sys.executable, str(WORKER), client]
    from java_members import members_command

    return members_command()


def measure(clients: list[str], bootstrap: str, rounds: int, say: Callable[[str], None]) -> Iterator[Result]:
    """Measure every client and protocol once per round, in a rotating order. Do not count the first round."""
    topics = make_topic(bootstrap)
    rows = [(client, protocol) for protocol in PROTOCOLS for client in clients]
    with contextlib.ExitStack() as stack, topics as topic:
        running = {client: stack.enter_context(Members(client)) for client in clients}
        for number in range(-1, rounds):
            by = number % len(rows)
            for client, protocol in rows[by:] + rows[:by]:
                say(f"rebalance, round {max(number + 1, 1)} of {rounds}: {NAMES[client]}, {protocol}")
                result: Result = {"case": "rebalance", "client": NAMES[client], "variant": protocol, "round": number}
                base = {"bootstrap.servers": bootstrap, "group.id": f"{topic}-{client}-{protocol}-{number}"}
                try:
                    result |= one_group(running[client], topic, base | settings(client, protocol))
                except (OSError, RuntimeError, TimeoutError) as problem:
                    result["error"] = str(problem)
                if number >= 0:
                    yield result


def one_group(members: Members, topic: str, config: dict[str, str]) -> dict[str, float]:
    took = {}
    began = time.perf_counter()
    for _ in range(MEMBERS):
        members.open(topic, config)
    took["ten join"] = members.until_assigned() - began
    began = time.perf_counter()
    members.close()
    took["one leaves"] = members.until_assigned() - began
    began = time.perf_counter()
    members.open(topic, config)
    took["one joins"] = members.until_assigned() - began
    while members.names:
        members.close()
    return took


def settings(client: str, protocol: str) -> dict[str, str]:
    config = dict(PROTOCOLS[protocol])
    if protocol != "consumer":
        config |= HEARTBEAT
        if client == "java":
            from java_members import ASSIGNORS

            config["partition.assignment.strategy"] = ASSIGNORS[protocol]
    return config


@contextlib.contextmanager
def make_topic(bootstrap: str) -> Iterator[str]:
    import klamm

    name = f"bench-rebalance-{time.time_ns()}"
    with klamm.Admin(bootstrap) as admin:
        admin.create_topics({name: klamm.NewTopic(partitions=PARTITIONS)})
        yield name
        admin.delete_topics([name])
