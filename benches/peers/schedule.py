"""Schedules the measurements: chooses cases and rounds, and runs worker processes.

Between measurements only the broker runs. The module creates topics before a measurement, and counts records after a
measurement.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rebalance
from workload import PARTITIONS, POOL, TLS, TURNS, Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from topics import Topics

CASES = (
    "produce-loop",
    "produce-bulk",
    "produce-callbacks",
    "consume-loop",
    "consume-arrow",
    *TLS,
    "latency",
    "end-to-end",
    "rebalance",
    "import",
)
WORKER = Path(__file__).resolve().with_name("worker.py")
WORKER_S = 300  # a measurement that takes longer has failed
TRIPS, COLD_TRIPS = 50, 10  # counted round trips of a turn, and earlier round trips that only warm up caches

IMPORT = """\
import resource, time
began = time.perf_counter()
{statement}
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

Result = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """Size of a run: numbers of records, rounds, turns and imports."""

    records: int
    rounds: int
    turns: int  # turns in the cases that send one record at a time
    imports: int


@dataclass(frozen=True)
class Broker:
    """The broker's addresses, its name in the report, and the file with its CA certificate."""

    bootstrap: str
    name: str
    tls: str = ""
    authority: str = ""


class WorkerError(Exception):
    """A measurement failed. The message is the last line of the worker's standard error."""


class Schedule:
    """Runs the cases one after the other. In each case, every client runs once per round."""

    def __init__(self, size: Size, peers: dict[str, Any], topics: Topics, broker: Broker, *, idempotence: bool) -> None:
        self.size = size
        self.peers = peers
        self.topics = topics
        self.broker = broker
        self.idempotence = idempotence
        self.filled = ""  # the topic that consumers read

    def run(self, case: str) -> list[Result]:
        """Measure a case with all clients and variants that support it. Return one result for each measurement."""
        if case == "import":
            return self.imports()
        if case == "rebalance":
            clients = ["java", *(client for client in self.peers if client in rebalance.NAMES)]
            return list(rebalance.measure(clients, self.broker.bootstrap, self.size.rounds, progress))
        rows = [(client, variant) for client, peer in self.peers.items() for variant in peer["cases"].get(case, ())]
        if not self.filled:
            self.warm_up()
        return self.turns(case, rows) if case in TURNS else self.throughput(case, rows)

    def warm_up(self) -> None:
        """Fill the topic for consumers and read the topic once, so that the broker compiles code and caches pages."""
        self.filled = self.topics.create("filled")
        for case, variant in (("produce-bulk", "ready-made batches"), ("consume-loop", "decodes nothing")):
            progress(f"warming up the broker: {case}")
            measure(self.job("raw", case, variant, self.filled, self.size.records))

    def throughput(self, case: str, rows: list[tuple[str, str]]) -> list[Result]:
        """Run a produce or consume case. Each measurement runs in a new process. Producers also get a new topic each time."""
        results = []
        for number in range(self.size.rounds):
            for client, variant in rotated(rows, number):
                peer = self.peers[client]
                progress(f"{case}, round {number + 1} of {self.size.rounds}: {peer['name']}, {variant}")
                records = max(POOL, int(self.size.records * peer["share"]) // POOL * POOL)
                result = {"case": case, "client": peer["name"], "variant": variant, "round": number}
                try:
                    if case.startswith("consume"):
                        result |= measure(self.job(client, case, variant, self.filled, records))
                    else:
                        result |= self.produce(client, case, variant, records)
                except WorkerError as problem:
                    result["error"] = str(problem)
                results.append(result)
        return results

    def produce(self, client: str, case: str, variant: str, records: int) -> Result:
        topic = self.topics.create(case)
        result = measure(self.job(client, case, variant, topic, records))
        if (
            found := self.topics.count(topic) - PARTITIONS
        ) != records:  # the warm-up wrote one record to each partition
            raise WorkerError(f"the topic contains {found:,} records instead of {records:,}")
        self.topics.delete(topic)
        return result

    def turns(self, case: str, rows: list[tuple[str, str]]) -> list[Result]:
        """Run a case that sends one record at a time. All clients stay connected and take short turns.

        Each client has its own topic.
        """
        results = []
        with contextlib.ExitStack() as stack:
            trips = []
            for client, variant in rows:
                name = self.peers[client]["name"]
                result: Result = {"case": case, "client": name, "variant": variant, "ns": [], "cpu_s": 0.0}
                results.append(result)
                job = self.job(client, case, variant, self.topics.create(case), 0)
                trips.append((stack.enter_context(Trips(job)), result))
            for number in range(-1, self.size.turns):  # the first turn connects and is not counted
                progress(f"{case}, turn {max(number + 1, 1)} of {self.size.turns}: {len(trips)} clients")
                for worker, result in rotated(trips, number):
                    if "error" not in result:
                        try:
                            worker.turn(result, counted=number >= 0)
                        except WorkerError as problem:
                            result["error"] = str(problem)
        return results

    def imports(self) -> list[Result]:
        """Measure `import` in a new interpreter, after one uncounted run that caches bytecode and pages."""
        results = []
        rows = [peer for peer in self.peers.values() if peer["import"]]
        for number in range(-1, self.size.imports):
            progress(f"import, round {max(number + 1, 1)} of {self.size.imports}")
            for peer in rotated(rows, number):
                program = IMPORT.format(statement=peer["import"])
                done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
                wall, peak = done.stdout.split()
                if number >= 0:
                    results.append(
                        {
                            "case": "import",
                            "client": peer["name"],
                            "variant": peer["import"],
                            "round": number,
                            "wall_s": float(wall),
                            "peak_kb": int(peak),
                        }
                    )
        return results

    def job(self, client: str, case: str, variant: str, topic: str, records: int) -> Job:
        bootstrap, authority = self.broker.bootstrap, ""
        if case in TLS:
            bootstrap, authority = self.broker.tls, self.broker.authority
        return Job(client, case, variant, bootstrap, topic, records, self.idempotence, authority)


class Trips:
    """A worker process for a case that sends one record at a time. The process runs through all turns."""

    def __init__(self, job: Job) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at exit
        self.process = subprocess.Popen(
            [sys.executable, WORKER, "measure", json.dumps(asdict(job))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.ready = False

    def turn(self, result: Result, *, counted: bool) -> None:
        if not self.ready:
            self.answer()  # the worker reports once that it is ready
            self.ready = True
        self.ask(COLD_TRIPS)
        answer = self.ask(TRIPS)
        if counted:
            result["ns"] += answer["ns"]
            result["cpu_s"] += answer["cpu_s"]
            result["peak_kb"] = answer["peak_kb"]

    def ask(self, count: int) -> Result:
        with contextlib.suppress(BrokenPipeError):  # self.answer() then reports why the process ended
            self.process.stdin.write(f"{count}\n")
            self.process.stdin.flush()
        return self.answer()

    def answer(self) -> Result:
        with time_limit(self.process):
            line = self.process.stdout.readline()
        if not line:
            raise WorkerError(last_line(self.errors))
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.errors.close()


def worker(action: str, word: str) -> Result:
    """Run `worker.py` until it ends, and return its parsed JSON result."""
    with tempfile.TemporaryFile("w+") as errors:
        command = [sys.executable, WORKER, action, word]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            try:
                with time_limit(process):
                    answer = process.stdout.read()
                if process.wait() != 0:
                    raise WorkerError(last_line(errors))
            finally:
                process.kill()
    return json.loads(answer)


def measure(job: Job) -> Result:
    return worker("measure", json.dumps(asdict(job)))


@contextlib.contextmanager
def time_limit(process: subprocess.Popen[str]) -> Iterator[None]:
    """Kill the process if the block takes too long. This ends any wait for the output of the process."""
    timer = threading.Timer(WORKER_S, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def last_line(errors: Any) -> str:
    errors.seek(0)
    lines = errors.read().strip().splitlines()
    return lines[-1] if lines else f"the worker printed no error, or was killed after {WORKER_S} s"


def rotated(rows: list[Any], by: int) -> list[Any]:
    """Rotate the order of the rows, so that no client always runs first or always after the slowest client."""
    by %= max(len(rows), 1)
    return rows[by:] + rows[:by]


def progress(text: str) -> None:
    """Update the progress line on a terminal; print nothing in a pipe."""
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
