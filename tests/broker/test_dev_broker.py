"""The controls of the dev broker, and how other clients react to them."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import klamm
from klamm.errors import ClosedError, ConfigError
from klamm.testing import DevBroker, Request

confluent_kafka = pytest.importorskip("confluent_kafka")


@pytest.fixture
def cluster():
    with DevBroker(brokers=3) as running:
        yield running


@pytest.fixture
def producer(cluster):
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "linger.ms": 0,
        "enable.idempotence": True,
        "log_level": 0,
    }
    made = confluent_kafka.Producer({**config, "retry.backoff.ms": 10, "topic.metadata.refresh.fast.interval.ms": 50})
    yield made
    made.flush(20)


def write(producer, topic, *values):
    failed = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(20) == 0
    assert failed == []


def read(cluster, topic):
    tp = klamm.TopicPartition(topic, 0)
    with klamm.Consumer(cluster.bootstrap_servers) as consumer:
        end = consumer.end_offsets([tp])[tp]
        consumer.assign([klamm.TopicPartition(topic, 0, 0, end)])
        return [record.value for record in consumer]


def leader(producer, topic):
    return producer.list_topics(topic, 20).topics[topic].partitions[0].leader


def test_a_cluster_survives_the_death_of_a_leader(cluster, producer):
    write(producer, "t", b"1")
    dead = leader(producer, "t")
    port = int(cluster.bootstrap_servers.split(",")[dead - 1].rsplit(":", 1)[1])
    cluster.kill(dead)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    write(producer, "t", b"2")
    assert leader(producer, "t") != dead
    cluster.start(dead)
    socket.create_connection(("127.0.0.1", port)).close()
    assert read(cluster, "t") == [b"1", b"2"]


def test_leaders_and_coordinators_move_also_to_a_new_node(cluster, producer):
    write(producer, "t", b"1")
    assert cluster.add_node() == 4
    assert len(cluster.bootstrap_servers.split(",")) == 4
    cluster.move_leader("t", 0, 4)
    assert leader(producer, "t") == 4
    write(producer, "t", b"2")
    assert any(request.node == 4 for request in cluster.requests("Produce"))
    cluster.move_coordinator("g", 4)
    with klamm.Consumer(cluster.bootstrap_servers, group_id="g") as consumer:
        consumer.commit({klamm.TopicPartition("t", 0): 1})
    assert [request.node for request in cluster.requests("OffsetCommit")] == [4]


@pytest.mark.parametrize(
    "fault",
    [
        {"action": "drop"},
        {"action": "lose_answer"},
        {"action": "cut"},
        {"action": "error", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2},
        {"action": "delay", "seconds": 0.05},
        {"action": "drip", "seconds": 0.05},
        {"action": "throttle", "seconds": 0.05},
    ],
    ids=lambda fault: fault["action"],
)
def test_an_idempotent_producer_writes_once_whatever_goes_wrong(cluster, producer, fault):
    write(producer, "t", b"1")
    cluster.fault("Produce", **fault)
    write(producer, "t", b"2")
    write(producer, "t", b"3")
    assert read(cluster, "t") == [b"1", b"2", b"3"]


def test_a_request_fails_as_often_as_was_asked(cluster):
    cluster.fail_next("InitProducerId", error="COORDINATOR_LOAD_IN_PROGRESS", times=3)
    config = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "x", "client.id": "mine"}
    confluent_kafka.Producer(config).init_transactions(20)
    seen = cluster.requests("InitProducerId")
    assert len(seen) == 4
    assert all(isinstance(request, Request) and request.client_id == "mine" for request in seen)
    assert [request.time for request in seen] == sorted(request.time for request in seen)


def test_an_answer_waits_for_the_clock(cluster, producer):
    write(producer, "t", b"1")
    cluster.fault("ListOffsets", "delay", seconds=3600)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(read, cluster, "t")
        while not cluster.requests("ListOffsets"):
            assert not reading.done()
        cluster.advance(3600)
        assert reading.result(20) == [b"1"]


def test_memory_has_a_bound():
    full = pytest.raises(klamm.errors.KafkaStorageError, match="100000 bytes")
    with DevBroker(max_bytes=100_000) as broker, klamm.Producer(broker.bootstrap_servers, retries=0) as producer, full:
        for _ in range(20):
            producer.send("t", b"x" * 10_000).result(timeout=10)


def test_old_records_go_when_time_passes(cluster):
    with klamm.Admin(cluster.bootstrap_servers) as admin, klamm.Producer(cluster.bootstrap_servers) as producer:
        admin.create_topics({"t": klamm.NewTopic(configs={"retention.ms": "60000"})})
        producer.send("t", b"old").result(timeout=10)
        cluster.advance(61)
        assert producer.send("t", b"new").result(timeout=10).offset == 1
    with klamm.Consumer(cluster.bootstrap_servers) as consumer:
        tp = klamm.TopicPartition("t", 0)
        assert consumer.beginning_offsets([tp]) == {tp: 1}


def test_a_compacted_topic_keeps_the_newest_of_each_key(cluster):
    with klamm.Admin(cluster.bootstrap_servers) as admin, klamm.Producer(cluster.bootstrap_servers) as producer:
        admin.create_topics({"t": klamm.NewTopic(configs={"cleanup.policy": "compact"})})
        ahead = time.time_ns() // 1_000_000 + 60_000  # a client whose clock is a minute ahead
        for key, value, at in [(b"a", b"1", ahead), (b"b", b"2", None), (b"a", b"3", None)]:
            producer.send("t", value, key=key, timestamp_ms=at).result(timeout=10)
        admin.create_topics({"u": klamm.NewTopic()})
    cluster.compact("t")
    assert read(cluster, "t") == [b"2", b"3"]
    with pytest.raises(ConfigError, match="not compacted"):
        cluster.compact("u")


def test_time_that_passes_ends_a_transaction(cluster):
    config = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "x", "linger.ms": 0}
    producer = confluent_kafka.Producer({**config, "transaction.timeout.ms": 600_000})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("t", b"1")
    assert producer.flush(20) == 0
    cluster.advance(600)
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        producer.commit_transaction(20)
    assert not raised.value.args[0].retriable()


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda b: b.kill(9), "node 9 does not exist"),
        (lambda b: b.start(8), "node 8 does not exist"),
        (lambda b: b.move_leader("none", 0, 1), "partition 0 of topic 'none' does not exist"),
        (lambda b: b.move_coordinator("g", 7), "node 7 does not exist"),
        (lambda b: b.fail_next("Prodoce", error="NOT_COORDINATOR"), "no API 'Prodoce'"),
        (lambda b: b.fail_next("Produce", error="NOT_A_CODE"), "no error 'NOT_A_CODE'"),
        (lambda b: b.fault("Produce", "delay"), "takes `seconds`"),
        (lambda b: b.fault("Produce", "cut", seconds=1), "neither"),
        (lambda b: b.fault("Produce", "explode"), "use delay, drop"),
        (lambda b: b.fault("Produce", "cut", times=0), "at least 1"),
        (lambda b: b.advance(-1), "a number from 0"),
    ],
)
def test_what_cannot_be_done_is_refused(cluster, call, why):
    with pytest.raises(ConfigError, match=why):
        call(cluster)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"port": -1}, "`port` must be from 0"),
        ({"port": 99_999}, "`port` must be from 0 .* to 65535, not 99999"),
    ],
)
def test_a_wrong_port_is_refused(options, why):
    with pytest.raises(ConfigError, match=why):
        DevBroker(**options)


def test_a_broker_at_rest_cannot_be_steered():
    with pytest.raises(ClosedError, match="does not run"):
        DevBroker().kill(1)
