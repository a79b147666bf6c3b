"""Calls that time out: each error names the attempt, the broker, the last obstacle and a hint.

No timeout costs other calls their connection.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

import klamm
from klamm.errors import KafkaTimeoutError, NetworkError
from klamm.testing import DevBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from styles import Driven

TP = klamm.TopicPartition("t", 0)


def position(consumer: Driven) -> Any:
    consumer.assign([TP])
    return consumer.position(TP, timeout=0.5)


# A call with a time of its own, what it asks, and what the coordinator or the leader may say to that.
CALLS = {
    "position": (position, "OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    "commit": (lambda c: c.commit({TP: 1}, timeout=0.5), "OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
    "committed": (lambda c: c.committed([TP], timeout=0.5), "OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    "offsets_for_times": (
        lambda c: c.offsets_for_times({TP: 0}, timeout=0.5),
        "ListOffsets",
        "NOT_LEADER_OR_FOLLOWER",
    ),
    "partitions_for": (lambda c: c.partitions_for("t", timeout=0.5), "Metadata", "LEADER_NOT_AVAILABLE"),
}


@pytest.fixture
def dev() -> Iterator[DevBroker]:
    """A separate dev broker with a topic `t`."""
    with DevBroker() as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"t": klamm.NewTopic()})
        yield broker


@pytest.fixture
def silent_address() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest) -> tuple[Callable[[Driven], Any], str, str]:
    return CALLS[request.param]


def timeout_of(call: Callable[[Driven], Any], client: Driven) -> str:
    with pytest.raises(KafkaTimeoutError) as caught:
        call(client)
    assert caught.value.hint
    return str(caught.value)


def test_a_broker_that_has_stopped_is_not_blamed_on_its_advertised_address(style):
    with DevBroker() as dev, style.admin(dev.bootstrap_servers, default_api_timeout_ms=500) as admin:
        admin.describe_cluster()
        dev.stop()
        with pytest.raises(NetworkError, match="the broker responded at this address before; check that it still runs"):
            admin.describe_cluster()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda admin: admin.list_topics(), "list the topics"),
        (lambda admin: admin.describe_cluster(), "describe the cluster"),
    ],
)
def test_an_error_without_brokers_names_the_call(style, call, name):
    with (
        style.admin("127.0.0.1:1", default_api_timeout_ms=300) as admin,
        pytest.raises(NetworkError, match=rf"^{name} did not succeed"),
    ):
        call(admin)


def test_a_failed_call_names_the_error_and_the_broker(style, dev, call):
    ask, api, code = call
    with style.consumer(dev.bootstrap_servers, group_id="g") as consumer:
        consumer.committed([TP])
        dev.fault(api, "error", error=code, times=None)
        message = timeout_of(ask, consumer)
        assert code in message
        # What any broker may say of a topic is not one's own.
        assert api == "Metadata" or f"(broker {dev.bootstrap_servers})" in message


def test_a_call_in_vain_names_the_broker_that_is_silent(style, dev, call):
    ask, api, _ = call
    with style.consumer(dev.bootstrap_servers, group_id="g") as consumer:
        consumer.committed([TP])
        dev.fault(api, "delay", seconds=3600, times=None)
        message = timeout_of(ask, consumer)
        if api == "Metadata":  # any broker may answer
            assert "no broker has responded to Metadata yet" in message
        else:
            assert f"broker 1 has not responded to {api} yet (broker {dev.bootstrap_servers})" in message


def test_a_call_whose_time_is_over_does_not_cost_others_their_connection(style, dev, call):
    ask, api, _ = call
    with style.consumer(dev.bootstrap_servers, group_id="g") as consumer:
        consumer.assign([TP])
        while not dev.requests("Fetch"):
            consumer.poll(timeout=0.1)
        consumer.offsets_for_times({TP: 0})
        consumer.assign([])
        connections = len(dev.requests("ApiVersions"))
        dev.fault(api, "delay", seconds=1)
        timeout_of(ask, consumer)
        # It is answered behind that, on the same connection.
        consumer.committed([TP])
        consumer.offsets_for_times({TP: 0})
        assert len(dev.requests("ApiVersions")) == connections


def test_a_call_in_vain_names_the_addresses_that_are_silent(style, silent_address, call):
    with style.consumer(silent_address, group_id="g") as consumer:
        message = timeout_of(call[0], consumer)
        assert f"no broker of bootstrap.servers has responded yet ({silent_address})" in message


def test_a_coordinator_that_is_not_found_is_why_there_is_no_position(style, dev):
    dev.fault("FindCoordinator", "error", error="COORDINATOR_NOT_AVAILABLE", times=None)
    with style.consumer(dev.bootstrap_servers, group_id="g") as consumer:
        message = timeout_of(CALLS["position"][0], consumer)
    assert message.startswith('no position of t-0 within 0.5 s: find the coordinator of group "g": COORDINATOR_NOT')


def test_a_commit_that_waits_for_the_members_to_share_says_so(style, dev):
    with style.consumer(dev.bootstrap_servers, group_id="g", topics=["t"]) as consumer:
        while not consumer.assignment():
            consumer.poll(0.1)
        dev.fault("OffsetCommit", "error", error="REBALANCE_IN_PROGRESS", times=None)
        assert "REBALANCE_IN_PROGRESS" in timeout_of(CALLS["commit"][0], consumer)
        dev.clear_faults()


@pytest.mark.parametrize("code", ["REBALANCE_IN_PROGRESS", "COORDINATOR_LOAD_IN_PROGRESS"])
def test_a_commit_that_is_retried_still_names_the_previous_error(style, dev, code):
    with style.consumer(dev.bootstrap_servers, group_id="g", topics=["t"]) as consumer:
        while not consumer.assignment():
            consumer.poll(0.1)
        dev.fault("OffsetCommit", "error", error=code)
        dev.fault("OffsetCommit", "delay", seconds=2)
        # The retry is in flight when the time is over, but not long enough to be the cause.
        assert code in timeout_of(CALLS["commit"][0], consumer)


@pytest.mark.parametrize("fault", ["error", "delay"])
def test_a_producer_says_why_it_does_not_know_the_partitions(style, dev, fault):
    with style.producer(dev.bootstrap_servers) as producer:
        assert producer.partitions_for("t") == [0]
        how = {"error": "LEADER_NOT_AVAILABLE"} if fault == "error" else {"seconds": 3600}
        dev.fault("Metadata", fault, times=None, **how)
        message = timeout_of(lambda p: p.partitions_for("t", timeout=0.5), producer)
    assert message.startswith('no metadata of topic "t" within 0.5 s: ')
    assert ("LEADER_NOT_AVAILABLE" if fault == "error" else "no broker has responded to Metadata yet") in message


def test_a_delivery_that_is_waited_for_in_vain_says_what_the_record_was_refused_with(dev):
    with klamm.Producer(dev.bootstrap_servers, delivery_timeout_ms=2000, request_timeout_ms=1000) as producer:
        producer.send("t", b"v").result(20)
        dev.fault("Produce", "error", error="NOT_ENOUGH_REPLICAS", times=None)
        delivery = producer.send("t", b"v")
        with pytest.raises(KafkaTimeoutError, match=r"no acknowledgement within 0.5 s: .*NOT_ENOUGH_REPLICAS"):
            delivery.result(0.5)
        dev.clear_faults()
