"""Measures what the flight recorder costs: CPU of produce and consume loops with and without it, in turns.

    python benches/flight.py [ROUNDS]

Small requests are the worst case, because the recorder works for each frame and not for each record. The dev broker runs in
another process, so that only the client's CPU counts.
"""

import subprocess
import sys
import time
from statistics import median

import klamm

BROKER = "import klamm.testing as t, sys; b = t.DevBroker().start(); print(b.bootstrap_servers, flush=True); sys.stdin.read()"
REQUESTS, RECORDS = 2_000, 200_000
LIMITS = {"without": 0, "with": 1 << 20}


def round_trips(servers: str, limit: int) -> float:
    """Return the CPU seconds of sends that each wait for their acknowledgement."""
    with klamm.Producer(servers, flight_recorder_bytes=limit) as producer:
        producer.send("round-trips", b"x").result()
        before = time.process_time()
        for _ in range(REQUESTS):
            producer.send("round-trips", b"x").result()
        return time.process_time() - before


def bulk(servers: str, limit: int) -> float:
    """Return the CPU seconds of many sends, and of reading the records."""
    with klamm.Producer(servers, flight_recorder_bytes=limit) as producer:
        producer.send("bulk", b"x").result()
        before = time.process_time()
        producer.send_many("bulk", [b"x" * 100] * RECORDS)
        producer.flush()
        spent = time.process_time() - before
    options = {"auto_offset_reset": "earliest", "flight_recorder_bytes": limit, "max_poll_records": 10_000}
    with klamm.Consumer(servers, topics=["bulk"], **options) as consumer:
        before, count = time.process_time(), 0
        while count < RECORDS:
            count += len(consumer.poll(10))
        return spent + time.process_time() - before


def main() -> None:
    """Print the median CPU of each loop, and the difference."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    with subprocess.Popen([sys.executable, "-c", BROKER], stdin=-1, stdout=-1, text=True) as broker:
        servers = broker.stdout.readline().strip()
        for loop in round_trips, bulk:
            spent = {name: [] for name in LIMITS}
            for _ in range(rounds):
                for name, limit in LIMITS.items():
                    spent[name].append(loop(servers, limit))
            least, most = (median(times) for times in spent.values())
            print(f"{loop.__name__}: {least:.4f} s without, {most:.4f} s with: {(most / least - 1) * 100:+.2f} %")
        broker.stdin.close()


if __name__ == "__main__":
    main()
