"""Looks up offsets of partitions, finds the ends of leader epochs, and deletes all records below an offset."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from klamm.admin.calls import (
    ANY_VERSION,
    BY_PARTITION,
    CHANGE_MS,
    Calls,
    choice,
    collect,
    known,
    partition_item,
    plain,
)
from klamm.arguments import INT32, integer, items_of
from klamm.record import TopicPartition, timed
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from klamm.admin.calls import Fields

ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}


class OffsetSpec(IntEnum):
    """A special position in a partition whose offset `list_offsets` can look up, such as the end of the log."""

    LATEST = -1
    """The end of the log: the offset of the next record."""
    EARLIEST = -2
    """The offset of the first record."""
    MAX_TIMESTAMP = -3
    """The offset of the record with the latest timestamp (Kafka 3.0)."""
    EARLIEST_LOCAL = -4
    """With tiered storage, the first offset on the disks of the leader (Kafka 3.4)."""
    LATEST_TIERED = -5
    """The last offset in remote storage (Kafka 3.9)."""
    EARLIEST_PENDING_UPLOAD = -6
    """The first offset that is not in remote storage yet (Kafka 4.2)."""


OLDEST_VERSION = {
    OffsetSpec.LATEST: 0,
    OffsetSpec.EARLIEST: 0,
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
"""The oldest version of ListOffsets that supports each special offset.

Older versions of ListOffsets treat the number of a special offset as a time.
"""


@dataclass(frozen=True)
class ListedOffset:
    """An offset that was looked up.

    Attributes:
        offset: The offset. None if no record matches, for example because all records are older than the time.
        timestamp_ms: Timestamp of the record, or None if the broker did not return a timestamp.
        leader_epoch: Leader epoch of the record, or None if it is unknown.
    """

    offset: int | None
    timestamp_ms: int | None
    leader_epoch: int | None


@dataclass(frozen=True)
class EpochEnd:
    """The end of a leader epoch.

    Attributes:
        leader_epoch: The requested leader epoch, or the largest epoch below it. None if the log has neither.
        end_offset: Offset after the last record of this epoch, or None if `leader_epoch` is None.
    """

    leader_epoch: int | None
    end_offset: int | None


class OffsetCalls(Calls):
    """Coroutines that the methods of `Admin` and `AsyncAdmin` share."""

    async def _list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec | int | datetime], isolation_level: str, timeout: float | None
    ) -> dict[TopicPartition, ListedOffset]:
        times_by_partition = {
            TopicPartition(topic, partition): time for topic, partition, time in timed(specs, min(OffsetSpec))
        }
        isolation = choice("isolation_level", isolation_level, ISOLATION_LEVELS)
        # Lookups by time need version 1 of ListOffsets, and isolation levels need version 2.
        oldest = max([2 if isolation else 0, *(OLDEST_VERSION.get(time, 1) for time in times_by_partition.values())])  # type: ignore[call-overload]

        isolated = {"isolationLevel": isolation} if isolation else {}
        items = {
            tp: partition_item(
                tp,
                "list offsets of",
                {
                    "replicaId": -1,
                    "topics": [{"name": tp.topic, "partitions": [{"partitionIndex": tp.partition, "timestamp": time}]}],
                    **isolated,
                },
            )
            for tp, time in times_by_partition.items()
        }
        results = await self._for_items(
            "ListOffsets", items, _listed, timeout, path=BY_PARTITION, versions=(oldest, ANY_VERSION[1])
        )
        return collect(results.items())

    async def _epoch_ends(
        self, epochs: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, EpochEnd]:
        leader_epochs = [integer("a leader epoch", epoch, 0, INT32) for _, epoch in items_of("epochs", epochs)]
        items = {
            tp: partition_item(
                tp,
                "look up a leader epoch of",
                {
                    "topics": [
                        {"topic": tp.topic, "partitions": [{"partition": tp.partition, "leaderEpoch": leader_epoch}]}
                    ]
                },
            )
            for tp, leader_epoch in zip(plain(epochs), leader_epochs, strict=True)
        }
        results = await self._for_items(
            "OffsetForLeaderEpoch", items, _epoch_end, timeout, path="topics:topic/partitions:partition"
        )
        return collect(results.items())

    async def _delete_below(
        self, before: Mapping[TopicPartition, int | None], timeout: float | None
    ) -> dict[TopicPartition, int]:
        checked_offsets = [
            -1 if offset is None else integer("an offset", offset, -1) for _, offset in items_of("before", before)
        ]
        items = {
            tp: partition_item(
                tp,
                "delete records of",
                {
                    "topics": [{"name": tp.topic, "partitions": [{"partitionIndex": tp.partition, "offset": offset}]}],
                    "timeoutMs": CHANGE_MS,
                },
            )
            for tp, offset in zip(plain(before), checked_offsets, strict=True)
        }
        results = await self._for_items("DeleteRecords", items, _low_watermark, timeout, path=BY_PARTITION)
        return collect(results.items())


class Offsets(OffsetCalls):
    """Methods of `Admin` for the offsets of partitions."""

    def list_offsets(
        self,
        specs: Mapping[TopicPartition, OffsetSpec | int | datetime],
        timeout: float | None = None,
        *,
        isolation_level: str = "read_uncommitted",
    ) -> dict[TopicPartition, ListedOffset]:
        """Return offsets of partitions, by position or by time.

        Args:
            specs: For each partition, an OffsetSpec, or a time: a datetime or milliseconds since 1970. A time means the
                first record at or after that time.
            timeout: Seconds to wait.
            isolation_level: With `read_committed`, `LATEST` returns the last stable offset, which is the start of the
                first open transaction or the end of the log.

        Raises:
            UnknownTopicOrPartitionError: A partition does not exist.
            UnsupportedVersionError: The brokers are too old for an OffsetSpec.
            CombinedError: Several partitions failed. `error.results` has the results of the partitions that succeeded.
        """
        return run(self._list_offsets(specs, isolation_level, timeout))

    def offsets_for_leader_epochs(
        self, epochs: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        """Return the ends of leader epochs, which show where a log was truncated (Kafka 0.11).

        Args:
            epochs: For each partition, a leader epoch.
            timeout: Seconds to wait.

        Raises:
            UnknownTopicOrPartitionError: A partition does not exist.
            CombinedError: Several partitions failed. `error.results` has the results of the partitions that succeeded.
        """
        return run(self._epoch_ends(epochs, timeout))

    def delete_records(
        self, before: Mapping[TopicPartition, int | None], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the oldest records of partitions.

        Args:
            before: For each partition, the first offset to keep. None deletes all records.
            timeout: Seconds to wait.

        Returns:
            For each partition, the offset of the first record that remains.

        Raises:
            OffsetOutOfRangeError: An offset is after the end of its partition.
            CombinedError: Several partitions failed. `error.results` has the results of the partitions that succeeded.
        """
        return run(self._delete_below(before, timeout))


@documented_by(Offsets)
class AsyncOffsets(OffsetCalls):
    """Methods of `AsyncAdmin` for the offsets of partitions."""

    async def list_offsets(
        self,
        specs: Mapping[TopicPartition, OffsetSpec | int | datetime],
        timeout: float | None = None,
        *,
        isolation_level: str = "read_uncommitted",
    ) -> dict[TopicPartition, ListedOffset]:
        return await self._list_offsets(specs, isolation_level, timeout)

    async def offsets_for_leader_epochs(
        self, epochs: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        return await self._epoch_ends(epochs, timeout)

    async def delete_records(
        self, before: Mapping[TopicPartition, int | None], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return await self._delete_below(before, timeout)


def _listed(part: Fields) -> ListedOffset:
    offset = part["offset"] if "offset" in part else next(iter(part["oldStyleOffsets"]), -1)
    return ListedOffset(*map(known, (offset, part.get("timestamp", -1), part.get("leaderEpoch", -1))))


def _epoch_end(part: Fields) -> EpochEnd:
    return EpochEnd(known(part.get("leaderEpoch", -1)), known(part["endOffset"]))


def _low_watermark(part: Fields) -> int:
    offset: int = part["lowWatermark"]
    return offset
