"""Faulty peers: each fault is one typed error with a cause, a place and a hint, within the timeout."""

from __future__ import annotations

import time

import pytest

import faults
import klamm
from klamm.errors import DecodeError, KafkaError, KafkaTimeoutError, NetworkError, TopicAlreadyExistsError
from klamm.testing import DevBroker

QUICK = {"default_api_timeout_ms": 1_500, "socket_connection_setup_timeout_ms": 500, "request_timeout_ms": 700}


def ask(style, bootstrap):
    """Request a topic's partitions, and return the error and its time."""
    began = time.monotonic()
    with style.consumer(bootstrap, **QUICK) as consumer, pytest.raises(KafkaError) as caught:
        consumer.partitions_for("t")
    return caught.value, time.monotonic() - began


def deliver(style, bootstrap):
    """Send a record, and return the error of its delivery and its time."""
    began = time.monotonic()
    producer = style.producer(bootstrap, delivery_timeout_ms=1_500, max_block_ms=1_500, **QUICK)
    with pytest.raises(KafkaError) as caught:
        producer.send("t", b"v")
    producer.close()
    return caught.value, time.monotonic() - began


@pytest.fixture(params=["ask", "deliver"])
def attempt(request):
    return {"ask": ask, "deliver": deliver}[request.param]


def test_nothing_listening(style, attempt):
    with faults.nobody() as address:
        error, seconds = attempt(style, address)
    assert isinstance(error, (NetworkError, KafkaTimeoutError))
    assert address in str(error)
    assert "refused" in str(error)
    assert error.hint
    assert seconds < 4


def test_an_http_server(style, attempt):
    with faults.server(faults.HTTP_ANSWER) as address:
        error, seconds = attempt(style, address)
    assert address in str(error)
    assert "HTTP" in str(error)
    assert seconds < 4


def test_a_tls_port(style, attempt):
    with faults.server(faults.TLS_ALERT) as address:
        error, seconds = attempt(style, address)
    assert address in str(error)
    assert "TLS" in str(error)
    assert seconds < 4


def test_a_port_that_hangs_up(style, attempt):
    with faults.server(None) as address:
        error, seconds = attempt(style, address)
    assert address in str(error)
    assert seconds < 4


def test_a_port_that_says_nothing(style, attempt):
    with faults.server(None, hold=True) as address:
        error, seconds = attempt(style, address)
    assert address in str(error)
    assert seconds < 4


def test_a_controller(style, attempt, real_kafka):
    error, seconds = attempt(style, real_kafka.controller)
    assert real_kafka.controller in str(error)
    assert "Metadata" in str(error)
    assert "controller" in error.hint
    assert seconds < 4


def test_a_host_that_does_not_resolve(style, attempt):
    error, seconds = attempt(style, "no-such-host.invalid:9092")
    assert "no-such-host.invalid" in str(error)
    assert "resolve" in str(error)
    assert seconds < 6


def test_garbage(style, attempt):
    with faults.server(b"\x00\x00\x00\x0e" + b"\xff" * 14) as address:
        error, seconds = attempt(style, address)
    assert address in str(error)
    assert seconds < 4


def test_a_call_gives_up_at_its_own_timeout(style):
    with faults.server(None, hold=True) as address, style.consumer(address) as consumer:
        began = time.monotonic()
        with pytest.raises(
            KafkaTimeoutError, match=r"did not succeed in 0\.2 s: no broker of bootstrap\.servers has responded"
        ):
            consumer.partitions_for("t", timeout=0.2)
        assert time.monotonic() - began < 2


def test_a_corrupt_batch_is_an_error_and_what_is_before_it_arrives(style):
    def damage(data):
        return data.replace(b"marker-of-the-damaged-one", b"marker-of-the-damaged-One")

    with DevBroker() as broker, faults.Proxy(broker.bootstrap_servers, damage) as proxy:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"intact").result(10)
            producer.send("t", b"marker-of-the-damaged-one").result(10)
        with style.consumer(proxy.bootstrap_servers) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0, 0)])
            records = iter(consumer)
            assert next(records).value == b"intact"
            with pytest.raises(KafkaError, match="checksum") as caught:
                next(records)
            assert isinstance(caught.value, (DecodeError, klamm.errors.CorruptMessageError))
            assert "offset 1" in str(caught.value)
        with style.consumer(proxy.bootstrap_servers, check_crcs=False) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0, 0, 2)])
            assert [record.value for record in consumer] == [b"intact", b"marker-of-the-damaged-One"]


def test_a_fetch_that_fails_for_no_reason_the_broker_can_name_is_tried_again(style):
    with DevBroker() as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(10)
        broker.fault("Fetch", "error", error="UNKNOWN_SERVER_ERROR", times=2)
        with style.consumer(broker.bootstrap_servers) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0, 0, 1)])
            assert [record.value for record in consumer] == [b"v"]
        assert len(broker.requests("Fetch")) >= 3


@pytest.mark.parametrize("wrong", [1 << 60, -1, 0, 7, 990_000_000], ids=str)
def test_a_batch_whose_offset_is_damaged_is_fetched_again(style, wrong):
    values, read = _read_with_a_damaged_offset(style, wrong, times=1)
    assert read == list(enumerate(values))


def test_a_batch_that_is_always_where_it_cannot_be_is_taken_as_it_is(style):
    values, read = _read_with_a_damaged_offset(style, 7, times=1000)
    intact = list(enumerate(values))
    assert read == [*intact[:4], (7, b"marker"), *intact[8:]]


def _read_with_a_damaged_offset(style, wrong, times):
    """Return the records written, and those read while the offset of the fifth batch is wrong."""
    left = times

    def damage(data):
        nonlocal left
        # No checksum covers a batch's offset, which is 67 bytes before the value of a lone record without a key.
        at = data.find(b"marker") - 67
        if at < 0 or left == 0:
            return data
        left -= 1
        assert int.from_bytes(data[at : at + 8], "big") == 4
        return data[:at] + wrong.to_bytes(8, "big", signed=True) + data[at + 8 :]

    values = [b"marker" if i == 4 else b"%d" % i for i in range(10)]
    with DevBroker() as broker, faults.Proxy(broker.bootstrap_servers, damage) as proxy:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            for value in values:
                producer.send("t", value).result(10)
        with style.consumer(proxy.bootstrap_servers) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0, 0, 10)])
            read = [(record.offset, record.value) for record in consumer]
    assert left < times
    return values, read


def test_a_broker_that_dies_in_mid_response_loses_no_record_of_a_reader(style):
    values = [b"%05d" % i * 20 for i in range(2_000)]
    cuts = []

    def cut(data):
        if len(cuts) < 3 and b"00999" in data:
            cuts.append(1)
            raise faults.Cut(data[: data.index(b"00999")])
        return data

    with DevBroker() as broker, faults.Proxy(broker.bootstrap_servers, cut) as proxy:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", values)
        with style.consumer(proxy.bootstrap_servers, reconnect_backoff_ms=10) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0, 0, len(values))])
            assert [record.value for record in consumer] == values
    assert len(cuts) == 3


def test_a_broker_that_dies_in_mid_response_loses_and_repeats_no_record_of_a_writer(style):
    answers = []

    def cut(data):
        answers.append(data)
        if len(answers) in (8, 12, 16):
            raise faults.Cut(data[:3])
        return data

    values = [b"%d" % i for i in range(300)]
    with DevBroker() as broker, faults.Proxy(broker.bootstrap_servers, cut) as proxy:
        with style.producer(proxy.bootstrap_servers, batch_size=200, reconnect_backoff_ms=10) as producer:
            for value in values:
                producer.send_nowait("t", value)
            producer.flush(timeout=30)
        table = klamm.read_table(broker.bootstrap_servers, "t", columns=["value"])
    assert table.column("value").to_pylist() == values
    assert len(answers) > 16


def test_a_broker_that_dies_for_good_is_an_error_within_the_delivery_timeout(style):
    with DevBroker() as broker, faults.Proxy(broker.bootstrap_servers) as proxy:
        producer = style.producer(proxy.bootstrap_servers, delivery_timeout_ms=800, request_timeout_ms=500)
        producer.send("t", b"v")
        proxy.die()
        began = time.monotonic()
        with pytest.raises(KafkaTimeoutError, match=r"delivery\.timeout\.ms"):
            producer.send("t", b"lost")
        assert time.monotonic() - began < 4
        producer.close()
        with pytest.raises(klamm.errors.ClosedError):
            producer.send("t", b"v")


def test_a_reader_of_a_dead_broker_polls_empty_and_goes_on_when_it_is_back(style):
    with DevBroker() as broker:
        address = broker.bootstrap_servers
        with klamm.Producer(address) as producer:
            producer.send("t", b"before").result(10)
        consumer = style.consumer(address, reconnect_backoff_ms=10)
        consumer.assign([klamm.TopicPartition("t", 0, 0)])
        assert len(consumer.poll(timeout=10)) == 1
    assert len(consumer.poll(timeout=0.2)) == 0
    with DevBroker(port=int(address.rsplit(":", 1)[1])) as broker:
        with klamm.Producer(address) as producer:
            producer.send("t", b"replaced").result(10)
            producer.send("t", b"after").result(10)
        # It is another topic of that name, of which nothing was read.
        assert [record.value for record in consumer.poll(timeout=20)] == [b"replaced", b"after"]
    consumer.close()


def test_who_may_have_made_a_topic_itself_is_told_so():
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        broker.fault("CreateTopics", "lose_answer")
        with pytest.raises(TopicAlreadyExistsError) as caught:
            admin.create_topics({"t": klamm.NewTopic(partitions=1)})
        assert "this call may have created the topic" in caught.value.hint
        with pytest.raises(TopicAlreadyExistsError) as caught:
            admin.create_topics({"t": klamm.NewTopic(partitions=1)})
        assert "this call" not in (caught.value.hint or "")
