"""Failures of records whose result the program does not take: `on_error`, `flush` and `close` report them."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

from klamm import AsyncProducer, DeliveryError, Producer
from klamm.errors import KafkaTimeoutError, TopicAuthorizationFailedError, TransactionAbortedError
from klamm.testing import DevBroker

FAILED = r"1 record was not delivered: .*TOPIC_AUTHORIZATION_FAILED"


@pytest.fixture
def refusing():
    """A broker that rejects the next Produce request."""
    with DevBroker() as broker:
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(20)
        broker.fail_next("Produce", error="TOPIC_AUTHORIZATION_FAILED")
        yield broker


def test_flush_raises_the_failure_of_a_delivery_that_was_dropped(refusing):
    with Producer(refusing.bootstrap_servers) as producer:
        producer.send("t", b"v")
        with pytest.raises(DeliveryError, match=FAILED):
            producer.flush(20)
        producer.flush(20)


def test_close_raises_the_failure_of_a_delivery_that_was_dropped_after_the_failure(refusing):
    producer = Producer(refusing.bootstrap_servers)
    delivery = producer.send("t", b"v")
    producer.flush(20)
    assert "TOPIC_AUTHORIZATION_FAILED" in repr(delivery)
    del delivery
    with pytest.raises(DeliveryError, match=FAILED):
        producer.close()


def test_a_wait_that_timed_out_has_not_taken_the_failure():
    with DevBroker() as broker:
        broker.fault("Produce", "error", error="NOT_LEADER_OR_FOLLOWER", times=None)
        producer = Producer(broker.bootstrap_servers, delivery_timeout_ms=1000, request_timeout_ms=500)
        with pytest.raises(KafkaTimeoutError):
            producer.send("t", b"v").result(0)
        with pytest.raises(DeliveryError, match="1 record was not delivered"):
            producer.flush(30)
        producer.close()


@pytest.mark.parametrize("take", ["result", "exception", "callback"])
def test_flush_does_not_raise_a_failure_that_the_program_has_taken(refusing, take):
    with Producer(refusing.bootstrap_servers) as producer:
        delivery = producer.send("t", b"v")
        if take == "callback":
            failures = []
            delivery.add_done_callback(lambda delivery: failures.append(delivery.exception()))
            del delivery
            producer.flush(20)
            assert isinstance(failures.pop(), TopicAuthorizationFailedError)
        else:
            with contextlib.suppress(TopicAuthorizationFailedError):
                getattr(delivery, take)(20)
            del delivery
        producer.flush(20)


@pytest.mark.parametrize("method", ["send", "send_nowait"])
def test_flush_raises_the_failure_of_a_record_that_no_task_awaits(refusing, method):
    async def run():
        async with AsyncProducer(refusing.bootstrap_servers) as producer:
            getattr(producer, method)("t", b"v")
            with pytest.raises(DeliveryError, match=FAILED):
                await producer.flush(20)
            await producer.flush(20)

    asyncio.run(run())


def test_flush_does_not_raise_a_failure_that_a_task_has_awaited(refusing):
    async def run():
        async with AsyncProducer(refusing.bootstrap_servers) as producer:
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send("t", b"v")
            await producer.flush(20)

    asyncio.run(run())


def test_flush_raises_the_failure_of_a_queued_record_that_no_task_awaits(refusing):
    logged = []
    refusing.fault("Produce", "error", error="TOPIC_AUTHORIZATION_FAILED", times=None)

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        async with AsyncProducer(refusing.bootstrap_servers, buffer_memory=1000, max_request_size=1000) as producer:
            for _ in range(2):
                producer.send("t", b"x" * 800)
            assert producer._queue is not None
            with pytest.raises(DeliveryError, match="2 records were not delivered"):
                await producer.flush(20)
            gc.collect()

    asyncio.run(run())
    assert not logged


@pytest.mark.parametrize("method", ["send", "send_nowait", "send_many"])
def test_an_interceptor_does_not_take_the_failure(refusing, method):
    class Observer:
        def __init__(self):
            self.failures = []

        def on_delivery(self, delivery):
            self.failures.append(delivery.exception())

    observer = Observer()
    with Producer(refusing.bootstrap_servers, interceptors=[observer]) as producer:
        getattr(producer, method)("t", [b"v"] if method == "send_many" else b"v")
        with pytest.raises(DeliveryError, match=FAILED):
            producer.flush(20)
    assert [type(failure) for failure in observer.failures] == [TopicAuthorizationFailedError]


@pytest.mark.parametrize("when", ["next send", "flush"])
def test_on_error_gets_the_failure_of_a_delivery_that_was_dropped(refusing, when):
    errors = []
    with Producer(refusing.bootstrap_servers, on_error=errors.append) as producer:
        delivery = producer.send("t", b"v")
        while not delivery.done():
            pass
        del delivery
        if when == "next send":
            producer.send("t", b"v").result(20)
            assert [type(error) for error in errors] == [TopicAuthorizationFailedError]
        with pytest.raises(DeliveryError, match=FAILED):
            producer.flush(20)
    assert [type(error) for error in errors] == [TopicAuthorizationFailedError]


def test_a_transaction_reports_the_failures_of_its_deliveries_itself(refusing):
    with Producer(refusing.bootstrap_servers, transactional_id="x") as producer:
        with pytest.raises(TransactionAbortedError), producer.transaction() as transaction:
            delivery = transaction.send("t", b"v")
        with producer.transaction() as transaction:
            delivery = transaction.send("t", b"w")
        producer.flush(20)
    assert delivery.exception(20) is None


def test_a_child_process_can_drop_the_deliveries_of_its_parent(refusing):
    import os

    producer = Producer(refusing.bootstrap_servers)
    deliveries = [producer.send("t", b"v")]
    producer.flush(20)
    if (child := os.fork()) == 0:
        deliveries.clear()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert deliveries.pop().exception(20) is not None
    producer.close()
