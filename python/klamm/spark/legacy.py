"""Batch reads of Kafka 0.6 and 0.7: option `kafka.protocol`.

One broker a read, since each has partitions of its own with the same numbers. Offsets are bytes, so nobody can divide a
range but where a segment of the log begins, which brokers tell. Rows have no key and no time; the headers are those that
`klamm mirror` gives: source.broker, source.partition, source.offset, and source.index where several messages came compressed at one
offset.
"""

# typing.override is there from Python 3.12 on.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from klamm.errors import ConfigError, OffsetOutOfRangeError
from klamm.legacy import Consumer07
from klamm.spark.client_options import READ_DEFAULTS
from klamm.spark.offsets import EARLIEST, LATEST, OffsetRange
from klamm.spark.positions import Times
from klamm.spark.read import BATCH_BYTES, lost, span_of
from klamm.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql.types import StructType

    from klamm._klamm import Message07
    from klamm.spark.offsets import Partition
    from klamm.spark.options import ReadOptions
    from klamm.spark.positions import Position


class KlammLegacyReader(DataSourceReader):
    """Batch read of an old broker. Plain data: it travels to the executors."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check(options)
        self._options = options
        self._schema = arrow_schema(schema)

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks: one for each partition that has something to read, or several, which begin with segments."""
        options = self._options
        with closing(_consumer(options)) as consumer:
            found = list(options.assigned) or [(t, n) for t in sorted(options.topics) for n in consumer.partitions(t)]
            spans = [
                OffsetRange(*tp, _resolve(consumer, tp, options.start), _resolve(consumer, tp, options.end))
                for tp in found
            ]
            most = options.division.max_bytes
            return [InputPartition(part) for span in spans for part in _cut(consumer, span, most)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range of byte offsets, on an executor."""
        span = span_of(partition)
        if span is None:
            return
        with closing(_consumer(self._options)) as consumer:
            messages = self._messages(consumer, span)
            for some in _together(messages):
                arrays = [_columns[field.name](some, span, consumer.broker) for field in self._schema]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(values, field.type) for values, field in zip(arrays, self._schema, strict=True)],
                    schema=self._schema,
                )

    def _messages(self, consumer: Consumer07, span: OffsetRange) -> Iterator[Message07]:
        position = span.start
        try:
            for message in consumer.messages(span.topic, span.partition, span.start, end=span.end):
                position = message.next_offset
                yield message
        except OffsetOutOfRangeError:
            first = consumer.earliest(span.topic, span.partition)
            where = f"partition {span.topic}-{span.partition} was to be read from byte {position} to {span.end}"
            lost(self._options, "COULD_NOT_READ_OFFSET_RANGE", f"{where}, but it begins at {first} now")
            if position < first < span.end:
                yield from self._messages(consumer, span._replace(start=first))


def check(options: ReadOptions) -> None:
    """Raise what an old broker cannot do, before anything runs. Nothing is connected."""
    if options.protocol not in MAGIC:
        raise ConfigError(
            f"option 'kafka.protocol' must be {' or '.join(MAGIC)}, got '{options.protocol}'",
            hint="leave it out for Kafka 0.8 and newer",
        )
    asked = {
        "subscribePattern": options.pattern is not None,
        options.start.option: isinstance(options.start.at, Times),
        options.end.option: isinstance(options.end.at, Times),
        "minPartitions": options.division.min_parts is not None,
        "maxRecordsPerPartition": options.division.max_records is not None,
        "filterPushdown": options.filter_pushdown,
        "commitGroup": options.commit_group is not None,
    }
    for name in (name for name, is_set in asked.items() if is_set):
        raise ConfigError(
            f"option '{name}' cannot be had from Kafka {options.protocol}",
            hint="its brokers know byte offsets alone: no topics by pattern, no times, no numbers of records, no groups",
        )
    given = {name for name, value in options.config.items() if READ_DEFAULTS.get(name) != value}
    for name in given - {"bootstrap.servers", "max.partition.fetch.bytes", "request.timeout.ms"}:
        raise ConfigError(
            f"option 'kafka.{name}' does nothing with Kafka {options.protocol}",
            hint="there are kafka.bootstrap.servers, kafka.max.partition.fetch.bytes and kafka.request.timeout.ms",
        )
    if "," in options.config["bootstrap.servers"]:
        raise ConfigError(
            f"option 'kafka.bootstrap.servers' must be one broker of Kafka {options.protocol}",
            hint="each has partitions of its own; read one after the other, and unite the frames",
        )
    _consumer(options).close()


def _consumer(options: ReadOptions) -> Consumer07:
    def number(name: str, default: str) -> int:
        text = options.config.get(name, default).strip()
        if not text.isdecimal():
            raise ConfigError(f"option 'kafka.{name}' must be a whole number, got '{text}'")
        return int(text)

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
            raise ConfigError(f"option '{position.option}' must name every partition: it does not name {tp[0]}-{tp[1]}")
        offset = at[tp]
        at = {EARLIEST: "earliest", LATEST: "latest"}.get(offset, "")
        if not at:
            return offset
    return consumer.earliest(*tp) if at == "earliest" else consumer.latest(*tp)


def _cut(consumer: Consumer07, span: OffsetRange, most: int | None) -> list[OffsetRange]:
    """Divide a range where segments begin, into parts of at most so many bytes if segments are smaller."""
    if span.start >= span.end:
        return []
    edges = [span.start]
    if most is not None and span.end - span.start > most:
        segments = sorted(consumer.offsets(span.topic, span.partition, max_number=MAX_SEGMENTS))
        for segment, following in pairwise(s for s in [*segments, span.end] if span.start < s <= span.end):
            if following - edges[-1] > most:
                edges.append(segment)
    return [span._replace(start=start, end=end) for start, end in pairwise([*edges, span.end])]


def _together(messages: Iterable[Message07]) -> Iterator[list[Message07]]:
    """Gather messages to batches, which have an end in rows and one in bytes."""
    some: list[Message07] = []
    size = 0
    for message in messages:
        some.append(message)
        size += len(message.payload)
        if len(some) == BATCH_ROWS or size >= BATCH_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _headers(message: Message07, span: OffsetRange, broker: str) -> list[tuple[str, bytes]]:
    headers = [
        ("source.broker", broker.encode()),
        ("source.partition", b"%d" % span.partition),
        ("source.offset", b"%d" % message.offset),
    ]
    return [*headers, ("source.index", b"%d" % message.index)] if message.count > 1 else headers


_columns: dict[str, Callable[[Sequence[Message07], OffsetRange, str], list[object]]] = {
    "key": lambda messages, _span, _broker: [None] * len(messages),
    "value": lambda messages, _span, _broker: [message.payload for message in messages],
    "topic": lambda messages, span, _broker: [span.topic] * len(messages),
    "partition": lambda messages, span, _broker: [span.partition] * len(messages),
    "offset": lambda messages, _span, _broker: [message.offset for message in messages],
    "timestamp": lambda messages, _span, _broker: [None] * len(messages),
    "timestampType": lambda messages, _span, _broker: [-1] * len(messages),
    "headers": lambda messages, span, broker: [
        [{"key": key, "value": value} for key, value in _headers(message, span, broker)] for message in messages
    ],
}

MAGIC = {"0.6": 0, "0.7": 1}

# Rows of a batch.
BATCH_ROWS = 16_384

# A segment has half a gigabyte unless a broker was told otherwise.
MAX_SEGMENTS = 100_000
