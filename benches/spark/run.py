"""klamm's Spark source and sink beside Spark's own Kafka connector, in one session against one real broker.

    python benches/spark/run.py [--records N] [--rounds N]

Batch reads (`sum(length(value)), count(*)`), batch writes, and a stream that reads everything into nothing. The two take turns,
after a round that is not counted; the table shows medians over the rounds, and the fastest and slowest of them. Counts are
checked. Without the connector's jars (Maven Central) klamm runs alone.
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

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from kafka_broker import RealKafka
from local_spark import builder, connector_jars

# What Kafka's own start script gives its JVM, as in benches/peers.
JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
PARTITIONS = 4


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000, help="records to read; half as many are written")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    jars, reason = connector_jars()
    sources = ["klamm"] if reason else ["kafka", "klamm"]
    if reason:
        print(f"SKIPPED kafka: {reason}")
    with RealKafka(jvm_options=JVM) as kafka, tempfile.TemporaryDirectory() as scratch:
        fill(kafka.bootstrap_servers, options.records)
        # As many tasks at a time as partitions are read in two rounds.
        spark = builder(Path(scratch), memory="3g", jvm="", jars=jars).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        cases = measured(spark, kafka.bootstrap_servers, options.records, Path(scratch), sources)
        seconds: dict[tuple[str, str], list[float]] = {(case, who): [] for case, who, _ in cases}
        for turn in range(options.rounds + 1):
            for case, who, run in cases if turn % 2 else reversed(cases):
                began = time.perf_counter()
                run()
                if turn:
                    seconds[case, who].append(time.perf_counter() - began)
        spark.stop()
    report(seconds, options)


def fill(bootstrap: str, records: int) -> None:
    """Write what is read: 16-byte keys and 100-byte values, uncompressed, over all partitions."""
    with klamm.Admin(bootstrap) as admin:
        admin.create_topics({"full": klamm.NewTopic(PARTITIONS), "sink": klamm.NewTopic(PARTITIONS)})
    with klamm.Producer(bootstrap) as producer:
        for first in range(0, records, 100_000):
            numbers = range(first, min(first + 100_000, records))
            keys = pa.array([b"%016d" % number for number in numbers])
            values = pa.array([os.urandom(50).hex().encode() for _ in numbers])
            producer.send_arrow("full", pa.record_batch({"key": keys, "value": values}))
        producer.flush()


def measured(
    spark: SparkSession, bootstrap: str, records: int, scratch: Path, sources: list[str]
) -> list[tuple[str, str, Callable[[], None]]]:
    """What is measured: the case, who does it, and the work."""
    produced = (
        spark.range(records // 2)
        .select(
            F.lpad(F.col("id").cast("string"), 16, "0").alias("key"), F.repeat(F.lit("v"), F.lit(100)).alias("value")
        )
        .cache()
    )
    produced.count()
    runs = iter(range(1_000_000))

    def read(source: str, **options: str) -> None:
        frame = (
            spark.read.format(source)
            .option("kafka.bootstrap.servers", bootstrap)
            .options(subscribe="full", **options)
            .load()
        )
        row = frame.agg(F.sum(F.length("value")), F.count("*")).first()
        assert row is not None
        assert tuple(row) == (100 * records, records), tuple(row)

    def write(sink: str) -> None:
        (
            produced.write.format(sink)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", "sink")
            .mode("append")
            .save()
        )

    def stream(source: str, **options: str) -> None:
        query = (
            spark.readStream.format(source)
            .option("kafka.bootstrap.servers", bootstrap)
            .options(subscribe="full", startingOffsets="earliest", **options)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(scratch / f"checkpoint-{next(runs)}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert sum(batch["numInputRows"] for batch in query.recentProgress) == records

    cases: list[tuple[str, str, Callable[[], None]]] = []
    for source in sources:
        cases += [
            (f"batch read of {records:,}", source, partial(read, source)),
            (f"batch write of {records // 2:,}", source, partial(write, source)),
            (f"stream of {records:,}, one batch", source, partial(stream, source)),
        ]
    cases.append((f"batch read of {records:,}", "klamm, columns=value", partial(read, "klamm", columns="value")))
    return sorted(cases, key=lambda case: case[0])


def report(seconds: dict[tuple[str, str], list[float]], options: argparse.Namespace) -> None:
    """Print the table."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\nSpark local[2] on {os.cpu_count()} CPUs, {options.rounds} rounds, load average at the end {load}\n")
    print("| case | source or sink | median s | fastest - slowest | times as fast |")
    print("|---|---|---|---|---|")
    for (case, who), times in seconds.items():
        median = statistics.median(times)
        base = seconds.get((case, "kafka"))
        ratio = f"{statistics.median(base) / median:.1f}" if base else ""
        print(f"| {case} | {who} | {median:.2f} | {min(times):.2f} - {max(times):.2f} | {ratio} |")


if __name__ == "__main__":
    main()
