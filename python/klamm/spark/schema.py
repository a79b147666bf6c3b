"""Defines the columns of reads and writes, with Spark types and Arrow types.

A read has exactly the columns of Spark's own Kafka connector, and all columns are nullable. Spark requires the first
Arrow batch of a task to match the schema exactly. This module therefore lists the exact Arrow types: `binary` and
`utf8` with 32-bit offsets, and timestamps in microseconds in UTC. If the user passes a schema, klamm only builds the
columns of that schema.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from klamm.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

_SOURCE: dict[str, tuple[DataType, pa.DataType]] = {
    "key": (BinaryType(), pa.binary()),
    "value": (BinaryType(), pa.binary()),
    "topic": (StringType(), pa.utf8()),
    "partition": (IntegerType(), pa.int32()),
    "offset": (LongType(), pa.int64()),
    "timestamp": (TimestampType(), pa.timestamp("us", tz="UTC")),
    "timestampType": (IntegerType(), pa.int32()),
    "headers": (
        HEADERS,
        pa.list_(pa.field("element", pa.struct([pa.field("key", pa.utf8()), pa.field("value", pa.binary())]))),
    ),
}

_TEXT = (StringType(), BinaryType())
SINK: dict[str, tuple[DataType, ...]] = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "headers": (HEADERS,),
    "timestamp": (TimestampType(),),
}


def source_schema(include_headers: bool, columns: tuple[str, ...] | None = None) -> StructType:
    """Return the schema of a read: its columns and their Spark types.

    Args:
        include_headers: Add the column `headers` to the default columns.
        columns: Names of the columns to read, in any case. Default: all columns except `headers`.

    Raises:
        ConfigError: A column does not exist.
    """
    if columns is None:
        columns = tuple(name for name in _SOURCE if include_headers or name != "headers")
    by_lower = {name.lower(): name for name in _SOURCE}
    names = [by_lower.get(name.lower(), name) for name in columns]  # Spark compares names without case
    return StructType([StructField(name, _source_column(name)[0]) for name in names])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Check the schema of a read, and return the same schema with Arrow types.

    Raises:
        ConfigError: A column does not exist, or has the wrong type.
    """
    fields = []
    for field in schema.fields:
        spark_type, arrow_type = _source_column(field.name)
        if not _same(field.dataType, spark_type):
            raise ConfigError(
                f"column '{field.name}' of a Kafka topic has type {spark_type.simpleString()}, "
                f"but the schema asks for {field.dataType.simpleString()}",
                hint=f"use {spark_type.simpleString()} in the schema, and cast the column after reading",
            )
        fields.append(pa.field(field.name, arrow_type))
    return pa.schema(fields)


def _source_column(name: str) -> tuple[DataType, pa.DataType]:
    if name not in _SOURCE:
        near = difflib.get_close_matches(name, _SOURCE, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"valid columns are {', '.join(_SOURCE)}"
        raise ConfigError(f"a Kafka topic has no column '{name}'", hint=hint)
    return _SOURCE[name]


def sink_columns(schema: StructType, topic: str | None) -> list[str]:
    """Check the columns of a write, and return the names of the columns to write.

    The checks and error messages are the same as in Spark's own Kafka connector. Like this connector, klamm ignores
    columns with unknown names.

    Args:
        schema: Schema of the rows.
        topic: Option `topic`, or None if the column `topic` names the topic of each row.

    Raises:
        ConfigError: A required column is missing or has the wrong type.
    """
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise ConfigError("Required attribute 'value' not found.")
    if topic is None and "topic" not in types:
        raise ConfigError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    check_types(types)
    return [name for name in SINK if name in types and (name != "topic" or topic is None)]


def check_types(types: Mapping[str, DataType]) -> None:
    """Check the types of columns that are parts of a record.

    Raises:
        ConfigError: A column has the wrong type.
    """
    for name, allowed in SINK.items():
        if name in types and not any(_same(types[name], one) for one in allowed):
            expected = " or ".join(one.simpleString().upper() for one in allowed)
            raise ConfigError(f"{name} attribute type must be a {expected}, got {types[name].simpleString().upper()}")


def selected(batch: pa.RecordBatch, columns: Mapping[str, str]) -> pa.RecordBatch:
    """Return the columns of a batch that klamm sends, under the names that `send_arrow` expects."""
    return batch.select(list(columns)).rename_columns(list(columns.values()))


def _same(one: DataType, other: DataType) -> bool:
    """Return whether two types are equal, without regard to nullability and collations."""
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return _same(one.elementType, other.elementType)
    if isinstance(one, StructType) and isinstance(other, StructType):
        return one.fieldNames() == other.fieldNames() and all(
            _same(a.dataType, b.dataType) for a, b in zip(one.fields, other.fields, strict=True)
        )
    if isinstance(one, StringType) and isinstance(other, StringType):
        return True  # a collation does not change the bytes
    return one == other
