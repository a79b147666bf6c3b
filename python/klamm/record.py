"""Records, and the names of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from klamm._klamm import Record, RecordMetadata, Records

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from typing_extensions import Buffer

__all__ = ["HeadersLike", "OffsetAndMetadata", "Record", "RecordMetadata", "Records", "TopicPartition"]

HeadersLike: TypeAlias = "Sequence[tuple[str, Buffer | None]] | Mapping[str, Buffer | None]"
"""The headers of a record to send: pairs, as their keys may repeat, or a dict."""

Sequence.register(Records)


@dataclass(frozen=True)
class TopicPartition:
    """A partition of a topic. Equality is that of topic and partition alone, so it is a key whatever the offsets say.

    `offset` is where to start reading and `end_offset` where to stop (that one is not read), for `assign`.
    """

    topic: str
    partition: int
    offset: int | None = field(default=None, compare=False)
    end_offset: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class OffsetAndMetadata:
    """An offset to commit, or one that was: of the next record to read, and a text that is kept with it."""

    offset: int
    metadata: str = ""


def datetime_of(timestamp_ms: int) -> datetime:
    """Turn milliseconds since 1970 into an aware datetime; integers all the way, as a float would round."""
    return _EPOCH + timedelta(milliseconds=timestamp_ms)


def first_ms_of(moment: datetime) -> int:
    """Turn an aware datetime into the first millisecond since 1970 that is not before it; no float here either."""
    return -((_EPOCH - moment) // timedelta(milliseconds=1))


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
