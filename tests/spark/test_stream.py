"""`spark.readStream.format("klamm")`: batches, checkpoints, restarts; every record once."""

from __future__ import annotations

import json

import pytest

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


def test_a_running_query_sees_every_record_acknowledged_before(kafka, topics, tmp_path):
    source, _ = topics
    seen = []
    query = (
        kafka.stream(subscribe=source, startingOffsets="earliest")
        .writeStream.foreachBatch(lambda rows, _: seen.extend(int(row.value) for row in rows.select("value").collect()))
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        for begin in (0, 10, 20):
            kafka.numbers(source, range(begin, begin + 10))
            query.processAllAvailable()
            assert sorted(seen) == list(range(begin + 10))
    finally:
        query.stop()


@pytest.mark.limits
def test_progress_tells_where_the_topic_ends(kafka, topics, tmp_path):
    source, result = topics
    kafka.numbers(source, range(30), partition=1)
    rows = kafka.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="20").select("value")
    first = kafka.run(rows, tmp_path, topic=result).recentProgress[0]["sources"][0]
    assert json.loads(first["endOffset"]) == {source: {"0": 0, "1": 20, "2": 0}}
    assert json.loads(first["latestOffset"]) == {source: {"0": 0, "1": 30, "2": 0}}
