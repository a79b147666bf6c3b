"""A Spark driver that copies a topic exactly once in several micro-batches. A chosen process dies at a chosen step.

    python doomed_driver.py BOOTSTRAP SOURCE RESULT CHECKPOINT [--update | --barrier] [--doom STEP:PASS:VICTIM ...] [--master local[2]]

With `--update`, it counts the values instead, in output mode update, and writes each value when its count changes. With
`--barrier`, all tasks of a batch start together, and together again after one of them has failed.

STEP is a name of STEPS. PASS counts how often the step was reached in all processes, from 1. VICTIM is `driver` (with
its JVM and the process that answers for the query), `worker` (the Python process of a task) or `executor` (its JVM).
With `nobody`, the attempt of the task waits until another attempt has passed the same step.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import os
import signal
import subprocess
import sys
import time
from functools import wraps
from pathlib import Path

import klamm.spark
import klamm.spark.foreach
from local_spark import builder

BEFORE, AFTER = "before", "after"
WRITERS = ("KlammStreamWriter", "KlammWriter")

# In the order of a micro-batch. On the driver: first position to divided, and done, told; on executors the others.
STEPS = {
    "first position": ("klamm.spark.stream", "KlammStreamReader", "initialOffset", AFTER),
    "end chosen": ("klamm.spark.stream", "KlammStreamReader", "latestOffset", AFTER),
    "planned": ("klamm.spark.stream", "KlammStreamReader", "partitions", BEFORE),  # Spark noted what the batch is
    "divided": ("klamm.spark.stream", "KlammStreamReader", "partitions", AFTER),
    "reading": ("klamm.spark.stream", "KlammStreamReader", "read", BEFORE),
    "writing": ("klamm.spark.write", WRITERS, "write", BEFORE),
    "took over": ("klamm", "Producer", "init_transactions", AFTER),  # predecessors are fenced off
    # It is known whether the task landed before.
    "asked": ("klamm.spark.group_admin", "GroupAdmin", "committed", AFTER),
    "sent": ("klamm", "Producer", "send_arrow", AFTER),
    "noted": ("klamm.transaction", "Transaction", "__exit__", BEFORE),
    "committed": ("klamm.transaction", "Transaction", "__exit__", AFTER),
    "landed": ("klamm.spark.write", WRITERS, "write", AFTER),  # Spark does not know
    "done": ("klamm.spark.write", WRITERS, "commit", BEFORE),  # all tasks landed, Spark has not noted it
    "told": ("klamm.spark.stream", "KlammStreamReader", "commit", BEFORE),  # it is noted, and the next one planned
}


DIED = -signal.SIGKILL


class Driver:
    """A driver with its checkpoint in `scratch`. It prepares at once, which takes long, and runs its query in
    `end()`.
    """

    def __init__(self, scratch, bootstrap, source, result, *options, dooms=()):
        self._scratch = scratch
        self._log = scratch / f"driver-{next(_drivers)}.log"
        # A file, since a pipe would stay open as long as any process that the driver left behind.
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, __file__, bootstrap, source, result, scratch / "checkpoint", *options),
                    *(f"--doom={doom}" for doom in dooms),
                ],
                start_new_session=True,  # what it kills is its own
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    def end(self, seconds=280):
        """Run its query. Return its exit code and the end of its output."""
        self._process.stdin.close()
        code = self._process.wait(timeout=seconds)
        return code, self._log.read_text()[-3000:]

    def passes(self, step):
        """Count how often a step was reached."""
        return len(list(self._scratch.glob(f"passes-{self._process.pid}/{step}.*")))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


_drivers = itertools.count(1)


def reached(step):
    """Record that a step was reached, and die or wait if it is the chosen one."""
    folder = Path(os.environ["PASSES"])
    for number in itertools.count(1):
        try:
            (folder / f"{step}.{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        break
    dooms = [doom.split(":") for doom in os.environ["DOOMS"].split(",") if doom]
    for _, _, victim in (doom for doom in dooms if doom[:2] == [step, str(number)]):
        if victim == "nobody":
            # A process is not notified of another process's file.
            while not (folder / f"{step}.{number + 1}").exists():
                time.sleep(0.1)
        elif victim == "driver":
            os.killpg(int(os.environ["DRIVER"]), signal.SIGKILL)
        elif victim == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        else:  # a worker was forked by a daemon, which the executor started
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
            signal.pause()


class Doom:
    """Travels with objects that Spark pickles, so that the steps are watched in every process."""

    def __reduce__(self):
        return armed, ()


def armed():
    """Watch the steps in this process."""
    import klamm

    if not hasattr(klamm, "armed"):  # a reused worker is
        klamm.armed = True
        for step, (module, owners, name, when) in STEPS.items():
            for owner in (owners,) if isinstance(owners, str) else owners:
                watch(step, getattr(importlib.import_module(module), owner), name, when)
    return Doom()


def watch(step, owner, name, when):
    original = getattr(owner, name)

    @wraps(original)  # Spark looks at signatures
    def watched(*args, **kwargs):
        if when == BEFORE:
            reached(step)
        result = original(*args, **kwargs)
        if when == AFTER:
            reached(step)
        return result

    setattr(owner, name, watched)


def doomed_source():
    """klamm's source under a different name, because Spark registers the original automatically."""
    from klamm.spark import KlammDataSource

    class Doomed(KlammDataSource):
        @classmethod
        def name(cls):
            return "doomed"

        def streamReader(self, schema):  # noqa: N802 - Spark's name
            doom = armed()
            reader = super().streamReader(schema)
            reader.doom = doom
            return reader

        def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
            doom = armed()
            writer = super().streamWriter(schema, overwrite)
            writer.doom = doom
            return writer

        def writer(self, schema, overwrite):
            doom = armed()
            writer = super().writer(schema, overwrite)
            writer.doom = doom
            return writer

    return Doomed


def counted(rows):
    """Return the values whose counts change in a micro-batch."""
    return rows.groupBy("value").count().select("value")


def in_barrier_mode(frame):
    """Return the same rows, from tasks that start together."""
    return frame.sparkSession.createDataFrame(frame.rdd.barrier().mapPartitions(iter), frame.schema)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("source")
    parser.add_argument("result")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--doom", action="append", default=[], help="STEP:PASS:VICTIM")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--update", action="store_true", help="count, in output mode update")
    parser.add_argument("--barrier", action="store_true", help="run the tasks in barrier mode")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE of Spark")
    given = parser.parse_args()

    scratch = given.checkpoint.parent
    passes = scratch / f"passes-{os.getpid()}"
    passes.mkdir()
    # The JVM and its workers inherit these, but for executors that daemons start.
    settings = {"DOOMS": ",".join(given.doom), "PASSES": str(passes), "DRIVER": str(os.getpgid(0))}
    os.environ.update(settings)
    described = builder(scratch, master=given.master, memory="512m").config("spark.sql.shuffle.partitions", "2")
    for name, value in settings.items():
        described = described.config(f"spark.executorEnv.{name}", value)
    for setting in given.set:
        described = described.config(*setting.split("=", 1))
    spark = described.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    source = doomed_source()
    spark.dataSource.register(source)
    options = {"kafka.bootstrap.servers": given.bootstrap}
    rows = (
        spark.readStream.format("doomed")
        .options(**options, subscribe=given.source, startingOffsets="earliest", maxOffsetsPerTrigger="40")
        .load()
    )
    written = options | {"topic": given.result, "delivery": "exactly-once", "checkpointLocation": str(given.checkpoint)}
    sys.stdin.read()
    klamm.spark.foreach.KlammDataSource = source
    if given.barrier:
        checkpoint = written.pop("checkpointLocation")
        write = klamm.spark.foreach_batch(written)
        writer = rows.select("value").writeStream.foreachBatch(
            lambda frame, batch: write(in_barrier_mode(frame), batch)
        )
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    elif given.update:
        query = klamm.spark.write_stream(counted(rows), written, trigger={"availableNow": True})
    else:
        query = rows.select("value").writeStream.format("doomed").options(**written).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
