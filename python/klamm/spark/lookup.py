"""Requests the partitions of a query and their offsets from the brokers, on Spark's driver.

Spark asks an idle stream for its latest offsets about a hundred times a second. To limit the load on the brokers, klamm
waits between two requests. A call waits instead of using a cache, so that the result includes every record that was
acknowledged before the call. After a retriable error, klamm repeats a request, up to `fetchOffset.numRetries` attempts.

A broker may temporarily not know a topic, and a user may temporarily lose access. A topic that is missing in one lookup
may therefore exist in the next lookup. The module `stream` decides what to write into the checkpoint.
"""

from __future__ import annotations

import logging
import re
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import klamm
from klamm.errors import (
    BrokerError,
    CombinedError,
    ConfigError,
    KafkaError,
    NetworkError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from klamm.spark.client_options import keys_of
from klamm.spark.offsets import EARLIEST, LATEST, format_partitions
from klamm.spark.positions import Times

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm.spark.offsets import Offsets, Partition
    from klamm.spark.options import ReadOptions
    from klamm.spark.positions import Position
    from klamm.spark.topic_admin import TopicAdmin

T = TypeVar("T")

log = logging.getLogger("klamm.spark")


class Lookup:
    """Looks up partitions and offsets. A `Lookup` has open connections, so it must not be pickled."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        group = {} if options.commit_group is None else {"group.id": options.commit_group}
        self._consumer = klamm.Consumer(options.config | group)
        self._admin: TopicAdmin | None = None
        self._next_request = 0.0
        self.topic_ids: dict[str, str] = {}  # ID of each topic in the last lookup; old brokers have no topic IDs

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close(timeout=0)
        if self._admin is not None:
            self._admin.close()

    def partitions(self, *, running: bool = False) -> list[Partition]:
        """Return the partitions to read that exist now, sorted by topic and number.

        Args:
            running: Whether the query is already running. If True, leave out a missing topic. If False (the default),
                raise an error for a missing topic.
        """
        if self._options.assigned:
            return list(self._options.assigned)
        if running:
            return self._existing(self._names())[0]
        if self._options.pattern is not None:
            return self._matching()
        return [
            (topic, number)
            for topic in sorted(self._options.topics)
            for number in sorted(self._retried(partial(self._consumer.partitions_for, topic)))
        ]

    def earliest(self, partitions: list[Partition]) -> Offsets:
        """Return the first offset of each partition."""
        return _as_dict(self._retried(lambda: self._consumer.beginning_offsets(_as_list(partitions))))

    def earliest_existing(self, partitions: list[Partition], timeout: float = 0.0) -> Offsets:
        """Return the first offset of each partition that still exists. Before that, wait for missing partitions.

        Args:
            partitions: Partitions that existed in an earlier lookup.
            timeout: Seconds to wait for missing partitions before the method leaves these partitions out.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                return self.earliest(partitions)
            except UnknownTopicOrPartitionError as error:
                existing = set(self.partitions(running=True))
                if self._options.assigned:  # klamm does not look up whether assigned partitions exist
                    raise
                if time.monotonic() < deadline:
                    log.warning("retrying in %g s: %s", self._options.retry_seconds, error)
                    time.sleep(self._options.retry_seconds)
                else:
                    return self.earliest([tp for tp in partitions if tp in existing])

    def latest(self, partitions: list[Partition]) -> Offsets:
        """Return the end offset of each partition. With `read_committed`, the end offset is the last stable offset."""
        return _as_dict(self._retried(lambda: self._consumer.end_offsets(_as_list(partitions))))

    def latest_rate_limited(self, known: Offsets) -> Offsets:
        """Return the end offset of every existing partition. If necessary, first wait until `MIN_INTERVAL` has passed.

        A broker with old metadata may report that a topic is missing, or an end offset below a known offset. If a known
        offset is missing or has decreased, the method retries before it returns the reported offsets.

        Args:
            known: Offsets that the query has reached. The new end offsets should not be below these offsets.
        """
        time.sleep(max(0.0, self._next_request - time.monotonic()))
        for attempt in range(self._options.retries):
            if attempt:
                time.sleep(self._options.retry_seconds)
            partitions = self.partitions(running=True)
            try:
                ends = self.latest(partitions)
            except UnknownTopicOrPartitionError:  # a topic was deleted between the two requests
                if self._options.assigned:
                    raise
                ends = self.latest(self.partitions(running=True))
            if all(ends.get(tp, -1) >= offset for tp, offset in known.items()):
                break
        self._next_request = time.monotonic() + MIN_INTERVAL
        return ends

    def at_times(self, times: dict[Partition, int]) -> dict[Partition, int | None]:
        """For each partition, return the offset of the first record at or after a time in ms.

        The offset is None if the partition has no record at or after the time.
        """
        requested = {klamm.TopicPartition(*tp): ms for tp, ms in times.items()}
        offsets = self._retried(lambda: self._consumer.offsets_for_times(requested))
        return {(tp.topic, tp.partition): None if at is None else at[0] for tp, at in offsets.items()}

    def resolve(self, position: Position, partitions: list[Partition]) -> Offsets:
        """Return the current offset of a position, such as "latest", in each partition."""
        at = position.at
        if isinstance(at, str):
            return self.earliest(partitions) if at == "earliest" else self.latest(partitions)
        if isinstance(at, Times):
            times = dict.fromkeys(partitions, at.ms) if isinstance(at.ms, int) else at.ms
            _check_names_all(position, times, partitions)
            return self._resolve_times(position, times, at.or_latest)
        _check_names_all(position, at, partitions)
        offsets = dict(at)
        offsets |= self.earliest([tp for tp in partitions if at[tp] == EARLIEST])
        offsets |= self.latest([tp for tp in partitions if at[tp] == LATEST])
        return offsets

    def record_bytes(self, start: Offsets, end: Offsets) -> dict[Partition, float]:
        """Estimate the mean size of a record's key and value in bytes, for each partition.

        The method reads a sample: the first records of each range. A partition without a sample gets the mean of the
        sampled partitions.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        ranges = {tp: klamm.TopicPartition(*tp, start[tp], end[tp]) for tp in sorted(end) if start[tp] < end[tp]}
        rows = dict.fromkeys(ranges, 0)
        sizes = dict.fromkeys(ranges, 0)
        deadline = time.monotonic() + SAMPLE_SECONDS
        # Deleted records are not an error here, because the task that has to read the records reports the loss.
        with klamm.Consumer(self._options.config | SAMPLE_CONFIG) as consumer, suppress(OffsetOutOfRangeError):
            consumer.assign(ranges.values())
            for batch in consumer.arrow(SAMPLE_ROWS, SAMPLE_SECONDS, ["topic", "partition", "key", "value"]):
                table = pa.Table.from_batches([batch])
                for name in ("key", "value"):
                    table = table.append_column(f"{name}_bytes", pc.fill_null(pc.binary_length(table[name]), 0))
                sums = [("key_bytes", "sum"), ("value_bytes", "sum"), ("value_bytes", "count")]
                for group in table.group_by(["topic", "partition"]).aggregate(sums).to_pylist():
                    tp = group["topic"], group["partition"]
                    sizes[tp] += group["key_bytes_sum"] + group["value_bytes_sum"]
                    rows[tp] += group["value_bytes_count"]
                if all(rows.values()) or time.monotonic() > deadline:
                    break
        if not any(rows.values()):
            return {}
        mean = sum(sizes.values()) / sum(rows.values())
        return {tp: sizes[tp] / rows[tp] if rows[tp] else mean for tp in ranges}

    def commit(self, offsets: Offsets) -> None:
        """Commit offsets to the group of option `commitGroup`, to show progress.

        If the commit fails, only log the error.
        """
        if self._options.commit_group is None or not offsets:
            return
        positions = {klamm.TopicPartition(*tp): offset for tp, offset in offsets.items()}
        try:
            self._consumer.commit(positions, timeout=COMMIT_SECONDS)
        except KafkaError as error:
            log.warning("could not commit offsets to group '%s': %s", self._options.commit_group, error)

    def _matching(self) -> list[Partition]:
        """Return the partitions of all topics that match the pattern.

        A broker may list a topic before the broker can describe the topic. If a listed topic cannot be described,
        retry, and raise the error after the last attempt.
        """
        for _ in range(self._options.retries - 1):
            partitions, error = self._existing(self._names())
            if error is None:
                return partitions
            log.warning("retrying in %g s: %s", self._options.retry_seconds, error)
            time.sleep(self._options.retry_seconds)
        partitions, error = self._existing(self._names())
        if error is not None:
            raise error
        return partitions

    def _names(self) -> set[str]:
        """Return the topics to read: the topics that an option names, or the existing topics that match a pattern."""
        pattern = self._options.pattern
        if pattern is None:
            return set(self._options.topics)
        return {name for name in self._retried(self._opened_admin().list_topics) if re.search(pattern, name)}

    def _existing(self, topics: set[str]) -> tuple[list[Partition], UnknownTopicOrPartitionError | None]:
        """Return the partitions of the existing topics, and an error. The error is None if no topic is missing."""
        described, missing = self._described(topics)
        # A broker may have rejected a topic because of another topic in the same request.
        for topic in sorted(missing) if len(topics) > 1 else ():
            found, denied = self._described({topic})
            described |= found
            if not denied:
                del missing[topic]
        self.topic_ids = {name: one.topic_id for name, one in described.items() if one.topic_id is not None}
        partitions = [(topic, one.partition) for topic in sorted(described) for one in described[topic].partitions]
        return partitions, next(iter(missing.values()), None)

    def _described(
        self, topics: set[str]
    ) -> tuple[dict[str, klamm.TopicDescription], dict[str, UnknownTopicOrPartitionError]]:
        """Return the descriptions of the topics that exist, and the errors for the missing topics."""

        def describe() -> tuple[dict[str, klamm.TopicDescription], dict[str, UnknownTopicOrPartitionError]]:
            try:
                return self._opened_admin().describe_topics(topics), {}
            except (UnknownTopicOrPartitionError, CombinedError) as error:
                errors = error.exceptions if isinstance(error, CombinedError) else (error,)
                missing = {}
                for each in errors:
                    if not isinstance(each, UnknownTopicOrPartitionError) or each.topic not in topics:
                        raise each from None
                    missing[each.topic] = each
                return dict(error.results), missing

        return self._retried(describe)

    def _opened_admin(self) -> TopicAdmin:
        if self._admin is None:
            # Do not import at the top of the file: workers also import this file, but do not need the admin client.
            from klamm.spark.topic_admin import TopicAdmin

            self._admin = TopicAdmin(self._options.config.only(keys_of("admin")))
        return self._admin

    def _resolve_times(self, position: Position, times: dict[Partition, int], or_latest: bool) -> Offsets:
        offsets = self.at_times(times)
        without = [tp for tp, offset in offsets.items() if offset is None]
        if without and not or_latest:
            raise ConfigError(
                f"option '{position.option}': {format_partitions(set(without))} has no record at or after {times[without[0]]} ms",
                hint="set option 'startingOffsetsByTimestampStrategy' to latest to begin at the end of such partitions",
            )
        return self.latest(without) | {tp: offset for tp, offset in offsets.items() if offset is not None}

    def _retried(self, request: Callable[[], T]) -> T:
        for _ in range(self._options.retries - 1):
            try:
                return request()
            except (TimeoutError, NetworkError, BrokerError) as error:
                if isinstance(error, BrokerError) and (
                    not error.retriable or isinstance(error, UnknownTopicOrPartitionError)
                ):
                    raise
                log.warning("retrying in %g s: %s", self._options.retry_seconds, error)
                time.sleep(self._options.retry_seconds)
        return request()


def _check_names_all(position: Position, named: dict[Partition, int], partitions: list[Partition]) -> None:
    if set(named) != set(partitions):
        raise ConfigError(
            f"[{MISMATCHES[position.option]}] option '{position.option}' must name every partition: it names "
            f"{format_partitions(set(named))}, but the query reads {format_partitions(set(partitions))}",
            hint="add the missing partitions"
            + ("" if isinstance(position.at, Times) else "; -1 means latest, -2 means earliest"),
        )


def _as_list(partitions: list[Partition]) -> list[klamm.TopicPartition]:
    return [klamm.TopicPartition(topic, number) for topic, number in partitions]


def _as_dict(offsets: dict[klamm.TopicPartition, int]) -> Offsets:
    return {(tp.topic, tp.partition): offset for tp, offset in offsets.items()}


# The error conditions of Spark's connector for missing partitions.
MISMATCHES = {
    "startingOffsets": "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
    "endingOffsets": "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET",
    "startingOffsetsByTimestamp": "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
    "endingOffsetsByTimestamp": "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
}

# klamm considers a missing partition deleted only after this time in seconds. Brokers learn about topics in less time,
# and a small cluster restarts in less time.
GONE_SECONDS = 30.0

# Seconds between requests for latest offsets. Spark needs 60 to 100 ms for the smallest micro-batch, so only idle
# streams wait.
MIN_INTERVAL = 0.05

# Timeout of a commit in seconds. The timeout is short, because a query must not wait long for a commit that only
# monitoring needs.
COMMIT_SECONDS = 5.0

# A sample is one small fetch from each partition. A sample only reaches this timeout if a broker does not respond or a
# topic was deleted. The timeout is long, because the record size of a partition without a sample is only a guess: the
# mean of other partitions.
SAMPLE_SECONDS = 5.0
SAMPLE_ROWS = 1000
SAMPLE_CONFIG = {"max.partition.fetch.bytes": "131072", "queued.max.bytes": "1048576"}
