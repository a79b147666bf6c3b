"""Access control lists and quotas that other clients' tools set, on the dev broker and on Kafka."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

import klamm
from by_hand import Line
from java_tools import java_tool
from klamm.errors import (
    BrokerError,
    ClusterAuthorizationFailedError,
    ConfigError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
from klamm.testing import DevBroker
from secured import ADMIN, USER
from settled import configure_group, until

confluent_kafka = pytest.importorskip("confluent_kafka")

from confluent_kafka import admin as confluent_admin  # noqa: E402 - only if it is there

ALLOW, DENY = confluent_admin.AclPermissionType.ALLOW, confluent_admin.AclPermissionType.DENY
LITERAL, PREFIXED = confluent_admin.ResourcePatternType.LITERAL, confluent_admin.ResourcePatternType.PREFIXED
READ, WRITE = confluent_admin.AclOperation.READ, confluent_admin.AclOperation.WRITE
TOPIC, GROUP = confluent_admin.ResourceType.TOPIC, confluent_admin.ResourceType.GROUP


def rule(kind, name, operation, permission=ALLOW, *, user=USER, pattern=LITERAL):
    return confluent_admin.AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)


def outcome(work):
    try:
        work()
    except BrokerError as error:
        return type(error)
    return None


class Rules:
    """Lets the super user change rules and checks what alice may do."""

    def __init__(self, secured, topic):
        self.config = secured.config("SASL_PLAINTEXT", "PLAIN")
        self.admin = confluent_admin.AdminClient({**self.config, "sasl.username": ADMIN, "log_level": 0})
        self.topic, self.group = topic, f"g-{topic}"
        self._rules = []

    def add(self, *rules):
        for future in self.admin.create_acls(list(rules), request_timeout=20).values():
            future.result(20)
        self._rules += rules

    def remove(self, found):
        removed = self.admin.delete_acls([found], request_timeout=20)[found].result(20)
        return [(acl.name, acl.operation) for acl in removed]

    def find(self, **named):
        everything = confluent_admin.ResourcePatternType.ANY
        fields = {"restype": TOPIC, "name": None, "resource_pattern_type": everything, "principal": None, **named}
        anything = (confluent_admin.AclOperation.ANY, confluent_admin.AclPermissionType.ANY)
        return confluent_admin.AclBindingFilter(*fields.values(), None, *anything)

    def produce(self):
        with klamm.Producer(self.config) as producer:
            return outcome(lambda: producer.send(self.topic, b"v").result(20))

    def consume(self):
        with klamm.Consumer(self.config) as consumer:
            tp = klamm.TopicPartition(self.topic, 0, offset=0)
            consumer.assign([tp])
            return outcome(lambda: consumer.poll(timeout=20, max_records=1))

    def commit(self):
        with klamm.Consumer(self.config, self.group) as consumer:
            return outcome(lambda: consumer.commit({klamm.TopicPartition(self.topic, 0): 1}))


@pytest.fixture
def rules(secured, topic):
    return Rules(secured, topic)


def test_rules_decide_who_may_write_and_read(rules):
    assert rules.produce() is None
    rules.add(rule(TOPIC, rules.topic, READ))
    until(lambda: rules.produce() is TopicAuthorizationFailedError)
    assert rules.consume() is None
    rules.add(rule(TOPIC, rules.topic, WRITE, user="*"))
    until(lambda: rules.produce() is None)
    rules.add(rule(TOPIC, rules.topic[:-1], READ, DENY, pattern=PREFIXED))
    until(lambda: rules.consume() is TopicAuthorizationFailedError)
    match = rules.find(name=rules.topic, resource_pattern_type=confluent_admin.ResourcePatternType.MATCH)
    found = rules.admin.describe_acls(match, request_timeout=20).result(20)
    assert sorted((acl.name, acl.operation, acl.permission_type == DENY) for acl in found) == sorted(
        [(rules.topic, READ, False), (rules.topic, WRITE, False), (rules.topic[:-1], READ, True)]
    )
    assert rules.remove(rules.find(name=rules.topic[:-1])) == [(rules.topic[:-1], READ)]
    until(lambda: rules.consume() is None)
    assert len(rules.remove(match)) == 2
    until(lambda: rules.produce() is None)


def test_a_reader_without_describe_raises_wherever_reading_starts(rules):
    assert rules.produce() is None
    rules.add(rule(TOPIC, rules.topic, READ, user="bob"))
    until(lambda: rules.produce() is TopicAuthorizationFailedError)
    assert rules.consume() is TopicAuthorizationFailedError
    rules.add(rule(TOPIC, rules.topic, READ))
    until(lambda: rules.consume() is None)
    assert len(rules.remove(rules.find(name=rules.topic))) == 2


def test_rules_decide_who_may_commit(rules):
    assert rules.produce() is None
    rules.add(rule(GROUP, rules.group, READ, user="bob"))
    until(lambda: rules.commit() is GroupAuthorizationFailedError)
    rules.add(rule(GROUP, rules.group, READ))
    until(lambda: rules.commit() is None)
    assert len(rules.remove(rules.find(restype=GROUP, name=rules.group))) == 2


def test_only_the_super_user_creates_rules(rules):
    cluster = confluent_admin.ResourceType.BROKER
    alter = confluent_admin.AclOperation.ALTER
    rules.add(rule(cluster, "kafka-cluster", alter, DENY))
    alice = confluent_admin.AdminClient({**rules.config, "log_level": 0})

    def refused():
        binding = rule(TOPIC, rules.topic, READ)
        try:
            alice.create_acls([binding], request_timeout=20)[binding].result(20)
        except confluent_kafka.KafkaException as error:
            return error.args[0].name() == "CLUSTER_AUTHORIZATION_FAILED"
        return False

    until(refused)
    assert len(rules.remove(rules.find(restype=cluster, name="kafka-cluster"))) == 1
    rules.remove(rules.find(name=rules.topic))


@pytest.mark.parametrize("shown", ["admin", "alice"])
def test_a_certificate_identifies_the_client(shown):
    with DevBroker(tls=True, client_auth=True, super_users=["CN=admin"]) as broker:
        config = broker.client_config(shown)
        with klamm.Producer(config) as producer:
            error = producer.send("t", b"v").exception(timeout=20)
    assert (error is None) == (shown == "admin"), error


def test_rules_survive_a_restart(tmp_path):
    for _ in range(2):
        with DevBroker(super_users=["ANONYMOUS"], data_dir=tmp_path) as broker:
            admin = confluent_admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            everything = Rules.find(None)
            found = admin.describe_acls(everything).result(20)
            if not found:
                binding = rule(TOPIC, "t", READ)
                admin.create_acls([binding])[binding].result(20)
    assert [(acl.name, acl.principal) for acl in found] == [("t", "User:alice")]


def test_access_for_everyone_without_acls_needs_super_users():
    with pytest.raises(ConfigError, match="needs super_users"):
        DevBroker(allow_everyone_if_no_acl_found=True)


def test_kafkas_own_tool_makes_rules():
    with DevBroker(super_users=["ANONYMOUS"]) as broker:
        java_tool(
            "Acls", broker.bootstrap_servers, "--add", "--allow-principal", "User:alice", "--producer", "--topic", "t"
        )
        listed = java_tool("Acls", broker.bootstrap_servers, "--list")
    assert "principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW" in listed
    assert "ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)" in listed


def test_a_client_above_its_quota_is_throttled(broker, topic):
    name = f"fast-{topic}"
    entity = [{"entityType": "client-id", "entityName": name}]
    quota = [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}]
    with closing(Line.to(broker)) as ask:
        answer = ask("AlterClientQuotas", 1, {"entries": [{"entity": entity, "ops": quota}], "validateOnly": False})
        assert [entry["errorCode"] for entry in answer["entries"]] == [0]
        component = {"entityType": "client-id", "matchType": 0, "match": name}

        def found():
            entries = ask("DescribeClientQuotas", 1, {"components": [component], "strict": True})["entries"]
            return [quota for entry in entries for quota in entry["values"]]

        until(lambda: found() == [{"key": "producer_byte_rate", "value": 1000.0}])
    throttled = threading.Event()
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": name}
    producer = confluent_kafka.Producer({**settings, "throttle_cb": lambda _: throttled.set()})

    def produce():
        producer.produce(topic, b"v" * 10_500)
        producer.flush(20)
        producer.poll(0.1)
        return throttled.is_set()

    until(produce)


def test_share_groups_begin_where_kafkas_own_tool_says(broker, topic):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for n in range(5):
            producer.send(topic, b"%d" % n, partition=0).result(timeout=20)
    group = f"s-{topic}"
    output = java_tool(
        "ShareGroups",
        broker.bootstrap_servers,
        "--reset-offsets",
        "--to-earliest",
        "--execute",
        "--group",
        group,
        "--topic",
        topic,
    )
    assert topic in output
    with klamm.ShareConsumer(broker.bootstrap_servers, group, [topic]) as consumer:
        values = []
        until(lambda: values.extend(r.value for r in consumer.poll(timeout=0.5)) or len(values) >= 5)
    assert values == [b"%d" % n for n in range(5)]
    output = java_tool("ShareGroups", broker.bootstrap_servers, "--describe", "--offsets", "--group", group)
    assert topic in output
    output = java_tool("ShareGroups", broker.bootstrap_servers, "--delete-offsets", "--group", group, "--topic", topic)
    assert "Successful" in output, output


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_an_unauthorized_member_raises_and_resumes_when_it_is_authorized(rules, kind):
    """The member stays in the group, as with Java's consumer (KAFKA-18813)."""
    assert rules.produce() is None
    rules.add(rule(TOPIC, rules.topic, READ, user="bob"))
    until(lambda: rules.produce() is TopicAuthorizationFailedError)
    if kind == "consumer":
        config = {**rules.config, "group.protocol": "consumer", "auto.offset.reset": "earliest"}
        reader = klamm.Consumer(config, rules.group, [rules.topic])
    else:
        with klamm.Admin({**rules.config, "sasl.username": ADMIN}) as admin:
            configure_group(admin, rules.group, {"share.auto.offset.reset": "earliest"})
        reader = klamm.ShareConsumer(rules.config, rules.group, [rules.topic])
    with reader as consumer:
        values = []

        def poll():
            try:
                values.extend(record.value for record in consumer.poll(timeout=0.5))
            except TopicAuthorizationFailedError as error:
                return str(error)
            return ""

        # A request about the topic reports the error, too.
        until(lambda: "heartbeat" in poll())
        rules.add(rule(TOPIC, rules.topic, READ))
        until(lambda: poll() == "" and values)
    assert values == [b"v"]
    assert len(rules.remove(rules.find(name=rules.topic))) == 2


@pytest.mark.parametrize("release", ["2.4", "2.8"])
def test_idempotence_by_default_needs_no_rule_of_its_own(release):
    """Before 2.8 (KIP-679), idempotence needs IDEMPOTENT_WRITE on the cluster."""
    users = {"PLAIN": {"admin": "secret", "alice": "secret"}}
    with DevBroker(as_version=release, sasl=users, super_users=["admin"]) as broker:
        with klamm.Admin(broker.client_config("admin")) as admin:
            admin.create_topics({"t": klamm.NewTopic()})
        acls = confluent_admin.AdminClient({**broker.client_config("admin"), "log_level": 0})
        bindings = [rule(TOPIC, "t", WRITE), rule(TOPIC, "t", confluent_admin.AclOperation.DESCRIBE)]
        for made in acls.create_acls(bindings, request_timeout=20).values():
            made.result(20)
        for given, is_refused in (({}, False), ({"enable_idempotence": True}, release == "2.4")):
            with klamm.Producer(broker.client_config("alice"), **given) as producer:
                error = producer.send("t", b"v").exception(20)
            assert isinstance(error, ClusterAuthorizationFailedError) == is_refused, error
            assert not is_refused or "enable.idempotence=false" in error.hint


@pytest.mark.parametrize("name", ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"])
def test_a_rejected_producer_learns_which_acl_it_needs(name):
    with DevBroker() as broker:
        broker.fail_next("InitProducerId", error=name, times=None)
        producer = klamm.Producer(broker.bootstrap_servers, transactional_id="x")
        with producer, pytest.raises(BrokerError, match=name) as caught:
            producer.init_transactions()
        assert "ACL" in caught.value.hint


@pytest.mark.parametrize("kind", ["classic", "consumer", "share"])
def test_a_member_that_may_not_use_its_group_for_a_moment_reads_on_when_it_may(rules, kind):
    with klamm.Admin({**rules.config, "sasl.username": ADMIN}) as admin:
        admin.create_topics({rules.topic: klamm.NewTopic(partitions=1)})
        configure_group(admin, rules.group, {"share.auto.offset.reset": "earliest"})
    assert rules.produce() is None
    config = {"auto.offset.reset": "earliest", "group.protocol": kind} if kind != "share" else {}
    if kind == "classic":
        config["heartbeat.interval.ms"] = 300
    made = klamm.ShareConsumer if kind == "share" else klamm.Consumer
    with made({**rules.config, **config}, rules.group, [rules.topic]) as consumer:
        until(lambda: consumer.poll(0.1))
        rules.add(rule(GROUP, rules.group, READ, DENY))
        until(lambda: outcome(lambda: consumer.poll(1)) is GroupAuthorizationFailedError)
        assert len(rules.remove(rules.find(restype=GROUP, name=rules.group))) == 1
        assert rules.produce() is None
        found = []

        def has_read_on():
            return outcome(lambda: found.extend(consumer.poll(0.1))) is None and found and found[-1].offset == 1

        until(has_read_on)
        # A share group delivers a record again if its acknowledgement was refused.
        assert [record.offset for record in found] in ([[1], [0, 1]] if kind == "share" else [[1]])
