"""`read_table`, which returns topics as an Arrow table.

The function reads with a `Consumer` until all partitions have reached their end position.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.util import find_spec
from operator import index
from typing import TYPE_CHECKING, Any, Literal

from klamm.arguments import list_of_str
from klamm.batches import _pyarrow, batches_of
from klamm.consumer import Consumer
from klamm.errors import ArgumentError, ConfigError, KafkaTimeoutError
from klamm.hints import with_option_hints
from klamm.record import TopicPartition, first_ms_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import TypeAlias

    import pyarrow as pa

    from klamm.batches import ValueFormat
    from klamm.config import Bootstrap
    from klamm.registry import SchemaRegistry, SubjectNameStrategy

    Position: TypeAlias = "str | int | datetime | Mapping[int, int] | Mapping[TopicPartition, int]"


@with_option_hints
def read_table(
    bootstrap_servers: Bootstrap,
    topic: str | Sequence[str],
    start: Position = "earliest",
    end: Position = "latest",
    columns: Sequence[str] | None = None,
    *,
    progress: bool = False,
    value_format: Literal["avro", "json", "protobuf"] | None = None,
    key_format: Literal["avro", "json", "protobuf"] | None = None,
    registry: SchemaRegistry | str | Mapping[str, Any] | None = None,
    value_schema: Any = None,
    key_schema: Any = None,
    value_message: str | None = None,
    key_message: str | None = None,
    value_fields: Sequence[str] | None = None,
    recursion_depth: int = 1,
    flatten: bool = False,
    on_error: Literal["raise", "null", "column"] = "raise",
    on_new_fields: Literal["drop", "raise"] = "drop",
    timestamp_unit: Literal["s", "ms", "us", "ns"] | None = None,
    subject_name_strategy: SubjectNameStrategy = "TOPIC",
    id_bytes: int = 4,
    **config: Any,
) -> pa.Table:
    """Read one or more topics into a `pyarrow.Table`, all partitions at the same time.

    The function looks up the end of the topics once, when it starts, and does not read records that arrive later. Rows
    of the same partition are in order of their offsets. Rows of different partitions are in order of arrival.

    Args:
        bootstrap_servers: Addresses of brokers, as `"host:port,host:port"` or as a list. A dict of Kafka's dotted
            configuration keys also works.
        topic: Name of the topic, or a list of names.
        start: First record to read: `"earliest"`, `"latest"`, an offset for all partitions, a dict or an aware
            datetime. The keys of a dict are partition numbers or `TopicPartition` objects, and the values are offsets.
            The function does not read partitions that are not in the dict. A datetime selects the first record at or
            after the datetime. An offset outside the partition becomes the nearest valid offset.
        end: Position at which to stop, without reading the record at this position. `end` accepts the same values as
            `start`.
        columns: Names of the columns, in order. The default is all columns. `Consumer.arrow` lists the columns.
        progress: Whether to show a progress bar if the standard error is a terminal. The progress bar needs
            `klamm[cli]`.
        value_format: Format of the values: "avro", "json" or "protobuf". Without a format, the values stay bytes.
        key_format: Format of the keys. `key_format` accepts the same values as `value_format`.
        registry: Schema registry, as a client, an address or a dict with the client's configuration.
        value_schema: Schema of the value column: "latest" (the default), the number of a version, or a schema.
            docs/registry.md describes the schemas.
        key_schema: Schema of the key column. `key_schema` accepts the same values as `value_schema`.
        value_message: Name of the Protobuf message type, such as "shop.Order". By default, the first record decides.
        key_message: Name of the Protobuf message type of the keys.
        value_fields: Names of the fields of the value to decode. The default is all fields.
        recursion_depth: How often an Avro record or Protobuf message type that contains itself becomes columns inside
            itself. Records inside these become JSON text, and messages stay bytes.
        flatten: Whether each field of a struct becomes a column of its own.
        on_error: What to do if klamm cannot decode a key or value. "raise" raises a `DeserializationError`, and "null"
            makes the field null. "column" makes the field null, and adds columns such as `value_error` and `value_raw`.
        on_new_fields: What to do if the writer's schema is newer and has fields that the column does not have. "drop"
            ignores the new fields. "raise" treats the record as undecodable, so `on_error` decides what happens.
        timestamp_unit: Unit of JSON numbers for columns of times: "s", "ms", "us" or "ns". Without it, such a number is an
            error, because its unit is not known. By default, a time in JSON is text.
        subject_name_strategy: Strategy for the name of the schema's subject, as for the registry's deserializers.
        id_bytes: Length of a schema ID in bytes. The default is 4. Pass 8 if Apicurio Registry uses IDs of 8 bytes.
        **config: Kafka's configuration keys in snake_case; see `klamm.config.ConsumerConfig`.

    Returns:
        A table with one row for each record.

    Raises:
        ConfigError: A position is invalid or names a partition that does not exist, or `progress` is True and rich is
            not installed.
        UnknownTopicOrPartitionError: A topic does not exist.
        KafkaTimeoutError: No record arrived for 60 seconds.
        DeserializationError: klamm cannot decode a record, and `on_error` is "raise".

    Example:
        table = klamm.read_table("localhost:9092", "greetings", columns=["key", "value"])
    """
    pyarrow = _pyarrow()
    # The check also runs without a terminal, so that tests without a terminal find the missing package.
    if progress and not find_spec("rich"):
        raise ConfigError("progress=True needs rich", hint="pip install 'klamm[cli]'")
    typed: ValueFormat = {
        "value_format": value_format,
        "key_format": key_format,
        "registry": registry,
        "value_schema": value_schema,
        "key_schema": key_schema,
        "value_message": value_message,
        "key_message": key_message,
        "value_fields": value_fields,
        "recursion_depth": recursion_depth,
        "flatten": flatten,
        "on_error": on_error,
        "on_new_fields": on_new_fields,
        "timestamp_unit": timestamp_unit,
        "subject_name_strategy": subject_name_strategy,
        "id_bytes": id_bytes,
    }
    is_typed = any(option is not None for option in (value_format, key_format, value_schema, key_schema))
    wanted = batches_of(columns, typed if is_typed else {})
    # With "earliest", the consumer skips only the records that expire before it reads them. "latest" would skip all
    # records. Without automatic creation of topics, a misspelt name is an error and not a new topic.
    defaults = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "allow_auto_create_topics": False}
    with wanted, Consumer(bootstrap_servers, **{**defaults, **config}) as consumer:
        topics = [topic] if isinstance(topic, str) else list(dict.fromkeys(list_of_str("topics", topic)))
        ranges = _ranges(consumer, topics, start, end)
        batches: list[pa.RecordBatch] = []
        if ranges:
            consumer.assign(ranges)
            total = sum(tp.end_offset - tp.offset for tp in ranges)  # type: ignore[operator, misc]
            title = topics[0] if len(topics) == 1 else f"{len(topics):,} topics"
            with _bar(title, total, show=progress) as advance:
                for batch in consumer._arrow(BATCH_ROWS, SILENCE_S, wanted):
                    batches.append(batch)
                    advance(batch.num_rows)
            if not consumer._is_finished():
                positions = [
                    f"{tp.topic}-{tp.partition} at {consumer.position(tp)} of {tp.end_offset}" for tp in ranges
                ]
                raise KafkaTimeoutError(
                    f"no record arrived for {SILENCE_S:.0f} s; {', '.join(positions)}",
                    hint="check the brokers that lead these partitions",
                )
        schema = batches[0].schema if batches else wanted.schema(topics)
        if all(batch.schema == schema for batch in batches):
            return pyarrow.Table.from_batches(batches, schema=schema)
        # The first batches had only nulls, which do not reveal the type of the column.
        tables = [pyarrow.Table.from_batches([batch]) for batch in batches]
        return pyarrow.concat_tables(tables, promote_options="default")


def _ranges(consumer: Consumer, topics: list[str], start: Position, end: Position) -> list[TopicPartition]:
    """Return the partitions that have records to read, with their `offset` and `end_offset`."""
    existing = [TopicPartition(name, number) for name in topics for number in consumer.partitions_for(name)]
    first, last = _by_partition(start, existing, "start"), _by_partition(end, existing, "end")
    # Partitions that the function does not read need no leader, so it does not request their offsets.
    partitions = [tp for tp in existing if all(named is None or tp in named for named in (first, last))]
    begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)

    def within(found: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: min(max(found[tp], begins[tp]), ends[tp]) for tp in partitions}

    first = within(_resolve(consumer, begins, ends, start, "start") if first is None else first)
    last = within(_resolve(consumer, begins, ends, end, "end") if last is None else last)
    return [TopicPartition(tp.topic, tp.partition, first[tp], last[tp]) for tp in partitions if first[tp] < last[tp]]


def _resolve(
    consumer: Consumer,
    begins: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    position: Position,
    argument: str,
) -> dict[TopicPartition, int]:
    from datetime import datetime

    if position == "earliest":
        return begins
    if position == "latest":
        return ends
    if hasattr(position, "__index__") and not isinstance(position, bool):
        return dict.fromkeys(ends, index(position))
    if isinstance(position, datetime) and position.tzinfo is not None:
        at = max(first_ms_of(position), 0)  # Kafka uses negative times for the ends of a partition
        offsets = consumer.offsets_for_times(dict.fromkeys(ends, at))
        return {tp: ends[tp] if first is None else first[0] for tp, first in offsets.items()}
    raise ConfigError(
        f"{argument} cannot be {position!r}",
        hint='pass "earliest", "latest", an offset, a datetime with a time zone, or a dict of offsets by partition',
    )


def _by_partition(position: Any, existing: list[TopicPartition], argument: str) -> dict[TopicPartition, int] | None:
    """Return the offsets of a position by partition. If the position is not a dict, return None."""
    if not hasattr(position, "items"):
        return None
    named = {}
    for key, offset in position.items():
        chosen = [key] if isinstance(key, TopicPartition) else [tp for tp in existing if tp.partition == key]
        if not chosen or chosen[0] not in existing:
            name = f"{key.topic}-{key.partition}" if isinstance(key, TopicPartition) else key
            raise ConfigError(f"{argument} names a partition that does not exist: {name}")
        if not hasattr(offset, "__index__"):
            raise ArgumentError(f"{argument} has to be a dict of offsets by partition, and {offset!r} is not an offset")
        named.update(dict.fromkeys(chosen, index(offset)))
    return named


@contextmanager
def _bar(title: str, total: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal. Yield a function that the caller calls with the number of new rows."""
    if not (show and sys.stderr.isatty()):
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    look = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*look, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task(title, total=total)
        yield lambda rows: bar.advance(task, rows)


# Rows in a batch, as in Spark. Smaller batches are slower, and larger batches are not faster.
BATCH_ROWS = 65_536

# Seconds without a record after which the read fails.
SILENCE_S = 60.0
