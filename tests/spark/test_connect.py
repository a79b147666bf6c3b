"""Spark Connect: a client without a JVM, in a process of its own, finds `format("klamm")` by itself too."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import klamm

NEEDED = Path(__file__).parents[2] / "target" / "connect"
"""Where `make` puts what a Connect client needs; only this client sees it."""

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not (NEEDED / ".installed").exists() and importlib.util.find_spec("grpc_status") is None,
        reason="Spark Connect: make target/connect/.installed",
    ),
]

CLIENT = """
import sys

from pyspark.sql import SparkSession

import klamm.spark

bootstrap, topic, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "2")
options = {"kafka.bootstrap.servers": bootstrap}
numbers = spark.range(100).selectExpr("cast(id as string) as value")
numbers.write.format("klamm").options(**options, topic=topic).mode("append").save()
read = spark.read.format("klamm").options(**options, subscribe=topic).load()
assert read.count() == 100
stream = spark.readStream.format("klamm").options(**options, subscribe=topic, startingOffsets="earliest").load()
query = (
    stream.writeStream.format("klamm")
    .options(**options, topic=topic + "-copy", delivery="exactly-once", checkpointLocation=checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

exactly_once = {"topic": topic + "-counts", "delivery": "exactly-once", "txnAppId": topic}
query = klamm.spark.write_stream(
    stream.groupBy("value").count().select("value"),
    options | exactly_once,
    trigger={"availableNow": True},
    checkpointLocation=checkpoint + "-counts",
)
query.awaitTermination()
spark.stop()
"""


@pytest.mark.timeout(300)  # a server, a client, and the workers of both
def test_a_connect_client_reads_writes_and_streams(dev_broker, topic, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, dev_broker.bootstrap_servers, topic, str(tmp_path / "checkpoint")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, str(NEEDED)]))},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for result in ("copy", "counts"):
        copied = klamm.read_table(dev_broker.bootstrap_servers, f"{topic}-{result}", isolation_level="read_committed")
        assert sorted(map(int, copied.column("value").to_pylist())) == list(range(100))
