"""Hooks, callbacks and metrics of a producer."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import weakref
from datetime import datetime, timedelta, timezone

import pytest

import klamm
from klamm.errors import ArgumentError, ConfigError, KafkaError, MessageTooLargeError
from settled import until


def rows(broker, topic):
    return klamm.read_table(broker.bootstrap_servers, topic, columns=["key", "value", "headers"]).to_pylist()


def test_serializers_see_everything_but_null(style, broker, topic):
    config = {"value_serializer": lambda v: json.dumps(v).encode(), "key_serializer": str.encode}
    with style.producer(broker.bootstrap_servers, **config) as producer:
        producer.send(topic, {"a": 1}, key="\u00fc")
        producer.send(topic)
        producer.send_nowait(topic, [2], key="k")
        producer.send_many(topic, [3, None], keys=[None, "k"])
    found = [(row["key"], row["value"]) for row in rows(broker, topic)]
    assert found == [("\u00fc".encode(), b'{"a": 1}'), (None, None), (b"k", b"[2]"), (None, b"3"), (b"k", None)]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take no notes")
def test_a_value_that_a_serializer_rejects_is_named_by_its_index(style, broker, topic):
    with style.producer(broker.bootstrap_servers, value_serializer=str.encode) as producer:
        with pytest.raises(UnicodeEncodeError, match="surrogates") as caught:
            producer.send_many(topic, ["v", "\udc80", "w"])
        assert caught.value.__notes__ == ["at values[1] of send_many; the records before it were sent"]
    assert [row["value"] for row in rows(broker, topic)] == [b"v"]


def test_text_needs_a_serializer(style, broker, topic):
    with style.producer(broker.bootstrap_servers) as producer, pytest.raises(TypeError, match="value"):
        producer.send(topic, "text")


def test_interceptors_change_records_in_their_order(style, broker, topic):
    class Stamp:
        def __init__(self, mark):
            self.mark = mark

        def on_send(self, record):
            return record._replace(value=record.value + self.mark, headers={**(record.headers or {}), "by": self.mark})

    with style.producer(broker.bootstrap_servers, interceptors=[Stamp(b"1"), Stamp(b"2")]) as producer:
        producer.send(topic, b"v", headers={"a": b"b"})
    assert rows(broker, topic) == [
        {"key": None, "value": b"v12", "headers": [{"key": "a", "value": b"b"}, {"key": "by", "value": b"2"}]}
    ]


def test_an_interceptor_has_to_return_a_record(style, broker, topic):
    class Forgetful:
        def on_send(self, record):
            record._replace(value=b"")

    with (
        style.producer(broker.bootstrap_servers, interceptors=[Forgetful()]) as producer,
        pytest.raises(ArgumentError, match="on_send of an interceptor has to return a NewRecord, not NoneType"),
    ):
        producer.send(topic, b"v")


def test_an_interceptor_that_raises_makes_send_raise(style, broker, topic):
    class Guard:
        def on_send(self, record):
            raise ValueError(f"no secrets to {record.topic}, please")

    with (
        style.producer(broker.bootstrap_servers, interceptors=[Guard()]) as producer,
        pytest.raises(ValueError, match="no secrets"),
    ):
        producer.send(topic, b"v")


def test_every_delivery_is_reported_once(style, broker, topic):
    results = []
    with style.producer(
        broker.bootstrap_servers, on_delivery=results.append, max_request_size=4 << 20, linger_ms=5
    ) as producer:
        for number in range(50):
            producer.send_nowait(topic, b"%d" % number)
        producer.flush()
        producer.send_nowait(topic, b"x" * (2 << 20))
        producer.flush()
    outcomes = [delivery.exception(0) for delivery in results]
    assert [delivery.result(0).offset for delivery in results[:50]] == list(range(50))
    assert outcomes[:50] == [None] * 50
    assert [type(outcome) for outcome in outcomes[50:]] == [MessageTooLargeError]


def test_a_callback_may_send_and_close_and_raise(broker, topic, monkeypatch):
    raised, called = [], threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    producer = klamm.Producer(broker.bootstrap_servers)
    first = producer.send(topic, b"first")

    def on_done(delivery):
        producer.send_nowait(topic, b"second, from the callback")
        called.set()
        raise RuntimeError(delivery.result(0).offset)

    first.add_done_callback(on_done)
    first.result(20)
    assert called.wait(20)  # an outcome is there before its callbacks are called
    producer.flush(20)
    closed = producer.send(topic, b"third")
    closed.add_done_callback(lambda _: producer.close(0))
    closed.result(20)
    late = []
    closed.add_done_callback(late.append)  # there is an outcome: at once
    assert late == [closed]
    assert [str(args.exc_value) for args in raised] == ["0"]
    assert [row["value"] for row in rows(broker, topic)] == [b"first", b"second, from the callback", b"third"]


def test_a_time_may_be_a_datetime(style, broker, topic):
    moment = datetime(2024, 2, 29, 12, 30, 15, 999_999, tzinfo=timezone(timedelta(hours=2)))
    with style.producer(broker.bootstrap_servers) as producer:
        assert producer.send(topic, b"v", timestamp_ms=moment).timestamp_ms == 1_709_202_615_999
        with pytest.raises(TypeError, match=r"timestamp_ms.*str"):
            producer.send(topic, b"v", timestamp_ms="today")


def test_metrics_count_what_happened(style, broker, topic):
    with style.producer(broker.bootstrap_servers, linger_ms=5, max_request_size=4 << 20) as producer:
        producer.send_many(topic, [b"v" * 100] * 1_000)
        producer.flush()
        with pytest.raises(MessageTooLargeError):
            producer.send(topic, b"x" * (2 << 20))
        metrics = producer.client.metrics()
    counted = metrics.topics[topic]
    assert (counted.records, counted.errors) == (1_000, 1)
    assert counted.bytes > 100_000
    assert 1 <= counted.batches <= counted.records / counted.records_per_batch + 1
    assert (metrics.outstanding, metrics.buffered_bytes) == (0, 0)
    (of_broker,) = metrics.brokers.values()
    assert of_broker.requests >= 2
    assert 0 < of_broker.mean_request_latency <= of_broker.max_request_latency
    assert of_broker.in_flight == 0
    assert (2 << 20) + 100_000 < of_broker.bytes < (2 << 20) + 130_000
    # The figures outlive the client.
    assert producer.client.metrics() == metrics


def test_bytes_that_went_to_a_broker_are_counted_as_compressed(style, broker, topic):
    with style.producer(broker.bootstrap_servers, compression_type="zstd", linger_ms=50) as producer:
        producer.send_many(topic, [b"v" * 1_000] * 100)
        producer.flush()
    metrics = producer.client.metrics()
    (of_broker,) = metrics.brokers.values()
    assert 0 < of_broker.bytes < metrics.topics[topic].bytes / 5


def test_batches_too_large_for_the_broker_go_as_smaller_ones(style, broker, topic):
    values = [b"%04d" % number + b"." * 400 for number in range(600)]
    config = {"linger_ms": 200, "batch_size": 4 << 20, "max_request_size": 8 << 20, "buffer_memory": 64 << 20}
    with style.producer(broker.bootstrap_servers, **config) as producer:
        for value in values * 5:  # 1.2 MB; brokers take 1 MiB and a little
            producer.send_nowait(topic, value)
        producer.flush()
        assert producer.client.metrics().topics[topic].batches > 1
    assert [row["value"] for row in rows(broker, topic)] == values * 5


def test_a_flush_returns_after_all_delivery_callbacks(broker, topic):
    """Callers sometimes poll inline, so results come from two threads."""
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for round_ in range(200):
            results = []
            deliveries = [producer.send(topic, b"%d" % round_) for _ in range(3)]
            for delivery in deliveries:
                delivery.add_done_callback(results.append)
            producer.flush()
            assert [delivery.result(0).topic for delivery in deliveries] == [topic] * 3
            assert len(results) == 3


def test_an_old_count_of_partitions_serves_until_the_new_one_is_there(broker, topic, monkeypatch):
    monkeypatch.setattr(klamm.hooks, "COUNT_HOLDS_S", 0)
    counts = []

    def partitioner(_topic, _key, _value, count):
        counts.append(count)
        return 0

    async def main():
        async with klamm.AsyncProducer(broker.bootstrap_servers, partitioner=partitioner) as producer:
            await producer.send(topic, b"v")
            async with klamm.AsyncAdmin(broker.bootstrap_servers) as admin:
                await admin.create_partitions({topic: 3})
            while counts[-1] != 3:
                await producer.send_nowait(topic, b"v")

    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=1)})
    asyncio.run(asyncio.wait_for(main(), 20))


WAITS = {
    "flush": lambda producer, _: producer.flush(),
    "flush with a timeout": lambda producer, _: producer.flush(5),
    "result": lambda _, other: other.result(),
    "exception": lambda _, other: other.exception(5),
    "partitions": lambda producer, _: producer.partitions_for("any"),
}


@pytest.mark.parametrize("waits", WAITS)
def test_a_callback_that_would_wait_for_its_own_client_raises(broker, topic, waits):
    raised, others, is_over = [], [], threading.Event()
    with klamm.Producer(broker.bootstrap_servers, linger_ms=1_000) as producer:

        def wait(_):
            others.append(producer.send(topic, b"second"))
            try:
                WAITS[waits](producer, others[0])
            except ConfigError as error:
                raised.append(error)
            is_over.set()

        producer.send(topic, b"first").add_done_callback(wait)
        assert is_over.wait(30)
        assert "a callback would wait for ever" in str(raised[0])
        assert others[0].result(30).offset == 1


def test_a_callback_may_wait_for_another_client(broker, topic):
    found, is_over = [], threading.Event()
    with (
        klamm.Producer(broker.bootstrap_servers, linger_ms=1_000) as producer,
        klamm.Admin(broker.bootstrap_servers) as admin,
    ):

        def look(_):
            found.append(topic in admin.list_topics())
            is_over.set()

        producer.send(topic, b"v").add_done_callback(look)
        assert is_over.wait(30)
    assert found == [True]


def test_callbacks_of_two_clients_that_would_wait_for_each_other_raise(broker, topic):
    raised, both, over = [], threading.Barrier(2), threading.Semaphore(0)

    def waits_for(other):
        def wait(_):
            both.wait(20)
            try:
                other.flush(10)
            except KafkaError as error:
                raised.append(error)
            over.release()

        return wait

    # The linger lets the callbacks be added before the deliveries are done. Otherwise they would run in this thread.
    one, two = (klamm.Producer(broker.bootstrap_servers, linger_ms=300) for _ in range(2))
    with one, two:
        one.send(topic, b"v").add_done_callback(waits_for(two))
        two.send(topic, b"v").add_done_callback(waits_for(one))
        assert over.acquire(timeout=20)
        assert over.acquire(timeout=20)
    (error,) = raised
    assert "a callback would wait for ever" in str(error)


def test_a_callback_may_read_the_result_and_close_its_producer(broker, topic):
    found, is_over = [], threading.Event()
    producer = klamm.Producer(broker.bootstrap_servers, linger_ms=1_000)

    def look(delivery):
        found.append(delivery.result().offset)
        producer.close()
        is_over.set()

    producer.send(topic, b"v").add_done_callback(look)
    assert is_over.wait(30)
    assert found == [0]
    with pytest.raises(klamm.errors.ClosedError):
        producer.send(topic, b"v")


def test_the_callbacks_of_a_batch_share_a_thread_state(broker, topic):
    in_thread, counts, done = threading.local(), [], threading.Event()

    def count(_):
        # A new thread state has no attributes yet.
        in_thread.count = getattr(in_thread, "count", 0) + 1
        counts.append(in_thread.count)
        if len(counts) == 100:
            done.set()

    with klamm.Producer(broker.bootstrap_servers, linger_ms=200) as producer:
        for _ in range(100):
            producer.send(topic, b"v").add_done_callback(count)
        # Without a call of the producer that waits, the I/O thread calls the callbacks.
        assert done.wait(30)
    assert max(counts) > 1


@pytest.mark.parametrize("callback", ["on_delivery", "on_error"])
def test_a_producer_that_its_callback_refers_to_is_collected(broker, topic, callback):
    class Sender:
        def __init__(self):
            self.producer = klamm.Producer(broker.bootstrap_servers, **{callback: self.note})

        def note(self, _):
            pass

    sender = Sender()
    sender.producer.send(topic, b"v").result(20)
    sender.producer.close()
    producer = weakref.ref(sender.producer)
    del sender
    # The thread that calls `on_error` ends a moment after the close.
    until(lambda: gc.collect() >= 0 and producer() is None)
