"""Errors of klamm in Spark's messages: one line that says what failed, and no traceback around it."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import functions as F

import klamm

pytestmark = pytest.mark.spark

HEADERS = "array<struct<key: string, value: binary>>"


def line_of(caught, kind):
    """Return the error's own line, which has to be the first one after Spark's sentence."""
    text = str(caught.value)
    assert "Traceback" not in text
    assert 'File "' not in text
    found = re.match(rf"(?:.*\n){{0,2}}.*?\bklamm\.(?:spark\.\w+|errors)\.{kind}: (.+)", text)
    assert found, text
    return found[1]


def test_a_wrong_option_is_one_line(dev):
    with pytest.raises(AnalysisException) as caught:
        dev.read(subscribe="t", startingOffset="earliest")
    assert line_of(caught, "ConfigError") == ("unknown option 'startingoffset'; hint: did you mean 'startingOffsets'?")


def test_a_failing_plan_is_one_line(dev, topic):
    with pytest.raises(AnalysisException) as caught:
        dev.read(subscribe=topic, **{"fetchOffset.numRetries": "1"}).collect()
    assert line_of(caught, "UnknownTopicOrPartitionError").startswith(f'topic "{topic}": UNKNOWN_TOPIC_OR_PARTITION')


def test_a_failing_task_of_a_read_is_one_line(dev, topic):
    with klamm.Admin(dev.bootstrap) as admin:
        admin.create_topics({topic: klamm.NewTopic(configs={"message.timestamp.after.max.ms": str(2**63 - 1)})})
    dev.produce(topic, {"value": b"v", "timestamp_ms": 2**62})
    with pytest.raises(PythonException) as caught:
        dev.read(subscribe=topic).collect()
    assert line_of(caught, "TimestampRangeError").startswith(
        f"cannot read the record of partition {topic}-0 at offset 0"
    )


def test_a_failing_stream_is_one_line(dev, topic):
    with pytest.raises(StreamingQueryException) as caught:
        dev.stream(subscribe=topic).writeStream.format("noop").start().awaitTermination()
    assert line_of(caught, "UnknownTopicOrPartitionError").startswith(f'topic "{topic}"')


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        (f"cast(array(named_struct('key', null, 'value', null)) as {HEADERS})", "the key of header 0 is null"),
        (
            f"cast(array(named_struct('key', 'a', 'value', null), null) as {HEADERS})",
            "header 1 is null",
        ),
    ],
)
@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_header_that_kafka_cannot_hold_is_refused_by_column_and_row(dev, topic, bad, line, delivery):
    """The row is in the second Arrow batch of its task."""
    dev.create(topic)
    rows = dev.spark.range(0, 24_000, 1, 2).selectExpr(
        "cast(id as string) as value", f"case when id = 22500 then {bad} else cast(null as {HEADERS}) end as headers"
    )
    txn = {"txnAppId": topic, "txnVersion": "1"} if delivery == "exactly-once" else {}
    with pytest.raises(PythonException) as caught:
        dev.write(rows, topic=topic, delivery=delivery, **txn)
    assert line_of(caught, "ArgumentError") == f"row 10500 of task 1: column `headers`: {line}"


def test_a_value_that_is_too_large_is_refused_by_topic_and_row(dev, topic):
    dev.create(topic)
    rows = dev.spark.range(0, 12_000, 1, 1).select(F.expr("repeat('v', if(id = 11000, 5000, 5))").alias("value"))
    with pytest.raises(PythonException) as caught:
        dev.write(rows, topic=topic, **{"kafka.max.request.size": "2000"})
    expected = (
        rf'row 11000 of task 0: produce a record of 50\d\d bytes .*to topic "{topic}", max\.request\.size is 2000: '
    )
    assert re.match(expected, line_of(caught, "MessageTooLargeError"))


def test_records_that_were_not_delivered_are_one_line(dev, topic):
    """The error of the first record is raised, with the number of records before its text."""
    with klamm.Admin(dev.bootstrap) as admin:
        admin.create_topics({topic: klamm.NewTopic(configs={"max.message.bytes": "1000"})})
    with pytest.raises(PythonException) as caught:
        dev.write(dev.spark.range(3).coalesce(1).selectExpr("repeat('v', 2000) as value"), topic=topic)
    expected = "3 records were not delivered, the first because: "
    assert line_of(caught, "MessageTooLargeError").startswith(expected)


def test_the_traceback_of_other_code_stays(dev, topic):
    """The process that showed a klamm error does not hide the next traceback of a user's function."""
    dev.create(topic)
    for _ in range(2):
        with pytest.raises(PythonException):
            dev.write(dev.spark.range(1).selectExpr("'v' value", "7 partition"), topic=topic)

        def fail(_):
            raise ValueError("out of luck")

        with pytest.raises(PythonException, match="Traceback") as caught:
            dev.spark.range(1).select(F.udf(fail, "int", useArrow=False)("id")).collect()
        assert "out of luck" in str(caught.value)
