"""Checks arguments that consist of several objects, such as partitions and offsets.

Each function returns its argument in the form that the core takes. The functions raise `ArgumentError` for a wrong type
and `ConfigError` for a wrong value. The error message names the argument, its value and the allowed values. The core
itself checks plain numbers and strings, with the same error messages (`src/py/arguments.rs`).
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from klamm.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeVar

    from klamm.record import TopicPartition

    K = TypeVar("K")
    V = TypeVar("V")

INT16, INT32, INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1
INT64_MIN = -INT64 - 1


def checked_partition(partition: TopicPartition) -> tuple[str, int]:
    """Check a TopicPartition, and return its topic and partition number."""
    try:
        topic, number = partition.topic, partition.partition
    except AttributeError:
        raise ArgumentError(f"{partition!r} is not a TopicPartition", hint='pass TopicPartition("events", 0)') from None
    return string("the topic of a partition", topic), integer("the number of a partition", number, 0, INT32)


def checked_partitions(partitions: Iterable[TopicPartition]) -> list[tuple[str, int]]:
    """Check each TopicPartition, and return its topic and partition number."""
    return [checked_partition(tp) for tp in list_of("partitions", partitions)]


def list_of(name: str, items: Iterable[V]) -> list[V]:
    """Convert an iterable to a list. Raise ArgumentError for a string, a bytes object or a single partition."""
    if not isinstance(items, (str, bytes, bytearray, memoryview)):
        try:
            return list(items)
        except TypeError:
            if hasattr(items, "__iter__"):
                raise  # the iterator itself raised this TypeError
    hint = f"pass [{items!r}]" if isinstance(items, str) or hasattr(items, "partition") else None
    raise ArgumentError(f"{name} have to be a list, not {_type_name(items)}", hint=hint)


def list_of_str(name: str, items: Iterable[str]) -> list[str]:
    """Convert an iterable to a list. Raise ArgumentError if an item is not a string."""
    return [string(f"one of {name}", item) for item in list_of(name, items)]


def items_of(name: str, mapping: Mapping[K, V]) -> list[tuple[K, V]]:
    """Return the pairs of key and value of a mapping as a list."""
    if not hasattr(mapping, "items"):
        raise ArgumentError(f"{name} have to be a dict, not {_type_name(mapping)}")
    return list(mapping.items())


def string(name: str, value: str) -> str:
    """Return the value if it is a string. Otherwise, raise ArgumentError."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name} has to be a str, not {_type_name(value)}")
    return value


def optional_string(name: str, value: str | None) -> str | None:
    """Return the value if it is a string or None. Otherwise, raise ArgumentError."""
    return None if value is None else string(name, value)


def integer(name: str, value: int, least: int, most: int = INT64) -> int:
    """Return the value as an int. Raise an error if the value is not an integer from `least` to `most`."""
    try:
        number = index(value)
    except TypeError:
        raise ArgumentError(f"{name} has to be an int, not {_type_name(value)}") from None
    if not least <= number <= most:
        up_to = "" if most == INT64 and number < least else f" to {most}"
        raise ConfigError(f"{name} cannot be {number}", hint=f"allowed: a whole number from {least}{up_to}")
    return number


def optional_integer(name: str, value: int | None, least: int, most: int = INT64) -> int | None:
    """Return the value as an int, or None.

    Raise an error if the value is neither None nor an integer from `least` to `most`.
    """
    return None if value is None else integer(name, value, least, most)


def boolean(name: str, value: bool) -> bool:
    """Return the value if it is a bool. Otherwise, raise ArgumentError."""
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} has to be a bool, not {_type_name(value)}")
    return value


def seconds(timeout: Any) -> float | None:
    """Return a timeout in seconds as a float. None means no limit."""
    if timeout is None:
        return None
    try:
        if not isinstance(timeout, (str, bytes, bytearray)):
            return float(timeout)
    except OverflowError:
        return None  # too large for a float
    except (TypeError, ValueError):
        pass
    hint = "give its total_seconds()" if hasattr(timeout, "total_seconds") else None
    allowed = "a number of seconds, or None to wait for ever"
    raise ArgumentError(f"timeout has to be {allowed}, not {_type_name(timeout)}", hint=hint)


def check_function(name: str, value: Any, of: str = "") -> None:
    """Raise ArgumentError if a value is neither callable nor None."""
    if value is not None and not callable(value):
        raise ArgumentError(f"{name} has to be a function{of}, not {_type_name(value)}")


def _type_name(value: object) -> str:
    return type(value).__name__
