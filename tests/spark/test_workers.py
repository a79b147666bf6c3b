"""Python workers with the settings of clusters: not reused, over TCP, short of memory, or forked from a daemon that has used klamm."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from klamm.spark.stream import ADMISSION_CONTROL
from local_spark import short_lived

pytestmark = [pytest.mark.spark, pytest.mark.timeout(200)]

SECRET = "hunter2"

DRIVER = f"""
import sys
from pathlib import Path
from local_spark import builder

bootstrap, topic, scratch, *settings = sys.argv[1:]
described = builder(Path(scratch))
for setting in settings:
    described = described.config(*setting.split("=", 1))
spark = described.getOrCreate()
# Spark hides values by the names of options, and hides none of this one.
options = {{"kafka.bootstrap.servers": bootstrap, "kafka.client.id": "{SECRET}"}}
numbers = spark.range(0, 5000, 1, 3).selectExpr("cast(id as string) as value")
for _ in range(2):
    numbers.write.format("klamm").options(**options, topic=topic).mode("append").save()
read = spark.read.format("klamm").options(**options, subscribe=topic, minPartitions="4").load()
print("rows", read.count(), read.selectExpr("sum(cast(cast(value as string) as int))").first()[0])
stream = spark.readStream.format("klamm").options(**options, subscribe=topic, startingOffsets="earliest").load()
query = stream.select("value").writeStream.format("klamm").options(**options, topic=topic + "-copy", delivery="exactly-once")
query.option("checkpointLocation", scratch + "/checkpoint").trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""

# What a pool of workers may be forked from: here one that has a client already, with the thread that serves it.
DAEMON = """
import os
import klamm
import pyspark.daemon

early = klamm.Producer(os.environ["EARLY_BOOTSTRAP"])
early.send("early", b"before any worker").result(timeout=30)
pyspark.daemon.manager()
"""

# Everything that Spark logs; what has only the root's level, PySpark passes on from warnings up.
LOGGING = """
logger.spark.name = org.apache.spark
logger.spark.level = info
rootLogger.level = info
rootLogger.appenderRef.all.ref = all
appender.all.type = Console
appender.all.name = all
appender.all.target = SYSTEM_ERR
appender.all.layout.type = PatternLayout
appender.all.layout.pattern = %p %c: %m%n%ex
"""

ALONE = [
    "spark.python.worker.reuse=false",
    "spark.python.unix.domain.socket.enabled=false",
    "spark.executor.pyspark.memory=512m",
]
FORKED = ["spark.python.daemon.module=early_daemon"]


@pytest.mark.parametrize("settings", [ALONE, FORKED], ids=["alone", "forked"])
def test_workers_with_other_settings_work_and_reveal_no_secret(dev, topic, tmp_path, settings):
    dev.create(topic, partitions=2)
    dev.create(f"{topic}-copy")
    (tmp_path / "early_daemon.py").write_text(DAEMON)
    events = tmp_path / "events"
    events.mkdir()
    (tmp_path / "log4j2.properties").write_text(LOGGING)
    settings = [
        *settings,
        f"spark.driver.extraJavaOptions={short_lived()} -Dlog4j2.configurationFile={tmp_path / 'log4j2.properties'}",
        "spark.eventLog.enabled=true",
        f"spark.eventLog.dir={events}",
        "spark.eventLog.compress=false",
    ]
    paths = [str(tmp_path), *filter(None, sys.path)]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, dev.bootstrap, topic, str(tmp_path), *settings],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "EARLY_BOOTSTRAP": dev.bootstrap},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"rows 10000 {sum(range(5000)) * 2}" in done.stdout
    copied = [int(record.value) for record in dev.records(f"{topic}-copy", isolation_level="read_committed")]
    assert sorted(copied) == sorted([*range(5000)] * 2)
    shown = [done.stdout, done.stderr, *(file.read_text() for file in events.rglob("*") if file.is_file())]
    assert any("SparkListenerJobStart" in text for text in shown)
    assert "INFO org.apache.spark.scheduler.DAGScheduler" in done.stderr
    leaks = [line for text in shown for line in text.splitlines() if SECRET in line]
    if not ADMISSION_CONTROL:  # before 4.2, Spark logs the plan of a streaming write with its options
        leaks = [line for line in leaks if not line.startswith("~WriteToMicroBatchDataSource")]
    assert leaks == []
