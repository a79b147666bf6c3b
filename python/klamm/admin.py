"""The admin clients: topics and the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from klamm._klamm import AdminCore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import TypeAlias

    from typing_extensions import Self

__all__ = [
    "Admin",
    "AsyncAdmin",
    "ClusterDescription",
    "NewTopic",
    "Node",
    "PartitionInfo",
    "TopicDescription",
]

ClusterTuple: TypeAlias = (
    "tuple[str | None, int, list[tuple[int, str, int, str | None]], "
    "list[tuple[str, bool, list[tuple[int, list[int], list[int]]]]]]"
)
"""What the core says of a cluster: its id, its controller, its brokers, its topics."""


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


class Admin(AdminCore):
    """Creates, deletes and describes topics, and describes the cluster.

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
        self._delete_topics(list(topics), timeout).result()

    def list_topics(self, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Return the names of all topics, in order; those of the brokers' own only if asked for."""
        return _names(self._describe(None, timeout).result(), internal)

    def describe_topics(self, topics: Iterable[str], timeout: float | None = None) -> dict[str, TopicDescription]:
        """Describe topics, all of which have to exist."""
        topics = list(topics)
        return _topics(topics, self._describe(topics, timeout).result())

    def describe_cluster(self, timeout: float | None = None) -> ClusterDescription:
        """Describe the cluster."""
        return _cluster(self._describe([], timeout).result())

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
        await self._delete_topics(list(topics), timeout)

    async def list_topics(self, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Return the names of all topics, in order; those of the brokers' own only if asked for."""
        return _names(await self._describe(None, timeout), internal)

    async def describe_topics(self, topics: Iterable[str], timeout: float | None = None) -> dict[str, TopicDescription]:
        """Describe topics, all of which have to exist."""
        topics = list(topics)
        return _topics(topics, await self._describe(topics, timeout))

    async def describe_cluster(self, timeout: float | None = None) -> ClusterDescription:
        """Describe the cluster."""
        return _cluster(await self._describe([], timeout))

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
    return [(name, t.partitions, t.replication_factor, list(t.configs.items())) for name, t in topics.items()]


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
