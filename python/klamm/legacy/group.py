"""`GroupConsumer07`: a member of a Kafka 0.7 consumer group, whose members coordinate through ZooKeeper.

The state machine of the membership is in Rust (`ZooKeeperMember`). A thread of this module executes the ZooKeeper
operations of the state machine through kazoo. The module `readers` fetches messages, and the module `topic_filter`
compiles whitelists and blacklists.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from klamm._klamm import ZooKeeperMember
from klamm.errors import (
    ClosedError,
    ConfigError,
    ForkedClientError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
)
from klamm.legacy.connection import Closing, seconds
from klamm.legacy.consumer import EARLIEST, LATEST, Consumer07
from klamm.legacy.readers import Readers
from klamm.legacy.topic_filter import compile_filter, rewrite
from klamm.legacy.zookeeper import (
    SESSION_TIMEOUT,
    check_name,
    connect,
    create,
    disconnect,
    parse_broker,
    wait_for,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from klamm.legacy.readers import GroupMessage, Partition, Reader

_RESETS = {"earliest": EARLIEST, "latest": LATEST}
_CLAIM_BACKOFF = 0.2  # seconds between attempts to claim a partition whose former owner has not released it yet
_MAX_WAIT = 0.5  # longest wait of the membership thread, in seconds
_CLOSE_SECONDS = 2.0  # on close: longest wait for the commit after an exception, and for the end of the thread
_PROBLEM_SECONDS = 10.0  # seconds between two reports of the same problem, if `timeout` is None
_DUPLICATE_AFTER = 1.5  # another member with the same ID counts as alive after this number of session timeouts


class GroupConsumer07(Closing):
    """A member of a Kafka 0.7 consumer group. Other members of the group may be Java consumers.

    A background thread registers the member, watches the group for changes, and releases and claims partitions. If the
    ZooKeeper session expires, the member stops reading its partitions at once.

    **Delivery guarantee.** Each message is delivered at least once. In a loop over the consumer, a message is finished
    when the loop asks for the next message. The messages of a `poll` are finished with the next `poll` or `commit`.
    Messages that were compressed together count as finished together. The consumer commits offsets of finished messages
    periodically, when a partition moves to another member, and on close. The group delivers all other messages again.

    Args:
        zookeeper: Addresses of ZooKeeper, `host:port,host:port/chroot`.
        group: Group id.
        topics: Topics to read: a list, or a dict with the number of streams for each topic. Pass exactly one of
            `topics`, `whitelist` and `blacklist`.
        whitelist: Regular expression. The member reads the topics whose whole name matches the expression. As in Java,
            `,` means `|`, and klamm ignores blanks and outer quotes. An expression that Java or Python cannot read
            raises `ConfigError`.
        blacklist: Regular expression, as for `whitelist`. The member reads all topics except those whose whole name
            matches the expression.
        streams: Number of streams for each topic. Default 1. The group distributes partitions over streams, so a member
            with more streams gets more partitions.
        consumer_id: Suffix of the member id, unique in the group. By default, klamm generates the suffix from the host
            name and the time. If another member has the same id, `poll` raises `KafkaError`.
        auto_offset_reset: Where to begin if there is no committed offset, or if the log no longer contains the
            committed offset: "earliest" (the default) or "latest".
        auto_commit_interval: Seconds between commits. Default 10. With None, the consumer commits only in `commit`, on
            reassignment and on close.
        fetch_size: Size of one fetch in bytes, as for `Consumer07`.
        max_fetch_size: Maximum size of a fetch for a large message in bytes, as for `Consumer07`.
        magic: Message format, as for `Consumer07`.
        timeout: Seconds for connecting to ZooKeeper and for each request to a broker. Default 10. None waits forever.
        session_timeout: Session timeout of ZooKeeper in seconds. Default 6, as in Kafka.

    Raises:
        ConfigError: An argument has an invalid value, the chroot of `zookeeper` does not exist, or kazoo is not
            installed (`pip install 'klamm[zookeeper]'`).
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
        check_name("group", group)
        if isinstance(topics, str):
            raise ConfigError(f"invalid topics {topics!r}", hint="pass a list of names, or a dict of name and streams")
        if streams < 1:
            raise ConfigError(f"invalid streams {streams}", hint="use 1 or more")
        pattern = next((rewrite(p) for p in (whitelist, blacklist) if p is not None), None)
        if pattern is not None:
            compile_filter(pattern)  # raises an error if the expression is invalid
        counts: dict[str, int] = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics or (), streams)
        for topic, count in counts.items():
            _check_topic(topic, count)
        if consumer_id is not None:
            check_name("consumer_id", consumer_id)
        generated_id = f"{socket.gethostname()}-{time.time_ns() // 1_000_000}-{uuid.uuid4().hex[:8]}"
        self.member_id = f"{group}_{generated_id if consumer_id is None else consumer_id}"
        self._group, self._zookeeper, self._session_timeout = group, zookeeper, session_timeout
        self._timeout = seconds("timeout", timeout)
        self._reader_options: dict[str, Any] = {
            "fetch_size": fetch_size,
            "max_fetch_size": max_fetch_size,
            "magic": magic,
            "timeout": timeout,
        }
        Consumer07("unused:1", **self._reader_options)  # raises an error if an option is invalid
        self._reset = _RESETS[auto_offset_reset]
        self._commit_interval = seconds("auto_commit_interval", auto_commit_interval)
        subscription = None if pattern is None else (whitelist is not None, streams, pattern)
        self._member = ZooKeeperMember(group, self.member_id, counts, subscription, _CLAIM_BACKOFF, session_timeout)
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._inputs: queue.SimpleQueue[Callable[[float], None] | None] = queue.SimpleQueue()
        self._readers = Readers(self._lock, self._connect, self._reset, self._note_reset, self._timeout)
        self._noted: dict[Partition, int] = {}  # offsets to commit that ZooKeeper has not confirmed
        self._not_stored: dict[Partition, int] = {}  # finished offsets that an ended session did not store
        self._problem_at, self._idle_at = float("-inf"), float("inf")
        self._session: int | None = None
        self._commit_at = time.monotonic() + (self._commit_interval or 0)
        self._committed = threading.Condition(self._lock)
        self._stopped = False
        self._failure: Exception | None = None
        self._is_disconnected = False
        self._client = connect(zookeeper, self._timeout, session_timeout)
        self._client.add_listener(self._session_changed)
        self._session_changed("CONNECTED")
        self._thread = threading.Thread(target=self._run, name="klamm-group-0.7", daemon=True)
        self._thread.start()

    # The membership thread.

    def _session_changed(self, state: Any) -> None:
        """Queue a change of the ZooKeeper session. kazoo calls this method in its own thread."""
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
        except Exception as error:  # noqa: BLE001 - the application's next call raises the error
            with self._lock:
                self._failure = error
                self._readers.stop(list(self._readers.assigned))
            self._disconnect()  # releases the member's partitions

    def _disconnect(self) -> None:
        """End the session. A second call does nothing: after a failed membership, `close` calls this method again."""
        with self._lock:
            was_disconnected, self._is_disconnected = self._is_disconnected, True
        if not was_disconnected:
            disconnect(self._client)

    def _maintain_membership(self) -> None:
        while not self._stopped:
            with self._lock:
                self._process_inputs()
                operation = self._member.operation()
                due = self._member.due()
                self._committed.notify_all()
                if self._member.problem(time.monotonic()) != (None, None):
                    self._readers.changed.notify_all()
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
        """Apply the events that have arrived. The caller holds the lock.

        The application's thread also calls this method, because a ZooKeeper operation may block the membership thread.
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
            self._apply_event(now, *event)
        if self._commit_interval is not None and now >= self._commit_at:
            self._commit_at = now + self._commit_interval
            if self._client.connected:
                self._not_stored.clear()  # with automatic commits, the program does not need to know about lost offsets
            self._note(now, self._finished())

    def _apply_event(self, now: float, kind: str, partitions: list[tuple[Partition, int, int | None]]) -> None:
        if kind == "start":
            self._readers.start(partitions)
        elif kind == "stop":
            stopped = self._readers.stop(partition for partition, _, _ in partitions)
            offsets = [(reader.partition, reader.finished) for reader in stopped if reader.finished is not None]
            self._noted.update(offsets)
            self._member.stopped(now, offsets)
        elif kind == "committed":
            for partition, _, offset in partitions:
                reader = self._readers.assigned.get(partition)
                if reader is not None:
                    reader.stored = offset
                for offsets_left in (self._noted, self._not_stored):
                    if offset is not None and offsets_left.get(partition, offset + 1) <= offset:
                        del offsets_left[partition]
        else:
            self._readers.finish_last()  # the offsets of the messages that `poll` has returned are lost, too
            lost = self._readers.stop(list(self._readers.assigned))
            stored = {reader.partition: reader.stored for reader in lost}
            self._not_stored.update(item for item in self._noted.items() if stored.get(item[0]) != item[1])
            self._not_stored.update(
                (reader.partition, reader.finished)
                for reader in lost
                if reader.finished is not None and reader.finished != reader.stored
            )
            self._noted.clear()

    def _note(self, now: float, offsets: Iterable[tuple[Partition, int]]) -> None:
        """Request a commit of offsets."""
        offsets = list(offsets)
        self._noted.update(offsets)
        self._member.commit(now, offsets)

    def _finished(self) -> list[tuple[Partition, int]]:
        readers = self._readers.assigned.values()
        return [(reader.partition, reader.finished) for reader in readers if reader.finished is not None]

    def _execute(self, kind: str, path: str, data: str, names: list[str]) -> tuple[Any, ...]:
        """Run one ZooKeeper operation, and return the arguments for `ZooKeeperMember.answered`."""
        from kazoo.exceptions import KazooException, NoNodeError

        # Skip an operation that the state machine planned in an earlier session.
        if self._client.client_id[0] != self._session:
            return ("failed",)
        client, timeout = self._client, self._timeout
        result: tuple[Any, ...] = ("done",)
        try:
            if kind == "match":
                result = _matching(path, names)
            elif kind == "children":
                wait_for(client.exists_async(path, watch=self._watch), timeout, f"watch {path}")
                children = client.get_children_async(path, watch=self._watch)
                result = "names", wait_for(children, timeout, f"list {path}")
            elif kind == "read":
                found, _ = wait_for(client.get_async(path), timeout, f"read {path}")
                result = "data", None, (found or b"").decode(errors="replace")
            elif kind == "create":
                result = self._create(path, data)
            elif kind == "delete":
                found, stat = wait_for(client.get_async(path), timeout, f"read {path}")
                if found == data.encode() and stat.ephemeralOwner == self._session:
                    wait_for(client.delete_async(path), timeout, f"delete {path}")
            else:
                write(client, path, data.encode(), timeout)
        except NoNodeError:
            result = ("exists",) if kind == "create" else ("missing",)
        except (KazooException, KafkaError):
            result = ("failed",)
        return result

    def _create(self, path: str, data: str) -> tuple[str]:
        from kazoo.exceptions import NodeExistsError

        try:
            create(self._client, path, data.encode(), ephemeral=True, timeout=self._timeout)
        except NodeExistsError:
            _, stat = wait_for(self._client.get_async(path), self._timeout, f"read {path}")
            return ("done",) if stat.ephemeralOwner == self._session else ("exists",)
        return ("done",)

    # The threads of brokers.

    def _connect(self, number: int) -> Consumer07:
        from kazoo.exceptions import NoNodeError

        path = f"/brokers/ids/{number}"
        try:
            data, _ = wait_for(self._client.get_async(path), self._timeout, f"read {path}")
        except NoNodeError as error:
            raise NetworkError(f"broker {number} is no longer registered in ZooKeeper") from error
        host, port = parse_broker(data)
        return Consumer07(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", **self._reader_options)

    def _note_reset(self, reader: Reader, offset: int) -> None:
        """Commit a new offset if the committed offset is missing or no longer in the log. The caller holds the lock."""
        self._process_inputs()
        if self._readers.assigned.get(reader.partition) is reader:
            reader.stored = offset  # this commit loses no message: without this commit, the next reader would reset too
            self._member.commit(time.monotonic(), [(reader.partition, offset)])
            self._inputs.put(None)

    # The application's thread.

    def poll(self, timeout: float | None = 1.0, max_messages: int = 10_000) -> list[GroupMessage]:
        """Return the next messages. Calling `poll` marks the messages of the previous `poll` as finished.

        Args:
            timeout: Seconds to wait if there is no message. Default 1. None waits forever.
            max_messages: Maximum number of messages. Default 10,000.

        Returns:
            Messages, or an empty list if none arrived in time.

        Raises:
            NetworkError: A broker was unreachable for the whole `timeout` of the constructor. The next `poll` returns
                messages of reachable brokers.
            KafkaTimeoutError: A broker did not respond within the `timeout` of the constructor. The next `poll` returns
                messages of brokers that respond.
            ConfigError: The member had no partition for the `timeout` of the constructor, and no broker has ever
                registered in this ZooKeeper.
            ClosedError: This consumer is closed.
            KafkaError: The membership has failed, two members have the same id, or klamm cannot read the expression of
                a member. Unless the membership has failed, you can call `poll` again.
        """
        self._check()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._readers.finish_last()
        while True:
            with self._lock:
                self._check()
                self._process_inputs()
                self._raise_problem()
                self._readers.raise_error()
                if messages := self._readers.take(max_messages):
                    return messages
                wait = _MAX_WAIT if deadline is None else min(_MAX_WAIT, deadline - time.monotonic())
                if wait > 0:
                    self._readers.changed.wait(wait)
            self._check_brokers()
            if wait <= 0:
                return []

    def __iter__(self) -> Iterator[GroupMessage]:
        """Iterate forever. A message counts as finished when the application asks for the next message."""
        while True:
            yield from self.poll(1.0, 1)

    def _raise_problem(self) -> None:
        """Raise an error if the member cannot get partitions.

        While the problem lasts, raise the error again after each `timeout`.
        """
        now = time.monotonic()
        unreadable, duplicate_for = self._member.problem(now)
        error = None
        if unreadable is not None:
            member, data, why = unreadable
            error = KafkaError(
                f"cannot share the partitions of group {self._group}: member {member} has registered {data!r}, which this client "
                f"cannot read: {why}",
                hint="give that member another white- or blacklist, in syntax that Java and Python share",
            )
        elif duplicate_for is not None and duplicate_for > _DUPLICATE_AFTER * self._session_timeout:
            error = KafkaError(
                f"cannot join group {self._group} as {self.member_id}: another member with this id is registered in ZooKeeper",
                hint="use a different consumer_id for each member, or close the other member",
            )
        if error is None:
            self._problem_at = float("-inf")
        elif now >= self._problem_at:
            self._problem_at = now + (self._timeout or _PROBLEM_SECONDS)
            raise error

    def _check_brokers(self) -> None:
        """Raise an error if the member has no partition because no broker has ever registered in ZooKeeper."""
        now = time.monotonic()
        if self._readers.assigned:
            self._idle_at = float("inf")
        elif self._idle_at == float("inf"):
            self._idle_at = now + (self._timeout or _PROBLEM_SECONDS)
        if now < self._idle_at or not self._client.connected:
            return
        self._idle_at = float("inf")
        try:
            brokers_node = wait_for(self._client.exists_async("/brokers/ids"), self._timeout, "look for brokers")
        except (NetworkError, KafkaTimeoutError):
            return
        if brokers_node is None:
            raise ConfigError(
                f"group {self._group} has nothing to read: no broker has ever registered in ZooKeeper at {self._zookeeper}",
                hint="check the address and the chroot: they must be those of zookeeper.connect (zk.connect) of the brokers",
            )

    def assignment(self) -> dict[Partition, int]:
        """Return a dict from each assigned partition, `(topic, broker, partition)`, to the number of its stream."""
        self._check()
        with self._lock:
            self._process_inputs()
            return {reader.partition: reader.stream for reader in self._readers.assigned.values()}

    def commit(self, timeout: float | None = 10.0) -> None:
        """Commit the offsets of all messages that `poll` has returned, and wait until ZooKeeper has stored them.

        Args:
            timeout: Seconds to wait. Default 10. None waits forever.

        Raises:
            KafkaTimeoutError: ZooKeeper did not store the offsets in time.
            NetworkError: The ZooKeeper session ended before the offsets were stored. The group delivers the uncommitted
                messages again.
            ClosedError: This consumer is closed.
            KafkaError: The membership has failed.
        """
        with self._lock:
            self._check()
            self._readers.finish_last()
            self._commit(timeout)
            if self._not_stored:
                raise self._lost()

    def _commit(self, timeout: float | None) -> None:
        """Commit the offsets of finished messages, and wait. The caller holds the lock."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._process_inputs()
        self._note(time.monotonic(), self._finished())
        self._inputs.put(None)
        while self._noted:
            wait = _MAX_WAIT if deadline is None else min(_MAX_WAIT, deadline - time.monotonic())
            if wait <= 0:
                raise KafkaTimeoutError(
                    f"ZooKeeper did not store the offsets of {self.member_id} in time",
                    hint="check the connection to ZooKeeper, or pass a longer timeout",
                )
            self._committed.wait(wait)
            self._check()
            self._process_inputs()

    def _lost(self) -> NetworkError:
        offsets = ", ".join(f"{topic}/{broker}-{n} at {at}" for (topic, broker, n), at in self._not_stored.items())
        self._not_stored.clear()
        return NetworkError(
            f"the ZooKeeper session of {self.member_id} ended before these offsets were stored: {offsets}",
            hint="the messages since the last commit are delivered again; check the connection to ZooKeeper",
        )

    def close(self, timeout: float | None = 10.0, *, commit: bool | None = None) -> None:
        """Commit the offsets, release the partitions and leave the group. Closing a closed consumer does nothing.

        `close` commits the offsets of finished messages. The messages of the last `poll`, and the last message of a
        loop over the consumer, are not finished, so the group delivers them again. If the program has processed these
        messages, call `commit` first, or pass `commit=True`.

        A `with` statement over the consumer knows whether its block raised an exception. If the block ended normally,
        the messages that a loop has processed are finished, too. They are the messages of the last `poll` after which
        the loop has asked for the next message or has ended. After `break`, the current message is not finished.

        Args:
            timeout: Seconds to wait for the commit. Default 10. None waits forever.
            commit: False commits no offsets. True also commits all messages of the last `poll`. None (the default)
                commits the offsets of finished messages.

        Raises:
            KafkaError: The errors of `commit`. The consumer is closed even if `close` raises.
        """
        self._end(timeout, commit)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._end(10.0, None, is_normal_exit=True)
            return
        with suppress(KafkaError):  # an error of `close` must not replace the exception that ended the block
            self._end(_CLOSE_SECONDS, None)

    def _end(self, timeout: float | None, commit: bool | None, *, is_normal_exit: bool = False) -> None:
        if self._stopped or os.getpid() != self._pid:
            return
        try:
            if commit is not False:
                with self._lock:
                    self._check()
                    if commit or is_normal_exit:
                        self._readers.finish_last(only_processed=is_normal_exit)
                    self._commit(timeout)
                    # If this member reads a partition again, it gets the messages again, so a lost offset is no error.
                    for partition in self._readers.assigned:
                        self._not_stored.pop(partition, None)
                    if self._not_stored:
                        raise self._lost()
        finally:
            self._stopped = True
            self._inputs.put(None)
            self._readers.close()
            self._disconnect()
            self._thread.join(_CLOSE_SECONDS)

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedClientError(
                "this client was created before a fork and does not work in the child process",
                hint="create a new client in the child",
            )
        if self._stopped:
            raise ClosedError("this consumer is closed", hint="create a new consumer")
        if self._failure is not None:
            raise KafkaError(
                f"consumer {self.member_id} left its group after this error: {self._failure!r}",
                hint="create a new consumer",
            ) from self._failure

    def __repr__(self) -> str:
        return f"<klamm.legacy.GroupConsumer07 {self.member_id}>"


def _check_topic(topic: str, streams: int) -> None:
    """Raise ConfigError for a topic name that a member cannot register in ZooKeeper, or for fewer than one stream."""
    if not topic or topic in (".", "..") or any(char in '/"\\' or not char.isprintable() for char in topic):
        raise ConfigError(
            f"invalid topic {topic!r}", hint="use a name that is not empty and has no slash, quote or backslash"
        )
    if streams < 1:
        raise ConfigError(f"invalid number of streams {streams} of topic {topic}", hint="use 1 or more")


def _matching(pattern: str, names: list[str]) -> tuple[str, list[str] | None, str | None]:
    """Return the names that a member's expression matches, or the reason why the expression is invalid."""
    try:
        matches = compile_filter(rewrite(pattern))
    except ConfigError as error:
        return "unreadable", None, error.message
    return "names", [name for name in names if matches.fullmatch(name)], None
