"""Outages of all brokers: polls raise an error that says so, or wait for the end of the outage."""

from __future__ import annotations

import queue

import pytest

import klamm
from klamm.errors import BufferFullError, KafkaTimeoutError, NetworkError, NotCoordinatorError, UnknownMemberIdError
from klamm.testing import DevBroker
from settled import until

WAIT_S = 20
TYPES = ["consumer", "member", "share"]


def made(style, kind, servers, **config):
    config |= {"topics": ["t"], "default_api_timeout_ms": 500, "retry_backoff_max_ms": 50}
    if kind == "share":
        return style.share_consumer(servers, group_id="g", **config)
    config |= {"group_id": "g"} if kind == "member" else {}
    return style.consumer(servers, auto_offset_reset="earliest", **config)


def begins_at_the_first_record(broker):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.alter_configs("group", "g", {"share.auto.offset.reset": "earliest"})


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("has_begun", [True, False])
def test_a_consumer_that_waits_raises_no_error_while_no_broker_responds(style, kind, has_begun):
    errors = queue.SimpleQueue()
    with DevBroker() as broker:
        begins_at_the_first_record(broker)
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(WAIT_S)
        with made(style, kind, broker.bootstrap_servers, outage="wait", on_error=errors.put) as consumer:
            if has_begun:
                until(lambda: consumer.poll(0.1))
            broker.kill(1)
            heard = []

            def is_reported():
                consumer.poll(0.1)
                while not errors.empty():
                    heard.append(str(errors.get()))
                return any("did not succeed in 0.5 s" in error for error in heard)

            until(is_reported)
            broker.start(1)
            if has_begun:
                with klamm.Producer(broker.bootstrap_servers) as producer:
                    producer.send("t", b"w").result(WAIT_S)
            until(lambda: consumer.poll(0.1))


@pytest.mark.parametrize("kind", TYPES)
def test_a_loop_that_continues_after_retriable_errors_survives_an_outage(style, kind):
    with DevBroker() as broker:
        begins_at_the_first_record(broker)
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(WAIT_S)
        broker.kill(1)
        with made(style, kind, broker.bootstrap_servers) as consumer:
            for _ in range(2):
                with pytest.raises((NetworkError, KafkaTimeoutError), match="did not succeed in") as caught:
                    consumer.poll(WAIT_S)
                assert caught.value.retriable
            broker.start(1)

            def is_read():
                try:
                    return consumer.poll(0.1)
                except klamm.KafkaError as error:
                    if not error.retriable:
                        raise
                    return False

            until(is_read)


@pytest.mark.parametrize("kind", ["member", "share"])
def test_a_consumer_that_waits_still_raises_other_errors(style, kind):
    with DevBroker() as broker, made(style, kind, broker.bootstrap_servers, outage="wait") as consumer:
        broker.fail_next("FindCoordinator", error="GROUP_AUTHORIZATION_FAILED")
        with pytest.raises(klamm.errors.GroupAuthorizationFailedError) as caught:
            consumer.poll(WAIT_S)
        assert not caught.value.retriable


def test_errors_say_whether_the_same_call_can_succeed_later():
    retriable = [NetworkError, KafkaTimeoutError, BufferFullError, NotCoordinatorError]
    assert all(error.retriable for error in retriable)
    final = [klamm.KafkaError, klamm.BrokerError, klamm.errors.ConfigError, UnknownMemberIdError]
    assert not any(error.retriable for error in final)
