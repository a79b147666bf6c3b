"""`GroupConsumer07`: a member of a Kafka 0.7 consumer group, which is coordinated through ZooKeeper.

The state machine of the membership is in Rust (`ZooKeeperMember`). A thread here executes its ZooKeeper operations through kazoo;
the application's thread fetches messages.
"""

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
from klamm.legacy.connection import Closing, seconds
from klamm.legacy.consumer import EARLIEST, LATEST, Consumer07
from klamm.legacy.zookeeper import SESSION_TIMEOUT, check_group, connect, create, parse_broker, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from klamm._klamm import Message07

    Partition = tuple[str, int, int]  # topic, broker, partition

_RESETS = {"earliest": EARLIEST, "latest": LATEST}
_CLAIM_BACKOFF = 0.2  # seconds between attempts to claim a partition whose former owner has not released it yet
_EMPTY_BACKOFF = 0.1  # seconds between fetches without messages; Java waits 1 s
_MAX_WAIT = 0.5  # longest wait of the thread, in seconds


class GroupMessage(NamedTuple):
    """A message with the partition that it comes from."""

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


@dataclass(eq=False)
class _Reader:
    """An assigned partition: where to fetch next, and the offset to commit."""

    partition: Partition
    stream: int
    offset: int | None
    finished: int | None


class GroupConsumer07(Closing):
    """A member of a Kafka 0.7 consumer group. Its fellow members may be Java consumers.

    A background thread maintains the membership: it registers the member, follows changes of the group, and releases and claims
    partitions. If the ZooKeeper session expires, the member gives up its partitions at once.

    **Delivery guarantee.** Each message is delivered at least once. A message is finished when the application asks for the next
    one; messages that were compressed together are finished together. The consumer commits offsets of finished messages
    periodically, when a partition moves to another member, and on close. After a crash, messages since the last commit are
    delivered again.

    Args:
        zookeeper: Addresses of ZooKeeper, `host:port,host:port/chroot`.
        group: Group id.
        topics: Topics to read: a list, or a dict with the number of streams for each topic. Pass one of `topics`, `whitelist` and
            `blacklist`.
        whitelist: Regular expression; reads the topics whose whole name matches.
        blacklist: Regular expression; reads the topics whose whole name does not match.
        streams: Number of streams for each topic. Default 1. Partitions are distributed over streams, so a member with more
            streams gets more partitions.
        consumer_id: Suffix of the member id, unique in the group. Default: generated from the host name and the time.
        auto_offset_reset: Where to begin if there is no committed offset, or if the broker no longer has it: "earliest" (the
            default) or "latest".
        auto_commit_interval: Seconds between commits. Default 10. None commits only in `commit`, on reassignment and on close.
        fetch_size: As for `Consumer07`, in bytes.
        max_fetch_size: As for `Consumer07`, in bytes.
        magic: As for `Consumer07`.
        timeout: Seconds for connecting to ZooKeeper and for each request to a broker. Default 10. None waits forever.
        session_timeout: Session timeout of ZooKeeper in seconds. Default 6, as Kafka.

    Raises:
        ConfigError: An argument has an invalid value, or kazoo is not installed (`pip install klamm[zookeeper]`).
        NetworkError: ZooKeeper cannot be reached in time.

    Example:
        with klamm.legacy.GroupConsumer07("zk:2181", "readers", ["words"]) as consumer:
            for message in consumer:
                print(message.topic, message.payload)
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
            raise ConfigError("topics, whitelist and blacklist are alternatives", hint="pass exactly one of them")
        if auto_offset_reset not in _RESETS:
            raise ConfigError(f"invalid auto_offset_reset {auto_offset_reset!r}", hint="use 'earliest' or 'latest'")
        check_group(group)
        if isinstance(topics, str):
            raise ConfigError(f"invalid topics {topics!r}", hint="pass a list of names, or a dict of name and streams")
        if streams < 1:
            raise ConfigError(f"invalid streams {streams}", hint="use 1 or more")
        pattern = next((p for p in (whitelist, blacklist) if p is not None), None)
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigError(f"invalid regular expression {pattern!r}: {error}") from error
        counts: dict[str, int] = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics or (), streams)
        generated_id = f"{socket.gethostname()}-{time.time_ns() // 1_000_000}-{uuid.uuid4().hex[:8]}"
        self.member_id = f"{group}_{generated_id if consumer_id is None else consumer_id}"
        self._timeout = seconds("timeout", timeout)
        self._reader_options: dict[str, Any] = {
            "fetch_size": fetch_size,
            "max_fetch_size": max_fetch_size,
            "magic": magic,
            "timeout": timeout,
        }
        Consumer07("unused:1", **self._reader_options)  # raises for invalid values
        self._reset = _RESETS[auto_offset_reset]
        self._commit_interval = seconds("auto_commit_interval", auto_commit_interval)
        subscription = None if pattern is None else (whitelist is not None, streams, pattern)
        self._member = ZooKeeperMember(group, self.member_id, counts, subscription, _CLAIM_BACKOFF, session_timeout)
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._inputs: queue.SimpleQueue[Callable[[float], None] | None] = queue.SimpleQueue()
        self._readers: dict[Partition, _Reader] = {}
        self._buffer: deque[tuple[_Reader, GroupMessage]] = deque()
        self._last: list[tuple[_Reader, int]] = []
        self._brokers: dict[int, Consumer07] = {}
        self._failing: dict[int, tuple[float, float]] = {}  # broker: since when, when to retry
        self._session: int | None = None
        self._commit_at = time.monotonic() + (self._commit_interval or 0)
        self._committed = threading.Condition(self._lock)
        self._stopped = False
        self._failure: Exception | None = None
        self._client = connect(zookeeper, self._timeout, session_timeout)
        self._client.add_listener(self._session_changed)
        self._session_changed("CONNECTED")
        self._thread = threading.Thread(target=self._run, name="klamm-group-0.7", daemon=True)
        self._thread.start()

    # The membership thread.

    def _session_changed(self, state: Any) -> None:
        """Queue a change of the ZooKeeper session. kazoo calls this on its own thread."""
        self._inputs.put(lambda now: self._apply_session(str(state), now))

    def _apply_session(self, state: str, now: float) -> None:
        if state == "CONNECTED":
            session = self._client.client_id[0]
            self._member.connected(now, session != self._session)
            self._session = session
        elif state == "SUSPENDED":
            self._member.suspended(now)
        else:
            self._member.expired(now)
            self._session = None

    def _watch(self, event: Any) -> None:
        path = event.path or ""
        self._inputs.put(lambda now: self._member.changed(now, path))

    def _run(self) -> None:
        try:
            self._maintain_membership()
        except Exception as error:  # noqa: BLE001 - the application's next call raises it
            with self._lock:
                self._failure = error
                self._readers.clear()
            self._client.stop()  # releases the member's partitions

    def _maintain_membership(self) -> None:
        while not self._stopped:
            with self._lock:
                self._process_inputs()
                operation = self._member.operation()
                due = self._member.due()
                self._committed.notify_all()
            now = time.monotonic()
            if operation is not None:
                result = self._execute(operation.kind, operation.path, operation.data, operation.names)
                with self._lock:
                    self._member.answered(time.monotonic(), operation.number, *result)
                    if result[0] == "failed" and self._client.connected and self._client.client_id[0] == self._session:
                        self._member.connected(time.monotonic(), False)
                continue
            wait = min([_MAX_WAIT, *([max(0.0, due - now)] if due is not None else [])])
            try:
                apply = self._inputs.get(timeout=wait)
            except queue.Empty:
                continue
            if apply is not None:
                with self._lock:
                    apply(time.monotonic())

    def _process_inputs(self) -> None:
        """Apply what happened; the caller holds the lock.

        Both threads call this, because an operation of ZooKeeper may block the membership thread.
        """
        now = time.monotonic()
        while True:
            try:
                apply = self._inputs.get_nowait()
            except queue.Empty:
                break
            if apply is not None:
                apply(now)
        self._member.tick(now)
        while (event := self._member.event()) is not None:
            kind, partitions = event
            if kind == "start":
                for partition, stream, offset in partitions:
                    self._readers[partition] = _Reader(partition, stream, offset, offset)
            elif kind == "stop":
                revoked = [self._readers.pop(each) for each, _, _ in partitions if each in self._readers]
                self._member.stopped(now, [(r.partition, r.finished) for r in revoked if r.finished is not None])
            else:
                self._readers.clear()
        if self._commit_interval is not None and now >= self._commit_at:
            self._commit_at = now + self._commit_interval
            self._member.commit(now, self._finished())

    def _finished(self) -> list[tuple[Partition, int]]:
        return [(reader.partition, reader.finished) for reader in self._readers.values() if reader.finished is not None]

    def _execute(self, kind: str, path: str, data: str, names: list[str]) -> tuple[Any, ...]:
        """Run one operation, and return the arguments for `ZooKeeperMember.answered`."""
        from kazoo.exceptions import KazooException, NoNodeError

        # An operation belongs to the session that it was planned in.
        if self._client.client_id[0] != self._session:
            return ("failed",)
        result: tuple[Any, ...] = ("done",)
        try:
            if kind == "match":
                result = "names", _matching(path, names)
            elif kind == "children":
                self._client.exists(path, watch=self._watch)
                result = "names", self._client.get_children(path, watch=self._watch)
            elif kind == "read":
                result = "data", None, (self._client.get(path)[0] or b"").decode(errors="replace")
            elif kind == "create":
                result = self._create(path, data)
            elif kind == "delete":
                found, stat = self._client.get(path)
                if found == data.encode() and stat.ephemeralOwner == self._session:
                    self._client.delete(path)
            else:
                write(self._client, path, data.encode())
        except NoNodeError:
            result = ("exists",) if kind == "create" else ("missing",)
        except (KazooException, KafkaError):
            result = ("failed",)
        return result

    def _create(self, path: str, data: str) -> tuple[str]:
        from kazoo.exceptions import NodeExistsError

        try:
            create(self._client, path, data.encode(), ephemeral=True)
        except NodeExistsError:
            _, stat = self._client.get(path)
            return ("done",) if stat.ephemeralOwner == self._session else ("exists",)
        return ("done",)

    # The application's thread.

    def poll(self, timeout: float | None = 1.0, max_messages: int = 10_000) -> list[GroupMessage]:
        """Return the next messages. The messages of the previous call are then finished.

        Args:
            timeout: Seconds to wait if there is no message. Default 1. None waits forever.
            max_messages: Maximum number of messages. Default 10,000.

        Returns:
            Messages, or an empty list if none arrived in time.

        Raises:
            NetworkError: A broker has not been reachable for `timeout` seconds of the constructor.
            ClosedError: This consumer is closed.
            KafkaError: The membership has failed.
        """
        self._check()
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                self._finish_last()
                self._process_inputs()
                messages = self._next_buffered(max_messages)
            if messages:
                return messages
            if self._fetch():
                continue
            wait = _EMPTY_BACKOFF if deadline is None else min(_EMPTY_BACKOFF, deadline - time.monotonic())
            if wait <= 0:
                return []
            time.sleep(wait)

    def __iter__(self) -> Iterator[GroupMessage]:
        """Iterate forever. Asking for the next message finishes the previous one."""
        while True:
            yield from self.poll(1.0, 1)

    def _finish_last(self) -> None:
        for reader, offset in self._last:
            if self._readers.get(reader.partition) is reader:
                reader.finished = offset
        self._last = []

    def _next_buffered(self, count: int) -> list[GroupMessage]:
        messages: list[GroupMessage] = []
        while self._buffer and len(messages) < count:
            reader, message = self._buffer.popleft()
            if self._readers.get(reader.partition) is not reader:
                continue  # the partition was reassigned in the meantime
            messages.append(message)
            inner = message.message
            is_last = inner.index + 1 == inner.count
            self._last.append((reader, inner.next_offset if is_last else inner.offset))
        return messages

    def _fetch(self) -> bool:
        """Fetch from each broker with one request; return whether any message arrived."""
        with self._lock:
            by_broker: dict[int, list[_Reader]] = {}
            for reader in self._readers.values():
                by_broker.setdefault(reader.partition[1], []).append(reader)
        now, any_arrived = time.monotonic(), False
        for number, readers in by_broker.items():
            since, retry_at = self._failing.get(number, (now, now))
            if now < retry_at:
                continue
            try:
                any_arrived |= self._fetch_from(number, readers)
                self._failing.pop(number, None)
            except (NetworkError, KafkaTimeoutError):
                # A broker that has died soon loses its registration, and then its partitions are no longer assigned.
                dropped = self._brokers.pop(number, None)
                if dropped is not None:
                    dropped.close()
                self._failing[number] = (since, now + 1.0)
                if self._timeout is not None and now - since > self._timeout:
                    raise
        return any_arrived

    def _fetch_from(self, number: int, readers: list[_Reader]) -> bool:
        broker = self._broker(number)
        for reader in readers:
            if reader.offset is None:
                self._reset_offset(broker, reader)
        positions = [(reader.partition[0], reader.partition[2], reader.offset or 0) for reader in readers]
        try:
            fetched = broker.multi_fetch(positions)
        except OffsetOutOfRangeError:
            # Find the partitions that it concerns. The next call fetches from the others.
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
                if self._readers.get(reader.partition) is not reader or next_offset == reader.offset:
                    continue
                reader.offset = next_offset
                any_arrived = True
                self._buffer.extend((reader, GroupMessage(topic, number, partition, message)) for message in messages)
        return any_arrived

    def _reset_offset(self, broker: Consumer07, reader: _Reader) -> None:
        topic, _, partition = reader.partition
        found = broker.offsets(topic, partition, self._reset)
        offset = found[0] if found else 0
        with self._lock:
            if self._readers.get(reader.partition) is reader:
                reader.offset = reader.finished = offset
                self._member.commit(time.monotonic(), [(reader.partition, offset)])
                self._inputs.put(None)

    def _broker(self, number: int) -> Consumer07:
        from kazoo.exceptions import KazooException

        if number not in self._brokers:
            try:
                host, port = parse_broker(
                    self._client.get_async(f"/brokers/ids/{number}").get(timeout=self._timeout)[0]
                )
            except (KazooException, TimeoutError, self._client.handler.timeout_exception) as error:
                raise NetworkError(
                    f"could not read the address of broker {number} from ZooKeeper: {error!r}"
                ) from error
            self._brokers[number] = Consumer07(f"{host}:{port}", **self._reader_options)
        return self._brokers[number]

    def assignment(self) -> dict[Partition, int]:
        """Return the assigned partitions, (topic, broker, partition), each with the number of its stream."""
        self._check()
        with self._lock:
            self._process_inputs()
            return {reader.partition: reader.stream for reader in self._readers.values()}

    def commit(self, timeout: float | None = 10.0) -> None:
        """Commit the offsets of all messages that `poll` has returned, and wait until ZooKeeper has stored them.

        Args:
            timeout: Seconds to wait. Default 10. None waits forever.

        Raises:
            KafkaTimeoutError: ZooKeeper did not store the offsets in time.
            ClosedError: This consumer is closed.
            KafkaError: The membership has failed.
        """
        self._check()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._finish_last()
            self._process_inputs()
            self._member.commit(time.monotonic(), self._finished())
            self._inputs.put(None)
            while self._member.is_committing():
                wait = _MAX_WAIT if deadline is None else min(_MAX_WAIT, deadline - time.monotonic())
                if wait <= 0:
                    raise KafkaTimeoutError(
                        f"ZooKeeper did not store the offsets of {self.member_id} in time",
                        hint="check the connection to ZooKeeper, or pass a longer timeout",
                    )
                self._committed.wait(wait)

    def close(self, timeout: float | None = 10.0) -> None:
        """Commit the offsets and leave the group, which releases the partitions at once.

        Args:
            timeout: Seconds to wait for the commit, and for the thread. Default 10. None waits forever.

        Raises:
            KafkaError: As `commit`. The consumer is closed anyway.
        """
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
                "this client was created before a fork and does not work in the child process",
                hint="create a new client in the child",
            )
        if self._stopped:
            raise ClosedError("this consumer is closed", hint="create a new one")
        if self._failure is not None:
            raise KafkaError(
                f"consumer {self.member_id} has left its group after an error: {self._failure!r}",
                hint="create a new consumer",
            ) from self._failure

    def __repr__(self) -> str:
        return f"<klamm.legacy.GroupConsumer07 {self.member_id}>"


def _matching(pattern: str, names: list[str]) -> list[str]:
    try:
        return [name for name in names if re.fullmatch(pattern, name)]
    except re.error:
        return []  # a Java consumer's pattern with syntax that Python lacks; our own was checked at the start
