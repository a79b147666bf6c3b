"""What happens in the logs: a Spark stream from lines to counts a minute, each line counted once, whatever dies in between.

It reads a topic of log lines (key: the system, as in `billing`; value: the line), finds time and level of each line, joins it
with a table of systems, and counts lines and bytes of each system and level in windows of time. Two queries, both exactly once:

- counts: a row for each window that is over, to the result topic: key `billing`, value
  `{"from": "2026-03-01T12:00:00", "system": "billing", "kind": "service", "level": "ERROR", "lines": 7, "bytes": 903}`;
- dead letters: lines of unknown systems, and lines without a time, to a topic of their own, as they came, with headers
  `why`, `topic`, `partition` and `offset`.

    python -m klamm.pipeline --bootstrap localhost:9092 --source lines --result counts --dead-letters dead --checkpoint DIR

It works through what the topic holds and ends (or goes on, with `--follow`); started again with the same checkpoint, it goes on
with what came since. A window is over when a line `--lateness` younger than its end was seen; lines of a window that is over
come too late and are not counted, but reported.
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
    """Where lines come from, and where counts and dead letters go."""

    lines: str
    counts: str
    dead: str


def lines(spark: SparkSession, bootstrap: str, topic: str, rows_per_batch: int) -> DataFrame:
    """Read the topic from its first record on."""
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
    """Add system, kind, time and level to lines. Spark's own functions only, so no row passes through Python."""
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
    """Count the lines of each window, system and level."""
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
    """Keep the lines that cannot be counted, and say why and where they were."""
    why = F.when(F.col("kind").isNull(), "unknown system").when(F.col("time").isNull(), "no time")
    notes = {"why": why, **{name: F.col(name).cast("string") for name in ("topic", "partition", "offset")}}
    headers = F.array(
        *(F.struct(F.lit(name).alias("key"), F.encode(note, "utf-8").alias("value")) for name, note in notes.items())
    )
    return parsed.where(why.isNotNull()).select("key", "value", headers.alias("headers"))


def systems(spark: SparkSession, rows: dict[str, str]) -> DataFrame:
    """Make a table of systems and their kinds."""
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
    """Start both queries."""
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
    """Wait until all queries end, raise what one of them ends with, and note what they did."""
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
    parser.add_argument("--source", required=True, metavar="TOPIC", help="topic of lines, keyed by system")
    parser.add_argument("--result", required=True, metavar="TOPIC", help="topic that gets the counts")
    parser.add_argument("--dead-letters", required=True, metavar="TOPIC", help="topic that gets what cannot be counted")
    parser.add_argument("--checkpoint", required=True, metavar="DIR", type=Path, help="where Spark notes how far it is")
    parser.add_argument("--systems", metavar="CSV", help="table with columns system and kind (default: a built-in one)")
    parser.add_argument("--window", default="1 minute", help="length of a window (default: %(default)s)")
    parser.add_argument("--lateness", default="1 hour", help="how late a line may be (default: %(default)s)")
    parser.add_argument("--rows-per-batch", type=int, default=250_000, metavar="N")
    parser.add_argument("--progress", metavar="FILE", help="append what each batch did, for `klamm report`")
    parser.add_argument("--follow", action="store_true", help="go on for ever instead of ending with what is there")
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


# Where lines have their time, and in which form: ISO 8601 in front or behind a file's name, then Hadoop, Spark, Apache, HealthApp.
TIMES = (
    (r"^(?:\S+\.log\S* )?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)", "yyyy-MM-dd HH:mm:ss"),
    (r"^(\d{6} \d{6}) ", "yyMMdd HHmmss"),
    (r"^(\d\d/\d\d/\d\d \d\d:\d\d:\d\d) ", "yy/MM/dd HH:mm:ss"),
    (r"^\[\w{3} (\w{3} \d\d \d\d:\d\d:\d\d \d{4})\]", "MMM dd HH:mm:ss yyyy"),
    (r"^(\d{8}-\d{1,2}:\d{1,2}:\d{1,2})", "yyyyMMdd-H:m:s"),
)

# Seconds since 1970: Blue Gene/L and Thunderbird, HPC.
EPOCHS = (r"^\S+ (\d{10}) \d{4}\.\d\d\.\d\d ", r"^\d+ \S+ \S+ \S+ (\d{9,10}) ")

LEVEL = r"(?i)\b(trace|debug|info|notice|warn(?:ing)?|error|severe|fatal)\b"

# The services that klamm.examples.log_lines makes up, and the systems of loghub whose times have a year.
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
