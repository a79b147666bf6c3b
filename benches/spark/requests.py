"""Measures the connections and requests of a micro-batch that copies records exactly once.

    python benches/spark/requests.py [--tasks 4] [--slots 2] [--brokers 3] [--batches 25]

A stream copies a topic with one partition for each task. Each micro-batch has ten records for each partition. The dev broker counts the
requests of the source and the sink. Each connection begins with one ApiVersions request. The bench does not count the
first micro-batches, which start the workers. The counts do not depend on the load of the machine. The bench needs Java
only for Spark. The bench also counts how often a worker ran the same task as in the previous micro-batch.
"""

# klamm supports Python 3.10, which does not have `typing.override`.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import klamm
from klamm.spark.exactly_once import current_task
from klamm.spark.options import write_options
from klamm.spark.source import KlammDataSource
from klamm.spark.write import KlammStreamWriter
from klamm.testing import DevBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
from local_spark import builder

WARM_UP = 4
RECORDS = 10
SOURCE, SINK = "source", "sink"
LOG = "worker_log"


def main() -> None:
    """Copy records, and print the numbers of connections and requests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=4, help="tasks of a micro-batch")
    parser.add_argument("--slots", type=int, default=2, help="tasks that Spark runs at a time")
    parser.add_argument("--brokers", type=int, default=3, help="nodes of the dev broker")
    parser.add_argument("--batches", type=int, default=25, help="micro-batches that are counted")
    options = parser.parse_args()
    with DevBroker(brokers=options.brokers) as broker, tempfile.TemporaryDirectory() as scratch:
        spark = builder(Path(scratch), master=f"local[{options.slots}]").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        spark.dataSource.register(LoggingSink)
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics(dict.fromkeys(("from", "to"), klamm.NewTopic(options.tasks)))
        copy(spark, broker, options.tasks, WARM_UP, Path(scratch))
        before = len(broker.requests())
        copy(spark, broker, options.tasks, options.batches, Path(scratch))
        requests = broker.requests()[before:]
        spark.stop()
        print(f"a micro-batch of {options.tasks} tasks in {options.slots} slots, mean of {options.batches}:")
        for name in (SOURCE, SINK):
            report(name, Counter(request.api for request in requests if request.client_id == name), options.batches)
        report_workers((Path(scratch) / LOG).read_text())


def copy(spark: SparkSession, broker: DevBroker, tasks: int, batches: int, scratch: Path) -> None:
    """Send records to the topic, and copy these records in the given number of micro-batches."""
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for number in range(tasks * batches * RECORDS):
            producer.send_nowait("from", b"v" * 100, partition=number % tasks)
    rows = (
        spark.readStream.format("klamm")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("kafka.client.id", SOURCE)
        .options(subscribe="from", startingOffsets="earliest", maxOffsetsPerTrigger=str(tasks * RECORDS))
        .load()
    )
    query = (
        rows.select("value")
        .writeStream.format(LoggingSink.name())
        .options(topic="to", delivery="exactly-once", log=str(scratch / LOG))
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("kafka.client.id", SINK)
        .option("checkpointLocation", str(scratch / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copied = [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]
    assert copied == [tasks * RECORDS] * batches, copied


class LoggingSink(KlammDataSource):
    """Like klamm's sink, but also writes the worker of each task into the file that option `log` names."""

    @classmethod
    def name(cls) -> str:
        return "logging-klamm"

    def streamWriter(self, schema: StructType, overwrite: bool) -> LoggingWriter:  # noqa: ARG002
        options = {name: value for name, value in self.options.items() if name != "log"}
        return LoggingWriter(options, self.options["log"], schema)


class LoggingWriter(KlammStreamWriter):
    """Writes rows with klamm. For each task, also writes a line with epoch, task number and process ID into the log."""

    def __init__(self, options: dict[str, str], log: str, schema: StructType) -> None:
        super().__init__(write_options(options), schema)
        self._log = log

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        task = current_task()
        # A single write to a file in append mode is atomic, so two workers can share the file.
        with Path(self._log).open("a", encoding="ascii") as file:
            file.write(f"{task.epoch} {task.number} {os.getpid()}\n")
        return super().write(iterator)


def report(name: str, sent: Counter[str], batches: int) -> None:
    """Print the mean number of connections and requests per micro-batch, and the number of requests of each API."""
    print(f"  {name}: {sent['ApiVersions'] / batches:.1f} connections, {sent.total() / batches:.1f} requests")
    for api, number in sent.most_common():
        print(f"    {api:<22} {number / batches:5.1f}")


def report_workers(log: str) -> None:
    """Print how often a worker ran the same task as in the previous micro-batch."""
    worker_of = {(int(e), int(n)): pid for e, n, pid in (line.split() for line in log.splitlines())}
    again = [pid == worker_of[e - 1, n] for (e, n), pid in worker_of.items() if (e - 1, n) in worker_of]
    print(f"same worker as in the micro-batch before: {sum(again)} of {len(again)} tasks")


if __name__ == "__main__":
    main()
