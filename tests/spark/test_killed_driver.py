"""Kills the driver with SIGKILL between two steps of a micro-batch, once or repeatedly. No record may be lost or duplicated.

Ten seeds kill it once, each at another step of `doomed_driver`, and the first seed twice. More seeds, as of `make soak-spark`, kill
it up to three times. Every third seed writes in output mode update, with `write_stream`.
"""

from __future__ import annotations

import os
import random
from contextlib import ExitStack

import pytest

from doomed_driver import DIED, STEPS, Driver, counted
from klamm.spark import write_stream
from settled import wait_until_settled

pytestmark = [pytest.mark.spark, pytest.mark.limits]

USUAL = 10
SEEDS = int(os.environ.get("KLAMM_SPARK_SEEDS") or USUAL)


def deaths(seed):
    """Choose the steps at which the driver is killed, and at which execution of each step."""
    if seed == 0:
        return [("committed", 1), ("done", 1)]
    chance = random.Random(seed)
    first = list(STEPS)[seed % len(STEPS)], chance.randint(1, 2)
    more = chance.randint(0, 2) if seed >= USUAL else 0
    return [first, *((chance.choice(list(STEPS)), chance.randint(1, 4)) for _ in range(more))]


@pytest.mark.parametrize("mode", [[], ["--update"]], ids=["append", "update"])
def test_every_step_is_part_of_a_query(real, topic, tmp_path, mode):
    source, result = f"{topic}-in", f"{topic}-out"
    real.create(source)
    real.create(result)
    real.numbers(source, range(120))
    with Driver(tmp_path, real.bootstrap, source, result, *mode) as driver:
        code, output = driver.end()
        assert code == 0, output
        assert [step for step in STEPS if not driver.passes(step)] == []


@pytest.mark.timeout(600)  # as many drivers as deaths
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_record_is_written_once_wherever_the_driver_dies(real, topic, tmp_path, seed):
    source, result = f"{topic}-in", f"{topic}-out"
    real.create(source, partitions=2)
    real.create(result, partitions=2)
    for partition in range(2):
        real.numbers(source, range(partition * 60, partition * 60 + 60), partition)
    mode = ["--update"] if seed % 3 == 2 else []
    dooms = deaths(seed)
    with ExitStack() as running:
        drivers = [
            running.enter_context(
                Driver(tmp_path, real.bootstrap, source, result, *mode, dooms=[f"{step}:{at}:driver"])
            )
            for step, at in dooms
        ]
        for number, driver in enumerate(drivers):
            code, output = driver.end()
            # Later ones may find too little left to do to come that far.
            assert code == DIED or (number and seed and code == 0), output
    rows = real.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    options = {"topic": result, "delivery": "exactly-once"}
    if mode:
        options |= {"kafka.bootstrap.servers": real.bootstrap, "checkpointLocation": str(tmp_path / "checkpoint")}
        write_stream(counted(rows), options, trigger={"availableNow": True}).awaitTermination()
    else:
        real.run(rows.select("value"), tmp_path / "checkpoint", **options)
    wait_until_settled(real.bootstrap, result)
    seen = real.records(result, isolation_level="read_committed")
    assert sorted(int(record.value) for record in seen) == list(range(120))
