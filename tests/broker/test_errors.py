"""Faulty peers: each fault is one typed error with a cause, a place and a hint, within the timeout."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

import faults
import klamm
from klamm.errors import DecodeError, KafkaError, KafkaTimeoutError, NetworkError, TopicAlreadyExistsError
from klamm.testing import DevBroker
from reading import read_values
from settled import until

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
    with faults.closed_port() as address:
        error, seconds = attempt(style, address)
    assert isinstance(error, (NetworkError, KafkaTimeoutError))
    assert address in str(error)
    assert "refused" in str(error)
    assert error.hint
    assert seconds < 15


def test_an_http_server(style, attempt):
    with faults.server(faults.HTTP_ANSWER) as address:
        error, seconds = attempt(style, address)
    assert isinstance(error, (NetworkError, KafkaTimeoutError))
    assert address in str(error)
    assert "the server speaks HTTP" in str(error)
    assert seconds < 15


def test_a_tls_port(style, attempt):
    with faults.server(faults.TLS_ALERT) as address:
        error, seconds = attempt(style, address)
    assert isinstance(error, (NetworkError, KafkaTimeoutError))
    assert address in str(error)
    assert "the server speaks TLS" in str(error)
    assert seconds < 15


def reader(bootstrap):
    with klamm.Consumer(bootstrap, **QUICK) as consumer:
        consumer.assign([klamm.TopicPartition("t", 0, 0)])
        consumer.poll(20)


def member(bootstrap):
    with klamm.Consumer(bootstrap, group_id="g", topics=["t"], **QUICK) as consumer:
        consumer.poll(20)


def share_member(bootstrap):
    with klamm.ShareConsumer(bootstrap, group_id="g", topics=["t"], **QUICK) as consumer:
        consumer.poll(20)


def admin(bootstrap):
    with klamm.Admin(bootstrap, **QUICK) as admin:
        admin.list_topics()


@pytest.mark.parametrize("call", [reader, member, share_member, admin])
@pytest.mark.parametrize(("answer", "protocol"), [(faults.HTTP_ANSWER, "HTTP"), (faults.TLS_ALERT, "TLS")])
def test_every_client_names_the_other_protocol_of_a_server(call, answer, protocol):
    with faults.server(answer) as address, pytest.raises((NetworkError, KafkaTimeoutError)) as caught:
        call(address)
    assert address in str(caught.value)
    assert f"the server speaks {protocol}" in str(caught.value)


def test_a_port_that_hangs_up(style, attempt):
    with faults.server(None) as address:
        error, seconds = attempt(style, address)
    assert address in str(error)
    assert seconds < 15


def test_a_port_that_says_nothing(style, attempt):
    with faults.server(None, hold=True) as address:
        error, seconds = attempt(style, address)
    assert address in str(error)
    assert seconds < 15


def test_a_controller(style, attempt, real_kafka):
    error, seconds = attempt(style, real_kafka.controller)
    assert real_kafka.controller in str(error)
    assert isinstance(error, klamm.errors.MismatchedEndpointTypeError)
    assert "controller" in error.hint
    assert seconds < 15


def test_a_host_that_does_not_resolve(style, attempt):
    error, seconds = attempt(style, "no-such-host.invalid:9092")
    assert "no-such-host.invalid" in str(error)
    assert "resolve" in str(error)
    assert seconds < 15


def test_an_advertised_host_with_odd_bytes_is_an_error_of_that_broker(style):
    """A relay damages one byte of what the broker advertises, and repairs it later."""
    is_damaged = [True]

    def damage(data):
        return data.replace(b"127.0.0.1", b"127.0\x000.1") if is_damaged[0] else data

    with DevBroker() as broker, faults.Proxy(broker.bootstrap_servers, damage) as proxy:
        servers = proxy.bootstrap_servers
        with style.producer(servers, delivery_timeout_ms=1_500, metadata_max_age_ms=200) as producer:
            with pytest.raises(KafkaError, match="control characters") as caught:
                producer.send("t", b"v")
            assert isinstance(caught.value, (NetworkError, KafkaTimeoutError))
            is_damaged[0] = False

            def is_delivered():
                try:
                    return producer.send("t", b"v").offset >= 0
                except KafkaError:
                    return False

            until(is_delivered)
        with style.consumer(servers) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0, 0)])
            assert consumer.poll(timeout=20)[0].value == b"v"


def test_every_error_about_an_advertised_address_names_it(style):
    """The cluster advertises an address that this machine cannot reach."""

    def advertise(data):
        return data.replace(b"127.0.0.1", b"127.0.0.2")

    quick = {"delivery_timeout_ms": 1_000, "request_timeout_ms": 700, "max_block_ms": 1_000}
    errors = {}

    def note(name, call):
        with pytest.raises(KafkaError) as caught:
            call()
        errors[name] = caught.value

    with DevBroker() as broker, faults.Proxy(broker.bootstrap_servers, advertise) as proxy:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"t": klamm.NewTopic()})
        servers = proxy.bootstrap_servers
        with style.producer(servers, **quick) as producer:
            note("send", lambda: producer.send("t", b"v"))
        producer = style.producer(servers, **quick | {"buffer_memory": 40_000, "delivery_timeout_ms": 60_000})
        note("buffer", lambda: [producer.send_nowait("t", b"v" * 15_000, partition=0) for _ in range(5)])
        note("close", lambda: producer.close(0))
        if style.name == "async":
            del errors["buffer"]  # it does not wait for room
        transactional = style.producer(servers, transactional_id="x", **quick)
        note("transactions", transactional.init_transactions)
        transactional.close()
        with style.consumer(servers, "g", default_api_timeout_ms=1_000) as consumer:
            note("offsets", lambda: consumer.end_offsets([klamm.TopicPartition("t", 0)]))
            note("committed", lambda: consumer.committed([klamm.TopicPartition("t", 0)]))
        with style.admin(servers, default_api_timeout_ms=1_000) as admin:
            note("admin", lambda: admin.create_topics({"v": klamm.NewTopic()}))
    del errors["close"]  # it says that records were in flight
    address = f"127.0.0.2:{proxy.port}"
    for name, error in errors.items():
        assert str(error).count(address) == 1, (name, error)
        assert name == "buffer" or error.broker == address, name
    assert (errors["send"].topic, errors["send"].partition) == ("t", 0)
    assert "t-0" in str(errors["send"])


def test_a_request_above_the_limit_of_the_broker_is_named_and_the_next_records_are_written():
    with DevBroker() as broker, faults.Proxy(broker.bootstrap_servers, max_request=2 << 20) as proxy:
        with klamm.Producer(proxy.bootstrap_servers, max_request_size=8 << 20) as producer:
            values = [b"v" * (3 << 20), b"second", b"v" * (3 << 20), b"fourth"]
            deliveries = [producer.send("t", value) for value in values]
            errors = [delivery.exception(30) for delivery in deliveries]
        assert [error is None for error in errors] == [False, True, False, True]
        for error in errors[::2]:
            assert isinstance(error, NetworkError)
            assert "during a request of 3" in str(error)
            assert "socket.request.max.bytes" in error.hint
        with klamm.Consumer(broker.bootstrap_servers) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0, 0)])
            assert read_values(consumer, 2) == [b"second", b"fourth"]


def test_garbage(style, attempt):
    with faults.server(b"\x00\x00\x00\x0e" + b"\xff" * 14) as address:
        error, seconds = attempt(style, address)
    assert address in str(error)
    assert seconds < 15


def test_a_call_gives_up_at_its_own_timeout(style):
    with faults.server(None, hold=True) as address, style.consumer(address) as consumer:
        began = time.monotonic()
        with pytest.raises(
            KafkaTimeoutError, match=r"did not succeed in 0\.2 s: no broker of bootstrap\.servers has responded"
        ):
            consumer.partitions_for("t", timeout=0.2)
        assert time.monotonic() - began < 15


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
        # No checksum covers a batch's offset, which is 67 bytes before the value of a single record without a key.
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
        assert time.monotonic() - began < 15
        producer.close()
        with pytest.raises(klamm.errors.ClosedError):
            producer.send("t", b"v")


def test_a_reader_of_a_dead_broker_polls_empty_and_resumes_when_it_returns(style, tmp_path):
    with DevBroker(data_dir=tmp_path) as broker:
        address = broker.bootstrap_servers
        with klamm.Producer(address) as producer:
            producer.send("t", b"before").result(10)
        consumer = style.consumer(address, reconnect_backoff_ms=10)
        consumer.assign([klamm.TopicPartition("t", 0, 0)])
        assert len(consumer.poll(timeout=10)) == 1
    assert len(consumer.poll(timeout=0.2)) == 0
    with DevBroker(port=int(address.rsplit(":", 1)[1]), data_dir=tmp_path) as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.delete_topics(["t"])
        with klamm.Producer(address) as producer:
            producer.send("t", b"replaced").result(10)
            producer.send("t", b"after").result(10)
        # It is another topic of that name, of which nothing was read.
        assert read_values(consumer, 2) == [b"replaced", b"after"]
    consumer.close()


def test_an_error_says_that_this_call_may_have_created_the_topic():
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        broker.fault("CreateTopics", "lose_answer")
        with pytest.raises(TopicAlreadyExistsError) as caught:
            admin.create_topics({"t": klamm.NewTopic(partitions=1)})
        assert "this call may have created the topic" in caught.value.hint
        with pytest.raises(TopicAlreadyExistsError) as caught:
            admin.create_topics({"t": klamm.NewTopic(partitions=1)})
        assert "this call" not in (caught.value.hint or "")


READERS = {
    "assigned": {},
    "without a group": {"topics": ["t"]},
    "classic": {"topics": ["t"], "group_id": "g"},
    "consumer": {"topics": ["t"], "group_id": "g", "group_protocol": "consumer"},
    "share": {"topics": ["t"], "group_id": "g"},
}


def reader(style, kind, servers, **more):
    config = {**READERS[kind], "reconnect_backoff_max_ms": 200, "default_api_timeout_ms": 1000, **more}
    if kind == "share":
        return style.share_consumer(servers, **config)
    consumer = style.consumer(servers, auto_offset_reset="earliest", **config)
    if kind == "assigned":
        consumer.assign([klamm.TopicPartition("t", 0)])
    return consumer


@pytest.mark.parametrize("kind", READERS)
def test_a_dead_cluster_raises_at_each_timeout_and_reading_resumes_when_it_returns(style, kind, tmp_path):
    with DevBroker(data_dir=tmp_path) as broker:
        address = broker.bootstrap_servers
        with klamm.Producer(address) as producer, klamm.Admin(address) as admin:
            admin.alter_configs("group", "g", {"share.auto.offset.reset": "earliest"})
            producer.send("t", b"before").result(10)
        consumer = reader(style, kind, address)
        until(lambda: consumer.poll(0.1))
        if kind == "share":
            consumer.commit()
        assert not consumer.poll(1.5), "an idle topic is no error"
    for _ in range(2):
        with pytest.raises(
            NetworkError, match=r"did not succeed in 1 s: no broker can be reached: .*" + address
        ) as caught:
            consumer.poll(20)
        assert caught.value.hint
    with DevBroker(port=int(address.rsplit(":", 1)[1]), data_dir=tmp_path):
        with klamm.Producer(address) as producer:
            producer.send("t", b"after").result(10)
        found = []

        def is_back():
            with suppress(NetworkError):  # raised before the connection was made
                found.extend(record.value for record in consumer.poll(0.5))
            return b"after" in found

        until(is_back)
        consumer.close()


def test_an_iteration_ends_by_a_dead_cluster(style):
    with DevBroker() as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(10)
        consumer = reader(style, "assigned", broker.bootstrap_servers)
        records = iter(consumer)
        assert next(records).value == b"v"
    with pytest.raises(NetworkError, match="no broker can be reached"):
        next(records)
    consumer.close()


def test_buffered_records_come_before_the_error_of_a_dead_cluster(style):
    with DevBroker() as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [b"%d" % n for n in range(100)], partition=0)
        consumer = reader(style, "assigned", broker.bootstrap_servers, default_api_timeout_ms=200)
        found = [record.value for record in consumer.poll(20, 1)]
        address = broker.bootstrap_servers
    # A call of its own fails by the outage, longer than the limit.
    with pytest.raises(NetworkError):
        consumer.end_offsets([klamm.TopicPartition("t", 0)], timeout=1)
    while len(found) < 100:
        found += [record.value for record in consumer.poll(20, 1)]
    assert found == [b"%d" % n for n in range(100)]
    with pytest.raises(NetworkError, match=address):
        consumer.poll(20)
    consumer.close()


@pytest.mark.parametrize("kind", ["assigned", "classic", "share"])
def test_a_response_that_is_too_large_is_an_error(style, kind):
    """The length that the proxy writes is that of a record of 150 MB."""
    oversized = (150_000_000).to_bytes(4, "big")

    def enlarge(data):
        is_large = 50_000 < int.from_bytes(data[:4], "big") < 1 << 20
        return oversized + data[4:] if is_large else data

    with DevBroker(default_partitions=2) as broker, faults.Proxy(broker.bootstrap_servers, enlarge) as proxy:
        with klamm.Producer(broker.bootstrap_servers) as producer, klamm.Admin(broker.bootstrap_servers) as admin:
            admin.alter_configs("group", "g", {"share.auto.offset.reset": "earliest"})
            producer.send("t", b"x" * 100_000, partition=0).result(10)
            producer.send("t", b"beside it", partition=1).result(10)
        config = {} if kind == "share" else {"max_partition_fetch_bytes": 10_000}
        with reader(style, kind, proxy.bootstrap_servers, default_api_timeout_ms=60_000, **config) as consumer:
            if kind == "assigned":
                consumer.assign([klamm.TopicPartition("t", n, 0) for n in range(2)])
            found = []
            with pytest.raises(klamm.errors.BrokerError, match="150000000 bytes") as caught:
                until(lambda: found.extend(record.value for record in consumer.poll(0.5)))
            assert caught.value.name == "RECORD_LIST_TOO_LARGE"
            assert "set fetch.max.bytes to 75000000 or more" in caught.value.hint
            if kind != "share":
                assert (caught.value.topic, caught.value.partition) == ("t", 0)
                assert "t-0 at offset 0" in str(caught.value)
                until(lambda: found or found.extend(record.value for record in consumer.poll(0.1)))
                assert found == [b"beside it"]
            asked = len(broker.requests("Fetch"))
            assert not consumer.poll(2)
            assert len(broker.requests("Fetch")) - asked < 10, "a large response is not requested again and again"
