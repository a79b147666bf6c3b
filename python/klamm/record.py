"""Topic partitions and offsets, and functions that convert them for the core.

The core defines the classes of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple

from klamm._klamm import Record, RecordMetadata, Records
from klamm.arguments import INT32, INT64_MIN, checked_partition, integer, items_of, string
from klamm.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias

    from typing_extensions import Buffer

__all__ = ["HeadersLike", "OffsetAndMetadata", "Record", "RecordMetadata", "Records", "TopicPartition"]

HeadersLike: TypeAlias = "Sequence[tuple[str, Buffer | None]] | Mapping[str, Buffer | None]"
"""Headers of a record to send, as a mapping or as a sequence of pairs.

A sequence of pairs can have more than one header with the same name.
"""

Sequence.register(Records)


@dataclass(frozen=True, order=True)
class TopicPartition:
    """A partition of a topic. Comparisons and hashes ignore the offsets, so a partition can be the key of a dict.

    Args:
        topic: Name of the topic.
        partition: Partition number.
        offset: Offset at which the consumer starts to read after `assign`.
        end_offset: Offset at which the consumer stops after `assign`, without reading the record at this offset.

    Example:
        consumer.assign([klamm.TopicPartition("greetings", 0, offset=100)])
    """

    topic: str
    partition: int
    offset: int | None = field(default=None, compare=False)
    end_offset: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class OffsetAndMetadata:
    """An offset to commit or a committed offset, together with its metadata.

    Args:
        offset: Offset of the next record to read.
        metadata: Text that the broker stores with the offset.
        leader_epoch: Leader epoch of the record before the offset. A consumer that resumes at the offset uses the epoch
            to detect a truncated log (KIP-320, Kafka 2.1). None means that the epoch is unknown. If the consumer itself
            has read the record, it fills in the epoch.
        timestamp_ms: Time of the commit in milliseconds since 1970, or a datetime. The broker's retention of the offset
            starts at the commit time. The default is the current time. Only Kafka 0.8.2 to 3.9 accept a commit time
            (OffsetCommit v1, which has no leader epochs). With other brokers, the commit raises
            UnsupportedVersionError. `committed` does not return the commit time.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None
    timestamp_ms: int | datetime | None = None


class OffsetToCommit(NamedTuple):
    """An offset to commit for a partition, with all fields checked."""

    topic: str
    partition: int
    offset: int
    metadata: str = ""
    leader_epoch: int | None = None
    timestamp_ms: int | None = None


def committable(offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> list[OffsetToCommit]:
    """Check offsets to commit, and convert them to the form that the core takes."""
    return [_committed(*checked_partition(tp), offset) for tp, offset in items_of("offsets", offsets)]


def _committed(topic: str, partition: int, given: int | OffsetAndMetadata) -> OffsetToCommit:
    of = f"of {topic}-{partition}"
    if not isinstance(given, OffsetAndMetadata):
        return OffsetToCommit(topic, partition, integer(f"the offset {of}", given, 0))
    epoch, time = given.leader_epoch, given.timestamp_ms
    return OffsetToCommit(
        topic,
        partition,
        integer(f"the offset {of}", given.offset, 0),
        string(f"the metadata {of}", given.metadata),
        None if epoch is None else integer(f"the leader epoch {of}", epoch, -1, INT32),
        None if time is None else _commit_time(f"the time of a commit {of}", time),
    )


def _commit_time(name: str, time: int | datetime) -> int:
    ms = time_ms(name, time)
    if ms < 0:
        raise ConfigError(f"{name} cannot be {time}, which is before 1970", hint="leave it out for the current time")
    return ms


def timed(times: Mapping[TopicPartition, int | datetime], least: int = 0) -> list[tuple[str, int, int]]:
    """Check partitions and times, and convert them to the form that the core takes.

    Brokers use negative times for special offsets, such as the ends of a partition, and new releases of Kafka add more
    special times. A time below `least` raises an error.
    """
    return [_timed(*checked_partition(tp), time, least) for tp, time in items_of("times", times)]


def _timed(topic: str, partition: int, time: int | datetime, least: int) -> tuple[str, int, int]:
    name = f"the time of {topic}-{partition}"
    ms = time_ms(name, time)
    if ms < least:
        raise ConfigError(
            f"{name} cannot be {time}, which is before 1970",
            hint="use beginning_offsets or end_offsets for the ends of a partition",
        )
    return topic, partition, ms


def at_all(partitions: Iterable[TopicPartition], end: int) -> list[tuple[str, int, int]]:
    """Convert partitions to the form that the core takes. `end` is -1 for a partition's end, or -2 for its start."""
    return [(*checked_partition(tp), end) for tp in partitions]


def time_ms(name: str, time: int | datetime) -> int:
    """Convert a time to milliseconds since 1970, rounded up. A datetime without a time zone is local time."""
    if isinstance(time, datetime):
        try:
            return first_ms_of(time.astimezone(timezone.utc))
        except (OverflowError, OSError, ValueError):
            raise ConfigError(f"{name} cannot be {time}", hint="pass a datetime with a time zone") from None
    if isinstance(time, bool) or not hasattr(time, "__index__"):
        hint = "pass int(seconds * 1000)" if isinstance(time, float) else None
        raise ArgumentError(
            f"{name} has to be an int (milliseconds since 1970) or a datetime, not {type(time).__name__}", hint=hint
        )
    return integer(name, time, INT64_MIN)


def datetime_of(timestamp_ms: int) -> datetime | None:
    """Convert milliseconds since 1970 to an aware datetime. For a time outside of the years 1 to 9999, return None.

    The calculation uses only integers, because a float would round.
    """
    try:
        return _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None


def first_ms_of(moment: datetime) -> int:
    """Convert an aware datetime to milliseconds since 1970, rounded up. A calculation with floats would be inexact."""
    return -((_EPOCH - moment) // timedelta(milliseconds=1))


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def with_metadata(
    partitions: list[TopicPartition], found: list[OffsetAndMetadata | None]
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Return a dict from partition to committed offset with metadata. The value is None if no offset is committed."""
    return dict(zip(partitions, found, strict=True))


def committed_offsets(found: Mapping[TopicPartition, OffsetAndMetadata | None]) -> dict[TopicPartition, int | None]:
    """Return a dict from partition to committed offset. The value is None if no offset is committed."""
    return {tp: None if each is None else each.offset for tp, each in found.items()}


def known_offsets(partitions: list[TopicPartition], found: list[tuple[int, int] | None]) -> dict[TopicPartition, int]:
    """Return a dict from partition to offset, without the partitions that have no offset."""
    return {tp: each[0] for tp, each in zip(partitions, found, strict=True) if each is not None}
