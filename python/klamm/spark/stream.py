"""Streams: where a micro-batch ends, and the tasks of it.

One process answers for a query on the driver as long as it runs, so what is remembered here lasts: the connection, where the
query began, when the last batch was let go. Spark asks for the end of the next batch when the last one is done, and
tells of its commit only when there is a next one; so the group that shows how far a query is hears of it in both places.
"""

# typing.override is there from Python 3.12 on.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from klamm.spark.columns import Columns
from klamm.spark.lookup import Lookup
from klamm.spark.offsets import behind, from_json, listed, share, share_bytes, to_json
from klamm.spark.read import lost, read, tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from klamm.spark.offsets import Offsets
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
except ImportError:  # Spark 4.1: its streams know no limits, and it never asks for any
    ADMISSION_CONTROL = False
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]


class KlammStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming read with admission control and `Trigger.AvailableNow`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = Columns(schema)
        self._connected: Lookup | None = None
        self._initial: Offsets | None = None
        self._hold = False
        self._has_begun = False
        self._target: Offsets | None = None
        self._seen: Offsets | None = None
        self._shown: Offsets | None = None
        self._released: float | None = None

    @property
    def _lookup(self) -> Lookup:
        if self._connected is None:
            self._connected = Lookup(self._options)
        return self._connected

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without checkpoint begins. Spark asks twice; the answer must not move."""
        if self._initial is None:
            self._initial = self._lookup.resolve(self._options.start)
            self._hold = True
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Tell Spark how much a batch may hold. It takes one limit; `latestOffset` goes by all of them."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        # Everything, but not ReadAllAvailable: that is what `latestOffset` knows Trigger.Once by.
        return ReadMaxRows(2**63 - 1) if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Choose where the next batch ends."""
        if start is None:  # Spark 4.1 asks without arguments
            return to_json(self._end({}))
        begin = from_json(start)
        if begin == self._initial:
            # Spark writes down where a batch ends, never where the first one began. A query that dies in its first batch
            # would begin later the next time, at another end of the topic or behind what retention deleted, and skip
            # records. So its first batch is empty and writes down the beginning. Trigger.Once has no second one.
            is_only = isinstance(limit, ReadAllAvailable) and not self._options.start.follows_end
            if self._hold and not is_only:
                self._hold = False
                return start
        else:
            self._show(begin)
        end = self._end(begin)
        if not self._options.limits.are_set or isinstance(limit, ReadAllAvailable):
            return to_json(end)
        begin = self._with_new(begin, end)
        end = {tp: end[tp] for tp in end if tp in begin}
        return start if self._waits(begin, end) else to_json(self._limited(begin, end))

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of this run: what comes later is for the next one."""
        self._target = self._lookup.latest(self._lookup.partitions(running=True))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Tell the progress report where the topics ended when last asked."""
        return None if self._seen is None else to_json(self._seen)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan the tasks of one batch."""
        first, last = from_json(start), from_json(end)
        begin = self._with_new(first, last)
        if missing := last.keys() - begin.keys():
            what = f"{listed(set(missing))} came while the query ran, but are gone: was a topic deleted?"
            lost(self._options, "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", what)
            last = {tp: last[tp] for tp in last if tp in begin}
        if first == self._initial and not self._has_begun:
            # If it is repeated after a crash, it may end before where `latest` is today.
            self._has_begun = True
            self._hold = False
        else:
            if gone := first.keys() - last.keys():
                what = f"{listed(set(gone))} were read before, but are gone: was a topic deleted?"
                lost(self._options, "PARTITIONS_DELETED", what)
            for topic, number in first.keys() & last.keys():
                if last[topic, number] < first[topic, number]:
                    lost(
                        self._options,
                        "PARTITION_OFFSET_CHANGED",
                        f"partition {topic}-{number} was read up to offset {first[topic, number]}, but it ends at "
                        f"{last[topic, number]} now: was the topic deleted and created again?",
                    )
            for topic, number in begin.keys() - first.keys():
                if begin[topic, number] > 0:
                    lost(
                        self._options,
                        "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                        f"partition {topic}-{number} came while the query ran, but its first record is at offset "
                        f"{begin[topic, number]} now: those before it are gone",
                    )
        return tasks(self._options, self._lookup, begin, last)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range of offsets, on an executor."""
        return read(self._options, self._columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Hear that everything up to here is done."""
        self._show(from_json(end))

    def stop(self) -> None:
        """Hang up. Spark calls this at best: it ends the process by signal."""
        if self._connected is not None:
            self._connected.close()

    def _end(self, begin: Offsets) -> Offsets:
        target = self._target
        if target is None:
            end = self._lookup.latest_paced(begin)
        elif all(target.get(tp, -1) >= offset for tp, offset in begin.items()):
            end = target
        else:
            # It begins behind where it was to end: with `latest`, as records or partitions came since that was asked, or a broker
            # that lagged behind had answered.
            end = self._target = self._lookup.latest_paced(begin)
        self._seen = end
        return end

    def _waits(self, begin: Offsets, end: Offsets) -> bool:
        """Tell whether a batch would be too small yet. A run that ends with what is there has nothing to wait for."""
        limits, now = self._options.limits, time.monotonic()
        if limits.min_offsets is None or self._target is not None:
            return False
        is_due = self._released is None or now - self._released >= limits.max_delay_seconds
        if not is_due and behind(begin, end) < limits.min_offsets:
            return True
        self._released = now
        return False

    def _limited(self, begin: Offsets, end: Offsets) -> Offsets:
        limits = self._options.limits
        if limits.max_offsets is not None:
            end = share(limits.max_offsets, begin, end)
        if limits.max_bytes is not None and behind(begin, end):
            end = share_bytes(limits.max_bytes, begin, end, self._lookup.record_bytes(begin, end))
        return end

    def _show(self, offsets: Offsets) -> None:
        """Commit for the group, if there is one, that shows to others how far the query is."""
        if offsets != self._shown:
            self._shown = offsets
            self._lookup.commit(offsets)

    def _with_new(self, start: Offsets, end: Offsets) -> Offsets:
        """Add the partitions that came since `start` and are still there: they are read from their beginning."""
        new = [tp for tp in end if tp not in start]
        return start | self._lookup.earliest_there(new) if new else start
