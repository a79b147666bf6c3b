"""Plans and reads of the readers, called as Spark calls them. Without Spark, these tests only need a broker and are fast."""

from __future__ import annotations

import json
import pickle
import time
from types import SimpleNamespace

import pytest

import klamm
from klamm.errors import ConfigError, KafkaTimeoutError
from klamm.spark import DataLossError, TimestampRangeError
from klamm.testing import DevBroker
from spark_plans import batch, begun, plan, stream, values

limits = pytest.importorskip("pyspark.sql.streaming.datasource", reason="limits of micro-batches: PySpark 4.2")


@pytest.fixture
def never_check_silence(monkeypatch):
    """Disable the check for missing records, so that a task that waits for them makes the test time out."""
    monkeypatch.setattr("klamm.spark.read.CHECK_SECONDS", 3600.0)


def steps(reader, limit=None):
    """Call a reader as Spark does for one run with Trigger.AvailableNow; return the contents of its batches."""
    reader.prepareForTriggerAvailableNow()
    start, batches = begun(reader), []
    while (end := reader.latestOffset(start, limit or reader.getDefaultReadLimit())) != start:
        batches.append(values(reader, reader.partitions(start, end)))
        start = end
    return batches


# Where a read begins and ends


def test_a_pattern_reads_the_topics_whose_names_contain_a_match(cluster, topic):
    names = [f"{topic}-{rest}" for rest in ("a", "a-more", "b", "c")] + [f"x{topic}-a"]
    for name in names:
        cluster.create(name)
        cluster.numbers(name, range(2))
    for pattern, found in ((f"{topic}-[ab]", [*names[:3], names[4]]), (f"^{topic}-[ab]$", [names[0], names[2]])):
        assert plan(batch(cluster, subscribePattern=pattern)) == [(name, 0, 0, 2) for name in found]


def test_a_pattern_that_matches_nothing_reads_nothing(cluster, topic):
    assert plan(batch(cluster, subscribePattern=topic)) == []


def test_timestamps_resolve_to_the_first_record_at_or_after_them(cluster, timed):
    reader = batch(cluster, subscribe=timed, startingTimestamp="1700000020500", endingTimestamp="1700000050000")
    assert plan(reader) == [(timed, 0, 3, 5), (timed, 1, 2, 5)]


def test_timestamps_may_differ_by_partition(cluster, timed):
    times = json.dumps({timed: {"0": 1_700_000_090_000, "1": 0}})
    assert plan(batch(cluster, subscribe=timed, startingOffsetsByTimestamp=times)) == [
        (timed, 0, 9, 10),
        (timed, 1, 0, 10),
    ]
    assert plan(batch(cluster, subscribe=timed, endingOffsetsByTimestamp=times)) == [(timed, 0, 0, 9)]


def test_timestamps_must_name_every_partition(cluster, timed):
    with pytest.raises(ConfigError, match="must name every partition"):
        plan(batch(cluster, subscribe=timed, startingOffsetsByTimestamp=json.dumps({timed: {"0": 0}})))


def test_without_a_record_after_the_timestamp_a_read_fails_or_begins_at_the_end(cluster, timed):
    late = {"subscribe": timed, "startingTimestamp": "1700000090500"}
    with pytest.raises(ConfigError, match=f"{timed}-0 has no record at or after 1700000090500"):
        plan(batch(cluster, **late))
    assert plan(batch(cluster, **late, startingOffsetsByTimestampStrategy="latest")) == [(timed, 1, 9, 10)]
    assert plan(batch(cluster, subscribe=timed, endingTimestamp="1800000000000")) == [
        (timed, 0, 0, 10),
        (timed, 1, 0, 10),
    ]


def test_a_stream_begins_at_a_timestamp(cluster, timed):
    assert stream(cluster, subscribe=timed, startingTimestamp="1700000020500").initialOffset() == {
        timed: {"0": 3, "1": 2}
    }


# How ranges become tasks


def test_large_partitions_are_divided(cluster, topic):
    cluster.create(topic, partitions=2)
    cluster.numbers(topic, range(30), partition=0)
    cluster.numbers(topic, range(10), partition=1)
    reader = batch(cluster, subscribe=topic, minPartitions="4")
    assert plan(reader) == [(topic, 0, 0, 10), (topic, 0, 10, 20), (topic, 0, 20, 30), (topic, 1, 0, 10)]
    assert values(reader, reader.partitions()) == [b"%d" % number for number in [*range(30), *range(10)]]
    assert [end - start for _, _, start, end in plan(batch(cluster, subscribe=topic, maxRecordsPerPartition="12"))] == [
        10,
        10,
        10,
        10,
    ]


@pytest.mark.parametrize("kind", [batch, stream])
def test_small_partitions_share_a_task_unless_an_option_controls_tasks(cluster, topic, kind):
    cluster.create(topic, partitions=40)
    for partition in range(40):
        cluster.numbers(topic, range(partition * 4, partition * 4 + 4), partition)

    def read(**options):
        reader = kind(cluster, subscribe=topic, **options)
        if kind is batch:
            tasks = reader.partitions()
        else:
            start = begun(reader)
            tasks = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
        assert values(reader, tasks) == [b"%d" % number for number in range(160)]
        return len(tasks)

    assert read() == 20
    assert read(minPartitions="40") == read(maxRecordsPerPartition="100") == 40


def test_a_task_of_many_partitions_skips_what_is_lost(cluster, topic):
    cluster.create(topic, partitions=40)
    for partition in range(40):
        cluster.numbers(topic, range(partition * 4, partition * 4 + 4), partition)
    careful, careless = (batch(cluster, subscribe=topic, failOnDataLoss=answer) for answer in ("true", "false"))
    tasks = careless.partitions()
    expired(cluster, topic, 3)
    with pytest.raises(DataLossError, match=f"{topic}-0 from offset 0 to 4: it contains offsets 3 to 4 now"):
        values(careful, tasks)
    assert values(careless, tasks) == [b"%d" % number for number in range(3, 160)]


def test_partitions_are_divided_by_bytes(cluster, topic):
    cluster.create(topic, partitions=2)
    cluster.produce(topic, *({"value": b"x" * 900, "key": b"k" * 100, "partition": 0} for _ in range(20)))
    cluster.produce(topic, *({"value": b"x", "partition": 1} for _ in range(20)))
    assert plan(batch(cluster, subscribe=topic, maxBytesPerPartition="10000")) == [
        (topic, 0, 0, 10),
        (topic, 0, 10, 20),
        (topic, 1, 0, 20),
    ]


def test_a_partition_of_a_slow_node_is_measured_too():
    with DevBroker(brokers=2, default_partitions=2) as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            for partition, size in enumerate((1000, 1)):
                for _ in range(20):
                    producer.send_nowait("logs", b"x" * size, partition=partition)
        for partition in range(2):
            broker.move_leader("logs", partition, partition + 1)
        broker.fault("Fetch", "delay", seconds=1.5, node=2)
        cluster = SimpleNamespace(bootstrap=broker.bootstrap_servers)
        assert plan(batch(cluster, subscribe="logs", maxBytesPerPartition="10000")) == [
            ("logs", 0, 0, 10),
            ("logs", 0, 10, 20),
            ("logs", 1, 0, 20),
        ]


# Micro-batches


def test_spark_without_limits_gets_limited_batches_too_also_after_a_restart(cluster, topic):
    cluster.create(topic, partitions=3)
    for partition in range(3):
        cluster.numbers(topic, range(4), partition)

    def next_batch(reader):  # as Spark 4.0 and 4.1 ask, which pass neither the start nor a limit
        end = reader.latestOffset()
        return end, sum(end[topic].values())

    options = {"maxOffsetsPerTrigger": "2", "minOffsetsPerTrigger": "2"}
    reader = stream(cluster, subscribe=topic, **options)
    first, total = next_batch(reader)
    assert total == 2
    assert len(values(reader, reader.partitions(reader.initialOffset(), first))) == 2
    second, total = next_batch(reader)
    assert total == 4
    assert len(values(reader, reader.partitions(first, second))) == 2
    restarted = stream(cluster, subscribe=topic, **options)
    assert restarted.partitions(second, second) == []  # Spark plans the last batch of the checkpoint once more
    ends = [second]
    while (end := restarted.latestOffset()) != ends[-1]:
        restarted.partitions(ends[-1], end)
        ends.append(end)
    assert [sum(end[topic].values()) for end in ends] == [4, 6, 8, 10, 12]
    cluster.numbers(topic, range(1), 0)
    assert restarted.latestOffset() == end  # waits for a second record


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("options", [{}, {"maxOffsetsPerTrigger": "5"}])
def test_a_start_beyond_the_end_is_data_loss(cluster, topic, restarts, options):
    cluster.create(topic)
    cluster.numbers(topic, range(10))
    options |= {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 1000}})}
    careful, careless = (stream(cluster, failOnDataLoss=answer, **options) for answer in ("true", "false"))
    message = f"{topic}-0 from offset 1000, because it ends at 10 now: is option 'startingOffsets' right"
    start, limit = careful.initialOffset(), careful.getDefaultReadLimit()
    for ask in (careful.latestOffset, careful.prepareForTriggerAvailableNow):
        with pytest.raises(DataLossError, match=message):
            ask() or careful.latestOffset(start, limit)
    end = careless.latestOffset(careless.initialOffset(), limit)
    assert end == {topic: {"0": 10}}
    if restarts:  # the first batch of the checkpoint is planned once more
        with pytest.raises(DataLossError, match=message):
            careful.partitions(start, end)
    assert careless.partitions(start, end) == []
    cluster.numbers(topic, range(10, 12))
    after = careless.latestOffset(end, limit)
    assert values(careless, careless.partitions(end, after)) == [b"10", b"11"]


def test_bytes_limit_a_batch(cluster, topic):
    cluster.create(topic, partitions=2)
    for partition in range(2):
        cluster.produce(topic, *({"value": b"x" * 1000, "partition": partition} for _ in range(20)))
    reader = stream(cluster, subscribe=topic, maxBytesPerTrigger="16000")
    assert reader.getDefaultReadLimit() == limits.ReadMaxBytes(16000)
    assert list(map(len, steps(reader))) == [16, 16, 8]


@pytest.mark.parametrize(("rows", "expected"), [(3, [3, 3, 3, 3]), (20, [5, 5, 2])])
def test_rows_and_bytes_limit_a_batch_together(cluster, topic, rows, expected):
    cluster.create(topic)
    cluster.produce(topic, *({"value": b"x" * 1000} for _ in range(12)))
    reader = stream(cluster, subscribe=topic, maxBytesPerTrigger="5000", maxOffsetsPerTrigger=str(rows))
    assert reader.getDefaultReadLimit() == limits.ReadMaxRows(rows)
    assert list(map(len, steps(reader))) == expected


def test_trigger_once_ignores_the_limits(cluster, topic):
    cluster.create(topic)
    cluster.numbers(topic, range(20))
    reader = stream(cluster, subscribe=topic, maxOffsetsPerTrigger="3", minOffsetsPerTrigger="2")
    start = reader.initialOffset()
    assert reader.latestOffset(start, limits.ReadAllAvailable()) == {topic: {"0": 20}}


def test_a_batch_waits_for_the_minimum_but_no_longer_than_the_maximum_delay(cluster, topic, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("klamm.spark.stream.time", SimpleNamespace(monotonic=lambda: now))
    cluster.create(topic)
    cluster.numbers(topic, range(1))
    reader = stream(cluster, subscribe=topic, minOffsetsPerTrigger="5", maxTriggerDelay="1500ms")
    limit = reader.getDefaultReadLimit()
    assert limit == limits.ReadMinRows(5)
    first = reader.latestOffset(begun(reader), limit)
    assert first == {topic: {"0": 1}}  # the first batch with records does not wait
    cluster.numbers(topic, range(4))
    assert reader.latestOffset(first, limit) == first
    cluster.numbers(topic, range(1))
    second = reader.latestOffset(first, limit)
    assert second == {topic: {"0": 6}}
    cluster.numbers(topic, range(1))
    now += 1.4
    assert reader.latestOffset(second, limit) == second
    now += 0.1
    assert reader.latestOffset(second, limit) == {topic: {"0": 7}}


def test_available_now_does_not_wait_for_the_minimum(cluster, topic):
    cluster.create(topic)
    cluster.numbers(topic, range(7))
    reader = stream(cluster, subscribe=topic, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5")
    assert list(map(len, steps(reader))) == [5, 2]


@pytest.mark.parametrize("grows", ["records", "partitions"])
def test_a_run_may_begin_after_its_fixed_end(cluster, topic, grows):
    cluster.create(topic)
    cluster.numbers(topic, range(5))
    reader = stream(cluster, subscribe=topic, startingOffsets="latest")
    reader.prepareForTriggerAvailableNow()
    if grows == "records":
        cluster.numbers(topic, range(5, 8))
    else:
        with klamm.Admin(cluster.bootstrap) as admin:
            admin.create_partitions({topic: 3})
            while len(admin.describe_topics([topic])[topic].partitions) < 3:
                pass
    start = begun(reader)
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start


def test_a_stale_broker_does_not_end_a_run(cluster, topic, monkeypatch):
    cluster.create(topic)
    cluster.numbers(topic, range(5))
    reader = stream(cluster, subscribe=topic)
    with monkeypatch.context() as lagging:
        lagging.setattr(klamm.Consumer, "end_offsets", lambda _, partitions: dict.fromkeys(partitions, 2))
        reader.prepareForTriggerAvailableNow()
    start = {topic: {"0": 3}}
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert values(reader, reader.partitions(start, end)) == [b"3", b"4"]
    cluster.numbers(topic, range(5, 6))
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end


@pytest.mark.parametrize(
    ("begin", "first", "is_there_once"),
    [
        ({"startingOffsets": "latest"}, 5, False),
        ({"startingTimestamp": "4000000000000", "startingOffsetsByTimestampStrategy": "latest"}, 5, False),
        ({"startingOffsets": "earliest"}, 0, True),
        ({"startingTimestamp": "0"}, 0, True),
    ],
)
def test_an_empty_first_batch_stores_the_start_of_a_stream(cluster, topic, begin, first, is_there_once):
    cluster.create(topic)
    cluster.numbers(topic, range(5))
    reader = stream(cluster, subscribe=topic, **begin)
    start = reader.initialOffset()
    cluster.numbers(topic, range(5, 8))
    assert reader.initialOffset() == start == {topic: {"0": first}}
    end = {topic: {"0": 8}}
    assert begun(reader) == start
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == end
    # Trigger.Once asks for everything, and never again.
    once = stream(cluster, subscribe=topic, **begin)
    start = once.initialOffset()
    cluster.numbers(topic, range(8, 9))
    assert once.latestOffset(start, limits.ReadAllAvailable()) == ({topic: {"0": 9}} if is_there_once else start)


@pytest.mark.parametrize(("given", "is_empty"), [({"0": 2}, False), ({"0": -2}, True), ({"0": -1}, True)])
def test_a_start_in_offsets_needs_no_empty_first_batch(cluster, topic, given, is_empty):
    cluster.create(topic)
    cluster.numbers(topic, range(5))
    reader = stream(cluster, subscribe=topic, startingOffsets=json.dumps({topic: given}))
    start = reader.initialOffset()
    cluster.numbers(topic, range(5, 8))
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end == (start if is_empty else {topic: {"0": 8}})


def test_a_repeated_first_batch_may_end_before_the_current_end(cluster, topic):
    cluster.create(topic)
    cluster.numbers(topic, range(5))
    start = begun(stream(cluster, subscribe=topic))
    # The driver dies before it notes that the batch is done; the next one repeats it and asks for what comes then.
    restarted = stream(cluster, subscribe=topic)
    assert restarted.partitions(restarted.initialOffset(), start) == []
    assert restarted.latestOffset(start, restarted.getDefaultReadLimit()) == {topic: {"0": 5}}


def test_what_expires_before_the_first_records_are_read_is_data_loss(cluster, topic):
    cluster.create(topic)
    cluster.numbers(topic, range(5))
    start = begun(stream(cluster, subscribe=topic))
    expired(cluster, topic, 3)
    restarted = stream(cluster, subscribe=topic)
    end = restarted.latestOffset(start, restarted.getDefaultReadLimit())
    assert (start, end) == ({topic: {"0": 0}}, {topic: {"0": 5}})
    with pytest.raises(DataLossError, match="from offset 0 to 5: it contains offsets 3 to 5 now"):
        values(restarted, restarted.partitions(start, end))


def test_new_topics_are_read_from_their_beginning(cluster, topic):
    cluster.create(f"{topic}-a")
    cluster.numbers(f"{topic}-a", range(2))
    reader = stream(cluster, subscribePattern=f"{topic}-.*", startingOffsets="latest")
    start = begun(reader)
    cluster.create(f"{topic}-b", partitions=2)
    cluster.numbers(f"{topic}-b", range(10, 12), partition=1)
    end = reader.latestOffset(start, limits.ReadAllAvailable())
    assert end == {f"{topic}-a": {"0": 2}, f"{topic}-b": {"0": 0, "1": 2}}
    assert values(reader, reader.partitions(start, end)) == [b"10", b"11"]


def test_new_partitions_are_read_from_their_beginning(real_cluster, topic):
    real_cluster.create(topic)
    real_cluster.numbers(topic, range(2))
    reader = stream(real_cluster, subscribe=topic, startingOffsets="latest", maxOffsetsPerTrigger="100")
    start = begun(reader)
    with klamm.Admin(real_cluster.bootstrap) as admin:
        admin.create_partitions({topic: 3})
    real_cluster.numbers(topic, range(10, 12), partition=2)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end == {topic: {"0": 2, "1": 0, "2": 2}}
    assert values(reader, reader.partitions(start, end)) == [b"10", b"11"]


def test_new_topics_without_their_first_records_are_data_loss(cluster, topic):
    names = [f"{topic}-a", f"{topic}-b"]
    cluster.create(names[0])
    careful, careless = (
        stream(cluster, subscribePattern=f"{topic}-.*", failOnDataLoss=answer) for answer in ("true", "false")
    )
    start = begun(careful)
    cluster.create(names[1])
    cluster.numbers(names[1], range(6))
    expired(cluster, names[1], 4)
    end = careful.latestOffset(start, careful.getDefaultReadLimit())
    with pytest.raises(
        DataLossError, match=f"{names[1]}-0 was added while the query ran, but its first record is at offset 4"
    ):
        careful.partitions(start, end)
    assert values(careless, careless.partitions(start, end)) == [b"4", b"5"]


def test_sizes_of_deleted_records_are_unknown(cluster, topic):
    cluster.create(topic)
    cluster.numbers(topic, range(3))
    ends = json.dumps({topic: {"0": 50}}), json.dumps({topic: {"0": 60}})
    reader = batch(cluster, subscribe=topic, startingOffsets=ends[0], endingOffsets=ends[1], maxBytesPerPartition="1")
    assert plan(reader) == [(topic, 0, 50, 60)]


def test_a_lookup_is_retried_as_often_as_allowed(cluster, topic, monkeypatch):
    cluster.create(topic)
    reader = stream(cluster, subscribe=topic, **{"fetchOffset.numRetries": "3"})
    answers = [KafkaTimeoutError("late"), KafkaTimeoutError("late"), {klamm.TopicPartition(topic, 0): 0}]

    def answer(*_):
        now = answers.pop(0)
        if isinstance(now, Exception):
            raise now
        return now

    monkeypatch.setattr(klamm.Consumer, "beginning_offsets", answer)
    assert reader.initialOffset() == {topic: {"0": 0}}
    answers[:] = [KafkaTimeoutError("late")] * 3
    with pytest.raises(KafkaTimeoutError):
        stream(cluster, subscribe=topic).initialOffset()
    assert answers == []


def test_an_end_before_the_position_is_looked_up_again(cluster, topic, monkeypatch):
    cluster.create(topic)
    cluster.numbers(topic, range(5))
    reader = stream(cluster, subscribe=topic)
    start, ask, asked = {topic: {"0": 5}}, klamm.Consumer.end_offsets, []

    def stale(consumer, partitions):
        asked.append(1)
        return dict.fromkeys(partitions, 2) if len(asked) == 1 else ask(consumer, partitions)

    monkeypatch.setattr(klamm.Consumer, "end_offsets", stale)
    assert reader.latestOffset(start, limits.ReadAllAvailable()) == start
    assert len(asked) == 2


def test_an_idle_stream_limits_its_requests_to_brokers(cluster, topic):
    cluster.create(topic)
    reader = stream(cluster, subscribe=topic)
    start = reader.initialOffset()
    began = time.monotonic()
    for _ in range(5):
        assert reader.latestOffset(start, limits.ReadAllAvailable()) == start
    assert time.monotonic() - began > 4 * 0.05


def test_finished_batches_are_committed_for_the_group(cluster, topic):
    cluster.create(topic, partitions=2)
    cluster.numbers(topic, range(10), partition=0)
    reader = stream(cluster, subscribe=topic, commitGroup=f"{topic}-lag", maxOffsetsPerTrigger="6")
    end = reader.latestOffset(begun(reader), reader.getDefaultReadLimit())
    assert cluster.committed(f"{topic}-lag", topic, 2) == [None, None]  # planned, not finished
    reader.commit(end)
    assert cluster.committed(f"{topic}-lag", topic, 2) == [6, 0]
    # Spark tells of the last batch of a run by asking for what comes after it.
    last = reader.latestOffset(end, reader.getDefaultReadLimit())
    assert reader.latestOffset(last, reader.getDefaultReadLimit()) == last
    assert cluster.committed(f"{topic}-lag", topic, 2) == [10, 0]


# What is not in the log


@pytest.mark.usefixtures("never_check_silence")
def test_transaction_markers_are_not_data_loss(cluster, topic):
    cluster.create(topic)
    with klamm.Producer(cluster.bootstrap, transactional_id=topic) as producer:
        for number in range(4):
            with producer.transaction() as transaction:
                transaction.send(topic, b"%d" % number).result(timeout=30)
                if number % 2:
                    transaction.abort()
        with producer.transaction() as transaction:
            transaction.send(topic, b"open").result(timeout=30)
            committed = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
            reader = batch(cluster, **committed)
            assert values(reader, reader.partitions()) == [b"0", b"2"]
            # Every record with a task of its own: some have nothing to read.
            reader = batch(cluster, **committed, maxRecordsPerPartition="1")
            assert values(reader, reader.partitions()) == [b"0", b"2"]
            assert [rows for rows in steps(stream(cluster, **committed, maxOffsetsPerTrigger="3")) if rows] == [
                [b"0"],
                [b"2"],
            ]
            reader = batch(cluster, subscribe=topic)
            assert values(reader, reader.partitions()) == [b"0", b"1", b"2", b"3", b"open"]


@pytest.mark.usefixtures("never_check_silence")
def test_gaps_from_compaction_are_not_data_loss(compacting, topic):
    configs = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    with klamm.Admin(compacting.bootstrap) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=1, configs=configs)})
    now = time.time_ns() // 1_000_000 - 60_000
    log = [[(b"%d" % (number % 3), b"v") for number in range(60)], [(b"1", None)], [(b"9", b"end")]]
    for age, records in enumerate(log):  # segments are closed by the times of records
        sent = ({"key": key, "value": value, "timestamp_ms": now + 1000 * age} for key, value in records)
        compacting.produce(topic, *sent)
    deadline = time.monotonic() + 30
    left = [57, 59, 60, 61]
    while [record.offset for record in compacting.records(topic)] != left:
        assert time.monotonic() < deadline, "the log was not compacted"
    reader = batch(compacting, subscribe=topic, maxRecordsPerPartition="7")
    tasks = reader.partitions()
    assert len(tasks) > 5
    assert [number for task in tasks for rows in reader.read(task) for number in rows["offset"].to_pylist()] == left
    batches = steps(stream(compacting, subscribe=topic, maxOffsetsPerTrigger="9"))
    assert len([value for values in batches for value in values]) == len(left)


def expired(cluster, topic, before):
    """Delete records, as retention does."""
    with klamm.Admin(cluster.bootstrap) as admin:
        admin.delete_records({klamm.TopicPartition(topic, 0): before})


def test_records_that_expire_between_plan_and_task_fail_it_or_are_skipped(cluster, topic):
    cluster.create(topic)
    cluster.numbers(topic, range(6))
    careful, careless = (batch(cluster, subscribe=topic, failOnDataLoss=answer) for answer in ("true", "false"))
    tasks = careful.partitions()
    expired(cluster, topic, 4)
    with pytest.raises(DataLossError, match=f"{topic}-0 from offset 0 to 6: it contains offsets 4 to 6 now"):
        values(careful, tasks)
    assert values(careless, tasks) == [b"4", b"5"]
    expired(cluster, topic, None)
    assert values(careless, tasks) == []


def test_records_that_expire_under_a_stream_fail_it_or_are_skipped(cluster, topic):
    cluster.create(topic)
    cluster.numbers(topic, range(6))
    careful, careless = (stream(cluster, subscribe=topic, failOnDataLoss=answer) for answer in ("true", "false"))
    start = careful.latestOffset(careful.initialOffset(), limits.ReadAllAvailable())
    cluster.numbers(topic, range(6, 12))
    expired(cluster, topic, 9)
    end = careful.latestOffset(start, limits.ReadAllAvailable())
    assert (start, end) == ({topic: {"0": 6}}, {topic: {"0": 12}})
    with pytest.raises(DataLossError, match="from offset 6 to 12: it contains offsets 9 to 12 now"):
        values(careful, careful.partitions(start, end))
    assert values(careless, careless.partitions(start, end)) == [b"9", b"10", b"11"]


# Timestamps

TIMESTAMPS = {"ns": 1_795_675_692_911_954_197, "largest": 2**63 - 1, "just": 9_223_372_036_854_776}
ANY_TIMESTAMP = {"message.timestamp.after.max.ms": str(2**63 - 1)}  # the default before Kafka 4.0


@pytest.mark.parametrize("kind", [batch, stream])
@pytest.mark.parametrize("ms", TIMESTAMPS.values(), ids=TIMESTAMPS)
def test_a_timestamp_out_of_sparks_range_fails_the_task_or_is_null(cluster, topic, ms, kind):
    with klamm.Admin(cluster.bootstrap) as admin:
        admin.create_topics({topic: klamm.NewTopic(configs=ANY_TIMESTAMP)})
    within = 9_223_372_036_854_775
    cluster.produce(topic, *({"value": b"v", "timestamp_ms": at} for at in (within, ms, 1, ms)))

    def read(**options):
        reader = kind(cluster, subscribe=topic, **options)
        if kind is batch:
            tasks = reader.partitions()
        else:
            start = begun(reader)
            tasks = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
        return [rows for task in tasks for rows in reader.read(task)]

    with pytest.raises(TimestampRangeError, match=f"{topic}-0 at offset 1: its timestamp, {ms} ms") as error:
        read()
    restarted = pickle.loads(pickle.dumps(error.value))  # noqa: S301 - our own
    assert (restarted.topic, restarted.partition, restarted.offset, restarted.timestamp_ms) == (topic, 0, 1, ms)
    assert "failOnTimestampRange" in restarted.hint
    rows = read(failOnTimestampRange="false")
    timestamps = [at for batch in rows for at in batch.column("timestamp").cast("int64").to_pylist()]
    assert timestamps == [within * 1000, None, 1000, None]


# How much a task holds


def test_batches_have_a_limit_in_bytes(cluster, topic, monkeypatch):
    monkeypatch.setattr("klamm.spark.read.BATCH_BYTES", 50_000)
    cluster.create(topic)
    with klamm.Producer(cluster.bootstrap, compression_type="gzip") as producer:
        producer.send_many(topic, [b"x" * 1000] * 1000)
        producer.flush(timeout=30)
    reader = batch(cluster, subscribe=topic)
    [task] = reader.partitions()
    sizes = [rows.num_rows for rows in reader.read(task)]
    assert sum(sizes) == 1000
    assert max(sizes[1:]) <= 50  # the first one cannot know
