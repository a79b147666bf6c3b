"""Assignors decide which member of a classic group reads which partition. The group leader runs the assignor.

    klamm.assignors.assign(
        "range",
        topics={"logs": [[0, 1], [1, 2], [2, 0]]},  # for each partition, the broker IDs of its replicas
        members=[klamm.assignors.Member("a", ["logs"]), klamm.assignors.Member("b", ["logs"])],
    )

| name | what it does |
| --- | --- |
| `range` | gives each member a range of the partitions of each topic, and prefers the member's rack (KIP-881) |
| `roundrobin` | assigns the partitions one by one, to each member in turn |
| `sticky` | balances the partitions, and moves as few partitions as possible (KIP-54, KIP-341) |
| `cooperative-sticky` | like `sticky`, in two rounds: first, members give up partitions that move (KIP-429, KIP-792) |

These assignors sort the members: first static members (KIP-345) by instance ID, then all others by member ID.
The function `assign` needs no broker, so tests can predict an assignment. To use your own `Assignor`, add it to a
consumer's `partition_assignment_strategy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from klamm import _klamm
from klamm.arguments import (
    INT32,
    checked_partitions,
    integer,
    items_of,
    list_of,
    list_of_str,
    optional_integer,
    optional_string,
    string,
)
from klamm.errors import ArgumentError, ConfigError
from klamm.record import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import Buffer

__all__ = ["Assignor", "Member", "assign", "user_data"]


@dataclass(frozen=True)
class Member:
    """A member of a group, as an assignor sees it.

    Args:
        id: ID of the member.
        topics: Topics that the member subscribes to.
        owned: Partitions that the member had before the rebalance.
        generation: Generation of the group in which the member got the `owned` partitions.
        instance_id: Instance ID of a static member (KIP-345).
        rack: Rack of the member.
        user_data: User data of the member's subscription. The default is `user_data(name, owned, generation)`.
    """

    id: str
    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int | None = None
    instance_id: str | None = None
    rack: str | None = None
    user_data: Buffer | None = None


class Assignor:
    """Base class for your own assignors. All members of the group must have the same assignor.

    The membership of the group leader ends with an error if `assign` raises, assigns a partition twice, or assigns a
    partition that does not exist.

    Example:
        class FirstTakesAll(klamm.assignors.Assignor):
            name = "first-takes-all"

            def assign(self, topics, members):
                numbered = [klamm.TopicPartition(topic, n) for topic, racks in topics.items() for n in range(len(racks))]
                return {members[0].id: numbered}

        consumer = klamm.Consumer(servers, group_id="g", partition_assignment_strategy=[FirstTakesAll()])
    """

    name: str
    """Name of the assignor. A group can use the assignor if all members have an assignor with this name."""
    cooperative: bool = False
    """Whether members keep their partitions during a rebalance until an assignment revokes partitions (KIP-429)."""
    user_data: bytes | None = None
    """Data that the consumer sends to the group leader, as a part of its subscription."""

    def assign(
        self, topics: Mapping[str, list[list[str]]], members: list[Member]
    ) -> Mapping[str, Iterable[TopicPartition]]:
        """Assign the partitions to the members. A thread of the group leader's client calls `assign`.

        Args:
            topics: Dict from topic name to the topic's partitions, in order. Each partition is a list of the racks of
                its replicas.
            members: The members of the group.

        Returns:
            A dict from member ID to the partitions of the member. A member that is not in the dict gets no partition.
        """
        raise NotImplementedError


def _ask(
    assignor: Assignor, topics: dict[str, list[list[str]]], members: list[Member]
) -> dict[str, list[tuple[str, int]]]:
    """Call an assignor, and check the partitions that it returns. The core calls this function."""
    made = {
        member: checked_partitions(owned) for member, owned in items_of("assignments", assignor.assign(topics, members))
    }
    return {member.id: [] for member in members} | made


def assign(
    name: str,
    topics: Mapping[str, Sequence[Sequence[int]]],
    members: Iterable[Member],
    nodes: Mapping[int, str | None] | None = None,
) -> dict[str, list[TopicPartition]]:
    """Compute an assignment with one of Kafka's assignors.

    Args:
        name: `range`, `roundrobin`, `sticky` or `cooperative-sticky`.
        topics: Dict from topic name to the topic's partitions, in order. Each partition is a list of the broker IDs of
            its replicas. Members get partitions of only these topics.
        members: The members of the group.
        nodes: Rack of each broker, by broker ID.

    Returns:
        A dict from member ID to the partitions of the member, in order.

    Raises:
        ConfigError: Two members have the same ID, or klamm has no assignor with this name.
        ArgumentError: An argument has the wrong type.
    """
    racks = {
        node: string(f"the rack of node {node}", rack)
        for node, rack in items_of("nodes", nodes or {})
        if rack is not None
    }
    checked = [_checked(member) for member in list_of("members", members)]
    if len({member.id for member in checked}) < len(checked):
        raise ConfigError("two members have the same id")
    known = []
    for topic, partitions in items_of("topics", topics):
        numbered = enumerate(list_of(f"the partitions of {topic}", partitions))
        kept = [_racks(f"{topic}-{number}", replicas, racks) for number, replicas in numbered]
        known.append((string("a topic", topic), kept))
    assignment = _klamm.assign(string("name", name), known, checked)
    return {member: [TopicPartition(*each) for each in owned] for member, owned in assignment.items()}


def user_data(name: str, owned: Iterable[TopicPartition] = (), generation: int | None = None) -> bytes | None:
    """Return the user data that one of Kafka's assignors adds to a subscription, or None if the assignor adds no data.

    Args:
        name: Name of the assignor.
        owned: Partitions that the member had before the rebalance.
        generation: Generation of the group in which the member got the `owned` partitions.
    """
    generation = optional_integer("generation", generation, -INT32 - 1, INT32)
    return _klamm.user_data(string("name", name), checked_partitions(owned), generation)


def _racks(partition: str, replicas: Sequence[int], racks: dict[int, str]) -> list[str]:
    """Return the racks of a partition's replicas. The list does not contain unknown racks."""
    nodes = [
        integer(f"a node of {partition}", node, 0, INT32) for node in list_of(f"the nodes of {partition}", replicas)
    ]
    return [racks[node] for node in nodes if node in racks]


def _checked(member: Member) -> Member:
    """Check the fields of a member, and return a copy with the checked values."""
    if not isinstance(member, Member):
        raise ArgumentError(f"members have to be a list of Member, and {member!r} is not a Member")
    return Member(
        string("the id of a member", member.id),
        list_of_str(f"the topics of {member.id}", member.topics),
        [TopicPartition(*owned) for owned in checked_partitions(member.owned)],
        optional_integer(f"generation of {member.id}", member.generation, -INT32 - 1, INT32),
        optional_string(f"instance_id of {member.id}", member.instance_id),
        optional_string(f"rack of {member.id}", member.rack),
        member.user_data,
    )
