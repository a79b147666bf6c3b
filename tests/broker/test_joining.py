"""Members that cannot join or may not read: polls and commits raise the reason. Waiting for other members is not a
failure.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest

import klamm
from klamm.errors import (
    GroupIdNotFoundError,
    KafkaTimeoutError,
    NetworkError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
)
from klamm.testing import DevBroker
from settled import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from styles import Driven, Style

WAIT_S = 20
PLACE = klamm.TopicPartition("t", 0)
# What a member asks on its way into its group, and an answer that has it ask again.
IN_THE_WAY = [
    ("classic", "FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ("classic", "JoinGroup", "NOT_COORDINATOR"),
    ("classic", "JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("consumer", "FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ("consumer", "ConsumerGroupHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS"),
]


@pytest.fixture
def dev() -> Iterator[DevBroker]:
    """A separate dev broker. Its topic `t` has two partitions and one record."""
    with DevBroker(default_partitions=2) as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v", partition=0).result(WAIT_S)
        yield broker


def member(style: Style, servers: str, **config: Any) -> Driven:
    """A member of the group `g` that reports join failures after half a second."""
    usual = {"auto_offset_reset": "earliest", "default_api_timeout_ms": 500}
    return style.consumer(servers, group_id="g", topics=["t"], **{**usual, **config})


@pytest.mark.parametrize(
    ("protocol", "api", "code"), [*IN_THE_WAY, ("classic", "SyncGroup", "COORDINATOR_NOT_AVAILABLE")]
)
def test_whoever_polls_hears_what_is_in_the_way_and_gets_in_when_it_is_gone(style, dev, protocol, api, code):
    dev.fault(api, "error", error=code, times=None)
    with member(style, dev.bootstrap_servers, group_protocol=protocol) as consumer:
        for _ in range(2):  # as long as it lasts
            with pytest.raises(KafkaTimeoutError, match=rf"joining group \"g\" did not succeed in 0.5 s: .*{code}"):
                consumer.poll(WAIT_S)
        dev.clear_faults()
        found = []
        until(lambda: found.extend(consumer.poll(0.1)) or found)
        assert [record.value for record in found] == [b"v"]


@pytest.mark.parametrize(("protocol", "api", "code"), IN_THE_WAY)
def test_a_commit_is_refused_with_what_is_in_the_way(style, dev, protocol, api, code):
    dev.fault(api, "error", error=code, times=None)
    with member(style, dev.bootstrap_servers, group_protocol=protocol, default_api_timeout_ms=60_000) as consumer:
        until(lambda: consumer.poll(0.1) or dev.requests(api))

        def refused() -> UnknownMemberIdError:
            with pytest.raises(UnknownMemberIdError) as caught:
                consumer.commit({PLACE: 1})
            return caught.value

        # What was asked is noted before the answer is there.
        until(lambda: code in str(refused()))
        assert "max.poll.interval.ms" not in str(refused())
        dev.clear_faults()


def test_a_commit_before_the_first_join_says_so(style, dev):
    dev.fault("FindCoordinator", "delay", seconds=3600.0, times=None)
    with (
        member(style, dev.bootstrap_servers) as consumer,
        pytest.raises(UnknownMemberIdError, match=r"has not joined yet: .*poll first"),
    ):
        consumer.commit({PLACE: 1})


def test_a_member_that_reaches_nobody_says_so(style):
    with (
        member(style, "127.0.0.1:1") as consumer,
        pytest.raises(NetworkError, match=r"joining group .* did not succeed in 0.5 s: no broker can be reached"),
    ):
        consumer.poll(WAIT_S)


def test_a_share_consumer_hears_what_is_in_the_way(style, dev):
    dev.fault("ShareGroupHeartbeat", "error", error="COORDINATOR_LOAD_IN_PROGRESS", times=None)
    config: dict[str, Any] = {"group_id": "g", "topics": ["t"], "default_api_timeout_ms": 500}
    with style.share_consumer(dev.bootstrap_servers, **config) as consumer:
        with pytest.raises(KafkaTimeoutError, match=r"joining group \"g\" did not succeed in 0.5 s"):
            consumer.poll(WAIT_S)
        dev.clear_faults()


@pytest.mark.parametrize("protocol", ["consumer", "share"])
def test_a_member_that_may_not_read_its_topic_any_more_stays_in_its_group(style, dev, protocol):
    config: dict[str, Any] = {"group_id": "g", "topics": ["t"]}
    with (
        klamm.Admin(dev.bootstrap_servers) as admin,
        style.share_consumer(dev.bootstrap_servers, **config)
        if protocol == "share"
        else style.consumer(dev.bootstrap_servers, group_protocol="consumer", **config) as consumer,
    ):

        def members() -> list[str]:
            with suppress(GroupIdNotFoundError):  # until it has a member
                return [member.member_id for member in admin.describe_groups(["g"])["g"].members]
            return []

        until(lambda: not consumer.poll(0.1) and members())
        before = members()
        heartbeat = "ShareGroupHeartbeat" if protocol == "share" else "ConsumerGroupHeartbeat"
        dev.fault(heartbeat, "error", error="TOPIC_AUTHORIZATION_FAILED", times=2)
        for _ in range(2):
            with pytest.raises(TopicAuthorizationFailedError, match=r"heartbeat in .*group"):
                consumer.poll(WAIT_S)
        asked = len(dev.requests(heartbeat))
        until(lambda: not consumer.poll(0.1) and len(dev.requests(heartbeat)) > asked)
        assert members() == before


def test_waiting_for_a_member_that_is_slow_is_no_failure(dev):
    """The second member waits at the broker for the first, which does not poll, much longer than the limit for
    failures.
    """
    config: dict[str, Any] = {"group_id": "g", "topics": ["t"], "partition_assignment_strategy": "range"}
    with klamm.Consumer(dev.bootstrap_servers, **config) as slow:
        until(lambda: slow.poll(0.1) is not None and slow.assignment())
        before = len(dev.requests("JoinGroup"))
        dev.fault("FindCoordinator", "error", error="COORDINATOR_NOT_AVAILABLE")
        with klamm.Consumer(dev.bootstrap_servers, default_api_timeout_ms=100, **config) as second:
            # The first time it is given its id.
            until(lambda: not second.poll(0.1) and len(dev.requests("JoinGroup")) == before + 2)
            assert not any(second.poll(0.1) for _ in range(20))
            until(lambda: [consumer.poll(0.1) for consumer in (slow, second)] and second.assignment())


@pytest.mark.parametrize(
    ("kind", "api", "code"),
    [
        ("classic", "JoinGroup", "UNKNOWN_MEMBER_ID"),
        ("classic", "JoinGroup", "REBALANCE_IN_PROGRESS"),
        ("classic", "SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("classic", "Fetch", "FETCH_SESSION_ID_NOT_FOUND"),
        ("classic", "Fetch", "INVALID_FETCH_SESSION_EPOCH"),
        ("consumer", "ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH"),
        ("share", "ShareGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
        ("share", "ShareFetch", "SHARE_SESSION_NOT_FOUND"),
    ],
)
def test_a_broker_that_always_has_the_member_begin_anew_is_asked_after_a_pause(dev, kind, api, code):
    dev.fault(api, "error", error=code, times=None)
    config: dict[str, Any] = {"group_id": "g", "topics": ["t"], "retry_backoff_ms": 200}
    with ExitStack() as stack:
        if kind == "share":
            consumer: Any = stack.enter_context(klamm.ShareConsumer(dev.bootstrap_servers, **config))
        else:
            consumer = stack.enter_context(klamm.Consumer(dev.bootstrap_servers, group_protocol=kind, **config))
        until(lambda: not consumer.poll(0.1) and dev.requests(api))
        before = len(dev.requests(api))
        assert not consumer.poll(1.5)
        # At once after the first, and then after 0.2, 0.4 and 0.8 s, about.
        assert 1 <= len(dev.requests(api)) - before <= 8
        dev.clear_faults()
