"""Measures how long `klamm.protocol` and kafka-python take to decode a batch into Python records.

The two clients take turns. The bench reads key and value of each record, and both clients check the CRC. The bench
prints JSON: nanoseconds per record by shape and client, with one value for each round. `run.py` puts these values into
a table.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from kafka.record import MemoryRecords

from klamm import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 10_000
SHAPES = {"100 bytes": (16, 100), "1 KiB": (16, 1024), "8 bytes": (4, 8)}
START_MS = 1_700_000_000_000


def ours(data: bytes) -> int:
    """Read a batch with klamm. Return the total number of bytes in keys and values."""
    return sum(
        len(r.key or b"") + len(r.value or b"") for batch in protocol.decode_records(data) for r in batch.records
    )


def theirs(data: bytes) -> int:
    """Read a batch with kafka-python. Return the total number of bytes in keys and values."""
    size, records = 0, MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        if not batch.validate_crc():
            raise ValueError("kafka-python computes another CRC for a batch that klamm wrote")
        size += sum(len(r.key) + len(r.value) for r in batch)
    return size


def seconds(read: Callable[[bytes], int], data: bytes, size: int) -> float:
    """Read a batch once, and return the duration in seconds."""
    began = time.perf_counter()
    if read(data) != size:
        raise ValueError(f"{read.__name__} did not read all bytes")
    return time.perf_counter() - began


def main() -> None:
    """Measure, and print the results as JSON."""
    rounds = int(sys.argv[1])
    measured = {}
    for name, (key, value) in SHAPES.items():
        records = [
            protocol.BatchRecord(timestamp=START_MS + i // 8, key=b"%0*d" % (key, i), value=b"v" * value)
            for i in range(RECORDS)
        ]
        data, size = protocol.encode_batch(records), RECORDS * (key + value)
        clients = {"klamm": ours, "kafka-python": theirs}
        found: dict[str, list[float]] = {client: [] for client in clients}
        for _ in range(rounds + 1):
            for client, read in clients.items():
                found[client].append(seconds(read, data, size) / RECORDS * 1e9)
        # Do not count the first round, which warms up caches.
        measured[name] = {client: times[1:] for client, times in found.items()}
    json.dump(measured, sys.stdout)


if __name__ == "__main__":
    main()
