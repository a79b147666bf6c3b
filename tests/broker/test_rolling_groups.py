"""A live group changes its assignor or protocol, one member at a time, while it reads and commits."""

from __future__ import annotations

import time
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import klamm
from kafka_broker import RealKafka
from klamm.errors import GroupIdNotFoundError, InconsistentGroupProtocolError
from klamm.testing import DevBroker
from running import or_skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Broker

WAIT_S = 60
PARTITIONS = 6
MEMBERS = 3

CLASSIC: dict[str, Any] = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300}
EAGER = CLASSIC | {"partition_assignment_strategy": "range"}
STICKY = CLASSIC | {"partition_assignment_strategy": "sticky"}
BOTH = CLASSIC | {"partition_assignment_strategy": "range,cooperative-sticky"}
COOPERATIVE = CLASSIC | {"partition_assignment_strategy": "cooperative-sticky"}
COORDINATED: dict[str, Any] = {"group_protocol": "consumer"}


@pytest.fixture(scope="module")
def disabled(request: pytest.FixtureRequest) -> Iterator[str]:
    """A cluster in which no live group may change its protocol."""
    config = {"group.consumer.migration.policy": "disabled"}
    cluster = DevBroker(config=config) if request.param == "dev" else RealKafka(config=config)
    with or_skip(cluster) as running:
        yield running.bootstrap_servers


class Rolled:
    """A group that reads a growing topic and commits."""

    def __init__(self, servers: str, topic: str, config: dict[str, Any], stack: ExitStack) -> None:
        self.servers, self.topic = servers, topic
        self.seen: set[int] = set()
        self.sent = 0
        self.numbers = count()
        self.stack = stack
        self.admin = stack.enter_context(klamm.Admin(servers))
        self.admin.create_topics({topic: klamm.NewTopic(partitions=PARTITIONS)})
        self.producer = stack.enter_context(klamm.Producer(servers))
        self.members = [self.member(config) for _ in range(MEMBERS)]
        self.go_on_until(self.is_settled)

    def member(self, config: dict[str, Any]) -> klamm.Consumer:
        given = {
            "group_id": self.topic,
            "client_id": f"m{next(self.numbers)}",
            "auto_offset_reset": "earliest",
            **config,
        }
        return self.stack.enter_context(
            klamm.Consumer(self.servers, topics=[self.topic], auto_commit_interval_ms=50, **given)
        )

    def replace_each(self, config: dict[str, Any]) -> None:
        """Replace each member in turn by a new one, and wait until all have partitions."""
        for index in range(MEMBERS):
            self.members[index].close()
            self.members[index] = self.member(config)
            self.go_on_until(self.is_settled)

    def is_settled(self) -> bool:
        sizes = [len(member.assignment()) for member in self.members]
        tps = set().union(*(member.assignment() for member in self.members))
        return sizes == [PARTITIONS // MEMBERS] * MEMBERS and len(tps) == PARTITIONS

    def go_on_until(self, done: Callable[[], bool]) -> None:
        """Write records and let the members read them, with automatic commits."""
        end = time.monotonic() + WAIT_S
        while not done():
            assert time.monotonic() < end, [member.assignment() for member in self.members]
            self.producer.send_nowait(self.topic, b"%d" % self.sent, partition=self.sent % PARTITIONS)
            self.sent += 1
            self.read()

    def read(self) -> None:
        for member in self.members:
            self.seen.update(int(record.value) for record in member.poll(0.05))

    def check(self) -> None:
        """Check that all records are read and finally committed."""
        self.producer.flush(WAIT_S)
        end = time.monotonic() + WAIT_S
        while len(self.seen) < self.sent:
            assert time.monotonic() < end, f"skipped: {sorted(set(range(self.sent)) - self.seen)}"
            self.read()
        # While members go the group moves on, and the last commit of one may come too late: others would read on there.
        while list((lag := self.admin.group_lag(self.topic)).values()) != [0] * PARTITIONS:
            assert time.monotonic() < end, lag
            self.read()

    def described(self) -> tuple[str, str]:
        found = self.admin.describe_groups([self.topic])[self.topic]
        return found.type, found.assignor


@pytest.fixture
def rolled(topic: str) -> Iterator[Callable[[str, dict[str, Any]], Rolled]]:
    """Creates these groups."""
    with ExitStack() as stack:
        yield lambda servers, config: Rolled(servers, topic, config, stack)


def test_members_go_over_to_another_assignor_by_way_of_both(broker: Broker, rolled: Callable[..., Rolled]):
    group = rolled(broker.bootstrap_servers, EAGER)
    group.replace_each(BOTH)
    assert group.described() == ("classic", "range")
    group.replace_each(COOPERATIVE)
    assert group.described() == ("classic", "cooperative-sticky")
    group.check()


@pytest.mark.parametrize("classic", [EAGER, STICKY, COOPERATIVE], ids=["range", "sticky", "cooperative-sticky"])
def test_members_go_over_to_the_coordinators_protocol_and_back(broker: Broker, classic, rolled):
    group = rolled(broker.bootstrap_servers, classic)
    assert group.described()[0] == "classic"
    group.replace_each(COORDINATED)
    assert group.described()[0] == "consumer"
    group.replace_each(classic)
    assert group.described() == ("classic", classic["partition_assignment_strategy"])
    group.check()


@pytest.fixture
def dev() -> Iterator[DevBroker]:
    """A separate dev broker."""
    with DevBroker() as broker:
        yield broker


@pytest.mark.parametrize("disabled", ["dev", "kafka"], indirect=True)
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (EAGER, COORDINATED, (GroupIdNotFoundError, "group.consumer.migration.policy=bidirectional")),
        (COORDINATED, EAGER, (InconsistentGroupProtocolError, "group.protocol=consumer")),
        (EAGER, COOPERATIVE, (InconsistentGroupProtocolError, "partition.assignment.strategy")),
    ],
    ids=["to-consumer", "to-classic", "no-assignor-in-common"],
)
def test_a_member_with_another_protocol_raises_why_it_cannot_join(disabled: str, topic: str, first, second, expected):
    error, hint = expected
    with klamm.Admin(disabled) as admin:
        admin.create_topics({topic: klamm.NewTopic()})
    with klamm.Consumer(disabled, topic, [topic], **first) as member:
        while not member.assignment():
            member.poll(0.05)
        with (
            klamm.Consumer(disabled, topic, [topic], **second) as other,
            pytest.raises(error, match=f'group "{topic}"') as caught,
        ):
            other.poll(WAIT_S)
        assert hint in caught.value.hint


def test_a_member_rejoins_a_group_that_changed_its_protocol_without_it(dev: DevBroker):
    events: list[tuple[str, int]] = []

    class Listener(klamm.RebalanceListener):
        def assigned(self, partitions: set[klamm.TopicPartition]) -> None:
            if not events:
                dev.fault("ConsumerGroupHeartbeat", "error", error="GROUP_ID_NOT_FOUND")
            events.append(("assigned", len(partitions)))

        def lost(self, partitions: set[klamm.TopicPartition]) -> None:
            events.append(("lost", len(partitions)))

    with klamm.Admin(dev.bootstrap_servers) as admin:
        admin.create_topics({"t": klamm.NewTopic()})
    with klamm.Consumer(dev.bootstrap_servers, "g", **COORDINATED) as member:
        member.subscribe(["t"], on_rebalance=Listener())
        end = time.monotonic() + WAIT_S
        while events != [("assigned", 1), ("lost", 1), ("assigned", 1)]:
            assert time.monotonic() < end, events
            member.poll(0.05)
