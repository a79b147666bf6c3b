"""Invalid arguments: each raises one of klamm's errors with the given value and what is allowed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import pytest

import klamm
from klamm import OffsetAndMetadata, TopicPartition
from klamm.errors import ArgumentError, ConfigError

NOWHERE = "127.0.0.1:1"
TP = TopicPartition("t", 0)
SECONDS = "timeout has to be a number of seconds, or None to wait for ever, not "


@pytest.fixture(scope="module")
def clients():
    """One client of each kind without brokers: invalid arguments are rejected before a request."""
    with (
        klamm.Producer(NOWHERE) as producer,
        klamm.Consumer(NOWHERE, group_id="g", enable_auto_commit=False) as consumer,
        klamm.ShareConsumer(NOWHERE, group_id="g") as share,
        klamm.Admin(NOWHERE) as admin,
        klamm.Producer(NOWHERE, transactional_id="tx") as transactional,
    ):
        consumer.assign([TopicPartition("t", 0, offset=0)])
        tx = transactional.transaction()
        yield SimpleNamespace(producer=producer, consumer=consumer, share=share, admin=admin, tx=tx)


REFUSED = [
    ("producer", "send", {"topic": 5}, ArgumentError, "topic has to be a str, not int"),
    ("producer", "send", {"topic": "\udc80"}, ConfigError, "not valid Unicode text"),
    ("producer", "send_nowait", {"topic": b"t"}, ArgumentError, "topic has to be a str, not bytes"),
    (
        "producer",
        "send",
        {"topic": "t", "partition": "0"},
        ArgumentError,
        "partition has to be an int or None, not str",
    ),
    (
        "producer",
        "send",
        {"topic": "t", "partition": 1 << 31},
        ConfigError,
        "partition cannot be 2147483648.*0 to 2147",
    ),
    (
        "producer",
        "send",
        {"topic": "t", "timestamp_ms": 1.5},
        ArgumentError,
        "timestamp_ms has to be an int .*not float",
    ),
    ("producer", "send", {"topic": "t", "timestamp_ms": 1 << 70}, ConfigError, "timestamp_ms cannot be 1180591620717"),
    ("producer", "send", {"topic": "t", "headers": {"\ud800": b""}}, ConfigError, r"headers\[0\].name cannot be"),
    ("producer", "send_many", {"topic": "t", "values": 5}, ArgumentError, "values have to be a list, not int"),
    ("producer", "send_many", {"topic": "t", "values": [None, "v"]}, ArgumentError, r"values\[1\] is a str"),
    (
        "producer",
        "send_many",
        {"topic": "t", "values": [b""], "keys": [5]},
        ArgumentError,
        r"keys\[0\] has to be bytes",
    ),
    ("producer", "send_many", {"topic": "t", "values": [], "partition": 0.5}, ArgumentError, "partition has to be"),
    ("producer", "send_arrow", {"topic": 5, "data": None}, ArgumentError, "data has to be Arrow data, not NoneType"),
    ("producer", "flush", {"timeout": "1"}, ArgumentError, SECONDS + "str"),
    ("producer", "flush", {"timeout": timedelta(seconds=1)}, ArgumentError, SECONDS + r"timedelta.*total_seconds\(\)"),
    ("producer", "close", {"timeout": [1]}, ArgumentError, SECONDS + "list"),
    ("producer", "partitions_for", {"topic": None}, ArgumentError, "topic has to be a str, not NoneType"),
    ("consumer", "poll", {"timeout": "1"}, ArgumentError, SECONDS + "str"),
    (
        "consumer",
        "poll",
        {"max_records": -1},
        ConfigError,
        "max_records cannot be -1; hint: allowed: a whole number from 0",
    ),
    ("consumer", "poll", {"max_records": "x"}, ArgumentError, "max_records has to be an int or None, not str"),
    ("consumer", "arrow", {"max_rows": 0}, ConfigError, "max_rows cannot be 0; hint: allowed: a whole number from 1"),
    ("consumer", "arrow", {"max_rows": "x"}, ArgumentError, "max_rows has to be an int, not str"),
    (
        "consumer",
        "arrow",
        {"max_bytes": -1},
        ConfigError,
        "max_bytes cannot be -1; hint: allowed: a whole number from 1",
    ),
    ("consumer", "arrow", {"max_bytes": "x"}, ArgumentError, "max_bytes has to be an int, not str"),
    ("consumer", "arrow", {"columns": "value"}, ArgumentError, "columns has to be a list of names, not str"),
    ("consumer", "arrow", {"columns": [5]}, ArgumentError, "a column has to be a str, not int"),
    ("consumer", "assign", {"partitions": TP}, ArgumentError, r"partitions have to be a list, not TopicPartition"),
    ("consumer", "assign", {"partitions": ["t"]}, ArgumentError, "'t' is not a TopicPartition"),
    (
        "consumer",
        "assign",
        {"partitions": [("t", 0)]},
        ArgumentError,
        "is not a TopicPartition; hint: pass TopicPartition",
    ),
    (
        "consumer",
        "assign",
        {"partitions": [TopicPartition(5, 0)]},
        ArgumentError,
        "topic of a partition has to be a str",
    ),
    (
        "consumer",
        "assign",
        {"partitions": [TopicPartition("t", -1)]},
        ConfigError,
        "number of a partition cannot be -1",
    ),
    ("consumer", "assign", {"partitions": [TopicPartition("t", 0, -1)]}, ConfigError, "the offset of t-0 cannot be -1"),
    ("consumer", "subscribe", {"topics": 5}, ArgumentError, "topics has to be a list of names, not int"),
    ("consumer", "subscribe", {"topics": [5]}, ArgumentError, "a topic has to be a str, not int"),
    ("consumer", "subscribe", {"pattern": 5}, ArgumentError, "pattern has to be a str, not int"),
    (
        "consumer",
        "subscribe",
        {"topics": "t", "on_rebalance": print},
        ArgumentError,
        "has to be a RebalanceListener, not",
    ),
    ("consumer", "seek", {"partition": "t", "offset": 0}, ArgumentError, "'t' is not a TopicPartition"),
    ("consumer", "seek", {"partition": TP, "offset": "0"}, ArgumentError, "offset has to be an int, not str"),
    ("consumer", "seek", {"partition": TP, "offset": 1 << 63}, ConfigError, "offset cannot be 9223372036854775808"),
    ("consumer", "seek_to_end", {"partitions": 5}, ArgumentError, "partitions have to be a list, not int"),
    ("consumer", "pause", {"partitions": ["t"]}, ArgumentError, "'t' is not a TopicPartition"),
    ("consumer", "position", {"partition": 0}, ArgumentError, "0 is not a TopicPartition"),
    ("consumer", "position", {"partition": TP, "timeout": b"1"}, ArgumentError, SECONDS + "bytes"),
    ("consumer", "commit", {"offsets": [TP]}, ArgumentError, "offsets have to be a dict, not list"),
    ("consumer", "commit", {"offsets": {TP: "5"}}, ArgumentError, "the offset of t-0 has to be an int, not str"),
    ("consumer", "commit", {"offsets": {TP: -1}}, ConfigError, "the offset of t-0 cannot be -1"),
    ("consumer", "commit", {"offsets": {TP: 1 << 63}}, ConfigError, "the offset of t-0 cannot be 92233720368547758"),
    (
        "consumer",
        "commit",
        {"offsets": {TP: OffsetAndMetadata(1, None)}},
        ArgumentError,
        "the metadata of t-0 has to be",
    ),
    ("consumer", "commit_nowait", {"on_commit": 5}, ArgumentError, "on_commit has to be a function, not int"),
    ("consumer", "committed", {"partitions": TP}, ArgumentError, "partitions have to be a list"),
    (
        "consumer",
        "offsets_for_times",
        {"times": {TP: 1.5}},
        ArgumentError,
        "the time of t-0 has to be an int",
    ),
    ("consumer", "end_offsets", {"partitions": "t"}, ArgumentError, "partitions have to be a list, not str"),
    ("consumer", "close", {"timeout": {}}, ArgumentError, SECONDS + "dict"),
    ("share", "poll", {"max_records": -1}, ConfigError, "max_records cannot be -1"),
    ("share", "subscribe", {"topics": 5}, ArgumentError, "topics has to be a list of names, not int"),
    ("share", "acknowledge", {"records": [5]}, ArgumentError, "records has to be a Record or the Records of a poll"),
    ("share", "acknowledge", {"records": 5, "acknowledge_type": 5}, ArgumentError, "acknowledge_type has to be a str"),
    (
        "admin",
        "create_topics",
        {"topics": {"t": klamm.NewTopic("3")}},
        ArgumentError,
        "number of partitions of t has to be",
    ),
    ("admin", "create_topics", {"topics": {"t": klamm.NewTopic(1 << 31)}}, ConfigError, "cannot be 2147483648"),
    (
        "admin",
        "delete_topics",
        {"topics": "logs"},
        ArgumentError,
        r"topics have to be a list, not str; hint: pass \['logs'\]",
    ),
    ("admin", "describe_topics", {"topics": "logs"}, ArgumentError, "topics have to be a list, not str"),
    ("admin", "create_partitions", {"counts": {"t": "3"}}, ArgumentError, "number of partitions of t has to be an int"),
    ("admin", "delete_records", {"before": {TP: "3"}}, ArgumentError, "an offset has to be an int, not str"),
    ("admin", "offsets_before", {"times": {}, "limit": 0}, ConfigError, "limit cannot be 0"),
    (
        "admin",
        "alter_configs",
        {"kind": "topic", "name": 5, "changes": {}},
        ArgumentError,
        "name has to be a str, not int",
    ),
    (
        "admin",
        "alter_configs",
        {"kind": "topic", "name": "t", "changes": {"a": []}},
        ArgumentError,
        "a setting has to be",
    ),
    ("admin", "describe_groups", {"groups": "g"}, ArgumentError, "groups have to be a list, not str"),
    ("admin", "group_lag", {"group": None}, ArgumentError, "group has to be a str, not NoneType"),
    ("admin", "list_topics", {"timeout": "1"}, ArgumentError, SECONDS + "str"),
    ("tx", "commit_offsets", {"consumer": 5}, ArgumentError, "a Consumer or a GroupMetadata, not of int"),
]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: f"{refused[0]}.{refused[1]}({refused[2]})")
def test_an_argument_that_cannot_be_used_is_named_with_what_is_allowed(clients, refused):
    client, method, arguments, kind, says = refused
    with pytest.raises(kind, match=says):
        getattr(getattr(clients, client), method)(**arguments)


@pytest.mark.parametrize(
    ("make", "options", "says"),
    [
        (klamm.Producer, {"on_error": 5}, "on_error has to be a function, not int"),
        (klamm.Producer, {"on_delivery": 5}, "on_delivery has to be a function, not int"),
        (klamm.Producer, {"key_serializer": "utf-8"}, "key_serializer has to be a function, not str"),
        (klamm.Producer, {"interceptors": 5}, "interceptors have to be a list, not int"),
        (klamm.Producer, {"interceptors": [5]}, "has to have on_send or on_delivery, and 5 has neither"),
        (klamm.Consumer, {"group_id": 5}, "group_id has to be a str, not int"),
        (klamm.Consumer, {"topics": 5}, "topics has to be a list of names, not int"),
        (
            klamm.Consumer,
            {"partition_assignment_strategy": 5},
            "partition_assignment_strategy has to be a list of names",
        ),
        (klamm.Consumer, {"partition_assignment_strategy": [klamm.assignors.Assignor]}, "not type"),
        (klamm.ShareConsumer, {"group_id": "g", "on_acknowledged": 5}, "on_acknowledged has to be a function, not int"),
    ],
)
def test_a_client_is_not_made_of_what_cannot_be_used(make, options, says):
    with pytest.raises(ArgumentError, match=says):
        make(NOWHERE, **options)


def test_an_asynchronous_client_refuses_in_the_same_words():
    async def main():
        async with klamm.AsyncConsumer(NOWHERE, group_id="g") as consumer, klamm.AsyncProducer(NOWHERE) as producer:
            with pytest.raises(ArgumentError, match=SECONDS + "timedelta"):
                await consumer.poll(timeout=timedelta(seconds=1))
            with pytest.raises(ConfigError, match="max_rows cannot be 0"):
                consumer.arrow(max_rows=0)
            with pytest.raises(ArgumentError, match=SECONDS + "str"):
                await producer.close(timeout="1")

    asyncio.run(main())


def test_any_iterable_of_names_is_a_subscription():
    for topics in ({"a"}, ("a",), {"a": 1}, iter(["a"])):
        klamm.Consumer(NOWHERE, topics=topics).close()


def test_an_infinite_timeout_waits_without_limit(clients):
    assert clients.producer.flush(timeout=10**400) is None
    assert clients.consumer.poll(timeout=float("nan")) == klamm.Records()


def test_what_an_iterable_raises_is_the_programs_own():
    def partitions():
        yield TP
        raise TypeError("mine")

    with klamm.Consumer(NOWHERE) as consumer, pytest.raises(TypeError, match="mine"):
        consumer.assign(partitions())
