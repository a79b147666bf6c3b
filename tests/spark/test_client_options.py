"""Options that begin with `kafka.`: each option of Java's clients is accepted, ignored, or rejected with a hint."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

import klamm
from java_tools import java_source
from klamm.config import foreign_options, rejected_options, verdict
from klamm.errors import ConfigError
from klamm.spark.client_options import IGNORED, REJECTED, ROLES, client_config

PARTITIONS = 4
NOWHERE = "127.0.0.1:1"

CLIENTS = {"consumer": klamm.Consumer, "producer": klamm.Producer}


def test_every_key_of_javas_clients_has_a_verdict():
    lines = java_source("ConfigNames.java").splitlines()
    assert len(lines) > 200
    assert [line for line in lines if verdict(*line.split()).kind == "unknown"] == []


@pytest.mark.parametrize("role", CLIENTS)
def test_keys_that_only_tune_javas_client_are_ignored_with_a_warning(role, caplog):
    names = [
        name for option in foreign_options() if option.is_ignored and role in option.clients for name in option.names
    ]
    given = {f"kafka.{name}": "1" for name in (*names, *IGNORED)}
    with caplog.at_level(logging.WARNING, "klamm.spark"):
        assert client_config(given, role, {"linger.ms": "1"}) == {"linger.ms": "1"}
    assert sorted(record.args[0] for record in caplog.records) == sorted(given)


@pytest.mark.parametrize("role", CLIENTS)
def test_keys_about_trust_or_partitions_are_rejected_with_a_hint(role):
    names = [name for option in rejected_options() if role in option.clients for name in option.names]
    for name in (*REJECTED[role], *names):
        with pytest.raises(ConfigError, match=f"option 'kafka.{name}' is not supported") as refusal:
            client_config({f"kafka.{name}": "hidden text"}, role, {})
        assert refusal.value.hint == REJECTED[role].get(name, verdict(role, name, prefix="kafka.").text)
        assert "hidden text" not in str(refusal.value)


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


@pytest.mark.parametrize(
    "name",
    ["com.example.RoundRobinPartitioner", "RoundRobinPartitioner", "org.apache.kafka.clients.producer.Partitioner"],
)
def test_other_partitioner_classes_are_rejected(name):
    config = client_config({"kafka.bootstrap.servers": NOWHERE, "kafka.partitioner.class": name}, "producer", {})
    with pytest.raises(ConfigError, match=r"partitioner cannot be"):
        klamm.Producer(config)


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
    assert "hidden text" not in str(caught.value)
