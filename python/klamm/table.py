"""A topic as an Arrow table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from klamm._klamm import ArrowColumns
from klamm.consumer import Consumer, _pyarrow
from klamm.errors import ConfigError, KafkaTimeoutError
from klamm.record import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import TypeAlias

    import pyarrow as pa

    from klamm.config import Bootstrap

    Position: TypeAlias = "str | datetime | Mapping[int, int]"


def read_table(
    bootstrap_servers: Bootstrap,
    topic: str,
    start: Position = "earliest",
    end: Position = "latest",
    columns: Sequence[str] | None = None,
    **config: Any,
) -> pa.Table:
    """Read a topic from start to end, all partitions, into a `pyarrow.Table`.

        table = klamm.read_table("localhost:9092", "greetings", columns=["key", "value"])

    `start` and `end` are "earliest", "latest", an aware datetime, or offsets by partition (a partition left out is not
    read). Where the topic ends is asked once, at the start, so a busy topic ends the read, too. Rows of a partition are in
    order; those of different partitions come as they arrive.
    """
    pyarrow, wanted = _pyarrow(), ArrowColumns(columns)
    with Consumer(bootstrap_servers, **{"enable_auto_commit": False, **config}) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        first = _resolve(consumer, partitions, start, "start")
        last = _resolve(consumer, partitions, end, "end")
        ranges = [
            TopicPartition(topic, tp.partition, first[tp], last[tp])
            for tp in partitions
            if tp in first and tp in last and first[tp] < last[tp]
        ]
        batches: list[pa.RecordBatch] = []
        if ranges:
            consumer.assign(ranges)
            batches.extend(consumer._arrow(BATCH_ROWS, SILENCE_S, wanted))  # noqa: SLF001
            if not consumer._is_finished():  # noqa: SLF001
                left = [f"{tp.partition} at {consumer.position(tp)} of {last[tp]}" for tp in ranges]
                raise KafkaTimeoutError(
                    f"no record of topic {topic!r} came for {SILENCE_S:.0f} s; partition {', '.join(left)}",
                    hint="look at the brokers that lead these partitions",
                )
    return pyarrow.Table.from_batches(batches, schema=pyarrow.schema(wanted))


def _resolve(
    consumer: Consumer, partitions: list[TopicPartition], position: Position, argument: str
) -> dict[TopicPartition, int]:
    from datetime import datetime

    if position == "earliest":
        return consumer.beginning_offsets(partitions)
    if position == "latest":
        return consumer.end_offsets(partitions)
    if isinstance(position, datetime) and position.tzinfo is not None:
        at = int(position.timestamp() * 1000)
        found = consumer.offsets_for_times(dict.fromkeys(partitions, at))
        ends = consumer.end_offsets(partitions)
        return {tp: ends[tp] if place is None else place[0] for tp, place in found.items()}
    if hasattr(position, "items"):
        named = {TopicPartition(partitions[0].topic, number): offset for number, offset in position.items()}
        unknown = named.keys() - set(partitions)
        if unknown:
            numbers = ", ".join(str(tp.partition) for tp in sorted(unknown, key=lambda tp: tp.partition))
            raise ConfigError(f"{argument} names partitions that the topic does not have: {numbers}")
        return named
    raise ConfigError(
        f"{argument} cannot be {position!r}",
        hint='give "earliest", "latest", a datetime with a time zone, or a dict of offsets by partition',
    )


# Rows of a batch: as many as Spark's; fewer cost more, more gain nothing.
BATCH_ROWS = 65_536

# Silence after which a read fails that the brokers said there are records for.
SILENCE_S = 60.0
