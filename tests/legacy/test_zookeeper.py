"""Groups and producers of Kafka 0.7, with a real ZooKeeper and with dev brokers that emulate 0.7.2."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count

import pytest

import klamm
from kafka_broker import KafkaUnavailable
from klamm import legacy
from klamm.errors import ClosedError, ConfigError, ForkedClientError, KafkaError, NetworkError
from klamm.testing import DevBroker
from legacy_groups import SESSION, eventually, expire, fill, member, owners, payloads, read
from zookeeper_server import VERSIONS, RealZooKeeper

kazoo_client = pytest.importorskip("kazoo.client")

# kazoo forgets to close the pipe of a connection whose session has ended.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

_names = count(1)


@pytest.fixture(scope="module", params=VERSIONS)
def zookeeper(request):
    try:
        running = RealZooKeeper(request.param).start()
    except KafkaUnavailable as why:
        pytest.skip(f"no ZooKeeper {request.param}: {why}")
    yield running
    running.__exit__()


@pytest.fixture(scope="module")
def broker(zookeeper):
    with DevBroker(brokers=2, as_version="0.7.2", default_partitions=2, zookeeper=zookeeper.hosts) as running:
        yield running


@pytest.fixture
def tree(zookeeper):
    client = kazoo_client.KazooClient(zookeeper.hosts)
    client.start(30)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def topic():
    return f"t{next(_names)}"


@pytest.fixture
def group():
    return f"g{next(_names)}"


def kind(tree, path):
    data, stat = tree.get(path)
    return "E" if stat.ephemeralOwner else "P", data or None


def test_brokers_and_members_write_what_those_of_0_7_2_write(zookeeper, broker, tree, topic, group):
    fill(zookeeper, topic)
    host, port = broker.bootstrap_servers.split(",")[0].split(":")
    state, data = kind(tree, "/brokers/ids/1")
    assert state == "E"
    assert data.decode().rsplit(":", 2)[1:] == [host, port]
    assert kind(tree, "/brokers/ids") == ("P", None)
    assert kind(tree, f"/brokers/topics/{topic}") == ("P", None)
    assert kind(tree, f"/brokers/topics/{topic}/2") == ("E", b"2")
    with member(zookeeper, group, topic, streams=2, consumer_id="cB") as consumer:
        assert len(read([consumer], 40)) == 40
        consumer.commit()
        base = f"/consumers/{group}"
        assert kind(tree, f"{base}/ids/{group}_cB") == ("E", b'{ "%s": 2 }' % topic.encode())
        mine = f"{group}_cB"
        assert owners(tree, group, topic) == {
            "1-0": f"{mine}-0",
            "1-1": f"{mine}-0",
            "2-0": f"{mine}-1",
            "2-1": f"{mine}-1",
        }
        assert kind(tree, f"{base}/owners/{topic}/1-0")[0] == "E"
        for name in ("1-0", "2-1"):
            with legacy.Consumer07(broker.bootstrap_servers.split(",")[int(name[0]) - 1]) as simple:
                offset = simple.latest(topic, int(name[2]))
            assert kind(tree, f"{base}/offsets/{topic}/{name}") == ("P", b"%d" % offset)
        for path in ("", "/ids", "/owners", f"/owners/{topic}", "/offsets", f"/offsets/{topic}"):
            assert kind(tree, base + path) == ("P", None)
    assert tree.get_children(f"{base}/ids") == []
    assert owners(tree, group, topic) == {}
    assert consumer.member_id == mine
    with pytest.raises(ClosedError):
        consumer.poll()


@pytest.mark.usefixtures("broker")
def test_members_divide_the_partitions_and_continue_from_committed_offsets(zookeeper, tree, topic, group):
    sent = fill(zookeeper, topic)
    first = member(zookeeper, group, topic, consumer_id="a")
    eventually(lambda: len(first.assignment()) == 4)
    second = member(zookeeper, group, topic, consumer_id="b")
    eventually(lambda: len(first.assignment()) == len(second.assignment()) == 2)
    assert set(owners(tree, group, topic).values()) == {f"{group}_a-0", f"{group}_b-0"}
    found = read([first, second], 40)
    assert payloads(found) == sent
    first.poll(0)
    first.close()
    eventually(lambda: len(second.assignment()) == 4)
    assert second.poll(0.3) == []
    more = fill(zookeeper, topic, 10)
    assert payloads(read([second], 10)) == more
    second.close()


@pytest.mark.usefixtures("broker")
def test_a_member_that_dies_is_replaced_after_its_session(zookeeper, topic, group):
    sent = fill(zookeeper, topic)
    code = f"""
from klamm.legacy import GroupConsumer07
consumer = GroupConsumer07("{zookeeper.hosts}", "{group}", ["{topic}"], session_timeout={SESSION}, consumer_id="a")
while not consumer.poll(): pass
print("has read", flush=True)
input()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as dies:
        assert dies.stdout.readline() == b"has read\n"
        lives = member(zookeeper, group, topic, consumer_id="b")
        eventually(lambda: len(lives.assignment()) == 2)
        dies.kill()
    eventually(lambda: len(lives.assignment()) == 4)
    # What it had not committed is read again.
    assert set(payloads(read([lives], 40))) == set(sent)
    lives.close()


@pytest.mark.usefixtures("broker")
def test_a_member_releases_its_partitions_when_its_session_expires_and_rejoins(zookeeper, tree, topic, group):
    sent = fill(zookeeper, topic)
    with member(zookeeper, group, topic, consumer_id="a") as consumer:
        assert len(read([consumer], 40)) == 40
        consumer.commit()
        before = consumer._session
        expire(consumer._client)
        eventually(lambda: consumer._session not in (None, before))
        eventually(lambda: len(consumer.assignment()) == 4)
        assert len(owners(tree, group, topic)) == 4
        more = fill(zookeeper, topic, 6)
        assert payloads(read([consumer], 6)) == more
    assert len(sent) == 40


def test_a_failing_thread_releases_its_partitions_and_reports_its_error(zookeeper, tree, group, monkeypatch):
    consumer = member(zookeeper, group, "t", consumer_id="a")
    eventually(lambda: tree.exists(f"/consumers/{group}/ids/{group}_a"))
    monkeypatch.setattr(consumer, "_process_inputs", lambda: 1 / 0)
    eventually(lambda: consumer._failure is not None)
    with pytest.raises(KafkaError, match="ZeroDivisionError"):
        consumer.poll(0)
    eventually(lambda: tree.exists(f"/consumers/{group}/ids/{group}_a") is None)
    with pytest.raises(KafkaError, match="ZeroDivisionError"):
        consumer.close()


def test_a_member_does_not_live_in_a_forked_child(zookeeper, group):
    with member(zookeeper, group, "t") as consumer:
        assert consumer.poll(0) == []
        child = os.fork()
        if child == 0:
            try:
                consumer.poll(0)
            except ForkedClientError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.usefixtures("broker")
def test_patterns_match_existing_and_new_topics(zookeeper, tree, topic, group):
    fill(zookeeper, f"{topic}-logs-a", 4)
    with (
        member(zookeeper, group, whitelist=f"{topic}-logs-[ab]", consumer_id="w") as white,
        member(zookeeper, f"{group}x", blacklist=rf"(?!{topic}-).*|.*-logs-b", streams=2, consumer_id="x") as black,
    ):
        eventually(lambda: len(white.assignment()) == 4)
        assert tree.get(f"/consumers/{group}/ids/{group}_w")[0] == b"*1*%s-logs-[ab]" % topic.encode()
        fill(zookeeper, f"{topic}-logs-b", 4)
        fill(zookeeper, f"{topic}-c", 4)
        eventually(lambda: len(white.assignment()) == 8)
        eventually(lambda: len(black.assignment()) == 8)
        assert {name[0] for name in black.assignment()} == {f"{topic}-logs-a", f"{topic}-c"}
        assert set(black.assignment().values()) == {0, 1}


@pytest.mark.usefixtures("broker")
def test_a_deleted_offset_is_reset_and_committed(zookeeper, tree, topic, group):
    fill(zookeeper, topic, 8)
    for name in ("1-0", "1-1", "2-0", "2-1"):
        tree.create(f"/consumers/{group}/offsets/{topic}/{name}", b"1000000", makepath=True)
    with member(zookeeper, group, topic, auto_offset_reset="latest") as consumer:
        eventually(lambda: len(consumer.assignment()) == 4)
        assert consumer.poll(1) == []
        eventually(lambda: int(tree.get(f"/consumers/{group}/offsets/{topic}/1-0")[0]) < 1000)


def test_a_producer_follows_new_partitions_and_dead_brokers(zookeeper, topic, tree):
    hosts = f"{zookeeper.hosts}/{topic}"
    tree.ensure_path(f"/{topic}")
    with pytest.raises(NetworkError, match="no broker"), legacy.Producer07(zookeeper=hosts) as producer:
        producer.send("t", b"v")
    with (
        DevBroker(brokers=2, as_version="0.7.0", default_partitions=3, zookeeper=hosts) as broker,
        legacy.Producer07(zookeeper=hosts, partitioner=lambda key, count: key % count) as producer,
    ):
        assert producer._registry.partitions("t") == [(1, 0), (2, 0)]
        producer.send("t", b"v", key=0)
        # Partition 0 of the other broker stays, although that broker has not registered the topic.
        eventually(lambda: producer._registry.partitions("t") == [(1, 0), (1, 1), (1, 2), (2, 0)])
        producer.send("t", b"w", key=2)
        producer.flush(confirm=True)
        with legacy.Consumer07(broker.bootstrap_servers.split(",")[0]) as consumer:
            assert [m.payload for m in consumer.messages("t", 2, 0)] == [b"w"]
        broker.kill(1)
        eventually(lambda: producer._registry.partitions("t") == [(2, 0)])
        broker.start(1)
        eventually(lambda: producer._registry.partitions("t") == [(1, 0), (1, 1), (1, 2), (2, 0)])


def test_a_group_survives_a_restart_of_zookeeper_during_a_rebalance():
    try:
        zookeeper = RealZooKeeper().start()
    except KafkaUnavailable as why:
        pytest.skip(f"no ZooKeeper: {why}")
    with zookeeper, DevBroker(as_version="0.7.2", default_partitions=8, zookeeper=zookeeper.hosts) as broker:
        with legacy.Producer07(zookeeper=zookeeper.hosts) as producer:
            producer.send("t", b"first")
            eventually(lambda: len(producer._registry.partitions("t")) == 8)
            for number in range(80):
                producer.send("t", b"%d" % number, partition=number % 8)
        members = [member(zookeeper, "g", "t", session_timeout=4.0) for _ in range(2)]
        eventually(lambda: all(len(one.assignment()) == 4 for one in members))
        members.append(member(zookeeper, "g", "t", session_timeout=4.0))
        zookeeper.kill()
        assert broker.bootstrap_servers
        zookeeper.start()
        eventually(lambda: sorted(len(one.assignment()) for one in members) == [2, 3, 3])
        assert len(set().union(*(one.assignment() for one in members))) == 8
        assert {message.payload for message in read(members, 81)} >= {b"%d" % number for number in range(80)}
        for one in members:
            one.close()


def test_offsets_of_groups_of_0_8_are_by_partition(zookeeper, tree, group):
    name = klamm.TopicPartition("t", 3)
    with legacy.ZooKeeperOffsets(zookeeper.hosts, group) as offsets:
        assert offsets.read() == {}
        offsets.write({name: 17, klamm.TopicPartition("u", 0): 0})
        offsets.write({name: 18})
        assert offsets.read() == {name: 18, klamm.TopicPartition("u", 0): 0}
    assert kind(tree, f"/consumers/{group}/offsets/t/3") == ("P", b"18")


def test_without_kazoo_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(ConfigError, match=r"pip install 'klamm\[zookeeper\]'"):
        legacy.Producer07(zookeeper="127.0.0.1:1")


def test_no_zookeeper_is_a_network_error():
    with pytest.raises(NetworkError, match="in time"):
        legacy.GroupConsumer07("127.0.0.1:1", "g", ["t"], timeout=0.5)
