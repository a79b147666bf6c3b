"""Consumers with a rack read from the nearest replica (KIP-392): klamm's and other clients'."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

import klamm
from java_tools import java_tool
from klamm.testing import DevBroker
from reading import read_values
from settled import until

confluent_kafka = pytest.importorskip("confluent_kafka")
aiokafka = pytest.importorskip("aiokafka")
kafka = pytest.importorskip("kafka")

RACKS = ["a", "b", "c"]
VALUES = [b"%d" % n for n in range(20)]


@pytest.fixture
def cluster():
    """Three nodes in different racks, and a topic `t` with replicas on all and node 1 as leader."""
    with DevBroker(brokers=3, racks=RACKS) as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"t": klamm.NewTopic(partitions=1, replication_factor=3)})
        broker.move_leader("t", 0, 1)
        write(broker)
        yield broker


def write(broker):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many("t", VALUES)


def klamm_reads(broker, rack):
    with klamm.Consumer(broker.bootstrap_servers, client_id="reader", client_rack=rack) as consumer:
        consumer.assign([klamm.TopicPartition("t", 0, 0, len(VALUES))])
        return [record.value for record in consumer]


def confluent_reads(broker, rack):
    config = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "reader", "group.id": "g"}
    with closing(confluent_kafka.Consumer({**config, "client.rack": rack})) as consumer:
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        found = []
        while len(found) < len(VALUES):
            messages = consumer.consume(len(VALUES) - len(found), timeout=20)
            assert messages, f"only {len(found)} records came"
            found += [message.value() for message in messages]
        return found


def kafka_python_reads(broker, rack):
    config = {"bootstrap_servers": broker.bootstrap_servers, "client_id": "reader", "consumer_timeout_ms": 20_000}
    with closing(kafka.KafkaConsumer("t", auto_offset_reset="earliest", client_rack=rack, **config)) as consumer:
        return [next(consumer).value for _ in VALUES]


def aiokafka_reads(broker, rack):
    async def run():
        config = {"bootstrap_servers": broker.bootstrap_servers, "client_id": "reader", "client_rack": rack}
        async with aiokafka.AIOKafkaConsumer("t", auto_offset_reset="earliest", **config) as consumer:
            return [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in VALUES]

    return asyncio.run(run())


def java_reads(broker, rack):
    arguments = ["--topic", "t", "--from-beginning", "--max-messages", str(len(VALUES)), "--timeout-ms", "20000"]
    properties = [part for key in (f"client.rack={rack}", "client.id=reader") for part in ("--consumer-property", key)]
    output = java_tool("ConsoleConsumer", broker.bootstrap_servers, *arguments, *properties)
    # It begins with a word on options that are going away.
    return output.encode().split()[-len(VALUES) :]


READERS = {
    "klamm": klamm_reads,
    "confluent-kafka": confluent_reads,
    "kafka-python": kafka_python_reads,
    "aiokafka": aiokafka_reads,
    "java": java_reads,
}


def asked(broker):
    """Return the nodes from which the reader fetched, in order, without repetitions in a row."""
    nodes = [request.node for request in broker.requests("Fetch") if request.client_id == "reader"]
    return [node for n, node in enumerate(nodes) if n == 0 or node != nodes[n - 1]]


@pytest.mark.parametrize("reads", READERS.values(), ids=READERS)
def test_a_reader_is_sent_to_its_rack(cluster, reads):
    assert reads(cluster, "c") == VALUES
    # At its end Java takes leave of both, to have its sessions closed.
    assert asked(cluster)[:2] == [1, 3]


@pytest.mark.parametrize("rack", ["", "a", "elsewhere"])
def test_a_reader_without_a_nearer_replica_stays_with_the_leader(cluster, rack):
    assert klamm_reads(cluster, rack) == VALUES
    assert asked(cluster) == [1]


def test_a_reader_goes_back_when_its_replica_dies(cluster):
    with klamm.Consumer(cluster.bootstrap_servers, client_id="reader", client_rack="b") as consumer:
        consumer.assign([klamm.TopicPartition("t", 0, 0)])
        records = iter(consumer)
        assert [next(records).value for _ in VALUES] == VALUES
        cluster.kill(2)
        write(cluster)
        assert [next(records).value for _ in VALUES] == VALUES
    assert asked(cluster) == [1, 2, 1]


REFUSALS = ["OFFSET_OUT_OF_RANGE", "NOT_LEADER_OR_FOLLOWER", "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR"]


@pytest.mark.parametrize("fault", [*REFUSALS, "drop", "FETCH_SESSION_ID_NOT_FOUND"])
def test_a_follower_that_refuses_leads_back_to_the_leader(cluster, fault):
    """The leader would name the same follower again at once."""
    if fault == "drop":
        cluster.fault("Fetch", "drop", node=3, times=None)
    else:
        cluster.fault("Fetch", "error", error=fault, node=3, times=None)
    with klamm.Consumer(cluster.bootstrap_servers, client_id="reader", client_rack="c") as consumer:
        consumer.assign([klamm.TopicPartition("t", 0, 0)])
        assert read_values(consumer, len(VALUES)) == VALUES
        assert not consumer.poll(1)
        nodes = [request.node for request in cluster.requests("Fetch") if request.client_id == "reader"]
        assert 1 <= nodes.count(3) <= 4
        assert len(nodes) <= 20


def test_a_follower_is_asked_again_after_a_while(cluster):
    cluster.fault("Fetch", "error", error="OFFSET_OUT_OF_RANGE", node=3)
    with klamm.Consumer(cluster.bootstrap_servers, client_id="reader", client_rack="c") as consumer:
        consumer.assign([klamm.TopicPartition("t", 0, 0)])
        until(lambda: not consumer.poll(0.1) and asked(cluster)[-2:] == [1, 3] and len(asked(cluster)) > 3)
        assert asked(cluster) == [1, 3, 1, 3]
