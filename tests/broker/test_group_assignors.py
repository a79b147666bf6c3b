"""Assignment in live groups: the coordinator's assignors, and racks."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import klamm
from kafka_cluster import KafkaCluster
from klamm.errors import UnsupportedAssignorError
from klamm.testing import DevBroker
from running import or_skip
from settled import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conftest import Broker

WAIT_S = 20
RACKS = ["a", "b", "c"]
PARTITIONS = 6


def shares(servers: str, topics: list[str], members: Mapping[str, dict[str, str]]) -> dict[str, list[list[int]]]:
    """Let members join one group. Return the partitions of each once all are assigned."""
    group = topics[0]
    with ExitStack() as stack:
        joined = {
            name: stack.enter_context(klamm.Consumer(servers, group, topics, client_id=name, **config))  # type: ignore[arg-type]
            for name, config in members.items()
        }

        def all_is_given_out() -> bool:
            for consumer in joined.values():
                consumer.poll(0.05)
            owned = [tp for consumer in joined.values() for tp in consumer.assignment()]
            return len(owned) == len(set(owned)) == PARTITIONS * len(topics) and all(
                consumer.assignment() for consumer in joined.values()
            )

        until(all_is_given_out)
        return {
            name: [sorted(tp.partition for tp in consumer.assignment() if tp.topic == t) for t in topics]
            for name, consumer in joined.items()
        }


@pytest.mark.parametrize("assignor", ["range", "uniform"])
def test_the_coordinator_assigns_by_what_its_members_ask_for(broker: Broker, topic: str, assignor: str):
    servers = broker.bootstrap_servers
    topics = [f"{topic}-{letter}" for letter in "ab"]
    with klamm.Admin(servers) as admin:
        admin.create_topics(dict.fromkeys(topics, klamm.NewTopic(partitions=PARTITIONS)))
        config = {"group_protocol": "consumer", "group_remote_assignor": assignor}
        with klamm.Consumer(servers, topics[0], topics, **config) as alone:
            until(lambda: alone.poll(0.05) or len(alone.assignment()) == 2 * PARTITIONS)
            assert admin.describe_groups([topics[0]])[topics[0]].assignor == assignor
    found = shares(servers, topics, {"one": config, "other": config})
    if assignor == "range":  # topics with equally many partitions are cut alike
        assert sorted(found.values()) == [[[0, 1, 2]] * 2, [[3, 4, 5]] * 2]


def test_an_assignor_that_the_coordinator_does_not_have_is_an_error(broker: Broker, topic: str):
    config = {"group_protocol": "consumer", "group_remote_assignor": "by-name"}
    with (
        klamm.Consumer(broker.bootstrap_servers, topic, [topic], **config) as consumer,
        pytest.raises(UnsupportedAssignorError, match="by-name"),
    ):
        consumer.poll(WAIT_S)


@pytest.fixture(scope="module", params=["dev", "real"])
def racks(request: pytest.FixtureRequest) -> Iterator[str]:
    """Three nodes in different racks."""
    with or_skip(DevBroker(brokers=3, racks=RACKS) if request.param == "dev" else KafkaCluster(racks=RACKS)) as running:
        yield running.bootstrap_servers


def spread(racks: str) -> tuple[str, dict[str, list[int]]]:
    """Create a topic with the same number of partitions in each rack, and return them by rack."""
    with klamm.Admin(racks) as admin:
        for number in range(100):  # brokers that have just started are given less
            topic = f"t{number}"
            admin.create_topics({topic: klamm.NewTopic(partitions=PARTITIONS, replication_factor=1)})
            rack_of = {node.id: node.rack for node in admin.describe_cluster().brokers}
            described = admin.describe_topics([topic])[topic].partitions
            in_rack = {rack: [p.partition for p in described if rack_of[p.leader] == rack] for rack in RACKS}
            if [len(numbers) for numbers in in_rack.values()] == [2, 2, 2]:
                return topic, in_rack
    raise AssertionError(in_rack)


def test_members_get_what_is_in_their_racks(racks: str):
    classic = {"partition_assignment_strategy": "range", "heartbeat_interval_ms": 300}
    topic, in_rack = spread(racks)
    found = shares(racks, [topic], {rack: classic | {"client_rack": rack} for rack in RACKS})
    assert found == {rack: [numbers] for rack, numbers in in_rack.items()}
    # Members that do not say where they are get ranges.
    found = shares(racks, [topic], dict.fromkeys(RACKS, classic))
    assert sorted(found.values()) == [[[0, 1]], [[2, 3]], [[4, 5]]]
