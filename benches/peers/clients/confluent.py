"""The adapter for confluent-kafka (librdkafka). The report compares the other clients with confluent-kafka.

The client needs special settings:

* murmur2 as the partitioner, as in the other clients; confluent-kafka's default is CRC-32
* a queue with a limit in bytes; a queue with the default limit of 100,000 messages is full before the network is busy
* a prefetch limited in bytes; by default, the prefetch stops at 100,000 messages per partition and checks again a second later
* CRC checks and read_uncommitted, as in every other client

confluent-kafka's documentation asks for `poll(0)` after each `produce`, although this call does nothing without a delivery callback.
The first variant polls after each `produce`, and the second variant polls once per 10,000 records. The asyncio producer
collects records until it has 1,000 or until a second has passed, and handles acknowledgements when the program polls.
So the bench calls `flush` after a single record, which is the fastest way.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.aio import AIOProducer

import raw
import workload
from meter import Meter, Turns
from workload import POLL_RECORDS, WAIT_S, Job, Load

NAME = "confluent-kafka"
IMPORT = "import confluent_kafka"
SHARE = 1.0


def versions() -> str:
    return f"{confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"


def connection_settings(job: Job) -> dict[str, Any]:
    tls = {"security.protocol": "SSL", "ssl.ca.location": job.authority} if job.authority else {}
    return {"bootstrap.servers": job.bootstrap, **tls}


def producer_settings(job: Job, linger_ms: int = workload.LINGER_MS) -> dict[str, Any]:
    return {
        **connection_settings(job),
        "acks": "all",
        "compression.type": "none",
        "enable.idempotence": job.idempotence,
        "max.in.flight.requests.per.connection": workload.IN_FLIGHT,
        "linger.ms": linger_ms,
        "batch.size": workload.BATCH_BYTES,
        "partitioner": "murmur2_random",
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": workload.UNSENT_BYTES >> 10,
    }


def open_producer(job: Job, load: Load) -> Producer:
    producer = Producer(producer_settings(job))
    for partition in range(workload.PARTITIONS):
        producer.produce(job.topic, load.values[0], load.keys[0], partition)
    producer.flush(WAIT_S)
    return producer


def produce(job: Job, load: Load, meter: Meter, polls: bool = True) -> int:
    producer = open_producer(job, load)
    send, poll, topic = producer.produce, producer.poll, job.topic
    with meter:
        for _ in range(job.passes):
            for key, value in load.pairs:
                try:
                    send(topic, value, key)
                except BufferError:
                    wait_for_room(producer, lambda: send(topic, value, key))  # noqa: B023 (called at once)
                if polls:
                    poll(0)
            poll(0)
        producer.flush(WAIT_S)
    return job.records


def produce_rarely_polling(job: Job, load: Load, meter: Meter) -> int:
    return produce(job, load, meter, polls=False)


def produce_with_callbacks(job: Job, load: Load, meter: Meter) -> int:
    producer = open_producer(job, load)
    send, poll, topic = producer.produce, producer.poll, job.topic
    delivered = 0

    def count(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        nonlocal delivered
        delivered += error is None

    with meter:
        for _ in range(job.passes):
            for key, value in load.pairs:
                try:
                    send(topic, value, key, on_delivery=count)
                except BufferError:
                    wait_for_room(producer, lambda: send(topic, value, key, on_delivery=count))  # noqa: B023 (called at once)
                poll(0)
        producer.flush(WAIT_S)
    return delivered


def produce_batch(job: Job, load: Load, meter: Meter) -> int:
    producer = open_producer(job, load)
    messages = [{"key": key, "value": value} for key, value in load.pairs]
    with meter:
        for _ in range(job.passes):
            waiting = messages
            while producer.produce_batch(job.topic, waiting) < len(waiting):
                waiting = [message for message in waiting if message.pop("_error", None)]
                producer.poll(0.01)
            producer.poll(0)
        producer.flush(WAIT_S)
    return job.records


def wait_for_room(producer: Producer, retry: Callable[[], None]) -> None:
    while True:
        producer.poll(0.01)
        try:
            return retry()
        except BufferError:
            continue


def consume(job: Job, load: Load, meter: Meter) -> int:
    consumer = open_consumer(job)
    seen = size = 0
    with meter:
        assign(consumer, job)
        while seen < job.records:
            for message in consumer.consume(POLL_RECORDS, 1.0):
                if message.error():
                    raise RuntimeError(message.error())
                size += len(message.value())
                seen += 1
    consumer.close()
    if size != seen * workload.VALUE_BYTES:
        raise RuntimeError(f"{size} bytes in {seen} records")
    return seen


def consume_arrow(job: Job, load: Load, meter: Meter) -> int:
    """Build Arrow arrays from lists of fields, as users of confluent-kafka do today."""
    import pyarrow as pa

    consumer = open_consumer(job)
    seen = 0
    with meter:
        assign(consumer, job)
        while seen < job.records:
            messages = consumer.consume(POLL_RECORDS, 1.0)
            for message in messages:
                if message.error():
                    raise RuntimeError(message.error())
            rows = pa.record_batch(
                {
                    "topic": pa.array([message.topic() for message in messages], pa.string()).dictionary_encode(),
                    "partition": pa.array([message.partition() for message in messages], pa.int32()),
                    "offset": pa.array([message.offset() for message in messages], pa.int64()),
                    "timestamp": pa.array([message.timestamp()[1] for message in messages], pa.timestamp("ms", "UTC")),
                    "key": pa.array([message.key() for message in messages], pa.binary()),
                    "value": pa.array([message.value() for message in messages], pa.binary()),
                }
            )
            seen += rows.num_rows
    consumer.close()
    return seen


def open_consumer(job: Job) -> Consumer:
    return Consumer(
        {
            **connection_settings(job),
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_uncommitted",
            "check.crcs": True,
            "fetch.min.bytes": workload.FETCH_MIN_BYTES,
            "fetch.wait.max.ms": workload.FETCH_WAIT_MS,
            "fetch.max.bytes": workload.FETCH_BYTES,
            "max.partition.fetch.bytes": workload.PARTITION_FETCH_BYTES,
            "queued.max.messages.kbytes": workload.PREFETCH_BYTES >> 10,
            "queued.min.messages": 1_000_000,
        }
    )


def assign(consumer: Consumer, job: Job) -> None:
    consumer.assign([TopicPartition(job.topic, partition, 0) for partition in range(workload.PARTITIONS)])


def arrival(job: Job, load: Load, turns: Turns) -> None:
    sender, now = raw.Sender(job.bootstrap, job.topic, load.pairs[0]), time.perf_counter_ns
    consumer = open_consumer(job)
    assign(consumer, job)
    for count in turns:
        for _ in range(count):
            began = sender.send()
            message = consumer.poll(WAIT_S)
            turns.samples.append(now() - began)
            if message.error():
                raise RuntimeError(message.error())
            sender.wait_acknowledged()
    consumer.close()


def latency(job: Job, load: Load, turns: Turns) -> None:
    producer, now = Producer(producer_settings(job, linger_ms=0)), time.perf_counter_ns
    key, value = load.pairs[0]
    done: list[Any] = []

    def delivered(error: Any, _message: Any) -> None:
        done.append(error)

    for count in turns:
        for _ in range(count):
            began = now()
            producer.produce(job.topic, value, key, on_delivery=delivered)
            while not done:
                producer.poll(WAIT_S)
            turns.samples.append(now() - began)
            if (error := done.pop()) is not None:
                raise RuntimeError(error)


def latency_asyncio(job: Job, load: Load, turns: Turns) -> None:
    async def run() -> None:
        producer, now = AIOProducer(producer_settings(job, linger_ms=0)), time.perf_counter_ns
        key, value = load.pairs[0]
        while count := await asyncio.to_thread(turns.wait):
            for _ in range(count):
                began = now()
                acknowledged = await producer.produce(job.topic, value, key)
                await producer.flush()
                await acknowledged
                turns.samples.append(now() - began)
        await producer.close()

    asyncio.run(run())


CASES = {
    "produce-loop": {"produce, poll(0)": produce, "produce, poll(0) per 10,000": produce_rarely_polling},
    "produce-bulk": {"produce_batch": produce_batch},
    "produce-callbacks": {"on_delivery, poll(0)": produce_with_callbacks},
    "consume-loop": {"consume": consume},
    "consume-arrow": {"consume, pa.array": consume_arrow},
    "produce-tls": {"produce, poll(0) per 10,000": produce_rarely_polling},
    "consume-tls": {"consume": consume},
    "latency": {"sync": latency, "asyncio": latency_asyncio},
    "end-to-end": {"poll": arrival},
}
