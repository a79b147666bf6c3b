"""Manages the topics of a run: creates a topic before a client starts, counts the records, and deletes the topic."""

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

# A segment has room for a whole measurement. The broker removes a deleted topic from disk at once, because a run writes
# about 15 GB in total.
CONFIG = {"segment.bytes": str(1 << 30), "file.delete.delay.ms": "0"}
# Errors for a partition that its leader does not serve yet.
NOT_YET = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._NOENT,  # noqa: SLF001 - librdkafka's own error for a missing leader
}


class Topics:
    """Creates topics, counts their records, and deletes remaining topics at the end: `with Topics(bootstrap) as topics:`."""

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
        """Return whether the leader of each partition accepts requests for the partition.

        Metadata names a leader a little before the leader accepts requests, and the raw socket does not retry. The
        method uses a new client each time. If a partition had no leader once, a client of librdkafka 2.16 does not look
        up the leader again.
        """
        try:
            end_offsets(AdminClient({**self.config, "log_level": 0}), name)
        except KafkaException as error:
            if error.args[0].code() in NOT_YET:
                return False
            raise
        return True

    def count(self, name: str) -> int:
        """Return the number of records in a topic: the sum of its end offsets. No record expires or is aborted."""
        return sum(end_offsets(self.admin, name))

    def delete(self, name: str) -> None:
        self.admin.delete_topics([name], operation_timeout=WAIT_S)[name].result()
        self.alive.remove(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.alive):
            self.delete(name)
        del (
            self.admin
        )  # close the connections before the broker stops, because librdkafka would log the broken connections


def end_offsets(admin: AdminClient, name: str) -> list[int]:
    parts = {TopicPartition(name, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    return [found.result().offset for found in admin.list_offsets(parts).values()]
