"""A Spark pipeline that summarizes source code by package.

    python -m klamm.examples.source_lines --bootstrap localhost:9092 --source lines --result packages --checkpoint DIR

The pipeline reads a topic of source lines. The key is the path of the file, such as `json/decoder.py`, and the value is
the line. For each package, the pipeline counts lines and bytes, and finds the most frequent identifiers. The pipeline
writes one row for each package to a second topic, such as key `json` and value
`{"lines": 1234, "bytes": 45678, "identifiers": [...]}`.

The pipeline reads the topic to its end and stops. If you start the pipeline again with the same checkpoint, it continues
with new records. Counts are exact, because Spark commits its state and the offsets together. Every batch writes the
current totals in output mode complete, because Spark has no update mode for Python data sources. The last row of a
package is therefore correct even if Spark repeated a batch.
"""

from __future__ import annotations

import argparse
import json
import keyword
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import klamm

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


def lines(spark: SparkSession, bootstrap: str, topic: str, rows_per_batch: int) -> DataFrame:
    """Read the topic from its first record. The schema selects two columns, so klamm does not build other columns."""
    return (
        spark.readStream.format("klamm")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .schema("key binary, value binary")
        .load()
    )


def pipeline(lines: DataFrame) -> DataFrame:
    """Turn lines into one row for each package.

    The query only uses Spark's own functions, so no row passes through Python.
    """
    path = F.coalesce(F.col("key").cast("string"), F.lit("-"))
    name = F.substring_index(path, "/", 1)
    words = F.regexp_extract_all(F.col("value").cast("string"), F.lit(IDENTIFIER), F.lit(0))
    # Create one row for each word. The first row of a line also counts the line, and a line without words has one row. It is
    # faster to exclude keywords with a set than with the regular expression.
    words_of_lines = lines.select(
        F.when(name.endswith(".py"), F.left(name, F.length(name) - 3)).otherwise(name).alias("package"),
        F.coalesce(F.octet_length("value"), F.lit(0)).alias("size"),
        F.posexplode_outer(words).alias("nth", "word"),
    )
    is_line = F.coalesce("nth", F.lit(0)) == 0
    packages = words_of_lines.groupBy("package").agg(
        F.count_if(is_line).alias("lines"),
        F.sum(F.when(is_line, F.col("size")).otherwise(0)).alias("bytes"),
        F.expr(f"approx_top_k(word, {TOP}, {TRACKED}) FILTER (WHERE word NOT IN ({KEYWORDS}))").alias("top"),
    )
    return packages.select(
        F.col("package").alias("key"),
        F.to_json(F.struct("lines", "bytes", F.col("top.item").alias("identifiers"))).alias("value"),
    )


def run(
    spark: SparkSession,
    bootstrap: str,
    source_topic: str,
    result_topic: str,
    checkpoint_dir: str,
    *,
    rows_per_batch: int = 1_000_000,
    on_rows: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Run the pipeline until the end of the source topic.

    Args:
        spark: The session.
        bootstrap: Addresses of the brokers.
        source_topic: Topic of source lines.
        result_topic: Topic for the results.
        checkpoint_dir: Directory for Spark's checkpoint.
        rows_per_batch: Maximum number of rows in a micro-batch.
        on_rows: Function that is called about once a second with the number of rows read so far.

    Returns:
        A dict with `input_rows`, the number of rows read, and `seconds`, the duration.
    """
    started = time.monotonic()
    query = (
        pipeline(lines(spark, bootstrap, source_topic, rows_per_batch))
        .writeStream.format("klamm")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", result_topic)
        .option("checkpointLocation", checkpoint_dir)
        .outputMode("complete")
        .trigger(availableNow=True)
        .start()
    )
    rows: dict[int, int] = {}
    try:
        running = True
        while running:
            running = not query.awaitTermination(1)
            rows |= {batch["batchId"]: batch["numInputRows"] for batch in query.recentProgress}
            if on_rows is not None:
                on_rows(sum(rows.values()))
    finally:
        query.stop()
    return {"input_rows": sum(rows.values()), "seconds": time.monotonic() - started}


def results(bootstrap: str, topic: str) -> dict[str, dict[str, Any]]:
    """Read the last row of each package with klamm, without Spark. Return the parsed rows by package."""
    table = klamm.read_table(bootstrap, topic, columns=["key", "value"])
    # All rows of a key are in one partition and therefore in order, so the dict keeps the last row of a key.
    return {
        key.decode(): json.loads(value)
        for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    }


def session() -> SparkSession:
    """Start a local Spark session with settings for a small job."""
    # By default Spark starts its workers with the first python3 on the PATH, which may not have klamm.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.appName("klamm source lines")
        .master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")  # the default is 200 partitions, each with its own state
        .config("spark.python.unix.domain.socket.enabled", "true")  # over TCP, a small task takes 44 ms longer
        .getOrCreate()
    )


def main() -> None:
    """Run the pipeline and print the largest packages."""
    parser = argparse.ArgumentParser(description="Summarize a topic of source lines by package.")
    parser.add_argument("--bootstrap", default="localhost:9092", metavar="HOST:PORT", help="addresses of the brokers")
    parser.add_argument("--source", required=True, metavar="TOPIC", help="topic of lines, with the path as key")
    parser.add_argument("--result", required=True, metavar="TOPIC", help="topic for one row per package")
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="directory for Spark's checkpoint")
    args = parser.parse_args()
    spark = session()
    try:
        done = run(spark, args.bootstrap, args.source, args.result, args.checkpoint)
    finally:
        spark.stop()
    print(f"{done['input_rows']:,} lines in {done['seconds']:.1f} s")
    packages = results(args.bootstrap, args.result)
    for name, row in sorted(packages.items(), key=lambda one: -one[1]["bytes"])[:20]:
        print(f"{name:<20} {row['lines']:>9,} lines {row['bytes']:>12,} bytes  {', '.join(row['identifiers'])}")


IDENTIFIER = r"\b[A-Za-z_]\w*"

KEYWORDS = ", ".join(f"'{word}'" for word in keyword.kwlist)

TOP = 5

# Word counts are exact for packages with up to this many different words. The package `test` has 73,000 different
# words, the most in the standard library.
TRACKED = 100_000

if __name__ == "__main__":
    main()
