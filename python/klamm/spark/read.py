"""The source: from offsets to tasks on the driver, from a task to Arrow batches on an executor.

Reader objects exist many times (planning, the process that answers for a stream, every worker), so
all a task needs travels in its `InputPartition`, and whatever holds a connection is made at first
use. Positions that are gone are noticed where they are read, and `failOnDataLoss` decides there.
"""

# typing.override is there from Python 3.12 on.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

import klamm
from klamm.errors import ConfigError, KafkaTimeoutError, OffsetOutOfRangeError
from klamm.spark import clients
from klamm.spark.columns import Columns
from klamm.spark.lookup import Lookup
from klamm.spark.offsets import LATEST, DataLossError, OffsetRange, from_json, share, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from klamm.spark.offsets import Offsets
    from klamm.spark.options import ReadOptions

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

    ADMISSION_CONTROL = True
except ImportError:  # Spark 4.1: its streams know no limits, and it never asks for any
    ADMISSION_CONTROL = False
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]

log = logging.getLogger("klamm.spark")


class KlammReader(DataSourceReader):
    """Batch read."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = Columns(schema)

    def partitions(self) -> list[InputPartition]:
        """Plan a task for each partition that has something to read."""
        with closing(Lookup(self._options)) as lookup:
            start = lookup.resolve(self._options.start, "startingOffsets")
            end = lookup.resolve(self._options.end, "endingOffsets")
        for tp in start:
            if start[tp] > end[tp]:
                raise ConfigError(
                    f"partition {tp[0]}-{tp[1]} is to be read from offset {start[tp]}, "
                    f"which lies after its end, {end[tp]}"
                )
        return _tasks(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range of offsets, on an executor."""
        return _read(self._options, self._columns, partition)


class KlammStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming read with admission control and `Trigger.AvailableNow`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = Columns(schema)
        self._connected: Lookup | None = None
        self._initial: Offsets | None = None
        self._hold = False
        self._target: Offsets | None = None
        self._seen: Offsets | None = None

    @property
    def _lookup(self) -> Lookup:
        if self._connected is None:
            self._connected = Lookup(self._options)
        return self._connected

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without checkpoint begins. Spark asks twice; the answer must not move."""
        if self._initial is None:
            self._initial = self._lookup.resolve(self._options.start, "startingOffsets")
            self._hold = _follows_end(self._options)
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Tell Spark how much a batch may hold."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Choose where the next batch ends."""
        if start is None:  # Spark 4.1 asks without arguments
            return to_json(self._end())
        begin = from_json(start)
        if self._hold and begin == self._initial:
            # Spark writes down where a batch ends, never where the first one began. A query that
            # begins at `latest` and dies in its first batch would begin later the next time, and
            # skip records. So its first batch is empty and writes down the beginning.
            self._hold = False
            return start
        end = self._end()
        if isinstance(limit, ReadMaxRows):
            begin = self._with_new(begin, end)
            end = share(limit.max_rows, begin, end)
        return to_json(end)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of this run: what comes later is for the next one."""
        self._target = self._lookup.latest(self._lookup.partitions())

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Tell the progress report where the topics ended when last asked."""
        return None if self._seen is None else to_json(self._seen)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan the tasks of one batch."""
        first, last = from_json(start), from_json(end)
        # A first batch that is repeated after a crash may end before where `latest` is today.
        if first != self._initial:
            for topic, number in first:
                there = last.get((topic, number))
                if there is None or there < first[topic, number]:
                    _lost(
                        self._options,
                        f"partition {topic}-{number} was read up to offset "
                        f"{first[topic, number]}, but "
                        + ("it is gone" if there is None else f"it ends at {there} now")
                        + ": was the topic deleted and created again?",
                    )
        return _tasks(self._with_new(first, last), last)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range of offsets, on an executor."""
        return _read(self._options, self._columns, partition)

    def stop(self) -> None:
        """Hang up. Spark calls this at best: it ends the process by signal."""
        if self._connected is not None:
            self._connected.close()

    def _end(self) -> Offsets:
        self._seen = self._lookup.latest_paced() if self._target is None else self._target
        return self._seen

    def _with_new(self, start: Offsets, end: Offsets) -> Offsets:
        """Add the partitions that came since `start`: they are read from their beginning."""
        new = [tp for tp in end if tp not in start]
        return start | self._lookup.earliest(new) if new else start


def _follows_end(options: ReadOptions) -> bool:
    return options.start == "latest" or (not isinstance(options.start, str) and LATEST in options.start.values())


def _tasks(start: Offsets, end: Offsets) -> list[InputPartition]:
    return [
        InputPartition(OffsetRange(topic, number, start[topic, number], end[topic, number]))
        for topic, number in sorted(end)
        if start[topic, number] < end[topic, number]
    ]


def _read(options: ReadOptions, columns: Columns, task: InputPartition | None) -> Iterator[pa.RecordBatch]:
    if task is None or task.value is None:  # Spark turns a plan without tasks into one empty task (4.1: into None)
        return
    span: OffsetRange = task.value
    tp = klamm.TopicPartition(span.topic, span.partition, offset=span.start, end_offset=span.end)
    convert = columns.converter(span.topic, span.partition)
    with clients.consumer(options.config) as consumer:
        consumer.assign([tp])
        position, moved = span.start, time.monotonic()
        while position < span.end:
            before = position
            try:
                for batch in consumer.arrow(BATCH_ROWS, LOOK_SECONDS, columns.wanted):
                    position = batch.column("offset")[-1].as_py() + 1
                    yield convert(batch)
            except OffsetOutOfRangeError:
                position = _after_loss(options, consumer, span, position)
                if position < span.end:
                    consumer.seek(tp, position)
                continue
            position = consumer.position(tp)  # past what has no records: compacted, or marks of transactions
            if position > before:
                moved = time.monotonic()
            else:
                position = _waited(options, consumer, span, position, time.monotonic() - moved)


def _after_loss(options: ReadOptions, consumer: klamm.Consumer, span: OffsetRange, position: int) -> int:
    """Go on where there are records again, if that is allowed."""
    tp = klamm.TopicPartition(span.topic, span.partition)
    first, end = consumer.beginning_offsets([tp])[tp], consumer.end_offsets([tp])[tp]
    _lost(
        options,
        f"partition {span.topic}-{span.partition} was to be read from offset {position} to "
        f"{span.end}, but it holds {first} to {end} now",
    )
    return first if position < first else span.end


def _waited(options: ReadOptions, consumer: klamm.Consumer, span: OffsetRange, position: int, idle: float) -> int:
    """Find out why nothing came for a while: it is late, or it is not there."""
    tp = klamm.TopicPartition(span.topic, span.partition)
    end = consumer.end_offsets([tp])[tp]
    if position >= end:
        _lost(
            options,
            f"partition {span.topic}-{span.partition} was to be read up to offset {span.end}, but it ends at {end}",
        )
        return span.end
    if idle > POLL_SECONDS:
        raise KafkaTimeoutError(
            f"partition {span.topic}-{span.partition}: no record came for {idle:.0f} s at offset "
            f"{position}, and the brokers say that it ends at {end}"
        )
    return position


def _lost(options: ReadOptions, what: str) -> None:
    if options.fail_on_data_loss:
        raise DataLossError(what, hint="set option 'failOnDataLoss' to false to go on with what is there")
    log.warning("%s; going on, as failOnDataLoss is false", what)


# Rows of a batch: 8,000 to 64,000 measure alike, 256,000 worse.
BATCH_ROWS = 65_536

# Silence after which a task asks whether the records it waits for exist.
LOOK_SECONDS = 1.0

# Silence after which it fails although they do; Spark's connector waits as long.
POLL_SECONDS = 120.0
