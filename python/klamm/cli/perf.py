"""`klamm perf`: measures producing, consuming, and the latency of a record from the producer to the consumer.

With `--rate`, the latency of a record begins when the record was due, not when the program sent it. If latencies began at
the time of sending, a stalled broker would appear as one slow record, although all later records waited as well.
"""

from __future__ import annotations

import os
import sys
import time
from array import array
from typing import TYPE_CHECKING, Any

import klamm
from klamm.cli.clients import client_config, closing
from klamm.cli.options import add_common, duration, positive
from klamm.cli.output import CommandError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

PAYLOADS = 256
"""Number of different record values, so that compression and caches do not see the same bytes each time."""
SAMPLES = 10_000
"""Approximate maximum number of measured latencies. With more records, the command measures only every n-th record."""
PERCENTILES = (50, 90, 99, 99.9)
POLL_SECONDS = 0.1


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "perf",
        help="measure producing, consuming and latency",
        description="Measure producing, consuming, and the latency from producer to consumer. The topic must exist.",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "produce",
        help="measure a producer",
        description="Send random records. Print the throughput, and the latencies from sending to the acknowledgement.",
    )
    add_load(part, 100_000)
    part.add_argument(
        "--rate",
        metavar="N",
        type=positive,
        help="send N records a second, and measure latency from the time when each record was due (default: as fast as possible)",
    )
    part.add_argument("--acks", choices=("0", "1", "all"), help="replicas that must store a record (default: all)")
    part.add_argument(
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        help="compress record batches (default: none)",
    )
    add_common(
        part, produce, "print one JSON object, with records, bytes, seconds, rates and latencies in milliseconds"
    )

    part = parts.add_parser(
        "consume",
        help="measure a consumer",
        description="Read the records of a topic from its start. Print the throughput and the time to the first record.",
    )
    part.add_argument("topic", metavar="TOPIC", help="topic to read")
    part.add_argument(
        "--records", metavar="N", type=positive, help="stop after N records (default: at the end of the topic)"
    )
    part.add_argument(
        "--idle",
        metavar="DURATION",
        type=duration,
        default=10_000,
        help="stop when no record arrives for this time (default: 10s)",
    )
    add_common(part, consume, "print one JSON object, with records, bytes, seconds and rates")

    part = parts.add_parser(
        "end-to-end",
        help="measure the latency from producer to consumer",
        description="Send one record at a time. Print the latencies from sending a record until a consumer receives it.",
    )
    add_load(part, 1000)
    part.add_argument("--acks", choices=("0", "1", "all"), help="replicas that must store a record (default: all)")
    add_common(part, end_to_end, "print one JSON object, with records and latencies in milliseconds")


def add_load(part: argparse.ArgumentParser, records: int) -> None:
    """Add the topic, and the options for the number and size of the records to send."""
    part.add_argument("topic", metavar="TOPIC", help="topic to send to")
    part.add_argument(
        "--records", metavar="N", type=positive, default=records, help="send N records (default: %(default)s)"
    )
    part.add_argument(
        "--size", metavar="BYTES", type=positive, default=100, help="size of each value (default: %(default)s)"
    )


def payloads(size: int) -> list[bytes]:
    """Return random values of this size in bytes."""
    return [os.urandom(size) for _ in range(PAYLOADS)]


def produce(args: argparse.Namespace, output: Output) -> int:
    """Measure a producer."""
    latencies = array("d")
    failures: list[BaseException] = []
    values = payloads(args.size)
    step = max(args.records // SAMPLES, 1)
    producer = klamm.Producer(
        client_config(
            args, "producer", acks=args.acks, compression_type=args.compression, allow_auto_create_topics="false"
        )
    )
    with closing(producer), output.progress(f"produce {args.topic}", args.records * args.size) as advance:
        producer.partitions_for(args.topic)
        started = time.perf_counter()
        for number in range(args.records):
            due = time.perf_counter()
            if args.rate is not None:
                due = started + number / args.rate
                wait = due - time.perf_counter()
                if wait > 0:
                    time.sleep(wait)
            if number % step:
                producer.send_nowait(args.topic, values[number % PAYLOADS])
            else:
                producer.send(args.topic, values[number % PAYLOADS]).add_done_callback(noted(due, latencies, failures))
                advance(args.size * step, step)
        producer.flush()
        seconds = time.perf_counter() - started
    if failures:
        raise failures[0]
    return show(output, args.records, args.records * args.size, seconds, latencies)


def noted(due: float, latencies: array[float], failures: list[BaseException]) -> Callable[[Any], None]:
    """Return a callback that stores the latency of a record, or its error."""

    def note(delivery: Any) -> None:
        error = delivery.exception()
        if error is None:
            latencies.append(time.perf_counter() - due)
        else:
            failures.append(error)

    return note


def consume(args: argparse.Namespace, output: Output) -> int:
    """Measure a consumer."""
    records = size = 0
    first = None
    with closing(klamm.Consumer(client_config(args, "consumer", allow_auto_create_topics="false"))) as consumer:
        started = time.perf_counter()
        partitions = [klamm.TopicPartition(args.topic, number) for number in consumer.partitions_for(args.topic)]
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        unfinished = {tp for tp in partitions if begins[tp] < ends[tp]}
        consumer.assign(
            [klamm.TopicPartition(tp.topic, tp.partition, begins[tp], ends[tp]) for tp in sorted(unfinished)]
        )
        last = time.perf_counter()
        while unfinished and (args.records is None or records < args.records):
            batch = consumer.poll(POLL_SECONDS)
            now = time.perf_counter()
            if batch:
                first = now if first is None else first
                last = now
                records += len(batch)
                size += sum(len(record.value or b"") + len(record.key or b"") for record in batch)
            elif (now - last) * 1000 > args.idle:
                raise CommandError(
                    f"no record of {args.topic} arrived for {args.idle:,} ms", "check the brokers, or increase --idle"
                )
            unfinished = {tp for tp in unfinished if consumer.position(tp) < ends[tp]}
    seconds = max(last - started, 1e-9)
    to_first = None if first is None else round((first - started) * 1000, 3)
    return show(output, records, size, seconds, (), first_record_ms=to_first)


def end_to_end(args: argparse.Namespace, output: Output) -> int:
    """Measure the latency of single records."""
    latencies = array("d")
    values = payloads(args.size)
    config = client_config(args, "producer", acks=args.acks, linger_ms="0", allow_auto_create_topics="false")
    with (
        closing(klamm.Producer(config)) as producer,
        closing(klamm.Consumer(client_config(args, "consumer"))) as consumer,
        output.progress(f"send to {args.topic}", args.records) as advance,
    ):
        partition = klamm.TopicPartition(args.topic, producer.partitions_for(args.topic)[0])
        begin = consumer.end_offsets([partition])[partition]
        consumer.assign([klamm.TopicPartition(args.topic, partition.partition, begin)])
        started = time.perf_counter()
        for number in range(args.records):
            sent = time.perf_counter()
            metadata = producer.send(args.topic, values[number % PAYLOADS], partition=partition.partition).result()
            while not any(record.offset == metadata.offset for record in consumer.poll(POLL_SECONDS)):
                if time.perf_counter() - sent > 60:  # noqa: PLR2004 - a minute
                    raise CommandError(
                        f"record {metadata.offset} of {args.topic}-{partition.partition} did not arrive within a minute"
                    )
            latencies.append(time.perf_counter() - sent)
            advance(1, 1)
        seconds = time.perf_counter() - started
    return show(output, args.records, args.records * args.size, seconds, latencies)


def percentile(ordered: Sequence[float], rank: float) -> float:
    """Return a percentile of sorted values by the nearest rank. `rank` is from 0 to 100."""
    return ordered[min(int(len(ordered) * rank / 100), len(ordered) - 1)]


def show(
    output: Output,
    records: int,
    size: int,
    seconds: float,
    latencies: Sequence[float],
    **more: float | None,
) -> int:
    """Print the measurements."""
    ordered = sorted(latencies)
    found: dict[str, Any] = {
        "records": records,
        "bytes": size,
        "seconds": round(seconds, 6),
        "records_per_second": round(records / seconds, 1),
        "bytes_per_second": round(size / seconds, 1),
        **more,
    }
    if ordered:
        found["latency_ms"] = {
            "measured": len(ordered),
            "mean": round(sum(ordered) / len(ordered) * 1000, 3),
            **{f"p{rank}": round(percentile(ordered, rank) * 1000, 3) for rank in PERCENTILES},
            "max": round(ordered[-1] * 1000, 3),
        }
    if output.json:
        output.result(found)
        return 0
    latency = found.pop("latency_ms", {})
    rows = [
        *found.items(),
        *(
            (f"latency {name} ms" if name != "measured" else "latencies measured", value)
            for name, value in latency.items()
        ),
    ]
    output.table(("measure", "value"), rows)
    sys.stdout.flush()
    return 0
