"""`AvroSerializer` and `AvroDeserializer` convert values with Avro schemas.

The Rust core parses schemas, resolves the writer's schema to the reader's schema, and encodes and decodes values (`src/typed`).
Confluent's serializers write a value of the schema `"bytes"` without a length, and klamm does the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_origin

from klamm._klamm import AvroReader, AvroSchema, AvroWriter
from klamm.errors import ArgumentError, ConfigError
from klamm.registry.convert import NamedRecord, simplified
from klamm.registry.errors import SchemaError
from klamm.registry.framing import single_object, written
from klamm.registry.schema import Schema
from klamm.registry.serde import BaseDeserializer, BaseSerializer, T, T_co

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Unpack

    from klamm.registry.client import AsyncSchemaRegistry, SchemaRegistry
    from klamm.registry.framing import Frame
    from klamm.registry.schema import RegisteredSchema
    from klamm.registry.serde import DeserializerOptions, SerializerOptions
    from klamm.registry.subjects import Field

__all__ = ["AvroDeserializer", "AvroSerializer"]


def parse(schema: Schema, references: Mapping[str, Schema]) -> AvroSchema:
    """Return a parsed schema.

    Args:
        schema: The schema.
        references: The referenced schemas by name. Each schema comes after the schemas that it references.

    Raises:
        SchemaError: The schema is invalid.
    """
    return AvroSchema(schema.text, [reference.text for reference in references.values()])


def _schema(schema: Schema | str | None) -> Schema | None:
    return Schema(schema) if isinstance(schema, str) else schema


class AvroSerializer(BaseSerializer[T]):
    """Serialize values with an Avro schema. Pass the serializer to a producer as `key_serializer` or `value_serializer`.

    A record is a dict, a dataclass, a pydantic model or a NamedTuple. In a union of records, the class decides the branch, or
    a tuple of the record's name and the dict. A value must have the type of its field: the serializer neither rounds
    numbers nor takes a bool for an int. A datetime without a time zone counts as UTC.

    Args:
        registry: Client of the registry.
        schema: The schema, or its text. The schema is optional with `use_latest_version` or `use_schema_id`.
        auto_register_schemas: Register the schema before the first record. If False, only look up the schema's ID.
            Default True.
        use_latest_version: Write with the latest schema version of the subject.
        use_schema_id: Write with the schema that has this ID.
        normalize_schemas: Let the registry normalize the schema before it compares and stores the schema.
        subject_name_strategy: How to choose the subject: "TOPIC" (the default), "RECORD", "TOPIC_RECORD", or a
            function. The function gets the topic, "key" or "value", and the record name.
        framing: How a record stores the ID of its schema; see docs/registry.md. Default "id".
        to_dict: Function that converts a value to a dict before encoding.
        strict: Refuse a dict or object with a field that the schema does not have. Default False: the serializer drops
            the field.

    Raises:
        ConfigError: Two arguments exclude each other, or the schema is invalid.

    Example:
        serializer = AvroSerializer(registry, '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')
        with klamm.Producer("localhost:9092", value_serializer=serializer) as producer:
            producer.send("orders", {"id": 7})
    """

    schema_type = "AVRO"

    def __init__(
        self,
        registry: SchemaRegistry | AsyncSchemaRegistry,
        schema: Schema | str | None = None,
        *,
        to_dict: Callable[[T], Any] | None = None,
        strict: bool = False,
        **options: Unpack[SerializerOptions],
    ) -> None:
        super().__init__(registry, _schema(schema), **options)
        self._to_dict, self._strict = to_dict, strict

    def _parse(self, schema: Schema, references: Mapping[str, Schema]) -> _Writing:
        parsed = parse(schema, references)
        return _Writing(parsed, AvroWriter(parsed, simplified, self._strict))

    def _record_name(self, parsed: _Writing) -> str:
        return parsed.schema.name

    async def _prefix(self, registered: RegisteredSchema, own: Schema | None, parsed: _Writing, kind: Any) -> bytes:  # noqa: ARG002
        if self._framing == "single_object":
            if not parsed.schema.fingerprint:
                raise SchemaError("a schema with references has no fingerprint", hint="use framing='id'")
            return single_object(parsed.schema.fingerprint)
        return written(self._framing, registered.id, registered.guid, None)

    def _encode(self, parsed: _Writing, value: Any) -> bytes:
        return parsed.writer.write(value if self._to_dict is None else self._to_dict(value))


class _Writing(NamedTuple):
    """A schema, and what encodes values of this schema."""

    schema: AvroSchema
    writer: AvroWriter


class AvroDeserializer(BaseDeserializer[T_co]):
    """Deserialize values of Avro schemas. Pass the deserializer to a consumer as `key_deserializer` or `value_deserializer`.

    The deserializer reads the schema of the writer from the registry. An Avro record becomes a dict, or the type that
    `to` specifies.

    Args:
        registry: Client of the registry.
        to: Type of the results: a dataclass, a pydantic model or a TypedDict, or a function that converts a dict.
        reader_schema: Schema to which the deserializer resolves all values, or the text of this schema. The default is
            the schema of the writer.
        use_latest_version: Resolve values to the latest schema version of the subject.
        subject_name_strategy: How to find the subject for `use_latest_version`.
        id_bytes: Length of schema IDs in bytes: 4, or 8 for an Apicurio Registry with IDs of eight bytes.
        schemas: Schemas for values in Avro's single-object encoding, which contains a fingerprint instead of an ID.
        return_record_name: Return a record of a union as a tuple of its full name and its dict, like fastavro. Only
            without `to`: a class in a union of classes is chosen by the name of the record anyway. Default False.

    Raises:
        ConfigError: Two arguments exclude each other.
        SchemaError: A schema is invalid.

    Example:
        deserializer = AvroDeserializer(registry, Order)
        with klamm.Consumer("localhost:9092", topics=["orders"], value_deserializer=deserializer) as consumer:
            for record in consumer:
                print(record.value.id)
    """

    schema_type = "AVRO"

    def __init__(
        self,
        registry: SchemaRegistry | AsyncSchemaRegistry,
        to: Callable[..., T_co] | None = None,
        *,
        reader_schema: Schema | str | None = None,
        schemas: Sequence[Schema | str] = (),
        return_record_name: bool = False,
        **options: Unpack[DeserializerOptions],
    ) -> None:
        super().__init__(registry, to, **options)
        if reader_schema is not None and self._uses_latest:
            raise ConfigError("reader_schema and use_latest_version exclude each other", hint="remove one of the two")
        if isinstance(schemas, (str, Schema)):
            raise ArgumentError("schemas have to be a list", hint="pass [schema]")
        if to is not None and return_record_name:
            raise ConfigError("to and return_record_name exclude each other", hint="remove one of the two")
        is_type = isinstance(to, type) or get_origin(to) is not None
        self._named = _pair if return_record_name else NamedRecord if is_type else None
        self._reader_schema = _schema(reader_schema)
        self._readers: dict[tuple[AvroSchema, AvroSchema | None], AvroReader] = {}
        for schema in schemas:
            parsed = parse(cast("Schema", _schema(schema)), {})
            self._writers[parsed.fingerprint] = parsed
        if self._reader_schema is not None and not self._reader_schema.references:
            self._given = parse(self._reader_schema, {})

    _given: AvroSchema | None = None

    def _parse(self, schema: Schema, references: Mapping[str, Schema]) -> AvroSchema:
        return parse(schema, references)

    async def _find_writer(self, frame: Frame, topic: str | None, field: Field) -> Any:
        if self._reader_schema is not None and self._given is None:
            self._given = parse(self._reader_schema, await self.registry._resolve(self._reader_schema))  # noqa: SLF001
        return await super()._find_writer(frame, topic, field)

    def _record_name(self, writer: AvroSchema, frame: Frame) -> str:  # noqa: ARG002
        return writer.name

    def _decode(self, writer: AvroSchema, reader: AvroSchema | None, data: bytes, frame: Frame) -> Any:
        reader = self._given if reader is None else reader
        key = writer, reader
        found = self._readers.get(key)
        if found is None:
            found = self._readers[key] = AvroReader(*key, self._named, self._named is _pair)
        return found.read(data, frame.start)


def _pair(name: str, value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return name, value
