"""Compares the dev broker with Apache Kafka: start-up time, rates of records in and out, and memory.

    python benches/broker/run.py [--records N] [--rounds N] [--clusters N]

Each broker is a separate process on loopback. The two brokers run through all rounds and take turns. The client is
klamm, in the process of the benchmark. The targets are in ../README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import klamm
from klamm.testing import DevBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
from kafka_broker import KafkaUnavailable, RealKafka

# The JVM options of Kafka's own start script.
JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
PARTITIONS = 4
VALUE_BYTES = 100
CHUNK = 50_000
HELD_MB = 100


def main() -> None:
    """Run all measurements, and print a table."""
    parser = argparse.ArgumentParser(description="Compare the dev broker with Apache Kafka.")
    parser.add_argument("--records", type=int, default=1_000_000, help="send N records per round (default: 1,000,000)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--clusters", type=int, default=1_000, help="start and stop N clusters, to measure what they leave in memory"
    )
    options = parser.parse_args()
    rows = [starts(), *leaks(options.clusters), *side_by_side(options.records, options.rounds), memory()]
    print("| what | dev broker | Apache Kafka | ÷ Kafka |\n| --- | ---: | ---: | ---: |")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def starts() -> tuple[str, ...]:
    took = []
    for _ in range(51):
        began = time.perf_counter()
        broker = DevBroker(brokers=3)
        broker.__enter__()
        took.append((time.perf_counter() - began) * 1e3)
        broker.__exit__(None, None, None)
    return "start of three nodes, ms, median of 51", f"{statistics.median(took):.2f}", "", ""


def leaks(count: int) -> Iterator[tuple[str, ...]]:
    """Measure what clusters leave behind after they were used and stopped: descriptors, threads and memory."""

    def one() -> None:
        with DevBroker(brokers=3) as broker:
            tp = klamm.TopicPartition("t", 0, 0, 1)
            with klamm.Producer(broker.bootstrap_servers) as producer:
                producer.send("t", b"v", partition=0).result(timeout=10)
            with klamm.Consumer(broker.bootstrap_servers) as consumer:
                consumer.assign([tp])
                assert [record.value for record in consumer] == [b"v"]

    for _ in range(count // 10):
        one()  # warms up: a process allocates some memory only once
    before = held()
    for _ in range(count):
        one()
    after = held()
    for name, old, new in zip(("descriptors", "threads", "resident KiB"), before, after, strict=True):
        yield f"{name} before and after {count:,} clusters", f"{old:,}, {new:,}", "", ""


def held() -> tuple[int, int, int]:
    gc.collect()
    descriptors, threads = (len(list(Path("/proc/self", kind).iterdir())) for kind in ("fd", "task"))
    return descriptors, threads, resident_kib(os.getpid())


def resident_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def side_by_side(records: int, rounds: int) -> Iterator[tuple[str, ...]]:
    values = [os.urandom(VALUE_BYTES) for _ in range(CHUNK)]
    took: dict[str, dict[str, list[float]]] = {"produce": {}, "fetch": {}, "send": {}}
    with contextlib.ExitStack() as stack:
        servers = {"dev": stack.enter_context(dev_broker())[0]}
        try:
            servers["real"] = stack.enter_context(RealKafka(jvm_options=JVM)).bootstrap_servers
        except KafkaUnavailable as reason:
            sys.exit(f"cannot start Apache Kafka: {reason}")
        for number in range(-1, rounds):  # the first round is not counted
            for name in sorted(servers, reverse=number % 2 == 0):
                once = one_round(servers[name], f"round-{number + 1}", values, records)
                for what, seconds in once.items():
                    if number >= 0:
                        took[what].setdefault(name, []).append(seconds)
    titles = {
        "produce": f"{records:,} records of {VALUE_BYTES} bytes produced, s",
        "fetch": "the same fetched, s",
        "send": "one record sent and acknowledged, µs",
    }
    for what, found in took.items():
        unit = 1e6 if what == "send" else 1
        dev, real = (statistics.median(found[name]) * unit for name in ("dev", "real"))
        digits = 0 if what == "send" else 2
        yield titles[what], f"{dev:.{digits}f}", f"{real:.{digits}f}", f"{dev / real:.2f}"


def one_round(servers: str, topic: str, values: list[bytes], records: int) -> dict[str, float]:
    with klamm.Admin(servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=PARTITIONS)})
        with klamm.Producer(servers, batch_size=1_000_000, linger_ms=5) as producer:
            producer.send(topic, b"first", partition=0).result(timeout=30)
            began = time.perf_counter()
            for start in range(0, records, CHUNK):
                producer.send_many(topic, values[: records - start], partition=start // CHUNK % PARTITIONS)
            producer.flush(120)
            produced = time.perf_counter() - began
        with klamm.Producer(servers) as producer:
            trips = []
            for _ in range(300):
                sent = time.perf_counter()
                producer.send(topic, b"v", partition=0).result(timeout=30)
                trips.append(time.perf_counter() - sent)
        tps = [klamm.TopicPartition(topic, number) for number in range(PARTITIONS)]
        with klamm.Consumer(servers) as consumer:
            ends = consumer.end_offsets(tps)
            began = time.perf_counter()
            consumer.assign([klamm.TopicPartition(topic, p.partition, 0, end) for p, end in ends.items()])
            count = sum(batch.num_rows for batch in consumer.arrow())
            fetched = time.perf_counter() - began
        assert count == records + 301
        admin.delete_topics([topic])
    return {"produce": produced, "fetch": fetched, "send": statistics.median(trips)}


def memory() -> tuple[str, ...]:
    """Measure the broker's memory with incompressible records, in batches of the size that a producer makes."""
    value = os.urandom(1_000)
    with dev_broker() as (servers, pid), klamm.Producer(servers) as producer:
        for _ in range(HELD_MB):
            producer.send_many("t", [value] * 1_000)
        producer.flush(60)
        return f"resident with {HELD_MB} MB of records, MB", f"{resident_kib(pid) * 1024 / 1e6:.0f}", "", ""


@contextlib.contextmanager
def dev_broker() -> Iterator[tuple[str, int]]:
    """Run `klamm dev-broker` in a separate process. Yield its address and its process ID."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", "from klamm.cli import main; main()", "dev-broker"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            address = process.stdout.readline().strip()
            if not address:
                errors.seek(0)
                sys.exit(f"the dev broker did not start: {errors.read()}")
            yield address, process.pid
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
            process.stdout.close()


if __name__ == "__main__":
    main()
