"""Kills a task's worker or executor in the middle of a write, or starts a task twice. No record may be lost or duplicated.

A killed task runs again alone; in output mode update, with the stage before it if its executor died; in barrier mode, with all tasks
of its stage.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from doomed_driver import Driver
from kafka_broker import find_java, free_ports
from local_spark import SHORT_LIVED
from settled import wait_until_settled

pytestmark = [pytest.mark.spark, pytest.mark.limits]


@pytest.fixture
def topics(real_cluster, topic):
    """Create the topics, with 60 numbers in each of two partitions."""
    source, result = f"{topic}-in", f"{topic}-out"
    for name in (source, result):
        real_cluster.create(name, partitions=2)
    for partition in range(2):
        real_cluster.numbers(source, range(partition * 60, partition * 60 + 60), partition)
    return source, result


def written(cluster, result):
    wait_until_settled(cluster.bootstrap, result)
    return sorted(int(record.value) for record in cluster.records(result, isolation_level="read_committed"))


DOOMS = [
    "sent:1:worker",  # in an open transaction
    "landed:2:worker",  # behind it: the next attempt has nothing to write
    "noted:4:executor",  # its workers go with it, all but the one that killed it
]


@pytest.mark.timeout(300)  # a driver, two executors, and another for the killed one
@pytest.mark.parametrize("mode", ["copy", "update"])
def test_every_record_is_written_once_if_a_worker_or_executor_dies(real_cluster, topics, tmp_path, mode):
    options = ["--master=local-cluster[2,1,1024]", *(["--update"] if mode == "update" else [])]
    with Driver(tmp_path, real_cluster.bootstrap, *topics, *options, dooms=DOOMS) as driver:
        code, output = driver.end(seconds=280)
    assert code == 0, output
    if mode == "copy":
        # Two tasks for each of three batches, one more for each death, and one for the empty first batch.
        assert driver.passes("writing") == 6 + len(DOOMS) + 1
    assert written(real_cluster, topics[1]) == list(range(120))


@pytest.mark.timeout(600)  # two drivers
def test_every_record_is_written_once_if_a_stage_in_barrier_mode_is_repeated(real_cluster, topics, tmp_path):
    options = ["--master=local[2,4]", "--barrier"]
    # Spark repeats a stage in barrier mode only if none of its tasks has ended. Otherwise the query fails.
    with Driver(tmp_path, real_cluster.bootstrap, *topics, *options, dooms=["landed:2:worker"]) as driver:
        driver.end(seconds=280)
        assert driver.passes("landed") >= 2
    with Driver(tmp_path, real_cluster.bootstrap, *topics, *options) as driver:
        code, output = driver.end(seconds=280)
    assert code == 0, output
    assert written(real_cluster, topics[1]) == list(range(120))


@pytest.fixture
def two_hosts(tmp_path):
    """Provide a standalone cluster with two workers on different addresses: Spark starts a second attempt on another host than the first."""
    import pyspark

    port, *_ = free_ports(1)
    jars = Path(pyspark.__file__).parent / "jars"
    command = [find_java(), *SHORT_LIVED.split(), "-cp", f"{jars}/*"]
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    workers = [
        ["org.apache.spark.deploy.worker.Worker", "--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        for host in ("127.0.0.1", "127.0.0.2")
    ]
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        for number, daemon in enumerate([master, *([*worker, "--work-dir", str(tmp_path), url] for worker in workers)]):
            log = running.enter_context((tmp_path / f"daemon-{number}.log").open("wb"))
            process = subprocess.Popen(
                [*command, *daemon],
                env={**os.environ, "SPARK_SCALA_VERSION": "2.13", "SPARK_HOME": str(jars.parent)},
                stdout=log,
                stderr=log,
            )
            running.callback(process.wait)
            running.callback(process.kill)
        yield url


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["copy", "update"])
@pytest.mark.skipif(sys.platform != "linux", reason="a second address of this machine without asking for it: Linux")
def test_two_attempts_at_the_same_time_write_every_record_once(real_cluster, topic, tmp_path, two_hosts, mode):
    kafka = real_cluster
    source, result = f"{topic}-in", f"{topic}-out"
    kafka.create(source)
    kafka.create(result)
    kafka.numbers(source, range(60))
    speculate = [
        "spark.speculation=true",
        "spark.speculation.interval=100ms",
        "spark.speculation.task.duration.threshold=500ms",
    ]
    options = [f"--master={two_hosts}", *(f"--set={setting}" for setting in speculate)]
    if mode == "update":
        options.append("--update")
    # The first attempt waits in its transaction until a second one has sent the same rows, and then goes on beside it.
    with Driver(tmp_path, kafka.bootstrap, source, result, *options, dooms=["sent:1:nobody"]) as driver:
        code, output = driver.end(seconds=280)
    assert code == 0, output
    assert driver.passes("sent") > 2
    assert written(kafka, result) == list(range(60))
