"""What the brokers have of the topics of a query: partitions, first and last offsets, offsets by time.

This runs where Spark plans, on the driver. A stream at rest is asked for its latest offsets about
a hundred times a second, which a broker should not feel, so questions keep a distance. They wait
rather than answer from a cache: records that were acknowledged before the question are seen.
A question that fails for now is asked again, `fetchOffset.numRetries` times in all.
"""

from __future__ import annotations

import logging
import re
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import klamm
from klamm._klamm import config_keys
from klamm.errors import (
    BrokerError,
    ConfigError,
    KafkaError,
    NetworkError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from klamm.spark.offsets import EARLIEST, LATEST, listed
from klamm.spark.positions import Times

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm.spark.offsets import Offsets, Partition
    from klamm.spark.options import ReadOptions
    from klamm.spark.positions import Position

T = TypeVar("T")

log = logging.getLogger("klamm.spark")


class Lookup:
    """Asks the brokers of a query. Not to be pickled: it holds connections."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        group = {} if options.commit_group is None else {"group.id": options.commit_group}
        self._consumer = klamm.Consumer(options.config | group)
        self._admin: klamm.Admin | None = None
        self._next_question = 0.0

    def close(self) -> None:
        """Hang up."""
        self._consumer.close(timeout=0)
        if self._admin is not None:
            self._admin.close()

    def partitions(self, *, running: bool = False) -> list[Partition]:
        """List the partitions to read, as of now, in order.

        A topic that does not exist is an error for a query that begins; one that is running finds it gone, and
        decides by `failOnDataLoss` when it plans a batch.
        """
        if self._options.assigned:
            return list(self._options.assigned)
        if running or self._options.pattern is not None:
            return self._there()
        return [
            (topic, number)
            for topic in sorted(self._options.topics)
            for number in sorted(self._asked(partial(self._consumer.partitions_for, topic)))
        ]

    def earliest(self, partitions: list[Partition]) -> Offsets:
        """Ask where partitions begin."""
        return _plain(self._asked(lambda: self._consumer.beginning_offsets(_named(partitions))))

    def earliest_there(self, partitions: list[Partition]) -> Offsets:
        """Ask where partitions begin, and leave out those that are gone by now."""
        try:
            return self.earliest(partitions)
        except UnknownTopicOrPartitionError:
            there = set(self.partitions(running=True))
            if there.issuperset(partitions):  # as `assign` has them
                raise
            return self.earliest([tp for tp in partitions if tp in there])

    def latest(self, partitions: list[Partition]) -> Offsets:
        """Ask where partitions end now: behind the last record, or with `read_committed` before the first undecided one."""
        return _plain(self._asked(lambda: self._consumer.end_offsets(_named(partitions))))

    def latest_paced(self, known: Offsets) -> Offsets:
        """Ask for the end of every partition there is, at most `1 / DISTANCE` times a second.

        A topic that is gone, or an end before what is known already, may be the answer of a broker that lags behind the others, so
        the question is asked again, and then the answer counts.
        """
        time.sleep(max(0.0, self._next_question - time.monotonic()))
        for attempt in range(self._options.retries):
            if attempt:
                time.sleep(self._options.retry_seconds)
            partitions = self.partitions(running=True)
            try:
                ends = self.latest(partitions)
            except UnknownTopicOrPartitionError:  # deleted between the two questions
                if self._options.assigned:
                    raise
                ends = self.latest(self.partitions(running=True))
            if all(ends.get(tp, -1) >= offset for tp, offset in known.items()):
                break
        self._next_question = time.monotonic() + DISTANCE
        return ends

    def at_times(self, times: dict[Partition, int]) -> dict[Partition, int | None]:
        """Ask for the first record of each partition at or after a time."""
        asked = {klamm.TopicPartition(*tp): ms for tp, ms in times.items()}
        found = self._asked(lambda: self._consumer.offsets_for_times(asked))
        return {(tp.topic, tp.partition): None if at is None else at[0] for tp, at in found.items()}

    def resolve(self, position: Position) -> Offsets:
        """Turn a position into offsets."""
        partitions = self.partitions()
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
        """Estimate how large the records of each partition are: keys and values of the first ones between two places.

        Partitions that have nothing to show get the mean of the others.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = {tp: klamm.TopicPartition(*tp, start[tp], end[tp]) for tp in sorted(end) if start[tp] < end[tp]}
        rows = dict.fromkeys(wanted, 0)
        sizes = dict.fromkeys(wanted, 0)
        deadline = time.monotonic() + SAMPLE_SECONDS
        # What is gone by now is for those to find who read it.
        with klamm.Consumer(self._options.config | SAMPLE_CONFIG) as consumer, suppress(OffsetOutOfRangeError):
            consumer.assign(wanted.values())
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
        return {tp: sizes[tp] / rows[tp] if rows[tp] else mean for tp in wanted}

    def commit(self, offsets: Offsets) -> None:
        """Commit offsets for the group that shows how far the query is. Nothing depends on it, so failing is no error."""
        if self._options.commit_group is None or not offsets:
            return
        named = {klamm.TopicPartition(*tp): offset for tp, offset in offsets.items()}
        try:
            self._consumer.commit(named, timeout=COMMIT_SECONDS)
        except KafkaError as error:
            log.warning("offsets of group '%s' were not committed: %s", self._options.commit_group, error)

    def _there(self) -> list[Partition]:
        """List the partitions of those topics that exist, without waiting for others to come."""
        if self._admin is None:
            known = {
                name for key, aliases, *_, roles, _ in config_keys() if "admin" in roles for name in (key, *aliases)
            }
            self._admin = klamm.Admin(self._options.config.only(known))
        topics, pattern = set(self._options.topics), self._options.pattern
        if pattern is not None:
            topics = {name for name in self._asked(self._admin.list_topics) if re.search(pattern, name)}
        while topics:
            try:
                described = self._asked(partial(self._admin.describe_topics, topics))
            except UnknownTopicOrPartitionError as error:
                if error.topic not in topics:
                    raise
                topics.discard(error.topic)
            else:
                return [(topic, one.partition) for topic in sorted(topics) for one in described[topic].partitions]
        return []

    def _resolve_times(self, position: Position, times: dict[Partition, int], or_latest: bool) -> Offsets:
        found = self.at_times(times)
        late = [tp for tp, offset in found.items() if offset is None]
        if late and not or_latest:
            raise ConfigError(
                f"option '{position.option}': no record of {listed(set(late))} is as young as {times[late[0]]}",
                hint="set option 'startingOffsetsByTimestampStrategy' to latest to begin at the end of such partitions",
            )
        return self.latest(late) | {tp: offset for tp, offset in found.items() if offset is not None}

    def _asked(self, question: Callable[[], T]) -> T:
        for _ in range(self._options.retries - 1):
            try:
                return question()
            except (TimeoutError, NetworkError, BrokerError) as error:
                if isinstance(error, BrokerError) and (
                    not error.retriable or isinstance(error, UnknownTopicOrPartitionError)
                ):
                    raise
                log.warning("asking the brokers again in %g s: %s", self._options.retry_seconds, error)
                time.sleep(self._options.retry_seconds)
        return question()


def _check_names_all(position: Position, named: dict[Partition, int], partitions: list[Partition]) -> None:
    if set(named) != set(partitions):
        raise ConfigError(
            f"[{MISMATCHES[position.option]}] option '{position.option}' must name every partition: it names {listed(set(named))}, "
            f"the query reads {listed(set(partitions))}",
            hint=None if isinstance(position.at, Times) else "-1 stands for latest, -2 for earliest",
        )


def _named(partitions: list[Partition]) -> list[klamm.TopicPartition]:
    return [klamm.TopicPartition(topic, number) for topic, number in partitions]


def _plain(offsets: dict[klamm.TopicPartition, int]) -> Offsets:
    return {(tp.topic, tp.partition): offset for tp, offset in offsets.items()}


# What Spark's connector calls it if partitions are left out.
MISMATCHES = {
    "startingOffsets": "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
    "endingOffsets": "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET",
    "startingOffsetsByTimestamp": "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
    "endingOffsetsByTimestamp": "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
}

# Seconds. Below the 60-100 ms that Spark needs for the smallest micro-batch, so only idling waits.
DISTANCE = 0.05

# Seconds. The commit is for those who watch the query; the query has to go on.
COMMIT_SECONDS = 5.0

# A sample is one small fetch of each partition, and ends with it; partitions without records end it, too. Only brokers that do
# not answer and topics that are gone make it last. With little patience, a busy broker's partition would be taken to be like
# the others, however large their records are.
SAMPLE_SECONDS = 5.0
SAMPLE_ROWS = 1000
SAMPLE_CONFIG = {"max.partition.fetch.bytes": "131072", "queued.max.bytes": "1048576"}
