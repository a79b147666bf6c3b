"""Converts the Arrow batches of a klamm consumer into the source's columns, without touching rows.

Arrays of keys and values are passed on unchanged. Topic and partition are constant in a task, so their arrays are built once and
sliced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from klamm.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import StructType


class Columns:
    """The columns that a query reads. Spark pickles it for the executors."""

    def __init__(self, schema: StructType) -> None:
        self.schema = arrow_schema(schema)

    @property
    def wanted(self) -> list[str]:
        """Return the columns to request from the consumer. Offsets are always included: they show a task's progress."""
        known = ("topic", "partition", "offset")
        return ["offset", *(_KLAMM_NAMES.get(name, name) for name in self.schema.names if name not in known)]

    def converter(self, topic: str, partition: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Return a function that converts the batches of one partition."""
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
                        array = _empty_to_null(array)
                    arrays.append(array if array.type == field.type else array.cast(field.type))
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

        return convert


class _Constant:
    """A column that has the same value in all rows."""

    def __init__(self, value: pa.Scalar) -> None:
        self._value = value
        self._array = pa.repeat(value, 0)

    def rows(self, count: int) -> pa.Array:
        if len(self._array) < count:
            self._array = pa.repeat(self._value, count)
        return self._array.slice(0, count)


def _empty_to_null(headers: pa.ListArray) -> pa.ListArray:
    """Turn empty lists of headers into null, as Spark's connector does, without copying."""
    import pyarrow.compute as pc  # takes 0.1 s to import, and planning does not need it

    return pa.ListArray.from_arrays(headers.offsets, headers.values, mask=pc.equal(pc.list_value_length(headers), 0))


_KLAMM_NAMES = {"timestampType": "timestamp_type"}
