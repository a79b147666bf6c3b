"""`klamm top`: one sample as JSON and as tables."""

from __future__ import annotations

import json
import threading

import pytest

import klamm
from cli_process import klamm as command
from klamm.cli import top
from klamm.testing import DevBroker


@pytest.fixture
def busy(broker, topic):
    """A topic that a producer writes to, and a group that is behind."""
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"v"] * 100)
        producer.flush()
        with klamm.Consumer(
            broker.bootstrap_servers, topic, [topic], auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer:
            while not (records := consumer.poll(20, 10)):
                pass
            assert records
            consumer.commit()
        stop = threading.Event()

        def write():
            while not stop.wait(0.01):
                producer.send_nowait(topic, b"v")

        writer = threading.Thread(target=write)
        writer.start()
        yield topic
        stop.set()
        writer.join(10)


def test_one_sample_as_json_has_brokers_throughput_groups_and_hot_partitions(broker, busy):
    done = command("top", "-b", broker.bootstrap_servers, "--json", "--interval", "0.5")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    with klamm.Admin(broker.bootstrap_servers) as admin:
        nodes = {node.id for node in admin.describe_cluster().brokers}
    assert {each["id"] for each in found["brokers"]} == nodes
    assert found["records_in_per_second"] > 0
    assert sum(each["records_per_second"] for each in found["brokers"]) == pytest.approx(found["records_in_per_second"])
    (group,) = (each for each in found["groups"] if each["group"] == busy)
    assert group["lag"] >= 90
    hot = next(each for each in found["hot_partitions"] if each["topic"] == busy)
    assert hot["records_per_second"] > 0
    assert hot["leader"] in nodes
    assert found["seconds"] >= 0.5


def test_without_a_terminal_one_sample_is_printed_as_tables(broker, busy):
    done = command("top", "-b", broker.bootstrap_servers, "--interval", "0.2")
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    for section in ("brokers", "groups", "hot partitions", "under replicated"):
        assert f"\n{section}\n" in text
    assert busy in text


def test_partitions_without_all_replicas_are_listed():
    with DevBroker(brokers=3) as dev, klamm.Admin(dev.bootstrap_servers) as admin:
        admin.create_topics({"t": klamm.NewTopic(partitions=3, replication_factor=3)}, wait=True)
        dev.kill(2)
        with klamm.Consumer(dev.bootstrap_servers) as consumer:
            found = top.compare(top.look(admin, consumer), top.look(admin, consumer))
    assert {(each["topic"], each["partition"]) for each in found["under_replicated"]} >= {("t", 0), ("t", 1), ("t", 2)}
    assert all(2 not in each["isr"] for each in found["under_replicated"])


@pytest.mark.parametrize("interval", ["0", "-1", "soon", "99999"])
def test_a_wrong_interval_is_wrong_usage(interval):
    done = command("top", f"--interval={interval}")
    assert done.returncode == 2
    assert b"--interval" in done.stderr
