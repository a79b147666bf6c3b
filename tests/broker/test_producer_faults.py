"""A producer with faulty brokers: results are correct, and there are no duplicates."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import klamm
from klamm.errors import KafkaError, KafkaTimeoutError, OutOfOrderSequenceNumberError
from klamm.testing import DevBroker

FAULTS = {
    "delay": {"seconds": 0.05},
    "drop": {},
    "lose_answer": {},
    "cut": {},
    "error": {"error": "NOT_ENOUGH_REPLICAS_AFTER_APPEND"},
    "throttle": {"seconds": 0.02},
    "drip": {"seconds": 0.05},
}


@pytest.fixture
def faulty():
    with DevBroker(brokers=3) as broker:
        yield broker


def values(broker, topic, **config):
    table = klamm.read_table(broker.bootstrap_servers, topic, columns=["partition", "value"], **config)
    found = {}
    for row in table.to_pylist():
        found.setdefault(row["partition"], []).append(int(row["value"]))
    return found


def create(broker, topic, partitions=3):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=partitions)})


@pytest.mark.parametrize("action", FAULTS)
def test_records_are_there_once_and_in_order_whatever_goes_wrong(faulty, topic, action):
    create(faulty, topic)
    count = 600
    with klamm.Producer(faulty.bootstrap_servers, batch_size=600, retry_backoff_ms=5) as producer:
        producer.send(topic, b"-1", partition=0).result(20)
        faulty.fault("Produce", action, times=None, probability=0.15, seed=3, **FAULTS[action])
        deliveries = [producer.send(topic, b"%d" % n, partition=n % 3) for n in range(count)]
        producer.flush(60)
        faulty.clear_faults()
        for delivery in deliveries:
            delivery.result(0)
    found = values(faulty, topic)
    found[0].remove(-1)
    assert found == {partition: list(range(partition, count, 3)) for partition in range(3)}


def test_answers_with_a_wrong_bit_cost_no_record_and_double_none(faulty, topic):
    """A flipped bit may turn success into an error. The client cannot detect that, so such a failed record is in the
    log.
    """
    create(faulty, topic, partitions=1)
    with klamm.Producer(faulty.bootstrap_servers, batch_size=600, retry_backoff_ms=5) as producer:
        producer.send(topic, b"-1").result(20)
        faulty.fault("Produce", "corrupt", times=None, probability=0.3, seed=3)
        deliveries = [producer.send(topic, b"%d" % n) for n in range(300)]
        outcomes = [delivery.exception(60) for delivery in deliveries]
        faulty.clear_faults()
    found = values(faulty, topic)[0][1:]
    assert found == sorted(set(found))
    assert {n for n, outcome in enumerate(outcomes) if outcome is None} <= set(found)


@pytest.mark.parametrize("action", FAULTS)
def test_transactions_are_atomic_under_faults(faulty, topic, action):
    create(faulty, topic)
    config = {"transactional_id": "tx", "retry_backoff_ms": 5, "batch_size": 600}
    error = {"error": "COORDINATOR_NOT_AVAILABLE"} if action == "error" else FAULTS[action]
    with klamm.Producer(faulty.bootstrap_servers, **config) as producer:
        producer.init_transactions()
        for api in ("EndTxn", "TxnOffsetCommit", "FindCoordinator"):
            faulty.fault(api, action, times=None, probability=0.2, seed=5, **error)
        if action != "error":
            faulty.fault("Produce", action, times=None, probability=0.1, seed=7, **FAULTS[action])
        for round_ in range(20):
            with producer.transaction() as tx:
                for number in range(15):
                    tx.send_nowait(topic, b"%d" % (round_ * 15 + number), partition=round_ % 3)
                tx.commit_offsets(klamm.GroupMetadata("g"), {klamm.TopicPartition(topic, 0): round_})
        faulty.clear_faults()
    found = values(faulty, topic, isolation_level="read_committed")
    assert sorted(number for numbers in found.values() for number in numbers) == list(range(300))
    with klamm.Consumer(faulty.bootstrap_servers, group_id="g") as consumer:
        tp = klamm.TopicPartition(topic, 0)
        assert consumer.committed([tp]) == {tp: 19}


def test_a_broker_that_throttles_is_left_alone(faulty, topic):
    create(faulty, topic, partitions=1)
    seconds = 0.3
    with klamm.Producer(faulty.bootstrap_servers) as producer:
        faulty.fault("Produce", "throttle", seconds=seconds)
        for _ in range(2):
            producer.send(topic, b"v").result(20)
        (throttled,) = (m.throttled for m in producer.metrics().brokers.values())
    first, second = faulty.requests("Produce")
    assert second.time - first.time >= seconds
    assert throttled == pytest.approx(seconds)


def test_a_refusal_that_names_the_new_leader_saves_asking(faulty, topic):
    create(faulty, topic, partitions=1)
    with klamm.Producer(faulty.bootstrap_servers) as producer:
        producer.send(topic, b"0").result(20)
        (leader,) = {request.node for request in faulty.requests("Produce")}
        other = leader % 3 + 1
        faulty.move_leader(topic, 0, other)
        assert producer.send(topic, b"1").result(20).offset == 1
        requests = [(r.api, r.node) for r in faulty.requests() if r.api in {"Produce", "Metadata"}]
    asked = requests.index(("Produce", other))
    assert requests[asked - 1] == ("Produce", leader)


def test_a_record_that_is_never_taken_fails_within_its_time_and_the_next_ones_are_taken(faulty, topic):
    create(faulty, topic, partitions=1)
    config = {"delivery_timeout_ms": 500, "retry_backoff_ms": 20}
    with klamm.Producer(faulty.bootstrap_servers, **config) as producer:
        producer.send(topic, b"0").result(20)
        faulty.fail_next("Produce", error="NOT_ENOUGH_REPLICAS", times=None)
        with pytest.raises(KafkaTimeoutError, match="NOT_ENOUGH_REPLICAS"):
            producer.send(topic, b"1").result(20)
        faulty.clear_faults()
        # Its sequence number is a gap, which the next epoch passes over without asking for an id.
        asked = len(faulty.requests("InitProducerId"))
        producer.send(topic, b"2").result(20)
        assert len(faulty.requests("InitProducerId")) == asked
    assert values(faulty, topic) == {0: [0, 2]}


def test_a_sequence_the_broker_lost_is_started_again(faulty, topic):
    create(faulty, topic, partitions=1)
    with klamm.Producer(faulty.bootstrap_servers, retry_backoff_ms=5) as producer:
        producer.send(topic, b"0").result(20)
        faulty.fail_next("Produce", error="UNKNOWN_PRODUCER_ID")
        producer.send(topic, b"1").result(20)
        faulty.fail_next("Produce", error="OUT_OF_ORDER_SEQUENCE_NUMBER")
        producer.send(topic, b"2").result(20)
    assert values(faulty, topic) == {0: [0, 1, 2]}


def test_in_a_transaction_a_lost_sequence_aborts(faulty, topic):
    create(faulty, topic, partitions=1)

    def write(producer, value):
        with producer.transaction() as tx:
            tx.send(topic, value).result(20)

    with klamm.Producer(faulty.bootstrap_servers, transactional_id="tx") as producer:
        write(producer, b"0")
        faulty.fail_next("Produce", error="OUT_OF_ORDER_SEQUENCE_NUMBER")
        with pytest.raises(OutOfOrderSequenceNumberError):
            write(producer, b"1")
        write(producer, b"2")
    assert values(faulty, topic, isolation_level="read_committed") == {0: [0, 2]}


def test_a_coordinator_that_moves_or_dies_is_found_again(faulty, topic):
    create(faulty, topic, partitions=1)
    with klamm.Producer(faulty.bootstrap_servers, transactional_id="tx", retry_backoff_ms=5) as producer:
        for number in range(6):
            with producer.transaction() as tx:
                tx.send_nowait(topic, b"%d" % number)
                tx.commit_offsets(klamm.GroupMetadata("g"), {klamm.TopicPartition(topic, 0): number})
                faulty.move_coordinator("tx", number % 3 + 1)
                faulty.move_coordinator("g", (number + 1) % 3 + 1)
                if number == 5:
                    faulty.kill(3)  # the coordinator of the transaction
    assert values(faulty, topic, isolation_level="read_committed") == {0: list(range(6))}


def test_a_transaction_that_took_too_long_is_aborted_by_the_broker(faulty, topic):
    create(faulty, topic, partitions=1)
    with klamm.Producer(faulty.bootstrap_servers, transactional_id="tx", transaction_timeout_ms=10_000) as producer:
        tx = producer.transaction()
        tx.__enter__()
        tx.send(topic, b"0").result(20)
        faulty.advance(60)
        with pytest.raises(KafkaError, match=r"INVALID_PRODUCER_EPOCH|PRODUCER_FENCED|INVALID_TXN_STATE|ABORTABLE"):
            tx.commit()
    assert values(faulty, topic, isolation_level="read_committed") == {}


@pytest.mark.skipif(sys.platform != "linux", reason="memory comes from /proc")
def test_memory_stays_within_the_buffer_while_the_broker_stalls():
    """Sends small records with Deliveries to a broker that does not answer, until the buffer is full."""
    buffer_mib, constant_mib = 32, 24
    program = """
        import sys, klamm
        from klamm.testing import DevBroker

        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

        with DevBroker() as broker:
            producer = klamm.Producer(
                broker.bootstrap_servers, buffer_memory=int(sys.argv[1]) << 20, max_block_ms=200
            )
            producer.send("t", b"v").result(20)
            broker.fault("Produce", "delay", seconds=600, times=None)
            before, sent = resident(), 0
            try:
                while True:
                    producer.send("t", b"x" * 100)
                    sent += 1
            except klamm.errors.KafkaTimeoutError:
                pass
            print(resident() - before, sent)
            sys.stdout.flush()
            import os
            os._exit(0)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(buffer_mib)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "MALLOC_ARENA_MAX": "2"},
    )
    assert done.stderr == ""
    grown, sent = map(int, done.stdout.split())
    assert sent > 50_000
    assert grown < buffer_mib + constant_mib


def test_what_an_abort_left_in_flight_is_no_part_of_the_next_transaction(faulty, topic):
    """A batch that is rejected as too large after the abort is not split and retried."""
    create(faulty, topic, partitions=1)
    config = {"transactional_id": "tx", "batch_size": 4 << 20, "max_request_size": 8 << 20, "linger_ms": 60_000}
    with klamm.Producer(faulty.bootstrap_servers, **config) as producer:
        producer.init_transactions()
        producer.partitions_for(topic)
        tx = producer.transaction()
        tx.__enter__()
        faulty.fault("Produce", "delay", seconds=0.5)
        tx.send_many(topic, [b"%d" % n + b" " * (600 << 10) for n in range(4)])
        flush = producer._flush()
        while not faulty.requests("Produce"):
            assert not flush.done()
        tx.abort()
        with producer.transaction() as tx:
            tx.send_nowait(topic, b"9")
    assert values(faulty, topic, isolation_level="read_committed") == {0: [9]}
