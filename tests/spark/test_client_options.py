"""Options that begin with `kafka.`: each option of Java's clients is accepted, ignored, or rejected with a hint."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

import klamm
from java_tools import java_source
from klamm.errors import ConfigError
from klamm.spark.client_options import (
    ACCEPTED_VALUES,
    IGNORED,
    IGNORED_PREFIXES,
    REJECTED,
    ROLES,
    UNSUPPORTED,
    client_config,
)

PARTITIONS = 4
NOWHERE = "127.0.0.1:1"

CLIENTS = {"consumer": klamm.Consumer, "producer": klamm.Producer}

# Of Java's clients, and meant for tests of Kafka's or for what klamm's clients do not do: unknown, as anything misspelt.
UNKNOWN = {
    "internal.throw.on.fetch.stable.offset.unsupported",
    "sasl.oauthbearer.allow.unverified.audience",
    "sasl.oauthbearer.allow.unverified.issuer",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
}


def test_every_key_of_javas_clients_is_classified():
    lines = java_source("ConfigNames.java").splitlines()
    assert len(lines) > 200
    placeless = []
    for role, name in map(str.split, lines):
        is_placed = name in ROLES or name in REJECTED[role] or name in UNSUPPORTED or name in IGNORED
        if not is_placed and not name.startswith(IGNORED_PREFIXES):
            placeless.append(name)
    assert set(placeless) == UNKNOWN


@pytest.mark.parametrize("role", CLIENTS)
def test_keys_that_only_tune_javas_client_are_ignored_with_a_warning(role, caplog):
    given = {f"kafka.{name}": "1" for name in (*IGNORED, *(f"{family}x" for family in IGNORED_PREFIXES))}
    with caplog.at_level(logging.WARNING, "klamm.spark"):
        assert client_config(given, role, {"linger.ms": "1"}) == {"linger.ms": "1"}
    assert sorted(record.args[0] for record in caplog.records) == sorted(given)


@pytest.mark.parametrize("role", CLIENTS)
def test_keys_about_trust_or_partitions_are_rejected_with_a_hint(role):
    for name, hint in (REJECTED[role] | UNSUPPORTED).items():
        with pytest.raises(ConfigError, match=f"option 'kafka.{name}' is not supported") as refusal:
            client_config({f"kafka.{name}": "secret"}, role, {})
        assert refusal.value.hint == hint
        assert "secret" not in str(refusal.value)


JAVA_PARTITIONERS = [
    ("internals.DefaultPartitioner", 1),
    ("RoundRobinPartitioner", PARTITIONS),
]


@pytest.mark.spark
@pytest.mark.parametrize(("name", "expected"), JAVA_PARTITIONERS)
def test_a_write_accepts_javas_own_partitioners(dev, topic, name, expected):
    """Depending on the partitioner, a key goes to one partition by its hash, or to each partition in turn."""
    dev.create(topic, partitions=PARTITIONS)
    rows = dev.spark.range(0, 3 * PARTITIONS, 1, 1).selectExpr(
        "cast('the same' as binary) as key", "cast(id as string) as value"
    )
    option = {"kafka.partitioner.class": f"org.apache.kafka.clients.producer.{name}"}
    dev.write(rows, topic=topic, **option)
    written = Counter(record.partition for record in dev.records(topic))
    assert [*written.values()] == [3 * PARTITIONS // expected] * expected
    assert dev.read(subscribe=topic, **option).count() == 3 * PARTITIONS


@pytest.mark.parametrize("name", sorted(ACCEPTED_VALUES["partitioner.class"]))
def test_every_accepted_partitioner_class_is_known_to_the_producer(name):
    config = client_config({"kafka.bootstrap.servers": "localhost:1", "kafka.partitioner.class": name}, "producer", {})
    assert config["partitioner.class"] == name
    klamm.Producer(config).close(timeout=0)


@pytest.mark.parametrize(
    "name",
    ["com.example.RoundRobinPartitioner", "RoundRobinPartitioner", "org.apache.kafka.clients.producer.Partitioner"],
)
def test_other_partitioner_classes_are_rejected_with_klamms_option(name):
    with pytest.raises(ConfigError, match=r"option 'kafka\.partitioner\.class' is not supported") as refusal:
        client_config({"kafka.partitioner.class": name}, "producer", {})
    assert "'kafka.partitioner'" in refusal.value.hint


@pytest.mark.parametrize("role", CLIENTS)
def test_keys_of_the_other_role_are_ignored(role):
    """One dict of options serves a read and a write."""
    [other] = CLIENTS.keys() - {role}
    of_other = {name for name, roles in ROLES.items() if other in roles and role not in roles}
    assert "group.id" in of_other or "acks" in of_other
    given = {f"kafka.{name}": "1" for name in of_other - REJECTED[role].keys()}
    assert client_config(given, role, {}) == {}


@pytest.mark.parametrize("role", CLIENTS)
def test_a_key_unknown_to_all_clients_is_rejected(role):
    config = client_config({"kafka.bootstrap.servers": "localhost:1", "kafka.ackz": "1"}, role, {})
    with pytest.raises(ConfigError, match='unknown configuration key "ackz"'):
        CLIENTS[role](config)


@pytest.mark.parametrize("role", CLIENTS)
@pytest.mark.parametrize(
    "given",
    [
        {"kafka.bootstrap.servers": f"SASL_SSL://{NOWHERE}"},
        {"kafka.bootstrap.servers": f"me:secret@{NOWHERE}"},
        {"kafka.bootstrap.servers": NOWHERE, "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.password": "secret"},
        {"kafka.bootstrap.servers": NOWHERE, "kafka.ssl.truststore.location": "ca.pem"},
    ],
)
def test_security_that_would_have_no_effect_is_refused(role, given):
    with pytest.raises(ConfigError) as caught:
        CLIENTS[role](client_config(given, role, {}))
    assert "secret" not in str(caught.value)
