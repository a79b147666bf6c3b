"""Transactions that are open for longer than `transaction.timeout.ms`, so that the coordinator aborts them."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext

import pytest

import klamm
from conftest import BROKERS
from klamm.errors import FencedError, KafkaError, TransactionAbortedError
from settled import wait_until_settled
from transactions import committed, enter, leave, make

NAMED = r"open for longer than transaction\.timeout\.ms \(1000 ms\)"


@pytest.fixture(scope="module", params=BROKERS)
def broker(request):
    """Each broker, with both transaction protocols."""
    return request.getfixturevalue(BROKERS[request.param][0])


@pytest.mark.parametrize("way", ["send", "commit_offsets", "commit", "abort", "leave"])
def test_a_transaction_that_times_out_names_the_timeout_and_the_next_one_works(style, broker, topic, way):
    make(broker, topic)
    config = {"transactional_id": topic, "transaction_timeout_ms": 1000}
    with ExitStack() as producers:
        producer = producers.enter_context(style.producer(broker.bootstrap_servers, **config))
        tx = producer.client.transaction()
        enter(style, tx)
        style.wait(tx.send(topic, b"late"))
        wait_until_settled(broker.bootstrap_servers, topic)  # the coordinator aborts the transaction
        survives = not broker.name.endswith("v1")
        error = TransactionAbortedError if survives else FencedError
        if way == "send":
            with pytest.raises(KafkaError, match=NAMED) as raised:
                style.wait(tx.send(topic, b"too late"))
            leave(style, tx, raised.type, raised.value, None)
        elif way == "commit_offsets":
            with pytest.raises(error, match=NAMED) as raised:
                style.wait(tx.commit_offsets(klamm.GroupMetadata(topic), {klamm.TopicPartition(topic, 0): 1}))
            leave(style, tx, raised.type, raised.value, None)
        elif way == "commit":
            with pytest.raises(error, match=NAMED):
                style.wait(tx.commit())
        elif way == "leave":
            with pytest.raises(error, match=NAMED):
                leave(style, tx)
        else:
            with nullcontext() if survives else pytest.raises(FencedError, match=NAMED):
                style.wait(tx.abort())
        if not survives:
            with pytest.raises(FencedError, match=f"{NAMED}.*create a new producer"):
                enter(style, producer.client.transaction())
            producer = producers.enter_context(style.producer(broker.bootstrap_servers, **config))
        for value in b"first", b"second":
            tx = producer.client.transaction()
            enter(style, tx)
            style.wait(tx.send(topic, value))
            leave(style, tx)
    assert committed(broker.bootstrap_servers, topic) == [b"first", b"second"]
