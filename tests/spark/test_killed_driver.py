"""A driver is killed with SIGKILL in the middle of a micro-batch, and started again: nothing is lost, nothing comes twice."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

DRIVER = Path(__file__).with_name("doomed_driver.py")


def run(scratch, *arguments):
    # A file, since a pipe would stay open as long as any process that the driver left behind.
    with (scratch / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, DRIVER, *map(str, arguments)],
            start_new_session=True,  # what it kills is its own
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        code = driver.wait(timeout=110)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    return code, (scratch / "driver.log").read_text()[-3000:]


@pytest.mark.timeout(230)  # two drivers, one after the other
@pytest.mark.parametrize("step", ["landed", "done"])
def test_every_record_lands_once_wherever_the_driver_dies(real_cluster, topic, tmp_path, step):
    kafka = real_cluster
    source, result = f"{topic}-in", f"{topic}-out"
    kafka.create(source, partitions=2)
    kafka.create(result, partitions=2)
    for partition in range(2):
        kafka.numbers(source, range(partition * 100, partition * 100 + 100), partition)
    arguments = (kafka.bootstrap, source, result, tmp_path / "checkpoint", "exactly-once")
    code, said = run(tmp_path, *arguments, step)
    assert code == -9, said
    code, said = run(tmp_path, *arguments, "never")
    assert code == 0, said
    seen = kafka.records(result, isolation_level="read_committed")
    assert sorted(int(record.value) for record in seen) == list(range(200))
