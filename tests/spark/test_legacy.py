"""`format("klamm")` with `kafka.protocol`: batch reads of Kafka 0.6 and 0.7."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from pyspark.errors import PySparkException, PythonException

from klamm import legacy
from klamm.errors import ConfigError, UnknownTopicOrPartitionError
from klamm.spark.legacy import KlammLegacyReader
from klamm.spark.options import read_options
from klamm.spark.schema import source_schema
from klamm.spark.settings import Settings
from old_broker import VERSIONS, old_broker

pytestmark = pytest.mark.spark


@pytest.fixture(params=VERSIONS)
def old(request):
    with old_broker(request.param) as running:
        yield running


def read(spark, old, **options):
    options = {"kafka.bootstrap.servers": old.bootstrap_servers, "kafka.protocol": old.protocol, **options}
    return spark.read.format("klamm").options(**options).load()


def reader(old, **options):
    given = {"kafka.bootstrap.servers": old.bootstrap_servers, "kafka.protocol": old.protocol, **options}
    return KlammLegacyReader(read_options(Settings(given), streaming=False), source_schema(False))


def plan(old, **options):
    return [part.value for part in reader(old, **options).partitions()]


def test_rows_are_those_of_the_old_log(spark, old):
    values = [b"v%d" % number for number in range(100)]
    for partition in (0, 1):
        old.fill(values[partition::2], partition)
    rows = read(spark, old, subscribe="old", includeHeaders="true").orderBy("partition", "offset").collect()
    assert [bytes(row.value) for row in rows] == values[0::2] + values[1::2]
    with legacy.Consumer07(old.bootstrap_servers) as consumer:
        assert [row.offset for row in rows[:50]] == [m.offset for m in consumer.messages("old", 0, 0)]
    row = rows[1]
    assert (row.key, row.topic, row.timestamp, row.timestampType) == (None, "old", None, -1)
    assert {header.key: bytes(header.value) for header in row.headers} == {
        "source.broker": old.bootstrap_servers.encode(),
        "source.partition": b"0",
        "source.offset": b"%d" % row.offset,
    }


def test_messages_that_were_compressed_together_have_the_same_offset(spark):
    with old_broker("0.7.2") as old:
        old.fill([b"a", b"b", b"c"], 0, compression="gzip")
        rows = read(spark, old, subscribe="old", columns="offset,value,headers").collect()
    assert [(row.offset, bytes(row.value)) for row in rows] == [(0, b"a"), (0, b"b"), (0, b"c")]
    assert [bytes(row.headers[-1].value) for row in rows] == [b"0", b"1", b"2"]


def test_a_batch_has_few_large_rows_and_many_small_ones():
    with old_broker("0.7.2") as old:
        old.fill([b"v" * 900_000] * 30, 0)
        old.fill([b"v"] * 20_000, 1)
        one = reader(old, subscribe="old")
        large, small = ([batch.num_rows for batch in one.read(part)] for part in one.partitions())
    assert large == [10, 10, 10]
    assert small == [16_384, 20_000 - 16_384]


def test_offsets_choose_what_is_read(spark, old):
    old.fill([b"v%d" % number for number in range(9)], 1)
    with closing(legacy.Consumer07(old.bootstrap_servers)) as consumer:
        offsets = [message.offset for message in consumer.messages("old", 1, 0)]
    start, end = json.dumps({"old": {"1": offsets[2]}}), json.dumps({"old": {"1": offsets[5]}})
    rows = read(spark, old, assign='{"old":[1]}', startingOffsets=start, endingOffsets=end)
    assert [bytes(row.value) for row in rows.orderBy("offset").collect()] == [b"v2", b"v3", b"v4"]


def test_tasks_begin_where_segments_do(spark, old):
    for number in range(60):
        old.fill([b"%040d" % number], 0)
    (whole,) = plan(old, subscribe="old")
    parts = plan(old, subscribe="old", maxBytesPerPartition="1000")
    assert len(parts) > 2
    assert [part.start for part in parts[1:]] == [part.end for part in parts[:-1]]
    assert (parts[0].start, parts[-1].end) == (whole.start, whole.end)
    rows = read(spark, old, subscribe="old", maxBytesPerPartition="1000").collect()
    assert sorted(bytes(row.value) for row in rows) == [b"%040d" % number for number in range(60)]


def test_deleted_messages_are_data_loss(spark, old):
    old.fill([b"v"], 0)
    behind = json.dumps({"old": {"0": 10_000_000}})
    options = {"assign": '{"old":[0]}', "endingOffsets": json.dumps({"old": {"0": 20_000_000}})}
    with pytest.raises(PythonException, match="from byte 10000000"):
        read(spark, old, **options, startingOffsets=behind).collect()
    assert read(spark, old, **options, startingOffsets=behind, failOnDataLoss="false").collect() == []


@pytest.mark.parametrize("options", [{"subscribe": "old,oldd"}, {"assign": '{"oldd":[0]}'}])
def test_a_topic_without_any_message_may_be_mistyped_and_is_refused(spark, old, options):
    old.fill([b"v"], 1)
    with pytest.raises(UnknownTopicOrPartitionError, match="has no messages in topic 'oldd'"):
        plan(old, **options)
    with pytest.raises(PySparkException, match="has no messages in topic 'oldd'"):
        read(spark, old, **options).collect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "old", "kafka.protocol": "0.5"}, "must be 0.6 or 0.7, got '0.5'"),
        ({"subscribePattern": "o.*"}, "'subscribePattern' is not supported"),
        ({"subscribe": "old", "startingTimestamp": "5"}, "'startingTimestamp' is not supported"),
        ({"subscribe": "old", "minPartitions": "5"}, "'minPartitions' is not supported"),
        ({"subscribe": "old", "kafka.group.id": "g"}, "'commitGroup' is not supported"),
        ({"subscribe": "old", "kafka.client.id": "c"}, "'kafka.client.id' is not supported"),
        ({"subscribe": "old", "kafka.queued.max.bytes": "1"}, "'kafka.queued.max.bytes' is not supported"),
        ({"subscribe": "old", "kafka.bootstrap.servers": "a:1,b:1"}, "must be one broker"),
        ({"subscribe": "old", "kafka.max.partition.fetch.bytes": "many"}, "must be a whole number"),
        ({"assign": '{"old":[0,1]}', "startingOffsets": '{"old":{"0":0}}'}, "does not name old-1"),
    ],
)
def test_unsupported_options_are_rejected(options, message):
    with old_broker("0.7.2") as old, pytest.raises(ConfigError, match=message):
        plan(old, **options)


def test_a_stream_is_refused(spark):
    with old_broker("0.7.2") as old:
        options = {"kafka.bootstrap.servers": old.bootstrap_servers, "kafka.protocol": "0.7", "subscribe": "old"}
        frame = spark.readStream.format("klamm").options(**options).load()
        with pytest.raises(PySparkException, match=r"a stream needs Kafka 0\.8"):
            frame.writeStream.format("noop").start().awaitTermination()
