"""What is a pile of source code made of? A Spark pipeline over klamm.

It reads a topic of lines (key: the path of the file, as in `json/decoder.py` or `abc.py`; value: the line),
sums up lines, bytes and the most frequent identifiers of each package, and writes one row a
package to a second topic: key `json`, value `{"lines": 1234, "bytes": 45678, "identifiers": [...]}`.

    python -m klamm.examples.source_lines --bootstrap localhost:9092 --source lines --result packages --checkpoint DIR

It works through what the topic holds and ends; started again with the same checkpoint, it goes on
with what came since. Counts are exact: Spark's state and the checkpointed offsets move together, and
every batch writes the totals so far (output mode complete; Spark has no update mode for sources in
Python), so that the last row of a package is the whole truth even if a batch had to be repeated.
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
    """Read the topic from its first record on. Naming two columns spares building the others."""
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
    """Turn lines into a row a package. Spark's own functions only, so no row passes through Python."""
    path = F.coalesce(F.col("key").cast("string"), F.lit("-"))
    name = F.substring_index(path, "/", 1)
    words = F.regexp_extract_all(F.col("value").cast("string"), F.lit(IDENTIFIER), F.lit(0))
    # A row a word; the first of a line, or the only one of a line without words, stands for the line.
    words_of_lines = lines.select(
        F.when(name.endswith(".py"), F.left(name, F.length(name) - 3)).otherwise(name).alias("package"),
        F.coalesce(F.octet_length("value"), F.lit(0)).alias("size"),
        F.posexplode_outer(words).alias("nth", "word"),
    )
    is_line = F.coalesce("nth", F.lit(0)) == 0
    packages = words_of_lines.groupBy("package").agg(
        F.count_if(is_line).alias("lines"),
        F.sum(F.when(is_line, F.col("size")).otherwise(0)).alias("bytes"),
        F.expr(f"approx_top_k(word, {TOP}, {TRACKED}) FILTER (WHERE word IS NOT NULL)").alias("top"),
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
    rows_per_batch: int = 250_000,
    on_rows: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Work through the source topic; `on_rows` hears how many rows are done."""
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
    """Read the result back with klamm alone: the last row of each package."""
    table = klamm.read_table(bootstrap, topic, columns=["key", "value"])
    # Rows of a key are in one partition and so in order: the last one stays.
    return {
        key.decode(): json.loads(value)
        for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    }


def session() -> SparkSession:
    """Start a small local Spark that fits this job."""
    # Spark would start its workers with the first python3 on the PATH, which may have no klamm.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.appName("klamm source lines")
        .master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")  # 200 by default, each with its own state
        .config("spark.python.unix.domain.socket.enabled", "true")  # small tasks wait 44 ms on TCP
        .getOrCreate()
    )


def main() -> None:
    """Run the pipeline and print the largest packages."""
    parser = argparse.ArgumentParser(description="sum up a topic of source lines by package")
    parser.add_argument("--bootstrap", default="localhost:9092", metavar="HOST:PORT")
    parser.add_argument("--source", required=True, metavar="TOPIC", help="topic of lines, keyed by path")
    parser.add_argument("--result", required=True, metavar="TOPIC", help="topic that gets a row a package")
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="where Spark notes how far it is")
    given = parser.parse_args()
    spark = session()
    try:
        done = run(spark, given.bootstrap, given.source, given.result, given.checkpoint)
    finally:
        spark.stop()
    print(f"{done['input_rows']:,} lines in {done['seconds']:.1f} s")
    packages = results(given.bootstrap, given.result)
    for name, row in sorted(packages.items(), key=lambda one: -one[1]["bytes"])[:20]:
        print(f"{name:<20} {row['lines']:>9,} lines {row['bytes']:>12,} bytes  {', '.join(row['identifiers'])}")


IDENTIFIER = rf"\b(?!(?:{'|'.join(keyword.kwlist)})\b)[A-Za-z_][A-Za-z0-9_]*"

TOP = 5

# Different words of a package up to which their counts are exact. The standard library's largest, `test`, has 73,000.
TRACKED = 100_000

if __name__ == "__main__":
    main()
