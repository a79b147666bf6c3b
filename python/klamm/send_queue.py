"""The send queue of an `AsyncProducer`, for records that the producer cannot append to a batch at once.

The producer queues a record while the buffer is full, or while it does not know the number of partitions of the topic.
One task waits for room and appends the queued records to batches, in the order of the calls of `send`. No record stays
in the queue longer than `max_block_ms`.

The core does not know the records in the send queue. Methods that cover "all records sent so far", such as `flush`,
therefore first wait until the queue is empty. `klamm.producer` decides which records to queue.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

from klamm.errors import BufferFullError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import NoReturn

    from klamm._klamm import Pending, ProducerCore, RecordMetadata

Appended: TypeAlias = "asyncio.Future[Pending[RecordMetadata]]"
"""Future of a queued record. When the record is appended to a batch, the future's result is the record's Delivery."""

Unpartitioned: TypeAlias = "tuple[Appended, float, Callable[[float], Awaitable[Sequence[Any]]]]"
"""A record without a partition, as a tuple.

The tuple has a future, a deadline, and a function that returns the record with a partition.
"""

APPENDS_PER_TURN = 256
"""Maximum number of records to append before other tasks run, so that a long queue does not block the event loop."""


class SendQueue:
    """The send queue of one producer on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: set[Appended] = set()
        self._unacknowledged: set[asyncio.Future[None]] = set()
        self._queue: deque[tuple[Appended, float, Sequence[Any]]] = deque()
        self._appending: asyncio.Task[None] | None = None
        # For each topic, the records in send order, and the task that finds the records' partitions one after the
        # other.
        self._unpartitioned: dict[str, tuple[deque[Unpartitioned], asyncio.Task[None]]] = {}

    def is_of_running_loop(self) -> bool:
        """Return whether this queue belongs to the running event loop."""
        return self._loop is asyncio.get_running_loop()

    def has_records(self) -> bool:
        """Return whether records wait in the queue. If records wait, the producer must also queue each new record."""
        return bool(self._queue) and self.is_of_running_loop()

    def send(self, producer: ProducerCore[Any, Any], record: Sequence[Any]) -> asyncio.Task[RecordMetadata]:
        """Queue a record, and return a task that ends with the record's acknowledgement."""
        appended, deadline = self._add(producer)
        self._enqueue(producer, appended, deadline, record)
        return self._acknowledgement(producer, appended)

    def is_partitioning(self, topic: str) -> bool:
        """Return whether records of a topic wait for their partitions.

        Later records of the topic must not overtake the waiting records.
        """
        return topic in self._unpartitioned and self.is_of_running_loop()

    def send_unpartitioned(
        self, producer: ProducerCore[Any, Any], topic: str, find: Callable[[float], Awaitable[Sequence[Any]]]
    ) -> asyncio.Task[RecordMetadata]:
        """Queue the record that `find(timeout)` returns. Return a task that ends with the record's acknowledgement."""
        appended, deadline = self._add(producer)
        if topic not in self._unpartitioned:
            records: deque[Unpartitioned] = deque()
            self._unpartitioned[topic] = records, self._loop.create_task(self._find(producer, topic, records))
        self._unpartitioned[topic][0].append((appended, deadline, find))
        appended.add_done_callback(lambda _: self._stop_unneeded_search(topic))
        return self._acknowledgement(producer, appended)

    def waiting(self) -> list[Appended]:
        """Return the futures of the records that are not appended to a batch yet."""
        return [each for each in self._waiting if not each.done()] if self.is_of_running_loop() else []

    def unacknowledged(self) -> list[asyncio.Future[None]]:
        """Return futures that end after the tasks of queued records. The futures do not keep the tasks alive."""
        return list(self._unacknowledged) if self.is_of_running_loop() else []

    def _add(self, producer: ProducerCore[Any, Any]) -> tuple[Appended, float]:
        appended: Appended = self._loop.create_future()
        self._waiting.add(appended)
        appended.add_done_callback(self._waiting.discard)
        return appended, time.monotonic() + producer._max_block

    def _enqueue(
        self, producer: ProducerCore[Any, Any], appended: Appended, deadline: float, record: Sequence[Any]
    ) -> None:
        self._queue.append((appended, deadline, record))
        if self._appending is None:
            self._appending = self._loop.create_task(self._append(producer))

    def _acknowledgement(self, producer: ProducerCore[Any, Any], appended: Appended) -> asyncio.Task[RecordMetadata]:
        async def acknowledged() -> RecordMetadata:
            return await (await appended)

        task = _Acknowledgement(acknowledged(), loop=self._loop)
        task.producer = producer
        ended: asyncio.Future[None] = self._loop.create_future()
        self._unacknowledged.add(ended)
        ended.add_done_callback(self._unacknowledged.discard)

        def end(_: object) -> None:
            # The coroutine cannot cancel the future, because a task that is cancelled before its first step never runs
            # its coroutine.
            appended.cancel()
            ended.set_result(None)

        task.add_done_callback(end)
        return task

    async def _find(self, producer: ProducerCore[Any, Any], topic: str, records: deque[Unpartitioned]) -> None:
        try:
            while records:
                appended, deadline, find = records[0]
                if not appended.done():
                    try:
                        record = await find(max(deadline - time.monotonic(), 0))
                    except Exception as error:  # noqa: BLE001 - the program that awaits the record gets the error
                        _fail(producer, appended, error)
                    else:
                        self._enqueue(producer, appended, deadline, record)
                records.popleft()
        finally:
            if self._unpartitioned.get(topic, (None,))[0] is records:
                del self._unpartitioned[topic]
            for appended, _, _ in records:
                appended.cancel()

    def _stop_unneeded_search(self, topic: str) -> None:
        """Cancel the search for a topic's partitions if no record waits for the result any more."""
        records, finding = self._unpartitioned.get(topic, ((), None))
        if finding is not None and all(appended.done() for appended, _, _ in records):
            del self._unpartitioned[topic]  # at once, so that the next record starts a new search
            finding.cancel()

    async def _append(self, producer: ProducerCore[Any, Any]) -> None:
        done = 0
        try:
            while self._queue:
                await _append_one(producer, *self._queue[0])
                self._queue.popleft()
                done += 1
                if done % APPENDS_PER_TURN == 0:
                    await asyncio.sleep(0)
        finally:
            self._appending = None
            for appended, _, _ in self._queue:
                appended.cancel()
            self._queue.clear()


class _Acknowledgement(asyncio.Task["RecordMetadata"]):
    """A task that is also a coroutine, as a Delivery is, so that `asyncio.create_task(producer.send(...))` works."""

    producer: ProducerCore[Any, Any]

    def send(self, _value: None) -> _Acknowledgement:
        if self.done():
            raise StopIteration(self.result())
        self._asyncio_future_blocking = True
        return self

    def throw(self, error: BaseException, *_more: object) -> NoReturn:
        raise error

    def close(self) -> None:
        """Do nothing, because the record is already queued."""

    def __del__(self) -> None:
        # If no task has taken the exception, the producer reports the exception instead of the event loop.
        if self._log_traceback and self.producer._note_failure(self._exception):
            self._log_traceback = False
        super().__del__()


async def room_within(producer: ProducerCore[Any, Any], timeout: float, done: int = 0) -> bool:
    """Wait for room in the buffer for at most `timeout` seconds, and return whether there is room."""
    if (pause := producer._pause()) is None:
        return await producer._room_future(done, timeout)
    if not await producer._room_future(done, min(pause, timeout)):
        producer._run_ahead()
    return True


async def _append_one(
    producer: ProducerCore[Any, Any], appended: Appended, deadline: float, record: Sequence[Any]
) -> None:
    try:
        while not appended.done():
            try:
                appended.set_result(producer._try_send(*record))
            except BufferFullError:
                has_room = await room_within(producer, max(deadline - time.monotonic(), 0))
                # A record that was cancelled meanwhile must not fail the current transaction.
                if not has_room and not appended.done():
                    raise producer._room_timeout_error() from None
    except Exception as error:  # noqa: BLE001 - the program that awaits the record gets the error
        _fail(producer, appended, error)


def _fail(producer: ProducerCore[Any, Any], appended: Appended, error: Exception) -> None:
    """Fail a record and the record's transaction. A commit of the record's transaction may already be running."""
    if not appended.done():
        producer._fail_transaction(str(error))
        appended.set_exception(error)
