"""The topics of a run: made before a client starts, counted after it has stopped, removed when done with."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from workload import PARTITIONS, WAIT_S

if TYPE_CHECKING:
    from typing_extensions import Self

# A segment fits a whole measurement, and a deleted topic leaves the disk at once: a run writes some 15 GB.
CONFIG = {"segment.bytes": str(1 << 30), "file.delete.delay.ms": "0"}


class Topics:
    """`with Topics(bootstrap) as topics:` leaves none behind."""

    def __init__(self, bootstrap: str) -> None:
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.numbers = itertools.count(1)
        self.alive: set[str] = set()

    def create(self, case: str) -> str:
        name = f"bench-{os.getpid()}-{next(self.numbers)}-{case}"
        topic = NewTopic(name, PARTITIONS, 1, config=CONFIG)
        self.admin.create_topics([topic], operation_timeout=WAIT_S)[name].result()
        self.alive.add(name)
        return name

    def count(self, name: str) -> int:
        """Say how many records the topic holds: its end offsets, since nothing here expires or is aborted."""
        parts = {TopicPartition(name, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
        return sum(found.result().offset for found in self.admin.list_offsets(parts).values())

    def delete(self, name: str) -> None:
        self.admin.delete_topics([name], operation_timeout=WAIT_S)[name].result()
        self.alive.remove(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.alive):
            self.delete(name)
        del self.admin  # closes its connections before the broker does, which it would log
