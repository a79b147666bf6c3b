"""The process that runs the demo's Spark pipeline: `python -m klamm.cli.demo.driver` with four arguments.

It leads a session of its own, so that the demo can end it, its JVM and Spark's Python workers by their ids at any
moment, even while the JVM starts. Events go to standard output, one JSON object a line: `{"started": version}`,
`{"rows": so far}`, then `{"result": …}` or `{"error": text}`. What Spark prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORT_SECONDS = 0.5
"""Pause between two looks at the running query's progress."""


def main(bootstrap: str, source_topic: str, result_topic: str, folder: str) -> int:
    """Run the pipeline; what it needs on disk lies in `folder`, which the demo removes."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    events = take_standard_output()
    try:
        from klamm.examples.source_lines import run

        spark = start_spark(Path(folder))
        emit(events, started=spark.version)
        finished = threading.Event()
        reporter = threading.Thread(target=report_rows, args=(spark, events, finished), daemon=True)
        reporter.start()
        try:
            result = run(spark, bootstrap, source_topic, result_topic, str(Path(folder, "checkpoint")))
        finally:
            finished.set()
            reporter.join()
        emit(events, result={"input_rows": result["input_rows"], "seconds": result["seconds"]})
        stop_spark(spark)
    except Exception as error:
        # Every failure of the pipeline is a line of the demo; the whole trace goes into Spark's log.
        emit(events, error=f"{type(error).__name__}: {error}")
        raise
    return 0


def start_spark(folder: Path) -> SparkSession:
    """Start a JVM and a session that keeps to loopback and to `folder`."""
    from pyspark.sql import SparkSession

    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("klamm demo")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(temporary))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Djava.io.tmpdir={temporary}")
        # A small Python task costs about 44 ms over loopback TCP, and 4 to 9 over a Unix socket (Spark 4.3).
        .config("spark.sql.shuffle.partitions", "2")  # 200 by default, each with its own state
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def stop_spark(spark: SparkSession) -> None:
    """Stop the session and wait for the JVM to be gone; it ends when its standard input does."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no public way to wait for its JVM
    spark.stop()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait()


def report_rows(spark: SparkSession, events: TextIO, finished: threading.Event) -> None:
    """Tell the demo how many rows the running query has read so far."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    rows: dict[tuple[str, int], int] = {}
    while not finished.wait(REPORT_SECONDS):
        try:
            for query in spark.streams.active:
                for progress in query.recentProgress:
                    rows[str(query.id), progress["batchId"]] = progress["numInputRows"]
        except (Py4JError, PySparkException):
            # A query may end between two questions about it; the next look, or the result, says what is true.
            continue
        emit(events, rows=sum(rows.values()))


def emit(events: TextIO, **event: object) -> None:
    """Write one event."""
    print(json.dumps(event), file=events, flush=True)


def take_standard_output() -> TextIO:
    """Keep standard output for events alone; the JVM and whoever prints get standard error."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def end_with_parent() -> None:
    """End this process group when the demo is gone, which closes our standard input, however it ended."""
    os.read(0, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
