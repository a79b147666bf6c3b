"""Delegation tokens of Apache Kafka, from their creation to a login that is refused (KIP-48)."""

from __future__ import annotations

import base64

import pytest

import klamm
from kafka_broker import KafkaUnavailable, RealKafka
from klamm.errors import AuthenticationError, DelegationTokenRequestNotAllowedError
from settled import until

MODULES = "org.apache.kafka.common.security"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
CONFIG = {
    "delegation.token.secret.key": "k",
    "sasl.enabled.mechanisms": f"PLAIN,{','.join(MECHANISMS)}",
    "listener.name.logins.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_me="pw";',
    **{
        f"listener.name.logins.{name.lower()}.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;"
        for name in MECHANISMS
    },
}


@pytest.fixture(scope="module")
def kafka():
    """A node of Apache Kafka that creates delegation tokens."""
    node = RealKafka(config=CONFIG, listeners={"LOGINS": "SASL_PLAINTEXT"})
    try:
        node.start()
    except KafkaUnavailable as reason:
        pytest.skip(f"real Kafka: {reason}")
    yield node
    node.stop()


@pytest.fixture
def owner(kafka):
    """An admin client that logs in with a password."""
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "me", "sasl_password": "pw"}
    with klamm.Admin(kafka.addresses["LOGINS"], security_protocol="SASL_PLAINTEXT", **login) as admin:
        yield admin


def holder(kafka, mechanism, token, is_token=True):
    """Return the configuration of a client that logs in with a token."""
    password = base64.b64encode(token.hmac).decode()
    options = f'username="{token.token_id}" password="{password}"' + (' tokenauth="true"' if is_token else "")
    return {
        "bootstrap.servers": kafka.addresses["LOGINS"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required {options};",
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_token_logs_in_until_it_expires(kafka, owner, style, mechanism, topic):
    token = owner.create_delegation_token(renewers=["User:other"])
    assert (token.owner, token.renewers) == ("User:me", ["User:other"])
    config = holder(kafka, mechanism, token)

    def logs_in():
        try:
            with klamm.Admin(config) as admin:
                admin.describe_cluster()
        except AuthenticationError:
            return False
        return True

    # Brokers learn a token a moment after the controller.
    until(logs_in)
    with style.producer(config) as producer:
        assert producer.send(topic, b"v").offset == 0
    with style.admin(config) as admin, pytest.raises(DelegationTokenRequestNotAllowedError):
        admin.create_delegation_token()
    assert [each.token_id for each in owner.describe_delegation_tokens()] == [token.token_id]
    with klamm.Admin(holder(kafka, mechanism, token, is_token=False)) as admin, pytest.raises(AuthenticationError):
        admin.describe_cluster()
    owner.expire_delegation_token(token.hmac)
    until(lambda: not logs_in())
    assert owner.describe_delegation_tokens() == []
    with klamm.Admin(config) as admin, pytest.raises(AuthenticationError) as refused:
        admin.describe_cluster()
    assert base64.b64encode(token.hmac).decode() not in str(refused.value)
