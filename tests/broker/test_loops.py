"""A loop over a consumer ends at the end of its records or with an error, never because of a listener or callback."""

from __future__ import annotations

import contextlib

import pytest

import klamm
from klamm.testing import DevBroker
from settled import configure_group, until
from styles import Style

STOPS = [StopIteration, StopAsyncIteration]


@pytest.fixture
def filled():
    with DevBroker() as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [b"%d" % n for n in range(10)], partition=0)
        yield broker


def check_raises(stop, records):
    # A blocking generator raises StopAsyncIteration unchanged, because it ends no blocking loop.
    with pytest.raises((RuntimeError, StopAsyncIteration)) as caught:
        list(records)
    causes = [caught.value]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    assert isinstance(causes[-1], stop)


class Stopping(klamm.RebalanceListener):
    def __init__(self, stop):
        self.stop = stop

    def assigned(self, _partitions):
        raise self.stop("by mistake")


@pytest.mark.parametrize("read", [iter, lambda consumer: consumer.arrow()], ids=["loop", "arrow"])
@pytest.mark.parametrize("stop", STOPS)
def test_a_listener_does_not_end_a_loop(filled, style, stop, read):
    options = {"group_id": "g", "auto_offset_reset": "earliest"}
    with style.consumer(filled.bootstrap_servers, **options) as consumer:
        consumer.subscribe(["t"], on_rebalance=Stopping(stop))
        check_raises(stop, read(consumer))
        assert len(consumer.poll(20)) == 10  # the rebalance took effect


@pytest.mark.parametrize("stop", STOPS)
def test_a_coroutine_of_a_listener_does_not_end_a_loop(filled, stop):
    class Later(klamm.RebalanceListener):
        async def assigned(self, _partitions):
            raise stop("by mistake")

    style = Style("async")
    with style.consumer(filled.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"], on_rebalance=Later())
        check_raises(stop, consumer)
    style.close()


@pytest.mark.parametrize("stop", STOPS)
def test_the_callback_of_a_commit_does_not_end_a_loop(filled, stop):
    def on_commit(_offsets, _error):
        raise stop("by mistake")

    partition = klamm.TopicPartition("t", 0)
    with (
        klamm.Consumer(filled.bootstrap_servers, "g", ["t"], auto_offset_reset="earliest") as consumer,
        klamm.Admin(filled.bootstrap_servers) as admin,
    ):
        records = iter(consumer)
        next(records)
        consumer.commit_nowait({partition: 1}, on_commit)
        until(lambda: admin.group_offsets("g").get(partition) == 1)
        check_raises(stop, records)


@pytest.mark.parametrize("stop", STOPS)
def test_the_callback_of_acknowledgements_does_not_end_a_loop(filled, style, stop):
    def on_acknowledged(_results):
        raise stop("by mistake")

    with klamm.Admin(filled.bootstrap_servers) as admin:
        configure_group(admin, "s", {"share.auto.offset.reset": "earliest"})
    consumer = style.share_consumer(filled.bootstrap_servers, "s", ["t"], on_acknowledged=on_acknowledged)
    records = iter(consumer)
    for _ in range(10):
        next(records)
    with klamm.Producer(filled.bootstrap_servers) as producer:
        producer.send("t", b"10", partition=0).result(20)  # the fetch of this record acknowledges the others
    check_raises(stop, records)
    with contextlib.suppress(stop):  # the close reports the remaining results
        consumer.close()
