"""A small Spark on this machine, for tests and benches, and Spark's own Kafka connector where it can be had."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from class_archives import archive_options
from kafka_broker import KafkaUnavailable, find_java, spark_connector_jars
from locked import locked

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
    scratch: Path, *, master: str = "local[2]", memory: str = "1g", jvm: str | None = None, jars: Sequence[Path] = ()
) -> SparkSession.Builder:
    """Describe a session with files in `scratch`. It uses klamm only because klamm is installed.

    `jvm` has options of the JVM. The default options start it fast, and run long jobs slowly.
    """
    from pyspark.sql import SparkSession

    # Spark would start its workers with the first `python3` it finds, which has no klamm.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if jvm is None:
        jvm = short_lived()
        os.environ["SPARK_HOME"] = str(spark_home())
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


def spark_home() -> Path:
    """Return a directory with links to Spark's programs and jars.

    Without it, each of Spark's Python processes imports PySpark from a zip file, and compiles it, which takes 0.5 s.
    """
    import pyspark

    installed = Path(pyspark.__file__).parent
    home = Path(__file__).parents[2] / "target" / f"spark-home-{pyspark.__version__}"
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / "lock"):
        for name in ("bin", "jars"):
            link = home / name
            if not link.exists() or link.readlink() != installed / name:
                link.unlink(missing_ok=True)
                link.symlink_to(installed / name)
    return home


def short_lived() -> str:
    """Return the options of a JVM for a short session, which has an archive of its classes."""
    import pyspark

    def dump(option: str) -> None:
        program = [sys.executable, __file__, f"{SHORT_LIVED} {option}"]
        env = {**os.environ, "SPARK_HOME": str(spark_home())}  # an archive is valid for one class path
        done = subprocess.run(program, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"Spark did not run: {done.stderr[-2000:]}")

    name, jars = f"spark-{pyspark.__version__}", spark_home() / "jars"
    return " ".join([SHORT_LIVED, *archive_options(name, find_java(), jars, dump)])


def main() -> None:
    """Run a short session with these options of the JVM: a batch, and a stream of one batch."""
    with tempfile.TemporaryDirectory() as scratch:
        spark = builder(Path(scratch), jvm=sys.argv[1]).getOrCreate()
        spark.range(100).groupBy("id").count().rdd.map(tuple).collect()
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().writeStream
        stream.format("noop").trigger(once=True).option("checkpointLocation", f"{scratch}/c").start().awaitTermination()
        spark.stop()


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


if __name__ == "__main__":
    main()
