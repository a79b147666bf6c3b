"""Compares klamm's Spark source and sink with Spark's own Kafka connector, in one session against one real broker.

    python benches/spark/run.py [bulk] [pipelines] [--records N] [--rounds N] ...

`pipelines` measures typical pipelines (see `pipelines.py`). `bulk` measures these cases:

* batch reads (`sum(length(value)), count(*)`) of a large topic and of a small topic
* batch writes
* a stream that reads the whole topic in one micro-batch and writes nothing
* a stream of small micro-batches, whose result is the median duration of a micro-batch

klamm and the connector take turns. The script does not count the first round. The table shows the median, the fastest
and the slowest round. The script checks all counts. At the end, the script prints the memory of klamm's Python workers.
Without the connector's jars (Maven Central), the script only measures klamm.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

import klamm

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
import pipelines
from pipelines import JVM

from kafka_broker import RealKafka
from local_spark import builder, connector_jars, worker_peaks

PARTITIONS = 4
# Number of records in the topic for small reads, and number of its micro-batches, which have ten records each.
SMALL = 400
BATCHES = 40
# Typical headers, such as the headers of a tracing library.
HEADERS = [
    {"key": "traceparent", "value": b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    {"key": "source", "value": b"shop"},
]

# klamm's targets: the speed of klamm divided by the speed of the connector.
TARGETS = {
    "batch read": 2.5,
    "batch read, headers": 2.5,
    "batch write": 1.8,
    "stream, one batch": 1.4,
    "batch read, small": 3.0,
    "stream, a batch of 10": 1 / 1.25,
}
WORKER_MB = 256


def main() -> None:
    """Run the chosen parts, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="bulk, pipelines, or both (default)")
    parser.add_argument(
        "--records", type=int, default=2_000_000, help="bulk: records to read; half as many are written"
    )
    parser.add_argument("--rounds", type=int, default=5, help="bulk: rounds")
    pipelines.add_options(parser)
    options = parser.parse_args()
    if unknown := set(options.parts) - {"bulk", "pipelines"}:
        parser.error(f"unknown part {', '.join(sorted(unknown))}")
    jars, reason = connector_jars()
    sources = ["klamm"] if reason else ["kafka", "klamm"]
    if reason:
        print(f"SKIPPED kafka: {reason}")
    if "pipelines" in options.parts or not options.parts:
        pipelines.main(options, sources, jars)
    if "bulk" in options.parts or not options.parts:
        bulk(options, sources, jars)


def bulk(options: argparse.Namespace, sources: list[str], jars: list[Path]) -> None:
    """Measure bulk reads and writes, and print the results."""
    with RealKafka(jvm_options=JVM) as kafka, tempfile.TemporaryDirectory() as scratch:
        fill(kafka.bootstrap_servers, options.records)
        # Spark runs two tasks at a time, so it reads the four partitions in two rounds.
        spark = builder(Path(scratch), memory="3g", jvm="", jars=jars).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        cases = measured(spark, kafka.bootstrap_servers, options.records, Path(scratch), sources)
        seconds: dict[tuple[str, str], list[float]] = {(case, who): [] for case, who, _ in cases}
        peaks = {}
        for turn in range(options.rounds + 1):
            for case, who, run in cases if turn % 2 else reversed(cases):
                began = time.perf_counter()
                own = run()
                if turn:
                    seconds[case, who].append(time.perf_counter() - began if own is None else own)
                peaks |= worker_peaks()
        spark.stop()
    report(seconds, options)
    print(f"\nmost memory of a Python worker: {max(peaks.values()):.0f} MB (target: below {WORKER_MB})")


def fill(bootstrap: str, records: int) -> None:
    """Write the topics to read, with 16-byte keys and uncompressed 100-byte values in all partitions.

    The records of the topic `headed` have two headers each.
    """
    with klamm.Admin(bootstrap) as admin:
        admin.create_topics(dict.fromkeys(("full", "headed", "small", "sink"), klamm.NewTopic(PARTITIONS)))
    with klamm.Producer(bootstrap) as producer:
        for first in range(0, records, 100_000):
            numbers = range(first, min(first + 100_000, records))
            keys = pa.array([b"%016d" % number for number in numbers])
            values = pa.array([os.urandom(50).hex().encode() for _ in numbers])
            producer.send_arrow("full", pa.record_batch({"key": keys, "value": values}))
            headers = pa.array([HEADERS], pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})))
            headers = headers.take(pa.array([0] * len(numbers)))
            producer.send_arrow("headed", pa.record_batch({"key": keys, "value": values, "headers": headers}))
        for number in range(SMALL):
            producer.send_nowait("small", b"v" * 100, key=b"%016d" % number, partition=number % PARTITIONS)
        producer.flush()


def measured(
    spark: SparkSession, bootstrap: str, records: int, scratch: Path, sources: list[str]
) -> list[tuple[str, str, Callable[[], float | None]]]:
    """Return the cases. A case has a name, a format, and a function that runs it and may return its own duration."""
    produced = (
        spark.range(records // 2)
        .select(
            F.lpad(F.col("id").cast("string"), 16, "0").alias("key"), F.repeat(F.lit("v"), F.lit(100)).alias("value")
        )
        .cache()
    )
    produced.count()
    runs = iter(range(1_000_000))

    def read(source: str, topic: str = "full", **options: str) -> None:
        expected = SMALL if topic == "small" else records
        frame = (
            spark.read.format(source)
            .option("kafka.bootstrap.servers", bootstrap)
            .options(subscribe=topic, **options)
            .load()
        )
        row = frame.agg(F.sum(F.length("value")), F.count("*")).first()
        assert row is not None
        assert tuple(row) == (100 * expected, expected), tuple(row)

    def write(sink: str) -> None:
        (
            produced.write.format(sink)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", "sink")
            .mode("append")
            .save()
        )

    def stream(source: str, topic: str = "full", **options: str) -> list[StreamingQueryProgress]:
        query = (
            spark.readStream.format(source)
            .option("kafka.bootstrap.servers", bootstrap)
            .options(subscribe=topic, startingOffsets="earliest", **options)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(scratch / f"checkpoint-{next(runs)}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [report for report in query.recentProgress if report["numInputRows"]]

    def one_batch(source: str) -> None:
        assert [report["numInputRows"] for report in stream(source)] == [records]

    def small_batches(source: str) -> float:
        reports = stream(source, "small", maxOffsetsPerTrigger=str(SMALL // BATCHES))
        assert sum(report["numInputRows"] for report in reports) == SMALL, [r["numInputRows"] for r in reports]
        return statistics.median(report["durationMs"]["triggerExecution"] for report in reports) / 1000

    cases: list[tuple[str, str, Callable[[], float | None]]] = []
    for source in sources:
        cases += [
            ("batch read", source, partial(read, source)),
            ("batch read, headers", source, partial(read, source, "headed", includeHeaders="true")),
            ("batch read, small", source, partial(read, source, "small")),
            ("batch write", source, partial(write, source)),
            ("stream, one batch", source, partial(one_batch, source)),
            ("stream, a batch of 10", source, partial(small_batches, source)),
        ]
    cases.append(("batch read", "klamm, columns=value", partial(read, "klamm", columns="value")))
    return sorted(cases, key=lambda case: case[0])


def report(seconds: dict[tuple[str, str], list[float]], options: argparse.Namespace) -> None:
    """Print the table of durations, with ratios and targets."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\nSpark local[2] on {os.cpu_count()} CPUs, {options.rounds} rounds, load average at the end {load}\n")
    print("| case | source or sink | median s | fastest - slowest | times as fast | target |")
    print("|---|---|---|---|---|---|")
    for (case, who), times in seconds.items():
        median = statistics.median(times)
        base = seconds.get((case, "kafka"))
        ratio = f"{statistics.median(base) / median:.2f}" if base else ""
        target = f"{TARGETS[case]:.1f}" if who == "klamm" else ""
        print(f"| {case} | {who} | {median:.3f} | {min(times):.3f} - {max(times):.3f} | {ratio} | {target} |")


if __name__ == "__main__":
    main()
