"""Delegation tokens, from their creation to a login that is refused (KIP-48, KIP-373)."""

from __future__ import annotations

import base64
import contextlib
import json
import time

import pytest

import klamm
from cli_process import klamm as command
from kafka_broker import RealKafka
from klamm.admin import AclBinding, AclOperation, AclResource
from klamm.errors import (
    AuthenticationError,
    DelegationTokenAuthDisabledError,
    DelegationTokenAuthorizationFailedError,
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    DelegationTokenRequestNotAllowedError,
    InvalidPrincipalTypeError,
)
from klamm.testing import DevBroker
from running import or_skip
from settled import until

MODULES = "org.apache.kafka.common.security"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = dict.fromkeys(("admin", "alice", "bob", "carol"), "pw")
KEY = {"delegation.token.secret.key": "a secret key of brokers"}
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
CONFIG = {
    **KEY,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "sasl.enabled.mechanisms": f"PLAIN,{','.join(MECHANISMS)}",
    "listener.name.logins.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required "
    + " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    + ";",
    **{
        f"listener.name.logins.{name.lower()}.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;"
        for name in MECHANISMS
    },
}


def dev_broker(**more):
    sasl = {"PLAIN": USERS, **{name: {} for name in MECHANISMS}}
    return DevBroker(sasl=sasl, super_users=["admin"], **{"config": KEY, **more})


@contextlib.contextmanager
def real_kafka():
    with RealKafka(config=CONFIG, listeners={"LOGINS": "SASL_PLAINTEXT"}) as node:
        yield node.addresses["LOGINS"]


@pytest.fixture(scope="module", params=["dev", "real"])
def servers(request):
    """The address of a broker that creates delegation tokens."""
    if request.param == "real":
        with or_skip(real_kafka()) as address:
            yield address
    else:
        with dev_broker() as broker:
            yield broker.bootstrap_servers


def password_of(servers, user):
    """Return the configuration of a client that logs in with a password."""
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
    }


def token_of(servers, token, mechanism="SCRAM-SHA-256", is_token=True):
    """Return the configuration of a client that logs in with a token."""
    password = base64.b64encode(token.hmac).decode()
    options = f'username="{token.token_id}" password="{password}"' + (' tokenauth="true"' if is_token else "")
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required {options};",
    }


@pytest.fixture
def users(servers):
    """Admin clients of all users."""
    with contextlib.ExitStack() as clients:
        yield {name: clients.enter_context(klamm.Admin(password_of(servers, name))) for name in USERS}


@pytest.fixture
def rules(users):
    """A function that adds access rules until the end of the test."""
    added = []

    def add(*rules):
        users["admin"].create_acls(rules)
        added.extend(rules)

    yield add
    users["admin"].delete_acls(added)


def login_error(config):
    """Return the error of a login that the broker rejects, or None."""
    try:
        with klamm.Admin(config) as admin:
            admin.describe_cluster()
    except AuthenticationError as error:
        return error
    return None


def logs_in(config):
    return login_error(config) is None


def ids(tokens):
    return {token.token_id for token in tokens}


def known(admin, token):
    """Wait until the brokers know a token, which they learn a moment after the controller."""
    until(lambda: token.token_id in ids(admin.describe_delegation_tokens()))
    return token


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_token_logs_in_until_it_is_revoked(servers, users, style, mechanism, topic):
    alice = users["alice"]
    operations = (AclOperation.CREATE, AclOperation.WRITE)
    users["admin"].create_acls([AclBinding(AclResource.TOPIC, topic, "User:alice", each) for each in operations])
    token = known(alice, alice.create_delegation_token(renewers=["User:bob"]))
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ["User:bob"])
    config = token_of(servers, token, mechanism)
    until(lambda: logs_in(config))
    alice.create_topics({topic: klamm.NewTopic()}, wait=True)
    with style.producer(config) as producer:
        assert producer.send(topic, b"v").offset == 0
    with style.admin(config) as admin:
        for call in (
            admin.create_delegation_token,
            admin.describe_delegation_tokens,
            lambda: admin.renew_delegation_token(token.hmac),
            lambda: admin.expire_delegation_token(token.hmac),
        ):
            with pytest.raises(DelegationTokenRequestNotAllowedError):
                call()
    # Without tokenauth, the ID is the name of a user that does not exist.
    without_extension = login_error(token_of(servers, token, mechanism, is_token=False))
    assert "check sasl.username" in without_extension.hint
    alice.expire_delegation_token(token.hmac)
    until(lambda: not logs_in(config))
    assert token.token_id not in ids(alice.describe_delegation_tokens())
    revoked = login_error(config)
    assert f'delegation token "{token.token_id}"' in revoked.hint
    assert base64.b64encode(token.hmac).decode() not in str(revoked)


def test_a_renewed_token_keeps_its_clients_connected(servers, users, topic):
    alice = users["alice"]
    users["admin"].create_topics({topic: klamm.NewTopic()}, wait=True)
    users["admin"].create_acls([AclBinding(AclResource.TOPIC, topic, "User:alice", AclOperation.WRITE)])
    token = known(alice, alice.create_delegation_token())
    expires_ms = alice.expire_delegation_token(token.hmac, expiry_period_ms=3000)

    def expiry():
        return next(each.expires_ms for each in alice.describe_delegation_tokens() if each.token_id == token.token_id)

    until(lambda: expiry() == expires_ms)
    with klamm.Producer(token_of(servers, token)) as producer:
        producer.send(topic, b"v").result(10)
        alice.renew_delegation_token(token.hmac)
        # The session ends when the token was to expire. The client renews it before.
        while time.time() * 1000 < expires_ms + 500:
            producer.send(topic, b"v").result(10)
        metrics = producer.metrics()
    assert (metrics.successful_reauthentication_total > 0, metrics.reconnection_total) == (True, 0)


def test_a_token_that_expires_during_a_session_is_named(servers, users, topic):
    alice = users["alice"]
    users["admin"].create_topics({topic: klamm.NewTopic()}, wait=True)
    users["admin"].create_acls([AclBinding(AclResource.TOPIC, topic, "User:alice", AclOperation.WRITE)])
    token = known(alice, alice.create_delegation_token(max_lifetime_ms=3000))
    with klamm.Producer(token_of(servers, token), delivery_timeout_ms=20_000) as producer:
        producer.send(topic, b"v").result(10)
        errors = []
        until(lambda: errors.append(producer.send(topic, b"v").exception(30)) or errors[-1] is not None)
    assert time.time() * 1000 >= token.max_ms
    for error in (errors[-1], login_error(token_of(servers, token))):
        assert isinstance(error, AuthenticationError)
        assert f'and the delegation token "{token.token_id}": the token has expired' in str(error)
        assert "create_delegation_token" in error.hint
        assert "PLAINTEXT" not in str(error)


def test_owners_and_renewers_change_a_token(users):
    alice, bob, carol = (users[name] for name in ("alice", "bob", "carol"))
    token = known(alice, alice.create_delegation_token(renewers=["User:bob"]))
    assert token.expires_ms - token.issued_ms == DAY_MS
    assert token.max_ms - token.issued_ms == 7 * DAY_MS
    for admin in (alice, bob):
        now_ms = time.time() * 1000
        assert abs(admin.renew_delegation_token(token.hmac, renew_period_ms=HOUR_MS) - now_ms - HOUR_MS) < 60_000
        assert abs(admin.renew_delegation_token(token.hmac, renew_period_ms=9 * DAY_MS) - now_ms - DAY_MS) < 60_000
        assert admin.expire_delegation_token(token.hmac, expiry_period_ms=9 * DAY_MS) == token.max_ms
        assert token.token_id in ids(admin.describe_delegation_tokens())
    for call in (carol.renew_delegation_token, carol.expire_delegation_token):
        with pytest.raises(DelegationTokenOwnerMismatchError):
            call(token.hmac)
        with pytest.raises(DelegationTokenNotFoundError):
            call(b"unknown")
    assert carol.describe_delegation_tokens() == []
    assert token.token_id in ids(alice.describe_delegation_tokens(["User:bob"]))
    assert alice.describe_delegation_tokens(["User:carol"]) == []
    assert alice.describe_delegation_tokens([]) == []
    bob.expire_delegation_token(token.hmac)
    until(lambda: token.token_id not in ids(alice.describe_delegation_tokens()))
    with pytest.raises(DelegationTokenNotFoundError):
        alice.expire_delegation_token(token.hmac)


def test_a_token_for_another_user_needs_a_rule(servers, users, rules):
    alice, bob, carol = (users[name] for name in ("alice", "bob", "carol"))
    with pytest.raises(DelegationTokenAuthorizationFailedError):
        bob.create_delegation_token(owner="User:alice")
    rules(AclBinding(AclResource.USER, "User:alice", "User:bob", AclOperation.CREATE_TOKENS))
    until(lambda: not fails(lambda: bob.create_delegation_token(owner="User:alice")))
    token = known(bob, bob.create_delegation_token(owner="User:alice"))
    assert (token.owner, token.requester) == ("User:alice", "User:bob")
    # The requester sees the token, and only the owner can renew it.
    with pytest.raises(DelegationTokenOwnerMismatchError):
        bob.renew_delegation_token(token.hmac)
    alice.renew_delegation_token(token.hmac)
    assert logs_in(token_of(servers, token))
    assert carol.describe_delegation_tokens() == []
    rules(AclBinding(AclResource.DELEGATION_TOKEN, token.token_id, "User:carol", AclOperation.DESCRIBE))
    until(lambda: ids(carol.describe_delegation_tokens()) == {token.token_id})
    rules(AclBinding(AclResource.USER, "User:alice", "User:carol", AclOperation.DESCRIBE_TOKENS))
    other = alice.create_delegation_token()
    until(lambda: other.token_id in ids(carol.describe_delegation_tokens()))


def fails(call):
    try:
        call()
    except DelegationTokenAuthorizationFailedError:
        return True
    return False


def test_an_expired_token_is_not_renewed_and_can_be_removed(servers, users):
    alice = users["alice"]
    token = known(alice, alice.create_delegation_token(max_lifetime_ms=HOUR_MS))
    assert token.expires_ms == token.max_ms == token.issued_ms + HOUR_MS
    assert alice.renew_delegation_token(token.hmac) == token.max_ms
    alice.expire_delegation_token(token.hmac, expiry_period_ms=0)

    def is_expired():
        with contextlib.suppress(DelegationTokenExpiredError):
            alice.expire_delegation_token(token.hmac, expiry_period_ms=0)
            return False
        return True

    def described():
        return next(each for each in alice.describe_delegation_tokens() if each.token_id == token.token_id)

    until(is_expired)
    until(lambda: described().expires_ms < time.time() * 1000 - 100)
    with pytest.raises(DelegationTokenExpiredError):
        alice.renew_delegation_token(token.hmac)
    # The broker removes the token with its next check. Until then a login succeeds, with a session that has ended.
    assert "the token has expired" in str(login_error(token_of(servers, token)))
    assert described().max_ms == token.max_ms
    alice.expire_delegation_token(token.hmac)
    until(lambda: token.token_id not in ids(alice.describe_delegation_tokens()))


def test_commands_create_list_renew_and_revoke_tokens(servers):
    options = [word for item in password_of(servers, "carol").items() for word in ("-X", "=".join(item))]

    def tokens(line, stdin=b""):
        result = command("tokens", *line.split(), "--json", *options, stdin=stdin)
        assert result.returncode == 0, result.stderr.decode()
        return json.loads(result.stdout)

    token = tokens("create --renewer User:bob --max-lifetime 1h")
    hmac = token["hmac"].encode()
    assert token["max_ms"] - token["issued_ms"] == HOUR_MS
    until(lambda: tokens("list")["tokens"])
    (listed,) = tokens("list")["tokens"]
    assert (listed["token_id"], listed["renewers"]) == (token["token_id"], ["User:bob"])
    assert "hmac" not in listed
    assert tokens("renew - --period 30m", hmac)["expires_ms"] < token["max_ms"]
    tokens("expire - --yes", hmac)
    until(lambda: tokens("list") == {"tokens": []})


def test_a_renewer_is_a_user(users):
    with pytest.raises(InvalidPrincipalTypeError):
        users["alice"].create_delegation_token(renewers=["Group:all"])


def test_a_client_that_has_not_authenticated_gets_no_token(broker):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        for call in (admin.create_delegation_token, admin.describe_delegation_tokens):
            with pytest.raises(DelegationTokenRequestNotAllowedError):
                call()


@pytest.mark.parametrize(("listener", "mechanism"), [("SASL_PLAINTEXT", "PLAIN"), ("MTLS", None)])
def test_brokers_without_a_key_have_no_tokens(secured, listener, mechanism):
    with klamm.Admin(secured.config(listener, mechanism)) as admin:
        for call in (
            admin.create_delegation_token,
            admin.describe_delegation_tokens,
            lambda: admin.renew_delegation_token(b"x"),
            lambda: admin.expire_delegation_token(b"x"),
        ):
            with pytest.raises(DelegationTokenAuthDisabledError):
                call()


def test_tls_without_a_certificate_gets_no_token(secured):
    with klamm.Admin(secured.config("SSL")) as admin, pytest.raises(DelegationTokenRequestNotAllowedError):
        admin.create_delegation_token()


def test_a_check_removes_expired_tokens():
    config = {**KEY, "delegation.token.expiry.time.ms": 1000, "delegation.token.expiry.check.interval.ms": 10_000}
    with dev_broker(config=config) as broker, klamm.Admin(password_of(broker.bootstrap_servers, "alice")) as alice:
        token = alice.create_delegation_token()
        broker.advance(2)
        assert ids(alice.describe_delegation_tokens()) == {token.token_id}
        broker.advance(10)
        assert alice.describe_delegation_tokens() == []
        assert not logs_in(token_of(broker.bootstrap_servers, token))


def test_tokens_survive_a_restart(tmp_path):
    def started():
        return dev_broker(data_dir=tmp_path)

    with started() as broker, klamm.Admin(password_of(broker.bootstrap_servers, "alice")) as alice:
        token, gone = (alice.create_delegation_token(renewers=["User:bob"]) for _ in range(2))
        alice.expire_delegation_token(gone.hmac)
        expires_ms = alice.renew_delegation_token(token.hmac, renew_period_ms=HOUR_MS)
    with started() as broker:
        assert logs_in(token_of(broker.bootstrap_servers, token))
        with klamm.Admin(password_of(broker.bootstrap_servers, "alice")) as alice:
            (found,) = alice.describe_delegation_tokens()
    assert (found.token_id, found.hmac, found.renewers) == (token.token_id, token.hmac, ["User:bob"])
    assert (found.issued_ms, found.expires_ms, found.max_ms) == (token.issued_ms, expires_ms, token.max_ms)
