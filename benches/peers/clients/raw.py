"""The adapter for the raw socket, which sends ready-made requests and reads only a few fields of each response.

The raw socket shows the limits of the broker and the machine.

The produce case keeps five requests in flight, each with one batch for every partition. The consume case has one fetch request in
flight for all partitions, as Java's consumer does. The adapter computes batches and their CRCs before the measurement.
"""

import sys
import time

import raw
from meter import Meter, Turns
from workload import (
    BATCH_BYTES,
    FETCH_BYTES,
    FETCH_WAIT_MS,
    IN_FLIGHT,
    PARTITION_FETCH_BYTES,
    PARTITIONS,
    POOL,
    Job,
    Load,
)

NAME = "raw socket"
IMPORT = None
SHARE = 1.0


def versions() -> str:
    return f"Python {sys.version.split()[0]} socket"


def produce(job: Job, load: Load, meter: Meter) -> int:
    per_batch = BATCH_BYTES // len(raw.record(POOL, *load.pairs[0]))
    full, rest = divmod(job.records // PARTITIONS, per_batch)
    frames = [ready_made(job, load, per_batch)] * full + [ready_made(job, load, rest)] * (rest > 0)
    broker = raw.Broker(job.bootstrap)
    warm_up(broker, job, load)
    with meter:
        for number, frame in enumerate(frames):
            if number >= IN_FLIGHT:
                broker.acknowledged()
            broker.send(frame)
        for _ in frames[-IN_FLIGHT:]:
            broker.acknowledged()
    broker.close()
    return job.records


def consume(job: Job, load: Load, meter: Meter) -> int:
    broker, offsets, seen = raw.Broker(job.bootstrap), dict.fromkeys(range(PARTITIONS), 0), 0
    with meter:
        while seen < job.records:
            broker.send(raw.fetch_request(job.topic, offsets, FETCH_WAIT_MS, FETCH_BYTES, PARTITION_FETCH_BYTES))
            seen += raw.fetched(broker.response(), offsets)
    broker.close()
    return seen


def latency(job: Job, load: Load, turns: Turns) -> None:
    broker, now = raw.Broker(job.bootstrap), time.perf_counter_ns
    frame = raw.produce_request(job.topic, {0: raw.batch(load.pairs[:1])})
    for count in turns:
        for _ in range(count):
            began = now()
            broker.send(frame)
            broker.acknowledged()
            turns.samples.append(now() - began)
    broker.close()


def arrival(job: Job, load: Load, turns: Turns) -> None:
    sender, broker, now = (
        raw.Sender(job.bootstrap, job.topic, load.pairs[0]),
        raw.Broker(job.bootstrap),
        time.perf_counter_ns,
    )
    offsets = dict.fromkeys(range(PARTITIONS), 0)

    def fetch() -> None:
        broker.send(raw.fetch_request(job.topic, offsets, FETCH_WAIT_MS, FETCH_BYTES, PARTITION_FETCH_BYTES))

    fetch()
    for count in turns:
        for _ in range(count):
            began = sender.send()
            while not raw.fetched(broker.response(), offsets):
                fetch()
            turns.samples.append(now() - began)
            fetch()
            sender.wait_acknowledged()


def warm_up(broker: raw.Broker, job: Job, load: Load) -> None:
    broker.send(ready_made(job, load, 1))
    broker.acknowledged()


def ready_made(job: Job, load: Load, size: int) -> bytes:
    """Build a request with the first `size` records of the pool for every partition. The raw socket does not hash keys."""
    return raw.produce_request(job.topic, dict.fromkeys(range(PARTITIONS), raw.batch(load.pairs[:size])))


CASES = {
    "produce-loop": {"ready-made batches": produce},
    "produce-bulk": {"ready-made batches": produce},
    "consume-loop": {"decodes nothing": consume},
    "consume-arrow": {"decodes nothing": consume},
    "latency": {"sync": latency},
    "end-to-end": {"long poll": arrival},
}
