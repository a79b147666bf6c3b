"""Encodes typed Arrow columns as the keys and values of records.

This module finds the schema, casts the columns, and creates a plan. The plan tells the Rust core how to encode the
columns. The application passes the schema, or klamm looks up the schema or derives it from the Arrow type (`derive`).
`src/registry/encode.rs` describes the form of a plan.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from klamm._klamm import encode_column
from klamm.arguments import list_of_str
from klamm.errors import ArgumentError, ConfigError
from klamm.registry.client import AsyncSchemaRegistry, SchemaRegistry
from klamm.registry.columns.avro import Avro, check_depth, kind_of, leaf_type, logical_of
from klamm.registry.columns.column import FORMATS, UNITS, checked_message, record_name
from klamm.registry.columns.derive import derived, is_text
from klamm.registry.columns.layout import IS_NULL, layout
from klamm.registry.errors import SchemaError
from klamm.registry.framing import HEADERS, indexes_of, written
from klamm.registry.rules import check_rules
from klamm.registry.schema import Schema
from klamm.registry.subjects import check_strategy, context_of, lookup_subject, subject_of
from klamm.waiting import run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from klamm.batches import ValueFormat
    from klamm.registry.subjects import Field

_MAX_DIGITS_128 = 38
_NANOSECONDS_PER_DAY = 86_400 * 10**9


class TypedRows:
    """Arrow data whose typed columns become keys and values.

    Args:
        topic: Topic of all records, or None if the data has a column `topic`.
        data: Arrow data. `layout` describes which columns become fields of the value.
        options: How keys and values are encoded.

    Raises:
        ConfigError: An option is invalid.
        ArgumentError: `data` is not Arrow data, or the values of a column would be lost.
    """

    def __init__(self, topic: str | None, data: Any, options: ValueFormat) -> None:
        registry = options.get("registry")
        self._owned = None
        if registry is not None and not isinstance(registry, (SchemaRegistry, AsyncSchemaRegistry)):
            registry = self._owned = SchemaRegistry(registry)
        self.registry = registry
        self._topic = topic
        self._data = _reader(data)
        self._options = options
        self._strategy = check_strategy(options.get("subject_name_strategy", "TOPIC"))
        self._formats: dict[Field, str] = {}
        for field in ("key", "value"):
            kind = options.get(f"{field}_format")
            if kind is None:
                continue
            if kind not in FORMATS:
                raise ConfigError(f"{field}_format cannot be {kind!r}", hint=f"allowed: {', '.join(FORMATS)}")
            if registry is None:
                raise ConfigError(f"{field}_format={kind!r} needs a registry", hint="pass registry=SchemaRegistry(...)")
            self._formats[field] = str(kind)
        schema, parts = self._data.schema, options.get("record_columns")
        value = dict(zip(schema.names, schema.types, strict=True)).get("value", pa.null())
        self._layout = layout(
            schema.names,
            None if parts is None else list_of_str("record_columns", parts),
            self._formats,
            topic,
            is_struct=pa.types.is_struct(value) or pa.types.is_null(value),
        )
        self._encoders: dict[str, list[_Encoder]] = {}

    async def batches(self, *, is_async: bool) -> AsyncGenerator[tuple[str, pa.RecordBatch], None]:
        """Yield topics and record batches with encoded keys and values.

        The method registers or looks up the schemas. With `is_async`, it does not block an event loop.

        Raises:
            SchemaError: A value does not fit the schema.
        """
        if isinstance(self.registry, AsyncSchemaRegistry) and not is_async:
            raise ConfigError("a Producer cannot wait for an AsyncSchemaRegistry", hint="pass a SchemaRegistry")
        try:
            if self._topic is not None:  # an empty table registers its schema too
                await self._prepare(self._topic, is_async)
            for batch in self._data:
                for topic, rows in self._by_topic(batch):
                    await self._prepare(topic, is_async)
                    columns = self._shaped(rows)
                    for encoder in self._encoders[topic]:
                        columns[encoder.name] = encoder.encode(columns[encoder.name])
                        if "headers" in columns:
                            columns["headers"] = _without_framing(columns["headers"], encoder.name)
                    yield topic, pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        finally:
            if self._owned is not None:
                self._owned.close()

    async def _prepare(self, topic: str, is_async: bool) -> None:
        if topic in self._encoders:
            return
        if isinstance(self.registry, SchemaRegistry) and is_async:
            import asyncio

            self._encoders[topic] = await asyncio.to_thread(lambda: run(self._prepared(topic)))
        else:
            self._encoders[topic] = await self._prepared(topic)

    async def _prepared(self, topic: str) -> list[_Encoder]:
        schema = self._data.schema
        empty = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
        encoders = []
        for name, column in self._shaped(empty).items():
            if name in self._formats:
                encoders.append(
                    _Encoder(name, self._formats[name], self._options, self.registry, self._strategy, topic)
                )
                await encoders[-1].prepare(column.type)
        return encoders

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows of each topic, in order."""
        if self._topic is not None:
            yield self._topic, batch
            return
        import pyarrow.compute as pc  # takes 0.1 s to import

        column = batch.column(self._layout.parts["topic"])
        if not is_text(column.type):
            raise ArgumentError("column `topic` has to be utf8", hint="cast the column")
        topics = column.cast(pa.string())
        if topics.null_count:
            raise ArgumentError(f"row {pc.index_in(pa.scalar(None, pa.string()), topics)}: there is no topic")
        for topic in pc.unique(topics).to_pylist():
            yield topic, batch.filter(pc.equal(topics, topic))

    def _shaped(self, batch: pa.RecordBatch) -> dict[str, Any]:
        """Return the parts of the records, by name. Combine the fields of the value into one column `value`."""
        parts = {part: batch.column(name) for part, name in self._layout.parts.items() if part != "topic"}
        is_null = parts.pop(IS_NULL, None)
        if is_null is not None:
            is_null = _checked_marks(is_null)
        if self._layout.fields:
            columns = batch.select(self._layout.fields)
            parts["value"] = pa.StructArray.from_arrays(columns.columns, fields=list(columns.schema), mask=is_null)
        return parts


def _checked_marks(column: pa.Array) -> pa.Array:
    if not pa.types.is_boolean(column.type):
        raise ArgumentError(f"column `{IS_NULL}` is {column.type}, but has to be bool", hint="cast the column")
    if column.null_count:
        row = next(row for row, value in enumerate(column) if not value.is_valid)
        raise ArgumentError(
            f"row {row}: `{IS_NULL}` is null, as for a record that klamm could not decode", hint="drop these rows"
        )
    return column


def _without_framing(headers: pa.Array, field: Field) -> pa.Array:
    """Return the column `headers` without the headers that contain the schema ID of an earlier key or value."""
    import pyarrow.compute as pc  # takes 0.1 s to import

    if pa.types.is_map(headers.type):
        keys = headers.keys
    elif _is_list(headers.type) and pa.types.is_struct(headers.type.value_type):
        keys = pc.struct_field(headers.flatten(), [0])
    else:
        return headers  # `send_arrow` raises the error
    name = HEADERS[field].encode()
    if not pc.any(pc.equal(keys.cast(pa.binary()), name)).as_py():
        return headers
    kept = [row and [each for each in row if _key(each) != name] for row in headers.to_pylist()]
    return pa.array(kept, headers.type)


def _key(header: Any) -> bytes:
    key = next(iter(header.values())) if isinstance(header, dict) else header[0]
    return key if isinstance(key, bytes) else key.encode()


def _reader(data: Any) -> Any:
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    raise ArgumentError(
        f"data has to be Arrow data, not {type(data).__name__}",
        hint="pass a table or record batch of pyarrow or polars, or another object with __arrow_c_stream__",
    )


class _Encoder:
    """Encodes one column, which contains the keys or the values."""

    def __init__(self, name: Field, kind: str, options: ValueFormat, registry: Any, strategy: Any, topic: str) -> None:  # noqa: PLR0917
        self.name: Field = name
        self._kind, self._registry, self._strategy, self._topic = kind, registry, strategy, topic
        self._given: Any = options.get(f"{name}_schema")
        self._registers = options.get("auto_register_schemas", True)
        self._schema_id: int | None = None
        self._prefix, self._plan = b"", ""
        self._steps: list[pa.DataType] = []
        # By default, the first message type of a Protobuf schema is used.
        self._message = checked_message(options.get(f"{name}_message"), name, kind)
        self._class_name: str | None = None

    async def prepare(self, kind: pa.DataType) -> None:
        given = await self._own_schema(kind)
        is_registered = not isinstance(given, Schema)
        name = None
        if self._strategy != "TOPIC":
            if is_registered:
                raise ConfigError(f"the subject of {given!r} is not known with this strategy", hint="pass the schema")
            name = self._class_name or await self._record_name(given)
        subject = subject_of(self._strategy, self._topic, self.name, name)
        if is_registered:
            registered = await self._registry._get_version(subject, given)  # noqa: SLF001
        else:
            check_rules(self._registry, given, "write")
            registered = await (
                self._registry._register(subject, given, False)  # noqa: SLF001
                if self._registers
                else self._registry._lookup(subject, given, False, False)  # noqa: SLF001
            )
        check_rules(self._registry, registered.schema, "write", registered.id)
        schema = registered.schema if is_registered else given
        if schema.type != FORMATS[self._kind]:
            raise SchemaError(
                f"the schema is of type {schema.type}, not {FORMATS[self._kind]}", schema_id=registered.id
            )
        references = await self._registry._resolve(schema, context_of(subject))  # noqa: SLF001
        self._schema_id = registered.id
        message = self._message_of(schema, references) if self._kind == "protobuf" else None
        self._prefix = written("id", registered.id, None, message and indexes_of(message))
        self._steps, plan = _planned(self._kind, schema, references, kind, message)
        self._plan = json.dumps([self._kind, plan])

    async def _own_schema(self, kind: pa.DataType) -> Any:
        """Return the schema to register for a column of this type, or a version of the subject."""
        given = self._given
        if given == "latest" or isinstance(given, int):
            return given
        if isinstance(given, type):
            given = await self._schema_of(given)
        elif given is None:
            given = derived(self._kind, kind, f"{self._topic}_{self.name}")
        elif isinstance(given, str):
            given = Schema(given, FORMATS[self._kind])  # type: ignore[arg-type]
        if given.type != FORMATS[self._kind]:
            raise ConfigError(f"{self.name}_schema is of type {given.type}, not {FORMATS[self._kind]}")
        return given

    async def _record_name(self, schema: Schema) -> str | None:
        subject = lookup_subject(self._strategy, self._topic, self.name)
        references = await self._registry._resolve(schema, context_of(subject))  # noqa: SLF001
        if self._kind == "protobuf":
            return str(self._message_of(schema, references).full_name)
        return record_name(schema, references)

    async def _schema_of(self, message: Any) -> Schema:
        """Register the files that the file of a message class imports. Return the schema of its own file."""
        from klamm.registry.protobuf import ProtobufSerializer

        if self._kind != "protobuf":
            raise ConfigError(f"{self.name}_schema can be a message class only for Protobuf", hint="pass a Schema")
        serializer = ProtobufSerializer(
            self._registry,
            message,
            auto_register_schemas=self._registers,
            subject_name_strategy=self._strategy,
        )
        schema, name = await serializer._own_schema((self._topic, self.name, message.DESCRIPTOR))  # noqa: SLF001
        assert schema is not None  # noqa: S101 - the serializer does not use the latest version
        self._message = self._message or name
        self._class_name = name if self._message == name else None
        return schema

    def _message_of(self, schema: Schema, references: Any) -> Any:
        from klamm.registry.protobuf import parse_schema

        return parse_schema(schema, references).chosen(self._message)

    def encode(self, column: Any) -> pa.Array:
        try:
            for step in self._steps:
                if column.type != step:
                    column = column.cast(step)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"the column {self.name} does not fit the schema: {error}", schema_id=self._schema_id
            ) from None
        done = encode_column(column, self._plan, self._prefix)
        for row, _, path, why in done.failures:
            raise SchemaError(
                f"row {row} of the column {self.name} does not fit the schema: {why}",
                schema_id=self._schema_id,
                path=path,
            )
        return pa.array(done)


def _planned(
    kind: str, schema: Schema, references: Any, column: pa.DataType, message: Any
) -> tuple[list[pa.DataType], list[Any]]:
    """Return the types for the first and the second cast of a column, and the plan for encoding the column."""
    if kind == "avro":
        from klamm.registry.avro import parse

        parsed = parse(schema, references)
        typed, plain, plan = _Avro(Avro(parsed)).node(parsed.root, column, "", ())
        if parsed.is_bytes:
            plan[0] = ["rest"]
    elif kind == "json":
        typed, plain, plan = _json(column, "")
    else:
        typed, plain, plan = _message(message, column, "")
    return [typed, plain], plan


_Node = tuple[pa.DataType, pa.DataType, list[Any]]


class _Avro:
    """Creates the plan for an Avro schema.

    The method `node` returns the type for the first cast, the type for the second cast, and the plan.
    """

    def __init__(self, avro: Avro) -> None:
        self._avro = avro

    def node(self, index: int, column: pa.DataType, path: str, outer: tuple[str, ...]) -> _Node:  # noqa: C901
        schema = self._avro.node(index)
        check_depth(path, outer)
        kind, inner = kind_of(schema), (*outer, "")
        if kind == "union":
            return self._union(schema, column, path, outer)
        if kind == "record":
            return self._record(schema, column, path, inner)
        if kind == "array":
            if not _is_list(column):
                raise unfit(column, "array", path)
            typed, plain, plan = self.node(schema["items"], column.value_type, f"{path}[]", inner)
            return pa.list_(typed), pa.list_(plain), [["plain"], [plan]]
        if kind == "map":
            if not pa.types.is_map(column) or not is_text(column.key_type):
                raise unfit(column, "map, which has strings as keys", path)
            typed, plain, plan = self.node(schema["values"], column.item_type, f"{path}[]", inner)
            return pa.map_(pa.string(), typed), pa.map_(pa.string(), plain), [["plain"], [[["plain"]], plan]]
        target, logical = leaf_type(schema), logical_of(schema)
        if not _fits(column, target):
            raise unfit(column, logical or kind, path)
        op: list[Any] = ["plain"]
        if kind == "enum":
            op = ["enum", schema["symbols"]]
        elif logical == "uuid":
            op = ["uuid", kind == "fixed"]
        elif logical == "decimal" and kind == "fixed":
            op = ["fixed_decimal", schema["size"]]
        elif schema.get("logicalType") == "big-decimal":
            op = ["big_decimal"]
        elif pa.types.is_time(target):
            op = ["time_of_day", _NANOSECONDS_PER_DAY // UNITS[target.unit]]
        return target, _integer(target), [op]

    def _union(self, branches: list[int], column: pa.DataType, path: str, outer: tuple[str, ...]) -> _Node:
        members = self._avro.members(branches)
        null = next((at for at, branch in enumerate(branches) if branch not in members), None)
        if pa.types.is_null(column) and null is not None:
            return pa.null(), pa.null(), [["plain"], [], [null, None]]
        names = self._avro.member_names(members)
        if len(members) > 1 and pa.types.is_struct(column) and {f.name for f in column} <= set(names):
            typed, plain, parts = [], [], []
            for index, field in enumerate(column):
                branch = members[names.index(field.name)]
                one, two, plan = self.node(branch, field.type, f"{path}.{field.name}", (*outer, ""))
                typed.append(pa.field(field.name, one))
                plain.append(pa.field(field.name, two))
                parts.append([field.name, branches.index(branch), index, [], plan])
            pair = None if null is None else [null, None]
            return pa.struct(typed), pa.struct(plain), [["members"], parts, pair]
        error: SchemaError | None = None
        for branch in members:
            try:
                one, two, plan = self.node(branch, column, path, outer)
            except SchemaError as failed:
                error = failed if error is None else error
                continue
            return one, two, [*plan, *([[]] if len(plan) == 1 else []), [null, branches.index(branch)]]
        raise error or unfit(column, "union", path)

    def _record(self, schema: Any, column: pa.DataType, path: str, outer: tuple[str, ...]) -> _Node:
        if not pa.types.is_struct(column):
            raise unfit(column, schema["name"], path)
        columns = {field.name: at for at, field in enumerate(column)}
        typed, plain = list(column), list(column)
        parts = []
        for field in schema["fields"]:
            inside = f"{path}.{field['name']}"
            at = columns.pop(field["name"], None)
            if at is None:
                if field["default"] is None:
                    raise SchemaError(
                        "the schema has a field without a default, and the column does not have this field",
                        path=inside.removeprefix("."),
                    )
                parts.append([field["name"], 0, None, list(field["default"])])
                continue
            one, two, plan = self.node(field["type"], column[at].type, inside, outer)
            typed[at], plain[at] = pa.field(field["name"], one), pa.field(field["name"], two)
            parts.append([field["name"], 0, at, [], plan])
        if columns:
            name = next(iter(columns))
            raise SchemaError(
                "the column has a field that is not in the schema",
                path=f"{path}.{name}".removeprefix("."),
                hint="drop the field",
            )
        return pa.struct(typed), pa.struct(plain), [["plain"], parts]


def unfit(column: pa.DataType, expected: str, path: str) -> SchemaError:
    """Return the error for a column that cannot be written as the type of the schema."""
    return SchemaError(f"a column of type {column} cannot be written as {expected}", path=path.removeprefix("."))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _fits(column: pa.DataType, target: pa.DataType) -> bool:  # noqa: PLR0911
    """Return whether the type of a column can be cast to the target type. The cast still checks each value."""
    types = pa.types
    if types.is_dictionary(column):
        return _fits(column.value_type, target)
    if types.is_null(column):
        return True
    if types.is_decimal(target):
        return bool(types.is_decimal(column) or types.is_integer(column))
    if types.is_integer(target):
        return bool(types.is_integer(column) or types.is_duration(column))
    if types.is_floating(target):
        return bool(types.is_floating(column) or types.is_integer(column))
    if types.is_string(target):
        return is_text(column)
    if types.is_binary(target) or types.is_fixed_size_binary(target):
        return _is_binary(column) or (types.is_binary(target) and is_text(column))
    for check in (types.is_boolean, types.is_date, types.is_time, types.is_timestamp, types.is_duration):
        if check(target):
            return bool(check(column))
    return bool(types.is_null(target))


def _integer(kind: pa.DataType) -> pa.DataType:
    """Return the integer type that represents a date, time or duration type. Return other types unchanged."""
    types = pa.types
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.int32()
    if types.is_time64(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        return pa.int64()
    return kind


def _json(column: pa.DataType, path: str) -> _Node:  # noqa: C901, PLR0912
    """Create the casts and the plan for JSON. The plan depends only on the type of the column, not on the schema."""
    types = pa.types
    if types.is_dictionary(column):
        return _json(column.value_type, path)
    if types.is_struct(column):
        nodes = [(field.name, *_json(field.type, f"{path}.{field.name}")) for field in column]
        parts = [[name, 0, at, [], plan] for at, (name, _, _, plan) in enumerate(nodes)]
        return (
            pa.struct([pa.field(name, one) for name, one, _, _ in nodes]),
            pa.struct([pa.field(name, two) for name, _, two, _ in nodes]),
            [["plain"], parts],
        )
    if _is_list(column):
        one, two, plan = _json(column.value_type, f"{path}[]")
        return pa.list_(one), pa.list_(two), [["plain"], [plan]]
    if types.is_map(column):
        if not is_text(column.key_type):
            raise unfit(column, "a JSON object, which has strings as keys", path)
        one, two, plan = _json(column.item_type, f"{path}[]")
        return pa.map_(pa.string(), one), pa.map_(pa.string(), two), [["plain"], [[["plain"]], plan]]
    op: list[Any] = ["plain"]
    target = column
    if types.is_decimal(column):
        op = ["scale", column.scale]
        target = (
            pa.decimal256(column.precision, column.scale)
            if column.precision > _MAX_DIGITS_128
            else pa.decimal128(column.precision, column.scale)
        )
    elif types.is_date(column):
        op, target = ["date"], pa.date32()
    elif types.is_timestamp(column):
        op = ["time", UNITS[column.unit], column.tz is not None]
    elif types.is_integer(column):
        target = pa.uint64() if types.is_uint64(column) else pa.int64()
    elif types.is_float16(column):
        target = pa.float32()
    elif is_text(column):
        target = pa.string()
    elif _is_binary(column):
        target = pa.binary()
    elif not (types.is_boolean(column) or types.is_floating(column) or types.is_null(column)):
        raise unfit(column, "JSON", path)
    return target, _integer(target), [op]


def _message(message: Any, column: pa.DataType, path: str) -> _Node:
    from klamm.registry.messages import is_repeated

    if not pa.types.is_struct(column):
        raise unfit(column, message.full_name, path)
    fields = {field.name: field for field in message.fields}
    typed, plain, parts = [], [], []
    for at, of in enumerate(column):
        inside = f"{path}.{of.name}"
        if of.name not in fields:
            raise SchemaError(
                "the column has a field that is not in the message",
                path=inside.removeprefix("."),
                hint="drop the field",
            )
        field = fields[of.name]
        always = is_repeated(field) or field.has_presence or message.GetOptions().map_entry
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            if not pa.types.is_map(of.type):
                raise unfit(of.type, "map", inside)
            entry = field.message_type.fields_by_name
            key = _field(entry["key"], of.type.key_type, inside, always=True)
            item = _field(entry["value"], of.type.item_type, inside, always=True)
            one, two = (pa.map_(key[i], item[i]) for i in (0, 1))
            plan: list[Any] = [["plain"], [key[2], item[2]]]
        elif is_repeated(field):
            if not _is_list(of.type):
                raise unfit(of.type, "a repeated field", inside)
            one, two, plan = _field(field, of.type.value_type, inside, always=True)
            one, two, plan = pa.list_(one), pa.list_(two), [["plain"], [plan]]
        else:
            one, two, plan = _field(field, of.type, inside, always=bool(always))
        typed.append(pa.field(of.name, one))
        plain.append(pa.field(of.name, two))
        parts.append([of.name, field.number, at, [], plan])
    return pa.struct(typed), pa.struct(plain), [["plain"], parts]


def _field(field: Any, column: pa.DataType, path: str, *, always: bool) -> _Node:
    from klamm.registry.columns.protobuf import KINDS, TIMES, WRAPPERS

    if field.message_type is not None:
        name = field.message_type.full_name
        if name in TIMES:
            target = TIMES[name]
            if not _fits(column, target):
                raise unfit(column, name, path)
            return target, pa.int64(), [["field", "duration" if pa.types.is_duration(target) else "timestamp", True]]
        if name in WRAPPERS:
            raise SchemaError(
                f"a column cannot be written as {name}", path=path.removeprefix("."), hint="use a scalar field"
            )
        if _is_binary(column):  # a message that stayed encoded when the column was read
            return pa.binary(), pa.binary(), [["field", "bytes", True]]
        return _message(field.message_type, column, path)
    if field.enum_type is not None:
        if not is_text(column):
            raise unfit(column, "an enum", path)
        values = [[value.name, value.number] for value in field.enum_type.values]
        return pa.string(), pa.string(), [["numbers", values, always]]
    kind, target = KINDS[field.type]
    if not _fits(column, target):
        raise unfit(column, kind, path)
    return target, target, [["field", kind, always]]
