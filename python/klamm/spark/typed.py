"""Handles columns whose types come from a schema registry: their options, their schema and their conversion for Spark.

The driver requests the schema of a column from the registry, and sends the text of the schema with the tasks. All tasks
of a query therefore use the same schema. `klamm.registry.columns` decodes records. This module converts types that
Spark does not support.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from klamm.errors import ConfigError
from klamm.registry.columns.layout import layout
from klamm.spark.columns import KLAMM_NAMES, Columns
from klamm.spark.option_names import OPTIONS, REGISTRY, TYPED
from klamm.spark.schema import SINK, arrow_schema, check_types, source_schema
from klamm.spark.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from klamm.batches import ValueFormat
    from klamm.registry import SchemaRegistry
    from klamm.registry.columns import ReaderSchema, TypedColumns
    from klamm.spark.options import ReadOptions, WriteOptions

_FORMATS = ("avro", "json", "protobuf")
_SPARK_DIGITS = 38


@dataclass(frozen=True)
class TypedOptions:
    """Options of typed columns. Spark pickles this object for the executors."""

    registry: Settings
    formats: Mapping[str, str]
    """Format by field. The fields are "key", "value" or both."""
    schemas: Mapping[str, str | int | ReaderSchema]
    messages: Mapping[str, str]
    """Names of Protobuf message types by field."""
    fields: tuple[str, ...] | None
    """The fields of the value to decode, or None for all."""
    recursion_depth: int
    flatten: bool
    on_error: str
    on_new_fields: str
    timestamp_unit: str | None
    strategy: str
    record: tuple[str, ...] | None
    """The columns of a write that are parts of a record, or None if their names decide."""
    auto_register: bool

    def arguments(self) -> ValueFormat:
        """Return the keyword arguments for `arrow` and `send_arrow`."""
        options: Any = {
            "registry": _registry(tuple(sorted(self.registry.items()))) if self.registry else None,
            "value_fields": self.fields,
            "flatten": self.flatten,
            "on_error": self.on_error,
            "on_new_fields": self.on_new_fields,
            "timestamp_unit": self.timestamp_unit,
            "subject_name_strategy": self.strategy,
            "record_columns": self.record,
            "auto_register_schemas": self.auto_register,
            "recursion_depth": self.recursion_depth,
        }
        for field, kind in self.formats.items():
            options[f"{field}_format"] = kind
            options[f"{field}_schema"] = self.schemas.get(field)
            options[f"{field}_message"] = self.messages.get(field)
        return options  # type: ignore[no-any-return]

    def columns(self, names: list[str] | None, *, appends_offset: bool = False) -> TypedColumns:
        """Return the object that decodes keys and values into Arrow columns."""
        from klamm.registry.columns import TypedColumns

        return TypedColumns(
            names, self.arguments(), appends_offset=appends_offset, folded=str.lower, in_microseconds=True
        )


def typed_options(  # noqa: C901
    given: Settings, boolean: Callable[[Settings, str, bool], bool], default: str | None
) -> TypedOptions | None:
    """Parse the options of typed columns. Return None if keys and values are bytes.

    Args:
        given: The options of the query.
        boolean: Function that parses an option whose value is true or false.
        default: Schema of a field for which no option sets a schema. With None, a write derives the schema from the
            types of its columns.

    Raises:
        ConfigError: An option is invalid, or contradicts another option.
    """
    formats = {}
    for field in ("key", "value"):
        kind = given.get(f"{field}.format", "").strip().lower()
        if kind and kind not in _FORMATS:
            raise ConfigError(f"option '{field}.format' must be one of {', '.join(_FORMATS)}, got '{kind}'")
        if kind:
            formats[field] = kind
    registry = Settings({key.removeprefix(REGISTRY): value for key, value in given.items() if key.startswith(REGISTRY)})
    if not formats:
        for name in given:
            if name in TYPED or name.startswith(REGISTRY):
                raise ConfigError(
                    f"option '{OPTIONS.get(name, name)}' needs option 'value.format' or 'key.format'",
                    hint="set .option('value.format', 'avro')",
                )
        return None
    if registry and not registry.get("url", "").strip():
        raise ConfigError(f"option '{REGISTRY}url' is missing", hint="set the address of the schema registry")
    _check_shown(registry)
    schemas: dict[str, str | int | ReaderSchema] = {}
    for field in formats:
        text = given.get(f"{field}.schema", default or "").strip()
        if not text:
            continue
        if text == "infer":
            raise ConfigError(
                f"option '{field}.schema' cannot be infer, because tasks could infer different schemas",
                hint="pass a JSON Schema, or columns such as 'id BIGINT, note STRING'",
            )
        schemas[field] = int(text) if text.isdecimal() else text
    return TypedOptions(
        registry=registry,
        formats=formats,
        schemas=schemas,
        messages=_messages(given, formats),
        fields=_names(given, "value.fields"),
        recursion_depth=_recursion_depth(given.get("recursiondepth", "1").strip()),
        flatten=boolean(given, "flatten", False),
        on_error=_chosen(given, "onError", "raise", ("raise", "null", "column")),
        on_new_fields=_chosen(given, "onNewFields", "drop", ("drop", "raise")),
        timestamp_unit=_chosen(given, "timestampUnit", "", ("s", "ms", "us", "ns")) or None,
        strategy=given.get("subject.name.strategy", "TOPIC").strip().upper(),
        record=_names(given, "record.columns"),
        auto_register=boolean(given, "auto.register.schemas", True),
    )


def _messages(given: Settings, formats: Mapping[str, str]) -> dict[str, str]:
    """Return the names of Protobuf message types by field."""
    found = {field: given[name].strip() for field in ("key", "value") if (name := f"{field}.message") in given}
    for field in found:
        if formats.get(field) != "protobuf":
            raise ConfigError(f"option '{field}.message' is only for the format protobuf", hint="leave it out")
    return found


def _names(given: Settings, option: str) -> tuple[str, ...] | None:
    if option not in given:
        return None
    return tuple(name for part in given[option].split(",") if (name := part.strip()))


def _recursion_depth(text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"option 'recursionDepth' must be a number, got '{text}'")
    return int(text)


def _chosen(given: Settings, name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = given.get(name.lower(), "").strip().lower() or default
    if value != default and value not in allowed:
        raise ConfigError(f"option '{name}' must be {', '.join(allowed[:-1])} or {allowed[-1]}, got '{value}'")
    return value


def _check_shown(registry: Settings) -> None:
    """Reject credentials in options whose values Spark shows.

    `explain()` of a stream shows these values, and before Spark 4.2, the log of a write does too. Spark hides the
    values of options whose names match `spark.redaction.regex` or `spark.sql.redaction.options.regex`. By default,
    these two expressions match names that contain secret, password, token, access key or url.
    """
    if "basic.auth.user.info" in registry:
        raise ConfigError(
            f"option '{REGISTRY}basic.auth.user.info' is not accepted, because Spark shows its value in plans",
            hint=f"put user and password into option '{REGISTRY}url', which Spark hides: https://user:password@registry:8081",
        )
    if "@" in registry.get("proxy", ""):
        raise ConfigError(
            f"option '{REGISTRY}proxy' has credentials, and Spark shows its value in plans",
            hint="set the environment variable HTTPS_PROXY for the driver and the executors",
        )


def planned(options: ReadOptions) -> ReadOptions:
    """Return the options with the registry's current schemas as text.

    Raises:
        ConfigError: The topics are not known at planning time, or have different schemas.
        SchemaRegistryError: The registry does not have a schema, or failed.
    """
    typed = options.typed
    if typed is None or all(not isinstance(s, int) and s != "latest" for s in typed.schemas.values()):
        return options
    topics = options.topics or tuple(dict.fromkeys(topic for topic, _ in options.assigned))
    if not topics:
        raise ConfigError(
            "option 'subscribePattern' does not name the topics, so klamm cannot find the schema of the columns",
            hint="set option 'value.schema' to the text of a schema, or name the topics with 'subscribe'",
        )
    return replace(options, typed=replace(typed, schemas=typed.columns(None).schemas_of(topics)))


def schema_of(options: ReadOptions) -> StructType:
    """Return the Spark schema of a read with typed columns."""
    return StructType([field for field, _, _ in _fields(options)])


def _fields(options: ReadOptions) -> list[tuple[StructField, pa.DataType, bool]]:
    """Return the columns of a read with typed columns, in the order of the columns of klamm's batches.

    Each column has a Spark field, an Arrow type, and whether it is a column of the record that is not decoded.
    """
    typed = options.typed
    assert typed is not None  # noqa: S101 - callers only pass options with typed columns
    plain = source_schema(options.include_headers, options.columns)
    arrow = dict(zip(plain.names, arrow_schema(plain), strict=True))
    found = []
    for field in typed.columns([KLAMM_NAMES.get(name, name) for name in plain.names]).schema(()):
        name = _SPARK_NAMES.get(field.name, field.name)
        if name in arrow and name not in typed.formats:
            found.append((plain[name], arrow[name].type, True))
        else:
            kind = for_spark(field.type, field.name)
            found.append((StructField(field.name, from_arrow_type(kind, prefer_timestamp_ntz=True)), kind, False))
    return found


def for_spark(kind: pa.DataType, path: str) -> pa.DataType:
    """Return an Arrow type that Spark supports and that can represent all values of the given type.

    Raises:
        ConfigError: Spark has no type for the values.
    """
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, for_spark(f.type, f"{path}.{f.name}")) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(for_spark(kind.value_type, f"{path}[]"))
    if pa.types.is_map(kind):
        return pa.map_(for_spark(kind.key_type, path), for_spark(kind.item_type, f"{path}[]"))
    if pa.types.is_decimal(kind) and kind.precision > _SPARK_DIGITS:
        raise ConfigError(
            f"field {path} has {kind.precision} digits, and Spark's decimal numbers have at most {_SPARK_DIGITS}",
            hint="read the topic as bytes, or leave the column out with option 'columns'",
        )
    if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind):
        return pa.binary()
    return _FOR_SPARK.get(kind, kind)


def sink(options: WriteOptions, schema: StructType) -> tuple[WriteOptions, dict[str, str]]:
    """Decide which columns of a write are parts of a record, and check the types of these columns.

    Returns:
        The options with the parts of a record, and the names under which klamm sends the columns, by column.

    Raises:
        ConfigError: A column has the wrong type, or the topic is unknown.
        ArgumentError: A column is missing, or the values of a column would be lost.
    """
    typed = options.typed
    assert typed is not None  # noqa: S101 - callers only pass options with typed columns
    names = schema.names
    if typed.record is None and "value" not in typed.formats:
        # The values are bytes, so the rules of Spark's own connector apply: it ignores columns with unknown names.
        names = [name for name in names if name in SINK]
        if "value" not in names:
            raise ConfigError("Required attribute 'value' not found.")
    found = layout(
        names,
        typed.record,
        typed.formats,
        options.topic,
        is_struct=any(_folded(field.name) == "value" and isinstance(field.dataType, StructType) for field in schema),
        folded=_folded,
    )
    check_types({part: schema[column].dataType for part, column in found.parts.items() if part not in typed.formats})
    columns = {column: part for part, column in found.parts.items()} | {name: name for name in found.fields}
    return replace(options, typed=replace(typed, record=tuple(found.parts))), columns


def _folded(name: str) -> str:
    """Return the name in lower case, because Spark compares names without case."""
    return "timestamp_type" if name.lower() == "timestamptype" else name.lower()


class TypedSparkColumns(Columns):
    """Converts record batches for a query with typed columns. Spark pickles the converter for the executors."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        fields = _fields(options)
        expected = {field.name: (field.dataType, kind) for field, kind, _ in fields}
        for field in schema.fields:
            now = expected[field.name][0] if field.name in expected else None
            if now != field.dataType:
                raise ConfigError(
                    f"column '{field.name}' has type {field.dataType.simpleString()}, and the schema of the registry "
                    + ("does not have it" if now is None else f"has {now.simpleString()}"),
                    hint="if the registry's schema changed after load(), call load() again; do not set the frame's schema",
                )
        self.schema = pa.schema([pa.field(field.name, expected[field.name][1]) for field in schema.fields])
        self._places = {field.name: place for place, (field, _, _) in enumerate(fields)}
        self._plain = {field.name for field, _, is_plain in fields if is_plain}
        self._fail_on_timestamp_range = options.fail_on_timestamp_range
        self._typed: TypedOptions = options.typed  # type: ignore[assignment]
        plain = source_schema(options.include_headers, options.columns).names
        self._names = [KLAMM_NAMES.get(name, name) for name in plain]

    def batches(self) -> TypedColumns:
        """Return the object that turns the records of a task into typed Arrow batches."""
        return self._typed.columns(self._names, appends_offset=True)

    def offsets(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the offsets of the records of a batch. A field of the value can have the name `offset` too."""
        return batch.column(batch.num_columns - 1)

    def converter(self, topic: str, partition: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Return a function that converts the consumer's batches of one partition to batches for Spark."""

        def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
            arrays = []
            for field in self.schema:
                array = batch.column(self._places[field.name])
                if field.name == "headers" and field.name in self._plain:
                    array = self.without_empty(array)
                elif field.name == "timestamp" and field.name in self._plain:
                    array = self._in_range(array, self.offsets(batch), topic, partition)
                arrays.append(array if array.type == field.type else array.cast(field.type))
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

        return convert


@functools.lru_cache(maxsize=8)
def _registry(config: tuple[tuple[str, str], ...]) -> SchemaRegistry:
    """Return a registry client with this configuration. All tasks of a worker share the client and its cache."""
    from klamm.registry import SchemaRegistry

    return SchemaRegistry(dict(config))


_FOR_SPARK = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.time32("s"): pa.int32(),
    pa.time32("ms"): pa.int32(),
    pa.time64("us"): pa.int64(),
    pa.time64("ns"): pa.int64(),
}
_SPARK_NAMES = {name: spark for spark, name in KLAMM_NAMES.items()}
