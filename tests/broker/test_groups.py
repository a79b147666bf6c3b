"""Groups of klamm's own consumers, by both protocols, on the dev broker and on Apache Kafka."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

import klamm
from klamm.errors import (
    ClosedError,
    ConfigError,
    FencedError,
    GroupAuthorizationFailedError,
    InvalidRegularExpressionError,
    KafkaTimeoutError,
    UnknownMemberIdError,
)
from klamm.testing import DevBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from conftest import Broker

WAIT_S = 60

CLASSIC = ["range", "roundrobin", "sticky", "cooperative-sticky"]
PROTOCOLS: dict[str, dict[str, Any]] = {
    **{name: {"partition_assignment_strategy": name} for name in CLASSIC},
    "several": {},
    "consumer": {"group_protocol": "consumer"},
}


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """All group protocols and assignors."""
    config = dict(PROTOCOLS[request.param])
    if request.param != "consumer":
        config |= {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300}
    return config


class Recorder(klamm.RebalanceListener):
    """Records the calls of a rebalance listener."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    def assigned(self, partitions: set[klamm.TopicPartition]) -> None:
        self.note("assigned", partitions)

    def revoked(self, partitions: set[klamm.TopicPartition]) -> None:
        self.note("revoked", partitions)

    def lost(self, partitions: set[klamm.TopicPartition]) -> None:
        self.note("lost", partitions)

    def note(self, what: str, partitions: set[klamm.TopicPartition]) -> None:
        self.events.append((what, sorted(tp.partition for tp in partitions)))


def member(broker: Broker, group: str, topics: Any, listener: Any = None, **config: Any) -> klamm.Consumer:
    consumer = klamm.Consumer(broker.bootstrap_servers, group_id=group, auto_offset_reset="earliest", **config)
    consumer.subscribe(topics, on_rebalance=listener)
    return consumer


def poll_until(members: Sequence[klamm.Consumer], done: Callable[[], bool], seen: Counter[bytes] | None = None) -> None:
    """Let members poll in turn until a condition holds."""
    end = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < end, f"not within {WAIT_S} s: {[m.assignment() for m in members]}"
        for one in members:
            records = one.poll(0.05)
            if seen is not None:
                seen.update(bytes(r.value) for r in records)


def shares(members: Sequence[klamm.Consumer]) -> list[list[int]]:
    return sorted(sorted(tp.partition for tp in m.assignment()) for m in members)


def share_evenly(members: Sequence[klamm.Consumer], partitions: int) -> bool:
    owned = [p for share in shares(members) for p in share]
    sizes = [len(share) for share in shares(members)]
    return sorted(owned) == list(range(partitions)) and max(sizes) - min(sizes) <= 1


def produce(broker: Broker, topic: str, values: range, partitions: int = 4) -> None:
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for n in values:
            producer.send_nowait(topic, b"%d" % n, partition=n % partitions)


def test_members_share_a_topic_and_every_record_is_read(broker, partitioned, protocol):
    produce(broker, partitioned, range(200))
    seen: Counter[bytes] = Counter()
    first = member(broker, partitioned, [partitioned], **protocol)
    poll_until([first], lambda: share_evenly([first], 4) and len(seen) == 200, seen)
    second = member(broker, partitioned, [partitioned], **protocol)
    poll_until([first, second], lambda: share_evenly([first, second], 4), seen)
    produce(broker, partitioned, range(200, 400))
    poll_until([first, second], lambda: len(seen) == 400, seen)
    second.close()
    poll_until([first], lambda: share_evenly([first], 4), seen)
    produce(broker, partitioned, range(400, 500))
    poll_until([first], lambda: len(seen) == 500, seen)
    first.close()
    assert set(seen) == {b"%d" % n for n in range(500)}
    # No member died: the consumer committed the read records before it lost the partition.
    assert max(seen.values()) == 1
    with klamm.Consumer(broker.bootstrap_servers, group_id=partitioned) as reader:
        tps = [klamm.TopicPartition(partitioned, p) for p in range(4)]
        assert reader.committed(tps) == dict.fromkeys(tps, 125)


def test_a_listener_is_called_for_assigned_and_revoked_partitions(broker, partitioned, protocol):
    recorder, other = Recorder(), Recorder()
    first = member(broker, partitioned, [partitioned], recorder, **protocol)
    poll_until([first], lambda: share_evenly([first], 4))
    assert recorder.events == [("assigned", [0, 1, 2, 3])]
    second = member(broker, partitioned, [partitioned], other, **protocol)
    poll_until([first, second], lambda: share_evenly([first, second], 4))
    is_eager = protocol.get("partition_assignment_strategy") in {"range", "roundrobin", "sticky"} or len(protocol) == 2
    went = recorder.events[1]
    assert went[0] == "revoked"
    assert len(went[1]) == (4 if is_eager else 2)
    assert len(shares([second])[0]) == 2
    assert other.events == [("assigned", shares([second])[0])]
    kept = shares([first])[0]
    first.close()
    assert recorder.events[-1] == ("revoked", kept)
    second.close()


def test_seeking_and_committing_in_a_listener(broker, partitioned):
    class Rewinds(klamm.RebalanceListener):
        def assigned(self, partitions: set[klamm.TopicPartition]) -> None:
            for tp in partitions:
                consumer.seek(tp, 3)

        def revoked(self, partitions: set[klamm.TopicPartition]) -> None:
            consumer.commit(dict.fromkeys(partitions, 4))

    produce(broker, partitioned, range(40))
    consumer = klamm.Consumer(broker.bootstrap_servers, group_id=partitioned, enable_auto_commit=False)
    consumer.subscribe([partitioned], on_rebalance=Rewinds())
    seen: Counter[bytes] = Counter()
    poll_until([consumer], lambda: len(seen) == 28, seen)
    assert {int(value) for value in seen} == set(range(12, 40))
    consumer.close()
    with klamm.Consumer(broker.bootstrap_servers, group_id=partitioned) as reader:
        assert set(reader.committed([klamm.TopicPartition(partitioned, p) for p in range(4)]).values()) == {4}


def test_what_a_listener_raises_comes_out_of_the_poll_and_the_change_holds(broker, partitioned):
    class Fails(klamm.RebalanceListener):
        def assigned(self, partitions: set[klamm.TopicPartition]) -> None:
            raise ZeroDivisionError(partitions)

    produce(broker, partitioned, range(4))
    with klamm.Consumer(broker.bootstrap_servers, group_id=partitioned, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([partitioned], on_rebalance=Fails())
        with pytest.raises(ZeroDivisionError):
            next(iter(consumer))
        seen: Counter[bytes] = Counter()
        poll_until([consumer], lambda: len(seen) == 4, seen)


def test_an_event_loop_awaits_its_listener(broker, partitioned):
    recorder: list[str] = []

    class Slow(klamm.RebalanceListener):
        async def assigned(self, partitions: set[klamm.TopicPartition]) -> None:
            await asyncio.sleep(0)
            recorder.append(f"assigned {len(partitions)}")

        async def revoked(self, partitions: set[klamm.TopicPartition]) -> None:
            recorder.append(f"revoked {len(partitions)}")

    async def read() -> list[int]:
        async with klamm.AsyncConsumer(
            broker.bootstrap_servers, group_id=partitioned, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([partitioned], on_rebalance=Slow())
            values = []
            async for record in consumer:
                values.append(int(record.value))
                assert recorder == ["assigned 4"]
                if len(values) == 8:
                    return values
        raise AssertionError("the topic ended")

    produce(broker, partitioned, range(8))
    assert sorted(asyncio.run(asyncio.wait_for(read(), WAIT_S))) == list(range(8))
    assert recorder == ["assigned 4", "revoked 4"]


def test_a_static_member_comes_back_without_a_rebalance(broker, partitioned, protocol):
    recorder = Recorder()
    first = member(broker, partitioned, [partitioned], recorder, group_instance_id="one", **protocol)
    second = member(broker, partitioned, [partitioned], group_instance_id="two", **protocol)
    poll_until([first, second], lambda: share_evenly([first, second], 4))
    events, had = list(recorder.events), shares([second])
    second.close()
    returned = member(broker, partitioned, [partitioned], group_instance_id="two", **protocol)
    poll_until([first, returned], lambda: share_evenly([first, returned], 4))
    assert shares([returned]) == had
    assert recorder.events == events
    first.close()
    returned.close()


def test_two_static_members_of_one_name_fence_each_other(broker, partitioned):
    first = member(broker, partitioned, [partitioned], group_instance_id="one", heartbeat_interval_ms=200)
    poll_until([first], lambda: share_evenly([first], 4))
    second = member(broker, partitioned, [partitioned], group_instance_id="one")
    for _ in range(2):  # it says so at every poll, rather than wait for records that cannot come
        with pytest.raises(FencedError, match="FENCED_INSTANCE_ID"):
            poll_until([second, first], lambda: False)
    first.close()
    second.close()


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "consumer"], indirect=True)
def test_a_member_that_does_not_poll_loses_its_partitions_and_gets_them_back(broker, partitioned, protocol):
    produce(broker, partitioned, range(100))
    recorder = Recorder()
    config = {**protocol, "max_poll_interval_ms": 1500}
    if "session_timeout_ms" in config:
        config |= {"session_timeout_ms": 6000}
    slow = member(broker, partitioned, [partitioned], recorder, **config)
    quick = member(broker, partitioned, [partitioned], **protocol)
    poll_until([slow, quick], lambda: share_evenly([slow, quick], 4))
    before = len(recorder.events)
    poll_until([quick], lambda: shares([quick]) == [[0, 1, 2, 3]])
    assert len(recorder.events) == before
    poll_until([slow, quick], lambda: share_evenly([slow, quick], 4))
    assert recorder.events[before][0] == "lost"
    slow.close()
    quick.close()


def test_a_task_that_stops_polling_after_an_empty_poll_loses_its_membership(broker, partitioned):
    """A finished wait for records must not count as a current one."""

    async def go_on(slow, quick):
        while not (len(slow.assignment()) == len(quick.assignment()) == 2):
            await slow.poll(timeout=0.05)
            await quick.poll(timeout=0.05)
        while len(quick.assignment()) < 4:
            await quick.poll(timeout=0.05)

    async def main():
        config = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300}
        group = {"group_id": f"{partitioned}-group", "topics": [partitioned], **config}
        async with (
            klamm.AsyncConsumer(broker.bootstrap_servers, max_poll_interval_ms=1500, **group) as slow,
            klamm.AsyncConsumer(broker.bootstrap_servers, **group) as quick,
        ):
            await asyncio.wait_for(go_on(slow, quick), WAIT_S)

    asyncio.run(main())


@pytest.mark.parametrize("protocol", ["range", "consumer"], indirect=True)
def test_topics_that_match_a_pattern_are_read_also_those_made_later(broker, topic, protocol):
    def make(name: str) -> None:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({name: klamm.NewTopic(partitions=2)})

    make(f"{topic}-a")
    make(f"x{topic}-a")
    with klamm.Consumer(
        broker.bootstrap_servers, group_id=topic, metadata_max_age_ms=500, auto_offset_reset="earliest", **protocol
    ) as consumer:
        consumer.subscribe(pattern=f"{topic}-(a|[b-d]+)")

        def topics() -> set[str]:
            return {tp.topic for tp in consumer.assignment()}

        poll_until([consumer], lambda: topics() == {f"{topic}-a"})
        make(f"{topic}-b")
        poll_until([consumer], lambda: topics() == {f"{topic}-a", f"{topic}-b"})


def test_a_pattern_in_a_dialect_of_the_coordinators_is_left_to_it(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({f"{topic}-a": klamm.NewTopic()})
    config = {"group_id": topic, "auto_offset_reset": "earliest"}
    with (
        klamm.Consumer(broker.bootstrap_servers, **config) as consumer,
        pytest.raises(ConfigError, match="Unicode character classes are not supported"),
    ):
        consumer.subscribe(pattern=rf"{topic}-\p{{L}}+")
    with klamm.Consumer(broker.bootstrap_servers, group_protocol="consumer", **config) as consumer:
        consumer.subscribe(pattern=rf"{topic}-\p{{L}}+")
        if broker.name == "real":
            poll_until([consumer], lambda: {tp.topic for tp in consumer.assignment()} == {f"{topic}-a"})
        else:  # which knows no more than klamm does
            with pytest.raises(InvalidRegularExpressionError):
                consumer.poll(WAIT_S)


def test_a_topic_that_grows_is_shared_out_again(broker, partitioned, protocol):
    recorder = Recorder()
    first = member(broker, partitioned, [partitioned], recorder, metadata_max_age_ms=500, **protocol)
    poll_until([first], lambda: share_evenly([first], 4))
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_partitions({partitioned: 6})
    poll_until([first], lambda: share_evenly([first], 6))
    first.close()


def test_offsets_are_committed_with_a_text(broker, partitioned):
    tp = klamm.TopicPartition(partitioned, 1)
    with klamm.Consumer(broker.bootstrap_servers, group_id=partitioned) as consumer:
        consumer.commit({tp: klamm.OffsetAndMetadata(7, "seven")})
        assert consumer.committed([tp]) == {tp: 7}
        assert consumer.committed_metadata([tp]) == {tp: klamm.OffsetAndMetadata(7, "seven")}
        assert consumer.committed_metadata([klamm.TopicPartition(partitioned, 0)]).popitem()[1] is None


def test_a_replaced_member_cannot_commit(broker, partitioned):
    """A member that missed a deadline gets an error, and commits of the others stay."""
    produce(broker, partitioned, range(40))
    config = {"max_poll_interval_ms": 1000, "session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
    gone = member(broker, partitioned, [partitioned], enable_auto_commit=False, **config)
    seen: Counter[bytes] = Counter()
    poll_until([gone], lambda: len(seen) == 40, seen)
    generation = gone.group_metadata().generation_id
    assert generation > 0
    other = member(broker, partitioned, [partitioned], heartbeat_interval_ms=200)
    seen.clear()
    poll_until([other], lambda: len(seen) == 40, seen)
    with pytest.raises(UnknownMemberIdError):
        gone.commit(dict.fromkeys(other.assignment(), 1))
    other.close()
    gone.close()
    with klamm.Consumer(broker.bootstrap_servers, group_id=partitioned) as reader:
        assert set(reader.committed([klamm.TopicPartition(partitioned, p) for p in range(4)]).values()) == {10}


def test_heartbeats_continue_while_the_interpreter_is_held():
    """The client's own thread sends heartbeats without the GIL."""
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({"t": klamm.NewTopic(partitions=4)})
        busy = member(broker, "g", ["t"], heartbeat_interval_ms=100)
        poll_until([busy], lambda: share_evenly([busy], 4))
        begin = broker.requests()[-1].time
        # PyDLL keeps the interpreter, which a loop in Python would give away every few milliseconds.
        ctypes.PyDLL(None).usleep(900_000)
        held = [request.time for request in broker.requests("Heartbeat") if begin < request.time < begin + 0.8]
        busy.close()
    assert len(held) >= 3


def test_closing_while_another_thread_polls(broker, partitioned):
    consumer = member(broker, partitioned, [partitioned])
    poll_until([consumer], lambda: share_evenly([consumer], 4))
    ended: list[BaseException] = []

    def poll() -> None:
        try:
            consumer.poll(WAIT_S)
        except BaseException as e:  # noqa: BLE001
            ended.append(e)

    thread = threading.Thread(target=poll)
    thread.start()
    began = time.monotonic()
    consumer.close(timeout=10)
    thread.join(10)
    assert not thread.is_alive()
    assert time.monotonic() - began < 20
    assert [type(e).__name__ for e in ended] in ([], ["ClosedError"])


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        ("ILLEGAL_GENERATION", None),
        ("UNKNOWN_MEMBER_ID", None),
        ("GROUP_ID_NOT_FOUND", None),
        ("GROUP_AUTHORIZATION_FAILED", GroupAuthorizationFailedError),
    ],
)
def test_a_member_ends_well_though_the_group_went_on_without_it(style, error, raised):
    with DevBroker() as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [b"v"] * 3, partition=0)
        config = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 60_000}
        consumer = style.consumer(broker.bootstrap_servers, group_id="g", topics=["t"], **config)
        assert len(consumer.poll(timeout=20)) == 3
        consumer.poll(timeout=0)  # what was given out before is handled
        broker.fault("OffsetCommit", "error", error=error, times=None)
        with pytest.raises(raised) if raised else nullcontext():
            consumer.close()
        assert broker.requests("OffsetCommit")


@pytest.fixture
def filled_broker() -> Iterator[DevBroker]:
    """A separate broker with a topic "t" of a thousand records."""
    with DevBroker() as running:
        with klamm.Producer(running.bootstrap_servers) as producer:
            producer.send_many("t", [b"%d" % n for n in range(1000)], partition=0)
        yield running


def read_until_asked(consumer: Any, broker: DevBroker, commits: int) -> list[int]:
    """Poll one record for each commit, until the broker has this many requests to commit. There are always more records."""
    seen: list[int] = []
    end = time.monotonic() + WAIT_S
    while (asked := len(broker.requests("OffsetCommit"))) < commits:
        assert time.monotonic() < end
        if len(seen) < asked + 2:
            seen += [int(record.value) for record in consumer.poll(timeout=20, max_records=1)]
    return seen


def read_on(consumer: Any, seen: list[int]) -> None:
    """Poll single records, and continue if there are none."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        seen += [int(record.value) for record in consumer.poll(timeout=0.05, max_records=1)]


OFTEN = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 50}


def test_a_commit_that_is_refused_in_the_background_comes_out_of_a_poll(style, filled_broker):
    filled_broker.fault("OffsetCommit", "error", error="GROUP_AUTHORIZATION_FAILED", times=1)
    with style.consumer(filled_broker.bootstrap_servers, group_id="g", topics=["t"], **OFTEN) as consumer:
        seen: list[int] = []
        with pytest.raises(GroupAuthorizationFailedError):
            read_on(consumer, seen)
        seen += [int(record.value) for record in consumer.poll(timeout=1)]
        assert seen == list(range(len(seen)))


@pytest.mark.parametrize(
    "error", ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "GROUP_ID_NOT_FOUND"]
)
def test_a_late_commit_does_not_make_poll_raise(style, filled_broker, error):
    filled_broker.fault("OffsetCommit", "error", error=error, times=2)
    with style.consumer(filled_broker.bootstrap_servers, group_id="g", topics=["t"], **OFTEN) as consumer:
        assert read_until_asked(consumer, filled_broker, 3)


@pytest.mark.parametrize("stalled", [["OffsetCommit"], ["LeaveGroup"], ["OffsetCommit", "LeaveGroup"]])
def test_closing_takes_no_longer_than_it_may_and_says_what_is_not_known(style, filled_broker, stalled):
    consumer = style.consumer(filled_broker.bootstrap_servers, group_id="g", topics=["t"], auto_offset_reset="earliest")
    assert consumer.poll(timeout=20)
    for api in stalled:
        filled_broker.fault(api, "delay", seconds=60, times=None)
    began = time.monotonic()
    is_known = "OffsetCommit" not in stalled
    with nullcontext() if is_known else pytest.raises(KafkaTimeoutError, match="not confirmed"):
        consumer.close(timeout=1)
    assert 0.9 < time.monotonic() - began < 10
    with pytest.raises(ClosedError):
        consumer.poll(timeout=0)


def test_a_last_commit_that_is_not_known_does_not_hide_why_a_program_ended(style, filled_broker):
    config = {"auto_offset_reset": "earliest", "default_api_timeout_ms": 500}
    consumer = style.consumer(filled_broker.bootstrap_servers, group_id="g", topics=["t"], **config)
    assert consumer.poll(timeout=20, max_records=1)
    assert consumer.poll(timeout=20, max_records=1)
    filled_broker.fault("OffsetCommit", "delay", seconds=60, times=None)
    consumer.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert filled_broker.requests("OffsetCommit")
    consumer = style.consumer(filled_broker.bootstrap_servers, group_id="other", topics=["t"], **config)
    assert consumer.poll(timeout=20)
    with pytest.raises(KafkaTimeoutError):
        consumer.__exit__(None, None, None)


def test_subscribe_wants_topics_or_a_pattern(broker):
    with klamm.Consumer(broker.bootstrap_servers, group_id="g") as consumer:
        with pytest.raises(ConfigError, match="topics or a pattern"):
            consumer.subscribe()
        for pattern in ("(", "a)|(b"):
            with pytest.raises(ConfigError, match="not a valid regular expression"):
                consumer.subscribe(pattern=pattern)


class Evens(klamm.assignors.Assignor):
    """Assigns even partitions to the first member, and odd ones to the last."""

    name = "evens"
    user_data = b"said"

    def __init__(self) -> None:
        self.received: list[klamm.assignors.Member] = []

    def assign(self, topics, members):
        self.received = members
        members = sorted(members, key=lambda m: m.id)
        shares = {members[0].id: [], members[-1].id: []}
        for topic, partitions in topics.items():
            for p in range(len(partitions)):
                shares[members[0 if p % 2 == 0 else -1].id].append(klamm.TopicPartition(topic, p))
        return shares


def test_an_assignor_of_ones_own(broker, partitioned):
    assignors = [Evens(), Evens()]
    config = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300}
    members = [
        member(broker, partitioned, [partitioned], partition_assignment_strategy=[a, "range"], **config)
        for a in assignors
    ]
    poll_until(members, lambda: shares(members) == [[0, 2], [1, 3]])
    received = next(a.received for a in assignors if len(a.received) == 2)
    assert all(m.topics == [partitioned] and m.user_data == b"said" for m in received)
    for one in members:
        one.close()


def test_an_assignor_that_fails_ends_the_membership(broker, partitioned):
    class Fails(Evens):
        def assign(self, topics, members):
            raise ZeroDivisionError(topics, members)

    class Twice(Evens):
        def assign(self, topics, members):
            return {members[0].id: [klamm.TopicPartition(t, 0) for t in topics] * 2}

    for assignor, why in [(Fails(), "ZeroDivisionError"), (Twice(), "to two members")]:
        config = {"partition_assignment_strategy": [assignor]}
        with (
            member(broker, partitioned, [partitioned], **config) as consumer,
            pytest.raises(ConfigError, match=why),
        ):
            consumer.poll(WAIT_S)


def test_an_assignor_of_ones_own_may_be_in_the_dict(broker, partitioned):
    config = {"bootstrap.servers": broker.bootstrap_servers, "partition.assignment.strategy": [Evens(), "range"]}
    with klamm.Admin(broker.bootstrap_servers) as admin, klamm.Consumer(config, partitioned, [partitioned]) as one:
        poll_until([one], lambda: share_evenly([one], 4))
        assert admin.describe_groups([partitioned])[partitioned].assignor == "evens"


def test_leaving_a_subscription_lets_others_have_it(broker, partitioned, protocol):
    first = member(broker, partitioned, [partitioned], **protocol)
    second = member(broker, partitioned, [partitioned], **protocol)
    poll_until([first, second], lambda: share_evenly([first, second], 4))
    first.unsubscribe()
    assert first.assignment() == set()
    poll_until([second], lambda: share_evenly([second], 4))
    first.subscribe([partitioned])
    poll_until([first, second], lambda: share_evenly([first, second], 4))
    first.close()
    second.close()


def test_leaving_a_subscription_tells_the_listener_and_commits_what_is_done(style, broker, partitioned, protocol):
    produce(broker, partitioned, range(20))
    recorder = Recorder()
    with style.consumer(
        broker.bootstrap_servers, group_id=partitioned, auto_offset_reset="earliest", **protocol
    ) as one:
        one.subscribe([partitioned], on_rebalance=recorder)
        done = one.poll(WAIT_S, 3)
        tps = one.assignment()
        one.unsubscribe()
        assert recorder.events[-1] == ("revoked", sorted(topic_partition.partition for topic_partition in tps))
        committed = one.committed(tps)
        assert sum(offset for offset in committed.values() if offset) == len(done)
        assert one.assignment() == set()


def test_another_assignment_commits_what_is_done_with_the_one_before(style, broker, partitioned):
    produce(broker, partitioned, range(20))
    zero, one = (klamm.TopicPartition(partitioned, number) for number in (0, 1))
    config = {"group_id": partitioned, "auto_offset_reset": "earliest", "auto_commit_interval_ms": 60_000}
    with style.consumer(broker.bootstrap_servers, **config) as consumer:
        consumer.assign([zero])
        assert len(consumer.poll(timeout=20, max_records=3)) == 3
        consumer.assign([one])
        assert consumer.committed([zero, one]) == {zero: 3, one: None}
        assert {record.partition for record in consumer.poll(timeout=20, max_records=2)} == {1}
        consumer.subscribe([partitioned])
        seen: Counter[bytes] = Counter()
        poll_until([consumer], lambda: len(seen) == 15, seen)
        assert max(seen.values()) == 1


def test_an_assignment_instead_of_a_subscription_gives_it_up(broker, partitioned, protocol):
    produce(broker, partitioned, range(20))
    recorder = Recorder()
    with member(broker, partitioned, [partitioned], recorder, auto_commit_interval_ms=60_000, **protocol) as consumer:
        done = consumer.poll(WAIT_S, 3)
        tps = consumer.assignment()
        consumer.assign([klamm.TopicPartition(partitioned, 0, 4)])
        assert recorder.events[1:] == [("revoked", sorted(topic_partition.partition for topic_partition in tps))]
        assert sum(offset for offset in consumer.committed(tps).values() if offset) == len(done)
        assert [record.offset for record in consumer.poll(20)] == [4]
    assert len(recorder.events) == 2


def test_a_member_of_an_event_loop_awaits_that_it_leaves_before_another_assignment(broker, partitioned):
    async def main() -> None:
        async with klamm.AsyncConsumer(broker.bootstrap_servers, group_id=partitioned) as consumer:
            consumer.subscribe([partitioned])
            with pytest.raises(ConfigError, match="has left its group") as caught:
                consumer.assign([klamm.TopicPartition(partitioned, 0, 0)])
            assert caught.value.hint == "await unsubscribe() first"
            await consumer.unsubscribe()
            consumer.assign([klamm.TopicPartition(partitioned, 0, 0)])
            consumer.assign([klamm.TopicPartition(partitioned, 1, 0)])

    asyncio.run(asyncio.wait_for(main(), WAIT_S))


def test_a_transaction_commits_for_a_member(broker, partitioned, protocol):
    produce(broker, partitioned, range(20))
    config = {**protocol, "enable_auto_commit": False}
    consumer = member(broker, partitioned, [partitioned], **config)
    seen: Counter[bytes] = Counter()
    poll_until([consumer], lambda: len(seen) == 20, seen)
    with (
        klamm.Producer(broker.bootstrap_servers, transactional_id=partitioned) as producer,
        producer.transaction() as tx,
    ):
        tx.commit_offsets(consumer)
    consumer.close()
    with klamm.Consumer(broker.bootstrap_servers, group_id=partitioned) as reader:
        assert set(reader.committed([klamm.TopicPartition(partitioned, p) for p in range(4)]).values()) == {5}


@pytest.fixture
def many_members(broker: Broker, partitioned: str) -> Iterator[list[klamm.Consumer]]:
    members = [member(broker, partitioned, [partitioned]) for _ in range(6)]
    yield members
    for one in members:
        one.close()


def test_members_without_a_partition_wait_for_one(many_members):
    poll_until(many_members, lambda: [len(s) for s in shares(many_members)] == [0, 0, 1, 1, 1, 1])
    owner = next(m for m in many_members if m.assignment())
    owner.close()
    many_members.remove(owner)
    poll_until(many_members, lambda: [len(s) for s in shares(many_members)] == [0, 1, 1, 1, 1])


def test_reading_starts_where_some_time_ago_was(broker, partitioned):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        hour_ms = 3_600_000
        now_ms = int(time.time() * 1000)
        for age in (3, 2, 1, 0):
            producer.send(partitioned, b"%d" % age, partition=0, timestamp_ms=now_ms - age * hour_ms).result()
    config = {"group_id": partitioned, "auto_offset_reset": "by_duration:PT1H30M"}
    with klamm.Consumer(broker.bootstrap_servers, topics=[partitioned], **config) as consumer:
        assert [next(iter(consumer)).value for _ in range(2)] == [b"1", b"0"]


def test_a_member_does_not_look_for_its_coordinator_again():
    with DevBroker(brokers=3) as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"t": klamm.NewTopic(partitions=2)})
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [b"v"] * 10)
        settings = {"group_id": "g", "topics": ["t"], "auto_offset_reset": "earliest", "enable_auto_commit": False}
        with klamm.Consumer(broker.bootstrap_servers, **settings) as consumer:
            while not consumer.poll(20):
                pass
            for _ in range(3):
                consumer.commit(timeout=10)
            searches = [request for request in broker.requests() if request.api == "FindCoordinator"]
            assert len(searches) == 1
            # What it knows may be old.
            for node in (1, 2, 3):
                broker.move_coordinator("g", node)
                consumer.commit(timeout=10)


def test_a_topic_that_is_made_while_members_wait_for_their_shares_is_read():
    """The leader learned of it between computing and receiving its assignment, and never again."""
    with DevBroker(auto_create_topics=False) as broker:
        broker.fault("SyncGroup", "delay", seconds=2)
        with klamm.Consumer(broker.bootstrap_servers, "g", ["t"], auto_offset_reset="earliest") as consumer:
            while not broker.requests("SyncGroup"):
                assert not consumer.poll(timeout=0.01)
            with klamm.Admin(broker.bootstrap_servers) as admin, klamm.Producer(broker.bootstrap_servers) as producer:
                admin.create_topics({"t": klamm.NewTopic()})
                producer.send("t", b"v").result(WAIT_S)
            assert [record.value for record in consumer.poll(timeout=WAIT_S)] == [b"v"]
