"""Throttle times of brokers (KIP-219): a client waits at most as long as its request timeout, and its connection, last."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

import klamm
from klamm.errors import KafkaTimeoutError
from klamm.testing import DevBroker
from log_lines import collected
from settled import configure_group, until

WAIT_S = 20
DAYS = {"action": "throttle", "seconds": 2_000_000, "times": 1}
SHORT = {"request_timeout_ms": 500}


@pytest.fixture
def dev():
    with DevBroker() as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"t": klamm.NewTopic()})
        yield broker


@pytest.fixture(params=["Produce", "Fetch", "ShareFetch"])
def api(request):
    return request.param


@pytest.fixture
def start(api, dev):
    """Start a client that uses the API. Return a function that lets one record pass through the client."""
    with ExitStack() as stack:
        servers = dev.bootstrap_servers
        other = stack.enter_context(klamm.Producer(servers))

        def started(**config):
            if api == "Produce":
                producer = stack.enter_context(klamm.Producer(servers, **config))
                return lambda: producer.send("t", b"v").result(WAIT_S)
            if api == "Fetch":
                consumer = stack.enter_context(klamm.Consumer(servers, **config))
                consumer.assign([klamm.TopicPartition("t", 0, 0)])
            else:
                with klamm.Admin(servers) as admin:
                    configure_group(admin, "g", {"share.auto.offset.reset": "earliest"})
                consumer = stack.enter_context(klamm.ShareConsumer(servers, group_id="g", topics=["t"], **config))

            def read():
                other.send("t", b"v").result(WAIT_S)
                until(lambda: consumer.poll(0.5))

            return read

        yield started


def throttle(dev, api, work, lines):
    """Let the broker throttle the client for days. Return the client's log line."""
    work()
    dev.fault(api, **DAYS)
    work()
    return lines.find("throttles this client for 2000000 s").getMessage()


def test_a_throttle_time_of_days_lasts_no_longer_than_a_request(dev, api, start):
    with collected() as lines:
        work = start(**SHORT)
        assert "the client waits only for request.timeout.ms (500 ms)" in throttle(dev, api, work, lines)
        work()


def test_a_new_connection_is_not_throttled(dev, api, start):
    with collected() as lines:
        work = start(request_timeout_ms=600_000)
        throttle(dev, api, work, lines)
        dev.kill(1)
        dev.start(1)
        work()


def test_a_record_that_times_out_names_the_throttle(dev):
    with klamm.Producer(dev.bootstrap_servers, delivery_timeout_ms=500) as producer:
        dev.fault("Produce", **DAYS)
        producer.send("t", b"0").result(WAIT_S)
        with pytest.raises(KafkaTimeoutError, match=r"throttles this client for 2000000 s") as caught:
            producer.send("t", b"1").result(WAIT_S)
    assert "quota" in caught.value.hint
