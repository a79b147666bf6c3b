"""Runs batch reads from brokers of Kafka 0.6 and 0.7, which option `kafka.protocol` selects.

A read uses one broker, because each broker numbers its own partitions from 0. Offsets count bytes, so a range can only
be divided at the starts of log segments, which brokers list. Rows have no key and no timestamp. As with `klamm mirror`,
the headers of a row are source.broker, source.partition, source.offset, and source.index for messages that were
compressed together.
"""

# klamm supports Python 3.10, which does not have `typing.override`.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from klamm.errors import ConfigError, OffsetOutOfRangeError
from klamm.legacy.consumer import Consumer07, partitions_with_messages, source_headers
from klamm.spark.client_options import READ_DEFAULTS
from klamm.spark.failures import short_errors
from klamm.spark.offsets import EARLIEST, LATEST, OffsetRange
from klamm.spark.positions import Times
from klamm.spark.read import BATCH_BYTES, report_loss, value_of
from klamm.spark.schema import arrow_schema
from klamm.spark.settings import MAX_INT, shortened, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql.types import StructType

    from klamm._klamm import Message07
    from klamm.spark.offsets import Partition
    from klamm.spark.options import ReadOptions
    from klamm.spark.positions import Position


class KlammLegacyReader(DataSourceReader):
    """Reads from a broker of Kafka 0.6 or 0.7 in one batch. Spark pickles the reader for the executors."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check(options)
        self._options = options
        self._schema = arrow_schema(schema)

    @short_errors
    def partitions(self) -> list[InputPartition]:
        """Plan one or more tasks for each partition with messages to read. Tasks begin at the starts of segments.

        Raise an error for a topic that has never had a message. Brokers of Kafka 0.6 and 0.7 accept any topic name, so
        the name may be misspelled.
        """
        options = self._options
        with closing(_consumer(options)) as consumer:
            tps = list(options.assigned) or [
                (topic, number)
                for topic in sorted(options.topics)
                for number in partitions_with_messages(consumer, topic)
            ]
            ranges = [
                OffsetRange(*tp, _resolve(consumer, tp, options.start), _resolve(consumer, tp, options.end))
                for tp in tps
            ]
            for topic in sorted({topic for topic, _ in options.assigned}):
                partitions_with_messages(consumer, topic)
            most = options.division.max_bytes
            return [InputPartition(part) for each in ranges for part in _cut(consumer, each, most)]

    @short_errors
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the messages of one task, which has a range of byte offsets. An executor runs this method."""
        offsets = value_of(partition)
        if offsets is None:
            return
        with closing(_consumer(self._options)) as consumer:
            for messages in _batches(self._messages(consumer, offsets)):
                arrays = [_columns[field.name](messages, offsets, consumer.broker) for field in self._schema]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(values, field.type) for values, field in zip(arrays, self._schema, strict=True)],
                    schema=self._schema,
                )

    def _messages(self, consumer: Consumer07, offsets: OffsetRange) -> Iterator[Message07]:
        position = offsets.start
        try:
            for message in consumer.messages(offsets.topic, offsets.partition, offsets.start, end=offsets.end):
                position = message.next_offset
                yield message
        except OffsetOutOfRangeError:
            first = consumer.earliest(offsets.topic, offsets.partition)
            tried = f"cannot read partition {offsets.topic}-{offsets.partition} from byte {position} to {offsets.end}"
            report_loss(
                self._options, "COULD_NOT_READ_OFFSET_RANGE", f"{tried}: the partition begins at byte {first} now"
            )
            if position < first < offsets.end:
                yield from self._messages(consumer, offsets._replace(start=first))


def check(options: ReadOptions) -> None:
    """Raise `ConfigError` for options that Kafka 0.6 and 0.7 do not support. The function does not connect."""
    if options.protocol not in MAGIC:
        raise ConfigError(
            f"option 'kafka.protocol' must be {' or '.join(MAGIC)}, got '{options.protocol}'",
            hint="leave it out for Kafka 0.8 and newer",
        )
    unsupported = {
        "subscribePattern": options.pattern is not None,
        options.start.option: isinstance(options.start.at, Times),
        options.end.option: isinstance(options.end.at, Times),
        "minPartitions": options.division.min_parts is not None,
        "maxRecordsPerPartition": options.division.max_records is not None,
        "filterPushdown": options.filter_pushdown,
        "commitGroup": options.commit_group is not None,
    }
    for name in (name for name, is_set in unsupported.items() if is_set):
        raise ConfigError(
            f"option '{name}' is not supported with Kafka {options.protocol}",
            hint="leave the option out: these brokers have byte offsets, but no topic patterns, timestamps, record counts or groups",
        )
    given = {name for name, value in options.config.items() if READ_DEFAULTS.get(name) != value}
    for name in given - {"bootstrap.servers", "max.partition.fetch.bytes", "request.timeout.ms"}:
        raise ConfigError(
            f"option 'kafka.{name}' is not supported with Kafka {options.protocol}",
            hint="use only kafka.bootstrap.servers, kafka.max.partition.fetch.bytes and kafka.request.timeout.ms",
        )
    if "," in options.config["bootstrap.servers"]:
        raise ConfigError(
            f"option 'kafka.bootstrap.servers' must be one broker with Kafka {options.protocol}, which has its own partitions",
            hint="read from each broker separately, and combine the DataFrames with union",
        )
    _consumer(options).close()


def _consumer(options: ReadOptions) -> Consumer07:
    def number(name: str, default: str) -> int:
        text = options.config.get(name, default)
        value = whole_number(text, MAX_INT)
        if value is None:
            raise ConfigError(f"option 'kafka.{name}' must be a whole number, got '{shortened(text)}'")
        return value

    return Consumer07(
        options.config["bootstrap.servers"].strip(),
        fetch_size=number("max.partition.fetch.bytes", "0"),
        magic=MAGIC[options.protocol or ""],
        timeout=number("request.timeout.ms", "30000") / 1000,
    )


def _resolve(consumer: Consumer07, tp: Partition, position: Position) -> int:
    at = position.at
    if isinstance(at, dict):
        if tp not in at:
            raise ConfigError(
                f"option '{position.option}' must name every partition: it does not name {tp[0]}-{tp[1]}",
                hint="add this partition; -1 means latest, -2 means earliest",
            )
        offset = at[tp]
        at = {EARLIEST: "earliest", LATEST: "latest"}.get(offset, "")
        if not at:
            return offset
    return consumer.earliest(*tp) if at == "earliest" else consumer.latest(*tp)


def _cut(consumer: Consumer07, offsets: OffsetRange, most: int | None) -> list[OffsetRange]:
    """Divide a range of byte offsets at the starts of segments, so that each part has at most `most` bytes.

    The function does not divide a segment of more than `most` bytes.
    """
    if offsets.start >= offsets.end:
        return []
    edges = [offsets.start]
    if most is not None and offsets.end - offsets.start > most:
        segments = sorted(consumer.offsets(offsets.topic, offsets.partition, max_number=MAX_SEGMENTS))
        for segment, following in pairwise(s for s in [*segments, offsets.end] if offsets.start < s <= offsets.end):
            if following - edges[-1] > most:
                edges.append(segment)
    return [offsets._replace(start=start, end=end) for start, end in pairwise([*edges, offsets.end])]


def _batches(messages: Iterable[Message07]) -> Iterator[list[Message07]]:
    """Group messages into batches. A batch is full when it reaches a number of rows or a number of bytes."""
    batch: list[Message07] = []
    size = 0
    for message in messages:
        batch.append(message)
        size += len(message.payload)
        if len(batch) == BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


_columns: dict[str, Callable[[Sequence[Message07], OffsetRange, str], list[object]]] = {
    "key": lambda messages, _offsets, _broker: [None] * len(messages),
    "value": lambda messages, _offsets, _broker: [message.payload for message in messages],
    "topic": lambda messages, offsets, _broker: [offsets.topic] * len(messages),
    "partition": lambda messages, offsets, _broker: [offsets.partition] * len(messages),
    "offset": lambda messages, _offsets, _broker: [message.offset for message in messages],
    "timestamp": lambda messages, _offsets, _broker: [None] * len(messages),
    "timestampType": lambda messages, _offsets, _broker: [-1] * len(messages),
    "headers": lambda messages, offsets, broker: [
        [{"key": key, "value": value} for key, value in source_headers(message, broker, offsets.partition)]
        for message in messages
    ],
}

MAGIC = {"0.6": 0, "0.7": 1}

# Maximum number of rows in a batch.
BATCH_ROWS = 16_384

# Maximum number of segments to request. A segment has 512 MB by default.
MAX_SEGMENTS = 100_000
