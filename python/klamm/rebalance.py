"""What a consumer is told when its group gives it partitions, or takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.record import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

__all__ = ["RebalanceListener"]


class RebalanceListener:
    """What to do when partitions come and go; override what matters, and give it to `subscribe(on_rebalance=...)`.

    The methods are called by whoever polls or iterates, between two records, and the group waits for them. With an
    `AsyncConsumer` they may be coroutine functions. What they raise comes out of the poll; the change holds.
    """

    def assigned(self, partitions: set[TopicPartition]) -> Awaitable[None] | None:
        """Take note of new partitions, before their first record; here one may seek."""

    def revoked(self, partitions: set[TopicPartition]) -> Awaitable[None] | None:
        """Let go of partitions that somebody else gets next; here one may commit, also at the end of the consumer."""

    def lost(self, partitions: set[TopicPartition]) -> Awaitable[None] | None:
        """Let go of partitions that somebody else may have by now: commits would be refused. By default as `revoked`."""
        return self.revoked(partitions)


def partitions(places: Iterable[tuple[str, int]]) -> set[TopicPartition]:
    """Name partitions."""
    return {TopicPartition(topic, partition) for topic, partition in places}
