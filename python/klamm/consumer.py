"""The consumers.

Records are made by the core, one by one without a Python frame each; everything else is built of the same pieces in both
classes, and differs in how it waits.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from klamm._klamm import ArrowColumns, ConsumerCore, Records
from klamm.arguments import check_function, checked_partition, checked_partitions, integer, list_of, seconds
from klamm.errors import ArgumentError, ConfigError, KafkaError, KafkaTimeoutError
from klamm.hooks import deserializers, hooked
from klamm.rebalance import partitions
from klamm.record import OffsetAndMetadata, TopicPartition, committable, timed
from klamm.transaction import group_metadata

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import TypeAlias

    import pyarrow as pa
    from typing_extensions import Self, Unpack

    from klamm._klamm import ArrowBatch, Deserializers, Record
    from klamm.config import Bootstrap, ConsumerConfig
    from klamm.rebalance import RebalanceListener
    from klamm.transaction import GroupMetadata

__all__ = ["AsyncConsumer", "Consumer"]

T = TypeVar("T")

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    # What deserializers make of keys and values that are not null.
    K_co = TypeVarWithDefault("K_co", covariant=True, default=bytes)
    V_co = TypeVarWithDefault("V_co", covariant=True, default=bytes)
else:
    K_co, V_co = TypeVar("K_co", covariant=True), TypeVar("V_co", covariant=True)

OnCommit: TypeAlias = "Callable[[dict[TopicPartition, OffsetAndMetadata], Exception | None], object]"
"""What hears of a commit: the offsets, and what went wrong or None."""

END, BEGINNING = -1, -2
"""What Kafka's ListOffsets takes for a time: the two ends of a partition."""


class _Consumer(ConsumerCore[K_co, V_co]):
    """What both consumers are made of: everything that waits for nobody."""

    _is_async = False
    _deserializers: Deserializers

    def __new__(
        cls,
        bootstrap_servers: Bootstrap | None = None,
        group_id: str | None = None,
        topics: Sequence[str] | str | None = None,
        *,
        key_deserializer: Callable[[bytes], K_co] | None = None,
        value_deserializer: Callable[[bytes], V_co] | None = None,
        **config: Unpack[ConsumerConfig],
    ) -> Self:
        made_by = deserializers(key_deserializer, value_deserializer)
        kind: type[Self] = cls if made_by is None else hooked(cls)  # type: ignore[arg-type]
        self: Self = super().__new__(kind, bootstrap_servers, group_id, topics, **config)
        if made_by is not None:
            self._deserializers = made_by
        return self

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others.

        Without an offset a partition starts at the group's committed one if there is a group, or else where
        `auto_offset_reset` says. With end offsets, iteration ends when all of them are reached.

        One that was assigned before and has no offset now goes on where it is, paused or not. What was read before of others
        is given up as with `unsubscribe()`. An `AsyncConsumer` commits in the background meanwhile; as a
        member of a group it has to leave that with `await unsubscribe()` first.
        """
        if self._is_async and self._is_member:
            raise ConfigError(
                "assign cannot await that the consumer leaves its group", hint="await unsubscribe() first"
            )
        wanted = [
            (*checked_partition(tp), _bound(tp, "offset"), _bound(tp, "end_offset"))
            for tp in list_of("partitions", partitions)
        ]
        self._assign(wanted, not self._is_async)

    def subscribe(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        pattern: str | None = None,
        on_rebalance: RebalanceListener | None = None,
    ) -> None:
        """Read topics: shared with the other members of the group if there is one, or else whole.

        A `pattern` is a regular expression that a topic's whole name has to match, also of topics made later; the
        group's coordinator matches it with `group_protocol="consumer"` (RE2), the consumer itself otherwise. The
        listener hears of partitions that come and go.

        Without a group, partitions of topics that were read before go on where they are. No topics are as `unsubscribe()`,
        which an `AsyncConsumer` that is a member of a group has to await.
        """
        if (topics is None) == (pattern is None):
            raise ConfigError("subscribe takes topics or a pattern", hint="name topics, or give pattern='logs-.*'")
        if on_rebalance is not None and not all(
            hasattr(on_rebalance, name) for name in ("assigned", "revoked", "lost")
        ):
            raise ArgumentError(
                f"on_rebalance has to be a RebalanceListener, not {type(on_rebalance).__name__}",
                hint="derive a class from klamm.RebalanceListener, and give an object of it",
            )
        self._subscribe(topics, pattern, on_rebalance, self._is_async and on_rebalance is not None, not self._is_async)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are read."""
        return partitions(self._assignment())

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading a partition at an offset."""
        self._seek(*checked_partition(partition), offset)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on reading partitions, or all that are assigned, at their first record."""
        self._seek_to(self._chosen(partitions), BEGINNING)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on reading partitions, or all that are assigned, after their last record."""
        self._seek_to(self._chosen(partitions), END)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Give out no more records of partitions until they are resumed."""
        self._pause(checked_partitions(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Give out records of paused partitions again."""
        self._resume(checked_partitions(partitions))

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return partitions(self._paused())

    def lag(self) -> dict[TopicPartition, int | None]:
        """Return how many records lie between the position and the end of each assigned partition, where that is known.

        The end is that of what may be read: with `read_committed` it is before the first open transaction.
        """
        return {TopicPartition(*place): behind for place, behind in self._lag()}

    def _chosen(self, partitions: Iterable[TopicPartition] | None) -> list[tuple[str, int]]:
        return self._assignment() if partitions is None else checked_partitions(partitions)


class Consumer(_Consumer[K_co, V_co]):
    """Reads records. One thread uses it at a time.

        with klamm.Consumer("localhost:9092", group_id="greeters", topics=["greetings"]) as consumer:
            for record in consumer:
                print(record.offset, record.key, record.value)

    The first argument says where the brokers are, or is a dict of Kafka's dotted keys; keywords are the same keys in
    snake_case (`klamm.config.ConsumerConfig`). `topics` are read whole, or with a `group_id` shared with the other members
    of the group; offsets of records that the loop is done with are then committed in the background and at the end.

    Keys and values are bytes. `key_deserializer` and `value_deserializer` make anything else of them when `record.key` and
    `record.value` are read (null stays None); what one raises comes as a `DeserializationError` that has the record as
    it is, and reading goes on behind it. Arrow batches hold bytes in any case.
    """

    def __iter__(self) -> Iterator[Record[K_co, V_co]]:
        return self._records()

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> Records[K_co, V_co]:
        """Return records as soon as there are some, at most `max_records` (`max_poll_records`, 500); none at a timeout."""
        return self._poll(timeout, max_records) or _NONE

    def arrow(
        self,
        max_rows: int = 65_536,
        timeout: float | None = None,
        columns: Sequence[str] | None = None,
        max_bytes: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over Arrow batches, each as soon as there are records for it.

        It ends when all end offsets are reached, or after `timeout` seconds without a record. `columns` chooses and
        orders: topic, partition, offset, timestamp, timestamp_type, key, value, headers. `max_bytes`, 64 MiB unless it is
        less, bounds what the records of a batch take together; the last one may go beyond.
        """
        max_rows, max_bytes = _batches(max_rows, max_bytes)
        return self._arrow(max_rows, timeout, ArrowColumns(columns), max_bytes)

    def _arrow(
        self, max_rows: int, timeout: float | None, columns: ArrowColumns, max_bytes: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        _pyarrow()
        while records := self._poll(timeout, max_rows, max_bytes):
            yield _record_batch(records._columns(columns))  # noqa: SLF001

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """Return the offset of the next record of a partition."""
        return self._position(*checked_partition(partition)).result(timeout)

    def group_metadata(self) -> GroupMetadata:
        """Return the consumer's place in its group, for a producer's transaction."""
        return group_metadata(self)

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, timeout: float | None = None
    ) -> None:
        """Commit offsets for the group: of the next record to read, by default after every record given out so far."""
        self._commit(_given(offsets)).result(timeout)
        self._tell_commits()

    def commit_nowait(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        on_commit: OnCommit | None = None,
    ) -> None:
        """Commit as `commit()` does without waiting; `close()` waits for what is under way.

        `on_commit(offsets, error)` is called with what was committed and None, or the exception that `commit()` would raise:
        in the thread that uses the consumer, by the next iteration, `poll()`, `commit()` or `close()` that comes after the
        outcome, and in the order of the commits. What it raises comes out of that call.
        """
        check_function("on_commit", on_commit)
        self._commit_nowait(_given(offsets), on_commit)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """Return the offsets the group has committed; None where there is none."""
        return _offsets(self.committed_metadata(partitions, timeout))

    def committed_metadata(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the offsets the group has committed with what was kept with them; None where there is none."""
        partitions = list_of("partitions", partitions)
        return _with_metadata(partitions, self._committed(checked_partitions(partitions), timeout).result())

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        """Return (offset, timestamp) of the first record at or after a time (ms); None where there is none."""
        return dict(zip(times, self._list_offsets(timed(times), timeout).result(), strict=True))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of partitions."""
        return _ends(self.offsets_for_times(dict.fromkeys(list_of("partitions", partitions), BEGINNING), timeout))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record of partitions."""
        return _ends(self.offsets_for_times(dict.fromkeys(list_of("partitions", partitions), END), timeout))

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """Return the partitions of a topic."""
        return self._partitions_for(topic, timeout).result()

    def unsubscribe(self) -> None:
        """Read nothing any more: a member tells its listener, commits what the program is done with, and leaves its group."""
        self._unsubscribe()

    def close(self, timeout: float | None = None) -> None:
        """End the client, after committing what the program is done with. Closing twice does nothing.

        A batch that was polled counts as handled, the last record of a loop that was left does not; where handling may
        raise, `with` knows better. `KafkaTimeoutError` says that the commit was not confirmed in time.
        """
        try:
            self._close(timeout, None)
        finally:
            self._tell_commits()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # If it ends well, what was given out last was handled, too; an exception may be about any of it.
        try:
            if kind is None:
                self._close(None, True)
            else:
                with suppress(KafkaError):  # the exception that is under way is the news
                    self._close(_patience(kind), False)
        finally:
            self._tell_commits()


class AsyncConsumer(_Consumer[K_co, V_co]):
    """Reads records on an asyncio event loop: the methods of `Consumer`, awaited where those wait.

        async with klamm.AsyncConsumer("localhost:9092", topics=["greetings"]) as consumer:
            async for record in consumer:
                print(record.value)

    One task uses it at a time.
    """

    _is_async = True
    _telling: asyncio.Task[None] | None = None
    """What the listener does with a change; its own task, as whoever waits for records may stop waiting."""

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[Record[K_co, V_co]]:
        return self._next_ready() or self._next_record()

    async def _next_record(self) -> Record[K_co, V_co]:
        while True:
            await self._ready(None)
            await self._follow()
            if ready := self._next_ready():
                return await ready

    async def _follow(self) -> None:
        # Without a listener to await, the core follows by itself.
        import asyncio

        while True:
            telling = self._telling
            if telling is None:
                if not self._defers or not (change := self._next_change()):
                    return
                telling = self._telling = asyncio.ensure_future(self._change(*change))
            elif telling is asyncio.current_task() or self._is_closed():
                return  # the listener reads, or went on beside the consumer's end
            try:
                await asyncio.shield(telling)
            finally:
                if telling.done():
                    self._telling = None

    async def _change(self, name: str, places: list[tuple[str, int]]) -> None:
        try:
            await self._tell(name, places)
        finally:
            if not self._is_closed():
                self._handled()

    async def _tell(self, name: str, places: list[tuple[str, int]]) -> None:
        told = getattr(self._listener, name)(partitions(places))
        if told is not None:
            await told

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> Records[K_co, V_co]:
        """Return records as soon as there are some, at most `max_records` (`max_poll_records`, 500); none at a timeout."""
        return await self._poll_async(timeout, max_records) or _NONE

    async def _poll_async(
        self, timeout: float | None, max_records: int | None, max_bytes: int | None = None
    ) -> Records[K_co, V_co] | None:
        await self._follow()
        records = self._poll(0, max_records, max_bytes)
        if records is None or records:
            return records
        left = seconds(timeout)
        end = None if left is None else time.monotonic() + left
        while await self._ready(None if end is None else end - time.monotonic()):
            await self._follow()
            records = self._poll(0, max_records, max_bytes)
            if records is None or records:
                return records
        return _NONE

    def arrow(
        self,
        max_rows: int = 65_536,
        timeout: float | None = None,
        columns: Sequence[str] | None = None,
        max_bytes: int | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Iterate over Arrow batches, as `Consumer.arrow`."""
        max_rows, max_bytes = _batches(max_rows, max_bytes)
        return self._arrow(max_rows, timeout, ArrowColumns(columns), max_bytes)

    async def _arrow(
        self, max_rows: int, timeout: float | None, columns: ArrowColumns, max_bytes: int | None = None
    ) -> AsyncIterator[pa.RecordBatch]:
        _pyarrow()
        while records := await self._poll_async(timeout, max_rows, max_bytes):
            yield _record_batch(records._columns(columns))  # noqa: SLF001

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """Return the offset of the next record of a partition."""
        return await self._position(*checked_partition(partition)).within(timeout)

    def group_metadata(self) -> GroupMetadata:
        """Return the consumer's place in its group, for a producer's transaction."""
        return group_metadata(self)

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, timeout: float | None = None
    ) -> None:
        """Commit offsets for the group: of the next record to read, by default after every record given out so far."""
        await self._commit(_given(offsets)).within(timeout)
        self._tell_commits()

    def commit_nowait(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        on_commit: OnCommit | None = None,
    ) -> None:
        """Commit as `commit()` does without waiting; `close()` waits for what is under way.

        `on_commit(offsets, error)`, a plain function, is called with what was committed and None, or the exception that
        `commit()` would raise: by the event loop, soon after the outcome, and in the order of the commits.
        """
        check_function("on_commit", on_commit)
        pending = self._commit_nowait(_given(offsets), on_commit)
        if on_commit is not None:
            pending.add_done_callback(_soon(self._tell_commits))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """Return the offsets the group has committed; None where there is none."""
        return _offsets(await self.committed_metadata(partitions, timeout))

    async def committed_metadata(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the offsets the group has committed with what was kept with them; None where there is none."""
        partitions = list_of("partitions", partitions)
        return _with_metadata(partitions, await self._committed(checked_partitions(partitions), timeout))

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        """Return (offset, timestamp) of the first record at or after a time (ms); None where there is none."""
        return dict(zip(times, await self._list_offsets(timed(times), timeout), strict=True))

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of partitions."""
        return _ends(await self.offsets_for_times(dict.fromkeys(list_of("partitions", partitions), BEGINNING), timeout))

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record of partitions."""
        return _ends(await self.offsets_for_times(dict.fromkeys(list_of("partitions", partitions), END), timeout))

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """Return the partitions of a topic."""
        return await self._partitions_for(topic, timeout)

    async def unsubscribe(self) -> None:
        """Read nothing any more: a member tells its listener, commits what the program is done with, and leaves its group."""
        import asyncio

        await self._tell_all_go()
        await asyncio.to_thread(self._unsubscribe)

    async def close(self, timeout: float | None = None) -> None:
        """End the client, after committing what the program is done with, as `Consumer.close`."""
        await self._leave(timeout, None)

    async def _leave(self, timeout: float | None, handled: bool | None) -> None:
        import asyncio

        left = timeout = seconds(timeout)
        begun = time.monotonic()
        late: KafkaTimeoutError | None = None
        try:
            await self._tell_all_go(timeout)
        except KafkaTimeoutError as error:
            late = error
        if timeout is not None:
            left = max(timeout - (time.monotonic() - begun), 0)
        self._unwatch()
        try:
            await asyncio.to_thread(self._close, left, handled)
        except KafkaTimeoutError:
            if late is None:  # it has left no time for the rest
                raise
        finally:
            self._tell_commits()
        if late is not None:
            raise late

    async def _tell_all_go(self, timeout: float | None = None) -> None:
        import asyncio

        telling = self._telling
        if telling is asyncio.current_task():
            return  # it is the listener that ends this
        begun = time.monotonic()
        if telling is not None:
            await self._told(telling, timeout)
        if self._defers and not self._is_closed() and (places := self._assignment()):
            # The last that it hears, also if it closes the consumer.
            self._telling = telling = asyncio.ensure_future(self._tell("revoked", places))
            await self._told(telling, None if timeout is None else max(timeout - (time.monotonic() - begun), 0))
            await telling

    async def _told(self, telling: asyncio.Task[None], timeout: float | None) -> None:
        """Wait for what the listener does with a change. It is not cancelled when it takes too long, as it may be saving something."""
        import asyncio

        _, late = await asyncio.wait([telling], timeout=timeout)
        if late:
            raise KafkaTimeoutError(
                f"the rebalance listener was not done within {timeout} s, and goes on beside the consumer's end",
                hint="close later, or have the listener do less",
            )
        self._telling = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self._leave(None, True)
        else:
            with suppress(KafkaError):
                await self._leave(_patience(kind), False)


def _patience(kind: type[BaseException]) -> float | None:
    """How long closing may take when an exception is under way: whoever interrupts does not want to wait."""
    return None if issubclass(kind, Exception) else 0


def _soon(call: Callable[[], None]) -> Callable[[object], None]:
    """What has the running event loop call something, from any thread."""
    import asyncio

    loop = asyncio.get_running_loop()

    def ask(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(call)

    return ask


def _bound(partition: TopicPartition, name: str) -> int | None:
    value = getattr(partition, name, None)
    return None if value is None else integer(f"the {name} of {partition.topic}-{partition.partition}", value, 0)


def _batches(max_rows: int, max_bytes: int | None) -> tuple[int, int | None]:
    return integer("max_rows", max_rows, 1), None if max_bytes is None else integer("max_bytes", max_bytes, 1)


def _given(
    offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None,
) -> list[tuple[str, int, int, str, int | None, int | None]] | None:
    return None if offsets is None else committable(offsets)


def _with_metadata(
    partitions: list[TopicPartition], found: list[tuple[int, str, int | None] | None]
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    return {tp: OffsetAndMetadata(*at) if at else None for tp, at in zip(partitions, found, strict=True)}


def _offsets(found: Mapping[TopicPartition, OffsetAndMetadata | None]) -> dict[TopicPartition, int | None]:
    return {tp: None if at is None else at.offset for tp, at in found.items()}


def _ends(found: Mapping[TopicPartition, tuple[int, int] | None]) -> dict[TopicPartition, int]:
    return {tp: at[0] for tp, at in found.items() if at is not None}


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError("record batches need pyarrow: pip install 'klamm[arrow]'") from None
    return pa


def _record_batch(batch: ArrowBatch) -> pa.RecordBatch:
    return _pyarrow().record_batch(batch)


_NONE: Records[Any, Any] = Records()
