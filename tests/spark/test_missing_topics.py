"""Topics that are deleted, created again, or unknown to the brokers for a moment, and what the checkpoint says of them."""

from __future__ import annotations

import itertools
import json
import pickle
from contextlib import contextmanager

import pytest

import klamm
from klamm.errors import UnknownTopicOrPartitionError
from klamm.spark import DataLossError
from klamm.spark.lookup import Lookup
from klamm.spark.options import read_options
from klamm.spark.schema import source_schema
from klamm.spark.stream import KlammStreamReader
from klamm.testing import DevBroker
from spark_plans import batch, begun, plan, stream, values

limits = pytest.importorskip("pyspark.sql.streaming.datasource", reason="limits of micro-batches: PySpark 4.2")


@pytest.mark.parametrize("recreated", [False, True])
def test_a_deleted_topic_fails_the_query_or_is_skipped(cluster, topic, recreated):
    kept, gone = f"{topic}-a", f"{topic}-b"
    for name in (kept, gone):
        cluster.create(name)
        cluster.numbers(name, range(3))
    careful = stream(cluster, subscribe=f"{kept},{gone}")
    careless = stream(cluster, subscribe=f"{kept},{gone}", failOnDataLoss="false")
    start = careful.latestOffset(careful.initialOffset(), limits.ReadAllAvailable())
    cluster.delete(gone)
    if recreated:
        cluster.create(gone)
        cluster.numbers(gone, range(30, 31))
    cluster.numbers(kept, range(3, 5))
    # Before Spark writes the end of the batch into the checkpoint.
    for _ in range(2):
        with pytest.raises(
            DataLossError, match="created again" if recreated else f"read before no longer exist: {gone}-0"
        ) as lost:
            careful.latestOffset(start, limits.ReadAllAvailable())
    condition = "KAFKA_DATA_LOSS." + ("PARTITION_OFFSET_CHANGED" if recreated else "PARTITIONS_DELETED")
    assert lost.value.condition == condition
    assert pickle.loads(pickle.dumps(lost.value)).condition == condition  # noqa: S301 - our own
    end = careless.latestOffset(start, limits.ReadAllAvailable())
    assert values(careless, careless.partitions(start, end)) == [b"3", b"4"]
    assert careless.latestOffset(end, limits.ReadAllAvailable()) == end


@pytest.mark.parametrize("is_noticed", [False, True])
def test_a_topic_that_is_created_again_is_read_from_its_beginning(cluster, topic, is_noticed):
    cluster.create(topic)
    cluster.numbers(topic, range(3))
    careful, careless = (stream(cluster, subscribe=topic, failOnDataLoss=answer) for answer in ("true", "false"))
    for reader in (careful, careless):
        start = reader.latestOffset(reader.initialOffset(), limits.ReadAllAvailable())
    cluster.delete(topic)
    if is_noticed:
        assert careless.latestOffset(start, limits.ReadAllAvailable()) == start
    cluster.create(topic)
    cluster.numbers(topic, range(10, 14))
    with pytest.raises(DataLossError, match=rf"PARTITION_OFFSET_CHANGED\] .*: {topic}-0"):
        careful.latestOffset(start, limits.ReadAllAvailable())
    read = []
    for _ in range(2):
        end = careless.latestOffset(start, limits.ReadAllAvailable())
        read += values(careless, careless.partitions(start, end))
        start = end
    assert (start, read) == ({topic: {"0": 4}}, [b"10", b"11", b"12", b"13"])


def test_a_topic_that_stays_away_is_left_out_and_then_new(cluster, topic, monkeypatch):
    monkeypatch.setattr("klamm.spark.stream.GONE_SECONDS", 0.0)
    cluster.create(topic)
    cluster.numbers(topic, range(3))
    reader = stream(cluster, subscribe=topic, failOnDataLoss="false")
    start = reader.latestOffset(reader.initialOffset(), limits.ReadAllAvailable())
    cluster.delete(topic)
    end = reader.latestOffset(start, limits.ReadAllAvailable())
    assert (end, reader.partitions(start, end)) == ({}, [])
    cluster.create(topic)
    cluster.numbers(topic, range(10, 11))
    start, end = end, reader.latestOffset(end, limits.ReadAllAvailable())
    assert values(reader, reader.partitions(start, end)) == [b"10"]


@pytest.fixture(scope="module")
def faulty():
    with DevBroker() as broker:
        yield broker


@pytest.fixture
def faulty_cluster(faulty, cluster_at):
    return cluster_at(faulty.bootstrap_servers)


@contextmanager
def unknown(broker, *topics):
    """Let a broker deny that topics exist."""
    for api, name in itertools.product(("Metadata", "DescribeTopicPartitions", "ListOffsets"), topics):
        broker.fault(api, "error", error="UNKNOWN_TOPIC_OR_PARTITION", topic=name, times=None)
    try:
        yield
    finally:
        broker.clear_faults()


@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "1000"}, {"minOffsetsPerTrigger": "1"}])
@pytest.mark.parametrize("by", ["subscribe", "subscribePattern"])
@pytest.mark.parametrize("is_run", [False, True])
def test_a_topic_that_is_unknown_for_a_moment_keeps_its_offsets(faulty_cluster, faulty, by, limit, is_run):
    topic = f"{by}-{len(limit) and next(iter(limit))}-{is_run}"
    names = [f"{topic}-a", f"{topic}-b"]
    for name in names:
        faulty_cluster.create(name)
        faulty_cluster.numbers(name, range(3))
    wanted = {by: ",".join(names) if by == "subscribe" else f"{topic}-.*"}
    careful, careless = (
        stream(faulty_cluster, failOnDataLoss=answer, **wanted, **limit) for answer in ("true", "false")
    )
    start = careful.latestOffset(careful.initialOffset(), limits.ReadAllAvailable())
    faulty_cluster.numbers(names[1], range(3, 5))
    with unknown(faulty, names[0]):
        with pytest.raises(DataLossError, match=f"no longer exist: {names[0]}-0"):
            careful.latestOffset(start, careful.getDefaultReadLimit())
        if is_run:
            careless.prepareForTriggerAvailableNow()
        for first in (start, {names[0]: {"0": 3}, names[1]: {"0": 5}}):
            end = careless.latestOffset(first, careless.getDefaultReadLimit())
            assert end == {names[0]: {"0": 3}, names[1]: {"0": 5}}
        assert values(careless, careless.partitions(start, end)) == [b"3", b"4"]
    faulty_cluster.numbers(names[0], range(3, 4))
    for reader in (careful, careless):
        if is_run:
            reader.prepareForTriggerAvailableNow()
        begin = start if reader is careful else end
        last = reader.latestOffset(begin, reader.getDefaultReadLimit())
        assert last == {names[0]: {"0": 4}, names[1]: {"0": 5}}
        assert values(reader, reader.partitions(begin, last))[:1] == [b"3"]


def test_a_topic_that_may_not_be_seen_for_a_moment_keeps_its_offsets(topic):
    admin = pytest.importorskip("confluent_kafka.admin")
    names = [f"{topic}-a", f"{topic}-b"]
    with DevBroker(sasl={"PLAIN": {"root": "secret", "alice": "secret"}}, super_users=["root"]) as broker:
        config = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.password": "secret",
        }
        root = admin.AdminClient(config | {"sasl.username": "root"})
        rules = [
            admin.AclBinding(
                admin.ResourceType.TOPIC,
                name,
                admin.ResourcePatternType.LITERAL,
                "User:alice",
                "*",
                admin.AclOperation.READ,
                admin.AclPermissionType.ALLOW,
            )
            for name in names
        ]
        with klamm.Producer(config | {"sasl.username": "root"}) as producer:
            for name in names:
                producer.send(name, b"v")
        [rule.result(20) for rule in root.create_acls(rules).values()]
        options = {f"kafka.{key}": value for key, value in config.items()} | {"kafka.sasl.username": "alice"}
        careful, careless = (
            KlammStreamReader(
                read_options(
                    options
                    | {"subscribePattern": topic, "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "10"}
                    | {"failOnDataLoss": answer},
                    True,
                ),
                source_schema(include_headers=False),
            )
            for answer in ("true", "false")
        )
        start = careful.latestOffset(careful.initialOffset(), limits.ReadAllAvailable())
        assert start == {names[0]: {"0": 1}, names[1]: {"0": 1}}
        [rule] = rules[:1]
        found = admin.AclBindingFilter(
            rule.restype,
            rule.name,
            rule.resource_pattern_type,
            rule.principal,
            rule.host,
            rule.operation,
            rule.permission_type,
        )
        root.delete_acls([found])[found].result(20)
        with pytest.raises(DataLossError, match=f"no longer exist: {names[0]}-0"):
            careful.latestOffset(start, limits.ReadAllAvailable())
        assert careless.latestOffset(start, limits.ReadAllAvailable()) == start
        root.create_acls([rule])[rule].result(20)
        assert [reader.latestOffset(start, limits.ReadAllAvailable()) for reader in (careful, careless)] == [start] * 2


@pytest.mark.parametrize("careful", ["true", "false"])
def test_assigned_partitions_that_are_unknown_for_a_moment_fail_the_question(faulty, faulty_cluster, topic, careful):
    faulty_cluster.create(topic)
    faulty_cluster.numbers(topic, range(3))
    reader = stream(faulty_cluster, assign=json.dumps({topic: [0]}), failOnDataLoss=careful)
    start = begun(reader)
    with unknown(faulty, topic), pytest.raises(UnknownTopicOrPartitionError):
        reader.latestOffset(start, reader.getDefaultReadLimit())
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert values(reader, reader.partitions(start, end)) == [b"0", b"1", b"2"]


def test_a_new_topic_that_is_unknown_for_a_moment_is_looked_for(faulty, faulty_cluster, topic, monkeypatch):
    names = [f"{topic}-a", f"{topic}-b"]
    faulty_cluster.create(names[0])
    reader = stream(faulty_cluster, subscribePattern=f"{topic}-.*", failOnDataLoss="false")
    start = begun(reader)
    faulty_cluster.create(names[1])
    faulty_cluster.numbers(names[1], range(3))
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    with unknown(faulty, names[1]):
        # The topic is back when the reader asks again.
        monkeypatch.setattr("klamm.spark.lookup.time.sleep", lambda _: faulty.clear_faults())
        tasks = reader.partitions(start, end)
    assert values(reader, tasks) == [b"0", b"1", b"2"]


def test_a_task_waits_for_a_topic_that_is_unknown_for_a_moment(faulty_cluster, topic, monkeypatch):
    faulty_cluster.create(topic)
    faulty_cluster.numbers(topic, range(3))
    reader = batch(faulty_cluster, subscribe=topic, failOnDataLoss="false", **{"fetchOffset.retryIntervalMs": "10"})
    tasks, arrow, failures = reader.partitions(), klamm.Consumer.arrow, [UnknownTopicOrPartitionError("?")] * 3

    def unknown_at_first(consumer, *args):
        if failures:
            raise failures.pop()
        return arrow(consumer, *args)

    monkeypatch.setattr(klamm.Consumer, "arrow", unknown_at_first)
    assert values(reader, tasks) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("by", ["subscribe", "subscribePattern"])
def test_a_batch_reads_all_partitions_that_it_found(faulty, faulty_cluster, topic, monkeypatch, by):
    names = [f"{topic}-a", f"{topic}-b"]
    for name in names:
        faulty_cluster.create(name)
        faulty_cluster.numbers(name, range(3))
    resolve = Lookup.resolve

    def resolve_and_forget(*args):
        offsets = resolve(*args)
        for api in ("Metadata", "DescribeTopicPartitions"):
            faulty.fault(api, "error", error="UNKNOWN_TOPIC_OR_PARTITION", topic=names[0], times=None)
        return offsets

    monkeypatch.setattr(Lookup, "resolve", resolve_and_forget)
    reader = batch(faulty_cluster, **{by: ",".join(names) if by == "subscribe" else f"{topic}-.*"})
    try:
        assert plan(reader) == [(name, 0, 0, 3) for name in names]
    finally:
        faulty.clear_faults()


@pytest.mark.parametrize("by", ["subscribe", "subscribePattern"])
def test_a_batch_fails_if_a_topic_is_unknown(faulty, faulty_cluster, topic, by):
    faulty_cluster.create(topic)
    options = {by: topic, "failOnDataLoss": "false", "fetchOffset.retryIntervalMs": "10"}
    with unknown(faulty, topic), pytest.raises(UnknownTopicOrPartitionError):
        batch(faulty_cluster, **options).partitions()
