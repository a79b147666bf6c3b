"""The adapter for aiokafka, on asyncio's own event loop.

The produce case awaits `send` for each record and flushes at the end, as aiokafka's documentation shows. `send` waits
while the batch of the partition is full. The case drops the futures, so a failure shows as missing records. aiokafka
has at most one batch per partition in flight, and no limit in bytes. The consume case uses `getmany`, aiokafka's
fastest method. aiokafka's wheel checks CRCs in C.
"""

import asyncio
import time

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

import raw
import workload
from meter import Meter, Turns
from workload import POLL_RECORDS, Job, Load

NAME = "aiokafka"
IMPORT = "import aiokafka"
SHARE = 0.25


def versions() -> str:
    return aiokafka.__version__


def open_producer(job: Job, linger_ms: int = workload.LINGER_MS) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        bootstrap_servers=job.bootstrap,
        acks="all",
        compression_type=None,
        enable_idempotence=job.idempotence,
        linger_ms=linger_ms,
        max_batch_size=workload.BATCH_BYTES,
    )


def produce(job: Job, load: Load, meter: Meter) -> int:
    async def run() -> None:
        async with open_producer(job) as producer:
            for partition in range(workload.PARTITIONS):
                await producer.send_and_wait(job.topic, load.values[0], load.keys[0], partition)
            send, topic = producer.send, job.topic
            with meter:
                for _ in range(job.passes):
                    for key, value in load.pairs:
                        await send(topic, value, key)
                await producer.flush()

    asyncio.run(run())
    return job.records


def open_consumer(job: Job) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap,
        enable_auto_commit=False,
        check_crcs=True,
        isolation_level="read_uncommitted",
        fetch_min_bytes=workload.FETCH_MIN_BYTES,
        fetch_max_wait_ms=workload.FETCH_WAIT_MS,
        fetch_max_bytes=workload.FETCH_BYTES,
        max_partition_fetch_bytes=workload.PARTITION_FETCH_BYTES,
    )


def assign(consumer: AIOKafkaConsumer, job: Job) -> None:
    parts = [TopicPartition(job.topic, partition) for partition in range(workload.PARTITIONS)]
    consumer.assign(parts)
    for part in parts:
        consumer.seek(part, 0)


def consume(job: Job, load: Load, meter: Meter) -> int:
    async def run() -> int:
        seen = size = 0
        async with open_consumer(job) as consumer:
            with meter:
                assign(consumer, job)
                while seen < job.records:
                    for records in (await consumer.getmany(timeout_ms=1000, max_records=POLL_RECORDS)).values():
                        for record in records:
                            size += len(record.value)
                        seen += len(records)
        if size != seen * workload.VALUE_BYTES:
            raise RuntimeError(f"{size} bytes in {seen} records")
        return seen

    return asyncio.run(run())


def arrival(job: Job, load: Load, turns: Turns) -> None:
    async def run() -> None:
        sender, now = raw.Sender(job.bootstrap, job.topic, load.pairs[0]), time.perf_counter_ns
        async with open_consumer(job) as consumer:
            assign(consumer, job)
            while count := await asyncio.to_thread(turns.wait):
                for _ in range(count):
                    began = sender.send()
                    await consumer.getone()
                    turns.samples.append(now() - began)
                    sender.wait_acknowledged()

    asyncio.run(run())


def latency(job: Job, load: Load, turns: Turns) -> None:
    async def run() -> None:
        key, value = load.pairs[0]
        now = time.perf_counter_ns
        async with open_producer(job, linger_ms=0) as producer:
            while count := await asyncio.to_thread(turns.wait):
                for _ in range(count):
                    began = now()
                    await producer.send_and_wait(job.topic, value, key)
                    turns.samples.append(now() - began)

    asyncio.run(run())


CASES = {
    "produce-loop": {"await send, flush": produce},
    "consume-loop": {"getmany": consume},
    "latency": {"asyncio": latency},
    "end-to-end": {"getone": arrival},
}
