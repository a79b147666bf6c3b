"""`spark.readStream.format("klamm")`: batches, checkpoints, restarts; every record once."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest
from pyspark.errors import StreamingQueryException

import klamm
from java_tools import java_tool
from klamm.testing import DevBroker
from settled import until

pytestmark = pytest.mark.spark


def numbers(kafka, topic):
    return sorted(int(record.value) for record in kafka.records(topic))


@pytest.fixture
def topics(kafka, topic):
    """Create a topic to read from, with three partitions, and one to write to."""
    source, result = f"{topic}-in", f"{topic}-out"
    kafka.create(source, partitions=3)
    kafka.create(result, partitions=2)
    return source, result


def copy(kafka, source, result, checkpoint, **options):
    rows = kafka.stream(subscribe=source, startingOffsets="earliest", **options).select("value")
    query = kafka.run(rows, checkpoint, topic=result)
    return [batch["numInputRows"] for batch in query.recentProgress if batch["numInputRows"]]


@pytest.mark.limits
def test_available_now_reads_existing_records_in_batches_and_ends(kafka, topics, tmp_path):
    source, result = topics
    for partition in range(3):
        kafka.numbers(source, range(partition * 100, partition * 100 + 100), partition)
    sizes = copy(kafka, source, result, tmp_path, maxOffsetsPerTrigger="120")
    assert sizes == [120, 120, 60]
    assert numbers(kafka, result) == list(range(300))


@pytest.mark.limits
def test_a_restart_continues_where_the_checkpoint_ends(kafka, topics, tmp_path):
    source, result = topics
    kafka.numbers(source, range(50))
    copy(kafka, source, result, tmp_path)
    assert copy(kafka, source, result, tmp_path) == []
    kafka.numbers(source, range(50, 80))
    assert sum(copy(kafka, source, result, tmp_path, maxOffsetsPerTrigger="7")) == 30
    assert numbers(kafka, result) == list(range(80))


def newest(log):
    """Return the last file of a checkpoint's log."""
    return max((file for file in log.iterdir() if file.name.isdecimal()), key=lambda file: int(file.name))


def test_the_checkpoint_has_the_form_of_sparks_own_connector(kafka, topics, tmp_path):
    source, result = topics
    for partition in range(3):
        kafka.numbers(source, range(partition + 1), partition)
    copy(kafka, source, result, tmp_path)
    *_, offsets = newest(tmp_path / "offsets").read_text().splitlines()
    assert json.loads(offsets) == {source: {"0": 1, "1": 2, "2": 3}}


def test_a_checkpoint_in_other_spacing_is_read(kafka, topics, tmp_path):
    source, result = topics
    kafka.numbers(source, range(10))
    copy(kafka, source, result, tmp_path)
    # Spark's own connector writes no spaces; the checksum beside the file would not match any more.
    log = newest(tmp_path / "offsets")
    *head, offsets = log.read_text().splitlines()
    log.write_text("\n".join([*head, json.dumps(json.loads(offsets), separators=(",", ":"))]))
    log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
    kafka.numbers(source, range(10, 15))
    copy(kafka, source, result, tmp_path)
    assert numbers(kafka, result) == list(range(15))


@pytest.mark.limits
@pytest.mark.parametrize(("begin", "first"), [("earliest", 0), ("latest", 10)])
def test_a_query_that_dies_in_its_first_batch_skips_nothing(kafka, topics, tmp_path, begin, first):
    source, result = topics
    kafka.numbers(source, range(10))
    rows = kafka.stream(subscribe=source, startingOffsets=begin).select("value")
    kafka.run(rows, tmp_path, topic=result)
    # Dead between noting what the first batch is and noting that it is done:
    for log in ("commits", "offsets"):
        for file in (tmp_path / log).iterdir():
            if log == "commits" or file.name not in ("0", ".0.crc"):
                file.unlink()
    kafka.numbers(source, range(10, 20))
    kafka.run(rows, tmp_path, topic=result)
    # What came of the first run stays where it is.
    assert sorted(set(numbers(kafka, result))) == list(range(first, 20))


@pytest.mark.limits
def test_trigger_once_reads_all_records_in_one_batch(kafka, topics, tmp_path):
    source, result = topics
    for begin in (0, 30):
        kafka.numbers(source, range(begin, begin + 30))
        rows = kafka.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="7").select("value")
        query = kafka.run(rows, tmp_path, trigger={"once": True}, topic=result)
        assert [batch["numInputRows"] for batch in query.recentProgress] == [30]
    assert numbers(kafka, result) == list(range(60))


@pytest.mark.limits
def test_kafkas_own_tool_shows_how_far_a_query_is(real, topic, tmp_path):
    source, result = f"{topic}-in", f"{topic}-out"
    real.create(source, partitions=2)
    real.create(result)
    for partition in range(2):
        real.numbers(source, range(10 + partition), partition)
    rows = real.stream(subscribe=source, startingOffsets="earliest", commitGroup=topic).select("value")
    real.run(rows, tmp_path, topic=result)
    real.numbers(source, range(5), 1)
    described = java_tool("ConsumerGroups", real.bootstrap, "--describe", "--group", topic)
    shown = [line.split()[1:6] for line in described.splitlines() if line.startswith(topic)]
    assert sorted(shown) == [[source, "0", "10", "10", "0"], [source, "1", "11", "16", "5"]]


@contextmanager
def running(rows, checkpoint, look):
    """Run a query until the block ends, and pass the numbers of each non-empty batch to the test."""

    def look_at(batch, _):
        if numbers := [int(row.value) for row in batch.select("value").collect()]:
            look(numbers)

    writer = rows.writeStream.foreachBatch(look_at).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="50 milliseconds").start()
    try:
        yield query
    finally:
        query.stop()


def test_a_running_query_sees_every_record_acknowledged_before(kafka, topics, tmp_path):
    source, _ = topics
    seen = []
    with running(kafka.stream(subscribe=source, startingOffsets="earliest"), tmp_path, seen.extend) as query:
        for begin in (0, 10, 20):
            kafka.numbers(source, range(begin, begin + 10))
            query.processAllAvailable()
            assert sorted(seen) == list(range(begin + 10))


def test_a_running_query_reads_partitions_that_are_added_from_their_beginning(kafka, topics, tmp_path):
    source, _ = topics
    seen = []
    with running(kafka.stream(subscribe=source, startingOffsets="latest"), tmp_path, seen.extend) as query:
        query.processAllAvailable()
        with klamm.Admin(kafka.bootstrap) as admin:
            admin.create_partitions({source: 5})
            until(lambda: len(admin.describe_topics([source])[source].partitions) == 5)
        for partition in range(5):
            kafka.numbers(source, range(partition * 10, partition * 10 + 10), partition)
        until(lambda: query.processAllAvailable() or len(seen) >= 50)
    assert sorted(seen) == list(range(50))


@pytest.mark.limits
@pytest.mark.parametrize("careful", ["true", "false"])
def test_records_that_expire_under_a_running_query_fail_it_or_are_skipped(kafka, topic, tmp_path, careful):
    kafka.create(topic)
    kafka.numbers(topic, range(30))
    seen = []

    def look(numbers):
        seen.append(numbers)
        if len(seen) == 1:
            with klamm.Admin(kafka.bootstrap) as admin:
                admin.delete_records({klamm.TopicPartition(topic, 0): 25})

    rows = kafka.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="10", failOnDataLoss=careful)
    with running(rows, tmp_path, look) as query:
        if careful == "true":
            with pytest.raises(StreamingQueryException, match=f"{topic}-0 from offset 10 to 20"):
                query.processAllAvailable()
            assert seen == [list(range(10))]
        else:
            query.processAllAvailable()
            assert [number for numbers in seen for number in numbers] == [*range(10), *range(25, 30)]


@pytest.mark.parametrize("careful", ["true", "false"])
def test_a_topic_that_is_deleted_under_a_running_query_fails_it_or_is_skipped(kafka, topic, tmp_path, careful):
    kept, gone = f"{topic}-kept", f"{topic}-gone"
    for name in (kept, gone):
        kafka.create(name)
        kafka.numbers(name, range(3))
    seen = []
    asking = {"fetchOffset.retryIntervalMs": "10"}  # to see whether it is only a broker that lags behind
    rows = kafka.stream(subscribePattern=f"{topic}-.*", startingOffsets="earliest", failOnDataLoss=careful, **asking)
    with running(rows, tmp_path, seen.extend) as query:
        query.processAllAvailable()
        kafka.delete(gone)
        kafka.numbers(kept, range(3, 5))
        if careful == "true":
            with pytest.raises(StreamingQueryException, match=rf"KAFKA_DATA_LOSS.PARTITIONS_DELETED\] .*: {gone}-0"):
                query.processAllAvailable()
        else:
            until(lambda: query.processAllAvailable() or len(seen) >= 8)
    assert sorted(seen) == ([0, 0, 1, 1, 2, 2] if careful == "true" else [0, 0, 1, 1, 2, 2, 3, 4])


def test_a_query_gets_past_a_timestamp_out_of_range_by_an_option(dev, topic, tmp_path):
    with klamm.Admin(dev.bootstrap) as admin:
        admin.create_topics({topic: klamm.NewTopic(configs={"message.timestamp.after.max.ms": str(2**63 - 1)})})
    dev.produce(topic, *({"value": b"%d" % n, "timestamp_ms": 1 if n else 2**63 - 1} for n in range(3)))
    seen = []
    for more, end in (({}, StreamingQueryException), ({"failOnTimestampRange": "false"}, None)):
        rows = dev.stream(subscribe=topic, startingOffsets="earliest", **more)
        with running(rows, tmp_path, seen.extend) as query:
            if end is None:
                query.processAllAvailable()
            else:
                with pytest.raises(end, match=f"TimestampRangeError: .* of partition {topic}-0 at offset 0"):
                    query.processAllAvailable()
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("careful", ["true", "false"])
def test_a_topic_that_is_unknown_for_a_moment_is_not_read_again(kafka_at, topic, tmp_path, careful):
    checkpoint, seen = tmp_path / "checkpoint", []
    with DevBroker() as broker:
        kafka = kafka_at(broker.bootstrap_servers)
        names = [f"{topic}-a", f"{topic}-b"]
        for name in names:
            kafka.create(name)
            kafka.numbers(name, range(3))
        options = {"subscribe": ",".join(names), "failOnDataLoss": careful, "fetchOffset.retryIntervalMs": "10"}
        rows = kafka.stream(startingOffsets="earliest", **options)
        with running(rows, checkpoint, seen.extend) as query:
            query.processAllAvailable()
            for api in ("Metadata", "DescribeTopicPartitions"):
                broker.fault(api, "error", error="UNKNOWN_TOPIC_OR_PARTITION", topic=names[0], times=None)
            kafka.numbers(names[1], range(10, 12))
            if careful == "true":
                with pytest.raises(StreamingQueryException, match="PARTITIONS_DELETED"):
                    query.processAllAvailable()
            else:
                query.processAllAvailable()
        broker.clear_faults()
        kafka.numbers(names[0], range(20, 22))
        with running(rows, checkpoint, seen.extend) as query:
            query.processAllAvailable()
    assert sorted(seen) == [0, 0, 1, 1, 2, 2, 10, 11, 20, 21]
    for log in (checkpoint / "offsets").iterdir():
        if log.name.isdecimal():
            assert set(json.loads(log.read_text().splitlines()[-1])) == set(names)


@pytest.mark.limits
def test_progress_reports_the_end_of_the_topic(kafka, topics, tmp_path):
    source, result = topics
    kafka.numbers(source, range(30), partition=1)
    rows = kafka.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="20").select("value")
    reports = kafka.run(rows, tmp_path, topic=result).recentProgress
    first = next(report["sources"][0] for report in reports if report["numInputRows"])
    assert json.loads(first["endOffset"]) == {source: {"0": 0, "1": 20, "2": 0}}
    assert json.loads(first["latestOffset"]) == {source: {"0": 0, "1": 30, "2": 0}}
