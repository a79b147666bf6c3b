"""Records, and the names of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from klamm._klamm import Record, RecordMetadata, Records
from klamm.arguments import INT32, INT64, checked_partition, integer, items_of, string

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from typing_extensions import Buffer

__all__ = ["HeadersLike", "OffsetAndMetadata", "Record", "RecordMetadata", "Records", "TopicPartition"]

HeadersLike: TypeAlias = "Sequence[tuple[str, Buffer | None]] | Mapping[str, Buffer | None]"
"""The headers of a record to send: pairs, as their keys may repeat, or a dict or another mapping."""

Sequence.register(Records)


@dataclass(frozen=True, order=True)
class TopicPartition:
    """A partition of a topic. Equality and order are those of topic and partition alone, so it is a key whatever the offsets say.

    `offset` is where to start reading and `end_offset` where to stop (that one is not read), for `assign`.
    """

    topic: str
    partition: int
    offset: int | None = field(default=None, compare=False)
    end_offset: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class OffsetAndMetadata:
    """An offset to commit, or one that was: of the next record to read, and a text that is kept with it.

    `leader_epoch` is that of the record before it, by which whoever reads on sees that the log was cut (KIP-320, Kafka
    2.1). None is for unknown, and a consumer fills it in for what it has read itself. `timestamp_ms`, in milliseconds since
    1970, is when the broker is to count it as committed, if not now: how long it is kept goes by that. Kafka 0.8.2 to 3.9
    take one (OffsetCommit v1, which has no leader epochs), and others raise UnsupportedVersionError. It cannot be read back.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None
    timestamp_ms: int | None = None


def committable(
    offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
) -> list[tuple[str, int, int, str, int | None, int | None]]:
    """Turn offsets to commit into what the core takes; ConfigError for those that cannot be."""
    return [
        (*checked_partition(tp), *_committed(checked_partition(tp), offset))
        for tp, offset in items_of("offsets", offsets)
    ]


def _committed(at: tuple[str, int], given: int | OffsetAndMetadata) -> tuple[int, str, int | None, int | None]:
    of = f"of {at[0]}-{at[1]}"
    if not isinstance(given, OffsetAndMetadata):
        return integer(f"the offset {of}", given, 0), "", None, None
    epoch, time = given.leader_epoch, given.timestamp_ms
    return (
        integer(f"the offset {of}", given.offset, 0),
        string(f"the metadata {of}", given.metadata),
        None if epoch is None else integer(f"the leader epoch {of}", epoch, -1, INT32),
        None if time is None else integer(f"the time of a commit {of}", time, 0),
    )


def timed(times: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
    """Turn partitions and times into what the core takes; the ends of a partition are times below 0."""
    return [
        (*checked_partition(tp), integer("a time in milliseconds", time_ms, -INT64))
        for tp, time_ms in items_of("times", times)
    ]


def offsets_of(
    found: Sequence[tuple[str, int, tuple[int, str, int | None, int | None]]],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Turn what the core says of commits into what programs take."""
    return {TopicPartition(topic, partition): OffsetAndMetadata(*at) for topic, partition, at in found}


def datetime_of(timestamp_ms: int) -> datetime:
    """Turn milliseconds since 1970 into an aware datetime; integers all the way, as a float would round."""
    return _EPOCH + timedelta(milliseconds=timestamp_ms)


def first_ms_of(moment: datetime) -> int:
    """Turn an aware datetime into the first millisecond since 1970 that is not before it; no float here either."""
    return -((_EPOCH - moment) // timedelta(milliseconds=1))


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
