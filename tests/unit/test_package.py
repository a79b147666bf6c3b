"""The package as a whole: the cost of its import, and its exports."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

import klamm
from klamm.errors import ArgumentError, KafkaError

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    "statement", ["import klamm", "import klamm; klamm.Producer, klamm.Consumer, klamm.Admin, klamm.testing.DevBroker"]
)
def test_importing_klamm_imports_neither_pyarrow_nor_asyncio(statement):
    unwanted = {"pyarrow", "asyncio", "pyspark", "rich", "httpx2", "fastavro", "jsonschema", "google.protobuf"}
    program = f"{statement}; import sys; print({unwanted} & set(sys.modules))"
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


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("klamm.registry.SchemaRegistry('http://127.0.0.1:1', max_retries=0).subjects()", "httpx2"),
        ("klamm.testing.DevBroker(schema_registry=True)", "google"),
    ],
)
def test_a_schema_registry_without_its_extra_says_how_to_install_it(program, name):
    # `None` in `sys.modules` makes an import fail, as a package that is not installed does.
    program = f"import sys; sys.modules[{name!r}] = None; import klamm; {program}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "ConfigError" in run.stderr
    assert "pip install 'klamm[registry]'" in run.stderr


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


@pytest.mark.parametrize(
    "documented",
    [
        klamm.Producer.send,
        klamm.Producer.send_nowait,
        klamm.Delivery.result,
        klamm.Delivery.within,
        klamm.Records.to_arrow,
        klamm.Record,
    ],
    ids=lambda documented: documented.__qualname__,
)
def test_the_extension_documents_arguments_and_errors(documented):
    assert {"Args:", "Raises:"} <= set(map(str.strip, documented.__doc__.splitlines()))


def test_an_error_about_arguments_names_the_public_class():
    with klamm.Producer(NOWHERE) as producer, pytest.raises(TypeError, match=r"^Producer\.send\(\) missing"):
        producer.send()


SUB_INTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
if sys.argv[1] == "main first":
    import klamm.producer
if sys.version_info >= (3, 13):
    made = interpreters.create("legacy")
else:
    made = interpreters.create(isolated=False)
path = f"import sys; sys.path[:0] = {[path for path in sys.path if path]!r}"
interpreters.run_string(made, path)
interpreters.run_string(made, sys.argv[2])
"""

IMPORT = """
try:
    import klamm
except ImportError as error:
    print(error, flush=True)
"""


@pytest.mark.parametrize("order", ["main first", "alone"])
def test_a_sub_interpreter_cannot_import_klamm_and_says_what_to_do(order):
    command = [sys.executable, "-c", SUB_INTERPRETER, order, IMPORT]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot be imported in a sub-interpreter" in run.stdout
    assert "WSGIApplicationGroup %{GLOBAL}" in run.stdout
