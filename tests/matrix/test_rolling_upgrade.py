"""A cluster during an upgrade: each partition is written and read in the format of its leader."""

from __future__ import annotations

import contextlib

import pytest

import klamm
from kafka_broker import KafkaUnavailable, kafka_jars
from kafka_release import OldKafka
from settled import until
from zookeeper_server import RealZooKeeper

# The new node speaks to the old one, and keeps its log, as the old one does.
PAIRS = [
    ("0.9.0.1", "0.10.2.2", {"inter.broker.protocol.version": "0.9.0", "log.message.format.version": "0.9.0"}),
    ("0.10.2.2", "0.11.0.3", {"inter.broker.protocol.version": "0.10.2", "log.message.format.version": "0.10.2"}),
]


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def cluster(request):
    old, new, config = request.param
    with contextlib.ExitStack() as stack:
        try:
            zookeeper = stack.enter_context(RealZooKeeper(jars=kafka_jars(old), tick_ms=2_000))
            for node, version in enumerate((old, new), 1):
                settings = config if version == new else {}
                kafka = stack.enter_context(OldKafka(version, node, zookeeper, settings))
        except KafkaUnavailable as reason:
            pytest.skip(f"real Kafka: {reason}")
        yield kafka.bootstrap_servers


def test_both_nodes_are_written_to_and_read(cluster, topic):
    with klamm.Admin(cluster) as admin:
        until(lambda: len(admin.describe_cluster().brokers) == 2)
    values = [b"%d" % i for i in range(100)]
    with klamm.Producer(cluster, linger_ms=5) as producer:
        for partition in (0, 1):
            sent = [producer.send(topic, value, partition=partition) for value in values]
            assert [one.result(timeout=30).offset for one in sent] == list(range(100))
    with klamm.Admin(cluster) as admin:
        assert {p.leader for p in admin.describe_topics([topic])[topic].partitions} == {1, 2}
    with klamm.Consumer(cluster, group_id=topic, topics=[topic], auto_offset_reset="earliest") as consumer:
        found = {0: [], 1: []}

        def has_everything():
            for record in consumer.poll(timeout=0.5):
                found[record.partition].append(record.value)
            return found == {0: values, 1: values}

        until(has_everything)
