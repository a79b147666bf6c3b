"""What the soak tests share: the client process with its measurements, the order of faults, and the verdict."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import klamm
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
PARTITIONS = 6
TOPICS = ["soak-plain", "soak-packed", "soak-transactions"]
GROUPS = {
    "soak-consumer": (3, {"group_protocol": "consumer"}),
    "soak-classic": (2, {"partition_assignment_strategy": "cooperative-sticky", "session_timeout_ms": 10_000}),
}
MAX_ERRORS_A_SECOND = 10
"""Limit of the exceptions that a client raises. Members poll every 0.2 s, and a failed poll waits as well."""
MAX_KIB_A_MINUTE = 512
"""Limit of memory growth in runs of ten minutes or more. Shorter runs say little about it."""


class Clients:
    """The client process and its measurements."""

    def __init__(self, servers: str, **settings: Any) -> None:
        settings |= {
            "servers": servers,
            "topics": TOPICS,
            "groups": GROUPS,
            "rate": RATE,
            "partitions": PARTITIONS,
            "capacity": RATE * (SECONDS + 120),
        }
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parents[1] / "soak" / "clients.py"), json.dumps(settings)],
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


class Faults:
    """Makes one fault after the other, and ends each before the next."""

    def __init__(self) -> None:
        self.chance = random.Random(SEED)
        self.done: dict[str, int] = {}
        self.log: list[tuple[float, str]] = []

    def run(self, seconds: float) -> None:
        """Make faults for some seconds, then end the last one and wait until the cluster is whole."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            turn = time.monotonic()
            self.turn()
            time.sleep(max(EVERY_S - (time.monotonic() - turn), 0))
        self.heal()
        within_minutes(self.is_whole, "all replicas are in sync again")

    def turn(self) -> None:
        """End the last fault and make the next one."""
        self.heal()
        kinds = self.kinds()
        # The kind that was there least often, so that even a short run has most of them.
        fewest = min(self.done.get(kind.__name__, 0) for kind in kinds)
        kind = self.chance.choice([kind for kind in kinds if self.done.get(kind.__name__, 0) == fewest])
        self.log.append((time.monotonic(), kind.__name__))
        try:
            kind()
        except KafkaError:  # the cluster is too busy with the last one to say where its coordinators are
            self.fallback()
        self.done[kind.__name__] = self.done.get(kind.__name__, 0) + 1

    def kinds(self) -> list[Callable[[], None]]:
        """Return the faults that are possible now."""
        raise NotImplementedError

    def heal(self) -> None:
        """End the last fault."""
        raise NotImplementedError

    def is_whole(self) -> bool:
        """Return whether the cluster has recovered."""
        return True

    def fallback(self) -> None:
        """Make a fault that does not need the cluster."""


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


def numbers_by_partition(servers: str, topic: str) -> dict[int, list[int]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = ["partition", "value"]
    table = klamm.read_table(servers, topic, columns=columns, isolation_level="read_committed")
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


def soak(clients: Clients, faults: Faults, servers: str, record_property: Callable[[str, object], None]) -> None:
    """Let clients work under faults, and check that nothing was lost or doubled, and that every client recovered.

    Args:
        clients: The client process.
        faults: The faults to make.
        servers: Addresses of brokers that work without a fault between.
        record_property: The fixture of pytest that takes the report.
    """
    within_minutes(lambda: clients.counts and all(clients.counts.values()), "everybody begins")
    faults.run(SECONDS - CALM_S)
    calm = dict(clients.counts)
    still = set(calm)
    with suppress(AssertionError):
        within_minutes(lambda: not still_waiting(still, calm, clients.counts), "everybody gets on")
    report = clients.stop(400)
    wait_until_settled(servers, TOPICS[2])
    worker_report = report["producers"]
    verdicts = {topic: Verdict.on(numbers_by_partition(servers, topic), worker_report[topic]) for topic in TOPICS}
    record_property("report", summary(clients, faults, report, verdicts))
    for worker in [*worker_report.values(), *report["members"].values()]:
        assert worker["died"] is None
        assert sum(worker["errors"].values()) < MAX_ERRORS_A_SECOND * SECONDS
    assert report["stuck"] == []
    assert still == set(), "they did not get on when all was well again"
    assert [v.lost for v in verdicts.values()] == [0, 0, 0]
    assert [v.doubled for v in verdicts.values()] == [0, 0, 0]
    assert [v.jumps for v in verdicts.values()][:2] == [[], []]
    assert all(count == 0 for group in report["unread"].values() for count in group.values())
    assert all(member["assigned"] for member in report["members"].values())
    before, after = ([Counter(kind) for kind in report["held"][when]] for when in ("before", "after"))
    assert after == before, (
        f"descriptors and threads that stayed: {[a - b for a, b in zip(after, before, strict=True)]}"
    )
    if SECONDS >= 600:
        assert clients.slope() < MAX_KIB_A_MINUTE


def summary(clients: Clients, faults: Faults, report: dict[str, Any], verdicts: dict[str, Verdict]) -> str:
    lines = [f"soak of {SECONDS} s with seed {SEED}; faults: {sum(faults.done.values())}"]
    lines.append("  " + ", ".join(f"{name} {count}" for name, count in sorted(faults.done.items())))
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
            recent = [f"{kind} {moment - at:.1f} s" for at, kind in faults.log if 0 <= moment - at < 15]
            lines.append(f"  {proc} again from {offset}, had come to {after}; after {', '.join(recent)}")
    for name, worker_report in {**report["producers"], **report["members"]}.items():
        lines += [f"  {name} raised {count} times: {error}" for error, count in worker_report["errors"].items()]
        lines += [f"  {name} DIED: {worker_report['died']}"] if worker_report["died"] else []
    kib = [row[1] for row in clients.samples]
    tenths = [kib[len(kib) * tenth // 10] for tenth in range(10)] + kib[-1:]
    lines.append(
        f"memory {max(kib):,} KiB at most, {clients.slope():+.0f} KiB a minute, by tenths of the time {tenths};"
        f" descriptors {min(r[2] for r in clients.samples)} to {max(r[2] for r in clients.samples)},"
        f" threads {min(r[3] for r in clients.samples)} to {max(r[3] for r in clients.samples)};"
        f" before and after all clients (descriptors, threads):"
        f" {[len(kind) for kind in report['held']['before']]}, {[len(kind) for kind in report['held']['after']]}"
    )
    lines.append(f"not read by groups: {report['unread']}; stuck: {report['stuck'] or 'no client'}")
    if any(count for group in report["unread"].values() for count in group.values()):
        lines.append(f"  by partition, the first and how many: {report['first_unread']}")
        lines += [f"  {name} is at {worker_report['places']}" for name, worker_report in report["members"].items()]
    return "\n".join(lines)
