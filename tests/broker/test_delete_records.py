"""Records that are deleted before their time."""

from __future__ import annotations

import asyncio

import pytest

import klamm


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
    place = klamm.TopicPartition(topic, 0)

    async def main():
        async with klamm.AsyncAdmin(broker.bootstrap_servers) as admin:
            return await admin.delete_records({place: 2})

    assert asyncio.run(main()) == {place: 2}


def test_a_topic_that_is_only_compacted_refuses(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(configs={"cleanup.policy": "compact"})})
        with pytest.raises(klamm.errors.PolicyViolationError):
            admin.delete_records({klamm.TopicPartition(topic, 0): 0})
