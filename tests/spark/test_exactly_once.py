"""Delivery exactly-once: tasks that are repeated, interrupted, or late. Most tests run without Spark and call klamm as its workers do."""

from __future__ import annotations

import weakref

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import StringType, StructField, StructType

import klamm
from klamm.errors import (
    ConfigError,
    FencedError,
    GroupAuthorizationFailedError,
    TransactionAbortedError,
    UnstableOffsetCommitError,
    UnsupportedVersionError,
)
from klamm.spark import ExactlyOnceError, KlammDataSource, clients
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

        return write(options, {"value": "value"}, batches(), Task(topic, number, epoch))

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

    assert write(options, {"value": "value"}, batches(), Task(topic, 0, 0)) == 4
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
            write(options, {"value": "value"}, iter([rows]), Task("query", 0, 0))


def options_of(broker, **options):
    return write_options(
        {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "t", "delivery": "exactly-once", **options}
    )


@pytest.fixture
def own_broker(monkeypatch):
    """Start a dev broker of one node, for a worker that has no clients yet. Each connection has one ApiVersions request."""
    monkeypatch.setattr(clients, "_idle", {})
    with DevBroker() as broker:
        yield broker


def test_the_second_task_of_a_worker_opens_no_admin_connection(own_broker):
    for number in range(3):  # without rows, so that there is no producer
        assert write(options_of(own_broker), {"value": "value"}, iter([]), Task("query", number, 0)) == 0
    assert len(own_broker.requests("ApiVersions")) == 1
    assert len(own_broker.requests("OffsetFetch")) == 3


def test_the_second_task_opens_connections_only_for_its_producer(own_broker):
    def opened(number):
        before = len(own_broker.requests("ApiVersions"))
        rows = pa.record_batch({"value": [b"a"]})
        assert write(options_of(own_broker), {"value": "value"}, iter([rows]), Task("query", number, 0)) == 1
        return len(own_broker.requests("ApiVersions")) - before

    first, second = opened(0), opened(1)
    assert second == first - 1


def test_an_admin_client_that_failed_is_replaced(own_broker):
    own_broker.fail_next("OffsetFetch", error="GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(GroupAuthorizationFailedError):
        write(options_of(own_broker), {"value": "value"}, iter([]), Task("query", 0, 0))
    for number in range(2):
        assert write(options_of(own_broker), {"value": "value"}, iter([]), Task("query", number, 0)) == 0
    assert len(own_broker.requests("ApiVersions")) == 2


def test_a_task_that_fails_later_keeps_the_admin_client(own_broker):
    def fail():
        yield pa.record_batch({"value": [b"a"]})
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        write(options_of(own_broker), {"value": "value"}, fail(), Task("query", 0, 0))
    before = len(own_broker.requests("ApiVersions"))
    assert write(options_of(own_broker), {"value": "value"}, iter([]), Task("query", 0, 0)) == 0
    assert len(own_broker.requests("ApiVersions")) == before


def test_a_task_does_not_trust_the_offset_while_a_transaction_is_open(own_broker):
    """The open transaction may still commit the rows of this batch."""
    group = Task("query", 0, 0).name
    with klamm.Producer(own_broker.bootstrap_servers, transactional_id=group) as producer:
        producer.init_transactions()
        with producer.transaction() as transaction:
            transaction.send("t", b"a")
            transaction.commit_offsets(klamm.GroupMetadata(group), {klamm.TopicPartition("t", 0): 1})
            options = options_of(own_broker, **{"kafka.default.api.timeout.ms": "500"})
            with pytest.raises((UnstableOffsetCommitError, TimeoutError)):
                write(options, {"value": "value"}, iter([]), Task("query", 0, 0))
    with pytest.raises(ExactlyOnceError, match="has 0 rows, but 1 were committed"):
        write(options_of(own_broker), {"value": "value"}, iter([]), Task("query", 0, 0))


@pytest.mark.parametrize("release", ["0.11.0", "2.4", "2.5", "2.8"])
def test_old_brokers_with_transactions_write_each_row_once(release):
    """Brokers before Kafka 2.5 cannot wait for open transactions."""
    with DevBroker(as_version=release) as old:
        for _ in range(2):
            rows = pa.record_batch({"value": [b"a"]})
            assert write(options_of(old), {"value": "value"}, iter([rows]), Task(f"query-{release}", 0, 0)) == 1
        with klamm.Consumer(old.bootstrap_servers, isolation_level="read_committed") as consumer:
            tp = klamm.TopicPartition("t", 0)
            consumer.assign([klamm.TopicPartition("t", 0, offset=0, end_offset=consumer.end_offsets([tp])[tp])])
            assert [record.value for record in consumer] == [b"a"]


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
