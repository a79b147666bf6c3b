"""The package as a whole: what importing it costs, what it exports, and that both styles offer the same."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys

import pytest

import klamm
from klamm.errors import ArgumentError, KafkaError

NOWHERE = "127.0.0.1:1"
PAIRS = [
    (klamm.Producer, klamm.AsyncProducer),
    (klamm.Consumer, klamm.AsyncConsumer),
    (klamm.Admin, klamm.AsyncAdmin),
]


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("statement", ["import klamm", "import klamm; klamm.Producer, klamm.Consumer, klamm.Admin"])
def test_importing_klamm_imports_neither_pyarrow_nor_asyncio(statement):
    program = f"{statement}; import sys; print({{'pyarrow', 'asyncio', 'pyspark', 'rich'}} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_every_name_is_there():
    for name in klamm.__all__:
        assert getattr(klamm, name) is not None
    assert set(klamm.__all__) == set(klamm._HOMES)
    assert set(klamm.__all__) < set(dir(klamm))
    with pytest.raises(AttributeError, match="Produser"):
        klamm.Produser  # noqa: B018
    assert klamm.__version__


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS)
def test_both_styles_have_the_same_methods_with_the_same_arguments(sync, asynchronous):
    assert public(sync) == public(asynchronous)
    for name in public(sync):
        one, other = (inspect.signature(getattr(kind, name)) for kind in (sync, asynchronous))
        parts = [[(p.name, p.kind, p.default) for p in list(each.parameters.values())[1:]] for each in (one, other)]
        assert parts[0] == parts[1], name


@pytest.mark.parametrize("kind", [kind for pair in PAIRS for kind in pair])
def test_every_public_method_is_documented(kind):
    for name in public(kind):
        assert inspect.getdoc(getattr(kind, name)), name


@pytest.mark.parametrize("kind", [klamm.Producer, klamm.Consumer, klamm.Admin, klamm.AsyncProducer])
def test_a_client_cannot_be_pickled_and_says_what_to_do(kind):
    client = kind(NOWHERE)
    for attempt in pickle.dumps, copy.copy:
        with pytest.raises(ArgumentError, match="cannot be pickled") as caught:
            attempt(client)
        assert "same configuration" in caught.value.hint


def test_plain_data_can_be_pickled():
    record = klamm.Record("t", 1, 2, 3, b"k", None, [("h", b"v"), ("n", None)])
    metadata = klamm.RecordMetadata("t", 1, 2, 3)
    place = klamm.TopicPartition("t", 1, offset=2)
    assert pickle.loads(pickle.dumps(metadata)) == metadata  # noqa: S301
    assert pickle.loads(pickle.dumps(place)).offset == 2  # noqa: S301
    assert repr(pickle.loads(pickle.dumps(record))) == repr(record)  # noqa: S301


def test_errors_are_caught_by_the_name_at_the_top():
    assert klamm.KafkaError is KafkaError
