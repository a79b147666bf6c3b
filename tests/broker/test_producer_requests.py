"""How records form requests: waiting time, requests in flight, and request sizes."""

from __future__ import annotations

import random
import socket
import struct
from contextlib import ExitStack

import pytest

import klamm
from klamm import protocol
from klamm.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from klamm.testing import DevBroker
from settled import until

PARTITIONS = 4
FETCH, VERSION = 1, 11


@pytest.fixture
def sending(style):
    """A dev broker and a factory of producers that know its topic `t`. `sent()` returns the requests since then."""
    with ExitStack() as stack:
        broker = stack.enter_context(DevBroker())
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"t": klamm.NewTopic(partitions=PARTITIONS)})
        before = []

        def make(**config):
            producer = stack.enter_context(style.producer(broker.bootstrap_servers, **config))
            for partition in range(PARTITIONS):
                producer.send_nowait("t", b"the topic is known", partition=partition)
            producer.flush()
            before.append(len(broker.requests("Produce")))
            return producer

        yield broker, make, lambda: len(broker.requests("Produce")) - before[-1]


def test_records_wait_for_others_as_long_as_they_may(sending):
    _, make, sent = sending
    producer = make(linger_ms=60_000)
    for _ in range(10):
        producer.send_nowait("t", b"v", partition=0)
    producer.flush()
    assert sent() == 1


def test_a_record_that_may_not_wait_leaves_at_once_and_the_next_ones_together(sending):
    broker, make, sent = sending
    producer = make(max_in_flight_requests_per_connection=1)
    broker.fault("Produce", "delay", seconds=0.3)
    producer.send_nowait("t", b"v", partition=0)
    until(lambda: sent() == 1)
    for _ in range(9):
        producer.send_nowait("t", b"v", partition=0)
    producer.flush()
    assert sent() == 2


def test_a_batch_that_is_full_waits_no_longer(sending):
    _, make, sent = sending
    producer = make(linger_ms=60_000, batch_size=1_000)
    for _ in range(3):
        producer.send_nowait("t", b"v" * 600, partition=0)
    until(lambda: producer.metrics().outstanding == 1)
    assert sent() in (1, 2)


def test_partitions_of_a_broker_share_a_request(sending):
    _, make, sent = sending
    producer = make(linger_ms=60_000)
    for number in range(5 * PARTITIONS):
        producer.send_nowait("t", b"v", partition=number % PARTITIONS)
    producer.flush()
    assert sent() == 1


def test_a_request_is_no_larger_than_allowed(sending):
    _, make, sent = sending
    producer = make(linger_ms=60_000, max_request_size=10_000)
    for number in range(PARTITIONS):
        producer.send_nowait("t", b"v" * 6_000, partition=number)
    producer.flush()
    assert sent() == PARTITIONS


@pytest.mark.parametrize("most", [1, 3, 5])
def test_no_more_requests_are_under_way_than_allowed(sending, most):
    broker, make, sent = sending
    producer = make(max_in_flight_requests_per_connection=most, batch_size=1_000)
    broker.fault("Produce", "delay", seconds=0.1, times=None)
    for _ in range(10):
        producer.send_nowait("t", b"v" * 900, partition=0)
    until(lambda: producer.metrics().brokers[1].in_flight == most)
    producer.flush()
    times = [request.time for request in broker.requests("Produce")[-sent() :]]
    assert len(times) == 10
    # Each answer takes so long, and one that has no place waits for that of another.
    assert all(later - earlier >= 0.1 for earlier, later in zip(times, times[most:], strict=False))


@pytest.mark.parametrize(("codec", "highest"), [("gzip", 9), ("zstd", 19)])
def test_a_higher_level_compresses_better(style, codec, highest):
    words = random.Random(1).choices([b"word%d" % number for number in range(500)], k=20_000)
    value = b" ".join(words)
    held = []
    for level in (1, highest):
        with DevBroker() as broker:
            config = {"compression_type": codec, f"compression_{codec}_level": level, "batch_size": 1 << 20}
            with style.producer(broker.bootstrap_servers, **config) as producer:
                producer.send("t", value)
            with klamm.Consumer(broker.bootstrap_servers) as consumer:
                consumer.assign([klamm.TopicPartition("t", 0, offset=0)])
                assert [record.value for record in consumer.poll(timeout=20)] == [value]
            held.append(fetched_bytes(broker.bootstrap_servers))
    assert held[1] < held[0]


def fetched_bytes(servers):
    """Return the size of a response with all records of the topic, as the broker stores them."""
    host, port = servers.rsplit(":", 1)
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
    body = {
        "maxWaitMs": 0,
        "minBytes": 0,
        "maxBytes": 1 << 20,
        "topics": [{"topic": "t", "partitions": [partition]}],
    }
    request = struct.pack(">hhih", FETCH, VERSION, 1, -1) + protocol.encode("Fetch", "request", VERSION, body)
    with socket.create_connection((host, int(port))) as link:
        link.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", link.recv(4, socket.MSG_WAITALL))
    return size


def test_a_topic_that_is_not_there_is_asked_for_no_longer_when_its_records_have_failed(style):
    with DevBroker() as broker:
        quick = {"max_block_ms": 100, "retry_backoff_max_ms": 200}
        config = {"client_id": "sender", "allow_auto_create_topics": False, **quick}
        with (
            style.producer(broker.bootstrap_servers, **config) as producer,
            klamm.Consumer(broker.bootstrap_servers, client_id="waiting") as waiting,
        ):
            for number in range(20):
                with pytest.raises((KafkaTimeoutError, UnknownTopicOrPartitionError)):
                    producer.send(f"absent-{number}", b"v")

            def asked():
                return sum(request.client_id == "sender" for request in broker.requests("Metadata"))

            def asks_no_longer():
                before = asked()
                waiting.poll(timeout=1)
                return asked() == before

            waiting.assign([klamm.TopicPartition("t", 0)])
            until(asks_no_longer)


def test_a_batch_whose_time_is_over_does_not_cost_others_their_connection(style):
    with DevBroker() as broker:
        with style.producer(broker.bootstrap_servers, delivery_timeout_ms=600) as producer:
            producer.send("t", b"0")
            connections = len(broker.requests("ApiVersions"))
            broker.fault("Produce", "delay", seconds=1.5)
            with pytest.raises(KafkaTimeoutError, match=r"delivery\.timeout\.ms"):
                producer.send("t", b"1")
            # It is in the log all the same, which its answer says, and so the next one follows it.
            until(lambda: all(broker.in_flight == 0 for broker in producer.client.metrics().brokers.values()))
            producer.send("t", b"2")
            assert len(broker.requests("ApiVersions")) == connections
        table = klamm.read_table(broker.bootstrap_servers, "t", columns=["value"])
    assert table.column("value").to_pylist() == [b"0", b"1", b"2"]
