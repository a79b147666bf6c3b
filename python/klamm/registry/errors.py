"""Defines the errors of `klamm.registry`, which are subclasses of `klamm.errors.KafkaError`.

An error says what klamm requested from the registry, and how the registry responded. No error contains a credential.
"""

from __future__ import annotations

from klamm.errors import AuthenticationError, DecodeError, KafkaError, KafkaTimeoutError, NetworkError

__all__ = [
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "RegistryAuthenticationError",
    "RegistryTimeoutError",
    "RegistryUnavailableError",
    "SchemaError",
    "SchemaNotFoundError",
    "SchemaRegistryError",
]


class SchemaRegistryError(KafkaError):
    """A request to the schema registry failed.

    Attributes:
        status: HTTP status of the response, or None if there was no response.
        code: The registry's error code, such as 40403, or None.
        url: The registry address that failed last, without credentials.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        status: int | None = None,
        code: int | None = None,
        url: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.url = url


class RegistryUnavailableError(SchemaRegistryError, NetworkError):
    """The client could not reach any address of the registry, or every address responded with a server error."""


class RegistryTimeoutError(RegistryUnavailableError, KafkaTimeoutError):
    """The registry did not respond in time."""


class RegistryAuthenticationError(SchemaRegistryError, AuthenticationError):
    """The registry rejected the credentials, or the user is not authorized for the request.

    The client does not repeat a request after this error.
    """


class SchemaNotFoundError(SchemaRegistryError):
    """The registry does not have the subject, the version or the schema."""


class IncompatibleSchemaError(SchemaRegistryError):
    """The registry rejected a schema that is incompatible with an earlier version of its subject."""


class InvalidSchemaError(SchemaRegistryError):
    """The registry rejected a schema that it cannot parse, or an argument that it does not know."""


class SchemaError(DecodeError):
    """A value does not fit its schema, the schema ID of a value is damaged, or klamm cannot use a schema.

    Attributes:
        schema_id: ID or GUID of the schema, or None if it is unknown.
        subject: Subject of the schema, or None if it is unknown.
        path: Path of the field, such as `lines[2].price`; empty if it is unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        schema_id: int | str | None = None,
        subject: str | None = None,
        path: str = "",
    ) -> None:
        super().__init__(message, path=path, hint=hint)
        self.schema_id = schema_id
        self.subject = subject

    def __str__(self) -> str:
        where = [
            *([f"field {self.path}"] if self.path else []),
            *([f"schema {self.schema_id}"] if self.schema_id is not None else []),
            *([f"subject {self.subject}"] if self.subject is not None else []),
        ]
        text = f"{self.message} ({', '.join(where)})" if where else self.message
        return text if self.hint is None else f"{text}; hint: {self.hint}"
