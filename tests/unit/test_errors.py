"""The tree of exceptions: base classes, attributes and pickling."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path

import pytest

import golden
from klamm import errors, protocol

CODES = [row for row in protocol.errors() if row.name != "NONE"]


@pytest.mark.parametrize("row", CODES, ids=lambda row: row.name)
def test_every_code_has_a_class(row):
    made = errors.by_code(row.code)
    assert issubclass(made, errors.BrokerError)
    assert (made.code, made.name, made.retriable) == row[:3]
    assert getattr(errors, made.__name__) is made
    assert made.__name__.endswith("Error")
    assert not made.__name__.endswith("ErrorError")


def test_type_checkers_read_the_classes_that_programs_get():
    tree = ast.parse(Path(errors.__file__).read_text())
    blocks = [
        node.body for node in tree.body if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    ]
    classes = [node for block in blocks for node in block if isinstance(node, ast.ClassDef)]
    read = {node.name: [base.id for base in node.bases] for node in classes}
    made = [errors.by_code(row.code) for row in CODES]
    assert read == {kind.__name__: [base.__name__ for base in kind.__bases__] for kind in made}


def test_codes_are_kafkas():
    known = {
        (row["code"], row["name"], row["retriable"], row["refresh_metadata"])
        for row in golden.json.loads((golden.FOLDER / "errors.json").read_text())
    }
    assert set(protocol.errors()) == known


def test_a_code_from_the_future_is_a_plain_broker_error():
    assert errors.by_code(30_000) is errors.BrokerError
    assert errors.BrokerError("refused", code=30_000).code == 30_000


def test_errors_are_also_what_python_calls_them():
    assert issubclass(errors.KafkaTimeoutError, TimeoutError)
    assert issubclass(errors.ConfigError, ValueError)
    assert issubclass(errors.ArgumentError, TypeError)
    assert issubclass(errors.ProducerFencedError, errors.FencedError)
    assert issubclass(errors.SaslAuthenticationFailedError, errors.AuthenticationError)


def test_a_message_says_what_where_and_what_to_do():
    error = errors.MessageTooLargeError("produce", broker="b:9092", topic="t", partition=3, hint="send less")
    assert str(error) == "produce (broker b:9092); hint: send less"
    assert (error.code, error.name, error.retriable) == (10, "MESSAGE_TOO_LARGE", False)
    assert (error.topic, error.partition, error.broker, error.hint) == ("t", 3, "b:9092", "send less")


@pytest.mark.parametrize(
    "error",
    [
        errors.KafkaError("plain"),
        errors.DecodeError("bad", path="a.b[0]", offset=7),
        errors.UnknownTopicOrPartitionError("no", topic="t", partition=1, broker="b:1", hint="make it"),
        errors.BrokerError("new", code=30_000),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_pickle_keeps_everything(error):
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)
    assert copy.args == error.args


def test_there_is_no_class_for_a_name_that_is_no_code():
    with pytest.raises(AttributeError, match="NoSuchThingError"):
        errors.NoSuchThingError  # noqa: B018


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("h:1", "h", 1),
        ("[::1]:9092", "::1", 9092),
        ("h:1, i:2", None, None),
        ("id 3", None, None),
        ("", None, None),
    ],
)
def test_the_address_of_a_broker_is_text_with_host_and_port(text, host, port):
    address = errors.BrokerAddress(text, 4)
    for each in address, pickle.loads(pickle.dumps(address)), copy.copy(address):  # noqa: S301 - our own bytes
        assert (each, each.host, each.port, each.node_id) == (text, host, port, 4)
