"""The producers.

`send` and `send_nowait` of the blocking one come from the core as they are; the rest of the two classes is built of the
same pieces, and differs in how it waits.
"""

from __future__ import annotations

import atexit
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from klamm._klamm import ArrowRows, Pending, ProducerCore
from klamm.arguments import seconds
from klamm.errors import BufferFullError, KafkaError, KafkaTimeoutError, TransactionAbortedError
from klamm.hooks import Hooks, hooked, sequences
from klamm.transaction import AsyncTransaction, Transaction

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import datetime
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from klamm._klamm import Buffer, RecordMetadata
    from klamm.config import Bootstrap, ProducerConfig
    from klamm.hooks import Interceptor, Serializer
    from klamm.metrics import ProducerMetrics
    from klamm.record import HeadersLike
    from klamm.send_queue import SendQueue

__all__ = ["AsyncProducer", "Delivery", "Producer"]

Delivery = Pending
"""What `send` returns: `.result(timeout)` waits for the `RecordMetadata` of the acknowledgement, and so does `await`."""


EXIT_FLUSH_S = 10.0
"""How long the end of the interpreter waits for records of producers that nobody closed, all together."""

_open: WeakSet[_Producer] = WeakSet()


def _records_were(count: int) -> str:
    return "1 record was" if count == 1 else f"{count:,} records were"


@atexit.register
def _end_all() -> None:
    # Whoever pressed Ctrl+C wants the program to end.
    is_stopped = issubclass(getattr(sys, "last_type", None) or Exception, KeyboardInterrupt)
    deadline = time.monotonic() + (0 if is_stopped else EXIT_FLUSH_S)
    for producer in list(_open):
        with suppress(KafkaError, ExceptionGroup):
            if producer._outstanding():  # noqa: SLF001
                producer._flush().result(max(deadline - time.monotonic(), 0))  # noqa: SLF001
        left = producer._outstanding()  # noqa: SLF001
        if left and not is_stopped:
            print(f"{producer!r}: {_records_were(left)} lost at the end of the program", file=sys.stderr)  # noqa: T201
        with suppress(KafkaError, ExceptionGroup):
            producer._end(0)  # noqa: SLF001


class _Producer(ProducerCore):
    """What both producers are made of."""

    _hooks: Hooks
    _counts: dict[str, tuple[int, float]]
    _last_end: Pending[None] | None = None
    """The end of a transaction that was asked for last."""
    _last_start: Pending[None] | None = None
    """The start of transactions that was asked for last."""

    def _start_transactions(self) -> Pending[None]:
        # Whoever waited in vain, or was interrupted, waits on with the next call.
        if self._last_start is None or self._last_start.done():
            self._last_start = self._init_transactions()
        return self._last_start

    def __new__(
        cls,
        bootstrap_servers: Bootstrap | None = None,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        on_delivery: Callable[[Delivery[RecordMetadata]], object] | None = None,
        interceptors: Sequence[Interceptor] = (),
        on_error: Callable[[Exception], object] | None = None,
        **config: Unpack[ProducerConfig],
    ) -> Self:
        # The extension knows its partitioners by name; a function is a hook.
        chooses: Any = config.get("partitioner")
        if isinstance(bootstrap_servers, Mapping) and callable(bootstrap_servers.get("partitioner")):
            bootstrap_servers = dict(bootstrap_servers)
            dotted = bootstrap_servers.pop("partitioner")
            chooses = dotted if chooses is None else chooses
        if callable(chooses):
            config.pop("partitioner", None)
        else:
            chooses = None
        hooks = Hooks.of(key_serializer, value_serializer, chooses, on_delivery, interceptors)
        kind: type[Self] = cls if hooks is None else hooked(cls)  # type: ignore[arg-type]
        self: Self = super().__new__(kind, bootstrap_servers, on_error=on_error, **config)
        if hooks is not None:
            self._hooks = hooks
            self._counts = {}
        _open.add(self)
        return self

    def metrics(self) -> ProducerMetrics:
        """Return what was counted since the producer was made, by topic and by broker; after `close` the last figures."""
        from klamm.metrics import of_producer

        return of_producer(self)

    def _raise_failures(self) -> None:
        failures = self._failures(True)
        if failures:
            lost = _records_were(sum(count for _, count in failures))
            raise ExceptionGroup(f"{lost} not delivered", [error for error, _ in failures])

    def _end(self, timeout: float | None, waited: float = 0) -> None:
        try:
            self._close(timeout, waited)
        except KafkaTimeoutError:
            self._failures(False)  # `on_error` hears of every record, here they are one error
            raise
        self._raise_failures()

    def __del__(self) -> None:
        # A constructor that raised has made no core.
        left = self._outstanding()
        if left:
            warnings.warn(
                f"{self!r} was dropped with {left:,} records under way: flush or close it, or use `with`",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )


class Producer(_Producer):
    """Sends records, and waits where it has to. Any number of threads may share one.

        with klamm.Producer("localhost:9092", linger_ms=5) as producer:
            delivery = producer.send("greetings", b"hello", key=b"world", headers=[("lang", b"en")])
            print(delivery.result(timeout=5).offset)

    The first argument says where the brokers are, or is a dict of Kafka's dotted keys; keywords are the same keys in
    snake_case (`klamm.config.ProducerConfig`). `on_error` is called, in a thread that uses the producer, with what went
    wrong with records nobody waits for.

    Keys and values are bytes-like. `key_serializer` and `value_serializer` make them of anything else (null stays null).
    `partitioner` is the name of one, or a function of topic, key, value and number of partitions. `on_delivery` is called
    with each record's Delivery when its outcome is there, in klamm's I/O thread or one that waits for a delivery, so it must
    be short and wait for nothing; `interceptors` are objects with `on_send`, which may change a record, and `on_delivery`.
    """

    def send_many(
        self,
        topic: str,
        values: Iterable[Buffer | None],
        keys: Iterable[Buffer | None] | None = None,
        partition: int | None = None,
    ) -> None:
        """Send many records in one call; what goes wrong reaches `on_error` and `flush`."""
        values, keys = sequences(values, keys)
        done = 0
        while (done := self._send_values(topic, values, keys, partition, done)) < len(values):
            self._wait_for_room(done)
        self._failures(False)

    def send_arrow(self, topic: str | None, data: Any) -> int:
        """Send the rows of Arrow data, and return how many; what goes wrong reaches `on_error` and `flush`.

        `data` is anything with `__arrow_c_stream__` or `__arrow_c_array__`. Its columns are `value` and, if wanted, `key`,
        `headers`, `timestamp`, `partition` and, for a topic of None, `topic`.
        """
        rows = ArrowRows(data)
        while not self._send_rows(topic, rows):
            self._wait_for_room(rows.sent)
        self._failures(False)
        return rows.sent

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent so far has its outcome; raise an ExceptionGroup of what failed unseen."""
        self._flush().result(timeout)
        self._raise_failures()

    def init_transactions(self, timeout: float | None = None) -> None:
        """Settle what an earlier producer of the same `transactional_id` left open, and fence it.

        The first transaction does it by itself; a program that reads the offsets it committed calls this before. When the
        timeout is over, call it again to wait on.
        """
        self._start_transactions().result(timeout)

    def transaction(self) -> Transaction:
        """Return a transaction for a `with`: it begins there, commits at the end, and aborts on an exception.

        The producer needs a `transactional_id`, and sends nothing outside of transactions. The first one waits until the
        brokers have settled what an earlier producer of the same id left open, at most `max_block_ms`, and fences it.
        """
        return Transaction(self)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """Return the partitions of a topic."""
        return self._partitions_for(topic).result(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Flush, at most for the timeout, and end the client. Closing twice does nothing."""
        self._end(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            _give_up(self, kind)


class AsyncProducer(_Producer):
    """Sends records on an asyncio event loop: the methods of `Producer`, awaited where those wait.

        async with klamm.AsyncProducer("localhost:9092") as producer:
            metadata = await producer.send("greetings", b"hello")

    A record is on its way when `send` returns; `await` waits for its acknowledgement, then or later. What is wrong with a record
    or its arguments so that it cannot be sent is raised by the call; what becomes of it later, by the `await`.
    """

    _queue: SendQueue | None = None

    def send(  # type: ignore[override]  # noqa: PLR0917 - as Producer.send
        self,
        topic: str,
        value: Buffer | None = None,
        key: Buffer | None = None,
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        headers: HeadersLike | None = None,
    ) -> Awaitable[RecordMetadata]:
        """Send a record; await what is returned for its acknowledgement.

        While the buffer is full, it waits its turn, at most `max_block_ms` from the call on. A wait that is cancelled before
        takes the record out of the line.

        An error that can be told at once is raised here, so that no record is lost whose acknowledgement nobody awaits.
        """
        if self._queue is None or not self._queue.has_records():
            try:
                return self._try_send(topic, value, key, partition, timestamp_ms, headers)
            except BufferFullError:
                if self._drops:
                    raise
        return self._current_queue().send(self, (topic, value, key, partition, timestamp_ms, headers))

    def _current_queue(self) -> SendQueue:
        """Return the line of the loop that runs now."""
        from klamm.send_queue import SendQueue

        if self._queue is None or not self._queue.is_of_running_loop():
            self._queue = SendQueue()
        return self._queue

    async def _drain_queue(self, what: str, timeout: float | None) -> float | None:
        """Wait until the records in line are appended or have failed; return how much of the timeout is left."""
        waiting = [] if self._queue is None else self._queue.waiting()
        if not waiting:
            return timeout
        import asyncio

        timeout = seconds(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        _, late = await asyncio.wait(waiting, timeout=timeout)
        if late:
            raise KafkaTimeoutError(
                f"no {what} within {timeout} s: {len(late):,} records waited for room in the buffer, or for their topic",
                hint="wait longer; they are sent still",
            )
        return None if end is None else max(end - time.monotonic(), 0)

    async def _wait_for_earlier(self) -> None:
        """Wait until the records that queued up before are appended, so that a bulk call does not overtake them."""
        if self._queue is not None and self._queue.has_records():
            try:
                await self._drain_queue("room in the buffer", self._max_block)
            except KafkaTimeoutError:
                raise self._no_room() from None

    def _fail_queued(self) -> None:
        """Fail the records in line: they are of a transaction that is aborted."""
        for place in [] if self._queue is None else self._queue.waiting():
            place.set_exception(TransactionAbortedError("transaction was aborted"))

    async def _for_room(self, done: int = 0) -> None:
        from klamm.send_queue import room_within

        if not await room_within(self, self._max_block, done):
            raise self._no_room()

    def send_nowait(  # type: ignore[override]  # noqa: PLR0917 - as Producer.send
        self,
        topic: str,
        value: Buffer | None = None,
        key: Buffer | None = None,
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        headers: HeadersLike | None = None,
    ) -> Delivery[RecordMetadata]:
        """Send a record without waiting for anything; raise BufferFullError when the buffer is full.

        The Delivery returned may be awaited, now or later. It alone tells of a failure: nothing of this record reaches
        `on_error` or `flush`.
        """
        return self._try_send(topic, value, key, partition, timestamp_ms, headers)

    async def send_many(
        self,
        topic: str,
        values: Iterable[Buffer | None],
        keys: Iterable[Buffer | None] | None = None,
        partition: int | None = None,
    ) -> None:
        """Send many records in one call; what goes wrong reaches `on_error` and `flush`."""
        values, keys = sequences(values, keys)
        done = 0
        await self._wait_for_earlier()
        while (done := self._send_values(topic, values, keys, partition, done)) < len(values):
            await self._for_room(done)
        self._failures(False)

    async def send_arrow(self, topic: str | None, data: Any) -> int:
        """Send the rows of Arrow data, and return how many, as `Producer.send_arrow`."""
        rows = ArrowRows(data)
        await self._wait_for_earlier()
        while not self._send_rows(topic, rows):
            await self._for_room(rows.sent)
        self._failures(False)
        return rows.sent

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent so far has its outcome; raise an ExceptionGroup of what failed unseen."""
        left = await self._drain_queue("end of the flush", timeout)
        await self._flush().within(left)
        self._raise_failures()

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Settle what an earlier producer of the same `transactional_id` left open, as `Producer.init_transactions`."""
        await self._start_transactions().within(timeout)

    def transaction(self) -> AsyncTransaction:
        """Return a transaction for an `async with`, as `Producer.transaction`."""
        return AsyncTransaction(self)

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """Return the partitions of a topic."""
        return await self._partitions_for(topic).within(timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Flush, at most for the timeout, and end the client. Closing twice does nothing."""
        in_line: KafkaTimeoutError | None = None
        left = timeout = seconds(timeout)
        if (abort := self._abort_transaction()) is not None:
            self._fail_queued()
            begun = time.monotonic()
            with suppress(KafkaError):  # an abort that fails leaves nothing to do, and the broker ends the transaction
                await abort.within(left)
            left = None if left is None else max(left - (time.monotonic() - begun), 0)
        try:
            left = await self._drain_queue("end of the flush before the close", left)
        except KafkaTimeoutError as error:
            in_line, left = error, 0
        with suppress(KafkaTimeoutError):  # the end says how many are left
            if self._outstanding():
                await self._flush().within(left)
        self._end(0, waited=timeout or 0)
        if in_line is not None:
            raise in_line

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        elif issubclass(kind, Exception):
            with suppress(KafkaError, ExceptionGroup):  # the exception that is under way is the news
                await self.close()
        else:
            _give_up(self, kind)


def _give_up(producer: _Producer, kind: type[BaseException]) -> None:
    """Close after an exception: what was sent still goes out, unless the program is being stopped."""
    with suppress(KafkaError, ExceptionGroup):  # the exception that is under way is the news
        producer._end(None if issubclass(kind, Exception) else 0)  # noqa: SLF001
