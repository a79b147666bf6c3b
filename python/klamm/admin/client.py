"""`Admin`, `AsyncAdmin`, and what they return: descriptions of topics, groups, settings and the cluster.

This module checks arguments and names the fields of results. The Rust core finds the right broker for each request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

from klamm.admin.acls import Acls, AsyncAcls
from klamm.admin.calls import Calls
from klamm.arguments import INT16, INT32, checked_partition, checked_partitions, integer, items_of, list_of_str, string
from klamm.errors import ArgumentError, KafkaError
from klamm.record import committable, timed
from klamm.waiting import Asyncio, Blocking, documented_by, run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import TypeAlias

    from klamm.record import OffsetAndMetadata, TopicPartition

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


@dataclass(frozen=True)
class NewTopic:
    """Settings of a topic to create.

    Args:
        partitions: Number of partitions. -1 is the default of the brokers.
        replication_factor: Number of replicas of each partition. -1 is the default of the brokers.
        configs: Topic settings by name, such as `{"retention.ms": "60000"}`.
    """

    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PartitionInfo:
    """A partition and its replicas.

    Attributes:
        leader: Broker ID of the leader, or -1 if there is none.
        replicas: Broker IDs of the replicas.
        isr: Broker IDs of the in-sync replicas.
    """

    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]


@dataclass(frozen=True)
class TopicDescription:
    """A topic and its partitions.

    Attributes:
        name: Name of the topic.
        internal: Whether the topic belongs to Kafka itself, such as `__consumer_offsets`.
        partitions: Partitions, by number.
        topic_id: ID in the form of Kafka's tools. A topic that is deleted and created again has another one. None if the brokers
            are older than Kafka 2.8.
    """

    name: str
    internal: bool
    partitions: list[PartitionInfo]
    topic_id: str | None = None


@dataclass(frozen=True)
class Node:
    """A broker: its ID, host, port and rack."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True)
class ClusterDescription:
    """A cluster.

    Attributes:
        cluster_id: ID of the cluster. None if the brokers are older than Kafka 0.10.1.
        controller: Broker ID of the controller, or -1 if it is unknown.
        brokers: All brokers that are alive.
    """

    cluster_id: str | None
    controller: int
    brokers: list[Node]


@dataclass(frozen=True)
class GroupListing:
    """A group in the list of all groups.

    Attributes:
        protocol_type: `consumer` for consumers. Empty for a group that only stores offsets.
        state: State of the group, such as `Stable`. Empty if the brokers are older than Kafka 2.6.
        type: `classic`, `consumer` (KIP-848), `share` or `streams`. Empty if the brokers are older than Kafka 3.8.
    """

    group: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True)
class GroupMember:
    """A member of a group.

    Attributes:
        instance_id: Instance ID of a static member (KIP-345).
        topic_pattern: Regular expression that the member subscribes to (KIP-848 groups only).
        assigned: Partitions that the member reads. Members of a share group read the same partitions.
        target: Partitions that the member will read once other members have released them (KIP-848 groups only).
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

    Attributes:
        type: `classic`, `consumer` (KIP-848) or `share` (KIP-932).
        protocol_type: `consumer` for consumers. Empty for a group that only stores offsets.
        coordinator: Broker ID of the group coordinator.
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

    @classmethod
    def _missing_(cls, _value: object) -> ConfigSource:
        return cls.UNKNOWN


@dataclass(frozen=True)
class ConfigEntry:
    """A setting of a topic, broker or group.

    Attributes:
        value: Value as a string. None if the value is secret.
        read_only: Whether the setting cannot be changed.
        sensitive: Whether the value is secret.
    """

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool


class _Admin(Calls):
    """The part that both admin clients share."""

    _close_timeout = 0.0

    async def _describe_all_groups(self, groups: Iterable[str], timeout: float | None) -> dict[str, GroupDescription]:
        pending = {group: self._describe_group(group, timeout) for group in list_of_str("groups", groups)}
        return {group: await self._wait(each) for group, each in pending.items()}

    async def _delete_all_groups(self, groups: Iterable[str], timeout: float | None) -> None:
        errors = []
        for each in [self._delete_group(group, timeout) for group in list_of_str("groups", groups)]:
            try:
                await self._wait(each)
            except KafkaError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _end(self, timeout: float | None, processed: bool | None) -> None:  # noqa: ARG002
        self._close()


class Admin(Blocking, _Admin, Acls):
    """Create, change and describe topics, groups and settings of a cluster. Any number of threads can share one client.

    A `timeout` is in seconds. The default is `default_api_timeout_ms`.

    Args:
        bootstrap_servers: Brokers as `"host:port,host:port"` or a list, or a dict of Kafka's dotted keys.
        **config: Kafka's configuration keys in snake_case; see `klamm.config.AdminConfig`.

    Raises:
        ConfigError: A configuration value, or an argument of a method, is invalid.
        ArgumentError: An argument has a wrong type.
        KafkaTimeoutError: Raised by methods if the brokers do not answer in time.
        BrokerError: Raised by methods if a broker refuses a request.

    Example:
        with klamm.Admin("localhost:9092") as admin:
            admin.create_topics({"greetings": klamm.NewTopic(partitions=3)})
    """

    def create_topics(
        self, topics: Mapping[str, NewTopic], timeout: float | None = None, *, validate_only: bool = False
    ) -> None:
        """Create topics.

        Args:
            topics: For each name, a NewTopic.
            timeout: Seconds to wait.
            validate_only: Only check whether the topics can be created.

        Raises:
            TopicAlreadyExistsError: A topic with this name exists.
            InvalidConfigError: A topic setting is invalid.
        """
        self._create_topics(_new_topics(topics), validate_only, timeout).result()

    def delete_topics(self, topics: Iterable[str], timeout: float | None = None) -> None:
        """Delete topics and all their records.

        Raises:
            UnknownTopicOrPartitionError: A topic does not exist.
        """
        self._delete_topics(list_of_str("topics", topics), timeout).result()

    def create_partitions(
        self, counts: Mapping[str, int], timeout: float | None = None, *, validate_only: bool = False
    ) -> None:
        """Add partitions to topics. Records with the same key can go to another partition afterwards.

        Args:
            counts: For each topic, the new total number of partitions.
            timeout: Seconds to wait.
            validate_only: Only check whether the partitions can be added.

        Raises:
            InvalidPartitionsError: A topic already has that many partitions.
        """
        self._create_partitions(_counts(counts), validate_only, timeout).result()

    def offsets_before(
        self, times: Mapping[TopicPartition, int | datetime], limit: int = 100, timeout: float | None = None
    ) -> dict[TopicPartition, list[int]]:
        """Return the first offsets of log segments that contain older records, and the end of the log, newest first.

        Brokers before Kafka 0.10.1 know only the times of segment files (ListOffsets v0). From 0.10.1 on,
        `Consumer.offsets_for_times` is exact.

        Args:
            times: For each partition, a time in milliseconds since 1970, or a datetime. -1 is now, and -2 is the start of the log.
            limit: Maximum number of offsets for each partition.
            timeout: Seconds to wait.

        Raises:
            UnsupportedVersionError: The brokers are Kafka 4.0 or later.
        """
        return dict(zip(times, self._offsets_before(timed(times, least=-2), limit, timeout).result(), strict=True))

    def delete_records(
        self, before: Mapping[TopicPartition, int | None], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the oldest records of partitions.

        Args:
            before: For each partition, the first offset to keep. None deletes all records.
            timeout: Seconds to wait.

        Returns:
            For each partition, the offset of its first record.

        Raises:
            OffsetOutOfRangeError: An offset is after the end of its partition.
        """
        return dict(zip(before, self._delete_records(_before(before), timeout).result(), strict=True))

    def describe_configs(self, kind: ConfigKind, name: str, timeout: float | None = None) -> dict[str, ConfigEntry]:
        """Return all settings of a topic, broker or group.

        Args:
            kind: Type of the resource.
            name: Name of the topic or group, or the broker ID as a string.
            timeout: Seconds to wait.

        Returns:
            For each name of a setting, its value and source.
        """
        return self._describe_configs(kind, name, timeout).result()

    def alter_configs(
        self,
        kind: ConfigKind,
        name: str,
        changes: Mapping[str, str | bool | float | None],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Change settings of a topic, broker or group. Other settings keep their values (KIP-339).

        Args:
            kind: Type of the resource.
            name: Name of the topic or group, or the broker ID as a string.
            changes: For each setting, the new value, or None to reset it to its default.
            timeout: Seconds to wait.
            validate_only: Only check whether the settings can be changed.

        Raises:
            InvalidConfigError: A setting does not exist, or its value is invalid.
        """
        self._alter_configs(kind, name, _changes(changes), validate_only, timeout).result()

    def list_topics(self, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Return the names of all topics, sorted. `internal` includes Kafka's own topics."""
        return self._list_topics(internal, timeout).result()

    def describe_topics(self, topics: Iterable[str], timeout: float | None = None) -> dict[str, TopicDescription]:
        """Return descriptions of topics.

        Raises:
            UnknownTopicOrPartitionError: A topic does not exist.
        """
        return self._describe_topics(list_of_str("topics", topics), timeout).result()

    def describe_cluster(self, timeout: float | None = None) -> ClusterDescription:
        """Return the cluster ID, the controller and the brokers."""
        return self._describe_cluster(timeout).result()

    def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> list[GroupListing]:
        """Return all groups, or those with certain states or types.

        Args:
            states: States such as `Stable` or `Empty`. The default is all.
            types: Types such as `classic` or `consumer`. The default is all.
            timeout: Seconds to wait.
        """
        return self._list_groups(*_filters(states, types), timeout).result()

    def describe_groups(self, groups: Iterable[str], timeout: float | None = None) -> dict[str, GroupDescription]:
        """Return descriptions of groups of any type except streams.

        Raises:
            GroupIdNotFoundError: A group does not exist.
        """
        return run(self._describe_all_groups(groups, timeout))

    def delete_groups(self, groups: Iterable[str], timeout: float | None = None) -> None:
        """Delete groups and their committed offsets. The groups must not have members.

        If some groups cannot be deleted, the others are, and the first error is raised.

        Raises:
            NonEmptyGroupError: A group has members.
            GroupIdNotFoundError: A group does not exist.
        """
        run(self._delete_all_groups(groups, timeout))

    def group_offsets(self, group: str, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return the offset that a group has committed for each partition: the offset of the next record to read."""
        return self._group_offsets(group, timeout).result()

    def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], timeout: float | None = None
    ) -> None:
        """Set committed offsets of a group without members. A group that does not exist is created.

        Args:
            group: Name of the group.
            offsets: For each partition, the offset of the next record to read.
            timeout: Seconds to wait.

        Raises:
            UnknownMemberIdError: The group has members.
        """
        self._alter_group_offsets(group, committable(offsets), timeout).result()

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> None:
        """Delete committed offsets of a group. No member may subscribe to the topics of the partitions.

        Raises:
            GroupSubscribedToTopicError: A member subscribes to one of the topics.
        """
        self._delete_group_offsets(group, checked_partitions(partitions), timeout).result()

    def group_lag(self, group: str, timeout: float | None = None) -> dict[TopicPartition, int | None]:
        """Return the number of records that a group has not read yet, for each partition with a committed offset.

        The number is None if the partition does not exist any more, or has no leader that knows its end.
        """
        return self._group_lag(group, timeout).result()

    def close(self) -> None:
        """Close the client. Closing a closed client does nothing."""
        self._close()


@documented_by(Admin)
class AsyncAdmin(Asyncio, _Admin, AsyncAcls):
    """Create, change and describe topics, groups and settings on an asyncio event loop. It has the methods of `Admin`.

    Example:
        async with klamm.AsyncAdmin("localhost:9092") as admin:
            await admin.create_topics({"greetings": klamm.NewTopic(partitions=3)})
    """

    async def create_topics(
        self, topics: Mapping[str, NewTopic], timeout: float | None = None, *, validate_only: bool = False
    ) -> None:
        await self._create_topics(_new_topics(topics), validate_only, timeout)

    async def delete_topics(self, topics: Iterable[str], timeout: float | None = None) -> None:
        await self._delete_topics(list_of_str("topics", topics), timeout)

    async def create_partitions(
        self, counts: Mapping[str, int], timeout: float | None = None, *, validate_only: bool = False
    ) -> None:
        await self._create_partitions(_counts(counts), validate_only, timeout)

    async def offsets_before(
        self, times: Mapping[TopicPartition, int | datetime], limit: int = 100, timeout: float | None = None
    ) -> dict[TopicPartition, list[int]]:
        return dict(zip(times, await self._offsets_before(timed(times, least=-2), limit, timeout), strict=True))

    async def delete_records(
        self, before: Mapping[TopicPartition, int | None], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return dict(zip(before, await self._delete_records(_before(before), timeout), strict=True))

    async def describe_configs(
        self, kind: ConfigKind, name: str, timeout: float | None = None
    ) -> dict[str, ConfigEntry]:
        return await self._describe_configs(kind, name, timeout)

    async def alter_configs(
        self,
        kind: ConfigKind,
        name: str,
        changes: Mapping[str, str | bool | float | None],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        await self._alter_configs(kind, name, _changes(changes), validate_only, timeout)

    async def list_topics(self, internal: bool = False, timeout: float | None = None) -> list[str]:
        return await self._list_topics(internal, timeout)

    async def describe_topics(self, topics: Iterable[str], timeout: float | None = None) -> dict[str, TopicDescription]:
        return await self._describe_topics(list_of_str("topics", topics), timeout)

    async def describe_cluster(self, timeout: float | None = None) -> ClusterDescription:
        return await self._describe_cluster(timeout)

    async def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> list[GroupListing]:
        return await self._list_groups(*_filters(states, types), timeout)

    async def describe_groups(self, groups: Iterable[str], timeout: float | None = None) -> dict[str, GroupDescription]:
        return await self._describe_all_groups(groups, timeout)

    async def delete_groups(self, groups: Iterable[str], timeout: float | None = None) -> None:
        await self._delete_all_groups(groups, timeout)

    async def group_offsets(self, group: str, timeout: float | None = None) -> dict[TopicPartition, int]:
        return await self._group_offsets(group, timeout)

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], timeout: float | None = None
    ) -> None:
        await self._alter_group_offsets(group, committable(offsets), timeout)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> None:
        await self._delete_group_offsets(group, checked_partitions(partitions), timeout)

    async def group_lag(self, group: str, timeout: float | None = None) -> dict[TopicPartition, int | None]:
        return await self._group_lag(group, timeout)

    async def close(self) -> None:
        self._close()


def _new_topics(topics: Mapping[str, NewTopic]) -> list[tuple[str, int, int, list[tuple[str, str]]]]:
    if not hasattr(topics, "items") or not all(isinstance(topic, NewTopic) for topic in topics.values()):
        raise ArgumentError(
            f"topics have to be a dict with a NewTopic for each name, not {topics!r}",
            hint='pass {"events": NewTopic()}',
        )
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


def _changes(changes: Mapping[str, str | bool | float | None]) -> list[tuple[str, str | None]]:
    def as_string(value: str | bool | float | None) -> str | None:
        if value is not None and not isinstance(value, (str, int, float)):
            raise ArgumentError(f"a setting has to be a str, a number, a bool or None, not {type(value).__name__}")
        return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)

    return [(string("the name of a setting", name), as_string(value)) for name, value in items_of("settings", changes)]


def _filters(states: Iterable[str], types: Iterable[str]) -> tuple[list[str], list[str]]:
    return list_of_str("states", states), list_of_str("types", types)
