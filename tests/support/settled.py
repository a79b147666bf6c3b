"""Waiting for transactions to be visible, and for whatever else nobody is told of.

A commit is decided when its call returns, and is read when its markers are written to every partition, which is a moment
later and nobody is told of.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import klamm

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_S = 30


def until(condition: Callable[[], object]) -> None:
    """Ask until it is so; each asking is a round trip, or waits itself."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not so after {LIMIT_S} s")


def wait_until_settled(bootstrap_servers: str, topic: str) -> None:
    """Wait until no transaction is open in a topic."""
    with (
        klamm.Consumer(bootstrap_servers, isolation_level="read_committed") as stable,
        klamm.Consumer(bootstrap_servers) as latest,
    ):
        partitions = [klamm.TopicPartition(topic, number) for number in stable.partitions_for(topic)]
        deadline = time.monotonic() + LIMIT_S
        while stable.end_offsets(partitions) != latest.end_offsets(partitions):
            if time.monotonic() > deadline:
                raise AssertionError(f"a transaction stays open in {topic}")
