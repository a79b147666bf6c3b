"""A Spark pipeline that counts log lines per minute. The pipeline counts each line exactly once, even after failures.

The pipeline reads a topic of log lines. The key of each line is the name of the system, such as `billing`. The pipeline
extracts the time and the level of each line, and joins the lines with a table of systems. Then it counts the lines and
bytes of each system and level in each time window. Two queries write their results exactly once:

- counts: writes a record for each complete window to the result topic. An example is the key `billing` with the value
  `{"from": "2026-03-01T12:00:00", "system": "billing", "kind": "service", "level": "ERROR", "lines": 7, "bytes": 903}`.
- dead letters: writes the lines of unknown systems and the lines without a time to a separate topic. The query does not
  change the lines. The header `why` says why a line was not counted, and the headers `topic`, `partition` and
  `offset` say where the line comes from.

    python -m klamm.pipeline --bootstrap localhost:9092 --source lines --result counts --dead-letters dead --checkpoint DIR

The pipeline stops at the end of the topic. With `--follow`, it waits for new records instead. If you start it again
with the same checkpoint, it continues with newer records. A window is complete when a line has arrived whose time is at
least `--lateness` after the end of the window. A line of a complete window is late: the pipeline reports late lines,
but does not count them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from klamm.examples.source_lines import session
from klamm.spark.progress import ProgressLog, observed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Topics(NamedTuple):
    """Names of the topics for lines, counts and dead letters."""

    lines: str
    counts: str
    dead: str


def lines(spark: SparkSession, bootstrap: str, topic: str, rows_per_batch: int) -> DataFrame:
    """Return the records of a topic as a stream that starts at the first record."""
    return (
        spark.readStream.format("klamm")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .option("columns", "key,value,topic,partition,offset")
        .load()
    )


def parsed(lines: DataFrame, systems: DataFrame) -> DataFrame:
    """Add the system, its kind, the time and the level to each line.

    This function uses only Spark's own functions, so that no row passes through Python.
    """
    text = F.col("value").cast("string")
    times = [
        *(F.try_to_timestamp(F.regexp_replace(_found(text, at), "T", " "), F.lit(form)) for at, form in TIMES),
        *(F.timestamp_seconds(_found(text, at).try_cast("bigint")) for at in EPOCHS),
    ]
    level = F.upper(_found(text, LEVEL))
    return lines.select(
        "*",
        F.col("key").cast("string").alias("system"),
        F.coalesce(*times).alias("time"),
        F.when(level == "", "-").otherwise(level).alias("level"),
    ).join(F.broadcast(systems), "system", "left")


def counts(parsed: DataFrame, window: str, lateness: str) -> DataFrame:
    """Count the lines of each combination of window, system and level."""
    known = parsed.where(F.col("kind").isNotNull() & F.col("time").isNotNull())
    counted = (
        known.withWatermark("time", lateness)
        .groupBy(F.window("time", window), "system", "kind", "level")
        .agg(F.count(F.lit(1)).alias("lines"), F.sum(F.octet_length("value")).alias("bytes"))
    )
    begin = F.date_format("window.start", "yyyy-MM-dd'T'HH:mm:ss").alias("from")
    return counted.select(
        F.col("system").alias("key"),
        F.to_json(F.struct(begin, "system", "kind", "level", "lines", "bytes")).alias("value"),
    )


def dead_letters(parsed: DataFrame) -> DataFrame:
    """Return the lines that the pipeline cannot count, with the reason and the original position as headers."""
    why = F.when(F.col("kind").isNull(), "unknown system").when(F.col("time").isNull(), "no time")
    notes = {"why": why, **{name: F.col(name).cast("string") for name in ("topic", "partition", "offset")}}
    headers = F.array(
        *(F.struct(F.lit(name).alias("key"), F.encode(note, "utf-8").alias("value")) for name, note in notes.items())
    )
    return parsed.where(why.isNotNull()).select("key", "value", headers.alias("headers"))


def systems(spark: SparkSession, rows: dict[str, str]) -> DataFrame:
    """Return a table of systems and the kind of each system."""
    pairs = [F.struct(F.lit(name).alias("system"), F.lit(kind).alias("kind")) for name, kind in rows.items()]
    return spark.range(1).select(F.inline(F.array(*pairs)))


def start(
    spark: SparkSession,
    bootstrap: str,
    topics: Topics,
    checkpoint: Path,
    *,
    known: DataFrame | None = None,
    window: str = "1 minute",
    lateness: str = "1 hour",
    rows_per_batch: int = 250_000,
    follow: bool = False,
) -> list[StreamingQuery]:
    """Start the queries for counts and dead letters, and return both queries.

    Args:
        spark: Spark session.
        bootstrap: Addresses of brokers, as `"host:port"`.
        topics: Names of the topics.
        checkpoint: Directory for the checkpoints of both queries.
        known: Table with the columns `system` and `kind`. The default is a built-in table.
        window: Length of a window.
        lateness: Longest delay of a line that the pipeline still counts.
        rows_per_batch: Maximum number of records in a micro-batch.
        follow: Whether to continue with new records instead of stopping at the end of the topic.
    """
    if known is None:
        known = systems(spark, SYSTEMS)

    def write(rows: DataFrame, name: str, topic: str) -> StreamingQuery:
        writer = (
            rows.writeStream.format("klamm")
            .queryName(name)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", topic)
            .option("delivery", "exactly-once")
            .option("checkpointLocation", str(checkpoint / name.replace(" ", "-")))
        )
        return (writer.trigger(processingTime="1 second") if follow else writer.trigger(availableNow=True)).start()

    read = parsed(observed(lines(spark, bootstrap, topics.lines, rows_per_batch)), known)
    return [
        write(counts(read, window, lateness), "counts", topics.counts),
        write(dead_letters(read), "dead letters", topics.dead),
    ]


def wait(queries: list[StreamingQuery], log: ProgressLog | None = None) -> None:
    """Wait until all queries end, and write their progress to the log. Raise the error of a query that failed."""
    try:
        while any(not query.awaitTermination(1) for query in queries):
            pass
    finally:
        for query in queries:
            query.stop()
            if log is not None:
                for report in query.recentProgress:
                    log.note(report)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the pipeline from the command line."""
    parser = argparse.ArgumentParser(description="count log lines by system, level and window of time, exactly once")
    parser.add_argument("--bootstrap", default="localhost:9092", metavar="HOST:PORT")
    parser.add_argument("--source", required=True, metavar="TOPIC", help="topic of log lines, with the system as key")
    parser.add_argument("--result", required=True, metavar="TOPIC", help="topic for the counts")
    parser.add_argument("--dead-letters", required=True, metavar="TOPIC", help="topic for lines that cannot be counted")
    parser.add_argument("--checkpoint", required=True, metavar="DIR", type=Path, help="directory for Spark checkpoints")
    parser.add_argument("--systems", metavar="CSV", help="table with columns system and kind (default: a built-in one)")
    parser.add_argument("--window", default="1 minute", help="length of a window (default: %(default)s)")
    parser.add_argument("--lateness", default="1 hour", help="how late a line may be (default: %(default)s)")
    parser.add_argument("--rows-per-batch", type=int, default=250_000, metavar="N")
    parser.add_argument("--progress", metavar="FILE", help="append what each batch did, for `klamm report`")
    parser.add_argument(
        "--follow", action="store_true", help="continue with new records instead of stopping at the end of the topic"
    )
    given = parser.parse_args(arguments)
    spark = session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    log = None if given.progress is None else ProgressLog(given.progress)
    if log is not None:
        spark.streams.addListener(log)
    known = None if given.systems is None else spark.read.csv(given.systems, header=True)
    began = time.monotonic()
    try:
        queries = start(
            spark,
            given.bootstrap,
            Topics(given.source, given.result, given.dead_letters),
            given.checkpoint,
            known=known,
            window=given.window,
            lateness=given.lateness,
            rows_per_batch=given.rows_per_batch,
            follow=given.follow,
        )
        wait(queries, log)
        done = sum(report["numInputRows"] for report in queries[0].recentProgress)
    finally:
        spark.stop()
    print(f"{done:,} lines in {time.monotonic() - began:.1f} s")


def _found(text: Column, pattern: str) -> Column:
    return F.regexp_extract(text, pattern, 1)


# Patterns and formats of times, in this order: ISO 8601 (optionally after a file name), Hadoop, Spark, Apache and
# HealthApp.
TIMES = (
    (r"^(?:\S+\.log\S* )?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)", "yyyy-MM-dd HH:mm:ss"),
    (r"^(\d{6} \d{6}) ", "yyMMdd HHmmss"),
    (r"^(\d\d/\d\d/\d\d \d\d:\d\d:\d\d) ", "yy/MM/dd HH:mm:ss"),
    (r"^\[\w{3} (\w{3} \d\d \d\d:\d\d:\d\d \d{4})\]", "MMM dd HH:mm:ss yyyy"),
    (r"^(\d{8}-\d{1,2}:\d{1,2}:\d{1,2})", "yyyyMMdd-H:m:s"),
)

# Patterns of times in seconds since 1970: the first for Blue Gene/L and Thunderbird, the second for HPC.
EPOCHS = (r"^\S+ (\d{10}) \d{4}\.\d\d\.\d\d ", r"^\d+ \S+ \S+ \S+ (\d{9,10}) ")

LEVEL = r"(?i)\b(trace|debug|info|notice|warn(?:ing)?|error|severe|fatal)\b"

# The services of klamm.examples.log_lines, and the systems in the data set loghub whose times have a year.
SYSTEMS = {
    "billing": "service",
    "gateway": "service",
    "search": "service",
    "Apache": "server",
    "BGL": "supercomputer",
    "HDFS": "distributed system",
    "HPC": "supercomputer",
    "Hadoop": "distributed system",
    "HealthApp": "phone",
    "OpenStack": "distributed system",
    "Spark": "distributed system",
    "Thunderbird": "supercomputer",
    "Windows": "operating system",
    "Zookeeper": "distributed system",
}

if __name__ == "__main__":
    main()
