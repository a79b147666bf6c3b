"""Share groups (KIP-932) on both brokers: each record goes to one member at a time until a member accepts it."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import ExitStack

import pytest

import klamm
from cli_process import klamm as command
from klamm.errors import (
    ClosedError,
    ConfigError,
    DeserializationError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    InvalidConfigError,
    InvalidRecordStateError,
    UnknownServerError,
)
from klamm.testing import DevBroker
from settled import configure_group, until


@pytest.fixture
def group(broker, topic):
    """A new share group that starts at the beginning of topics."""
    with klamm.Admin(broker.bootstrap_servers) as admin:
        configure_group(admin, topic, {"share.auto.offset.reset": "earliest"})
    return topic


@pytest.fixture
def ten(broker, topic):
    """A topic with ten records in one partition."""
    fill(broker, topic, 10)
    return topic


def fill(broker, topic, count, partitions=1):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=partitions)})
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for n in range(count):
            producer.send_nowait(topic, b"%d" % n, partition=n % partitions)


def values(records):
    return [int(record.value) for record in records]


def take(consumer, count):
    """Read this many records. Return their values and delivery counts."""
    taken = []
    while len(taken) < count:
        taken += [(int(r.value), r.delivery_count) for r in consumer.poll(20)]
    return sorted(taken)


def is_empty(broker, group, topic):
    """Return whether the group has read everything: a new record is the next one delivered."""
    with (
        klamm.Producer(broker.bootstrap_servers) as producer,
        klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[topic]) as consumer,
    ):
        producer.send(topic, b"-1", partition=0).result(10)
        records = consumer.poll(20)
        return values(records) == [-1]


def test_the_group_is_described_with_all_who_read_together(style, broker, group, ten):
    with ExitStack() as stack:
        for client_id in ("a", "b"):
            config = {"group_id": group, "topics": [ten], "client_id": client_id}
            stack.enter_context(klamm.ShareConsumer(broker.bootstrap_servers, **config)).poll(1)
        admin = stack.enter_context(style.admin(broker.bootstrap_servers))

        def both_read():
            found = admin.describe_groups([group])[group]
            return found if [len(m.assigned) for m in found.members] == [1, 1] else None

        until(both_read)
        found = both_read()
        assert (found.type, found.protocol_type, found.state) == ("share", "share", "Stable")
        assert {m.client_id: (m.topics, m.assigned) for m in found.members} == {
            client_id: ([ten], [klamm.TopicPartition(ten, 0)]) for client_id in ("a", "b")
        }
        result = command("groups", "describe", group, "-b", broker.bootstrap_servers)
        head, _, *rows = result.stdout.decode().splitlines()
        assert head.startswith(f"{group}: Stable, share, simple, coordinator ")
        assert sorted(row.split()[-1] for row in rows) == ["a", "b"]
        with pytest.raises(GroupIdNotFoundError):
            admin.describe_groups([group + "-not"])


def test_records_that_the_loop_has_passed_are_accepted(style, broker, group, ten):
    with style.share_consumer(broker.bootstrap_servers, group_id=group, topics=[ten]) as consumer:
        seen = []
        for record in consumer:
            assert (record.topic, record.partition, record.delivery_count) == (ten, 0, 1)
            seen.append(int(record.value))
            if len(seen) == 10:
                break
        assert seen == list(range(10))
        assert consumer.client.acquisition_lock_timeout == 30
        assert consumer.client.subscription() == {ten}
    assert is_empty(broker, group, ten)


@pytest.mark.parametrize("deserializer", [None, bytes.decode], ids=["bytes", "text"])
def test_an_anext_that_never_began_accepts_no_record(broker, group, ten, deserializer):
    async def main():
        config = {"group_id": group, "topics": [ten], "value_deserializer": deserializer}
        async with klamm.AsyncShareConsumer(broker.bootstrap_servers, **config) as consumer:
            read = [int((await anext(consumer)).value)]
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(anext(consumer), 0)
                waiting = asyncio.ensure_future(anext(consumer))
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                anext(consumer).close()
            while len(read) < 10:
                read.append(int((await asyncio.wait_for(anext(consumer), 20)).value))
        with pytest.raises(ClosedError):
            await anext(consumer, None)
        return read

    assert asyncio.run(main()) == list(range(10))
    assert is_empty(broker, group, ten)


def test_a_record_that_was_not_done_with_comes_again(broker, group, ten):
    class GoneWrongError(Exception):
        pass

    def work_until(stop):
        with klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[ten]) as consumer:
            for record in consumer:
                if int(record.value) == stop:
                    raise GoneWrongError

    with pytest.raises(GoneWrongError):
        work_until(4)
    with klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[ten]) as consumer:
        redelivered = take(consumer, 6)
    assert [value for value, _ in redelivered] == [4, 5, 6, 7, 8, 9]
    assert [count for _, count in redelivered] == [2] * 6  # all of them had been handed out with the fourth


def test_release_and_reject(style, broker, group, ten):
    with style.share_consumer(broker.bootstrap_servers, group_id=group, topics=[ten]) as consumer:
        records = consumer.poll(20)
        assert values(records) == list(range(10))
        for record in records:
            match int(record.value):
                case 3:
                    consumer.acknowledge(record, "release")
                case 5:
                    consumer.acknowledge(record, "reject")
        (redelivered,) = consumer.poll(20)
        assert (int(redelivered.value), redelivered.delivery_count) == (3, 2)
        outcomes = consumer.commit(timeout=10)
        assert outcomes == {klamm.TopicPartition(ten, 0): None}
        with pytest.raises(InvalidRecordStateError, match=f"record 3 of {ten}-0"):
            consumer.acknowledge(redelivered)
    assert is_empty(broker, group, ten)


def test_explicit_acknowledgement(style, broker, group, ten):
    config = {"share_acknowledgement_mode": "explicit"}
    with style.share_consumer(broker.bootstrap_servers, group_id=group, topics=[ten], **config) as consumer:
        records = consumer.poll(20)
        consumer.acknowledge(records[:4])
        with pytest.raises(ConfigError, match="6 records were not acknowledged"):
            consumer.poll(0)
        assert consumer.commit(timeout=10) == {klamm.TopicPartition(ten, 0): None}
        assert consumer.commit(timeout=10) == {}
        consumer.acknowledge(records[4:6], "reject")
        consumer.acknowledge(records[6:], "release")
        assert take(consumer, 4) == [(6, 2), (7, 2), (8, 2), (9, 2)]
    # The program did not acknowledge these.
    with klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[ten]) as consumer:
        assert take(consumer, 4) == [(6, 3), (7, 3), (8, 3), (9, 3)]


def test_a_renewed_record_stays_with_its_member(broker, group, ten):
    with klamm.ShareConsumer(
        broker.bootstrap_servers, group_id=group, topics=[ten], share_acknowledgement_mode="explicit"
    ) as consumer:
        records = consumer.poll(20)
        consumer.acknowledge(records[1:])
        consumer.acknowledge(records[0], "renew")
        assert consumer.commit(timeout=10) == {klamm.TopicPartition(ten, 0): None}
        assert len(consumer.poll(1)) == 0
        consumer.acknowledge(records[0])
        assert consumer.commit(timeout=10) == {klamm.TopicPartition(ten, 0): None}
    assert is_empty(broker, group, ten)


def test_a_lock_that_timed_out_gives_the_record_to_another_member(ten_on_dev):
    broker, topic = ten_on_dev
    with klamm.Admin(broker.bootstrap_servers) as admin:
        changes = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": 1000}
        admin.alter_configs("group", topic, changes)
    first = klamm.ShareConsumer(broker.bootstrap_servers, group_id=topic, topics=[topic])
    second = klamm.ShareConsumer(broker.bootstrap_servers, group_id=topic, topics=[topic])
    with first, second:
        mine = first.poll(20)
        assert values(mine) == list(range(10))
        assert take(second, 10) == [(n, 2) for n in range(10)]
        first.acknowledge(mine)
        (error,) = first.commit(timeout=10).values()
        assert isinstance(error, InvalidRecordStateError)


@pytest.fixture
def ten_on_dev(topic):
    with DevBroker() as broker:
        fill(broker, topic, 10)
        yield broker, topic


def test_several_members_share_a_partition(broker, group, topic):
    fill(broker, topic, 100)
    config = {"max_poll_records": 10, "share_acquire_mode": "record_limit"}
    with ExitStack() as stack:
        made = [klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[topic], **config) for _ in "abc"]
        members = [stack.enter_context(member) for member in made]
        seen = []
        while len(seen) < 90:
            # What one has in hand the others do not get.
            for member in members:
                records = member.poll(20)
                assert len(records) <= 10
                seen += values(records)
        assert len(set(seen)) == len(seen)


def test_transaction_markers_and_compressed_batches_are_passed_over(broker, group, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=1)})
    with klamm.Producer(broker.bootstrap_servers, transactional_id=topic, compression_type="lz4") as producer:
        for start in (0, 5):
            with producer.transaction() as transaction:
                for n in range(start, start + 5):
                    transaction.send(topic, b"%d" % n)
    with klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[topic]) as consumer:
        assert take(consumer, 10) == [(n, 1) for n in range(10)]
    with klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[topic]) as consumer:
        assert len(consumer.poll(1)) == 0


def abort(producer, topic, count):
    """Write this many records in a transaction and abort it."""
    with contextlib.suppress(KeyError), producer.transaction() as transaction:
        for n in range(count):
            transaction.send(topic, b"%d" % n).result(20)
        raise KeyError


def test_a_group_of_committed_records_waits_for_open_transactions(broker, group, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=1)})
        configure_group(admin, group, {"share.isolation.level": "read_committed"})
    settings = {"group_id": group, "topics": [topic]}
    with (
        klamm.Producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        klamm.Producer(broker.bootstrap_servers) as plain,
        klamm.ShareConsumer(broker.bootstrap_servers, **settings) as consumer,
    ):
        abort(producer, topic, 3)
        with producer.transaction() as transaction:
            transaction.send(topic, b"1").result(20)
        assert take(consumer, 1) == [(1, 1)]
        with producer.transaction() as transaction:
            transaction.send(topic, b"2").result(20)
            plain.send(topic, b"3").result(20)
            assert len(consumer.poll(0.5)) == 0
        assert take(consumer, 2) == [(2, 1), (3, 1)]


def test_aborted_records_are_delivered_to_a_group_of_all_records(broker, group, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=1)})
    with (
        klamm.Producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[topic]) as consumer,
    ):
        abort(producer, topic, 2)
        assert take(consumer, 2) == [(0, 1), (1, 1)]


def test_a_group_limits_deliveries(broker, group, ten):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        configure_group(admin, group, {"share.delivery.count.limit": 2})
        for name, value in (
            ("share.delivery.count.limit", 1),
            ("share.delivery.count.limit", 11),
            ("share.partition.max.record.locks", 99),
            ("share.partition.max.record.locks", 5000),
            ("share.isolation.level", "read_all"),
            ("share.renew.acknowledge.enable", "no"),
            ("streams.num.standby.replicas", 3),
            ("consumer.assignment.interval.ms", 20_000),
        ):
            with pytest.raises(InvalidConfigError, match=name):
                admin.alter_configs("group", group, {name: value})
    settings = {"group_id": group, "topics": [ten], "share_acknowledgement_mode": "explicit"}
    with klamm.ShareConsumer(broker.bootstrap_servers, **settings) as consumer:
        for delivery in (1, 2):
            taken = []
            while len(taken) < 10:
                records = consumer.poll(20)
                for record in records:
                    taken.append(record.delivery_count)
                    consumer.acknowledge(record, "release")
                consumer.commit()
            assert taken == [delivery] * 10
        assert len(consumer.poll(0.5)) == 0


def test_the_lock_of_all_groups_is_a_configuration_of_nodes():
    with DevBroker(config={"group.share.record.lock.duration.ms": 1000}) as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.alter_configs("group", "g", {"share.auto.offset.reset": "earliest"})
            lock = admin.describe_configs("group", "g")["share.record.lock.duration.ms"]
            assert (lock.value, lock.source) == ("1000", klamm.ConfigSource.BROKER_FILE)
        fill(broker, "t", 1)
        settings = {"group_id": "g", "topics": ["t"], "share_acknowledgement_mode": "explicit"}
        with klamm.ShareConsumer(broker.bootstrap_servers, **settings) as consumer:
            (record,) = consumer.poll(20)
            assert consumer.acquisition_lock_timeout == 1
            broker.advance(1)
            consumer.acknowledge(record)
            (error,) = consumer.commit().values()
            assert isinstance(error, InvalidRecordStateError)
            assert take(consumer, 1) == [(0, 2)]


def test_results_that_no_commit_waited_for_are_reported(broker, group, ten):
    results = []
    with klamm.ShareConsumer(
        broker.bootstrap_servers, group_id=group, topics=[ten], on_acknowledged=results.append
    ) as consumer:
        consumer.poll(20)
        until(lambda: consumer.poll(0.1) or results)
    assert results[0] == {klamm.TopicPartition(ten, 0): None}


def test_a_subscription_can_change(broker, group, topic):
    names = [f"{topic}-{n}" for n in range(2)]
    for name in names:
        fill(broker, name, 3)
    with klamm.ShareConsumer(broker.bootstrap_servers, group_id=group) as consumer:
        for name in names:
            consumer.subscribe(name)
            taken = []
            while len(taken) < 3:
                taken += [record.topic for record in consumer.poll(20)]
            assert taken == [name] * 3
        consumer.unsubscribe()
        assert consumer.subscription() == set()


def test_deserializers(broker, group, ten):
    with klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[ten], value_deserializer=int) as reader:
        record = next(iter(reader))
        assert record.value == 0
        reader.acknowledge(record, "release")
    with klamm.ShareConsumer(
        broker.bootstrap_servers, group_id=group, topics=[ten], value_deserializer=lambda _: 1 / 0
    ) as reader:
        records = reader.poll(20)
        with pytest.raises(DeserializationError):
            _ = records[0].value
        reader.acknowledge(records[0], "reject")


def test_life_cycle(broker, group, ten):
    consumer = klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[ten])
    assert len(consumer.poll(20)) == 10
    consumer.close(10)
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.poll()
    # The program did not accept them.
    with klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[ten]) as consumer:
        assert take(consumer, 10) == [(n, 2) for n in range(10)]


def test_a_consumer_of_nothing_does_not_wait_for_ever(style, broker, group):
    with style.share_consumer(broker.bootstrap_servers, group_id=group) as consumer:
        with pytest.raises(ConfigError, match="no topics to read"):
            next(iter(consumer))
        with pytest.raises(ConfigError, match="no topics to read"):
            consumer.poll(timeout=None)
        assert not consumer.poll(timeout=0)


def test_bad_arguments(broker, topic):
    with pytest.raises(ConfigError, match=r"needs a group\.id"):
        klamm.ShareConsumer(broker.bootstrap_servers)
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        klamm.ShareConsumer(broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest")
    with klamm.ShareConsumer(broker.bootstrap_servers, group_id=topic) as consumer:
        record = klamm.Record(topic)
        with pytest.raises(ConfigError, match="allowed: accept, release, reject, renew"):
            consumer.acknowledge(record, "maybe")
        with pytest.raises(InvalidRecordStateError):
            consumer.acknowledge(record)


def test_a_leader_that_moves_and_one_that_dies(topic):
    with DevBroker(brokers=3) as broker:
        fill(broker, topic, 30, partitions=3)
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.alter_configs("group", topic, {"share.auto.offset.reset": "earliest"})
        with klamm.ShareConsumer(broker.bootstrap_servers, group_id=topic, topics=[topic]) as consumer:
            seen = set(values(consumer.poll(20)))
            broker.move_leader(topic, 0, 3)
            broker.kill(1)
            while len(seen) < 30:
                seen.update(values(consumer.poll(5)))
        assert seen == set(range(30))


def test_an_impossible_membership_raises_at_every_poll(style, topic):
    with DevBroker() as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.alter_configs("group", topic, {"share.auto.offset.reset": "earliest"})
        broker.fail_next("ShareGroupHeartbeat", error="GROUP_AUTHORIZATION_FAILED", times=None)
        with style.share_consumer(broker.bootstrap_servers, group_id=topic, topics=[topic]) as consumer:
            for _ in range(2):
                with pytest.raises(GroupAuthorizationFailedError):
                    consumer.poll(20)
            broker.clear_faults()
            with klamm.Producer(broker.bootstrap_servers) as producer:
                producer.send(topic, b"v").result(20)
            found = []

            def is_allowed():
                with contextlib.suppress(GroupAuthorizationFailedError):
                    found.extend(consumer.poll(0.1))
                return found

            until(is_allowed)


def test_a_lasting_unknown_server_error_is_raised(style):
    with DevBroker() as dev:
        fill(dev, "t", 1)
        with klamm.Admin(dev.bootstrap_servers) as admin:
            admin.alter_configs("group", "g", {"share.auto.offset.reset": "earliest"})
        dev.fault("ShareFetch", "error", error="UNKNOWN_SERVER_ERROR", times=3)
        with style.share_consumer(dev.bootstrap_servers, group_id="g", topics=["t"]) as consumer:
            assert values(consumer.poll(20)) == [0]
            dev.fault("ShareFetch", "error", error="UNKNOWN_SERVER_ERROR", times=None)
            with pytest.raises(UnknownServerError):
                consumer.poll(20)
            dev.clear_faults()
