"""Warnings about secrets that a client would send without encryption. No client here opens a connection."""

from __future__ import annotations

import logging
import time

import pytest

import klamm
from klamm import oauth
from klamm.registry import SchemaRegistry

SECRET = "Tr0ub4dor&3"
ELSEWHERE = ["kafka.invalid:9092", "127.0.0.1:1,kafka.invalid:1", "192.0.2.1:9092", "[2001:db8::1]:9092"]
HERE = ["localhost:9092", "127.0.0.1:9092", "127.1.2.3:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "a.localhost:1"]
PLAIN = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": SECRET}
SCRAM = PLAIN | {"sasl.mechanism": "SCRAM-SHA-512"}
TOKEN = {"sasl.mechanism": "OAUTHBEARER"}


@pytest.fixture
def warned(caplog):
    """Return the warnings that a function logs. They must not contain the secret."""

    def call(function):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "klamm"):
            function()
        assert SECRET not in caplog.text
        return [record.getMessage() for record in caplog.records if "without encryption" in record.getMessage()]

    return call


def connect(servers, protocol, sasl):
    config = {"bootstrap.servers": servers, "security.protocol": protocol, **sasl}
    if sasl is TOKEN:
        config["sasl.oauth.token.provider"] = lambda: oauth.Token(SECRET, time.time() + 60)
    return lambda: klamm.Admin(config).close()


@pytest.mark.parametrize("servers", ELSEWHERE)
@pytest.mark.parametrize(("sasl", "what"), [(PLAIN, "password"), (TOKEN, "token")])
def test_a_secret_for_a_broker_elsewhere_is_one_warning_a_client(warned, servers, sasl, what):
    for _ in range(2):
        (warning,) = warned(connect(servers, "SASL_PLAINTEXT", sasl))
        assert f"sends the {what} to" in warning
        assert "SASL_SSL" in warning


@pytest.mark.parametrize(
    ("servers", "protocol", "sasl"),
    [
        *((servers, "SASL_PLAINTEXT", PLAIN) for servers in HERE),
        ("kafka.invalid:9092", "SASL_SSL", PLAIN),
        ("kafka.invalid:9092", "SASL_PLAINTEXT", SCRAM),
        ("kafka.invalid:9092", "PLAINTEXT", {}),
    ],
)
def test_encrypted_connections_and_those_to_this_computer_do_not_warn(warned, servers, protocol, sasl):
    assert warned(connect(servers, protocol, sasl)) == []


def test_an_own_logger_gets_the_warning():
    lines = []

    class Logger:
        def log(self, level, text, *args, **_):
            lines.append((level, text % args))

        def isEnabledFor(self, _):  # noqa: N802 - the name in the standard library
            return True

    config = {"bootstrap.servers": "kafka.invalid:1", "security.protocol": "SASL_PLAINTEXT", **PLAIN}
    klamm.Admin(config, logger=Logger()).close()
    assert [line for line in lines if line[0] == logging.WARNING and "without encryption" in line[1]]


@pytest.mark.parametrize(
    ("url", "count"),
    [
        ("http://login.invalid/token", 1),
        ("https://login.invalid/token", 0),
        ("http://127.0.0.1:1/token", 0),
        ("http://localhost:1/token", 0),
    ],
)
def test_a_client_secret_over_http_is_a_warning(warned, url, count):
    endpoint = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": SECRET,
    }
    assert len(warned(connect("localhost:1", "SASL_PLAINTEXT", endpoint))) == count
    bearer = {"issuer_endpoint_url": url, "client_id": "me", "client_secret": SECRET}
    config = {f"bearer_auth_{key}": value for key, value in bearer.items()}
    assert len(warned(lambda: SchemaRegistry("https://registry.invalid", **config).close())) == count


@pytest.mark.parametrize(
    ("url", "config", "count"),
    [
        ("http://registry.invalid", {"basic_auth_user_info": f"me:{SECRET}"}, 1),
        (f"http://me:{SECRET.replace('&', '%26')}@registry.invalid", {}, 1),
        ("https://a.invalid,http://b.invalid", {"bearer_auth_token": SECRET}, 1),
        ("http://registry.invalid", {"bearer_auth_token_provider": lambda: None}, 1),
        ("http://registry.invalid", {}, 0),
        ("https://registry.invalid", {"basic_auth_user_info": f"me:{SECRET}"}, 0),
        ("http://[::1]:8081", {"basic_auth_user_info": f"me:{SECRET}"}, 0),
    ],
)
def test_credentials_of_a_registry_over_http_are_a_warning(warned, url, config, count):
    assert len(warned(lambda: SchemaRegistry(url, **config).close())) == count
