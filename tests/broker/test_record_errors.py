"""Records that a broker rejects alone (KIP-467): only they fail, and the rest of their batch is written."""

from __future__ import annotations

import time

import pytest

import klamm
from klamm.errors import DeliveryError, InvalidRecordError, InvalidTimestampError, TransactionAbortedError


@pytest.fixture
def compacted(broker, topic):
    """A topic that rejects records without a key."""
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(configs={"cleanup.policy": "compact"})})
    return topic


def read(broker, topic):
    table = klamm.read_table(broker.bootstrap_servers, topic, isolation_level="read_committed", columns=["value"])
    return table["value"].to_pylist()


def outcome(delivery):
    error = delivery.exception(timeout=30)
    return delivery.result().offset if error is None else type(error)


@pytest.mark.parametrize("config", [{}, {"enable_idempotence": False}, {"compression_type": "zstd"}], ids=str)
def test_only_the_records_that_are_named_fail(broker, compacted, config):
    keyless = {0, 3, 4, 9}
    with klamm.Producer(broker.bootstrap_servers, linger_ms=60_000, **config) as producer:
        deliveries = [
            producer.send(compacted, b"%d" % n, key=None if n in keyless else b"key", headers=[("n", b"%d" % n)])
            for n in range(10)
        ]
        producer.flush()
        expected = iter(range(10))
        assert [outcome(d) for d in deliveries] == [
            InvalidRecordError if n in keyless else next(expected) for n in range(10)
        ]
        error = deliveries[3].exception()
        assert (error.topic, error.partition) == (compacted, 0)
        assert "without key" in str(error)
        assert producer.metrics().topics[compacted].errors == len(keyless)
    assert read(broker, compacted) == [b"%d" % n for n in range(10) if n not in keyless]


def test_a_batch_of_which_every_record_is_named_fails_and_the_next_one_does_not(broker, compacted):
    with klamm.Producer(broker.bootstrap_servers, linger_ms=60_000) as producer:
        for n in range(3):
            refused = [producer.send(compacted, b"refused") for _ in range(3)]
            producer.flush()
            assert [outcome(d) for d in refused] == [InvalidRecordError] * 3
            taken = producer.send(compacted, b"taken", key=b"key")
            producer.flush()
            assert outcome(taken) == n


@pytest.mark.parametrize("every", [7, 997])
def test_batches_in_flight_after_a_rejected_record_are_written_once_and_in_order(broker, compacted, every):
    values = [b"%0100d" % n for n in range(2_000)]
    keys = [None if n % every == 5 else b"key" for n in range(len(values))]
    with klamm.Producer(broker.bootstrap_servers, batch_size=2_000) as producer:
        for value, key in zip(values, keys, strict=True):
            producer.send_nowait(compacted, value, key=key, partition=0)
        refused = f"^{keys.count(None)} records were not delivered"
        with pytest.raises(DeliveryError, match=refused) as failed:
            producer.flush()
        assert {type(error) for error in failed.value.exceptions} == {InvalidRecordError}
    assert read(broker, compacted) == [value for value, key in zip(values, keys, strict=True) if key is not None]


def test_a_transaction_with_a_refused_record_is_aborted(broker, compacted):
    with klamm.Producer(broker.bootstrap_servers, transactional_id=compacted, linger_ms=60_000) as producer:
        with pytest.raises(TransactionAbortedError) as aborted, producer.transaction() as tx:
            deliveries = [tx.send(compacted, b"aborted", key=key) for key in (b"key", None, b"key")]
        assert isinstance(aborted.value.__cause__, InvalidRecordError)
        assert [outcome(d) for d in deliveries] == [
            TransactionAbortedError,
            InvalidRecordError,
            TransactionAbortedError,
        ]
        with producer.transaction() as tx:
            tx.send_nowait(compacted, b"committed", key=b"key")
    assert read(broker, compacted) == [b"committed"]


def test_a_record_that_is_too_old_fails_alone(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(configs={"message.timestamp.before.max.ms": "3600000"})})
    now = int(time.time() * 1000)
    with klamm.Producer(broker.bootstrap_servers, linger_ms=60_000) as producer:
        deliveries = [producer.send(topic, b"%d" % at, timestamp_ms=at) for at in (now, now - 7_200_000, now)]
        producer.flush()
    assert [outcome(d) for d in deliveries] == [0, InvalidTimestampError, 1]
