"""Converts the Arrow batches of a klamm consumer into the columns of the data source, without a loop over rows.

The module passes arrays of keys and values on unchanged. Topic and partition are the same for all rows of a task, so
the module builds one array for each of these columns and returns slices of the arrays.

A record's timestamp is a 64-bit number of milliseconds. Spark counts microseconds in 64 bits, so Spark cannot store
every timestamp.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from klamm.batches import batches_of
from klamm.errors import KafkaError
from klamm.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import StructType

    from klamm.batches import Batches

log = logging.getLogger("klamm.spark")


class TimestampRangeError(KafkaError):
    """The timestamp of a record is too large or too small for Spark.

    Option `failOnTimestampRange` controls whether this error is raised.

    Attributes:
        topic: Topic of the record.
        partition: Partition of the record.
        offset: Offset of the record.
        timestamp_ms: Timestamp of the record, in milliseconds since 1970.
    """

    def __init__(self, topic: str, partition: int, offset: int, timestamp_ms: int) -> None:
        super().__init__(
            f"cannot read the record of partition {topic}-{partition} at offset {offset}: its timestamp, {timestamp_ms} ms "
            "since 1970, is out of Spark's range",
            hint="set option 'failOnTimestampRange' to false to read null for such timestamps, or leave column 'timestamp' "
            "out with option 'columns'",
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms


class Columns:
    """Converts record batches to the columns that a query reads. Spark pickles the object for the executors.

    Args:
        schema: Schema of the read.
        fail_on_timestamp_range: Whether a timestamp out of Spark's range raises an error. If False, the timestamp
            becomes null.
    """

    def __init__(self, schema: StructType, *, fail_on_timestamp_range: bool = True) -> None:
        self.schema = arrow_schema(schema)
        self._fail_on_timestamp_range = fail_on_timestamp_range

    @property
    def wanted(self) -> list[str]:
        """Return the columns to request from the consumer. `offset` is always included, to show progress."""
        position_columns = ("topic", "partition", "offset")
        return ["offset", *(KLAMM_NAMES.get(name, name) for name in self.schema.names if name not in position_columns)]

    def batches(self) -> Batches:
        """Return the object that turns the records of a task into Arrow batches with these columns."""
        return batches_of(self.wanted, {})

    def offsets(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the offsets of the records of a batch."""
        return batch.column("offset")

    def converter(self, topic: str, partition: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Return a function that converts the consumer's batches of one partition to batches for Spark."""
        constants = {
            "topic": _Constant(pa.scalar(topic, pa.utf8())),
            "partition": _Constant(pa.scalar(partition, pa.int32())),
        }

        def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
            arrays = []
            for field in self.schema:
                if field.name in constants:
                    arrays.append(constants[field.name].rows(batch.num_rows))
                else:
                    array = batch.column(KLAMM_NAMES.get(field.name, field.name))
                    if field.name == "headers":
                        array = self.without_empty(array)
                    elif field.name == "timestamp":
                        array = self._in_range(array, batch.column("offset"), topic, partition)
                    arrays.append(array if array.type == field.type else array.cast(field.type))
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

        return convert

    def _in_range(self, timestamps: pa.Array, offsets: pa.Array, topic: str, partition: int) -> pa.Array:
        """Return timestamps that Spark can store. For a timestamp out of range, raise an error or return null."""
        import pyarrow.compute as pc  # takes 0.1 s to import, and planning does not need it

        ms = timestamps.cast(pa.int64())
        bounds = pc.min_max(ms).as_py()
        if bounds["min"] is None or (bounds["min"] >= -MAX_MS and bounds["max"] <= MAX_MS):
            return timestamps
        fits = pc.and_(pc.greater_equal(ms, -MAX_MS), pc.less_equal(ms, MAX_MS))
        row = pc.index(fits, False).as_py()
        offset, at = offsets[row].as_py(), ms[row].as_py()
        if self._fail_on_timestamp_range:
            raise TimestampRangeError(topic, partition, offset, at)
        log.warning(
            "timestamps out of Spark's range are null in partition %s-%d: the first one is %d ms at offset %d",
            topic,
            partition,
            at,
            offset,
        )
        return pc.if_else(fits, timestamps, pa.scalar(None, timestamps.type))

    @staticmethod
    def without_empty(headers: pa.ListArray) -> pa.ListArray:
        """Turn empty lists of headers into null, as Spark's connector does, without copying the headers."""
        import pyarrow.compute as pc  # takes 0.1 s to import, and planning does not need it

        return pa.ListArray.from_arrays(
            headers.offsets, headers.values, mask=pc.equal(pc.list_value_length(headers), 0)
        )


class _Constant:
    """A column with the same value in all rows."""

    def __init__(self, value: pa.Scalar) -> None:
        self._value = value
        self._array = pa.repeat(value, 0)

    def rows(self, count: int) -> pa.Array:
        if len(self._array) < count:
            self._array = pa.repeat(self._value, count)
        return self._array.slice(0, count)


# The largest timestamp in milliseconds whose value in microseconds fits into 64 bits.
MAX_MS = (2**63 - 1) // 1000

KLAMM_NAMES = {"timestampType": "timestamp_type"}
