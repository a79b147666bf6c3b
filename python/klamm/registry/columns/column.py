"""One typed column of keys or values: finds its schema, and the plan with which the core decodes each writer's schema."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from klamm._klamm import AvroReader, ColumnDecoder, framings
from klamm.arguments import list_of_str
from klamm.errors import ConfigError, DeserializationError
from klamm.registry.columns import ddl, json_types, new_fields, projection
from klamm.registry.errors import SchemaError, SchemaNotFoundError
from klamm.registry.framing import HEADERS, frames, read
from klamm.registry.rules import check_rules
from klamm.registry.schema import Schema
from klamm.registry.subjects import context_of, lookup_subject, subject_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from klamm._klamm import Records
    from klamm.errors import KafkaError
    from klamm.registry.client import AsyncSchemaRegistry, SchemaRegistry
    from klamm.registry.schema import RegisteredSchema
    from klamm.registry.subjects import Field, SubjectNameStrategy

FORMATS = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}
UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
"""Units of times in nanoseconds."""
_DEEPEST_PLAN = 126
"""Maximum depth of the nested lists in a plan: one less than serde_json, which parses the plan, accepts."""
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


class Column:
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
        if kind == "json" and isinstance(schema, str) and _is_ddl(schema):
            schema = ddl.arrow_type(schema)
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
        """Set the name of the Protobuf message type, and how often a type of Avro or Protobuf may contain itself.

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
                self._decoder.add(prefix, plan if isinstance(plan, AvroReader) else json.dumps(plan))

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
        """Decode the values of records from `start` on. With `stops`, end at the first value that cannot be decoded."""
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
        """Return the error for a record whose value cannot be decoded."""
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
        return self._projected(*await self._reader_of(schema, references, prefix))

    def _projected(self, field: pa.Field, parsed: Any) -> tuple[pa.Field, Any]:
        """Leave out the fields that the program did not choose, which a schema of Avro does not have."""
        if self._chosen is None or self._kind == "avro":
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
            from klamm.registry.avro import parse
            from klamm.registry.columns.avro import Avro

            parsed = parse(schema, references)
            if self._chosen is not None:
                self._complete, parsed = parsed, projection.of_avro(parsed, *self._chosen)
            return Avro(parsed, self._recursion_depth).field(self.name), parsed
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
        return record_name(registered.schema, await self._references(registered))

    async def _message(self, prefix: bytes) -> Any:
        """Look up the descriptor of a message type, by the schema ID and the position in a record's framing."""
        from klamm.registry.protobuf import parse_schema

        registered = await self._registered(prefix)
        frame = read(prefix, None, id_bytes=self._id_bytes, has_indexes=True)
        return parse_schema(registered.schema, await self._references(registered)).wanted(frame.indexes, None)

    async def _references(self, registered: RegisteredSchema) -> Mapping[str, Schema]:
        assert self._registry is not None  # noqa: S101 - only framed columns have registered schemas
        return await self._registry._resolve(registered.schema, registered.context)  # noqa: SLF001

    async def _plan(self, prefix: bytes) -> list[Any] | AvroReader:
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

    async def _plan_and_new_field(
        self, registered: RegisteredSchema, prefix: bytes
    ) -> tuple[list[Any] | AvroReader, str | None]:
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
        from klamm.registry.avro import parse

        writer = parse(registered.schema, await self._references(registered))
        reader = AvroReader(writer, self._reader)
        if not self._refuses_new_fields:
            return reader, None
        complete = reader if self._complete is None else AvroReader(writer, self._complete)
        return reader, complete.skipped

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


def record_name(schema: Schema, references: Mapping[str, Schema]) -> str | None:
    """Return the name of the record type of an Avro schema, or the title of a JSON Schema."""
    from klamm.registry import avro, json_schema

    parsed: Any = (avro if schema.type == "AVRO" else json_schema).parse(schema, references)
    return parsed.name  # type: ignore[no-any-return]


def _is_ddl(schema: str) -> bool:
    """Return whether a schema is not a JSON Schema, which is an object or a boolean."""
    return schema not in ("latest", "infer", "true", "false") and not schema.lstrip().startswith("{")


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
        unit = {b"klamm.nanoseconds": str(UNITS[kind.unit]).encode()}
        return field.with_type(pa.timestamp("us", kind.tz)).with_metadata({**(field.metadata or {}), **unit})
    return field.with_type(kind)


def _depth(plan: Any) -> int:
    return 1 + max(map(_depth, plan), default=0) if isinstance(plan, list) else 0


def _of_topic(records: Records[Any, Any], topic: str) -> Records[Any, Any]:
    """Return the records of one partition of a topic, or no records if the batch has none of this topic."""
    parts = [part for tp, part in records.by_partition().items() if tp.topic == topic]
    return parts[0] if parts else records[:0]
