"""Spark Connect: a client without a JVM, in a process of its own, finds `format("klamm")` by itself too."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

import klamm
from local_spark import short_lived, spark_home

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


TYPED = """
import sys

from pyspark.sql import SparkSession

bootstrap, topic, checkpoint, registry = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
common = {"kafka.bootstrap.servers": bootstrap, "value.format": "avro", "schema.registry.url": registry}
rows = spark.range(100).selectExpr("id", "array(named_struct('sku', concat('s', id))) lines")
rows.write.format("klamm").options(**common, topic=topic).mode("append").save()
read = common | {"subscribe": topic, "flatten": "true"}
frame = spark.read.format("klamm").options(**read).load()
assert frame.select("id", "lines").schema.simpleString() == "struct<id:bigint,lines:array<struct<sku:string>>>"
assert sorted((row.id, row.lines[0].sku) for row in frame.collect()) == [(i, f"s{i}") for i in range(100)]
stream = spark.readStream.format("klamm").options(**read, startingOffsets="earliest", onNewFields="raise").load()
query = (
    stream.selectExpr("id * 2 twice", "lines").writeStream.format("klamm")
    .options(**common, topic=topic + "-copy", delivery="exactly-once", checkpointLocation=checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
spark.stop()
"""


# The package pyspark-client lacks these modules.
WITHOUT_CLASSIC = """
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {"py4j", "pyspark.core", "pyspark.sql.classic"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())

from pyspark.sql import SparkSession
from pyspark.util import is_remote_only

import klamm.spark
from klamm.spark.progress import ProgressLog, observed

assert is_remote_only()
url, bootstrap, topic, scratch = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
klamm.spark.register(spark)
options = {"kafka.bootstrap.servers": bootstrap}
numbers = spark.range(100).selectExpr("cast(id as string) as value")
numbers.write.format("klamm").options(**options, topic=topic).mode("append").save()
assert spark.read.format("klamm").options(**options, subscribe=topic).load().count() == 100
read = options | {"subscribe": topic, "startingOffsets": "earliest"}
stream = spark.readStream.format("klamm").options(**read).load().select("key", "value")
now = {"availableNow": True}
query = klamm.spark.write_stream(
    observed(stream), options, topic=topic + "-written", trigger=now, checkpointLocation=scratch + "/1"
)
query.awaitTermination()
log = ProgressLog(scratch + "/progress")
for report in query.recentProgress:
    log.note(report)
write = klamm.spark.foreach_batch(options, topic=topic + "-each", delivery="exactly-once", txnAppId=topic)
writer = stream.writeStream.foreachBatch(write).trigger(**now).option("checkpointLocation", scratch + "/2")
writer.start().awaitTermination()
spark.stop()
"""


def environment():
    """The environment of a process that may use Spark Connect."""
    path = os.pathsep.join(filter(None, [*sys.path, str(NEEDED)]))
    return {**os.environ, "PYTHONPATH": path, "JDK_JAVA_OPTIONS": short_lived()}


def run(client, tmp_path, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", client, *arguments],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture
def connect_server(tmp_path):
    """The URL of a Spark Connect server in a process of its own."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": 0,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": 2,
        "spark.ui.enabled": "false",
    }
    command = [spark_home() / "bin" / "spark-submit", "--master", "local[2]"]
    command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    env = environment() | {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home())}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as server:
        lines = []
        for line in server.stderr:
            lines.append(line)
            if found := re.search(r"server started at.*:(\d+)$", line):
                break
        else:
            raise AssertionError("".join(lines)[-3000:])
        Thread(target=server.stderr.read, daemon=True).start()
        yield f"sc://127.0.0.1:{found[1]}"
        server.terminate()


@pytest.mark.timeout(300)
def test_a_connect_client_has_typed_columns(dev_pair, topic, tmp_path):
    (broker, registry) = dev_pair
    run(TYPED, tmp_path, broker.bootstrap_servers, topic, str(tmp_path / "checkpoint"), registry.url)
    options = {"value_format": "avro", "registry": registry.url, "isolation_level": "read_committed"}
    found = klamm.read_table(broker.bootstrap_servers, f"{topic}-copy", columns=["value"], flatten=True, **options)
    rows = sorted(found.to_pylist(), key=lambda row: row["twice"])
    assert rows == [{"twice": 2 * i, "lines": [{"sku": f"s{i}"}], "value_is_null": False} for i in range(100)]


@pytest.mark.timeout(300)  # a server, a client, and the workers of both
def test_a_connect_client_reads_writes_and_streams(dev_broker, topic, tmp_path):
    run(CLIENT, tmp_path, dev_broker.bootstrap_servers, topic, str(tmp_path / "checkpoint"))
    for result in ("copy", "counts"):
        copied = klamm.read_table(dev_broker.bootstrap_servers, f"{topic}-{result}", isolation_level="read_committed")
        assert sorted(map(int, copied.column("value").to_pylist())) == list(range(100))


@pytest.mark.timeout(300)
def test_a_client_needs_no_classic_pyspark(dev_broker, connect_server, topic, tmp_path):
    run(WITHOUT_CLASSIC, tmp_path, connect_server, dev_broker.bootstrap_servers, topic, str(tmp_path))
    for result in ("written", "each"):
        copied = klamm.read_table(dev_broker.bootstrap_servers, f"{topic}-{result}", isolation_level="read_committed")
        assert sorted(map(int, copied.column("value").to_pylist())) == list(range(100))
    rows = [json.loads(line) for line in (tmp_path / "progress").read_text().splitlines()]
    assert (sum(row["records"] for row in rows), sum(row["bytes"] for row in rows)) == (100, 190)
