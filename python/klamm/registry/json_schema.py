"""`JsonSerializer` and `JsonDeserializer` for JSON values, which the package jsonschema-rs validates."""

from __future__ import annotations

import json
import re
import secrets
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urljoin

from klamm.errors import ConfigError
from klamm.registry.convert import to_json
from klamm.registry.errors import SchemaError
from klamm.registry.schema import Schema
from klamm.registry.serde import BaseDeserializer, BaseSerializer, T, T_co

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import Unpack

    from klamm.registry.client import AsyncSchemaRegistry, SchemaRegistry
    from klamm.registry.framing import Frame
    from klamm.registry.serde import DeserializerOptions, SerializerOptions

__all__ = ["JsonDeserializer", "JsonSerializer"]


_BASE = "http://schema.invalid/"
"""Base URI of schemas without `$id`, under a host name that never exists (RFC 2606)."""
_DRAFT = "http://json-schema.org/draft-07/schema#"
"""Draft of schemas that do not name their draft."""
_MAX_DEPTH = 500
"""Deepest nesting of a value. The validator needs up to 1.6 KB of stack for each level."""
_MAX_BASES = 50
"""Number of base URIs that a relative name of a reference is resolved against."""
_OF_NAMES = {"properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies"}
"""Keywords whose values have names as keys, which are not keywords."""
_OF_DATA = {"const", "enum", "default", "examples"}
"""Keywords whose values are data and not schemas."""
_STRINGS = {"$ref", "$dynamicRef", "$id", "id", "contentEncoding", "contentMediaType"}
"""Keywords of strings that klamm changes before the library reads a schema."""
_IN_URI = "!#$%&'()*+,/:;=?@~"
"""The characters that a URI reference may have, in addition to letters, digits and "-._"."""


class Documents:
    """A JSON Schema with the schemas that it references.

    Each schema is read by its own draft. A reference is found by its name, by its own `$id`, and by its name relative to
    the `$id` of a schema.

    Args:
        text: The schema.
        references: Texts of the referenced schemas by name.
        is_checked: Whether values are checked against the schemas.

    Raises:
        SchemaError: A schema is not JSON, or references a schema that is missing.

    Attributes:
        root: The schema, with references that are valid URIs, and with a draft.
        registry: The registry of jsonschema-rs with all schemas.
    """

    def __init__(self, text: str, references: Mapping[str, str], *, is_checked: bool = True) -> None:
        jsonschema = _library()
        try:
            self.root = loaded(text, is_checked=is_checked)
            self._references = {_uri(name): loaded(each, is_checked=is_checked) for name, each in references.items()}
            self._known: dict[str, Any] = {}
            bases = [uri_of(self.root)]
            for name, content in self._references.items():
                bases += [urljoin(_BASE, name), uri_of(content)]
                self._known.setdefault(bases[-1], content)
                self._known[bases[-2]] = content
            self._bases = list(dict.fromkeys(urljoin(base, ".") for base in bases))[:_MAX_BASES]
            # The registry asks `_retrieve` for unknown schemas, and never the network.
            self.registry = jsonschema.Registry([(_BASE, self.root)], retriever=self._retrieve)
        except Exception as error:
            raise _invalid(error) from None

    def _retrieve(self, uri: str) -> Any:
        if uri not in self._known:
            for base in self._bases:
                for name, content in self._references.items():
                    self._known.setdefault(urljoin(base, name), content)
        return self._known[uri]

    @property
    def resolver(self) -> Any:
        """The resolver of jsonschema-rs for references in the schema itself."""
        return self.registry.resolver(uri_of(self.root))

    def lookup(self, resolver: Any, reference: str) -> Any:
        """Return the schema that a reference means, as an object with `contents`, and with `resolver` for its references.

        Raises:
            SchemaError: There is no such schema.
        """
        try:
            return resolver.lookup(reference)
        except Exception as error:
            raise _invalid(error) from None


def _invalid(error: Exception) -> SchemaError:
    """Return the error for a schema that the library cannot use."""
    message = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
    return SchemaError(f"the JSON Schema is invalid: {message.replace(_BASE, '')}")


def _library() -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise ConfigError("JSON Schema needs jsonschema-rs", hint="pip install 'klamm[registry]'") from None
    return jsonschema_rs


def uri_of(schema: Any, base: str = "") -> str:
    """Return the absolute URI of a schema, whose own URI is relative to `base`. In draft 4, the keyword is `id`."""
    fields = schema if isinstance(schema, dict) else {}
    own = fields.get("$id", fields.get("id") if "draft-04" in str(fields.get("$schema")) else None)
    return urljoin(urljoin(_BASE, base), own.removesuffix("#") if isinstance(own, str) else "")


def _uri(text: str) -> str:
    """Encode the characters of a reference that a URI cannot have. Many schemas have names with spaces or `<`."""
    return quote(re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text), safe=_IN_URI)


def loaded(text: str, *, is_checked: bool) -> Any:
    """Parse a schema. Add its draft, and encode references that are not valid URIs.

    If values are checked, remove `contentEncoding` and `contentMediaType`. The library compares values with them, but
    the drafts and other clients do not.
    """
    schema = json.loads(text)
    unseen = [schema]
    while unseen:
        node = unseen.pop()
        if isinstance(node, dict):
            unseen += subschemas(node)
            strings = {key: value for key, value in node.items() if key in _STRINGS and isinstance(value, str)}
            for key, value in strings.items():
                if key.startswith("content"):
                    node.pop(key if is_checked else None, None)
                else:
                    node[key] = _uri(value)
        elif isinstance(node, list):
            unseen += node
    return {"$schema": _DRAFT, **schema} if isinstance(schema, dict) else schema


def subschemas(schema: dict[str, Any]) -> Iterator[Any]:
    """Return the values in which a schema can have other schemas."""
    for key, value in schema.items():
        if key in _OF_NAMES and isinstance(value, dict):
            yield from value.values()
        elif key not in _OF_DATA:
            yield value


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
    documents = Documents(schema.text, {name: reference.text for name, reference in references.items()})
    root, options = documents.root, {"offline": True, "validate_formats": False}
    try:
        kind = _library().validator_cls_for(root if isinstance(root, dict) else {"$schema": _DRAFT})
        validator = kind(root, registry=documents.registry, base_uri=_BASE, **options)
    except Exception as error:
        raise _invalid(error) from None
    title = root.get("title") if isinstance(root, dict) else None
    return Parsed(validator, title if isinstance(title, str) else None)


def _check_depth(plain: Any) -> None:
    """Refuse a value that is nested too deep for the stack of the validator."""
    level = [plain]
    for _ in range(_MAX_DEPTH):
        if not level:
            return
        inner: list[Any] = []
        for value in level:
            if isinstance(value, (dict, list)):
                inner += value.values() if isinstance(value, dict) else value
        level = inner
    raise SchemaError(f"the value is nested more than {_MAX_DEPTH} levels deep")


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


_MARK = secrets.token_hex(16)
"""Text that no value contains, for numbers that the JSON encoder cannot write."""
_MARKED = re.compile(f'"{_MARK}([^"]*)"')


def _marked(value: Any) -> str:
    """Return the text for a value that `json.dumps` does not know."""
    if not isinstance(value, Decimal):
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    if not value.is_finite():
        raise ValueError(f"Out of range decimal values are not JSON compliant: {value}")
    return f"{_MARK}{value}"


class JsonSerializer(BaseSerializer[T]):
    """Serialize values as JSON with a JSON Schema.

    Pass the serializer to a producer as `key_serializer` or `value_serializer`.

    A value must have a type that `json.dumps` accepts. The serializer also accepts dataclasses, pydantic models, enums,
    sets and other mappings. A `NamedTuple` becomes an array, and a `Decimal` a number with all its digits. Dates, times
    and UUIDs become text, and a datetime without a time zone is UTC.

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
        to_dict: Callable[[T], Any] | None = None,
        **options: Unpack[SerializerOptions],
    ) -> None:
        super().__init__(registry, Schema(schema, "JSON") if isinstance(schema, str) else schema, **options)
        self._to_dict, self._validates = to_dict, validate

    def _parse(self, schema: Schema, references: Mapping[str, Schema]) -> Parsed:
        return parse(schema, references)

    def _record_name(self, parsed: Parsed) -> str | None:
        return parsed.name

    def _encode(self, parsed: Parsed, value: Any) -> bytes:
        try:
            plain = to_json(value if self._to_dict is None else self._to_dict(value))
        except (OverflowError, RecursionError) as error:
            raise SchemaError(f"the value cannot be written as JSON: {error}") from None
        if self._validates:
            _validate(parsed, plain)
        try:
            text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_marked)
            return (_MARKED.sub(r"\1", text) if _MARK in text else text).encode()
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

    def __init__(
        self,
        registry: SchemaRegistry | AsyncSchemaRegistry,
        to: Callable[..., T_co] | None = None,
        *,
        validate: bool = True,
        **options: Unpack[DeserializerOptions],
    ) -> None:
        super().__init__(registry, to, **options)
        self._validates = validate
        has_decimals = getattr(self._convert, "has_decimals", False)
        self._parse_json = json.JSONDecoder(parse_float=Decimal).decode if has_decimals else json.loads

    def _parse(self, schema: Schema, references: Mapping[str, Schema]) -> Parsed:
        return parse(schema, references)

    def _record_name(self, writer: Parsed, frame: Frame) -> str | None:  # noqa: ARG002
        return writer.name

    def _decode(self, writer: Parsed, reader: Parsed | None, data: bytes, frame: Frame) -> Any:
        try:
            plain = self._parse_json(data[frame.start :].decode())
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"the value is not JSON: {type(error).__name__}: {error}") from None
        if data.count(b"[") + data.count(b"{") > _MAX_DEPTH:
            _check_depth(plain)
        if self._validates:
            _validate(reader or writer, plain)
        return plain
