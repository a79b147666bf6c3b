"""Groups of other clients behave alike on the dev broker and Apache Kafka."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest

import klamm
from java_tools import TOOLS, java
from klamm.testing import DevBroker
from members import PARTITIONS, TIMEOUT, Aiokafka, Confluent, Klamm, read, settle, sixty_records
from settled import until

confluent_kafka = pytest.importorskip("confluent_kafka")
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource  # noqa: E402


@pytest.fixture
def topic(topic, broker):
    return sixty_records(broker, topic)


# Not kafka-python 3.0.12: of two in one group the first sometimes goes on with all partitions, on Apache Kafka, too. In groups
# with klamm it is in `test_mixed_groups.py`.
KINDS = {
    "confluent": (Confluent, {"heartbeat_interval_ms": 300}),
    "confluent-cooperative": (
        Confluent,
        {"heartbeat_interval_ms": 300, "partition_assignment_strategy": "cooperative-sticky"},
    ),
    "confluent-consumer-protocol": (Confluent, {"group_protocol": "consumer"}),
    "aiokafka": (Aiokafka, {}),
}


@pytest.fixture(params=KINDS)
def join(request, broker, topic):
    """Creates members of one group and closes them with the test."""
    kind, config = KINDS[request.param]
    with ExitStack() as stack:
        yield lambda **more: stack.enter_context(closing(kind(broker, f"{topic}-group", topic, **config, **more)))


def test_members_come_and_go_and_every_record_is_read_once(join, broker, topic):
    first = join()
    values = read([first], 60)
    assert first.partitions() == set(range(PARTITIONS))
    first.commit()
    second = join()
    assert settle([first, second]) == [], "what was committed is not read again"
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for n in range(60, 120):
            producer.send_nowait(topic, b"%d" % n, partition=n % PARTITIONS)
    values += read([first, second], 60)
    assert sorted(map(int, values)) == list(range(120))
    second.commit()
    first.commit()
    first.close()
    assert settle([second]) == []
    third = join()
    assert settle([second, third]) == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_comes_back_to_what_it_had(broker, topic, protocol):
    config = {"group_protocol": protocol}
    if protocol == "classic":
        config["heartbeat_interval_ms"] = 300
    group = f"{topic}-group"
    with closing(Confluent(broker, group, topic, group_instance_id="one", **config)) as one:
        with closing(Confluent(broker, group, topic, group_instance_id="two", **config)) as two:
            settle([one, two])
            had, others = two.partitions(), one.partitions()
        with closing(Confluent(broker, group, topic, group_instance_id="two", **config)) as returned:
            settle([one, returned])
            assert (returned.partitions(), one.partitions()) == (had, others)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_continue_with_another_coordinator(protocol):
    config = {"group_protocol": protocol}
    if protocol == "classic":
        config["heartbeat_interval_ms"] = 300
    with DevBroker(brokers=3) as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"topic": klamm.NewTopic(partitions=PARTITIONS)})
        broker.move_coordinator("group", 1)
        with (
            closing(Confluent(broker, "group", "topic", **config)) as one,
            closing(Confluent(broker, "group", "topic", **config)) as two,
        ):
            settle([one, two])
            shares = (one.partitions(), two.partitions())
            for interrupt in (lambda: broker.move_coordinator("group", 2), lambda: broker.kill(2)):
                interrupt()
                with klamm.Producer(broker.bootstrap_servers) as producer:
                    for n in range(60):
                        producer.send_nowait("topic", b"%d" % n, partition=n % PARTITIONS)
                assert sorted(map(int, read([one, two], 60))) == list(range(60))
                one.commit()
                two.commit()
                assert (one.partitions(), two.partitions()) == shares, "no member had to join again"


@pytest.mark.parametrize("kind", [Confluent, Klamm])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafkas_own_tool_lists_describes_resets_and_deletes(broker, topic, protocol, kind):
    group = f"{topic}-group"
    config = {"group_protocol": protocol}
    with closing(kind(broker, group, topic, **config)) as member:
        read([member], 60)
        member.commit()

        assert group in tool(broker, "--list")
        described = tool(broker, "--describe", "--group", group)
        rows = [line.split() for line in described.splitlines() if line.startswith(group)]
        assert [(row[1], row[3], row[4], row[5]) for row in sorted(rows, key=lambda row: int(row[2]))] == [
            (topic, "10", "10", "0")
        ] * PARTITIONS
        state = tool(broker, "--describe", "--group", group, "--state")
        assert "Stable" in state
        assert "range" in state or "uniform" in state
        members = tool(broker, "--describe", "--group", group, "--members")
        assert str(PARTITIONS) in members.splitlines()[-1].split()
        refused = tool(broker, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
        assert "inactive" in refused

    tool(broker, "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "4", "--execute")
    with klamm.Consumer(broker.bootstrap_servers, group_id=group) as consumer:
        tp = klamm.TopicPartition(topic, 0)
        assert consumer.committed([tp])[tp] == 4
    assert tool(broker, "--delete-offsets", "--group", group, "--topic", topic).count("Successful") == PARTITIONS
    assert "successful" in tool(broker, "--delete", "--group", group)
    assert group not in tool(broker, "--list").split()


def test_share_consumers_get_every_record_once(broker, topic):
    with closing(sharing(broker, topic)) as first, closing(sharing(broker, topic)) as second:
        found = []
        deadline = time.monotonic() + TIMEOUT
        while len(found) < 60:
            assert time.monotonic() < deadline, f"only {len(found)} records came"
            for consumer in (first, second):
                found += [message.value() for message in consumer.poll(0.2)]
        assert sorted(map(int, found)) == list(range(60))


def test_a_share_consumer_accepts_releases_and_rejects(broker, topic):
    accept, release, reject = (confluent_kafka.AcknowledgeType[name] for name in ("ACCEPT", "RELEASE", "REJECT"))
    with closing(sharing(broker, topic, share_acknowledgement_mode="explicit")) as consumer:
        seen = Counter()
        deadline = time.monotonic() + TIMEOUT
        while seen.total() < 70:
            assert time.monotonic() < deadline, f"only {seen} came"
            for message in consumer.poll(0.5):
                n = int(message.value())
                seen[n] += 1
                kind = release if n < 10 and seen[n] == 1 else reject if n >= 50 else accept
                consumer.acknowledge(message, kind)
        consumer.commit_sync(10.0)
        assert seen == Counter({n: 2 if n < 10 else 1 for n in range(60)})
        assert list(consumer.poll(1.0)) == []


def sharing(broker, topic, **config):
    """A member of a share group that starts with the first record."""
    group = f"{topic}-group"
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[earliest])
    admin = AdminClient(servers)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(TIMEOUT)
    with klamm.Admin(broker.bootstrap_servers) as klamms:
        until(lambda: klamms.describe_configs("group", group)["share.auto.offset.reset"].value == "earliest")
    named = {key.replace("_", "."): value for key, value in config.items()}
    consumer = confluent_kafka.ShareConsumer({**servers, "group.id": group, **named})
    consumer.subscribe([topic])
    return consumer


def test_kafkas_own_share_consumer_reads(broker, topic):
    group = f"{topic}-group"
    arguments = ["--topic", topic, "--group", group, "--max-messages", "5", "--timeout-ms", "30000"]
    with (
        started("ConsoleShareConsumer", broker, *arguments) as reader,
        klamm.Producer(broker.bootstrap_servers) as producer,
    ):
        while reader.poll() is None:
            producer.send_nowait(topic, b"shared")
            with suppress(subprocess.TimeoutExpired):
                reader.wait(0.2)
        out, error = reader.communicate()
    assert out.split() == ["shared"] * 5, error
    assert "Processed a total of 5 messages" in error


def tool(broker, *arguments):
    """Return the output of kafka-consumer-groups."""
    with started("ConsumerGroups", broker, *arguments) as process:
        out, error = process.communicate(timeout=60)
    return out + error


@contextmanager
def started(name, broker, *arguments):
    """Start one of Kafka's tools, and kill it at the end."""
    command = [*java(), TOOLS[name], "--bootstrap-server", broker.bootstrap_servers, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
