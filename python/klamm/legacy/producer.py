"""`Producer07`: writes to brokers of Kafka 0.6 and 0.7, which never respond to a produce request.

The producer tracks how many messages each broker may have lost. The producer reads the partitions from ZooKeeper
(module `zookeeper`), or lets the broker choose a partition.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from klamm._klamm import encode_messages, encode_request
from klamm.errors import ClosedError, ConfigError, KafkaTimeoutError, NetworkError
from klamm.legacy.connection import Closing, Connection, addresses, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Buffer

    from klamm.errors import KafkaError

    Partitioner = Callable[[Any, int], int]

Address = tuple[str, int]

_ANY_PARTITION = -1
_UINT32 = 1 << 32


def java_hash(key: str | bytes | int) -> int:
    """Return the `hashCode` that Java computes for a String, an Integer, or the contents of a byte array."""
    if isinstance(key, int):
        value = key % _UINT32
    elif isinstance(key, str):
        value, units = 0, key.encode("utf-16-be", "surrogatepass")
        for high, low in zip(units[::2], units[1::2], strict=True):
            value = (31 * value + (high << 8) + low) % _UINT32
    else:
        value = 1
        for byte in key:
            value = (31 * value + (byte ^ 0x80) - 0x80) % _UINT32  # Java's bytes are signed
    return value - _UINT32 if value >= _UINT32 // 2 else value


def default_partitioner(key: Any, count: int) -> int:
    """Choose a partition like the Java producer of 0.7: by the hash of the key, or at random if there is no key."""
    return random.randrange(count) if key is None else abs(java_hash(key)) % count


def _raise(failures: list[KafkaError]) -> None:
    """Raise the error of the broker that failed.

    If several brokers failed, raise one error with the texts of all errors.
    """
    if len(failures) > 1:
        first = failures[0]
        raise type(first)("; ".join(failure.message for failure in failures), hint=first.hint) from first
    if failures:
        raise failures[0]


class Producer07(Closing):
    """Writes to brokers of Kafka 0.6 or 0.7.

    **Delivery guarantee.** Brokers of 0.6 and 0.7 do not respond to producers. A message counts as sent when the
    producer has written the message to the socket. By default, `send` returns after it has written the message. With
    `batch_messages` above 1, only `flush` guarantees that all messages are written. A broker rejects a message by
    closing the connection. The broker then loses all messages that it has not yet read from the connection. The
    producer notices the closed connection at the next write at the earliest. It then raises `NetworkError` with the
    number of messages that may be lost. klamm does not send lost messages again, so there are no duplicates.

    `flush(confirm=True)` also sends each broker a request to which the broker responds. When `flush(confirm=True)`
    returns, the brokers have read all messages and rejected none. There is one exception: a broker of 0.7.2 silently
    drops a message set that contains a message above the broker's `max.message.size`.

    Args:
        brokers: Addresses of brokers, as a list or as `host:port,host:port`. The producer sends each batch to one of
            the brokers, and this broker chooses the partition. Pass either `brokers` or `zookeeper`.
        zookeeper: Addresses of ZooKeeper, `host:port,host:port/chroot`. The producer reads the partitions of all
            brokers from ZooKeeper. A new topic has partition 0 on every live broker.
        compression: "none" (the default), "gzip" or "snappy". Kafka 0.6 has no compression, and snappy needs 0.7.1.
        magic: Message format: 1 for Kafka 0.7 (the default), 0 for Kafka 0.6.
        partitioner: Function `(key, count)` that returns an index below `count`, for a producer with `zookeeper`. The
            default is the partitioner of the Java producer of 0.7. Brokers of 0.7 do not store keys.
        batch_messages: Number of messages to collect before a write. Default 1.
        unicode_topics: Also send to topics whose names are not ASCII. Default False, because the Java consumer cannot
            fetch these topics. If the whitelist of a Java member matches a topic with a non-ASCII name, the member
            reads nothing.
        timeout: Seconds for each connect and write. Default 10. None waits forever.

    Raises:
        ConfigError: An argument has an invalid value, or contradicts another argument.

    Example:
        with klamm.legacy.Producer07("old:9092") as producer:
            producer.send("words", b"hello")
            producer.flush(confirm=True)
    """

    def __init__(
        self,
        brokers: str | Iterable[str] | None = None,
        *,
        zookeeper: str | None = None,
        compression: str = "none",
        magic: int = 1,
        partitioner: Partitioner = default_partitioner,
        batch_messages: int = 1,
        unicode_topics: bool = False,
        timeout: float | None = 10.0,
    ) -> None:
        if (brokers is None) == (zookeeper is None):
            raise ConfigError("brokers and zookeeper are alternatives", hint="pass exactly one of them")
        if batch_messages < 1:
            raise ConfigError(f"invalid batch_messages {batch_messages}", hint="use 1 or more")
        encode_messages([b""], magic=magic, compression=compression)  # raises if the format lacks this compression
        self._compression, self._magic = compression, magic
        self._partitioner, self._batch_messages = partitioner, batch_messages
        self._unicode_topics = unicode_topics
        self._timeout = seconds("timeout", timeout)
        self._connections: dict[Address, Connection] = {}
        self._unconfirmed: dict[Address, int] = {}
        self._batch: dict[tuple[Address | None, str, int], list[Any]] = {}
        self._batched = 0
        self._lock = threading.RLock()
        self._closed = False
        self._brokers = None if brokers is None else addresses(brokers)
        self._registry = None
        if zookeeper is not None:
            from klamm.legacy.zookeeper import Registry

            self._registry = Registry(zookeeper, self._timeout)

    def send(self, topic: str, payload: Buffer, *, key: Any = None, partition: int | None = None) -> None:
        """Send one message. With `batch_messages` above 1, the producer writes messages when the batch is full.

        Args:
            topic: Topic name.
            payload: Bytes of the message.
            key: Key for the partitioner. The broker does not store keys.
            partition: With a single broker in `brokers`, the number of a partition. With `zookeeper`, an index into the
                partitions of all brokers. By default, the broker or the partitioner chooses a partition.

        Raises:
            NetworkError: A connection broke. The error says how many messages may be lost.
            KafkaTimeoutError: The write did not complete in time.
            ConfigError: The partition does not exist, the topic's name is not ASCII, or `partition` was passed although
                `brokers` has more than one broker.
            ClosedError: This producer is closed.
        """
        self.send_many(topic, [payload], key=key, partition=partition)

    def send_many(
        self, topic: str, payloads: Iterable[Buffer], *, key: Any = None, partition: int | None = None
    ) -> None:
        """Send messages to one partition.

        Args:
            topic: Topic name.
            payloads: Bytes of each message.
            key: Key for the partitioner, as for `send`.
            partition: Number or index of a partition, as for `send`.

        Raises:
            KafkaError: The errors of `send`.
        """
        payloads = list(payloads)
        if not (self._unicode_topics or topic.isascii()):
            raise ConfigError(
                f"cannot send to topic {topic!r}: its name is not ASCII, so Java consumers of Kafka 0.7 cannot read it",
                hint="choose an ASCII name, or pass unicode_topics=True if no Java consumer reads this cluster",
            )
        with self._lock:
            self._check_open()
        broker, chosen = self._choose(topic, key, partition)  # without the lock, because this can wait for ZooKeeper
        with self._lock:
            self._check_open()
            self._batch.setdefault((broker, topic, chosen), []).extend(payloads)
            self._batched += len(payloads)
            if self._batched >= self._batch_messages:
                self._write()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this producer is closed", hint="create a new producer")

    def _choose(self, topic: str, key: Any, partition: int | None) -> tuple[Address | None, int]:
        """Return the broker and partition for a message. The broker is None if every broker is suitable."""
        if self._registry is None:
            if partition is not None and len(self._brokers or ()) != 1:
                raise ConfigError(
                    f"partition {partition} of {topic} is ambiguous: each broker has its own partitions",
                    hint="name a single broker, or leave the partition out",
                )
            return None, _ANY_PARTITION if partition is None else partition
        partitions = self._registry.partitions(topic)
        if not partitions:
            raise NetworkError(
                f"cannot send to {topic}: no broker is registered in ZooKeeper",
                hint="start a broker whose zookeeper.connect is this address, including the chroot",
            )
        index = partition
        if index is None:
            with self._lock:
                index = self._partitioner(key, len(partitions))
        if not 0 <= index < len(partitions):
            raise ConfigError(
                f"partition index {index} of {topic} is out of range", hint=f"use 0 to {len(partitions) - 1}"
            )
        broker, number = partitions[index]
        return self._registry.broker(broker), number

    def _write(self) -> None:
        batch, self._batch, self._batched = self._batch, {}, 0
        by_broker: dict[Address, list[Any]] = {}
        chosen = random.choice(self._brokers) if self._brokers else None
        counts: dict[Address, int] = {}
        for (broker, topic, partition), payloads in batch.items():
            message_set = encode_messages(payloads, magic=self._magic, compression=self._compression)
            part = {"topic": topic, "partition": partition, "message_set": message_set}
            to = broker or chosen
            if to is not None:
                by_broker.setdefault(to, []).append(part)
                counts[to] = counts.get(to, 0) + len(payloads)
        failures: list[KafkaError] = []
        for to, parts in by_broker.items():
            frame = encode_request({"type": "produce" if len(parts) == 1 else "multiproduce", "parts": parts})
            try:
                self._send(to, frame, counts[to])
            except (NetworkError, KafkaTimeoutError) as error:  # continue with the other brokers
                failures.append(error)
        _raise(failures)

    def _send(self, to: Address, frame: bytes, count: int) -> None:
        connection = self._connection(to)
        unconfirmed = self._unconfirmed.get(to, 0)
        self._unconfirmed[to] = unconfirmed + count
        if unconfirmed and not connection.is_open():
            self._unconfirmed[to] = 0
            raise self._lost(connection, unconfirmed + count, None)
        try:
            connection.send(frame)
        except (NetworkError, KafkaTimeoutError) as error:
            self._unconfirmed[to] = 0
            raise self._lost(connection, unconfirmed + count, error) from error

    def _lost(self, connection: Connection, count: int, error: KafkaError | None) -> KafkaError:
        why = "the broker closed the connection" if error is None else error.message
        return (NetworkError if error is None else type(error))(
            f"{why}: up to {count} messages for {connection.name} are lost, including those of this call",
            hint="see the broker's log for the reason; call flush(confirm=True) regularly to limit how many can be lost",
        )

    def _connection(self, to: Address) -> Connection:
        if to not in self._connections:
            self._connections[to] = Connection(*to, self._timeout)
        return self._connections[to]

    @property
    def unconfirmed(self) -> int:
        """Return the number of messages that were written but not confirmed, and that may therefore be lost."""
        with self._lock:
            return sum(self._unconfirmed.values())

    def flush(self, *, confirm: bool = False) -> None:
        """Write all collected messages.

        Args:
            confirm: Also wait until the brokers have read all messages and rejected none. Default False.

        Raises:
            NetworkError: A connection broke. The error says how many messages may be lost.
            KafkaTimeoutError: A broker did not respond in time.
        """
        with self._lock:
            self._write()
            if not confirm:
                return
            self._confirm()

    def _confirm(self) -> None:
        """Send requests to all brokers at once, so that a broker that does not respond does not delay other brokers."""
        failures: list[KafkaError] = []
        waiting: list[Address] = []
        try:
            for to in [to for to, count in self._unconfirmed.items() if count]:
                with self._counting_lost(to, failures):
                    if not self._connection(to).is_open():
                        raise NetworkError("the broker closed the connection")
                    self._connection(to).ask("multifetch", [])
                    waiting.append(to)
            deadline = None if self._timeout is None else time.monotonic() + self._timeout
            while waiting:
                with self._counting_lost(waiting[0], failures):
                    self._connection(waiting[0]).answer(
                        None if deadline is None else max(0.0, deadline - time.monotonic())
                    )
                    self._unconfirmed[waiting[0]] = 0
                waiting.pop(0)
        finally:
            for to in waiting:  # after Ctrl+C: the next request must not read this response
                self._connections.pop(to).close()
        _raise(failures)

    @contextmanager
    def _counting_lost(self, to: Address, failures: list[KafkaError]) -> Iterator[None]:
        """If the block fails, add an error to `failures` with the number of messages that may be lost."""
        try:
            yield
        except (NetworkError, KafkaTimeoutError) as error:
            failures.append(self._lost(self._connection(to), self._unconfirmed[to], error))
            self._unconfirmed[to] = 0

    def close(self) -> None:
        """Write all collected messages and close the connections.

        Raises:
            KafkaError: The errors of `send`. The producer is closed even if `close` raises.
        """
        with self._lock:
            if self._closed:
                return
            try:
                self._write()
            finally:
                self._closed = True
                for connection in self._connections.values():
                    connection.close()
                if self._registry is not None:
                    self._registry.close()
