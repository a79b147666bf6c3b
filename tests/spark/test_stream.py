"""`spark.readStream.format("klamm")`: batches, checkpoints, restarts; every record once."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest
from pyspark.errors import StreamingQueryException

import klamm
from settled import until

pytestmark = pytest.mark.spark


def numbers(kafka, topic):
    return sorted(int(record.value) for record in kafka.records(topic))


@pytest.fixture
def topics(kafka, topic):
    """A topic to read from, with three partitions, and one to write to."""
    source, result = f"{topic}-in", f"{topic}-out"
    kafka.create(source, partitions=3)
    kafka.create(result, partitions=2)
    return source, result


def copy(kafka, source, result, checkpoint, **options):
    rows = kafka.stream(subscribe=source, startingOffsets="earliest", **options).select("value")
    query = kafka.run(rows, checkpoint, topic=result)
    return [batch["numInputRows"] for batch in query.recentProgress if batch["numInputRows"]]


@pytest.mark.limits
def test_available_now_reads_what_is_there_in_batches_and_ends(kafka, topics, tmp_path):
    source, result = topics
    for partition in range(3):
        kafka.numbers(source, range(partition * 100, partition * 100 + 100), partition)
    sizes = copy(kafka, source, result, tmp_path, maxOffsetsPerTrigger="120")
    assert sizes == [120, 120, 60]
    assert numbers(kafka, result) == list(range(300))


@pytest.mark.limits
def test_a_restart_goes_on_where_the_checkpoint_ends(kafka, topics, tmp_path):
    source, result = topics
    kafka.numbers(source, range(50))
    copy(kafka, source, result, tmp_path)
    assert copy(kafka, source, result, tmp_path) == []
    kafka.numbers(source, range(50, 80))
    assert sum(copy(kafka, source, result, tmp_path, maxOffsetsPerTrigger="7")) == 30
    assert numbers(kafka, result) == list(range(80))


def test_the_checkpoint_has_the_form_of_sparks_own_connector(kafka, topics, tmp_path):
    source, result = topics
    for partition in range(3):
        kafka.numbers(source, range(partition + 1), partition)
    copy(kafka, source, result, tmp_path)
    *_, offsets = (tmp_path / "offsets" / "0").read_text().splitlines()
    assert json.loads(offsets) == {source: {"0": 1, "1": 2, "2": 3}}


def test_a_checkpoint_in_other_spacing_is_read(kafka, topics, tmp_path):
    source, result = topics
    kafka.numbers(source, range(10))
    copy(kafka, source, result, tmp_path)
    # Spark's own connector writes no spaces; the checksum beside the file would not match any more.
    log = tmp_path / "offsets" / "0"
    *head, offsets = log.read_text().splitlines()
    log.write_text("\n".join([*head, json.dumps(json.loads(offsets), separators=(",", ":"))]))
    (tmp_path / "offsets" / ".0.crc").unlink(missing_ok=True)
    kafka.numbers(source, range(10, 15))
    copy(kafka, source, result, tmp_path)
    assert numbers(kafka, result) == list(range(15))


def test_a_query_that_begins_at_latest_and_dies_in_its_first_batch_skips_nothing(kafka, topics, tmp_path):
    source, result = topics
    kafka.numbers(source, range(10))
    rows = kafka.stream(subscribe=source, startingOffsets="latest").select("value")
    kafka.run(rows, tmp_path, topic=result)
    # Dead between noting what the batch is and noting that it is done:
    for file in (tmp_path / "commits").iterdir():
        file.unlink()
    kafka.numbers(source, range(10, 20))
    kafka.run(rows, tmp_path, topic=result)
    kafka.run(rows, tmp_path, topic=result)
    assert numbers(kafka, result) == list(range(10, 20))


@contextmanager
def running(rows, checkpoint, look):
    """A query that goes on until it is told to stop, and shows the numbers of each batch."""
    query = (
        rows.writeStream.foreachBatch(
            lambda batch, _: look([int(row.value) for row in batch.select("value").collect()])
        )
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
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
def test_records_that_expire_under_a_running_query_fail_it_or_are_passed_over(kafka, topic, tmp_path, careful):
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
            with pytest.raises(StreamingQueryException, match=f"{topic}-0 was to be read from offset 10 to 20"):
                query.processAllAvailable()
            assert seen == [list(range(10))]
        else:
            query.processAllAvailable()
            assert [number for numbers in seen for number in numbers] == [*range(10), *range(25, 30)]


@pytest.mark.limits
def test_progress_tells_where_the_topic_ends(kafka, topics, tmp_path):
    source, result = topics
    kafka.numbers(source, range(30), partition=1)
    rows = kafka.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="20").select("value")
    first = kafka.run(rows, tmp_path, topic=result).recentProgress[0]["sources"][0]
    assert json.loads(first["endOffset"]) == {source: {"0": 0, "1": 20, "2": 0}}
    assert json.loads(first["latestOffset"]) == {source: {"0": 0, "1": 30, "2": 0}}
