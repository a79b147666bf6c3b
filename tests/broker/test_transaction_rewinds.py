"""A consumer reads the records of an aborted transaction again, and skips and repeats no record."""

from __future__ import annotations

import random
import threading
from contextlib import ExitStack, suppress

import pytest

import klamm
from klamm.errors import ConfigError, FencedError, KafkaError, KafkaTimeoutError, TransactionAbortedError
from klamm.testing import DevBroker
from settled import until
from styles import Style
from transactions import DeliberateError, committed, enter, leave, make

COUNT = 24


@pytest.fixture
def reading(topic):
    """The configuration of a consumer whose offsets belong to transactions."""
    return {
        "group_id": f"group-{topic}",
        "group_protocol": "consumer",
        "topics": [f"{topic}-in"],
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
    }


def fill(broker, topic, count=COUNT):
    """Create the topics `in` and `out`, and fill the topic `in`."""
    make(broker, f"{topic}-in", f"{topic}-out", partitions=2)
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send_nowait(f"{topic}-in", b"%d" % number, partition=number % 2)


def written(broker, topic):
    return sorted(map(int, committed(broker.bootstrap_servers, f"{topic}-out")))


def read(consumer, count):
    """Return the next values, as numbers."""
    values = []
    while len(values) < count:
        values += [int(record.value) for record in consumer.poll(20)]
    return sorted(values)


def send(tx, topic, records):
    for record in records:
        tx.send_nowait(f"{topic}-out", record.value)


def ways(style, tx, consumer):
    """The ways to end a transaction so that it aborts. Each way gets the open transaction."""

    def fail_the_block():
        leave(style, tx, DeliberateError, DeliberateError(), None)

    def interrupt_the_block():
        leave(style, tx, KeyboardInterrupt, KeyboardInterrupt(), None)

    def abort():
        style.wait(tx.abort())
        leave(style, tx)

    def fail_after_the_offsets():
        style.wait(tx.commit_offsets(consumer.client))
        fail_the_block()

    def reject_a_record():
        with suppress(KafkaError):
            style.wait(tx.send("not/a/topic", b"v"))
        with pytest.raises(TransactionAbortedError):
            leave(style, tx)

    return [fail_the_block, interrupt_the_block, abort, fail_after_the_offsets, reject_a_record]


@pytest.mark.parametrize("way", range(5), ids=["exception", "interrupt", "abort", "after the offsets", "bad record"])
def test_records_of_an_aborted_transaction_are_read_again(style, broker, topic, reading, way):
    fill(broker, topic)
    with (
        style.producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        style.consumer(broker.bootstrap_servers, **reading) as consumer,
    ):
        producer.init_transactions()
        done, round_ = 0, 0
        while done < COUNT:
            records = consumer.poll(20, max_records=5)
            tx = producer.client.transaction(consumer.client)
            enter(style, tx)
            send(tx, topic, records)
            if round_ % 3 < 2:  # the first transaction, and two in a row
                ways(style, tx, consumer)[way]()
            else:
                leave(style, tx)
                done += len(records)
            round_ += 1
        assert not consumer.poll(0.1)
    assert written(broker, topic) == list(range(COUNT))


def test_a_consumer_is_bound_by_its_first_commit_of_offsets(style, broker, topic, reading):
    fill(broker, topic)
    with (
        style.producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        style.consumer(broker.bootstrap_servers, **reading) as consumer,
    ):
        producer.init_transactions()
        for fails in False, True, False, False, False, False, False:
            records = consumer.poll(20, max_records=5)
            tx = producer.client.transaction()
            enter(style, tx)
            send(tx, topic, records)
            if fails:
                leave(style, tx, DeliberateError, DeliberateError(), None)
                continue
            style.wait(tx.commit_offsets(consumer.client))
            leave(style, tx)
            if sum(consumer.position(tp) for tp in consumer.assignment()) == COUNT:
                break
    assert written(broker, topic) == list(range(COUNT))


def test_an_iteration_continues_with_the_aborted_records(style, broker, topic, reading):
    fill(broker, topic)
    seen = []
    with (
        style.producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        style.consumer(broker.bootstrap_servers, **reading) as consumer,
    ):
        producer.init_transactions()
        for record in consumer:
            fails = record.value not in seen and int(record.value) % 3 == 0
            seen.append(record.value)
            tx = producer.client.transaction(consumer.client)
            enter(style, tx)
            send(tx, topic, [record])
            leave(style, tx, *((DeliberateError, DeliberateError(), None) if fails else (None, None, None)))
            if len(set(seen)) == COUNT and not fails:
                break
    assert written(broker, topic) == list(range(COUNT))


def test_arrow_batches_continue_with_the_aborted_records(style, broker, topic, reading):
    fill(broker, topic)
    done, fails = 0, True
    with (
        style.producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        style.consumer(broker.bootstrap_servers, **reading) as consumer,
    ):
        producer.init_transactions()
        for batch in consumer.arrow(max_rows=5, timeout=20, columns=["value"]):
            tx = producer.client.transaction(consumer.client)
            enter(style, tx)
            style.wait(tx.send_arrow(f"{topic}-out", batch))
            leave(style, tx, *((DeliberateError, DeliberateError(), None) if fails else (None, None, None)))
            done += 0 if fails else batch.num_rows
            fails = not fails
            if done == COUNT:
                break
    assert written(broker, topic) == list(range(COUNT))


def test_refused_offsets_are_read_again(style, topic, reading):
    with DevBroker() as broker:
        fill(broker, topic)
        with (
            style.producer(broker.bootstrap_servers, transactional_id=topic) as producer,
            style.consumer(broker.bootstrap_servers, **reading) as consumer,
        ):
            producer.init_transactions()
            for catches in False, True:
                broker.fail_next("TxnOffsetCommit", error="ILLEGAL_GENERATION")
                tx = producer.client.transaction()
                records = consumer.poll(20, max_records=5)
                enter(style, tx)
                send(tx, topic, records)
                with pytest.raises(KafkaError, match="ILLEGAL_GENERATION") as error:
                    style.wait(tx.commit_offsets(consumer.client))
                if catches:
                    with pytest.raises(TransactionAbortedError, match="ILLEGAL_GENERATION"):
                        leave(style, tx)
                else:
                    leave(style, tx, error.type, error.value, None)
            broker.fail_next("TxnOffsetCommit", error="ILLEGAL_GENERATION")
            tx = producer.client.transaction(consumer.client)
            enter(style, tx)
            with pytest.raises(TransactionAbortedError, match="ILLEGAL_GENERATION"):
                leave(style, tx)
            assert read(consumer, COUNT) == list(range(COUNT))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_former_member_commits_no_offsets(style, topic, reading, protocol):
    """The coordinator would accept the offsets of a former member, because a classic member has no generation then."""
    with DevBroker() as broker:
        fill(broker, topic)
        beats = {"heartbeat_interval_ms": 100} if protocol == "classic" else {}
        with (
            style.producer(broker.bootstrap_servers, transactional_id=topic) as producer,
            style.consumer(broker.bootstrap_servers, **reading | beats | {"group_protocol": protocol}) as consumer,
        ):
            producer.init_transactions()
            assert consumer.poll(20, max_records=5)
            api = "Heartbeat" if protocol == "classic" else "ConsumerGroupHeartbeat"
            broker.fail_next(api, error="UNKNOWN_MEMBER_ID")
            until(lambda: consumer.client.group_metadata().generation_id < 0)
            tx = producer.client.transaction(consumer.client)
            enter(style, tx)
            with pytest.raises(TransactionAbortedError, match="UNKNOWN_MEMBER_ID"):
                leave(style, tx)
            broker.advance(60)  # the group removes the classic member, which knows nothing of the error
            assert read(consumer, COUNT) == list(range(COUNT))
            assert not any(consumer.committed(consumer.assignment()).values())


def test_a_transaction_that_does_not_begin_loses_no_records(style, topic, reading):
    with DevBroker() as broker:
        fill(broker, topic)
        broker.fail_next("InitProducerId", error="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
        with (
            style.producer(broker.bootstrap_servers, transactional_id=topic) as producer,
            style.consumer(broker.bootstrap_servers, **reading) as consumer,
        ):
            assert consumer.poll(20, max_records=5)
            with pytest.raises(KafkaError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
                enter(style, producer.client.transaction(consumer.client))
            assert read(consumer, COUNT) == list(range(COUNT))


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "aborted"])
def test_a_consumer_waits_for_the_result_of_a_commit(style, topic, reading, is_committed):
    """The program stops waiting for the commit, and reads on. The records that it gets depend on the result."""
    with DevBroker() as broker:
        fill(broker, topic)
        with (
            style.producer(broker.bootstrap_servers, transactional_id=topic) as producer,
            style.consumer(broker.bootstrap_servers, **reading) as consumer,
        ):
            producer.init_transactions()
            records = consumer.poll(20, max_records=5)
            broker.fail_next("EndTxn", error="CONCURRENT_TRANSACTIONS", times=20)
            if not is_committed:
                broker.fail_next("EndTxn", error="TRANSACTION_ABORTABLE")
            tx = producer.client.transaction(consumer.client)
            enter(style, tx)
            send(tx, topic, records)
            with pytest.raises(KafkaTimeoutError) as error:
                style.wait(tx.commit(timeout=0.05))
            leave(style, tx, error.type, error.value, None)
            assert not consumer.poll(0)
            done = len(records) if is_committed else 0
            while done < COUNT:
                records = consumer.poll(20, max_records=5)
                tx = producer.client.transaction(consumer.client)
                enter(style, tx)
                send(tx, topic, records)
                leave(style, tx)
                done += len(records)
        assert written(broker, topic) == list(range(COUNT))


@pytest.mark.parametrize("action", ["lose_answer", "drop"], ids=["committed", "aborted"])
def test_after_an_unknown_result_the_committed_offsets_decide(style, topic, reading, action):
    with DevBroker() as broker, ExitStack() as producers:
        fill(broker, topic)
        with style.consumer(broker.bootstrap_servers, **reading) as consumer:
            done, fails = 0, True
            producer = None
            while done < COUNT:
                if producer is None:
                    producer = producers.enter_context(style.producer(broker.bootstrap_servers, transactional_id=topic))
                    producer.init_transactions()
                records = consumer.poll(20, max_records=5)
                tx = producer.client.transaction(consumer.client)
                enter(style, tx)
                send(tx, topic, records)
                if fails:
                    broker.fault("EndTxn", action)
                    broker.fail_next("EndTxn", error="PRODUCER_FENCED")
                    with pytest.raises(FencedError):
                        leave(style, tx)
                    producer, fails = None, False
                    done += len(records) if action == "lose_answer" else 0
                else:
                    leave(style, tx)
                    done += len(records)
        assert written(broker, topic) == list(range(COUNT))


def test_a_program_can_rewind_by_itself(style, broker, topic, reading):
    fill(broker, topic)
    with (
        style.producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        style.consumer(broker.bootstrap_servers, **reading) as consumer,
    ):
        producer.init_transactions()
        first = consumer.poll(20, max_records=5)
        tx = producer.client.transaction()
        enter(style, tx)
        style.wait(tx.commit_offsets(consumer.client, rewind=False))
        style.wait(tx.abort())
        rest = read(consumer, COUNT - len(first))
        assert sorted(rest + [int(record.value) for record in first]) == list(range(COUNT))


def test_an_abort_undoes_the_seeks_of_its_block_and_no_others(style, broker, topic, reading):
    fill(broker, topic)
    del reading["topics"]
    tp = klamm.TopicPartition(f"{topic}-in", 0)
    with (
        style.producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        style.consumer(broker.bootstrap_servers, **reading) as consumer,
    ):
        producer.init_transactions()
        consumer.assign([tp])
        for begin in 0, 4:
            assert consumer.poll(20, max_records=2)
            consumer.seek(tp, begin)
            tx = producer.client.transaction(consumer.client)
            enter(style, tx)
            assert [record.offset for record in consumer.poll(20, max_records=2)] == [begin, begin + 1]
            consumer.seek(tp, 9)
            style.wait(tx.abort())
            assert consumer.position(tp) == begin


def test_explicit_offsets_are_where_the_next_abort_returns_to(style, broker, topic, reading):
    fill(broker, topic)
    del reading["topics"]
    tp = klamm.TopicPartition(f"{topic}-in", 0)
    with (
        style.producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        style.consumer(broker.bootstrap_servers, **reading) as consumer,
    ):
        producer.init_transactions()
        consumer.assign([tp])
        for whose in consumer.client, consumer.client.group_metadata():
            assert consumer.poll(20, max_records=5)
            end = consumer.position(tp)
            tx = producer.client.transaction(consumer.client)
            enter(style, tx)
            style.wait(tx.commit_offsets(whose, {tp: end - 1}))
            leave(style, tx)
            tx = producer.client.transaction(consumer.client)
            enter(style, tx)
            style.wait(tx.abort())
            assert consumer.position(tp) == end - 1
            assert consumer.committed([tp]) == {tp: end - 1}


def test_a_transaction_refuses_a_consumer_that_it_cannot_commit(style, broker, topic):
    with (
        style.producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        style.consumer(broker.bootstrap_servers) as without_group,
        style.consumer(broker.bootstrap_servers, group_id=topic) as automatic,
    ):
        with pytest.raises(ConfigError, match="has no group"):
            producer.client.transaction(without_group.client)
        with pytest.raises(ConfigError, match="enable_auto_commit=False"):
            producer.client.transaction(automatic.client)
        with pytest.raises(klamm.errors.ArgumentError, match="not of Style"):
            producer.client.transaction(style)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_random_aborts_in_a_group_that_rebalances_neither_skip_nor_repeat_a_record(
    style, broker, topic, reading, protocol
):
    """Two programs divide the partitions. The second joins and leaves while the first works."""
    count = 200
    fill(broker, topic, count)
    reading["group_protocol"] = protocol
    chance = random.Random(f"{style.name} {protocol}")
    lock = threading.Lock()
    done: set[int] = set()

    def work(name, chance, style, rounds):
        with (
            style.producer(broker.bootstrap_servers, transactional_id=f"{topic}-{name}") as producer,
            style.consumer(broker.bootstrap_servers, **reading) as consumer,
        ):
            producer.init_transactions()
            while rounds > 0 and len(done) < count:
                records = consumer.poll(1, max_records=chance.randrange(1, 8))
                if not records:
                    continue
                rounds -= 1
                tx = producer.client.transaction(consumer.client)
                enter(style, tx)
                send(tx, topic, records)
                if chance.random() < 0.4:
                    chance.choice(ways(style, tx, consumer)[:4])()
                    continue
                try:
                    leave(style, tx)
                except TransactionAbortedError:  # the group has rebalanced meanwhile
                    continue
                with lock:
                    done.update(int(record.value) for record in records)

    def join_and_leave():
        for seed in range(2):
            other = Style(style.name)
            work("second", random.Random(seed), other, 5)
            other.close()

    thread = threading.Thread(target=join_and_leave)
    thread.start()
    try:
        work("first", chance, style, 10_000)
    finally:
        thread.join(60)
    until(lambda: not thread.is_alive())
    assert written(broker, topic) == list(range(count))
