"""Deleting records with DeleteRecords."""

from __future__ import annotations

import asyncio

import pytest

import klamm
from settled import until


def written(broker, topic, partitions=1):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=partitions)})
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for partition in range(partitions):
            for n in range(5):
                producer.send(topic, b"%d" % n, partition=partition).result(timeout=20)


def test_records_before_an_offset_are_gone(broker, topic):
    written(broker, topic, partitions=2)
    first, second = (klamm.TopicPartition(topic, partition) for partition in range(2))
    with klamm.Admin(broker.bootstrap_servers) as admin:
        assert admin.delete_records({first: 3, second: None}) == {first: 3, second: 5}
        assert admin.delete_records({first: 1}) == {first: 3}
        with pytest.raises(klamm.errors.OffsetOutOfRangeError):
            admin.delete_records({first: 6})
    with klamm.Consumer(broker.bootstrap_servers) as consumer:
        assert consumer.beginning_offsets([first, second]) == {first: 3, second: 5}
        consumer.assign([klamm.TopicPartition(topic, 0, 3, 5)])
        assert [record.value for record in consumer] == [b"3", b"4"]


def test_records_are_deleted_with_asyncio_too(broker, topic):
    written(broker, topic)
    tp = klamm.TopicPartition(topic, 0)

    async def main():
        async with klamm.AsyncAdmin(broker.bootstrap_servers) as admin:
            return await admin.delete_records({tp: 2})

    assert asyncio.run(main()) == {tp: 2}


def test_a_topic_that_is_only_compacted_refuses(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(configs={"cleanup.policy": "compact"})})
        with pytest.raises(klamm.errors.PolicyViolationError):
            admin.delete_records({klamm.TopicPartition(topic, 0): 0})


@pytest.fixture
def overtaken(broker, topic):
    """Creates a reader at the second of twenty records, which are fetched one by one, while the first fifteen are
    deleted.
    """
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic()})
    with klamm.Producer(broker.bootstrap_servers, batch_size=128) as producer:
        for n in range(20):
            producer.send(topic, b"%d" % n).result(timeout=20)

    def start(reset, end=None):
        one_by_one = {"fetch_max_bytes": 1, "max_partition_fetch_bytes": 1, "queued_max_bytes": 1}
        consumer = klamm.Consumer(broker.bootstrap_servers, auto_offset_reset=reset, **one_by_one)
        consumer.assign([klamm.TopicPartition(topic, 0, 0, end)])
        records = iter(consumer)
        assert next(records).value == b"0"
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.delete_records({klamm.TopicPartition(topic, 0): 15})
        return consumer, (int(record.value) for record in records)

    return start


def test_a_reader_of_deleted_records_continues_with_the_remaining_ones(overtaken):
    consumer, values = overtaken("earliest")
    with consumer:
        found = []
        while not found or found[-1] < 19:
            found.append(next(values))
    before = [value for value in found if value < 15]
    assert before == list(range(1, 1 + len(before))), "what was fetched already is still given out"
    assert len(before) < 14
    assert found[len(before) :] == list(range(15, 20))


def test_a_reader_of_what_is_deleted_goes_to_the_end_if_so_wanted(overtaken, broker, topic):
    consumer, values = overtaken("latest")
    with consumer, klamm.Producer(broker.bootstrap_servers) as producer:
        while consumer.position(klamm.TopicPartition(topic, 0), timeout=20) < 20:
            for record in consumer.poll(0.1):
                assert int(record.value) < 14
        producer.send(topic, b"20").result(timeout=20)
        assert next(values) == 20


def test_a_reader_of_deleted_records_raises_without_a_reset_policy(overtaken, topic):
    consumer, values = overtaken("none")
    with consumer:
        with pytest.raises(klamm.errors.OffsetOutOfRangeError) as caught:
            max(values)  # reads on until it cannot
        assert (caught.value.topic, caught.value.partition) == (topic, 0)
        assert "seek" in caught.value.hint
        consumer.seek_to_beginning()
        assert next(iter(consumer)).value == b"15"


@pytest.mark.parametrize("reset", ["latest", "by_duration:P1D", "none"])
@pytest.mark.parametrize("end", [4, 5, 100])
def test_a_bounded_read_of_deleted_records_raises(style, broker, topic, reset, end):
    """Another reset would skip the records that remain, and the read would look complete."""
    written(broker, topic)
    tp = klamm.TopicPartition(topic, 0, 0, end)
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.delete_records({klamm.TopicPartition(topic, 0): 3})
    for read in (list, lambda consumer: list(consumer.arrow(timeout=20)), lambda consumer: consumer.poll(20)):
        with style.consumer(broker.bootstrap_servers, auto_offset_reset=reset) as consumer:
            consumer.assign([tp])
            with pytest.raises(klamm.errors.OffsetOutOfRangeError) as caught:
                read(consumer)
            assert (caught.value.topic, caught.value.partition) == (topic, 0)
            assert not consumer.client._is_finished()


def test_a_bounded_read_from_the_earliest_record_returns_what_remains(style, broker, topic):
    written(broker, topic)
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.delete_records({klamm.TopicPartition(topic, 0): 3})
    with style.consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, 0, 5)])
        assert [record.value for record in consumer] == [b"3", b"4"]


@pytest.mark.parametrize("end", [2, 3])
def test_a_bounded_read_whose_records_are_all_deleted_raises(style, broker, topic, end):
    written(broker, topic)
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.delete_records({klamm.TopicPartition(topic, 0): 3})
    with style.consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, 0, end)])
        for _ in range(2):  # as long as the application does not seek
            with pytest.raises(
                klamm.errors.OffsetOutOfRangeError, match=rf"from offset 0 to {end}: the log starts at 3"
            ):
                consumer.poll(20)
        consumer.seek_to_beginning()
        assert list(consumer) == []


def test_a_bounded_read_that_retention_overtakes_raises_after_the_fetched_records(overtaken):
    consumer, values = overtaken("latest", end=20)
    with consumer:
        found = []
        with pytest.raises(klamm.errors.OffsetOutOfRangeError):
            found.extend(values)
        assert found == list(range(1, 1 + len(found)))
        assert len(found) < 14


def test_records_that_were_fetched_before_they_were_deleted_are_delivered(broker, topic):
    """The prefetch runs ahead of the application. When it falls below the start of the log, the buffer stays."""
    with klamm.Producer(broker.bootstrap_servers, batch_size=1000) as producer:
        for n in range(100):
            producer.send_nowait(topic, b"%d" % n, partition=0)
    some = {"fetch_max_bytes": 1, "max_partition_fetch_bytes": 3000, "queued_max_bytes": 4000}
    tp = klamm.TopicPartition(topic, 0)
    with (
        klamm.Admin(broker.bootstrap_servers) as admin,
        klamm.Consumer(broker.bootstrap_servers, auto_offset_reset="earliest", **some) as consumer,
    ):
        consumer.assign([klamm.TopicPartition(topic, 0, 0)])
        assert len(consumer.poll(20, 1)) == 1
        admin.delete_records({tp: 90})
        found = []
        until(lambda: found.extend(int(r.value) for r in consumer.poll(0.1, 1)) or (found and found[-1] == 99))
        before = [value for value in found if value < 90]
        assert before == list(range(1, 1 + len(before)))
        assert found[len(before) :] == list(range(90, 100))
