"""Assignors: which member of a group reads which partition, as the leader of a classic group computes it.

    klamm.assignors.assign(
        "range",
        topics={"logs": [[0, 1], [1, 2], [2, 0]]},  # of each partition the nodes that keep it
        members=[klamm.assignors.Member("a", ["logs"]), klamm.assignors.Member("b", ["logs"])],
    )

| name | what it does |
| --- | --- |
| `range` | cuts each topic into ranges, so that topics with equally many partitions are cut alike; the own rack first (KIP-881) |
| `roundrobin` | deals all partitions out, one each in turn |
| `sticky` | balances, and moves as little as that needs (KIP-54, KIP-341) |
| `cooperative-sticky` | the same in two rounds: in the first, what has to move is given to nobody (KIP-429, KIP-792) |

Static members (KIP-345) come first, by instance id. `assign` needs no broker: it is for tests of what a group would do. An
`Assignor` of one's own goes into a consumer's `partition_assignment_strategy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    """A member: its id, the topics it wants, and what it had before.

    `generation` is the one in which it was given `owned`. `user_data` is what it says of that in its subscription; without,
    it is what `user_data` makes of the two.
    """

    id: str
    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int | None = None
    instance_id: str | None = None
    rack: str | None = None
    user_data: Buffer | None = None


class Assignor:
    """An assignor of one's own, for all members of a group: `partition_assignment_strategy=[MyAssignor()]`.

    The group's leader calls `assign`, on a thread of the client's. What it raises, or a partition that is given twice or
    does not exist, ends the leader's membership with an error.
    """

    name: str
    """What the members of the group agree on."""
    cooperative: bool = False
    """Whether members keep what they have until an assignment gives it to nobody or them (KIP-429)."""
    user_data: bytes | None = None
    """What this member tells the leader besides its subscription."""

    def assign(
        self, topics: Mapping[str, list[list[str]]], members: list[Member]
    ) -> Mapping[str, Iterable[TopicPartition]]:
        """Return the partitions of each member's id. `topics` has of each partition the racks that keep it."""
        raise NotImplementedError


def _ask(assignor: Assignor, topics: dict[str, list[list[str]]], told: list[Any]) -> dict[str, list[tuple[str, int]]]:
    """Ask an assignor in terms of this module."""
    members = [
        Member(id, topics, [TopicPartition(*place) for place in owned], generation, instance_id, rack, user_data)
        for id, instance_id, rack, topics, owned, generation, user_data in told  # noqa: A001
    ]
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
    """Return the partitions of each member, in order.

    `topics` has the ids of the nodes that keep each partition, and `nodes` the racks of those nodes. Topics that are not in
    `topics` are nobody's.
    """
    racks = {
        node: string(f"the rack of node {node}", rack)
        for node, rack in items_of("nodes", nodes or {})
        if rack is not None
    }
    plain = [_told(member) for member in list_of("members", members)]
    if len({told[0] for told in plain}) < len(plain):
        raise ConfigError("two members have the same id")
    known = []
    for topic, partitions in items_of("topics", topics):
        numbered = enumerate(list_of(f"the partitions of {topic}", partitions))
        kept = [_racks(f"{topic}-{number}", replicas, racks) for number, replicas in numbered]
        known.append((string("a topic", topic), kept))
    assignment = _klamm.assign(string("name", name), known, plain)
    return {member: [TopicPartition(*place) for place in owned] for member, owned in assignment.items()}


def user_data(name: str, owned: Iterable[TopicPartition] = (), generation: int | None = None) -> bytes | None:
    """Return what a member says in its subscription of the partitions it had; None if it has nothing to say."""
    generation = optional_integer("generation", generation, -INT32 - 1, INT32)
    return _klamm.user_data(string("name", name), checked_partitions(owned), generation)


def _racks(partition: str, replicas: Sequence[int], racks: dict[int, str]) -> list[str]:
    """Return the racks of the nodes that keep a partition."""
    nodes = [
        integer(f"a node of {partition}", node, 0, INT32) for node in list_of(f"the nodes of {partition}", replicas)
    ]
    return [racks[node] for node in nodes if node in racks]


def _told(member: Member) -> tuple[Any, ...]:
    """Return a member in plain objects."""
    if not isinstance(member, Member):
        raise ArgumentError(f"members have to be a list of Member, and {member!r} is none")
    return (
        string("the id of a member", member.id),
        optional_string(f"instance_id of {member.id}", member.instance_id),
        optional_string(f"rack of {member.id}", member.rack),
        list_of_str(f"the topics of {member.id}", member.topics),
        checked_partitions(member.owned),
        optional_integer(f"generation of {member.id}", member.generation, -INT32 - 1, INT32),
        member.user_data,
    )
