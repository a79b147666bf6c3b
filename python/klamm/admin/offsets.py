"""Looks up offsets of partitions, finds the ends of leader epochs, and deletes all records below an offset."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from klamm.admin.calls import CHANGE_MS, Calls, choice, collect, known, partitions_of, plain, refusal
from klamm.arguments import INT32, integer, items_of
from klamm.record import TopicPartition, timed
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from klamm.admin.calls import Fields
    from klamm.errors import KafkaError

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

        def request(topics: list[tuple[str, list[TopicPartition]]]) -> Fields:
            fields = [
                {
                    "name": topic,
                    "partitions": [{"partitionIndex": tp.partition, "timestamp": times_by_partition[tp]} for tp in tps],
                }
                for topic, tps in topics
            ]
            return {"replicaId": -1, "topics": fields, **({"isolationLevel": isolation} if isolation else {})}

        def read(response: Fields) -> Iterator[tuple[TopicPartition, ListedOffset | KafkaError]]:
            for topic, part in partitions_of(response["topics"], "name", "partitions"):
                tp = TopicPartition(topic, part["partitionIndex"])
                failed = refusal(part, f"list offsets of {topic}-{tp.partition}", topic, tp.partition)
                offset = part["offset"] if "offset" in part else next(iter(part["oldStyleOffsets"]), -1)
                numbers = (offset, part.get("timestamp", -1), part.get("leaderEpoch", -1))
                yield tp, failed or ListedOffset(*map(known, numbers))

        offsets_by_partition = await self._ask_leaders(
            "ListOffsets", times_by_partition, request, read, timeout, oldest=oldest
        )
        return collect(offsets_by_partition.items())

    async def _epoch_ends(
        self, epochs: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, EpochEnd]:
        leader_epochs = [integer("a leader epoch", epoch, 0, INT32) for _, epoch in items_of("epochs", epochs)]
        epochs_by_partition = dict(zip(plain(epochs), leader_epochs, strict=True))

        def request(topics: list[tuple[str, list[TopicPartition]]]) -> Fields:
            return {
                "topics": [
                    {
                        "topic": topic,
                        "partitions": [
                            {"partition": tp.partition, "leaderEpoch": epochs_by_partition[tp]} for tp in tps
                        ],
                    }
                    for topic, tps in topics
                ]
            }

        def read(response: Fields) -> Iterator[tuple[TopicPartition, EpochEnd | KafkaError]]:
            for topic, part in partitions_of(response["topics"], "topic", "partitions"):
                tp = TopicPartition(topic, part["partition"])
                failed = refusal(part, f"look up a leader epoch of {topic}-{tp.partition}", topic, tp.partition)
                yield tp, failed or EpochEnd(known(part.get("leaderEpoch", -1)), known(part["endOffset"]))

        return collect(
            (await self._ask_leaders("OffsetForLeaderEpoch", epochs_by_partition, request, read, timeout)).items()
        )

    async def _delete_below(
        self, before: Mapping[TopicPartition, int | None], timeout: float | None
    ) -> dict[TopicPartition, int]:
        checked_offsets = [
            -1 if offset is None else integer("an offset", offset, -1) for _, offset in items_of("before", before)
        ]
        offsets_by_partition = dict(zip(plain(before), checked_offsets, strict=True))

        def request(topics: list[tuple[str, list[TopicPartition]]]) -> Fields:
            fields = [
                {
                    "name": topic,
                    "partitions": [{"partitionIndex": tp.partition, "offset": offsets_by_partition[tp]} for tp in tps],
                }
                for topic, tps in topics
            ]
            return {"topics": fields, "timeoutMs": CHANGE_MS}

        def read(response: Fields) -> Iterator[tuple[TopicPartition, int | KafkaError]]:
            for topic, part in partitions_of(response["topics"], "name", "partitions"):
                tp = TopicPartition(topic, part["partitionIndex"])
                failed = refusal(part, f"delete records of {topic}-{tp.partition}", topic, tp.partition)
                yield tp, failed or part["lowWatermark"]

        return collect((await self._ask_leaders("DeleteRecords", offsets_by_partition, request, read, timeout)).items())


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
