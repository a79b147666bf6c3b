"""Partitions without a leader: calls name the partition, and wait no longer than an election takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import klamm
from cli_process import klamm as command
from klamm import TopicPartition
from klamm.errors import KafkaTimeoutError
from klamm.testing import DevBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from styles import Style

LED = [0, 2]


@pytest.fixture
def cluster() -> Iterator[DevBroker]:
    """Three nodes with a topic `t` whose partition 1 has no leader. The group `g` has read one record of each
    partition.
    """
    with DevBroker(brokers=3) as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({"t": klamm.NewTopic(partitions=3, replication_factor=1)})
        with klamm.Producer(broker.bootstrap_servers) as producer:
            for number in range(3):
                producer.send_nowait("t", b"%d" % number, partition=number)
        admin.alter_group_offsets("g", {TopicPartition("t", number): 1 for number in range(3)})
        broker.kill(admin.describe_topics(["t"])["t"].partitions[1].leader)
        yield broker


@pytest.mark.parametrize("method", ["beginning_offsets", "end_offsets", "offsets_for_times"])
def test_an_answer_that_does_not_come_names_who_has_no_leader(style: Style, cluster: DevBroker, method: str) -> None:
    tps = [TopicPartition("t", number) for number in range(3)]
    with style.consumer(cluster.bootstrap_servers) as consumer:
        ask = getattr(consumer, method)
        asked = (lambda timeout: ask(dict.fromkeys(tps, 0), timeout=timeout)) if "times" in method else None
        with pytest.raises(KafkaTimeoutError, match=r"did not succeed in 1 s: t-1 has no leader"):
            (asked or (lambda timeout: ask(tps, timeout=timeout)))(1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("consume", "t"),
        ("consume", "t", "--exit"),
        ("groups", "reset-offsets", "g", "--to-earliest"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--shift-by=-1", "--execute"),
    ],
)
def test_a_command_does_not_wait_for_a_broker_that_is_away(cluster: DevBroker, arguments: tuple[str, ...]) -> None:
    began = time.monotonic()
    done = command(*arguments, "-b", cluster.bootstrap_servers)
    assert time.monotonic() - began < 15 - 1
    assert done.returncode == 1
    assert b"t-1 has no leader" in done.stderr


def test_a_command_does_the_others(cluster: DevBroker) -> None:
    servers = cluster.bootstrap_servers
    chosen = [word for number in LED for word in ("--partition", str(number))]
    assert sorted(command("consume", "t", "--exit", *chosen, "-b", servers).stdout.split()) == [b"0", b"2"]
    done = command("groups", "reset-offsets", "g", "--topic", "t:0,2", "--to-earliest", "--execute", "-b", servers)
    assert done.returncode == 0, done.stderr
    with klamm.Admin(servers) as admin:
        assert admin.group_offsets("g") == {TopicPartition("t", number): 1 - (number in LED) for number in range(3)}
