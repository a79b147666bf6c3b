"""Options of the source and the sink: read once, refused early.

The names are those of Spark's own Kafka connector. Spark hands keys over in lower case, so they are
looked up that way and written in their usual spelling in messages. An option that nothing reads would
be a silent mistake (a misspelt `startingOffsets` reads the whole topic), so unknown ones are errors. An
option that only the other direction reads is accepted, as one dict of options often serves both.
`client_options` looks after those that begin with `kafka.`.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from klamm.errors import ConfigError
from klamm.spark import positions
from klamm.spark.client_options import EXACTLY_ONCE_DEFAULTS, READ_DEFAULTS, WRITE_DEFAULTS, client_config
from klamm.spark.offsets import EARLIEST, LATEST
from klamm.spark.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klamm.spark.offsets import Partition
    from klamm.spark.positions import Position


@dataclass(frozen=True)
class Limits:
    """How much a batch of a stream may hold, and what it waits for."""

    max_offsets: int | None
    min_offsets: int | None
    max_delay_seconds: float
    max_bytes: int | None

    @property
    def are_set(self) -> bool:
        """Tell whether there are any."""
        return any(limit is not None for limit in (self.max_offsets, self.min_offsets, self.max_bytes))


@dataclass(frozen=True)
class Division:
    """How ranges of offsets become tasks."""

    min_parts: int | None
    max_records: int | None
    max_bytes: int | None


@dataclass(frozen=True)
class ReadOptions:
    """What to read. Plain data: it travels to the executors."""

    config: Settings
    protocol: str | None
    """Of brokers before 0.8."""
    topics: tuple[str, ...]
    pattern: str | None
    assigned: tuple[Partition, ...]
    start: Position
    end: Position
    limits: Limits
    division: Division
    fail_on_data_loss: bool
    include_headers: bool
    columns: tuple[str, ...] | None
    filter_pushdown: bool
    commit_group: str | None
    poll_seconds: float
    retries: int
    retry_seconds: float


@dataclass(frozen=True)
class WriteOptions:
    """Where to write. Plain data: it travels to the executors."""

    config: Settings
    topic: str | None
    exactly_once: bool


def read_options(options: Mapping[str, str], streaming: bool | None = None) -> ReadOptions:
    """Parse the options of a read: streaming, batch, or (`None`) it is not known yet which."""
    given = _checked(options)
    topics, pattern, assigned = _which(given)
    start = positions.starting(given, "latest" if streaming else "earliest")
    end = positions.ending(given)
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if streaming and name.lower() in given:
            raise ConfigError(f"option '{name}' is for batch reads; a stream has no end")
    if streaming is False:
        if start.says("latest", LATEST):
            raise ConfigError(
                "option 'startingOffsets' of a batch read cannot be latest (-1): nothing would be left to read"
            )
        if end.says("earliest", EARLIEST):
            raise ConfigError("option 'endingOffsets' cannot be earliest (-2): nothing would be left to read")
    config = client_config(given, "consumer", READ_DEFAULTS)
    group = config.pop("group.id", None)
    return ReadOptions(
        config=config,
        protocol=config.pop("protocol", None),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        start=start,
        end=end,
        limits=_limits(given),
        division=Division(
            min_parts=_positive(given, "minPartitions"),
            max_records=_positive(given, "maxRecordsPerPartition"),
            max_bytes=_positive(given, "maxBytesPerPartition"),
        ),
        fail_on_data_loss=_boolean(given, "failOnDataLoss", True),
        include_headers=_boolean(given, "includeHeaders", False),
        columns=_columns(given),
        filter_pushdown=_boolean(given, "filterPushdown", False),
        commit_group=given.get("commitgroup", group),
        poll_seconds=(_positive(given, "kafkaConsumer.pollTimeoutMs") or 120_000) / 1000,
        retries=_positive(given, "fetchOffset.numRetries") or 3,
        retry_seconds=_whole(given, "fetchOffset.retryIntervalMs", 1000) / 1000,
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a batch or a streaming write."""
    given = _checked(options)
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise ConfigError("option 'topic' is empty")
    delivery = given.get("delivery", "at-least-once").strip().lower()
    if delivery not in ("at-least-once", "exactly-once"):
        raise ConfigError(f"option 'delivery' must be at-least-once or exactly-once, got '{delivery}'")
    exactly_once = delivery == "exactly-once"
    if exactly_once and topic is None:
        raise ConfigError(
            "option 'delivery' is exactly-once, which needs option 'topic'",
            hint="what has landed is noted under that topic; a 'topic' column may name different ones in a retry",
        )
    defaults = WRITE_DEFAULTS | (EXACTLY_ONCE_DEFAULTS if exactly_once else {})
    config = client_config(given, "producer", defaults)
    largest = config.get("max.request.size", config.get("message.max.bytes", "")).strip()
    if "kafka.buffer.memory" not in given and largest.isdecimal():
        # Whoever allows larger records than most means to write them.
        config["buffer.memory"] = str(max(int(config["buffer.memory"]), 2 * int(largest)))
    return WriteOptions(config=config, topic=topic, exactly_once=exactly_once)


def _limits(given: Settings) -> Limits:
    limits = Limits(
        max_offsets=_positive(given, "maxOffsetsPerTrigger"),
        min_offsets=_positive(given, "minOffsetsPerTrigger"),
        max_delay_seconds=_duration(given, "maxTriggerDelay", "15m"),
        max_bytes=_positive(given, "maxBytesPerTrigger"),
    )
    least, most = limits.min_offsets, limits.max_offsets
    if least is not None and most is not None and least > most:
        raise ConfigError(f"option 'minOffsetsPerTrigger' is {least}, more than 'maxOffsetsPerTrigger', {most}")
    return limits


def _columns(given: Settings) -> tuple[str, ...] | None:
    if "columns" not in given:
        return None
    names = tuple(name.strip() for name in given["columns"].split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ConfigError(
            f"option 'columns' must be different names with commas between them, got '{given['columns']}'"
        )
    return names


def _checked(options: Mapping[str, str]) -> Settings:
    given = Settings({key.lower(): value for key, value in options.items()})
    for key in given:
        if key.startswith("kafka.") or key in SPARK_OPTIONS or key in OPTIONS:
            continue
        if key == "path":
            raise ConfigError(
                "klamm reads and writes no path",
                hint="name topics with option 'subscribe' to read, with option 'topic' to write",
            )
        if key == "provider":  # what Spark hands over instead
            raise ConfigError(
                "Spark does not hand the options of CREATE TABLE to Python sources",
                hint="use CREATE TEMP VIEW name USING klamm OPTIONS (...)",
            )
        raise ConfigError(f"unknown option '{key}'", hint=_nearest(key))
    if not given.get("kafka.bootstrap.servers", "").strip():
        raise ConfigError(
            "option 'kafka.bootstrap.servers' is missing",
            hint="say where the brokers are: .option('kafka.bootstrap.servers', 'localhost:9092')",
        )
    return given


def _nearest(key: str) -> str:
    candidates = [*OPTIONS, "kafka.bootstrap.servers"]
    for name in difflib.get_close_matches(key, candidates, n=1):
        return f"did you mean '{OPTIONS.get(name, name)}'?"
    if difflib.get_close_matches(f"kafka.{key}", candidates, n=1) or "." in key:
        return f"did you mean 'kafka.{key}'? Options of the Kafka client begin with 'kafka.'"
    return f"known are {', '.join(OPTIONS.values())} and those that begin with 'kafka.'"


def _which(given: Settings) -> tuple[tuple[str, ...], str | None, tuple[Partition, ...]]:
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in given]
    if len(ways) != 1:
        trouble = f"given are {' and '.join(ways)}" if ways else "none is given"
        also = ", and 'topic' names the topic of a write" if "topic" in given else ""
        raise ConfigError(
            f"a read needs one of the options 'subscribe', 'subscribePattern' and 'assign': {trouble}{also}"
        )
    if "assign" in given:
        return (), None, positions.assigned(given["assign"])
    if "subscribepattern" in given:
        pattern = given["subscribepattern"].strip()
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"option 'subscribePattern' must be a regular expression as Python has them, got '{pattern}': {error}"
            ) from None
        if not pattern:
            raise ConfigError("option 'subscribePattern' is empty")
        return (), pattern, ()
    topics = [name.strip() for name in given["subscribe"].split(",") if name.strip()]
    if not topics:
        raise ConfigError(
            f"option 'subscribe' must be topic names with commas between them, got '{given['subscribe']}'"
        )
    return tuple(dict.fromkeys(topics)), None, ()


def _positive(given: Settings, option: str) -> int | None:
    if option.lower() not in given:
        return None
    return _whole(given, option, 0, least=1)


def _whole(given: Settings, option: str, default: int, least: int = 0) -> int:
    text = given.get(option.lower(), str(default)).strip()
    number = int(text) if text.isdecimal() else -1
    if number < least:
        which = " above 0" if least else ""
        raise ConfigError(f"option '{option}' must be a whole number{which}, got '{text}'")
    return number


def _duration(given: Settings, option: str, default: str) -> float:
    """Read a time as Spark writes them: `500ms`, `10s`, `15m`, `2h`, `1d`; without a unit, milliseconds."""
    text = given.get(option.lower(), default).strip().lower()
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text)
    if match is None or match[2] not in SECONDS:
        raise ConfigError(f"option '{option}' must be a time such as 500ms, 10s, 15m or 2h, got '{text}'")
    return int(match[1]) * SECONDS[match[2]]


def _boolean(given: Settings, option: str, default: bool) -> bool:
    text = given.get(option.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"option '{option}' must be true or false, got '{text}'")
    return text == "true"


OPTIONS = {
    name.lower(): name
    for name in (
        "subscribe",
        "subscribePattern",
        "assign",
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "failOnDataLoss",
        "minPartitions",
        "maxRecordsPerPartition",
        "maxBytesPerPartition",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "maxBytesPerTrigger",
        "includeHeaders",
        "columns",
        "filterPushdown",
        "commitGroup",
        "groupIdPrefix",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "topic",
        "delivery",
    )
}

# Options of the writer itself, which Spark hands to the sink as well.
SPARK_OPTIONS = frozenset({"checkpointlocation", "queryname"})

SECONDS = {
    "": 0.001,
    "us": 0.000_001,
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
}
