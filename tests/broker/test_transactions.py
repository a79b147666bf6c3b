"""Transactions: readers see all of one or nothing, even if clients or brokers die."""

from __future__ import annotations

from contextlib import contextmanager, suppress

import pytest

import klamm
from conftest import BROKERS
from klamm.errors import (
    BufferFullError,
    ConfigError,
    FencedError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    TransactionAbortedError,
)
from klamm.testing import DevBroker
from settled import until
from transactions import DeliberateError, committed, enter, leave, make


@pytest.fixture(scope="module", params=BROKERS)
def broker(request):
    """Each broker, with both transaction protocols."""
    return request.getfixturevalue(BROKERS[request.param][0])


FENCED = r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"


@pytest.fixture
def transactional_id(topic):
    """A unique transactional ID for each test."""
    return f"tx-{topic}"


def test_a_reader_has_no_lag_for_records_of_an_open_transaction(style, broker, topic, transactional_id):
    make(broker, topic)
    topic_partition = klamm.TopicPartition(topic, 0)
    with klamm.Producer(broker.bootstrap_servers, transactional_id=transactional_id) as producer:
        with producer.transaction() as tx:
            tx.send_nowait(topic, b"1")
        with producer.transaction() as tx:
            tx.send(topic, b"2").result(20)
            with style.consumer(broker.bootstrap_servers, isolation_level="read_committed") as consumer:
                consumer.assign([klamm.TopicPartition(topic, 0, 0)])
                assert [record.value for record in consumer.poll(timeout=20)] == [b"1"]
                assert consumer.lag() == {topic_partition: 0}


def test_a_transaction_is_read_after_its_commit_and_not_before(style, broker, topic, transactional_id):
    make(broker, topic, partitions=3)
    with style.producer(broker.bootstrap_servers, transactional_id=transactional_id) as producer:
        tx = producer.client.transaction()
        enter(style, tx)
        for number in range(30):
            tx.send_nowait(topic, b"%d" % number, partition=number % 3)
        style.wait(producer.flush())
        assert committed(broker.bootstrap_servers, topic, settled=False) == []
        style.wait(tx.commit())
        assert sorted(map(int, committed(broker.bootstrap_servers, topic))) == list(range(30))
        leave(style, tx)


def test_an_exception_aborts_and_the_next_transaction_works(style, broker, topic, transactional_id):
    make(broker, topic)
    with style.producer(broker.bootstrap_servers, transactional_id=transactional_id) as producer:
        for round_ in range(4):
            tx = producer.client.transaction()
            enter(style, tx)
            value = b"kept" if round_ % 2 else b"dropped"
            assert style.wait(tx.send(topic, value)).offset >= 0
            error = DeliberateError()
            leave(style, tx, *((DeliberateError, error, None) if value == b"dropped" else (None, None, None)))
    assert committed(broker.bootstrap_servers, topic) == [b"kept", b"kept"]


def test_an_interrupted_transaction_does_not_block_the_next_one(style):
    with DevBroker() as broker, style.producer(broker.bootstrap_servers, transactional_id="tx") as producer:
        for value, interruption in (b"0", KeyboardInterrupt), (b"1", None):
            broker.fault("EndTxn", "delay", seconds=0.2)
            tx = producer.client.transaction()
            enter(style, tx)
            style.wait(tx.send("t", value))
            leave(style, tx, interruption, interruption and interruption(), None)
        with style.consumer(broker.bootstrap_servers, isolation_level="read_committed") as consumer:
            consumer.assign([klamm.TopicPartition("t", 0, offset=0)])
            assert [record.value for record in consumer.poll(20)] == [b"1"]


def test_the_exception_of_the_block_is_what_the_program_sees(broker, topic, transactional_id):
    make(broker, topic)
    deliveries = []

    def fail(producer):
        with producer.transaction() as tx:
            deliveries.append(tx.send(topic, b"dropped"))
            raise DeliberateError

    with klamm.Producer(broker.bootstrap_servers, transactional_id=transactional_id) as producer:
        with pytest.raises(DeliberateError):
            fail(producer)
        # Sent in time or dropped by the abort: there is an outcome at the end of the block.
        assert deliveries[0].done()
    assert committed(broker.bootstrap_servers, topic) == []


def test_records_that_were_not_sent_when_a_transaction_was_aborted_say_so(broker, topic, transactional_id):
    make(broker, topic)
    with klamm.Producer(broker.bootstrap_servers, transactional_id=transactional_id, linger_ms=60_000) as producer:
        with suppress(DeliberateError), producer.transaction() as tx:
            delivery = tx.send(topic, b"lingers")
            raise DeliberateError
        with pytest.raises(TransactionAbortedError, match="transaction was aborted"):
            delivery.result(10)
        with producer.transaction() as tx:
            tx.send_nowait(topic, b"kept")
    assert committed(broker.bootstrap_servers, topic) == [b"kept"]


def test_empty_transactions_commit(broker, transactional_id):
    with klamm.Producer(broker.bootstrap_servers, transactional_id=transactional_id) as producer:
        for _ in range(3):
            with producer.transaction():
                pass


def test_a_record_that_fails_makes_the_commit_an_abort(broker, topic, transactional_id):
    make(broker, topic)
    config = {"transactional_id": transactional_id, "max_request_size": 4 << 20}
    with klamm.Producer(broker.bootstrap_servers, **config) as producer:

        def fail_unseen():
            with producer.transaction() as tx:
                tx.send_nowait(topic, b"dropped with it")
                producer.flush()
                tx.send_nowait(topic, b"x" * (2 << 20))

        def fail_seen():
            with producer.transaction() as tx:
                tx.send(topic, b"x" * (2 << 20)).result(20)

        with pytest.raises(TransactionAbortedError, match="MESSAGE_TOO_LARGE") as caught:
            fail_unseen()
        assert isinstance(caught.value.__cause__, MessageTooLargeError)
        assert caught.value.code == caught.value.__cause__.code
        with pytest.raises(MessageTooLargeError):
            fail_seen()
        with producer.transaction() as tx:
            tx.send_nowait(topic, b"kept")
        producer.flush()  # the failures were already reported
    assert committed(broker.bootstrap_servers, topic) == [b"kept"]


WAYS = {
    "send": lambda tx, topic, value, partition: tx.send(topic, value, partition=partition),
    "send_nowait": lambda tx, topic, value, partition: tx.send_nowait(topic, value, partition=partition),
    "send_many": lambda tx, topic, value, partition: tx.send_many(topic, [value], partition=partition),
}


def start(style, tx, way, record):
    """Call the method with topic, value and partition in its event loop, and wait until it has accepted the record."""
    result = style.run(WAYS[way], tx, *record)
    return style.wait(result) if way == "send_many" else result


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("refusal", ["no such topic", "no such partition", "no metadata in time"])
def test_a_record_that_fails_before_it_is_sent_makes_the_commit_an_abort(style, refusal, way):
    group, topic_partition = klamm.GroupMetadata("g"), klamm.TopicPartition("known", 0)
    with DevBroker(auto_create_topics=False) as broker:
        make(broker, "known", "fresh")
        with style.producer(broker.bootstrap_servers, transactional_id="tx", max_block_ms=500) as producer:
            tx = producer.client.transaction()
            enter(style, tx)
            style.wait(tx.send("known", b"dropped with it"))
            style.wait(tx.commit_offsets(group, {topic_partition: 7}))
            if refusal == "no such topic":
                start(style, tx, way, ("nowhere", b"lost", None))
            elif refusal == "no such partition":
                start(style, tx, way, ("fresh", b"lost", 9))
            else:
                broker.fault("Metadata", "drop", times=None, topic="fresh")
                start(style, tx, way, ("fresh", b"lost", None))
            with pytest.raises(TransactionAbortedError, match=r"UNKNOWN_TOPIC|has partitions 0 to 0|max\.block\.ms"):
                style.wait(tx.commit())
            broker.clear_faults()
            enter(style, tx)
            style.wait(tx.send("known", b"kept"))
            style.wait(tx.commit())
        assert committed(broker.bootstrap_servers, "known") == [b"kept"]
        assert committed(broker.bootstrap_servers, "fresh") == []
        with klamm.Consumer(broker.bootstrap_servers, group_id="g") as consumer:
            assert consumer.committed([topic_partition]) == {topic_partition: None}


def test_a_partitioner_that_errs_makes_the_commit_an_abort(style, broker, topic, transactional_id):
    make(broker, topic, f"{topic}-fresh")
    config = {"transactional_id": transactional_id, "partitioner": lambda *_: 99}
    with style.producer(broker.bootstrap_servers, **config) as producer:
        tx = producer.client.transaction()
        enter(style, tx)
        style.wait(tx.send(topic, b"dropped with it", partition=0))
        start(style, tx, "send_many", (f"{topic}-fresh", b"lost", None))
        with pytest.raises(TransactionAbortedError, match="has partitions 0 to"):
            style.wait(tx.commit())
    assert committed(broker.bootstrap_servers, topic) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("refusal", ["MESSAGE_TOO_LARGE", "has partitions 0 to 0", "INVALID_TOPIC"])
def test_a_refusal_that_the_program_catches_makes_the_commit_an_abort(style, broker, topic, refusal, way):
    make(broker, topic)
    records = {
        "MESSAGE_TOO_LARGE": (topic, b"x" * 5_000, None),
        "has partitions 0 to 0": (topic, b"lost", 9),
        "INVALID_TOPIC": ("no such name", b"lost", None),
    }
    config = {"transactional_id": f"tx-{topic}", "max_request_size": 1_000}
    with style.producer(broker.bootstrap_servers, **config) as producer:
        tx = producer.client.transaction()
        enter(style, tx)
        style.wait(tx.send(topic, b"dropped with it"))
        with pytest.raises(KafkaError, match=refusal):
            start(style, tx, way, records[refusal])
        with pytest.raises(TransactionAbortedError, match=refusal):
            style.wait(tx.commit())
        enter(style, tx)
        style.wait(tx.send(topic, b"kept"))
        style.wait(tx.commit())
    assert committed(broker.bootstrap_servers, topic) == [b"kept"]


@pytest.mark.parametrize("way", WAYS)
def test_a_buffer_that_stays_full_makes_the_commit_an_abort(style, way):
    with DevBroker() as broker:
        make(broker, "t")
        config = {"transactional_id": "tx", "buffer_memory": 5_000, "max_block_ms": 500}
        with style.producer(broker.bootstrap_servers, **config) as producer:
            tx = producer.client.transaction()
            enter(style, tx)
            style.wait(tx.send("t", b"dropped with it"))
            broker.fault("Produce", "delay", seconds=1.5, times=1)
            for _ in range(4):
                tx.send_nowait("t", b"x" * 1_000)
            with pytest.raises((KafkaTimeoutError, BufferFullError)):
                style.wait(start(style, tx, way, ("t", b"x" * 1_000, None)))
            if style.name == "async" and way == "send_nowait":
                style.wait(tx.commit())  # it never waits for room: the program may send the record again
                return
            with pytest.raises(TransactionAbortedError, match="no room in the buffer"):
                style.wait(tx.commit())
        assert committed(broker.bootstrap_servers, "t") == []


def test_a_new_producer_of_the_same_id_fences_the_old_one_and_ends_its_transaction(
    style, broker, topic, transactional_id
):
    make(broker, topic)
    config = {"transactional_id": transactional_id}
    with style.producer(broker.bootstrap_servers, **config) as old:
        zombie = old.client.transaction()
        enter(style, zombie)
        style.wait(zombie.send(topic, b"of the zombie"))
        with style.producer(broker.bootstrap_servers, **config) as new:
            tx = new.client.transaction()
            enter(style, tx)
            style.wait(tx.send(topic, b"kept"))
            leave(style, tx)
        zombie.send_nowait(topic, b"too late")
        with pytest.raises(FencedError, match=FENCED):
            style.wait(zombie.commit())
        with pytest.raises(FencedError, match=FENCED):
            enter(style, old.client.transaction())
    assert committed(broker.bootstrap_servers, topic) == [b"kept"]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(style, broker, topic, transactional_id):
    source, target = f"{topic}-in", f"{topic}-out"
    make(broker, source, target, partitions=2)
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(source, [b"%d" % n for n in range(20)], partition=0)
        producer.send_many(source, [b"%d" % n for n in range(20, 40)], partition=1)
    group = f"group-{topic}"
    partitions = [klamm.TopicPartition(source, number) for number in range(2)]
    reading = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    fails = True
    seen = 0
    with style.producer(broker.bootstrap_servers, transactional_id=transactional_id) as producer:
        while seen < 40:
            with style.consumer(broker.bootstrap_servers, **reading) as consumer:
                consumer.assign(partitions)
                records = consumer.poll(timeout=20, max_records=15)
                tx = producer.client.transaction()
                enter(style, tx)
                for record in records:
                    tx.send_nowait(target, record.value)
                style.wait(tx.commit_offsets(consumer.client))
                if fails:
                    leave(style, tx, DeliberateError, DeliberateError(), None)
                else:
                    leave(style, tx)
                    seen += len(records)
                fails = not fails
    assert sorted(map(int, committed(broker.bootstrap_servers, target))) == list(range(40))
    with klamm.Consumer(broker.bootstrap_servers, group_id=group) as consumer:
        assert consumer.committed(partitions) == dict.fromkeys(partitions, 20)


def test_offsets_may_be_given_with_the_metadata_of_a_group(broker, topic, transactional_id):
    make(broker, topic)
    topic_partition = klamm.TopicPartition(topic, 0)
    with (
        klamm.Producer(broker.bootstrap_servers, transactional_id=transactional_id) as producer,
        producer.transaction() as tx,
    ):
        tx.commit_offsets(klamm.GroupMetadata(f"group-{topic}"), {topic_partition: 7})
    with klamm.Consumer(broker.bootstrap_servers, group_id=f"group-{topic}") as consumer:
        assert consumer.committed([topic_partition]) == {topic_partition: 7}


def test_a_consumer_that_commits_by_itself_is_refused(broker, topic, transactional_id):
    make(broker, topic)
    with (
        klamm.Producer(broker.bootstrap_servers, transactional_id=transactional_id) as producer,
        klamm.Consumer(broker.bootstrap_servers, group_id="g", topics=[topic]) as consumer,
        pytest.raises(ConfigError, match="enable_auto_commit=False"),
        producer.transaction() as tx,
    ):
        tx.commit_offsets(consumer)


def test_records_need_an_open_transaction(broker, topic, transactional_id):
    with klamm.Producer(broker.bootstrap_servers, transactional_id=transactional_id) as producer:
        with pytest.raises(ConfigError, match="no transaction is open"):
            producer.send(topic, b"v")
        with producer.transaction():
            second = producer.transaction()
            with pytest.raises(ConfigError, match="a transaction is already open"):
                second.__enter__()
    with klamm.Producer(broker.bootstrap_servers) as producer, pytest.raises(ConfigError, match=r"transactional\.id"):
        producer.transaction().__enter__()


def test_a_timeout_that_the_broker_does_not_allow_is_refused_by_name(broker, transactional_id):
    day = 24 * 60 * 60 * 1000
    with (
        klamm.Producer(
            broker.bootstrap_servers, transactional_id=transactional_id, transaction_timeout_ms=day
        ) as producer,
        pytest.raises(KafkaError, match="INVALID_TRANSACTION_TIMEOUT"),
        producer.transaction(),
    ):
        pass


def test_closing_a_producer_aborts_what_is_open(style, broker, topic, transactional_id):
    make(broker, topic)
    producer = style.producer(broker.bootstrap_servers, transactional_id=transactional_id)
    tx = producer.client.transaction()
    enter(style, tx)
    style.wait(tx.send(topic, b"dropped"))
    producer.close()
    with klamm.Producer(broker.bootstrap_servers) as plain:
        plain.send(topic, b"plain")
    # A transaction that is open would hold the last stable offset back.
    assert committed(broker.bootstrap_servers, topic) == [b"plain"]


def test_many_transactions_follow_one_another_quickly(broker, topic, transactional_id):
    make(broker, topic, partitions=4)
    rounds, each = 40, 25
    with klamm.Producer(broker.bootstrap_servers, transactional_id=transactional_id) as producer:
        for round_ in range(rounds):
            with producer.transaction() as tx:
                tx.send_many(topic, [b"%d" % (round_ * each + n) for n in range(each)], partition=round_ % 4)
    values = sorted(map(int, committed(broker.bootstrap_servers, topic)))
    assert values == list(range(rounds * each))


@contextmanager
def slow_end(style):
    """Run a transaction with one record whose end takes half a second, and return the content of the topic."""
    with DevBroker() as broker:
        make(broker, "t")
        with style.producer(broker.bootstrap_servers, transactional_id="tx") as producer:
            tx = producer.client.transaction()
            enter(style, tx)
            style.wait(tx.send("t", b"v"))
            broker.fault("EndTxn", "delay", seconds=0.5)
            yield tx, lambda: committed(broker.bootstrap_servers, "t")


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_end_that_was_not_waited_for_long_enough_can_be_waited_for_again(style, end):
    with slow_end(style) as (tx, held):
        with pytest.raises(KafkaTimeoutError, match="no end of the transaction"):
            style.wait(getattr(tx, end)(timeout=0.05))
        style.wait(getattr(tx, end)())
        with pytest.raises(ConfigError, match="this transaction is not open"):
            style.wait(getattr(tx, end)())
        enter(style, tx)
        leave(style, tx)
        assert held() == ([b"v"] if end == "commit" else [])


@pytest.mark.parametrize(("delay", "timeout"), [(0.5, None), (3600, 0.2)], ids=["slow", "never"])
def test_closing_waits_for_the_abort_as_long_as_it_may(style, delay, timeout):
    with DevBroker() as broker:
        make(broker, "t")
        producer = style.producer(broker.bootstrap_servers, transactional_id="tx")
        tx = producer.client.transaction()
        enter(style, tx)
        style.wait(tx.send("t", b"v"))
        broker.fault("EndTxn", "delay", seconds=delay)
        producer.close(timeout)  # a test that hangs is ended
        assert len(broker.requests("EndTxn")) == 1
        assert committed(broker.bootstrap_servers, "t") == []


def test_a_block_ends_with_the_commit_that_was_not_waited_for(style):
    with slow_end(style) as (tx, held):
        with pytest.raises(KafkaTimeoutError, match="no end of the transaction"):
            style.wait(tx.commit(timeout=0.05))
        leave(style, tx)
        enter(style, tx)  # it would raise while the one before is open
        leave(style, tx)
        assert held() == [b"v"]


@pytest.mark.parametrize("waits", [True, False], ids=["failed before the commit", "perhaps after"])
def test_a_transactional_id_that_the_brokers_forgot_says_what_to_do(style, waits):
    """The commit raises the error, and closing the producer does not raise it again."""
    with DevBroker() as broker:
        make(broker, "t")
        seen = []
        with style.producer(broker.bootstrap_servers, transactional_id="tx", on_error=seen.append) as producer:
            tx = producer.client.transaction()
            enter(style, tx)
            broker.fault("Produce", "error", error="INVALID_PRODUCER_ID_MAPPING")
            tx.send_nowait("t", b"v")
            if waits:  # the metrics know the error a moment before the failure is there to be taken
                until(lambda: producer.client._failures(False) or seen)
            with pytest.raises(KafkaError, match=r"INVALID_PRODUCER_ID_MAPPING.*transactional\.id\.expiration\.ms"):
                style.wait(tx.commit())


def test_a_dropped_delivery_whose_record_has_failed_reaches_on_error(style):
    """Whether a record fails before or after the program drops its Delivery is a matter of chance."""
    with DevBroker() as broker:
        make(broker, "t")
        seen = []
        with style.producer(broker.bootstrap_servers, transactional_id="tx", on_error=seen.append) as producer:
            tx = producer.client.transaction()
            enter(style, tx)
            broker.fault("Produce", "error", error="INVALID_RECORD", times=1)
            held = [style.run(tx.send, "t", b"v")]
            until(lambda: style.run(held[0].done))
            held.clear()
            until(lambda: style.run(producer.client._failures, False) or seen)
            assert "INVALID_RECORD" in str(seen[0])
            with pytest.raises(TransactionAbortedError, match="INVALID_RECORD"):
                style.wait(tx.commit())
            enter(style, tx)
            style.wait(tx.send("t", b"next"))
            leave(style, tx)
        assert len(seen) == 1
        assert committed(broker.bootstrap_servers, "t") == [b"next"]


def test_a_transaction_that_has_ended_leaves_the_next_one_alone(style, broker, topic, transactional_id):
    with style.producer(broker.bootstrap_servers, transactional_id=transactional_id) as producer:
        first, second = producer.transaction(), producer.transaction()
        enter(style, first)
        style.wait(first.send(topic, b"first"))
        leave(style, first)
        enter(style, second)
        style.wait(second.send(topic, b"second"))
        for end in (first.commit, first.abort, producer.transaction().abort):
            with pytest.raises(ConfigError, match="this transaction is not open"):
                style.wait(end())
        style.wait(second.send(topic, b"second too"))
        leave(style, second)
    assert committed(broker.bootstrap_servers, topic) == [b"first", b"second", b"second too"]


def test_starting_transactions_can_be_waited_for_again(style):
    with DevBroker() as cluster:
        cluster.fail_next("InitProducerId", error="COORDINATOR_LOAD_IN_PROGRESS", times=3)
        with style.producer(cluster.bootstrap_servers, transactional_id="x") as producer:
            for _ in range(2):
                with pytest.raises(KafkaTimeoutError):
                    producer.init_transactions(0)
            producer.init_transactions(30)
            assert len(cluster.requests("InitProducerId")) == 4


def test_an_abort_does_not_wait_for_a_request_whose_batch_is_given_up(style):
    """As Java's producer. The epoch of the batch has ended, so a broker that receives it late rejects it."""
    with DevBroker(brokers=2) as broker:
        make(broker, "t", "u")
        with klamm.Admin(broker.bootstrap_servers) as admin:
            leader = admin.describe_topics(["t"])["t"].partitions[0].leader
        broker.move_coordinator("tx", 3 - leader)  # the one answers while the other does not
        config = {"transactional_id": "tx", "delivery_timeout_ms": 500, "request_timeout_ms": 20_000}
        with style.producer(broker.bootstrap_servers, **config) as producer:
            tx = producer.client.transaction()
            enter(style, tx)
            broker.fault("Produce", "delay", seconds=3600, times=1)
            with pytest.raises(KafkaTimeoutError, match=r"delivery\.timeout\.ms"):
                style.wait(tx.send("t", b"given up"))
            style.wait(tx.abort(timeout=10))
        assert committed(broker.bootstrap_servers, "t") == []
