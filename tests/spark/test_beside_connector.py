"""The same query through `format("kafka")`, Spark's own connector, and through `format("klamm")`: row by row the same."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PythonException
from pyspark.sql import functions as F

import klamm

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _needs_connector(connector):
    _, reason = connector
    if reason is not None:
        pytest.skip(f"Spark's own connector: {reason}")


BOTH = ("kafka", "klamm")


def rows(frame):
    return sorted(
        [
            {name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.asDict(True).items()}
            for row in frame.collect()
        ],
        key=lambda row: (row["topic"], row["partition"], row["offset"]),
    )


@pytest.fixture
def log(kafka, topic):
    """A log with everything in it that a log may hold, on three partitions."""
    kafka.create(topic, partitions=3)
    kafka.produce(
        topic,
        *(
            {
                "value": None if number % 7 == 0 else f"wert {number} €".encode() * (number % 5),
                "key": None if number % 3 == 0 else b"" if number % 3 == 1 else b"\x00\xff%d" % number,
                "partition": number % 2,
                "timestamp_ms": 1_700_000_000_000 + 1000 * number + number % 3,
                "headers": [("a", b"1"), ("b", None), ("a", b"")][: number % 4],
            }
            for number in range(40)
        ),
    )
    with klamm.Producer(kafka.bootstrap, transactional_id=topic) as producer:
        for number in range(4):
            with producer.transaction() as transaction:
                transaction.send_many(topic, [b"%d" % number] * 3, partition=2)
                if number % 2:
                    producer.flush()
                    transaction.abort()
    return topic


def test_batch_reads_give_the_same_rows(kafka, log):
    places = json.dumps({log: {"0": 3, "1": -2, "2": 2}})
    ends = json.dumps({log: {"0": 17, "1": -1, "2": -1}})
    times = json.dumps({log: {"0": 1_700_000_011_000, "1": 1_700_000_000_000, "2": 0}})
    for options, expected in [
        ({"includeHeaders": "true"}, 52),
        ({"kafka.isolation.level": "read_committed"}, 46),
        ({"startingOffsets": places, "endingOffsets": ends}, 14 + 20 + 10),
        ({"startingTimestamp": "1700000020000", "endingTimestamp": "1700000030000"}, None),
        ({"startingOffsetsByTimestamp": times, "minPartitions": "5"}, None),
    ]:
        theirs, ours = (rows(kafka.read(source=source, subscribePattern=f"{log}.*", **options)) for source in BOTH)
        assert ours == theirs, options
        assert expected is None or len(ours) == expected, options
        assert ours, options


def test_tasks_are_divided_alike(kafka, log):
    # Alone, maxRecordsPerPartition divides nothing in a batch read of the connector, which does not know sizes by then.
    for options in ({"minPartitions": "7"}, {"maxRecordsPerPartition": "15", "minPartitions": "8"}):
        theirs, ours = (
            {
                (row["partition"], row["first"], row["last"])
                for row in kafka.read(source=source, subscribe=log, **options)
                .groupBy(F.spark_partition_id().alias("task"), "partition")
                .agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
                .collect()
            }
            for source in BOTH
        )
        assert ours == theirs, options


def test_batch_writes_leave_the_same_records(kafka, topic):
    frame = kafka.spark.range(200).select(
        F.when(F.col("id") % 5 > 0, F.concat(F.lit("schlüssel "), F.col("id"))).alias("key"),
        F.when(F.col("id") % 7 > 0, F.col("id").cast("string").cast("binary")).alias("value"),
        F.when(F.col("id") % 5 == 0, (F.col("id") % 3).cast("int")).alias("partition"),
        F.when(
            F.col("id") % 2 > 0,
            F.array(
                F.struct(F.lit("h").alias("key"), F.lit("1").cast("binary").alias("value")),
                F.struct(F.lit("n").alias("key"), F.lit(None).cast("binary").alias("value")),
            ),
        ).alias("headers"),
    )
    found = {}
    for sink in BOTH:
        kafka.create(f"{topic}-{sink}", partitions=3)
        kafka.write(frame, sink=sink, topic=f"{topic}-{sink}")
        found[sink] = sorted(
            (r.partition, r.key or b"", r.value or b"", r.value is None, r.key is None, list(r.headers))
            for r in kafka.records(f"{topic}-{sink}")
        )
    assert len(found["klamm"]) == 200
    assert found["klamm"] == found["kafka"]


@pytest.mark.parametrize(
    "columns",
    [
        ["'k' key"],
        ["1 value"],
        ["'v' value", "1 key"],
        ["'v' value", "'1' partition"],
        ["'v' value", "array('h') headers"],
        ["'v' value", "1 topic"],
    ],
)
def test_both_refuse_what_cannot_be_written(real, topic, columns):
    for sink in BOTH:
        options = {} if "1 topic" in columns else {"topic": topic}
        with pytest.raises(AnalysisException):
            real.write(real.spark.range(1).selectExpr(*columns), sink=sink, **options)


def test_both_refuse_what_cannot_be_read(real, topic):
    real.create(topic)
    for options in (
        {},
        {"assign": f'{{"{topic}":[0]}}'},
        {"startingOffsets": "latest"},
        {"startingOffsets": f'{{"{topic}":{{"0":-1}}}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": f'{{"{topic}":{{"0":-2}}}}'},
        {"minPartitions": "0"},
        {"maxRecordsPerPartition": "0"},
        {"kafka.auto.offset.reset": "earliest"},
        {"kafka.key.deserializer": "x"},
        {"kafka.value.deserializer": "x"},
        {"kafka.enable.auto.commit": "true"},
        {"kafka.interceptor.classes": "x"},
        {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
        {"startingTimestamp": "1800000000000"},
    ):
        for source in BOTH:
            if not options:
                assert real.read(source=source, subscribe=topic).collect() == []
                continue
            with pytest.raises((AnalysisException, IllegalArgumentException, PythonException)):
                real.read(source=source, subscribe=topic, **options).collect()


def test_a_checkpoint_passes_from_one_to_the_other_and_back(real, topic, tmp_path):
    source, result = f"{topic}-in", f"{topic}-out"
    real.create(source, partitions=2)
    real.create(result)
    sent = 0
    for reader in ("kafka", "klamm", "kafka", "klamm"):
        real.numbers(source, range(sent, sent + 10))
        sent += 10
        stream = real.stream(source=reader, subscribe=source, startingOffsets="earliest").select("value")
        real.run(stream, tmp_path, topic=result)
        assert sorted(int(record.value) for record in real.records(result)) == list(range(sent)), reader
