"""`spark.read.format("klamm")`."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pyspark
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

pytestmark = pytest.mark.spark

CONNECTOR_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)


def values(rows):
    return [
        row.value if row.value is None else bytes(row.value)
        for row in rows.orderBy("topic", "partition", "offset").collect()
    ]


def test_the_schema_is_that_of_sparks_own_connector(kafka, topic):
    assert kafka.read(subscribe=topic).schema == CONNECTOR_SCHEMA
    with_headers = kafka.read(subscribe=topic, includeHeaders="true").schema
    assert with_headers == StructType([*CONNECTOR_SCHEMA.fields, HEADERS])


def test_a_record_comes_back_with_all_it_has(kafka, topic):
    kafka.create(topic, partitions=2)
    kafka.produce(topic, {"value": b"v", "key": b"k", "partition": 1, "timestamp_ms": 1_700_000_000_123})
    [row] = kafka.read(subscribe=topic).collect()
    when = row.timestamp.astimezone(timezone.utc)
    assert (bytes(row.key), bytes(row.value), row.topic, row.partition, row.offset) == (b"k", b"v", topic, 1, 0)
    assert when == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=timezone.utc)
    assert row.timestampType == 0


def test_nothing_and_empty_stay_apart(kafka, topic):
    kafka.create(topic)
    kafka.produce(topic, {"value": None, "key": b"gone"}, {"value": b"", "key": None}, {"value": b"v", "key": b""})
    rows = kafka.read(subscribe=topic).orderBy("offset").collect()
    assert [(row.key, row.value) for row in rows] == [(b"gone", None), (None, b""), (b"", b"v")]


def test_headers_come_in_order_and_are_null_where_there_are_none(kafka, topic):
    kafka.create(topic)
    kafka.produce(
        topic,
        {"value": b"0", "headers": [("a", b"1"), ("b", None), ("a", b"")]},
        {"value": b"1"},
    )
    first, second = kafka.read(subscribe=topic, includeHeaders="true").orderBy("offset").collect()
    assert [(header.key, header.value) for header in first.headers] == [("a", b"1"), ("b", None), ("a", b"")]
    assert second.headers is None


def test_offsets_choose_what_is_read(kafka, topic):
    kafka.create(topic, partitions=2)
    kafka.numbers(topic, range(10), partition=0)
    kafka.numbers(topic, range(10, 20), partition=1)
    rows = kafka.read(
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": 7, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1, "1": 2}}),
    )
    assert values(rows) == [b"7", b"8", b"9", b"10", b"11"]


def test_assign_reads_the_named_partitions_only(kafka, topic):
    kafka.create(topic, partitions=3)
    for partition in range(3):
        kafka.numbers(topic, range(partition, partition + 1), partition)
    assert values(kafka.read(assign=json.dumps({topic: [0, 2]}))) == [b"0", b"2"]


def test_several_topics_are_one_frame(kafka, topic):
    names = [f"{topic}-{letter}" for letter in "ab"]
    for name in names:
        kafka.create(name)
        kafka.numbers(name, range(3))
    counts = kafka.read(subscribe=", ".join(names)).groupBy("topic").count().orderBy("topic").collect()
    assert [tuple(row) for row in counts] == [(name, 3) for name in names]


def test_an_empty_topic_has_no_rows(kafka, topic):
    kafka.create(topic)
    assert kafka.read(subscribe=topic).collect() == []


def test_many_rows_are_counted_and_summed_exactly(kafka, topic):
    kafka.create(topic, partitions=4)
    rows = kafka.spark.range(200_000).select(
        F.col("id").cast("string").alias("key"), F.repeat(F.lit("x"), F.col("id") % 50).alias("value")
    )
    kafka.write(rows, topic=topic)
    frame = kafka.read(subscribe=topic).agg(F.count("*"), F.countDistinct("key"), F.sum(F.octet_length("value")))
    assert tuple(frame.first()) == (200_000, 200_000, sum(number % 50 for number in range(200_000)))


def test_a_schema_chooses_columns(kafka, topic):
    kafka.create(topic, partitions=2)
    kafka.produce(topic, {"value": b"v", "partition": 1, "headers": [("h", b"1")]})
    frame = kafka.read(
        schema="partition int, headers array<struct<key: string, value: binary>>, topic string", subscribe=topic
    )
    [row] = frame.collect()
    assert (row.partition, [tuple(header) for header in row.headers], row.topic) == (1, [("h", b"1")], topic)
    assert kafka.read(schema="topic string", subscribe=topic).count() == 1


@pytest.mark.parametrize(
    ("schema", "message"),
    [("value string", "asks for string"), ("values binary", "did you mean 'value'?")],
)
def test_a_schema_of_other_columns_is_rejected(kafka, topic, schema, message):
    kafka.create(topic)
    with pytest.raises(AnalysisException) as refusal:
        kafka.read(schema=schema, subscribe=topic).collect()
    assert message in str(refusal.value)


def test_the_option_columns_chooses_them_too(dev, topic):
    dev.create(topic)
    dev.produce(topic, {"value": b"v", "key": b"k", "headers": [("h", b"1")]})
    frame = dev.read(subscribe=topic, columns="headers, value")
    assert frame.schema == StructType([HEADERS, CONNECTOR_SCHEMA["value"]])
    [row] = frame.collect()
    assert ([tuple(header) for header in row.headers], bytes(row.value)) == ([("h", b"1")], b"v")
    with pytest.raises(AnalysisException, match="did you mean 'value'"):
        dev.read(subscribe=topic, columns="valeu")


@pytest.mark.parametrize("where", ["OPTIONS", "TBLPROPERTIES", "LOCATION '/nowhere' TBLPROPERTIES"])
def test_create_table_loses_its_options_and_says_so(dev, topic, where):
    with pytest.raises(AnalysisException, match=r"cannot create a table.*CREATE TEMP VIEW"):
        dev.spark.sql(
            f"CREATE TABLE lost USING klamm {where} ('kafka.bootstrap.servers' '{dev.bootstrap}', 'subscribe' '{topic}')"
        )


def test_a_table_with_a_schema_says_why_it_cannot_be_read(spark):
    spark.sql("CREATE TABLE lost (value binary) USING klamm TBLPROPERTIES ('kafka.bootstrap.servers' 'h:1')")
    try:
        with pytest.raises(AnalysisException, match="CREATE TEMP VIEW"):
            spark.table("lost").collect()
    finally:
        spark.sql("DROP TABLE lost")


def test_a_frame_and_a_view_keep_their_end_until_they_are_made_again(kafka, topic):
    kafka.create(topic)
    kafka.numbers(topic, range(5))
    view = f"OR REPLACE TEMP VIEW kept USING klamm OPTIONS (`kafka.bootstrap.servers` '{kafka.bootstrap}', subscribe '{topic}')"

    def counts():
        return frame.count(), kafka.spark.table("kept").count()

    try:
        frame = kafka.read(subscribe=topic)
        kafka.spark.sql(f"CREATE {view}")
        assert counts() == (5, 5)
        kafka.numbers(topic, range(5, 8))
        assert counts() == ((8, 8) if pyspark.__version__ < "4.1" else (5, 5))
        frame = kafka.read(subscribe=topic)
        kafka.spark.sql(f"CREATE {view}")
        assert counts() == (8, 8)
    finally:
        kafka.spark.sql("DROP VIEW IF EXISTS kept")


def test_sql_reads_through_a_view(kafka, topic):
    kafka.create(topic)
    kafka.numbers(topic, range(5))
    kafka.spark.sql(
        f"CREATE TEMP VIEW five USING klamm OPTIONS (`kafka.bootstrap.servers` '{kafka.bootstrap}', subscribe '{topic}')"
    )
    try:
        assert kafka.spark.sql("SELECT count(*) FROM five").first()[0] == 5
    finally:
        kafka.spark.sql("DROP VIEW five")


def test_a_limit_ends_a_read_early(kafka, topic):
    kafka.create(topic)
    kafka.numbers(topic, range(100))
    for _ in range(3):
        assert len(kafka.read(subscribe=topic).limit(3).collect()) == 3


def test_an_unknown_topic_is_an_error_that_names_it(kafka, topic):
    with pytest.raises(AnalysisException) as failure:
        kafka.read(subscribe=topic).collect()
    assert "UnknownTopicOrPartitionError" in str(failure.value)
    assert topic in str(failure.value)


def test_offsets_must_name_every_partition(kafka, topic):
    kafka.create(topic, partitions=2)
    with pytest.raises(AnalysisException, match="must name every partition"):
        kafka.read(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 0}})).collect()


def test_a_start_after_the_end_is_refused(kafka, topic):
    kafka.create(topic)
    kafka.numbers(topic, range(3))
    with pytest.raises(AnalysisException, match="which is after its end, 3"):
        kafka.read(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 4}})).collect()


@pytest.mark.parametrize(("first", "there"), [(1, [b"1", b"2"]), (5, [])])
def test_missing_records_fail_the_query_or_are_skipped(kafka, topic, first, there):
    kafka.create(topic)
    kafka.numbers(topic, range(3))
    options = {
        "subscribe": topic,
        "startingOffsets": json.dumps({topic: {"0": first}}),
        "endingOffsets": json.dumps({topic: {"0": 8}}),
    }
    with pytest.raises(PythonException, match=r"DataLossError: \[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE\]"):
        kafka.read(**options).collect()
    assert values(kafka.read(**options, failOnDataLoss="false")) == there


def test_a_refused_option_is_explained_when_the_frame_is_made(kafka, topic):
    with pytest.raises(AnalysisException) as refusal:
        kafka.read(subscribe=topic, startingoffset="earliest")
    assert "did you mean 'startingOffsets'?" in str(refusal.value)


def test_a_misspelt_client_option_is_explained_when_the_frame_is_made(kafka, topic):
    with pytest.raises(AnalysisException, match=r"fetch\.min\.bytes"):
        kafka.read(subscribe=topic, **{"kafka.fetch.min.byte": "1"})


def test_a_frame_without_options_says_where_brokers_are_named(spark):
    with pytest.raises(AnalysisException, match=r"'kafka\.bootstrap\.servers' is missing"):
        spark.read.format("klamm").load()
