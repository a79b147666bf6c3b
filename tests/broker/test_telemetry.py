"""Telemetry (KIP-714, KIP-1076): what clients push to a dev broker that asks for it."""

from __future__ import annotations

import logging
import threading
import time

import pytest

import klamm
from klamm.errors import ArgumentError, ConfigError, UnsupportedVersionError
from klamm.testing import DevBroker
from settled import until


@pytest.fixture
def dev():
    """A dev broker that takes metrics."""
    with DevBroker(telemetry=True) as broker:
        broker.want_telemetry(interval=0.1)
        yield broker


def named(push):
    """Return the metrics of a push by name."""
    return {metric.name: metric for metric in push.metrics}


def test_a_client_pushes_what_brokers_ask_for_and_once_more_when_it_closes(style, dev):
    with style.producer(dev.bootstrap_servers, transactional_id="tx", enable_idempotence=True) as producer:
        client = producer.client_instance_id(20)
        until(dev.telemetry)
    first, *_, last = dev.telemetry()
    assert {push.client_instance_id for push in dev.telemetry()} == {client}
    assert (first.terminating, last.terminating) == (False, True)
    assert first.labels == {"transactional_id": "tx"}
    assert first.compression == "zstd"
    assert named(last)["org.apache.kafka.producer.connection.creation.total"].type == "sum"
    assert named(last)["org.apache.kafka.producer.request.latency.p99"].type == "gauge"
    assert len(client) == 22


@pytest.mark.parametrize("kind", ["consumer", "share_consumer", "admin"])
def test_all_clients_push(style, dev, kind):
    group = {} if kind == "admin" else {"group_id": "g"}
    with getattr(style, kind)(dev.bootstrap_servers, **group) as client:
        assert client.client_instance_id(20)
        until(dev.telemetry)
    assert dev.telemetry()[-1].terminating
    assert dev.telemetry()[-1].labels == group
    prefix = {"consumer": "consumer", "share_consumer": "consumer.share", "admin": "admin.client"}[kind]
    assert f"org.apache.kafka.{prefix}.connection.count" in named(dev.telemetry()[-1])


def test_only_metrics_with_a_wanted_prefix_are_pushed(dev):
    dev.want_telemetry(["org.apache.kafka.producer.record.send", "org.apache.kafka.producer.topic."], interval=0.1)
    with klamm.Producer(dev.bootstrap_servers) as producer:
        producer.send("t", b"v").result(20)
        until(dev.telemetry)
    push = named(dev.telemetry()[-1])
    assert push["org.apache.kafka.producer.record.send.total"].value == 1
    assert push["org.apache.kafka.producer.topic.byte.total"].attributes == {"topic": "t"}
    assert all(".record.send" in name or ".topic." in name for name in push)


def test_totals_are_differences_if_brokers_want_that(dev):
    dev.want_telemetry(["org.apache.kafka.producer.record.send.total"], interval=0.05, delta=True)
    with klamm.Producer(dev.bootstrap_servers) as producer:
        for _ in range(3):
            producer.send("t", b"v").result(20)
        until(lambda: len(dev.telemetry()) >= 3)
        producer.send("t", b"v").result(20)
    pushes = [metric for push in dev.telemetry() for metric in push.metrics]
    assert {metric.type for metric in pushes} == {"delta"}
    assert sum(metric.value for metric in pushes) == 4


def test_a_changed_subscription_is_followed(dev):
    with klamm.Producer(dev.bootstrap_servers) as producer:
        producer.send("t", b"v").result(20)
        until(dev.telemetry)
        dev.want_telemetry(["org.apache.kafka.producer.record.error"], interval=0.05)
        until(lambda: all("record.error" in metric.name for metric in dev.telemetry()[-1].metrics))
        asked = len(dev.requests("GetTelemetrySubscriptions"))
    assert asked == 2


def test_brokers_that_want_nothing_get_nothing_but_may_ask_later(dev):
    dev.want_telemetry([], interval=0.05)
    with klamm.Producer(dev.bootstrap_servers) as producer:
        assert producer.client_instance_id(20)
        until(lambda: len(dev.requests("GetTelemetrySubscriptions")) >= 2)
        assert not dev.requests("PushTelemetry")
        dev.want_telemetry(interval=0.05)
        until(dev.telemetry)


def test_the_switch_turns_telemetry_off(dev):
    with klamm.Producer(dev.bootstrap_servers, enable_metrics_push=False) as producer:
        producer.send("t", b"v").result(20)
        with pytest.raises(ConfigError, match="instance ID"):
            producer.client_instance_id(20)
    assert not dev.requests("GetTelemetrySubscriptions")


def test_brokers_without_a_receiver_are_not_asked(style, dev_broker, topic):
    with style.producer(dev_broker.bootstrap_servers) as producer:
        producer.send(topic, b"v")
        with pytest.raises(UnsupportedVersionError):
            producer.client_instance_id(20)
        producer.send(topic, b"v")


@pytest.mark.parametrize(("telemetry", "connections"), [(False, 1), (True, 2)])
def test_only_telemetry_needs_one_more_connection(telemetry, connections):
    with DevBroker(telemetry=telemetry) as broker, klamm.Producer(broker.bootstrap_servers) as producer:
        broker.want_telemetry(interval=0.1)
        producer.send("t", b"v").result(20)
        if telemetry:
            until(lambda: len(broker.telemetry()) >= 3)
        else:
            with pytest.raises(UnsupportedVersionError):
                producer.client_instance_id(20)
        producer.send("t", b"v").result(20)
        assert len(broker.requests("ApiVersions")) == connections


@pytest.mark.parametrize("api", ["GetTelemetrySubscriptions", "PushTelemetry"])
def test_a_slow_response_delays_neither_records_nor_close(dev, api):
    delay = 60
    dev.fault(api, "delay", times=None, seconds=delay)
    began = time.monotonic()
    with klamm.Producer(dev.bootstrap_servers) as producer:
        producer.send("t", b"v").result(delay / 2)
        until(lambda: dev.requests(api))
        for _ in range(20):
            producer.send("t", b"v").result(delay / 2)
    assert time.monotonic() - began < delay / 2
    assert len(dev.requests("PushTelemetry")) <= 2


def test_errors_of_a_push_cost_no_record(dev):
    dev.want_telemetry(interval=0.05)
    for error in (
        "TELEMETRY_TOO_LARGE",
        "THROTTLING_QUOTA_EXCEEDED",
        "UNKNOWN_SUBSCRIPTION_ID",
        "UNKNOWN_SERVER_ERROR",
    ):
        dev.fault("PushTelemetry", "error", error=error)
    dev.fault("PushTelemetry", "drop")
    dev.fault("PushTelemetry", "corrupt")
    with klamm.Producer(dev.bootstrap_servers) as producer:
        producer.send("t", b"v").result(20)
        until(dev.telemetry)
        producer.send("t", b"v").result(20)


def test_a_push_that_brokers_call_invalid_is_not_repeated(dev):
    dev.want_telemetry(interval=0.05)
    dev.fault("PushTelemetry", "error", error="INVALID_RECORD")
    with klamm.Producer(dev.bootstrap_servers) as producer:
        producer.send("t", b"v").result(20)
        until(lambda: dev.requests("PushTelemetry"))
        producer.send("t", b"v").result(20)
    assert not dev.telemetry()


def test_a_close_waits_only_a_moment_for_the_last_push(dev):
    dev.want_telemetry(interval=60)
    with klamm.Producer(dev.bootstrap_servers) as producer:
        assert producer.client_instance_id(20)
        dev.fault("PushTelemetry", "delay", seconds=600)
    assert len(dev.requests("PushTelemetry")) == 1


def test_metrics_of_the_application_are_pushed(dev):
    dev.want_telemetry(["myapp."], interval=0.1)
    with klamm.Consumer(dev.bootstrap_servers, "g", ["t"]) as consumer:
        consumer.register_metric("myapp.queue.depth", lambda: 7, attributes={"queue": "a"})
        consumer.register_metric("myapp.handled", lambda: 3, total=True)
        consumer.poll(0.1)
        until(lambda: dev.telemetry() and len(dev.telemetry()[-1].metrics) == 2)
        pushed = named(dev.telemetry()[-1])
        assert (pushed["myapp.queue.depth"].value, pushed["myapp.queue.depth"].type) == (7, "gauge")
        assert pushed["myapp.queue.depth"].attributes == {"queue": "a"}
        assert (pushed["myapp.handled"].value, pushed["myapp.handled"].type) == (3, "sum")
        assert {metric.name for metric in consumer.metrics().values if metric.group.startswith("application")} == set(
            pushed
        )
        consumer.unregister_metric("myapp.handled")
        until(lambda: len(dev.telemetry()[-1].metrics) == 1)
        with pytest.raises(ConfigError, match=r"myapp\.handled"):
            consumer.unregister_metric("myapp.handled")


def test_a_function_that_raises_or_blocks_leaves_the_others(dev, caplog):
    dev.want_telemetry(["myapp."], interval=0.05)
    leave = threading.Event()
    with klamm.Producer(dev.bootstrap_servers) as producer, caplog.at_level(logging.ERROR):
        producer.register_metric("myapp.broken", lambda: 1 / 0)
        producer.register_metric("myapp.fine", lambda: 1)
        producer.send("t", b"v").result(20)
        until(lambda: dev.telemetry() and [metric.name for metric in dev.telemetry()[-1].metrics] == ["myapp.fine"])
        producer.register_metric("myapp.blocked", lambda: leave.wait(60))
        producer.send("t", b"v").result(20)
    leave.set()
    assert len([each for each in caplog.records if "myapp.broken" in each.getMessage()]) == 1


def test_wrong_metrics_are_refused():
    with klamm.Producer("127.0.0.1:1") as producer:
        for name, function in (("", lambda: 1), ("myapp", None), (7, lambda: 1), ("myapp", 7)):
            with pytest.raises(ArgumentError):
                producer.register_metric(name, function)
