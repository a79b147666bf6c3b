"""A small Spark on this machine, for tests and benches, and Spark's own Kafka connector where it can be had."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_broker import KafkaUnavailable, spark_connector_jars

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

# A session of tests is short: C1 alone starts it in two thirds of the time. It has 48 MB for code by default, which all tests
# together fill.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"


def connector_jars() -> tuple[list[Path], str | None]:
    """The jars of Spark's own Kafka connector, or none and why."""
    import pyspark

    if pyspark.__version__ < "4.2":
        return [], f"that of Spark 4.2 does not go with PySpark {pyspark.__version__}"
    try:
        return spark_connector_jars(), None
    except KafkaUnavailable as reason:
        return [], str(reason)


def builder(
    scratch: Path, *, master: str = "local[2]", memory: str = "1g", jvm: str = SHORT_LIVED, jars: Sequence[Path] = ()
) -> SparkSession.Builder:
    """Describe a session with files in `scratch`. It uses klamm only because klamm is installed."""
    from pyspark.sql import SparkSession

    # Spark would start its workers with the first `python3` it finds, which has no klamm.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder: SparkSession.Builder = SparkSession.builder
    return (
        builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", memory)
        .config("spark.driver.extraJavaOptions", jvm)
        .config("spark.executor.extraJavaOptions", jvm)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.jars", ",".join(map(str, jars)))
    )


def worker_peaks() -> dict[int, float]:
    """Return the peak memory of each Python worker in MB, from Linux. Idle workers live for a minute."""
    parents, peaks = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            status = (process / "status").read_text()
            is_worker = b"pyspark.daemon" in (process / "cmdline").read_bytes()
        except OSError:  # ended by now
            continue
        pid = int(process.name)
        parents[pid] = int(re.findall(r"PPid:\s+(\d+)", status)[0])
        if is_worker:
            peaks[pid] = int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1000

    def is_ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and is_ours(parents[pid]))

    return {pid: peak for pid, peak in peaks.items() if is_ours(pid)}
