"""Three real nodes, of which one dies and restarts while records flow: no record is lost, duplicated or reordered."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time

import pytest

import klamm
from by_hand import Line
from kafka_cluster import KafkaCluster
from klamm.errors import GroupIdNotFoundError
from klamm.testing import DevBroker
from log_lines import collected
from running import or_skip
from settled import until, wait_until_settled

PARTITIONS = 4
RECORDS = 1_000_000
CHUNK = 5_000
SEED = 20
RACKS = ["a", "b", "c"]
NOT_LEADER_OR_FOLLOWER = 6


@pytest.fixture(scope="module")
def cluster():
    with or_skip(KafkaCluster(racks=RACKS)) as running:
        yield running


def create(cluster, *topics):
    with klamm.Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=PARTITIONS, replication_factor=3) for topic in topics})


def reading_by_rack(servers, topic):
    """Asks the leader and a follower of the only partition for records, by rack and version."""
    with klamm.Admin(servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(replication_factor=3)})
        until(lambda: len(admin.describe_topics([topic])[topic].partitions[0].isr) == len(RACKS))
        leader = admin.describe_topics([topic])[topic].partitions[0].leader
        nodes = {node.id: node for node in admin.describe_cluster().brokers}
    follower = leader % len(RACKS) + 1
    with klamm.Producer(servers) as producer:
        producer.send(topic, b"v").result(20)

    def ask(node, version, rack):
        """Return the error code, whether there are records, and whether the broker sent the reader to its rack."""
        requested = {"partition": 0, "currentLeaderEpoch": -1, "fetchOffset": 0}
        requested |= {"logStartOffset": -1, "partitionMaxBytes": 1 << 20}
        fields = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20, "isolationLevel": 0}
        fields |= {"sessionId": 0, "sessionEpoch": -1, "forgottenTopicsData": []}
        fields |= {"rackId": rack} if version >= 11 else {}
        with contextlib.closing(Line(nodes[node].host, nodes[node].port)) as line:
            answer = line("Fetch", version, {**fields, "topics": [{"topic": topic, "partitions": [requested]}]})
        (answered,) = answer["responses"][0]["partitions"]
        preferred = answered.get("preferredReadReplica", -1)
        return answered["errorCode"], bool(answered["records"]), preferred in nodes and nodes[preferred].rack == rack

    # A follower may read what it has when it has asked the leader again.
    until(lambda: ask(follower, 12, "")[1])
    own = nodes[leader].rack
    others = [rack for rack in RACKS if rack != own]
    return {
        "leader": [ask(leader, 12, rack) for rack in (own, "elsewhere", "")],
        "leader, from other racks": [ask(leader, 12, rack) for rack in others],
        "leader, before v11": ask(leader, 10, ""),
        "follower": [ask(follower, 12, rack) for rack in (*RACKS, "")],
        "follower, before v11": ask(follower, 10, ""),
    }


class WorkerError(Exception):
    """An error of a worker."""


class Outage:
    """Kills one node after a given amount of work, and restarts it after more."""

    def __init__(self, cluster, node, at, until):
        self.cluster, self.node, self.at, self.until = cluster, node, at, until
        self.is_down = False

    def look(self, done):
        if not self.is_down and self.at <= done < self.until:
            self.cluster.kill(self.node)
            self.is_down = True
        elif self.is_down and done >= self.until:
            self.cluster.start_node(self.node)
            self.is_down = False

    def end(self):
        if self.is_down:
            self.cluster.start_node(self.node)


def numbers_by_partition(cluster, topic, **config):
    table = klamm.read_table(cluster.bootstrap_servers, topic, columns=["partition", "value"], **config)
    found = {number: [] for number in range(PARTITIONS)}
    for partition, value in zip(table["partition"].to_pylist(), table["value"].to_pylist(), strict=True):
        found[partition].append(int(value))
    return found


def numbers_as_librdkafka_reads_them(cluster, topic):
    confluent_kafka = pytest.importorskip("confluent_kafka")
    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "nobody", "check.crcs": True}
    )
    found = {number: [] for number in range(PARTITIONS)}
    try:
        tps = [confluent_kafka.TopicPartition(topic, number, 0) for number in found]
        reader.assign(tps)
        left = sum(reader.get_watermark_offsets(requested, timeout=20)[1] for requested in tps)
        while left > 0:
            records = reader.consume(min(left, 100_000), timeout=20)
            assert records, f"{left} records are not read"
            left -= len(records)
            for record in records:
                assert record.error() is None, record.error()
                found[record.partition()].append(int(record.value()))
    finally:
        reader.close()
    return found


def test_readers_are_sent_to_their_rack_as_by_the_dev_broker(cluster, topic):
    found = reading_by_rack(cluster.bootstrap_servers, topic)
    served = (0, True, False)
    assert found == {
        "leader": [served] * 3,
        "leader, from other racks": [(0, False, True)] * 2,
        "leader, before v11": served,
        "follower": [served] * 4,
        "follower, before v11": (NOT_LEADER_OR_FOLLOWER, False, False),
    }
    with DevBroker(brokers=3, racks=RACKS) as dev:
        assert reading_by_rack(dev.bootstrap_servers, topic) == found


@pytest.mark.timeout(240)
def test_a_new_leader_is_logged_with_the_old_one(cluster, topic):
    partition = klamm.TopicPartition(topic, 0)
    with (
        klamm.Admin(cluster.bootstrap_servers) as admin,
        klamm.Producer(cluster.bootstrap_servers) as producer,
        collected() as lines,
    ):
        admin.create_topics({topic: klamm.NewTopic(assignments=[[1, 2, 3]])}, wait=True)
        producer.send(topic, b"v", partition=0).result(20)
        admin.alter_partition_reassignments({partition: [2, 3, 1]}, wait=True)
        admin.elect_leaders([partition], wait=True)
        producer.send(topic, b"v", partition=0).result(20)
        record = lines.find("the leader changed from 1 to 2")
    assert (record.name, record.topic, record.partition) == ("klamm.network", topic, 0)


def test_a_million_records_survive_a_node_that_is_killed_and_returns(cluster, topic):
    create(cluster, topic)
    outage = Outage(cluster, 2, RECORDS // 4, RECORDS // 2)
    with klamm.Producer(cluster.bootstrap_servers, linger_ms=5, compression_type="lz4") as producer:
        for start in range(0, RECORDS, CHUNK):
            outage.look(start)
            for partition in range(PARTITIONS):
                numbers = range(start + partition, start + CHUNK, PARTITIONS)
                producer.send_many(topic, [b"%d" % n for n in numbers], partition=partition)
        outage.end()
        producer.flush(120)
        assert producer.metrics().topics[topic].retries > 0, "the outage was not noticed"
    expected = {partition: list(range(partition, RECORDS, PARTITIONS)) for partition in range(PARTITIONS)}
    assert numbers_by_partition(cluster, topic) == expected
    # What klamm misunderstood while writing it might misunderstand while reading.
    assert numbers_as_librdkafka_reads_them(cluster, topic) == expected
    cluster.wait_for(2, 3)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit that stands for a full disk is Linux's")
@pytest.mark.timeout(240)
def test_nothing_is_lost_when_the_disk_of_a_node_is_full(cluster, topic):
    create(cluster, topic)
    full, count = 1, 100_000
    with klamm.Admin(cluster.bootstrap_servers) as admin:
        assert full in {part.leader for part in admin.describe_topics([topic])[topic].partitions}
        with klamm.Producer(cluster.bootstrap_servers, linger_ms=5) as producer:
            for start in range(0, count, CHUNK):
                if start == count // 2:
                    cluster.fill_disk(full)
                for partition in range(PARTITIONS):
                    numbers = range(start + partition, start + CHUNK, PARTITIONS)
                    producer.send_many(topic, [b"%d" % n for n in numbers], partition=partition)
                if start >= count // 2:
                    producer.flush(120)  # so that no chunk is behind the others when leaders move
            assert producer.metrics().topics[topic].retries > 0, "the full disk was not noticed"
        assert full not in {part.leader for part in admin.describe_topics([topic])[topic].partitions}
    found = numbers_by_partition(cluster, topic)
    for partition in range(PARTITIONS):
        assert found[partition] == list(range(partition, count, PARTITIONS))
    cluster.kill(full)
    cluster.start_node(full)
    cluster.wait_for(full, 3)


@pytest.mark.timeout(240)
def test_what_is_read_and_written_in_transactions_is_there_once_although_nodes_die(cluster, topic):
    source, target, group = f"{topic}-in", f"{topic}-out", f"{topic}-group"
    create(cluster, source, target)
    count = 20_000
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        for partition in range(PARTITIONS):
            numbers = range(partition, count, PARTITIONS)
            producer.send_many(source, [b"%d" % n for n in numbers], partition=partition)
    tps = [klamm.TopicPartition(source, number) for number in range(PARTITIONS)]
    chance = random.Random(SEED)
    outages = [Outage(cluster, 3, count // 4, count // 2), Outage(cluster, 1, 5 * count // 8, 7 * count // 8)]
    reading = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    done = 0
    with klamm.Producer(cluster.bootstrap_servers, transactional_id=f"{topic}-tx") as producer:
        while done < count:
            # A worker that goes on where the last transaction that was committed ended.
            with klamm.Consumer(cluster.bootstrap_servers, **reading) as consumer:
                consumer.assign(tps)
                while done < count:
                    records = consumer.poll(timeout=60, max_records=chance.randrange(100, 1_000))
                    try:
                        with producer.transaction() as tx:
                            for record in records:
                                tx.send_nowait(target, record.value, partition=record.partition)
                            tx.commit_offsets(consumer)
                            if chance.random() < 0.2:
                                raise WorkerError  # noqa: TRY301 - as a worker's own code would
                    except (WorkerError, klamm.errors.TransactionAbortedError):
                        break
                    done += len(records)
                    for outage in outages:
                        outage.look(done)
    for outage in outages:
        outage.end()
    wait_until_settled(cluster.bootstrap_servers, target)
    found = numbers_by_partition(cluster, target, isolation_level="read_committed")
    for partition in range(PARTITIONS):
        assert found[partition] == list(range(partition, count, PARTITIONS))


def test_threads_share_a_producer(cluster, topic):
    create(cluster, topic)
    threads, each = 8, 2_000
    with klamm.Producer(cluster.bootstrap_servers, linger_ms=2) as producer:

        def work(number):
            for n in range(each):
                producer.send_nowait(topic, b"%d" % (number * each + n), partition=number % PARTITIONS)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    found = numbers_by_partition(cluster, topic)
    assert sorted(n for numbers in found.values() for n in numbers) == list(range(threads * each))
    for numbers in found.values():
        for number in range(threads):
            mine = [n for n in numbers if n // each == number]
            assert mine == sorted(mine)


class Member(threading.Thread):
    """Consumes and commits until the test stops it."""

    def __init__(self, cluster, topic, seen, wanted, **config):
        super().__init__()
        self.cluster, self.topic, self.seen, self.wanted, self.config = cluster, topic, seen, wanted, config
        self.stops, self.complete = threading.Event(), threading.Event()
        self.error = None

    def run(self):
        try:
            with klamm.Consumer(
                self.cluster.bootstrap_servers,
                group_id=self.topic,
                topics=[self.topic],
                auto_offset_reset="earliest",
                auto_commit_interval_ms=100,
                **self.config,
            ) as consumer:
                while not self.stops.is_set():
                    self.seen.update(int(record.value) for record in consumer.poll(0.2, max_records=500))
                    if len(self.seen) == self.wanted:
                        self.complete.set()
        except Exception as e:  # noqa: BLE001
            self.error = e


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "config",
    [
        {"partition_assignment_strategy": "cooperative-sticky", "session_timeout_ms": 10_000},
        {"group_protocol": "consumer"},
    ],
    ids=["cooperative", "consumer protocol"],
)
def test_members_continue_when_their_coordinator_is_killed(cluster, topic, config):
    records, seen = 60_000, set()
    create(cluster, topic)
    members = [Member(cluster, topic, seen, records, **config) for _ in range(5)]
    for member in members:
        member.start()
    try:
        outage = Outage(cluster, coordinator(cluster, topic), records // 4, records // 2)
        with klamm.Producer(cluster.bootstrap_servers, linger_ms=5) as producer:
            for start in range(0, records, 1000):
                outage.look(start)
                for partition in range(PARTITIONS):
                    numbers = range(start + partition, start + 1000, PARTITIONS)
                    producer.send_many(topic, [b"%d" % n for n in numbers], partition=partition)
                producer.flush(60)
            outage.end()
        # They share what was seen: each of them notices with its next poll.
        assert all(member.complete.wait(90) for member in members), f"only {len(seen)} of {records} records were read"
    finally:
        for member in members:
            member.stops.set()
        for member in members:
            member.join(60)
    assert [member.error for member in members] == [None] * 5
    with klamm.Admin(cluster.bootstrap_servers) as admin:
        assert set(admin.group_lag(topic).values()) == {0}
    assert seen == set(range(records))


def coordinator(cluster, group):
    """Return the coordinator of a group once the group has members."""
    end = time.monotonic() + 60
    with klamm.Admin(cluster.bootstrap_servers) as admin:
        while time.monotonic() < end:
            with contextlib.suppress(GroupIdNotFoundError):
                described = admin.describe_groups([group])[group]
                if described.members:
                    return described.coordinator
    raise AssertionError(f"group {group} has no members")
