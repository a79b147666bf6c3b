"""Injects each error code into responses, and compares klamm with the documented tables."""

from __future__ import annotations

import time

import pytest

import klamm
from error_tables import documented
from klamm.errors import KafkaError, TopicAuthorizationFailedError, UnknownServerError
from klamm.testing import DevBroker

QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 1}
WAIT_S = 20


@pytest.fixture(scope="module")
def dev():
    with DevBroker() as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(WAIT_S)
        yield broker


def reading(dev, api, code):
    """Return what a consumer does after this code in one response."""
    dev.clear_faults()
    dev.fail_next(api, error=code)
    raised = False
    with klamm.Consumer(dev.bootstrap_servers, topics=["t"], auto_offset_reset="earliest", **QUICK) as consumer:
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            try:
                if consumer.poll(1):
                    return "raises" if raised else "retries"
            except KafkaError:
                if api == "Metadata":
                    return "raises"  # it asks again after seconds
                raised = True
    return "stops"


def writing(dev, api, code):
    """Return what a producer does after this code in one response."""
    dev.clear_faults()
    with klamm.Producer(dev.bootstrap_servers, **QUICK) as producer:
        dev.fail_next(api, error=code)
        error = producer.send("t", b"v").exception(WAIT_S)
        assert producer.send("t", b"v").result(WAIT_S).offset > 0
        return "retries" if error is None else "raises"


def test_each_error_code_of_a_topic_in_metadata_has_its_documented_effect(dev):
    for code, expected in documented("Metadata").items():
        assert (code, reading(dev, "Metadata", code), writing(dev, "Metadata", code)) == (code, expected, expected)


@pytest.mark.parametrize("api", ["Fetch", "ListOffsets"])
def test_each_error_code_of_a_read_has_its_documented_effect(dev, api):
    for code, expected in documented("Fetch", api).items():
        # With `earliest`, a reset continues at the same offset.
        action = expected.replace("resets", "retries")
        found = reading(dev, api, code)
        if found != action == "raises":
            # The retry after a millisecond can succeed before the program polls, and then there is nothing to raise.
            found = reading(dev, api, code)
        assert (code, found) == (code, action)


def test_each_error_code_of_a_produce_response_has_its_documented_effect(dev):
    for code, expected in documented("Produce").items():
        action = "raises" if expected == "fails" else "retries"
        assert (code, writing(dev, "Produce", code)) == (code, action)


def test_an_unexpected_error_that_lasts_is_raised(dev):
    dev.clear_faults()
    dev.fault("Metadata", "error", error="UNKNOWN_SERVER_ERROR", times=None)
    with klamm.Consumer(dev.bootstrap_servers, topics=["t"], **QUICK) as consumer:
        with pytest.raises(UnknownServerError):
            consumer.poll(WAIT_S)
        dev.clear_faults()
    dev.fault("Produce", "error", error="UNKNOWN_SERVER_ERROR", times=None)
    with klamm.Producer(dev.bootstrap_servers, **QUICK) as producer, pytest.raises(UnknownServerError):
        producer.send("t", b"v").result(WAIT_S)


def test_a_denied_topic_is_raised_at_once_and_readable_later(dev):
    dev.clear_faults()
    dev.fault("Metadata", "error", error="TOPIC_AUTHORIZATION_FAILED", times=1)
    with klamm.Consumer(dev.bootstrap_servers, topics=["t"], auto_offset_reset="earliest", **QUICK) as consumer:
        with pytest.raises(TopicAuthorizationFailedError):
            consumer.poll(WAIT_S)
        while not consumer.poll(1):
            pass
