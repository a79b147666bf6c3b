"""The adapter for kafka-python.

kafka-python uses the package `crc32c` if it is installed, because a CRC in pure Python takes longer than all other
work. The produce case uses `send` and `flush`. The case drops the futures, so a failure shows as missing records.
kafka-python 3.0 and later does not limit unsent records. The consume case uses `poll`, which avoids the iterator's work
per record.
"""

import importlib.util
import time

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import workload
from meter import Meter, Turns
from workload import POLL_RECORDS, WAIT_S, Job, Load

NAME = "kafka-python"
IMPORT = "import kafka"
SHARE = 0.1


def versions() -> str:
    checksums = "the crc32c package" if importlib.util.find_spec("crc32c") else "CRCs in pure Python"
    return f"{kafka.__version__}, {checksums}"


def open_producer(job: Job, linger_ms: int = workload.LINGER_MS) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=job.bootstrap,
        acks="all",
        compression_type=None,
        enable_idempotence=job.idempotence,
        linger_ms=linger_ms,
        batch_size=workload.BATCH_BYTES,
        max_in_flight_requests_per_connection=workload.IN_FLIGHT,
    )


def produce(job: Job, load: Load, meter: Meter) -> int:
    producer = open_producer(job)
    for partition in range(workload.PARTITIONS):
        producer.send(job.topic, load.values[0], load.keys[0], partition=partition).get(WAIT_S)
    send, topic = producer.send, job.topic
    with meter:
        for _ in range(job.passes):
            for key, value in load.pairs:
                send(topic, value, key)
        producer.flush(WAIT_S)
    producer.close()
    return job.records


def consume(job: Job, load: Load, meter: Meter) -> int:
    consumer = KafkaConsumer(
        bootstrap_servers=job.bootstrap,
        enable_auto_commit=False,
        check_crcs=True,
        isolation_level="read_uncommitted",
        fetch_min_bytes=workload.FETCH_MIN_BYTES,
        fetch_max_wait_ms=workload.FETCH_WAIT_MS,
        fetch_max_bytes=workload.FETCH_BYTES,
        max_partition_fetch_bytes=workload.PARTITION_FETCH_BYTES,
    )
    seen = size = 0
    with meter:
        parts = [TopicPartition(job.topic, partition) for partition in range(workload.PARTITIONS)]
        consumer.assign(parts)
        for part in parts:
            consumer.seek(part, 0)
        while seen < job.records:
            for records in consumer.poll(timeout_ms=1000, max_records=POLL_RECORDS).values():
                for record in records:
                    size += len(record.value)
                seen += len(records)
    consumer.close()
    if size != seen * workload.VALUE_BYTES:
        raise RuntimeError(f"{size} bytes in {seen} records")
    return seen


def latency(job: Job, load: Load, turns: Turns) -> None:
    producer, now = open_producer(job, linger_ms=0), time.perf_counter_ns
    key, value = load.pairs[0]
    for count in turns:
        for _ in range(count):
            began = now()
            producer.send(job.topic, value, key).get(WAIT_S)
            turns.samples.append(now() - began)
    producer.close()


CASES = {
    "produce-loop": {"send, flush": produce},
    "consume-loop": {"poll": consume},
    "latency": {"sync": latency},
}
