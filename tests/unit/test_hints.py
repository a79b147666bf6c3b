"""Errors for names of other clients and for wrong arguments say what klamm calls them."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

import pytest

import klamm
from klamm import other_clients, registry
from klamm.errors import ArgumentError, ConfigError
from klamm.testing import DevBroker

NOWHERE = "127.0.0.1:1"
CLASSES = [
    (klamm.Producer, other_clients.PRODUCER),
    (klamm.AsyncProducer, other_clients.PRODUCER),
    (klamm.Consumer, other_clients.CONSUMER),
    (klamm.AsyncConsumer, other_clients.CONSUMER),
    (klamm.ShareConsumer, other_clients.CONSUMER),
    (klamm.Admin, other_clients.ADMIN),
    (klamm.AsyncAdmin, other_clients.ADMIN),
    (klamm.Transaction, other_clients.TRANSACTION),
    (DevBroker, other_clients.DEV_BROKER),
]


@pytest.mark.parametrize("name", ["assigned", "revoked", "lost"])
def test_a_listener_with_the_method_names_of_other_clients_is_rejected(name):
    with pytest.raises(ArgumentError, match=rf"Mine has on_partitions_{name}\(\).*klamm calls this method {name}\(\)"):
        type("Mine", (klamm.RebalanceListener,), {f"on_partitions_{name}": print})
    type("Both", (klamm.RebalanceListener,), dict.fromkeys((f"on_partitions_{name}", name), print))


@pytest.fixture(scope="module")
def producer():
    with klamm.Producer(NOWHERE) as producer:
        yield producer


@pytest.fixture(scope="module")
def consumer():
    with klamm.Consumer(NOWHERE) as consumer:
        yield consumer


@pytest.mark.parametrize(
    ("cls", "name", "hint"), [(cls, name, hint) for cls, names in CLASSES for name, hint in names.items()]
)
def test_a_name_of_another_client_is_explained_and_not_there(cls, name, hint):
    if name in dir(cls):  # klamm has it as well
        return
    assert not hasattr(cls, name)
    with pytest.raises(AttributeError) as caught:
        getattr(cls, name)
    assert str(caught.value) == f"{cls.__name__} has no {name}; hint: {hint}"


PEERS = [
    ("confluent-kafka", "confluent_kafka.Producer", klamm.Producer),
    ("confluent-kafka", "confluent_kafka.Consumer", klamm.Consumer),
    ("confluent-kafka", "confluent_kafka.admin.AdminClient", klamm.Admin),
    ("confluent-kafka", "confluent_kafka.Message", klamm.Record),
    ("confluent-kafka", "confluent_kafka.TopicPartition", klamm.TopicPartition),
    ("confluent-kafka", "confluent_kafka.KafkaError", klamm.KafkaError),
    ("confluent-kafka", "confluent_kafka", klamm),
    ("aiokafka", "aiokafka.AIOKafkaProducer", klamm.AsyncProducer),
    ("aiokafka", "aiokafka.AIOKafkaConsumer", klamm.AsyncConsumer),
    ("aiokafka", "aiokafka.admin.AIOKafkaAdminClient", klamm.AsyncAdmin),
    ("aiokafka", "aiokafka", klamm),
    ("kafka-python", "kafka.KafkaProducer", klamm.Producer),
    ("kafka-python", "kafka.KafkaConsumer", klamm.Consumer),
    ("kafka-python", "kafka.KafkaAdminClient", klamm.Admin),
    ("kafka-python", "kafka", klamm),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of other clients, when they are imported
@pytest.mark.parametrize(("page", "peer", "ours"), PEERS, ids=[peer for _, peer, _ in PEERS])
def test_every_public_name_of_another_client_is_klamms_or_on_its_page(page, peer, ours):
    module, _, name = peer.rpartition(".")
    theirs = getattr(importlib.import_module(module), name) if module else importlib.import_module(peer)
    # Codes of errors are capitals. The names of kafka-python's configuration are no calls.
    names = [n for n in dir(theirs) if not n.startswith(("_", "config_")) and not n.isupper()]
    if inspect.ismodule(theirs):
        names = [n for n in names if n in getattr(theirs, "__all__", names) and inspect.isclass(getattr(theirs, n))]
    text = (Path(__file__).parents[2] / "docs" / "coming-from" / f"{page}.md").read_text(encoding="utf-8")
    assert [n for n in names if not hasattr(ours, n) and not re.search(rf"\b{n}\b", text)] == []


@pytest.mark.parametrize("cls", [cls for cls, _ in CLASSES])
def test_names_in_hints_exist(cls):
    names = dict(CLASSES)[cls]
    public = {name for each, _ in CLASSES for name in dir(each)} | set(dir(klamm)) | {"result", "by_partition", "abort"}
    for hint in names.values():
        for word in hint.replace("(", "( ").split():
            if word.endswith("("):
                assert word[:-1].rpartition(".")[2] in public, hint


def test_an_instance_explains_names_too(producer):
    with pytest.raises(AttributeError, match="klamm calls this send"):
        producer.produce("t", b"v")
    assert "produce" not in dir(producer)
    with (
        klamm.Producer(NOWHERE, value_serializer=str.encode) as hooked,
        pytest.raises(AttributeError, match="Producer has no"),
    ):
        hooked.produce("t", "v")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("KafkaProducer", "klamm calls this Producer"),
        ("AIOKafkaConsumer", "klamm calls this AsyncConsumer"),
        ("Consumr", "did you mean Consumer?"),
        ("eror", "did you mean errors?"),
        ("spark", "import klamm.spark"),
    ],
)
def test_the_module_explains_names(monkeypatch, name, hint):
    monkeypatch.delattr(klamm, name, raising=False)  # another test may have imported a module
    with pytest.raises(AttributeError) as caught:
        getattr(klamm, name)
    assert str(caught.value).endswith(f"; hint: {hint}")


def test_names_of_the_module_in_hints_exist():
    for instead in other_clients.MODULE.values():
        for word in instead.split(",")[0].split():
            if word[0].isupper():
                assert hasattr(klamm, word.split(".")[0]), instead


WRONG = [
    (
        lambda on: on.producer.flush(timeout_ms=1),
        "Producer.flush() has no argument timeout_ms",
        "klamm calls it timeout, in seconds",
    ),
    (
        lambda on: on.consumer.subscribe(topic=["t"]),
        "Consumer.subscribe() has no argument topic",
        "did you mean topics?",
    ),
    (
        lambda on: on.consumer.poll(timeout_ms=5),
        "Consumer.poll() has no argument timeout_ms",
        "klamm calls it timeout, in seconds",
    ),
    (
        lambda on: on.consumer.seek("t"),
        "Consumer.seek() missing 1 required positional argument: 'offset'",
        "it takes partition, offset",
    ),
    (lambda on: on.broker.fault(delay=1), "DevBroker.fault() has no argument delay", "klamm calls it seconds"),
    (lambda on: on.broker.kill(nod=1), "DevBroker.kill() has no argument nod", "did you mean node?"),
    (lambda on: type(on.broker)(broker=3), "DevBroker() has no argument broker", "did you mean brokers?"),
    (lambda on: type(on.broker)(nodes=3), "DevBroker() has no argument nodes", "klamm calls it brokers"),
    (
        lambda _: klamm.NewTopic("t"),
        "NewTopic() takes the number of partitions, and not the name of the topic",
        "the name is the key of the dict: create_topics({'t': NewTopic(3)})",
    ),
]


@pytest.mark.parametrize(("call", "message", "hint"), WRONG, ids=[message for _, message, _ in WRONG])
def test_a_wrong_argument_names_the_right_one(producer, consumer, call, message, hint):
    with pytest.raises(ArgumentError) as caught:
        call(SimpleNamespace(producer=producer, consumer=consumer, broker=DevBroker()))
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert isinstance(caught.value, TypeError)


def test_a_wrong_argument_of_a_producer_with_hooks_names_the_right_one():
    with klamm.Producer(NOWHERE, value_serializer=str.encode) as producer:
        for call in (producer.send, producer.send_nowait):
            with pytest.raises(ArgumentError, match="klamm calls it timestamp_ms"):
                call("t", "v", timestamp=1)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: klamm.Producer(NOWHERE, value_serialiser=len), "did you mean value_serializer?"),
        (lambda: klamm.Consumer(NOWHERE, key_deserialiser=len), "did you mean key_deserializer?"),
        (lambda: klamm.read_table(NOWHERE, "t", colums=[]), "did you mean columns?"),
    ],
)
def test_a_wrong_keyword_beside_options_names_the_right_one(call, hint):
    with pytest.raises(ConfigError) as caught:
        call()
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("kind", "wrong", "hint"),
    [
        (registry.AvroSerializer, "auto_registr_schemas", "did you mean auto_register_schemas?"),
        (registry.AvroSerializer, "strikt", "did you mean strict?"),
        (registry.JsonSerializer, "framin", "did you mean framing?"),
        (registry.ProtobufDeserializer, "id_byte", "did you mean id_bytes?"),
    ],
)
def test_a_wrong_argument_of_a_serializer_names_its_class_and_the_right_one(kind, wrong, hint):
    with (
        registry.SchemaRegistry("http://127.0.0.1:1") as client,
        pytest.raises(ArgumentError, match=rf"^{kind.__name__}\(\) has no argument {wrong}") as caught,
    ):
        kind(client, **{wrong: 1})
    assert caught.value.hint == hint


def test_a_wrong_argument_of_an_awaited_call_is_explained():
    async def main():
        async with klamm.AsyncAdmin(NOWHERE) as admin:
            await admin.delete_topics(topic=["t"])

    with pytest.raises(ArgumentError, match=r"AsyncAdmin\.delete_topics\(\) has no argument topic"):
        asyncio.run(main())
    assert inspect.iscoroutinefunction(klamm.AsyncAdmin.delete_topics)


def test_an_error_from_inside_a_call_is_left_alone(consumer):
    class Odd:
        def __iter__(self):
            raise TypeError("f() got an unexpected keyword argument 'x'")

    with pytest.raises(TypeError, match="unexpected keyword argument 'x'") as caught:
        consumer.assign(Odd())
    assert not isinstance(caught.value, ArgumentError)


@pytest.mark.parametrize("cls", [cls for cls, _ in CLASSES])
def test_help_shows_neither_classes_of_the_core_nor_names_of_other_clients(cls):
    text = pydoc.plain(pydoc.render_doc(cls))
    assert "Core" not in text
    assert "NameHint" not in text
    assert "klamm._klamm." not in text


def test_a_traceback_names_public_classes(consumer):
    try:
        consumer.seek("t")
    except TypeError:
        text = traceback.format_exc()
    assert "Core" not in text
    assert "_Consumer" not in text


def test_importing_the_clients_does_not_import_what_only_hints_need():
    program = "import klamm, sys; klamm.Producer, klamm.Consumer, klamm.Admin; print('difflib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_calls_for_single_records_name_an_unknown_argument():
    """Python raises this error. A suggestion would cost each call with keywords a third more instructions."""
    with klamm.Producer("localhost:1") as producer:
        for call in (producer.send, producer.send_nowait):
            with pytest.raises(TypeError, match=rf"Producer\.{call.__name__}\(\) got an unexpected .* 'keys'"):
                call("t", keys=b"k")


def test_calls_for_single_records_have_no_wrapper():
    for cls in (klamm.Producer, klamm.AsyncProducer):
        for name in ("send", "send_nowait"):
            assert not hasattr(getattr(cls, name), "__wrapped__")
    assert "__getattr__" not in {name for cls, _ in CLASSES for base in cls.__mro__ for name in vars(base)}
