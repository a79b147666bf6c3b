"""The sink: Arrow batches of a task go to a producer as they are, and the task ends with a flush.

Delivery is at least once, as with Spark's own sink: a task that Spark repeats sends its rows again.
The idempotent producer keeps its own retries from adding to that. `exactly_once` has what a stream can do about it.
"""

# typing.override is there from Python 3.12 on.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from klamm.errors import ConfigError
from klamm.spark import clients, exactly_once
from klamm.spark.schema import sink_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from klamm.spark.options import WriteOptions

log = logging.getLogger("klamm.spark")


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver: so many rows, all acknowledged."""

    rows: int


class KlammWriter(DataSourceArrowWriter):
    """Batch write."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("a topic cannot be overwritten", hint="use .mode('append')")
        if options.exactly_once:
            raise ConfigError(
                "option 'delivery' is exactly-once, which needs a stream: the batches of one have numbers, and a batch write "
                "that is repeated cannot know what it wrote before",
                hint="use writeStream, not foreachBatch",
            )
        self._options = options
        self._columns = sink_columns(schema, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of a task, on an executor, and wait for all of them."""
        return _write(self._options, self._columns, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Hear that all tasks succeeded: their rows are in the topic already."""
        log.info("wrote %d rows", _rows(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Hear that a task failed: what the others sent stays in the topic."""
        log.warning("the write failed after %d rows of finished tasks", _rows(messages))


class KlammStreamWriter(DataSourceStreamArrowWriter):
    """Streaming write. Every output mode appends: the rows of a topic are its history."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._columns = sink_columns(schema, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of a task, on an executor, and wait for all of them."""
        clients.spare_collections()
        if self._options.exactly_once:
            return Written(exactly_once.write(self._options, self._columns, iterator, exactly_once.current_task()))
        return _write(self._options, self._columns, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Hear that all tasks succeeded: their rows are in the topic already."""
        log.info("wrote %d rows of batch %d", _rows(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Hear that a task failed: what the others sent stays in the topic."""
        log.warning("batch %d failed after %d rows of finished tasks", batchId, _rows(messages))


def _write(options: WriteOptions, columns: list[str], batches: Iterator[pa.RecordBatch]) -> Written:
    rows = 0
    with clients.producer(options.config) as producer:
        for whole in batches:
            batch = whole.select(columns)
            if options.topic is None and batch.column("topic").null_count:
                raise ConfigError(
                    "[KAFKA_NULL_TOPIC_IN_DATA] null topic present in the data. Use the topic option for setting a topic."
                )
            rows += producer.send_arrow(options.topic, batch)
        producer.flush()
    return Written(rows)


def _rows(messages: list[WriterCommitMessage | None]) -> int:
    return sum(message.rows for message in messages if isinstance(message, Written))
