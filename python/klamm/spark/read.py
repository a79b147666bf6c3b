"""Batch reads, and what they share with streams: from offsets to tasks on the driver, from a task to Arrow batches on an executor.

Reader objects exist many times (planning, every worker), so all a task needs travels in its
`InputPartition`, and whatever holds a connection is made where it is used. Positions that are gone are noticed where they are read, and `failOnDataLoss` decides there.
"""

# typing.override is there from Python 3.12 on.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

import klamm
from klamm.errors import ConfigError, KafkaTimeoutError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from klamm.spark import clients
from klamm.spark.columns import Columns
from klamm.spark.filters import narrow
from klamm.spark.lookup import Lookup
from klamm.spark.offsets import DataLossError, OffsetRange, divide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from klamm.spark.offsets import Offsets
    from klamm.spark.options import ReadOptions

log = logging.getLogger("klamm.spark")


class KlammReader(DataSourceReader):
    """Batch read."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = Columns(schema)
        self._filters: list[Filter] = []

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks: one for each partition that has something to read, or several."""
        options = self._options
        with closing(Lookup(options)) as lookup:
            start = lookup.resolve(options.start)
            end = lookup.resolve(options.end)
            for tp in start.keys() & end.keys():  # a partition that came between the two questions is for the next read
                if start[tp] > end[tp]:
                    as_given = all(isinstance(one.at, dict) and one.at[tp] >= 0 for one in (options.start, options.end))
                    raise ConfigError(
                        f"[{'UN' if as_given else ''}RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] "
                        f"partition {tp[0]}-{tp[1]} is to be read from offset {start[tp]}, "
                        f"which lies after its end, {end[tp]}"
                    )
            end = {tp: end[tp] for tp in end if tp in start}
            start, end = narrow(self._filters, start, end, lookup.at_times)
            return tasks(options, lookup, start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range of offsets, on an executor."""
        return read(self._options, self._columns, partition)


class KlammFilteringReader(KlammReader):
    """Batch read that takes Spark's filters.

    Spark does not plan a reader that has `pushFilters` unless spark.sql.python.filterPushdown.enabled is true, so this is a
    class of its own, behind an option.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take note of filters, and leave checking the rows to Spark."""
        self._filters = filters
        return filters


def tasks(options: ReadOptions, lookup: Lookup, start: Offsets, end: Offsets) -> list[InputPartition]:
    """Plan tasks for the records between two places."""
    ranges = [
        OffsetRange(topic, number, start[topic, number], end[topic, number])
        for topic, number in sorted(end)
        if start[topic, number] < end[topic, number]
    ]
    division = options.division
    sizes = lookup.record_bytes(start, end) if division.max_bytes is not None and ranges else None
    parts = divide(ranges, division.min_parts, division.max_records, division.max_bytes, sizes)
    return [InputPartition(part) for part in parts]


def read(options: ReadOptions, columns: Columns, task: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """Read the range of one task."""
    span = span_of(task)
    if span is None:
        return
    clients.spare_collections()
    with clients.consumer(options.config) as consumer:
        try:
            yield from _batches(options, columns, span, consumer)
        except UnknownTopicOrPartitionError:
            lost(
                options,
                "PARTITIONS_DELETED",
                f"partition {span.topic}-{span.partition} is gone: was the topic deleted?",
            )


def span_of(task: InputPartition | None) -> OffsetRange | None:
    """Return what a task is to read: nothing, if Spark has turned a plan without tasks into one empty task (4.1: into None)."""
    return None if task is None else task.value


def _batches(
    options: ReadOptions, columns: Columns, span: OffsetRange, consumer: klamm.Consumer
) -> Iterator[pa.RecordBatch]:
    tp = klamm.TopicPartition(span.topic, span.partition, offset=span.start, end_offset=span.end)
    convert = columns.converter(span.topic, span.partition)
    consumer.assign([tp])
    position, moved = span.start, time.monotonic()
    while position < span.end:
        before = position
        try:
            for batch in consumer.arrow(BATCH_ROWS, LOOK_SECONDS, columns.wanted, BATCH_BYTES):
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
    lost(
        options,
        "COULD_NOT_READ_OFFSET_RANGE",
        f"partition {span.topic}-{span.partition} was to be read from offset {position} to "
        f"{span.end}, but it holds {first} to {end} now",
    )
    return first if position < first else span.end


def _waited(options: ReadOptions, consumer: klamm.Consumer, span: OffsetRange, position: int, idle: float) -> int:
    """Find out why nothing came for a while: it is late, or it is not there."""
    tp = klamm.TopicPartition(span.topic, span.partition)
    end = consumer.end_offsets([tp])[tp]
    if position >= end:
        lost(
            options,
            "COULD_NOT_READ_OFFSET_RANGE",
            f"partition {span.topic}-{span.partition} was to be read up to offset {span.end}, but it ends at {end}",
        )
        return span.end
    if idle > options.poll_seconds:
        raise KafkaTimeoutError(
            f"partition {span.topic}-{span.partition}: no record came for {idle:.0f} s at offset "
            f"{position}, and the brokers say that it ends at {end}"
        )
    return position


def lost(options: ReadOptions, how: str, what: str) -> None:
    """Fail over records that are gone, or go on without them. `how` is the part of Spark's name for it that varies."""
    condition = f"KAFKA_DATA_LOSS.{how}"
    if options.fail_on_data_loss:
        hint = "set option 'failOnDataLoss' to false to go on with what is there"
        raise DataLossError(what, condition=condition, hint=hint)
    log.warning("[%s] %s; going on, as failOnDataLoss is false", condition, what)


# Rows of a batch: 8,000 to 64,000 measure alike, 256,000 worse. A worker has a handful of batches at a time, in one form or
# another, so they have an end in bytes, too: with records of 10 kB that were compressed to a tenth, it needed 300 MB without.
BATCH_ROWS = 65_536
BATCH_BYTES = 8 << 20

# Silence after which a task asks whether the records it waits for exist.
LOOK_SECONDS = 1.0
