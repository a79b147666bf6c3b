"""`Producer07`: writes to brokers of Kafka 0.6 and 0.7, which never answer."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

from klamm._klamm import encode_messages, encode_request
from klamm.errors import ClosedError, ConfigError, KafkaTimeoutError, NetworkError
from klamm.legacy.connection import Connection, addresses, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from typing_extensions import Buffer, Self

    from klamm.errors import KafkaError

    Partitioner = Callable[[Any, int], int]

_ANY = -1
_INT = 1 << 32


def java_hash(key: str | bytes | int) -> int:
    """Return what `hashCode` of Java gives for a String, an Integer or the contents of a byte array."""
    if isinstance(key, int):
        value = key % _INT
    elif isinstance(key, str):
        value, units = 0, key.encode("utf-16-be", "surrogatepass")
        for high, low in zip(units[::2], units[1::2], strict=True):
            value = (31 * value + (high << 8) + low) % _INT
    else:
        value = 1
        for octet in key:
            value = (31 * value + (octet ^ 0x80) - 0x80) % _INT  # a byte of Java has a sign
    return value - _INT if value >= _INT // 2 else value


def default_partitioner(key: Any, count: int) -> int:
    """Choose as the Java producer of 0.7 does: by the key's hash, or any without a key."""
    return random.randrange(count) if key is None else abs(java_hash(key)) % count


class Producer07:
    """A writer to brokers of Kafka 0.6 or 0.7.

        with klamm.legacy.Producer07("old:9092") as producer:
            producer.send("words", b"hello")
            producer.flush(confirm=True)

    With `brokers`, each batch goes to one of them, which chooses the partition (-1). With `zookeeper`, the partitions of all
    brokers are known, and `partitioner(key, count)` chooses one of them; a topic that is new has partition 0 on every broker
    that lives. A key only chooses: 0.7 does not store it.

    **What is promised.** Brokers of 0.7 do not answer producers. A message is delivered when it was *written to the socket*: when
    `send` has returned, or `flush` if `batch_messages` is more than 1. Whatever the broker refuses it refuses by closing the
    connection, and what was sent but not read by then is lost with it. That shows at the next write at the earliest: then
    `NetworkError` says how many messages may be lost, which are not sent again, so that none is there twice. `flush(confirm=True)`
    asks each broker something that it does answer: all that was sent before has then been read, and nothing of it refused. Even
    so, 0.7.2 drops sets with a message above its `max.message.size` without a word.

    `magic=0` is for Kafka 0.6, which has no compression; snappy needs 0.7.1.
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
        timeout: float | None = 10.0,
    ) -> None:
        if (brokers is None) == (zookeeper is None):
            raise ConfigError("name either brokers or zookeeper")
        if batch_messages < 1:
            raise ConfigError(f"batch_messages cannot be {batch_messages}, only 1 and more")
        encode_messages([b""], magic=magic, compression=compression)  # refuses what does not go together
        self._compression, self._magic = compression, magic
        self._partitioner, self._batch_messages = partitioner, batch_messages
        self._timeout = seconds("timeout", timeout)
        self._connections: dict[tuple[str, int], Connection] = {}
        self._unconfirmed: dict[tuple[str, int], int] = {}
        self._batch: dict[tuple[tuple[str, int] | None, str, int], list[Any]] = {}
        self._waiting = 0
        self._lock = threading.RLock()
        self._closed = False
        self._brokers = None if brokers is None else addresses(brokers)
        self._registry = None
        if zookeeper is not None:
            from klamm.legacy.zookeeper import Registry

            self._registry = Registry(zookeeper, self._timeout)

    def send(self, topic: str, payload: Buffer, *, key: Any = None, partition: int | None = None) -> None:
        """Write a message, or add it to the batch, which is written once it has `batch_messages`.

        `partition` is one of the broker's, if only one broker is named, and an index into all of them with ZooKeeper.
        """
        self.send_many(topic, [payload], key=key, partition=partition)

    def send_many(
        self, topic: str, payloads: Iterable[Buffer], *, key: Any = None, partition: int | None = None
    ) -> None:
        """Write messages to one partition, or add them to the batch."""
        payloads = list(payloads)
        with self._lock:
            if self._closed:
                raise ClosedError("this producer is closed", hint="make a new one")
            for broker, chosen in self._places(topic, key, partition):
                self._batch.setdefault((broker, topic, chosen), []).extend(payloads)
            self._waiting += len(payloads)
            if self._waiting >= self._batch_messages:
                self._write()

    def _places(self, topic: str, key: Any, partition: int | None) -> list[tuple[tuple[str, int] | None, int]]:
        """Return where messages go: one place, with its broker if that is settled."""
        if self._registry is None:
            if partition is not None and len(self._brokers or ()) != 1:
                raise ConfigError("a partition is one of a broker's, and several brokers are named")
            return [(None, _ANY if partition is None else partition)]
        known = self._registry.partitions(topic)
        if not known:
            raise NetworkError("no broker is registered in ZooKeeper", hint="does one run with this zookeeper.connect?")
        index = self._partitioner(key, len(known)) if partition is None else partition
        if not 0 <= index < len(known):
            raise ConfigError(f"the index {index} is none of the {len(known)} partitions of {topic}")
        broker, number = known[index]
        return [(self._registry.broker(broker), number)]

    def _write(self) -> None:
        batch, self._batch, self._waiting = self._batch, {}, 0
        by_broker: dict[tuple[str, int], list[Any]] = {}
        chosen = random.choice(self._brokers) if self._brokers else None
        counts: dict[tuple[str, int], int] = {}
        for (broker, topic, partition), payloads in batch.items():
            message_set = encode_messages(payloads, magic=self._magic, compression=self._compression)
            part = {"topic": topic, "partition": partition, "message_set": message_set}
            to = broker or chosen
            if to is not None:
                by_broker.setdefault(to, []).append(part)
                counts[to] = counts.get(to, 0) + len(payloads)
        failures = []
        for to, parts in by_broker.items():
            frame = encode_request({"type": "produce" if len(parts) == 1 else "multiproduce", "parts": parts})
            try:
                self._tell(to, frame, counts[to])
            except (NetworkError, KafkaTimeoutError) as error:  # the others still get theirs
                failures.append(error)
        if failures:
            raise failures[0]

    def _tell(self, to: tuple[str, int], frame: bytes, count: int) -> None:
        connection = self._connection(to)
        lost = self._unconfirmed.get(to, 0)
        self._unconfirmed[to] = lost + count
        if lost and not connection.is_open():
            self._unconfirmed[to] = 0
            raise self._lost(connection, lost + count, None)
        try:
            connection.tell(frame)
        except (NetworkError, KafkaTimeoutError) as error:
            self._unconfirmed[to] = 0
            raise self._lost(connection, lost + count, error) from error

    def _lost(self, connection: Connection, count: int, error: KafkaError | None) -> KafkaError:
        why = "the broker closed the connection" if error is None else error.message
        return type(error or NetworkError(""))(
            f"{why}: up to {count} messages for {connection.name} are lost, those of this call among them",
            hint="flush(confirm=True) says from time to time that all is well; the broker's log says why it closed",
        )

    def _connection(self, to: tuple[str, int]) -> Connection:
        if to not in self._connections:
            self._connections[to] = Connection(*to, self._timeout)
        return self._connections[to]

    @property
    def unconfirmed(self) -> int:
        """How many messages were written, and may be lost as far as is known."""
        with self._lock:
            return sum(self._unconfirmed.values())

    def flush(self, *, confirm: bool = False) -> None:
        """Write the batch; with `confirm`, also wait until the brokers have read all that was written, and refused none."""
        with self._lock:
            self._write()
            if not confirm:
                return
            for to, count in [place for place in self._unconfirmed.items() if place[1]]:
                connection = self._connection(to)
                self._unconfirmed[to] = 0
                if not connection.is_open():
                    raise self._lost(connection, count, None)
                try:
                    connection.ask("multifetch", [])
                except (NetworkError, KafkaTimeoutError) as error:
                    raise self._lost(connection, count, error) from error

    def close(self) -> None:
        """Write the batch, and end the connections."""
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
