"""Records of an `AsyncProducer` that could not be appended at once: the buffer was full, or their partition was not known.

One task appends them in the order of their calls and waits for room on behalf of all of them; none waits longer than
`max_block_ms` from its call on. The core knows nothing of them yet, so whatever promises something of "every record sent so
far" waits for the line first.
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

    from klamm._klamm import Pending, RecordMetadata
    from klamm.producer import AsyncProducer

Place: TypeAlias = "asyncio.Future[Pending[RecordMetadata]]"
"""A place in the line; its result is the Delivery of the record, once that is appended."""

Unplaced: TypeAlias = "tuple[Place, float, Callable[[float], Awaitable[Sequence[Any]]]]"
"""A record whose partition is not known yet: its place, until when it may wait, and what finds it."""

AT_ONCE = 256
"""Records that are appended before the tasks of the program have their turn, so that a long line does not hold the loop."""


class Line:
    """The line of one producer on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._places: set[Place] = set()
        self._queue: deque[tuple[Place, float, Sequence[Any]]] = deque()
        self._appending: asyncio.Task[None] | None = None
        # By topic, with the task that finds their partitions: one after the other, as they were sent.
        self._unplaced: dict[str, tuple[deque[Unplaced], asyncio.Task[None]]] = {}

    def is_here(self) -> bool:
        """Whether it is of the loop that runs now."""
        return self._loop is asyncio.get_running_loop()

    def is_queued(self) -> bool:
        """Whether a record is to queue up behind others."""
        return bool(self._queue) and self.is_here()

    def send(self, producer: AsyncProducer, record: Sequence[Any]) -> asyncio.Task[RecordMetadata]:
        """Queue a record up; the task is its acknowledgement."""
        place, until = self._join(producer)
        self._enqueue(producer, place, until, record)
        return self._acknowledgement(place)

    def is_finding(self, topic: str) -> bool:
        """Whether records of a topic wait for their partitions, which later ones must not overtake."""
        return topic in self._unplaced and self.is_here()

    def send_later(
        self, producer: AsyncProducer, topic: str, find: Callable[[float], Awaitable[Sequence[Any]]]
    ) -> asyncio.Task[RecordMetadata]:
        """Queue a record up that `find` gives, within the seconds that it is called with."""
        place, until = self._join(producer)
        if topic not in self._unplaced:
            records: deque[Unplaced] = deque()
            self._unplaced[topic] = records, self._loop.create_task(self._find(producer, topic, records))
        self._unplaced[topic][0].append((place, until, find))
        place.add_done_callback(lambda _: self._end_unwanted(topic))
        return self._acknowledgement(place)

    def waiting(self) -> list[Place]:
        """Return the places of the records that are not appended yet."""
        return [place for place in self._places if not place.done()] if self.is_here() else []

    def _join(self, producer: AsyncProducer) -> tuple[Place, float]:
        place: Place = self._loop.create_future()
        self._places.add(place)
        place.add_done_callback(self._places.discard)
        return place, time.monotonic() + producer._max_block  # noqa: SLF001

    def _enqueue(self, producer: AsyncProducer, place: Place, until: float, record: Sequence[Any]) -> None:
        self._queue.append((place, until, record))
        if self._appending is None:
            self._appending = self._loop.create_task(self._append(producer))

    def _acknowledgement(self, place: Place) -> asyncio.Task[RecordMetadata]:
        async def acknowledged() -> RecordMetadata:
            return await (await place)

        task = _Acknowledgement(acknowledged(), loop=self._loop)
        task.add_done_callback(lambda _: place.cancel())  # not in the task: one that is cancelled early never runs
        return task

    async def _find(self, producer: AsyncProducer, topic: str, records: deque[Unplaced]) -> None:
        try:
            while records:
                place, until, find = records[0]
                if not place.done():
                    try:
                        record = await find(max(until - time.monotonic(), 0))
                    except Exception as error:  # noqa: BLE001 - whoever awaits the record hears of it
                        _refuse(producer, place, error)
                    else:
                        self._enqueue(producer, place, until, record)
                records.popleft()
        finally:
            if self._unplaced.get(topic, (None,))[0] is records:
                del self._unplaced[topic]
            for place, _, _ in records:
                place.cancel()

    def _end_unwanted(self, topic: str) -> None:
        """End the search for the partitions of a topic if nobody waits for it any more."""
        records, finding = self._unplaced.get(topic, ((), None))
        if finding is not None and all(place.done() for place, _, _ in records):
            del self._unplaced[topic]  # at once: what is sent from now on begins anew
            finding.cancel()

    async def _append(self, producer: AsyncProducer) -> None:
        done = 0
        try:
            while self._queue:
                await _append_one(producer, *self._queue[0])
                self._queue.popleft()
                done += 1
                if done % AT_ONCE == 0:
                    await asyncio.sleep(0)
        finally:
            self._appending = None
            for place, _, _ in self._queue:
                place.cancel()
            self._queue.clear()


class _Acknowledgement(asyncio.Task["RecordMetadata"]):
    """A task that is a coroutine, too, as a Delivery is: `asyncio.create_task(producer.send(...))` may get either."""

    def send(self, _value: None) -> _Acknowledgement:
        if self.done():
            raise StopIteration(self.result())
        self._asyncio_future_blocking = True
        return self

    def throw(self, error: BaseException, *_more: object) -> NoReturn:
        raise error

    def close(self) -> None:
        """Do nothing: the record is on its way."""


async def _append_one(producer: AsyncProducer, place: Place, until: float, record: Sequence[Any]) -> None:
    try:
        while not place.done():
            try:
                place.set_result(producer._try_send(*record))  # noqa: SLF001
            except BufferFullError:
                has_room = await producer._room_within(max(until - time.monotonic(), 0))  # noqa: SLF001
                # Nobody waits for a place that is done, so that it says nothing of the transaction that is open now.
                if not has_room and not place.done():
                    raise producer._no_room() from None  # noqa: SLF001
    except Exception as error:  # noqa: BLE001 - whoever awaits the record hears of it
        _refuse(producer, place, error)


def _refuse(producer: AsyncProducer, place: Place, error: Exception) -> None:
    """Fail a record, and with it the transaction, whose commit may have been called already."""
    if not place.done():
        producer._fail_transaction(str(error))  # noqa: SLF001
        place.set_exception(error)
