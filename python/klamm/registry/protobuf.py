"""`ProtobufSerializer` and `ProtobufDeserializer` convert Protobuf messages of generated or dynamic classes.

A schema is the text of a .proto file. If `klamm.registry.proto` cannot write the text of a file without loss, the serializer
registers the serialized descriptor in base64, as confluent-kafka does.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.message import DecodeError, EncodeError, Message

from klamm.errors import ArgumentError
from klamm.registry.errors import SchemaError
from klamm.registry.framing import indexes_of, written
from klamm.registry.known_protos import is_known
from klamm.registry.messages import Compiler, json_form
from klamm.registry.pools import pool_of
from klamm.registry.proto import descriptor, lossless_text
from klamm.registry.schema import Reference, Schema
from klamm.registry.serde import BaseDeserializer, BaseSerializer, T, T_co
from klamm.registry.subjects import context_of, in_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Unpack

    from klamm.registry.client import AsyncSchemaRegistry, SchemaRegistry
    from klamm.registry.framing import Frame
    from klamm.registry.schema import RegisteredSchema
    from klamm.registry.serde import DeserializerOptions, SerializerOptions

__all__ = ["ProtobufDeserializer", "ProtobufSerializer"]

_FILE = "schema.proto"


class Parsed(NamedTuple):
    """A parsed Protobuf schema.

    Attributes:
        file: Descriptor of the file.
        pool: The pool with the file and all files that it imports.
        classes: Message classes that were created so far, by the position of the message type in the file.
        wanted_types: The results of `wanted` so far.
    """

    file: Any
    pool: Any
    classes: dict[tuple[int, ...], Any]
    wanted_types: dict[tuple[tuple[int, ...], str | None], Any]

    def named(self, name: str) -> Any:
        """Return the descriptor of the message type that the file itself declares.

        Args:
            name: Full name of the message type, or its name inside the package of the file.

        Raises:
            SchemaError: The file does not declare the message type.
        """
        for full_name in (name, f"{self.file.package}.{name}"):
            try:
                found = self.pool.FindMessageTypeByName(full_name)
            except KeyError:
                continue
            if found.file.name == self.file.name:
                return found
        raise SchemaError(
            f"the Protobuf schema has no message {name}", hint="register the schema of the message in this subject"
        )

    def chosen(self, name: str | None) -> Any:
        """Return the descriptor of the message type with this name, or of the first one if the name is None.

        Raises:
            SchemaError: The file does not declare the message type.
        """
        return self.wanted((0,), None) if name is None else self.named(name)

    def wanted(self, indexes: tuple[int, ...], name: str | None) -> Any:
        """Return the descriptor of the message type whose position a record stores.

        Java's serializer does not count the entry types of map fields, but the serializers of other languages do. If
        the position can mean two message types, the name of the expected type decides. A record's message is never a
        map entry.

        Raises:
            SchemaError: The file has no message at this position.
        """
        known = self.wanted_types.get((indexes, name))
        if known is not None:
            return known
        found = self._at(indexes, counts_entries=True)
        for each in found, self._at(indexes, counts_entries=False):
            if each is not None and not each.GetOptions().map_entry and name in (None, each.full_name):
                found = each
                break
        if found is None:
            raise SchemaError(f"the Protobuf schema has no message at position {list(indexes)}")
        self.wanted_types[indexes, name] = found
        return found

    def _at(self, indexes: tuple[int, ...], *, counts_entries: bool) -> Any:
        """Return the descriptor of the message type at a position in the file, or None."""
        messages, found = self.file.message_types_by_name.values(), None
        for index in indexes:
            counted = [each for each in messages if counts_entries or not each.GetOptions().map_entry]
            if index >= len(counted):
                return None
            found = counted[index]
            messages = found.nested_types
        return found


def parse_schema(schema: Schema, references: Mapping[str, Schema]) -> Parsed:
    """Return a parsed schema.

    Args:
        schema: The schema.
        references: The imported schemas by name.

    Raises:
        SchemaError: The schema is invalid.
    """
    files = {name: descriptor(reference.text, name) for name, reference in references.items()}
    try:
        pool = pool_of(descriptor(schema.text, _FILE), files)
        return Parsed(pool.FindFileByName(_FILE), pool, {}, {})
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaError(f"the Protobuf schema is invalid: {error}") from None


def _text(file: Any) -> str:
    """Return the text of a .proto file, or its serialized descriptor in base64 if text cannot represent the file."""
    text = lossless_text(descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb))
    return base64.b64encode(file.serialized_pb).decode("ascii") if text is None else text


class ProtobufSerializer(BaseSerializer[T]):
    """Serialize Protobuf messages. Pass the serializer to a producer as `key_serializer` or `value_serializer`.

    The serializer takes the schema from the class of the message. With `message_type`, the serializer also accepts
    dicts, dataclasses, pydantic models and NamedTuples, also inside each other. Their values have the types that
    `ProtobufDeserializer` returns with `to`, or Protobuf's JSON form.

    Args:
        registry: Client of the registry.
        message_type: Generated class of the messages. Default: messages of any class.
        auto_register_schemas: Register the schemas before the first record. If False, only look up the schemas' IDs.
            Default True.
        use_latest_version: Write with the ID of the latest version of the subject.
        use_schema_id: Write with this schema ID.
        normalize_schemas: Let the registry normalize the schema before it compares and stores the schema.
        subject_name_strategy: How to choose the subject: "TOPIC" (the default), "RECORD", "TOPIC_RECORD", or a
            function. The function gets the topic, "key" or "value", and the message name.
        reference_subject_name: Function that returns the subject of an imported file. Default: the name of the file.
        framing: How a record stores the ID of its schema; see docs/registry.md. Default "id".

    Raises:
        ConfigError: Two arguments exclude each other.
        ArgumentError: `message_type` is not a message class.

    Example:
        with klamm.Producer("localhost:9092", value_serializer=ProtobufSerializer(registry)) as producer:
            producer.send("orders", Order(id=7))
    """

    schema_type = "PROTOBUF"

    def __init__(
        self,
        registry: SchemaRegistry | AsyncSchemaRegistry,
        message_type: type[T] | None = None,
        *,
        reference_subject_name: Callable[[str], str] = str,
        **options: Unpack[SerializerOptions],
    ) -> None:
        super().__init__(registry, Schema("", "PROTOBUF"), **options)  # each message class has its own schema
        self._message_type, self._reference_subject = _message_class(message_type), reference_subject_name

    def _key(self, value: Any, topic: str | None, field: Any) -> tuple[Any, ...]:
        return topic, field, self._message(value).DESCRIPTOR

    def _message(self, value: Any) -> Any:
        if isinstance(value, Message):
            if self._message_type is not None and value.DESCRIPTOR is not self._message_type.DESCRIPTOR:
                raise SchemaError(
                    f"the serializer is for {self._message_type.DESCRIPTOR.full_name},"
                    f" and the value is a {value.DESCRIPTOR.full_name}"
                )
            return value
        if self._message_type is None:
            raise SchemaError(
                f"the value is of type {type(value).__name__}, not a Protobuf message",
                hint="pass a message, or create the serializer with message_type",
            )
        try:
            descriptor = self._message_type.DESCRIPTOR
            plain = json_form(descriptor, value)
            return json_format.ParseDict(plain, self._message_type(), descriptor_pool=descriptor.file.pool)
        except (json_format.ParseError, TypeError, ValueError, AttributeError, RecursionError) as error:
            name = self._message_type.DESCRIPTOR.full_name
            raise SchemaError(f"the value does not fit the message {name}: {error}") from None

    async def _own_schema(self, key: tuple[Any, ...]) -> tuple[Schema | None, str | None]:
        topic, field, message = key
        if self._uses_latest or self._schema_id is not None:
            return None, message.full_name
        is_alone, context = all(is_known(each.name) for each in message.file.dependencies), ""
        if not is_alone:
            context = context_of(self._subject(topic, field, message.full_name))
        return await self._schema_of(message.file, context), message.full_name

    async def _schema_of(self, file: Any, context: str) -> Schema:
        """Return the schema of a file, after its imports are registered or found in a context."""
        references = []
        for imported in file.dependencies:
            if is_known(imported.name):
                continue
            subject, schema = self._reference_subject(imported.name), await self._schema_of(imported, context)
            full_name = in_context(subject, context)
            if self._registers:
                await self.registry._register(full_name, schema, self._normalize)  # noqa: SLF001
            # Only some releases of the registry return the version in the response to a registration.
            registered = await self.registry._lookup(full_name, schema, self._normalize, False)  # noqa: SLF001
            references.append(Reference(imported.name, subject, registered.version or 1))
        return Schema(_text(file), "PROTOBUF", tuple(references))

    def _record_name(self, parsed: Any) -> str | None:  # noqa: ARG002
        return None

    async def _parsed(self, registered: RegisteredSchema) -> Any:  # noqa: ARG002
        return None  # a message encodes itself, so the serializer needs no parsed schema

    async def _prefix(self, registered: RegisteredSchema, own: Schema | None, parsed: Any, kind: Any) -> bytes:  # noqa: ARG002
        """Return the schema ID and the position of the message type in the registered schema.

        The registered schema can have the message types in another order than the file of the application.
        """
        message = kind
        if registered.schema != own:
            of_registry: Parsed | None = None
            try:
                of_registry = await super()._parsed(registered)
            except SchemaError:
                # The registry can return the application's own file in a form that klamm cannot parse.
                if own is None:
                    raise
            try:
                message = message if of_registry is None else of_registry.named(message.full_name)
            except SchemaError as error:
                error.schema_id, error.subject = registered.id, registered.subject
                raise
        return written(self._framing, registered.id, registered.guid, indexes_of(message))

    def _parse(self, schema: Schema, references: Mapping[str, Schema]) -> Parsed:
        return parse_schema(schema, references)

    def _encode(self, parsed: Any, value: Any) -> bytes:  # noqa: ARG002
        try:
            payload: bytes = self._message(value).SerializeToString()
        except (EncodeError, ValueError) as error:
            raise SchemaError(f"the message cannot be serialized: {error}") from None
        return payload


def _message_class(given: Any) -> Any:
    if given is not None and not (isinstance(given, type) and issubclass(given, Message)):
        raise ArgumentError(f"message_type has to be a Protobuf message class, not {given!r}")
    return given


class ProtobufDeserializer(BaseDeserializer[T_co]):
    """Deserialize Protobuf messages. Pass the deserializer to a consumer as `key_deserializer` or `value_deserializer`.

    Args:
        registry: Client of the registry.
        message_type: Generated class of the messages. Default: dynamic messages with the schema of the writer.
        to: Type of the results: a dataclass, a pydantic model, a TypedDict or `dict`. A function that converts a dict
            is also possible. docs/registry.md lists the types of the values.
        use_latest_version: Decode dynamic messages with the latest version of the subject.
        subject_name_strategy: How to find the subject for `use_latest_version`.
        id_bytes: Length of schema IDs in bytes: 4, or 8 for an Apicurio Registry with IDs of eight bytes.

    Raises:
        ArgumentError: `message_type` is not a message class.

    Example:
        deserializer = ProtobufDeserializer(registry, Order)
        with klamm.Consumer("localhost:9092", topics=["orders"], value_deserializer=deserializer) as consumer:
            for record in consumer:
                print(record.value.id)
    """

    schema_type = "PROTOBUF"
    _has_indexes = True

    @overload
    def __init__(
        self: ProtobufDeserializer[T],
        registry: SchemaRegistry | AsyncSchemaRegistry,
        message_type: type[T] | None = None,
        *,
        to: None = None,
        **options: Unpack[DeserializerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: ProtobufDeserializer[T],
        registry: SchemaRegistry | AsyncSchemaRegistry,
        message_type: type | None = None,
        *,
        to: Callable[..., T],
        **options: Unpack[DeserializerOptions],
    ) -> None: ...
    def __init__(
        self,
        registry: SchemaRegistry | AsyncSchemaRegistry,
        message_type: type | None = None,
        *,
        to: Callable[..., Any] | None = None,
        **options: Unpack[DeserializerOptions],
    ) -> None:
        super().__init__(registry, to, **options)
        self._message_type = _message_class(message_type)
        # The convert function of a class has defaults for fields that are not set; `dict` and functions have none.
        self._compiler = None if to is None else Compiler(has_none=self._convert is to)

    def _parse(self, schema: Schema, references: Mapping[str, Schema]) -> Parsed:
        return parse_schema(schema, references)

    def _record_name(self, writer: Parsed, frame: Frame) -> str:
        return str(writer.wanted(frame.indexes, None).full_name)

    def _decode(self, writer: Parsed, reader: Parsed | None, data: bytes, frame: Frame) -> Any:
        name = None if self._message_type is None else self._message_type.DESCRIPTOR.full_name
        wanted = writer.wanted(frame.indexes, name)
        if self._message_type is not None:
            message, expected = self._message_type(), self._message_type.DESCRIPTOR
            if wanted.full_name != expected.full_name:
                raise SchemaError(f"the record has a {wanted.full_name}, not a {expected.full_name}")
        else:
            message = _class_of(writer if reader is None else reader, wanted, frame.indexes)()
        try:
            message.ParseFromString(data[frame.start :])
        except (DecodeError, ValueError) as error:
            raise SchemaError(f"the value is not a {wanted.full_name}: {error}") from None
        return message if self._compiler is None else self._compiler.fields_of(message.DESCRIPTOR)(message)


def _class_of(parsed: Parsed, wanted: Any, indexes: tuple[int, ...]) -> Any:
    """Return the class for dynamic messages with the name of `wanted`.

    The function searches by name, because a reader schema can have the message type at a different position.
    """
    found = parsed.classes.get(indexes)
    if found is None:
        try:
            message = parsed.pool.FindMessageTypeByName(wanted.full_name)
        except KeyError:
            raise SchemaError(f"the latest version of the schema has no message {wanted.full_name}") from None
        found = parsed.classes[indexes] = message_factory.GetMessageClass(message)
    return found
