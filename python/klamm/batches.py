"""Converts a consumer's records to Arrow record batches.

Without a format, keys and values stay bytes. With a format, `klamm.registry.columns` decodes keys and values. This
module imports pyarrow and the registry only when a program asks for batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

from klamm._klamm import ArrowColumns
from klamm.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    import pyarrow as pa
    from typing_extensions import Self

    from klamm._klamm import ArrowBatch, Records
    from klamm.registry import AsyncSchemaRegistry, SchemaRegistry, SubjectNameStrategy


class ValueFormat(TypedDict, total=False):
    """Options that say how `arrow` and `read_table` decode keys and values, and how `send_arrow` encodes them.

    Attributes:
        value_format: Format of the values: "avro", "json" or "protobuf". Without a format, the values stay bytes.
        key_format: Format of the keys. `key_format` accepts the same values as `value_format`.
        registry: Schema registry, as a client, an address or a dict with the client's configuration. JSON needs no
            registry if you pass `value_schema`.
        value_schema: Schema of the value column: "latest" (the default), a version number of the topic's subject, a
            `Schema`, or the text of a schema. For JSON, `value_schema` can also be a `pyarrow.Schema`, "infer", or columns
            such as "id BIGINT, at TIMESTAMP". For Protobuf, `value_schema` can also be a generated class. By default,
            `send_arrow` derives the schema from the column.
        key_schema: Schema of the key column. `key_schema` accepts the same values as `value_schema`.
        value_message: Name of the Protobuf message type, such as "shop.Order", if the schema has several. By default,
            `send_arrow` writes the first message type of the schema, and a column that is read has the message type of
            the first record.
        key_message: Name of the Protobuf message type of the keys.
        value_fields: For reading, the fields of the value to decode, in the order of the schema. The default is all.
        recursion_depth: How often an Avro record or Protobuf message type that contains itself becomes columns inside
            itself. Records inside these become JSON text, and messages stay bytes. Default 1, maximum 10.
        flatten: Whether each field of a struct becomes a column of its own.
        on_error: What to do if klamm cannot decode a key or value. "raise" raises a `DeserializationError`, and "null"
            makes the field null. "column" makes the field null, and adds columns such as `value_error` and `value_raw`.
        on_new_fields: What to do if the writer's schema is newer and has fields that the column does not have. "drop"
            ignores the new fields. "raise" treats the record as undecodable, so `on_error` decides what happens.
        timestamp_unit: Unit of JSON numbers for columns of times: "s", "ms", "us" or "ns". Without it, such a number is an
            error, because its unit is not known. By default, a time in JSON is text.
        subject_name_strategy: Strategy for the name of the schema's subject, as for the registry's deserializers.
        id_bytes: Length of a schema ID in bytes. The default is 4. Pass 8 if Apicurio Registry uses IDs of 8 bytes.
        record_columns: For `send_arrow`, the columns that are parts of a record and not fields of the value: "key",
            "value", "headers", "partition", "timestamp", "topic" and "value_is_null". By default, the columns of a
            table with a column `value` are the parts of a record, and the columns of any other table are fields.
        auto_register_schemas: For `send_arrow`, whether to register the schemas. If False, only look up their IDs.
    """

    value_format: Literal["avro", "json", "protobuf"] | None
    key_format: Literal["avro", "json", "protobuf"] | None
    registry: SchemaRegistry | AsyncSchemaRegistry | str | Mapping[str, Any] | None
    value_schema: Any
    key_schema: Any
    value_message: str | None
    key_message: str | None
    value_fields: Sequence[str] | None
    recursion_depth: int
    flatten: bool
    on_error: Literal["raise", "null", "column"]
    on_new_fields: Literal["drop", "raise"]
    timestamp_unit: Literal["s", "ms", "us", "ns"] | None
    subject_name_strategy: SubjectNameStrategy
    id_bytes: int
    record_columns: Sequence[str] | None
    auto_register_schemas: bool


class Batches(Protocol):
    """Builds Arrow record batches from records."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def schema(self, topics: Sequence[str]) -> pa.Schema: ...  # noqa: D102
    def read(self, consumer: Any, records: Records[Any, Any]) -> Iterator[pa.RecordBatch]: ...  # noqa: D102
    def read_async(self, consumer: Any, records: Records[Any, Any]) -> AsyncIterator[pa.RecordBatch]: ...  # noqa: D102


def check_options(method: str, typed: ValueFormat) -> None:
    """Check the names of keyword arguments.

    Raises:
        ArgumentError: One of the names is not an argument of the method.
    """
    for name in typed:
        if name not in ValueFormat.__annotations__:
            known = ", ".join(ValueFormat.__annotations__)
            raise ArgumentError(f"{method} has no argument {name!r}", hint=f"arguments for typed columns are {known}")


def batches_of(columns: Sequence[str] | None, typed: ValueFormat, layout: str = "klamm") -> Batches:
    """Return an object that builds record batches. If `typed` has no arguments, keys and values are bytes."""
    check_options("arrow", typed)
    if not typed:
        return _Plain(ArrowColumns(columns, layout))
    _pyarrow()
    from klamm.registry.columns import TypedColumns

    return TypedColumns(columns, typed, layout)


class _Plain:
    """Builds Arrow record batches whose keys and values are bytes."""

    def __init__(self, columns: ArrowColumns) -> None:
        self._columns = columns

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def schema(self, topics: Sequence[str]) -> pa.Schema:  # noqa: ARG002
        return _pyarrow().schema(self._columns)

    def read(self, consumer: Any, records: Records[Any, Any]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        yield _record_batch(records._columns(self._columns))  # noqa: SLF001

    async def read_async(self, consumer: Any, records: Records[Any, Any]) -> AsyncIterator[pa.RecordBatch]:  # noqa: ARG002
        yield _record_batch(records._columns(self._columns))  # noqa: SLF001


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError("Arrow record batches need pyarrow; install it with: pip install 'klamm[arrow]'") from None
    return pa


def _record_batch(batch: ArrowBatch) -> pa.RecordBatch:
    return _pyarrow().record_batch(batch)
