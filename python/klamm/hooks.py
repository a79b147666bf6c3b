"""What a program may hang into a producer: serializers, a partitioner of its own, interceptors; and into a consumer: deserializers.

A producer without any of it has the extension's `send` as its own. One with some is of a subclass whose methods are those
below, for one more Python call a record. `send_arrow` has no Python objects to show, and passes all of it by. So it is with
consumers: those without deserializers do not know that there are any, and Arrow columns hold bytes in any case.
"""

from __future__ import annotations

import time
from functools import cache, partial
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from klamm._klamm import Deserializers
from klamm.arguments import check_function, list_of
from klamm.errors import ArgumentError, BufferFullError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from datetime import datetime
    from typing import TypeAlias

    from klamm._klamm import Buffer, Pending, Record, RecordMetadata, Records
    from klamm.record import HeadersLike

Serializer: TypeAlias = "Callable[[Any], Buffer | None]"
Deserializer: TypeAlias = "Callable[[bytes], Any]"
Partitioner: TypeAlias = "Callable[[str, Buffer | None, Buffer | None, int], int]"
"""Chooses a partition from topic, key and value as serialized, and the number of partitions."""

__all__ = [
    "DeliveryInterceptor",
    "Deserializer",
    "Interceptor",
    "NewRecord",
    "Partitioner",
    "SendInterceptor",
    "Serializer",
]

COUNT_HOLDS_S = 60.0
"""How long a topic is taken to have as many partitions as it had; they are added rarely."""


class NewRecord(NamedTuple):
    """A record on its way to a producer; `_replace` makes a changed one of it."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | datetime | None = None
    headers: HeadersLike | None = None


class SendInterceptor(Protocol):
    """What sees every record before it is serialized."""

    def on_send(self, record: NewRecord) -> NewRecord:
        """Return the record to send instead; raising makes `send` raise."""


class DeliveryInterceptor(Protocol):
    """What sees every outcome."""

    def on_delivery(self, delivery: Pending[RecordMetadata]) -> object:
        """Look at an outcome, in the thread that brings it: `delivery.result()` does not wait here. See `Delivery`."""


Interceptor: TypeAlias = "SendInterceptor | DeliveryInterceptor"
"""An object with one of the two methods, or with both."""


class Hooks(NamedTuple):
    """The hooks of one producer."""

    key_serializer: Serializer | None
    value_serializer: Serializer | None
    partitioner: Partitioner | None
    on_send: Sequence[Callable[[NewRecord], NewRecord]]
    on_delivery: Sequence[Callable[[Pending[RecordMetadata]], object]]

    @classmethod
    def of(
        cls,
        key_serializer: Serializer | None,
        value_serializer: Serializer | None,
        partitioner: Partitioner | None,
        on_delivery: Callable[[Pending[RecordMetadata]], object] | None,
        interceptors: Sequence[object],
    ) -> Hooks | None:
        """Return the hooks, or None if there is nothing to hang in."""
        for name, given in (
            ("key_serializer", key_serializer),
            ("value_serializer", value_serializer),
            ("on_delivery", on_delivery),
        ):
            check_function(name, given)
        interceptors = list_of("interceptors", interceptors)
        for each in interceptors:
            if not (hasattr(each, "on_send") or hasattr(each, "on_delivery")):
                raise ArgumentError(f"an interceptor has to have on_send or on_delivery, and {each!r} has neither")
        on_send = [i.on_send for i in interceptors if hasattr(i, "on_send")]
        told = [i.on_delivery for i in interceptors if hasattr(i, "on_delivery")]
        if on_delivery is not None:
            told.append(on_delivery)
        hooks = cls(key_serializer, value_serializer, partitioner, on_send, told)
        return hooks if any(hooks) else None

    def prepared(self, record: NewRecord) -> NewRecord:
        """Return the record as the interceptors and serializers leave it; null stays null."""
        for on_send in self.on_send:
            record = on_send(record)
            if not isinstance(record, NewRecord):
                raise ArgumentError(
                    f"on_send of an interceptor has to return a NewRecord, not {type(record).__name__}",
                    hint="return record, or record._replace(...)",
                )
        value, key = record.value, record.key
        if self.value_serializer is not None and value is not None:
            value = self.value_serializer(value)
        if self.key_serializer is not None and key is not None:
            key = self.key_serializer(key)
        return record._replace(value=value, key=key)

    def watch(self, delivery: Pending[RecordMetadata]) -> Pending[RecordMetadata]:
        """Let those who want to hear of the outcome do so."""
        for on_delivery in self.on_delivery:
            delivery.add_done_callback(on_delivery)
        return delivery


class _Hooked:
    """What both hooked producers are made of."""

    _hooks: Hooks
    _counts: dict[str, tuple[int, float]]

    def _note_count(self, topic: str, partitions: list[int]) -> int:
        self._counts[topic] = len(partitions), time.monotonic() + COUNT_HOLDS_S
        return len(partitions)

    def _needs_partition(self, record: NewRecord) -> bool:
        return record.partition is None and self._hooks.partitioner is not None

    def _placed(self, record: NewRecord, count: int) -> NewRecord:
        partition = self._hooks.partitioner(record.topic, record.key, record.value, count)  # type: ignore[misc]
        try:
            return record._replace(partition=index(partition))
        except TypeError:
            raise ArgumentError(f"the partitioner has to return an int, not {type(partition).__name__}") from None


class _HookedProducer(_Hooked):
    """The methods of a `Producer` with hooks."""

    def _count(self, topic: str) -> int | None:
        count, until = self._counts.get(topic, (0, 0.0))
        return count if time.monotonic() < until else None

    def _prepared(self, record: NewRecord) -> NewRecord:
        record = self._hooks.prepared(record)
        if self._needs_partition(record):
            topic = record.topic
            count = self._count(topic)
            if count is None:
                count = self._note_count(topic, self.partitions_for(topic))  # type: ignore[attr-defined]
            record = self._placed(record, count)
        return record

    def send(self, topic: str, *fields: Any, **named: Any) -> Pending[RecordMetadata]:
        """Send a record; see `Producer.send`."""
        record = self._prepared(NewRecord(topic, *fields, **named))
        return self._hooks.watch(super().send(*record))  # type: ignore[misc]

    def send_nowait(self, topic: str, *fields: Any, **named: Any) -> None:
        """Send a record without a handle for it; an `on_delivery` alone hears what went wrong."""
        record = self._prepared(NewRecord(topic, *fields, **named))
        if self._hooks.on_delivery:
            self._hooks.watch(super().send(*record))  # type: ignore[misc]
        else:
            super().send_nowait(*record)  # type: ignore[misc]

    def send_many(
        self, topic: str, values: Iterable[Any], keys: Iterable[Any] | None = None, partition: int | None = None
    ) -> None:
        """Send many records, each through the hooks."""
        for place, (value, key) in enumerate(_pairs(values, keys)):
            try:
                self.send_nowait(topic, value, key, partition)
            except Exception as error:
                _note_place(error, place)
                raise


class _HookedAsyncProducer(_Hooked):
    """The methods of an `AsyncProducer` with hooks."""

    def send(self, topic: str, *fields: Any, **named: Any) -> Awaitable[RecordMetadata]:
        """Send a record; see `AsyncProducer.send`."""
        record = self._hooks.prepared(NewRecord(topic, *fields, **named))
        if self._needs_partition(record):
            count, queue = self._count(topic), self._current_queue()  # type: ignore[attr-defined]
            if count is None or queue.is_partitioning(topic):

                async def find(timeout: float) -> NewRecord:
                    count = self._count(topic)
                    if count is None:
                        partitions = await self.partitions_for(topic, timeout)  # type: ignore[attr-defined]
                        count = self._note_count(topic, partitions)
                    return self._placed(record, count)

                return queue.send_unpartitioned(self, topic, find)  # type: ignore[no-any-return]
            record = self._placed(record, count)
        return super().send(*record)  # type: ignore[misc, no-any-return]

    def _count(self, topic: str) -> int | None:
        """Return how many partitions there were, if anybody has asked; what is too old is asked for again meanwhile."""
        count, until = self._counts.get(topic, (None, 0.0))
        if count is not None and time.monotonic() >= until:
            self._counts[topic] = count, time.monotonic() + COUNT_HOLDS_S  # not asked for by every record
            self._partitions_for(topic).add_done_callback(partial(self._take_count, topic))  # type: ignore[attr-defined]
        return count

    def _take_count(self, topic: str, answer: Pending[list[int]]) -> None:
        if answer.exception() is None:
            self._note_count(topic, answer.result())

    def send_nowait(self, topic: str, *fields: Any, **named: Any) -> Pending[RecordMetadata]:
        """Send a record without waiting; see `AsyncProducer.send_nowait`."""
        return self._try_send(*self._prepared(NewRecord(topic, *fields, **named)))

    def _prepared(self, record: NewRecord) -> NewRecord:
        record = self._hooks.prepared(record)
        if self._needs_partition(record):
            count = self._count(record.topic)
            if count is None:
                raise ConfigError(
                    f"how many partitions topic {record.topic!r} has is not known yet, and the partitioner wants to know",
                    hint="await send, or send_many, first",
                )
            record = self._placed(record, count)
        return record

    def _try_send(self, *record: Any) -> Pending[RecordMetadata]:
        return self._hooks.watch(super()._try_send(*record))  # type: ignore[misc]

    async def send_many(
        self, topic: str, values: Iterable[Any], keys: Iterable[Any] | None = None, partition: int | None = None
    ) -> None:
        """Send many records, each through the hooks; an `on_delivery` alone hears what went wrong."""
        if self._hooks.partitioner is not None and self._count(topic) is None:
            self._note_count(topic, await self.partitions_for(topic))  # type: ignore[attr-defined]
        for done, (value, key) in enumerate(_pairs(values, keys)):
            try:
                record = self._prepared(NewRecord(topic, value, key, partition))
                while True:
                    try:
                        self._try_send(*record)
                        break
                    except BufferFullError:
                        await self._for_room(done)  # type: ignore[attr-defined]
            except Exception as error:
                _note_place(error, done)
                raise


def _note_place(error: Exception, place: int) -> None:
    """Say with what a hook raised, of which of many records it was, where exceptions take notes (Python 3.11)."""
    if hasattr(error, "add_note"):
        error.add_note(f"with values[{place}] of send_many, which sent those before it")


def _pairs(values: Iterable[Any], keys: Iterable[Any] | None) -> Iterable[tuple[Any, Any]]:
    values, keys = sequences(values, keys)
    return ((value, None) for value in values) if keys is None else zip(values, keys, strict=True)


def sequences(
    values: Iterable[Any], keys: Iterable[Any] | None
) -> tuple[list[Any] | tuple[Any, ...], list[Any] | tuple[Any, ...] | None]:
    """Check a call's sequences: lists or tuples of the same length."""
    for name, items in ("values", values), ("keys", keys):
        if isinstance(items, (str, bytes, bytearray, memoryview)):
            raise ArgumentError(f"{name} has to be a sequence of bytes-like objects, not {type(items).__name__}")
    values = values if isinstance(values, (list, tuple)) else list_of("values", values)
    if keys is not None:
        keys = keys if isinstance(keys, (list, tuple)) else list_of("keys", keys)
        if len(keys) != len(values):
            raise ConfigError(
                f"there are {len(values):,} values but {len(keys):,} keys", hint="give as many keys as values"
            )
    return values, keys


class _HookedConsumer:
    """The methods of a `Consumer` with deserializers."""

    _deserializers: Deserializers

    def __iter__(self) -> Iterator[Record[Any, Any]]:
        return map(self._deserializers, super().__iter__())  # type: ignore[misc]

    def _poll(self, timeout: float | None, max_records: int | None, *max_bytes: int | None) -> Records[Any, Any] | None:
        # A share consumer's has no bound in bytes.
        records = super()._poll(timeout, max_records, *max_bytes)  # type: ignore[misc]
        return None if records is None else records._deserialized(self._deserializers)  # noqa: SLF001


class _HookedAsyncConsumer(_HookedConsumer):
    """The methods of an `AsyncConsumer` with deserializers."""

    async def __anext__(self) -> Record[Any, Any]:
        return self._deserializers(await super().__anext__())  # type: ignore[misc]


def deserializers(key: Deserializer | None, value: Deserializer | None) -> Deserializers | None:
    """Check the deserializers of a consumer; None if there are none."""
    for name, given in ("key_deserializer", key), ("value_deserializer", value):
        check_function(name, given, of=" of bytes")
    return None if key is None and value is None else Deserializers(key, value)


@cache
def hooked(cls: Any) -> Any:
    """Return the subclass of a client's class that has hooks; it goes by the same name."""
    is_async = hasattr(cls, "__aenter__")
    if hasattr(cls, "send"):
        methods: type = _HookedAsyncProducer if is_async else _HookedProducer
    else:
        methods = _HookedAsyncConsumer if is_async else _HookedConsumer
    return type(cls.__name__, (methods, cls), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})
