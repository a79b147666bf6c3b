"""`write.format("klamm")` and `writeStream`, read back by a klamm consumer."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark

SCHEMA = """key binary, value binary, partition int, timestamp timestamp, headers array<struct<key: string, value: binary>>"""


def test_a_row_arrives_with_all_it_has(kafka, topic):
    kafka.create(topic, partitions=3)
    when = datetime(2024, 2, 29, 12, 0, 0, 456_000, tzinfo=timezone.utc)
    rows = [
        (b"k", b"v", 2, when, [("a", b"1"), ("b", None)]),
        (None, b"", 1, when, None),
        (b"gone", None, 1, when, []),
    ]
    kafka.write(kafka.spark.createDataFrame(rows, SCHEMA).coalesce(1), topic=topic)
    ms = int(when.timestamp() * 1000)
    assert [(r.partition, r.key, r.value, r.timestamp_ms, list(r.headers)) for r in kafka.records(topic)] == [
        (1, None, b"", ms, []),
        (1, b"gone", None, ms, []),
        (2, b"k", b"v", ms, [("a", b"1"), ("b", None)]),
    ]


def test_large_types_and_local_times_are_written_as_what_they_are(dev, topic):
    dev.create(topic)
    when = datetime(2024, 2, 29, 12, 0, tzinfo=timezone.utc)
    settings = {"spark.sql.execution.arrow.useLargeVarTypes": "true", "spark.sql.session.timeZone": "Asia/Kolkata"}
    before = {name: dev.spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            dev.spark.conf.set(name, value)
        dev.write(dev.spark.createDataFrame([(b"k", b"v", None, when, [("h", b"1")])], SCHEMA), topic=topic)
    finally:
        for name, value in before.items():
            dev.spark.conf.set(name, value)
    [record] = dev.records(topic)
    assert (record.key, record.value, list(record.headers)) == (b"k", b"v", [("h", b"1")])
    assert record.timestamp_ms == int(when.timestamp() * 1000)


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_text_is_written_as_its_bytes(kafka, topic, kind):
    kafka.create(topic)
    kafka.write(
        kafka.spark.createDataFrame([("schlüssel", "wert €")], "key string, value string").selectExpr(
            f"cast(key as {kind})", f"cast(value as {kind})"
        ),
        topic=topic,
    )
    [record] = kafka.records(topic)
    assert (record.key, record.value) == ("schlüssel".encode(), "wert €".encode())


def test_keys_choose_partitions_as_any_klamm_producer_does(kafka, topic):
    kafka.create(topic, partitions=5)
    kafka.write(kafka.spark.range(50).selectExpr("cast(id as string) key", "'spark' value"), topic=topic)
    kafka.produce(topic, *({"key": str(number).encode(), "value": b"klamm"} for number in range(50)))
    pairs = {(record.key, record.partition) for record in kafka.records(topic)}
    assert len(pairs) == 50


def test_the_topic_column_sets_the_topic_of_each_row(kafka, topic):
    names = [f"{topic}-{number}" for number in range(3)]
    for name in names:
        kafka.create(name)
    kafka.write(
        kafka.spark.range(9).select(
            F.concat(F.lit(f"{topic}-"), F.col("id") % 3).alias("topic"), F.col("id").cast("string").alias("value")
        )
    )
    assert [sorted(record.value for record in kafka.records(name)) for name in names] == [
        [b"0", b"3", b"6"],
        [b"1", b"4", b"7"],
        [b"2", b"5", b"8"],
    ]


def test_the_topic_option_beats_the_column(kafka, topic):
    kafka.create(topic)
    kafka.write(kafka.spark.createDataFrame([("elsewhere", "v")], "topic string, value string"), topic=topic)
    assert [record.value for record in kafka.records(topic)] == [b"v"]


def test_a_row_without_topic_fails_the_write(kafka, topic):
    kafka.create(topic)
    with pytest.raises(PythonException, match=r"\[KAFKA_NULL_TOPIC_IN_DATA\] null topic present in the data"):
        kafka.write(kafka.spark.createDataFrame([(topic, "v"), (None, "w")], "topic string, value string").coalesce(1))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["'k' key"], "Required attribute 'value' not found"),
        (["1 value"], "value attribute type must be a STRING or BINARY, got INT"),
        (["'v' value", "1 key"], "key attribute type must be a STRING or BINARY, got INT"),
        (["'v' value", "'1' partition"], "partition attribute type must be a INT, got STRING"),
        (["'v' value", "array('h') headers"], "headers attribute type must be a ARRAY"),
        (["'v' value", "1 timestamp"], "timestamp attribute type must be a TIMESTAMP, got INT"),
    ],
)
def test_wrong_columns_are_refused_before_anything_runs(kafka, topic, columns, message):
    with pytest.raises(AnalysisException) as refusal:
        kafka.write(kafka.spark.range(1).selectExpr(*columns), topic=topic)
    assert message in str(refusal.value)


def test_a_write_without_topic_is_refused(kafka):
    with pytest.raises(AnalysisException, match="topic option required when no 'topic' attribute is present"):
        kafka.write(kafka.spark.range(1).selectExpr("'v' value"))


def test_a_topic_cannot_be_overwritten(kafka, topic):
    rows = kafka.spark.range(1).selectExpr("'v' value")
    with pytest.raises(AnalysisException, match=r"use \.mode\('append'\)"):
        rows.write.format("klamm").option("kafka.bootstrap.servers", kafka.bootstrap).option("topic", topic).mode(
            "overwrite"
        ).save()


def test_a_row_for_a_partition_that_does_not_exist_fails_the_write(kafka, topic):
    kafka.create(topic)
    with pytest.raises(PythonException) as failure:
        kafka.write(kafka.spark.range(1).selectExpr("'v' value", "7 partition"), topic=topic)
    assert "7" in str(failure.value)


def test_a_row_larger_than_allowed_fails_the_write(kafka, topic):
    kafka.create(topic)
    rows = kafka.spark.range(1).select(F.repeat(F.lit("x"), 5000).alias("value"))
    with pytest.raises(PythonException, match=r"max\.request\.size"):
        kafka.write(rows, topic=topic, **{"kafka.max.request.size": "2000"})


def test_a_misspelt_client_option_is_refused_before_anything_runs(kafka, topic):
    with pytest.raises(AnalysisException, match=r"linger\.ms"):
        kafka.write(kafka.spark.range(1).selectExpr("'v' value"), topic=topic, **{"kafka.lingers.ms": "1"})


def test_a_failed_write_leaves_the_next_one_alone(kafka, topic):
    kafka.create(topic)
    with pytest.raises(PythonException):
        kafka.write(kafka.spark.range(1).selectExpr("'bad' value", "7 partition"), topic=topic)
    kafka.write(kafka.spark.range(1).selectExpr("'good' value"), topic=topic)
    assert [record.value for record in kafka.records(topic)] == [b"good"]


def test_a_stream_of_totals_ends_with_the_last_row_of_each_key(kafka, topic, tmp_path):
    source, result = f"{topic}-in", f"{topic}-out"
    kafka.create(source, partitions=2)
    kafka.create(result)
    for begin in (0, 100):
        kafka.numbers(source, range(begin, begin + 100))
        totals = (
            kafka.stream(subscribe=source, startingOffsets="earliest")
            .groupBy((F.col("value").cast("string").cast("int") % 3).cast("string").alias("key"))
            .agg(F.count("*").cast("string").alias("value"))
        )
        kafka.run(totals, tmp_path, output_mode="complete", topic=result)
    last = {record.key: record.value for record in kafka.records(result)}
    assert last == {b"0": b"67", b"1": b"67", b"2": b"66"}
