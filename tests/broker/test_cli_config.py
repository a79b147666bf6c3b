"""`klamm config check`: which step of a connection fails."""

from __future__ import annotations

import json
import socket

import pytest

from cli_process import klamm
from klamm.testing import DevBroker


def steps(*arguments):
    result = klamm("config", "check", "--json", *arguments)
    found = json.loads(result.stdout)
    assert found["ok"] is (result.returncode == 0)
    return [(step["name"], step["ok"]) for step in found["steps"]], result.stderr.decode()


@pytest.fixture(scope="module")
def secured():
    """A dev broker with TLS and passwords, and the options of a client."""
    with DevBroker(tls=True, sasl={"PLAIN": {"me": "right"}}) as broker:
        options = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "me",
            "sasl.password": "right",
            "ssl.ca.location": broker.ca_location,
        }
        yield broker, options


def words(options):
    return [word for name, value in options.items() for word in ("-X", f"{name}={value}")]


def test_every_step_succeeds(broker):
    found, _ = steps("-b", broker.bootstrap_servers)
    assert found[0] == ("resolve", True)
    assert [ok for _, ok in found] == [True] * len(found)
    assert ("metadata", True) in found


def test_every_step_of_a_secured_connection_succeeds(secured):
    broker, options = secured
    found, _ = steps("-b", broker.bootstrap_servers, *words(options))
    assert [name for name, _ in found] == ["resolve", "connect", "tls", "authenticate", "metadata", "broker 1"]


@pytest.mark.parametrize(
    ("change", "failed"),
    [({"sasl.password": "wrong-word"}, "authenticate"), ({"ssl.ca.location": None}, "tls")],
)
def test_the_step_that_fails_is_named(secured, change, failed):
    broker, options = secured
    options = {name: value for name, value in {**options, **change}.items() if value is not None}
    found, printed = steps("-b", broker.bootstrap_servers, *words(options))
    assert found[-1] == (failed, False)
    assert "wrong-word" not in printed
    assert printed.startswith("klamm: ")


def test_a_refused_connection_is_a_step():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        found, _ = steps("-b", f"127.0.0.1:{unused.getsockname()[1]}")
    assert found == [("resolve", True), ("connect", False)]


def test_a_name_that_does_not_exist_is_a_step():
    found, _ = steps("-b", "no-such-host.invalid:9092")
    assert found == [("resolve", False)]
