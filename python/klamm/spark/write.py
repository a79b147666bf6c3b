"""Writes rows to topics. A task passes its Arrow batches to a producer, and flushes the producer at the end.

Delivery is at least once, as with Spark's own connector: if Spark repeats a task, the task sends its rows again. The
idempotent producer prevents duplicates from its own retries. The module `exactly_once` prevents duplicates from
repeated tasks.
"""

# klamm supports Python 3.10, which does not have `typing.override`.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from klamm.errors import ConfigError
from klamm.spark import clients, exactly_once
from klamm.spark.failures import rows_after, short_errors
from klamm.spark.schema import selected, sink_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from klamm.spark.options import WriteOptions

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[no-redef,misc]
        """Base class for Spark 4.0, which passes Arrow batches to every `DataSourceArrowWriter`."""


log = logging.getLogger("klamm.spark")


@dataclass
class Written(WriterCommitMessage):
    """Message of a finished task to the driver: the number of rows. The brokers have acknowledged all rows."""

    rows: int


class KlammWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query at least once, or exactly once with options `txnAppId` and `txnVersion`."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("cannot overwrite a topic", hint="use .mode('append')")
        if options.exactly_once and options.txn is None:
            raise ConfigError(
                "option 'delivery' is exactly-once, which needs a stream: klamm recognizes a repeated write by the number of its "
                "micro-batch",
                hint="use writeStream, or klamm.spark.foreach_batch in foreachBatch; for a batch job that may be repeated, set "
                "options 'txnAppId' and 'txnVersion'",
            )
        self._options, self._columns = columns_of(options, schema)

    @short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of a task, and wait until the brokers acknowledge them. An executor runs this method."""
        if self._options.txn is not None:
            task = exactly_once.batch_task(*self._options.txn)
            return Written(exactly_once.write(self._options, self._columns, iterator, task))
        return _write(self._options, self._columns, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log the number of rows. Spark calls `commit` after all tasks have succeeded, so the topic has all rows."""
        log.info("wrote %d rows", _rows(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log that a task failed. The rows of finished tasks remain in the topic."""
        log.warning("the write failed after %d rows of finished tasks", _rows(messages))


class KlammStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a streaming query. Every output mode appends rows, because a topic keeps its history."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options, self._columns = columns_of(options, schema)

    @short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of a task, and wait until the brokers acknowledge them. An executor runs this method."""
        if self._options.exactly_once:
            clients.prepare_process()
            return Written(exactly_once.write(self._options, self._columns, iterator, exactly_once.current_task()))
        return _write(self._options, self._columns, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log the number of rows. Spark calls `commit` after all tasks have succeeded, so the topic has all rows."""
        log.info("wrote %d rows of batch %d", _rows(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log that a task failed. The rows of finished tasks remain in the topic."""
        log.warning("batch %d failed after %d rows of finished tasks", batchId, _rows(messages))


def columns_of(options: WriteOptions, schema: StructType) -> tuple[WriteOptions, dict[str, str]]:
    """Check the columns of a write.

    Returns:
        The options of the tasks, and the columns to send: the name for `send_arrow` by the name of the column.
    """
    if options.typed is None:
        return options, {name: name for name in sink_columns(schema, options.topic)}
    from klamm.spark import typed

    return typed.sink(options, schema)


def _write(options: WriteOptions, columns: dict[str, str], batches: Iterator[pa.RecordBatch]) -> Written:
    clients.prepare_process()
    rows = 0
    with clients.producer(options.config) as producer:
        for all_columns in batches:
            batch = selected(all_columns, columns)
            if options.topic is None and batch.column("topic").null_count:
                raise ConfigError(
                    "[KAFKA_NULL_TOPIC_IN_DATA] null topic present in the data. Use the topic option for setting a topic."
                )
            with rows_after(rows):
                rows += producer.send_arrow(options.topic, batch, **options.arguments())
        producer.flush()
    return Written(rows)


def _rows(messages: list[WriterCommitMessage | None]) -> int:
    return sum(message.rows for message in messages if isinstance(message, Written))
