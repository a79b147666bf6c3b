"""Calls deserializers with the topic and headers of a record, not only with the bytes of a key or value.

The core itself calls a deserializer with the bytes only, but deserializers of `klamm.registry` also need the topic and
the headers. `klamm.hooks` decides which consumers use this file.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol, overload

from klamm._klamm import Deserializers
from klamm.errors import KafkaError
from klamm.waiting import not_end_of_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from typing import TypeAlias, TypeGuard

    from klamm._klamm import ArrowBatch, ArrowColumns, Record, Records
    from klamm.record import TopicPartition


class RecordDeserializer(Protocol):
    """A deserializer that also takes the topic and the headers, such as the deserializers of `klamm.registry`."""

    def deserialize(self, data: bytes, topic: str, field: Any, headers: Any) -> Any:
        """Return the object for the bytes of a key or value."""

    def is_prepared(self, data: bytes, topic: str, field: Any, headers: Any) -> bool:
        """Return whether `deserialize` can run without blocking."""

    def missing(self, data: bytes, topic: str, field: Any, headers: Any) -> Hashable:
        """Return what `deserialize` has to look up, or None if it can run without blocking."""

    async def prepare(self, data: bytes, topic: str, field: Any, headers: Any) -> None:
        """Do the blocking part of the work, so that `deserialize` does not block."""

    def look_up_again(self, key: Any) -> None:
        """Repeat a lookup in the background that `prepare` failed to do. `key` is the result of `missing`."""


def is_record_deserializer(deserializer: Any) -> TypeGuard[RecordDeserializer]:
    """Return whether a deserializer is a RecordDeserializer, which also takes the topic and the headers."""
    return hasattr(deserializer, "is_prepared")


FailedLookups: TypeAlias = "dict[tuple[RecordDeserializer, Hashable], KafkaError]"
"""The failed lookups of one poll. The records of a poll share a failed lookup, because each attempt can take seconds."""

Lookups: TypeAlias = "dict[tuple[RecordDeserializer, Hashable], tuple[bytes, str, str, Any]]"
"""The lookups that records need, with the arguments of `RecordDeserializer.prepare`."""


class RecordDeserializers:
    """The deserializers of one consumer.

    Calling the object with a record returns the record with its deserialized key and value.
    """

    def __init__(self, key: Callable[[bytes], Any] | None, value: Callable[[bytes], Any] | None) -> None:
        self._key, self._value = key, value

    def __call__(self, record: Record, failed: FailedLookups | None = None) -> Record[Any, Any]:
        """Return the record with its deserialized key and value."""
        failed = {} if failed is None else failed
        key, value = (_bound(each, record, name, failed) for each, name in ((self._key, "key"), (self._value, "value")))
        return Deserializers(key, value)(record)

    def lookups(self, records: Iterable[Record], failed: FailedLookups) -> Lookups:
        """Return the lookups that must run before the records can be deserialized without blocking."""
        lookups: Lookups = {}
        for record in records:
            for each, name, data in (self._key, "key", record.key), (self._value, "value", record.value):
                if data is None or not is_record_deserializer(each):
                    continue
                of_record = data, record.topic, name, record.headers
                missing = each.missing(*of_record)
                if missing is not None and (each, missing) not in failed:
                    lookups.setdefault((each, missing), of_record)
        return lookups


async def look_up(lookups: Lookups, failed: FailedLookups) -> None:
    """Run lookups.

    If a lookup fails, the program gets the error when it reads the key or value.
    """
    for (each, _), of_record in lookups.items():
        try:
            with not_end_of_loop():
                await each.prepare(*of_record)
        except KafkaError as error:
            if (missing := each.missing(*of_record)) is not None:
                failed[each, missing] = error


def _bound(
    deserializer: Callable[[bytes], Any] | None, record: Record, field: str, failed: FailedLookups
) -> Callable[[bytes], Any] | None:
    if not is_record_deserializer(deserializer):
        return deserializer

    is_first = True

    def deserialize(data: bytes) -> Any:
        nonlocal is_first
        of_record = data, record.topic, field, record.headers
        shares_failure, is_first = is_first and bool(failed), False  # the program reads a field again to retry
        missing = deserializer.missing(*of_record) if shares_failure else None
        if missing is not None and (error := failed.get((deserializer, missing))) is not None:
            deserializer.look_up_again(missing)
            raise copy.copy(error) from None
        try:
            return deserializer.deserialize(*of_record)
        except KafkaError as error:
            if (missing := deserializer.missing(*of_record)) is not None:
                failed[deserializer, missing] = error
            raise

    return deserialize


class DeserializedRecords(Sequence["Record[Any, Any]"]):
    """The records of a poll, with deserialized keys and values. This class has the methods of `klamm.Records`."""

    def __init__(self, plain: Records, deserializers: RecordDeserializers, failed: FailedLookups) -> None:
        self.plain, self._deserializers, self._failed = plain, deserializers, failed

    def __len__(self) -> int:
        return len(self.plain)

    @overload
    def __getitem__(self, index: int) -> Record[Any, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> DeserializedRecords: ...
    def __getitem__(self, index: int | slice) -> Record[Any, Any] | DeserializedRecords:
        if isinstance(index, slice):
            return DeserializedRecords(self.plain[index], self._deserializers, self._failed)
        return self._deserializers(self.plain[index], self._failed)

    def __iter__(self) -> Iterator[Record[Any, Any]]:
        return map(self._deserializers, self.plain, repeat(self._failed))

    def __eq__(self, other: object) -> bool:
        return self.plain == (other.plain if isinstance(other, DeserializedRecords) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.plain)

    def by_partition(self) -> dict[TopicPartition, DeserializedRecords]:
        """Return a dict from each partition to its records."""
        parts = self.plain.by_partition()
        return {tp: DeserializedRecords(part, self._deserializers, self._failed) for tp, part in parts.items()}

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """Return the records as an Arrow record batch; see `klamm.Records.to_arrow`."""
        return self.plain.to_arrow(columns)

    def _columns(self, columns: ArrowColumns) -> ArrowBatch:
        return self.plain._columns(columns)  # noqa: SLF001
