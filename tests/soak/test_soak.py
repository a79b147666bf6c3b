"""Runs three producers and five group members on three nodes of Kafka, with a new fault every five seconds.

    make soak                           # an hour of it
    KLAMM_SOAK_SECONDS=600 pytest -o faulthandler_timeout=1500 tests/soak

No acknowledged record may be missing or duplicated, no client may be stuck, and closed clients leave no descriptors and
threads. The summary also has the memory, the exceptions, and the longest time without progress.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import klamm
from chaos_proxy import TO_BROKER, TO_CLIENT, ChaosProxy
from kafka_broker import KafkaUnavailable, broker_count
from kafka_cluster import KafkaCluster
from klamm import protocol
from klamm.errors import KafkaError
from settled import wait_until_settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

SECONDS = int(os.environ.get("KLAMM_SOAK_SECONDS") or 60)
SEED = int(os.environ.get("KLAMM_SOAK_SEED") or 1)
EVERY_S = 5.0
CALM_S = 20.0
"""Time without faults at the end, in which all clients must make progress."""
RATE = 200
"""Records a second of each producer."""
NODES, PARTITIONS = (1, 2, 3), 6
TOPICS = ["soak-plain", "soak-packed", "soak-transactions"]
GROUPS = {
    "soak-consumer": (3, {"group_protocol": "consumer"}),
    "soak-classic": (2, {"partition_assignment_strategy": "cooperative-sticky", "session_timeout_ms": 10_000}),
}
# A broker asks to be left alone for as long as it takes to bring the rate of its window down to the quota. With windows of
# eleven seconds, as by default, and for minutes a quota far below the rate, in which no client may make progress.
QUOTA_WINDOW = {"quota.window.num": 2, "quota.window.size.seconds": 1}
QUOTA = 10_000.0
"""Bytes a second. All clients have the same name and therefore share a quota."""
MAX_KIB_A_MINUTE = 512
"""Limit of memory growth in runs of ten minutes or more. Shorter runs say little about it."""


class Clients:
    """The client process and its measurements."""

    def __init__(self, servers: str) -> None:
        settings = {
            "servers": servers,
            "topics": TOPICS,
            "groups": GROUPS,
            "rate": RATE,
            "partitions": PARTITIONS,
            "capacity": RATE * (SECONDS + 120),
        }
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("clients.py")), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "MALLOC_ARENA_MAX": "2"},
        )
        self.counts: dict[str, int] = {}
        self.report: dict[str, Any] = {}
        self.samples: list[tuple[float, int, int, int]] = []
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                pipe.close()

    def stop(self, timeout: float) -> dict[str, Any]:
        """End the clients and return their report."""
        self.process.stdin.write("stop\n")
        self.process.stdin.flush()
        self._thread.join(timeout)
        assert self.report, "the clients did not come to an end"
        return self.report

    def _listen(self) -> None:
        for line in self.process.stdout:
            worker_report = json.loads(line)
            if worker_report["kind"] == "report":
                self.report = worker_report
            else:
                self.counts = worker_report["counts"]
                self.samples.append((time.monotonic(), *self._held()))

    def _held(self) -> tuple[int, int, int]:
        proc = Path(f"/proc/{self.process.pid}")
        kib = int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
        return kib, len(list((proc / "fd").iterdir())), len(list((proc / "task").iterdir()))

    def slope(self) -> float:
        """Return the growth in KiB a minute, over the last three quarters of the time."""
        rows = self.samples[len(self.samples) // 4 :]
        times, sizes = [(row[0] - rows[0][0]) / 60 for row in rows], [row[1] for row in rows]
        middle, mean = sum(times) / len(times), sum(sizes) / len(sizes)
        squares = sum((t - middle) ** 2 for t in times)
        return sum((t - middle) * (s - mean) for t, s in zip(times, sizes, strict=True)) / squares if squares else 0.0


@dataclass
class Breaker:
    """The faults: of nodes and connections."""

    cluster: KafkaCluster
    proxies: dict[int, ChaosProxy]
    chance: random.Random
    down: int | None = None
    done: dict[str, int] = field(default_factory=dict)
    log: list[tuple[float, str]] = field(default_factory=list)
    repairs: list[Any] = field(default_factory=list)

    def turn(self) -> None:
        """End the last fault and make the next one."""
        self.heal()
        kinds = [self.cut, self.reset, self.half_open, self.silence, self.drip, self.slow, self.garbage]
        if self.is_whole():
            kinds += [self.kill_leader, self.kill_controller, self.kill_coordinator, self.kill_transactions]
            kinds += [self.throttle]
        # The kind that was there least often, so that even a short run has most of them.
        fewest = min(self.done.get(kind.__name__, 0) for kind in kinds)
        kind = self.chance.choice([kind for kind in kinds if self.done.get(kind.__name__, 0) == fewest])
        self.log.append((time.monotonic(), kind.__name__))
        try:
            kind()
        except KafkaError:  # the cluster is too busy with the last one to say where its coordinators are
            self.kill(self.chance.choice(NODES))
        self.done[kind.__name__] = self.done.get(kind.__name__, 0) + 1

    def heal(self) -> None:
        if self.down is not None:
            self.cluster.start_node(self.down)
            self.down = None
        for proxy in self.proxies.values():
            proxy.heal()
        for repair in self.repairs:
            repair()
        self.repairs.clear()

    def is_whole(self) -> bool:
        """Return whether all nodes run and all replicas are in sync, so that one node may fail."""
        if any(broker_count(self.cluster.port(node)) < len(NODES) for node in NODES):
            return False
        try:
            with klamm.Admin(self.cluster.bootstrap_servers) as admin:
                topics = admin.describe_topics(admin.list_topics(internal=True, timeout=3), timeout=3)
        except KafkaError:
            return False
        return all(len(p.isr) == len(p.replicas) for topic in topics.values() for p in topic.partitions)

    def one(self) -> ChaosProxy:
        return self.proxies[self.chance.choice(NODES)]

    def cut(self) -> None:
        for proxy in self.proxies.values():
            proxy.cut()

    def reset(self) -> None:
        self.one().cut(reset=True)

    def half_open(self) -> None:
        self.one().half_open()

    def silence(self) -> None:
        self.one().silent = True

    def drip(self) -> None:
        self.one().drip = (200, 0.01)

    def slow(self) -> None:
        for proxy in self.proxies.values():
            proxy.latency = 0.2

    def garbage(self) -> None:
        """Damage the length of one request and one response."""
        proxy = self.one()
        proxy.corrupt(TO_BROKER)
        proxy.corrupt(TO_CLIENT)

    def throttle(self) -> None:
        """Set quotas until the next fault."""
        self.quota(remove=False)
        self.repairs.append(lambda: self.quota(remove=True))

    def quota(self, *, remove: bool) -> None:
        ops = [{"key": key, "value": QUOTA, "remove": remove} for key in ("producer_byte_rate", "consumer_byte_rate")]
        entity = [{"entityType": "client-id", "entityName": None}]
        fields = {"entries": [{"entity": entity, "ops": ops}], "validateOnly": False}
        answer = self.ask("AlterClientQuotas", 49, 1, fields)
        assert [entry["errorCode"] for entry in answer["entries"]] == [0]

    def kill_leader(self) -> None:
        with klamm.Admin(self.cluster.bootstrap_servers) as admin:
            topic = self.chance.choice(TOPICS)
            self.kill(self.chance.choice(admin.describe_topics([topic])[topic].partitions).leader)

    def kill_controller(self) -> None:
        partition = {"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}
        answer = self.ask("DescribeQuorum", 55, 0, {"topics": [partition]})
        self.kill(answer["topics"][0]["partitions"][0]["leaderId"])

    def kill_coordinator(self) -> None:
        group = self.chance.choice(list(GROUPS))
        with klamm.Admin(self.cluster.bootstrap_servers) as admin:
            self.kill(admin.describe_groups([group])[group].coordinator)

    def kill_transactions(self) -> None:
        """Kill the coordinator of the transactions."""
        kind = 1
        self.kill(self.ask("FindCoordinator", 10, 3, {"key": TOPICS[2], "keyType": kind})["nodeId"])

    def kill(self, node: int) -> None:
        self.down = node if node in NODES else self.chance.choice(NODES)
        self.cluster.kill(self.down)

    def ask(self, api: str, key: int, version: int, fields: dict[str, Any]) -> dict[str, Any]:
        """Send a request that klamm's clients do not have, in a flexible version."""
        header = struct.pack(">hhih4sb", key, version, 1, 4, b"soak", 0)
        body = header + protocol.encode(api, "request", version, fields)
        for node in NODES:
            with suppress(OSError, struct.error):
                address = ("127.0.0.1", self.cluster.port(node))
                with socket.create_connection(address, timeout=5) as connection, connection.makefile("rb") as answer:
                    connection.sendall(struct.pack(">i", len(body)) + body)
                    (size,) = struct.unpack(">i", answer.read(4))
                    return protocol.decode(api, "response", version, answer.read(size)[5:])
        raise AssertionError("no node answers")


def within_minutes(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition that takes the cluster some time."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not so after two minutes"
        time.sleep(0.2)


def still_waiting(names: set[str], before: dict[str, int], now: dict[str, int]) -> set[str]:
    """Keep only the clients without progress."""
    names -= {name for name in names if now[name] > before[name]}
    return names


def numbers_by_partition(cluster: KafkaCluster, topic: str) -> dict[int, list[int]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = ["partition", "value"]
    table = klamm.read_table(cluster.bootstrap_servers, topic, columns=columns, isolation_level="read_committed")
    found = {}
    for partition in range(PARTITIONS):
        values = table["value"].filter(pc.equal(table["partition"], partition))
        found[partition] = pc.cast(pc.cast(values, pa.string()), pa.int64()).to_pylist()
    return found


@dataclass
class Verdict:
    """The numbers of a producer in the log."""

    acknowledged: int
    lost: int = 0
    doubled: int = 0
    jumps: list[str] = field(default_factory=list)
    """Positions where a number follows a greater one."""
    unconfirmed: int = 0
    """How many numbers with an unknown result are in the log."""

    @classmethod
    def on(cls, found: dict[int, list[int]], worker_report: dict[str, Any]) -> Verdict:
        doubtful = set(worker_report["failed"]) | set(worker_report.get("unknown", ()))
        verdict = cls(worker_report["sent"] - len(doubtful))
        for partition, numbers in found.items():
            there = set(numbers)
            expected = {n for n in range(partition, worker_report["sent"], PARTITIONS) if n not in doubtful}
            verdict.lost += len(expected - there)
            verdict.doubled += len(numbers) - len(there)
            verdict.jumps += [f"{b:,} after {a:,} in {partition}" for a, b in pairwise(numbers) if b < a]
            verdict.unconfirmed += len(there & doubtful)
        return verdict


@pytest.mark.skipif(sys.platform != "linux", reason="memory, descriptors and threads come from /proc")
@pytest.mark.timeout(SECONDS + (600 if SECONDS > 300 else 240))  # below the limit at which the whole run is killed
def test_no_record_is_lost_or_doubled_and_no_client_hangs(record_property):
    with ExitStack() as running:
        proxies = {node: running.enter_context(ChaosProxy()) for node in NODES}
        try:
            listener_addresses = [{"CLIENTS": proxies[node].address} for node in NODES]
            cluster = running.enter_context(KafkaCluster(config=QUOTA_WINDOW, listener_addresses=listener_addresses))
        except KafkaUnavailable as reason:
            pytest.skip(f"real Kafka: {reason}")
        for node, proxy in proxies.items():
            proxy.target = cluster.listener_addresses[node - 1]["CLIENTS"]
        with klamm.Admin(cluster.bootstrap_servers) as admin:
            new = klamm.NewTopic(partitions=PARTITIONS, replication_factor=3)
            admin.create_topics(dict.fromkeys(TOPICS, new))
        servers = ",".join(proxy.address for proxy in proxies.values())
        clients = running.enter_context(Clients(servers))
        within_minutes(lambda: clients.counts and all(clients.counts.values()), "everybody begins")
        breaker = Breaker(cluster, proxies, random.Random(SEED))
        began = time.monotonic()
        while time.monotonic() - began < SECONDS - CALM_S:
            turn = time.monotonic()
            breaker.turn()
            time.sleep(max(EVERY_S - (time.monotonic() - turn), 0))
        breaker.heal()
        within_minutes(breaker.is_whole, "all replicas are in sync again")
        calm = dict(clients.counts)
        still = set(calm)
        with suppress(AssertionError):
            within_minutes(lambda: not still_waiting(still, calm, clients.counts), "everybody gets on")
        report = clients.stop(400)
        wait_until_settled(cluster.bootstrap_servers, TOPICS[2])
        worker_report = report["producers"]
        verdicts = {topic: Verdict.on(numbers_by_partition(cluster, topic), worker_report[topic]) for topic in TOPICS}
    record_property("report", summary(clients, breaker, report, verdicts))
    for worker in [*worker_report.values(), *report["members"].values()]:
        assert worker["died"] is None
    assert report["stuck"] == []
    assert still == set(), "they did not get on when all was well again"
    assert [v.lost for v in verdicts.values()] == [0, 0, 0]
    assert [v.doubled for v in verdicts.values()] == [0, 0, 0]
    assert [v.jumps for v in verdicts.values()][:2] == [[], []]
    assert all(count == 0 for group in report["unread"].values() for count in group.values())
    assert all(member["assigned"] for member in report["members"].values())
    assert report["held"]["after"] == report["held"]["before"]
    if SECONDS >= 600:
        assert clients.slope() < MAX_KIB_A_MINUTE


def summary(clients: Clients, breaker: Breaker, report: dict[str, Any], verdicts: dict[str, Verdict]) -> str:
    lines = [f"soak of {SECONDS} s with seed {SEED}; faults: {sum(breaker.done.values())}"]
    lines.append("  " + ", ".join(f"{name} {count}" for name, count in sorted(breaker.done.items())))
    for topic, verdict in verdicts.items():
        worker_report = report["producers"][topic]
        more = f", {worker_report['transactions']} transactions" if "transactions" in worker_report else ""
        lines.append(
            f"{topic}: {worker_report['sent']:,} sent, {verdict.acknowledged:,} acknowledged{more}, {len(worker_report['failed'])} failed,"
            f" {len(worker_report.get('unknown', ()))} unknown ({verdict.unconfirmed} of both are there); {verdict.lost} lost,"
            f" {verdict.doubled} doubled, {len(verdict.jumps)} out of order; longest wait {worker_report['longest_gap']} s"
        )
        lines += [f"  {jump}" for jump in verdict.jumps[:5]]
    for name, worker_report in report["members"].items():
        lines.append(
            f"{name}: {worker_report['count']:,} read ({worker_report['again']:,} again) in {worker_report['lives']} lives, {worker_report['assigned']} partitions"
            " at the end,"
            f" longest wait {worker_report['longest_gap']} s"
        )
        for moment, proc, offset, after in worker_report["backs"]:
            faults = [f"{kind} {moment - at:.1f} s" for at, kind in breaker.log if 0 <= moment - at < 15]
            lines.append(f"  {proc} again from {offset}, had come to {after}; after {', '.join(faults)}")
    for name, worker_report in {**report["producers"], **report["members"]}.items():
        lines += [f"  {name} raised {count} times: {error}" for error, count in worker_report["errors"].items()]
        lines += [f"  {name} DIED: {worker_report['died']}"] if worker_report["died"] else []
    kib = [row[1] for row in clients.samples]
    tenths = [kib[len(kib) * tenth // 10] for tenth in range(10)] + kib[-1:]
    lines.append(
        f"memory {max(kib):,} KiB at most, {clients.slope():+.0f} KiB a minute, by tenths of the time {tenths};"
        f" descriptors {min(r[2] for r in clients.samples)} to {max(r[2] for r in clients.samples)},"
        f" threads {min(r[3] for r in clients.samples)} to {max(r[3] for r in clients.samples)};"
        f" before and after all clients (descriptors, threads): {report['held']['before']}, {report['held']['after']}"
    )
    lines.append(f"not read by groups: {report['unread']}; stuck: {report['stuck'] or 'nobody'}")
    if any(count for group in report["unread"].values() for count in group.values()):
        lines.append(f"  by partition, the first and how many: {report['first_unread']}")
        lines += [f"  {name} is at {worker_report['places']}" for name, worker_report in report["members"].items()]
    return "\n".join(lines)
