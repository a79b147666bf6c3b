"""`JsonSerializer` and `JsonDeserializer` for JSON values, which the package jsonschema-rs validates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from klamm.errors import ConfigError
from klamm.registry.convert import to_plain
from klamm.registry.errors import SchemaError
from klamm.registry.schema import Schema
from klamm.registry.serde import BaseDeserializer, BaseSerializer, T

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from klamm.registry.client import AsyncSchemaRegistry, SchemaRegistry
    from klamm.registry.framing import Frame, Framing
    from klamm.registry.subjects import SubjectNameStrategy

__all__ = ["JsonDeserializer", "JsonSerializer"]

T_co = TypeVar("T_co", covariant=True)


class Parsed(NamedTuple):
    """A parsed JSON Schema.

    Attributes:
        validator: The validator of jsonschema-rs.
        name: The title of the schema, or None.
    """

    validator: Any
    name: str | None


def parse(schema: Schema, references: Mapping[str, Schema]) -> Parsed:
    """Return a parsed schema.

    Args:
        schema: The schema.
        references: The referenced schemas by name.

    Raises:
        SchemaError: The schema is invalid.
    """
    try:
        import jsonschema_rs
    except ImportError:
        raise ConfigError("JSON Schema needs jsonschema-rs", hint="pip install 'klamm[registry]'") from None
    try:
        loaded = json.loads(schema.text)
        draft7: Any = jsonschema_rs.Draft7Validator
        known = []
        for name, reference in references.items():
            content = json.loads(reference.text)
            known.append((name, content))
            if isinstance(content, dict) and isinstance(own := content.get("$id"), str):
                known.append((own, content))
        has_draft = isinstance(loaded, dict) and "$schema" in loaded
        kind = jsonschema_rs.validator_cls_for(loaded) if has_draft else draft7
        # The validator must not fetch an unknown reference from the network (offline=True).
        validator = kind(
            loaded,
            registry=jsonschema_rs.Registry(known, draft=jsonschema_rs.Draft7) if known else None,
            offline=True,
            validate_formats=False,
        )
    except Exception as error:
        message = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
        raise SchemaError(f"the JSON Schema is invalid: {message}") from None
    title = loaded.get("title") if isinstance(loaded, dict) else None
    return Parsed(validator, title if isinstance(title, str) else None)


def _validate(parsed: Parsed, plain: Any) -> None:
    try:
        if parsed.validator.is_valid(plain):
            return
        error = min(map(_innermost, parsed.validator.iter_errors(plain)), key=lambda found: len(found.instance_path))
    except Exception as failure:
        raise SchemaError(f"the value cannot be compared with the JSON Schema: {failure}") from None
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    # The validator's own message contains the value, which can be long.
    message = error.message if len(error.message) <= 300 else f"{error.message[:300]}…"  # noqa: PLR2004
    raise SchemaError(f"the value does not fit the JSON Schema: {message}", path=path.removeprefix("."))


def _innermost(error: Any) -> Any:
    """Return the most specific error. If a value fits no alternative, choose the alternative that fits best."""
    alternatives = [branch for branch in getattr(error.kind, "context", ()) if branch]
    if not alternatives:
        return error
    inner = max((_innermost(branch[0]) for branch in alternatives), key=lambda found: len(found.instance_path))
    return inner if len(inner.instance_path) > len(error.instance_path) else error


class JsonSerializer(BaseSerializer[T]):
    """Serialize values as JSON with a JSON Schema.

    Pass the serializer to a producer as `key_serializer` or `value_serializer`.

    A value must have a type that `json.dumps` accepts. The serializer also accepts dataclasses, pydantic models and
    enums.

    Args:
        registry: Client of the registry.
        schema: The schema, or its text. The schema is optional with `use_latest_version` or `use_schema_id`.
        validate: Validate values before they are sent. Default True.
        auto_register_schemas: Register the schema before the first record. If False, only look up the schema's ID.
            Default True.
        use_latest_version: Write with the latest schema version of the subject.
        use_schema_id: Write with the schema that has this ID.
        normalize_schemas: Let the registry normalize the schema before it compares and stores the schema.
        subject_name_strategy: How to choose the subject: "TOPIC" (the default), "RECORD", "TOPIC_RECORD", or a
            function. The function gets the topic, "key" or "value", and the title of the schema.
        framing: How a record stores the ID of its schema; see docs/registry.md. Default "id".
        to_dict: Function that converts a value to a dict before encoding.

    Raises:
        ConfigError: Two arguments exclude each other, or the schema is invalid.

    Example:
        serializer = JsonSerializer(registry, '{"title": "Order", "type": "object", "required": ["id"]}')
        with klamm.Producer("localhost:9092", value_serializer=serializer) as producer:
            producer.send("orders", {"id": 7})
    """

    schema_type = "JSON"

    def __init__(
        self,
        registry: SchemaRegistry | AsyncSchemaRegistry,
        schema: Schema | str | None = None,
        *,
        validate: bool = True,
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
            Schema(schema, "JSON") if isinstance(schema, str) else schema,
            auto_register_schemas=auto_register_schemas,
            use_latest_version=use_latest_version,
            use_schema_id=use_schema_id,
            normalize_schemas=normalize_schemas,
            subject_name_strategy=subject_name_strategy,
            framing=framing,
        )
        self._to_dict, self._validates = to_dict, validate

    def _parse(self, schema: Schema, references: Mapping[str, Schema]) -> Parsed:
        return parse(schema, references)

    def _record_name(self, parsed: Parsed) -> str | None:
        return parsed.name

    def _encode(self, parsed: Parsed, value: Any) -> bytes:
        plain = to_plain(value if self._to_dict is None else self._to_dict(value), is_json=True)
        if self._validates:
            _validate(parsed, plain)
        try:
            return json.dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SchemaError(f"the value cannot be written as JSON: {error}") from None


class JsonDeserializer(BaseDeserializer[T_co]):
    """Deserialize JSON with a JSON Schema. Pass the deserializer to a consumer as `key_deserializer` or `value_deserializer`.

    A JSON object becomes a dict, or the type that `to` specifies.

    Args:
        registry: Client of the registry.
        to: Type of the results: a dataclass, a pydantic model or a TypedDict, or a function that converts a dict.
        validate: Validate values against the schema of the writer. Default True.
        use_latest_version: Validate values against the latest version of the subject instead of the writer's schema.
        subject_name_strategy: How to find the subject for `use_latest_version`.
        id_bytes: Length of schema IDs in bytes: 4, or 8 for an Apicurio Registry with IDs of eight bytes.

    Example:
        deserializer = JsonDeserializer(registry, Order)
        with klamm.Consumer("localhost:9092", topics=["orders"], value_deserializer=deserializer) as consumer:
            for record in consumer:
                print(record.value.id)
    """

    schema_type = "JSON"

    @overload
    def __init__(
        self: JsonDeserializer[Any],
        registry: SchemaRegistry | AsyncSchemaRegistry,
        to: None = None,
        *,
        validate: bool = True,
        use_latest_version: bool = False,
        subject_name_strategy: SubjectNameStrategy = "TOPIC",
        id_bytes: int = 4,
    ) -> None: ...
    @overload
    def __init__(
        self: JsonDeserializer[T],
        registry: SchemaRegistry | AsyncSchemaRegistry,
        to: Callable[..., T],
        *,
        validate: bool = True,
        use_latest_version: bool = False,
        subject_name_strategy: SubjectNameStrategy = "TOPIC",
        id_bytes: int = 4,
    ) -> None: ...
    def __init__(
        self,
        registry: SchemaRegistry | AsyncSchemaRegistry,
        to: Callable[..., Any] | None = None,
        *,
        validate: bool = True,
        use_latest_version: bool = False,
        subject_name_strategy: SubjectNameStrategy = "TOPIC",
        id_bytes: int = 4,
    ) -> None:
        super().__init__(
            registry,
            to,
            use_latest_version=use_latest_version,
            subject_name_strategy=subject_name_strategy,
            id_bytes=id_bytes,
        )
        self._validates = validate

    def _parse(self, schema: Schema, references: Mapping[str, Schema]) -> Parsed:
        return parse(schema, references)

    def _record_name(self, writer: Parsed, frame: Frame) -> str | None:  # noqa: ARG002
        return writer.name

    def _decode(self, writer: Parsed, reader: Parsed | None, data: bytes, frame: Frame) -> Any:
        try:
            plain = json.loads(data[frame.start :].decode())
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"the value is not JSON: {type(error).__name__}: {error}") from None
        if self._validates:
            _validate(reader or writer, plain)
        return plain
