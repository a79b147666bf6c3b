"""Kills and restarts the example that copies a topic exactly once, at random moments."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import klamm
from klamm.testing import DevBroker
from settled import wait_until_settled

EXAMPLE = Path(__file__).parents[2] / "examples" / "exactly_once.py"
RECORDS = 4_000
KILLS = 6
SEED = 7


@pytest.mark.timeout(180)
def test_the_example_copies_each_record_once_however_often_it_is_killed(broker, topic):
    source, target = f"{topic}-in", f"{topic}-out"
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({source: klamm.NewTopic(partitions=2), target: klamm.NewTopic(partitions=2)})
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for number in range(RECORDS):
            producer.send_nowait(source, b"%d" % number, partition=number % 2)
    command = [sys.executable, str(EXAMPLE), broker.bootstrap_servers, source, target, "--until-end"]
    chance = random.Random(SEED)
    for _ in range(KILLS):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            # It is killed somewhere in one of its first transactions; the last one may end by itself.
            for _line in range(chance.randrange(1, 3)):
                process.stdout.readline()
            deadline = time.monotonic() + chance.random() * 0.01
            while time.monotonic() < deadline:
                pass
            process.kill()
            process.wait()
    finish(command, broker, target)


@pytest.mark.parametrize("api", ["TxnOffsetCommit", "EndTxn", "Produce"])
def test_the_example_copies_each_record_once_after_an_abort_and_a_kill(topic, api):
    with DevBroker() as broker:
        source, target = f"{topic}-in", f"{topic}-out"
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send_many(source, [b"%d" % number for number in range(RECORDS)])
        broker.fail_next(api, error="TRANSACTION_ABORTABLE", topic=target if api == "Produce" else None)
        command = [sys.executable, str(EXAMPLE), broker.bootstrap_servers, source, target, "--until-end"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline().startswith("aborted")
            assert process.stdout.readline() == "500 records\n"
            process.kill()
        finish(command, broker, target)


def finish(command, broker, target):
    """Run the example until the end, and check that it has written each record once."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    wait_until_settled(broker.bootstrap_servers, target)
    table = klamm.read_table(
        broker.bootstrap_servers, target, columns=["key", "value"], isolation_level="read_committed"
    )
    found = sorted((int(row["key"]), int(row["value"])) for row in table.to_pylist())
    assert found == [(number, len(str(number))) for number in range(RECORDS)]
