"""Each kind of fault has an effect on a client that a broker without faults never shows."""

from __future__ import annotations

from typing import get_args

import pytest

import klamm
from klamm.errors import KafkaError, KafkaTimeoutError, NetworkError, PolicyViolationError
from klamm.testing import Action, DevBroker
from settled import until

HOUR = 3600.0
TIMEOUT = 20.0
KINDS = {
    "delay": {"seconds": HOUR},
    "drop": {},
    "lose_answer": {},
    "cut": {},
    "error": {"error": "POLICY_VIOLATION"},
    "throttle": {"seconds": 0.05},
    "corrupt": {"times": None},
    "drip": {"seconds": HOUR},
}


@pytest.fixture
def broker():
    """Start a node with a topic `t` that contains one large record."""
    with DevBroker() as running:
        with klamm.Producer(running.bootstrap_servers) as producer:
            producer.send("t", b"first" * 10_000, partition=0).result(TIMEOUT)
        yield running


def send(broker):
    """Send a record once; return the result, and whether the record was written."""
    config = {"retries": 0, "enable_idempotence": False}
    tp = klamm.TopicPartition("t", 0)
    with klamm.Producer(broker.bootstrap_servers, **config) as producer:
        error = producer.send("t", b"second", partition=0).exception(TIMEOUT)
    with klamm.Consumer(broker.bootstrap_servers) as consumer:
        return error, consumer.end_offsets([tp])[tp] == 2


def waits_for_the_clock(broker, timeout):
    """Return whether the acknowledgement of a record only arrives after the clock is advanced by an hour."""
    with klamm.Producer(broker.bootstrap_servers) as producer:
        before = len(broker.requests("Produce"))
        delivery = producer.send("t", b"second", partition=0)
        until(lambda: len(broker.requests("Produce")) > before)
        try:
            delivery.result(timeout)
        except KafkaTimeoutError:
            for _ in range(10):
                broker.advance(HOUR / 10)
            delivery.result(TIMEOUT)
            return True
        return False


def notices(broker, kind, timeout):
    """Return whether a client sees the effect of this kind of fault."""
    if kind in {"delay", "drip"}:
        return waits_for_the_clock(broker, timeout)
    if kind == "throttle":
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"second").result(TIMEOUT)
            return any(metrics.throttled > 0 for metrics in producer.metrics().brokers.values())
    if kind == "corrupt":
        try:
            found = klamm.read_table(broker.bootstrap_servers, "t")["value"].to_pylist()
        except KafkaError:
            return True
        return found != [b"first" * 10_000]
    error, is_written = send(broker)
    expected = {"drop": (NetworkError, False), "error": (PolicyViolationError, False)}
    return (type(error), is_written) == expected.get(kind, (NetworkError, True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_notices(broker, kind):
    broker.fault("Fetch" if kind == "corrupt" else "Produce", kind, **KINDS[kind])
    assert notices(broker, kind, timeout=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_affects_only_the_requests_that_it_names(broker, kind):
    assert not notices(broker, kind, timeout=TIMEOUT)


def test_there_is_one_for_each_kind():
    assert set(KINDS) == set(get_args(Action))
