"""Decodes keys and values into typed Arrow columns, with schemas from a registry.

The Rust core decodes whole batches (`src/registry`). This package looks up the schemas that a batch needs, and compiles a plan for
each schema. A plan tells the core how to decode values. The package combines the decoded columns into a batch. The
modules `avro`, `protobuf` and `json_types` contain the code for each format.
"""

from __future__ import annotations

import json
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from klamm._klamm import ArrowColumns, ColumnDecoder, framings
from klamm.arguments import list_of_str
from klamm.errors import ConfigError, DeserializationError, KafkaError
from klamm.registry.client import AsyncSchemaRegistry, SchemaRegistry
from klamm.registry.columns import json_types, new_fields, projection
from klamm.registry.errors import SchemaError, SchemaNotFoundError
from klamm.registry.framing import HEADERS, frames, read
from klamm.registry.rules import check_rules
from klamm.registry.schema import Schema
from klamm.registry.subjects import check_strategy, context_of, lookup_subject, subject_of
from klamm.waiting import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Self

    from klamm._klamm import Records
    from klamm.batches import ValueFormat
    from klamm.registry.schema import RegisteredSchema
    from klamm.registry.subjects import Field, SubjectNameStrategy

FORMATS = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}
_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
"""Units of times in nanoseconds."""
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "on_error": ("raise", "null", "column"),
    "on_new_fields": ("drop", "raise"),
    "id_bytes": (4, 8),
    "timestamp_unit": (None, *_UNITS),
}
"""The values of options. The first one is the default."""
_DEEPEST_PLAN = 126
"""Maximum depth of the nested lists in a plan: one less than serde_json, which parses the plan, accepts."""
_INVERTED = bytes(byte ^ 0xFF for byte in range(256))
_MAX_RECURSION = 10
_SAMPLE = 1000
"""klamm infers a schema from at most this many records."""


@dataclass(frozen=True)
class ReaderSchema:
    """The schema of a column, which the reader looked up in the registry.

    Attributes:
        schema: The schema.
        versions: The version of the schema in each subject. Later versions belong to newer writers.
    """

    schema: Schema
    versions: Mapping[str, int]


class TypedColumns:
    """Turns records into Arrow batches with typed keys or values, for one iteration or table.

    Args:
        names: Names of the columns, or None for all columns.
        layout: Layout of the columns that are not typed, as for `ArrowColumns`.
        options: How keys and values are decoded.
        appends_offset: Whether the offset of each record comes after the columns, as a column of its own. The fields of
            keys and values do not avoid the name of this column.
        folded: Function that maps names that are considered equal to one name. The names of `value_fields` are such names.
        in_microseconds: Whether all timestamps have the unit microsecond. A timestamp that does not fit is treated as a
            value that cannot be decoded.

    Raises:
        ConfigError: An option is invalid, or a column does not exist.
    """

    def __init__(
        self,
        names: Sequence[str] | None,
        options: ValueFormat,
        layout: str = "klamm",
        *,
        appends_offset: bool = False,
        folded: Callable[[str], str] = str,
        in_microseconds: bool = False,
    ) -> None:
        _check(options)
        on_error, unit = options.get("on_error", "raise"), options.get("timestamp_unit")
        self._stops, self._has_errors, self._flattens = (
            on_error == "raise",
            on_error == "column",
            options.get("flatten"),
        )
        all_columns = ArrowColumns(names, layout)
        self._names: list[str] = pa.schema(all_columns).names
        self.registry, self._owns_registry = _registry(options.get("registry"))
        strategy = check_strategy(options.get("subject_name_strategy", "TOPIC"))
        self._specs: dict[str, _Column] = {}
        for field in ("key", "value"):
            kind = options.get(f"{field}_format")
            schema = options.get(f"{field}_schema")
            if kind is None and schema is not None:
                raise ConfigError(f"{field}_schema needs {field}_format", hint=f"allowed: {', '.join(FORMATS)}")
            if kind is not None and field in self._names:
                column = _Column(field, kind, schema, self.registry, strategy, options.get("id_bytes", 4))  # type: ignore[arg-type]
                column.in_microseconds = in_microseconds
                if field == "value" and options.get("value_fields") is not None:
                    column.choose(options["value_fields"], folded)  # type: ignore[arg-type]
                column.json_plan = ["json", None if unit is None else _UNITS[unit]]
                column.set_message(options.get(f"{field}_message"), options.get("recursion_depth", 1))
                if options.get("on_new_fields") == "raise":
                    column.refuse_new_fields()
                self._specs[field] = column
        self._plain_names = [name for name in self._names if name not in self._specs]
        self._appends_offset = appends_offset
        if appends_offset and "offset" not in self._plain_names:
            self._plain_names.append("offset")
        self._plain = ArrowColumns(self._plain_names, layout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._owns_registry:
            self.registry.close()  # type: ignore[union-attr]

    def schema(self, topics: Sequence[str]) -> pa.Schema:
        """Return the schema of the batches, before the first batch exists."""
        self._check_blocking()
        for topic in topics or ("",):
            for spec in self._specs.values():
                run(spec.prepare_empty(topic))
        arrays = {name: pa.array([], spec.field.type) for name, spec in self._specs.items()}
        plain = {field.name: pa.array([], field.type) for field in pa.schema(self._plain)}
        return self._assembled(plain, arrays, {name: {} for name in arrays}, 0).schema

    def schemas_of(self, topics: Sequence[str]) -> dict[str, ReaderSchema]:
        """Look up the current schemas for the typed columns of topics, for use later or in other processes.

        Raises:
            ConfigError: The topics have different schemas.
        """
        return {name: run(spec.schema_of(topics)) for name, spec in self._specs.items()}

    def read(self, consumer: Any, records: Records[Any, Any]) -> Iterator[pa.RecordBatch]:
        """Decode records into batches. The consumer takes back the records after an error."""
        self._check_blocking()
        with _put_back_on_error(consumer, records):
            run(self._prepare(records))
        yield from self._batches(consumer, records)

    async def read_async(self, consumer: Any, records: Records[Any, Any]) -> AsyncIterator[pa.RecordBatch]:
        """Decode records into batches, like `read`, but without blocking the event loop.

        The program can cancel the lookups of schemas, seek or pause meanwhile, so the consumer has the records during
        the lookups. If they are no longer the next records, there is no batch, and the next poll continues.
        """
        consumer._put_back(records)  # noqa: SLF001
        await self._await(lambda: self._prepare(records))
        if consumer._take_again(records):  # noqa: SLF001
            for batch in self._batches(consumer, records):
                yield batch

    def _batches(self, consumer: Any, records: Records[Any, Any]) -> Iterator[pa.RecordBatch]:
        """Return the batch of the records before the first record that raises, and raise its error.

        While the program handles the batch, the consumer has the other records, so a commit does not include them.
        """
        with _put_back_on_error(consumer, records):
            batch, end, error = self._decode(records)
        if end < len(records):
            consumer._put_back(records[end:])  # noqa: SLF001
        if batch.num_rows:
            yield batch
        if error is not None and consumer._take_again(records[end : end + 1]):  # noqa: SLF001
            raise error

    def _check_blocking(self) -> None:
        if isinstance(self.registry, AsyncSchemaRegistry):
            raise ConfigError("a Consumer cannot wait for an AsyncSchemaRegistry", hint="pass a SchemaRegistry")

    async def _await(self, make: Callable[[], Any]) -> None:
        if self.registry is None or isinstance(self.registry, AsyncSchemaRegistry):
            await make()
            return
        import asyncio

        await asyncio.to_thread(lambda: run(make()))

    async def _prepare(self, records: Records[Any, Any]) -> None:
        for spec in self._specs.values():
            await spec.prepare(records, self._stops)

    def _decode(self, records: Records[Any, Any]) -> tuple[pa.RecordBatch, int, DeserializationError | None]:
        """Decode the records before the first record that raises an error.

        Return the batch, the number of its records, and the error of the next record or None.
        """
        arrays, failures = {}, {}
        error = None
        end = len(records)
        for name, spec in self._specs.items():
            part = spec.decode(records if end == len(records) else records[:end], 0, self._stops)
            failed = part.failures
            arrays[name] = pa.array(part)
            stop = len(part)
            if self._stops and failed:
                row = failed[0][0]
                if error is None or row < error[0]:
                    error = row, spec, failed[0]
            failures[name] = failed
            end = min(end, stop)
        arrays = {name: array[:end] for name, array in arrays.items()}
        taken = records[:end]
        plain = pa.record_batch(taken._columns(self._plain))  # noqa: SLF001
        columns = dict(zip(self._plain_names, plain.columns, strict=True))
        rows = {
            name: {
                row: (str(spec.cause(prefix, path, why)), getattr(records[row], f"raw_{name}"))
                for row, prefix, path, why in failures[name]
                if row < end
            }
            for name, spec in self._specs.items()
        }
        batch = self._assembled(columns, arrays, rows, end)
        raised = None
        if error is not None and error[0] == end:
            _, spec, (row, prefix, path, why) = error
            raised = spec.error(records[row], prefix, path, why)
        for spec in self._specs.values():
            spec.forget_failures()
        return batch, end, raised

    def _taken(self, typed: Iterable[str]) -> set[str]:
        """Return the names that the columns of fields must not have, in lower case.

        Spark compares names without case, and has another name for `timestamp_type`.
        """
        taken = {name.lower() for name in self._names}
        if "timestamp_type" in taken:
            taken.add("timestamptype")
        if self._has_errors:
            taken.update(f"{name}_{suffix}" for name in typed for suffix in ("error", "raw"))
        taken.update(f"{name}_is_null" for name in typed if self._flattens)
        return taken

    def _assembled(
        self, plain: dict[str, Any], typed: dict[str, pa.Array], failed: dict[str, dict[int, Any]], rows: int
    ) -> pa.RecordBatch:
        """Combine plain and typed columns into a batch, in the order of the requested names.

        `failed` has the error and the bytes of each value that cannot be decoded, by row.
        """
        arrays: list[Any] = []
        fields: list[pa.Field] = []
        taken = self._taken(typed)

        def add(name: str, array: Any, of: pa.Field | None = None) -> None:
            arrays.append(array)
            fields.append(pa.field(name, array.type) if of is None else of.with_name(name))

        for name in self._names:
            if name not in typed:
                add(name, plain[name])
                continue
            spec, array = self._specs[name], typed[name]
            if self._flattens and pa.types.is_struct(array.type):
                taken.discard(name)
                for field, child in zip(array.type, array.flatten(), strict=True):
                    add(_free(field.name, name, taken), child, field)
                add(f"{name}_is_null", _are_null(array, failed[name]))
            else:
                add(name, array, spec.field)
            if self._has_errors:
                errors: list[str | None] = [None] * rows
                raw: list[bytes | None] = [None] * rows
                for row, found in failed[name].items():
                    errors[row], raw[row] = found
                add(f"{name}_error", pa.array(errors, pa.string()))
                add(f"{name}_raw", pa.array(raw, pa.binary()))
        if self._appends_offset:
            add("offset", plain["offset"])
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _check(options: ValueFormat) -> None:
    for name, allowed in _ALLOWED.items():
        value = options.get(name, allowed[0])
        if value not in allowed:
            shown = ", ".join(str(each) for each in allowed if each is not None)
            raise ConfigError(f"{name} cannot be {value!r}", hint=f"allowed: {shown}")


def _are_null(array: pa.Array, failed: Collection[int]) -> pa.Array:
    """Return whether values are null. For values that cannot be decoded, the result is null."""
    rows = len(array)
    if not array.null_count:
        return pa.repeat(False, rows)
    if failed:
        return pa.array([None if row in failed else not value.is_valid for row, value in enumerate(array)], pa.bool_())
    # The method `is_null` imports pyarrow.compute, which takes 0.1 s.
    inverted = pa.py_buffer(array.buffers()[0].to_pybytes().translate(_INVERTED))
    return pa.Array.from_buffers(pa.bool_(), rows, [None, inverted], offset=array.offset)


def _free(field: str, column: str, taken: set[str]) -> str:
    """Return the name of a column for a field, and add the name to the names that are taken."""
    free = field if field.lower() not in taken else f"{column}_{field}"
    while free.lower() in taken:
        free += "_"
    taken.add(free.lower())
    return free


def _registry(given: Any) -> tuple[SchemaRegistry | AsyncSchemaRegistry | None, bool]:
    if given is None or isinstance(given, (SchemaRegistry, AsyncSchemaRegistry)):
        return given, False
    return SchemaRegistry(given), True


@contextmanager
def _put_back_on_error(consumer: Any, records: Records[Any, Any]) -> Iterator[None]:
    """If the block raises, let the consumer return the records again."""
    try:
        yield
    except BaseException:
        with suppress(KafkaError):  # the consumer is closed
            consumer._put_back(records)  # noqa: SLF001
        raise


class _Column:
    """Decodes one column, with the reader's schema and a plan for the schema of each writer."""

    def __init__(  # noqa: PLR0917
        self,
        name: Field,
        kind: str,
        schema: Any,
        registry: SchemaRegistry | AsyncSchemaRegistry | None,
        strategy: SubjectNameStrategy,
        id_bytes: int,
    ) -> None:
        if kind not in FORMATS:
            raise ConfigError(f"{name}_format cannot be {kind!r}", hint=f"allowed: {', '.join(FORMATS)}")
        if registry is None and (kind != "json" or schema in (None, "latest") or isinstance(schema, int)):
            raise ConfigError(
                f"{name}_format={kind!r} needs a registry",
                hint="pass registry=SchemaRegistry(...)"
                + (f", or {name}_schema for JSON without a registry" if kind == "json" else ""),
            )
        versions: Mapping[str, int] = {}
        if isinstance(schema, ReaderSchema):
            schema, versions = schema.schema, schema.versions
        self.name: Field = name
        self._kind, self._given, self._registry, self._strategy = kind, schema, registry, strategy
        self._id_bytes, self._is_framed, self._has_indexes = id_bytes, registry is not None, kind == "protobuf"
        self._decoder: ColumnDecoder | None = None
        self._reader: Any = None
        self._reader_schema: Schema | None = None
        self._topics: set[str] = set()
        self._subject: str | None = None
        self._failed: dict[bytes, KafkaError] = {}
        self._versions = dict(versions)
        self._refuses_new_fields = False
        self._message_name: str | None = None
        self.in_microseconds = False
        self._chosen: tuple[Sequence[str], Callable[[str], str]] | None = None
        self._complete: Any = None
        self.json_plan: list[Any] = ["json", None]
        self._recursion_depth = 1
        self.field = pa.field(name, pa.null())
        if isinstance(schema, (pa.Schema, pa.DataType)) and kind != "json":
            raise ConfigError(
                f"{name}_schema can be an Arrow schema only for JSON", hint="pass an Avro or Protobuf schema"
            )
        if schema == "infer" and kind != "json":
            raise ConfigError(f"{name}_schema='infer' is only for JSON", hint="use 'latest'")

    def set_message(self, name: Any, recursion_depth: int) -> None:
        """Set the name of the Protobuf message type, and how often a type may contain itself.

        By default, the first record decides on the message type.
        """
        if type(recursion_depth) is not int or not 0 <= recursion_depth <= _MAX_RECURSION:
            raise ConfigError(f"recursion_depth cannot be {recursion_depth!r}", hint=f"allowed: 0 to {_MAX_RECURSION}")
        self._message_name = checked_message(name, self.name, self._kind)
        self._recursion_depth = recursion_depth

    def choose(self, fields: Sequence[str], folded: Callable[[str], str]) -> None:
        """From now on, decode only some fields of the values."""
        self._chosen = list_of_str("value_fields", fields), folded

    def refuse_new_fields(self) -> None:
        """From now on, decoding a record fails if the writer's schema has a field that the column lacks."""
        if self._registry is None:
            raise ConfigError(
                "on_new_fields='raise' needs a registry, which has the schemas of the writers", hint="leave it out"
            )
        self._refuses_new_fields = True

    async def prepare(self, records: Records[Any, Any], stops: bool) -> None:
        """Look up the schemas that the decoder needs for records."""
        self._check_contexts(records)
        if self._needs_topics():
            for tp in records.by_partition():
                if tp.topic not in self._topics:
                    await self._prepare_topic(tp.topic, records)
        elif self._decoder is None:
            await self._prepare_topic("", records)
        if self._decoder is None:
            return  # all values so far are null
        for prefix, is_only in self._decoder.unknown(records):
            try:
                plan = await self._plan(prefix)
            except (SchemaError, SchemaNotFoundError) as error:
                self._failed[prefix] = error
                self._decoder.add(prefix, json.dumps(["fail", "the schema cannot be used"]))
                if stops and is_only:
                    return
            else:
                self._decoder.add(prefix, json.dumps(plan))

    def _check_contexts(self, records: Records[Any, Any]) -> None:
        """Remember a subject for lookups by schema ID. All topics must have their subjects in the same context."""
        for topic in sorted({tp.topic for tp in records.by_partition()}):
            subject = lookup_subject(self._strategy, topic, self.name)
            if self._subject is None:
                self._subject = subject
            elif context_of(subject) != context_of(self._subject):
                raise ConfigError(
                    f"the subjects {self._subject!r} and {subject!r} are in different contexts, in which an ID has"
                    " different schemas",
                    hint="read one topic at a time",
                )

    async def prepare_empty(self, topic: str) -> None:
        """Determine the type of the column for a topic without records."""
        if topic not in self._topics and (self._decoder is None or self._needs_topics()):
            await self._prepare_topic(topic, None)

    def forget_failures(self) -> None:
        """Forget failed lookups, so that the next batch requests missing schemas again."""
        for prefix in self._failed:
            if self._decoder is not None:
                self._decoder.remove(prefix)
        self._failed = {}

    def decode(self, records: Records[Any, Any], start: int, stops: bool) -> Any:
        decoder = self._decoder
        if decoder is None:  # all values are null, so the type is unknown
            decoder = self._made(pa.field(self.name, pa.null()))
        return decoder.decode(records, start, stops)

    def cause(self, prefix: bytes, path: str, why: str) -> KafkaError:
        """Return the error that explains why a record cannot be decoded."""
        if prefix in self._failed:
            return self._failed[prefix]
        schema: int | str | None = None
        if prefix:
            found = read(prefix, None, id_bytes=self._id_bytes, has_indexes=self._has_indexes).schema
            schema = found.hex() if isinstance(found, bytes) else found
        return SchemaError(why, schema_id=schema, path=path)

    def error(self, record: Any, prefix: bytes, path: str, why: str) -> DeserializationError:
        cause = self.cause(prefix, path, why)
        error = DeserializationError(self.name, record)
        error.message = f"{error.message}: {cause}"
        error.args = (error.message,)
        error.__cause__ = cause
        return error

    def _needs_topics(self) -> bool:
        return self._given is None or self._given == "latest" or isinstance(self._given, int)

    def _start(self, field: pa.Field) -> None:
        self.field = field
        self._decoder = self._made(field)

    def _made(self, field: pa.Field) -> ColumnDecoder:
        decoder = ColumnDecoder(field, self.name == "key", self._is_framed, self._id_bytes, self._kind)
        if not self._is_framed:
            decoder.add(b"", json.dumps(self.json_plan))
        return decoder

    async def _prepare_topic(self, topic: str, records: Records[Any, Any] | None) -> None:
        """Determine the reader's schema for a topic, and check that the schema's type is the type of the column."""
        prefix = None
        needs_record = self._needs_topics() and (self._kind == "protobuf" or self._strategy != "TOPIC")
        if records is not None and self._is_framed and needs_record:
            of_topic = records if not topic else _of_topic(records, topic)
            prefixes = framings(of_topic, self.name == "key", self._id_bytes, self._kind)
            prefix = await self._first_usable(prefixes)
        reader = await self._find_reader(topic, prefix, records)
        if reader is None:
            return
        self._topics.add(topic)
        field, parsed = reader
        if self.in_microseconds:
            field = _in_microseconds(field)
        if self._decoder is None:
            self._reader = parsed
            self._start(field)
        elif field.type != self.field.type:
            raise ConfigError(
                f"the {self.name} of topic {topic!r} has a different schema than the topics before it",
                hint=f"pass {self.name}_schema, or read one topic at a time",
            )

    async def _first_usable(self, prefixes: list[bytes]) -> bytes | None:
        """Return the first framing whose schema is in the registry, or None."""
        for prefix in prefixes:
            try:
                await self._registered(prefix)
            except (SchemaError, SchemaNotFoundError):
                continue
            return prefix
        return None

    async def _registered(self, prefix: bytes) -> RegisteredSchema:
        """Look up the schema whose ID a record's framing contains."""
        assert self._registry is not None  # noqa: S101 - a column without a registry has no framings
        frame = read(prefix, None, id_bytes=self._id_bytes, has_indexes=self._has_indexes)
        if isinstance(frame.schema, bytes):
            raise SchemaError(
                "a fingerprint cannot be looked up in the registry",
                hint="read the topic with an AvroDeserializer and its argument `schemas`",
                schema_id=frame.schema.hex(),
            )
        if isinstance(frame.schema, str):
            schema = await self._registry._get_by_guid(frame.schema, self._subject)  # noqa: SLF001
        else:
            schema = await self._registry._get_by_id(frame.schema, self._subject)  # noqa: SLF001
        check_rules(self._registry, schema.schema, "read", frame.schema)
        if schema.schema.type != FORMATS[self._kind]:
            raise SchemaError(
                f"the schema is of type {schema.schema.type}, not {FORMATS[self._kind]}", schema_id=frame.schema
            )
        return schema

    async def _find_reader(
        self, topic: str, prefix: bytes | None, records: Records[Any, Any] | None
    ) -> tuple[pa.Field, Any] | None:
        given = self._given
        if isinstance(given, (pa.Schema, pa.DataType)):
            kind = pa.struct(list(given)) if isinstance(given, pa.Schema) else given
            return self._projected(pa.field(self.name, kind), None)
        if given == "infer":
            inferred = None if records is None else self._inferred(records)
            return None if inferred is None else self._projected(*inferred)
        if self._kind == "protobuf" and isinstance(given, type):
            return self._projected(*self._message_reader(given.DESCRIPTOR))  # type: ignore[attr-defined]
        if self._needs_topics() and self._strategy != "TOPIC" and prefix is None:
            return None  # the subject contains the record name, which only a record shows
        schema = await self._schema(topic, None if prefix is None else await self._named(prefix))
        if schema.type != FORMATS[self._kind]:
            raise SchemaError(f"the {self.name} schema is of type {schema.type}, not {FORMATS[self._kind]}")
        references = {}
        if self._registry is not None:
            check_rules(self._registry, schema, "read")
            context = context_of(lookup_subject(self._strategy, topic, self.name) if topic else None)
            references = await self._registry._resolve(schema, context)  # noqa: SLF001
        self._reader_schema = schema
        if self._chosen is None or self._kind != "avro":
            return self._projected(*await self._reader_of(schema, references, prefix))
        if self._refuses_new_fields:
            _, self._complete = await self._reader_of(schema, references, prefix)
        return await self._reader_of(projection.of_avro(schema, *self._chosen), references, prefix)

    def _projected(self, field: pa.Field, parsed: Any) -> tuple[pa.Field, Any]:
        """Leave out the fields that the program did not choose."""
        if self._chosen is None:
            return field, parsed
        if not pa.types.is_struct(field.type):
            raise ConfigError(f"only the fields of a struct can be chosen, not of {field.type}", hint="leave it out")
        names = [inner.name for inner in field.type]
        kept = projection.chosen(names, *self._chosen)
        self._complete = field.type if parsed is None else parsed
        if parsed is not None:
            message, plan = parsed
            parsed = message, [step for step, name in zip(plan, names, strict=True) if name in kept]
        return field.with_type(pa.struct([inner for inner in field.type if inner.name in kept])), parsed

    async def _named(self, prefix: bytes) -> str | None:
        return await self._record_name(prefix) if self._needs_topics() and self._strategy != "TOPIC" else None

    async def _schema(self, topic: str, name: str | None) -> Schema:
        """Return the reader's schema: the given schema, or a version of the topic's subject."""
        given = self._given
        if not self._needs_topics():
            return given if isinstance(given, Schema) else Schema(given, FORMATS[self._kind])  # type: ignore[arg-type]
        assert self._registry is not None  # noqa: S101 - checked in the constructor
        subject = subject_of(self._strategy, topic, self.name, name)
        version = given if isinstance(given, int) else "latest"
        version_fields = await self._registry._get_version(subject, version)  # noqa: SLF001
        if version_fields.version is not None:
            self._versions[subject] = version_fields.version
        return version_fields.schema

    async def schema_of(self, topics: Sequence[str]) -> ReaderSchema:
        """Return the reader's schema for several topics. All topics must have schemas of the same type."""
        found = None
        for topic in topics:
            schema = await self._schema(topic, None)
            await self.prepare_empty(topic)
            found = schema if found is None else found
        assert found is not None  # noqa: S101 - the caller passes at least one topic
        return ReaderSchema(found, self._versions)

    async def _reader_of(
        self, schema: Schema, references: Mapping[str, Schema], prefix: bytes | None
    ) -> tuple[pa.Field, Any]:
        if self._kind == "avro":
            parsed = _avro(schema, references)
            return pa.field(self.name, parsed.arrow_type()), parsed
        if self._kind == "json":
            texts = {name: reference.text for name, reference in references.items()}
            return json_types.arrow_field(schema.text, texts, self.name), None
        from klamm.registry.protobuf import parse_schema

        file = parse_schema(schema, references)
        if prefix is None or not self._needs_topics() or self._message_name is not None:
            return self._message_reader(file.chosen(self._message_name))
        name = await self._record_name(prefix)
        try:
            return self._message_reader(file.pool.FindMessageTypeByName(name))
        except KeyError:
            raise SchemaError(
                f"the {self.name} schema has no message {name}", hint=f"pass {self.name}_schema"
            ) from None

    def _message_reader(self, message: Any) -> tuple[pa.Field, Any]:
        from klamm.registry.columns import protobuf

        kind, plan = protobuf.columns(message, self._recursion_depth)
        return pa.field(self.name, kind), (message.full_name, plan)

    def _inferred(self, records: Records[Any, Any]) -> tuple[pa.Field, Any] | None:
        sample = []
        for record in records[:_SAMPLE]:
            value = getattr(record, f"raw_{self.name}")
            if value is None:
                continue
            if not self._is_framed:
                sample.append(value)
                continue
            header = {key: given for key, given in record.headers if given is not None}.get(HEADERS[self.name])
            with suppress(SchemaError):  # reading the record reports the error
                (frame,) = frames(value, header, id_bytes=self._id_bytes, has_indexes=False, is_avro=False)
                sample.append(value[frame.start :])
        if not sample:
            return None
        field = json_types.inferred(sample, self.name)
        warnings.warn(
            f"the schema of column `{self.name}` is inferred from {len(sample)} records: {field.type};"
            f" hint: pass it as {self.name}_schema",
            UserWarning,
            stacklevel=2,
        )
        return field.with_metadata({**(field.metadata or {}), b"klamm.inferred": str(len(sample)).encode()}), None

    async def _record_name(self, prefix: bytes) -> str | None:
        if self._kind == "protobuf":
            return str((await self._message(prefix)).full_name)
        registered = await self._registered(prefix)
        if self._kind == "avro":
            from klamm.registry.avro import parse

            return parse(registered.schema, await self._references(registered)).name
        title = json.loads(registered.schema.text).get("title")
        return title if isinstance(title, str) else None

    async def _message(self, prefix: bytes) -> Any:
        """Look up the descriptor of a message type, by the schema ID and the position in a record's framing."""
        from klamm.registry.protobuf import parse_schema

        registered = await self._registered(prefix)
        frame = read(prefix, None, id_bytes=self._id_bytes, has_indexes=True)
        return parse_schema(registered.schema, await self._references(registered)).wanted(frame.indexes, None)

    async def _references(self, registered: RegisteredSchema) -> Mapping[str, Schema]:
        assert self._registry is not None  # noqa: S101 - only framed columns have registered schemas
        return await self._registry._resolve(registered.schema, registered.context)  # noqa: SLF001

    async def _plan(self, prefix: bytes) -> list[Any]:
        """Look up the schema that a record's framing names, and create the plan for this schema."""
        registered = await self._registered(prefix)
        self._check_migration(registered)
        try:
            plan, new = await self._plan_and_new_field(registered, prefix)
        except SchemaError as error:
            error.schema_id = registered.id if error.schema_id is None else error.schema_id
            raise
        if new is not None and self._refuses_new_fields and not await self._is_older(registered):
            raise SchemaError(
                "the writer's schema has a field that the column does not have",
                hint="start again to read with the newer schema, or let klamm drop new fields",
                schema_id=registered.id,
                path=new,
            )
        if _depth(plan) > _DEEPEST_PLAN:
            raise SchemaError(
                "the schema is nested too deep for columns",
                hint="read the topic with a deserializer instead",
                schema_id=registered.id,
            )
        return plan

    def _check_migration(self, registered: RegisteredSchema) -> None:
        """Refuse to convert values to another version of their subject if one of the versions has migration rules."""
        reader = self._reader_schema if self._versions else None
        if reader is not None and reader.text != registered.schema.text:
            assert self._registry is not None  # noqa: S101 - only framed columns have registered schemas
            for schema in (registered.schema, reader):
                check_rules(self._registry, schema, "migrate", registered.id)

    async def _plan_and_new_field(self, registered: RegisteredSchema, prefix: bytes) -> tuple[list[Any], str | None]:
        """Return the plan for a writer's schema, and the first field that only the writer has."""
        if self._kind == "json":
            if not self._refuses_new_fields:
                return self.json_plan, None
            texts = {name: other.text for name, other in (await self._references(registered)).items()}
            writer = json_types.arrow_field(registered.schema.text, texts, self.name)
            return self.json_plan, new_fields.of_json(
                writer.type, self.field.type if self._complete is None else self._complete
            )
        if self._kind == "protobuf":
            name, plan = self._reader
            message = await self._message(prefix)
            if message.full_name != name:
                raise SchemaError(f"the record has a {message.full_name}, and the column a {name}")
            return ["protobuf", plan], new_fields.of_protobuf(
                message, plan if self._complete is None else self._complete[1]
            )
        from klamm.registry.columns import avro

        writer = _avro(registered.schema, await self._references(registered))
        plan = avro.plan(writer, self._reader)
        complete = plan if self._complete is None else avro.plan(writer, self._complete)
        return ["avro", plan], new_fields.of_avro(complete)

    async def _is_older(self, registered: RegisteredSchema) -> bool:
        """Return whether a schema is an older version of the reader's schema.

        If only an older version has a field, the field was removed on purpose.
        """
        assert self._registry is not None  # noqa: S101 - only framed columns have registered schemas
        versions = await self._registry._versions_of(registered.id)  # noqa: SLF001
        return any(version <= self._versions.get(subject, 0) for subject, version in versions)


def checked_message(name: Any, field: Field, kind: str) -> str | None:
    """Return the name of a Protobuf message type that an option of a column names."""
    if name is not None and kind != "protobuf":
        raise ConfigError(f"{field}_message is only for Protobuf", hint="leave it out")
    return None if name is None else str(name)


def _avro(schema: Schema, references: Mapping[str, Schema]) -> Any:
    from klamm.registry.columns.avro import Avro

    return Avro(schema, references)


def _in_microseconds(field: pa.Field) -> pa.Field:
    """Return the field with timestamps in microseconds. The metadata tells the decoder the unit of the values."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_in_microseconds(inner) for inner in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_in_microseconds(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_field, _in_microseconds(kind.item_field))
    elif pa.types.is_timestamp(kind) and kind.unit != "us":
        unit = {b"klamm.nanoseconds": str(_UNITS[kind.unit]).encode()}
        return field.with_type(pa.timestamp("us", kind.tz)).with_metadata({**(field.metadata or {}), **unit})
    return field.with_type(kind)


def _depth(plan: Any) -> int:
    return 1 + max(map(_depth, plan), default=0) if isinstance(plan, list) else 0


def _of_topic(records: Records[Any, Any], topic: str) -> Records[Any, Any]:
    """Return the records of one partition of a topic, or no records if the batch has none of this topic."""
    parts = [part for tp, part in records.by_partition().items() if tp.topic == topic]
    return parts[0] if parts else records[:0]
