"""Serializers, deserializers and clients for a schema registry with Confluent's REST API.

This package needs `pip install 'klamm[registry]'`.

    registry = SchemaRegistry("http://localhost:8081")
    producer = klamm.Producer("localhost:9092", value_serializer=AvroSerializer(registry, schema))
    consumer = klamm.Consumer("localhost:9092", topics=["orders"], value_deserializer=AvroDeserializer(registry))

`klamm.registry.client` has the clients, and `klamm.registry.errors` has the errors. Each format has a module with its
serializer and deserializer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from klamm.errors import ConfigError
from klamm.registry.avro import AvroDeserializer, AvroSerializer
from klamm.registry.client import AsyncSchemaRegistry, SchemaRegistry
from klamm.registry.config import RegistryConfig, RegistryUrl
from klamm.registry.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAuthenticationError,
    RegistryTimeoutError,
    RegistryUnavailableError,
    SchemaError,
    SchemaNotFoundError,
    SchemaRegistryError,
)
from klamm.registry.framing import Framing
from klamm.registry.json_schema import JsonDeserializer, JsonSerializer
from klamm.registry.schema import (
    Compatibility,
    CompatibilityLevel,
    Mode,
    Reference,
    RegisteredSchema,
    Schema,
    SchemaType,
)
from klamm.registry.subjects import SubjectNameStrategy

if TYPE_CHECKING:
    from klamm.registry.protobuf import ProtobufDeserializer, ProtobufSerializer

__all__ = [
    "AsyncSchemaRegistry",
    "AvroDeserializer",
    "AvroSerializer",
    "Compatibility",
    "CompatibilityLevel",
    "Framing",
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "JsonDeserializer",
    "JsonSerializer",
    "Mode",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "Reference",
    "RegisteredSchema",
    "RegistryAuthenticationError",
    "RegistryConfig",
    "RegistryTimeoutError",
    "RegistryUnavailableError",
    "RegistryUrl",
    "Schema",
    "SchemaError",
    "SchemaNotFoundError",
    "SchemaRegistry",
    "SchemaRegistryError",
    "SchemaType",
    "SubjectNameStrategy",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Import these two classes only on demand, because they need the package protobuf.
        if name not in ("ProtobufDeserializer", "ProtobufSerializer"):
            raise AttributeError(f"module 'klamm.registry' has no attribute {name!r}")
        try:
            from klamm.registry import protobuf
        except ImportError as error:
            raise ConfigError(
                f"Protobuf needs the package {error.name}", hint="pip install 'klamm[registry]'"
            ) from None
        return getattr(protobuf, name)
