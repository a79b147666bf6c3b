"""Measures typical pipelines, each with klamm and with Spark's own connector.

The bench times a batch pipeline as a whole. Streams run in micro-batches until the end of their topic. For each stream,
the table has the time until the first micro-batch with rows has finished (start-up). The table also has the median time
of a micro-batch, without the first ten (steady state). The table shows the CPU time of Spark's JVM, and of the Python
processes that the JVM starts.

The formats take turns. The bench does not count the first round.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import floor
import pyarrow as pa
from pyspark.sql import functions as F

import klamm

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
from kafka_broker import RealKafka
from klamm.testing import CertificateAuthority
from local_spark import builder

# The JVM options of Kafka's own start script, as in benches/peers.
JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
# Number of different keys. Keys repeat, so that aggregations and joins have groups of several rows.
KEYS = 1000
# Number of first micro-batches that do not count, because they compile code and fill caches.
WARM_UP = 10
SMALL_PARTITIONS = 100
DIMENSIONS = "dimensions"
# Timestamp of the first record. Timestamps grow by one millisecond per record, so a run covers a few minutes.
FIRST_TIMESTAMP = 1_700_000_000_000


@dataclass(frozen=True)
class Load:
    """Size and format of the records to read, and the options with which Spark reads them."""

    records: int
    micro_batches: int
    partitions: int
    codec: str
    value_bytes: int
    headers: bool
    client: dict[str, str]

    @property
    def trigger_rows(self) -> int:
        """Return the number of rows in a micro-batch."""
        return max(1, self.records // self.micro_batches)


@dataclass(frozen=True)
class Run:
    """The durations and CPU times of one run of a pipeline, in seconds."""

    total: float
    start_up: float | None
    trigger: float | None
    jvm_cpu: float
    python_cpu: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the part `pipelines`."""
    group = parser.add_argument_group("pipelines")
    group.add_argument(
        "--only", action="append", help="run the pipelines whose names contain this text; repeat for more"
    )
    group.add_argument("--turns", type=int, default=3, help="runs of each pipeline and format that are counted")
    group.add_argument("--rows", type=int, default=200_000, help="records of the topic that streams read")
    group.add_argument("--micro-batches", type=int, default=30)
    group.add_argument("--partitions", type=int, default=4, help="partitions of that topic: try 1, 4, 40 and 200")
    group.add_argument("--codec", default="none", choices=["none", "gzip", "snappy", "lz4", "zstd"])
    group.add_argument("--value-bytes", type=int, default=100, help="size of a value: try 5000000 with --rows 120")
    group.add_argument("--headers", action="store_true", help="records have a header, and pipelines copy it")
    group.add_argument("--tls", action="store_true", help="connect with TLS")
    group.add_argument(
        "--tcp", action="store_true", help="Spark reaches its Python workers over TCP, not over Unix sockets"
    )
    group.add_argument(
        "--floor", action="store_true", help="also run a Python data source that does almost nothing, see floor.py"
    )


def main(options: argparse.Namespace, sources: list[str], jars: list[Path]) -> None:
    """Measure, and print the results."""
    with (
        tempfile.TemporaryDirectory() as directory,
        _broker(Path(directory), tls=options.tls) as (plain, address, client),
    ):
        load = Load(
            records=options.rows,
            micro_batches=options.micro_batches,
            partitions=options.partitions,
            codec=options.codec,
            value_bytes=options.value_bytes,
            headers=options.headers,
            client=client,
        )
        fill(plain, load)
        # This lets Spark's workers import floor.py. Otherwise Spark would send the code of floor.py with each task.
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])
        )
        spark = (
            builder(Path(directory), memory="3g", jvm="", jars=jars)
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
            .config("spark.python.unix.domain.socket.enabled", str(not options.tcp).lower())
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        pipelines = Pipelines(spark, address, load, Path(directory))
        if options.floor:
            pipelines.save_floor()
            sources = [*sources, "floor"]
        chosen = pipelines.all()
        runs: dict[str, dict[str, list[Run]]] = {}
        print("\n| pipeline | format | total s | start-up s | trigger ms | times as fast | JVM CPU s | Python CPU s |")
        print("|---|---|---|---|---|---|---|---|")
        for name in (name for name in chosen if any(text in name for text in options.only or [""])):
            runs[name] = {source: [] for source in sources}
            for turn in range(options.turns + 1):
                for source in sources if turn % 2 else reversed(sources):
                    run = chosen[name](source)
                    if turn:
                        runs[name][source].append(run)
            for source, of_source in runs[name].items():
                _print(name, source, of_source, runs[name].get("kafka"))
        spark.stop()


@contextmanager
def _broker(directory: Path, *, tls: bool) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Start a broker. Yield its address without TLS, the address for Spark, and the client options for Spark."""
    if not tls:
        with RealKafka(jvm_options=JVM, config=SIZES) as kafka:
            yield kafka.bootstrap_servers, kafka.bootstrap_servers, {}
        return
    authority = CertificateAuthority()
    certificate, key = authority.issue("server", ["localhost", "127.0.0.1"])
    (directory / "server.pem").write_text(key + certificate)
    (directory / "ca.pem").write_text(authority.pem)
    config = {"ssl.keystore.type": "PEM", "ssl.keystore.location": directory / "server.pem"}
    with RealKafka(jvm_options=JVM, config=config | SIZES, listeners={"SSL": "SSL"}) as kafka:
        client = {
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(directory / "ca.pem"),
        }
        yield kafka.bootstrap_servers, kafka.addresses["SSL"], client


def _print(name: str, source: str, runs: list[Run], base: list[Run] | None) -> None:
    """Print a row of the table."""

    def steady(one: list[Run]) -> float:
        return statistics.median(run.total if run.trigger is None else run.trigger for run in one)

    def column(values: list[float | None], factor: float = 1, digits: int = 2) -> str:
        numbers = [value * factor for value in values if value is not None]
        return f"{statistics.median(numbers):.{digits}f}" if numbers else ""

    cells = (
        name,
        source,
        column([run.total for run in runs]),
        column([run.start_up for run in runs]),
        column([run.trigger for run in runs], 1000, 0),
        f"{steady(base) / steady(runs):.2f}" if base else "",
        column([run.jvm_cpu for run in runs]),
        column([run.python_cpu for run in runs]),
    )
    print("|", " | ".join(cells), "|", flush=True)


def fill(bootstrap: str, load: Load) -> None:
    """Create and fill the topics that the pipelines read."""
    topics = {"events": load.partitions, "single": 1, "many": SMALL_PARTITIONS, DIMENSIONS: 2}
    sizes = {"max.message.bytes": "20000000"}
    with klamm.Admin(bootstrap) as admin:
        admin.create_topics({name: klamm.NewTopic(count, configs=sizes) for name, count in topics.items()})
    codec = {"compression.type": load.codec, "max.request.size": "20000000", "buffer.memory": "100000000"}
    with klamm.Producer({"bootstrap.servers": bootstrap} | codec) as producer:
        few = max(1, 10_000_000 // load.value_bytes)
        for first in range(0, load.records, few):
            numbers = range(first, min(first + few, load.records))
            columns = {
                "key": pa.array([b"%016d" % (number * 7919 % KEYS) for number in numbers]),
                "value": pa.array([_value(load.value_bytes) for _ in numbers]),
                "timestamp": pa.array([FIRST_TIMESTAMP + number for number in numbers], pa.timestamp("ms", tz="UTC")),
            }
            if load.headers:
                of_record = [{"key": "traceparent", "value": b"00-0af7651916cd43dd8448eb211c80319c-01"}]
                columns["headers"] = pa.array(
                    [of_record] * len(numbers), pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
                )
            spread = pa.array([number % load.partitions for number in numbers], pa.int32())
            producer.send_arrow("events", pa.record_batch(columns | {"partition": spread}))
            producer.send_arrow("single", pa.record_batch(columns))
        for number in range(SMALL_PARTITIONS * 20):
            producer.send_nowait("many", b"v" * 100, key=b"%016d" % number, partition=number % SMALL_PARTITIONS)
        for number in range(KEYS):
            producer.send_nowait(DIMENSIONS, b"dimension %d" % number, key=b"%016d" % number)
        producer.flush()


def _value(size: int) -> bytes:
    return os.urandom(-(-size // 2)).hex().encode()[:size]


class Pipelines:
    """The pipelines, which all run in one Spark session."""

    def __init__(self, spark: SparkSession, bootstrap: str, load: Load, scratch: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._load = load
        self._scratch = scratch
        self._runs = 0

    def all(self) -> dict[str, Callable[[str], Run]]:
        """Return the pipelines by name. A pipeline is a function of the format, such as "klamm" or "kafka"."""
        stream = self._stream
        return {
            "batch to Parquet": self._parquet,
            "windowed aggregation, append": partial(stream, self._windows, mode="append"),
            "windowed aggregation, complete": partial(stream, self._windows, mode="complete"),
            "stream-stream join": partial(stream, self._joined),
            "foreachBatch with writes": partial(stream, self._events, sink=self._foreach),
            "deduplication": partial(stream, self._distinct),
            "stream-static join": partial(stream, self._enriched),
            "copy": partial(stream, self._events),
            "100 partitions, one micro-batch": partial(stream, self._many),
            "copy, one partition": partial(stream, self._single),
            "read, one partition": partial(stream, self._single, sink=_noop),
        }

    def save_floor(self) -> None:
        """Write the records of the topics into the files that `floor.FloorSource` reads."""
        self._spark.dataSource.register(floor.FloorSource)
        partitions = {"events": self._load.partitions, "single": 1, "many": SMALL_PARTITIONS, DIMENSIONS: 2}
        for topic, count in partitions.items():
            floor.save(self._read("klamm", topic, streaming=False), count, self._scratch / topic)

    def _read(self, source: str, topic: str, *, streaming: bool = True, limit: int | None = None) -> DataFrame:
        reader: Any = self._spark.readStream if streaming else self._spark.read
        options = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": str(self._load.headers)}
        if source == "floor":
            options = {"folder": str(self._scratch / topic)}
        if streaming:
            options["maxOffsetsPerTrigger"] = str(limit or self._load.trigger_rows)
        return (
            reader.format(source)
            .option("kafka.bootstrap.servers", self._bootstrap)
            .options(**options, **self._load.client)
            .load()
        )

    def _events(self, source: str) -> DataFrame:
        return self._copied(self._read(source, "events"))

    def _single(self, source: str) -> DataFrame:
        return self._copied(self._read(source, "single"))

    def _many(self, source: str) -> DataFrame:
        return self._copied(self._read(source, "many", limit=10_000_000))

    def _copied(self, rows: DataFrame) -> DataFrame:
        return rows.select("key", "value", *(["headers"] if self._load.headers else []))

    def _windows(self, source: str) -> DataFrame:
        counted = (
            self._read(source, "events")
            .withWatermark("timestamp", "10 seconds")
            .groupBy(F.window("timestamp", "5 seconds"), F.substring(F.col("key").cast("string"), -2, 2).alias("group"))
            .agg(F.count("*").alias("rows"), F.sum(F.length("value")).alias("bytes"))
        )
        return counted.select(
            F.col("group").alias("key"), F.to_json(F.struct("window", "rows", "bytes")).alias("value")
        )

    def _joined(self, source: str) -> DataFrame:
        def side(name: str) -> DataFrame:
            rows = self._read(source, "events").where(F.length("value") > 0)
            return rows.select(
                F.col("key").alias(f"{name}_key"), F.col("value").alias(name), F.col("timestamp").alias(f"{name}_time")
            ).withWatermark(f"{name}_time", "1 second")

        close = F.expr(
            "left_key = right_key and right_time between left_time and left_time + interval 500 milliseconds"
        )
        joined = side("left").join(side("right"), close)
        return joined.select(F.col("left_key").alias("key"), F.col("right").alias("value"))

    def _distinct(self, source: str) -> DataFrame:
        return (
            self._read(source, "events")
            .withWatermark("timestamp", "1 second")
            .dropDuplicates(["key", "timestamp"])
            .select("key", "value")
        )

    def _enriched(self, source: str) -> DataFrame:
        static = self._read(source, DIMENSIONS, streaming=False).select("key", F.col("value").alias("dimension"))
        return (
            self._read(source, "events")
            .join(static, "key")
            .select("key", F.concat("value", "dimension").alias("value"))
        )

    def _parquet(self, source: str) -> Run:
        rows = self._read(source, "events", streaming=False)

        def work() -> None:
            rows.write.mode("overwrite").parquet(str(self._scratch / "parquet"))

        seconds, jvm, python = _timed(work)
        return Run(seconds, None, None, jvm, python)

    def _foreach(self, source: str, rows: DataFrame) -> Any:
        def write(batch: DataFrame, _: int) -> None:
            batch.persist()
            for topic in ("sink", "other-sink"):
                self._sink(batch.write.format(source).mode("append"), topic).save()
            batch.unpersist()

        return rows.writeStream.foreachBatch(write)

    def _sink(self, writer: Any, topic: str) -> Any:
        options = {"topic": topic, "kafka.max.request.size": "20000000", **self._load.client}
        return writer.option("kafka.bootstrap.servers", self._bootstrap).options(**options)

    def _stream(
        self,
        rows: Callable[[str], DataFrame],
        source: str,
        *,
        mode: str = "append",
        sink: Callable[[str, DataFrame], Any] | None = None,
    ) -> Run:
        self._runs += 1
        checkpoint = self._scratch / f"pipeline-{self._runs}"
        frame = rows(source)
        writer = self._sink(frame.writeStream.format(source), "sink") if sink is None else sink(source, frame)
        writer = writer.outputMode(mode).option("checkpointLocation", str(checkpoint))
        query, began = None, time.time()

        def work() -> None:
            nonlocal query
            query = writer.start()
            query.processAllAvailable()

        try:
            seconds, jvm, python = _timed(work)
            assert query is not None
            reports = query.recentProgress
        finally:
            if query is not None:
                query.stop()
        full = [report for report in reports if report["numInputRows"]]
        triggers = [report["durationMs"]["triggerExecution"] / 1000 for report in full]
        steady = triggers[WARM_UP:]
        # The timestamp in Spark's report is the time when the trigger began.
        first = _seconds(full[0]["timestamp"]) - began + triggers[0]
        return Run(seconds, first, statistics.median(steady) if steady else None, jvm, python)


def _noop(_: str, rows: DataFrame) -> Any:
    return rows.writeStream.format("noop")


def _seconds(text: str) -> float:
    """Convert the time of a progress report to seconds since 1970."""
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _timed(work: Callable[[], None]) -> tuple[float, float, float]:
    """Run a function. Return its duration, the CPU time of the JVM, and the CPU time of the JVM's Python processes."""
    before, began = _cpu(), time.perf_counter()
    work()
    seconds, after = time.perf_counter() - began, _cpu()
    # An idle worker may end at any time, but a worker that was busy in this run still exists.
    python = sum(used - before[1].get(pid, 0.0) for pid, used in after[1].items())
    return seconds, after[0] - before[0], python


def _cpu() -> tuple[float, dict[int, float]]:
    """Return the CPU time of Spark's JVM, and of each process that the JVM started. The times come from Linux's /proc."""
    parents: dict[int, int] = {}
    own: dict[int, float] = {}
    jvm = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = re.match(r"\d+ \((.*)\) (.*)", path.read_text(), re.DOTALL).groups()  # type: ignore[union-attr]
        except OSError:  # the process has ended
            continue
        pid, values = int(path.parent.name), fields.split()
        parents[pid] = int(values[1])
        own[pid] = (int(values[11]) + int(values[12])) / TICKS
        if name == "java" and parents[pid] == os.getpid() and b"SparkSubmit" in (path.parent / "cmdline").read_bytes():
            jvm = pid

    def is_below(pid: int) -> bool:
        return parents.get(pid) == jvm or (pid in parents and is_below(parents[pid]))

    return own[jvm], {pid: own[pid] for pid in own if is_below(pid)}


SIZES = {"message.max.bytes": 20_000_000, "replica.fetch.max.bytes": 20_000_000}
TICKS = os.sysconf("SC_CLK_TCK")
