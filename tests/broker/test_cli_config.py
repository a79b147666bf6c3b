"""`klamm config check`: which step of a connection fails, and what the options in a file mean."""

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


FILES = {
    "cloud.properties": "bootstrap.servers=pkc.example:9092\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
    "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username='KEY' \\\n"
    "  password='hidden text';\nclient.dns.lookup=use_all_dns_ips\nsession.timeout.ms=45000\nacks=all\n",
    "librdkafka.conf": "bootstrap.servers=a:1\nsasl.password=hidden text\nsasl.username=me\nsecurity.protocol=sasl_ssl\n"
    "sasl.mechanisms=PLAIN\nsession.timeout.ms=45000\nlog.connection.close=false\ntopic.acks=all\n",
    "klamm.toml": 'bootstrap.servers = ["a:1", "b:1"]\nsession.timeout.ms = 45000\nacks = "all"\n',
    "klamm.json": '{"bootstrap.servers": "a:1", "session.timeout.ms": 45000, "acks": "all"}',
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_client_is_checked_without_a_connection(tmp_path, name):
    file = tmp_path / name
    file.write_text(FILES[name], encoding="utf-8")
    result = klamm("config", "check", "--json", str(file))
    found = json.loads(result.stdout)
    assert (result.returncode, found["ok"], found["errors"]) == (0, True, {})
    options = {option["name"]: option for option in found["options"]}
    assert options["session.timeout.ms"]["consumer"]["verdict"] == "ok"
    assert options["session.timeout.ms"]["producer"] == {"verdict": "ignored", "why": "it is a key of the consumer"}
    assert options["acks"]["producer"]["verdict"] == "ok"
    assert b"hidden text" not in result.stdout + klamm("config", "check", str(file)).stdout


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("queue.buffering.max.kbytes=100", "multiply the value by 1024"),
        ("ssl.crl.location=crl.pem", "revocation lists"),
        ("linger.mss=5", "did you mean linger.ms?"),
        ("acks=some", "acks cannot be"),
    ],
)
def test_a_file_that_a_client_refuses_is_an_error(tmp_path, line, says):
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers=a:1\n{line}\n", encoding="utf-8")
    result = klamm("config", "check", str(file))
    assert result.returncode == 1
    assert "FAILED  producer" in result.stdout.decode()
    assert says in result.stdout.decode()


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / "broken.json").write_text("[1]", encoding="utf-8")
    for name, says in (("broken.json", "one JSON object"), ("missing.toml", "No such file")):
        result = klamm("config", "check", str(tmp_path / name))
        assert (result.returncode, result.stdout) == (2, b"")
        assert says in result.stderr.decode()
        assert result.stderr.count(b"\n") == 1
