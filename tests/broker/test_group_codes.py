"""Injects each error code into the responses to group members and commits, and compares klamm with the documented table."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

import klamm
from error_tables import CODES, documented
from klamm.errors import KafkaError
from klamm.testing import DevBroker
from settled import until

WAIT_S = 20
TP = klamm.TopicPartition("t", 0)
FAST = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 1}
HEARTBEAT_MS = 20
JOINS = ["FindCoordinator", "JoinGroup", "SyncGroup"]
HEARTBEATS = {"Heartbeat": "classic", "ConsumerGroupHeartbeat": "consumer", "ShareGroupHeartbeat": "share"}


@pytest.fixture
def dev():
    with DevBroker() as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(WAIT_S)
        yield broker


@contextmanager
def member(dev, protocol, **config):
    """A member of a group whose heartbeats come quickly."""
    config |= {"group_id": f"{protocol}-codes", **FAST}
    if protocol == "classic":
        config |= {"heartbeat_interval_ms": HEARTBEAT_MS, "max_poll_interval_ms": 3000}
    else:
        with klamm.Admin(dev.bootstrap_servers) as admin:
            name = f"{protocol}.heartbeat.interval.ms"
            admin.alter_configs("group", config["group_id"], {name: HEARTBEAT_MS})
    if protocol == "share":
        with klamm.ShareConsumer(dev.bootstrap_servers, **config) as consumer:
            yield consumer
    else:
        config |= {"group_protocol": protocol, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        with klamm.Consumer(dev.bootstrap_servers, **config) as consumer:
            yield consumer


def action_until(is_over, consumer):
    """Poll until a condition holds or the membership has ended. Return whether polls raised an error."""
    raised = []

    def is_clear():
        try:
            consumer.poll(0.01)
        except KafkaError as error:
            raised.append(error)
        return len(raised) > 1 or is_over()

    until(is_clear)
    return ["", "raises", "ends"][len(raised)]


@pytest.mark.parametrize("api", JOINS)
def test_each_error_code_of_a_member_that_joins_has_its_documented_effect(dev, api):
    table = documented("Groups", api)
    with member(dev, "classic") as consumer:
        for code in CODES:
            consumer.unsubscribe()
            dev.clear_faults()
            if api == "FindCoordinator":
                dev.fail_next("JoinGroup", error="NOT_COORDINATOR")  # else the member knows its coordinator
            dev.fail_next(api, error=code)
            consumer.subscribe(["t"])
            action = action_until(consumer.assignment, consumer) or "retries"
            assert (code, action) == (code, table[code])


@pytest.mark.parametrize("api", HEARTBEATS)
def test_each_error_code_of_a_heartbeat_has_its_documented_effect(dev, api):
    table = documented("Groups", api)
    with member(dev, HEARTBEATS[api]) as consumer:

        def are_heartbeats_sent(count):
            end = len(dev.requests(api)) + count
            return lambda: len(dev.requests(api)) >= end

        for code in CODES:
            consumer.subscribe(["t"])
            assert not action_until(are_heartbeats_sent(3), consumer)
            joins = consumer.metrics().rebalance_total
            dev.fail_next(api, error=code)
            action = action_until(are_heartbeats_sent(5), consumer)
            action = action or ("rejoins" if consumer.metrics().rebalance_total > joins else "retries")
            assert (code, action) == (code, table[code])


def test_each_error_code_of_a_commit_has_its_documented_effect(dev):
    table = documented("Commits", "OffsetCommit")
    with klamm.Consumer(dev.bootstrap_servers, "g", **FAST) as consumer:
        consumer.assign([TP])
        for code in CODES:
            dev.fail_next("OffsetCommit", error=code)
            try:
                consumer.commit({TP: 1})
                action = "retries"
            except KafkaError:
                action = "raises"
            assert (code, action) == (code, table[code])


def test_each_error_code_of_committed_offsets_has_its_documented_effect(dev):
    table = documented("Commits", "OffsetFetch")
    config = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 1}
    config |= {"retry_backoff_ms": 100, "retry_backoff_max_ms": 100}  # else a retry may succeed before the poll
    with klamm.Consumer(dev.bootstrap_servers, "g", **config) as consumer:
        for code in CODES:
            consumer.assign([])
            dev.fail_next("OffsetFetch", error=code)
            consumer.assign([TP])
            action = action_until(lambda: consumer.lag()[TP] == 0, consumer) or "retries"
            assert (code, action) == (code, table[code])
