"""Deserializers: their input, their errors, and the calls that do not use them."""

from __future__ import annotations

import json

import pytest

import klamm
from klamm import TopicPartition
from klamm.errors import DeserializationError

CONFIG = {"key_deserializer": bytes.decode, "value_deserializer": json.loads}


@pytest.fixture
def filled(broker, topic):
    """Five records; the third is not JSON, the fourth is null."""
    values = [b"0", b'{"a": 1}', b"{", None, b"4"]
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, key=b"k%d" % number if value else None).result(20)
    return topic


def test_a_loop_gets_objects_and_continues_after_a_failure(style, broker, filled):
    keys, values, failed = [], [], []
    with style.consumer(broker.bootstrap_servers, **CONFIG) as consumer:
        consumer.assign([TopicPartition(filled, 0, 0, 5)])
        for record in consumer:
            assert isinstance(record, klamm.Record)
            keys.append(record.key)
            try:
                values.append(record.value)
            except DeserializationError as error:
                failed.append(error)
        assert consumer.position(TopicPartition(filled, 0)) == 5
    assert keys == ["k0", "k1", "k2", None, "k4"]
    assert values == [0, {"a": 1}, None, 4]
    (error,) = failed
    assert (error.topic, error.partition, error.offset, error.record.value) == (filled, 0, 2, b"{")
    assert isinstance(error.__cause__, json.JSONDecodeError)


def test_a_new_loop_continues_after_the_record_that_ended_the_last_one(style, broker, filled):
    with style.consumer(broker.bootstrap_servers, **CONFIG) as consumer:
        consumer.assign([TopicPartition(filled, 0, 0, 5)])
        with pytest.raises(DeserializationError):
            _ = [record.value for record in consumer]
        assert [record.value for record in consumer] == [None, 4]


def test_polled_records_slices_and_partitions_are_deserialized(style, broker, filled):
    with style.consumer(broker.bootstrap_servers, **CONFIG) as consumer:
        consumer.assign([TopicPartition(filled, 0, 3, 5)])
        records = consumer.poll(timeout=20)
        while len(records) < 2:
            consumer.seek(TopicPartition(filled, 0), 3)
            records = consumer.poll(timeout=20)
        assert len(consumer.poll(timeout=0.1)) == 0
    (own,) = records.by_partition().values()
    assert {record.key for record in own} == {None, "k4"}
    assert repr(own) == f"<Records: 2 of {filled}-0 (offsets 3 to 4)>"
    assert repr(records[::-1]) == repr(own).replace("3 to 4", "4 to 3")
    for some in records, records[:], records[::1], own, own[0:2], records[::-1][::-1]:
        assert [record.value for record in some] == [None, 4]
        assert some[1].value == some[-1].value == 4
    assert records.to_arrow(["value"]).to_pydict() == {"value": [None, b"4"]}


def test_arrow_batches_hold_bytes(style, broker, filled):
    with style.consumer(broker.bootstrap_servers, **CONFIG) as consumer:
        consumer.assign([TopicPartition(filled, 0, 2, 5)])
        found = [value for batch in consumer.arrow(columns=["value"]) for value in batch.column("value").to_pylist()]
    assert found == [b"{", None, b"4"]


def test_one_deserializer_leaves_the_other_field_alone(style, broker, filled):
    with style.consumer(broker.bootstrap_servers, value_deserializer=len, topics=[filled]) as consumer:
        consumer.assign([TopicPartition(filled, 0, 0, 2)])
        assert [(record.key, record.value) for record in consumer] == [(b"k0", 1), (b"k1", 8)]
