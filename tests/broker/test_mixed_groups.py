"""One group of klamm's consumers and other clients': whoever leads it, everybody gets its share and no record is skipped."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing

import pytest

import klamm
from java_members import JavaMembers
from kafka_broker import KafkaUnavailable
from members import PARTITIONS, PATIENCE, Confluent, KafkaPython, Klamm, read, settle, sixty_records

STRATEGIES = ["range", "roundrobin", "cooperative-sticky"]


@pytest.fixture
def topic(topic, broker):
    return sixty_records(broker, topic)


def kafka_python(broker, group, topic, partition_assignment_strategy):
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignors = {a.name: a for a in (CooperativeStickyAssignor, RangePartitionAssignor, RoundRobinPartitionAssignor)}
    return KafkaPython(broker, group, topic, partition_assignment_strategy=[assignors[partition_assignment_strategy]])


def confluent(broker, group, topic, partition_assignment_strategy):
    config = {"partition_assignment_strategy": partition_assignment_strategy, "heartbeat_interval_ms": 300}
    return Confluent(broker, group, topic, **config)


@pytest.fixture(scope="module")
def java():
    try:
        members = JavaMembers()
    except KafkaUnavailable as reason:
        pytest.skip(f"the Java client: {reason}")

    def member(broker, group, topic, **config):
        if config.get("group_protocol") != "consumer":
            config["heartbeat_interval_ms"] = 300
        return members.open(broker.bootstrap_servers, group, topic, **config)

    with members:
        yield member


def write(broker, topic, numbers):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for n in numbers:
            producer.send_nowait(topic, b"%d" % n, partition=n % PARTITIONS)


# kafka-python 3.0.12 is never the first, and so never leads: as the leader of a group with a confluent-kafka member it
# joins again after each assignment, with no klamm in the group as well.
@pytest.mark.parametrize("kinds", ["klamm confluent kafka-python", "java klamm kafka-python", "confluent klamm java"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_three_clients_share_one_group(broker, topic, strategy, kinds, java):
    every = {"klamm": Klamm, "confluent": confluent, "kafka-python": kafka_python, "java": java}
    with ExitStack() as stack:
        members = []
        for kind in kinds.split():
            member = every[kind](broker, f"{topic}-group", topic, partition_assignment_strategy=strategy)
            members.append(stack.enter_context(closing(member)))
            settle(members)
        assert [len(member.partitions()) for member in members] == [2, 2, 2]
        # From here on everybody is at the end of what it has, or reads it again.
        for member in members:
            member.commit()
        write(broker, topic, range(1000, 1036))
        found = set()
        deadline = time.monotonic() + PATIENCE
        while not found.issuperset(b"%d" % n for n in range(1000, 1036)):
            assert time.monotonic() < deadline, f"{len(found)} came"
            for member in members:
                found.update(member.poll())
        for member in members:
            member.commit()
        members.pop().close()
        settle(members)
        write(broker, topic, range(2000, 2018))
        assert {int(value) for value in read(members, 18)} == set(range(2000, 2018)), (
            "what was committed was read again"
        )


def test_three_clients_share_a_group_of_the_coordinators(broker, topic, java):
    config = {"group_protocol": "consumer"}
    group = f"{topic}-group"
    with ExitStack() as stack:
        members = [
            stack.enter_context(closing(kind(broker, group, topic, **config))) for kind in (Klamm, Confluent, java)
        ]
        found = settle(members)
        assert [len(member.partitions()) for member in members] == [2, 2, 2]
        write(broker, topic, range(1000, 1060))
        deadline = time.monotonic() + PATIENCE
        while not set(found).issuperset(b"%d" % n for n in [*range(60), *range(1000, 1060)]):
            assert time.monotonic() < deadline, f"{len(set(found))} came"
            for member in members:
                found += member.poll()
