"""Compares a typed batch read in Spark with Spark's own Kafka connector and `from_avro` of spark-avro (Maven Central).

Both programs read the same topic with one schema, drop no records, and aggregate all eight fields. The programs take
turns. The bench does not count the first round.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
from kafka_broker import KafkaUnavailable, spark_avro_jars
from local_spark import builder, connector_jars

FIELDS = ("sum(id)", "sum(length(name))", "sum(count)", "round(sum(score))", "count(note)", "max(at)", "count_if(ok)",
          "sum(size(tags))", "count(*)")  # fmt: skip


def typed(spark: SparkSession, servers: str, url: str, topic: str) -> DataFrame:
    """Return a DataFrame that reads the topic with klamm, as typed columns."""
    reader = spark.read.format("klamm").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    reader = reader.option("value.format", "avro").option("schema.registry.url", url)
    return reader.option("flatten", "true").option("columns", "value").load()


def from_avro(spark: SparkSession, servers: str, schema: str, topic: str) -> DataFrame:
    """Return a DataFrame that reads the topic with Spark's connector, and decodes the bytes after the schema ID."""
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    payload = F.expr("substring(value, 6, length(value) - 5)")
    return reader.load().select(from_avro(payload, schema).alias("v")).select("v.*")


def measure(servers: str, url: str, schema: str, topic: str, rounds: int) -> None:
    """Measure both programs, and print a table."""
    jars, reason = connector_jars()
    try:
        jars = jars + spark_avro_jars()
    except KafkaUnavailable as error:
        reason = reason or str(error)
    if reason:
        print(f"SKIPPED Spark: {reason}")
        return
    with tempfile.TemporaryDirectory() as scratch:
        spark = builder(Path(scratch), memory="3g", jvm="", jars=jars).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        frames = {"klamm": typed(spark, servers, url, topic), "from_avro": from_avro(spark, servers, schema, topic)}
        seconds: dict[str, list[float]] = {name: [] for name in frames}
        found: dict[str, Any] = {}
        for turn in range(rounds + 1):
            for name, frame in frames.items() if turn % 2 else reversed(frames.items()):
                began = time.perf_counter()
                found[name] = frame.selectExpr(*FIELDS).first()
                if turn:
                    seconds[name].append(time.perf_counter() - began)
        spark.stop()
    if found["klamm"] != found["from_avro"]:
        raise RuntimeError(f"the results differ: {found}")
    print("\n| Spark, batch read of all fields | seconds | fastest | slowest |")
    print("| --- | ---: | ---: | ---: |")
    for name, title in (("klamm", "klamm, typed columns"), ("from_avro", "Spark's connector and `from_avro`")):
        some = seconds[name]
        print(f"| {title} | {statistics.median(some):.2f} | {min(some):.2f} | {max(some):.2f} |")
    ratio = statistics.median(seconds["from_avro"]) / statistics.median(seconds["klamm"])
    print(f"\nklamm is {ratio:.1f} times as fast (target: 2.5)")
