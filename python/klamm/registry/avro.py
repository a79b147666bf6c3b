"""`AvroSerializer` and `AvroDeserializer` convert values with Avro schemas.

The package fastavro encodes and decodes values, and resolves the writer's schema to the reader's schema.
Confluent's serializers write a value of the schema `"bytes"` without a length, and klamm does the same.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, overload

from klamm._klamm import AvroReader, AvroSchema
from klamm.errors import ArgumentError, ConfigError
from klamm.registry.avro_check import checked, compiled
from klamm.registry.convert import to_plain
from klamm.registry.errors import SchemaError
from klamm.registry.framing import single_object, written
from klamm.registry.schema import Schema
from klamm.registry.serde import BaseDeserializer, BaseSerializer, T

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from klamm.registry.avro_check import Check
    from klamm.registry.client import AsyncSchemaRegistry, SchemaRegistry
    from klamm.registry.framing import Frame, Framing
    from klamm.registry.schema import RegisteredSchema
    from klamm.registry.subjects import Field, SubjectNameStrategy

__all__ = ["AvroDeserializer", "AvroSerializer"]

T_co = TypeVar("T_co", covariant=True)


class Parsed(NamedTuple):
    """A parsed Avro schema.

    Attributes:
        schema: A record schema with one field, whose type is the parsed schema. fastavro needs the record schema to
            resolve references. The record schema does not change the encoding of a value.
        core: The same schema in the Rust core.
        check: Function that checks the bytes of a value.
    """

    schema: Any
    core: AvroSchema
    check: Check

    @property
    def name(self) -> str:
        """Name of the type, such as the full name of a record, or "string"."""
        return self.core.name

    @property
    def is_bytes(self) -> bool:
        """Whether values are plain bytes. The serializer writes plain bytes without a length."""
        return self.core.is_bytes

    @property
    def fingerprint(self) -> bytes:
        """The fingerprint in Avro's single-object encoding. A schema with references has no fingerprint."""
        return self.core.fingerprint


def parse(schema: Schema, references: Mapping[str, Schema]) -> Parsed:
    """Return a parsed schema.

    Args:
        schema: The schema.
        references: The referenced schemas by name. Each schema comes after the schemas that it references.

    Raises:
        SchemaError: The schema is invalid.
    """
    try:
        import fastavro
    except ImportError:
        raise ConfigError("Avro needs fastavro", hint="pip install 'klamm[registry]'") from None
    core = AvroSchema(schema.text, [reference.text for reference in references.values()])
    known: dict[str, Any] = {}
    try:
        for reference in references.values():
            fastavro.parse_schema(_loaded(reference.text), named_schemas=known)
        loaded = _loaded(schema.text)
        wrapped = fastavro.parse_schema(
            {"type": "record", "name": "klamm_Value", "fields": [{"name": "value", "type": loaded}]},
            named_schemas=known,
        )
        found = wrapped["fields"][0]["type"]  # type: ignore[index,call-overload]
        check = compiled(found, known)
    except Exception as error:
        raise SchemaError(f"the Avro schema is invalid: {type(error).__name__}: {error}") from None
    return Parsed(wrapped, core, check)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if text.strip().isalpha():  # the name of a primitive type
            return text.strip()
        raise


def _schema(schema: Schema | str | None) -> Schema | None:
    return Schema(schema) if isinstance(schema, str) else schema


class AvroSerializer(BaseSerializer[T]):
    """Serialize values with an Avro schema. Pass the serializer to a producer as `key_serializer` or `value_serializer`.

    A value must have the type that fastavro expects, such as a dict for an Avro record. The serializer also accepts
    dataclasses, pydantic models and enums.

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
        auto_register_schemas: bool | None = None,
        use_latest_version: bool = False,
        use_schema_id: int | None = None,
        normalize_schemas: bool = False,
        subject_name_strategy: SubjectNameStrategy = "TOPIC",
        framing: Framing = "id",
        to_dict: Callable[[T], Any] | None = None,
    ) -> None:
        super().__init__(
            registry,
            _schema(schema),
            auto_register_schemas=auto_register_schemas,
            use_latest_version=use_latest_version,
            use_schema_id=use_schema_id,
            normalize_schemas=normalize_schemas,
            subject_name_strategy=subject_name_strategy,
            framing=framing,
        )
        self._to_dict = to_dict

    def _parse(self, schema: Schema, references: Mapping[str, Schema]) -> Parsed:
        return parse(schema, references)

    def _record_name(self, parsed: Parsed) -> str:
        return parsed.name

    async def _prefix(self, registered: RegisteredSchema, own: Schema | None, parsed: Parsed, value: Any) -> bytes:  # noqa: ARG002
        if self._framing == "single_object":
            if not parsed.fingerprint:
                raise SchemaError("a schema with references has no fingerprint", hint="use framing='id'")
            return single_object(parsed.fingerprint)
        return written(self._framing, registered.id, registered.guid, None)

    def _encode(self, parsed: Parsed, value: Any) -> bytes:
        import fastavro

        plain = to_plain(value if self._to_dict is None else self._to_dict(value))
        if parsed.is_bytes:
            if not isinstance(plain, (bytes, bytearray, memoryview)):
                raise SchemaError(f"the schema is bytes, and the value is of type {type(plain).__name__}")
            return bytes(plain)
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, parsed.schema, {"value": plain})
        except Exception as error:  # fastavro has no exception class of its own
            raise _unfit(parsed, plain, error) from None
        payload = out.getvalue()
        checked(parsed.check, payload, 0)
        return payload


def _unfit(parsed: Parsed, plain: Any, error: Exception) -> SchemaError:
    """Return the error for a value that does not fit its schema, with the path of the field that does not fit."""
    import fastavro

    path = ""
    try:
        fastavro.validation.validate({"value": plain}, parsed.schema, raise_errors=True)
    except fastavro.validation.ValidationError as invalid:
        path = (invalid.errors[-1].field or "") if invalid.errors else ""
    except Exception:  # noqa: S110 - the error is useful even without the path
        pass
    path = path.removeprefix("klamm_Value.value").removeprefix(parsed.name).lstrip(".")
    return SchemaError(f"the value does not fit the Avro schema: {type(error).__name__}: {error}", path=path)


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

    @overload
    def __init__(
        self: AvroDeserializer[Any],
        registry: SchemaRegistry | AsyncSchemaRegistry,
        to: None = None,
        *,
        reader_schema: Schema | str | None = None,
        use_latest_version: bool = False,
        subject_name_strategy: SubjectNameStrategy = "TOPIC",
        id_bytes: int = 4,
        schemas: Sequence[Schema | str] = (),
    ) -> None: ...
    @overload
    def __init__(
        self: AvroDeserializer[T],
        registry: SchemaRegistry | AsyncSchemaRegistry,
        to: Callable[..., T],
        *,
        reader_schema: Schema | str | None = None,
        use_latest_version: bool = False,
        subject_name_strategy: SubjectNameStrategy = "TOPIC",
        id_bytes: int = 4,
        schemas: Sequence[Schema | str] = (),
    ) -> None: ...
    def __init__(
        self,
        registry: SchemaRegistry | AsyncSchemaRegistry,
        to: Callable[..., Any] | None = None,
        *,
        reader_schema: Schema | str | None = None,
        use_latest_version: bool = False,
        subject_name_strategy: SubjectNameStrategy = "TOPIC",
        id_bytes: int = 4,
        schemas: Sequence[Schema | str] = (),
    ) -> None:
        super().__init__(
            registry,
            to,
            use_latest_version=use_latest_version,
            subject_name_strategy=subject_name_strategy,
            id_bytes=id_bytes,
        )
        if reader_schema is not None and use_latest_version:
            raise ConfigError("reader_schema and use_latest_version exclude each other", hint="remove one of the two")
        if isinstance(schemas, (str, Schema)):
            raise ArgumentError("schemas have to be a list", hint="pass [schema]")
        self._reader_schema = _schema(reader_schema)
        self._readers: dict[tuple[AvroSchema, AvroSchema | None], AvroReader] = {}
        for schema in schemas:
            parsed = parse(cast("Schema", _schema(schema)), {})
            self._writers[parsed.fingerprint] = parsed
        if self._reader_schema is not None and not self._reader_schema.references:
            self._given = parse(self._reader_schema, {})

    _given: Parsed | None = None

    def _parse(self, schema: Schema, references: Mapping[str, Schema]) -> Parsed:
        return parse(schema, references)

    async def _find_writer(self, frame: Frame, topic: str | None, field: Field) -> Any:
        if self._reader_schema is not None and self._given is None:
            self._given = parse(self._reader_schema, await self.registry._resolve(self._reader_schema))  # noqa: SLF001
        return await super()._find_writer(frame, topic, field)

    def _record_name(self, writer: Parsed, frame: Frame) -> str:  # noqa: ARG002
        return writer.name

    def _decode(self, writer: Parsed, reader: Parsed | None, data: bytes, frame: Frame) -> Any:
        reader = self._given if reader is None else reader
        key = writer.core, None if reader is None else reader.core
        found = self._readers.get(key)
        if found is None:
            found = self._readers[key] = AvroReader(*key)
        return found.read(data, frame.start)
