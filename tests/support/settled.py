"""Waits for transactions to become visible, and for other changes that brokers do not announce.

A commit is decided when its call returns. It becomes visible a moment later, when its markers are in all partitions.
Brokers do not report that moment.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import klamm

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_S = 30


def until(condition: Callable[[], object]) -> None:
    """Call `condition` until it is true. Each call is a round trip or waits by itself."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not so after {LIMIT_S} s")


def configure_group(admin: klamm.Admin, group: str, configs: dict[str, str | int]) -> None:
    """Change configurations of a group, and wait until the broker has them. It learns of them after the controller."""
    admin.alter_configs("group", group, configs)
    until(lambda: all(_value(admin, group, name) == str(value) for name, value in configs.items()))


def _value(admin: klamm.Admin, group: str, name: str) -> str | None:
    return admin.describe_configs("group", group)[name].value


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
