"""The admin clients: topics, groups and the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

from klamm._klamm import AdminCore
from klamm.arguments import INT16, INT32, checked_partition, checked_partitions, integer, items_of, list_of_str, string
from klamm.errors import ArgumentError, KafkaError
from klamm.record import TopicPartition, committable, timed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import TypeAlias

    from typing_extensions import Self

    from klamm.record import OffsetAndMetadata

__all__ = [
    "Admin",
    "AsyncAdmin",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigSource",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "NewTopic",
    "Node",
    "PartitionInfo",
    "TopicDescription",
]

ConfigKind: TypeAlias = Literal["topic", "broker", "broker-logger", "client-metrics", "group"]

ClusterTuple: TypeAlias = (
    "tuple[str | None, int, list[tuple[int, str, int, str | None]], "
    "list[tuple[str, bool, list[tuple[int, list[int], list[int]]]]]]"
)
"""What the core says of a cluster: its id, its controller, its brokers, its topics."""

PlaceTuple: TypeAlias = "tuple[str, int]"

MemberTuple: TypeAlias = (
    "tuple[str, str | None, str, str, str | None, list[str], str | None, list[PlaceTuple], list[PlaceTuple] | None]"
)

GroupTuple: TypeAlias = "tuple[str, str, str, str, str, int, list[MemberTuple]]"
"""What the core says of a group: the fields of `GroupDescription`, in order."""


@dataclass(frozen=True)
class NewTopic:
    """How to create a topic; -1 leaves a number to the brokers' own default."""

    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PartitionInfo:
    """A partition: the ids of the brokers that lead it (-1: none), keep it, and are in sync."""

    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]


@dataclass(frozen=True)
class TopicDescription:
    """A topic and its partitions."""

    name: str
    internal: bool
    partitions: list[PartitionInfo]


@dataclass(frozen=True)
class Node:
    """A broker."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True)
class ClusterDescription:
    """A cluster: its id, the id of its controller (-1: unknown), its brokers."""

    cluster_id: str | None
    controller: int
    brokers: list[Node]


@dataclass(frozen=True)
class GroupListing:
    """A group in a list. State and type are empty where brokers are too old to say (Kafka 2.6 and 3.8).

    `protocol_type` is `consumer` for consumers, and empty for a group that only keeps offsets; `type` is `classic`,
    `consumer` (KIP-848), `share` or `streams`.
    """

    group: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True)
class GroupMember:
    """A member of a group: who and where it is, the topics it subscribes to, the partitions it reads.

    `instance_id` is that of a static member. Of a group of KIP-848 there are `topic_pattern`, and `target`: what the member
    will read when the others have let go. Members of a share group read the same partitions together.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    topics: list[str]
    topic_pattern: str | None
    assigned: list[TopicPartition]
    target: list[TopicPartition] | None


@dataclass(frozen=True)
class GroupDescription:
    """A group and its members.

    `type` is `classic`, `consumer` (KIP-848) or `share` (KIP-932), `coordinator` the id of a broker.
    """

    group: str
    type: str
    protocol_type: str
    state: str
    assignor: str
    coordinator: int
    members: list[GroupMember]


class ConfigSource(IntEnum):
    """Where the value of a setting comes from."""

    UNKNOWN = -1
    TOPIC = 1
    BROKER_DYNAMIC = 2
    BROKERS_DYNAMIC = 3
    BROKER_FILE = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True)
class ConfigEntry:
    """A setting; the value is None if it is secret."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool


class Admin(AdminCore):
    """Looks after topics and groups, and describes the cluster.

        with klamm.Admin("localhost:9092") as admin:
            admin.create_topics({"greetings": klamm.NewTopic(partitions=3)})

    The first argument says where the brokers are, or is a dict of Kafka's dotted keys; keywords are the same keys in
    snake_case (`klamm.config.AdminConfig`). A timeout is in seconds; None is `default_api_timeout_ms`.
    """

    def create_topics(
        self, topics: Mapping[str, NewTopic], timeout: float | None = None, *, validate_only: bool = False
    ) -> None:
        """Create topics, or only check that they could be."""
        self._create_topics(_plain(topics), validate_only, timeout).result()

    def delete_topics(self, topics: Iterable[str], timeout: float | None = None) -> None:
        """Delete topics and all their records."""
        self._delete_topics(list_of_str("topics", topics), timeout).result()

    def create_partitions(
        self, counts: Mapping[str, int], timeout: float | None = None, *, validate_only: bool = False
    ) -> None:
        """Give topics so many partitions, old and new; a key's partition changes with their number."""
        self._create_partitions(_counts(counts), validate_only, timeout).result()

    def offsets_before(
        self, times: Mapping[TopicPartition, int], limit: int = 100, timeout: float | None = None
    ) -> dict[TopicPartition, list[int]]:
        """Return where segments begin that have something from before a time (ms), and where the log ends; the newest first.

        It is what brokers before 0.10.1 know of times (ListOffsets v0): their segments' files alone have any. -1 stands for
        now and -2 for the start of the log; at most `limit` offsets of each partition are given. Brokers from 4.0 on answer
        it no more, `UnsupportedVersionError`; `Consumer.offsets_for_times` is exact from 0.10.1 on.
        """
        return dict(zip(times, self._offsets_before(timed(times), limit, timeout).result(), strict=True))

    def delete_records(
        self, before: Mapping[TopicPartition, int | None], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete records before an offset of each partition, with None all there are; return where they start then."""
        return dict(zip(before, self._delete_records(_before(before), timeout).result(), strict=True))

    def describe_configs(self, kind: ConfigKind, name: str, timeout: float | None = None) -> dict[str, ConfigEntry]:
        """Return all settings of a topic, a broker (its id) or a group, by name."""
        return _entries(self._describe_configs(kind, name, timeout).result())

    def alter_configs(
        self,
        kind: ConfigKind,
        name: str,
        changes: Mapping[str, str | bool | float | None],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Give settings of a topic, a broker or a group values, or with None their defaults; others stay (KIP-339)."""
        self._alter_configs(kind, name, _changes(changes), validate_only, timeout).result()

    def list_topics(self, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Return the names of all topics, in order; those of the brokers' own only if asked for."""
        return _names(self._describe(None, timeout).result(), internal)

    def describe_topics(self, topics: Iterable[str], timeout: float | None = None) -> dict[str, TopicDescription]:
        """Describe topics, all of which have to exist."""
        topics = list_of_str("topics", topics)
        return _topics(topics, self._describe(topics, timeout).result())

    def describe_cluster(self, timeout: float | None = None) -> ClusterDescription:
        """Describe the cluster."""
        return _cluster(self._describe([], timeout).result())

    def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> list[GroupListing]:
        """Return all groups, or those in one of some states (`Stable`, `Empty`) or of one of some types (`classic`)."""
        found = self._list_groups(list_of_str("states", states), list_of_str("types", types), timeout).result()
        return [GroupListing(*group) for group in found]

    def describe_groups(self, groups: Iterable[str], timeout: float | None = None) -> dict[str, GroupDescription]:
        """Describe groups, all of which have to exist, of any type but streams."""
        pending = {group: self._describe_group(group, timeout) for group in list_of_str("groups", groups)}
        return {group: _group(each.result()) for group, each in pending.items()}

    def delete_groups(self, groups: Iterable[str], timeout: float | None = None) -> None:
        """Delete groups and all they committed. They must have no members.

        Each is deleted that can be; the error is that of the first which cannot.
        """
        pending = [self._delete_group(group, timeout) for group in list_of_str("groups", groups)]
        for each in pending:
            each.exception()
        for each in pending:
            each.result()

    def group_offsets(self, group: str, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return all offsets a group committed: of the next record to read."""
        return {TopicPartition(*place): offset for place, offset in self._group_offsets(group, timeout).result()}

    def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], timeout: float | None = None
    ) -> None:
        """Set offsets of a group, which is made if there is none. It must have no members."""
        self._alter_group_offsets(group, committable(offsets), timeout).result()

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> None:
        """Forget what a group committed of partitions. No member may subscribe to their topics."""
        self._delete_group_offsets(group, checked_partitions(partitions), timeout).result()

    def group_lag(self, group: str, timeout: float | None = None) -> dict[TopicPartition, int | None]:
        """Return how many records a group has yet to read, where it committed an offset.

        None is for a partition that is gone, or that has no leader now who could say where it ends.
        """
        return {TopicPartition(*place): lag for place, lag in self._group_lag(group, timeout).result()}

    def close(self) -> None:
        """End the client. Closing twice does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncAdmin(AdminCore):
    """The methods of `Admin` on an asyncio event loop."""

    async def create_topics(
        self, topics: Mapping[str, NewTopic], timeout: float | None = None, *, validate_only: bool = False
    ) -> None:
        """Create topics, or only check that they could be."""
        await self._create_topics(_plain(topics), validate_only, timeout)

    async def delete_topics(self, topics: Iterable[str], timeout: float | None = None) -> None:
        """Delete topics and all their records."""
        await self._delete_topics(list_of_str("topics", topics), timeout)

    async def create_partitions(
        self, counts: Mapping[str, int], timeout: float | None = None, *, validate_only: bool = False
    ) -> None:
        """Give topics so many partitions, old and new; a key's partition changes with their number."""
        await self._create_partitions(_counts(counts), validate_only, timeout)

    async def offsets_before(
        self, times: Mapping[TopicPartition, int], limit: int = 100, timeout: float | None = None
    ) -> dict[TopicPartition, list[int]]:
        """Return where segments begin that have something from before a time (ms), as `Admin.offsets_before`."""
        return dict(zip(times, await self._offsets_before(timed(times), limit, timeout), strict=True))

    async def delete_records(
        self, before: Mapping[TopicPartition, int | None], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete records before an offset of each partition, with None all there are; return where they start then."""
        return dict(zip(before, await self._delete_records(_before(before), timeout), strict=True))

    async def describe_configs(
        self, kind: ConfigKind, name: str, timeout: float | None = None
    ) -> dict[str, ConfigEntry]:
        """Return all settings of a topic, a broker (its id) or a group, by name."""
        return _entries(await self._describe_configs(kind, name, timeout))

    async def alter_configs(
        self,
        kind: ConfigKind,
        name: str,
        changes: Mapping[str, str | bool | float | None],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Give settings of a topic, a broker or a group values, or with None their defaults; others stay (KIP-339)."""
        await self._alter_configs(kind, name, _changes(changes), validate_only, timeout)

    async def list_topics(self, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Return the names of all topics, in order; those of the brokers' own only if asked for."""
        return _names(await self._describe(None, timeout), internal)

    async def describe_topics(self, topics: Iterable[str], timeout: float | None = None) -> dict[str, TopicDescription]:
        """Describe topics, all of which have to exist."""
        topics = list_of_str("topics", topics)
        return _topics(topics, await self._describe(topics, timeout))

    async def describe_cluster(self, timeout: float | None = None) -> ClusterDescription:
        """Describe the cluster."""
        return _cluster(await self._describe([], timeout))

    async def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> list[GroupListing]:
        """Return all groups, or those in one of some states (`Stable`, `Empty`) or of one of some types (`classic`)."""
        found = await self._list_groups(list_of_str("states", states), list_of_str("types", types), timeout)
        return [GroupListing(*group) for group in found]

    async def describe_groups(self, groups: Iterable[str], timeout: float | None = None) -> dict[str, GroupDescription]:
        """Describe groups, all of which have to exist, of any type but streams."""
        pending = {group: self._describe_group(group, timeout) for group in list_of_str("groups", groups)}
        return {group: _group(await each) for group, each in pending.items()}

    async def delete_groups(self, groups: Iterable[str], timeout: float | None = None) -> None:
        """Delete groups and all they committed, as `Admin.delete_groups`."""
        pending = [self._delete_group(group, timeout) for group in list_of_str("groups", groups)]
        errors = []
        for each in pending:
            try:
                await each
            except KafkaError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def group_offsets(self, group: str, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return all offsets a group committed: of the next record to read."""
        return {TopicPartition(*place): offset for place, offset in await self._group_offsets(group, timeout)}

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], timeout: float | None = None
    ) -> None:
        """Set offsets of a group, which is made if there is none. It must have no members."""
        await self._alter_group_offsets(group, committable(offsets), timeout)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> None:
        """Forget what a group committed of partitions. No member may subscribe to their topics."""
        await self._delete_group_offsets(group, checked_partitions(partitions), timeout)

    async def group_lag(self, group: str, timeout: float | None = None) -> dict[TopicPartition, int | None]:
        """Return how many records a group has yet to read, where it committed an offset.

        None is for a partition that is gone, or that has no leader now who could say where it ends.
        """
        return {TopicPartition(*place): lag for place, lag in await self._group_lag(group, timeout)}

    async def close(self) -> None:
        """End the client. Closing twice does nothing."""
        self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _plain(topics: Mapping[str, NewTopic]) -> list[tuple[str, int, int, list[tuple[str, str]]]]:
    if not hasattr(topics, "items") or not all(isinstance(topic, NewTopic) for topic in topics.values()):
        raise ArgumentError(f"a NewTopic for each name is needed, not {topics!r}", hint='write {"events": NewTopic()}')
    return [
        (string("the name of a topic", name), *_numbers(name, t), _settings(t.configs)) for name, t in topics.items()
    ]


def _numbers(name: str, topic: NewTopic) -> tuple[int, int]:
    partitions = integer(f"the number of partitions of {name}", topic.partitions, -1, INT32)
    return partitions, integer(f"the replication factor of {name}", topic.replication_factor, -1, INT16)


def _settings(configs: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in _changes(configs) if value is not None]


def _counts(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return [
        (string("the name of a topic", name), integer(f"the number of partitions of {name}", count, -1, INT32))
        for name, count in items_of("counts", counts)
    ]


def _before(offsets: Mapping[TopicPartition, int | None]) -> list[tuple[str, int, int]]:
    return [
        (*checked_partition(tp), -1 if offset is None else integer("an offset", offset, -1))
        for tp, offset in items_of("before", offsets)
    ]


def _entries(found: list[tuple[str, str | None, int, bool, bool]]) -> dict[str, ConfigEntry]:
    known = {source.value for source in ConfigSource}
    return {
        name: ConfigEntry(name, value, ConfigSource(source if source in known else -1), read_only, sensitive)
        for name, value, source, read_only, sensitive in found
    }


def _changes(changes: Mapping[str, str | bool | float | None]) -> list[tuple[str, str | None]]:
    def said(value: str | bool | float | None) -> str | None:
        if value is not None and not isinstance(value, (str, int, float)):
            raise ArgumentError(f"a setting has to be a str, a number, a bool or None, not {type(value).__name__}")
        return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)

    return [(string("the name of a setting", name), said(value)) for name, value in items_of("settings", changes)]


def _names(answer: ClusterTuple, internal: bool) -> list[str]:
    return sorted(name for name, is_internal, _ in answer[3] if internal or not is_internal)


def _topics(asked: list[str], answer: ClusterTuple) -> dict[str, TopicDescription]:
    found = {
        name: TopicDescription(name, internal, [PartitionInfo(n, *parts) for n, parts in enumerate(partitions)])
        for name, internal, partitions in answer[3]
    }
    return {name: found[name] for name in asked}


def _cluster(answer: ClusterTuple) -> ClusterDescription:
    return ClusterDescription(answer[0], answer[1], [Node(*broker) for broker in answer[2]])


def _group(answer: GroupTuple) -> GroupDescription:
    return GroupDescription(*answer[:6], [_member(member) for member in answer[6]])


def _member(member: MemberTuple) -> GroupMember:
    assigned, target = member[7:]
    will = None if target is None else [TopicPartition(*place) for place in target]
    return GroupMember(*member[:7], [TopicPartition(*place) for place in assigned], will)
