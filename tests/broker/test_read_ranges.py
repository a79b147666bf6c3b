"""Reads up to an end offset receive about as many bytes as the range has."""

from __future__ import annotations

import os

import pytest

import klamm

RECORDS = 20_000
VALUE = 100


@pytest.mark.parametrize("step", [2_000, 5_000])
def test_a_range_receives_little_more_than_it_needs(broker, topic, step):
    with klamm.Producer(broker.bootstrap_servers, batch_size=16_384) as producer:
        producer.send_many(topic, [os.urandom(VALUE) for _ in range(RECORDS)], partition=0)
    needed = RECORDS * VALUE
    with klamm.Consumer(broker.bootstrap_servers) as consumer:
        read = 0
        for start in range(0, RECORDS, step):
            consumer.assign([klamm.TopicPartition(topic, 0, offset=start, end_offset=start + step)])
            values = [record.value for record in consumer]
            assert len(values) == step
            read += sum(map(len, values))
        assert read == needed
        assert consumer.metrics().incoming_byte_total < 1.3 * needed  # offsets and headers included
