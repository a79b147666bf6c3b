"""Log lines of rebalances, leader changes, refused logins and brokers that do not answer."""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest

import klamm
from klamm.errors import (
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)
from klamm.testing import DevBroker
from log_lines import collected
from settled import until


@pytest.fixture
def lines():
    with collected() as found:
        yield found


def poll_until(consumers, is_done, seconds=60):
    """Poll the consumers in turn until a condition holds."""
    end = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < end, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            consumer.poll(0.1)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_rebalance_is_logged_with_reason_and_duration(broker, lines, partitioned, protocol):
    group = f"g-{partitioned}"
    options = {"group_protocol": protocol, "auto_offset_reset": "earliest"}
    if protocol == "classic":
        options["heartbeat_interval_ms"] = 500
    with klamm.Consumer(broker.bootstrap_servers, group, [partitioned], client_id="first", **options) as first:
        poll_until([first], lambda: len(first.assignment()) == 4)
        joined = lines.find(r"^\[first\] the client is a member of group .* after \d+\.\d{3} s")
        assert (joined.name, joined.levelno) == ("klamm.group", logging.INFO)
        assert joined.broker in broker.bootstrap_servers
        assert group in joined.getMessage()
        lines.find(r"^\[first\] the rebalance of group .* took \d+\.\d{3} s")
        lines.records.clear()
        with klamm.Consumer(broker.bootstrap_servers, group, [partitioned], client_id="second", **options) as second:
            poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 2)
            lines.find(r"^\[first\] the rebalance of group .* took \d+\.\d{3} s")
        lines.find(r"^\[second\] the client is a member of group .* after \d+\.\d{3} s")
        gave_up = lines.find(rf"^\[first\] the client gives up \d partitions in group .*: {partitioned}-\d")
        assert gave_up.name == "klamm.group"
        if protocol == "classic":
            assert lines.find(r"^\[first\] the client joins group .*: .*rebalanc")
        else:
            assert lines.find(r"^\[first\] the coordinator of group .* assigned 2 partitions in epoch \d+")


@pytest.mark.parametrize("code", ["COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"])
def test_a_coordinator_that_is_not_ready_for_a_moment_is_no_warning(lines, code):
    errors = []
    with DevBroker() as broker:
        broker.fault("FindCoordinator", "error", error=code, times=3)
        with klamm.Consumer(broker.bootstrap_servers, "g", ["t"], on_error=errors.append) as consumer:
            poll_until([consumer], consumer.assignment)
    assert lines.find(f"the client waits for a coordinator: .*{code}", 1).levelno == logging.INFO
    assert not errors
    assert logging.WARNING not in {record.levelno for record in lines.records}, lines.texts()


def test_a_member_that_waits_for_an_open_transaction_names_it(lines):
    heard = queue.SimpleQueue()
    partition = klamm.TopicPartition("t", 0)
    with DevBroker() as broker, klamm.Producer(broker.bootstrap_servers, transactional_id="x") as producer:
        tx = producer.transaction().__enter__()
        tx.send("t", b"v", partition=0).result(20)
        tx.commit_offsets(klamm.GroupMetadata("g"), {partition: 1})
        options = {"default_api_timeout_ms": 3000, "auto_offset_reset": "earliest", "on_error": heard.put}
        with klamm.Consumer(broker.bootstrap_servers, "g", ["t"], **options) as consumer:
            with pytest.raises(
                KafkaTimeoutError, match=r"UNSTABLE_OFFSET_COMMIT.*open transaction of another producer"
            ):
                consumer.poll(20)
            error = heard.get(timeout=5)
            assert isinstance(error, UnstableOffsetCommitError)
            assert (error.topic, error.partition) == ("t", 0)
            assert "transaction.timeout.ms" in error.hint
            record = lines.find("UNSTABLE_OFFSET_COMMIT.*open transaction", 1, logging.WARNING)
            assert (record.name, record.topic, record.partition) == ("klamm.consumer", "t", 0)
            tx.send("t", b"w", partition=0)
            tx.commit()
            found = []
            until(lambda: found.extend(consumer.poll(0.1)) or found)
            assert [record.value for record in found] == [b"w"]


def test_a_member_reads_the_partitions_that_no_open_transaction_touches():
    with (
        DevBroker(default_partitions=2) as broker,
        klamm.Producer(broker.bootstrap_servers, transactional_id="x") as producer,
        klamm.Producer(broker.bootstrap_servers) as other,
    ):
        other.send_many("t", [b"0"], partition=0)
        other.send_many("t", [b"1"], partition=1)
        tx = producer.transaction().__enter__()
        tx.commit_offsets(klamm.GroupMetadata("g"), {klamm.TopicPartition("t", 0): 1})
        found = []
        with klamm.Consumer(broker.bootstrap_servers, "g", ["t"], auto_offset_reset="earliest") as consumer:
            until(lambda: found.extend(consumer.poll(0.1)) or found)
            assert [record.value for record in found] == [b"1"]
            tx.abort()
            until(lambda: found.extend(consumer.poll(0.1)) or len(found) == 2)
        assert [record.value for record in found] == [b"1", b"0"]


def test_a_leader_change_is_logged_with_both_leaders(lines):
    with DevBroker(brokers=2) as broker, klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send("t", b"x", partition=0).result(20)
        old = producer.partitions_for("t") and broker.requests("Produce")[-1].node
        broker.move_leader("t", 0, 3 - old)
        producer.send("t", b"x", partition=0).result(20)
        record = lines.find(f"the leader changed from {old} to {3 - old}")
        assert (record.name, record.topic, record.partition) == ("klamm.network", "t", 0)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_refused_login_is_a_warning_that_names_the_broker(secured, lines, mechanism):
    config = secured.config("SASL_PLAINTEXT", mechanism, sasl_password="wrong")
    with klamm.Admin(config) as admin, pytest.raises(KafkaError):
        admin.describe_cluster()
    record = lines.find("authentication with .* failed", 5, logging.WARNING)
    assert record.name == "klamm.auth"
    assert record.broker == secured.listener_addresses["SASL_PLAINTEXT"]
    assert "wrong" not in record.getMessage()


def test_a_missing_topic_of_a_share_group_is_a_warning_and_an_error(lines):
    with (
        DevBroker(auto_create_topics=False) as broker,
        klamm.ShareConsumer(broker.bootstrap_servers, "g", ["t"], default_api_timeout_ms=1500) as consumer,
    ):
        consumer.poll(0.1)
        record = lines.find("the topic is not available: UNKNOWN_TOPIC_OR_PARTITION", 5, logging.WARNING)
        assert record.topic == "t"
        with pytest.raises(UnknownTopicOrPartitionError) as caught:
            consumer.poll(30)
        assert caught.value.topic == "t"


@contextmanager
def backlog_full():
    """An address at which connections are neither accepted nor refused."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        # Linux takes one more connection than the backlog says. It drops the packets of all later ones.
        for _ in range(2):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def never_accepted():
    """An address at which the system makes connections and no process answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def consumer_of(address, **options):
    return klamm.Consumer(address, topics=["t"], **options)


def member_of(address, **options):
    return klamm.Consumer(address, "g", ["t"], **options)


def share_member_of(address, **options):
    return klamm.ShareConsumer(address, "g", ["t"], **options)


@pytest.mark.parametrize("make", [consumer_of, member_of, share_member_of])
@pytest.mark.parametrize("silent", [backlog_full, never_accepted])
def test_a_silent_address_is_a_warning_after_a_second_and_an_error_in_time(silent, make, lines):
    heard = threading.Event()
    with silent() as address:
        consumer = make(address, default_api_timeout_ms=2000, on_error=lambda _: heard.set())
        try:
            consumer.poll(0.1)
            # A client of an earlier test may still write its last line.
            record = lines.find(rf"no broker of bootstrap.servers has responded yet \({address}\)", 8, logging.WARNING)
            assert record.broker == address
            stage = {backlog_full: "not made yet", never_accepted: "does not answer"}[silent]
            assert stage in record.getMessage()
            assert heard.wait(5)
            with pytest.raises((NetworkError, klamm.errors.KafkaTimeoutError), match=address):
                consumer.poll(9)
        finally:
            consumer.close(0)
    texts = [text for text in lines.texts() if f"responded yet ({address})" in text]
    assert len(texts) <= 4, texts
