"""Reads streams: chooses the end offsets of each micro-batch, and plans the tasks of the batch.

Spark keeps one process on the driver for a query, so the state of a reader lasts as long as the query. Spark calls
`latestOffset` when the previous batch is done. But Spark calls `commit` for a batch only when the next batch starts.
Therefore both `latestOffset` and `commit` commit the progress of the query to the group of option `commitGroup`.

Spark writes the result of `latestOffset` into the checkpoint before it plans the batch. `latestOffset` therefore checks
for lost partitions itself. If `latestOffset` left out a missing partition, a later batch would treat the partition as
new and read it again from the start.
"""

# klamm supports Python 3.10, which does not have `typing.override`.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from klamm.spark.failures import short_errors
from klamm.spark.lookup import GONE_SECONDS, Lookup
from klamm.spark.offsets import count_offsets, format_partitions, from_json, limit_bytes, limit_records, to_json
from klamm.spark.read import columns_of, read, report_loss, tasks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from klamm.spark.offsets import Offsets, Partition
    from klamm.spark.options import ReadOptions

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    ADMISSION_CONTROL = True
except ImportError:  # Spark 4.0 and 4.1 cannot limit the micro-batches of Python data sources
    ADMISSION_CONTROL = False
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]


log = logging.getLogger("klamm.spark")


class KlammStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Supports limits for micro-batches (admission control) and `Trigger.AvailableNow`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = columns_of(options, schema)
        self._opened_lookup: Lookup | None = None
        self._initial: Offsets | None = None
        self._first_batch_is_empty = False
        self._has_planned_first = False
        self._target: Offsets | None = None  # end offsets of a run with Trigger.AvailableNow
        self._latest: Offsets | None = None
        self._committed: Offsets | None = None
        self._planned: Offsets | None = None  # end offsets of the last batch, which Spark 4.0 and 4.1 do not pass
        self._missing_since: dict[Partition, float] = {}
        self._topic_ids: dict[str, str] = {}
        self._last_batch_at: float | None = None

    @property
    def _lookup(self) -> Lookup:
        if self._opened_lookup is None:
            self._opened_lookup = Lookup(self._options)
        return self._opened_lookup

    @short_errors
    def initialOffset(self) -> dict[str, Any]:
        """Return the starting offsets of a query that has no checkpoint yet.

        Spark calls this method twice, and both calls must return the same offsets.
        """
        if self._initial is None:
            self._initial = self._lookup.resolve(self._options.start, self._lookup.partitions())
            self._topic_ids |= self._lookup.topic_ids
            self._first_batch_is_empty = not self._options.start.is_fixed
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return one limit for a micro-batch, because Spark requires exactly one.

        `latestOffset` applies all limits of the query.
        """
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        # Without a limit, do not return ReadAllAvailable: `latestOffset` recognizes Trigger.Once by ReadAllAvailable.
        return ReadMaxRows(2**63 - 1) if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    @short_errors
    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Return the end offsets of the next batch.

        Args:
            start: Start offsets of the batch. None with Spark 4.0 and 4.1.
            limit: Spark's limit for the batch. None with Spark 4.0 and 4.1.
        """
        # Spark 4.0 and 4.1 plan the last batch of the checkpoint before they ask for the next batch. If no batch was
        # planned, the query is new.
        names_start = start is not None
        if start is None:
            start = self.initialOffset() if self._planned is None else to_json(self._planned)
        begin = from_json(start)
        takes_all = names_start and isinstance(limit, ReadAllAvailable)
        if begin == self._initial:
            # Spark's checkpoint stores the end of each batch, but not the start of the first batch. If a query fails in
            # its first batch, its next run would look up the start again, at a newer end of the topic or after deleted
            # records, and would skip records. So the first batch is empty and only stores the start. Two cases need no
            # empty batch: Trigger.Once has a single batch, and a start that is given in offsets does not change.
            # Before Spark 4.2, klamm cannot recognize Trigger.Once.
            is_only = not names_start or (takes_all and not self._options.start.follows_end)
            if self._first_batch_is_empty and not is_only:
                self._first_batch_is_empty = False
                return start
        else:
            self._commit(begin)
        end = self._end(begin)
        if takes_all or not self._options.limits.are_set:
            return to_json(end)
        begin = self._add_new_partitions(begin, end)
        end = {tp: end[tp] for tp in end if tp in begin}
        if self._should_wait(begin, end):
            return start
        limited = self._limited(begin, end)
        if not names_start and self._planned is None and limited != end:
            log.warning(
                "the first batch leaves records for later batches; with Trigger.AvailableNow or Trigger.Once, which "
                "klamm cannot recognize before Spark 4.2, these records wait for the next run"
            )
        return to_json(limited)

    @short_errors
    def prepareForTriggerAvailableNow(self) -> None:
        """Set the end offsets of a run with Trigger.AvailableNow. The next run reads later records."""
        self._target = self._lookup.latest(self._lookup.partitions(running=True))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the latest offsets of the last lookup, for the progress report."""
        return None if self._latest is None else to_json(self._latest)

    @short_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan the tasks of one batch."""
        first, last = from_json(start), from_json(end)
        self._planned = last
        begin = self._add_new_partitions(first, last, 0.0 if self._options.fail_on_data_loss else GONE_SECONDS)
        if missing := last.keys() - begin.keys():
            names = format_partitions(set(missing))
            message = f"partitions that were added while the query ran no longer exist: {names}; was a topic deleted?"
            report_loss(self._options, "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", message)
            last = {tp: last[tp] for tp in last if tp in begin}
            self._missing_since |= dict.fromkeys(missing, float("-inf"))
        if first == self._initial and not self._has_planned_first and not self._options.start.is_fixed:
            # Do not check the first batch. If Spark repeats the first batch after a crash, its end may be below the
            # current `latest`.
            self._has_planned_first = True
            self._first_batch_is_empty = False
        else:
            # The end offsets may come from a checkpoint that Spark's own connector wrote.
            self._report_deleted(first.keys() - last.keys())
            self._report_lower_ends(first, last)
            for topic, number in begin.keys() - first.keys():
                if begin[topic, number] > 0:
                    report_loss(
                        self._options,
                        "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                        f"partition {topic}-{number} was added while the query ran, but its first record is at offset "
                        f"{begin[topic, number]} now: earlier records were deleted before they could be read",
                    )
        return tasks(self._options, self._lookup, begin, last)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of one task. An executor runs this method."""
        return read(self._options, self._columns, partition)

    @short_errors
    def commit(self, end: dict[str, Any]) -> None:
        """Commit the end offsets of a finished batch to the group of option `commitGroup`."""
        self._commit(from_json(end))

    def stop(self) -> None:
        """Close the connections. Spark does not always call this method: Spark may kill the process instead."""
        if self._opened_lookup is not None:
            self._opened_lookup.close()

    def _end(self, begin: Offsets) -> Offsets:
        target = self._target
        if target is None:
            end = self._checked_end(begin)
        elif all(target.get(tp, -1) >= offset for tp, offset in begin.items()):
            end = target
        else:
            # The query starts after the fixed end. Either the query starts at `latest` and records or partitions were
            # added in the meantime, or the fixed end came from a broker with stale state.
            end = self._target = self._checked_end(begin)
        self._latest = end
        return end

    def _checked_end(self, begin: Offsets) -> Offsets:
        """Return the current end of every partition.

        A temporarily missing partition ends at its start offset, so the batch reads no records from it.

        Raises:
            DataLossError: A partition is missing or has been replaced, and `failOnDataLoss` is true.
        """
        end = self._lookup.latest_rate_limited({tp: begin[tp] for tp in begin if tp not in self._missing_since})
        now = time.monotonic()
        replaced = self._replaced(begin, end)
        self._topic_ids |= self._lookup.topic_ids
        if replaced:
            report_loss(
                self._options,
                "PARTITION_OFFSET_CHANGED",
                f"the topic of these partitions was deleted and created again: {format_partitions(replaced)}",
            )
            # The end of this batch lacks the partitions of the old topic. The next batch reads the new topic from its
            # beginning.
            end = {tp: end[tp] for tp in end if tp not in replaced}
        missing = begin.keys() - end.keys() - replaced
        if missing - self._missing_since.keys():
            log.warning("the brokers do not know partitions %s", format_partitions(missing))
        self._missing_since = {tp: self._missing_since.get(tp, now) for tp in missing}
        if self._options.fail_on_data_loss:
            self._report_deleted(missing)
            self._report_lower_ends(begin, end)
        kept = {tp for tp in missing if now - self._missing_since[tp] < GONE_SECONDS}
        return end | {tp: begin[tp] for tp in kept}

    def _replaced(self, begin: Offsets, end: Offsets) -> set[Partition]:
        """Return those partitions of `begin` whose topic was deleted and created again."""
        known, found = self._topic_ids, self._lookup.topic_ids
        other = {topic for topic in known.keys() & found.keys() if known[topic] != found[topic]}
        # Without topic IDs, a topic counts as replaced if it was missing and now has fewer records than before.
        shorter = {tp for tp in self._missing_since if tp in begin and end.get(tp, begin[tp]) < begin[tp]}
        return shorter | {tp for tp in begin if tp[0] in other}

    def _report_deleted(self, partitions: AbstractSet[Partition]) -> None:
        if partitions:
            names = format_partitions(set(partitions))
            message = f"partitions that were read before no longer exist: {names}; was a topic deleted?"
            report_loss(self._options, "PARTITIONS_DELETED", message)

    def _report_lower_ends(self, begin: Offsets, end: Offsets) -> None:
        for topic, number in sorted(begin.keys() & end.keys()):
            if end[topic, number] < begin[topic, number]:
                offset, option = begin[topic, number], self._options.start.option
                report_loss(
                    self._options,
                    "PARTITION_OFFSET_CHANGED",
                    f"cannot read partition {topic}-{number} from offset {offset}, because it ends at "
                    f"{end[topic, number]} now: "
                    + (
                        f"is option '{option}' right?"
                        if begin == self._initial
                        else "was the topic deleted and created again?"
                    ),
                )

    def _should_wait(self, begin: Offsets, end: Offsets) -> bool:
        """Return whether the batch is still too small to start. A run with Trigger.AvailableNow never waits."""
        limits, now = self._options.limits, time.monotonic()
        if limits.min_offsets is None or self._target is not None:
            return False
        is_due = self._last_batch_at is None or now - self._last_batch_at >= limits.max_delay_seconds
        if not is_due and count_offsets(begin, end) < limits.min_offsets:
            return True
        self._last_batch_at = now
        return False

    def _limited(self, begin: Offsets, end: Offsets) -> Offsets:
        limits = self._options.limits
        if limits.max_offsets is not None:
            end = limit_records(limits.max_offsets, begin, end)
        if limits.max_bytes is not None and count_offsets(begin, end):
            end = limit_bytes(limits.max_bytes, begin, end, self._lookup.record_bytes(begin, end))
        return end

    def _commit(self, offsets: Offsets) -> None:
        # Leave out missing topics, because a commit would wait until these topics exist.
        offsets = {tp: offsets[tp] for tp in offsets if tp not in self._missing_since}
        if offsets != self._committed:
            self._committed = offsets
            self._lookup.commit(offsets)

    def _add_new_partitions(self, start: Offsets, end: Offsets, timeout: float = 0.0) -> Offsets:
        """Return `start` plus those new partitions of `end` that still exist.

        A new partition starts at its first offset.
        """
        new = [tp for tp in end if tp not in start]
        return start | self._lookup.earliest_existing(new, timeout) if new else start
