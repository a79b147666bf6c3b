"""Plans and runs batch reads. Streams share the code that plans tasks on the driver and reads records on an executor.

Spark copies reader objects to the planning process and to every worker. Therefore an `InputPartition` contains the
whole input of its task, and each process creates its own connections. If a task cannot read offsets because they are
missing, option `failOnDataLoss` decides whether the task fails.
"""

# klamm supports Python 3.10, which does not have `typing.override`.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

import klamm
from klamm.errors import ConfigError, KafkaTimeoutError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from klamm.spark import clients
from klamm.spark.columns import Columns
from klamm.spark.failures import short_errors
from klamm.spark.lookup import GONE_SECONDS, Lookup
from klamm.spark.offsets import DataLossError, OffsetRange, divide, join
from klamm.spark.schema import source_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from klamm.spark.offsets import Offsets
    from klamm.spark.options import ReadOptions

log = logging.getLogger("klamm.spark")


class KlammReader(DataSourceReader):
    """Reads a range of offsets in one batch."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = columns_of(options, schema)
        self._filters: list[Filter] = []

    @short_errors
    def partitions(self) -> list[InputPartition]:
        """Plan one or more tasks for each partition that has records to read."""
        options = self._options
        with closing(Lookup(options)) as lookup:
            partitions = lookup.partitions()
            start = lookup.resolve(options.start, partitions)
            end = lookup.resolve(options.end, partitions)
            for tp in partitions:
                if start[tp] > end[tp]:
                    as_given = all(isinstance(one.at, dict) and one.at[tp] >= 0 for one in (options.start, options.end))
                    raise ConfigError(
                        f"[{'UN' if as_given else ''}RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] "
                        f"cannot read partition {tp[0]}-{tp[1]} from offset {start[tp]}, which is after its end, {end[tp]}",
                        hint=f"correct option '{options.start.option}' or '{options.end.option}'",
                    )
            if self._filters:
                from klamm.spark.filters import narrow  # needs Spark 4.1

                start, end = narrow(self._own_filters(), start, end, lookup.at_times)
            return tasks(options, lookup, start, end)

    def _own_filters(self) -> list[Filter]:
        """Return the filters on columns of the record. A field of the value can have a name such as `timestamp`."""
        own = source_schema(self._options.include_headers, self._options.columns).names
        return [one for one in self._filters if getattr(getattr(one, "child", one), "attribute", ("",))[0] in own]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of one task, on an executor."""
        return read(self._options, self._columns, partition)


class KlammFilteringReader(KlammReader):
    """Reads a batch, and skips partitions and offsets that Spark's filters exclude.

    Spark rejects a reader with `pushFilters` if spark.sql.python.filterPushdown.enabled is false. So
    `KlammFilteringReader` is a separate class, which klamm uses only with option `filterPushdown`.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Store the filters. Return all filters, so that Spark still checks every row."""
        self._filters = filters
        return filters


def tasks(options: ReadOptions, lookup: Lookup, start: Offsets, end: Offsets) -> list[InputPartition]:
    """Plan the tasks that read from `start` to `end` in each partition."""
    ranges = [
        OffsetRange(topic, number, start[topic, number], end[topic, number])
        for topic, number in sorted(end)
        if start[topic, number] < end[topic, number]
    ]
    division = options.division
    if not division.is_set:
        return [InputPartition(group) for group in join(ranges)]
    sizes = lookup.record_bytes(start, end) if division.max_bytes is not None and ranges else None
    parts = divide(ranges, division.min_parts, division.max_records, division.max_bytes, sizes)
    return [InputPartition((part,)) for part in parts]


def with_schemas(options: ReadOptions) -> ReadOptions:
    """Return the options with the registry's current schemas as text, so that all tasks use the same schemas."""
    if options.typed is None:
        return options
    from klamm.spark.typed import planned

    return planned(options)


def columns_schema(options: ReadOptions) -> StructType:
    """Return the schema of a read: its columns and their Spark types."""
    if options.typed is None:
        return source_schema(options.include_headers, options.columns)
    from klamm.spark.typed import planned, schema_of

    return schema_of(planned(options))


def columns_of(options: ReadOptions, schema: StructType) -> Columns:
    """Return the object that converts record batches to the columns of a query."""
    if options.typed is not None:
        from klamm.spark.typed import TypedSparkColumns

        return TypedSparkColumns(schema, options)
    return Columns(schema, fail_on_timestamp_range=options.fail_on_timestamp_range)


@short_errors
def read(options: ReadOptions, columns: Columns, task: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """Read the records of one task, on an executor."""
    ranges: tuple[OffsetRange, ...] | None = value_of(task)
    if ranges is None:
        return
    clients.prepare_process()
    with clients.consumer(options.config) as consumer:
        for offsets in ranges:
            yield from _batches(options, columns, offsets, consumer)


def value_of(task: InputPartition | None) -> Any:
    """Return what a task has to read, or None for an empty task.

    If a plan has no tasks, Spark runs an empty task. Before Spark 4.2, the empty task is None.
    """
    return None if task is None else task.value


def _batches(
    options: ReadOptions, columns: Columns, offsets: OffsetRange, consumer: klamm.Consumer
) -> Iterator[pa.RecordBatch]:
    tp = klamm.TopicPartition(offsets.topic, offsets.partition, offset=offsets.start, end_offset=offsets.end)
    convert, batches = columns.converter(offsets.topic, offsets.partition), columns.batches()
    consumer.assign([tp])
    position, moved = offsets.start, time.monotonic()
    while position < offsets.end:
        before = position
        try:
            for batch in consumer._arrow(BATCH_ROWS, CHECK_SECONDS, batches, BATCH_BYTES):  # noqa: SLF001
                position = columns.offsets(batch)[-1].as_py() + 1
                yield convert(batch)
            position = consumer.position(
                tp
            )  # skips offsets without records, such as compacted records and transaction markers
            if position > before:
                moved = time.monotonic()
            else:
                position = _check_silence(options, consumer, offsets, position, time.monotonic() - moved)
        except OffsetOutOfRangeError:
            position = _position_after_loss(options, consumer, offsets, position)
            if position < offsets.end:
                consumer.seek(tp, position)
        except UnknownTopicOrPartitionError as error:
            if position > before:
                moved = time.monotonic()
            if _is_gone(options, offsets, error, time.monotonic() - moved):
                return
            consumer.assign([klamm.TopicPartition(tp.topic, tp.partition, offset=position, end_offset=offsets.end)])


def _is_gone(
    options: ReadOptions, offsets: OffsetRange, error: UnknownTopicOrPartitionError, missing_seconds: float
) -> bool:
    """Return whether a missing partition counts as deleted. Before returning False, wait for the retry interval.

    If `failOnDataLoss` is true, raise an error.
    """
    if not options.fail_on_data_loss and missing_seconds < GONE_SECONDS:
        log.warning("retrying in %g s: %s", options.retry_seconds, error)
        time.sleep(options.retry_seconds)
        return False
    report_loss(
        options,
        "PARTITIONS_DELETED",
        f"cannot read partition {offsets.topic}-{offsets.partition}: it no longer exists; was the topic deleted?",
    )
    return True


def _position_after_loss(options: ReadOptions, consumer: klamm.Consumer, offsets: OffsetRange, position: int) -> int:
    """Return the next offset that has records. Raise an error if `failOnDataLoss` is true."""
    tp = klamm.TopicPartition(offsets.topic, offsets.partition)
    first, end = consumer.beginning_offsets([tp])[tp], consumer.end_offsets([tp])[tp]
    report_loss(
        options,
        "COULD_NOT_READ_OFFSET_RANGE",
        f"cannot read partition {offsets.topic}-{offsets.partition} from offset {position} to "
        f"{offsets.end}: it contains offsets {first} to {end} now",
    )
    return first if position < first else offsets.end


def _check_silence(
    options: ReadOptions, consumer: klamm.Consumer, offsets: OffsetRange, position: int, idle: float
) -> int:
    """Check whether expected records exist, if none arrive for some time. Return the next offset to read."""
    tp = klamm.TopicPartition(offsets.topic, offsets.partition)
    end = consumer.end_offsets([tp])[tp]
    if position >= end:
        report_loss(
            options,
            "COULD_NOT_READ_OFFSET_RANGE",
            f"cannot read partition {offsets.topic}-{offsets.partition} up to offset {offsets.end}: it ends at {end} now",
        )
        return offsets.end
    if idle > options.poll_seconds:
        raise KafkaTimeoutError(
            f"no record of partition {offsets.topic}-{offsets.partition} arrived for {idle:.0f} s at offset {position}, "
            f"although the partition ends at {end}",
            hint="check the broker's load and the network, or raise option 'kafkaConsumer.pollTimeoutMs'",
        )
    return position


def report_loss(options: ReadOptions, subclass: str, message: str) -> None:
    """Raise an error about lost records, or log a warning if `failOnDataLoss` is false.

    Args:
        options: Options of the read.
        subclass: Last part of the error condition of Spark's connector, such as "PARTITIONS_DELETED".
        message: The error message, which says what could not be read.

    Raises:
        DataLossError: `failOnDataLoss` is true.
    """
    condition = f"KAFKA_DATA_LOSS.{subclass}"
    if options.fail_on_data_loss:
        hint = "set option 'failOnDataLoss' to false to continue with the records that still exist"
        raise DataLossError(message, condition=condition, hint=hint)
    log.warning("[%s] %s; continuing because failOnDataLoss is false", condition, message)


# Maximum size of a batch. Batches of 8,000 to 64,000 rows are equally fast, and batches of 256,000 rows are slower. A
# worker holds a few batches at a time, so a batch has a limit in bytes too. Without this limit, records of 10 kB that
# were compressed to a tenth needed 300 MB.
BATCH_ROWS = 65_536
BATCH_BYTES = 8 << 20

# If no record arrives for this time in seconds, a task checks whether the expected records exist.
CHECK_SECONDS = 1.0
