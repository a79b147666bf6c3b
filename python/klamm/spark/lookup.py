"""What the brokers have of the topics of a query: partitions, first and last offsets.

This runs where Spark plans, on the driver. A stream at rest is asked for its latest offsets about
a hundred times a second, which a broker should not feel, so questions keep a distance. They wait
rather than answer from a cache: records that were acknowledged before the question are seen.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import klamm
from klamm.errors import ConfigError
from klamm.spark.offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from klamm.spark.offsets import Offsets, Partition
    from klamm.spark.options import Position, ReadOptions


class Lookup:
    """Asks the brokers of a query. Not to be pickled: it holds a connection."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._consumer = klamm.Consumer(options.config)
        self._next_question = 0.0

    def close(self) -> None:
        """Hang up."""
        self._consumer.close(timeout=0)

    def partitions(self) -> list[Partition]:
        """List the partitions to read, as of now, in order."""
        if self._options.assigned:
            return list(self._options.assigned)
        return [
            (topic, number)
            for topic in sorted(self._options.topics)
            for number in sorted(self._consumer.partitions_for(topic))
        ]

    def earliest(self, partitions: list[Partition]) -> Offsets:
        """Ask where partitions begin."""
        return _plain(self._consumer.beginning_offsets(_named(partitions)))

    def latest(self, partitions: list[Partition]) -> Offsets:
        """Ask where partitions end now."""
        return _plain(self._consumer.end_offsets(_named(partitions)))

    def latest_paced(self) -> Offsets:
        """Ask for the end of every partition there is, at most `1 / DISTANCE` times a second."""
        time.sleep(max(0.0, self._next_question - time.monotonic()))
        ends = self.latest(self.partitions())
        self._next_question = time.monotonic() + DISTANCE
        return ends

    def resolve(self, position: Position, option: str) -> Offsets:
        """Turn `earliest`, `latest` and their numbers into offsets."""
        partitions = self.partitions()
        if isinstance(position, str):
            return self.earliest(partitions) if position == "earliest" else self.latest(partitions)
        if set(position) != set(partitions):
            raise ConfigError(
                f"option '{option}' must name every partition: it names {_list(set(position))}, "
                f"the query reads {_list(set(partitions))}",
                hint="-1 stands for latest, -2 for earliest",
            )
        offsets = dict(position)
        offsets |= self.earliest([tp for tp in partitions if position[tp] == EARLIEST])
        offsets |= self.latest([tp for tp in partitions if position[tp] == LATEST])
        return offsets


def _named(partitions: list[Partition]) -> list[klamm.TopicPartition]:
    return [klamm.TopicPartition(topic, number) for topic, number in partitions]


def _plain(offsets: dict[klamm.TopicPartition, int]) -> Offsets:
    return {(tp.topic, tp.partition): offset for tp, offset in offsets.items()}


def _list(partitions: set[Partition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions))


# Seconds. Below the 60-100 ms that Spark needs for the smallest micro-batch, so only idling waits.
DISTANCE = 0.05
