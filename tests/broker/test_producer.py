"""Producing: records arrive once and in order, and each call gets its result."""

from __future__ import annotations

import array
import ctypes
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from types import MappingProxyType

import pytest

import klamm
from klamm.errors import (
    ArgumentError,
    BufferFullError,
    ClosedError,
    ConfigError,
    InvalidRequiredAcksError,
    InvalidTopicExceptionError,
    KafkaTimeoutError,
    MessageTooLargeError,
)
from klamm.testing import DevBroker

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def read(bootstrap, topic):
    with klamm.Consumer(bootstrap) as consumer:
        partitions = [klamm.TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        ends = consumer.end_offsets(partitions)
        consumer.assign([klamm.TopicPartition(topic, tp.partition, 0, ends[tp]) for tp in partitions])
        return list(consumer)


def test_a_record_is_acknowledged_with_its_partition_and_offset(style, broker, topic):
    with style.producer(broker.bootstrap_servers) as producer:
        first = producer.send(topic, b"one", key=b"k", timestamp_ms=1_700_000_000_000)
        second = producer.send(topic, b"two")
    assert (first.topic, first.partition, first.offset, first.timestamp_ms) == (topic, 0, 0, 1_700_000_000_000)
    assert (second.offset, second.timestamp_ms > 1_700_000_000_000) == (1, True)


@pytest.mark.parametrize(("kind", "number"), [("CreateTime", 0), ("LogAppendTime", 1)])
def test_an_acknowledgement_has_the_time_that_readers_see(style, broker, topic, kind, number):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=1, configs={"message.timestamp.type": kind})})
    began = time.time_ns() // 1_000_000
    with style.producer(broker.bootstrap_servers, linger_ms=20) as producer:
        alone = producer.send(topic, b"v", timestamp_ms=5)
        waiting = [producer.send_nowait(topic, b"v", timestamp_ms=5) for _ in range(10)]
        producer.flush()
        results = [alone, *(style.wait(delivery) for delivery in waiting if delivery is not None)]
    records = read(broker.bootstrap_servers, topic)
    assert len(records) == 11
    assert {record.timestamp_type for record in records} == {number}
    seen = {record.offset: record.timestamp_ms for record in records}
    assert all(seen[metadata.offset] == metadata.timestamp_ms for metadata in results)
    assert all(at == 5 if kind == "CreateTime" else began - 1 <= at < began + 60_000 for at in seen.values())


def test_what_was_sent_is_what_arrives(style, broker, topic):
    headers = [("h", b"1"), ("h", b""), ("null", None), ("\u00fc", b"\xff")]
    with style.producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"value", key=b"key", headers=headers, timestamp_ms=5)
        producer.send(topic, None, key=b"")
        producer.send(topic, b"", key=None, headers={"a": b"b"})
        producer.send(topic, bytearray(b"array"), key=memoryview(b"view"), headers=MappingProxyType({"c": None}))
    records = read(broker.bootstrap_servers, topic)
    assert [(r.key, r.value) for r in records] == [(b"key", b"value"), (b"", None), (None, b""), (b"view", b"array")]
    assert [r.headers for r in records] == [headers, [], [("a", b"b")], [("c", None)]]
    assert records[0].timestamp_ms == 5


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_carries_records(broker, topic, codec):
    values = [b"line %d of many that are much alike" % i for i in range(3_000)]
    with klamm.Producer(broker.bootstrap_servers, compression_type=codec, linger_ms=20) as producer:
        producer.send_many(topic, values)
    assert [record.value for record in read(broker.bootstrap_servers, topic)] == values


def test_send_nowait_keeps_the_order_of_a_partition(style, broker, partitioned):
    with style.producer(broker.bootstrap_servers) as producer:
        for i in range(2_000):
            producer.send_nowait(partitioned, b"%d" % i, key=b"%d" % (i % 7))
        producer.flush(timeout=20)
    records = read(broker.bootstrap_servers, partitioned)
    assert len(records) == 2_000
    for key in {record.key for record in records}:
        numbers = [int(record.value) for record in records if record.key == key]
        assert numbers == sorted(numbers)
        assert len({record.partition for record in records if record.key == key}) == 1


def test_a_partition_can_be_chosen(style, broker, partitioned):
    with style.producer(broker.bootstrap_servers) as producer:
        assert [producer.send(partitioned, b"v", partition=p).partition for p in (3, 0, 2)] == [3, 0, 2]
        assert producer.partitions_for(partitioned) == [0, 1, 2, 3]


def test_keys_go_where_the_java_client_sends_them(broker, partitioned):
    keys = [b"", b"a", b"klamm", b"\x00\xff" * 9]
    with klamm.Producer(broker.bootstrap_servers) as producer:
        found = [producer.send(partitioned, b"v", key=key).result(20).partition for key in keys]
    assert found == [(klamm.protocol.murmur2(key) & 0x7FFFFFFF) % 4 for key in keys]


def test_many_records_go_in_one_call(style, broker, topic):
    keys = [b"%d" % i for i in range(5_000)]
    with style.producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, (bytearray(key) for key in keys), keys=keys)
        producer.send_many(topic, (b"a", None), keys=None)
        producer.flush(timeout=20)
    records = read(broker.bootstrap_servers, topic)
    assert [(record.key, record.value) for record in records[:-2]] == [(key, key) for key in keys]
    assert [record.value for record in records[-2:]] == [b"a", None]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement_works(style, broker, topic, acks):
    with style.producer(broker.bootstrap_servers, acks=acks) as producer:
        assert producer.send(topic, b"v").offset == (-1 if acks == 0 else 0)
    with klamm.Consumer(broker.bootstrap_servers, topics=[topic], auto_offset_reset="earliest") as consumer:
        assert next(iter(consumer)).value == b"v"


def test_a_record_without_acknowledgement_arrives_although_its_producer_closes_at_once(broker, topic):
    rounds = 30
    for _ in range(rounds):
        with klamm.Producer(broker.bootstrap_servers, acks=0) as producer:
            producer.send_nowait(topic, b"v")
    table = klamm.read_table(broker.bootstrap_servers, topic)
    assert table.num_rows == rounds


def test_sending_waits_while_the_buffer_is_full(style, broker, topic):
    with style.producer(broker.bootstrap_servers, buffer_memory=20_000, batch_size=5_000) as producer:
        producer.send_many(topic, [b"x" * 500] * 400)
        assert producer.send(topic, b"last").offset == 400


def test_a_buffer_that_stays_full_is_a_timeout(style):
    with DevBroker() as broker:
        producer = style.producer(broker.bootstrap_servers, buffer_memory=5_000, max_block_ms=300)
        producer.send("t", b"the topic is known")
    with pytest.raises(KafkaTimeoutError, match=r"no room in the buffer within 0\.3 s"):
        producer.send_many("t", [b"x" * 1_000] * 10)
    with pytest.raises(KafkaTimeoutError, match="4 records were still in flight"):
        producer.close(timeout=0)


def test_a_full_buffer_says_what_keeps_it_full(style):
    with DevBroker() as broker:
        producer = style.producer(broker.bootstrap_servers, buffer_memory=5_000, max_block_ms=1_000)
        producer.send("t", b"the topic is known")
        producer.flush()  # a busy machine may need longer than the timeout to connect and to create the topic
        broker.fault("Produce", "error", error="NOT_ENOUGH_REPLICAS", times=None)
        with pytest.raises(KafkaTimeoutError, match=r"within 1 s; last error of a broker: .*NOT_ENOUGH_REPLICAS"):
            producer.send_many("t", [b"x" * 1_000] * 10)
        broker.clear_faults()
        producer.close()


def test_a_burst_fills_the_buffer_although_the_network_takes_nothing(style):
    with DevBroker() as broker:
        producer = style.producer(broker.bootstrap_servers, buffer_memory=64 << 20)
        producer.send("t", b"the topic is known")
        broker.fault("Produce", "delay", seconds=600, times=None)
        producer.send_many("t", [b"x" * 1_000_000] * 40)
        assert producer.metrics().buffered_bytes > 40_000_000
        with pytest.raises(KafkaTimeoutError, match="40 records were still in flight"):
            producer.close(timeout=0)


def test_a_producer_that_drops_when_full_never_waits(style):
    with DevBroker() as broker:
        config = {"buffer_memory": 20_000, "drop_when_full": True, "batch_size": 2_000}
        with style.producer(broker.bootstrap_servers, **config) as producer:
            producer.send("t", b"the topic is known")
            broker.fault("Produce", "delay", seconds=0.3, times=None)
            with pytest.raises(BufferFullError, match=r"the buffer is full; \d+ records of the call were sent"):
                producer.send_many("t", [b"x" * 1_000] * 100)
            for _ in range(3):
                with pytest.raises(BufferFullError, match=r"buffer\.memory"):
                    producer.send("t", b"x" * 5_000)
            broker.clear_faults()
            producer.flush()
            assert producer.send("t", b"room again").offset > 0


def test_a_number_of_replicas_is_nothing_todays_brokers_take(style, broker, topic):
    with style.producer(broker.bootstrap_servers, acks=2) as producer, pytest.raises(InvalidRequiredAcksError):
        producer.send(topic, b"v")


def test_send_nowait_on_an_event_loop_refuses_to_wait():
    producer = klamm.AsyncProducer("127.0.0.1:1", buffer_memory=2_000)
    producer.send_nowait("t", b"x" * 1_500)
    with pytest.raises(BufferFullError, match=r"buffer\.memory"):
        producer.send_nowait("t", b"x" * 1_500)
    with pytest.raises(KafkaTimeoutError):
        producer._close(0)


def test_flush_raises_what_failed_and_only_once(style, broker, topic):
    with style.producer(broker.bootstrap_servers, allow_auto_create_topics=False, max_block_ms=500) as producer:
        producer.send_many(topic, [b"v", b"w"])
        with pytest.raises(klamm.DeliveryError, match=r"2 records were not delivered, the first because: .*hint: "):
            producer.flush(timeout=20)
        producer.flush(timeout=20)


def test_on_error_gets_what_failed(broker, topic):
    calls = []
    producer = klamm.Producer(
        broker.bootstrap_servers, on_error=calls.append, allow_auto_create_topics=False, max_block_ms=300
    )
    producer.send_nowait(topic, b"v")
    with pytest.raises(klamm.DeliveryError, match="1 record was not delivered: "):
        producer.close()
    assert [topic in str(error) for error in calls] == [True]


def test_a_record_that_is_too_large_is_refused_before_it_is_sent(style, broker, topic):
    with style.producer(broker.bootstrap_servers, max_request_size=1_000) as producer:
        with pytest.raises(MessageTooLargeError, match=r"max\.request\.size is 1000.*hint: send smaller"):
            producer.send(topic, b"x" * 2_000)
        producer.send(topic, b"small")


def test_a_record_may_fill_a_request_to_the_last_byte(style, broker, topic):
    # 61 bytes of a batch, and 9 of a record without key and headers.
    with style.producer(broker.bootstrap_servers, max_request_size=1_000) as producer:
        producer.send(topic, b"x" * 930)
        with pytest.raises(MessageTooLargeError, match="a record of 940 bytes in a batch of 1001"):
            producer.send(topic, b"x" * 931)
        producer.send_many(topic, [b"x" * 930] * 3)
        producer.flush(timeout=20)
    assert [len(record.value) for record in read(broker.bootstrap_servers, topic)] == [930] * 4


def test_a_record_that_is_too_large_for_the_broker_is_refused_by_it(style, broker, topic):
    with style.admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(configs={"max.message.bytes": "1000"})})
    with style.producer(broker.bootstrap_servers) as producer:
        with pytest.raises(MessageTooLargeError) as caught:
            producer.send(topic, b"x" * 2_000)
        assert caught.value.topic == topic
        assert "max.message.bytes" in caught.value.hint
        producer.send(topic, b"small")


@pytest.mark.parametrize("name", ["bad name", "", ".", "x" * 250])
def test_a_topic_name_that_cannot_be_is_refused(style, broker, name):
    wanted = InvalidTopicExceptionError if name else klamm.KafkaError
    with style.producer(broker.bootstrap_servers) as producer, pytest.raises(wanted):
        producer.send(name, b"v")


def test_a_partition_that_is_not_there_is_named(style, broker, topic):
    with style.producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"v")
        with pytest.raises(ConfigError, match="has partitions 0 to 0, not 7"):
            producer.send(topic, b"v", partition=7)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda p: p.send("t", "text"), "value is a str"),
        (lambda p: p.send("t", b"v", key="text"), "key is a str"),
        (lambda p: p.send_nowait("t", 5), "not int"),
        (lambda p: p.send_many("t", [b"v", "text"]), r"values\[1\] is a str.*encode it: values\[1\]\.encode"),
        (lambda p: p.send_many("t", b"bytes"), "sequence of bytes-like objects, not bytes"),
        # As NumPy's arrays of objects, the rows of their tables, and its numbers.
        (
            lambda p: p.send("t", OBJECTS),
            "value holds Python objects: the buffer of py_object_Array_2 has their addresses.*hint",
        ),
        (lambda p: p.send("t", b"v", key=OBJECTS), "key holds Python objects"),
        (lambda p: p.send("t", b"v", headers={"h": OBJECTS}), r"headers\[0\].value holds Python objects"),
        (lambda p: p.send_many("t", [b"v", OBJECTS]), r"values\[1\] holds Python objects"),
        (lambda p: p.send("t", Row(b"v")), "value holds Python objects: the buffer of Row"),
        (
            lambda p: p.send_many("t", [ctypes.c_double(1.5)]),
            r"values\[0\] is a number of type c_double, but Kafka stores",
        ),
        (lambda p: p.send_arrow("t", [b"v"]), "data has to be Arrow data, not list"),
    ],
)
def test_what_is_no_bytes_is_refused(style, call, says):
    producer = style.producer("127.0.0.1:1")
    with pytest.raises(ArgumentError, match=says):
        call(producer)
    producer.close()


def test_numbers_that_are_bytes_of_a_program_are_sent_as_they_lie(style, broker, topic):
    values = [array.array("d", [1.5, 2.5]), Place(1, 2), memoryview(b"abcdef")[::2]]
    with style.producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, values)
        producer.flush(timeout=20)
    assert [r.value for r in read(broker.bootstrap_servers, topic)] == [memoryview(v).tobytes() for v in values]


class Place(ctypes.Structure):
    """Has a field named like the code for objects."""

    _fields_ = (("O", ctypes.c_int), ("P", ctypes.c_int))


class Row(ctypes.Structure):
    _fields_ = (("place", Place), ("name", ctypes.py_object))

    def __init__(self, name):
        super().__init__(Place(), name)


OBJECTS = (ctypes.py_object * 2)(b"a", b"b")


def test_values_and_keys_have_to_be_as_many(style):
    producer = style.producer("127.0.0.1:1")
    with pytest.raises(ConfigError, match="2 values but 1 keys"):
        producer.send_many("t", [b"a", b"b"], [b"k"])
    producer.close()


def test_a_closed_producer_says_so(style, broker):
    producer = style.producer(broker.bootstrap_servers)
    producer.close()
    producer.close()
    with pytest.raises(ClosedError, match="closed"):
        producer.send("t", b"v")
    with pytest.raises(ClosedError):
        producer.flush()


def test_leaving_with_an_exception_still_delivers(style, broker, topic):
    producer = style.producer(broker.bootstrap_servers, linger_ms=60_000)
    producer.send_nowait(topic, b"v")
    producer.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert [record.value for record in read(broker.bootstrap_servers, topic)] == [b"v"]


def test_a_producer_that_is_dropped_with_records_warns():
    producer = klamm.Producer("127.0.0.1:1")
    producer.send_nowait("t", b"v")
    kept = [producer]
    del producer
    with pytest.warns(ResourceWarning, match="dropped with 1 record in flight"):
        kept.clear()


def test_a_delivery_outlives_its_producer(broker, topic):
    kept = [klamm.Producer(broker.bootstrap_servers, linger_ms=50)]
    delivery = kept[0].send(topic, b"v")
    with pytest.warns(ResourceWarning):
        kept.clear()
    assert delivery.result(20).offset == 0


def test_a_delivery_knows_whether_it_is_done(broker, topic):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        delivery = producer.send(topic, b"v")
        assert delivery.exception(20) is None
        assert delivery.done()
        assert "RecordMetadata" in repr(delivery)
        assert delivery.result(0) == delivery.result()
    failing = klamm.Producer("127.0.0.1:1")
    delivery = failing.send("t", b"v")
    assert not delivery.done()
    assert repr(delivery) == "<Pending acknowledgement>"
    with pytest.raises(KafkaTimeoutError, match=r"no acknowledgement within 0\.05 s"):
        delivery.result(0.05)
    with pytest.raises(KafkaTimeoutError):
        failing.close(0)
    assert isinstance(delivery.exception(), ClosedError)


def test_threads_share_a_producer(broker, topic):
    with klamm.Producer(broker.bootstrap_servers) as producer:

        def work(name):
            for i in range(500):
                producer.send_nowait(topic, b"%d" % i, key=name)

        threads = [threading.Thread(target=work, args=(b"%d" % n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records = read(broker.bootstrap_servers, topic)
    for key in (b"0", b"1", b"2", b"3"):
        assert [int(r.value) for r in records if r.key == key] == list(range(500))


def test_threads_that_wait_for_their_records_and_for_others(broker, topic):
    """One waiting thread reads the responses of all. Each thread has its result when that one leaves."""
    with klamm.Producer(broker.bootstrap_servers, linger_ms=0) as producer, ThreadPoolExecutor(8) as pool:

        def work(number):
            # Two at a time, the later one first: its answer is there when the other is asked for.
            pairs = [[producer.send(topic, b"%d" % number, partition=0) for _ in range(2)] for _ in range(100)]
            return [delivery.result(20).offset for pair in pairs for delivery in reversed(pair)]

        offsets = [offset for found in pool.map(work, range(8)) for offset in found]
    assert sorted(offsets) == list(range(1600))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems' pollers have room for one thread")
def test_the_waiting_thread_reads_the_response(broker, topic):
    readers = set()
    with klamm.Producer(broker.bootstrap_servers, linger_ms=0) as producer:
        # Now and then the answer is faster than the wait for it.
        for _ in range(200):
            delivery = producer.send(topic, b"v")
            delivery.add_done_callback(lambda _: readers.add(threading.get_ident()))
            delivery.result(20)
    assert threading.get_ident() in readers


def test_a_callback_may_close_the_producer_that_its_thread_waits_for(broker, topic):
    for _ in range(20):
        producer = klamm.Producer(broker.bootstrap_servers, linger_ms=0)
        delivery = producer.send(topic, b"v")
        delivery.add_done_callback(lambda _, producer=producer: producer.close(0))
        assert delivery.result(20).topic == topic
        producer.close(5)
        with pytest.raises(ClosedError):
            producer.send(topic, b"v")


def test_a_producer_closed_while_others_wait_for_records():
    failing = klamm.Producer("127.0.0.1:1")
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(failing.send("t", b"v").exception, 60) for _ in range(4)]
        with pytest.raises(KafkaTimeoutError):
            failing.close(0.2)
        for waits in waiting:
            assert isinstance(waits.result(20), ClosedError)


def test_a_topic_is_not_made_where_that_is_not_wanted(style):
    with (
        DevBroker(auto_create_topics=False) as broker,
        style.producer(broker.bootstrap_servers, max_block_ms=300) as producer,
        pytest.raises(klamm.KafkaError, match="nowhere"),
    ):
        producer.send("nowhere", b"v")


NO_TIMES = [-1, -(2**63), datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=timezone.utc)]


@pytest.mark.parametrize("send", ["send", "send_nowait"])
@pytest.mark.parametrize("time", NO_TIMES, ids=str)
def test_a_number_that_stands_for_no_timestamp_is_refused(style, broker, topic, send, time):
    with style.producer(broker.bootstrap_servers) as producer:
        with pytest.raises(ConfigError, match=r"timestamp_ms cannot be .*without a timestamp") as caught:
            getattr(producer, send)(topic, b"v", timestamp_ms=time)
        assert "leave timestamp_ms out" in caught.value.hint
        with pytest.raises(ArgumentError, match="not bool"):
            getattr(producer, send)(topic, b"v", timestamp_ms=True)
        for ms in (0, -2):
            assert producer.send(topic, b"v", timestamp_ms=ms).timestamp_ms == ms


def test_header_names_that_are_not_utf8_can_be_sent_on(style, broker, topic):
    names = [name.decode("utf-8", "surrogateescape") for name in (b"name-\xe4b", b"name-\xf6b", b"plain")]
    with style.producer(broker.bootstrap_servers) as producer, style.consumer(broker.bootstrap_servers) as consumer:
        producer.send(topic, b"v", partition=0, headers=[(name, b"1") for name in names])
        consumer.assign([klamm.TopicPartition(topic, 0, 0)])
        first = next(iter(consumer))
        producer.send(topic, first.value, partition=0, headers=first.headers)
        next_record = next(iter(consumer))
    assert [name for name, _ in first.headers] == names
    assert next_record.headers == first.headers
