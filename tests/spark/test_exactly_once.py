"""Delivery exactly-once: tasks that are repeated, interrupted, or late. Most tests run without Spark and call klamm as its workers do."""

from __future__ import annotations

import weakref

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import StringType, StructField, StructType

import klamm
from klamm.errors import ConfigError, FencedError, TransactionAbortedError, UnsupportedVersionError
from klamm.spark import ExactlyOnceError, KlammDataSource
from klamm.spark.exactly_once import Task, current_task, write
from klamm.spark.options import write_options
from klamm.testing import DevBroker


def written(cluster, topic):
    """Return the values that a read_committed consumer reads."""
    return [record.value for record in cluster.records(topic, isolation_level="read_committed")]


@pytest.fixture
def task(cluster, topic):
    """Run a task with a number, a batch, and the values of its rows. An exception among the values is raised at its place."""
    cluster.create(topic)
    options = write_options({"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic, "delivery": "exactly-once"})

    def run(number, epoch, *values):
        def batches():
            for value in values:
                if callable(value):
                    value()
                else:
                    yield pa.record_batch({"value": [value], "other": [0]})

        return write(options, ["value"], batches(), Task(topic, number, epoch))

    return run


def test_a_committed_task_is_skipped_when_it_is_repeated(cluster, topic, task):
    assert task(0, 0, b"a", b"b") == 2
    assert task(1, 0, b"c") == 1
    assert task(0, 0, b"a", b"b") == 2
    assert task(0, 1, b"d") == 1
    assert task(0, 1, b"d") == 1
    assert written(cluster, topic) == [b"a", b"b", b"c", b"d"]


def test_a_task_without_rows_commits_nothing(cluster, topic, task):
    assert task(0, 0) == 0
    assert task(0, 2, b"a") == 1
    assert written(cluster, topic) == [b"a"]


def test_sent_batches_are_released(cluster, topic):
    cluster.create(topic)
    options = write_options({"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic, "delivery": "exactly-once"})
    given, alive = [], []

    def batches():
        for _ in range(4):
            alive.append([number for number, batch in enumerate(given) if batch() is not None])
            batch = pa.record_batch({"value": [b"v"]})
            given.append(weakref.ref(batch))
            yield batch
            del batch

    assert write(options, ["value"], batches(), Task(topic, 0, 0)) == 4
    assert alive == [[], [0], [1], [2]]


def test_a_committed_task_that_is_repeated_without_rows_is_rejected(cluster, topic, task):
    """Its rows may be in another task now, which would write them a second time."""
    task(0, 3, b"a", b"b")
    with pytest.raises(ExactlyOnceError, match="has 0 rows, but 2 were committed"):
        task(0, 3)
    with pytest.raises(ExactlyOnceError, match="its batch 3 is already committed"):
        task(0, 2)
    assert task(0, 4) == 0
    assert written(cluster, topic) == [b"a", b"b"]


def test_rows_of_a_failed_task_are_not_visible(cluster, topic, task):
    def fail():
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        task(0, 0, b"a", fail)
    assert written(cluster, topic) == []
    task(0, 0, b"a", b"b")
    assert written(cluster, topic) == [b"a", b"b"]


def test_a_repeated_task_fences_the_earlier_attempt(cluster, topic, task):
    """The first attempt blocks between two rows while the second one runs to its end."""
    with pytest.raises((FencedError, TransactionAbortedError)):
        task(0, 0, b"a", lambda: task(0, 0, b"a", b"b"), b"b")
    assert written(cluster, topic) == [b"a", b"b"]


def test_a_repeated_task_aborts_the_transaction_of_a_killed_attempt(cluster, topic, task):
    dead = klamm.Producer(cluster.bootstrap, transactional_id=Task(topic, 0, 0).name)
    transaction = dead.transaction().__enter__()
    transaction.send(topic, b"half").result(timeout=30)
    task(0, 0, b"a")
    assert written(cluster, topic) == [b"a"]
    with pytest.raises((FencedError, TransactionAbortedError)):
        transaction.commit(timeout=30)
    dead.close(timeout=0)
    assert written(cluster, topic) == [b"a"]


def test_a_batch_that_is_divided_differently_is_rejected(cluster, topic, task):
    task(0, 5, b"a", b"b")
    with pytest.raises(ExactlyOnceError, match="has 3 rows, but 2 were committed"):
        task(0, 5, b"a", b"b", b"c")
    assert written(cluster, topic) == [b"a", b"b"]


def test_a_checkpoint_older_than_the_committed_batch_is_rejected(cluster, topic, task):
    task(0, 5, b"a")
    with pytest.raises(ExactlyOnceError, match="its batch 5 is already committed"):
        task(0, 4, b"a")
    assert written(cluster, topic) == [b"a"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("acks", "1"), ("enable.idempotence", "false"), ("max.in.flight.requests.per.connection", "10")],
)
def test_options_that_break_exactly_once_are_rejected_before_anything_runs(key, value):
    options = {
        "kafka.bootstrap.servers": "localhost:1",
        "topic": "t",
        "delivery": "exactly-once",
        f"kafka.{key}": value,
    }
    with pytest.raises(ConfigError, match="idempotence"):
        KlammDataSource(options).streamWriter(StructType([StructField("value", StringType())]), overwrite=False)


def test_brokers_without_transactions_are_rejected():
    with DevBroker(as_version="0.10.2") as old:
        options = write_options(
            {"kafka.bootstrap.servers": old.bootstrap_servers, "topic": "t", "delivery": "exactly-once"}
        )
        rows = pa.record_batch({"value": [b"a"]})
        with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 0\.11\.0"):
            write(options, ["value"], iter([rows]), Task("query", 0, 0))


def test_exactly_once_outside_a_stream_is_rejected():
    with pytest.raises(ConfigError, match="not a task of a streaming query"):
        current_task()


@pytest.mark.spark
def test_a_batch_write_is_refused(kafka, topic):
    with pytest.raises(AnalysisException, match="exactly-once, which needs a stream"):
        kafka.write(kafka.spark.range(1).selectExpr("'v' value"), topic=topic, delivery="exactly-once")


@pytest.mark.spark
@pytest.mark.limits
def test_a_stream_that_repeats_a_batch_writes_its_rows_once(kafka, topic, tmp_path):
    source, result = f"{topic}-in", f"{topic}-out"
    kafka.create(source, partitions=2)
    kafka.create(result, partitions=2)
    for partition in range(2):
        kafka.numbers(source, range(partition * 20, partition * 20 + 20), partition)
    rows = kafka.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="20").select("value")
    kafka.run(rows, tmp_path, topic=result, delivery="exactly-once")
    # Dead between the last task's end and noting that the batch is done:
    (tmp_path / "commits" / "1").unlink()
    (tmp_path / "commits" / ".1.crc").unlink()
    kafka.run(rows, tmp_path, topic=result, delivery="exactly-once")
    assert sorted(map(int, written(kafka, result))) == list(range(40))
