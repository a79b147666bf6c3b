"""Injects each error code into the responses of transactions, and compares klamm with the documented table."""

from __future__ import annotations

import pytest

import klamm
from error_tables import CODES, documented
from klamm.errors import KafkaError, TransactionAbortedError
from klamm.testing import DevBroker

VERSION_1 = ("AddPartitionsToTxn", "AddOffsetsToTxn")


@pytest.fixture(scope="module")
def brokers():
    with DevBroker() as new, DevBroker(transaction_version=1) as old:
        yield new, old


def action_after(broker, api, code):
    """Return what the producer does after this code in one response."""
    with klamm.Producer(
        broker.bootstrap_servers, transactional_id=f"{api}-{code}", retry_backoff_ms=1, retry_backoff_max_ms=1
    ) as producer:
        broker.clear_faults()
        broker.fail_next(api, error=code)
        error = None
        try:
            with producer.transaction() as tx:
                tx.send("t", b"v")
                tx.commit_offsets(klamm.GroupMetadata("g"), {klamm.TopicPartition("t", 0): 1})
        except KafkaError as raised:
            error = raised
        try:
            with producer.transaction() as tx:
                tx.send("t", b"v")
        except TransactionAbortedError:
            raise AssertionError(f"{api} {code}: the next transaction was aborted") from error
        except KafkaError:
            return "ends"
        return "retries" if error is None else "aborts"


@pytest.mark.parametrize(
    "api", ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
)
def test_each_error_code_of_a_transaction_has_its_documented_effect(api, brokers):
    broker = brokers[api in VERSION_1]
    table = documented("Transactions", api)
    for code in CODES:
        assert (code, action_after(broker, api, code)) == (code, table[code])
