"""A driver that copies a topic and kills itself, with all its processes' group, at a step of its first micro-batch.

    python doomed_driver.py BOOTSTRAP SOURCE RESULT CHECKPOINT DELIVERY STEP

Steps: `planned` (the batch is noted, nothing ran), `landed` (one task wrote its rows, Spark does not know), `done` (all tasks
did, the batch is not noted as done), `never`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from klamm.spark import KlammDataSource
from klamm.spark.stream import KlammStreamReader
from klamm.spark.write import KlammStreamWriter

bootstrap, source, result, checkpoint, delivery, fatal = sys.argv[1:]


def reached(step):
    if os.environ["DOOM"] == step:
        os.killpg(int(os.environ["DRIVER"]), signal.SIGKILL)


class Reader(KlammStreamReader):
    def partitions(self, start, end):
        reached("planned")
        return super().partitions(start, end)


class Writer(KlammStreamWriter):
    def write(self, iterator):
        written = super().write(iterator)
        reached("landed")
        return written

    def commit(self, messages, batchId):  # noqa: N803 - Spark's name
        reached("done")
        super().commit(messages, batchId)


class Doomed(KlammDataSource):
    @classmethod
    def name(cls):
        return "doomed"

    def streamReader(self, schema):  # noqa: N802 - Spark's name
        reader = super().streamReader(schema)
        reader.__class__ = Reader
        return reader

    def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
        writer = super().streamWriter(schema, overwrite)
        writer.__class__ = Writer
        return writer


os.environ.update(DOOM=fatal, DRIVER=str(os.getpgid(0)), PYSPARK_PYTHON=sys.executable)
scratch = Path(checkpoint).parent
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "512m")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.local.dir", str(scratch / "local"))
    .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
spark.dataSource.register(Doomed)
options = {"kafka.bootstrap.servers": bootstrap}
rows = (
    spark.readStream.format("doomed")
    .options(**options, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="100")
    .load()
)
(
    rows.select("value")
    .writeStream.format("doomed")
    .options(**options, topic=result, delivery=delivery, checkpointLocation=checkpoint)
    .trigger(availableNow=True)
    .start()
    .awaitTermination()
)
