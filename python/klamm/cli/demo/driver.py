"""Runs the demo's Spark pipeline in a separate process: `python -m klamm.cli.demo.driver` with four arguments.

The process is the leader of a session of its own, so the demo can kill the process, its JVM and Spark's Python workers
at any moment, even while the JVM starts. The process writes events to standard output, one JSON object on each line:
`{"started": version}`, `{"rows": number}`, and at the end `{"result": …}` or `{"error": text}`. Spark's own output goes
to standard error.
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

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a JVM that only runs for seconds.

In such a short run, the JVM's optimizing compiler (C2) costs more time than it saves.
"""

REPORT_SECONDS = 0.5
"""Pause between checks of the query's progress."""


def main(bootstrap: str, source_topic: str, result_topic: str, folder: str) -> int:
    """Run the pipeline. All files of the pipeline are in `folder`, which the demo deletes."""
    threading.Thread(target=exit_with_parent, daemon=True).start()
    events = redirect_standard_output()
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
        # The demo prints the error on one line; the traceback goes into Spark's log.
        emit(events, error=f"{type(error).__name__}: {error}")
        raise
    return 0


def start_spark(folder: Path) -> SparkSession:
    """Start a JVM and a Spark session. The session only uses the loopback interface, and files in `folder`."""
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
        .config("spark.driver.extraJavaOptions", f"-Djava.io.tmpdir={temporary} {SHORT_LIVED}")
        .config("spark.sql.shuffle.partitions", "2")  # the default is 200, each with its own state
        # A small Python task takes about 44 ms over loopback TCP, and 4 to 9 ms over a Unix socket (Spark 4.3).
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def stop_spark(spark: SparkSession) -> None:
    """Stop the session, close the JVM's standard input so that the JVM ends, and wait until the JVM has ended."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no public way to wait for its JVM
    spark.stop()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait()


def report_rows(spark: SparkSession, events: TextIO, finished: threading.Event) -> None:
    """Emit the number of rows that the query has read so far, until `finished` is set."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    rows: dict[tuple[str, int], int] = {}
    while not finished.wait(REPORT_SECONDS):
        try:
            for query in spark.streams.active:
                for progress in query.recentProgress:
                    rows[str(query.id), progress["batchId"]] = progress["numInputRows"]
        except (Py4JError, PySparkException):
            # The query may end between two calls. The next check, or the result, has the correct number.
            continue
        emit(events, rows=sum(rows.values()))


def emit(events: TextIO, **event: object) -> None:
    """Write one event as a line of JSON, for the demo to read."""
    print(json.dumps(event), file=events, flush=True)


def redirect_standard_output() -> TextIO:
    """Return a stream to the original standard output, for events. Redirect all other output to standard error.

    The JVM also writes its output to standard error.
    """
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def exit_with_parent() -> None:
    """Kill this process group when standard input is closed, which happens when the demo ends or crashes."""
    os.read(0, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
