"""The flight recorder: the last frames and events of a client, without secrets and values."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys

import pytest

import klamm
import klamm.logs
from klamm.cli import main
from klamm.errors import ConfigError, KafkaError
from klamm.testing import DevBroker

VALUE, KEY, PASSWORD = b"a value of a record", b"a key of a record", "Tr0ub4dor&3"


def dumped(path):
    head, *entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return head, entries


def test_a_dump_has_requests_responses_and_events(broker, topic, tmp_path, capsys):
    path = tmp_path / "shop.flight"
    with klamm.Producer(broker.bootstrap_servers, client_id="shop") as producer:
        producer.send(topic, VALUE, key=KEY).result(20)
        producer.dump_flight(path)
    head, entries = dumped(path)
    assert (head["client_id"], head["dropped"]) == ("shop", 0)
    produce = [entry for entry in entries if entry.get("api") == "Produce"]
    assert [entry["kind"] for entry in produce] == ["request", "response"]
    assert produce[0]["correlation_id"] == produce[1]["correlation_id"]
    assert produce[0]["broker"] in broker.bootstrap_servers
    assert produce[0]["size"] > len(VALUE)
    assert any("connected to" in entry.get("text", "") for entry in entries)
    assert main(["decode", "--flight", str(path)]) == 0
    story = capsys.readouterr().out
    assert "client 'shop'" in story
    assert "-> " in story
    assert "Produce version" in story
    assert " ms" in story


def test_a_dump_has_no_secret_and_no_value(tmp_path):
    path = tmp_path / "dump"
    with (
        DevBroker(sasl={"PLAIN": {"alice": PASSWORD}}) as broker,
        klamm.Producer(broker.client_config("alice")) as producer,
    ):
        producer.send("t", VALUE, key=KEY).result(20)
        producer.dump_flight(path)
    content = path.read_bytes()
    assert b"SaslAuthenticate" in content
    for secret in VALUE, KEY, PASSWORD.encode():
        assert secret not in content


def test_the_ring_is_bounded_and_can_be_off(dev_broker, tmp_path):
    path = tmp_path / "dump"
    with klamm.Admin(dev_broker.bootstrap_servers, flight_recorder_bytes=2000) as admin:
        for _ in range(50):
            admin.describe_cluster()
        admin.dump_flight(path)
    head, entries = dumped(path)
    assert head["dropped"] > 50
    assert 1 <= len(entries) <= 40
    with klamm.Admin(dev_broker.bootstrap_servers, flight_recorder_bytes=0) as admin:
        admin.describe_cluster()
        with pytest.raises(ConfigError, match="flight recorder is empty"):
            admin.dump_flight(path)


def test_values_are_recorded_by_option(broker, topic, tmp_path, capsys):
    path = tmp_path / "dump"
    with klamm.Producer(broker.bootstrap_servers, flight_recorder_values=True) as producer:
        producer.send(topic, VALUE, key=KEY).result(20)
        producer.dump_flight(path)
    assert VALUE.hex() in path.read_text(encoding="utf-8")
    assert main(["decode", "--flight", str(path)]) == 0
    story = capsys.readouterr().out
    assert VALUE.decode() in story
    assert KEY.decode() in story


def test_error_codes_and_lost_requests_are_recorded(tmp_path, capsys):
    path = tmp_path / "dump"
    with DevBroker() as broker, klamm.Producer(broker.bootstrap_servers) as producer:
        broker.fault("Produce", "error", error="NOT_ENOUGH_REPLICAS")
        broker.fault("Produce", "drop")
        producer.send("orders", VALUE).result(20)
        producer.dump_flight(path)
    _, entries = dumped(path)
    errors = [entry["errors"] for entry in entries if "errors" in entry and entry["api"] == "Produce"]
    ((error,),) = errors
    assert (error["code"], error["partition"]) == ("NOT_ENOUGH_REPLICAS", 0)
    assert "topic" in error or "topic_id" in error
    assert [entry["api"] for entry in entries if entry["kind"] == "lost"] == ["Produce"]
    assert main(["decode", "--flight", str(path)]) == 0
    story = capsys.readouterr().out
    assert f"NOT_ENOUGH_REPLICAS ({error.get('topic', error.get('topic_id'))}-0)" in story
    assert "the connection ended before the response" in story


def fence_the_producer(broker, path):
    with klamm.Producer(broker.bootstrap_servers, transactional_id="t", flight_recorder_path=path) as producer:
        broker.fault("EndTxn", "error", error="PRODUCER_FENCED", times=None)
        with pytest.raises(KafkaError), producer.transaction():
            producer.send("orders", VALUE).result(20)


def end_the_membership(broker, path):
    options = {"group_instance_id": "i", "flight_recorder_path": path}
    with klamm.Consumer(broker.bootstrap_servers, "g", ["orders"], **options) as consumer:
        broker.fault("JoinGroup", "error", error="FENCED_INSTANCE_ID", times=None)
        with pytest.raises(KafkaError):
            consumer.poll(20)


def planted_link(path, target):
    """Let another user's link wait at the path of a dump."""
    target.write_text("not yours")
    path.symlink_to(target)


def assert_private(path, target):
    assert stat.S_ISREG(path.lstat().st_mode)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert target.read_text() == "not yours"


def test_only_the_user_can_read_a_dump_and_a_link_does_not_redirect_it(dev_broker, tmp_path):
    path, other, target = tmp_path / "dump", tmp_path / "other", tmp_path / "target"
    planted_link(path, target)
    with klamm.Producer(dev_broker.bootstrap_servers, flight_recorder_values=True) as producer:
        producer.send("t", VALUE).result(20)
        producer.dump_flight(path)
        assert_private(path, target)
        path.chmod(0o644)
        producer.dump_flight(path)
        assert_private(path, target)
        for dump in klamm.logs.dump_flights(tmp_path):
            assert_private(dump, target)
        os.mkfifo(other)
        for wrong, error in ((tmp_path / "none" / "dump", FileNotFoundError), (tmp_path, OSError), (other, OSError)):
            with pytest.raises(error) as caught:
                producer.dump_flight(wrong)
            assert str(caught.value.filename) == str(wrong)
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.parametrize("fail", [fence_the_producer, end_the_membership])
def test_an_error_that_ends_the_work_of_a_client_writes_the_recorder(fail, tmp_path):
    path, target = tmp_path / "dump", tmp_path / "target"
    planted_link(path, target)
    with DevBroker() as broker:
        fail(broker, str(path))
    assert_private(path, target)
    _, entries = dumped(path)
    assert any("errors" in entry for entry in entries)
    assert any(entry.get("level") == "WARN" for entry in entries)


@pytest.mark.parametrize("make", [klamm.Consumer, klamm.ShareConsumer, klamm.AsyncConsumer, klamm.AsyncAdmin])
def test_a_client_that_was_not_used_has_nothing_to_dump(make, tmp_path):
    args = () if make is klamm.AsyncAdmin else ("g",)
    client = make("127.0.0.1:1", *args)
    with pytest.raises(ConfigError, match="has not been used"):
        client.dump_flight(tmp_path / "dump")
    if (closing := client.close()) is not None:
        asyncio.run(closing)


ON_SIGNAL = """
import os, signal, sys, klamm, klamm.logs
klamm.logs.dump_flights_on(signal.SIGUSR2, sys.argv[2])
with klamm.Admin(sys.argv[1]) as admin:
    admin.describe_cluster()
    os.kill(os.getpid(), signal.SIGUSR2)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGUSR2"), reason="this system has no such signal")
def test_a_signal_dumps_all_clients(dev_broker, tmp_path):
    options = [sys.executable, "-c", ON_SIGNAL, dev_broker.bootstrap_servers, str(tmp_path)]
    subprocess.run(options, timeout=60, check=True)
    (path,) = tmp_path.glob("*.flight")
    assert any(entry.get("api") == "Metadata" for entry in dumped(path)[1])


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"flight":2}', "no json", '{"flight":1,"started_us":1e99}'])
def test_a_file_that_is_no_dump_is_an_error_with_a_hint(tmp_path, text, capsys):
    path = tmp_path / "dump"
    path.write_text(text)
    assert main(["decode", "--flight", str(path)]) == 1
    error = capsys.readouterr().err
    assert "dump" in error
    assert "hint" in error
