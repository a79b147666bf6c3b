"""Other clients read klamm's records and klamm reads theirs, on a real broker."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import klamm
from settled import wait_until_settled

confluent_kafka = pytest.importorskip("confluent_kafka")
aiokafka = pytest.importorskip("aiokafka")
kafka = pytest.importorskip("kafka")

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS = [
    (b"key", b"value", [("h", b"1"), ("h", b"2"), ("null", None)]),
    (None, b"no key", []),
    (b"tombstone", None, []),
    (b"", b"", [("empty", b"")]),
    *((b"k%d" % i, b"line %d, much like the others " % i * 5, []) for i in range(500)),
]


@pytest.fixture(params=["real", "dev"])
def kafka_at(request):
    fixture = {"real": "real_kafka", "dev": "dev_broker"}[request.param]
    return request.getfixturevalue(fixture).bootstrap_servers


def write(bootstrap, topic, codec="none"):
    with klamm.Producer(bootstrap, compression_type=codec, linger_ms=10) as producer:
        for i, (key, value, headers) in enumerate(RECORDS):
            producer.send_nowait(topic, value, key=key, headers=headers, partition=0, timestamp_ms=1_000 + i)


def read(bootstrap, topic):
    tp = klamm.TopicPartition(topic, 0)
    with klamm.Consumer(bootstrap) as consumer:
        end = consumer.end_offsets([tp])[tp]
        consumer.assign([klamm.TopicPartition(topic, 0, 0, end)])
        return [(record.key, record.value, record.headers) for record in consumer]


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_reads_what_klamm_wrote(kafka_at, topic, codec):
    write(kafka_at, topic, codec)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka_at, "group.id": "g", "check.crcs": True})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = []
    while len(found) < len(RECORDS):
        messages = consumer.consume(len(RECORDS) - len(found), timeout=20)
        assert messages, f"only {len(found)} records came"
        assert [message.error() for message in messages if message.error()] == []
        found += messages
    consumer.close()
    assert [(m.key(), m.value(), m.headers() or []) for m in found] == RECORDS
    assert [m.timestamp() for m in found] == [(1, 1_000 + i) for i in range(len(RECORDS))]


@pytest.mark.parametrize("codec", CODECS)
def test_klamm_reads_what_confluent_kafka_wrote(kafka_at, topic, codec):
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka_at, "compression.codec": codec, "linger.ms": 10, "enable.idempotence": True}
    )
    for key, value, headers in RECORDS:
        producer.produce(topic, value, key, partition=0, headers=headers)
    assert producer.flush(20) == 0
    assert read(kafka_at, topic) == RECORDS


def test_aiokafka_and_klamm_read_each_other(kafka_at, topic):
    write(kafka_at, topic)

    async def both_ways():
        consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=kafka_at, auto_offset_reset="earliest")
        await consumer.start()
        found = [await asyncio.wait_for(consumer.getone(), 20) for _ in RECORDS]
        await consumer.stop()
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=kafka_at)
        await producer.start()
        for key, value, headers in RECORDS:
            await producer.send(f"{topic}-back", value, key, partition=0, headers=headers)
        await producer.stop()
        return found

    found = asyncio.run(both_ways())
    assert [(m.key, m.value, list(m.headers)) for m in found] == RECORDS
    assert read(kafka_at, f"{topic}-back") == RECORDS


def test_kafka_python_and_klamm_read_each_other(kafka_at, topic):
    write(kafka_at, topic)
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=kafka_at, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    found = [next(consumer) for _ in RECORDS]
    consumer.close()
    assert [(m.key, m.value, list(m.headers)) for m in found] == RECORDS
    # It sends no headers without a value.
    theirs = [(key, value, [header for header in headers if header[1] is not None]) for key, value, headers in RECORDS]
    producer = kafka.KafkaProducer(bootstrap_servers=kafka_at)
    for key, value, headers in theirs:
        producer.send(f"{topic}-back", value, key, partition=0, headers=headers)
    producer.flush(20)
    producer.close()
    assert read(kafka_at, f"{topic}-back") == theirs


def test_confluent_kafka_sees_klamms_transactions_as_klamm_does(kafka_at, topic):
    with klamm.Producer(kafka_at, transactional_id=f"tx-{topic}") as producer:
        producer.init_transactions()
        for round_ in range(6):
            with contextlib.suppress(ZeroDivisionError), producer.transaction() as tx:
                tx.send_many(topic, [b"%d-%d" % (round_, n) for n in range(5)])
                producer.flush()
                1 // (round_ % 2)
    wait_until_settled(kafka_at, topic)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka_at,
            "group.id": "none",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    assert found == [b"%d-%d" % (round_, n) for round_ in (1, 3, 5) for n in range(5)]


def test_klamm_reads_what_it_wrote_to_the_mock_cluster_of_librdkafka(topic):
    mock = confluent_kafka.Producer({"test.mock.num.brokers": 3, "log_level": 0})
    bootstrap = [f"{broker.host}:{broker.port}" for broker in mock.list_topics(timeout=20).brokers.values()]
    write(bootstrap, topic)
    assert read(bootstrap, topic) == RECORDS
