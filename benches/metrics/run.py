"""Measures what the metrics cost: CPU time of the produce and consume loops, of two checkouts in turn.

    python benches/metrics/run.py OTHER_CHECKOUT [THIS_CHECKOUT]

A dev broker runs in this process, and each loop in a process of its own, which reports its CPU time. The loops of both checkouts
take turns, so that a busy machine slows both down. Both checkouts need extensions that were built the same way.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

from klamm.testing import DevBroker

ROUNDS = int(os.environ.get("ROUNDS", "15"))
RECORDS = 2_000_000

LOOPS = {
    "send": f"""
with klamm.Producer(servers, linger_ms=5, buffer_memory=1 << 28) as producer:
    value = b"v" * 100
    for _ in range({RECORDS}):
        producer.send_nowait(topic, value)
""",
    "send_many": f"""
with klamm.Producer(servers, linger_ms=5, buffer_memory=1 << 28) as producer:
    for _ in range(10):
        producer.send_many(topic, [b"v" * 100] * {RECORDS // 10})
""",
    "poll": f"""
with klamm.Consumer(servers) as consumer:
    consumer.assign([klamm.TopicPartition("full", 0, offset=0, end_offset={RECORDS})])
    while consumer.poll(10):
        pass
""",
    "iterate": f"""
with klamm.Consumer(servers) as consumer:
    consumer.assign([klamm.TopicPartition("full", 0, offset=0, end_offset={RECORDS})])
    for record in consumer:
        record.value
""",
}

FRAME = """
import sys, time
import klamm
servers, topic = sys.argv[1:]
klamm.Producer, klamm.Consumer  # imports the modules
began = time.process_time()
{loop}
print(time.process_time() - began)
"""


def seconds(checkout: Path, loop: str, servers: str, topic: str) -> float:
    """Return the CPU time of one loop."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "python")}
    command = [sys.executable, "-c", FRAME.format(loop=LOOPS[loop]), servers, topic]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Run all loops and print a table."""
    other = Path(sys.argv[1])
    this = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parents[2]
    print(f"{'loop':10} {'other':>8} {'this':>8}  difference of the medians, of the minima")
    for loop in LOOPS:
        times: dict[Path, list[float]] = {other: [], this: []}
        for number in range(ROUNDS):
            # A new broker for each round: its logs must not grow into the memory of later rounds.
            with DevBroker(max_bytes=1 << 31) as broker:
                if loop in {"poll", "iterate"}:
                    fill(broker.bootstrap_servers)
                for checkout in (other, this) if number % 2 else (this, other):
                    times[checkout].append(seconds(checkout, loop, broker.bootstrap_servers, f"t{checkout.name}"))
        medians = [statistics.median(times[checkout]) for checkout in (other, this)]
        minima = [min(times[checkout]) for checkout in (other, this)]
        by_median, by_minimum = (pair[1] / pair[0] - 1 for pair in (medians, minima))
        print(f"{loop:10} {medians[0]:8.3f} {medians[1]:8.3f}  {by_median:+.1%} {by_minimum:+.1%}")


def fill(servers: str) -> None:
    """Write the records that the consumers read."""
    import klamm

    with klamm.Producer(servers, linger_ms=5, buffer_memory=1 << 28) as producer:
        producer.send_many("full", [b"v" * 100] * RECORDS)


if __name__ == "__main__":
    main()
