"""Converts results of `klamm.Admin` to JSON and table cells, and parses names of enum members and partitions."""

from __future__ import annotations

import argparse
import base64
import dataclasses
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import klamm
from klamm.cli.options import topic_partitions
from klamm.cli.output import CommandError
from klamm.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from klamm.admin.calls import Code

C = TypeVar("C", bound="Code")

Specs = list[tuple[str, "list[int] | None"]]
"""Topics, each with a list of partition numbers, or with None for all partitions."""


def as_json(value: Any) -> Any:
    """Convert a value for JSON: dataclasses become dicts, bytes become base64, and enum members become lower-case names."""
    if isinstance(value, klamm.TopicPartition):
        return {"topic": value.topic, "partition": value.partition}
    if dataclasses.is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(as_json, value))
    if isinstance(value, (list, tuple)):
        return [as_json(each) for each in value]
    return plain(value)


def plain(value: Any) -> Any:
    """Convert a value that is not a collection for JSON: an enum member, an error, bytes or a plain value."""
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, KafkaError):
        return value.message
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def member_of(kind: type[C]) -> Callable[[str], C]:
    """Return a function that parses the name of an enum member. The parser ignores case and treats `-` as `_`."""
    names = {each.name: each for each in kind if each.name != "UNKNOWN"}

    def parse(text: str) -> C:
        name = text.upper().replace("-", "_")
        if name not in names:
            raise argparse.ArgumentTypeError(f"{text!r} must be one of: {', '.join(map(dashed, names.values()))}")
        return names[name]

    return parse


def dashed(member: Enum) -> str:
    """Return the name of an enum member as users type it: in lower case, with dashes."""
    return member.name.lower().replace("_", "-")


def add_partitions(parser: argparse.ArgumentParser, text: str, *, nargs: str = "+") -> None:
    """Add an argument that takes topics and partitions, such as `orders` or `orders:0,1`."""
    default: Specs = []
    parser.add_argument("topics", metavar="TOPIC[:N,N]", type=topic_partitions, nargs=nargs, default=default, help=text)


def expand(admin: klamm.Admin, specs: Specs) -> list[klamm.TopicPartition]:
    """Return the partitions that the user named. Raise if a topic or partition does not exist."""
    if not specs:
        return []
    descriptions = admin.describe_topics([topic for topic, _ in specs])
    chosen: dict[klamm.TopicPartition, None] = {}
    for topic, numbers in specs:
        existing = [part.partition for part in descriptions[topic].partitions]
        for number in existing if numbers is None else numbers:
            if number not in existing:
                raise CommandError(f"topic {topic!r} has no partition {number}", hint=f"use 0 to {len(existing) - 1}")
            chosen[klamm.TopicPartition(topic, number)] = None
    return list(chosen)


def all_partitions(admin: klamm.Admin, *, internal: bool = False) -> list[klamm.TopicPartition]:
    """Return all partitions of the cluster, by default without internal topics."""
    names = admin.list_topics(internal=internal)
    topics = admin.describe_topics(names) if names else {}
    return sorted(
        klamm.TopicPartition(name, part.partition) for name, each in topics.items() for part in each.partitions
    )


def one_partition(text: str) -> klamm.TopicPartition:
    """Parse the name of one partition, `topic:0`."""
    topic, numbers = topic_partitions(text)
    if numbers is None or len(numbers) != 1:
        raise argparse.ArgumentTypeError(f"{text!r} must have the form TOPIC:0")
    return klamm.TopicPartition(topic, numbers[0])


def words(numbers: Iterable[object]) -> str:
    """Return the items separated by commas, for a table cell. An empty list becomes `-`."""
    return ", ".join(map(str, numbers)) or "-"


def moment(milliseconds: int | None) -> str | None:
    """Return a time as local ISO 8601 text, or None if it is unknown."""
    if milliseconds is None or milliseconds < 0:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(timespec="milliseconds")
    except (OverflowError, OSError, ValueError):
        return str(milliseconds)


def rows_of(items: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return a row of table cells for each item, with one cell for each column. Lists become text."""
    return [
        tuple(words(item[name]) if isinstance(item[name], list) else item[name] for name in columns) for item in items
    ]
