"""`Consumer` and `AsyncConsumer`.

The Rust core fetches and creates records. This module adds the methods that wait for results, in the calling thread or
on an asyncio event loop. `klamm.consumer_base` has the methods that are the same in both classes. `klamm.record`
defines partitions and offsets, `klamm.hooks` calls deserializers, and `klamm.rebalance` defines listeners.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from klamm._klamm import Records
from klamm.arguments import check_function, checked_partition, checked_partitions, integer, list_of, seconds
from klamm.batches import _pyarrow, batches_of
from klamm.consumer_base import BEGINNING, END, _Consumer, given_offsets
from klamm.errors import KafkaError, KafkaTimeoutError
from klamm.hints import hints_for_other_clients
from klamm.hooks import K_co, V_co
from klamm.other_clients import CONSUMER
from klamm.rebalance import partitions
from klamm.record import at_all, committed_offsets, known_offsets, timed, with_metadata
from klamm.telemetry import AsyncTelemetry, BlockingTelemetry
from klamm.waiting import Asyncio, Blocking, call_on_loop, documented_by, not_end_of_loop, run

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import TypeAlias

    import pyarrow as pa
    from typing_extensions import Self, Unpack

    from klamm._klamm import Record
    from klamm.batches import Batches, ValueFormat
    from klamm.record import OffsetAndMetadata, TopicPartition

__all__ = ["AsyncConsumer", "Consumer"]

OnCommit: TypeAlias = "Callable[[dict[TopicPartition, OffsetAndMetadata], Exception | None], object]"
"""Callback for the result of a commit.

The arguments of the callback are the offsets, and the commit's error or None.
"""


@hints_for_other_clients(CONSUMER)
class Consumer(BlockingTelemetry, Blocking, _Consumer[K_co, V_co]):
    """Read records from topics. Only one thread at a time may read. Any thread may call methods that do not read.

    With a `group_id`, the consumer commits the offsets of processed records in the background and when it closes.
    `enable_auto_commit=False` disables automatic commits. In a loop, a record counts as processed when the loop asks
    for the next record.

    Keys and values are bytes, or the objects that the deserializers return. A deserializer runs when the program first
    reads `record.key` or `record.value`. If the deserializer raises, reading the field raises a `DeserializationError`
    with the original record. After a `DeserializationError`, the consumer continues with the next record. Deserializers
    do not run for Arrow batches.

    Args:
        bootstrap_servers: Addresses of brokers, as `"host:port,host:port"` or as a list. A dict of Kafka's dotted
            configuration keys also works.
        group_id: Name of the consumer group, whose members divide the partitions of their topics. Without a `group_id`,
            the consumer reads all partitions.
        topics: Topics to subscribe to, as with the method `subscribe`.
        key_deserializer: Function that turns the bytes of a key into an object. klamm does not call the function for
            `None`.
        value_deserializer: Function that turns the bytes of a value into an object. klamm does not call the function
            for `None`.
        interceptors: Objects with the method `on_consume(records)`, `on_commit(offsets, error)` or both. `on_consume`
            can filter records, and `on_commit` gets the results of commits. See `klamm.interceptors`.
        on_error: Function that gets the errors of operations that the client keeps retrying. For example, the client
            cannot reach any broker, cannot find a topic, or cannot join its group. A separate thread calls `on_error`
            at once, and then at growing intervals while the problem lasts.
        stats_cb: Function that gets statistics, as described for `klamm.Producer`.
        **config: Kafka's configuration keys in snake_case; see `klamm.config.ConsumerConfig`.

    Raises:
        ConfigError: A configuration value is invalid.
        ArgumentError: An argument has the wrong type.

    Example:
        with klamm.Consumer("localhost:9092", group_id="greeters", topics=["greetings"]) as consumer:
            for record in consumer:
                print(record.offset, record.key, record.value)
    """

    def __iter__(self) -> Iterator[Record[K_co, V_co]]:
        return self._records()

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> Records[K_co, V_co]:
        """Return the next records as soon as at least one record has arrived.

        Args:
            timeout: Seconds to wait for the first record. `None` waits without limit.
            max_records: Maximum number of records. The default is `max_poll_records` (500).

        Returns:
            The records. The result is empty if the timeout passed, or if all partitions have reached their
            `end_offset`.

        Raises:
            KafkaError: The membership in the group failed, the user is not authorized, or the data of a partition is
                damaged. The next `poll` continues reading.
        """
        self._note_poll()
        return self._poll(timeout, max_records) or _NO_RECORDS

    def arrow(
        self,
        max_rows: int = 65_536,
        timeout: float | None = None,
        columns: Sequence[str] | None = None,
        max_bytes: int | None = None,
        **typed: Unpack[ValueFormat],
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over Arrow record batches. The method does not wait until a batch has `max_rows` rows.

        The iteration ends when all partitions have reached their `end_offset`, or after `timeout` seconds without a
        record.

        Args:
            max_rows: Maximum number of rows in a batch.
            timeout: Seconds to wait for a batch. `None` waits without limit.
            columns: Names of the columns, in order. The default is all columns: topic, partition, offset, timestamp,
                timestamp_type, key, value, headers.
            max_bytes: Maximum size of the records in a batch, in bytes. The last record of a batch can exceed this
                size. The default is 64 MiB, and larger values have the same effect as 64 MiB.
            **typed: Arguments that say how to decode keys and values, such as `value_format="avro"` and `registry`.
                `klamm.batches.ValueFormat` lists all arguments for typed columns. Without a format, keys and values are
                bytes.

        Raises:
            ImportError: pyarrow is not installed.
            ConfigError: A column does not exist, or a number is out of range.
            DeserializationError: klamm cannot decode a record. The next call of `arrow` continues after this record.
        """
        max_rows, max_bytes = _limits(max_rows, max_bytes)
        return self._arrow(max_rows, timeout, batches_of(columns, typed), max_bytes)

    def _arrow(
        self, max_rows: int, timeout: float | None, batches: Batches, max_bytes: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        _pyarrow()
        self._note_poll()
        with batches:
            while records := self._poll(timeout, max_rows, max_bytes):
                yield from batches.read(self, records)

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """Return the position in a partition: the offset of the next record that the consumer will return.

        Args:
            partition: An assigned partition.
            timeout: Seconds to wait until the position is known. `None` waits without limit.

        Raises:
            ConfigError: The partition is not assigned.
            KafkaTimeoutError: The position was not known in time.
        """
        return self._position(*checked_partition(partition)).result(timeout)

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, timeout: float | None = None
    ) -> None:
        """Commit offsets for the group, and wait for the result.

        Args:
            offsets: Dict from partition to the offset of the next record to read. By default, the consumer commits the
                offset after the last record that it returned from each partition.
            timeout: Seconds to wait. The default is `default_api_timeout_ms`.

        Raises:
            BrokerError: The group coordinator rejected the commit, for example because of a rebalance.
            ConfigError: The consumer has no group, or an offset is negative.
            KafkaTimeoutError: The coordinator did not answer in time.
        """
        run(self._commit_and_notify(offsets, timeout))

    def commit_nowait(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        on_commit: OnCommit | None = None,
    ) -> None:
        """Commit offsets for the group without waiting. `close()` waits for commits that are in flight.

        Args:
            offsets: Offsets to commit, as for the method `commit`.
            on_commit: Function that gets the offsets, and either None or the error that `commit()` would raise. After
                the result arrives, the next iteration, `poll()`, `commit()` or `close()` calls `on_commit`. Callbacks
                run in the order of the commits. If `on_commit` raises, the method that called `on_commit` raises the
                same exception.

        Raises:
            ConfigError: The consumer has no group, or an offset is negative.
        """
        check_function("on_commit", on_commit)
        self._commit_nowait(given_offsets(offsets), on_commit)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """Return the group's committed offset of each partition, or None for a partition without a committed offset.

        Args:
            partitions: Partitions to look up.
            timeout: Seconds to wait. The default is `default_api_timeout_ms`.

        Raises:
            ConfigError: The consumer has no group.
            KafkaTimeoutError: The coordinator did not answer in time.
        """
        return committed_offsets(self.committed_metadata(partitions, timeout))

    def committed_metadata(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offset of each partition, with its metadata.

        A partition without a committed offset has the value None. The arguments and errors are the same as those of
        `committed`.
        """
        partitions = list_of("partitions", partitions)
        return with_metadata(partitions, self._committed(checked_partitions(partitions), timeout).result())

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime], timeout: float | None = None
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        """Return the offset and timestamp of each partition's first record at or after a time.

        A partition without a record at or after the time has the value None.

        Args:
            times: Dict from partition to a time, in milliseconds since 1970 or as a datetime. A datetime without a time
                zone is local time.
            timeout: Seconds to wait. The default is `default_api_timeout_ms`.

        Raises:
            ConfigError: A time is before 1970.
            KafkaTimeoutError: A partition leader did not answer in time.
            UnsupportedVersionError: The brokers are older than Kafka 0.10.1.
        """
        return dict(zip(times, self._list_offsets(timed(times), timeout).result(), strict=True))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition. `timeout` works as in `offsets_for_times`."""
        return self._ends(BEGINNING, partitions, timeout)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition. `timeout` works as in `offsets_for_times`."""
        return self._ends(END, partitions, timeout)

    def _ends(self, end: int, partitions: Iterable[TopicPartition], timeout: float | None) -> dict[TopicPartition, int]:
        partitions = list_of("partitions", partitions)
        return known_offsets(partitions, self._list_offsets(at_all(partitions, end), timeout).result())

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """Return the partition numbers of a topic. The broker does not create a missing topic.

        Args:
            topic: Name of the topic.
            timeout: Seconds to wait. The default is `default_api_timeout_ms`.

        Raises:
            KafkaTimeoutError: The brokers did not return metadata of the topic in time.
        """
        return self._partitions_for(topic, timeout).result()

    def unsubscribe(self) -> None:
        """Stop reading.

        A consumer in a group calls its rebalance listener, commits the offsets of processed records, and leaves the
        group. The documentation of `close` says which records count as processed.
        """
        self._unsubscribe(self._processed(None))

    def close(self, timeout: float | None = None, *, commit: bool | None = None) -> None:
        """Commit the offsets of processed records, leave the group and close the client.

        Closing a closed consumer does nothing.

        By default, all records of the last `poll` count as processed. If the program calls `close` while it handles an
        exception that was raised after this `poll`, these records do not count as processed. A program counts as
        handling an exception inside an `except` or `finally` block, and while `contextlib.closing` or an `ExitStack`
        exits. If the program left a loop over the consumer early, the last record of the loop does not count as
        processed. A `with` statement always knows whether its block raised an exception.

        Args:
            timeout: Seconds to wait. The default is `default_close_timeout_ms`, which is 25 seconds. `math.inf` waits
                without limit. Even with a shorter `timeout`, the consumer waits up to 0.1 seconds to leave the group.
            commit: False commits no offsets. True commits the offsets of the last poll even while the program handles
                an exception. By default, `close` commits the offsets of processed records.

        Raises:
            KafkaTimeoutError: The group coordinator did not confirm the commit in time.
        """
        run(self._end(timeout, self._processed(commit), commit is not False))

    async def _end(self, timeout: float | None, processed: bool | None, commit: bool = True) -> None:
        try:
            self._close(timeout, processed, commit)
        finally:
            self._run_commit_callbacks()


@hints_for_other_clients(CONSUMER)
@documented_by(Consumer)
class AsyncConsumer(AsyncTelemetry, Asyncio, _Consumer[K_co, V_co]):
    """Read records on an asyncio event loop. `AsyncConsumer` has the same methods and arguments as `Consumer`.

    Only one task at a time can use a consumer.

    Example:
        async with klamm.AsyncConsumer("localhost:9092", topics=["greetings"]) as consumer:
            async for record in consumer:
                print(record.value)
    """

    _is_async = True
    _listener_task: asyncio.Task[None] | None = None
    """Task that runs the rebalance listener. Cancelling the task that reads records does not stop the listener."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[K_co, V_co]:
        # The coroutine takes a record only when it starts to run. If the program cancels it earlier or never awaits it,
        # the coroutine takes no record.
        while (record := self._try_next()) is None:
            await self._ready(None)
            await self._apply_changes()
        return record

    async def _apply_changes(self) -> None:
        """Run the listener for each change of the assignment.

        Without a listener, the core applies the changes itself.
        """
        import asyncio

        while True:
            task = self._listener_task
            if task is None:
                if not self._defers or not (change := self._next_change()):
                    return
                task = self._listener_task = asyncio.ensure_future(self._apply(*change))
            elif task is asyncio.current_task() or self._is_closed():
                return  # the listener itself reads records, or still runs after the consumer was closed
            try:
                await asyncio.shield(task)
            finally:
                if task.done():
                    self._listener_task = None

    async def _apply(self, method: str, changed: list[tuple[str, int]]) -> None:
        try:
            await self._run_listener(method, changed)
        finally:
            if not self._is_closed():
                self._handled()

    async def _run_listener(self, method: str, changed: list[tuple[str, int]]) -> None:
        with not_end_of_loop():
            returned = getattr(self._listener, method)(partitions(changed))
            if returned is not None:
                await returned

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> Records[K_co, V_co]:
        return await self._poll_async(timeout, max_records) or _NO_RECORDS

    async def _poll_async(
        self, timeout: float | None, max_records: int | None, max_bytes: int | None = None
    ) -> Records[K_co, V_co] | None:
        self._note_poll()
        await self._apply_changes()
        records = self._poll(0, max_records, max_bytes)
        if records is None or records:
            return records
        remaining = seconds(timeout)
        deadline = None if remaining is None else time.monotonic() + remaining
        while await self._ready(None if deadline is None else deadline - time.monotonic()):
            await self._apply_changes()
            records = self._poll(0, max_records, max_bytes)
            if records is None or records:
                return records
        return _NO_RECORDS

    def arrow(
        self,
        max_rows: int = 65_536,
        timeout: float | None = None,
        columns: Sequence[str] | None = None,
        max_bytes: int | None = None,
        **typed: Unpack[ValueFormat],
    ) -> AsyncIterator[pa.RecordBatch]:
        max_rows, max_bytes = _limits(max_rows, max_bytes)
        return self._arrow(max_rows, timeout, batches_of(columns, typed), max_bytes)

    async def _arrow(
        self, max_rows: int, timeout: float | None, batches: Batches, max_bytes: int | None = None
    ) -> AsyncIterator[pa.RecordBatch]:
        _pyarrow()
        with batches:
            while records := await self._poll_async(timeout, max_rows, max_bytes):
                async for batch in batches.read_async(self, records):
                    yield batch

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        return await self._position(*checked_partition(partition)).within(timeout)

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, timeout: float | None = None
    ) -> None:
        await self._commit_and_notify(offsets, timeout)

    def commit_nowait(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        on_commit: OnCommit | None = None,
    ) -> None:
        """Commit offsets for the group without waiting. `close()` waits for commits that are in flight.

        Args:
            offsets: Offsets to commit, as for the method `commit`.
            on_commit: Function that gets the offsets, and either None or the error that `commit()` would raise.
                `on_commit` cannot be a coroutine function. The event loop calls `on_commit` soon after the result
                arrives. Callbacks run in the order of the commits.

        Raises:
            ConfigError: The consumer has no group, or an offset is negative.
        """
        check_function("on_commit", on_commit)
        pending = self._commit_nowait(given_offsets(offsets), on_commit)
        if on_commit is not None:
            pending.add_done_callback(call_on_loop(self._run_commit_callbacks))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int | None]:
        return committed_offsets(await self.committed_metadata(partitions, timeout))

    async def committed_metadata(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        partitions = list_of("partitions", partitions)
        return with_metadata(partitions, await self._committed(checked_partitions(partitions), timeout))

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime], timeout: float | None = None
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        return dict(zip(times, await self._list_offsets(timed(times), timeout), strict=True))

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return await self._ends(BEGINNING, partitions, timeout)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return await self._ends(END, partitions, timeout)

    async def _ends(
        self, end: int, partitions: Iterable[TopicPartition], timeout: float | None
    ) -> dict[TopicPartition, int]:
        partitions = list_of("partitions", partitions)
        return known_offsets(partitions, await self._list_offsets(at_all(partitions, end), timeout))

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        return await self._partitions_for(topic, timeout)

    async def unsubscribe(self) -> None:
        import asyncio

        processed = self._processed(None)
        await self._notify_listener_of_end()
        await asyncio.to_thread(self._unsubscribe, processed)

    async def close(self, timeout: float | None = None, *, commit: bool | None = None) -> None:
        await self._end(timeout, self._processed(commit), commit is not False)

    async def _end(self, timeout: float | None, processed: bool | None, commit: bool = True) -> None:
        import asyncio

        remaining = timeout = self._default_close_timeout if timeout is None else seconds(timeout)
        began = time.monotonic()
        failure: BaseException | None = None
        try:
            await self._notify_listener_of_end(timeout)
        except asyncio.CancelledError as error:
            failure, remaining = error, self._time_after_cancel(timeout)
        except Exception as error:  # noqa: BLE001 - the method raises the error after the close
            failure = error
        if timeout is not None and remaining == timeout:
            remaining = max(timeout - (time.monotonic() - began), 0)
        self._unwatch()
        try:
            await self._close_in_thread(self._close, remaining, processed, commit)
        except KafkaError:
            if failure is None:  # otherwise, `_end` raises the first error
                raise
        finally:
            self._run_commit_callbacks()
        if failure is not None:
            raise failure

    async def _notify_listener_of_end(self, timeout: float | None = None) -> None:
        """Wait while the rebalance listener handles a change. Then call the method `revoked` with all partitions."""
        import asyncio

        task = self._listener_task
        if task is asyncio.current_task():
            return  # the listener itself closes the consumer
        began = time.monotonic()
        if task is not None:
            await self._wait_for_listener(task, timeout)
        if self._defers and not self._is_closed() and (assigned := self._assignment()):
            # This is the last call of the listener, even if the listener itself closes the consumer.
            self._listener_task = task = asyncio.ensure_future(self._run_listener("revoked", assigned))
            remaining = None if timeout is None else max(timeout - (time.monotonic() - began), 0)
            await self._wait_for_listener(task, remaining)
            await task

    async def _wait_for_listener(self, task: asyncio.Task[None], timeout: float | None) -> None:
        """Wait for the listener. A timeout does not cancel the listener, because the listener may be saving data."""
        import asyncio

        _, late = await asyncio.wait([task], timeout=timeout)
        if late:
            raise KafkaTimeoutError(
                f"the rebalance listener did not finish within {timeout} s, and continues while the consumer closes",
                hint="increase the timeout of close, or do less in the listener",
            )
        self._listener_task = None


def _limits(max_rows: int, max_bytes: int | None) -> tuple[int, int | None]:
    return integer("max_rows", max_rows, 1), None if max_bytes is None else integer("max_bytes", max_bytes, 1)


_NO_RECORDS: Records[Any, Any] = Records()
