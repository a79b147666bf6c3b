"""Two releases of Kafka's own client and its tools, against the dev broker."""

from __future__ import annotations

import re

import pytest

import klamm
from java_tools import CLIENTS, java_source, java_tool

# Half a dozen programs one after the other, and Maven before them where nothing was fetched yet.
pytestmark = pytest.mark.timeout(300)

PARTITIONS = 3
COUNT = 2_000


@pytest.fixture(params=CLIENTS)
def version(request):
    return request.param


@pytest.fixture
def servers(dev_broker):
    return dev_broker.bootstrap_servers


def numbers(servers, topic, **config):
    """Return the values of each partition."""
    found = {}
    for row in klamm.read_table(servers, topic, columns=["partition", "value"], **config).to_pylist():
        found.setdefault(row["partition"], []).append(row["value"])
    return found


def test_the_tools_make_a_topic_fill_it_and_read_it_in_a_group(servers, topic, version):
    def tool(name, *arguments):
        return java_tool(name, servers, *arguments, version=version)

    tool("Topics", "--create", "--topic", topic, "--partitions", str(PARTITIONS), "--replication-factor", "3")
    described = tool("Topics", "--describe", "--topic", topic)
    assert f"PartitionCount: {PARTITIONS}" in described
    assert len(re.findall(r"Leader: [123]\s.*Isr: [123],[123],[123]", described)) == PARTITIONS

    written = java_tool(
        "ProducerPerformance",
        "",
        *("--topic", topic, "--num-records", str(COUNT), "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={servers}", "acks=all", "compression.type=lz4", "linger.ms=1"),
        version=version,
    )
    assert f"{COUNT} records sent" in written
    values = [value for found in numbers(servers, topic).values() for value in found]
    assert len(values) == COUNT

    group = f"{topic}-group"
    arguments = ["--topic", topic, "--group", group, "--from-beginning", "--timeout-ms", "30000"]
    read = tool("ConsoleConsumer", *arguments, "--max-messages", str(COUNT))
    assert sorted(read.encode().split()) == sorted(values)
    # By itself the tool waits for 5 s and no longer.
    described = tool("ConsumerGroups", "--describe", "--group", group, "--timeout", "50000")
    rows = [row for row in map(str.split, described.splitlines()) if row[:2] == [group, topic]]
    assert len(rows) == PARTITIONS, described
    assert sum(int(row[3]) for row in rows) == COUNT
    assert {row[5] for row in rows} == {"0"}


def test_a_copy_in_transactions_has_every_record_once(servers, topic, version):
    copy = f"{topic}-copy"
    with klamm.Admin(servers) as admin, klamm.Producer(servers) as producer:
        admin.create_topics({name: klamm.NewTopic(partitions=PARTITIONS) for name in (topic, copy)})
        for n in range(COUNT):
            producer.send_nowait(topic, b"%d" % n, partition=n % PARTITIONS)
    group, protocol = f"{topic}-group", "classic" if version < "4" else "consumer"
    java_source("Copy.java", servers, topic, copy, str(COUNT), group, protocol, version=version)
    assert numbers(servers, copy, isolation_level="read_committed") == numbers(servers, topic)
    assert sum(map(len, numbers(servers, copy).values())) > COUNT, "some transactions were aborted"
    with klamm.Admin(servers) as admin:
        assert sum(admin.group_offsets(group).values()) == COUNT
