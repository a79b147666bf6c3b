"""`Consumer07`: reads the partitions of one broker of Kafka 0.6 or 0.7.

The module `group` has the consumer for groups, which needs ZooKeeper. The Rust core decodes message sets.
"""

from __future__ import annotations

import datetime as dt
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from klamm._klamm import decode_fetched, decode_response
from klamm.errors import (
    ConfigError,
    DecodeError,
    InvalidFetchSizeError,
    OffsetInMessageError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    by_code,
)
from klamm.legacy.connection import Closing, Connection, address, seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from klamm._klamm import Fetched07, Message07

LATEST = -1
EARLIEST = -2
_HINTS = {
    1: "the broker may have deleted these messages: continue at earliest() or latest()",
    3: "each broker has its own partitions, numbered from 0; for an unknown topic it uses its default number of partitions",
}


def source_headers(message: Message07, broker: str, partition: int) -> list[tuple[str, bytes]]:
    """Return headers with the origin of a copied message: source.broker, source.partition and source.offset.

    A message that was compressed together with other messages also has the header source.index.
    """
    headers = [
        ("source.broker", broker.encode()),
        ("source.partition", b"%d" % partition),
        ("source.offset", b"%d" % message.offset),
    ]
    return [*headers, ("source.index", b"%d" % message.index)] if message.count > 1 else headers


def partitions_with_messages(consumer: Consumer07, topic: str) -> list[int]:
    """Return the numbers of a topic's partitions on a broker. Raise an error if no partition has ever had a message."""
    partitions = consumer.partitions(topic)
    if not any(consumer.latest(topic, number) for number in partitions):
        raise UnknownTopicOrPartitionError(
            f"broker {consumer.broker} has no messages in topic {topic!r}",
            code=3,
            topic=topic,
            broker=consumer.broker,
            hint="check the name of the topic: old brokers accept any name",
        )
    return partitions


class Fetched(NamedTuple):
    """Result of one fetch."""

    messages: list[Message07]
    """The messages, in the order of their offsets."""
    next_offset: int
    """Byte offset to fetch from next."""


class _LazyFetched(NamedTuple):
    """Like `Fetched`, but creates the Python object for a message when the message is accessed."""

    messages: Collection[Message07]
    next_offset: int

    def load(self) -> Fetched:
        return Fetched(list(self.messages), self.next_offset)


class Consumer07(Closing):
    """Reads messages from one broker of Kafka 0.6 or 0.7.

    The broker does not store positions, so the application has to store its own positions. A position is a byte offset.
    The `next_offset` of a message is the position after the message.

    Args:
        broker: Address of the broker, `host:port`.
        fetch_size: Size of one fetch, in bytes. Default 1 MiB. If a message is larger, the consumer fetches more bytes.
        max_fetch_size: Maximum size of a fetch for a large message, in bytes. Default 128 MiB.
        magic: Message format: 1 for Kafka 0.7 (the default), 0 for Kafka 0.6. With `magic=0`, a message of a newer
            format raises `DecodeError`.
        timeout: Seconds for each request. Default 10. None waits forever.

    Raises:
        ConfigError: An argument has an invalid value.

    Example:
        with klamm.legacy.Consumer07("old:9092") as consumer:
            for message in consumer.messages("words", 0, consumer.earliest("words", 0)):
                print(message.offset, message.payload)
    """

    def __init__(
        self,
        broker: str,
        *,
        fetch_size: int = 1 << 20,
        max_fetch_size: int = 128 << 20,
        magic: int = 1,
        timeout: float | None = 10.0,
    ) -> None:
        if not 0 < fetch_size <= max_fetch_size < 1 << 31:
            raise ConfigError(
                f"invalid fetch_size {fetch_size} with max_fetch_size {max_fetch_size}",
                hint="fetch_size must be at least 1 and at most max_fetch_size, which must be below 2 GiB",
            )
        if magic not in (0, 1):
            raise ConfigError(f"invalid magic {magic}", hint="use 1 for Kafka 0.7, 0 for Kafka 0.6")
        host, port = address(broker)
        self._connection = Connection(host, port, seconds("timeout", timeout), max_fetch_size)
        self._fetch_size, self._max_fetch_size, self._magic = fetch_size, max_fetch_size, magic

    @property
    def broker(self) -> str:
        """Return the broker's address, `host:port`."""
        return self._connection.name

    def offsets(
        self, topic: str, partition: int, before: float | dt.datetime = LATEST, max_number: int = 1
    ) -> list[int]:
        """Return the offsets at which segments begin, newest first.

        The list includes the end of the log, unless `before` is in the past. If a broker does not have the partition,
        the broker closes the connection.

        Args:
            topic: Name of the topic.
            partition: Number of the partition on this broker.
            before: Return only segments that were last written before this time: milliseconds since 1970 or a
                `datetime` with a time zone. -1 (the default) returns all offsets, and -2 only the earliest offset.
            max_number: Maximum number of offsets. Default 1.

        Raises:
            ConfigError: `before` has no time zone, or `max_number` is negative.
            NetworkError: The broker closed the connection.
        """
        if isinstance(before, dt.datetime):
            if before.tzinfo is None:
                raise ConfigError("the datetime has no time zone", hint="pass datetime.now(timezone.utc), for example")
            before = before.timestamp() * 1000
        if max_number < 0:
            raise ConfigError(f"invalid max_number {max_number}", hint="use 0 or more")
        part = {"topic": topic, "partition": partition, "time": int(before), "max_number": max_number}
        body = self._connection.request("offsets", [part])  # type: ignore[list-item]
        response = decode_response("offsets", len(body).to_bytes(4, "big") + body)
        self._check(response["error"], topic, partition, "list offsets")
        return response["offsets"]

    def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions on this broker, including empty partitions.

        Brokers have no request that lists partitions. This method fetches from partition 0, 1 and so on, until the
        broker rejects a number. For an unknown topic, a broker accepts the partitions that it creates by default.
        """
        found: list[int] = []
        with suppress(UnknownTopicOrPartitionError):
            while True:
                with suppress(OffsetOutOfRangeError):  # the broker has deleted the first segments of the partition
                    self.fetch(topic, len(found), 0)
                found.append(len(found))
        return found

    def earliest(self, topic: str, partition: int) -> int:
        """Return the offset of the first message that the broker still has."""
        return self._one(topic, partition, EARLIEST)

    def latest(self, topic: str, partition: int) -> int:
        """Return the offset at which the flushed part of the log ends."""
        return self._one(topic, partition, LATEST)

    def _one(self, topic: str, partition: int, which: int) -> int:
        offsets = self.offsets(topic, partition, which)
        if not offsets:
            raise DecodeError(f"offsets response of {self.broker} for {topic}-{partition} contains no offset")
        return offsets[0]

    def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        """Fetch messages, from the message that begins at a byte offset. At the end of the log, return no messages.

        Raises:
            OffsetInMessageError: No message begins at this offset.
            OffsetOutOfRangeError: The log does not contain this offset.
            InvalidFetchSizeError: The message is larger than `max_fetch_size`.
            UnknownTopicOrPartitionError: The broker does not have this partition.
        """
        return self._fetch(topic, partition, offset, is_boundary=False).load()

    def multi_fetch(self, positions: Sequence[tuple[str, int, int]]) -> list[Fetched]:
        """Fetch from any number of partitions with one request.

        If the response would exceed `max_fetch_size`, the consumer sends more than one request.

        Args:
            positions: Topic, partition and byte offset of each fetch.

        Returns:
            One result for each position, in the same order.

        Raises:
            KafkaError: The errors of `fetch`.
        """
        size = self._fetch_size
        most = self._max_fetch_size // size
        if len(positions) > most:
            chunks = (positions[at : at + most] for at in range(0, len(positions), most))
            return [fetched for chunk in chunks for fetched in self.multi_fetch(chunk)]
        parts = [{"topic": topic, "partition": p, "offset": offset, "max_size": size} for topic, p, offset in positions]
        body = self._connection.request("multifetch", parts)  # type: ignore[arg-type]
        responses = decode_fetched(body, True, [offset for _, _, offset in positions])
        messages = [
            self._check_fetched(at, response, size, is_boundary=False) or self._fetch(*at, is_boundary=False, size=size)
            for at, response in zip(positions, responses, strict=True)
        ]
        return [each.load() for each in messages]

    def messages(
        self,
        topic: str,
        partition: int,
        offset: int,
        index: int = 0,
        *,
        end: int | None = None,
        follow: bool = False,
        interval: float = 1.0,
    ) -> Iterator[Message07]:
        """Iterate over the messages from an offset on, up to the end of the log.

        To resume after a message `m`, pass `m.next_offset`. If more messages follow `m` in the same compressed message,
        pass `m.offset` and `m.index + 1` instead.

        Args:
            topic: Name of the topic.
            partition: Number of the partition on this broker.
            offset: Byte offset at which a message begins.
            index: Number of messages to skip in the compressed message at `offset`. Default 0.
            end: Byte offset at which to stop. Default: stop when the log has no more messages.
            follow: Wait for new messages at the end of the log. Default False.
            interval: Seconds between requests at the end of the log. Default 1.

        Raises:
            DecodeError: A message is damaged.
            KafkaError: The errors of `fetch`.
        """
        is_boundary = False
        while end is None or offset < end:
            fetched = self._fetch(topic, partition, offset, is_boundary=is_boundary)
            found: Iterable[Message07] = fetched.messages
            if index > 0:
                found = [message for message in found if message.offset != offset or message.index >= index]
            if end is not None and fetched.next_offset > end:
                found = [message for message in found if message.offset < end]
            yield from found
            if fetched.next_offset == offset:
                if not follow:
                    return
                time.sleep(interval)
                continue
            offset, index, is_boundary = fetched.next_offset, 0, True

    def _fetch(self, topic: str, partition: int, offset: int, *, is_boundary: bool, size: int = 0) -> _LazyFetched:
        size = size * 2 or self._fetch_size
        while True:
            size = min(size, self._max_fetch_size)
            part = {"topic": topic, "partition": partition, "offset": offset, "max_size": size}
            body = self._connection.request("fetch", [part])  # type: ignore[list-item]
            (response,) = decode_fetched(body, False, [offset])
            fetched = self._check_fetched((topic, partition, offset), response, size, is_boundary=is_boundary)
            if fetched is not None:
                return fetched
            if size == self._max_fetch_size:
                raise InvalidFetchSizeError(
                    f"the message at offset {offset} of {topic}-{partition} is larger than {size} bytes",
                    code=4,
                    topic=topic,
                    partition=partition,
                    broker=self.broker,
                    hint="raise max_fetch_size",
                )
            size *= 2

    def _check_fetched(
        self,
        position: tuple[str, int, int],
        response: Fetched07,
        size: int,
        *,
        is_boundary: bool,
    ) -> _LazyFetched | None:
        """Return the messages of a response, or None if the first message needs a larger fetch."""
        topic, partition, offset = position
        messages, rest, damage = response.messages, response.left, response.damage
        self._check(response.error, topic, partition, f"fetch from offset {offset}")
        if self._magic == 0 and any(message.magic != 0 for message in messages):
            raise DecodeError(
                f"a message after offset {offset} of {topic}-{partition} does not have magic 0",
                hint="if this broker is Kafka 0.7, use magic=1",
            )
        if response.next_offset != offset:
            return _LazyFetched(messages, response.next_offset)
        if damage is not None:
            self._raise_damaged(position, str(damage), is_boundary=is_boundary, cause=damage)
        if rest == 0:
            return _LazyFetched([], offset)
        # A broker cuts a response only at the requested size. A shorter response ends where the log or a segment ends.
        if rest < size:
            self._raise_damaged(position, f"the log ends {rest} bytes after it", is_boundary=is_boundary, cause=None)
        return None

    def _raise_damaged(
        self, position: tuple[str, int, int], why: str, *, is_boundary: bool, cause: Exception | None
    ) -> None:
        topic, partition, offset = position
        where = f"offset {offset} of {topic}-{partition} on {self.broker}"
        if is_boundary:
            raise DecodeError(f"the message at {where} is damaged: {why}", offset=offset) from cause
        raise OffsetInMessageError(
            f"no message begins at {where}: {why}",
            offset=offset,
            hint="use a message's next_offset or a result of offsets(); if you did, the log is damaged at this offset",
        ) from cause

    def _check(self, error: int, topic: str, partition: int, action: str) -> None:
        if error != 0:
            raise by_code(error)(
                f"{action} of {topic}-{partition} failed with error code {error}",
                code=error,
                topic=topic,
                partition=partition,
                broker=self.broker,
                hint=_HINTS.get(error),
            )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def abort(self) -> None:
        """Close the connection at once. If another thread waits for a response, its request fails."""
        self._connection.abort()

    def __repr__(self) -> str:
        return f"<klamm.legacy.Consumer07 of {self.broker}>"
