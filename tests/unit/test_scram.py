"""Compares `klamm.protocol.ScramClient` with exchanges of the Java client."""

from __future__ import annotations

import pytest

import golden
from klamm.errors import AuthenticationError, ConfigError
from klamm.protocol import ScramClient

EXCHANGES = golden.lines("scram.jsonl")


def client(exchange, **changes):
    arguments = {"nonce": exchange["client_nonce"], "extensions": list(exchange["extensions"].items())} | changes
    return ScramClient(exchange["mechanism"], exchange["username"], exchange["password"], **arguments)


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: f"{exchange['mechanism']}-{exchange['username']}")
def test_an_exchange_of_the_java_client(exchange):
    scram = client(exchange)
    assert scram.first() == exchange["client_first"]
    assert scram.final(exchange["server_first"]) == exchange["client_final"]
    scram.verify(exchange["server_final"])


def test_the_password_is_not_shown():
    shown = repr(client(EXCHANGES[0]))
    assert "n=user" in shown
    assert EXCHANGES[0]["password"] not in shown


def test_a_broker_that_lies_is_found_out():
    scram = client(EXCHANGES[0])
    with pytest.raises(AuthenticationError, match="nonce"):
        scram.final(EXCHANGES[1]["server_first"])
    scram.final(EXCHANGES[0]["server_first"])
    with pytest.raises(AuthenticationError, match="signature"):
        scram.verify(EXCHANGES[1]["server_final"])
    with pytest.raises(AuthenticationError, match="unknown-user") as caught:
        scram.verify("e=unknown-user")
    assert "password" in caught.value.hint


def test_nonces_differ():
    first = {client(EXCHANGES[0], nonce=None).first() for _ in range(10)}
    assert len(first) == 10


def test_wrong_use_says_so():
    with pytest.raises(ConfigError, match="SCRAM-SHA-256 and SCRAM-SHA-512"):
        ScramClient("PLAIN", "u", "p")
    with pytest.raises(ConfigError, match="after final"):
        client(EXCHANGES[0]).verify("v=")
