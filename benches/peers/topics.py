"""The topics of a run: made before a client starts, counted after it has stopped, removed when done with."""

from __future__ import annotations

import itertools
import os
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from workload import PARTITIONS, WAIT_S

if TYPE_CHECKING:
    from typing_extensions import Self

# A segment fits a whole measurement, and a deleted topic leaves the disk at once: a run writes some 15 GB.
CONFIG = {"segment.bytes": str(1 << 30), "file.delete.delay.ms": "0"}
# What a broker says of a partition that it leads, but has not begun to serve.
NOT_YET = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._NOENT,  # noqa: SLF001 - librdkafka's own, where it finds no leader at all
}


class Topics:
    """`with Topics(bootstrap) as topics:` leaves none behind."""

    def __init__(self, bootstrap: str) -> None:
        self.config = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(self.config)
        self.numbers = itertools.count(1)
        self.alive: set[str] = set()

    def create(self, case: str) -> str:
        name = f"bench-{os.getpid()}-{next(self.numbers)}-{case}"
        topic = NewTopic(name, PARTITIONS, 1, config=CONFIG)
        self.admin.create_topics([topic], operation_timeout=WAIT_S)[name].result()
        self.alive.add(name)
        end = time.monotonic() + WAIT_S
        while not self.is_served(name):
            if time.monotonic() > end:
                raise TimeoutError(f"{name} has partitions that no broker serves after {WAIT_S} s")
        return name

    def is_served(self, name: str) -> bool:
        """Whether the leader of each partition serves it: metadata has it a moment sooner, and the raw socket knows no retries.

        A new client is asked each time: librdkafka 2.16 that heard of a partition without a leader asks nobody again.
        """
        try:
            end_offsets(AdminClient({**self.config, "log_level": 0}), name)
        except KafkaException as error:
            if error.args[0].code() in NOT_YET:
                return False
            raise
        return True

    def count(self, name: str) -> int:
        """Say how many records the topic holds: its end offsets, since nothing here expires or is aborted."""
        return sum(end_offsets(self.admin, name))

    def delete(self, name: str) -> None:
        self.admin.delete_topics([name], operation_timeout=WAIT_S)[name].result()
        self.alive.remove(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.alive):
            self.delete(name)
        del self.admin  # closes its connections before the broker does, which it would log


def end_offsets(admin: AdminClient, name: str) -> list[int]:
    parts = {TopicPartition(name, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    return [found.result().offset for found in admin.list_offsets(parts).values()]
