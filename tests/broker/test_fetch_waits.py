"""Long polls: `fetch_min_bytes` and `fetch_max_wait_ms`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import klamm
from klamm.testing import DevBroker
from settled import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Broker

WAIT_S = 20
LARGE = b"v" * 5000
MORE_THAN_SMALL, LONG_MS = 2000, 25_000
SOME, MOST_PER_SECOND = 20, 40


@pytest.fixture
def dev() -> Iterator[DevBroker]:
    """A separate dev broker whose requests the test inspects."""
    with DevBroker() as broker:
        yield broker


def made(servers: str, topic: str) -> klamm.TopicPartition:
    with klamm.Admin(servers) as admin:
        admin.create_topics({topic: klamm.NewTopic()})
    return klamm.TopicPartition(topic, 0, 0)


def test_few_bytes_wait_for_more(broker: Broker, topic: str):
    servers = broker.bootstrap_servers
    tp = made(servers, topic)
    with (
        klamm.Producer(servers) as producer,
        klamm.Consumer(servers, fetch_min_bytes=MORE_THAN_SMALL, fetch_max_wait_ms=LONG_MS) as consumer,
    ):
        consumer.assign([tp])
        assert not consumer.poll(0.3)  # it asks, and is not answered
        producer.send(topic, b"small").result(WAIT_S)
        assert not consumer.poll(0.3)
        producer.send(topic, LARGE).result(WAIT_S)
        assert [record.value for record in consumer.poll(WAIT_S)] == [b"small", LARGE]


def test_few_bytes_wait_no_longer_than_they_may(broker: Broker, topic: str):
    servers = broker.bootstrap_servers
    tp = made(servers, topic)
    with (
        klamm.Producer(servers) as producer,
        klamm.Consumer(servers, fetch_min_bytes=MORE_THAN_SMALL, fetch_max_wait_ms=100) as consumer,
    ):
        consumer.assign([tp])
        producer.send(topic, b"small").result(WAIT_S)
        assert [record.value for record in consumer.poll(WAIT_S)] == [b"small"]


def test_a_reader_asks_again_when_the_broker_had_nothing_for_as_long_as_it_may_wait(dev: DevBroker):
    tp = made(dev.bootstrap_servers, "t")
    with klamm.Consumer(dev.bootstrap_servers, fetch_max_wait_ms=20, client_id="short") as short:
        short.assign([tp])
        until(lambda: short.poll(0.1) or asked(dev, "short") > 5)
        with klamm.Consumer(dev.bootstrap_servers, fetch_max_wait_ms=LONG_MS, client_id="long") as long:
            long.assign([tp])
            until(lambda: long.poll(0.1) or asked(dev, "long"))
            before = asked(dev, "short")
            until(lambda: short.poll(0.1) or asked(dev, "short") > before + 5)
            assert asked(dev, "long") == 1


def asked(dev: DevBroker, client_id: str, api: str = "Fetch") -> int:
    """Return the number of fetches of a client."""
    return sum(request.client_id == client_id for request in dev.requests(api))


@pytest.mark.parametrize("config", [{"fetch_max_wait_ms": 0}, {"fetch_max_wait_ms": 500, "fetch_min_bytes": 0}])
def test_an_idle_consumer_fetches_rarely_and_at_once_when_the_application_polls(dev: DevBroker, config: dict):
    tp = made(dev.bootstrap_servers, "t")
    with (
        klamm.Producer(dev.bootstrap_servers) as producer,
        klamm.Consumer(dev.bootstrap_servers, client_id="idle", **config) as consumer,
    ):
        consumer.assign([tp])
        assert not consumer.poll(0.2)
        assert asked(dev, "idle") > SOME  # a poll waits for no pause
        assert fetches_per_second(dev, "idle") < MOST_PER_SECOND
        producer.send("t", b"v").result(WAIT_S)
        assert [record.value for record in consumer.poll(WAIT_S)] == [b"v"]


def test_an_idle_share_consumer_fetches_rarely(dev: DevBroker):
    made(dev.bootstrap_servers, "t")
    config = {"group_id": "g", "topics": ["t"], "fetch_max_wait_ms": 0, "client_id": "idle"}
    with klamm.ShareConsumer(dev.bootstrap_servers, **config) as consumer:
        until(lambda: consumer.poll(0.2) or asked(dev, "idle", "ShareFetch") > SOME)
        assert fetches_per_second(dev, "idle", "ShareFetch") < MOST_PER_SECOND


def fetches_per_second(dev: DevBroker, client_id: str, api: str = "Fetch") -> float:
    """Return how many fetches per second a client sends while its application does not poll."""
    before = asked(dev, client_id, api)
    until(lambda: asked(dev, client_id, api) >= before + 8)
    times = [request.time for request in dev.requests(api) if request.client_id == client_id][before:]
    return len(times) / (times[-1] - times[0])
