"""Writes the rows of a streaming query exactly once, with one Kafka transaction for each task.

Spark repeats a micro-batch (epoch) until all its tasks have succeeded, and some of these tasks may have committed
already. Therefore, each task has a consumer group, and each transaction also commits an offset for this group. The
offset encodes the epoch and the number of rows. A repeated task reads the committed offset, and skips its rows if an
earlier attempt has committed the rows. The transactional ID and the group ID are both `klamm-<query id>-<task number>`.
A batch write is also exactly once if its options name an application and a version. In a batch write, the application
replaces the query ID, and the version replaces the number of the micro-batch.

A new attempt of a task first initializes its transactional ID. The initialization completes or aborts the open
transaction of an earlier attempt, and fences the earlier attempt (KIP-98). After the initialization, the new attempt
reads the committed offset. Tasks commit one by one, so readers may see part of a micro-batch, but each row only once.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pyspark import TaskContext

import klamm
from klamm.errors import ConfigError, KafkaError
from klamm.spark import clients
from klamm.spark.client_options import keys_of
from klamm.spark.failures import rows_after
from klamm.spark.schema import selected
from klamm.transaction import GroupMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from klamm.spark.options import WriteOptions


class ExactlyOnceError(KafkaError):
    """A repeated task differs from the committed task, so writing the new rows would lose or repeat rows."""


class Task(NamedTuple):
    """Identifies a task: the query, the number of the task, and the micro-batch (epoch)."""

    query: str
    number: int
    epoch: int

    @property
    def name(self) -> str:
        """Return the transactional ID of the task, which is also its group ID."""
        return f"klamm-{self.query}-{self.number}"


def current_task() -> Task:
    """Return the task of a streaming query that this worker runs, according to Spark's task context."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    epoch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if context is None or query is None or epoch is None:
        raise ConfigError(
            "option 'delivery' is exactly-once, but this is not a task of a streaming query", hint="use writeStream"
        )
    return Task(query, context.partitionId(), int(epoch))


def batch_task(app: str, version: int) -> Task:
    """Return the task of a batch write that this worker runs.

    `app` replaces the query ID, and `version` replaces the epoch.
    """
    context = TaskContext.get()
    if context is None:
        raise ConfigError("option 'delivery' is exactly-once, but this is not a task of Spark")
    return Task(app, context.partitionId(), version)


def write(options: WriteOptions, columns: Mapping[str, str], batches: Iterator[pa.RecordBatch], task: Task) -> int:
    """Write the rows of a task in one transaction, or skip them if an earlier attempt committed them.

    Args:
        options: Options of the query; `topic` is required.
        columns: Columns to send: the name for `send_arrow` by the name of the column.
        batches: Rows of the task.
        task: The task.

    Returns:
        Number of rows of the task.

    Raises:
        ExactlyOnceError: The task differs from the task that an earlier attempt committed.
        KafkaError: The transaction failed.
    """
    topic = options.topic
    if topic is None:
        raise ConfigError("exactly-once delivery needs option 'topic'")
    first = next(batches, None)
    if first is None:
        # A task without rows needs no producer. Most tasks of a small micro-batch are empty.
        done = _committed(options, topic, task)
        return 0 if done is None or done.epoch < task.epoch else _skip(done, task, 0)
    # An Arrow batch may have 64 MB, so hold no reference to the first batch while later batches are sent.
    batches = chain(iter([first]), batches)
    del first
    # Do not take the producer from a cache. The transactional ID belongs to the task, and Spark gave only 31 of 113
    # tasks to the worker that had run the same task before (benches/spark/requests.py, four slots). If another worker
    # runs the task, its producer fences the cached producer. The next task with the cached producer would then fail.
    with klamm.Producer(options.config | {"transactional.id": task.name}) as producer:
        producer.init_transactions()
        done = _committed(options, topic, task)
        if done is not None and done.epoch >= task.epoch:
            return _skip(done, task, sum(batch.num_rows for batch in batches))
        rows, typed = 0, options.arguments()
        with producer.transaction() as transaction:
            for batch in batches:
                with rows_after(rows):
                    rows += transaction.send_arrow(topic, selected(batch, columns), **typed)
            offset = _Committed(task.epoch, rows).offset
            transaction.commit_offsets(GroupMetadata(task.name), {klamm.TopicPartition(topic, 0): offset})
    return rows


class _Committed(NamedTuple):
    """The last committed epoch of a task and its number of rows, encoded as an offset.

    A transaction commits this offset together with its records.
    """

    epoch: int
    rows: int

    @property
    def offset(self) -> int:
        return (self.epoch << ROW_BITS) + self.rows % (1 << ROW_BITS)

    @classmethod
    def of(cls, offset: int) -> _Committed:
        return cls(offset >> ROW_BITS, offset % (1 << ROW_BITS))


def _committed(options: WriteOptions, topic: str, task: Task) -> _Committed | None:
    # The `with` block contains only the call, so that a task that fails later does not close the cached client.
    with clients.group_admin(options.config.only(keys_of("admin"))) as admin:
        offset = admin.committed(task.name, klamm.TopicPartition(topic, 0))
    return None if offset is None else _Committed.of(offset)


def _skip(done: _Committed, task: Task, rows: int) -> int:
    """Return `rows` if the task equals the committed task, so that the caller can skip the task.

    If the tasks differ, raise an error.
    """
    if done.epoch > task.epoch:
        raise ExactlyOnceError(
            f"cannot write batch {task.epoch} of query {task.query}: its batch {done.epoch} is already committed",
            hint="the checkpoint is older than the topic; start with a new checkpoint, or with delivery at-least-once",
        )
    if done.rows != rows % (1 << ROW_BITS):
        raise ExactlyOnceError(
            f"task {task.number} of batch {task.epoch} of query {task.query} has {rows} rows, but {done.rows} were committed "
            "in an earlier attempt: the batch was divided into tasks differently, or the query is not deterministic",
            hint="restart with the same options and number of partitions, or write this batch with delivery at-least-once",
        )
    return rows


# Number of bits of an offset that store the number of rows. The other 31 bits store the epoch.
ROW_BITS = 32
