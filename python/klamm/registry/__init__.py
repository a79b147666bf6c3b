"""Schemas of a registry with Confluent's REST API. Needs `pip install 'klamm[registry]'`.

    registry = SchemaRegistry("http://localhost:8081")
    print(registry.get_version("orders-value").schema.text)

`klamm.registry.client` has the clients, and `klamm.registry.errors` their errors.
"""

from __future__ import annotations

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
from klamm.registry.schema import (
    Compatibility,
    CompatibilityLevel,
    Mode,
    Reference,
    RegisteredSchema,
    Schema,
    SchemaType,
)

__all__ = [
    "AsyncSchemaRegistry",
    "Compatibility",
    "CompatibilityLevel",
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "Mode",
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
]
