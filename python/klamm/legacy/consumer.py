"""`Consumer07`: reads a broker of Kafka 0.6 or 0.7, partition by partition."""

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
from klamm.legacy.connection import Connection, address, seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from klamm._klamm import Message07

LATEST = -1
EARLIEST = -2
_HINTS = {
    1: "the broker may have deleted it: go on at earliest() or latest()",
    3: "each broker has its own partitions, numbered from 0; those of a topic that it has not are as many as its default",
}


class Fetched(NamedTuple):
    """What one fetch gave."""

    messages: list[Message07]
    """The messages, in order."""
    next_offset: int
    """Where to fetch next."""


class _Taken(NamedTuple):
    """The same, of messages that become objects when somebody asks for them."""

    messages: Collection[Message07]
    next_offset: int

    def kept(self) -> Fetched:
        return Fetched(list(self.messages), self.next_offset)


class Consumer07:
    """A reader of one broker of Kafka 0.6 or 0.7.

        with klamm.legacy.Consumer07("old:9092") as consumer:
            for message in consumer.messages("words", 0, consumer.earliest("words", 0)):
                print(message.offset, message.payload)

    The broker keeps no positions; they are byte offsets, and the next message is at `next_offset` of this one. A fetch asks for
    `fetch_size` bytes, and for more where one message is larger, up to `max_fetch_size`. `magic=0` is for Kafka 0.6, whose
    messages are of no other kind: one that is not raises `DecodeError`.
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
            raise ConfigError(f"fetch_size cannot be {fetch_size}, only from 1 to max_fetch_size, {max_fetch_size}")
        if magic not in (0, 1):
            raise ConfigError(f"there is no magic {magic} here, only 0 and 1")
        host, port = address(broker)
        self._connection = Connection(host, port, seconds("timeout", timeout), max_fetch_size)
        self._fetch_size, self._max_fetch_size, self._magic = fetch_size, max_fetch_size, magic

    @property
    def broker(self) -> str:
        """Its address."""
        return self._connection.name

    def offsets(
        self, topic: str, partition: int, before: float | dt.datetime = LATEST, max_number: int = 1
    ) -> list[int]:
        """Return where segments begin that were written to until a time, and the log's end, newest first.

        `before` is -1 for all of them, -2 for the earliest alone, a time in milliseconds since 1970, or a `datetime` with a time
        zone. The end was always written to now. A broker answers for a partition that it has not by closing the connection.
        """
        if isinstance(before, dt.datetime):
            if before.tzinfo is None:
                raise ConfigError(
                    "a datetime without time zone says no time", hint="datetime.now(timezone.utc), for example"
                )
            before = before.timestamp() * 1000
        if max_number < 0:
            raise ConfigError(f"max_number cannot be {max_number}, only 0 and more")
        part = {"topic": topic, "partition": partition, "time": int(before), "max_number": max_number}
        body = self._connection.ask("offsets", [part])  # type: ignore[list-item]
        answer = decode_response("offsets", len(body).to_bytes(4, "big") + body)
        self._check(answer["error"], topic, partition, "offsets")
        return answer["offsets"]

    def partitions(self, topic: str) -> list[int]:
        """Return the partitions that the broker has of a topic, written to or not.

        Brokers do not list them, but refuse others; one request each. A topic that nobody has named yet has as many as any.
        """
        found: list[int] = []
        with suppress(UnknownTopicOrPartitionError):
            while True:
                with suppress(OffsetOutOfRangeError):  # the first segments are deleted
                    self.fetch(topic, len(found), 0)
                found.append(len(found))
        return found

    def earliest(self, topic: str, partition: int) -> int:
        """Return the offset of the first message that is kept."""
        return self._one(topic, partition, EARLIEST)

    def latest(self, topic: str, partition: int) -> int:
        """Return the offset of the next message to come, as far as the log is flushed."""
        return self._one(topic, partition, LATEST)

    def _one(self, topic: str, partition: int, which: int) -> int:
        found = self.offsets(topic, partition, which)
        if not found:
            raise DecodeError(f"{self.broker} named no offset of {topic}-{partition}")
        return found[0]

    def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        """Return messages from an offset on, none at the end of the log.

        `OffsetInMessageError` where no message begins there; `InvalidFetchSizeError` if one is larger than `max_fetch_size`.
        """
        return self._fetch(topic, partition, offset, is_boundary=False).kept()

    def multi_fetch(self, places: Sequence[tuple[str, int, int]]) -> list[Fetched]:
        """Return messages from several offsets on, (topic, partition, offset), in their order.

        One request has as many of them as `max_fetch_size` has room for.
        """
        size = self._fetch_size
        most = self._max_fetch_size // size
        if len(places) > most:
            return [found for at in range(0, len(places), most) for found in self.multi_fetch(places[at : at + most])]
        parts = [{"topic": topic, "partition": p, "offset": offset, "max_size": size} for topic, p, offset in places]
        body = self._connection.ask("multifetch", parts)  # type: ignore[arg-type]
        answers = decode_fetched(body, True, [offset for _, _, offset in places])
        taken = [
            self._taken(place, answer, size, is_boundary=False) or self._fetch(*place, is_boundary=False, size=size)
            for place, answer in zip(places, answers, strict=True)
        ]
        return [each.kept() for each in taken]

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
        """Iterate over the messages from an offset on, up to the end of the log as it is met.

        With `index`, those before it in the message at `offset` are left out: to go on behind a message `m` that came
        compressed with others, pass `m.offset` and `m.index + 1`, or `m.next_offset` if it was the last. `end` is an offset to
        stop at. With `follow`, wait for more at the end, asking every `interval` seconds.
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

    def _fetch(self, topic: str, partition: int, offset: int, *, is_boundary: bool, size: int = 0) -> _Taken:
        size = size * 2 or self._fetch_size
        while True:
            size = min(size, self._max_fetch_size)
            part = {"topic": topic, "partition": partition, "offset": offset, "max_size": size}
            (answer,) = decode_fetched(self._connection.ask("fetch", [part]), False, [offset])  # type: ignore[list-item]
            taken = self._taken((topic, partition, offset), answer, size, is_boundary=is_boundary)
            if taken is not None:
                return taken
            if size == self._max_fetch_size:
                raise InvalidFetchSizeError(
                    f"the message at {offset} of {topic}-{partition} has more than {size} bytes",
                    code=4,
                    topic=topic,
                    partition=partition,
                    broker=self.broker,
                    hint="raise max_fetch_size",
                )
            size *= 2

    def _taken(
        self,
        place: tuple[str, int, int],
        answer: tuple[int, Collection[Message07], int, int, DecodeError | None],
        size: int,
        *,
        is_boundary: bool,
    ) -> _Taken | None:
        """Return what came; None if the first message needs a larger fetch."""
        topic, partition, offset = place
        error, messages, next_offset, left, damage = answer
        self._check(error, topic, partition, f"fetch from {offset}")
        if self._magic == 0 and any(message.magic != 0 for message in messages):
            raise DecodeError(
                f"a message behind {offset} of {topic}-{partition} is not of magic 0", hint="is this Kafka 0.7?"
            )
        if next_offset != offset:
            return _Taken(messages, next_offset)
        if damage is not None:
            self._refuse(place, str(damage), is_boundary=is_boundary, cause=damage)
        got = left
        if got == 0:
            return _Taken([], offset)
        # A broker cuts an answer only where it was told to: what is shorter ends with the log, or with a segment of it.
        if got < size:
            self._refuse(place, f"the log ends {got} bytes behind it", is_boundary=is_boundary, cause=None)
        return None

    def _refuse(self, place: tuple[str, int, int], why: str, *, is_boundary: bool, cause: Exception | None) -> None:
        topic, partition, offset = place
        where = f"offset {offset} of {topic}-{partition} on {self.broker}"
        if is_boundary:
            raise DecodeError(f"the message at {where} is damaged: {why}", offset=offset) from cause
        raise OffsetInMessageError(
            f"no message begins at {where}: {why}",
            offset=offset,
            hint="begin at an offset that a message or offsets() gave; if it was one, the log is damaged there",
        ) from cause

    def _check(self, error: int, topic: str, partition: int, tried: str) -> None:
        if error != 0:
            raise by_code(error)(
                f"{tried} of {topic}-{partition} was refused with error {error}",
                code=error,
                topic=topic,
                partition=partition,
                broker=self.broker,
                hint=_HINTS.get(error),
            )

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<klamm.legacy.Consumer07 of {self.broker}>"
