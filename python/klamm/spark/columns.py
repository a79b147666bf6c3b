"""From the Arrow batches of a klamm consumer to those of the source, without touching a row.

Keys and values go through as they are. Topic and partition are the same in a whole task: they are
built once and sliced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from klamm.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import StructType


class Columns:
    """The columns that a query reads. Plain data: it travels to the executors."""

    def __init__(self, schema: StructType) -> None:
        self.schema = arrow_schema(schema)

    @property
    def wanted(self) -> list[str]:
        """What to ask the consumer for: offsets always, as they tell how far a task is."""
        given = ("topic", "partition", "offset")
        return ["offset", *(_KLAMM_NAMES.get(name, name) for name in self.schema.names if name not in given)]

    def converter(self, topic: str, partition: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Make the function that converts the batches of one partition."""
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
                    array = batch.column(_KLAMM_NAMES.get(field.name, field.name))
                    if field.name == "headers":
                        array = _none_is_null(array)
                    arrays.append(array if array.type == field.type else array.cast(field.type))
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

        return convert


class _Constant:
    """A column with the same value in all rows."""

    def __init__(self, value: pa.Scalar) -> None:
        self._value = value
        self._array = pa.repeat(value, 0)

    def rows(self, count: int) -> pa.Array:
        if len(self._array) < count:
            self._array = pa.repeat(self._value, count)
        return self._array.slice(0, count)


def _none_is_null(headers: pa.ListArray) -> pa.ListArray:
    """Make no headers null, as Spark's connector has it; klamm has an empty list. Nothing is copied."""
    import pyarrow.compute as pc  # a tenth of a second, which those who plan and never read are spared

    return pa.ListArray.from_arrays(headers.offsets, headers.values, mask=pc.equal(pc.list_value_length(headers), 0))


_KLAMM_NAMES = {"timestampType": "timestamp_type"}
