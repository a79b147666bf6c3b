"""Members that cannot join or may not read: polls and commits raise the reason. Waiting for other members is not a
failure.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest

import klamm
from by_hand import Line
from klamm.errors import (
    DecodeError,
    GroupIdNotFoundError,
    KafkaError,
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
TP = klamm.TopicPartition("t", 0)
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
    """A member of the group `g` that reports join failures after half a second, and then tries again soon."""
    usual = {"auto_offset_reset": "earliest", "default_api_timeout_ms": 500, "retry_backoff_max_ms": 100}
    return style.consumer(servers, group_id="g", topics=["t"], **{**usual, **config})


@pytest.mark.parametrize(
    ("protocol", "api", "code"), [*IN_THE_WAY, ("classic", "SyncGroup", "COORDINATOR_NOT_AVAILABLE")]
)
def test_poll_raises_why_the_consumer_cannot_join_and_joins_when_it_can(style, dev, protocol, api, code):
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
                consumer.commit({TP: 1})
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
        consumer.commit({TP: 1})


def test_a_commit_without_any_broker_is_a_network_error(style):
    with member(style, "127.0.0.1:1", default_api_timeout_ms=60_000) as consumer:

        def refused() -> KafkaError:
            with pytest.raises(KafkaError, match=r'commit for group "g"') as caught:
                consumer.commit({TP: 1})
            return caught.value

        until(lambda: "could not join" in str(refused()))
        assert isinstance(refused(), NetworkError)
        assert "no broker can be reached" in str(refused())


def test_a_member_that_reaches_no_broker_raises(style):
    with (
        member(style, "127.0.0.1:1") as consumer,
        pytest.raises(NetworkError, match=r"joining group .* did not succeed in 0.5 s: no broker can be reached"),
    ):
        consumer.poll(WAIT_S)


def test_a_share_consumer_raises_why_it_cannot_join(style, dev):
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


TOPIC_T = bytes.fromhex("00000001 0001 74")
NO_DATA = bytes.fromhex("ffffffff")
UNUSUAL = {
    "v1 without owned partitions": bytes.fromhex("0001") + TOPIC_T + NO_DATA,
    "v3 without its fields": bytes.fromhex("0003") + TOPIC_T + NO_DATA,
    "no user data": bytes.fromhex("0000") + TOPIC_T,
    "version 32767": bytes.fromhex("7fff") + TOPIC_T + NO_DATA,
}
UNREADABLE = {
    "empty": b"",
    "negative version": bytes.fromhex("ffff") + TOPIC_T + NO_DATA,
    "negative length": bytes.fromhex("0000 ffffffff"),
    "length beyond the end": bytes.fromhex("0000 7fffffff 0001 74"),
}


class OldMember:
    """A member of the group `g` that sends its own subscription, and follows rebalances when asked to."""

    def __init__(self, broker: DevBroker, metadata: bytes) -> None:
        host, port = broker.bootstrap_servers.split(":")
        self.line, self.metadata, self.member = Line(host, int(port)), metadata, ""

    def join(self) -> None:
        protocols = [{"name": "range", "metadata": self.metadata}]
        times = {"sessionTimeoutMs": 30_000, "rebalanceTimeoutMs": 30_000}
        fields = {"groupId": "g", "memberId": self.member, "protocolType": "consumer", "protocols": protocols, **times}
        joined = self.line("JoinGroup", 2, fields)
        self.member = joined["memberId"]
        self.me = {"groupId": "g", "generationId": joined["generationId"], "memberId": self.member}

    def share(self) -> tuple[int, bytes]:
        synced = self.line("SyncGroup", 1, {**self.me, "assignments": []})
        return synced["errorCode"], synced["assignment"]

    def run(self, is_over: threading.Event) -> None:
        while not is_over.is_set():
            self.join()
            self.share()
            while not self.line("Heartbeat", 1, self.me)["errorCode"]:
                if is_over.wait(0.1):
                    return


@pytest.mark.parametrize("metadata", [*UNUSUAL.values(), *UNREADABLE.values()], ids=[*UNUSUAL, *UNREADABLE])
def test_a_member_with_an_unusual_subscription_ends_no_other(dev, metadata):
    config: dict[str, Any] = {"group_id": "g", "topics": ["t"], "heartbeat_interval_ms": 200}
    is_over = threading.Event()
    with ExitStack() as stack:
        consumer = stack.enter_context(klamm.Consumer(dev.bootstrap_servers, **config))
        until(lambda: not consumer.poll(0.1) and consumer.assignment())
        old = OldMember(dev, metadata)
        thread = threading.Thread(target=old.run, args=(is_over,), daemon=True)
        stack.callback(thread.join, WAIT_S)
        stack.callback(is_over.set)
        thread.start()

        expected = 1 if metadata in UNUSUAL.values() else 2
        with klamm.Admin(dev.bootstrap_servers) as admin:

            def is_shared() -> bool:
                assert not consumer.poll(0.1)
                group = admin.describe_groups(["g"])["g"]
                return group.state == "Stable" and len(group.members) == 2 and len(consumer.assignment()) == expected

            until(is_shared)


def test_a_member_with_a_malformed_assignment_reads_nothing_and_continues(dev):
    """The leader of the group is another client, with a damaged assignment for klamm's member."""
    old = OldMember(dev, bytes.fromhex("0000") + TOPIC_T + NO_DATA)
    old.join()
    with klamm.Consumer(dev.bootstrap_servers, "g", ["t"], partition_assignment_strategy="range") as consumer:
        until(lambda: not consumer.poll(0.1) and old.line("Heartbeat", 1, old.me)["errorCode"])
        old.join()
        with klamm.Admin(dev.bootstrap_servers) as admin:
            until(lambda: len(admin.describe_groups(["g"])["g"].members) == 2)
            (other,) = (m.member_id for m in admin.describe_groups(["g"])["g"].members if m.member_id != old.member)
        assignments = [{"memberId": other, "assignment": b"\x00\x00\x00\x00\x00\x09"}]
        assert old.line("SyncGroup", 1, {**old.me, "assignments": assignments})["errorCode"] == 0
        with pytest.raises(DecodeError, match="assignment that is malformed"):
            consumer.poll(WAIT_S)
        assert not consumer.poll(0.1)
        old.line("LeaveGroup", 1, {"groupId": "g", "memberId": old.member})
        old.line.close()
        until(lambda: not consumer.poll(0.1) and len(consumer.assignment()) == 2)


ENDS = [
    ("classic", "JoinGroup", "INCONSISTENT_GROUP_PROTOCOL"),
    ("classic", "SyncGroup", "INCONSISTENT_GROUP_PROTOCOL"),
    ("classic", "Heartbeat", "INVALID_GROUP_ID"),
    ("consumer", "ConsumerGroupHeartbeat", "UNSUPPORTED_ASSIGNOR"),
    ("share", "ShareGroupHeartbeat", "GROUP_MAX_SIZE_REACHED"),
]


@pytest.mark.parametrize(("protocol", "api", "code"), ENDS)
def test_a_membership_that_ends_by_an_error_leaves_the_group(style, dev, protocol, api, code):
    """Otherwise the next membership would wait for the one before, until its session ends."""
    config: dict[str, Any] = {"group_id": "g", "topics": ["t"]}
    if protocol == "classic":
        config["heartbeat_interval_ms"] = 200
    made = style.share_consumer if protocol == "share" else style.consumer
    with (
        klamm.Admin(dev.bootstrap_servers) as admin,
        made(
            dev.bootstrap_servers, **config, **({} if protocol == "share" else {"group_protocol": protocol})
        ) as consumer,
    ):

        def members() -> list[str]:
            with suppress(GroupIdNotFoundError):
                return [member.member_id for member in admin.describe_groups(["g"])["g"].members]
            return []

        if api not in {"JoinGroup", "SyncGroup"}:
            until(lambda: not consumer.poll(0.1) and members())
        dev.fault(api, "error", error=code)
        with pytest.raises(klamm.errors.BrokerError, match=code):
            consumer.poll(WAIT_S)
        assert not consumer.poll(0), "a loop that catches the error must not spin"
        with pytest.raises(klamm.errors.BrokerError, match=code):
            consumer.poll(WAIT_S)
        until(lambda: not members())
        consumer.subscribe(["t"])
        until(lambda: not consumer.poll(0.1) and len(members()) == 1)


UNEXPECTED = [
    ("classic", "FindCoordinator"),
    ("classic", "JoinGroup"),
    ("classic", "SyncGroup"),
    ("classic", "Heartbeat"),
    ("consumer", "FindCoordinator"),
    ("consumer", "ConsumerGroupHeartbeat"),
    ("share", "FindCoordinator"),
    ("share", "ShareGroupHeartbeat"),
]


@pytest.mark.parametrize("code", ["UNKNOWN_SERVER_ERROR", "INVALID_REQUEST", "UNSUPPORTED_VERSION"])
@pytest.mark.parametrize(("protocol", "api"), UNEXPECTED)
def test_an_unexpected_code_does_not_end_a_membership(dev, protocol, api, code):
    errors: list[klamm.KafkaError] = []
    config: dict[str, Any] = {"group_id": "g", "topics": ["t"], "on_error": errors.append}
    group_type = "share" if protocol == "share" else "consumer"
    with klamm.Admin(dev.bootstrap_servers) as admin:
        admin.alter_configs("group", "g", {f"{group_type}.heartbeat.interval.ms": 50})
        if protocol == "share":
            admin.alter_configs("group", "g", {"share.auto.offset.reset": "earliest"})
            consumer: Any = klamm.ShareConsumer(dev.bootstrap_servers, **config)
        else:
            config |= {"group_protocol": protocol, "auto_offset_reset": "earliest"}
            config |= {"heartbeat_interval_ms": 50} if protocol == "classic" else {}
            consumer = klamm.Consumer(dev.bootstrap_servers, **config)
    with consumer:
        if "Heartbeat" in api:
            until(lambda: consumer.poll(0.1))
            dev.fault(api, "error", error=code, times=2)
            before = len(dev.requests(api))
            until(lambda: not consumer.poll(0.1) and len(dev.requests(api)) >= before + 4)
            with klamm.Producer(dev.bootstrap_servers) as producer:
                producer.send("t", b"w", partition=0).result(WAIT_S)
        else:
            dev.fault(api, "error", error=code, times=2)
        until(lambda: consumer.poll(0.1))
    assert code in str(errors[0])


def test_a_partition_without_a_position_is_an_error_at_most_once_a_second(style, dev):
    with style.consumer(dev.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign([TP])
        for _ in range(2):
            with pytest.raises(klamm.errors.ConfigError, match="no start offset"):
                consumer.poll(WAIT_S)
            assert not consumer.poll(0)


def test_an_assignor_that_fails_once_delays_the_next_subscription_by_nothing(dev):
    class Fails(klamm.assignors.Assignor):
        name = "fails"
        broken = True

        def assign(self, topics: Any, members: Any) -> Any:
            if self.broken:
                raise ZeroDivisionError
            return {
                members[0].id: [klamm.TopicPartition(t, n) for t, found in topics.items() for n in range(len(found))]
            }

    assignor = Fails()
    with klamm.Consumer(dev.bootstrap_servers, "g", ["t"], partition_assignment_strategy=[assignor]) as consumer:
        with pytest.raises(klamm.errors.ConfigError, match="ZeroDivisionError"):
            consumer.poll(WAIT_S)
        assignor.broken = False
        consumer.subscribe(["t"])
        until(lambda: not consumer.poll(0.1) and consumer.assignment())


DENIED = [
    ("classic", "JoinGroup", "GROUP_AUTHORIZATION_FAILED"),
    ("classic", "SyncGroup", "GROUP_AUTHORIZATION_FAILED"),
    ("classic", "Heartbeat", "GROUP_AUTHORIZATION_FAILED"),
    ("classic", "FindCoordinator", "GROUP_AUTHORIZATION_FAILED"),
    ("classic", "OffsetFetch", "GROUP_AUTHORIZATION_FAILED"),
    ("classic", "Fetch", "TOPIC_AUTHORIZATION_FAILED"),
    ("consumer", "ConsumerGroupHeartbeat", "GROUP_AUTHORIZATION_FAILED"),
    ("consumer", "ConsumerGroupHeartbeat", "TOPIC_AUTHORIZATION_FAILED"),
    ("consumer", "FindCoordinator", "GROUP_AUTHORIZATION_FAILED"),
    ("share", "ShareGroupHeartbeat", "GROUP_AUTHORIZATION_FAILED"),
    ("share", "FindCoordinator", "GROUP_AUTHORIZATION_FAILED"),
    ("share", "ShareFetch", "GROUP_AUTHORIZATION_FAILED"),
]


@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize("denied", DENIED, ids="-".join)
def test_a_refusal_of_the_moment_is_raised_and_the_member_recovers(style, dev, denied, times):
    protocol, api, code = denied
    config: dict[str, Any] = {"group_id": "g", "topics": ["t"], "retry_backoff_max_ms": 100}
    made = style.share_consumer if protocol == "share" else style.consumer
    if protocol == "classic":
        config["heartbeat_interval_ms"] = 200
    if protocol != "share":
        config |= {"group_protocol": protocol, "auto_offset_reset": "earliest"}
    else:
        with klamm.Admin(dev.bootstrap_servers) as admin:
            admin.alter_configs("group", "g", {"share.auto.offset.reset": "earliest"})
    dev.fault(api, "error", error=code, times=times)
    with made(dev.bootstrap_servers, **config) as consumer:
        found: list[Any] = []
        raised: list[str] = []

        def is_read() -> bool:
            try:
                found.extend(consumer.poll(1))
            except klamm.errors.BrokerError as error:
                raised.append(type(error).__name__)
            return bool(found and raised)

        until(is_read)
        assert [record.value for record in found] == [b"v"]
        assert set(raised) == {f"{''.join(word.capitalize() for word in code.split('_')[:-1])}FailedError"}
        dev.clear_faults()

        def is_quiet() -> bool:
            with suppress(klamm.errors.BrokerError):  # a response that was in flight
                return not consumer.poll(0.1)
            return False

        until(is_quiet)
        assert not consumer.poll(0.2)
