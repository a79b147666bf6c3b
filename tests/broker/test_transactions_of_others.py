"""Transactions of other clients behave alike on the dev broker and Apache Kafka."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import klamm

confluent_kafka = pytest.importorskip("confluent_kafka")
aiokafka = pytest.importorskip("aiokafka")
kafka = pytest.importorskip("kafka")


@pytest.fixture
def topic(topic, broker):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=1)})
    return topic


@pytest.fixture
def producers(broker):
    """Creates initialised transactional producers."""

    def make(transactional_id, **config):
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "transactional.id": transactional_id,
                "linger.ms": 0,
                **{key.replace("_", "."): value for key, value in config.items()},
            }
        )
        producer.init_transactions(20)
        return producer

    return make


def send(producer, topic, *values):
    for value in values:
        producer.produce(topic, value)


def read(broker, topic, count, isolation="read_committed"):
    """Return the first `count` values, and check that nothing follows."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(20)) is not None:
        if message.error() is None:
            found.append(message.value())
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF and len(found) >= count:
            break
    consumer.close()
    return found


def test_readers_of_committed_records_get_what_was_committed(broker, topic, producers):
    producer = producers(f"{topic}-id")
    for values, commit in [((b"1", b"2"), True), ((b"3",), False), ((b"4",), True)]:
        producer.begin_transaction()
        send(producer, topic, *values)
        if commit:
            producer.commit_transaction(20)
        else:
            assert producer.flush(20) == 0  # else it is dropped before it is sent
            producer.abort_transaction(20)
    assert read(broker, topic, 3) == [b"1", b"2", b"4"]
    assert read(broker, topic, 4, "read_uncommitted") == [b"1", b"2", b"3", b"4"]


def test_records_after_an_open_transaction_wait(broker, topic, producers):
    producer = producers(f"{topic}-id")
    producer.begin_transaction()
    send(producer, topic, b"open")
    assert producer.flush(20) == 0
    with klamm.Producer(broker.bootstrap_servers) as plain:
        plain.send(topic, b"behind").result(timeout=20)
    assert read(broker, topic, 0) == []
    producer.commit_transaction(20)
    assert read(broker, topic, 2) == [b"open", b"behind"]


def test_a_second_producer_fences_the_first(broker, topic, producers):
    zombie = producers(f"{topic}-id")
    zombie.begin_transaction()
    send(zombie, topic, b"lost")
    assert zombie.flush(20) == 0
    successor = producers(f"{topic}-id")
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        zombie.commit_transaction(20)
    assert raised.value.args[0].fatal()
    assert raised.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    successor.begin_transaction()
    send(successor, topic, b"kept")
    successor.commit_transaction(20)
    assert read(broker, topic, 1) == [b"kept"]


def test_offsets_are_committed_with_the_transaction(broker, topic, producers):
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": f"{topic}-group"})
    tp = confluent_kafka.TopicPartition(topic, 0)
    consumer.assign([tp])
    producer = producers(f"{topic}-id")
    for offset, commit, expected in [(5, True, 5), (9, False, 5), (7, True, 7)]:
        producer.begin_transaction()
        send(producer, topic, b"x")
        there = confluent_kafka.TopicPartition(topic, 0, offset)
        producer.send_offsets_to_transaction([there], consumer.consumer_group_metadata(), 20)
        producer.commit_transaction(20) if commit else producer.abort_transaction(20)
        assert [found.offset for found in consumer.committed([tp], timeout=20)] == [expected]
    consumer.close()


def test_aiokafka_commits_and_aborts(broker, topic):
    async def run():
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=f"{topic}-id")
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"kept")
            offsets = {aiokafka.TopicPartition(topic, 0): 3}
            await producer.send_offsets_to_transaction(offsets, f"{topic}-group")
        with contextlib.suppress(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"dropped")
                raise ZeroDivisionError
        await producer.stop()

    asyncio.run(run())
    assert read(broker, topic, 1) == [b"kept"]
    with klamm.Consumer(broker.bootstrap_servers, group_id=f"{topic}-group") as consumer:
        tp = klamm.TopicPartition(topic, 0)
        assert consumer.committed([tp])[tp] == 3


def test_kafka_python_commits_and_aborts(broker, topic):
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=f"{topic}-id")
    producer.init_transactions()
    for value, commit in [(b"kept", True), (b"dropped", False), (b"kept too", True)]:
        producer.begin_transaction()
        producer.send(topic, value).get(timeout=20)
        producer.commit_transaction() if commit else producer.abort_transaction()
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=20_000,
    )
    assert [next(consumer).value for _ in range(2)] == [b"kept", b"kept too"]
    consumer.close()
