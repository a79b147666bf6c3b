"""`GroupConsumer07`: a member of a group of Kafka 0.7, which ZooKeeper holds together."""

from __future__ import annotations

import os
import queue
import re
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from klamm._klamm import ZooKeeperMember
from klamm.errors import (
    ClosedError,
    ConfigError,
    ForkedClientError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    OffsetOutOfRangeError,
)
from klamm.legacy.connection import seconds
from klamm.legacy.consumer import EARLIEST, LATEST, Consumer07
from klamm.legacy.zookeeper import SESSION_TIMEOUT, connect, create, parse_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from klamm._klamm import Message07

    Place = tuple[str, int, int]

_RESETS = {"earliest": EARLIEST, "latest": LATEST}
_CLAIM_AGAIN = 0.2  # seconds until a node of a member that is slower is looked at again
_EMPTY_BACKOFF = 0.1  # seconds between fetches that gave nothing; Java waits 1 s
_TURN = 0.5  # seconds at most between two looks of the thread


class GroupMessage(NamedTuple):
    """A message, and where it is from."""

    topic: str
    broker: int
    partition: int
    message: Message07

    @property
    def payload(self) -> bytes:
        """What the producer sent."""
        return self.message.payload


@dataclass(eq=False)
class _Reader:
    """A partition that is owned: where to fetch next, and where to go on if somebody else does."""

    place: Place
    stream: int
    offset: int | None
    finished: int | None


class GroupConsumer07:
    """A member of a group of Kafka 0.7, beside others and those of the Java consumer.

        with klamm.legacy.GroupConsumer07("zk:2181", "readers", ["words"]) as consumer:
            for found in consumer:
                print(found.topic, found.payload)

    What to read is `topics`, a list or a dict with the number of streams for each; or a `whitelist`, a regular expression that
    the whole name of a topic has to match; or a `blacklist`, one that it must not match. Partitions are shared between streams, so
    a member with more of them gets more.

    A thread keeps the membership: it registers, sees who comes and goes, gives partitions up and takes them over. Offsets
    are written every `auto_commit_interval` seconds (None: only by `commit`), when partitions go to others, and at the end; they
    are those of messages that the program has finished with, which it says by asking for more. So each message is
    read at least once; after a crash those since the last commit are read again. One that came compressed with others is
    finished with them. If the session with ZooKeeper ends, the partitions are given up at once.

    `auto_offset_reset` is where to begin without an offset, or with one that the broker has not: "earliest" or "latest".
    """

    def __init__(
        self,
        zookeeper: str,
        group: str,
        topics: Sequence[str] | Mapping[str, int] | None = None,
        *,
        whitelist: str | None = None,
        blacklist: str | None = None,
        streams: int = 1,
        consumer_id: str | None = None,
        auto_offset_reset: Literal["earliest", "latest"] = "earliest",
        auto_commit_interval: float | None = 10.0,
        fetch_size: int = 1 << 20,
        max_fetch_size: int = 128 << 20,
        magic: int = 1,
        timeout: float | None = 10.0,
        session_timeout: float = SESSION_TIMEOUT,
    ) -> None:
        if sum(given is not None for given in (topics, whitelist, blacklist)) != 1:
            raise ConfigError("name one of topics, whitelist and blacklist")
        if auto_offset_reset not in _RESETS:
            raise ConfigError(f"auto_offset_reset cannot be {auto_offset_reset!r}, only 'earliest' and 'latest'")
        if not group or "/" in group:
            raise ConfigError(f"a group cannot be called {group!r}")
        if isinstance(topics, str) or streams < 1:
            raise ConfigError("topics are a list or a dict, and streams are 1 or more")
        pattern = next((p for p in (whitelist, blacklist) if p is not None), None)
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigError(f"{pattern!r} is no regular expression: {error}") from error
        counts: dict[str, int] = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics or (), streams)
        made_up = f"{socket.gethostname()}-{time.time_ns() // 1_000_000}-{uuid.uuid4().hex[:8]}"
        self.member_id = f"{group}_{made_up if consumer_id is None else consumer_id}"
        self._timeout = seconds("timeout", timeout)
        self._reader_options: dict[str, Any] = {
            "fetch_size": fetch_size,
            "max_fetch_size": max_fetch_size,
            "magic": magic,
            "timeout": timeout,
        }
        Consumer07("unused:1", **self._reader_options)  # refuses what cannot work
        self._reset = _RESETS[auto_offset_reset]
        self._every = seconds("auto_commit_interval", auto_commit_interval)
        listed = None if pattern is None else (whitelist is not None, streams, pattern)
        self._machine = ZooKeeperMember(group, self.member_id, counts, listed, _CLAIM_AGAIN, session_timeout)
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._inputs: queue.SimpleQueue[Callable[[float], None] | None] = queue.SimpleQueue()
        self._readers: dict[Place, _Reader] = {}
        self._buffer: deque[tuple[_Reader, GroupMessage]] = deque()
        self._last: list[tuple[_Reader, int]] = []
        self._brokers: dict[int, Consumer07] = {}
        self._ailing: dict[int, tuple[float, float]] = {}
        self._session: int | None = None
        self._commit_at = time.monotonic() + (self._every or 0)
        self._committed = threading.Condition(self._lock)
        self._stopped = False
        self._failure: Exception | None = None
        self._client = connect(zookeeper, self._timeout, session_timeout)
        self._client.add_listener(self._listen)
        self._listen("CONNECTED")
        self._thread = threading.Thread(target=self._run, name="klamm-group-0.7", daemon=True)
        self._thread.start()

    # What the thread does.

    def _listen(self, state: Any) -> None:
        """Hear of the connection, on a thread of kazoo's."""
        self._inputs.put(lambda now: self._state_changed(str(state), now))

    def _state_changed(self, state: str, now: float) -> None:
        if state == "CONNECTED":
            session = self._client.client_id[0]
            self._machine.connected(now, session != self._session)
            self._session = session
        elif state == "SUSPENDED":
            self._machine.suspended(now)
        else:
            self._machine.expired(now)
            self._session = None

    def _watch(self, event: Any) -> None:
        path = event.path or ""
        self._inputs.put(lambda now: self._machine.changed(now, path))

    def _run(self) -> None:
        try:
            self._keep_membership()
        except Exception as error:  # noqa: BLE001 - the program hears of it with its next call
            with self._lock:
                self._failure = error
                self._readers.clear()
            self._client.stop()  # what it owned is free

    def _keep_membership(self) -> None:
        while not self._stopped:
            with self._lock:
                self._hear()
                asked = self._machine.operation()
                due = self._machine.due()
                self._committed.notify_all()
            now = time.monotonic()
            if asked is not None:
                number, what, path, data, names = asked
                answer = self._answer(what, path, data, names)
                with self._lock:
                    self._machine.answered(time.monotonic(), number, *answer)
                    if answer[0] == "failed" and self._client.connected and self._client.client_id[0] == self._session:
                        self._machine.connected(time.monotonic(), False)
                continue
            wait = min([_TURN, *([max(0.0, due - now)] if due is not None else [])])
            try:
                heard = self._inputs.get(timeout=wait)
            except queue.Empty:
                continue
            if heard is not None:
                with self._lock:
                    heard(time.monotonic())

    def _hear(self) -> None:
        """Take in what happened; with the lock. Both the thread and the program do that, as ZooKeeper may keep one waiting."""
        now = time.monotonic()
        while True:
            try:
                heard = self._inputs.get_nowait()
            except queue.Empty:
                break
            if heard is not None:
                heard(now)
        self._machine.tick(now)
        while (event := self._machine.event()) is not None:
            what, places = event
            if what == "start":
                for place, stream, offset in places:
                    self._readers[place] = _Reader(place, stream, offset, offset)
            elif what == "stop":
                gone = [self._readers.pop(place) for place, _, _ in places if place in self._readers]
                self._machine.stopped(now, [(r.place, r.finished) for r in gone if r.finished is not None])
            else:
                self._readers.clear()
        if self._every is not None and now >= self._commit_at:
            self._commit_at = now + self._every
            self._machine.commit(now, self._finished())

    def _finished(self) -> list[tuple[Place, int]]:
        return [(reader.place, reader.finished) for reader in self._readers.values() if reader.finished is not None]

    def _answer(self, what: str, path: str, data: str, names: list[str]) -> tuple[Any, ...]:
        from kazoo.exceptions import KazooException

        # What was to be done in a session that has ended is not done in the next one.
        if self._client.client_id[0] != self._session:
            return ("failed",)
        try:
            return self._do(what, path, data, names)
        except (KazooException, KafkaError):
            return ("failed",)

    def _do(self, what: str, path: str, data: str, names: list[str]) -> tuple[Any, ...]:
        from kazoo.exceptions import NoNodeError

        answer: tuple[Any, ...] = ("done",)
        try:
            if what == "match":
                answer = "names", _matching(path, names)
            elif what == "children":
                self._client.exists(path, watch=self._watch)
                answer = "names", self._client.get_children(path, watch=self._watch)
            elif what == "read":
                answer = "data", None, (self._client.get(path)[0] or b"").decode(errors="replace")
            elif what == "delete":
                found, stat = self._client.get(path)
                if found == data.encode() and stat.ephemeralOwner == self._session:
                    self._client.delete(path)
            elif what == "create":
                answer = self._create(path, data)
            else:
                self._write(path, data)
        except NoNodeError:
            answer = ("exists",) if what == "create" else ("missing",)
        return answer

    def _create(self, path: str, data: str) -> tuple[str]:
        from kazoo.exceptions import NodeExistsError

        try:
            create(self._client, path, data.encode(), ephemeral=True)
        except NodeExistsError:
            _, stat = self._client.get(path)
            return ("done",) if stat.ephemeralOwner == self._session else ("exists",)
        return ("done",)

    def _write(self, path: str, data: str) -> None:
        from kazoo.exceptions import NoNodeError

        try:
            self._client.set(path, data.encode())
        except NoNodeError:
            create(self._client, path, data.encode(), ephemeral=False)

    # What the program does.

    def poll(self, timeout: float | None = 1.0, max_messages: int = 10_000) -> list[GroupMessage]:
        """Return messages, none if none came in time. The program is done with those of the last call."""
        self._check()
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                self._done_with_last()
                self._hear()
                found = self._take(max_messages)
            if found:
                return found
            fetched = self._fetch()
            if fetched:
                continue
            left = _EMPTY_BACKOFF if deadline is None else min(_EMPTY_BACKOFF, deadline - time.monotonic())
            if left <= 0:
                return []
            time.sleep(left)

    def __iter__(self) -> Iterator[GroupMessage]:
        """Iterate for ever; a message is done with when the next one is asked for."""
        while True:
            yield from self.poll(1.0, 1)

    def _done_with_last(self) -> None:
        for reader, offset in self._last:
            if self._readers.get(reader.place) is reader:
                reader.finished = offset
        self._last = []

    def _take(self, count: int) -> list[GroupMessage]:
        found: list[GroupMessage] = []
        while self._buffer and len(found) < count:
            reader, message = self._buffer.popleft()
            if self._readers.get(reader.place) is not reader:
                continue  # somebody else's by now
            found.append(message)
            inner = message.message
            is_last = inner.index + 1 == inner.count
            self._last.append((reader, inner.next_offset if is_last else inner.offset))
        return found

    def _fetch(self) -> bool:
        """Ask each broker for its partitions, with one request."""
        with self._lock:
            by_broker: dict[int, list[_Reader]] = {}
            for reader in self._readers.values():
                by_broker.setdefault(reader.place[1], []).append(reader)
        now, any_came = time.monotonic(), False
        for number, readers in by_broker.items():
            since, again = self._ailing.get(number, (now, now))
            if now < again:
                continue
            try:
                any_came |= self._fetch_from(number, readers)
                self._ailing.pop(number, None)
            except (NetworkError, KafkaTimeoutError):
                # Brokers that are gone lose their registration in a while, and with it their partitions.
                dropped = self._brokers.pop(number, None)
                if dropped is not None:
                    dropped.close()
                self._ailing[number] = (since, now + 1.0)
                if self._timeout is not None and now - since > self._timeout:
                    raise
        return any_came

    def _fetch_from(self, number: int, readers: list[_Reader]) -> bool:
        broker = self._broker(number)
        for reader in readers:
            if reader.offset is None:
                self._begin(broker, reader)
        places = [(reader.place[0], reader.place[2], reader.offset or 0) for reader in readers]
        try:
            fetched = broker.multi_fetch(places)
        except OffsetOutOfRangeError:
            # One of them: the rest is fetched next time.
            for reader, place in zip(readers, places, strict=True):
                try:
                    broker.fetch(*place)
                except OffsetOutOfRangeError:
                    self._begin(broker, reader)
            return False
        any_came = False
        with self._lock:
            for reader, (messages, next_offset) in zip(readers, fetched, strict=True):
                topic, _, partition = reader.place
                if self._readers.get(reader.place) is not reader or next_offset == reader.offset:
                    continue
                reader.offset = next_offset
                any_came = True
                self._buffer.extend((reader, GroupMessage(topic, number, partition, message)) for message in messages)
        return any_came

    def _begin(self, broker: Consumer07, reader: _Reader) -> None:
        topic, _, partition = reader.place
        found = broker.offsets(topic, partition, self._reset)
        offset = found[0] if found else 0
        with self._lock:
            if self._readers.get(reader.place) is reader:
                reader.offset = reader.finished = offset
                self._machine.commit(time.monotonic(), [(reader.place, offset)])
                self._inputs.put(None)

    def _broker(self, number: int) -> Consumer07:
        from kazoo.exceptions import KazooException

        if number not in self._brokers:
            try:
                host, port = parse_broker(
                    self._client.get_async(f"/brokers/ids/{number}").get(timeout=self._timeout)[0]
                )
            except (KazooException, TimeoutError, self._client.handler.timeout_exception) as error:
                raise NetworkError(f"ZooKeeper did not tell the address of broker {number}: {error!r}") from error
            self._brokers[number] = Consumer07(f"{host}:{port}", **self._reader_options)
        return self._brokers[number]

    def assignment(self) -> dict[Place, int]:
        """Return what it reads, (topic, broker, partition), each with its stream."""
        self._check()
        with self._lock:
            self._hear()
            return {reader.place: reader.stream for reader in self._readers.values()}

    def commit(self, timeout: float | None = 10.0) -> None:
        """Write the offsets of what was read, that of the last call of `poll` included, and wait until they are there."""
        self._check()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._done_with_last()
            self._hear()
            self._machine.commit(time.monotonic(), self._finished())
            self._inputs.put(None)
            while self._machine.is_committing():
                left = _TURN if deadline is None else min(_TURN, deadline - time.monotonic())
                if left <= 0:
                    raise KafkaTimeoutError("ZooKeeper did not take the offsets in time")
                self._committed.wait(left)

    def close(self, timeout: float | None = 10.0) -> None:
        """Write the offsets, and leave: what it owned is free at once."""
        if self._stopped or os.getpid() != self._pid:
            return
        try:
            self.commit(timeout)
        finally:
            self._stopped = True
            self._inputs.put(None)
            self._client.stop()
            self._thread.join(timeout)
            self._client.close()
            for broker in self._brokers.values():
                broker.close()

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedClientError(
                "this client was made before a fork and does not work in the child process",
                hint="make a new client in the child",
            )
        if self._stopped:
            raise ClosedError("this consumer is closed", hint="make a new one")
        if self._failure is not None:
            raise KafkaError(f"this consumer is no member any more: {self._failure!r}") from self._failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<klamm.legacy.GroupConsumer07 {self.member_id}>"


def _matching(pattern: str, names: list[str]) -> list[str]:
    try:
        return [name for name in names if re.fullmatch(pattern, name)]
    except re.error:
        return []  # of a Java consumer, whose expressions know a little more; none of our own
