"""Interceptors of consumers and share consumers."""

from __future__ import annotations

import logging
from itertools import islice

import pytest

import klamm
from klamm.errors import ArgumentError


class Odd:
    """Leaves out records with an even offset, and remembers commits."""

    def __init__(self):
        self.seen, self.commits = [], []

    def on_consume(self, records):
        self.seen.append([record.offset for record in records])
        return [record for record in records if record.offset % 2]

    def on_commit(self, offsets, error):
        self.commits.append(({partition: each.offset for partition, each in offsets.items()}, error))


@pytest.fixture
def filled(broker, topic):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for number in range(4):
            producer.send(topic, b"%d" % number).result(20)
    return topic


def test_polls_return_what_interceptors_leave_and_commits_are_seen(broker, filled, style):
    odd = Odd()
    consumer = style.consumer(
        broker.bootstrap_servers, f"g-{filled}", [filled], interceptors=[odd], auto_offset_reset="earliest"
    )
    found = []
    while sum(map(len, odd.seen)) < 4:
        found += consumer.poll(5)
    assert [record.value for record in found] == [b"1", b"3"]
    consumer.commit()
    assert odd.commits[-1] == ({klamm.TopicPartition(filled, 0): 4}, None)
    consumer.close()


def test_iteration_passes_one_record_at_a_time_and_the_close_commits(broker, filled):
    odd = Odd()
    options = {"auto_offset_reset": "earliest", "key_deserializer": bytes, "interceptors": (odd,)}
    with klamm.Consumer(broker.bootstrap_servers, f"g-{filled}", [filled], **options) as consumer:
        for record in consumer:
            if record.offset == 3:
                break
    assert odd.seen == [[0], [1], [2], [3]]
    assert odd.commits[-1] == ({klamm.TopicPartition(filled, 0): 4}, None)


def test_an_interceptor_that_raises_loses_no_record(broker, filled, caplog):
    class Broken:
        def on_consume(self, _):
            raise RuntimeError("broken")

    with klamm.Consumer(
        broker.bootstrap_servers, topics=[filled], auto_offset_reset="earliest", interceptors=[Broken()]
    ) as consumer:
        found = []
        with caplog.at_level(logging.WARNING, "klamm"):
            while len(found) < 4:
                found += consumer.poll(5)
    assert [record.value for record in found] == [b"0", b"1", b"2", b"3"]
    assert "the records are delivered unchanged" in caplog.text


def test_an_interceptor_needs_one_of_its_methods(broker):
    for make in (klamm.Consumer, klamm.AsyncConsumer, klamm.ShareConsumer):
        with pytest.raises(ArgumentError, match="an interceptor has to have on_consume or"):
            make(broker.bootstrap_servers, "g", interceptors=[object()])


def test_a_share_consumer_passes_records_and_acknowledgements(dev_broker, topic):
    class Shared(Odd):
        def __init__(self):
            super().__init__()
            self.outcomes = []

        def on_acknowledge(self, outcomes):
            self.outcomes.append(outcomes)

    shared = Shared()
    with klamm.Admin(dev_broker.bootstrap_servers) as admin, klamm.Producer(dev_broker.bootstrap_servers) as producer:
        admin.create_topics({topic: klamm.NewTopic(partitions=1)})
        admin.alter_configs("group", f"g-{topic}", {"share.auto.offset.reset": "earliest"})
        for number in range(4):
            producer.send(topic, b"%d" % number).result(20)
    with klamm.ShareConsumer(dev_broker.bootstrap_servers, f"g-{topic}", [topic], interceptors=[shared]) as consumer:
        found = []
        while sum(map(len, shared.seen)) < 4:
            records = consumer.poll(5)
            consumer.acknowledge(records) if records else None
            found += records
        consumer.commit(20)
    assert [record.value for record in found] == [b"1", b"3"]
    assert {klamm.TopicPartition(topic, 0): None} in shared.outcomes


class Twice:
    """Returns each record twice."""

    def on_consume(self, records):
        return [record for record in records for _ in range(2)]


def offsets_of(consumer, count):
    return [record.offset for record in islice(consumer, count)]


def test_a_loop_delivers_all_records_of_an_interceptor(broker, filled, style):
    options = {"auto_offset_reset": "earliest", "value_deserializer": bytes, "interceptors": [Twice()]}
    with style.consumer(broker.bootstrap_servers, f"g-{filled}", [filled], **options) as consumer:
        assert offsets_of(consumer, 8) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_record_counts_as_delivered_after_the_last_record_of_an_interceptor(broker, filled, style):
    partition = klamm.TopicPartition(filled, 0)
    options = {"auto_offset_reset": "earliest", "interceptors": [Twice()]}
    with style.consumer(broker.bootstrap_servers, f"g-{filled}", [filled], **options) as consumer:
        assert offsets_of(consumer, 3) == [0, 0, 1]
        consumer.commit()
        assert consumer.committed([partition]) == {partition: 1}
        assert consumer.position(partition) == 1


def at(partition, offset):
    return klamm.TopicPartition(partition.topic, partition.partition, offset)


MOVES = {
    "seek": (lambda consumer, partition: consumer.seek(partition, 3), [3, 3]),
    "seek to the same record": (lambda consumer, partition: consumer.seek(partition, 1), [1, 1, 2]),
    "assign": (lambda consumer, partition: consumer.assign([at(partition, 2)]), [2, 2]),
}


@pytest.mark.parametrize("move", MOVES)
def test_the_records_of_an_interceptor_obey_later_calls(dev_broker, topic, style, move):
    with klamm.Producer(dev_broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(4)], partition=0)
    partition = klamm.TopicPartition(topic, 0)
    with style.consumer(dev_broker.bootstrap_servers, interceptors=[Twice()]) as consumer:
        consumer.assign([at(partition, 0)])
        assert offsets_of(consumer, 3) == [0, 0, 1]
        act, expected = MOVES[move]
        act(consumer, partition)
        assert offsets_of(consumer, len(expected)) == expected


def test_the_records_of_an_interceptor_wait_while_the_partition_is_paused(dev_broker, topic, style):
    with klamm.Producer(dev_broker.bootstrap_servers) as producer:
        for number in range(2):
            producer.send_many(topic + str(number), [b"0", b"1"], partition=0)
    one, other = (klamm.TopicPartition(topic + str(number), 0) for number in range(2))
    with style.consumer(dev_broker.bootstrap_servers, interceptors=[Twice()]) as consumer:
        consumer.assign([at(one, 0)])
        assert offsets_of(consumer, 3) == [0, 0, 1]
        consumer.assign([one, at(other, 0)])
        consumer.pause([one])
        assert [record.topic for record in islice(consumer, 4)] == [other.topic] * 4
        consumer.resume([one])
        assert next(iter(consumer)).offset == 1


def test_a_share_consumer_accepts_a_record_after_the_last_record_of_an_interceptor(dev_broker, topic, style):
    with klamm.Admin(dev_broker.bootstrap_servers) as admin, klamm.Producer(dev_broker.bootstrap_servers) as producer:
        admin.create_topics({topic: klamm.NewTopic(partitions=1)})
        admin.alter_configs("group", f"g-{topic}", {"share.auto.offset.reset": "earliest"})
        producer.send_many(topic, [b"0", b"1"], partition=0)
    group = (dev_broker.bootstrap_servers, f"g-{topic}", [topic])
    with style.share_consumer(*group, interceptors=[Twice()]) as consumer:
        assert offsets_of(consumer, 3) == [0, 0, 1]
        consumer.commit()
    with style.share_consumer(*group) as consumer:
        assert [record.offset for record in consumer.poll(20)] == [1]
