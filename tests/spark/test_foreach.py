"""`write_stream` and `foreach_batch`: streams in output mode update, at least once and exactly once."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F

import klamm.spark
from klamm.errors import ConfigError

pytestmark = [pytest.mark.spark]

NOW = {"availableNow": True}
EXACTLY_ONCE = {"delivery": "exactly-once"}


@pytest.fixture
def totals(kafka, topic):
    """A stream of counts by remainder, of a topic with two partitions, in micro-batches of 20 records."""
    kafka.create(f"{topic}-in", partitions=2)
    kafka.create(f"{topic}-out", partitions=2)
    return (
        kafka.stream(subscribe=f"{topic}-in", startingOffsets="earliest", maxOffsetsPerTrigger="20")
        .groupBy((F.col("value").cast("string").cast("int") % 3).cast("string").alias("key"))
        .agg(F.count("*").cast("string").alias("value"))
    )


def options(kafka, topic, tmp_path, **more):
    return {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "topic": f"{topic}-out",
        "checkpointLocation": tmp_path / "checkpoint",
        **more,
    }


def repeat_last_batch(tmp_path, number):
    """Make Spark run a batch again, as if the driver had died before it wrote down that the batch is done."""
    commits = tmp_path / "checkpoint" / "commits"
    for name in (f"{number}", f".{number}.crc"):
        (commits / name).unlink()


def records(kafka, topic):
    return [(r.key, r.value) for r in kafka.records(f"{topic}-out", isolation_level="read_committed")]


def update_of(*numbers):
    """Return what update mode writes for batches of these numbers: the changed counts of each batch."""
    counts, changes = {}, []
    for batch in numbers:
        for number in batch:
            counts[number % 3] = counts.get(number % 3, 0) + 1
        changes += [(b"%d" % key, b"%d" % counts[key]) for key in {number % 3 for number in batch}]
    return sorted(changes)


@pytest.mark.limits
@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_update_mode_writes_the_rows_that_changed(kafka, topic, totals, tmp_path, delivery):
    kafka.numbers(f"{topic}-in", range(20), 0)
    query = klamm.spark.write_stream(totals, options(kafka, topic, tmp_path, delivery=delivery), trigger=NOW)
    query.awaitTermination()
    kafka.numbers(f"{topic}-in", range(30, 40, 3), 1)  # only 0 of 0, 1 and 2 changes
    klamm.spark.write_stream(
        totals, options(kafka, topic, tmp_path), trigger=NOW, delivery=delivery, query_name="totals"
    ).awaitTermination()
    assert sorted(records(kafka, topic)) == update_of(range(20), range(30, 40, 3))


@pytest.mark.limits
def test_a_batch_that_is_repeated_is_written_once(kafka, topic, totals, tmp_path):
    for first in (0, 20):
        kafka.numbers(f"{topic}-in", range(first, first + 20), 0)
        given = options(kafka, topic, tmp_path, **EXACTLY_ONCE)
        klamm.spark.write_stream(totals, given, trigger=NOW).awaitTermination()
        # Batch 0 only records where the stream starts.
        repeat_last_batch(tmp_path, first // 20 + 1)
    kafka.numbers(f"{topic}-in", range(40, 50), 1)
    klamm.spark.write_stream(totals, given, trigger=NOW).awaitTermination()
    assert sorted(records(kafka, topic)) == update_of(range(20), range(20, 40), range(40, 50))


@pytest.mark.limits
def test_a_batch_that_failed_halfway_is_written_once(dev, topic, tmp_path):
    """The first task commits, and the second fails until the query is started again."""
    dev.create(f"{topic}-in", partitions=2)
    dev.create(f"{topic}-out")
    dev.numbers(f"{topic}-in", range(10), 0)
    dev.numbers(f"{topic}-in", range(10, 20), 1)
    given = options(dev, topic, tmp_path, **EXACTLY_ONCE)

    def numbers(failing):
        check = F.when(F.col("partition") == failing, F.raise_error(F.lit("out of luck"))).otherwise(F.col("value"))
        return dev.stream(subscribe=f"{topic}-in", startingOffsets="earliest").select(
            check.cast("binary").alias("value")
        )

    with pytest.raises(StreamingQueryException, match="out of luck"):
        klamm.spark.write_stream(numbers(1), given, trigger=NOW).awaitTermination()
    klamm.spark.write_stream(numbers(7), given, trigger=NOW).awaitTermination()
    assert sorted(int(value) for _, value in records(dev, topic)) == list(range(20))


@pytest.mark.limits
def test_a_query_may_change_between_format_and_foreach_batch(dev, topic, tmp_path):
    """Both use the same transactions, so a batch that one of them wrote is not written again by the other."""
    dev.create(f"{topic}-in")
    dev.create(f"{topic}-out")
    given = options(dev, topic, tmp_path, **EXACTLY_ONCE)
    stream = dev.stream(subscribe=f"{topic}-in", startingOffsets="earliest", maxOffsetsPerTrigger="20").select("value")
    dev.numbers(f"{topic}-in", range(20))
    stream.writeStream.format("klamm").options(**given).trigger(**NOW).start().awaitTermination()
    repeat_last_batch(tmp_path, 1)
    dev.numbers(f"{topic}-in", range(20, 40))
    klamm.spark.write_stream(stream, given, output_mode="append", trigger=NOW).awaitTermination()
    repeat_last_batch(tmp_path, 2)
    stream.writeStream.format("klamm").options(**given).trigger(**NOW).start().awaitTermination()
    assert sorted(int(value) for _, value in records(dev, topic)) == list(range(40))


@pytest.mark.limits
@pytest.mark.parametrize("mode", ["update", "complete"])
def test_foreach_batch_serves_every_output_mode(dev, topic, tmp_path, mode):
    dev.create(f"{topic}-in")
    dev.create(f"{topic}-out")
    write = klamm.spark.foreach_batch(
        {"kafka.bootstrap.servers": dev.bootstrap, "kafka.linger.ms": 5}, topic=f"{topic}-out", **EXACTLY_ONCE
    )
    totals = dev.stream(subscribe=f"{topic}-in", startingOffsets="earliest").groupBy("value").count()
    query = (
        totals.selectExpr("value as key", "cast(count as string) as value")
        .writeStream.foreachBatch(write)
        .outputMode(mode)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    for key in (b"a", b"b"):
        dev.produce(f"{topic}-in", {"value": key})
        query.trigger(**NOW).start().awaitTermination()
    assert sorted(records(dev, topic)) == [(b"a", b"1")] * (1 if mode == "update" else 2) + [(b"b", b"1")]


@pytest.mark.limits
def test_one_batch_can_be_written_to_a_topic_twice_only_by_name(dev, topic, tmp_path):
    dev.create(f"{topic}-in")
    dev.create(f"{topic}-out")
    dev.numbers(f"{topic}-in", range(10))
    basic = {"kafka.bootstrap.servers": dev.bootstrap, "topic": f"{topic}-out", **EXACTLY_ONCE}

    def run(write_even, write_odd):
        def write(frame, batch):
            for function, rest in ((write_even, 0), (write_odd, 1)):
                part = frame.where(F.col("value").cast("string").cast("int") % 2 == rest)
                function(part, batch)
                function(part, batch)  # a repetition is skipped

        stream = dev.stream(subscribe=f"{topic}-in", startingOffsets="earliest").select("value")
        query = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
        query.trigger(**NOW).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="other rows of this batch were already written"):
        run(klamm.spark.foreach_batch(basic), klamm.spark.foreach_batch(basic))
    assert records(dev, topic) == []
    run(*(klamm.spark.foreach_batch(basic, txnAppId=f"{topic}-{name}") for name in ("even", "odd")))
    assert sorted(int(value) for _, value in records(dev, topic)) == list(range(10))


def test_a_batch_write_with_a_version_is_written_once(kafka, topic):
    kafka.create(topic)
    rows = kafka.spark.range(20).selectExpr("cast(id as string) as value")
    for version in ("7", "7", "8"):
        kafka.write(rows, topic=topic, txnAppId=f"job-{topic}", txnVersion=version, **EXACTLY_ONCE)
    assert len(kafka.records(topic, isolation_level="read_committed")) == 40


def test_wrong_options_are_refused_before_the_query_starts(dev, topic, tmp_path):
    stream = dev.stream(subscribe=topic).select("value")
    good = {"kafka.bootstrap.servers": dev.bootstrap, "topic": topic}
    for wrong, message in (
        ({"checkpointLocation": str(tmp_path)}, "'checkpointLocation' has no effect in foreach_batch"),
        ({"txnVersion": 3, "txnAppId": "a", **EXACTLY_ONCE}, "Spark provides"),
        ({"txnAppId": "a"}, "only for exactly-once delivery"),
        ({"delivry": "exactly-once"}, "did you mean 'delivery'"),
        ({"kafka.acks": "1", **EXACTLY_ONCE}, "idempotence"),
    ):
        with pytest.raises(ConfigError, match=message):
            klamm.spark.foreach_batch(good | wrong)
    with pytest.raises(ConfigError, match="Required attribute 'value' not found"):
        klamm.spark.write_stream(stream.withColumnRenamed("value", "worth"), good)
    assert not dev.spark.streams.active


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"txnAppId": "a"}, "needs both options 'txnAppId' and 'txnVersion'"),
        ({"txnVersion": "1"}, "needs both options 'txnAppId' and 'txnVersion'"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "'txnVersion' must be a whole number, got '-1'"),
        ({"txnAppId": "a", "txnVersion": str(2**31)}, "'txnVersion' must be a whole number of at most 2147483647"),
    ],
)
def test_a_batch_write_with_half_a_version_is_refused(dev, topic, wrong, message):
    with pytest.raises(AnalysisException, match=message):
        dev.write(dev.spark.range(1).selectExpr("'v' value"), topic=topic, **EXACTLY_ONCE, **wrong)


def test_settings_for_delegation_tokens_are_refused(spark):
    name = "spark.kafka.clusters.main.auth.bootstrap.servers"
    rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) value")
    spark.conf.set(name, "localhost:9092")
    try:
        with pytest.raises(ConfigError, match=f"'{name}', but klamm does not use Spark's delegation tokens"):
            klamm.spark.register(spark)
        with pytest.raises(ConfigError, match=name):
            klamm.spark.write_stream(rows, {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"})
    finally:
        spark.conf.unset(name)
    klamm.spark.register(spark)
