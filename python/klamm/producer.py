"""`Producer`, `AsyncProducer`, and the flush at the end of the program.

The methods `send` and `send_nowait` of `Producer` come from the Rust core. This module adds hooks, bulk calls, flush
and close. `klamm.transaction` has transactions, and `klamm.send_queue` has the queue of an `AsyncProducer`.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from klamm import logs  # the exit handler of `logs` has to run after the exit handler of this module
from klamm._klamm import ArrowRows, Pending
from klamm.arguments import seconds
from klamm.batches import check_options
from klamm.errors import BufferFullError, DeliveryError, KafkaError, KafkaTimeoutError, TransactionAbortedError
from klamm.hints import hints_for_other_clients
from klamm.hooks import Hooks, K_contra, V_contra, hooked, sequences
from klamm.other_clients import PRODUCER
from klamm.statistics import pop_statistics_options
from klamm.telemetry import AsyncTelemetry, BlockingTelemetry
from klamm.transaction import AsyncTransaction, Transaction, TransactionalProducer
from klamm.waiting import Asyncio, Blocking, documented_by, run

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import datetime

    from typing_extensions import Self, Unpack

    from klamm._klamm import Buffer, RecordMetadata
    from klamm.batches import ValueFormat
    from klamm.config import Bootstrap, ProducerConfig
    from klamm.consumer import AsyncConsumer, Consumer
    from klamm.hooks import Interceptor
    from klamm.metrics import ProducerMetrics
    from klamm.record import HeadersLike
    from klamm.send_queue import SendQueue

__all__ = ["AsyncProducer", "Delivery", "Producer"]

Delivery = Pending
"""The pending acknowledgement of one record. `.result(timeout)` and `await` wait for the `RecordMetadata`."""

HOT = ("send", "send_nowait")
"""Methods for single records.

`hints_for_other_clients` does not wrap `send` and `send_nowait`, because a wrapper would make them slower.
"""

EXIT_FLUSH_S = 10.0
"""Longest time that the interpreter waits at exit for the records of open producers, in seconds."""

_open: WeakSet[_Producer[Any, Any]] = WeakSet()


LAST = -1_000_000
"""Priority of a multiprocessing finalizer that runs after the finalizers of the program."""

_watched_pid: int | None = None
"""The process whose end flushes the open producers."""

_is_ending = False
"""Whether the interpreter runs its exit handlers, or has run them."""


def _flush_open() -> None:
    """Flush the open producers, and close those whose records are not acknowledged in time."""
    # After Ctrl+C, the program should end at once.
    is_interrupted = issubclass(getattr(sys, "last_type", None) or Exception, KeyboardInterrupt)
    deadline = time.monotonic() + (0 if is_interrupted else EXIT_FLUSH_S)
    for producer in list(_open):
        with suppress(KafkaError):
            if producer._outstanding():
                producer._flush().result(max(deadline - time.monotonic(), 0))
        if producer._outstanding():
            # The core logs how many records are lost.
            with suppress(KafkaError):
                producer._close_core(0)


@atexit.register
def _at_exit() -> None:
    # Exit handlers that were registered before the import of klamm run later, and may still use the open producers.
    global _is_ending  # noqa: PLW0603
    _is_ending = True
    _flush_open()


def _watch_end_of_process() -> None:
    """Flush the open producers also at the end of a child process of multiprocessing, which runs no exit handlers."""
    global _watched_pid  # noqa: PLW0603
    if _watched_pid == os.getpid():
        return
    _watched_pid = os.getpid()
    if (util := sys.modules.get("multiprocessing.util")) is not None:
        # A child process drops its finalizers when it starts, perhaps after it has imported the main module.
        util.register_after_fork(_watch_end_of_child, _watch_end_of_child)
        _watch_end_of_child()


def _watch_end_of_child(_: object = None) -> None:
    import multiprocessing
    from multiprocessing.util import Finalize

    # A child process that was spawned runs the exit handlers.
    if multiprocessing.parent_process() is not None and multiprocessing.get_start_method() != "spawn":
        Finalize(None, _end_child, exitpriority=LAST)


def _end_child() -> None:
    _flush_open()
    logs._end()


class _Producer(TransactionalProducer[K_contra, V_contra]):
    """The base class of `Producer` and `AsyncProducer`."""

    _hooks: Hooks
    _counts: dict[str, tuple[int, float]]

    def __new__(
        cls,
        bootstrap_servers: Bootstrap | None = None,
        *,
        key_serializer: Callable[[K_contra], Buffer | None] | None = None,
        value_serializer: Callable[[V_contra], Buffer | None] | None = None,
        on_delivery: Callable[[Delivery[RecordMetadata]], object] | None = None,
        interceptors: Sequence[Interceptor] = (),
        on_error: Callable[[Exception], object] | None = None,
        stats_cb: Callable[[str], object] | None = None,
        **config: Unpack[ProducerConfig],
    ) -> Self:
        bootstrap_servers, stats = pop_statistics_options(bootstrap_servers, stats_cb, config)
        # The core implements the partitioners that have a name. A partitioner that is a function is a hook.
        partitioner: Any = config.get("partitioner")
        if isinstance(bootstrap_servers, Mapping) and callable(bootstrap_servers.get("partitioner")):
            bootstrap_servers = dict(bootstrap_servers)
            dict_partitioner = bootstrap_servers.pop("partitioner")
            partitioner = dict_partitioner if partitioner is None else partitioner
        if callable(partitioner):
            config.pop("partitioner", None)
        else:
            partitioner = None
        hooks = Hooks.of(key_serializer, value_serializer, partitioner, on_delivery, interceptors)
        if hooks is None:
            self: Self = super().__new__(cls, bootstrap_servers, on_error=on_error, **config)
        else:
            self = super().__new__(
                hooked(cls, needs_records=hooks.needs_records),
                bootstrap_servers,
                on_error=on_error,
                on_delivery=hooks.on_delivery,
                delivery_interceptors=hooks.delivery_interceptors,
                **config,
            )
            self._hooks = hooks
            self._counts = {}
        _open.add(self)
        _watch_end_of_process()
        if stats is not None:
            stats.start(self, "producer")
        return self

    def metrics(self) -> ProducerMetrics:
        """Return a snapshot of the producer's metrics, with the names of the Java client.

        A closed producer returns its last values.
        """
        from klamm.metrics import ProducerMetrics

        return ProducerMetrics._of(self)

    async def _wait_for_room_async(self, done: int) -> None:
        """Wait for room in the buffer. `done` is the number of records that the bulk call has already sent."""
        raise NotImplementedError

    async def _send_all(
        self,
        topic: str,
        values: Iterable[V_contra | None],
        keys: Iterable[K_contra | None] | None,
        partition: int | None,
    ) -> None:
        values, keys = sequences(values, keys)
        done = 0
        await self._wait_for_earlier()
        while (done := self._send_values(topic, values, keys, partition, done)) < len(values):
            await self._wait_for_room_async(done)
        self._failures(False)

    async def _send_all_rows(self, topic: str | None, data: Any, typed: ValueFormat) -> int:
        if typed:
            return await self._send_typed_rows(topic, data, typed)
        rows = ArrowRows(data)
        await self._wait_for_earlier()
        while not self._send_rows(topic, rows):
            await self._wait_for_room_async(rows.sent)
        self._failures(False)
        return rows.sent

    async def _send_typed_rows(self, topic: str | None, data: Any, typed: ValueFormat) -> int:
        check_options("send_arrow", typed)
        from klamm.registry.columns.writing import TypedRows

        rows, sent = TypedRows(topic, data, typed), 0
        async with aclosing(rows.batches(is_async=isinstance(self, Asyncio))) as batches:
            async for name, batch in batches:
                sent += await self._send_all_rows(name, batch, {})
        return sent

    async def _flush_all(self, timeout: float | None) -> None:
        remaining = await self._drain_queue("flush", timeout)
        await self._wait(self._flush(), remaining)
        self._raise_failures()

    def _raise_failures(self) -> None:
        failures = self._failures(True)
        if failures:
            raise DeliveryError(sum(count for _, count in failures), [error for error, _ in failures])

    def _close_core(self, timeout: float | None, waited: float = 0) -> None:
        try:
            self._close(timeout, waited)
        except KafkaTimeoutError:
            self._failures(False)  # `on_error` gets the error of each record, and this method raises a single error
            raise
        self._raise_failures()

    async def _flush_and_close(self, timeout: float | None) -> None:
        self._close_core(timeout)

    async def _exit(self, kind: type[BaseException] | None) -> None:
        if kind is None:
            await self._flush_and_close(None)
            return
        # The producer still delivers its records. If the program is being stopped, the producer waits only for the
        # close timeout.
        timeout = None if issubclass(kind, Exception) else self._close_timeout
        with suppress(KafkaError):  # the exception that ends the block takes precedence
            await self._flush_and_close(await self._wait_for_transaction(timeout))

    async def _wait_for_transaction(self, timeout: float | None) -> float | None:
        """Wait for a transaction abort that an interrupt has started. Return the time that remains of the timeout."""
        if self._last_end is None or self._last_end.done():
            return timeout
        began = time.monotonic()
        try:
            with suppress(KafkaError):
                await self._wait(self._last_end, timeout)
        except BaseException:
            with suppress(KafkaError):
                self._close_core(0)
            raise
        return None if timeout is None else max(timeout - (time.monotonic() - began), 0)

    def __del__(self) -> None:
        # If the constructor raised, the number of outstanding records is 0.
        unsent = self._outstanding()
        if unsent and _is_ending:
            # A late exit handler has sent these records.
            with suppress(KafkaError):
                self._flush().result(EXIT_FLUSH_S)
        elif unsent:
            records = "1 record" if unsent == 1 else f"{unsent:,} records"
            warnings.warn(
                f"{self!r} was dropped with {records} in flight: flush or close it, or use `with`",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )


@hints_for_other_clients(PRODUCER, hot=HOT)
class Producer(BlockingTelemetry, Blocking, _Producer[K_contra, V_contra]):
    """Send records to Kafka. Any number of threads can share one producer.

    Keys and values are bytes-like objects or `None`. Serializers can turn other objects into bytes.

    Args:
        bootstrap_servers: Addresses of brokers, as `"host:port,host:port"` or as a list. A dict of Kafka's dotted
            configuration keys also works.
        key_serializer: Function that turns a key into bytes. klamm does not call the function for `None`.
        value_serializer: Function that turns a value into bytes. klamm does not call the function for `None`.
        on_delivery: Function that gets the completed Delivery of each record. klamm's I/O thread, or a thread that
            waits for a delivery, calls `on_delivery`. The function must be short and must not block.
        interceptors: Objects with the method `on_send(record)`, `on_delivery(delivery)` or both. `on_send` can return a
            changed record.
        on_error: Function that gets the error of a failed record if the program does not take the record's result:
            records of `send_nowait`, `send_many` and `send_arrow`, and records whose Delivery the program drops. A
            thread that uses the producer calls `on_error` for failed records. A separate thread calls `on_error` while
            the producer keeps retrying. For example, the producer cannot reach any broker, a broker refuses the
            credentials, or a topic is missing. The calls of the separate thread begin at once, and continue at growing
            intervals while the problem lasts. If you pass `error_cb`, the separate thread calls `error_cb` instead of
            `on_error`.
        stats_cb: Function that gets statistics as JSON text every `statistics_interval_ms`, as in librdkafka. A
            separate thread calls `stats_cb`.
        **config: Kafka's configuration keys in snake_case; see `klamm.config.ProducerConfig`. `partitioner` can also be
            a function with the arguments topic, key, value and number of partitions.

    Raises:
        ConfigError: A configuration value is invalid.
        ArgumentError: An argument has the wrong type.

    Example:
        with klamm.Producer("localhost:9092", linger_ms=5) as producer:
            delivery = producer.send("greetings", b"hello", key=b"world", headers=[("lang", b"en")])
            print(delivery.result(timeout=5).offset)
    """

    async def _wait_for_room_async(self, done: int) -> None:
        self._wait_for_room(done)

    def send_many(
        self,
        topic: str,
        values: Iterable[V_contra | None],
        keys: Iterable[K_contra | None] | None = None,
        partition: int | None = None,
    ) -> None:
        """Send many records in one call, which is faster than one call of `send` for each record.

        While the buffer is full, the call waits for room, for at most `max_block_ms`. `on_error` gets the errors of
        records that were not delivered, and `flush` raises these errors.

        Args:
            topic: Topic of all records.
            values: Values of the records.
            keys: Keys of the records, one for each value. By default, all keys are `None`.
            partition: Partition of all records. By default, the partitioner chooses a partition for each record.

        Raises:
            ArgumentError: A value or key is not bytes-like.
            ConfigError: The number of keys differs from the number of values.
            KafkaTimeoutError: The buffer had no room within `max_block_ms`.
            BufferFullError: The buffer is full, and `drop_when_full` is set.
        """
        run(self._send_all(topic, values, keys, partition))

    def send_arrow(self, topic: str | None, data: Any, **typed: Unpack[ValueFormat]) -> int:
        """Send each row of Arrow data as a record.

        The producer does not pass the rows to serializers, interceptors or `on_delivery`. `on_error` gets the errors
        of records that were not delivered, and `flush` raises these errors.

        Args:
            topic: Topic of all records, or `None` if the data has a column `topic`.
            data: Object with the method `__arrow_c_stream__` or `__arrow_c_array__`. Without a `value_format`, the data
                needs a column `value`. The columns `key`, `headers`, `timestamp`, `partition` and `topic` are optional.
            **typed: Arguments that say how to encode typed columns as keys and values, such as `value_format="avro"`
                and `registry`. `klamm.batches.ValueFormat` lists all arguments for typed columns. By default, klamm
                derives the schema from the column and registers the schema. If there is a `value_format` but no column
                `value`, all columns become fields of the value, except those that `record_columns` names.

        Returns:
            The number of rows sent.

        Raises:
            ArgumentError: `data` is not Arrow data, or a column has the wrong type.
            SchemaError: A column or a value does not fit the schema.
            KafkaTimeoutError: The buffer had no room within `max_block_ms`.
            BufferFullError: The buffer is full, and `drop_when_full` is set.
        """
        return run(self._send_all_rows(topic, data, typed))

    def flush(self, timeout: float | None = None) -> None:
        """Wait until each record sent so far is acknowledged or has failed.

        Args:
            timeout: Seconds to wait. `None` waits without limit. A record that is not acknowledged fails after
                `delivery_timeout_ms`.

        Raises:
            DeliveryError: Records failed, and the program has not received their errors. These are records of
                `send_nowait`, `send_many` and `send_arrow`, and records whose Delivery the program has dropped.
            KafkaTimeoutError: The timeout passed. The producer is still sending the records.
        """
        run(self._flush_all(timeout))

    def init_transactions(self, timeout: float | None = None) -> None:
        """End the open transaction of an earlier producer with the same `transactional_id`, and fence that producer.

        The first transaction calls `init_transactions` automatically. If a program reads committed offsets before its
        first transaction, it should call `init_transactions` before it reads the offsets. After a timeout, call
        `init_transactions` again to continue waiting.

        Args:
            timeout: Seconds to wait. `None` waits for at most `max_block_ms`.

        Raises:
            ConfigError: The producer has no `transactional_id`.
            KafkaTimeoutError: The transaction coordinator did not answer in time.
        """
        run(self._wait(self._start_transactions(), timeout))

    def transaction(
        self, consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any] | None = None
    ) -> Transaction[K_contra, V_contra]:
        """Return a transaction to use in a `with` statement.

        At the end of the `with` block, the transaction commits. If the block raises an exception, the transaction
        aborts.

        With a `consumer`, the transaction also commits the offset after the last record that the consumer returned from
        each partition. If the block calls `commit_offsets`, only those offsets are committed. If the transaction
        aborts, the consumer returns to the offsets of the last committed transaction, and reads the records again.
        Before the first committed transaction, the consumer returns to where it began to read. An abort also undoes the
        seeks of the block.

        The producer needs a `transactional_id`, and then sends records only inside transactions. The first transaction
        calls `init_transactions`.

        Args:
            consumer: A consumer with a group and `enable_auto_commit=False`. By default, the transaction commits no
                offsets.

        Raises:
            ArgumentError: `consumer` is not a Consumer.
            ConfigError: The consumer commits automatically or has no group.
        """
        return Transaction(self, consumer)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """Return the partition numbers of a topic.

        Args:
            topic: Name of the topic.
            timeout: Seconds to wait. The default is `default_api_timeout_ms`.

        Raises:
            KafkaTimeoutError: The brokers did not return metadata of the topic in time.
        """
        return self._partitions_for(topic).result(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Send the remaining records, and close the client. Closing a closed producer does nothing.

        Args:
            timeout: Seconds to wait for the records. The default is `default_close_timeout_ms`, which is 25 seconds.
                `math.inf` waits without limit.

        Raises:
            DeliveryError: Records failed, and the program has not received their errors; see `flush`.
            KafkaTimeoutError: The timeout passed before all records were acknowledged. The producer drops the remaining
                records. The message has the number of these records in each topic.
        """
        self._close_core(timeout)


@hints_for_other_clients(PRODUCER, hot=HOT)
@documented_by(Producer)
class AsyncProducer(AsyncTelemetry, Asyncio, _Producer[K_contra, V_contra]):
    """Send records to Kafka from an asyncio event loop.

    `AsyncProducer` has the same methods and arguments as `Producer`.

    The producer takes a record when you call `send`, not when you await the result of `send`. To wait for the
    acknowledgement, await the result. The call of `send` raises errors that klamm can detect at once, such as a wrong
    argument. Awaiting the result raises all later errors.

    Example:
        async with klamm.AsyncProducer("localhost:9092") as producer:
            metadata = await producer.send("greetings", b"hello")
    """

    _queue: SendQueue | None = None

    def send(  # type: ignore[override]  # noqa: PLR0917 - as Producer.send
        self,
        topic: str,
        value: V_contra | None = None,
        key: K_contra | None = None,
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        headers: HeadersLike | None = None,
    ) -> Awaitable[RecordMetadata]:
        """Send a record. Await the returned object to wait for the acknowledgement.

        While the buffer is full, the record waits in a send queue for at most `max_block_ms`. If the program cancels
        the awaitable, the producer removes a record that is still queued. The call raises errors that klamm can detect
        at once, even if the program never awaits the result. If no task awaits the result, `on_error`, `flush` and
        `close` report a later failure.

        Args:
            topic: Name of the topic.
            value: Value, as a bytes-like object. `None` sends a null value, which is a tombstone in a compacted topic.
            key: Key, as a bytes-like object. Records with equal keys go to the same partition.
            partition: Partition number. By default, the partitioner chooses the partition.
            timestamp_ms: Timestamp in milliseconds since 1970, or an aware datetime. The default is the current time.
            headers: Pairs of name and value, or a dict.

        Returns:
            An awaitable for the `RecordMetadata` of the acknowledgement.

        Raises:
            ArgumentError: An argument has the wrong type.
            BufferFullError: The buffer is full, and `drop_when_full` is set.
            ClosedError: The producer is closed.
        """
        if self._queue is None or not self._queue.has_records():
            try:
                return self._try_send(topic, value, key, partition, timestamp_ms, headers)
            except BufferFullError:
                if self._drops:
                    raise
        return self._current_queue().send(self, (topic, value, key, partition, timestamp_ms, headers))

    def _current_queue(self) -> SendQueue:
        """Return the send queue of the running event loop."""
        from klamm.send_queue import SendQueue

        if self._queue is None or not self._queue.is_of_running_loop():
            self._queue = SendQueue()
        return self._queue

    async def _drain_queue(self, what: str, timeout: float | None) -> float | None:
        waiting = [] if self._queue is None else self._queue.waiting()
        if not waiting:
            return timeout
        import asyncio

        timeout = seconds(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        _, late = await asyncio.wait(waiting, timeout=timeout)
        if late:
            raise KafkaTimeoutError(
                f"the {what} did not complete within {timeout} s:"
                f" {len(late):,} records are still queued, for room in the buffer or for their topic's partitions",
                hint="increase the timeout; the records are still being sent",
            )
        return None if deadline is None else max(deadline - time.monotonic(), 0)

    async def _flush_all(self, timeout: float | None) -> None:
        unacknowledged = [] if self._queue is None else self._queue.unacknowledged()
        remaining = await self._drain_queue("flush", timeout)
        await self._wait(self._flush(), remaining)
        await _end_of(unacknowledged)
        self._raise_failures()

    async def _wait_for_earlier(self) -> None:
        if self._queue is not None and self._queue.has_records():
            try:
                await self._drain_queue("wait for earlier records", self._max_block)
            except KafkaTimeoutError:
                raise self._room_timeout_error() from None

    def _fail_queued(self) -> None:
        for appended in [] if self._queue is None else self._queue.waiting():
            appended.set_exception(TransactionAbortedError("transaction was aborted"))

    async def _wait_for_room_async(self, done: int = 0) -> None:
        from klamm.send_queue import room_within

        if not await room_within(self, self._max_block, done):
            raise self._room_timeout_error()

    def send_nowait(  # type: ignore[override]  # noqa: PLR0917 - as Producer.send
        self,
        topic: str,
        value: V_contra | None = None,
        key: K_contra | None = None,
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        headers: HeadersLike | None = None,
    ) -> Delivery[RecordMetadata]:
        """Send a record, or raise at once if the buffer is full. The arguments are the same as those of `send`.

        Returns:
            A Delivery, which can be awaited. If the program drops the Delivery, `on_error`, `flush` and `close` report
            a failure of this record.

        Raises:
            BufferFullError: The buffer is full.
        """
        return self._try_send(topic, value, key, partition, timestamp_ms, headers)

    async def send_many(
        self,
        topic: str,
        values: Iterable[V_contra | None],
        keys: Iterable[K_contra | None] | None = None,
        partition: int | None = None,
    ) -> None:
        await self._send_all(topic, values, keys, partition)

    async def send_arrow(self, topic: str | None, data: Any, **typed: Unpack[ValueFormat]) -> int:
        return await self._send_all_rows(topic, data, typed)

    async def flush(self, timeout: float | None = None) -> None:
        await self._flush_all(timeout)

    async def init_transactions(self, timeout: float | None = None) -> None:
        await self._wait(self._start_transactions(), timeout)

    def transaction(
        self, consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any] | None = None
    ) -> AsyncTransaction[K_contra, V_contra]:
        """Return a transaction to use in an `async with` statement; see `Producer.transaction`."""
        return AsyncTransaction(self, consumer)

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        return await self._partitions_for(topic).within(timeout)

    async def close(self, timeout: float | None = None) -> None:
        await self._flush_and_close(timeout)

    async def _flush_and_close(self, timeout: float | None) -> None:
        import asyncio

        try:
            await self._flush_within(self._default_close_timeout if timeout is None else seconds(timeout))
        except asyncio.CancelledError:
            with suppress(KafkaError):
                self._close_core(0)
            raise

    async def _flush_within(self, timeout: float | None) -> None:
        queue_error: KafkaTimeoutError | None = None
        remaining = timeout
        unacknowledged = [] if self._queue is None else self._queue.unacknowledged()
        if (abort := self._abort_transaction()) is not None:
            self._fail_queued()
            began = time.monotonic()
            with suppress(KafkaError):  # if the abort fails, the broker ends the transaction after its timeout
                await abort.within(remaining)
            remaining = None if remaining is None else max(remaining - (time.monotonic() - began), 0)
        try:
            remaining = await self._drain_queue("flush before the close", remaining)
        except KafkaTimeoutError as error:
            queue_error, remaining = error, 0
        with suppress(KafkaTimeoutError):  # `_close_core` reports how many records are left
            if self._outstanding():
                await self._flush().within(remaining)
                await _end_of(unacknowledged)
        self._close_core(0, waited=timeout or 0)
        if queue_error is not None:
            raise queue_error


async def _end_of(futures: list[asyncio.Future[None]]) -> None:
    if futures:
        import asyncio

        await asyncio.wait(futures)
