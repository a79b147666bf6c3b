"""`Producer07` and `Consumer07` with dev brokers that emulate 0.6.1 and 0.7.0 to 0.7.2."""

from __future__ import annotations

import os
import socket
import threading
from datetime import datetime, timezone

import pytest

from klamm import legacy
from klamm.errors import (
    ClosedError,
    ConfigError,
    DecodeError,
    ForkedClientError,
    InvalidFetchSizeError,
    KafkaTimeoutError,
    NetworkError,
    OffsetInMessageError,
    OffsetOutOfRangeError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from klamm.legacy.producer import default_partitioner, java_hash
from klamm.legacy.topic_filter import compile_filter, rewrite
from klamm.legacy.zookeeper import parse_broker
from klamm.testing import DevBroker
from settled import until

VERSIONS = ["0.6.1", "0.7.0", "0.7.1", "0.7.2"]


@pytest.fixture(params=VERSIONS)
def old(request):
    config = {"log.file.size": 1000, "max.message.size": 100_000}
    with DevBroker(as_version=request.param, default_partitions=2, config=config) as broker:
        broker.version = request.param
        broker.magic = 0 if request.param == "0.6.1" else 1
        yield broker


@pytest.fixture
def newest():
    with DevBroker(as_version="0.7.2", default_partitions=2) as broker:
        yield broker


def producer_of(broker, **options):
    return legacy.Producer07(broker.bootstrap_servers, magic=getattr(broker, "magic", 1), **options)


def fill(broker, payloads, topic="t", partition=0, **options):
    with producer_of(broker, **options) as producer:
        producer.send_many(topic, payloads, partition=partition)
        producer.flush(confirm=True)


def payloads(messages):
    return [message.payload for message in messages]


def test_messages_are_read_across_segments_and_beyond_the_fetch_size(old):
    sent = [b"m%d" % i for i in range(200)] + [b"x" * 5000, b"end"]
    with producer_of(old) as producer:
        for payload in sent:
            producer.send("t", payload, partition=1)
        assert producer.unconfirmed == len(sent)
        producer.flush(confirm=True)
        assert producer.unconfirmed == 0
    with legacy.Consumer07(old.bootstrap_servers, magic=old.magic, fetch_size=64) as consumer:
        assert payloads(consumer.messages("t", 1, consumer.earliest("t", 1))) == sent
        assert len(consumer.offsets("t", 1, max_number=100)) > 3
        end = consumer.latest("t", 1)
        assert consumer.fetch("t", 1, end) == ([], end)
        now = datetime.now(timezone.utc)
        assert consumer.offsets("t", 1, now.replace(year=now.year + 1)) == [end]
        assert consumer.offsets("t", 1, 0) == []


def test_offsets_that_are_wrong_are_errors_of_their_own(old):
    fill(old, [b"hello", b"world"])
    with legacy.Consumer07(old.bootstrap_servers, magic=old.magic) as consumer:
        for inside in (1, 3, 5, 20):
            with pytest.raises(OffsetInMessageError):
                consumer.fetch("t", 0, inside)
        for outside in (-1, 1000):
            with pytest.raises(OffsetOutOfRangeError):
                consumer.fetch("t", 0, outside)
        with pytest.raises(UnknownTopicOrPartitionError) as caught:
            consumer.fetch("t", 2, 0)
        assert (caught.value.code, caught.value.topic, caught.value.partition) == (3, "t", 2)
        with pytest.raises(UnknownServerError):
            consumer.fetch("", 0, 0)
        with pytest.raises(NetworkError, match="closed the connection"):
            consumer.latest("t", 2)
        assert payloads(consumer.fetch("t", 0, 0).messages) == [b"hello", b"world"]


def test_a_message_that_is_too_large_to_fetch_is_an_error(newest):
    fill(newest, [b"x" * 5000])
    small = legacy.Consumer07(newest.bootstrap_servers, fetch_size=10, max_fetch_size=4000)
    with small as consumer, pytest.raises(InvalidFetchSizeError):
        consumer.fetch("t", 0, 0)


@pytest.mark.parametrize("compression", ["gzip", "snappy"])
def test_reading_resumes_in_the_middle_of_a_compressed_set(newest, compression):
    first, second = [b"a%d" % i for i in range(5)], [b"b%d" % i for i in range(5)]
    fill(newest, first, compression=compression)
    fill(newest, second, compression=compression)
    with legacy.Consumer07(newest.bootstrap_servers) as consumer:
        everything = list(consumer.messages("t", 0, 0))
        assert payloads(everything) == first + second
        for at, message in enumerate(everything):
            is_last = message.index + 1 == message.count
            position = (message.next_offset, 0) if is_last else (message.offset, message.index + 1)
            assert payloads(consumer.messages("t", 0, *position)) == (first + second)[at + 1 :]
        assert payloads(consumer.messages("t", 0, 0, end=everything[5].offset)) == first


def test_a_multi_fetch_gives_each_part_or_its_error(newest):
    fill(newest, [b"zero"], partition=0)
    fill(newest, [b"one" * 100], partition=1)
    with legacy.Consumer07(newest.bootstrap_servers, fetch_size=20) as consumer:
        found = consumer.multi_fetch([("t", 1, 0), ("t", 0, 0), ("unknown", 0, 7)])
        assert [payloads(fetched.messages) for fetched in found] == [[b"one" * 100], [b"zero"], []]
        with pytest.raises(OffsetOutOfRangeError):
            consumer.multi_fetch([("t", 0, 0), ("t", 1, 1 << 40)])
    with legacy.Consumer07(newest.bootstrap_servers, fetch_size=400, max_fetch_size=1000) as consumer:
        found = consumer.multi_fetch([("t", number % 2, 0) for number in range(5)])
        assert [len(fetched.messages) for fetched in found] == [1] * 5
    assert [r.api for r in newest.requests() if r.api == "MultiFetch"][-3:] == ["MultiFetch"] * 3


def test_rejected_messages_are_counted_as_lost(newest):
    with producer_of(newest) as producer:
        producer.send("t", b"good")
        producer.flush(confirm=True)
        with pytest.raises(NetworkError, match=r"up to [12] messages"):  # noqa: PT012 - one of them, whichever fails first
            producer.send("t", b"refused", partition=9)
            producer.flush(confirm=True)
        producer.send("t", b"good again")
        producer.flush(confirm=True)


def test_messages_wait_for_their_batch(newest):
    with producer_of(newest, batch_messages=3, compression="gzip") as producer:
        producer.send("t", b"1", partition=0)
        producer.send("u", b"2", partition=0)
        assert newest.requests() == []
        producer.send("t", b"3", partition=0)
        producer.send("t", b"4", partition=0)
        producer.flush(confirm=True)
    assert [request.api for request in newest.requests()] == ["MultiProduce", "Produce", "MultiFetch"]
    with legacy.Consumer07(newest.bootstrap_servers) as consumer:
        assert [(m.payload, m.count) for m in consumer.messages("t", 0, 0)] == [(b"1", 2), (b"3", 2), (b"4", 1)]


def test_bytes_that_are_not_flushed_are_not_there_yet():
    config = {"log.flush.interval": 1000, "log.default.flush.interval.ms": 60_000}
    with DevBroker(as_version="0.7.2", config=config) as broker:
        fill(broker, [b"late"])
        with legacy.Consumer07(broker.bootstrap_servers) as consumer:
            assert consumer.fetch("t", 0, 0).messages == []
            broker.advance(60)
            assert payloads(consumer.fetch("t", 0, 0).messages) == [b"late"]


def test_a_message_of_another_magic_is_rejected_for_0_6(newest):
    fill(newest, [b"v"])
    with legacy.Consumer07(newest.bootstrap_servers, magic=0) as consumer, pytest.raises(DecodeError, match="magic 0"):
        consumer.fetch("t", 0, 0)


def test_a_silent_broker_is_a_timeout():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with legacy.Consumer07(address, timeout=0.3) as consumer, pytest.raises(KafkaTimeoutError):
            consumer.latest("t", 0)


def test_a_response_may_arrive_in_pieces_and_garbage_is_an_error():
    pieces = [b"\0\0\0\x0e", b"\0\0\0\0\0\1", (7).to_bytes(8, "big"), b"\xff\xff\xff\xff"]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            peer, _ = server.accept()
            with peer:
                peer.recv(100)
                for piece in pieces[:3]:
                    peer.sendall(piece)
                peer.recv(100)
                peer.sendall(pieces[3])
                peer.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        with legacy.Consumer07(f"127.0.0.1:{server.getsockname()[1]}") as consumer:
            assert consumer.latest("t", 0) == 7
            with pytest.raises(DecodeError, match="frame length -1"):
                consumer.latest("t", 0)
        thread.join()


def test_clients_end_and_do_not_live_in_a_forked_child(newest):
    consumer = legacy.Consumer07(newest.bootstrap_servers)
    assert consumer.latest("t", 0) == 0
    child = os.fork()
    if child == 0:
        try:
            consumer.latest("t", 0)
        except ForkedClientError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.latest("t", 0)
    producer = producer_of(newest)
    producer.close()
    producer.close()
    with pytest.raises(ClosedError):
        producer.send("t", b"v")


WRONG = [
    lambda: legacy.Producer07(zookeeper=None),
    lambda: legacy.Producer07("a:1", zookeeper="b:2"),
    lambda: legacy.Producer07("a:port"),
    lambda: legacy.Producer07(""),
    lambda: legacy.Producer07("a:1", magic=0, compression="gzip"),
    lambda: legacy.Producer07("a:1", batch_messages=0),
    lambda: legacy.Producer07("a:1,b:2").send("t", b"v", partition=1),
    lambda: legacy.Consumer07("a:1", fetch_size=0),
    lambda: legacy.Consumer07("a:1", timeout=0),
    lambda: legacy.Consumer07("a:1", magic=2),
    lambda: legacy.Consumer07("a:1").offsets("t", 0, datetime(2012, 1, 1)),  # noqa: DTZ001 - that is the point
    lambda: DevBroker(as_version="0.5"),
    lambda: DevBroker(as_version="0.7.2", config={"log.dir": "x"}),
    lambda: DevBroker(as_version="0.7.2", config={"log.file.size": 0}),
    lambda: DevBroker(config={"log.file.size": 1}),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_invalid_arguments_are_rejected_at_once(number):
    with pytest.raises(ConfigError):
        WRONG[number]()


def test_only_clusters_have_leaders_and_faults_of_replies(newest):
    for act in (
        lambda: newest.move_leader("t", 0, 1),
        lambda: newest.fault("Fetch", "drop"),
        lambda: newest.fault(None, "cut"),
        lambda: newest.fault(None, "drop", probability=0.5),
        lambda: newest.kill(7),
    ):
        with pytest.raises(ConfigError):
            act()
    newest.kill(1)
    with pytest.raises(NetworkError), legacy.Consumer07(newest.bootstrap_servers) as consumer:
        consumer.latest("t", 0)
    newest.start(1)
    with legacy.Consumer07(newest.bootstrap_servers) as consumer:
        assert consumer.latest("t", 0) == 0


def test_a_dev_broker_may_drop_requests_or_handle_them_late(newest):
    fill(newest, [b"v"])
    with legacy.Consumer07(newest.bootstrap_servers) as consumer:
        newest.fault(None, "drop", times=1, node=1)
        with pytest.raises(NetworkError, match="closed the connection"):
            consumer.latest("t", 0)
        newest.fault(None, "delay", seconds=1000, times=1)
        with legacy.Consumer07(newest.bootstrap_servers, timeout=0.2) as timing_out, pytest.raises(KafkaTimeoutError):
            timing_out.latest("t", 0)
        newest.fault(None, "delay", seconds=1000)
        found = []
        thread = threading.Thread(target=lambda: found.append(consumer.latest("t", 0)))
        thread.start()
        until(lambda: len(newest.requests("Offsets")) > 0 or newest.advance(1000))
        thread.join()
        assert found == [11]


def test_hosts_of_registrations_may_contain_colons_and_hyphens():
    for data, found in [
        (b"127.0.0.1-1795256834994:127.0.0.1:19010", ("127.0.0.1", 19010)),
        (b"x:10.0.0.1:1", ("10.0.0.1", 1)),
        (b"my-host-1-1795256834994:my-host-1:9092", ("my-host-1", 9092)),
        (b"fe80::a-1795256834994:fe80::1:9092", ("fe80::1", 9092)),
        (b"10.0.0.1-1795256834994:::1:9092", ("::1", 9092)),
        (b"10.0.0.1-1795256834994:[fe80::]:9092", ("fe80::", 9092)),
    ]:
        assert parse_broker(data) == found
    for data in (b"", b"host:port", b"c-1:host:port", b"c-1::1", b"c-1:h:999999"):
        with pytest.raises(DecodeError):
            parse_broker(data)
    with legacy.Consumer07("[::1]:9092") as consumer:
        assert consumer.broker == "::1:9092"


def test_keys_choose_as_the_java_producer_does():
    # What Java prints for "Kafka".hashCode() and so on.
    assert java_hash("hello") == 99162322
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert java_hash(-7) == -7
    assert java_hash(b"\x01\xff") == 31 * (31 + 1) - 1
    assert default_partitioner("polygenelubricants", 7) == (1 << 31) % 7
    assert 0 <= default_partitioner(None, 3) < 3


NAMES = ["t", "u", "T", "tu", "a.b", "a_b", "ab", "12", "t,u", "é"]
# What java.util.regex of Java 17 matches, after the rewriting of the Java consumer.
JAVA_MATCHES = {
    "t,u": ["t", "u"],
    " t | tu ": ["t", "tu"],
    "\"'t.*'": ["t", "tu", "t,u"],
    "[a-z&&[^t]]": ["u"],
    "[a[t-u]]": ["t", "u"],
    r"[\w&&[^_\d]]+": ["t", "u", "T", "tu", "ab"],
    r"\p{Alnum}+": ["t", "u", "T", "tu", "ab", "12"],
    r"\P{Alpha}+": ["12", "é"],
    r"\Qa.b\E": ["a.b"],
    "(?i)T": ["t", "T"],
    "(?i:T)u?": ["t", "T", "tu"],
    r"\w.\w": ["a.b", "a_b", "t,u"],
    r"\W": ["é"],
    r"(?!t).*": ["u", "T", "a.b", "a_b", "ab", "12", "é"],
    r"(?:t)(u)?": ["t", "tu"],
    r"\x74|\u0075": ["t", "u"],
    "[^a,]+": ["t", "u", "T", "tu", "12", "t,u", "é"],
    r"\d{2}": ["12"],
    r"\b.\b": ["t", "u", "T", "é"],
    "^t$": ["t"],
}


@pytest.mark.parametrize("expression", JAVA_MATCHES)
def test_white_and_blacklists_match_what_java_matches(expression):
    matches = compile_filter(rewrite(expression))
    assert [name for name in NAMES if matches.fullmatch(name)] == JAVA_MATCHES[expression]


@pytest.mark.parametrize(
    "expression",
    [
        "t{1,2}",
        "{",
        "*t",
        "a**",
        "(",
        ")",
        "[",
        "[a",
        "[]a]",
        "[^a&&b]",
        "(?P<n>a)",
        "(?x)a",
        "(?#c)",
        "a(?i)b",
        "\\",
        r"\1",
    ],
)
def test_expressions_with_other_syntax_are_refused(expression):
    with pytest.raises(ConfigError, match="invalid regular expression"):
        compile_filter(rewrite(expression))


@pytest.mark.parametrize(
    "expression", [r"\pL", r"\p{L}", r"\h", r"\cA", r"\0101", r"[a-\d]", r"\k<n>", "a\nb", r"a{1}{2}", r"\G", "[[a]&&]"]
)
def test_expressions_with_other_escapes_are_refused(expression):
    with pytest.raises(ConfigError, match="invalid regular expression"):
        compile_filter(rewrite(expression))
