"""Tasks die with their worker or their executor in mid-write, and run again: nothing is lost, nothing comes twice."""

from __future__ import annotations

import pytest

from doomed_driver import Driver
from settled import wait_until_settled

pytestmark = pytest.mark.spark


@pytest.mark.timeout(300)  # a driver, two executors, and another for the killed one
def test_every_record_lands_once_whatever_dies_under_a_task(real_cluster, topic, tmp_path):
    kafka = real_cluster
    source, result = f"{topic}-in", f"{topic}-out"
    kafka.create(source, partitions=2)
    kafka.create(result, partitions=2)
    for partition in range(2):
        kafka.numbers(source, range(partition * 60, partition * 60 + 60), partition)
    dooms = [
        "sent:1:worker",  # in an open transaction
        "landed:2:worker",  # behind it: the next attempt has nothing to write
        "noted:4:executor",  # its workers go with it, all but the one that killed it
    ]
    with Driver(tmp_path, kafka.bootstrap, source, result, "--master=local-cluster[2,1,1024]", dooms=dooms) as driver:
        code, said = driver.end(seconds=280)
    assert code == 0, said
    assert driver.passes("writing") == 6 + len(
        dooms
    )  # two tasks for each of three batches, and one more for each death
    wait_until_settled(kafka.bootstrap, result)
    seen = kafka.records(result, isolation_level="read_committed")
    assert sorted(int(record.value) for record in seen) == list(range(120))
