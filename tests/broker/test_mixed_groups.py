"""One group of klamm's and other clients' consumers: with any leader, all members get partitions and no record is
skipped.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, closing
from itertools import product

import pytest

import klamm
from cli_process import klamm as command
from java_members import JavaMembers
from kafka_broker import KafkaUnavailable
from klamm.testing import DevBroker
from members import PARTITIONS, TIMEOUT, Confluent, KafkaPython, Klamm, read, settle, sixty_records
from settled import until

STRATEGIES = ["range", "roundrobin", "cooperative-sticky"]


@pytest.fixture
def topic(topic, broker):
    return sixty_records(broker, topic)


def kafka_python(broker, group, topic, partition_assignment_strategy, **config):
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    every = CooperativeStickyAssignor, RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor
    chosen = [each for each in every if each.name == partition_assignment_strategy]
    return KafkaPython(broker, group, topic, partition_assignment_strategy=chosen, **config)


def confluent(broker, group, topic, **config):
    if config.get("group_protocol") != "consumer":
        config["heartbeat_interval_ms"] = 300
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


def settle_evenly(members):
    """Wait until all members have the same number of partitions. They may give up partitions one after another."""
    found = settle(members)
    deadline = time.monotonic() + TIMEOUT
    while len({len(member.partitions()) for member in members}) > 1:
        assert time.monotonic() < deadline, [member.partitions() for member in members]
        found += settle(members)
    return found


# The first one leads. kafka-python 3.0.12 cannot where it is `sticky`: it does not read what others say of themselves there.
@pytest.mark.parametrize(
    ("kinds", "strategy"),
    [
        *product(
            [
                "klamm confluent kafka-python",
                "java klamm kafka-python",
                "confluent klamm java",
                "kafka-python klamm confluent",
            ],
            STRATEGIES,
        ),
        # confluent-kafka has no `sticky`.
        ("klamm java kafka-python", "sticky"),
        ("java kafka-python klamm", "sticky"),
    ],
)
def test_three_clients_share_one_group(broker, topic, strategy, kinds, java):
    every = {"klamm": Klamm, "confluent": confluent, "kafka-python": kafka_python, "java": java}
    with ExitStack() as stack:
        members = []
        for kind in kinds.split():
            member = every[kind](broker, f"{topic}-group", topic, partition_assignment_strategy=strategy)
            members.append(stack.enter_context(closing(member)))
            settle(members)
        settle_evenly(members)
        # From here on everybody is at the end of what it has, or reads it again.
        for member in members:
            member.commit()
        write(broker, topic, range(1000, 1036))
        found = set()
        deadline = time.monotonic() + TIMEOUT
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
        found = settle_evenly(members)
        write(broker, topic, range(1000, 1060))
        deadline = time.monotonic() + TIMEOUT
        while not set(found).issuperset(b"%d" % n for n in [*range(60), *range(1000, 1060)]):
            assert time.monotonic() < deadline, f"{len(set(found))} came"
            for member in members:
                found += member.poll()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_static_members_of_three_clients_come_back_to_what_they_had(broker, topic, protocol, java):
    config = {"group_protocol": protocol}
    group = f"{topic}-group"
    every = {"klamm": Klamm, "confluent": confluent, "java": java}
    with ExitStack() as stack:
        members = {}
        for name, kind in every.items():
            members[name] = kind(broker, group, topic, group_instance_id=name, **config)
            stack.callback(lambda name=name: members[name].close())
            settle(list(members.values()))
        settle_evenly(list(members.values()))
        had = {name: member.partitions() for name, member in members.items()}
        for name, kind in every.items():
            members[name].close()
            members[name] = kind(broker, group, topic, group_instance_id=name, **config)
            settle_evenly(list(members.values()))
            assert {name: member.partitions() for name, member in members.items()} == had


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_three_clients_continue_when_their_coordinator_dies(protocol, java):
    config = {"group_protocol": protocol}
    with DevBroker(brokers=3) as cluster, ExitStack() as stack:
        topic = sixty_records(cluster, "t")
        cluster.move_coordinator("g", 2)
        members = [
            stack.enter_context(closing(kind(cluster, "g", topic, **config))) for kind in (Klamm, confluent, java)
        ]
        found = {int(value) for value in settle(members)}
        cluster.kill(2)
        write(cluster, topic, range(60, 120))
        deadline = time.monotonic() + TIMEOUT
        while found != set(range(120)):
            assert time.monotonic() < deadline, f"{len(found)} came"
            found.update(int(value) for member in members for value in member.poll())

        def is_committed():
            """Read on and commit. A partition that changed its owner after the last record is read and committed again."""
            settle(members)
            for member in members:
                member.commit()
            return set(admin.group_lag("g").values()) == {0}

        with klamm.Admin(cluster.bootstrap_servers) as admin:
            until(is_committed)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_three_clients_are_described(broker, topic, protocol, java):
    group = f"{topic}-group"
    with ExitStack() as stack:
        members = {}
        for name, kind in {"klamm": Klamm, "confluent": confluent, "java": java}.items():
            member = kind(broker, group, topic, client_id=name, group_protocol=protocol)
            members[name] = stack.enter_context(closing(member))
            settle(list(members.values()))
        with klamm.Admin(broker.bootstrap_servers) as admin:
            # Members have their partitions a moment before the coordinator knows that, and it may ask them once more.
            until(
                lambda: (
                    settle(list(members.values())) is not None
                    and admin.describe_groups([group])[group].state == "Stable"
                )
            )
            found = admin.describe_groups([group])[group]
        assert (found.type, found.state) == (protocol, "Stable")
        described = {member.client_id: member for member in found.members}
        for name, member in members.items():
            assert {tp.partition for tp in described[name].assigned} == member.partitions()
            assert described[name].topics == [topic]
            assert "127.0.0.1" in described[name].host
        printed = json.loads(command("groups", "describe", group, "--json", "-b", broker.bootstrap_servers).stdout)
        rows = printed["groups"][0]["partitions"]
        assert {row["partition"]: row["client_id"] for row in rows} == {
            partition: name for name, member in members.items() for partition in member.partitions()
        }
