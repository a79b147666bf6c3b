"""klamm's admin client and Java's return the same, on the same cluster."""

from __future__ import annotations

import pytest

import klamm
from java_tools import java_source, java_tool
from kafka_broker import RealKafka
from klamm.admin import (
    AclBinding,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResource,
    ConfigResource,
    ConfigSource,
    OffsetSpec,
    QuotaEntity,
    QuotaName,
)
from running import or_skip
from settled import until

# Java's names where they differ from those of klamm and of the protocol.
SOURCES = {
    ConfigSource.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    ConfigSource.BROKER_DYNAMIC: "DYNAMIC_BROKER_CONFIG",
    ConfigSource.BROKERS_DYNAMIC: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    ConfigSource.BROKER_FILE: "STATIC_BROKER_CONFIG",
    ConfigSource.DEFAULT: "DEFAULT_CONFIG",
    ConfigSource.CLIENT_METRICS: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP: "DYNAMIC_GROUP_CONFIG",
}
SPECS = [OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP, OffsetSpec.EARLIEST_LOCAL]
SPECS += [OffsetSpec.LATEST_TIERED, 1005]
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def kafka():
    """A node of Apache Kafka with access rules."""
    with or_skip(RealKafka(config=CONFIG)) as node:
        yield node


@pytest.fixture
def admin(kafka, topic):
    """An admin client of a cluster that has something of each type."""
    with klamm.Admin(kafka.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(2, configs={"retention.ms": "1000000"})}, wait=True)
        admin.alter_configs("broker", "1", {"log.cleaner.threads": 2})
        admin.alter_configs("broker", "", {"log.retention.ms": 2_000_000})
        rules = [
            AclBinding(AclResource.TOPIC, topic, "User:a", AclOperation.READ),
            AclBinding(
                AclResource.GROUP,
                "g",
                "User:b",
                AclOperation.ALL,
                permission=AclPermission.DENY,
                host="10.0.0.1",
                pattern=AclPatternType.PREFIXED,
            ),
        ]
        admin.create_acls(rules)
        admin.alter_client_quotas(
            {
                QuotaEntity(user="a", client_id=QuotaName.DEFAULT): {"producer_byte_rate": 1024.0},
                QuotaEntity(user="a"): {"request_percentage": 50.5, "consumer_byte_rate": 1.0},
                QuotaEntity(ip=QuotaName.DEFAULT): {"connection_creation_rate": 7.0},
            }
        )
        # The broker learns of changes in their order, a moment after the controller.
        until(lambda: QuotaEntity(ip=QuotaName.DEFAULT) in admin.describe_client_quotas())
        with klamm.Producer(kafka.bootstrap_servers) as producer:
            for number in range(10):
                producer.send(topic, b"v", partition=0, timestamp_ms=1000 + (number * 7) % 10)
        with klamm.Producer(kafka.bootstrap_servers, transactional_id=topic) as producer:
            with producer.transaction():
                producer.send(topic, b"v", partition=1, timestamp_ms=1)
            yield admin


def text(value):
    """Return a value as Java prints it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def results(admin, topic):
    """Yield the lines of AdminResults.java about configurations, rules and offsets."""
    resources = [ConfigResource("topic", topic), ConfigResource("broker", "1")]
    for resource, entries in admin.describe_resources(resources, synonyms=True).items():
        for each in entries.values():
            synonyms = ", ".join(f"{other.name}={text(other.value)}" for other in each.synonyms)
            yield (
                "config",
                resource.kind,
                each.name,
                each.value,
                SOURCES[each.source],
                each.read_only,
                each.sensitive,
                (each.type.name),
                f"[{synonyms}]",
            )
    for rule in admin.describe_acls():
        yield (
            "acl",
            rule.resource.name,
            rule.name,
            rule.pattern.name,
            rule.principal,
            rule.host,
            (rule.operation.name),
            rule.permission.name,
        )
    for spec in SPECS:
        name = spec.name if isinstance(spec, OffsetSpec) else spec
        for partition in (0, 1):
            tp = klamm.TopicPartition(topic, partition)
            found = admin.list_offsets({tp: spec})[tp]
            cells = (-1 if cell is None else cell for cell in (found.offset, found.timestamp_ms, found.leader_epoch))
            yield "offset", name, partition, *cells


def contents(admin, topic):
    """Yield the lines about topics, transactions, directories and quotas."""
    described = admin.describe_topics([topic])[topic]
    yield "topic", described.name, described.topic_id, described.internal
    for part in described.partitions:
        yield (
            "partition",
            part.partition,
            part.leader,
            part.replicas,
            part.isr,
            part.eligible_leaders,
            (part.last_known_eligible),
        )
    for each in admin.list_transactions():
        yield "transaction", each.transactional_id, each.producer_id, each.state
    for path, directory in admin.describe_log_dirs([1])[1].items():
        yield "dir", path, directory.total_bytes
        for tp, replica in directory.replicas.items():
            if tp.topic == topic:
                yield "replica", path, tp.partition, replica.size, replica.offset_lag, replica.is_future
    for entity, quotas in admin.describe_client_quotas().items():
        parts = {"client-id": entity.client_id, "ip": entity.ip, "user": entity.user}
        named = {kind: None if name is QuotaName.DEFAULT else name for kind, name in parts.items() if name is not None}
        yield "quota", pairs(named), pairs(quotas)


def pairs(values):
    """Return a dict as Java prints a map."""
    return "{" + ", ".join(f"{key}={text(value)}" for key, value in sorted(values.items())) + "}"


def test_java_returns_the_same(kafka, admin, topic):
    printed = sorted(java_source("AdminResults.java", kafka.bootstrap_servers, topic).splitlines())
    ours = sorted("\t".join(map(text, cells)) for cells in (*results(admin, topic), *contents(admin, topic)))
    assert {line.split("\t")[0] for line in ours} == {
        "acl",
        "config",
        "dir",
        "offset",
        "partition",
        "quota",
        "replica",
        "topic",
        "transaction",
    }
    assert ours == printed


CHANGES = {
    "topic": {"retention.ms": 1_000_000, "cleanup.policy": "compact,delete"},
    "broker": {"log.cleaner.threads": 2},
    "": {"log.retention.ms": 2_000_000},
    "group": {"share.auto.offset.reset": "earliest"},
    "client-metrics": {"interval.ms": 60_000},
}


@pytest.mark.parametrize("kind", CHANGES)
def test_kafka_configs_prints_the_same(kafka, topic, kind):
    servers = kafka.bootstrap_servers
    name = {"topic": topic, "broker": "1", "": ""}.get(kind, "some")
    entity = {"": "brokers", "client-metrics": kind}.get(kind, f"{kind}s")
    where = ["--entity-type", entity, *(["--entity-name", name] if name else ["--entity-default"])]
    changes = ",".join(f"{key}=[{value}]" for key, value in CHANGES[kind].items())
    with klamm.Admin(servers) as admin:
        admin.create_topics({topic: klamm.NewTopic()}, wait=True)
        java_tool("Configs", servers, *where, "--alter", "--add-config", changes)
        printed = java_tool("Configs", servers, *where, "--describe", *(["--all"] if name else []))
        resource = ConfigResource(kind or "broker", name)
        entries = admin.describe_resources([resource], synonyms=True)[resource]
    assert {key: entries[key].value for key in CHANGES[kind]} == {
        key: str(value) for key, value in CHANGES[kind].items()
    }
    assert printed.splitlines()[1:] == [printed_line(entries[key]) for key in sorted(entries)]


def printed_line(entry):
    """Return a setting as kafka-configs prints it."""
    synonyms = ", ".join(f"{SOURCES[each.source]}:{each.name}={text(each.value)}" for each in entry.synonyms)
    return f"  {entry.name}={text(entry.value)} sensitive={text(entry.sensitive)} synonyms={{{synonyms}}}"
