"""Topics as an Arrow table."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from operator import index
from typing import TYPE_CHECKING, Any

from klamm._klamm import ArrowColumns
from klamm.arguments import list_of_str
from klamm.consumer import Consumer, _pyarrow
from klamm.errors import ArgumentError, ConfigError, KafkaTimeoutError
from klamm.record import TopicPartition, first_ms_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import TypeAlias

    import pyarrow as pa

    from klamm.config import Bootstrap

    Position: TypeAlias = "str | int | datetime | Mapping[int, int] | Mapping[TopicPartition, int]"


def read_table(
    bootstrap_servers: Bootstrap,
    topic: str | Sequence[str],
    start: Position = "earliest",
    end: Position = "latest",
    columns: Sequence[str] | None = None,
    *,
    progress: bool = False,
    **config: Any,
) -> pa.Table:
    """Read a topic, or several, from start to end, all partitions at a time, into a `pyarrow.Table`.

        table = klamm.read_table("localhost:9092", "greetings", columns=["key", "value"])

    `start` and `end` (the first record not to read) are "earliest", "latest", an offset for all partitions, offsets by
    partition number or `TopicPartition` (a partition left out is not read), or an aware datetime: the first record of
    that time or later. An offset outside of what a partition holds becomes the nearest that is there. Where the topic ends
    is asked once, at the start, so a busy topic ends the read, too. Rows of a partition are in order; those of different
    partitions come as they arrive. `progress` shows a bar, on a terminal only.
    """
    pyarrow, wanted = _pyarrow(), ArrowColumns(columns)
    # Records that age out before they are read are passed over, and not taken for a reason to go to the end. A name that was
    # misspelt is an error, and not the name of a new topic.
    defaults = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "allow_auto_create_topics": False}
    with Consumer(bootstrap_servers, **{**defaults, **config}) as consumer:
        topics = [topic] if isinstance(topic, str) else list(dict.fromkeys(list_of_str("topics", topic)))
        ranges = _ranges(consumer, topics, start, end)
        batches: list[pa.RecordBatch] = []
        if ranges:
            consumer.assign(ranges)
            total = sum(tp.end_offset - tp.offset for tp in ranges)  # type: ignore[operator, misc]
            title = topics[0] if len(topics) == 1 else f"{len(topics):,} topics"
            with _bar(title, total, show=progress) as advance:
                for batch in consumer._arrow(BATCH_ROWS, SILENCE_S, wanted):  # noqa: SLF001
                    batches.append(batch)
                    advance(batch.num_rows)
            if not consumer._is_finished():  # noqa: SLF001
                places = [f"{tp.topic}-{tp.partition} at {consumer.position(tp)} of {tp.end_offset}" for tp in ranges]
                raise KafkaTimeoutError(
                    f"no record came for {SILENCE_S:.0f} s; {', '.join(places)}",
                    hint="look at the brokers that lead these partitions",
                )
    return pyarrow.Table.from_batches(batches, schema=pyarrow.schema(wanted))


def _ranges(consumer: Consumer, topics: list[str], start: Position, end: Position) -> list[TopicPartition]:
    """The partitions that have something to read, from where to where."""
    there = [TopicPartition(name, number) for name in topics for number in consumer.partitions_for(name)]
    first, last = _by_partition(start, there, "start"), _by_partition(end, there, "end")
    # Of one that is not read nothing is asked: it may have no leader, and so nobody who answers.
    partitions = [tp for tp in there if all(named is None or tp in named for named in (first, last))]
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
        at = max(first_ms_of(position), 0)  # below are the broker's words for the two ends
        found = consumer.offsets_for_times(dict.fromkeys(ends, at))
        return {tp: ends[tp] if place is None else place[0] for tp, place in found.items()}
    raise ConfigError(
        f"{argument} cannot be {position!r}",
        hint='give "earliest", "latest", an offset, a datetime with a time zone, or a dict of offsets by partition',
    )


def _by_partition(position: Any, there: list[TopicPartition], argument: str) -> dict[TopicPartition, int] | None:
    """The offsets of a position that names partitions."""
    if not hasattr(position, "items"):
        return None
    named = {}
    for key, offset in position.items():
        places = [key] if isinstance(key, TopicPartition) else [tp for tp in there if tp.partition == key]
        if not places or places[0] not in there:
            name = f"{key.topic}-{key.partition}" if isinstance(key, TopicPartition) else key
            raise ConfigError(f"{argument} names a partition that is not there: {name}")
        if not hasattr(offset, "__index__"):
            raise ArgumentError(f"{argument} has to be offsets by partition, and {offset!r} is none")
        named.update(dict.fromkeys(places, index(offset)))
    return named


@contextmanager
def _bar(title: str, total: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Show a bar of offsets, on a terminal only; gives what to tell of rows that came."""
    if not (show and sys.stderr.isatty()):
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    look = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*look, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task(title, total=total)
        yield lambda rows: bar.advance(task, rows)


# Rows of a batch: as many as Spark's; fewer cost more, more gain nothing.
BATCH_ROWS = 65_536

# Silence after which a read fails that the brokers said there are records for.
SILENCE_S = 60.0
