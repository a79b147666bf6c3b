"""Hooks of producers and consumers.

A producer can have serializers, a partitioner function, interceptors and delivery callbacks. A consumer can have
deserializers.

A producer without hooks uses the core's `send` directly. The core also calls the delivery callbacks. A producer with
other hooks is an instance of a subclass from this file, and needs one more Python call for each record. `send_arrow`
has no Python objects for records, so it bypasses the hooks. A consumer without deserializers and interceptors uses the
core's methods directly. Deserializers do not run for Arrow columns, which contain bytes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache, partial
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from klamm._klamm import Deserializers
from klamm.arguments import check_function, list_of, seconds
from klamm.errors import ArgumentError, BufferFullError, ConfigError, KafkaTimeoutError
from klamm.hints import wrong_record
from klamm.record_deserializers import DeserializedRecords, RecordDeserializers, is_record_deserializer, look_up

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from datetime import datetime
    from typing import TypeAlias, TypeGuard

    from klamm._klamm import Buffer, Pending, Record, RecordMetadata, Records
    from klamm.record import HeadersLike
    from klamm.record_deserializers import FailedLookups

Serializer: TypeAlias = "Callable[[Any], Buffer | None]"
Deserializer: TypeAlias = "Callable[[bytes], Any]"
Partitioner: TypeAlias = "Callable[[str, Buffer | None, Buffer | None, int], int]"
"""Function that takes topic, serialized key, serialized value and partition count, and returns a partition number."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # The types that deserializers return.
    K_co = TypeVar("K_co", covariant=True, default=bytes)
    V_co = TypeVar("V_co", covariant=True, default=bytes)
    # The types that serializers take.
    K_contra = TypeVar("K_contra", contravariant=True, default=Buffer)
    V_contra = TypeVar("V_contra", contravariant=True, default=Buffer)
else:
    from typing import TypeVar  # `typing.TypeVar` accepts no default before Python 3.13

    K_co, V_co = TypeVar("K_co", covariant=True), TypeVar("V_co", covariant=True)
    K_contra, V_contra = TypeVar("K_contra", contravariant=True), TypeVar("V_contra", contravariant=True)

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
"""Seconds for which a producer caches a topic's number of partitions. Topics rarely get new partitions."""


class NewRecord(NamedTuple):
    """A record to send, as interceptors get it. `record._replace(...)` returns a changed copy.

    The fields are the arguments of `Producer.send`.
    """

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | datetime | None = None
    headers: HeadersLike | None = None


class SendInterceptor(Protocol):
    """An interceptor that gets each record of `send` and `send_many` before the producer serializes the record."""

    def on_send(self, record: NewRecord) -> NewRecord:
        """Return the record to send. If `on_send` raises an exception, `send` raises the same exception."""


class DeliveryInterceptor(Protocol):
    """An interceptor that gets every completed delivery."""

    def on_delivery(self, delivery: Pending[RecordMetadata]) -> object:
        """Handle a completed delivery. In `on_delivery`, `delivery.result()` does not block.

        klamm's I/O thread, or a thread that waits for a delivery, calls the interceptor. The interceptor must be short
        and must not block.
        """


Interceptor: TypeAlias = "SendInterceptor | DeliveryInterceptor"
"""An object with `on_send`, `on_delivery` or both."""


class Hooks(NamedTuple):
    """The hooks of one producer."""

    key_serializer: Serializer | None
    value_serializer: Serializer | None
    partitioner: Partitioner | None
    on_send: Sequence[Callable[[NewRecord], NewRecord]]
    on_delivery: Callable[[Pending[RecordMetadata]], object] | None
    delivery_interceptors: Sequence[Callable[[Pending[RecordMetadata]], object]]

    @classmethod
    def of(
        cls,
        key_serializer: Serializer | None,
        value_serializer: Serializer | None,
        partitioner: Partitioner | None,
        on_delivery: Callable[[Pending[RecordMetadata]], object] | None,
        interceptors: Sequence[object],
    ) -> Hooks | None:
        """Create the hooks of a producer. If all arguments are empty, return None."""
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
        callbacks = [i.on_delivery for i in interceptors if hasattr(i, "on_delivery")]
        hooks = cls(key_serializer, value_serializer, partitioner, on_send, on_delivery, callbacks)
        return hooks if any(hooks) else None

    @property
    def needs_records(self) -> bool:
        """Whether a hook takes the record before the producer sends it."""
        return any(self[:4])

    def prepared(self, record: NewRecord) -> NewRecord:
        """Pass a record through the interceptors and serializers, and return the result."""
        return self.serialized(self.intercepted(record))

    def intercepted(self, record: NewRecord) -> NewRecord:
        """Pass a record through `on_send` of all interceptors, and return the result."""
        for on_send in self.on_send:
            record = on_send(record)
            if not isinstance(record, NewRecord):
                raise ArgumentError(
                    f"on_send of an interceptor has to return a NewRecord, not {type(record).__name__}",
                    hint="return record, or record._replace(...)",
                )
        return record

    def serialized(self, record: NewRecord) -> NewRecord:
        """Serialize the key and value of a record, and return the result. A key or value of `None` stays `None`."""
        value, key = record.value, record.key
        changes_headers = is_record_serializer(self.value_serializer) or is_record_serializer(self.key_serializer)
        headers = header_pairs(record.headers) if changes_headers else []
        if self.value_serializer is not None and value is not None:
            value = _serialized(self.value_serializer, value, record.topic, "value", headers)
        if self.key_serializer is not None and key is not None:
            key = _serialized(self.key_serializer, key, record.topic, "key", headers)
        record = record._replace(value=value, key=key)
        return record._replace(headers=headers) if changes_headers else record

    def unprepared(self, record: NewRecord) -> list[Callable[[], Awaitable[None]]]:
        """Return the coroutine functions that must run before the producer can serialize a record on an event loop."""
        pairs = ("key", self.key_serializer, record.key), ("value", self.value_serializer, record.value)
        return [
            partial(serializer.prepare, value, record.topic, field)
            for field, serializer, value in pairs
            if value is not None
            and is_record_serializer(serializer)
            and not serializer.is_prepared(value, record.topic, field)
        ]


class RecordSerializer(Protocol):
    """A serializer that also takes the topic, and can change the headers, such as the serializers of `klamm.registry`."""

    def serialize(self, value: Any, topic: str, field: Any, headers: list[tuple[str, bytes | None]]) -> Buffer:
        """Return the bytes of a key or value."""

    def is_prepared(self, value: Any, topic: str, field: Any) -> bool:
        """Return whether `serialize` can run without blocking."""

    async def prepare(self, value: Any, topic: str, field: Any) -> None:
        """Do the blocking part of the work, so that `serialize` does not block."""


def is_record_serializer(serializer: Any) -> TypeGuard[RecordSerializer]:
    """Return whether a serializer is a RecordSerializer. `isinstance` would take longer than many serializers."""
    return hasattr(serializer, "is_prepared")


def _serialized(
    serializer: Serializer, value: Any, topic: str, field: str, headers: list[tuple[str, bytes | None]]
) -> Buffer | None:
    if is_record_serializer(serializer):
        return serializer.serialize(value, topic, field, headers)
    return serializer(value)


def header_pairs(headers: HeadersLike | None) -> list[Any]:
    """Return headers as a list of pairs."""
    if headers is None:
        return []
    return list(headers.items() if isinstance(headers, Mapping) else headers)


def _new_record(method: str, topic: str, fields: tuple[Any, ...], named: Mapping[str, Any]) -> NewRecord:
    try:
        return NewRecord(topic, *fields, **named)
    except TypeError:
        raise wrong_record(method, named) from None


class _Hooked:
    """The base class of both producers with hooks."""

    _hooks: Hooks
    _counts: dict[str, tuple[int, float]]

    def _cache_count(self, topic: str, partitions: list[int]) -> int:
        self._counts[topic] = len(partitions), time.monotonic() + COUNT_HOLDS_S
        return len(partitions)

    def _needs_partition(self, record: NewRecord) -> bool:
        return record.partition is None and self._hooks.partitioner is not None

    def _with_partition(self, record: NewRecord, count: int) -> NewRecord:
        partition = self._hooks.partitioner(record.topic, record.key, record.value, count)  # type: ignore[misc]
        try:
            return record._replace(partition=index(partition))
        except TypeError:
            raise ArgumentError(f"the partitioner has to return an int, not {type(partition).__name__}") from None


class _ReportingProducer:
    """The methods of a `Producer` whose only hooks are delivery callbacks."""

    def send_many(
        self, topic: str, values: Iterable[Any], keys: Iterable[Any] | None = None, partition: int | None = None
    ) -> None:
        """Send many records, and call the hooks for each record; see `Producer.send_many`."""
        for done, (value, key) in enumerate(_pairs(values, keys)):
            try:
                self.send_nowait(topic, value, key, partition)  # type: ignore[attr-defined]
            except Exception as error:
                _add_index(error, done)
                raise


class _HookedProducer(_Hooked, _ReportingProducer):
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
                count = self._cache_count(topic, self.partitions_for(topic))  # type: ignore[attr-defined]
            record = self._with_partition(record, count)
        return record

    def send(self, topic: str, *fields: Any, **named: Any) -> Pending[RecordMetadata]:
        """Send a record; see `Producer.send`."""
        record = self._prepared(_new_record("send", topic, fields, named))
        return super().send(*record)  # type: ignore[misc, no-any-return]

    def send_nowait(self, topic: str, *fields: Any, **named: Any) -> None:
        """Send a record without a Delivery; see `Producer.send_nowait`."""
        super().send_nowait(*self._prepared(_new_record("send_nowait", topic, fields, named)))  # type: ignore[misc]


class _HookedAsyncProducer(_Hooked):
    """The methods of an `AsyncProducer` with hooks."""

    def send(self, topic: str, *fields: Any, **named: Any) -> Awaitable[RecordMetadata]:
        """Send a record; see `AsyncProducer.send`."""
        record = self._hooks.intercepted(_new_record("send", topic, fields, named))
        if self._has_record_serializer:
            queue = self._current_queue()  # type: ignore[attr-defined]
            # A record must not overtake an earlier record that waits for its schema.
            if self._hooks.unprepared(record) or queue.is_partitioning(record.topic):
                return queue.send_unpartitioned(self, record.topic, partial(self._serialized_later, record))  # type: ignore[no-any-return]
        record = self._hooks.serialized(record)
        if self._needs_partition(record):
            count, queue = self._count(topic), self._current_queue()  # type: ignore[attr-defined]
            if count is None or queue.is_partitioning(topic):

                async def find(timeout: float) -> NewRecord:
                    count = self._count(topic)
                    if count is None:
                        partitions = await self.partitions_for(topic, timeout)  # type: ignore[attr-defined]
                        count = self._cache_count(topic, partitions)
                    return self._with_partition(record, count)

                return queue.send_unpartitioned(self, topic, find)  # type: ignore[no-any-return]
            record = self._with_partition(record, count)
        return super().send(*record)  # type: ignore[misc, no-any-return]

    @property
    def _has_record_serializer(self) -> bool:
        hooks = self._hooks
        return any(is_record_serializer(each) for each in (hooks.key_serializer, hooks.value_serializer))

    async def _serialized_later(self, record: NewRecord, timeout: float) -> NewRecord:
        """Look up the schemas of a record, and return the record with a partition."""
        record = self._hooks.serialized(await self._with_schemas(record, timeout))
        if self._needs_partition(record):
            count = self._count(record.topic)
            if count is None:
                partitions = await self.partitions_for(record.topic, timeout)  # type: ignore[attr-defined]
                count = self._cache_count(record.topic, partitions)
            record = self._with_partition(record, count)
        return record

    async def _with_schemas(self, record: NewRecord, timeout: float) -> NewRecord:
        import asyncio

        for prepare in self._hooks.unprepared(record):
            try:
                await asyncio.wait_for(prepare(), timeout)
            except asyncio.TimeoutError:
                raise KafkaTimeoutError(
                    f"the schema of a record for topic {record.topic!r} was not looked up within max_block_ms",
                    hint="check the schema registry, or increase max_block_ms",
                ) from None
        return record

    def _count(self, topic: str) -> int | None:
        """Return the cached number of partitions, or None.

        If the cached number has expired, return the expired number, and request the current number.
        """
        count, until = self._counts.get(topic, (None, 0.0))
        if count is not None and time.monotonic() >= until:
            self._counts[topic] = count, time.monotonic() + COUNT_HOLDS_S  # so that only one record requests the number
            self._partitions_for(topic).add_done_callback(partial(self._cache_result, topic))  # type: ignore[attr-defined]
        return count

    def _cache_result(self, topic: str, partitions: Pending[list[int]]) -> None:
        if partitions.exception() is None:
            self._cache_count(topic, partitions.result())

    def send_nowait(self, topic: str, *fields: Any, **named: Any) -> Pending[RecordMetadata]:
        """Send a record without waiting; see `AsyncProducer.send_nowait`."""
        return self._try_send(*self._prepared(_new_record("send_nowait", topic, fields, named)))  # type: ignore[attr-defined, no-any-return]

    def _prepared(self, record: NewRecord) -> NewRecord:
        record = self._hooks.intercepted(record)
        if self._has_record_serializer and self._hooks.unprepared(record):
            raise ConfigError(
                f"the serializer cannot run: the schema for topic {record.topic!r} is not known yet",
                hint="first await send, or the serializer's prepare",
            )
        return self._partitioned(self._hooks.serialized(record))

    def _partitioned(self, record: NewRecord) -> NewRecord:
        if self._needs_partition(record):
            count = self._count(record.topic)
            if count is None:
                raise ConfigError(
                    f"the partitioner cannot run: the number of partitions of topic {record.topic!r} is not known yet",
                    hint="await send or send_many first",
                )
            record = self._with_partition(record, count)
        return record

    async def send_many(
        self, topic: str, values: Iterable[Any], keys: Iterable[Any] | None = None, partition: int | None = None
    ) -> None:
        """Send many records, and call the hooks for each record; see `AsyncProducer.send_many`."""
        if self._hooks.partitioner is not None and self._count(topic) is None:
            self._cache_count(topic, await self.partitions_for(topic))  # type: ignore[attr-defined]
        for done, (value, key) in enumerate(_pairs(values, keys)):
            try:
                record = self._hooks.intercepted(NewRecord(topic, value, key, partition))
                if self._has_record_serializer:
                    record = await self._with_schemas(record, self._max_block)  # type: ignore[attr-defined]
                record = self._partitioned(self._hooks.serialized(record))
                while True:
                    try:
                        self._try_send(*record)  # type: ignore[attr-defined]
                        break
                    except BufferFullError:
                        await self._wait_for_room_async(done)  # type: ignore[attr-defined]
            except Exception as error:
                _add_index(error, done)
                raise


def _add_index(error: Exception, index: int) -> None:
    """Add a note to an exception of a hook, with the index of the record in the call.

    Before Python 3.11, exceptions cannot have notes.
    """
    if hasattr(error, "add_note"):
        error.add_note(f"at values[{index}] of send_many; the records before it were sent")


def _pairs(values: Iterable[Any], keys: Iterable[Any] | None) -> Iterable[tuple[Any, Any]]:
    values, keys = sequences(values, keys)
    return ((value, None) for value in values) if keys is None else zip(values, keys, strict=True)


def sequences(
    values: Iterable[Any], keys: Iterable[Any] | None
) -> tuple[list[Any] | tuple[Any, ...], list[Any] | tuple[Any, ...] | None]:
    """Return values and keys as lists or tuples of the same length."""
    for name, items in ("values", values), ("keys", keys):
        if isinstance(items, (str, bytes, bytearray, memoryview)):
            raise ArgumentError(f"{name} has to be a sequence of bytes-like objects, not {type(items).__name__}")
    values = values if isinstance(values, (list, tuple)) else list_of("values", values)
    if keys is not None:
        keys = keys if isinstance(keys, (list, tuple)) else list_of("keys", keys)
        if len(keys) != len(values):
            raise ConfigError(
                f"there are {len(values):,} values but {len(keys):,} keys", hint="pass as many keys as values"
            )
    return values, keys


class _HookedConsumer:
    """The methods of a `Consumer` with deserializers."""

    _deserializers: Deserializers | RecordDeserializers

    def __iter__(self) -> Iterator[Record[Any, Any]]:
        return map(self._deserializers, super().__iter__())  # type: ignore[misc]

    def _poll(self, timeout: float | None, max_records: int | None, *max_bytes: int | None) -> Records[Any, Any] | None:
        # A share consumer has no `max_bytes`.
        records = super()._poll(timeout, max_records, *max_bytes)  # type: ignore[misc]
        if records is None:
            return None
        if isinstance(self._deserializers, RecordDeserializers):
            return DeserializedRecords(records, self._deserializers, {})  # type: ignore[return-value]
        return records._deserialized(self._deserializers)  # type: ignore[no-any-return]  # noqa: SLF001

    def _acknowledge(self, records: Any, kind: str) -> None:
        super()._acknowledge(_plain(records), kind)  # type: ignore[misc]

    def _put_back(self, records: Any) -> None:
        super()._put_back(_plain(records))  # type: ignore[misc]

    def _take_again(self, records: Any) -> bool:
        return super()._take_again(_plain(records))  # type: ignore[misc, no-any-return]


def _plain(records: Any) -> Any:
    return records.plain if isinstance(records, DeserializedRecords) else records


class _HookedAsyncConsumer(_HookedConsumer):
    """The methods of an `AsyncConsumer` with deserializers.

    Lookups of schemas suspend the task, so the program can cancel them, seek or pause meanwhile. The records therefore
    go back into the core's buffer during the lookups.
    """

    async def __anext__(self) -> Record[Any, Any]:
        failed: FailedLookups = {}
        while True:
            record = await super().__anext__()  # type: ignore[misc]
            if not isinstance(self._deserializers, RecordDeserializers):
                return self._deserializers(record)
            if not (lookups := self._deserializers.lookups([record], failed)):
                return self._deserializers(record, failed)
            self._put_back(record)
            await look_up(lookups, failed)

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> Records[Any, Any]:
        """Return the next records; see `AsyncConsumer.poll`."""
        remaining = seconds(timeout)
        deadline = None if remaining is None else time.monotonic() + remaining
        failed: FailedLookups = {}
        while True:
            records = await super().poll(remaining, max_records)  # type: ignore[misc]
            if not records or not isinstance(self._deserializers, RecordDeserializers):
                return records  # type: ignore[no-any-return]
            if not (lookups := self._deserializers.lookups(records.plain, failed)):
                return DeserializedRecords(records.plain, self._deserializers, failed)  # type: ignore[return-value]
            self._put_back(records)
            await look_up(lookups, failed)
            remaining = None if deadline is None else max(deadline - time.monotonic(), 0.0)


def deserializers(key: Deserializer | None, value: Deserializer | None) -> Deserializers | None:
    """Return an object that calls the deserializers, or None if there is no deserializer."""
    for name, given in ("key_deserializer", key), ("value_deserializer", value):
        check_function(name, given, of=" of bytes")
    if key is None and value is None:
        return None
    if is_record_deserializer(key) or is_record_deserializer(value):
        return RecordDeserializers(key, value)  # type: ignore[return-value]
    return Deserializers(key, value)


@cache
def hooked(cls: Any, *, needs_records: bool = True) -> Any:
    """Return a subclass that calls hooks and has the same name as the given client class."""
    is_async = hasattr(cls, "__aenter__")
    if hasattr(cls, "send"):
        methods: type = _HookedAsyncProducer if is_async else _HookedProducer if needs_records else _ReportingProducer
    else:
        methods = _HookedAsyncConsumer if is_async else _HookedConsumer
    return type(cls.__name__, (methods, cls), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})
