"""The adapter for klamm, which uses only the common settings.

The consume loop iterates over single records, although the other clients use their batch calls. The Arrow batches that the producer
sends have as many rows as the pool of records.
"""

import asyncio
import importlib.metadata
import time
from typing import Any

import pyarrow as pa

import klamm
import raw
import workload
from meter import Meter, Turns
from workload import ARROW_ROWS, WAIT_S, Job, Load

NAME = "klamm"
IMPORT = "import klamm"
SHARE = 1.0


def versions() -> str:
    return f"{importlib.metadata.version('klamm')}, pyarrow {pa.__version__}"


def security(job: Job) -> dict[str, Any]:
    return {"security_protocol": "SSL", "ssl_ca_location": job.authority} if job.authority else {}


def producer_settings(job: Job, linger_ms: int = workload.LINGER_MS) -> dict[str, Any]:
    return {
        **security(job),
        "acks": "all",
        "compression_type": "none",
        "enable_idempotence": job.idempotence,
        "max_in_flight_requests_per_connection": workload.IN_FLIGHT,
        "linger_ms": linger_ms,
        "batch_size": workload.BATCH_BYTES,
        "buffer_memory": workload.UNSENT_BYTES,
    }


def open_producer(job: Job, load: Load) -> klamm.Producer:
    producer = klamm.Producer(job.bootstrap, **producer_settings(job))
    for partition in range(workload.PARTITIONS):
        producer.send(job.topic, load.values[0], load.keys[0], partition).result(WAIT_S)
    return producer


def produce(job: Job, load: Load, meter: Meter) -> int:
    with open_producer(job, load) as producer:
        send, topic = producer.send_nowait, job.topic
        with meter:
            for _ in range(job.passes):
                for key, value in load.pairs:
                    send(topic, value, key)
            producer.flush(WAIT_S)
    return job.records


def produce_with_on_delivery(job: Job, load: Load, meter: Meter) -> int:
    delivered = 0

    def count(delivery: klamm.Delivery[klamm.RecordMetadata]) -> None:
        nonlocal delivered
        delivered += delivery.exception() is None

    with klamm.Producer(job.bootstrap, on_delivery=count, **producer_settings(job)) as producer:
        send, topic = producer.send_nowait, job.topic
        for partition in range(workload.PARTITIONS):
            send(topic, load.values[0], load.keys[0], partition)
        producer.flush(WAIT_S)
        with meter:
            for _ in range(job.passes):
                for key, value in load.pairs:
                    send(topic, value, key)
            producer.flush(WAIT_S)
    return delivered - workload.PARTITIONS


def produce_with_done_callbacks(job: Job, load: Load, meter: Meter) -> int:
    delivered = 0

    def count(delivery: klamm.Delivery[klamm.RecordMetadata]) -> None:
        nonlocal delivered
        delivered += delivery.exception() is None

    with open_producer(job, load) as producer:
        send, topic = producer.send, job.topic
        with meter:
            for _ in range(job.passes):
                for key, value in load.pairs:
                    send(topic, value, key).add_done_callback(count)
            producer.flush(WAIT_S)
    return delivered


def produce_with_results(job: Job, load: Load, meter: Meter) -> int:
    with open_producer(job, load) as producer:
        send, topic = producer.send, job.topic
        with meter:
            for _ in range(job.passes):
                deliveries = [send(topic, value, key) for key, value in load.pairs]
                for delivery in deliveries:
                    delivery.result(WAIT_S)
    return job.records


def produce_asyncio(job: Job, load: Load, meter: Meter) -> int:
    async def run() -> None:
        async with klamm.AsyncProducer(job.bootstrap, **producer_settings(job)) as producer:
            for partition in range(workload.PARTITIONS):
                await producer.send(job.topic, load.values[0], load.keys[0], partition)
            send, topic = producer.send_nowait, job.topic
            with meter:
                for _ in range(job.passes):
                    for key, value in load.pairs:
                        try:
                            send(topic, value, key)
                        except klamm.errors.BufferFullError:
                            await producer.send(topic, value, key)
                await producer.flush(WAIT_S)

    asyncio.run(run())
    return job.records


def produce_many(job: Job, load: Load, meter: Meter) -> int:
    with open_producer(job, load) as producer, meter:
        for _ in range(job.passes):
            producer.send_many(job.topic, load.values, load.keys)
        producer.flush(WAIT_S)
    return job.records


def produce_arrow(job: Job, load: Load, meter: Meter) -> int:
    rows = pa.record_batch({"key": pa.array(load.keys, pa.binary()), "value": pa.array(load.values, pa.binary())})
    with open_producer(job, load) as producer, meter:
        for _ in range(job.passes):
            producer.send_arrow(job.topic, rows)
        producer.flush(WAIT_S)
    return job.records


def open_consumer(job: Job, kind: type[Any] = klamm.Consumer) -> Any:
    return kind(
        job.bootstrap,
        **security(job),
        check_crcs=True,
        isolation_level="read_uncommitted",
        fetch_min_bytes=workload.FETCH_MIN_BYTES,
        fetch_max_wait_ms=workload.FETCH_WAIT_MS,
        fetch_max_bytes=workload.FETCH_BYTES,
        max_partition_fetch_bytes=workload.PARTITION_FETCH_BYTES,
        queued_max_bytes=workload.PREFETCH_BYTES,
    )


def assign(consumer: Any, job: Job) -> None:
    consumer.assign([klamm.TopicPartition(job.topic, partition, offset=0) for partition in range(workload.PARTITIONS)])


def consume(job: Job, load: Load, meter: Meter) -> int:
    seen = size = 0
    with open_consumer(job) as consumer, meter:
        assign(consumer, job)
        for record in consumer:
            size += len(record.value)
            seen += 1
            if seen == job.records:
                break
    if size != seen * workload.VALUE_BYTES:
        raise RuntimeError(f"{size} bytes in {seen} records")
    return seen


def consume_arrow(job: Job, load: Load, meter: Meter) -> int:
    seen = 0
    with open_consumer(job) as consumer, meter:
        assign(consumer, job)
        for rows in consumer.arrow(max_rows=ARROW_ROWS, timeout=WAIT_S):
            seen += rows.num_rows
            if seen >= job.records:
                break
    return seen


def arrival(job: Job, load: Load, turns: Turns) -> None:
    sender, now = raw.Sender(job.bootstrap, job.topic, load.pairs[0]), time.perf_counter_ns
    with open_consumer(job) as consumer:
        assign(consumer, job)
        records = iter(consumer)
        for count in turns:
            for _ in range(count):
                began = sender.send()
                next(records)
                turns.samples.append(now() - began)
                sender.wait_acknowledged()


def arrival_asyncio(job: Job, load: Load, turns: Turns) -> None:
    async def run() -> None:
        sender, now = raw.Sender(job.bootstrap, job.topic, load.pairs[0]), time.perf_counter_ns
        async with open_consumer(job, klamm.AsyncConsumer) as consumer:
            assign(consumer, job)
            while count := await asyncio.to_thread(turns.wait):
                for _ in range(count):
                    began = sender.send()
                    await anext(consumer)
                    turns.samples.append(now() - began)
                    sender.wait_acknowledged()

    asyncio.run(run())


def latency(job: Job, load: Load, turns: Turns) -> None:
    key, value = load.pairs[0]
    now = time.perf_counter_ns
    with klamm.Producer(job.bootstrap, **producer_settings(job, linger_ms=0)) as producer:
        for count in turns:
            for _ in range(count):
                began = now()
                producer.send(job.topic, value, key).result(WAIT_S)
                turns.samples.append(now() - began)


def latency_asyncio(job: Job, load: Load, turns: Turns) -> None:
    async def run() -> None:
        key, value = load.pairs[0]
        now = time.perf_counter_ns
        async with klamm.AsyncProducer(job.bootstrap, **producer_settings(job, linger_ms=0)) as producer:
            while count := await asyncio.to_thread(turns.wait):
                for _ in range(count):
                    began = now()
                    await producer.send(job.topic, value, key)
                    turns.samples.append(now() - began)

    asyncio.run(run())


CASES = {
    "produce-loop": {"send_nowait": produce, "asyncio send_nowait": produce_asyncio},
    "produce-bulk": {"send_many": produce_many, "send_arrow": produce_arrow},
    "produce-callbacks": {
        "on_delivery": produce_with_on_delivery,
        "add_done_callback": produce_with_done_callbacks,
        "result() per 10,000": produce_with_results,
    },
    "consume-loop": {"for record in consumer": consume},
    "consume-arrow": {"arrow": consume_arrow},
    "produce-tls": {"send_nowait": produce},
    "consume-tls": {"for record in consumer": consume},
    "latency": {"sync": latency, "asyncio": latency_asyncio},
    "end-to-end": {"for record in consumer": arrival, "async for record in consumer": arrival_asyncio},
}
