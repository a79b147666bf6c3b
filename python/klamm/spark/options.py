"""Parses and checks the options of reads and writes, before anything runs.

Spark's own Kafka connector has options with the same names. Spark passes the names in lower case, and error messages
show the names in their usual spelling. An unknown option is an error. If klamm ignored unknown options, a job with a
misspelled `startingOffsets` would read the whole topic. Reads accept the options of writes, and writes accept the
options of reads, because jobs often use one dict for both. The module `client_options` handles options that begin with
`kafka.`, and the module `positions` parses positions.
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
from klamm.spark.option_names import OPTIONS, REGISTRY, SPARK_OPTIONS, TYPED
from klamm.spark.settings import MAX_INT, MAX_LONG, Settings, shortened, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klamm.batches import ValueFormat
    from klamm.spark.offsets import Partition
    from klamm.spark.positions import Position
    from klamm.spark.typed import TypedOptions


@dataclass(frozen=True)
class Limits:
    """Limits of a micro-batch: the options `…PerTrigger` and `maxTriggerDelay`. None means no limit."""

    max_offsets: int | None
    min_offsets: int | None
    max_delay_seconds: float
    max_bytes: int | None

    @property
    def are_set(self) -> bool:
        """Return whether any limit is set."""
        return any(limit is not None for limit in (self.max_offsets, self.min_offsets, self.max_bytes))


@dataclass(frozen=True)
class Division:
    """The options that control how ranges of offsets are divided into tasks; see `offsets.divide`."""

    min_parts: int | None
    max_records: int | None
    max_bytes: int | None

    @property
    def is_set(self) -> bool:
        """Return whether an option controls the number or the size of tasks."""
        return any(limit is not None for limit in (self.min_parts, self.max_records, self.max_bytes))


@dataclass(frozen=True)
class ReadOptions:
    """Options of a read; see docs/reference/spark.md. Spark pickles this object for the executors."""

    config: Settings
    protocol: str | None
    """Release of an old broker, "0.6" or "0.7". None for Kafka 0.8 and newer."""
    topics: tuple[str, ...]
    pattern: str | None
    assigned: tuple[Partition, ...]
    start: Position
    end: Position
    limits: Limits
    division: Division
    fail_on_data_loss: bool
    fail_on_timestamp_range: bool
    include_headers: bool
    columns: tuple[str, ...] | None
    filter_pushdown: bool
    commit_group: str | None
    poll_seconds: float
    retries: int
    retry_seconds: float
    typed: TypedOptions | None = None
    """Options for columns whose types come from a schema registry. None if keys and values are bytes."""


@dataclass(frozen=True)
class WriteOptions:
    """Options of a write.

    Spark pickles this object for the executors. If `topic` is None, the column `topic` names the topic of each row.
    """

    config: Settings
    topic: str | None
    exactly_once: bool
    txn: tuple[str, int] | None
    """Application and version of an exactly-once batch write, from the options `txnAppId` and `txnVersion`."""
    typed: TypedOptions | None = None
    """Options for columns that are written with a schema registry. None if keys and values are bytes."""

    def arguments(self) -> ValueFormat:
        """Return the keyword arguments for `send_arrow` that describe the format of keys and values."""
        return {} if self.typed is None else self.typed.arguments()


def read_options(options: Mapping[str, str], streaming: bool | None = None) -> ReadOptions:
    """Parse the options of a read.

    Args:
        options: Options, with keys in any case.
        streaming: Whether the read is a stream, or None if the caller does not know yet.

    Raises:
        ConfigError: An option is unknown, missing or invalid, or contradicts another option.
    """
    checked_options = _checked(options)
    topics, pattern, assigned = _subscription(checked_options)
    start = positions.starting(checked_options, "latest" if streaming else "earliest")
    end = positions.ending(checked_options)
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if streaming and name.lower() in checked_options:
            raise ConfigError(f"option '{name}' is only for batch reads: a stream has no end", hint="leave it out")
    if streaming is False:
        if start.says("latest", LATEST):
            raise ConfigError(
                "option 'startingOffsets' of a batch read cannot be latest (-1): nothing would be left to read",
                hint="use earliest or an offset",
            )
        if end.says("earliest", EARLIEST):
            raise ConfigError(
                "option 'endingOffsets' cannot be earliest (-2): nothing would be left to read",
                hint="use latest or an offset",
            )
    config = client_config(checked_options, "consumer", READ_DEFAULTS)
    group = config.pop("group.id", None)
    return ReadOptions(
        config=config,
        protocol=config.pop("protocol", None),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        start=start,
        end=end,
        limits=_limits(checked_options),
        division=Division(
            min_parts=_positive(checked_options, "minPartitions"),
            max_records=_positive(checked_options, "maxRecordsPerPartition"),
            max_bytes=_positive(checked_options, "maxBytesPerPartition"),
        ),
        fail_on_data_loss=_boolean(checked_options, "failOnDataLoss", True),
        fail_on_timestamp_range=_boolean(checked_options, "failOnTimestampRange", True),
        include_headers=_boolean(checked_options, "includeHeaders", False),
        columns=_columns(checked_options),
        filter_pushdown=_boolean(checked_options, "filterPushdown", False),
        commit_group=checked_options.get("commitgroup", group),
        poll_seconds=(_positive(checked_options, "kafkaConsumer.pollTimeoutMs") or 120_000) / 1000,
        retries=_positive(checked_options, "fetchOffset.numRetries") or 3,
        retry_seconds=_whole(checked_options, "fetchOffset.retryIntervalMs", 1000, most=MAX_INT) / 1000,
        typed=_typed(checked_options, "latest"),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a batch write or a streaming write.

    Raises:
        ConfigError: An option is unknown, missing or invalid, or contradicts another option.
    """
    checked_options = _checked(options)
    topic = checked_options.get("topic")
    if topic is not None and not topic.strip():
        raise ConfigError("option 'topic' is empty", hint="name a topic, or leave it out to use the column 'topic'")
    delivery = checked_options.get("delivery", "at-least-once").strip().lower()
    if delivery not in ("at-least-once", "exactly-once"):
        raise ConfigError(f"option 'delivery' must be at-least-once or exactly-once, got '{delivery}'")
    exactly_once = delivery == "exactly-once"
    if exactly_once and topic is None:
        raise ConfigError(
            "option 'delivery' is exactly-once, which needs option 'topic'",
            hint="a column 'topic' is not enough, because klamm records the committed batch for one fixed topic",
        )
    txn = _txn(checked_options)
    if txn is not None and not exactly_once:
        raise ConfigError(
            "options 'txnAppId' and 'txnVersion' are only for exactly-once delivery",
            hint="set option 'delivery' to exactly-once, or leave them out",
        )
    defaults = WRITE_DEFAULTS | (EXACTLY_ONCE_DEFAULTS if exactly_once else {})
    config = client_config(checked_options, "producer", defaults)
    largest = whole_number(config.get("max.request.size", config.get("message.max.bytes", "")), MAX_INT)
    if "kafka.buffer.memory" not in checked_options and largest is not None:
        # A job that raised the maximum record size writes large records. So make room for two large records.
        config["buffer.memory"] = str(max(int(config["buffer.memory"]), 2 * largest))
    typed = _typed(checked_options, None)
    return WriteOptions(config=config, topic=topic, exactly_once=exactly_once, txn=txn, typed=typed)


def _txn(given: Settings) -> tuple[str, int] | None:
    """Parse the application and the version of an exactly-once batch write."""
    names = [name for name in ("txnAppId", "txnVersion") if name.lower() in given]
    if not names:
        return None
    app = given.get("txnappid", "").strip()
    if len(names) == 1 or not app:
        raise ConfigError(
            "an exactly-once batch write needs both options 'txnAppId' and 'txnVersion'",
            hint="txnAppId is a name that no other writer uses; txnVersion is a number that grows with each write, such as a batch ID",
        )
    return app, _whole(given, "txnVersion", 0, most=MAX_INT)


def _typed(given: Settings, default: str | None) -> TypedOptions | None:
    if not any(name in given for name in TYPED) and not any(key.startswith(REGISTRY) for key in given):
        return None  # most queries read and write bytes, and do not need the import below
    from klamm.spark.typed import typed_options

    return typed_options(given, _boolean, default)


def _limits(given: Settings) -> Limits:
    limits = Limits(
        max_offsets=_positive(given, "maxOffsetsPerTrigger"),
        min_offsets=_positive(given, "minOffsetsPerTrigger"),
        max_delay_seconds=_duration(given, "maxTriggerDelay", "15m"),
        max_bytes=_positive(given, "maxBytesPerTrigger"),
    )
    least, most = limits.min_offsets, limits.max_offsets
    if least is not None and most is not None and least > most:
        raise ConfigError(
            f"option 'minOffsetsPerTrigger' is {least}, which is more than 'maxOffsetsPerTrigger', {most}"
        )
    return limits


def _columns(given: Settings) -> tuple[str, ...] | None:
    if "columns" not in given:
        return None
    names = tuple(name.strip() for name in given["columns"].split(","))
    if not all(names) or len({name.lower() for name in names}) < len(names):
        raise ConfigError(
            f"option 'columns' must be a comma-separated list of different names, got '{given['columns']}'"
        )
    return names


def _checked(options: Mapping[str, str]) -> Settings:
    settings = Settings({key.lower(): value for key, value in options.items()})
    if "provider" in settings:  # one of the properties that Spark adds in CREATE TABLE
        raise ConfigError(
            "cannot create a table: Spark passes neither the options nor the properties of a table to the reads and "
            "writes of Python data sources",
            hint="use CREATE TEMP VIEW name USING klamm OPTIONS (...)",
        )
    for key in settings:
        if key.startswith(("kafka.", REGISTRY)) or key in SPARK_OPTIONS or key in OPTIONS:
            continue
        if key == "path":
            raise ConfigError(
                "klamm does not read or write a path",
                hint="set option 'subscribe' to read topics, option 'topic' to write to one",
            )
        raise ConfigError(f"unknown option '{key}'", hint=_nearest(key))
    if not settings.get("kafka.bootstrap.servers", "").strip():
        raise ConfigError(
            "option 'kafka.bootstrap.servers' is missing",
            hint="set the address of the brokers: .option('kafka.bootstrap.servers', 'localhost:9092')"
            + ("" if settings else "; instead of a table, which has no options here, use CREATE TEMP VIEW"),
        )
    return settings


def _nearest(key: str) -> str:
    candidates = [*OPTIONS, "kafka.bootstrap.servers"]
    for name in difflib.get_close_matches(key, candidates, n=1):
        return f"did you mean '{OPTIONS.get(name, name)}'?"
    if difflib.get_close_matches(f"kafka.{key}", candidates, n=1) or "." in key:
        return f"did you mean 'kafka.{key}'? Options of the Kafka client begin with 'kafka.'"
    return f"valid options are {', '.join(OPTIONS.values())}, and client settings that begin with 'kafka.'"


def _subscription(given: Settings) -> tuple[tuple[str, ...], str | None, tuple[Partition, ...]]:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in given]
    if len(names) != 1:
        problem = f"both {' and '.join(names)} are set" if names else "none is set"
        raise ConfigError(
            f"a read needs exactly one of the options 'subscribe', 'subscribePattern' and 'assign', but {problem}",
            hint="option 'topic' is for writes; use 'subscribe' to read" if "topic" in given else None,
        )
    if "assign" in given:
        return (), None, positions.assigned(given["assign"])
    if "subscribepattern" in given:
        pattern = given["subscribepattern"].strip()
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"option 'subscribePattern' must be a regular expression in Python's syntax, got '{pattern}': {error}"
            ) from None
        if not pattern:
            raise ConfigError("option 'subscribePattern' is empty", hint="use '.*' to read all topics")
        return (), pattern, ()
    topics = [name.strip() for name in given["subscribe"].split(",") if name.strip()]
    if not topics:
        raise ConfigError(f"option 'subscribe' must be a comma-separated list of topics, got '{given['subscribe']}'")
    return tuple(dict.fromkeys(topics)), None, ()


def _positive(given: Settings, option: str) -> int | None:
    if option.lower() not in given:
        return None
    return _whole(given, option, 0, least=1)


def _whole(given: Settings, option: str, default: int, least: int = 0, most: int = MAX_LONG) -> int:
    text = given.get(option.lower(), str(default)).strip()
    number = whole_number(text, most)
    if number is None or number < least:
        bound = f" of at most {most}" if text.isdecimal() and number is None else " above 0" if least else ""
        raise ConfigError(f"option '{option}' must be a whole number{bound}, got '{shortened(text)}'")
    return number


def _duration(given: Settings, option: str, default: str) -> float:
    """Parse a duration in Spark's syntax, such as `500ms`, `10s`, `15m`, `2h` or `1d`. A number means milliseconds."""
    text = given.get(option.lower(), default).strip().lower()
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text)
    number = whole_number(match[1]) if match else None
    if match is None or number is None or match[2] not in SECONDS:
        raise ConfigError(
            f"option '{option}' must be a duration such as 500ms, 10s, 15m or 2h, got '{shortened(text)}'"
        )
    return number * SECONDS[match[2]]


def _boolean(given: Settings, option: str, default: bool) -> bool:
    text = given.get(option.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"option '{option}' must be true or false, got '{text}'")
    return text == "true"


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
