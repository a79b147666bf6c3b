"""The base classes of all serializers and deserializers.

The base classes handle subjects, registration, framing, caching and errors.

The module of each format parses schemas, and encodes or decodes values. Producers and consumers call `serialize` and
`deserialize` with topic and headers, through `klamm.hooks`. Applications can also call `serialize` and `deserialize`
directly. The registry client can be blocking or asyncio. On an event loop, `prepare` looks up schemas before
`serialize` or `deserialize`, so that the lookup does not block the loop.
"""

from __future__ import annotations

import copy
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from klamm.errors import ArgumentError, ConfigError, KafkaError
from klamm.hints import arguments_of, keyword_hint
from klamm.registry.client import AsyncSchemaRegistry, SchemaRegistry
from klamm.registry.convert import converter
from klamm.registry.errors import RegistryUnavailableError, SchemaError, SchemaNotFoundError
from klamm.registry.framing import FRAMINGS, HEADERS, frames, without_framing, written
from klamm.registry.rules import check_rules
from klamm.registry.schema import RegisteredSchema
from klamm.registry.subjects import check_strategy, context_of, lookup_subject, subject_of
from klamm.waiting import run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from klamm.registry.framing import Frame, Framing
    from klamm.registry.schema import Schema, SchemaType
    from klamm.registry.subjects import Field, SubjectNameStrategy

    Headers = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None] | None

_MAX_FAILURES = 1000
"""A deserializer stores the errors of at most this many failed lookups."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0
"""Pauses between the attempts of a failed lookup that repeats in the background, in seconds."""
if TYPE_CHECKING:
    import typing_extensions

    T = typing_extensions.TypeVar("T", default=Any)
    T_co = typing_extensions.TypeVar("T_co", covariant=True, default=Any)
else:
    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)
"""Types of the values of serializers and deserializers. If no argument determines the type, it is Any."""
T_contra = TypeVar("T_contra", contravariant=True)


class SerializerOptions(TypedDict, total=False):
    """The options that the serializers of all formats have."""

    auto_register_schemas: bool | None
    use_latest_version: bool
    use_schema_id: int | None
    normalize_schemas: bool
    subject_name_strategy: SubjectNameStrategy
    framing: Framing


class DeserializerOptions(TypedDict, total=False):
    """The options that the deserializers of all formats have."""

    use_latest_version: bool
    subject_name_strategy: SubjectNameStrategy
    id_bytes: int


class _Serde:
    """The base class of serializers and deserializers."""

    schema_type: SchemaType

    def __init__(
        self, registry: SchemaRegistry | AsyncSchemaRegistry, subject_name_strategy: SubjectNameStrategy
    ) -> None:
        if not isinstance(registry, (SchemaRegistry, AsyncSchemaRegistry)):
            raise ArgumentError(f"registry has to be a SchemaRegistry, not {type(registry).__name__}")
        self.registry = registry
        self._strategy = check_strategy(subject_name_strategy)

    def _refuse(self, unknown: Iterable[str], options: type) -> None:
        """Raise an error that names the class of the application, and not the base class, for an unknown argument."""
        for name in unknown:
            known = [*arguments_of(type(self).__init__), *options.__annotations__]
            raise ArgumentError(f"{type(self).__name__}() has no argument {name}", hint=keyword_hint(name, known))

    def _now(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a lookup in the calling thread."""
        if isinstance(self.registry, AsyncSchemaRegistry):
            coroutine.close()
            raise ConfigError(
                "the schema is not known yet, and an AsyncSchemaRegistry can only be used with await",
                hint="use it with an AsyncProducer or AsyncConsumer, await prepare(...) first, or use a SchemaRegistry",
            )
        return run(coroutine)

    async def _await(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a lookup from an event loop. With a blocking registry client, a thread runs the lookup."""
        if isinstance(self.registry, AsyncSchemaRegistry):
            return await make()
        import asyncio

        return await asyncio.to_thread(lambda: run(make()))

    async def _parsed(self, registered: RegisteredSchema) -> Any:
        """Look up the references of a schema, and return the parsed schema."""
        schema = registered.schema
        where = registered.id if registered.id >= 0 else registered.guid
        if schema.type != self.schema_type:
            raise SchemaError(f"the schema is of type {schema.type}, not {self.schema_type}", schema_id=where)
        try:
            return self._parse(schema, await self.registry._resolve(schema, registered.context))
        except SchemaError as error:
            error.schema_id = where if error.schema_id is None else error.schema_id
            raise

    def _parse(self, schema: Schema, references: Mapping[str, Schema]) -> Any:
        raise NotImplementedError


class Target:
    """The parsed schema with which a serializer writes, and the bytes of the schema ID before each value."""

    __slots__ = ("parsed", "prefix", "schema_id", "subject", "until")

    def __init__(self, registered: RegisteredSchema, subject: str, parsed: Any, until: float | None) -> None:
        self.schema_id = registered.id
        self.subject = subject
        self.parsed = parsed
        self.until = until
        self.prefix = b""


class BaseSerializer(_Serde, Generic[T_contra]):
    """The base class of the serializers of all formats."""

    def __init__(
        self,
        registry: SchemaRegistry | AsyncSchemaRegistry,
        schema: Schema | None,
        *,
        auto_register_schemas: bool | None = None,
        use_latest_version: bool = False,
        use_schema_id: int | None = None,
        normalize_schemas: bool = False,
        subject_name_strategy: SubjectNameStrategy = "TOPIC",
        framing: Framing = "id",
        **unknown: object,
    ) -> None:
        self._refuse(unknown, SerializerOptions)
        super().__init__(registry, subject_name_strategy)
        if framing not in FRAMINGS or (framing == "single_object" and self.schema_type != "AVRO"):
            raise ConfigError(f"framing cannot be {framing!r}", hint=f"allowed: {', '.join(FRAMINGS[:-1])}")
        is_given = use_latest_version or use_schema_id is not None
        if (auto_register_schemas and is_given) or (use_latest_version and use_schema_id is not None):
            raise ConfigError(
                "auto_register_schemas, use_latest_version and use_schema_id exclude each other",
                hint="with use_latest_version or use_schema_id, the serializer uses a registered schema",
            )
        if schema is None and not is_given:
            raise ConfigError("the serializer has no schema", hint="pass a schema, or set use_latest_version=True")
        if schema is not None and schema.type != self.schema_type:
            raise ConfigError(f"the schema is of type {schema.type}, not {self.schema_type}")
        self._schema = schema
        self._registers = not is_given and auto_register_schemas is not False
        self._uses_latest, self._schema_id = use_latest_version, use_schema_id
        self._normalize, self._framing = normalize_schemas, framing
        self._targets: dict[Any, Target] = {}

    def __call__(self, value: T_contra) -> bytes:
        """Serialize a value without a topic. The subject name strategy must not need a topic."""
        return self.serialize(value)

    def serialize(
        self,
        value: T_contra,
        topic: str | None = None,
        field: Field = "value",
        headers: list[tuple[str, bytes | None]] | None = None,
    ) -> bytes:
        """Serialize a value. The schema ID comes before the value, or goes into a record header.

        Args:
            value: The value.
            topic: Topic of the record.
            field: "key" or "value".
            headers: Headers of the record. The serializer removes the header with the schema ID of an earlier value. With
                the framing "header_id" or "header_guid", it appends a new header.

        Returns:
            The bytes of the key or value in the record.

        Raises:
            SchemaError: The value does not fit the schema.
            SchemaRegistryError: The schema is not registered, or the registry failed.
        """
        key = self._key(value, topic, field)
        target = self._known(key)
        if target is None:
            target = self._now(self._find(key))
        try:
            payload = self._encode(target.parsed, value)
        except SchemaError as error:
            error.schema_id, error.subject = target.schema_id, target.subject
            raise
        if headers:
            headers[:] = without_framing(headers, field)
        if not self._framing.startswith("header"):
            return target.prefix + payload
        if headers is None:
            raise ConfigError(
                f"framing={self._framing!r} needs the headers of the record", hint="pass a list as headers"
            )
        headers.append((HEADERS[field], target.prefix))
        return payload

    async def prepare(self, value: T_contra, topic: str | None = None, field: Field = "value") -> None:
        """Look up or register the schema for a value, so that `serialize` needs no request.

        Args:
            value: The value.
            topic: Topic of the record.
            field: "key" or "value".
        """
        key = self._key(value, topic, field)
        if self._known(key) is None:
            await self._await(lambda: self._find(key))

    def is_prepared(self, value: T_contra, topic: str | None, field: Field) -> bool:
        """Return whether `serialize` can serialize the value without a request to the registry."""
        return self._known(self._key(value, topic, field)) is not None

    def _key(self, value: Any, topic: str | None, field: Field) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the key under which the serializer caches the schema for this value."""
        return topic, field, None

    def _known(self, key: tuple[Any, ...]) -> Target | None:
        target = self._targets.get(key)
        if target is not None and target.until is not None and time.monotonic() >= target.until:
            return None
        return target

    async def _find(self, key: tuple[Any, ...]) -> Target:
        topic, field, kind = key
        schema, name = await self._own_schema(key)
        registry, until = self.registry, None
        if schema is not None:
            check_rules(registry, schema, "write")
        if self._schema_id is not None:
            registered = await registry._get_by_id(self._schema_id, lookup_subject(self._strategy, topic, field))
            check_rules(registry, registered.schema, "write", registered.id)
            parsed = await self._parsed(registered)
            subject = self._subject(topic, field, name or self._record_name(parsed))
        else:
            subject = self._subject(topic, field, name)
            if self._uses_latest:
                registered = await registry._cached_latest(subject)
                lifetime = registry._settings.cache_latest_ttl
                until = None if lifetime is None else time.monotonic() + lifetime
            elif schema is None:
                raise AssertionError("a serializer without a schema has a subject or an ID")
            elif self._registers:
                registered = await registry._register(subject, schema, self._normalize)
            else:
                registered = await registry._lookup(subject, schema, self._normalize, False)
            # The registry can add the rules of the subject to a schema.
            check_rules(registry, registered.schema, "write", registered.id)
            # The registry can return the schema in another form. The application's own schema takes precedence.
            mine = registered if self._uses_latest or schema is None else replace(registered, schema=schema)
            parsed = await self._parsed(mine)
        target = Target(registered, subject, parsed, until)
        target.prefix = await self._prefix(await self._with_guid(registered), schema, target.parsed, kind)
        self._targets[key] = target
        return target

    async def _with_guid(self, registered: RegisteredSchema) -> RegisteredSchema:
        """Request the GUID of a schema if the framing needs it.

        Only some releases of the registry return the GUID in the response to a registration.
        """
        if registered.guid is None and self._framing in ("guid", "header_guid"):
            return await self.registry._get_by_id(registered.id, registered.subject)
        return registered

    def _subject(self, topic: str | None, field: Field, name: str | None) -> str:
        return subject_of(self._strategy, topic, field, name)

    async def _own_schema(self, key: tuple[Any, ...]) -> tuple[Schema | None, str | None]:
        """Return the schema that the application passed and the name of its record type, or None for both.

        The references of the schema are subjects in the context of the serializer's subject.

        Args:
            key: The result of `_key`.
        """
        if self._schema is None:
            return None, None
        # Without references, the strategy is called once, with the name of the record type.
        subject = lookup_subject(self._strategy, *key[:2]) if self._schema.references else None
        parsed = await self._parsed(RegisteredSchema(self._schema, -1, context=context_of(subject)))
        return self._schema, self._record_name(parsed)

    async def _prefix(self, registered: RegisteredSchema, own: Schema | None, parsed: Any, kind: Any) -> bytes:  # noqa: ARG002
        return written(self._framing, registered.id, registered.guid, None)

    def _record_name(self, parsed: Any) -> str | None:
        raise NotImplementedError

    def _encode(self, parsed: Any, value: Any) -> bytes:
        raise NotImplementedError


class _FailedLookup:
    """A lookup of an event loop that failed, and its repetition in the background.

    Attributes:
        error: The last error.
        loop: The event loop.
    """

    __slots__ = ("_find", "_is_repeated", "_pause", "_task", "_until", "error", "loop")

    def __init__(self, error: KafkaError, loop: Any, find: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.error, self.loop, self._find = error, loop, find
        self._is_repeated, self._pause, self._until = False, 0.0, 0.0

    def repeat(self, seconds: float) -> None:
        """Start the lookup again on its event loop, unless it repeats already. Any thread may call this method.

        While the registry does not answer, further attempts follow for some seconds.
        """
        self._until = time.monotonic() + seconds
        if not self._is_repeated and not self.loop.is_closed():
            self._is_repeated, self._pause = True, _FIRST_PAUSE
            self.loop.call_soon_threadsafe(self._attempt)

    def _attempt(self) -> None:
        # A timer and not a sleeping task: an event loop can close while timers wait.
        self._task = self.loop.create_task(self._find())
        self._task.add_done_callback(self._attempted)

    def _attempted(self, task: Any) -> None:
        self._is_repeated = False
        if task.cancelled() or task.exception() is None:
            return
        if isinstance(task.exception(), RegistryUnavailableError) and time.monotonic() < self._until:
            self._is_repeated = True
            self.loop.call_later(self._pause, self._attempt)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)


class BaseDeserializer(_Serde, Generic[T_co]):
    """The base class of the deserializers of all formats."""

    _has_indexes = False

    def __init__(
        self,
        registry: SchemaRegistry | AsyncSchemaRegistry,
        to: Any,
        *,
        use_latest_version: bool = False,
        subject_name_strategy: SubjectNameStrategy = "TOPIC",
        id_bytes: int = 4,
        **unknown: object,
    ) -> None:
        self._refuse(unknown, DeserializerOptions)
        super().__init__(registry, subject_name_strategy)
        if id_bytes not in (4, 8):
            raise ConfigError(f"id_bytes cannot be {id_bytes!r}", hint="allowed: 4, 8")
        self._convert = None if to is None else converter(to)
        self._uses_latest, self._id_bytes = use_latest_version, id_bytes
        self._writers: dict[Any, Any] = {}
        self._latest: dict[str, tuple[Any, float | None]] = {}
        self._failures: dict[Any, _FailedLookup] = {}
        self._schemas: dict[Any, Schema] = {}
        self._contexts: dict[tuple[str | None, Field], str] = {}

    def __call__(self, data: bytes) -> T_co:
        """Deserialize bytes without a topic and headers."""
        return self.deserialize(data)

    def deserialize(
        self, data: bytes, topic: str | None = None, field: Field = "value", headers: Headers = None
    ) -> T_co:
        """Deserialize the bytes of a key or value.

        Args:
            data: The bytes of the key or value in the record.
            topic: Topic of the record. `use_latest_version` needs the topic.
            field: "key" or "value".
            headers: Headers of the record, which can contain the schema ID.

        Raises:
            SchemaError: The bytes are damaged, or do not fit their schema.
            SchemaRegistryError: The registry does not have the schema, or failed.
        """
        first, *others = self._frames(data, field, headers)
        try:
            return self._deserialized(data, first, topic, field)
        except (SchemaError, SchemaNotFoundError):
            for frame in others:
                with suppress(SchemaError, SchemaNotFoundError):
                    return self._deserialized(data, frame, topic, field)
            raise

    def _deserialized(self, data: bytes, frame: Frame, topic: str | None, field: Field) -> T_co:
        try:
            key = self._key(frame, topic, field)
            writer = self._writers.get(key)
            if writer is None:
                self._raise_failure(key)
                writer = self._now(self._find_writer(frame, topic, field))
            reader = None
            if self._uses_latest:
                subject = subject_of(self._strategy, topic, field, self._record_name(writer, frame))
                reader = self._known_latest(subject)
                if reader is None:
                    self._raise_failure(subject)
                    reader = self._now(self._find_latest(subject))
                self._check_migration(key, subject)
            plain = self._decode(writer, reader, data, frame)
            return plain if self._convert is None else self._convert(plain)  # type: ignore[no-any-return]
        except SchemaError as error:
            if error.schema_id is None:
                error.schema_id = _shown(frame)
            raise
        except KafkaError:
            raise
        except Exception as error:
            raise SchemaError(
                f"cannot convert the value: {type(error).__name__}: {error}", schema_id=_shown(frame)
            ) from error

    async def prepare(
        self, data: bytes, topic: str | None = None, field: Field = "value", headers: Headers = None
    ) -> None:
        """Look up the schemas for a key or value, so that `deserialize` needs no request.

        The arguments are the same as for `deserialize`.
        """
        *others, last = self._frames(data, field, headers)
        for frame in others:
            with suppress(SchemaError, SchemaNotFoundError):
                await self._prepare(frame, topic, field)
                self._deserialized(data, frame, topic, field)
                return
        await self._prepare(last, topic, field)

    async def _prepare(self, frame: Frame, topic: str | None, field: Field) -> None:
        key = self._key(frame, topic, field)
        writer = self._writers.get(key)
        if writer is None:
            writer = await self._prepared(key, lambda: self._find_writer(frame, topic, field))
        if self._uses_latest:
            subject = subject_of(self._strategy, topic, field, self._record_name(writer, frame))
            if self._known_latest(subject) is None:
                await self._prepared(subject, lambda: self._find_latest(subject))

    async def _prepared(self, key: Any, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a lookup on the event loop.

        If the lookup fails, store the error, so that `deserialize` raises the error without blocking the event loop.
        """
        import asyncio

        try:
            found = await self._await(make)
        except KafkaError as error:
            known, loop = self._failures.get(key), asyncio.get_running_loop()
            if known is None or known.loop is not loop:
                self._failures[key] = _FailedLookup(error, loop, lambda: self._prepared(key, make))
            else:
                known.error = error
            while len(self._failures) > _MAX_FAILURES:
                del self._failures[next(iter(self._failures))]
            raise
        self._failures.pop(key, None)
        return found

    def look_up_again(self, key: Any) -> None:
        """Start a failed lookup again in the background.

        Args:
            key: The result of `missing`.
        """
        failure = self._failures.get(key)
        if failure is not None:
            failure.repeat(self.registry._settings.timeout)

    def _raise_failure(self, key: Any) -> None:
        """Raise the error of a lookup that failed on an event loop, and start the lookup again.

        Outside of an event loop, forget the error, so that the calling thread looks up the schema.
        """
        failure = self._failures.get(key)
        if failure is None:
            return
        if not isinstance(self.registry, AsyncSchemaRegistry) and not _is_on_loop():
            self._failures.pop(key, None)
            return
        self.look_up_again(key)
        raise copy.copy(failure.error) from None

    def is_prepared(self, data: bytes, topic: str | None, field: Field, headers: Headers) -> bool:
        """Return whether `deserialize` works without a request to the registry. For damaged bytes, return True."""
        return self.missing(data, topic, field, headers) is None

    def missing(self, data: bytes, topic: str | None, field: Field, headers: Headers) -> Any:
        """Return the schema ID or subject that `deserialize` has to look up in the registry, or None.

        For damaged bytes, return None.
        """
        try:
            *others, last = self._frames(data, field, headers)
            for frame in others:
                missing = self._missing_of(frame, topic, field)
                if missing is not None and self._key(frame, topic, field) not in self._failures:
                    return missing
                with suppress(SchemaError, SchemaNotFoundError):
                    self._deserialized(data, frame, topic, field)
                    return None
            return self._missing_of(last, topic, field)
        except KafkaError:
            return None

    def _missing_of(self, frame: Frame, topic: str | None, field: Field) -> Any:
        key = self._key(frame, topic, field)
        writer = self._writers.get(key)
        if writer is None:
            return key
        if not self._uses_latest:
            return None
        subject = subject_of(self._strategy, topic, field, self._record_name(writer, frame))
        return subject if self._known_latest(subject) is None else None

    def _frames(self, data: bytes, field: Field, headers: Headers) -> list[Frame]:
        """Return the framings that a key or value can have. If it cannot be decoded with the first, try the next."""
        header = None
        if headers:
            name = HEADERS[field]
            pairs = headers.items() if hasattr(headers, "items") else headers
            for key, value in pairs:
                if key == name and value is not None:
                    header = value  # the last header of a name counts, as in Java
        is_avro = self.schema_type == "AVRO"
        return frames(data, header, id_bytes=self._id_bytes, has_indexes=self._has_indexes, is_avro=is_avro)

    def _key(self, frame: Frame, topic: str | None, field: Field) -> Any:
        """Return the key of a writer's schema: its ID, with its context unless this is the default context.

        The default context is the context of all subjects that start with a topic or with the name of a record type.
        """
        if not callable(self._strategy) or isinstance(frame.schema, bytes):
            return frame.schema
        context = self._contexts.get((topic, field))
        if context is None:
            context = self._contexts[topic, field] = context_of(lookup_subject(self._strategy, topic, field))
        return (context, frame.schema) if context else frame.schema

    async def _find_writer(self, frame: Frame, topic: str | None, field: Field) -> Any:
        found = frame.schema
        if isinstance(found, bytes):
            raise SchemaError(
                "a fingerprint cannot be looked up in the registry",
                hint="pass the schema of the writers as `schemas` of an AvroDeserializer",
                schema_id=found.hex(),
            )
        registry, subject = self.registry, lookup_subject(self._strategy, topic, field)
        get = registry._get_by_guid if isinstance(found, str) else registry._get_by_id
        schema = await get(found, subject)  # type: ignore[arg-type]
        check_rules(registry, schema.schema, "read", found)
        writer = await self._parsed(schema)
        key = self._key(frame, topic, field)
        self._schemas[key] = schema.schema
        self._writers[key] = writer
        return writer

    def _check_migration(self, key: Any, subject: str) -> None:
        """Refuse to convert a value to the latest version if one of the two schemas has migration rules."""
        writer, reader = self._schemas.get(key), self._schemas[subject]
        if writer is not None and writer.text != reader.text:
            for schema in (writer, reader):
                check_rules(self.registry, schema, "migrate", key[1] if isinstance(key, tuple) else key)

    def _known_latest(self, subject: str) -> Any:
        reader, until = self._latest.get(subject, (None, None))
        return None if until is not None and time.monotonic() >= until else reader

    async def _find_latest(self, subject: str) -> Any:
        latest = await self.registry._cached_latest(subject)
        check_rules(self.registry, latest.schema, "read", latest.id)
        reader = await self._parsed(latest)
        self._schemas[subject] = latest.schema
        lifetime = self.registry._settings.cache_latest_ttl
        self._latest[subject] = reader, None if lifetime is None else time.monotonic() + lifetime
        return reader

    def _record_name(self, writer: Any, frame: Frame) -> str | None:
        raise NotImplementedError

    def _decode(self, writer: Any, reader: Any, data: bytes, frame: Frame) -> Any:
        raise NotImplementedError


def _is_on_loop() -> bool:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _shown(frame: Frame) -> int | str:
    return frame.schema.hex() if isinstance(frame.schema, bytes) else frame.schema
