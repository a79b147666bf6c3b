"""Kills a node of Kafka during a task's open transaction. The stream must continue, and its counts must be exact.

The nightly lane has one seed and `make soak-spark` more. They kill the leader of a partition that is written, the coordinator of a
task's transaction, or the coordinator of the group to which the transaction commits.
"""

from __future__ import annotations

import os

import pytest
from pyspark.sql import functions as F

import klamm
from kafka_cluster import KafkaCluster
from running import or_skip
from settled import wait_until_settled

SEEDS = int(os.environ.get("KLAMM_SPARK_SEEDS", "1"))
ROWS = 30_000
LATE = 25_000  # Spark hands over 10,000 rows at a time

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def nodes():
    with or_skip(KafkaCluster()) as running:
        yield running


def paused(resumed):
    """Return a function that blocks at a late row, so that earlier rows are already written."""

    def pause(value):
        import time

        while int(value) % ROWS == LATE and not resumed.exists():
            time.sleep(0.05)
        return value

    return F.udf(pause, "binary", useArrow=False)  # which would need pandas


def coordinators(kafka, name):
    """Return the coordinators of a transaction and a group with this name: the leaders of their partitions in the internal topics."""
    logs = ("__transaction_state", "__consumer_offsets")
    with klamm.Admin(kafka.bootstrap) as admin:
        described = admin.describe_topics(logs)
    hashed = 0
    for letter in name.encode():
        hashed = (31 * hashed + letter) % 2**32  # as Java's String.hashCode
    hashed = abs(hashed - 2**32 if hashed >= 2**31 else hashed)
    return [described[log].partitions[hashed % len(described[log].partitions)].leader for log in logs]


@pytest.mark.timeout(240)  # three nodes to begin with
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_record_is_written_once_if_a_node_dies(kafka_at, nodes, topic, tmp_path, seed):
    kafka = kafka_at(nodes.bootstrap_servers)
    source, result = f"{topic}-in", f"{topic}-out"
    with klamm.Admin(kafka.bootstrap) as admin:
        three = klamm.NewTopic(partitions=2, replication_factor=3)
        admin.create_topics({source: three, result: three})
        first = admin.describe_topics([result])[result].partitions[0].leader
    with klamm.Producer(kafka.bootstrap) as producer:
        for partition in range(2):
            numbers = range(partition * ROWS, partition * ROWS + ROWS)
            producer.send_many(source, [b"%0100d" % number for number in numbers], partition=partition)
        producer.flush(timeout=60)
    resumed = tmp_path / "resumed"
    query = (
        kafka.stream(subscribe=source, startingOffsets="earliest")
        .select(paused(resumed)("value").alias("value"))
        .writeStream.format("klamm")
        .options(**{"kafka.bootstrap.servers": kafka.bootstrap}, topic=result, delivery="exactly-once")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    node = None
    try:
        while not kafka.records(result):
            assert query.isActive
        node = [first, *coordinators(kafka, f"klamm-{query.id}-0")][seed % 3]
        nodes.kill(node)
        resumed.touch()
        query.awaitTermination()
    finally:
        resumed.touch()
        query.stop()
        if node is not None:
            nodes.start_node(node)
    nodes.wait_for(node, 3)
    wait_until_settled(kafka.bootstrap, result)
    seen = kafka.records(result, isolation_level="read_committed")
    assert sorted(int(record.value) for record in seen) == list(range(2 * ROWS))
