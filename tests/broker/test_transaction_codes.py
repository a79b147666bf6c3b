"""Injects each error code into the responses of transactions, and compares klamm with the documented table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import klamm
from klamm._klamm import error_codes
from klamm.errors import KafkaError, TransactionAbortedError
from klamm.testing import DevBroker

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "error-handling.md"
VERSION_1 = ("AddPartitionsToTxn", "AddOffsetsToTxn")
CODES = {name: retriable for code, name, retriable, _ in error_codes() if code}


def documented(api):
    """Return the documented action of klamm for each code, and the action for all other codes."""
    section = PAGE.read_text(encoding="utf-8").split("\n## Transactions\n")[1].split("\n## ")[0]
    rows = section.split(f"\n### {api}\n")[1].split("\n### ")[0].splitlines()
    actions = {}
    for row in rows:
        if row.startswith(("| `", "| retriable", "| all")):
            codes, action, *_ = (cell.strip() for cell in row.strip("|").split("|"))
            actions |= dict.fromkeys(re.findall(r"`([A-Z_]+)`", codes) or [codes], action)
    return actions


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
    table = documented(api)
    rest = table.pop("all other codes")
    retriable = table.pop("retriable codes")
    for code, is_retriable in CODES.items():
        expected = table.get(code, retriable if is_retriable else rest)
        assert (code, action_after(broker, api, code)) == (code, expected)
    assert set(table) <= set(CODES)
