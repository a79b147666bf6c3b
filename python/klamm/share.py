"""Share consumers (KIP-932).

The members of a share group read the same partitions, and the broker gives each record to one member at a time.

The broker locks a record for a consumer until the consumer acknowledges the record, or until the acquisition lock times
out. If the record was released or its lock timed out, the broker delivers the record again, up to the group's limit
(`share.delivery.count.limit`). The Rust core keeps track of locks and acknowledgements.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, Literal

from klamm._klamm import ShareConsumerCore
from klamm.arguments import boolean, seconds
from klamm.hints import hints_for_other_clients
from klamm.hooks import K_co, V_co, deserializers, hooked
from klamm.interceptors import OF_SHARE, Interceptors, with_error_callback
from klamm.other_clients import CONSUMER
from klamm.statistics import pop_statistics_options
from klamm.telemetry import AsyncTelemetry, BlockingTelemetry
from klamm.waiting import Asyncio, Blocking, Waiting, documented_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from typing_extensions import Self, Unpack

    from klamm._klamm import Deserializers, Record, Records
    from klamm.config import Bootstrap, ShareConsumerConfig
    from klamm.errors import KafkaError
    from klamm.interceptors import ShareInterceptor
    from klamm.metrics import ShareConsumerMetrics
    from klamm.record import TopicPartition

__all__ = ["AsyncShareConsumer", "ShareConsumer"]

AcknowledgeType: TypeAlias = Literal["accept", "release", "reject", "renew"]
AckResults: TypeAlias = "dict[TopicPartition, KafkaError | None]"
"""Dict from partition to the result of its acknowledgements: None if the broker accepted them, or the error."""


class _ShareConsumer(Waiting, ShareConsumerCore[K_co, V_co], Generic[K_co, V_co]):
    """The base class of `ShareConsumer` and `AsyncShareConsumer`."""

    _deserializers: Deserializers

    def __new__(
        cls,
        bootstrap_servers: Bootstrap | None = None,
        group_id: str | None = None,
        topics: Sequence[str] | str | None = None,
        *,
        key_deserializer: Callable[[bytes], K_co] | None = None,
        value_deserializer: Callable[[bytes], V_co] | None = None,
        on_acknowledged: Callable[[AckResults], object] | None = None,
        interceptors: Sequence[ShareInterceptor] = (),
        on_error: Callable[[Exception], object] | None = None,
        stats_cb: Callable[[str], object] | None = None,
        **config: Unpack[ShareConsumerConfig],
    ) -> Self:
        bootstrap_servers, stats = pop_statistics_options(bootstrap_servers, stats_cb, config)
        made_by = deserializers(key_deserializer, value_deserializer)
        hooks = Interceptors(interceptors, OF_SHARE)
        kind: type[Self] = hooks.kind(cls if made_by is None else hooked(cls))
        config = with_error_callback(config, on_error)
        self: Self = super().__new__(kind, bootstrap_servers, group_id, topics, **config)
        if made_by is not None:
            self._deserializers = made_by
        hooks.attach(self)
        self._listen(on_acknowledged)
        if stats is not None:
            stats.start(self, "consumer")
        return self

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Read the given topics, and stop reading all other topics.

        Raises:
            ArgumentError: `topics` is not a name or a list of names.
        """
        self._subscribe(topics)

    def unsubscribe(self) -> None:
        """Stop reading, and leave the group. The program can still acknowledge records that it already has."""
        self._unsubscribe()

    def subscription(self) -> set[str]:
        """Return the topics that the consumer reads."""
        return set(self._subscription())

    def acknowledge(
        self, records: Record[K_co, V_co] | Records[K_co, V_co], acknowledge_type: AcknowledgeType = "accept"
    ) -> None:
        """Acknowledge a record, or all records of a poll, with the result of processing.

        The consumer sends the acknowledgement with the next poll or commit.

        Args:
            records: A record, or the records that `poll` returned.
            acknowledge_type: `"accept"` means that the program has processed the record. With `"release"`, the broker
                delivers the record again to any member, up to the group's limit. With `"reject"`, no member gets the
                record again. `"renew"` restarts the acquisition lock of the record (Kafka 4.2). The consumer sends a
                renewal at once, and the program must acknowledge the record again later.

        Raises:
            InvalidRecordStateError: This consumer does not hold the lock of a record.
            ArgumentError: An argument has the wrong type.
        """
        self._acknowledge(records, acknowledge_type)

    def metrics(self) -> ShareConsumerMetrics:
        """Return a snapshot of the consumer's metrics, with the names of the Java client.

        A closed consumer returns its last values.
        """
        from klamm.metrics import ShareConsumerMetrics

        return ShareConsumerMetrics._of(self)

    @property
    def member_id(self) -> str:
        """Member ID of this consumer in its group."""
        return self._member()[1]

    @property
    def acquisition_lock_timeout(self) -> float | None:
        """Seconds for which the broker locks a record for this consumer, or None before the first fetch."""
        return self._lock()


@hints_for_other_clients(CONSUMER)
class ShareConsumer(BlockingTelemetry, Blocking, _ShareConsumer[K_co, V_co]):
    """Read records of a share group. Only one thread at a time can use a consumer.

    Share groups need Kafka 4.1. When a loop over the consumer asks for the next record, the consumer accepts the
    previous record. If the program has already acknowledged the previous record, the consumer keeps the program's
    acknowledgement. With `share_acknowledgement_mode="explicit"`, the program itself must acknowledge all records
    before it gets more records. The group's configuration `share.auto.offset.reset` says where a new group starts to
    read. By default, a new group starts at the end of each partition.

    Args:
        bootstrap_servers: Addresses of brokers, as `"host:port,host:port"` or as a list. A dict of Kafka's dotted
            configuration keys also works.
        group_id: Name of the share group.
        topics: Topics to subscribe to, as with the method `subscribe`.
        key_deserializer: Function that turns the bytes of a key into an object, as for `klamm.Consumer`.
        value_deserializer: Function that turns the bytes of a value into an object, as for `klamm.Consumer`.
        on_acknowledged: Function that gets the results of acknowledgements, as a dict by partition, if no `commit`
            waits for these results. The thread that polls, iterates or closes the consumer calls `on_acknowledged`.
        interceptors: Objects with the method `on_consume(records)`, `on_acknowledge(results)` or both. `on_consume` can
            filter records. See `klamm.interceptors`.
        on_error: Function that gets the errors of operations that the client keeps retrying. For example, the client
            cannot reach any broker, cannot find a topic, or cannot join its group. A separate thread calls `on_error`
            at once, and then at growing intervals while the problem lasts.
        stats_cb: Function that gets statistics, as described for `klamm.Producer`.
        **config: Kafka's configuration keys in snake_case; see `klamm.config.ShareConsumerConfig`.

    Raises:
        ConfigError: A configuration value is invalid.
        ArgumentError: An argument has the wrong type.

    Example:
        with klamm.ShareConsumer("localhost:9092", group_id="workers", topics=["jobs"]) as consumer:
            for record in consumer:
                if not work(record.value):
                    consumer.acknowledge(record, "release")
    """

    def __iter__(self) -> Iterator[Record[K_co, V_co]]:
        return self._records()

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> Records[K_co, V_co]:
        """Return the next records as soon as at least one record has arrived.

        With implicit acknowledgement, `poll` accepts the records of the previous poll.

        Args:
            timeout: Seconds to wait for the first record. `None` waits without limit.
            max_records: Maximum number of records. The default is `max_poll_records` (500).

        Returns:
            The records. The result is empty if the timeout passed.

        Raises:
            KafkaError: The membership in the group failed, the user is not authorized, or the data of a partition is
                damaged. The next `poll` continues reading.
        """
        return self._poll(timeout, max_records)

    def commit(self, timeout: float | None = None) -> AckResults:
        """Send the acknowledgements, and wait for their results.

        With implicit acknowledgement, `commit` accepts all records that the consumer has returned.

        Args:
            timeout: Seconds to wait. `None` waits without limit.

        Returns:
            A dict from each partition to its error, or to None if the broker accepted the acknowledgements. The dict
            includes earlier results that `on_acknowledged` did not get.

        Raises:
            KafkaTimeoutError: A broker did not answer in time.
        """
        return self._commit().result(timeout)

    def close(self, timeout: float | None = None, *, commit: bool = True) -> None:
        """Send the acknowledgements, release all other locked records, leave the group and close the client.

        With implicit acknowledgement, `close` also releases the records that the program may not have processed
        completely. After a loop, `close` releases the last record. After `poll`, `close` releases all records of the
        last poll.

        Args:
            timeout: Seconds to wait. The default is `default_close_timeout_ms`, which is 25 seconds. `math.inf` waits
                without limit. Even with a shorter `timeout`, the consumer waits up to 0.1 seconds to leave the group.
            commit: If False, `close` accepts no record implicitly.
        """
        self._close(timeout, False if boolean("commit", commit) else None)

    async def _end(self, timeout: float | None, processed: bool | None) -> None:
        self._close(timeout, processed)


@hints_for_other_clients(CONSUMER)
@documented_by(ShareConsumer)
class AsyncShareConsumer(AsyncTelemetry, Asyncio, _ShareConsumer[K_co, V_co]):
    """Read records of a share group on an asyncio event loop.

    `AsyncShareConsumer` has the same methods and arguments as `ShareConsumer`.

    Only one task at a time can use a consumer.

    Example:
        async with klamm.AsyncShareConsumer("localhost:9092", group_id="workers", topics=["jobs"]) as consumer:
            async for record in consumer:
                await work(record.value)
    """

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[K_co, V_co]:
        # The coroutine takes a record only when it starts to run. If the program cancels it earlier or never awaits it,
        # the coroutine takes no record.
        while (record := self._try_next()) is None:
            await self._ready(None)
        return record

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> Records[K_co, V_co]:
        remaining = seconds(timeout)
        deadline = None if remaining is None else time.monotonic() + remaining
        while not (records := self._poll(0, max_records)):
            if not await self._ready(None if deadline is None else deadline - time.monotonic()):
                break
        return records

    async def commit(self, timeout: float | None = None) -> AckResults:
        return await self._commit().within(timeout)

    async def close(self, timeout: float | None = None, *, commit: bool = True) -> None:
        await self._end(timeout, False if boolean("commit", commit) else None)

    async def _end(self, timeout: float | None, processed: bool | None) -> None:
        await self._close_in_thread(self._close, seconds(timeout), processed)
