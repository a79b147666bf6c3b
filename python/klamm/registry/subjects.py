"""Defines subject name strategies, which choose the subject for the schema of a key or value."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from klamm.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

Field: TypeAlias = "Literal['key', 'value']"
"""Part of a record that a serializer or deserializer handles."""

SubjectNameStrategy: TypeAlias = "Literal['TOPIC', 'RECORD', 'TOPIC_RECORD'] | Callable[[str, Field, str | None], str]"
"""The name of a strategy, or a function that returns the subject.

The function gets the topic, "key" or "value", and the name of the record type.
"""

STRATEGIES = ("TOPIC", "RECORD", "TOPIC_RECORD")


def check_strategy(strategy: SubjectNameStrategy) -> SubjectNameStrategy:
    """Return the strategy, or raise `ConfigError` if it is neither a known name nor a function."""
    if callable(strategy) or strategy in STRATEGIES:
        return strategy
    raise ConfigError(
        f"subject_name_strategy cannot be {strategy!r}", hint=f"allowed: {', '.join(STRATEGIES)}, or a function"
    )


def subject_of(strategy: SubjectNameStrategy, topic: str | None, field: Field, record_name: str | None) -> str:
    """Return the subject for the schema of a record's key or value.

    Raises:
        ConfigError: The strategy needs a topic or a record name that is missing.
    """
    if callable(strategy):
        subject = strategy(topic or "", field, record_name)
        if not isinstance(subject, str):
            raise ArgumentError(f"subject_name_strategy has to return a str, not {type(subject).__name__}")
        return subject
    if strategy != "RECORD" and topic is None:
        raise ConfigError(
            f"subject_name_strategy={strategy} needs the topic",
            hint="pass the serializer to a producer, or call serialize(value, topic)",
        )
    if strategy == "TOPIC":
        return f"{topic}-{field}"
    if not record_name:
        raise ConfigError(
            f"subject_name_strategy={strategy} needs the name of a record type, and the schema has none",
            hint="use subject_name_strategy='TOPIC', or give a JSON Schema a title",
        )
    return record_name if strategy == "RECORD" else f"{topic}-{record_name}"


def lookup_subject(strategy: SubjectNameStrategy, topic: str | None, field: Field) -> str | None:
    """Return the subject to send with a lookup by schema ID, or None if only the schema shows the subject.

    A function gets None as the name of the record type, because the schema is not known yet.
    """
    if not callable(strategy):
        return f"{topic}-{field}" if strategy == "TOPIC" and topic is not None else None
    with suppress(Exception):  # the function may need the name
        subject = strategy(topic or "", field, None)
        return subject if isinstance(subject, str) else None  # type: ignore[redundant-expr]
    return None


def context_of(subject: str | None) -> str:
    """Return the prefix that names the context of a subject, such as ":.staging:", or "" for the default context."""
    if subject is None or not subject.startswith(":."):
        return ""
    prefix = subject[: subject.find(":", 2) + 1]
    return "" if prefix == ":.:" else prefix


def in_context(subject: str, context: str) -> str:
    """Return the full name of a subject that a schema of a context refers to. A name with a context stays as it is."""
    return subject if subject.startswith(":.") else context + subject
