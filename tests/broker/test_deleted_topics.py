"""Deleted topics on brokers with `auto.create.topics.enable`: only a record for the topic creates the topic again."""

from __future__ import annotations

from contextlib import suppress

import pytest

import klamm
from klamm.errors import KafkaError, UnknownTopicOrPartitionError
from klamm.testing import DevBroker
from settled import until

TP = klamm.TopicPartition("t", 0)
QUICK = {"metadata_max_age_ms": 100, "client_id": "c"}
WAIT_S = 20
REFRESHES = 4


@pytest.fixture
def dev():
    with DevBroker() as broker:
        yield broker


@pytest.fixture
def admin(dev):
    with klamm.Admin(dev.bootstrap_servers) as admin:
        admin.create_topics({"t": klamm.NewTopic(partitions=3)}, wait=True)
        yield admin


def idle_producer(servers):
    producer = klamm.Producer(servers, **QUICK)
    producer.send("t", b"v").result(WAIT_S)
    return producer, lambda: None


def producer_for_another_topic(servers):
    producer, _ = idle_producer(servers)
    return producer, lambda: producer.send("u", b"v").result(WAIT_S)


def assigned(servers):
    consumer = klamm.Consumer(servers, **QUICK)
    consumer.assign([TP])
    return consumer, lambda: consumer.poll(0.05)


def reader(**config):
    def make(servers):
        consumer = klamm.Consumer(servers, topics=["t"], auto_offset_reset="earliest", **config, **QUICK)
        return consumer, lambda: consumer.poll(0.05)

    return make


def pattern(servers):
    consumer = klamm.Consumer(servers, group_id="g", **QUICK)
    consumer.subscribe(pattern="t.*")
    return consumer, lambda: consumer.poll(0.05)


def share(servers):
    consumer = klamm.ShareConsumer(servers, group_id="s", topics=["t"], **QUICK)
    return consumer, lambda: consumer.poll(0.05)


def lookups(servers):
    consumer = klamm.Consumer(servers, group_id="g", **QUICK)

    def look():
        for call in (consumer.end_offsets, consumer.committed):
            with suppress(KafkaError):
                call([TP], timeout=0.1)
        consumer.partitions_for("t", timeout=0.1)

    return consumer, look


CLIENTS = {
    "idle producer": idle_producer,
    "producer for another topic": producer_for_another_topic,
    "assigned": assigned,
    "subscribed": reader(),
    "classic member": reader(group_id="g"),
    "KIP-848 member": reader(group_id="g", group_protocol="consumer"),
    "pattern": pattern,
    "share member": share,
    "lookups": lookups,
}


@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)
def test_a_client_without_records_for_a_deleted_topic_does_not_create_it_again(dev, admin, make):
    client, use = make(dev.bootstrap_servers)
    with client:
        refreshes(dev, use)
        admin.delete_topics(["t"])
        refreshes(dev, use)
        assert "t" not in admin.list_topics()


def refreshes(dev, use):
    """Use a client until it has requested metadata several times."""

    def count():
        return sum(request.client_id == "c" for request in dev.requests("Metadata"))

    def used():
        with suppress(KafkaError):
            use()
        return count() >= expected

    expected = count() + REFRESHES
    until(used)


def test_a_record_creates_its_own_topic_again_and_no_other_topic(dev, admin):
    admin.create_topics({"other": klamm.NewTopic()}, wait=True)
    with klamm.Producer(dev.bootstrap_servers, **QUICK) as producer:
        for topic in ("t", "other"):
            producer.send(topic, b"v", partition=0).result(WAIT_S)
        admin.delete_topics(["t", "other"])
        # The broker creates the topic with one partition.
        assert producer.send("t", b"v", partition=0).result(WAIT_S).offset == 0
        refreshes(dev, lambda: None)
        assert "t" in admin.list_topics()
        assert "other" not in admin.list_topics()


@pytest.mark.parametrize("allowed", [True, False])
def test_a_subscription_creates_a_topic_that_never_existed_if_it_may(dev, admin, allowed):
    with klamm.Consumer(dev.bootstrap_servers, topics=["new"], allow_auto_create_topics=allowed, **QUICK) as consumer:
        refreshes(dev, lambda: consumer.poll(0.05))
        assert ("new" in admin.list_topics()) == allowed


@pytest.mark.parametrize("version", ["0.8.0", "0.10.2", "4.4"])
def test_a_lookup_of_a_missing_topic_says_so_and_creates_nothing(version):
    with DevBroker(as_version=version) as broker, klamm.Consumer(broker.bootstrap_servers) as consumer:
        with pytest.raises(UnknownTopicOrPartitionError, match="missing"):
            consumer.partitions_for("missing", timeout=WAIT_S)
        with klamm.Admin(broker.bootstrap_servers) as admin:
            assert "missing" not in admin.list_topics()
