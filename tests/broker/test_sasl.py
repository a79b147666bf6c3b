"""SASL: all mechanisms, all clients, both brokers, and the errors."""

from __future__ import annotations

import asyncio
import copy
import math
import pickle
import threading
import time
from decimal import Decimal

import pytest

import klamm
from klamm import oauth
from klamm.errors import AuthenticationError, BrokerError, ConfigError, KafkaError, KafkaTimeoutError, NetworkError
from klamm.oauth import Token
from klamm.testing import DevBroker
from secured import PASSWORD, PASSWORDS, USER, unsecured_token


def tokens():
    return Token(unsecured_token(), time.time() + 3600)


def round_trip(config, topic):
    """Sends a record and reads it back in a group."""
    with klamm.Producer(config) as producer:
        producer.send(topic, b"v" * 100_000).result(20)
    with klamm.Consumer(config, "g-" + topic, [topic], auto_offset_reset="earliest") as consumer:
        assert [len(record.value) for record in consumer.poll(timeout=20, max_records=1)] == [100_000]


@pytest.mark.parametrize("mechanism", PASSWORDS)
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_password_authenticates(secured, topic, listener, mechanism):
    round_trip(secured.config(listener, mechanism), topic)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_token_authenticates(secured, topic, listener):
    round_trip(secured.config(listener, "OAUTHBEARER", sasl_oauth_token_provider=tokens), topic)


def test_a_provider_may_be_one_for_confluent_kafka(secured, topic):
    asked = []

    def provider(config):
        asked.append(config)
        return unsecured_token(), time.time() + 3600

    round_trip(secured.config("SASL_PLAINTEXT", "OAUTHBEARER") | {"oauth_cb": provider}, topic)
    assert asked[0] == ""


def test_java_says_the_same_in_its_own_way(secured, topic):
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="{USER}" password="{PASSWORD}";'
    config = secured.config("SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=jaas)
    round_trip(config, topic)


async def _async_round_trip(config, topic):
    async with klamm.AsyncProducer(config) as producer:
        await producer.send(topic, b"v")
    async with klamm.AsyncAdmin(config) as admin:
        return topic in await admin.list_topics()


def test_asyncio_logs_in_as_well(secured, topic):
    import asyncio

    assert asyncio.run(_async_round_trip(secured.config("SASL_SSL", "SCRAM-SHA-256"), topic))


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_a_wrong_password_is_refused_at_once_and_never_shown(secured, topic, mechanism):
    config = secured.config("SASL_PLAINTEXT", mechanism, sasl_password="wr0ng")
    began = time.monotonic()
    with klamm.Producer(config) as producer, pytest.raises(AuthenticationError) as caught:
        producer.send(topic, b"v").result(20)
    with klamm.Consumer(config, topics=[topic]) as consumer, pytest.raises(AuthenticationError):
        consumer.poll(timeout=20)
    with klamm.Admin(config) as admin, pytest.raises(AuthenticationError):
        admin.list_topics()
    assert time.monotonic() - began < 10
    message = str(caught.value)
    assert f'authentication with {mechanism} as "{USER}"' in message
    assert "invalid" in message.lower()  # the broker's own word
    assert "check sasl.username, sasl.password" in message
    for shown in (
        message,
        repr(caught.value),
        repr(producer),
        str(pickle.dumps(caught.value)),
        str(caught.value.__dict__),
    ):
        assert "wr0ng" not in shown


def test_a_refused_client_says_so_again_without_asking_again():
    with DevBroker(sasl={"PLAIN": {USER: PASSWORD}}) as broker:
        config = broker.client_config(USER) | {"sasl.password": "wrong"}
        with klamm.Admin(config) as admin:
            for _ in range(20):
                with pytest.raises(AuthenticationError):
                    admin.list_topics(timeout=20)
        assert len(broker.requests("SaslAuthenticate")) == 1


def test_a_mechanism_that_the_broker_lacks_is_named_with_those_it_has(topic):
    with DevBroker(sasl={"SCRAM-SHA-512": {USER: PASSWORD}}) as broker:
        config = broker.client_config(USER) | {"sasl.mechanism": "PLAIN"}
        with klamm.Producer(config) as producer, pytest.raises(AuthenticationError) as caught:
            producer.send(topic, b"v").result(20)
    assert "SASL handshake for PLAIN: UNSUPPORTED_SASL_MECHANISM" in str(caught.value)
    assert "set sasl.mechanism to one that the broker supports: SCRAM-SHA-512" in str(caught.value)


def test_a_listener_without_sasl_says_so(broker, topic):
    config = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "a",
        "sasl.password": "b",
    }
    config["bootstrap.servers"] = broker.bootstrap_servers
    with (
        klamm.Producer(config) as producer,
        pytest.raises(AuthenticationError, match="this listener does not use SASL"),
    ):
        producer.send(topic, b"v").result(20)


def test_a_client_without_sasl_gets_a_hint(secured):
    servers = secured.listener_addresses["SASL_PLAINTEXT"]
    with klamm.Admin(servers) as admin, pytest.raises(NetworkError) as caught:
        admin.list_topics(timeout=1)
    assert "does this listener require SASL (security.protocol=SASL_PLAINTEXT or SASL_SSL)?" in str(caught.value)


def test_a_session_is_renewed_before_it_ends(secured, topic):
    config = secured.config("SHORT", "SCRAM-SHA-256", reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)
    end = time.monotonic() + 5
    with klamm.Producer(config) as producer:
        while time.monotonic() < end:
            # A connection that the broker ended would not be made again for a minute.
            producer.send(topic, b"v").result(10)


def test_a_session_is_renewed_with_the_token_of_the_time():
    given = []

    def provider():
        given.append(unsecured_token(lasts=2.0))
        return Token(given[-1], time.time() + 2.0)

    with DevBroker(sasl={"OAUTHBEARER": None}, sasl_session=60) as broker:
        config = broker.client_config(mechanism="OAUTHBEARER")
        config |= {
            "sasl.oauth.token.provider": provider,
            "reconnect.backoff.ms": 60_000,
            "reconnect.backoff.max.ms": 60_000,
        }
        logins = set()
        with klamm.Producer(config) as producer:
            end = time.monotonic() + 20
            # Each of the first connections has the first token.
            while (len(logins) < 3 or len(given) < 3) and time.monotonic() < end:
                producer.send("t", b"v").result(10)
                # The broker remembers its last requests, and these are many.
                logins |= {request.time for request in broker.requests("SaslHandshake")}
        assert len(logins) >= 3
    assert len(given) >= 3


def test_a_token_that_the_broker_refuses(secured, topic):
    def provider():
        return unsecured_token(lasts=-60), time.time() + 60

    config = secured.config("SASL_PLAINTEXT", "OAUTHBEARER", sasl_oauth_token_provider=provider)
    with klamm.Producer(config) as producer, pytest.raises(AuthenticationError) as caught:
        producer.send(topic, b"v").result(20)
    assert "authentication with OAUTHBEARER" in str(caught.value)
    assert "invalid_token" in str(caught.value)
    assert "eyJ" not in str(caught.value)


def list_topics(config):
    with klamm.Admin(config) as admin:
        admin.list_topics(timeout=0.5)


def send(config):
    with klamm.Producer(config, delivery_timeout_ms=500) as producer:
        producer.send("t", b"v").result(20)


def end_offsets(config):
    with klamm.Consumer(config) as consumer:
        consumer.end_offsets([klamm.TopicPartition("t", 0)], timeout=0.5)


@pytest.mark.parametrize(
    ("provider", "says"),
    [
        (lambda: 1 / 0, "the provider raised ZeroDivisionError"),
        (lambda: ("token", time.time() - 1), "returned an expired token"),
        (lambda: None, "returned a value of type NoneType"),
        (lambda: ("to ken", time.time() + 60), "printable ASCII"),
        (lambda: ("token", (time.time() + 60) * 1000), "seconds since 1970.*milliseconds"),
        (lambda: ("token", math.inf), "inf, which is not in seconds since 1970"),
        (lambda: ("token", math.nan), "nan, which is not in seconds since 1970"),
        (lambda: ("token", 1e300), r"1e\+300, which is not in seconds since 1970"),
        (lambda: ("token", 10**400), "expiry time inf, which is not in seconds since 1970"),
        (lambda: ("token", Decimal(10**10)), "type Decimal, not seconds since 1970"),
        (lambda: Token("token", "soon"), "type str, not seconds since 1970"),
    ],
)
@pytest.mark.parametrize("call", [list_topics, send, end_offsets])
def test_a_provider_without_a_token_is_named_at_the_end_of_the_timeout(provider, says, call):
    with DevBroker(sasl={"OAUTHBEARER": None}) as broker:
        config = broker.client_config(mechanism="OAUTHBEARER") | {"sasl.oauth.token.provider": provider}
        with pytest.raises((AuthenticationError, KafkaTimeoutError), match=says) as caught:
            call(config)
        assert caught.value.hint


def raises(error):
    raise error


class UnspeakableError(Exception):
    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    "failures",
    [
        1100 * [OSError("identity provider is down")],
        [asyncio.CancelledError(), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), UnspeakableError()],
    ],
    ids=["often", "odd"],
)
def test_the_thread_for_tokens_lives_through_any_failure(failures, monkeypatch):
    monkeypatch.setattr(oauth, "RETRY_S", (0.0005, 0.0005))
    left = list(failures)

    def provider():
        return raises(left.pop()) if left else tokens()

    with DevBroker(sasl={"OAUTHBEARER": None}) as broker:
        config = broker.client_config(mechanism="OAUTHBEARER") | {"sasl.oauth.token.provider": provider}
        with klamm.Producer(config) as producer:
            assert producer.send("t", b"v").result(20).offset == 0
    assert not left


def test_after_a_refused_token_the_provider_is_asked_again(style):
    asked = []

    def provider():
        asked.append(time.monotonic())
        return unsecured_token(lasts=3600 if len(asked) > 1 else -10), time.time() + 3600

    with DevBroker(sasl={"OAUTHBEARER": None}) as broker:
        config = broker.client_config(mechanism="OAUTHBEARER") | {"sasl.oauth.token.provider": provider}
        with style.producer(config) as producer:
            assert producer.send("t", b"v").offset == 0
    assert len(asked) == 2


def test_tokens_that_are_always_refused_are_asked_for_ever_less_often():
    asked = []

    def provider():
        asked.append(time.monotonic())
        return unsecured_token(lasts=-10), time.time() + 3600

    with DevBroker(sasl={"OAUTHBEARER": None}) as broker:
        config = broker.client_config(mechanism="OAUTHBEARER") | {"sasl.oauth.token.provider": provider}
        with klamm.Producer(config) as producer:
            end = time.monotonic() + 3
            while time.monotonic() < end:
                assert isinstance(producer.send("t", b"v").exception(20), AuthenticationError)
    assert 2 <= len(asked) <= 5


def test_a_token_that_is_refused_at_a_renewal_costs_no_record():
    """KIP-368: the connection authenticates again each second."""
    given = []

    def provider():
        given.append(unsecured_token(lasts=-10 if len(given) == 1 else 60))
        return given[-1], time.time() + (1.5 if len(given) == 1 else 60)

    with DevBroker(sasl={"OAUTHBEARER": None}, sasl_session=1) as broker:
        config = broker.client_config(mechanism="OAUTHBEARER") | {"sasl.oauth.token.provider": provider}
        with klamm.Producer(config) as producer:
            end = time.monotonic() + 20
            while len(given) < 3 and time.monotonic() < end:
                producer.send("t", b"v").result(20)
            producer.send("t", b"v").result(20)
    assert len(given) >= 3


def test_records_wait_while_the_token_provider_is_down():
    is_down = threading.Event()
    asked = threading.Event()

    def provider():
        if is_down.is_set():
            asked.set()
            raise OSError("identity provider is down")
        return unsecured_token(lasts=2), time.time() + 2

    with DevBroker(sasl={"OAUTHBEARER": None}, sasl_session=1) as broker:
        config = broker.client_config(mechanism="OAUTHBEARER") | {"sasl.oauth.token.provider": provider}
        with klamm.Producer(config) as producer, klamm.Producer(config, delivery_timeout_ms=4_000) as hasty:
            producer.send("t", b"v").result(20)
            hasty.send("t", b"v").result(20)
            is_down.set()
            assert asked.wait(20)
            error, deliveries = None, []
            while error is None:
                deliveries.append(producer.send("t", b"v"))
                error = hasty.send("t", b"v").exception(20)
            assert "the provider raised OSError: identity provider is down" in str(error)
            # By now the other producer's token has expired, too.
            deliveries.append(producer.send("t", b"v"))
            with pytest.raises(KafkaTimeoutError):
                deliveries[-1].result(0.5)
            is_down.clear()
            assert [delivery.exception(60) for delivery in deliveries] == [None] * len(deliveries)


def test_an_answer_of_the_endpoint_may_be_absurd():
    for expires_in in ("1e300", "NaN", "Infinity", "1" + 400 * "0"):
        body = f'{{"access_token": "t", "expires_in": {expires_in}}}'.encode()
        value, expires_at = oauth._token("https://endpoint", body)
        with pytest.raises(AuthenticationError, match="seconds since 1970"):
            oauth._checked(expires_at, "https://endpoint returned")
        assert value == "t"


def test_a_wait_for_the_first_token_succeeds():
    ready = threading.Event()

    def provider():
        ready.wait(20)
        return tokens()

    with DevBroker(sasl={"OAUTHBEARER": None}) as broker:
        config = broker.client_config(mechanism="OAUTHBEARER") | {"sasl.oauth.token.provider": provider}
        with klamm.Producer(config) as producer:
            delivery = producer.send("t", b"v")
            ready.set()
            assert delivery.result(20).offset == 0


def test_the_thread_for_tokens_ends_with_its_client():
    def others():
        # The thread that writes log lines serves all clients of the process.
        return {thread for thread in threading.enumerate() if thread.name != "klamm-logs"}

    before = others()
    with DevBroker(sasl={"OAUTHBEARER": None}) as broker:
        config = broker.client_config(mechanism="OAUTHBEARER") | {"sasl.oauth.token.provider": tokens}
        with klamm.Producer(config) as producer:
            producer.send("t", b"v").result(20)
    deadline = time.monotonic() + 10
    while (left := others() - before) and time.monotonic() < deadline:
        left.pop().join(0.1)
    assert not left


def test_a_token_provider_or_an_endpoint_is_required():
    with pytest.raises(ConfigError, match="needs a token provider or a token endpoint"):
        klamm.Producer("127.0.0.1:1", security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER")


def test_a_token_is_not_in_its_repr():
    assert "secret" not in repr(Token("secret", 1.0))
    config = {"sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_password": "b"}
    with (
        klamm.Admin("127.0.0.1:1", security_protocol="SASL_PLAINTEXT", **config) as admin,
        pytest.raises(TypeError, match="pickle"),
    ):
        copy.copy(admin)


@pytest.mark.parametrize("mechanism", [*PASSWORDS, "OAUTHBEARER"])
def test_librdkafka_logs_in(secured, topic, mechanism):
    confluent_kafka = pytest.importorskip("confluent_kafka")
    config = secured.config("SASL_SSL", mechanism)
    if mechanism == "OAUTHBEARER":
        config["oauth_cb"] = lambda _: (unsecured_token(), time.time() + 3600)
    outcomes = []
    producer = confluent_kafka.Producer(config)
    producer.produce(topic, b"v", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(20)
    assert outcomes == [None]


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_kafka_python_logs_in(secured, topic, mechanism):
    kafka = pytest.importorskip("kafka")
    producer = kafka.KafkaProducer(
        bootstrap_servers=secured.listener_addresses["SASL_PLAINTEXT"],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
    )
    try:
        assert producer.send(topic, b"v").get(20).partition == 0
    finally:
        producer.close()


def test_errors_of_sasl_are_authentication_errors():
    for name in ("SaslAuthenticationFailedError", "UnsupportedSaslMechanismError", "IllegalSaslStateError"):
        kind = getattr(klamm.errors, name)
        assert issubclass(kind, AuthenticationError)
        assert issubclass(kind, BrokerError)
        assert issubclass(kind, KafkaError)
