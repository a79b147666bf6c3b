"""Consuming: positions, delivered records and committed offsets."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

import klamm
from klamm import TopicPartition
from klamm.errors import ArgumentError, ClosedError, ConfigError, OffsetOutOfRangeError
from settled import until


@pytest.fixture
def filled(broker, topic):
    """A topic with 100 records in one partition, a second apart."""
    with klamm.Producer(broker.bootstrap_servers, linger_ms=5, batch_size=512) as producer:
        producer.send(topic, b"0", timestamp_ms=1_000_000).result(20)
        for i in range(1, 100):
            producer.send_nowait(topic, b"%d" % i, timestamp_ms=1_000_000 + i * 1_000)
    return topic


def numbers(records):
    return [int(record.value) for record in records]


def take(count, records):
    found = []
    for record in records:
        found.append(record)
        if len(found) == count:
            return found
    return found


def test_iteration_ends_at_the_end_offset(style, broker, filled):
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(filled, 0, offset=10, end_offset=20)])
        assert numbers(consumer) == list(range(10, 20))
        assert numbers(consumer) == []
        assert consumer.position(TopicPartition(filled, 0)) == 20


def test_bounded_reading_of_several_partitions_gives_everything_once(style, broker, partitioned):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(partitioned, [b"%d" % i for i in range(1_000)], keys=[b"%d" % i for i in range(1_000)])
    with style.consumer(broker.bootstrap_servers) as consumer:
        partitions = [TopicPartition(partitioned, number) for number in consumer.partitions_for(partitioned)]
        ends = consumer.end_offsets(partitions)
        consumer.assign([TopicPartition(partitioned, tp.partition, 0, ends[tp]) for tp in partitions])
        assert sorted(numbers(consumer)) == list(range(1_000))
        assert consumer.assignment() == set(partitions)


def test_a_subscription_reads_whole_topics(style, broker, filled):
    with style.consumer(broker.bootstrap_servers, topics=[filled], auto_offset_reset="earliest") as consumer:
        assert numbers(take(100, consumer)) == list(range(100))


def test_a_consumer_that_starts_at_the_end_gets_what_comes_next(style, broker, filled):
    with style.consumer(broker.bootstrap_servers) as consumer, klamm.Producer(broker.bootstrap_servers) as producer:
        consumer.assign([TopicPartition(filled, 0)])
        assert consumer.position(TopicPartition(filled, 0)) == 100
        producer.send(filled, b"100").result(20)
        assert numbers(take(1, consumer)) == [100]


def test_poll_gives_a_sequence(style, broker, filled):
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(filled, 0, 0)])
        records = consumer.poll(timeout=20, max_records=1)
        assert numbers(records) == [0]
        while len(records) < 30:
            records = consumer.poll(timeout=20)
        first = int(records[0].value)
        assert numbers(records) == list(range(first, first + len(records)))
        assert numbers(records[2:9:3]) == [first + 2, first + 5, first + 8]
        assert numbers(records[-2:]) == numbers(records)[-2:]
        assert records[:] == records != records[1:]
        assert records[2:9].index(records[4]) == 2
        assert records.count(records[4]) == 1
        assert numbers(records[::-1]) == numbers(records)[::-1]
        assert int(records[-1].value) == numbers(records)[-1]
        assert len(records[5:2]) == 0
        (topic_partition,) = records.by_partition()
        assert topic_partition == TopicPartition(filled, 0)
        assert numbers(records.by_partition()[topic_partition]) == numbers(records)


def test_poll_gives_at_most_as_many_as_asked_for_and_loses_none(style, broker, filled):
    seen = []
    with style.consumer(broker.bootstrap_servers, max_poll_records=7) as consumer:
        consumer.assign([TopicPartition(filled, 0, 0, 100)])
        while records := consumer.poll(timeout=20):
            assert len(records) <= 7
            seen += numbers(records)
        assert len(consumer.poll(timeout=60)) == 0
    assert seen == list(range(100))


def test_poll_returns_empty_at_its_timeout(style, broker, filled):
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(filled, 0, 100)])
        assert len(consumer.poll(timeout=0.05)) == 0
        assert len(consumer.poll(timeout=0)) == 0


def test_a_loop_that_was_left_resumes_where_it_stopped(style, broker, filled):
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(filled, 0, 0)])
        assert numbers(take(3, consumer)) == [0, 1, 2]
        assert consumer.position(TopicPartition(filled, 0)) == 3
        assert numbers(take(2, consumer)) == [3, 4]
        assert numbers(consumer.poll(timeout=20, max_records=2)) == [5, 6]


def test_seek_moves_the_position(style, broker, filled):
    topic_partition = TopicPartition(filled, 0)
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(filled, 0, 0)])
        assert numbers(take(2, consumer)) == [0, 1]
        consumer.seek(topic_partition, 50)
        assert consumer.position(topic_partition) == 50
        assert numbers(take(2, consumer)) == [50, 51]
        consumer.seek_to_beginning()
        assert numbers(take(2, consumer)) == [0, 1]
        consumer.seek_to_end([topic_partition])
        assert consumer.position(topic_partition) == 100


def test_a_seek_that_makes_no_sense_is_refused(style, broker, filled):
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(filled, 0, 0)])
        with pytest.raises(ConfigError, match="cannot seek to offset -5"):
            consumer.seek(TopicPartition(filled, 0), -5)
        with pytest.raises(klamm.KafkaError, match="assigned"):
            consumer.seek(TopicPartition(filled, 9), 5)


def test_an_offset_that_is_gone_is_an_error_if_so_wanted(style, broker, filled):
    with style.consumer(broker.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign([TopicPartition(filled, 0, 5_000)])
        with pytest.raises(OffsetOutOfRangeError, match="5000") as caught:
            take(1, consumer)
        assert (caught.value.topic, caught.value.partition) == (filled, 0)
        consumer.seek(TopicPartition(filled, 0), 99)
        assert numbers(take(1, consumer)) == [99]


def test_a_partition_without_a_start_offset_is_an_error_of_each_poll(style, broker, partitioned):
    """If only the first poll raised, a program that retries would wait for records for ever."""
    lost, read = TopicPartition(partitioned, 0), TopicPartition(partitioned, 1, 0)
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send(partitioned, b"1", partition=1).result(20)
    with style.consumer(broker.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign([lost])
        for _ in range(3):
            with pytest.raises(ConfigError, match="has no start offset"):
                take(1, consumer)
        consumer.assign([lost, read])
        consumer.pause([lost])
        assert numbers(take(1, consumer)) == [1]
        consumer.resume([lost])
        for _ in range(3):
            with pytest.raises(ConfigError, match="has no start offset"):
                take(1, consumer)
        consumer.seek(lost, 0)
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send(partitioned, b"2", partition=0).result(20)
        assert numbers(take(1, consumer)) == [2]


def test_an_offset_that_is_gone_moves_to_the_reset_position(style, broker, filled):
    with style.consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(filled, 0, 5_000)])
        assert numbers(take(1, consumer)) == [0]


def test_a_paused_partition_gives_nothing_until_it_is_resumed(style, broker, partitioned):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for i in range(20):
            producer.send(partitioned, b"%d" % i, partition=i % 2).result(20)
    zero, one = (TopicPartition(partitioned, number, 0, 10) for number in (0, 1))
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([zero, one])
        take(1, consumer)
        consumer.pause([zero])
        assert consumer.paused() == {zero}
        seen = []
        while len(seen) < 9:
            seen += consumer.poll(timeout=20)
        assert {record.partition for record in seen[1:]} == {1}
        assert len(consumer.poll(timeout=0.05)) == 0
        consumer.resume([zero])
        assert consumer.paused() == set()
        rest = list(consumer)
        assert len(rest) + len(seen) + 1 == 20


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_partition_that_stays_with_its_member_in_a_rebalance_stays_paused(style, broker, partitioned, assignor):
    config = {"group_id": partitioned, "topics": [partitioned], "auto_offset_reset": "earliest"}
    config |= {"partition_assignment_strategy": assignor, "heartbeat_interval_ms": 500}
    with (
        klamm.Producer(broker.bootstrap_servers) as producer,
        style.consumer(broker.bootstrap_servers, **config) as first,
    ):
        until(lambda: not first.poll(0.1) and len(first.assignment()) == 4)
        first.pause(first.assignment())
        with style.consumer(broker.bootstrap_servers, **config) as second:
            until(lambda: not second.poll(0.1) and not first.poll(0.1) and len(second.assignment()) == 2)
            until(lambda: not first.poll(0.1) and len(first.assignment()) == 2)
            kept = first.assignment()
            assert first.paused() == kept
            for number in range(4):
                producer.send(partitioned, b"v", partition=number).result(20)
            assert not first.poll(0.5)
        until(lambda: first.poll(0.1) is not None and len(first.assignment()) == 4)
        assert first.paused() == kept, "a partition of the second member is not paused when it comes back"


@pytest.mark.parametrize("auto", [True, False])
def test_delivered_records_of_a_paused_partition_are_committed(style, broker, filled, auto):
    topic_partition = TopicPartition(filled, 0)
    config = {"group_id": filled, "auto_offset_reset": "earliest", "enable_auto_commit": auto}
    with style.consumer(broker.bootstrap_servers, **config) as consumer:
        consumer.assign([topic_partition])
        assert numbers(take(3, consumer)) == [0, 1, 2]
        consumer.pause([topic_partition])
        if not auto:
            consumer.commit()
            assert consumer.committed([topic_partition]) == {topic_partition: 3}
        consumer.resume([topic_partition])
        assert numbers(take(2, consumer)) == [3, 4]
        consumer.pause([topic_partition])
        if not auto:
            consumer.commit()
    with klamm.Admin(broker.bootstrap_servers) as admin:
        assert admin.group_offsets(filled) == {topic_partition: 5}


def test_what_is_buffered_of_paused_partitions_leaves_room_for_others(style, broker, partitioned):
    busy, quiet = (TopicPartition(partitioned, number, 0) for number in (0, 3))  # of one leader, of three as of one
    with klamm.Producer(broker.bootstrap_servers, batch_size=16_384) as producer:
        producer.send_many(partitioned, [b"x" * 1_000] * 50, partition=0)
        producer.flush()
        # One batch is more than may be buffered.
        with style.consumer(broker.bootstrap_servers, queued_max_bytes=8_000) as consumer:
            consumer.assign([busy, quiet])
            seen = list(consumer.poll(timeout=20, max_records=1))
            consumer.pause([busy])
            producer.send(partitioned, b"y", partition=3).result(20)
            assert [record.value for record in consumer.poll(timeout=20)] == [b"y"]
            consumer.resume([busy])
            seen += take(49, consumer)
            assert [record.offset for record in seen] == list(range(50))


def test_offsets_are_found_by_time(style, broker, filled):
    topic_partition = TopicPartition(filled, 0)
    with style.consumer(broker.bootstrap_servers) as consumer:
        at = consumer.offsets_for_times({topic_partition: 1_049_500})
        assert at == {topic_partition: (50, 1_050_000)}
        assert consumer.offsets_for_times({topic_partition: 9_000_000}) == {topic_partition: None}
        assert consumer.beginning_offsets([topic_partition]) == {topic_partition: 0}
        assert consumer.end_offsets([topic_partition]) == {topic_partition: 100}


def test_the_group_resumes_at_committed_offsets(style, broker, filled):
    topic_partition, group = TopicPartition(filled, 0), f"group-{filled}"
    with style.consumer(broker.bootstrap_servers, group_id=group, enable_auto_commit=False) as consumer:
        assert consumer.committed([topic_partition]) == {topic_partition: None}
        consumer.assign([TopicPartition(filled, 0, 0)])
        assert numbers(take(3, consumer)) == [0, 1, 2]
        consumer.commit()
        assert consumer.committed([topic_partition]) == {topic_partition: 3}
        consumer.commit({topic_partition: 42})
        assert consumer.committed([topic_partition]) == {topic_partition: 42}
    with style.consumer(broker.bootstrap_servers, group_id=group) as consumer:
        consumer.assign([topic_partition])
        assert numbers(take(1, consumer)) == [42]


def committed_of(broker, topic):
    """Return the committed offset of a topic's first partition."""
    topic_partition = TopicPartition(topic, 0)
    with klamm.Consumer(broker.bootstrap_servers, group_id=f"group-{topic}") as other:
        return other.committed([topic_partition])[topic_partition]


def one_by_one(consumer):
    return ([int(record.value)] for record in consumer)


def polled(consumer):
    while True:
        yield numbers(consumer.poll(timeout=20, max_records=2))


def in_arrow(consumer):
    return (list(map(int, batch["value"].to_pylist())) for batch in consumer.arrow(max_rows=2))


READING = [(one_by_one, 1), (polled, 2), (in_arrow, 2)]


@pytest.mark.parametrize(("batches", "size"), READING)
def test_only_what_the_loop_is_done_with_is_committed(style, broker, filled, batches, size):
    topic_partition, group = TopicPartition(filled, 0), f"group-{filled}"
    for whole in 1, 3:  # what is given out at first, or what follows
        done = committed_of(broker, filled) or 0
        consumer = style.consumer(broker.bootstrap_servers, group_id=group, auto_offset_reset="earliest")
        consumer.assign([topic_partition])
        given = [number for _, batch in zip(range(whole), batches(consumer), strict=False) for number in batch]
        assert given == list(range(done, done + whole * size))
        consumer.__exit__(
            ZeroDivisionError, ZeroDivisionError(), None
        )  # which the loop raised while it handled the last
        assert (committed_of(broker, filled) or 0) == done + (whole - 1) * size
    with style.consumer(broker.bootstrap_servers, group_id=group) as consumer:
        consumer.assign([topic_partition])
        next(iter(batches(consumer)))
    assert committed_of(broker, filled) == 3 * size


@pytest.mark.parametrize(("batches", "handled"), [(one_by_one, 1), (polled, 4), (in_arrow, 4)])
def test_at_a_plain_end_a_batch_that_was_polled_counts_as_handled(style, broker, filled, batches, handled):
    consumer = style.consumer(broker.bootstrap_servers, group_id=f"group-{filled}", auto_offset_reset="earliest")
    consumer.assign([TopicPartition(filled, 0)])
    walk = iter(batches(consumer))
    next(walk)
    next(walk)
    consumer.close()
    assert committed_of(broker, filled) == handled


def test_a_consumer_without_a_group_cannot_commit(style, broker, filled):
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(filled, 0, 0)])
        for call in consumer.commit, lambda: consumer.committed([TopicPartition(filled, 0)]):
            with pytest.raises(ConfigError, match="group_id"):
                call()


def test_lag_is_what_is_left_to_read(style, broker, filled):
    topic_partition = TopicPartition(filled, 0)
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(filled, 0, 0)])
        take(10, consumer)
        assert consumer.lag() == {topic_partition: 90}


def test_a_topic_that_is_not_there_is_an_error(style, broker, topic):
    with style.consumer(broker.bootstrap_servers, allow_auto_create_topics=False) as consumer:
        with pytest.raises(klamm.errors.UnknownTopicOrPartitionError) as caught:
            consumer.partitions_for(topic)
        assert caught.value.topic == topic
        assert "create the topic first" in caught.value.hint


def test_a_closed_consumer_says_so(style, broker, filled):
    consumer = style.consumer(broker.bootstrap_servers)
    consumer.assign([TopicPartition(filled, 0, 0)])
    consumer.close()
    consumer.close()
    with pytest.raises(ClosedError):
        take(1, consumer)
    with pytest.raises(ClosedError):
        consumer.poll(timeout=0)


def test_a_consumer_of_nothing_gives_nothing(style, broker):
    with style.consumer(broker.bootstrap_servers) as consumer:
        assert len(consumer.poll(timeout=0.05)) == 0
        assert consumer.assignment() == set()
        assert consumer.lag() == {}


def test_a_consumer_of_nothing_does_not_wait_for_ever(style, broker):
    with style.consumer(broker.bootstrap_servers) as consumer:
        for _ in range(2):
            with pytest.raises(ConfigError, match="neither topics nor partitions"):
                next(iter(consumer))
            with pytest.raises(ConfigError, match="neither topics nor partitions"):
                consumer.poll(timeout=None)
            with pytest.raises(ConfigError, match="neither topics nor partitions"):
                next(iter(consumer.arrow()))
            consumer.subscribe([])


def test_topics_are_made_described_and_deleted(style, broker, topic):
    with style.admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=3)}, validate_only=True)
        assert topic not in admin.list_topics()
        admin.create_topics({topic: klamm.NewTopic(partitions=3, configs={"retention.ms": "1000"})})
        assert topic in admin.list_topics()
        described = admin.describe_topics([topic])[topic]
        assert (described.name, described.internal) == (topic, False)
        assert [part.partition for part in described.partitions] == [0, 1, 2]
        nodes = {node.id for node in admin.describe_cluster().brokers}
        assert all(part.leader in nodes and part.leader in part.isr for part in described.partitions)
        with pytest.raises(klamm.errors.TopicAlreadyExistsError):
            admin.create_topics({topic: klamm.NewTopic()})
        for unfit in [topic], {topic: 3}:
            with pytest.raises(klamm.errors.ArgumentError, match="NewTopic for each name"):
                admin.create_topics(unfit)
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()
        with pytest.raises(klamm.errors.UnknownTopicOrPartitionError):
            admin.describe_topics([topic])


def test_offsets_for_times_takes_datetimes(style, broker, topic):
    moment = datetime(2026, 5, 1, 12, 30, tzinfo=timezone.utc)
    begin = int(moment.timestamp() * 1000)
    topic_partition = klamm.TopicPartition(topic, 0)
    with style.producer(broker.bootstrap_servers) as producer:
        for number in range(3):
            producer.send(topic, b"v", partition=0, timestamp_ms=begin + number * 1000)
    with style.consumer(broker.bootstrap_servers) as consumer:
        for time in (
            begin + 1000,
            moment + timedelta(seconds=1),
            moment + timedelta(milliseconds=999, microseconds=1),
            (moment + timedelta(seconds=1)).astimezone().replace(tzinfo=None),  # local time
        ):
            assert consumer.offsets_for_times({topic_partition: time}) == {topic_partition: (1, begin + 1000)}


@pytest.mark.parametrize("time", [*range(-8, 0), -(2**63), datetime(1960, 1, 1, tzinfo=timezone.utc)], ids=str)
def test_offsets_for_times_refuses_times_before_1970(style, broker, topic, time):
    with style.consumer(broker.bootstrap_servers) as consumer:
        with pytest.raises(ConfigError, match=f"the time of {topic}-0 cannot be .*before 1970") as caught:
            consumer.offsets_for_times({klamm.TopicPartition(topic, 0): time})
        assert "beginning_offsets or end_offsets" in caught.value.hint


@pytest.mark.parametrize("time", [True, 1.5, "2026-05-01", None])
def test_offsets_for_times_takes_nothing_but_numbers_and_datetimes(style, broker, topic, time):
    with (
        style.consumer(broker.bootstrap_servers) as consumer,
        pytest.raises(ArgumentError, match=r"has to be an int \(milliseconds since 1970\) or a datetime, not"),
    ):
        consumer.offsets_for_times({klamm.TopicPartition(topic, 0): time})
