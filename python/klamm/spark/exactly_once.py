"""The sink that writes every row once: a task is one transaction, which also notes that it landed.

Spark repeats a batch (epoch) of a stream until it has seen all its tasks succeed, and a task that landed may be among them. So
each transaction commits an offset, too, for a group of its own: which epoch, and how many rows. What is repeated finds that note,
and is skipped. Names are `klamm-<query id>-<number of the task>`, for the transactions and for the group.

A new attempt begins with taking over its name, which settles or gives up what an earlier one left open and fences that one off
(KIP-98), and only then looks for the note. Tasks land one by one: readers see the rows of a batch task by task, each of
them once.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pyspark import TaskContext

import klamm
from klamm._klamm import config_keys
from klamm.errors import ConfigError, KafkaError
from klamm.transaction import GroupMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from klamm.spark.options import WriteOptions


class ExactlyOnceError(KafkaError):
    """A repeated task does not fit what landed: it would lose or repeat rows."""


class Task(NamedTuple):
    """Which part of which batch of which query a worker has before it."""

    query: str
    number: int
    epoch: int

    @property
    def name(self) -> str:
        """The name of its transactions, and of the group that keeps its note."""
        return f"klamm-{self.query}-{self.number}"


def current_task() -> Task:
    """Find out which task this worker runs."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    epoch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if context is None or query is None or epoch is None:
        raise ConfigError("option 'delivery' is exactly-once, but this is no task of a streaming query")
    return Task(query, context.partitionId(), int(epoch))


def write(options: WriteOptions, columns: list[str], batches: Iterator[pa.RecordBatch], task: Task) -> int:
    """Send the rows of a task, or skip them if they landed before, and return how many there were."""
    topic = options.topic
    if topic is None:
        raise ConfigError("exactly-once delivery needs option 'topic'")
    first = next(batches, None)
    if first is None:
        # No producer: there is nothing to land, and most tasks of a small batch are empty.
        landed = _landed(options, topic, task)
        return 0 if landed is None or landed.epoch < task.epoch else _skipped(landed, task, 0)
    # A batch may have 64 MB. This keeps the first no longer than the others.
    batches = chain(iter([first]), batches)
    del first
    # Not from the pool: a producer that another worker fenced off since would fail its next task.
    with klamm.Producer(options.config | {"transactional.id": task.name}) as producer:
        producer.init_transactions()
        landed = _landed(options, topic, task)
        if landed is not None and landed.epoch >= task.epoch:
            return _skipped(landed, task, sum(batch.num_rows for batch in batches))
        rows = 0
        with producer.transaction() as transaction:
            for batch in batches:
                rows += transaction.send_arrow(topic, batch.select(columns))
            note = _Note(task.epoch, rows).offset
            transaction.commit_offsets(GroupMetadata(task.name), {klamm.TopicPartition(topic, 0): note})
    return rows


class _Note(NamedTuple):
    """What landed last, as an offset: all that a transaction can commit besides records."""

    epoch: int
    rows: int

    @property
    def offset(self) -> int:
        return (self.epoch << ROW_BITS) + self.rows % (1 << ROW_BITS)

    @classmethod
    def of(cls, offset: int) -> _Note:
        return cls(offset >> ROW_BITS, offset % (1 << ROW_BITS))


def _landed(options: WriteOptions, topic: str, task: Task) -> _Note | None:
    known = {name for key, aliases, *_, roles, _ in config_keys() if "consumer" in roles for name in (key, *aliases)}
    config = options.config.only(known)
    place = klamm.TopicPartition(topic, 0)
    with klamm.Consumer(config | {"group.id": task.name, "enable.auto.commit": "false"}) as consumer:
        offset = consumer.committed([place])[place]
    return None if offset is None else _Note.of(offset)


def _skipped(landed: _Note, task: Task, rows: int) -> int:
    if landed.epoch > task.epoch:
        raise ExactlyOnceError(
            f"batch {task.epoch} of query {task.query} is to be written, but its batch {landed.epoch} has landed already",
            hint="the checkpoint is older than what was written; start with a new one, or with delivery at-least-once",
        )
    if landed.rows != rows % (1 << ROW_BITS):
        raise ExactlyOnceError(
            f"task {task.number} of batch {task.epoch} has {rows} rows, but it landed with {landed.rows}: "
            "the batch was divided into tasks differently, or its query gives other rows each time",
            hint="repeat it with the options and the number of partitions it had, or write this batch with delivery "
            "at-least-once",
        )
    return rows


# A note holds 2^31 epochs, and the number of rows up to this many bits.
ROW_BITS = 32
