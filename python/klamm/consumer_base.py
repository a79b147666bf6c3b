"""The base class of `Consumer` and `AsyncConsumer`: the constructor, and methods that are the same in both classes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from klamm._klamm import ConsumerCore
from klamm.arguments import boolean, checked_partition, checked_partitions, list_of, optional_integer
from klamm.errors import ArgumentError, ConfigError
from klamm.hooks import K_co, V_co, deserializers, hooked
from klamm.interceptors import OF_CONSUMER, Interceptors, with_error_callback
from klamm.rebalance import partitions
from klamm.record import TopicPartition, committable
from klamm.statistics import pop_statistics_options
from klamm.transaction import group_metadata
from klamm.waiting import Waiting, error_in_flight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from typing_extensions import Self, Unpack

    from klamm._klamm import Deserializers
    from klamm.config import Bootstrap, ConsumerConfig
    from klamm.interceptors import ConsumerInterceptor
    from klamm.metrics import ConsumerMetrics
    from klamm.rebalance import RebalanceListener
    from klamm.record import OffsetAndMetadata, OffsetToCommit
    from klamm.transaction import GroupMetadata

END, BEGINNING = -1, -2
"""Special timestamps of Kafka's ListOffsets request, which select the end or the beginning of a partition."""


class _Consumer(Waiting, ConsumerCore[K_co, V_co]):
    """The base class of `Consumer` and `AsyncConsumer`."""

    _is_async = False
    _deserializers: Deserializers
    _error_at_poll: BaseException | None = None
    """The exception that the program was handling when it last called `poll`."""

    def __new__(
        cls,
        bootstrap_servers: Bootstrap | None = None,
        group_id: str | None = None,
        topics: Sequence[str] | str | None = None,
        *,
        key_deserializer: Callable[[bytes], K_co] | None = None,
        value_deserializer: Callable[[bytes], V_co] | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        on_error: Callable[[Exception], object] | None = None,
        stats_cb: Callable[[str], object] | None = None,
        **config: Unpack[ConsumerConfig],
    ) -> Self:
        bootstrap_servers, stats = pop_statistics_options(bootstrap_servers, stats_cb, config)
        made_by = deserializers(key_deserializer, value_deserializer)
        hooks = Interceptors(interceptors, OF_CONSUMER)
        kind: type[Self] = hooks.kind(cls if made_by is None else hooked(cls))
        config = with_error_callback(config, on_error)
        self: Self = super().__new__(kind, bootstrap_servers, group_id, topics, **config)
        hooks.attach(self)
        if made_by is not None:
            self._deserializers = made_by
        if stats is not None:
            stats.start(self, "consumer")
        return self

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without joining the group.

        A partition that was already assigned keeps its position and its paused state. If an item of `partitions` has an
        `offset`, the consumer starts at this offset and does not pause the partition. The consumer drops assigned
        partitions that are not in `partitions`, as `unsubscribe()` does. An `AsyncConsumer` commits the offsets of
        dropped partitions in the background. An `AsyncConsumer` that is a member of a group must first
        `await unsubscribe()`.

        Args:
            partitions: Partitions to read. Reading starts at the partition's `offset`, or else at the group's committed
                offset. If neither offset exists, `auto_offset_reset` decides where reading starts. Reading stops at the
                partition's `end_offset`. A loop over the consumer ends when all partitions have reached their
                `end_offset`.

        Raises:
            ConfigError: An offset is negative, or an `AsyncConsumer` is a member of a group.
            ArgumentError: An item is not a TopicPartition.
        """
        if self._is_async and self._is_member:
            raise ConfigError(
                "assign cannot wait until this consumer has left its group", hint="await unsubscribe() first"
            )
        ranges = [
            (*checked_partition(tp), _offset(tp, "offset"), _offset(tp, "end_offset"))
            for tp in list_of("partitions", partitions)
        ]
        self._assign(ranges, not self._is_async)

    def subscribe(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        pattern: str | None = None,
        on_rebalance: RebalanceListener | None = None,
    ) -> None:
        """Read topics. The members of a group divide the partitions. A consumer without a group reads all partitions.

        Without a group, partitions that the consumer already reads continue at their position. An empty list of topics
        unsubscribes the consumer, as `unsubscribe()` does. An `AsyncConsumer` that is a member of a group rejects an
        empty list, and needs `await unsubscribe()` instead.

        Args:
            topics: Names of topics.
            pattern: Regular expression that selects topics by their whole name, instead of `topics`. The pattern also
                selects matching topics that are created later. With `group_protocol="consumer"`, the group coordinator
                evaluates the pattern (RE2 syntax). With the classic protocol or without a group, the consumer evaluates
                the pattern.
            on_rebalance: Listener for changes of the assignment, when the consumer gets or loses partitions.

        Raises:
            ConfigError: The call has both `topics` and `pattern`, or neither.
            ArgumentError: An argument has the wrong type.
        """
        if (topics is None) == (pattern is None):
            raise ConfigError("subscribe needs either topics or a pattern", hint="pass topics, or pattern='logs-.*'")
        if on_rebalance is not None and not all(
            hasattr(on_rebalance, name) for name in ("assigned", "revoked", "lost")
        ):
            raise ArgumentError(
                f"on_rebalance has to be a RebalanceListener, not {type(on_rebalance).__name__}",
                hint="pass an instance of a subclass of klamm.RebalanceListener",
            )
        self._subscribe(topics, pattern, on_rebalance, self._is_async and on_rebalance is not None, not self._is_async)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are currently assigned to the consumer."""
        return partitions(self._assignment())

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue reading an assigned partition at an offset.

        Raises:
            ConfigError: The partition is not assigned, or the offset is negative.
        """
        self._seek(*checked_partition(partition), offset)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Continue reading partitions at their first record. The default is all assigned partitions."""
        self._seek_to(self._given_or_assigned(partitions), BEGINNING)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Continue reading partitions after their last record. The default is all assigned partitions."""
        self._seek_to(self._given_or_assigned(partitions), END)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning records of partitions until `resume`. The partitions stay assigned.

        A partition stays paused in a rebalance if its member keeps it.
        """
        self._pause(checked_partitions(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume returning records of paused partitions."""
        self._resume(checked_partitions(partitions))

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return partitions(self._paused())

    def lag(self) -> dict[TopicPartition, int | None]:
        """Return the lag of each assigned partition: the number of records from position to end, or None if unknown.

        With `isolation_level="read_committed"`, the end is the last stable offset.
        """
        return {TopicPartition(*partition): lag for partition, lag in self._lag()}

    def metrics(self) -> ConsumerMetrics:
        """Return a snapshot of the consumer's metrics, with the names of the Java client.

        A closed consumer returns its last values.
        """
        from klamm.metrics import ConsumerMetrics

        return ConsumerMetrics._of(self)

    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's group ID, generation and member ID.

        A transaction needs the metadata to commit the offsets of the consumer.

        Raises:
            ConfigError: The consumer has no group.
        """
        return group_metadata(self)

    def _note_poll(self) -> None:
        self._error_at_poll = sys.exc_info()[1]

    def _processed(self, commit: bool | None) -> bool | None:
        """Return False if the program is handling an exception that was raised after the last poll, otherwise None.

        False means that the program may not have processed the records of the last poll.
        """
        if commit is not None:
            boolean("commit", commit)
            return None
        error = error_in_flight()
        return None if error is None or error is self._error_at_poll else False

    def _given_or_assigned(self, partitions: Iterable[TopicPartition] | None) -> list[tuple[str, int]]:
        return self._assignment() if partitions is None else checked_partitions(partitions)

    async def _commit_and_notify(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None, timeout: float | None
    ) -> None:
        await self._wait(self._commit(given_offsets(offsets)), timeout)
        self._run_commit_callbacks()


def _offset(partition: TopicPartition, name: str) -> int | None:
    of = f"the {name} of {partition.topic}-{partition.partition}"
    return optional_integer(of, getattr(partition, name, None), 0)


def given_offsets(
    offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None,
) -> list[OffsetToCommit] | None:
    """Convert offsets to the form that the core takes. None selects the offsets of the consumed records."""
    return None if offsets is None else committable(offsets)
