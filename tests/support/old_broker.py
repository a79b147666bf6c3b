"""Dev brokers of Kafka 0.6 and 0.7 with a topic, for tests that read old topics."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from klamm import legacy
from klamm.testing import DevBroker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERSIONS = ["0.6.1", "0.7.2"]


@dataclass(frozen=True)
class OldBroker:
    """A broker with small segments."""

    protocol: str
    bootstrap_servers: str

    @property
    def magic(self) -> int:
        return 0 if self.protocol == "0.6" else 1

    def fill(self, values: Iterable[bytes], partition: int, **options: str) -> None:
        """Write to the topic `old`."""
        with legacy.Producer07(self.bootstrap_servers, magic=self.magic, **options) as producer:
            producer.send_many("old", values, partition=partition)
            producer.flush(confirm=True)


@contextlib.contextmanager
def old_broker(version: str) -> Iterator[OldBroker]:
    """Start a broker with two partitions a topic."""
    with DevBroker(as_version=version, default_partitions=2, config={"log.file.size": 500}) as running:
        yield OldBroker(version[:3], running.bootstrap_servers)
