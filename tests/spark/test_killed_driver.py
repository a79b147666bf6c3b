"""A driver is killed with SIGKILL between two steps of a micro-batch, several times in a row; then nothing is lost, nothing twice.

CI runs one seed, which dies in a transaction, and between the tasks and the note that the batch is done (between two tasks something
dies in `test_killed_executor`, too); `make soak-spark` as many as it is asked for, each of which begins with another of the steps of
`doomed_driver`.
"""

from __future__ import annotations

import os
import random
from contextlib import ExitStack

import pytest

from doomed_driver import DIED, STEPS, Driver
from settled import wait_until_settled

pytestmark = [pytest.mark.spark, pytest.mark.limits]

SEEDS = int(os.environ.get("KLAMM_SPARK_SEEDS", "1"))


def deaths(seed):
    """Choose the steps at which the driver dies, one after the other, and which pass of each."""
    if seed == 0:
        return [("noted", 1), ("done", 1)]
    chance = random.Random(seed)
    first = list(STEPS)[seed % len(STEPS)], chance.randint(1, 2)
    return [first, *((chance.choice(list(STEPS)), chance.randint(1, 4)) for _ in range(chance.randint(0, 2)))]


@pytest.mark.timeout(600)  # as many drivers as deaths
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_record_lands_once_wherever_the_driver_dies(real, topic, tmp_path, seed):
    source, result = f"{topic}-in", f"{topic}-out"
    real.create(source, partitions=2)
    real.create(result, partitions=2)
    for partition in range(2):
        real.numbers(source, range(partition * 60, partition * 60 + 60), partition)
    with ExitStack() as running:
        drivers = [
            running.enter_context(Driver(tmp_path, real.bootstrap, source, result, dooms=[f"{step}:{at}:driver"]))
            for step, at in deaths(seed)
        ]
        for number, driver in enumerate(drivers):
            code, said = driver.end()
            # Later ones may find too little left to do to come that far.
            assert code == DIED or (number and seed and code == 0), said
    rows = real.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    real.run(rows.select("value"), tmp_path / "checkpoint", topic=result, delivery="exactly-once")
    wait_until_settled(real.bootstrap, result)
    seen = real.records(result, isolation_level="read_committed")
    assert sorted(int(record.value) for record in seen) == list(range(120))
