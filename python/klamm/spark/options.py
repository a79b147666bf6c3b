"""Options of the source and the sink: read once, refused early.

The names are those of Spark's own Kafka connector. Spark hands keys over in lower case, so they are
looked up that way and written in their usual spelling in messages. `kafka.*` keys go to the klamm
client without the prefix. An option that nothing reads would be a silent mistake (a misspelt
`startingOffsets` reads the whole topic), so unknown ones are errors. An option that only the other
direction reads is accepted, as one dict of options often serves both; what is wrong with a `kafka.*`
option the client says.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klamm.errors import ConfigError
from klamm.spark.offsets import EARLIEST, LATEST, Offsets, parse_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klamm.spark.offsets import Partition

Position = str | Offsets
"""`earliest`, `latest`, or an offset for each partition, where -2 and -1 stand for those two."""


@dataclass(frozen=True)
class ReadOptions:
    """What to read. Plain data: it travels to the executors."""

    config: dict[str, str]
    topics: tuple[str, ...]
    assigned: tuple[Partition, ...]
    start: Position
    end: Position
    max_offsets_per_trigger: int | None
    fail_on_data_loss: bool
    include_headers: bool


@dataclass(frozen=True)
class WriteOptions:
    """Where to write. Plain data: it travels to the executors."""

    config: dict[str, str]
    topic: str | None


def read_options(options: Mapping[str, str], streaming: bool | None = None) -> ReadOptions:
    """Parse the options of a read: streaming, batch, or (`None`) it is not known yet which."""
    given = _checked(options)
    topics, assigned = _which(given)
    start = _position(given, "startingOffsets", "latest" if streaming else "earliest")
    end = _position(given, "endingOffsets", "latest")
    if streaming and "endingoffsets" in given:
        raise ConfigError("option 'endingOffsets' is for batch reads; a stream has no end")
    if streaming is False:
        if start == "latest" or LATEST in _offsets_of(start):
            raise ConfigError(
                "option 'startingOffsets' of a batch read cannot be latest (-1): nothing would be left to read"
            )
        if end == "earliest" or EARLIEST in _offsets_of(end):
            raise ConfigError("option 'endingOffsets' cannot be earliest (-2): nothing would be left to read")
    return ReadOptions(
        config=_client_config(given, READ_DEFAULTS, READ_REFUSED),
        topics=topics,
        assigned=assigned,
        start=start,
        end=end,
        max_offsets_per_trigger=_positive(given, "maxOffsetsPerTrigger"),
        fail_on_data_loss=_boolean(given, "failOnDataLoss", True),
        include_headers=_boolean(given, "includeHeaders", False),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a batch or a streaming write."""
    given = _checked(options)
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise ConfigError("option 'topic' is empty")
    return WriteOptions(config=_client_config(given, WRITE_DEFAULTS, WRITE_REFUSED), topic=topic)


def _checked(options: Mapping[str, str]) -> dict[str, str]:
    given = {key.lower(): value for key, value in options.items()}
    for key in given:
        if key.startswith("kafka.") or key in SPARK_OPTIONS or key in OPTIONS:
            continue
        if key == "path":
            raise ConfigError(
                "klamm reads and writes no path",
                hint="name topics with option 'subscribe' to read, with option 'topic' to write",
            )
        raise ConfigError(f"unknown option '{key}'", hint=_nearest(key))
    if not given.get("kafka.bootstrap.servers", "").strip():
        raise ConfigError(
            "option 'kafka.bootstrap.servers' is missing",
            hint="say where the brokers are: .option('kafka.bootstrap.servers', 'localhost:9092'); in SQL use "
            "CREATE TEMP VIEW, since CREATE TABLE does not hand its options to Python sources",
        )
    return given


def _nearest(key: str) -> str:
    candidates = [*OPTIONS, "kafka.bootstrap.servers"]
    for name in difflib.get_close_matches(key, candidates, n=1):
        return f"did you mean '{OPTIONS.get(name, name)}'?"
    if difflib.get_close_matches(f"kafka.{key}", candidates, n=1) or "." in key:
        return f"did you mean 'kafka.{key}'? Options of the Kafka client begin with 'kafka.'"
    return f"known are {', '.join(OPTIONS.values())} and those that begin with 'kafka.'"


def _which(given: dict[str, str]) -> tuple[tuple[str, ...], tuple[Partition, ...]]:
    if ("subscribe" in given) == ("assign" in given):
        trouble = "both are given" if "subscribe" in given else "neither is given"
        also = ", and 'topic' names the topic of a write" if "topic" in given else ""
        raise ConfigError(f"a read needs one of the options 'subscribe' and 'assign': {trouble}{also}")
    if "subscribe" in given:
        topics = [name.strip() for name in given["subscribe"].split(",")]
        if not all(topics):
            raise ConfigError(
                f"option 'subscribe' must be topic names with commas between them, got '{given['subscribe']}'"
            )
        return tuple(dict.fromkeys(topics)), ()
    return (), _assigned(given["assign"])


def _assigned(text: str) -> tuple[Partition, ...]:
    form = f"""option 'assign' must be JSON such as {{"topic":[0,1]}}, got '{text}'"""
    try:
        named = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{form}: {error}") from None
    if not isinstance(named, dict) or not named:
        raise ConfigError(form)
    partitions: set[Partition] = set()
    for topic, numbers in named.items():
        if not isinstance(numbers, list) or not numbers or not all(map(_is_partition, numbers)):
            raise ConfigError(form)
        partitions.update((topic, number) for number in numbers)
    return tuple(sorted(partitions))


def _is_partition(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _position(given: dict[str, str], option: str, default: str) -> Position:
    text = given.get(option.lower(), default).strip()
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    return parse_offsets(text, option)


def _offsets_of(position: Position) -> set[int]:
    return set() if isinstance(position, str) else set(position.values())


def _positive(given: dict[str, str], option: str) -> int | None:
    text = given.get(option.lower())
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number <= 0:
        raise ConfigError(f"option '{option}' must be a whole number above 0, got '{text}'")
    return number


def _boolean(given: dict[str, str], option: str, default: bool) -> bool:
    text = given.get(option.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"option '{option}' must be true or false, got '{text}'")
    return text == "true"


def _client_config(given: dict[str, str], defaults: dict[str, str], refused: dict[str, str]) -> dict[str, str]:
    config = dict(defaults)
    for key, value in given.items():
        if key.startswith("kafka."):
            name = key.removeprefix("kafka.")
            if name in refused:
                raise ConfigError(f"option '{key}' is not supported", hint=refused[name])
            config[name] = value
    return config


OPTIONS = {
    name.lower(): name
    for name in (
        "subscribe",
        "assign",
        "startingOffsets",
        "endingOffsets",
        "maxOffsetsPerTrigger",
        "failOnDataLoss",
        "includeHeaders",
        "topic",
    )
}

# Options of the writer itself, which Spark hands to the sink as well.
SPARK_OPTIONS = frozenset({"checkpointlocation", "queryname"})

# A query must not create the topic that it misspells; Spark alone keeps the positions.
# A position that is gone must be an error, so that failOnDataLoss decides.
# A task has one partition, so it may fetch more of it at a time: Spark's connector gained a quarter.
READ_DEFAULTS = {
    "allow.auto.create.topics": "false",
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "max.partition.fetch.bytes": "8388608",
}

# A task hands over its rows as fast as it can and then flushes, so larger batches cost no latency.
WRITE_DEFAULTS = {
    "batch.size": "262144",
    "linger.ms": "20",
}

_SERIALIZED = "keys and values are binary here; cast the column instead"
_SPARK_KEEPS = "Spark keeps the positions of a query in its checkpoint"

READ_REFUSED = {
    "auto.offset.reset": "use option 'startingOffsets'",
    "key.deserializer": _SERIALIZED,
    "value.deserializer": _SERIALIZED,
    "enable.auto.commit": _SPARK_KEEPS,
    "interceptor.classes": "klamm runs no Java classes",
}

WRITE_REFUSED = {
    "key.serializer": _SERIALIZED,
    "value.serializer": _SERIALIZED,
    "interceptor.classes": "klamm runs no Java classes",
}
