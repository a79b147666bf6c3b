"""The dev broker as older releases, with other clients that are configured for these releases."""

from __future__ import annotations

import pytest

import klamm
from klamm.errors import ConfigError
from klamm.testing import DevBroker

confluent_kafka = pytest.importorskip("confluent_kafka")
kafka = pytest.importorskip("kafka")

# librdkafka 2.16 sets too little memory aside for the first form of a Metadata answer if names are as short as `t`.
TOPIC = "some-topic"
VALUES = [b"value %d" % n for n in range(50)]

RELEASES = ["0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0", "0.10.2", "0.11.0", "1.1", "2.1", "2.8", "3.9", "4.4"]


def number(release):
    return tuple(int(part) for part in release.split("."))


def codecs(release):
    if number(release) < (0, 8, 2):
        return ["none", "gzip", "snappy"]
    return ["none", "gzip", "snappy", "lz4", *(["zstd"] if number(release) >= (2, 1) else [])]


def librdkafka_config(broker, release):
    """Return the release that librdkafka must be configured with, because it cannot ask brokers before 0.10."""
    config = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    if number(release) < (0, 10):
        fallback = "0.8.1" if release == "0.8.0" else release
        config |= {"api.version.request": False, "broker.version.fallback": fallback}
    return config


@pytest.mark.parametrize("release", RELEASES)
def test_librdkafka_writes_and_reads(release):
    with DevBroker(as_version=release) as broker:
        for codec in codecs(release):
            producer = confluent_kafka.Producer(
                {**librdkafka_config(broker, release), "linger.ms": 50, "compression.type": codec}
            )
            outcomes = []
            for value in VALUES:
                producer.produce(TOPIC, value, on_delivery=lambda error, _, seen=outcomes: seen.append(error))
            assert producer.flush(20) == 0
            assert outcomes == [None] * len(VALUES)
        config = {**librdkafka_config(broker, release), "group.id": "g", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer({**config, "auto.offset.reset": "earliest", "session.timeout.ms": 30_000})
        try:
            if number(release) < (0, 9):
                consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
            else:
                consumer.subscribe([TOPIC])
            wanted = VALUES * len(codecs(release))
            found = []
            while len(found) < len(wanted):
                record = consumer.poll(20)
                assert record is not None, f"{len(found)} records came"
                assert record.error() is None, record.error()
                found.append(record)
            assert [record.value() for record in found] == wanted
            assert [record.offset() for record in found] == list(range(len(wanted)))
            has_time = found[0].timestamp()[0] != confluent_kafka.TIMESTAMP_NOT_AVAILABLE
            assert has_time == (number(release) >= (0, 10))
            if number(release) >= (0, 8, 2):
                consumer.commit(asynchronous=False)
                committed = consumer.committed([confluent_kafka.TopicPartition(TOPIC, 0)], 20)
                assert committed[0].offset == len(wanted)
        finally:
            consumer.close()


@pytest.mark.parametrize("release", ["0.8.2", "0.9.0", "0.10.0", "0.10.2", "0.11.0", "1.1", "2.1"])
def test_kafka_python_writes_and_reads(release):
    with DevBroker(as_version=release) as broker:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "api_version": number(release)}
        producer = kafka.KafkaProducer(**settings, compression_type="gzip", linger_ms=20, enable_idempotence=False)
        try:
            sent = [producer.send(TOPIC, value) for value in VALUES]
            assert [future.get(20).offset for future in sent] == list(range(50))
        finally:
            producer.close(timeout=20)
        consumer = kafka.KafkaConsumer(
            **settings,
            group_id=None,
            auto_offset_reset="earliest",
            consumer_timeout_ms=20_000,
            enable_auto_commit=False,
        )
        try:
            consumer.assign([kafka.TopicPartition(TOPIC, 0)])
            consumer.seek_to_beginning()
            assert [next(consumer).value for _ in VALUES] == VALUES
        finally:
            consumer.close()


def test_a_release_that_there_never_was_is_refused():
    with pytest.raises(ConfigError, match=r"unknown Kafka version \"5\.0\"; .*0\.8\.0.*4\.4"):
        DevBroker(as_version="5.0")


def test_the_oldest_transactions_work():
    with DevBroker(as_version="0.11.0") as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"})
        producer.init_transactions(20)
        for commit in (True, False):
            producer.begin_transaction()
            producer.produce(TOPIC, str(commit), headers={"h": b"x"})
            producer.commit_transaction(20) if commit else producer.abort_transaction(20)
        config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer({**config, "isolation.level": "read_committed", "log_level": 0})
        try:
            consumer.subscribe([TOPIC])
            record = consumer.poll(20)
            assert (record.value(), record.headers()) == (b"True", [("h", b"x")])
        finally:
            consumer.close()


@pytest.mark.parametrize("release", ["0.8.2", "0.9.0", "3.9"])
def test_an_old_broker_says_where_segments_begin(style, release):
    with DevBroker(as_version=release) as broker:
        tp = klamm.TopicPartition("t", 0)
        with klamm.Producer(broker.bootstrap_servers) as producer:
            for value in b"a", b"b", b"c":
                producer.send("t", value).result(timeout=20)
        with style.admin(broker.bootstrap_servers) as admin:
            assert admin.offsets_before({tp: -1}) == {tp: [3, 0]}
            assert admin.offsets_before({tp: -1}, limit=1) == {tp: [3]}
            assert admin.offsets_before({tp: -2}) == {tp: [0]}
            assert admin.offsets_before({tp: 1000}) == {tp: []}


def test_kafka_4_does_not_say_where_segments_begin(real_kafka, topic):
    with klamm.Admin(real_kafka.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic()})
        with pytest.raises(klamm.errors.UnsupportedVersionError, match="ListOffsets"):
            admin.offsets_before({klamm.TopicPartition(topic, 0): -1})
