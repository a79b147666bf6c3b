"""Reads the assigned partitions of a Kafka 0.7 group member, with a thread for each broker.

Each broker has its own thread, so that a slow broker does not delay other brokers. A thread fetches again when the
application has got all messages of the thread's last fetch. The module `group` manages the membership.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from klamm.errors import KafkaTimeoutError, NetworkError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from klamm._klamm import Message07
    from klamm.legacy.consumer import Consumer07

    Partition = tuple[str, int, int]  # topic, broker, partition

_EMPTY_BACKOFF = 0.1  # seconds to wait after a fetch without messages; the Java consumer waits 1 s
_ERROR_BACKOFF = 1.0  # seconds between attempts after an error
_JOIN_SECONDS = 0.5  # longest wait for a thread that is in the middle of a request


class GroupMessage(NamedTuple):
    """A message and its partition."""

    topic: str
    """Topic name."""
    broker: int
    """Number of the broker."""
    partition: int
    """Number of the partition on this broker."""
    message: Message07
    """The message."""

    @property
    def payload(self) -> bytes:
        """Return the bytes that the producer sent."""
        return self.message.payload


class Batch(list[GroupMessage]):
    """The messages of one `poll`. Knows how many messages the program has processed in its last loop over the batch."""

    processed = 0

    def __iter__(self) -> Iterator[GroupMessage]:
        for index, message in enumerate(super().__iter__()):
            self.processed = index  # the program asks for the next message, so it has processed the earlier ones
            yield message
        self.processed = len(self)


@dataclass(eq=False)
class Reader:
    """An assigned partition: where to fetch next, the offset to commit, and the offset that ZooKeeper has stored."""

    partition: Partition
    stream: int
    offset: int | None
    finished: int | None
    stored: int | None


class Readers:
    """The readers of the assigned partitions. The caller of any method except `close` must hold the lock."""

    def __init__(
        self,
        lock: Any,
        connect: Callable[[int], Consumer07],
        reset: int,
        on_reset: Callable[[Reader, int], None],
        timeout: float | None,
    ) -> None:
        self._lock = lock
        self._connect, self._reset, self._on_reset, self._timeout = connect, reset, on_reset, timeout
        self.changed = threading.Condition(lock)
        """Notified when messages or errors arrive, when `take` delivers messages, and when the assignment changes."""
        self.assigned: dict[Partition, Reader] = {}
        self._buffer: deque[tuple[Reader, GroupMessage]] = deque()
        self._buffered: Counter[int] = Counter()  # messages in the buffer, by broker
        self._last = Batch()
        self._last_offsets: list[tuple[Reader, int]] = []  # for each message of `_last`
        self._threads: dict[int, threading.Thread] = {}
        self._brokers: dict[int, Consumer07] = {}
        self._errors: dict[int, Exception] = {}
        self._is_closed = False

    def start(self, partitions: Iterable[tuple[Partition, int, int | None]]) -> None:
        """Start to read partitions. Each item has a partition, the number of its stream, and its committed offset."""
        for partition, stream, offset in partitions:
            self.assigned[partition] = Reader(partition, stream, offset, offset, offset)
            number = partition[1]
            if number not in self._threads:
                name = f"klamm-fetch-0.7-{number}"
                self._threads[number] = threading.Thread(target=self._run, args=(number,), name=name, daemon=True)
                self._threads[number].start()
        self.changed.notify_all()

    def stop(self, partitions: Iterable[Partition]) -> list[Reader]:
        """Stop reading partitions, drop their buffered messages, and return their readers."""
        stopped = [self.assigned.pop(partition) for partition in partitions if partition in self.assigned]
        self._buffer = deque(item for item in self._buffer if self._is_current(item[0]))
        self._buffered = Counter(reader.partition[1] for reader, _ in self._buffer)
        for number in self._errors.keys() - {partition[1] for partition in self.assigned}:
            del self._errors[number]
        self.changed.notify_all()
        return stopped

    def take(self, count: int) -> Batch:
        """Return the next messages. The returned messages count as finished after a call of `finish_last`."""
        self._last, self._last_offsets = Batch(), []
        while self._buffer and len(self._last) < count:
            reader, message = self._buffer.popleft()
            self._buffered[message.broker] -= 1
            self._last.append(message)
            inner = message.message
            is_last = inner.index + 1 == inner.count
            self._last_offsets.append((reader, inner.next_offset if is_last else inner.offset))
        if self._last:
            self.changed.notify_all()
        return self._last

    def finish_last(self, *, only_processed: bool = False) -> None:
        """Count the messages of the last `take` as finished, or only those that the program's loop has processed."""
        for reader, offset in self._last_offsets[: self._last.processed if only_processed else None]:
            if self._is_current(reader):
                reader.finished = offset
        self._last, self._last_offsets = Batch(), []

    def raise_error(self) -> None:
        """Raise an error that has occurred since the last call of this method, if there is one."""
        if self._errors:
            raise self._errors.pop(next(iter(self._errors)))

    def close(self) -> None:
        """Stop all threads, and abort their requests in flight."""
        with self._lock:
            self._is_closed = True
            self.changed.notify_all()
            brokers, threads = list(self._brokers.values()), list(self._threads.values())
        for broker in brokers:
            broker.abort()
        deadline = time.monotonic() + _JOIN_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _is_current(self, reader: Reader) -> bool:
        return self.assigned.get(reader.partition) is reader

    # The thread of a broker.

    def _run(self, number: int) -> None:
        failing_since, report_at = None, 0.0
        while readers := self._next(number):
            start = time.monotonic()
            try:
                pause = 0.0 if self._fetch(number, readers) else _EMPTY_BACKOFF
                failing_since = None
            except (NetworkError, KafkaTimeoutError) as error:
                # If a broker dies, ZooKeeper soon drops its registration, and the group no longer assigns its
                # partitions.
                self._drop(number)
                pause, now = _ERROR_BACKOFF, time.monotonic()
                failing_since = start if failing_since is None else failing_since
                if self._timeout is not None and now - failing_since >= self._timeout and now >= report_at:
                    report_at = now + self._timeout
                    self._report(number, error)
            except Exception as error:  # noqa: BLE001 - `poll` raises the error
                pause = _ERROR_BACKOFF
                self._report(number, error)
            self._sleep(pause)
        self._drop(number)

    def _next(self, number: int) -> list[Reader]:
        """Wait until no messages of a broker are buffered.

        Return the broker's readers, or an empty list to end the thread.
        """
        with self._lock:
            while self._buffered[number] > 0 and not self._is_closed:
                self.changed.wait()
            readers = [] if self._is_closed else [r for r in self.assigned.values() if r.partition[1] == number]
            if not readers:
                del self._threads[number]
            return readers

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._lock:
            while not self._is_closed and (left := deadline - time.monotonic()) > 0:
                self.changed.wait(left)

    def _report(self, number: int, error: Exception) -> None:
        with self._lock:
            if any(partition[1] == number for partition in self.assigned) and not self._is_closed:
                self._errors[number] = error
                self.changed.notify_all()

    def _drop(self, number: int) -> None:
        with self._lock:
            broker = self._brokers.pop(number, None)
        if broker is not None:
            broker.close()

    def _broker(self, number: int) -> Consumer07:
        broker = self._brokers.get(number)
        if broker is None:
            broker = self._connect(number)
            with self._lock:
                self._brokers[number] = broker
                if self._is_closed:
                    broker.abort()
        return broker

    def _fetch(self, number: int, readers: list[Reader]) -> bool:
        """Send one fetch request, and return whether any message arrived."""
        broker = self._broker(number)
        for reader in readers:
            if reader.offset is None:
                self._reset_offset(broker, reader)
        positions = [(reader.partition[0], reader.partition[2], reader.offset or 0) for reader in readers]
        try:
            fetched = broker.multi_fetch(positions)
        except OffsetOutOfRangeError:
            # Find the partitions whose offset is out of range. The next fetch then includes all partitions again.
            for reader, position in zip(readers, positions, strict=True):
                try:
                    broker.fetch(*position)
                except OffsetOutOfRangeError:
                    self._reset_offset(broker, reader)
            return False
        any_arrived = False
        with self._lock:
            for reader, (messages, next_offset) in zip(readers, fetched, strict=True):
                topic, _, partition = reader.partition
                if not self._is_current(reader) or next_offset == reader.offset:
                    continue
                reader.offset = next_offset
                any_arrived = True
                self._buffer.extend((reader, GroupMessage(topic, number, partition, message)) for message in messages)
                self._buffered[number] += len(messages)
            if any_arrived:
                self.changed.notify_all()
        return any_arrived

    def _reset_offset(self, broker: Consumer07, reader: Reader) -> None:
        topic, _, partition = reader.partition
        offsets = broker.offsets(topic, partition, self._reset)
        offset = offsets[0] if offsets else 0
        with self._lock:
            if self._is_current(reader):
                reader.offset = reader.finished = offset
                self._on_reset(reader, offset)
